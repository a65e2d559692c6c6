"""Estimates: values with a 90% interval, the number of observations and the method.

`Intervals` serves statistics of time series, each written once as a function of sums, by block bootstrap. A study may
switch intervals off (its `intervals` parameter): values stay the same and findings become notes. The functions serve
samples of jobs: means, medians, shares and ratios.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from statistics import NormalDist
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ioweather.core.arrays import Bools, Floats
from ioweather.core.contracts import Param
from ioweather.core.papers.claims import NO_INTERVAL
from ioweather.core.results import Estimate, Finding, identifier, quantity_label
from ioweather.core.units import DAY_NS, HOUR_NS, format_seconds
from ioweather.stats.bootstrap import (
    MIN_BLOCKS,
    BlockBootstrap,
    EffectiveSample,
    contributions,
    effective_sample,
    effective_samples,
    sums_by_unit,
    unit_steps,
)

# Sums on the last axis to a value: works on one set of sums and on all replicates at once.
Statistic: TypeAlias = Callable[[Floats], Any]

LEVEL = 0.9
INTERVALS = Param("intervals", "give 90% intervals by block bootstrap", kind="flag", default=True)


class Intervals:
    """Estimates of statistics of a series of `steps` steps, resampled in blocks of days (hours, where days are few).

    `unit` is the length of a unit in steps; sums per unit have `units` rows. Units in which no step is `usable` are
    not resampled: a year with a month of data is a month. `autocorrelated` False: units are long
    enough to be independent.
    """

    def __init__(
        self, usable: Bools, step_ns: int, *, on: bool, unit: int = 0, unit_name: str = "", autocorrelated: bool = True
    ) -> None:
        self._autocorrelated = autocorrelated
        steps = len(usable)
        self.unit = unit or unit_steps(steps, HOUR_NS / step_ns)
        self.units = max(1, -(-steps // self.unit))
        self._seen = np.flatnonzero(sums_by_unit(usable, self.unit)) if steps else np.zeros(0, np.int64)
        self.on = on
        self.unit_name = unit_name or _name(self.unit * step_ns)
        self._bootstrap = BlockBootstrap(max(1, len(self._seen)), level=LEVEL, unit_name=self.unit_name) if on else None

    @property
    def block(self) -> int:
        """Units in a block; 0 when intervals are off."""
        return self._bootstrap.block if self._bootstrap else 0

    def sums(self, *columns: NDArray[Any]) -> Floats:
        """Sums per unit of columns (steps,), missing values as nothing: (units, columns)."""
        table = np.stack([np.nan_to_num(np.asarray(column, np.float64), nan=0.0) for column in columns], axis=1)
        return sums_by_unit(table, self.unit)

    def estimate(
        self,
        name: str,
        unit: str,
        per_unit: Floats,
        statistic: Statistic,
        *,
        n: int,
        bounds: tuple[float, float] | None = None,
    ) -> Estimate:
        """Return the statistic of all sums, with its interval from resampled sums. `per_unit` has the units first.

        `bounds` are the smallest and the largest value of a statistic that noise can only raise: its interval is
        reflected (see BlockBootstrap.interval) and reaches up to the value itself.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            value = number(np.asarray(statistic(per_unit.sum(axis=0)[None]))[0])
            if self._bootstrap is None:
                return Estimate(name, value, unit, n=n, method=NO_INTERVAL)
            seen = self._of_seen(per_unit)
            replicates = statistic(self._bootstrap.sums(seen))
        spread = effective_sample(contributions(seen, statistic), in_time=self._autocorrelated)
        low, high = self._bootstrap.interval(replicates, value, spread=spread, reflect=bounds is not None)
        if bounds is not None and low is not None and high is not None and value is not None:
            low, high = max(bounds[0], low), min(bounds[1], max(value, high))
        level = None if low is None else LEVEL
        return Estimate(name, value, unit, low, high, level, n, self._method_of(spread))

    def estimates(self, per_unit: Floats, statistic: Statistic) -> tuple[Floats, Floats, Floats]:
        """Return value, low and high of a statistic with many values, each of its shape; NaN where there is none."""
        with np.errstate(divide="ignore", invalid="ignore"):
            value = np.asarray(statistic(per_unit.sum(axis=0)[None]), np.float64)[0]
            if self._bootstrap is None:
                return value, np.full(value.shape, np.nan), np.full(value.shape, np.nan)
            seen = self._of_seen(per_unit)
            replicates = np.asarray(statistic(self._bootstrap.sums(seen)), np.float64)
        spreads = effective_samples(contributions(seen, statistic), in_time=self._autocorrelated)
        flat = replicates.reshape(len(replicates), -1)
        low, high = self._bootstrap.intervals(flat, value.ravel(), spreads.ravel())
        return value, low.reshape(value.shape), high.reshape(value.shape)

    def _of_seen(self, per_unit: Floats) -> Floats:
        return per_unit[self._seen] if len(self._seen) else per_unit[:1]

    def _method_of(self, spread: EffectiveSample) -> str:
        if spread.enough or not self._bootstrap or not self._bootstrap.enough:
            return self.method
        return f"no interval: too few independent {self.unit_name}s, about {spread.count:.0f} of {len(self._seen)}"

    @property
    def method(self) -> str:
        return self._bootstrap.method if self._bootstrap else NO_INTERVAL


