"""What a series usually does at each hour of the week, learned from the days before, and no surer than they allow.

Hourly means of days are the observations. The mean of an hour of the day is drawn towards the overall mean, and the
mean of an hour of the week towards that of its hour of the day, each as far as its scatter from day to day demands:
shrinkage tau^2 / (tau^2 + s^2 / n) with tau^2 by the method of moments (empirical Bayes; Efron & Morris 1973). A series
without a pattern, or a history of a few days, so gives the plain mean.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ioweather.core.arrays import Floats, Ints
from ioweather.core.results import NO_INTERVAL, Estimate

HOURS: Final = 24
SLOTS: Final = 7 * HOURS
# [ours] Older days are forgotten: the mix of jobs changes with the allocation year and the term.
MEMORY_DAYS: Final = 56
_LEVEL: Final = 0.9


@dataclass(frozen=True, eq=False)
class HourlyMeans:
    """Mean of each hour of each day (days, 24), NaN where nothing was seen; `weekday` of each day, 0-6."""

    means: Floats
    weekday: Ints


def hourly_means(values: NDArray[Any], day: Ints, slot: Ints) -> HourlyMeans:
    """`day` counts days from 0 without gaps in the count; `slot` = weekday * 24 + hour, both of the local clock."""
    days = int(day[-1]) + 1 if len(day) else 0
    cell = day * HOURS + slot % HOURS
    there = ~np.isnan(values)
    count = np.bincount(cell[there], minlength=days * HOURS)
    total = np.bincount(cell[there], weights=values[there], minlength=days * HOURS)
    with np.errstate(invalid="ignore", divide="ignore"):
        means = (total / count).reshape(days, HOURS)
    first_weekday = int(slot[0]) // HOURS - int(day[0]) if len(day) else 0
    return HourlyMeans(means, (first_weekday + np.arange(days, dtype=np.int64)) % 7)


@dataclass(frozen=True, eq=False)
class Sums:
    """n, sum and sum of squares of hourly means by weekday and hour: (..., 7, 24) each."""

    n: Floats
    total: Floats
    squares: Floats


def climate_tables(hourly: HourlyMeans, memory_days: int = MEMORY_DAYS) -> Floats:
    """(days + 1, 168): row d is what the `memory_days` before day d say of every hour of the week; NaN where nothing
    was seen. The last row is for the day after the data."""
    days = len(hourly.means)
    centre, terms = _terms(hourly)
    before = []
    first = np.maximum(np.arange(days + 1) - memory_days, 0)
    for term in terms:
        running = np.concatenate([np.zeros((1, 7, HOURS)), np.cumsum(term, axis=0)])
        before.append(running - running[first])
    return np.asarray(shrunk_climate(Sums(*before)).reshape(days + 1, SLOTS) + centre)


def climate_replicates(hourly: HourlyMeans, weights: Floats) -> Floats:
    """(replicates, 168): the climate of all these days, drawn again with `weights` (replicates, days).

    The shrinkage weights are those of the data themselves: a day drawn twice has no scatter.
    """
    centre, terms = _terms(hourly)
    sums = Sums(*(np.tensordot(weights, term, axes=1) for term in terms))
    shrinkage = shrinkage_weights(Sums(*(term.sum(axis=0) for term in terms)))
    return np.asarray(shrunk_climate(sums, shrinkage).reshape(len(weights), SLOTS) + centre)


def _terms(hourly: HourlyMeans) -> tuple[float, list[Floats]]:
    """The mean of all, and n, departure from it and its square in the cell of each day's weekday: (days, 7, 24)."""
    seen = ~np.isnan(hourly.means)
    amount = np.where(seen, hourly.means, 0.0)
    # Taken off first, so that sums of squares keep their digits.
    centre = float(amount.sum()) / max(1, int(seen.sum()))
    amount = np.where(seen, amount - centre, 0.0)
    terms = []
    for term in (seen.astype(np.float64), amount, amount**2):
        spread = np.zeros((len(amount), 7, HOURS))
        spread[np.arange(len(amount)), hourly.weekday] = term
        terms.append(spread)
    return centre, terms


ShrinkageWeights: TypeAlias = tuple[Floats, Floats]


def shrunk_climate(sums: Sums, weights: ShrinkageWeights | None = None) -> Floats:
    """Means of hours of the week (..., 7, 24), shrunk towards those of the hours of the day and these towards one mean;
    NaN where `sums` are empty. `weights` default to those of the sums (`shrinkage_weights`)."""
    by_hour, weekly = weights or shrinkage_weights(sums)
    hour = _hours(sums)
    with np.errstate(invalid="ignore", divide="ignore"):
        level = hour.total.sum(axis=-1, keepdims=True) / hour.n.sum(axis=-1, keepdims=True)
    usual = (level + by_hour * _departure(hour, level))[..., None, :]
    return np.asarray(usual + weekly * _departure(sums, usual))


