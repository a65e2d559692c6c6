"""What the climate studies of pat19 share: the data once reduced, the words for steps, and parts of the whole."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field

import numpy as np

from ioweather.core.arrays import Floats
from ioweather.core.results import Coverage, Exhibit, Finding
from ioweather.core.units import format_seconds
from ioweather.studies.climate.targets_in_one_pass import Targets
from ioweather.studies.shared.choices import TRAFFIC
from ioweather.studies.shared.intervals import Intervals
from ioweather.studies.shared.rollup_steps import Steps

WAYS = ("read", "write")
# [ours] The paper speaks of weak and high correlation without a number.
HIGH_CORRELATION = 0.5
WEAK_CORRELATION = 0.3


@dataclass(frozen=True)
class Part:
    """An exhibit, and the advice that follows from it."""

    exhibit: Exhibit
    advice: tuple[Finding, ...] = ()


@dataclass(frozen=True, eq=False)
class Climate:
    """The reduced data of one file system and how estimates are made of them."""

    targets: Targets
    intervals: Intervals
    filesystem: str
    component_kind: str
    zone: dt.tzinfo
    zone_name: str
    burst_buffer: Steps | None = None
    caveats: tuple[str, ...] = field(default=())

    @property
    def system(self) -> Steps:
        return self.targets.system

    @property
    def n(self) -> int:
        return int(self.system.usable.sum())

    def way(self, name: str) -> Floats:
        """Bytes per step of the whole system, 'read' or 'write'."""
        return self.system.values[TRAFFIC[WAYS.index(name)]]

    def coverage(self) -> tuple[Coverage, ...]:
        steps = self.system.coverage("steps")
        if not self.targets.over_limit_cells:
            return (steps,)
        cells = self.system.count * len(self.targets.components) * len(TRAFFIC)
        over = self.targets.over_limit_cells
        return (
            steps,
            Coverage(cells, cells - over, "values", {"above the limit of a component": over}, "per component and step"),
        )


def span(steps: int, step_ns: int) -> str:
    """'5 min', '1 min': a window in the words of the paper."""
    seconds = steps * step_ns / 1e9
    return f"{seconds / 60:g} min" if seconds % 60 == 0 and seconds < 7200 else format_seconds(seconds)


def high_share(correlations: Floats) -> Floats:
    """Of the components that have a correlation, the share whose is high; NaN where none has."""
    there = np.sum(~np.isnan(correlations), axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.sum(correlations >= HIGH_CORRELATION, axis=-1) / there)
