"""Estimates: values with a 90% interval, the number of observations and the method.

`Intervals` serves statistics of time series by the circular moving-block bootstrap. A series is first reduced to sums
per unit of time (a day, an hour), because every statistic used here (means, ratios, coefficients of variation,
correlations, shares) is a function of sums. One matrix of resampling weights then serves all of them: replicates =
weights @ sums. Differences of two statistics share the same resampled days.

Percentiles alone are too narrow: a block is shorter than the memory of a slow load, and few independent units estimate
their own spread badly. The contributions of the units to the statistic give the effective sample size
(`effective_sample`), and the percentiles are moved away from the value accordingly. With too few independent units
there is no interval.

The functions serve samples of jobs: means, medians and shares. Jobs of one program resemble each other, so shares
resample programs.

Sources: Politis & Romano 1992 (circular blocks: every unit has the same expected weight); Geyer
1992 (initial monotone sequence); Hall 1992, section 3.5 (skewness).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any, Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr, ndtri, stdtrit

from ioweather.core.frames import Bools, Floats
from ioweather.core.results import POSITIVE_UNITS, Estimate, Finding, quantity_label, snake_case
from ioweather.core.units import DAY_NS, HOUR_NS, format_seconds

LEVEL: Final = 0.9
# With fewer independent blocks than this an interval would be a guess.
MIN_BLOCKS: Final = 6
# [ours] Twice as many where neighbours are correlated, because their effective number is itself uncertain then. A week
# with a memory of 12 hours gets no interval.
MIN_CORRELATED: Final = 12
REPLICATES: Final = 1000
_SEED: Final = 20110523

# Sums on the last axis to a value: works on one set of sums and on all replicates at once.
Statistic: TypeAlias = Callable[[Floats], Any]

# The scale on which an interval is made: it cannot leave the values that are possible.
Scale: TypeAlias = Literal["", "plain", "log", "variation", "logit", "fisher"]
_ALMOST_1: Final = 0.999999  # the transform of a correlation of 1 is infinite
_SCALES: Final[dict[Scale, tuple[Callable[[Any], Any], Callable[[Any], Any]]]] = {
    "plain": (np.asarray, np.asarray),
    "log": (np.log, np.exp),
    "variation": (np.log, np.exp),
    "logit": (lambda share: np.log(share) - np.log1p(-share), lambda z: 1 / (1 + np.exp(-z))),
    "fisher": (lambda r: np.arctanh(np.clip(r, -_ALMOST_1, _ALMOST_1)), np.tanh),
}
# Fewest days of which the range is given as an interval, and of how many steps a day is whole.
_LEAST_DAYS: Final = 5
_WHOLE_DAY: Final = 0.9
# Student's t accounts for few groups; with fewer it says nothing.
_LEAST_GROUPS: Final = 4
# Above this number the mean is normal enough, and Student's t replaces the bootstrap.
_BOOTSTRAP_MOST: Final = 2000
_RANKED_LEAST: Final = 10


def default_block(units: int) -> int:
    """Return the block length in units: n^(1/3), which minimises the error of the block-bootstrap variance (Künsch
    1989).

    Less where that would leave fewer than MIN_BLOCKS blocks.
    """
    return max(1, min(math.ceil(math.cbrt(units) - 1e-9), units // MIN_BLOCKS))


def unit_steps(steps: int, steps_per_hour: float) -> int:
    """Return the length of a unit in steps: a day if there are 20, else an hour if there are 20, else a twentieth of
    the series."""
    for length in (24 * steps_per_hour, steps_per_hour):
        whole = max(1, round(length))
        if steps >= 20 * whole:
            return whole
    return max(1, steps // 20)


def sums_by_unit(values: NDArray[Any], unit: int) -> Floats:
    """Return sums of consecutive rows in units of `unit` rows (the last may be shorter). Values must not be NaN."""
    edges = np.arange(0, len(values), unit)
    return np.add.reduceat(values, edges, axis=0, dtype=np.float64) if len(values) else np.zeros((0,))


class _BlockBootstrap:
    """Resampling of `units` consecutive units of time in circular blocks of `block` units.

    `weights` say how often each unit is drawn in each replicate, scaled so that a row sums to `units`. They are always
    the same, so that a result can be made again to the last digit.
    """

    def __init__(self, units: int, *, block: int = 0, unit_name: str = "unit") -> None:
        self.units, self.block = units, min(block or default_block(units), units)
        self.blocks = units // self.block
        plural = "" if self.block == 1 else "s"
        words = f"{self.block} {unit_name}{plural}"
        self.method = f"circular block bootstrap, blocks of {words}, {REPLICATES} replicates"
        if self.blocks < MIN_BLOCKS:
            self.method = f"no interval: {self.blocks} blocks of {words} are too few"
        draws = math.ceil(units / self.block)
        starts = np.random.default_rng(_SEED).integers(0, units, size=(REPLICATES, draws))
        place = np.repeat(np.arange(REPLICATES), draws) * units + starts.ravel()
        begun = np.bincount(place, minlength=REPLICATES * units).reshape(REPLICATES, units)
        # A block that starts at s covers s .. s + block - 1, around the end: a circular running sum of starts.
        around = np.concatenate([begun[:, units - self.block + 1 :], begun], axis=1)
        running = np.cumsum(around, axis=1, dtype=np.float64)
        counts = running[:, self.block - 1 :].copy()
        counts[:, 1:] -= running[:, : units - 1]
        self.weights: Floats = counts * (units / (draws * self.block))

    def sums(self, per_unit: NDArray[Any]) -> Floats:
        """Replicates of the totals of `per_unit` (units, ...) over all units: (replicates, ...)."""
        table = np.asarray(per_unit, np.float64)
        flat = self.weights @ table.reshape(self.units, -1)
        return np.asarray(flat.reshape(REPLICATES, *table.shape[1:]))

    def interval(
        self, replicates: Floats, about: NDArray[Any], spread: EffectiveSample, *, reflect: bool = False
    ) -> tuple[Floats, Floats]:
        """Low and high of statistics from their replicates (replicates, ...); NaN where there cannot be an interval.

        Percentiles are moved away from the values `about` by their effective samples. A statistic that noise can only
        raise (a maximum over a minimum, a spread) is raised once more in every resample: `reflect` turns the interval
        about its value, which removes that bias (the basic bootstrap, Davison & Hinkley 1997, section 5.2).
        """
        known = np.where(np.isfinite(replicates), replicates, np.nan)
        tail = (1 - LEVEL) / 2
        with warnings.catch_warnings(), np.errstate(invalid="ignore"):
            warnings.simplefilter("ignore", RuntimeWarning)  # a statistic that no resample has is NaN throughout
            ends = np.nanquantile(known, [tail, 1 - tail], axis=0)
            low, high = about + np.stack(spread.stretches(np.nanstd(known, axis=0))) * (ends - about)
        if reflect:
            low, high = 2 * about - high, 2 * about - low
        # A statistic that often does not exist in a resample (a division by nothing) has no honest interval.
        honest = (np.isfinite(replicates).mean(axis=0) >= 0.9) & spread.enough & (self.blocks >= MIN_BLOCKS)
        return np.where(honest, low, np.nan), np.where(honest, high, np.nan)


@dataclass(frozen=True)
class EffectiveSample:
    """Effective number of independent units behind statistics, their standard errors and shapes: numbers or arrays."""

    count: Any
    error: Any
    skewness: Any
    kurtosis: Any
    least: Any

    @property
    def enough(self) -> Any:
        """Whether there are enough independent units for an interval."""
        return self.count >= self.least

    def stretches(self, spread: Any) -> tuple[Any, Any]:
        """Return the factors by which percentiles of replicates with this `spread` (sd) move away, below and above.

        Student's t accounts for the error of the standard error. Its degrees of freedom follow from heavy tails
        (Satterthwaite: 2 n over kurtosis - 1; twice that, since blocks have less kurtosis than units; [ours], by
        coverage of means). The skewness, which percentiles contain once, is applied a second time.
        """
        tail = (1 - LEVEL) / 2
        freedom = np.minimum(self.count - 1, np.maximum(4.0, 4 * self.count / np.maximum(self.kurtosis - 1, 1e-9)))
        reach = -stdtrit(freedom, tail)
        wider = reach / -ndtri(tail) * np.maximum(1.0, self.error / np.where(spread > 0, spread, np.inf))
        skewed = np.clip(self.skewness / (6 * np.sqrt(self.count)) * reach, -0.5, 0.5)
        return wider / (1 + skewed), wider / (1 - skewed)


def contributions(per_unit: NDArray[Any], statistic: Callable[[Floats], Any]) -> Floats:
    """Return the jackknife contribution of each unit (first axis) to a statistic of the sums over all units."""
    table = np.asarray(per_unit, np.float64)
    with np.errstate(divide="ignore", invalid="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a statistic that no subset has is NaN throughout
        without = np.asarray(statistic(table.sum(axis=0) - table), np.float64)
        moved = np.where(np.isfinite(without), without, np.nan)
        centre = np.nanmean(moved, axis=0)
    departure = np.where(np.abs(centre - moved) > 1e-13 * np.abs(centre), centre - moved, 0.0)  # the rest is rounding
    return np.asarray(np.nan_to_num((len(table) - 1) * departure), np.float64)


def effective_sample(parts: NDArray[Any], *, in_time: bool = True) -> EffectiveSample:
    """Return the `EffectiveSample` of contributions (units, ...) in time order, for each statistic on the other axes.

    Autocorrelation inflates the variance of a mean by 1 + 2 times the sum of the autocorrelations. The sum is estimated
    twice: as long as pairs are positive (Geyer), and from an autoregression of order one whose coefficient is corrected
    for the bias of short series (Kendall 1954). Where the first is larger, the geometric mean of both is used. Bursts
    limit the count: each run of units above the mean counts as three units at most. With `in_time` False, units are
    independent.
    """
    flat = np.asarray(parts, np.float64)
    n = len(flat)
    flat = flat - flat.mean(axis=0)
    scale = np.sqrt((flat**2).mean(axis=0))
    flat = np.divide(flat, scale, out=np.zeros_like(flat), where=scale > 0)
    inflation, count = np.ones(scale.shape), np.full(scale.shape, float(n))
    if in_time and n > 3:
        inflation = variance_inflation(flat)
        above = flat > 0
        stretches = above[0] + (above[1:] & ~above[:-1]).sum(axis=0)
        count = np.minimum(n / inflation, 3.0 * stretches)
    # A statistic without contributions does not vary: its interval is the value.
    varies = scale > 0
    return EffectiveSample(
        np.where(varies, count, float(n)),
        np.where(varies, scale * np.sqrt(inflation / n), 0.0),
        (flat**3).mean(axis=0),
        np.where(varies, (flat**4).mean(axis=0), 3.0),
        np.where(varies, MIN_CORRELATED + (MIN_BLOCKS - MIN_CORRELATED) / inflation, 0.0),
    )


def variance_inflation(centred: Floats) -> Floats:
    """Return 1 + 2 times the sum of autocorrelations of each column (mean 0), at least 1: see `effective_sample`."""
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


class Intervals:
    """Estimates of statistics of a series of `steps` steps, resampled in blocks of days (hours, where days are few).

    `unit` is the length of a unit in steps; sums per unit have `units` rows. Units in which no step is `usable` are not
    resampled: a year with a month of data is a month. `autocorrelated` False: units are long enough to be independent.
    """

    def __init__(
        self, usable: Bools, step_ns: int, *, unit: int = 0, unit_name: str = "", autocorrelated: bool = True
    ) -> None:
        self._autocorrelated = autocorrelated
        self.unit = unit or unit_steps(len(usable), HOUR_NS / step_ns)
        self.units = max(1, -(-len(usable) // self.unit))
        self._unit_ns = self.unit * step_ns
        self._seen = np.flatnonzero(sums_by_unit(usable, self.unit)) if len(usable) else np.zeros(0, np.int64)
        usual = {DAY_NS: "day", HOUR_NS: "hour"}.get(
            self._unit_ns
        ) or f"stretch of {format_seconds(self._unit_ns / 1e9)}"
        self.unit_name = unit_name or usual
        self._bootstrap = _BlockBootstrap(max(1, len(self._seen)), unit_name=self.unit_name)
        self.method = self._bootstrap.method

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
        scale: Scale = "",
    ) -> Estimate:
        """Return the statistic of all sums, with its interval from resampled sums. `per_unit` has the units first.

        Unless `scale` says otherwise, intervals of quantities that cannot be negative are made of logarithms. A
        "variation" of skewed amounts is too low where the rare largest ones are missing, and its error then too: its
        interval reaches up twice as far as resamples do ([ours], by coverage).

        `bounds` are the smallest and the largest value of a statistic that noise can only raise: its interval is
        reflected (see `_BlockBootstrap.interval`) and reaches up to the value itself. With too few independent units
        the interval is the range of the statistic over whole days, if there are five.
        """
        scale = scale or ("log" if unit in POSITIVE_UNITS else "plain")
        values, lows, highs, spread = self._ends(per_unit, statistic, scale, reflect=bounds is not None)
        value, low, high, method = number(values), number(lows), number(highs), self.method
        if value is None or low is None or high is None:
            if not spread.enough and self._bootstrap.blocks >= MIN_BLOCKS:
                few = f"about {float(spread.count):.0f} of {len(self._seen)}"
                method = f"no interval: too few independent {self.unit_name}s, {few}"
            nothing = Estimate(name, value, unit, n=n, method=method)
            return self._range_of_days(nothing, per_unit, statistic, float(spread.count))
        if scale == "fisher" and abs(value) > _ALMOST_1:
            low, high = min(low, value), max(high, value)
        if bounds is not None:
            low, high = max(bounds[0], low), min(bounds[1], max(value, high))
        if value == low == high == 0 and scale != "logit":
            return Estimate(name, value, unit, n=n, method="no interval: all values are zero")
        if scale == "variation" and value > 0:
            high *= high / value
        if scale == "logit":
            low, high = max(0.0, low), min(1.0, high)
            if low == high:
                return self._certain_share(Estimate(name, value, unit, low, high, LEVEL, n, method))
        return Estimate(name, value, unit, low, high, LEVEL, n, method)

    def _certain_share(self, share: Estimate) -> Estimate:
        """Return a share of 0 or 1 with the bound of as many independent hours as were seen, all equal.

        A series that does not vary shows no memory: hours count as independent (Jovanovic & Levy 1997).
        """
        hours = max(1.0, len(self._seen) * max(1.0, self._unit_ns / HOUR_NS))
        reach = 1 - ((1 - LEVEL) / 2) ** (1 / hours)
        method = f"all equal: bound for {hours:.0f} independent {'hours' if self._unit_ns >= HOUR_NS else 'units'}"
        if share.value == 0:
            return replace(share, high=reach, method=method)
        return replace(share, low=1 - reach, method=method) if share.value == 1 else share

    def _range_of_days(self, nothing: Estimate, per_unit: Floats, statistic: Statistic, independent: float) -> Estimate:
        """Return the range of the statistic over whole days, with the level of a sign test: 1 - 2 / 2^days. With fewer
        `independent` units than days, days are not independent either, and there is nothing."""
        length = max(1, round(DAY_NS / self._unit_ns))
        days = len(per_unit) // length
        if nothing.value is None or self._unit_ns > DAY_NS or days < _LEAST_DAYS:
            return nothing
        whole = np.bincount(self._seen // length, minlength=days)[:days] >= _WHOLE_DAY * length
        sums = per_unit[: days * length].reshape(days, length, *per_unit.shape[1:]).sum(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            daily = np.asarray(statistic(sums[whole]), np.float64)
        daily = daily[np.isfinite(daily)]
        if not _LEAST_DAYS <= len(daily) <= independent:
            return nothing
        low, high = min(nothing.value, float(daily.min())), max(nothing.value, float(daily.max()))
        method = f"range of {len(daily)} whole days; {nothing.method}"
        return replace(nothing, low=low, high=high, level=1 - 2.0 ** (1 - len(daily)), method=method)

    def estimates(
        self, per_unit: Floats, statistic: Statistic, *, scale: Scale = "plain"
    ) -> tuple[Floats, Floats, Floats]:
        """Return value, low and high of a statistic with many values, each of its shape; NaN where there is none."""
        value, low, high, _ = self._ends(per_unit, statistic, scale)
        if scale == "fisher":
            low, high = np.minimum(low, value), np.maximum(high, value)
        return value, low, high

    def _ends(
        self, per_unit: Floats, statistic: Statistic, scale: Scale, *, reflect: bool = False
    ) -> tuple[Floats, Floats, Floats, EffectiveSample]:
        """Value, low and high of the statistic, of its shape, and the effective sample."""
        with np.errstate(divide="ignore", invalid="ignore"):
            value = np.asarray(statistic(per_unit.sum(axis=0)[None]), np.float64)[0]
            if not np.ndim(value) and np.isfinite(value) and not np.isfinite(_SCALES[scale][0](value)):
                scale = "plain"  # a share of 0 or 1, a rate of 0: not on this scale
            forward, back = _SCALES[scale]
            seen = per_unit[self._seen] if len(self._seen) else per_unit[:1]

            def scaled(sums: Floats) -> Any:
                return forward(statistic(sums))

            replicates = np.asarray(scaled(self._bootstrap.sums(seen)), np.float64)
            spread = effective_sample(contributions(seen, scaled), in_time=self._autocorrelated)
            low, high = self._bootstrap.interval(replicates, forward(value), spread, reflect=reflect)
            return value, np.asarray(back(low)), np.asarray(back(high)), spread


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
    """Return the finding that the interval supports: `above` or `below` the pivot, else undecided."""
    if estimate.value is None:
        text = f"Too few data: {quantity_label(estimate.name, estimate.unit)}."
        return Finding(text, "undecided", snake_case(estimate.name))
    text, name = (above if estimate.value > pivot else below), snake_case(estimate.name)
    if surely(estimate, above=pivot) or surely(estimate, below=pivot):
        return Finding(text, name=name)
    return Finding(f"{text} (undecided by these data)", "undecided", name)


def known(values: NDArray[Any]) -> Floats:
    """Return the values that are not missing, as floats."""
    floats = np.ma.filled(np.ma.masked_array(values).astype(np.float64), np.nan)
    return np.asarray(floats[np.isfinite(floats)], np.float64)


def median(values: NDArray[Any]) -> float | None:
    """Return the median of the known values; None without any."""
    sample = known(values)
    return float(np.median(sample)) if len(sample) else None


def mean_estimate(name: str, values: NDArray[Any], unit: str = "") -> Estimate:
    """Return the mean over jobs; its interval resamples jobs and takes them as independent."""
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
    bootstrap, spread = _BlockBootstrap(n, block=1), effective_sample(sample, in_time=False)
    low, high = map(number, bootstrap.interval(bootstrap.sums(sample) / n, np.asarray(mean), spread))
    return Estimate(name, mean, unit, low, high, LEVEL if low is not None else None, n, "mean, bootstrap over jobs")


def median_estimate(name: str, values: NDArray[Any], unit: str = "", *, in_time: bool = False) -> Estimate:
    """Return the median; its interval between two order statistics is valid for any distribution.

    With `in_time`, values follow each other in time and count as their effective number of independent values.
    """
    sample = known(values)
    n = len(sample)
    independent = n
    if in_time and n > MIN_BLOCKS:
        independent = max(1, round(float(effective_sample(sample > np.median(sample)).count)))
    sample = np.sort(sample)
    if n == 0:
        return Estimate(name, None, unit, n=0, method="no values")
    middle = float(np.median(sample))
    # The greatest k with P(Binomial(n, 1/2) < k) <= tail: sample[k-1] and sample[n-k] enclose the median.
    k = int(np.sum(bdtr(np.arange(independent // 2 + 1), independent, 0.5) <= (1 - LEVEL) / 2))
    if k == 0:
        return Estimate(name, middle, unit, n=n, method=f"median; {independent} independent values are too few")
    k = max(1, k * n // independent)
    low, high = float(sample[k - 1]), float(sample[n - k])
    return Estimate(name, middle, unit, low, high, LEVEL, n, "median, interval by order statistics")


def share_estimate(name: str, count: int, n: int) -> Estimate:
    """Return the share `count` / `n` of independent observations with Wilson's interval."""
    if n == 0:
        return Estimate(name, None, "ratio", n=0, method="no values")
    # Rows that contradict each other may count more.
    return _wilson(name, min(1.0, count / n), n, n, math.inf, "share, Wilson interval")


