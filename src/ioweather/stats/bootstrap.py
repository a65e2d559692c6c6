"""Intervals for statistics of autocorrelated data: the circular moving-block bootstrap over sums of time units.

A series is first reduced to sums per unit of time (a day, an hour), because every statistic used here (means, ratios,
coefficients of variation, correlations, shares) is a function of sums. One matrix of resampling weights then
serves all of them: replicates = weights @ sums. Differences of two statistics share the same resampled days.

Percentiles alone are too narrow: a block is shorter than the memory of a slow load, and few independent units estimate
their own spread badly. The contributions of the units to the statistic give the effective sample size
(`effective_samples`), and the percentiles are moved away from the value accordingly. With too few independent units
there is no interval.

Sources: Politis & Romano 1992 (circular blocks: every unit has the same expected weight); Hesterberg 2015, "What
teachers should know about the bootstrap", section 5.3 (expanded percentiles, where contributions are not known); Geyer
1992 (initial monotone sequence); Hall 1992, section 3.5 (skewness).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ioweather.core.arrays import Floats

# With fewer independent blocks than this an interval would be a guess.
MIN_BLOCKS = 6
# [ours] Twice as many where neighbours are correlated, because their effective number is itself uncertain then. A week
# with a memory of 12 hours gets no interval.
MIN_CORRELATED = 12
DEFAULT_REPLICATES = 1000


def default_block(units: int) -> int:
    """n^(1/3) units: the order that minimises the error of the block-bootstrap variance (Künsch 1989).

    Less where that would leave fewer than MIN_BLOCKS blocks.
    """
    return max(1, min(math.ceil(math.cbrt(units) - 1e-9), units // MIN_BLOCKS))


def unit_steps(steps: int, steps_per_hour: float) -> int:
    """Length of a unit in steps: a day where there are 20 of them, else an hour, else a twentieth of the series."""
    for length in (24 * steps_per_hour, steps_per_hour):
        whole = max(1, round(length))
        if steps >= 20 * whole:
            return whole
    return max(1, steps // 20)


@dataclass(frozen=True)
class BlockBootstrap:
    """Resampling of `units` consecutive units of time in circular blocks of `block` units.

    The same seed gives the same weights, so that a result can be made again to the last digit.
    """

    units: int
    block: int = 0
    replicates: int = DEFAULT_REPLICATES
    level: float = 0.9
    seed: int = 20110523
    unit_name: str = "unit"
    weights: Floats = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.units < 1:
            raise ValueError("a bootstrap needs at least one unit")
        if not 0 < self.level < 1:
            raise ValueError(f"level {self.level} is not between 0 and 1")
        block = min(self.block or default_block(self.units), self.units)
        object.__setattr__(self, "block", block)
        object.__setattr__(self, "weights", _weights(self.units, block, self.replicates, self.seed))

    @property
    def blocks(self) -> int:
        return self.units // self.block

    @property
    def enough(self) -> bool:
        """Whether there are enough blocks for an interval."""
        return self.blocks >= MIN_BLOCKS

    @property
    def method(self) -> str:
        """The method in words, shown with an estimate."""
        plural = "" if self.block == 1 else "s"
        if not self.enough:
            return f"no interval: {self.blocks} blocks of {self.block} {self.unit_name}{plural} are too few"
        return (
            f"circular block bootstrap, blocks of {self.block} {self.unit_name}{plural}, {self.replicates} replicates"
        )

    def sums(self, per_unit: NDArray[Any]) -> Floats:
        """Replicates of the totals of `per_unit` (units, ...) over all units: (replicates, ...)."""
        table = np.asarray(per_unit, np.float64)
        if len(table) != self.units:
            raise ValueError(f"{len(table)} unit sums for {self.units} units")
        flat = self.weights @ table.reshape(self.units, -1)
        return np.asarray(flat.reshape(self.replicates, *table.shape[1:]))

    def interval(
        self,
        replicates: NDArray[Any],
        about: float | None = None,
        *,
        spread: EffectiveSample | None = None,
        reflect: bool = False,
    ) -> tuple[float | None, float | None]:
        """Interval of one statistic, from its replicates; None where there cannot be one.

        With the effective sample `spread`, percentiles are moved away from the value `about`; without it they are
        expanded for few blocks. A statistic that noise can only raise (a maximum over a minimum, a spread) is raised
        once more in every resample: `reflect` turns the interval about its value, which removes that bias (the basic
        bootstrap, Davison & Hinkley 1997, section 5.2).
        """
        values = np.asarray(replicates, np.float64)
        finite = values[np.isfinite(values)]
        # A statistic that often does not exist in a resample (a division by nothing) has no honest interval.
        if not self.enough or finite.size < 0.9 * values.size or (spread is not None and not spread.enough):
            return None, None
        if spread is None or about is None:
            low, high = np.quantile(finite, expanded_levels(self.level, self.blocks))
        else:
            tail = (1 - self.level) / 2
            down, up = spread.stretches(self.level, float(finite.std()))
            low, high = about + np.array([down, up]) * (np.quantile(finite, [tail, 1 - tail]) - about)
        if reflect and about is not None:
            low, high = 2 * about - high, 2 * about - low
        return float(low), float(high)

    def intervals(self, replicates: Floats, about: Floats, spreads: NDArray[Any]) -> tuple[Floats, Floats]:
        """The same of many statistics (replicates, many) at once; NaN where there is none."""
        known = [float(value) if np.isfinite(value) else None for value in about]
        cases = zip(np.ascontiguousarray(replicates.T), known, spreads, strict=True)
        ends = np.array([self.interval(row, value, spread=spread) for row, value, spread in cases], np.float64)
        ends = ends.reshape(-1, 2).T
        return ends[0], ends[1]


@dataclass(frozen=True)
class EffectiveSample:
    """Effective number of independent units behind a statistic, its standard error and its shape."""

    count: float
    error: float  # standard error of the statistic
    skewness: float
    kurtosis: float
    least: float

    @property
    def enough(self) -> bool:
        return self.count >= self.least

    def stretches(self, level: float, spread: float) -> tuple[float, float]:
        """Return the factors by which percentiles of replicates with this `spread` (sd) move away, below and above.

        Student's t accounts for the error of the standard error. Its degrees of freedom follow from heavy tails
        (Satterthwaite: 2 n over kurtosis - 1; twice that, since blocks have less kurtosis than units; [ours], by
        coverage of means). The skewness, which percentiles contain once, is applied a second time.
        """
        from scipy.special import ndtri, stdtrit  # a third of a second of start-up

        tail = (1 - level) / 2
        freedom = min(self.count - 1, max(4.0, 4 * self.count / max(self.kurtosis - 1, 1e-9)))
        reach = -float(stdtrit(freedom, tail))
        wider = reach / -float(ndtri(tail)) * (max(1.0, self.error / spread) if spread > 0 else 1.0)
        skewed = float(np.clip(self.skewness / (6 * math.sqrt(self.count)) * reach, -0.5, 0.5))
        return wider / (1 + skewed), wider / (1 - skewed)


def contributions(per_unit: NDArray[Any], statistic: Callable[[Floats], Any]) -> Floats:
    """Return the jackknife contribution of each unit (first axis) to a statistic of the sums over all units."""
    table = np.asarray(per_unit, np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        without = np.asarray(statistic(table.sum(axis=0) - table), np.float64)
    moved = np.where(np.isfinite(without), without, np.nan)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a statistic that no subset has is NaN throughout
        centre = np.nanmean(moved, axis=0)
    departure = np.where(np.abs(centre - moved) > 1e-13 * np.abs(centre), centre - moved, 0.0)  # the rest is rounding
    return np.asarray(np.nan_to_num((len(table) - 1) * departure), np.float64)


def effective_samples(parts: NDArray[Any], *, in_time: bool = True) -> NDArray[Any]:
    """Return the `EffectiveSample` of contributions (units, ...) in time order, for each statistic on the other axes.

    Autocorrelation inflates the variance of a mean by 1 + 2 times the sum of the autocorrelations. The sum is estimated
    twice: as long as pairs are positive (Geyer), and from an autoregression of order one whose coefficient is corrected
    for the bias of short series (Kendall 1954). Where the first is larger, the geometric mean of both is used.
    Bursts limit the count: each run of units above the mean counts as three units at most. With `in_time` False, units
    are independent.
    """
    array = np.asarray(parts, np.float64)
    n = len(array)
    flat = array.reshape(n, -1)
    flat = flat - flat.mean(axis=0)
    scale = np.sqrt((flat**2).mean(axis=0))
    flat = np.divide(flat, scale, out=np.zeros_like(flat), where=scale > 0)
    inflation, count = np.ones(flat.shape[1]), np.full(flat.shape[1], float(n))
    if in_time and n > 3:
        inflation = variance_inflation(flat)
        above = flat > 0
        stretches = above[0] + (above[1:] & ~above[:-1]).sum(axis=0)
        count = np.minimum(n / inflation, 3.0 * stretches)
    skewness, kurtosis = (flat**3).mean(axis=0), (flat**4).mean(axis=0)
    error = scale * np.sqrt(inflation / n)
    least = MIN_CORRELATED + (MIN_BLOCKS - MIN_CORRELATED) / inflation
    out = np.empty(flat.shape[1], object)
    for place in range(len(out)):
        figures = (float(each[place]) for each in (count, error, skewness, kurtosis, least))
        # A statistic without contributions does not vary: its interval is the value.
        out[place] = EffectiveSample(*figures) if error[place] > 0 else EffectiveSample(float(n), 0.0, 0.0, 3.0, 0)
    return out.reshape(array.shape[1:])


def effective_sample(parts: NDArray[Any], *, in_time: bool = True) -> EffectiveSample:
    """Return the `EffectiveSample` of one statistic, from contributions (units,)."""
    found: EffectiveSample = effective_samples(np.asarray(parts)[:, None], in_time=in_time).item(0)
    return found


def variance_inflation(centred: Floats) -> Floats:
    """Return 1 + 2 times the sum of autocorrelations of each column (mean 0), at least 1: see `effective_samples`."""
    n = len(centred)
    spectrum = np.abs(np.fft.rfft(centred, 2 * n, axis=0)) ** 2
    correlation = np.fft.irfft(spectrum, axis=0)[:n]
    correlation = correlation / np.maximum(correlation[0], 1e-300)
    pairs = correlation[0 : n - 1 : 2] + correlation[1:n:2]
    positive = np.logical_and.accumulate(pairs > 0, axis=0)
    summed = 2 * np.where(positive, np.minimum.accumulate(pairs, axis=0), 0.0).sum(axis=0) - 1
    summed = summed * (1 + 2 * summed / n)
    first = correlation[1]
    coefficient = np.clip(first + (1 + 3 * first) / n, 0.0, 0.999)
    regressive = (1 + coefficient) / (1 - coefficient)
    return np.asarray(np.clip(np.sqrt(regressive * np.maximum(summed, regressive)), 1.0, n), np.float64)


def expanded_levels(level: float, blocks: int) -> tuple[float, float]:
    """Return expanded percentiles for an interval of `level`: Phi(sqrt(n/(n-1)) * t) instead of the nominal tail."""
    from scipy.special import ndtr, stdtrit  # a third of a second of start-up

    tail = (1 - level) / 2
    quantile = float(stdtrit(blocks - 1, tail))
    low = float(ndtr(math.sqrt(blocks / (blocks - 1)) * quantile))
    return low, 1 - low


def _weights(units: int, block: int, replicates: int, seed: int) -> Floats:
    """How often each unit is drawn in each replicate, scaled so that a row sums to `units`."""
    rng = np.random.default_rng(seed)
    draws = math.ceil(units / block)
    starts = rng.integers(0, units, size=(replicates, draws))
    rows = np.repeat(np.arange(replicates), draws)
    begun = np.bincount(rows * units + starts.ravel(), minlength=replicates * units).reshape(replicates, units)
    # A block that starts at s covers s .. s + block - 1, around the end: a circular running sum of starts.
    running = np.cumsum(np.concatenate([begun[:, units - block + 1 :], begun], axis=1), axis=1, dtype=np.float64)
    counts = running[:, block - 1 :].copy()
    counts[:, 1:] -= running[:, : units - 1]
    return np.asarray(counts * (units / (draws * block)))


def sums_by_unit(values: NDArray[Any], unit: int) -> Floats:
    """Sums of consecutive rows in units of `unit` rows (the last may be shorter); NaN must be gone already."""
    edges = np.arange(0, len(values), unit)
    return np.add.reduceat(values, edges, axis=0, dtype=np.float64) if len(values) else np.zeros((0,))
