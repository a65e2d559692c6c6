"""Amounts on a regular time grid, with sums over any period; the local clock of a facility; undeclared shutdowns.

`Steps` makes the sums of all steps before each time stamp once; the amount between two moments is then a difference of
two sums, so no run scans samples it does not touch. `steps_of` says which steps of a roll-up of `series` can be used
and why others cannot.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ioweather.core.facility import Facility
from ioweather.core.frames import Bools, Floats, Frame, Ints
from ioweather.core.results import Coverage
from ioweather.core.units import DAY_NS, HOUR_NS, NS, ns_to_datetime, zone_named


@dataclass(frozen=True, eq=False)
class Steps:
    """Amounts of one or more metrics in [start + i step, start + (i+1) step); NaN where a step cannot be used.

    `excluded` counts unusable steps by reason. A step is usable where all `needed` metrics are there (empty: all).
    """

    start_ns: int
    step_ns: int
    values: Mapping[str, Floats]
    excluded: Mapping[str, int] = field(default_factory=dict)
    needed: tuple[str, ...] = ()

    @property
    def count(self) -> int:
        return len(next(iter(self.values.values()), ()))

    @property
    def times_ns(self) -> Ints:
        return self.start_ns + np.arange(self.count, dtype=np.int64) * self.step_ns

    @property
    def step_seconds(self) -> float:
        return self.step_ns / 1e9

    @cached_property
    def usable(self) -> Bools:
        """Steps where every needed metric is there."""
        return np.asarray(~np.isnan(np.sum([self.values[name] for name in self.needed or self.values], axis=0)))

    def coverage(self, unit: str = "steps") -> Coverage:
        """Used and excluded steps of those the period should have."""
        return Coverage(self.count, int(self.usable.sum()), unit, dict(self.excluded), f"step {self.step_seconds:g} s")

    @cached_property
    def _sums(self) -> dict[str, NDArray[Any]]:
        return {name: _running(np.nan_to_num(values, nan=0.0)) for name, values in self.values.items()}

    @cached_property
    def _missing(self) -> dict[str, Ints]:
        """Missing steps before each stamp, by metric; '' is for steps that are not usable."""
        found = {name: _running(np.isnan(values)) for name, values in self.values.items()}
        return {**found, "": _running(~self.usable)}

    def opened(self, times_ns: NDArray[Any]) -> Ints:
        """Return the step in which a stretch that starts at these moments begins: T0 <= T < T1."""
        return np.asarray((np.asarray(times_ns, np.int64) - self.start_ns) // self.step_ns, np.int64)

    def closed(self, times_ns: NDArray[Any]) -> Ints:
        """Return the step in which a stretch that ends at these moments ends: a moment on a stamp belongs to the step
        before."""
        return np.asarray(-((self.start_ns - np.asarray(times_ns, np.int64)) // self.step_ns) - 1, np.int64)

    def stamp(self, steps: NDArray[Any]) -> Ints:
        """Return the start of steps in ns."""
        return np.asarray(self.start_ns + np.asarray(steps, np.int64) * self.step_ns, np.int64)

    def inside(self, first: Ints, last: Ints) -> Bools:
        """Whether steps first to last are all on the grid."""
        return np.asarray((first >= 0) & (last < self.count) & (last >= first))

    def missing(self, first: Ints, last: Ints, metric: str = "") -> Ints:
        """Return how many of steps first..last are missing; steps outside the grid are."""
        low, high = np.clip(first, 0, self.count), np.clip(last + 1, 0, self.count)
        sums = self._missing[metric]
        return np.asarray((last + 1 - first) - (np.maximum(high - low, 0) - (sums[high] - sums[low])), np.int64)

    def total(self, metric: str, first: Ints, last: Ints) -> Floats:
        """Return the sum of whole steps first..last, which must be on the grid; a missing step adds 0."""
        sums = self._sums[metric]
        return np.asarray(sums[last + 1] - sums[first], np.float64)

    def coarsened(self, factor: int) -> Steps:
        """Return steps of `factor` times the length: amounts add up, and one missing step makes the whole missing.

        A rest at the end is dropped.
        """
        count = self.count // factor
        values = {name: v[: count * factor].reshape(count, factor).sum(axis=1) for name, v in self.values.items()}
        return Steps(self.start_ns, self.step_ns * factor, values, needed=self.needed)


def _running(values: NDArray[Any]) -> NDArray[Any]:
    """Return running sums with a leading 0."""
    # A year of bytes reaches 1e18, where float64 counts in hundreds: the wider type keeps small runs exact.
    kind = np.longdouble if values.dtype.kind == "f" else np.int64
    return np.concatenate([np.zeros(1, kind), np.cumsum(values, dtype=kind)])


SERVER_TRAFFIC = (
    "Traffic measured at the servers includes login and visualisation nodes, and reads that complete "
    "unaligned writes (read-modify-write)."
)


# A step counts when at least this share of its component-time was recorded; its amount is then used without
# scaling: at most a tenth is missing, and a guess would add bytes that were not measured.
MIN_COVERAGE = 0.9
# A bound before 1970 or after 2040 means "whatever there is", not a wish for data that is missing.
_EVER_NS = 2_208_988_800 * 10**9
_QUARTER_NS = 900 * NS


def steps_of(frame: Frame, metrics: Sequence[str], step_ns: int, period_ns: tuple[int, int]) -> Steps:
    """Return the rows of a roll-up (start_ns, metric, value, coverage) on the grid of the period; absent rows are
    missing.

    Steps that no metric has, and steps below MIN_COVERAGE, are counted separately: gaps and partial steps.
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
    return replace(steps, excluded={reason: n for reason, n in excluded.items() if n})