def _wilson(name: str, share: float, n: int, independent: float, groups: float, method: str) -> Estimate:
    """Return Wilson's interval of a share of `independent` observations; `groups` are the degrees of freedom plus
    one."""
    tail = (1 - LEVEL) / 2
    z = -NormalDist().inv_cdf(tail) if math.isinf(groups) else -float(stdtrit(groups - 1, tail))
    centre = (share + z * z / (2 * independent)) / (1 + z * z / independent)
    half = z * math.sqrt(share * (1 - share) / independent + z * z / (4 * independent**2)) / (1 + z * z / independent)
    return Estimate(name, share, "ratio", max(0.0, centre - half), min(1.0, centre + half), LEVEL, n, method)


def rank_estimate(name: str, rho: float, n: int, method: str) -> Estimate:
    """Return Spearman's coefficient with its interval by Fisher's z.

    The variance of z is 1.06 / (n - 3) (Fieller, Hartley & Pearson 1957).
    """
    if not math.isfinite(rho) or n < _RANKED_LEAST:
        return Estimate(name, number(rho), "", n=n, method=method)
    bounded = max(-_ALMOST_1, min(_ALMOST_1, rho))
    reach = NormalDist().inv_cdf((1 + LEVEL) / 2) * math.sqrt(1.06 / (n - 3))
    low, high = (math.tanh(math.atanh(bounded) + sign * reach) for sign in (-1, 1))
    return Estimate(name, rho, "", low, high, LEVEL, n, f"{method}, Fisher's z")