def shrinkage_weights(sums: Sums) -> ShrinkageWeights:
    """Return the shrinkage weights (0-1) of departures of hours of the day, and of hours of the week."""
    hour = _hours(sums)
    with np.errstate(invalid="ignore", divide="ignore"):
        level = hour.total.sum(axis=-1, keepdims=True) / hour.n.sum(axis=-1, keepdims=True)
    by_hour = _shrinkage(hour, level, axes=(-1,))
    usual = (level + by_hour * _departure(hour, level))[..., None, :]
    return by_hour, _shrinkage(sums, usual, axes=(-2, -1))


def _hours(sums: Sums) -> Sums:
    return Sums(*(part.sum(axis=-2) for part in (sums.n, sums.total, sums.squares)))


def _departure(sums: Sums, parent: Floats) -> Floats:
    """Means less those of their parents; 0 for a cell that was never seen."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.where(sums.n > 0, sums.total / sums.n - parent, 0.0))


def _shrinkage(sums: Sums, parent: Floats, axes: tuple[int, ...]) -> Floats:
    """tau^2 / (tau^2 + s^2 / n) of each cell; 0 where no cell was seen twice: nothing is known of the scatter."""
    n = sums.n
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(n > 0, sums.total / n, 0.0)
        within = np.maximum(sums.squares - n * mean**2, 0.0).sum(axis=axes, keepdims=True)
        freedom = np.maximum(n - 1, 0).sum(axis=axes, keepdims=True)
        variance = within / freedom
        cells = (n > 0).sum(axis=axes, keepdims=True)
        noise = np.where(n > 0, variance / n, 0.0).sum(axis=axes, keepdims=True) / cells
        spread = (_departure(sums, parent) ** 2).sum(axis=axes, keepdims=True) / cells
        tau = np.maximum(spread - noise, 0.0)
        weight = tau / (tau + variance / n)
    return np.asarray(np.where((n > 0) & (freedom > 0), np.nan_to_num(weight), 0.0))


REPLICATES = 999


# Null distribution for differences between hours of the day (days of the week). The largest of 24 hourly means is large
# by selection. Rotating each day by a random number of hours gives its distribution without a daily pattern: bursts
# keep their lengths and heights, and only the common phase is lost.
def rotated_sums(cycles: Floats, replicates: int = REPLICATES, seed: int = 0) -> Floats:
    """Sums over the cycles of (cycles, places, ...), every cycle turned at random: (replicates, places, ...). The same
    for every statistic that is made of them."""
    count, places = cycles.shape[:2]
    shift = np.random.default_rng(seed).integers(0, places, (replicates, count))
    days, hours = np.arange(count)[:, None], np.arange(places)
    return np.stack([cycles[days, (hours + turn[:, None]) % places].sum(axis=0) for turn in shift])


def chance_bound(null: Floats, level: float) -> float:
    """Return the quantile of the null distribution at `level`; NaN where there is none."""
    known = null[~np.isnan(null)]
    return float(np.quantile(known, level)) if len(known) else float("nan")


def means_of(sums: Floats) -> Floats:
    """Means from n and sum on the last axis; NaN where nothing was seen."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(sums[..., 1] / sums[..., 0])


def cycle_spread(name: str, sums: Floats, null: Floats, aside: int = 0, *, n: int, on: bool = True) -> Estimate:
    """sd / mean of the means along a cycle, the `aside` largest left out: 0 is flat.

    `sums` are n and sum by unit and place, `null` those of units turned at random. Noise makes means differ too: the
    lower end is less what chance gives; the upper one is the spread itself.
    """

    def squared(summed: Floats) -> Floats:
        means = means_of(summed)
        kept = np.sort(means, axis=-1)[..., : means.shape[-1] - aside]
        return np.asarray(kept.std(axis=-1) / kept.mean(axis=-1)) ** 2

    with np.errstate(divide="ignore", invalid="ignore"):
        value = float(np.sqrt(squared(sums.sum(axis=0))))
    if not on or len(sums) < 2 or not np.isfinite(value):
        known = value if np.isfinite(value) else None
        return Estimate(name, known, "ratio", n=n, method="too few for an interval" if on else NO_INTERVAL)
    chance = chance_bound(squared(null), (1 + _LEVEL) / 2)
    low = float(np.sqrt(max(0.0, value**2 - chance)))
    return Estimate(name, value, "ratio", low, value, _LEVEL, n, "sd / mean of the means; from: less what chance gives")
