"""Two forecasts of a series and the better of both by its record: "as now" (persistence) and "as usual" (climatology).

"As usual" is the mean of the hour of the week, moved to the median of what followed such values before. Each day, the
forecast shown is the one with the smaller error on the days before. Every forecast is judged: what is used on a day was
known the night before, and intervals are conformal: residuals of past forecasts of similar value. Values must be on a
scale where errors add up (a logarithm). Missing windows are NaN and are neither input nor truth.
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
CANDIDATES: Final = ("persistence", "climatology")
PERSISTENCE, CLIMATOLOGY, CHOSEN = range(3)
# Days before the first forecast: one day does not tell an hour of the day from another.
WARM_UP_DAYS: Final = 2
# Past forecasts that a choice or an interval rests on, at least; and in each class of scores.
LEAST_PAST: Final = 250
CLASS_SIZE: Final = 500
MOST_CLASSES: Final = 8
LEVEL: Final = 0.9
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


def climate_tables(hourly: HourlyMeans) -> Floats:
    """Return the usual value of every hour of the week, as known before each day: (days + 1, 168).

    Row d is from the days before day d, NaN where nothing was seen; the last row is for the day after the data. Hours
    of the week are shrunk towards the hour of the day, and these towards one mean.
    """
    days, seen = len(hourly.means), ~np.isnan(hourly.means)
    amount = np.where(seen, hourly.means, 0.0)
    # Taken off first, so that sums of squares keep their digits.
    centre = float(amount.sum()) / max(1, int(seen.sum()))
    amount = np.where(seen, amount - centre, 0.0)
    # Number, sum and sum of squares in the cell of each day's weekday and hour.
    terms = np.zeros((3, days + 1, 7, HOURS))
    terms[:, np.arange(days) + 1, hourly.weekday] = np.stack([seen, amount, amount**2])
    sums = np.cumsum(terms, axis=1)
    by_hour = sums.sum(axis=-2)
    with np.errstate(invalid="ignore", divide="ignore"):
        level = by_hour[1].sum(axis=-1, keepdims=True) / by_hour[0].sum(axis=-1, keepdims=True)
        usual = _shrunk(by_hour, level, (-1,))
        weekly = _shrunk(sums, usual[..., None, :], (-2, -1))
    return np.asarray(weekly.reshape(days + 1, SLOTS) + centre)


def _shrunk(cells: Floats, parent: Floats, axes: tuple[int, ...]) -> Floats:
    """Return the parents plus the weighted departures of the cells from them.

    The weight is tau^2 / (tau^2 + s^2 / n), and 0 where no cell was seen twice: nothing is known of the scatter.
    """
    n, total, squares = cells
    departure = np.where(n > 0, total / n - parent, 0.0)
    mean = np.where(n > 0, total / n, 0.0)
    within = np.maximum(squares - n * mean**2, 0.0).sum(axis=axes, keepdims=True)
    freedom = np.maximum(n - 1, 0).sum(axis=axes, keepdims=True)
    variance, count = within / freedom, (n > 0).sum(axis=axes, keepdims=True)
    noise = np.where(n > 0, variance / n, 0.0).sum(axis=axes, keepdims=True) / count
    tau = np.maximum((departure**2).sum(axis=axes, keepdims=True) / count - noise, 0.0)
    weight = np.where((n > 0) & (freedom > 0), np.nan_to_num(tau / (tau + variance / n)), 0.0)
    return np.asarray(parent + weight * departure)


@dataclass(frozen=True, eq=False)
class Timed:
    """A series with its local calendar: `values` (T,) on equal windows of `window_minutes`; `day` (counted from 0) and
    `slot` (weekday * 24 + hour) of every window and of as many after the last as the longest horizon has."""

    values: Floats
    day: Ints
    slot: Ints
    window_minutes: float


@dataclass(frozen=True, eq=False)
class Rolling:
    """Forecasts made at every window for one horizon (in windows).

    `point` is (3, T): as now, as usual, and the better of both by its record; NaN where none could be made. `truth`
    came at the target of each forecast (NaN: unknown); `day` and `target_day` are those of the forecast and its target.
    `correlated_steps` consecutive forecasts have correlated errors, which count as one.
    """

    horizon: int
    point: Floats
    truth: Floats
    day: Ints
    target_day: Ints
    correlated_steps: int = 1

    def scored(self) -> Bools:
        """Moments at which every forecast was made and its truth is known."""
        return np.asarray(np.isfinite(self.point).all(axis=0) & np.isfinite(self.truth))


def rolling_forecasts(series: Timed, horizons: tuple[int, ...]) -> list[Rolling]:
    """Return the forecasts of every horizon (in windows) at every window of the series."""
    count = len(series.values)
    if not count:
        return []
    day, made = series.day[:count], []
    tables = climate_tables(hourly_means(series.values, day, series.slot[:count]))
    for horizon in horizons:
        truth = np.full(count, np.nan)
        truth[: max(0, count - horizon)] = series.values[horizon:]
        target = slice(horizon, count + horizon)
        # What the night before knew of the target's hour.
        usual = np.where(np.isfinite(series.values) & (day >= WARM_UP_DAYS), tables[day, series.slot[target]], np.nan)
        # [ours] An hour at least: load changes with the jobs, and these rarely end sooner.
        correlated_steps = max(horizon, round(60 / series.window_minutes))
        now = np.where(np.isfinite(usual), series.values, np.nan)
        rolling = Rolling(horizon, np.stack([now, usual, usual]), truth, day, series.day[target], correlated_steps)
        for _, today, quantiles in daily_classes(usual.copy(), rolling):
            rolling.point[CLIMATOLOGY, today] += quantiles(usual[today], (0.5,))[0]
        rolling.point[CHOSEN] = _better_by_record(rolling)
        made.append(rolling)
    return made


def _better_by_record(rolling: Rolling) -> Floats:
    """Return, for each day, the forecasts of the candidate with the smaller error before; NaN without enough past."""
    days = int(rolling.day[-1]) + 1
    error = np.abs(rolling.point[:CHOSEN] - rolling.truth)
    known = np.isfinite(error).all(axis=0) & (rolling.target_day < days)
    rows = np.stack([*error[:, known], np.ones(known.sum())])
    before = np.zeros((3, days + 1))
    for total, row in zip(before, rows, strict=True):
        total[1:] = np.cumsum(np.bincount(rolling.target_day[known], row, days))
    best = before[:CHOSEN].argmin(axis=0)[rolling.day]
    enough = before[CHOSEN][rolling.day] >= LEAST_PAST
    return np.where(enough, rolling.point[best, np.arange(len(best))], np.nan)


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


def daily_classes(value: Floats, past: Rolling) -> Iterator[tuple[int, Ints, Quantiles]]:
    """Yield (day, its forecasts, quantiles of the residuals known that morning) for every day with enough past.

    Quantiles are reused for up to a week once there are many weeks, because they hardly change from day to day.
    """
    residual = past.truth - value
    rows = np.flatnonzero(np.isfinite(residual))
    arrived = past.target_day[rows]
    days = int(past.day[-1]) + 1
    edges = np.searchsorted(past.day, np.arange(days + 1))
    quantiles, made = None, 0
    for today in range(days):
        known = rows[: np.searchsorted(arrived, today)]
        now = np.arange(edges[today], edges[today + 1])
        now = now[np.isfinite(value[now])]
        if len(known) < LEAST_PAST or not len(now):
            continue
        if quantiles is None or today - made >= min(7, max(1, today // 8)):
            quantiles, made = residual_quantiles(value[known], residual[known], past.correlated_steps), today
        yield today, now, quantiles


def rolling_intervals(rolling: Rolling) -> tuple[Floats, Floats, Floats]:
    """Adaptive conformal intervals of the forecast shown: low, high (T,) and whether the truth is within.

    Residuals of similar past forecasts, widened after days with poor coverage; not far beyond what was seen before.
    Whether the truth is within is 1, 0, or NaN where it is not known.
    """
    value = rolling.point[CHOSEN]
    low, high, inside = (np.full(len(value), np.nan) for _ in range(3))
    alpha = 1 - LEVEL
    for today, now, quantiles in daily_classes(value, rolling):
        # Residuals of high forecasts, added to a higher one, would reach far beyond all observed values.
        seen = rolling.truth[rolling.target_day < today]
        least, most = np.nanmin(seen), np.nanmax(seen)
        room = _BEYOND * (most - least)
        bounds = value[now] + quantiles(value[now], (alpha / 2, 1 - alpha / 2))
        bounds = np.clip(bounds, least - room, most + room)
        truth = rolling.truth[now]
        inside[now] = within = np.where(np.isfinite(truth), (truth >= bounds[0]) & (truth <= bounds[1]), np.nan)
        # The interval is widened to contain the point forecast after its coverage was recorded.
        low[now], high[now] = np.minimum(bounds[0], value[now]), np.maximum(bounds[1], value[now])
        # The truth of a day's last forecasts is not known on the next morning: they do not update the level.
        known = within[np.isfinite(within) & (rolling.target_day[now] == rolling.day[now])]
        if len(known):
            # Eq. 2 of Gibbs & Candes: alpha_{t+1} = alpha_t + gamma (alpha - err_t).
            alpha = float(np.clip(alpha + ADAPTATION * ((1 - LEVEL) - (1 - known.mean())), 0.01, 0.5))
    return low, high, inside
