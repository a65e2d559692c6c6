"""Forecasts of a series some windows ahead from its own past, and what it usually does at each hour of the week.

Three candidates, none of which uses data later than its moment:

- persistence: the current value;
- climatology: the usual value of the hour of the week;
- combined: both, blended in the proportion that had the least error so far.

Climatology: hourly means of days are the observations. The mean of an hour of the day is drawn towards the overall
mean, and the mean of an hour of the week towards that of its hour of the day, each as far as its scatter from day to
day demands: shrinkage tau^2 / (tau^2 + s^2 / n) with tau^2 by the method of moments (empirical Bayes; Efron & Morris
1973). It is then shifted to the median of what followed such a value in the past, because absolute errors count.

Each day is forecast with what was known when it began (rolling origin), so errors are of real forecasts. Values must be
on a scale where errors add up (a logarithm). Missing windows are NaN and are neither input nor truth.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ioweather.core.frames import Bools, Floats, Ints

HOURS: Final = 24
SLOTS: Final = 7 * HOURS
# [ours] Older days are forgotten: the mix of jobs changes with the allocation year and the term.
MEMORY_DAYS: Final = 56
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
# An interval ends where nothing was ever seen, and so much of the range farther. [ours]
_BEYOND: Final = 0.1
# Step of adaptive conformal inference (Gibbs & Candes 2021, Eq. 2), here once a day.
ADAPTATION: Final = 0.05


@dataclass(frozen=True, eq=False)
class HourlyMeans:
    """Mean of each hour of each day (days, 24), NaN where nothing was seen; `weekday` of each day, 0-6."""

    means: Floats
    weekday: Ints


def hourly_means(values: NDArray[Any], day: Ints, slot: Ints) -> HourlyMeans:
    """Return the mean of each hour of each day.

    `day` counts local days from 0, also days without data; `slot` = weekday * 24 + hour of the local clock.
    """
    days = int(day[-1]) + 1 if len(day) else 0
    cell = day * HOURS + slot % HOURS
    there = ~np.isnan(values)
    count = np.bincount(cell[there], minlength=days * HOURS)
    total = np.bincount(cell[there], weights=values[there], minlength=days * HOURS)
    with np.errstate(invalid="ignore", divide="ignore"):
        means = (total / count).reshape(days, HOURS)
    first_weekday = int(slot[0]) // HOURS - int(day[0]) if len(day) else 0
    return HourlyMeans(means, (first_weekday + np.arange(days, dtype=np.int64)) % 7)


def climate_tables(hourly: HourlyMeans, memory_days: int = MEMORY_DAYS) -> Floats:
    """Return the usual value of every hour of the week, as known before each day: (days + 1, 168).

    Row d is from the `memory_days` before day d, NaN where nothing was seen; the last row is for the day after the
    data.
    """
    days = len(hourly.means)
    centre, terms = _weekly_terms(hourly)
    running = np.concatenate([np.zeros((3, 1, 7, HOURS)), np.cumsum(terms, axis=1)], axis=1)
    sums = running - running[:, np.maximum(np.arange(days + 1) - memory_days, 0)]
    return np.asarray(_shrunk(sums)[0].reshape(days + 1, SLOTS) + centre)


def climate_replicates(hourly: HourlyMeans, weights: Floats) -> Floats:
    """Return the usual values from all days, drawn again with `weights` (replicates, days): (replicates, 168).

    The shrinkage weights are those of the data themselves: a day drawn twice has no scatter.
    """
    centre, terms = _weekly_terms(hourly)
    sums = np.stack([np.tensordot(weights, term, axes=1) for term in terms])
    return np.asarray(_shrunk(sums, _shrunk(terms.sum(axis=1))[1])[0].reshape(len(weights), SLOTS) + centre)


def _weekly_terms(hourly: HourlyMeans) -> tuple[float, Floats]:
    """Return the mean of all, and n, departure and squared departure in the cell of each day's weekday: (3, days, 7,
    24)."""
    seen = ~np.isnan(hourly.means)
    amount = np.where(seen, hourly.means, 0.0)
    # Taken off first, so that sums of squares keep their digits.
    centre = float(amount.sum()) / max(1, int(seen.sum()))
    amount = np.where(seen, amount - centre, 0.0)
    terms = np.zeros((3, len(amount), 7, HOURS))
    terms[:, np.arange(len(amount)), hourly.weekday] = np.stack([seen, amount, amount**2])
    return centre, terms


def _shrunk(sums: Floats, weights: tuple[Floats, Floats] | None = None) -> tuple[Floats, tuple[Floats, Floats]]:
    """Return shrunken means of the hours of the week (..., 7, 24), and the weights (0-1) of both departures.

    Hours of the week are shrunk towards the hour of the day, and these towards one mean; NaN where nothing was seen.
    `sums` are n, sum and sum of squares of hourly means by weekday and hour: (3, ..., 7, 24). `weights` may be given.
    """

    def drawn(cells: Floats, parent: Floats, axes: tuple[int, ...], weight: Floats | None) -> tuple[Floats, Floats]:
        """Parents plus the weighted departure from them; the weight is tau^2 / (tau^2 + s^2 / n), 0 where no cell was
        seen twice: nothing is known of the scatter."""
        n, total, squares = cells
        departure = np.where(n > 0, total / n - parent, 0.0)
        if weight is None:
            mean = np.where(n > 0, total / n, 0.0)
            within = np.maximum(squares - n * mean**2, 0.0).sum(axis=axes, keepdims=True)
            freedom = np.maximum(n - 1, 0).sum(axis=axes, keepdims=True)
            variance, count = within / freedom, (n > 0).sum(axis=axes, keepdims=True)
            noise = np.where(n > 0, variance / n, 0.0).sum(axis=axes, keepdims=True) / count
            tau = np.maximum((departure**2).sum(axis=axes, keepdims=True) / count - noise, 0.0)
            weight = np.where((n > 0) & (freedom > 0), np.nan_to_num(tau / (tau + variance / n)), 0.0)
        return np.asarray(parent + weight * departure), weight

    by_hour, weekly = weights or (None, None)
    hour = sums.sum(axis=-2)
    with np.errstate(invalid="ignore", divide="ignore"):
        level = hour[1].sum(axis=-1, keepdims=True) / hour[0].sum(axis=-1, keepdims=True)
        usual, by_hour = drawn(hour, level, (-1,), by_hour)
        means, weekly = drawn(sums, usual[..., None, :], (-2, -1), weekly)
    return means, (by_hour, weekly)


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
        """Number of windows."""
        return len(self.values)


@dataclass(frozen=True, eq=False)
class Past:
    """The true values of forecasts (T,), NaN where unknown, with the days of each forecast and of its target.

    On the morning of a day, the forecasts for the MEMORY_DAYS before it are past.
    """

    truth: Floats
    day: Ints
    target_day: Ints
    # Consecutive forecasts with correlated errors, which count as one.
    correlated_steps: int = 1

    @property
    def days(self) -> int:
        """Number of days up to the last forecast."""
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
        """What came at the target of each forecast."""
        return self.past.truth

    def scored(self) -> Bools:
        """Moments at which every candidate made a forecast whose truth is known."""
        return np.asarray(np.isfinite(self.point).all(axis=0) & np.isfinite(self.truth))


def rolling_forecasts(series: Timed, horizons: tuple[int, ...], known: Floats | None = None) -> list[Rolling]:
    """Return the forecasts of every horizon (in windows) at every window of the series.

    `known` (horizons, T) are forecasts from known jobs.
    """
    count = series.count
    if not count:
        return []
    day, made = series.day[:count], []
    tables = climate_tables(hourly_means(series.values, day, series.slot[:count]))
    for place, horizon in enumerate(horizons):
        truth = np.full(count, np.nan)
        truth[: max(0, count - horizon)] = series.values[horizon:]
        # [ours] An hour at least: load changes with the jobs, and these rarely end sooner.
        correlated_steps = max(horizon, round(60 / series.window_minutes))
        past = Past(truth, day, series.day[horizon : count + horizon], correlated_steps)
        # What the night before knew of the target's hour.
        usual = tables[day, series.slot[horizon : count + horizon]]
        climatology = np.where(np.isfinite(series.values) & (day >= WARM_UP_DAYS), usual, np.nan)
        by_jobs = climatology if known is None else np.where(np.isfinite(climatology), known[place], np.nan)
        # Shifted by the median residual of similar past values.
        for way in (climatology,) if known is None else (climatology, by_jobs):
            for _, now, quantiles in daily_classes(way.copy(), past):
                way[now] += quantiles(way[now], (0.5,))[0]
        persistence = np.where(np.isfinite(climatology), series.values, np.nan)
        combined = blended(np.stack([persistence, climatology, by_jobs]), past)
        made.append(Rolling(horizon, np.stack([persistence, climatology, combined]), past))
    return made


# Forecasts and levels to the quantiles (levels, forecasts) of past residuals.
Quantiles: TypeAlias = Callable[[Floats, tuple[float, ...]], Floats]


def residual_quantiles(forecasts: Floats, residuals: Floats, correlated_steps: int = 1) -> Quantiles:
    """Return the conformal quantiles of residuals of past forecasts, in equally large classes of the forecast value.

    Of n independent values it is the (n + 1) p-th from the outside, which covers a new value at the nominal rate. Runs
    of `correlated_steps` values count as one independent value, which widens the quantiles.
    """
    classes = int(np.clip(len(forecasts) // CLASS_SIZE, 1, MOST_CLASSES))
    border_ranks = len(forecasts) * np.arange(1, classes) // classes
    borders = np.partition(forecasts, border_ranks)[border_ranks] if classes > 1 else np.empty(0)
    class_of = np.searchsorted(borders, forecasts, side="right")
    # Ties may leave a class empty; it then uses all residuals.
    of_class = [np.sort(residuals[class_of == c] if (class_of == c).any() else residuals) for c in range(classes)]

    def conformal(ordered: Floats, level: float) -> float:
        n = len(ordered)
        if level == 0.5:
            return float(ordered[(n - 1) // 2] + ordered[n // 2]) / 2
        outer = max(level, 1 - level) * (1 + correlated_steps / n)
        rank = min(math.ceil(n * outer), n)
        return float(ordered[rank - 1] if level > 0.5 else ordered[n - rank])

    def quantiles(value: Floats, levels: tuple[float, ...]) -> Floats:
        table = np.array([[conformal(ordered, level) for ordered in of_class] for level in levels])
        return np.asarray(table[:, np.searchsorted(borders, value, side="right")])

    return quantiles


def daily_classes(value: Floats, past: Past) -> Iterator[tuple[int, Ints, Quantiles]]:
    """Yield (day, its forecasts, quantiles of the residuals known that morning) for every day with enough past.

    Quantiles are reused for up to a week once there are many weeks, because they hardly change from day to day.
    """
    residual = past.truth - value
    rows = np.flatnonzero(np.isfinite(residual))
    arrived = past.target_day[rows]
    edges = np.searchsorted(past.day, np.arange(past.days + 1))
    quantiles, made = None, 0
    for today in range(past.days):
        low, high = np.searchsorted(arrived, [today - MEMORY_DAYS, today])
        now = np.arange(edges[today], edges[today + 1])
        now = now[np.isfinite(value[now])]
        if high - low < LEAST_PAST or not len(now):
            continue
        if quantiles is None or today - made >= min(7, max(1, today // 8)):
            known = rows[low:high]
            quantiles, made = residual_quantiles(value[known], residual[known], past.correlated_steps), today
        yield today, now, quantiles


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


def rolling_intervals(rolling: Rolling, candidate: int, level: float = LEVEL) -> tuple[Floats, Floats, Floats]:
    """Adaptive conformal intervals: low, high (T,) and whether the truth is within.

    Residuals of similar past forecasts, widened after days with poor coverage; not far beyond what was seen before.
    Whether the truth is within is 1, 0, or NaN where it is not known.
    """
    past, value = rolling.past, rolling.point[candidate]
    low, high, inside = (np.full(len(value), np.nan) for _ in range(3))
    alpha = 1 - level
    for today, now, quantiles in daily_classes(value, past):
        # Residuals of high forecasts, added to a higher one, would reach far beyond all observed values.
        seen = past.truth[past.target_day < today]
        least, most = np.nanmin(seen), np.nanmax(seen)
        room = _BEYOND * (most - least)
        bounds = value[now] + quantiles(value[now], (alpha / 2, 1 - alpha / 2))
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
    return low, high, inside
