"""One quantity of one file system ahead of time: its series, the forecast of each horizon, what it was worth so far."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import numpy as np

from ioweather.core.arrays import Floats
from ioweather.core.facility import Facility
from ioweather.core.results import Estimate
from ioweather.core.units import MIB, MINUTE_NS, format_value
from ioweather.derive.system.calendar import local_clock
from ioweather.stats.forecast import CANDIDATES, COMBINED, Rolling, Timed, rolling_intervals
from ioweather.stats.job_load import Work, expected_load
from ioweather.studies.shared.intervals import Intervals, surely

AHEAD_NS: Final = 120 * MINUTE_NS
# [ours] Half a percent less error is nothing, even where it is certain.
LEAST_SKILL: Final = 0.005


@dataclass(frozen=True)
class Quantity:
    """What is forecast: loads in bytes per second, slowdowns as ratios.

    Errors are taken of logarithms, so that a factor counts alike at every level; of loads log(1 + MiB/s), because idle
    is 0.
    """

    filesystem: str
    of: Literal["load", "slowdown"]
    op: str

    @property
    def unit(self) -> str:
        return "bytes_per_s" if self.of == "load" else "factor"

    @property
    def title(self) -> str:
        if self.of == "slowdown":
            return f"Slowdown of {self.op} on {self.filesystem}"
        return {"read": "Reads", "write": "Writes"}.get(self.op, "Reads and writes") + f" on {self.filesystem}"

    def forward(self, values: Any) -> Any:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.log1p(values / MIB) if self.of == "load" else np.log(values)

    def back(self, values: Any) -> Any:
        return np.maximum(np.expm1(values), 0.0) * MIB if self.of == "load" else np.exp(values)

    def show(self, value: float | None) -> str:
        return format_value(None if value is None else float(value), self.unit)


@dataclass(frozen=True, eq=False)
class History:
    """Values of equal windows from `start_ns` on, NaN where a window was not seen."""

    start_ns: int
    window_ns: int
    values: Floats

    @property
    def end_ns(self) -> int:
        return self.start_ns + len(self.values) * self.window_ns


@dataclass(frozen=True, eq=False)
class KnownJobs:
    """Jobs and what each moved, in bytes per second by steps of the windows of the history."""

    work: Work
    step_ns: int


@dataclass(frozen=True, eq=False)
class Seen:
    """What a forecast rests on, and what to say of it: its age, other file systems."""

    quantity: Quantity
    history: History
    notes: tuple[str, ...] = ()
    jobs: KnownJobs | None = None


def by_jobs(jobs: KnownJobs | None, history: History, quantity: Quantity, horizons: tuple[int, ...]) -> Floats | None:
    """(horizons, T), on the scale of the quantity: what the jobs that are known will move, with the rest of the load
    staying as it is."""
    if jobs is None:
        return None
    work, windows, every = jobs.work, len(history.values), history.window_ns // jobs.step_ns
    own = np.bincount(work.window // every, work.amount / every, minlength=windows)[:windows] if work.live else 0.0
    rest = np.maximum(history.values - own, 0.0)
    amount = expected_load(work, windows * every, horizons, every=every)
    return np.asarray(quantity.forward(amount + rest))


@dataclass(frozen=True)
class Outlook:
    """The forecast of one horizon, in the quantity's unit, and what such forecasts were worth.

    `skill` = 1 - MAE / MAE of the better of persistence and climatology; `skill_amount` the same of errors in the
    quantity's own unit. `by` is the candidate shown: the combination where its skill is above zero, else the better of
    the other two.
    """

    horizon_ns: int
    time_ns: int
    by: str
    value: float | None
    low: float | None
    high: float | None
    skill: Estimate
    against: tuple[Estimate, Estimate]
    skill_amount: Estimate
    coverage: Estimate

    @property
    def skilled(self) -> bool:
        return is_skilled(self.skill)

    @property
    def name(self) -> str:
        return f"in_{self.horizon_ns // MINUTE_NS}_min"

    @property
    def label(self) -> str:
        return f"in {self.horizon_ns // MINUTE_NS} min"


def is_skilled(skill: Estimate) -> bool:
    """Above zero with its whole interval, and by something that shows."""
    return surely(skill, above=0.0) and (skill.value or 0.0) >= LEAST_SKILL


def without_maintenance(history: History, facility: Facility) -> History:
    """Maintenance is neither input nor truth; windows after the last that was seen are cut off."""
    values = history.values.copy()
    starts = history.start_ns + np.arange(len(values), dtype=np.int64) * history.window_ns
    for window in facility.maintenance:
        values[(starts < window.end_ns) & (starts + history.window_ns > window.start_ns)] = np.nan
    seen = np.flatnonzero(np.isfinite(values))
    return replace(history, values=values[: int(seen[-1]) + 1 if len(seen) else 0])


def timed(history: History, quantity: Quantity, zone: dt.tzinfo, longest_ns: int) -> Timed:
    """The series on its scale, with the local clock of its windows and of those ahead."""
    ahead = longest_ns // history.window_ns
    times = history.start_ns + np.arange(len(history.values) + ahead, dtype=np.int64) * history.window_ns
    clock = local_clock(times, zone)
    values = np.asarray(quantity.forward(history.values), np.float64)
    values[~np.isfinite(values)] = np.nan
    return Timed(values, clock.day - clock.day[0], clock.weekday * 24 + clock.hour, history.window_ns / MINUTE_NS)


def outlook(rolling: Rolling, history: History, quantity: Quantity) -> Outlook:
    """One horizon: measured, then the last forecast of the candidate that the measure allows."""
    scored = rolling.scored()
    error = np.abs(rolling.point - rolling.truth)
    amount = np.abs(quantity.back(rolling.point) - quantity.back(rolling.truth))
    n = int(scored.sum())
    intervals = Intervals(scored, history.window_ns, on=True)
    sums, sums_amount = (intervals.sums(*np.where(scored, e, 0.0), scored) for e in (error, amount))
    horizon_ns = rolling.horizon * history.window_ns
    label = f"in {horizon_ns // MINUTE_NS} min"
    skill = intervals.estimate(f"skill {label}", "", sums, skill_of_sums, n=n)
    against = tuple(
        intervals.estimate(
            f"skill {label} against {name}", "", sums[:, [c, c, COMBINED, COMBINED + 1]], skill_of_sums, n=n
        )
        for c, name in enumerate(CANDIDATES[:COMBINED])
    )
    by = COMBINED if is_skilled(skill) else int(sums[:, :COMBINED].sum(axis=0).argmin())
    bands = rolling_intervals(rolling, by)
    judged = np.isfinite(bands.inside)
    held = Intervals(judged, history.window_ns, on=True)
    coverage = held.estimate(
        f"coverage {label}", "ratio", held.sums(judged, bands.inside), lambda s: s[..., 1] / s[..., 0],
        n=int(judged.sum()),
    )  # fmt: skip
    value, low, high = (_last(quantity.back(values)) for values in (rolling.point[by], bands.low, bands.high))
    return Outlook(
        horizon_ns, history.end_ns + horizon_ns, CANDIDATES[by], value, low, high, skill, (against[0], against[1]),
        intervals.estimate(f"skill {label} in {quantity.unit}", "", sums_amount, skill_of_sums, n=n), coverage,
    )  # fmt: skip


def skill_of_sums(sums: Floats) -> Any:
    """1 - MAE / least MAE of the references, from sums of errors and their number; 0 where nothing ever erred."""
    best, own, n = sums[..., :COMBINED].min(axis=-1), sums[..., COMBINED], sums[..., COMBINED + 1]
    return np.where(best > 0, 1 - own / best, np.where((own > 0) | (n == 0), np.nan, 0.0))


def _last(values: Floats) -> float | None:
    return float(values[-1]) if len(values) and np.isfinite(values[-1]) else None
