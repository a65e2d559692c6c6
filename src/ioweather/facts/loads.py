"""What file systems and their components moved over a period, on one grid of time, and how slow probes found them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from ioweather.core.arrays import Floats, Ints
from ioweather.core.units import DAY_NS, HOUR_NS, MINUTE_NS, NS

_STEPS_NS = (
    *(n * MINUTE_NS for n in (1, 2, 5, 10, 15, 30)),
    *(n * HOUR_NS for n in (1, 2, 3, 6, 12)),
    *(n * DAY_NS for n in (1, 2, 7)),
)
_MOST_STEPS = 400


@dataclass(frozen=True, eq=False)
class Traffic:
    """Of one file system, in bytes per second; NaN is a gap. `parts` are those of each component, where asked for:
    steps by components."""

    filesystem: str
    component_kind: str
    start_ns: Ints
    read: Floats
    write: Floats
    coverage: float
    components: tuple[str, ...] = ()
    parts_read: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    parts_write: Floats = field(default_factory=lambda: np.zeros((0, 0)))

    @property
    def total(self) -> Floats:
        """Where one of the two is missing, the other."""
        return np.where(np.isnan(self.read), self.write, self.read + np.nan_to_num(self.write))


@dataclass(frozen=True, eq=False)
class Slowness:
    """Of the slowest operation in each interval: how many times its usual time, and which it is."""

    filesystem: str
    start_ns: Ints
    ratio: Floats
    ops: tuple[str, ...]


@dataclass(frozen=True)
class LastHour:
    """The state of a file system at the end of a period, however long that is: mean rates of the last hour with samples
    in bytes per second, and how many times its usual time the slowest operation took in the last hour with probes."""

    filesystem: str
    read: float | None = None
    write: float | None = None
    slowdown: float | None = None
    op: str | None = None


@dataclass(frozen=True, eq=False)
class Measured:
    """One metric of one component, beside the median of the others of its kind; amounts are per second. `peer_mean` is
    the median over the others of each one's mean: work in bursts has lower medians than means."""

    metric: str
    per_second: bool
    start_ns: Ints
    own: Floats
    others: Floats
    peer_mean: float


@dataclass(frozen=True, eq=False)
class Loads:
    """`kind` is facility, filesystem, or the kind of the component `where`."""

    where: str
    kind: str
    filesystem: str | None
    start_ns: int
    end_ns: int
    step_ns: int
    traffic: tuple[Traffic, ...] = ()
    slowness: tuple[Slowness, ...] = ()
    last_hours: tuple[LastHour, ...] = ()
    measured: tuple[Measured, ...] = ()
    peers: int = 0
    servers: Mapping[str, str] = field(default_factory=dict)


def step_for(span_ns: int, interval_ns: int) -> int:
    """The finest step that does not give more points than a screen has, and is whole intervals of the data, or several
    that are short. What is sampled live comes some milliseconds off."""
    interval_ns = max(round(interval_ns / NS), 1) * NS
    for step in _STEPS_NS:
        whole = step % interval_ns == 0 or interval_ns <= MINUTE_NS // 2
        if step >= interval_ns and whole and span_ns <= step * _MOST_STEPS:
            return step
    weeks = -(-span_ns // (_STEPS_NS[-1] * _MOST_STEPS))
    return max(weeks * _STEPS_NS[-1], interval_ns)