def without_impossible(steps: Steps, facility: Facility, filesystem: str) -> Steps:
    """Return the steps without those above the peak of the file system, which cannot be real (pat19 section 2.2)."""
    known = facility.filesystem(filesystem)
    if known is None or known.peak_bytes_per_s is None or not steps.count:
        return steps
    above = np.max(list(steps.values.values()), axis=0) > known.peak_bytes_per_s * steps.step_seconds
    if not above.any():
        return steps
    values = {metric: np.where(above, np.nan, value) for metric, value in steps.values.items()}
    excluded = {**steps.excluded, "above the system peak": int(above.sum())}
    return replace(steps, values=values, excluded=excluded)


def _grid(start: Ints, step_ns: int, period_ns: tuple[int, int]) -> tuple[int, int]:
    """Return the first step and the number of steps: of the period, or of the data where a side of it is open."""
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
    """Return [first, last) of every stretch of unusable steps."""
    padded = np.concatenate([[True], usable, [True]])
    first = np.flatnonzero(padded[:-1] & ~padded[1:])
    last = np.flatnonzero(~padded[:-1] & padded[1:])
    return list(zip(first.tolist(), last.tolist(), strict=True))


def local_clock(times_ns: NDArray[Any], zone: dt.tzinfo) -> tuple[Ints, Ints, Ints]:
    """Return the local day (since 1970-01-01), hour (0-23) and weekday (0 is Monday) of UTC times in ns."""
    local = np.asarray(times_ns, np.int64) + offsets_ns(times_ns, zone)
    day = local // DAY_NS
    # 1970-01-01 was a Thursday.
    return day, (local - day * DAY_NS) // HOUR_NS, (day + 3) % 7


def facility_zone(facility: Facility) -> tuple[dt.tzinfo, str]:
    """Return the facility's time zone and its name; UTC where facility.toml sets none."""
    return (zone_named(facility.zone), facility.zone) if facility.zone else (dt.UTC, "UTC")


def offsets_ns(times_ns: NDArray[Any], zone: dt.tzinfo) -> Ints:
    """Return local minus UTC time for every moment, in ns. Clocks change at whole quarters of an hour: each is looked
    up once."""
    quarters, place = np.unique(np.asarray(times_ns, np.int64) // _QUARTER_NS, return_inverse=True)
    found = [ns_to_datetime(quarter * _QUARTER_NS, zone).utcoffset() for quarter in quarters.tolist()]
    offsets = [0 if each is None else (each.days * 86_400 + each.seconds) * NS for each in found]
    return np.array(offsets, np.int64)[place]


def day_name(day: int) -> str:
    """Return the ISO date of a local day number."""
    return (dt.date(1970, 1, 1) + dt.timedelta(days=day)).isoformat()


# [ours] Quieter than any storage system in use: even an idle one writes a few bytes a minute.
SHUTDOWN_SECONDS = 600
# A few disks may all be idle at the same time; this many targets are not.
FEWEST_COMPONENTS = 8


def shutdown_steps(quiet: Bools, step_seconds: float, *, at_least_seconds: float = SHUTDOWN_SECONDS) -> Bools:
    """Return which steps belong to a run of quiet steps that is long enough to be a shutdown."""
    bounds = np.flatnonzero(np.diff(np.concatenate([[False], quiet, [False]]).astype(np.int8)))
    begins, ends = bounds[::2], bounds[1::2]
    long = (ends - begins) * step_seconds >= at_least_seconds
    change = np.zeros(len(quiet) + 1, np.int64)
    change[begins[long]] += 1
    change[ends[long]] -= 1
    return np.cumsum(change[:-1]) > 0