def _name(unit_ns: int) -> str:
    if unit_ns == DAY_NS:
        return "day"
    return "hour" if unit_ns == HOUR_NS else f"stretch of {format_seconds(unit_ns / 1e9)}"


def number(value: Any) -> float | None:
    """Return a plain float; None for NaN and infinity."""
    plain = float(value)
    return plain if np.isfinite(plain) else None


def plain(name: str, value: float | None, unit: str, *, n: int | None = None, method: str = "exact count") -> Estimate:
    """Return an estimate without an interval: a total, a peak, a count."""
    return Estimate(name, None if value is None else number(value), unit, n=n, method=method)


def surely(estimate: Estimate, *, above: float | None = None, below: float | None = None) -> bool:
    """Return whether the whole interval is above (or below) a number."""
    if estimate.low is None or estimate.high is None:
        return False
    return estimate.low > above if above is not None else estimate.high < (below if below is not None else -np.inf)


def directed(estimate: Estimate, pivot: float, above: str, below: str) -> Finding:
    """Return the sentence that the interval supports, or an undecided finding; for statements that no paper makes."""
    if estimate.value is None:
        text = f"Too few data to tell: {quantity_label(estimate.name, estimate.unit)}."
        return Finding(text, "undecided", identifier(estimate.name))
    text, name = (above if estimate.value > pivot else below), identifier(estimate.name)
    if surely(estimate, above=pivot) or surely(estimate, below=pivot) or estimate.method == NO_INTERVAL:
        return Finding(text, name=name)
    return Finding(f"{text} (these data do not decide it)", "undecided", name)


# Above this number the mean is normal enough, and Student's t replaces the bootstrap.
_BOOTSTRAP_MOST: Final = 2000
_RANKED_LEAST: Final = 10


def known(values: NDArray[Any]) -> Floats:
    """Return the values that are not missing, as floats."""
    floats = np.ma.filled(np.ma.masked_array(values).astype(np.float64), np.nan)
    return np.asarray(floats[np.isfinite(floats)], np.float64)


def mean_estimate(name: str, values: NDArray[Any], unit: str = "") -> Estimate:
    """Return the mean over jobs; its interval resamples jobs and takes them as independent."""
    from scipy.special import stdtrit  # a third of a second of start-up

    sample = known(values)
    n = len(sample)
    if n == 0:
        return Estimate(name, None, unit, n=0, method="no values")
    mean = float(sample.mean())
    if n < MIN_BLOCKS:
        return Estimate(name, mean, unit, n=n, method=f"mean; {n} values are too few for an interval")
    if n > _BOOTSTRAP_MOST:
        half = -float(stdtrit(n - 1, (1 - LEVEL) / 2)) * float(sample.std(ddof=1)) / math.sqrt(n)
        return Estimate(name, mean, unit, mean - half, mean + half, LEVEL, n, "mean, Student's t over jobs")
    bootstrap = BlockBootstrap(n, block=1, level=LEVEL, unit_name="job")
    spread = effective_sample(sample, in_time=False)
    low, high = bootstrap.interval(bootstrap.sums(sample) / n, mean, spread=spread)
    return Estimate(name, mean, unit, low, high, LEVEL if low is not None else None, n, "mean, bootstrap over jobs")


