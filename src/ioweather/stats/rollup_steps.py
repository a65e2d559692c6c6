"""A rollup of `series` as arrays on its grid: which steps can be used, which are missing, where the gaps are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ioweather.core.arrays import Bools, Floats, Ints
from ioweather.core.choices import TRAFFIC
from ioweather.core.contracts import StudyData
from ioweather.core.facility import Facility
from ioweather.core.frames import Frame
from ioweather.core.results import Coverage

SERVER_TRAFFIC = (
    "Traffic measured at the servers includes login and visualisation nodes, and the reads that a file system makes "
    "itself to complete unaligned writes (read-modify-write)."
)


# A step counts when at least this share of its component-time was recorded; its amount is then taken as it is, not
# scaled up: at most a tenth is missing, and a guess would add bytes nobody measured.
MIN_COVERAGE = 0.9
# A bound before 1970 or after 2040 means "whatever there is", not a wish for data that is missing.
_EVER_NS = 2_208_988_800 * 10**9


@dataclass(frozen=True, eq=False)
class Steps:
    """Amounts per step of one or more metrics: NaN where a step cannot be used. `excluded` counts steps by reason."""

    start_ns: int
    step_ns: int
    values: Mapping[str, Floats]
    excluded: Mapping[str, int] = field(default_factory=dict)

    @property
    def count(self) -> int:
        return len(next(iter(self.values.values())))

    @property
    def times_ns(self) -> Ints:
        return self.start_ns + np.arange(self.count, dtype=np.int64) * self.step_ns

    @property
    def step_seconds(self) -> float:
        return self.step_ns / 1e9

    @property
    def usable(self) -> Bools:
        """Steps where every metric is there."""
        return np.asarray(~np.isnan(np.sum(list(self.values.values()), axis=0)))

    def coverage(self, unit: str = "steps") -> Coverage:
        """Used and excluded steps of those the period should have."""
        return Coverage(self.count, int(self.usable.sum()), unit, dict(self.excluded), f"step {self.step_seconds:g} s")


def steps_of(frame: Frame, metrics: Sequence[str], step_ns: int, period_ns: tuple[int, int]) -> Steps:
    """Rollup rows (start_ns, metric, value, coverage) on the grid of the period; absent rows are missing steps.

    Steps that no metric has, and steps below MIN_COVERAGE, are counted apart: the first is a gap, the second a part.
    """
    start = frame.array("start_ns").astype(np.int64, copy=False)
    origin, count = _grid(start, step_ns, period_ns)
    place = (start - origin) // step_ns
    names, value, covered = frame.text("metric"), frame.array("value"), frame.array("coverage")
    enough = ~(np.asarray(covered) < MIN_COVERAGE - 1e-9)
    values: dict[str, Floats] = {}
    seen, partial = np.zeros(count, np.bool_), np.zeros(count, np.bool_)
    for metric in metrics:
        rows = names.equals(metric) & (place >= 0) & (place < count)
        dense = np.full(count, np.nan)
        dense[place[rows & enough]] = value[rows & enough]
        seen[place[rows]] = True
        partial[place[rows & ~enough]] = True
        values[metric] = dense
    steps = Steps(origin, step_ns, values)
    lost = seen & ~steps.usable
    excluded = {
        "not recorded": int((~seen).sum()),
        f"less than {MIN_COVERAGE:.0%} recorded": int((lost & partial).sum()),
        "one direction missing": int((lost & ~partial).sum()),
    }
    return Steps(origin, step_ns, values, {reason: n for reason, n in excluded.items() if n})


def traffic_steps(data: StudyData, facility: Facility, filesystem: str) -> Steps:
    """The need `traffic` on its grid. What exceeds the peak of the file system cannot be real (pat19 section 2.2)."""
    steps = steps_of(data.frames["traffic"], TRAFFIC, data.step_ns, data.period_ns)
    known = facility.filesystem(filesystem)
    if known is None or known.peak_bytes_per_s is None or not steps.count:
        return steps
    above = np.max(list(steps.values.values()), axis=0) > known.peak_bytes_per_s * steps.step_seconds
    if not above.any():
        return steps
    values = {metric: np.where(above, np.nan, value) for metric, value in steps.values.items()}
    excluded = {**steps.excluded, "above the peak of the system": int(above.sum())}
    return Steps(steps.start_ns, steps.step_ns, values, excluded)


def _grid(start: Ints, step_ns: int, period_ns: tuple[int, int]) -> tuple[int, int]:
    """First step and number of steps: of the period asked for, or of the data where a side of it is open."""
    if not len(start):
        return 0, 0
    first, last = int(start.min()), int(start.max()) + step_ns
    asked_first, asked_last = period_ns
    # The grid's phase is the data's: rows lie on first + k * step.
    before = (first - asked_first) // step_ns if asked_first > 0 else 0
    after = -(-(asked_last - last) // step_ns) if 0 < asked_last < _EVER_NS else 0
    origin = first - max(0, before) * step_ns
    return origin, (last - origin) // step_ns + max(0, after)


def gaps(usable: Bools) -> list[tuple[int, int]]:
    """[first, last) of every stretch of steps that cannot be used."""
    padded = np.concatenate([[True], usable, [True]])
    first = np.flatnonzero(padded[:-1] & ~padded[1:])
    last = np.flatnonzero(~padded[:-1] & padded[1:])
    return list(zip(first.tolist(), last.tolist(), strict=True))