def grouped_share(
    name: str, parts: NDArray[Any], wholes: NDArray[Any], groups: NDArray[Any], what: str = "program"
) -> Estimate:
    """Return the share of `parts` in `wholes` over jobs, in [0, 1]; its interval takes groups of jobs as independent.

    Jobs of one program resemble each other: a thousand of them tell of one program. The variance is that of a ratio
    between groups; Wilson's interval has the number of independent jobs that would give this variance (Korn & Graubard
    1998), at most that of groups of equal size.

    Args:
        name: name of the estimate.
        parts: bytes, or whether a job counts.
        wholes: bytes of the job, or 1.
        groups: the group of each job, for instance its program.
        what: what a group is, in words.
    """
    part, whole = np.asarray(parts, np.float64), np.asarray(wholes, np.float64)
    n = len(part)
    if not whole.sum() > 0:
        return Estimate(name, None, "ratio", n=n, method="no values")
    code = np.unique(np.asarray(groups), return_inverse=True)[1]
    of_group, weight = np.bincount(code, part), np.bincount(code, whole)
    of_group, weight = of_group[weight > 0], weight[weight > 0]
    share, count = min(1.0, float(of_group.sum() / weight.sum())), len(weight)
    if count < _LEAST_GROUPS:
        return Estimate(name, share, "ratio", n=n, method=f"share; {count} {what}s are too few for an interval")
    variance = count / (count - 1) * float(((of_group - share * weight) ** 2).sum()) / float(weight.sum()) ** 2
    equal = float(weight.sum()) ** 2 / float((weight**2).sum())
    independent = share * (1 - share) / variance if variance > 0 else equal
    # Jobs that count whole or not at all tell no more than as many coins.
    if ((part == 0) | (part == whole)).all():
        independent = min(independent, n)
    # A variance from few groups, as that of a rare trait, is itself uncertain (Satterthwaite 1946).
    squares = (of_group - share * weight) ** 2
    freedom = float(squares.sum()) ** 2 / float((squares**2).sum()) if variance > 0 else equal
    groups_like = max(2.0, min(equal, freedom + 1))
    return _wilson(name, share, n, independent, groups_like, f"share, Wilson interval over {count} {what}s")


def quantiles(values: NDArray[Any], at: tuple[float, ...] = (0.05, 0.25, 0.5, 0.75, 0.95)) -> list[float | None]:
    """Return quantiles of the known values; None where there is none."""
    sample = known(values)
    return [number(q) for q in np.quantile(sample, at)] if len(sample) else [None] * len(at)
