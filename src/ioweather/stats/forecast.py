"""Forecasts of a series some windows ahead, from its own past and from known jobs.

Three candidates, none of which uses data later than its moment:

- persistence: the current value;
- climatology: the usual value of the hour of the week (`stats.climatology`);
- combined: both, blended with what known jobs will move, in the proportion that had the least error so far.

Climatology and known jobs are shifted to the median of what followed such a value in the past, because absolute errors
count. Each day is forecast with what was known when it began (rolling origin), so errors are of real forecasts. Values
must be on a scale where errors add up (a logarithm). Missing windows are NaN and are neither input nor truth.

Known jobs, waiting or running, are expected to move what followed such moments: the mean of the job itself, shrunk
towards that of its program, and this towards that of all programs. Only what was known by then counts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from ioweather.core.arrays import Bools, Floats, Ints
from ioweather.stats.climatology import MEMORY_DAYS, climate_tables, hourly_means

CANDIDATES: Final = ("persistence", "climatology", "combined")
PERSISTENCE, CLIMATOLOGY, COMBINED = range(3)
# Days before the first forecast: one day does not tell an hour of the day from another.
WARM_UP_DAYS: Final = 2
# Past forecasts that a correction or an interval rests on, at least; and in each class of scores.
LEAST_PAST: Final = 250
CLASS_SIZE: Final = 500
MOST_CLASSES: Final = 8
LEVEL: Final = 0.9
# Shares of persistence, climatology and known jobs in the blend; the first where all are as good.
WEIGHTS: Final = np.array([(p, c, 8 - p - c) for p in range(8, -1, -1) for c in range(9 - p)]) / 8
# Step of adaptive conformal inference (Gibbs & Candes 2021, Eq. 2), here once a day.
# An interval ends where nothing was ever seen, and so much of the range farther. [ours]
_BEYOND: Final = 0.1
ADAPTATION: Final = 0.05


@dataclass(frozen=True, eq=False)
class Timed:
    """A series with its local calendar: `values` (T,) on equal windows of `window_minutes`; `day` (counted from 0) and
    `slot` (weekday * 24 + hour) of every window and of as many after the last as the longest horizon has."""

    values: Floats
    day: Ints
    slot: Ints
    window_minutes: float

    @property
    def count(self) -> int:
        return len(self.values)


@dataclass(frozen=True, eq=False)
class Past:
    """What came (T,), NaN where it is not known; the day of each forecast and of what it is about. On the morning of a
    day the forecasts about the MEMORY_DAYS before it are past."""

    truth: Floats
    day: Ints
    target_day: Ints
    # Consecutive forecasts with correlated errors, which count as one.
    correlated_steps: int = 1

    @property
    def days(self) -> int:
        return int(self.day[-1]) + 1


@dataclass(frozen=True, eq=False)
class Rolling:
    """Forecasts made at every window for one horizon (in windows): `point` is (candidates, T), in the order of
    CANDIDATES, NaN where none could be made."""

    horizon: int
    point: Floats
    past: Past

    @property
    def truth(self) -> Floats:
        return self.past.truth

    def scored(self) -> Bools:
        """Moments at which every candidate made a forecast whose truth is known."""
        return np.asarray(np.isfinite(self.point).all(axis=0) & np.isfinite(self.truth))


def rolling_forecasts(series: Timed, horizons: tuple[int, ...], known: Floats | None = None) -> list[Rolling]:
    """Every horizon's forecasts at every window of the series. `known` (horizons, T) are forecasts from the jobs that
    are known."""
    if not series.count:
        return []
    day, slot = series.day[: series.count], series.slot[: series.count]
    tables = climate_tables(hourly_means(series.values, day, slot))
    return [
        _one_horizon(series, tables, horizon, None if known is None else known[place])
        for place, horizon in enumerate(horizons)
    ]


def _one_horizon(series: Timed, tables: Floats, horizon: int, known: Floats | None) -> Rolling:
    count = series.count
    day, target_day = series.day[:count], series.day[horizon : count + horizon]
    truth = np.full(count, np.nan)
    truth[: max(0, count - horizon)] = series.values[horizon:]
    # [ours] An hour at least: load changes with the jobs, and these rarely end sooner.
    correlated_steps = max(horizon, round(60 / series.window_minutes))
    past = Past(truth, day, target_day, correlated_steps)
    # What the night before knew of the target's hour.
    usual = tables[day, series.slot[horizon : count + horizon]]
    climatology = to_median(np.where(np.isfinite(series.values) & (day >= WARM_UP_DAYS), usual, np.nan), past)
    seen = np.isfinite(climatology)
    by_jobs = climatology if known is None else to_median(np.where(seen, known, np.nan), past)
    persistence = np.where(seen, series.values, np.nan)
    combined = blended(np.stack([persistence, climatology, by_jobs]), past)
    return Rolling(horizon, np.stack([persistence, climatology, combined]), past)


class ResidualClasses:
    """Sorted residuals of past forecasts in equally large classes of the forecast value.

    Runs of `correlated_steps` values count as one independent value, which widens the quantiles.
    """

    def __init__(self, forecasts: Floats, residuals: Floats, correlated_steps: int = 1) -> None:
        self._correlated_steps = correlated_steps
        classes = int(np.clip(len(forecasts) // CLASS_SIZE, 1, MOST_CLASSES))
        border_ranks = len(forecasts) * np.arange(1, classes) // classes
        self._borders = np.partition(forecasts, border_ranks)[border_ranks] if classes > 1 else np.empty(0)
        class_of = np.searchsorted(self._borders, forecasts, side="right")
        # Ties may leave a class empty; it then uses all residuals.
        self._residuals = [
            np.sort(residuals[class_of == c] if (class_of == c).any() else residuals) for c in range(classes)
        ]

    def quantiles(self, value: Floats, levels: tuple[float, ...]) -> Floats:
        """(levels, len(value)) of the residuals in each value's class."""
        table = np.array(
            [[_conformal(residual, level, self._correlated_steps) for residual in self._residuals] for level in levels]
        )
        return np.asarray(table[:, np.searchsorted(self._borders, value, side="right")])