def median_estimate(name: str, values: NDArray[Any], unit: str = "") -> Estimate:
    """Return the median; its interval between two order statistics is valid for any distribution."""
    from scipy.special import bdtr  # a third of a second of start-up

    sample = np.sort(known(values))
    n = len(sample)
    if n == 0:
        return Estimate(name, None, unit, n=0, method="no values")
    median = float(np.median(sample))
    # The greatest k with P(Binomial(n, 1/2) < k) <= tail: sample[k-1] and sample[n-k] enclose the median.
    counts = np.arange(n // 2 + 1)
    k = int(np.sum(bdtr(counts, n, 0.5) <= (1 - LEVEL) / 2))
    if k == 0:
        return Estimate(name, median, unit, n=n, method=f"median; {n} values are too few for an interval")
    low, high = float(sample[k - 1]), float(sample[n - k])
    return Estimate(name, median, unit, low, high, LEVEL, n, "median, interval by order statistics")


def share_estimate(name: str, count: int, n: int) -> Estimate:
    """Return the share of n with Wilson's interval."""
    if n == 0:
        return Estimate(name, None, "ratio", n=0, method="no values")
    z = -NormalDist().inv_cdf((1 - LEVEL) / 2)
    share = min(1.0, count / n)  # rows that contradict each other may count more
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    low, high = max(0.0, centre - half), min(1.0, centre + half)
    return Estimate(name, share, "ratio", low, high, LEVEL, n, "share, Wilson interval")


def rank_estimate(name: str, rho: float, n: int, method: str) -> Estimate:
    """Spearman's coefficient; the variance of its Fisher's z is 1.06 / (n - 3) (Fieller, Hartley & Pearson 1957)."""
    if not math.isfinite(rho) or n < _RANKED_LEAST:
        return Estimate(name, number(rho), "", n=n, method=method)
    bounded = max(-0.999999, min(0.999999, rho))
    reach = NormalDist().inv_cdf((1 + LEVEL) / 2) * math.sqrt(1.06 / (n - 3))
    low, high = (math.tanh(math.atanh(bounded) + sign * reach) for sign in (-1, 1))
    return Estimate(name, rho, "", low, high, LEVEL, n, f"{method}, Fisher's z")


def ratio_estimate(name: str, parts: NDArray[Any], wholes: NDArray[Any]) -> Estimate:
    """Return the ratio of two sums over jobs; its interval resamples jobs."""
    part, whole = np.asarray(parts, np.float64), np.asarray(wholes, np.float64)
    n = len(part)
    if not whole.sum() > 0:
        return Estimate(name, None, "ratio", n=n, method="no values")
    share = float(part.sum() / whole.sum())
    if n < MIN_BLOCKS:
        return Estimate(name, share, "ratio", n=n, method=f"ratio of sums; {n} jobs are too few for an interval")
    bootstrap = BlockBootstrap(n, block=1, level=LEVEL, unit_name="job")
    spread = effective_sample(part - share * whole, in_time=False)
    spread = replace(spread, error=spread.error / float(whole.mean()))
    with np.errstate(divide="ignore", invalid="ignore"):
        low, high = bootstrap.interval(bootstrap.sums(part) / bootstrap.sums(whole), share, spread=spread)
    level = LEVEL if low is not None else None
    return Estimate(name, share, "ratio", low, high, level, n, "ratio of sums, bootstrap over jobs")


def quantiles(values: NDArray[Any], at: tuple[float, ...] = (0.05, 0.25, 0.5, 0.75, 0.95)) -> list[float | None]:
    """Return quantiles of the known values; None where there is none."""
    sample = known(values)
    return [number(q) for q in np.quantile(sample, at)] if len(sample) else [None] * len(at)