def _conformal(ordered: Floats, level: float, correlated_steps: int) -> float:
    """Return the conformal quantile: of n independent values the (n + 1) p-th from the outside, which covers a new
    value at the nominal rate. Correlated values count as fewer, so they give wider intervals."""
    n = len(ordered)
    if level == 0.5:
        return float(ordered[(n - 1) // 2] + ordered[n // 2]) / 2
    outer = max(level, 1 - level) * (1 + correlated_steps / n)
    rank = min(math.ceil(n * outer), n)
    return float(ordered[rank - 1] if level > 0.5 else ordered[n - rank])


def daily_classes(value: Floats, past: Past) -> Iterator[tuple[int, Ints, ResidualClasses]]:
    """Yield (day, its forecasts, residuals by class of the past on that morning) for every day with enough past.

    A table is reused for up to a week once there are many weeks, because it hardly changes from day to day.
    """
    residual = past.truth - value
    rows = np.flatnonzero(np.isfinite(residual))
    arrived = past.target_day[rows]
    edges = np.searchsorted(past.day, np.arange(past.days + 1))
    table, made = None, 0
    for today in range(past.days):
        low, high = np.searchsorted(arrived, [today - MEMORY_DAYS, today])
        now = np.arange(edges[today], edges[today + 1])
        now = now[np.isfinite(value[now])]
        if high - low < LEAST_PAST or not len(now):
            continue
        if table is None or today - made >= min(7, max(1, today // 8)):
            table, made = ResidualClasses(value[rows[low:high]], residual[rows[low:high]], past.correlated_steps), today
        yield today, now, table


def to_median(value: Floats, past: Past) -> Floats:
    """Shift each value by the median residual of similar past values; without a past it is unchanged."""
    out = value.copy()
    for _, now, table in daily_classes(value, past):
        out[now] += table.quantiles(value[now], (0.5,))[0]
    return out


def blended(ways: Floats, past: Past) -> Floats:
    """Return the weighted mean of (ways, T), each day with the WEIGHTS of least past error; NaN without enough past."""
    every = WEIGHTS @ ways
    error = np.abs(every - past.truth)
    known = np.isfinite(error[0]) & (past.target_day < past.days)
    errors, count = np.zeros((len(WEIGHTS), past.days + 1)), np.zeros(past.days + 1)
    for number in range(len(WEIGHTS)):
        errors[number, 1:] = np.bincount(past.target_day[known], error[number, known], past.days)
    count[1:] = np.bincount(past.target_day[known], minlength=past.days)
    first = np.maximum(np.arange(past.days) - MEMORY_DAYS, 0)
    errors, count = np.cumsum(errors, axis=1)[:, :-1], np.cumsum(count)[:-1]
    best = (errors - errors[:, first]).argmin(axis=0)
    out = every[best[past.day], np.arange(len(past.day))]
    return np.where((count - count[first])[past.day] >= LEAST_PAST, out, np.nan)


@dataclass(frozen=True, eq=False)
class Intervals:
    """Low and high of every forecast (T,), and whether the truth lay within: 1, 0, or NaN where it is not known."""

    low: Floats
    high: Floats
    inside: Floats


def rolling_intervals(rolling: Rolling, candidate: int, level: float = LEVEL) -> Intervals:
    """Adaptive conformal intervals: residuals of similar past forecasts, widened after days with poor coverage;
    not far beyond what was seen before."""
    past, value = rolling.past, rolling.point[candidate]
    low, high, inside = (np.full(len(value), np.nan) for _ in range(3))
    alpha = 1 - level
    for today, now, table in daily_classes(value, past):
        # Residuals of high forecasts, added to a higher one, would reach far beyond all observed values.
        seen = past.truth[past.target_day < today]
        least, most = np.nanmin(seen), np.nanmax(seen)
        room = _BEYOND * (most - least)
        bounds = value[now] + table.quantiles(value[now], (alpha / 2, 1 - alpha / 2))
        bounds = np.clip(bounds, least - room, most + room)
        truth = past.truth[now]
        within = np.where(np.isfinite(truth), (truth >= bounds[0]) & (truth <= bounds[1]), np.nan)
        # The interval is widened to contain the point forecast after its coverage was recorded.
        low[now], high[now] = np.minimum(bounds[0], value[now]), np.maximum(bounds[1], value[now])
        inside[now] = within
        # The truth of a day's last forecasts is not known on the next morning: they do not update the level.
        known = within[np.isfinite(within) & (past.target_day[now] == past.day[now])]
        if len(known):
            # Eq. 2 of Gibbs & Candes: alpha_{t+1} = alpha_t + gamma (alpha - err_t).
            alpha = float(np.clip(alpha + ADAPTATION * ((1 - level) - (1 - known.mean())), 0.01, 0.5))
    return Intervals(low, high, inside)


# [ours] How many moments the wider group counts for.
_SHRINK: Final = 2.0


@dataclass(frozen=True, eq=False)
class Jobs:
    """Jobs by number: when each was submitted, began and ended, in windows from the first on (infinite where it has
    not; NaN submitted where only its traffic shows it), and its program."""

    submitted: Floats
    began: Floats
    ended: Floats
    program: Ints


@dataclass(frozen=True, eq=False)
class Work:
    """Jobs one after another, window by window (N,): `amount` moved, `window` it is, `job` (counted from 0). `present`:
    known to wait or run when the window ends; `waits`: it has not begun by then. After its end each job has as many
    windows more as the longest horizon. `program` and last window, `ends`, of each job. `live`: amounts are known at
    once, by what the servers count; otherwise when the job has ended, by its log."""

    amount: Floats
    window: Ints
    job: Ints
    present: Bools
    waits: Bools
    program: Ints
    ends: Ints
    live: bool


def laid_out(jobs: Jobs, moved: tuple[Ints, Ints, Floats], windows: int, ahead: int, *, live: bool) -> Work:
    """`moved` are jobs, windows and amounts. A job that only its traffic shows is there until it moved nothing for
    `ahead` windows."""
    inside = (moved[1] >= 0) & (moved[1] < windows)
    job, window, amount = moved[0][inside], moved[1][inside], moved[2][inside]
    count = len(jobs.program)
    first, last = np.full(count, windows), np.full(count, -1)
    np.minimum.at(first, job, window)
    np.maximum.at(last, job, window)
    shown = np.isnan(jobs.submitted)
    first = np.where(shown, first, np.clip(np.nan_to_num(jobs.submitted), 0, windows)).astype(np.int64)
    last = np.where(shown, last + ahead, np.clip(jobs.ended, -1, windows - 1)).astype(np.int64)
    length = np.where(last >= first, last - first + 1 + ahead, 0)
    begins = np.cumsum(length) - length
    row_job = np.repeat(np.arange(count), length)
    at = np.arange(len(row_job)) - begins[row_job] + first[row_job]
    inside = (window >= first[job]) & (window < first[job] + length[job])
    place = (begins[job] + window - first[job])[inside]
    total = np.bincount(place, amount[inside], minlength=len(at)).astype(np.float64)
    end = at + 1
    recent = np.maximum.accumulate(np.where(total > 0, np.arange(len(at)), -ahead))
    lately = np.arange(len(at)) - np.maximum(recent, begins[row_job]) < ahead
    there = (end >= jobs.submitted[row_job]) & (end <= jobs.ended[row_job])
    waits = end < np.where(shown, -np.inf, jobs.began)[row_job]
    return Work(total, at, row_job, np.where(shown[row_job], lately, there), waits, jobs.program, last, live)


def expected_load(work: Work, windows: int, horizons: tuple[int, ...], *, every: int = 1) -> Floats:
    """(horizons, windows // every): what jobs known at the end of a window move in the one `h` later. `every` so many
    windows of the work are one of those."""
    rows = np.flatnonzero(work.present & (work.window < windows))
    now, job, waits = work.window[rows], work.job[rows], work.waits[rows].astype(np.int64)
    teaches = now if work.live else np.where(work.ends[job] < windows, work.ends[job], windows)
    keys = (waits, work.program[job] * 2 + waits, job * 2 + waits)
    groups = [_Past(key, now, teaches, windows) for key in keys]
    total = np.concatenate([[0.0], np.cumsum(work.amount)])
    amount = np.zeros((len(horizons), windows // every))
    for place, horizon in enumerate(every * h for h in horizons):
        came = (total[rows + horizon + 1] - total[rows + horizon - every + 1]) / every
        mean = np.zeros(len(rows))
        for group in groups:
            mean = group.drawn(came, horizon if work.live else 0, mean)
        amount[place] = np.bincount(now, mean, minlength=windows)[every - 1 :: every]
    return amount


class _Past:
    """Moments sorted by key and by when they become known, so that those known at any moment are contiguous."""

    def __init__(self, key: Ints, now: Ints, teaches: Ints, windows: int) -> None:
        first = key * (windows + 1)
        self._order = np.lexsort((teaches, key))
        self._sorted = (first + teaches)[self._order]
        self._now, self._first = first + now, np.searchsorted(self._sorted, first)

    def drawn(self, came: Floats, horizon: int, wider: Floats) -> Floats:
        """Return the mean so far, shrunk towards that of the wider group."""
        # Before the first window there are none: the number would be of the key before.
        last = np.maximum(np.searchsorted(self._sorted, self._now - horizon, side="right"), self._first)
        total = np.concatenate([[0.0], np.cumsum(came[self._order])])
        return np.asarray((total[last] - total[self._first] + _SHRINK * wider) / (last - self._first + _SHRINK))
