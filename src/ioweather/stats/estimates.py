"""Estimates: values with a 90% interval, the number of observations and the method.

`Intervals` serves statistics of time series, each written once as a function of sums, by block bootstrap. A study may
switch intervals off (its `intervals` parameter): values stay the same and findings become notes. The functions serve
samples of jobs: means, medians and shares. Jobs of one program resemble each other, so shares resample programs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from statistics import NormalDist
from typing import Any, Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ioweather.core.arrays import Bools, Floats
from ioweather.core.contracts import Param
from ioweather.core.results import NO_INTERVAL, POSITIVE_UNITS, Estimate, Finding, identifier, quantity_label
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

# The scale on which an interval is made: it cannot leave the values that are possible.
Scale: TypeAlias = Literal["", "plain", "log", "logit", "fisher"]
_ALMOST_1: Final = 0.999999  # the transform of a correlation of 1 is infinite
_SCALES: Final[dict[Scale, tuple[Callable[[Any], Any], Callable[[Any], Any]]]] = {
    "plain": (np.asarray, np.asarray),
    "log": (np.log, np.exp),
    "logit": (lambda share: np.log(share) - np.log1p(-share), lambda z: 1 / (1 + np.exp(-z))),
    "fisher": (lambda r: np.arctanh(np.clip(r, -_ALMOST_1, _ALMOST_1)), np.tanh),
}
# Fewest days of which the range is given as an interval, and of how many steps a day is whole.
_LEAST_DAYS: Final = 5
_WHOLE_DAY: Final = 0.9
# Student's t accounts for few groups; with fewer it says nothing.
_LEAST_GROUPS: Final = 4

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
        self._step_ns = step_ns
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
        scale: Scale = "",
    ) -> Estimate:
        """Return the statistic of all sums, with its interval from resampled sums. `per_unit` has the units first.

        Unless `scale` says otherwise, intervals of quantities that cannot be negative are made of logarithms.

        `bounds` are the smallest and the largest value of a statistic that noise can only raise: its interval is
        reflected (see BlockBootstrap.interval) and reaches up to the value itself. With too few independent units the
        interval is the range of the statistic over whole days, if there are five.
        """
        scale = scale or ("log" if unit in POSITIVE_UNITS else "plain")
        forward, back = _SCALES[scale]
        with np.errstate(divide="ignore", invalid="ignore"):
            value = number(np.asarray(statistic(per_unit.sum(axis=0)[None]))[0])
            if self._bootstrap is None:
                return Estimate(name, value, unit, n=n, method=NO_INTERVAL)
            seen = self._of_seen(per_unit)
            about = None if value is None else number(forward(value))
            if about is None:  # a share of 0 or 1, a rate of 0: not on this scale
                forward, back = _SCALES["plain"]
                about = value
            replicates = forward(statistic(self._bootstrap.sums(seen)))
            spread = effective_sample(
                contributions(seen, lambda sums: forward(statistic(sums))), in_time=self._autocorrelated
            )
        low, high = self._bootstrap.interval(replicates, about, spread=spread, reflect=bounds is not None)
        if low is None or high is None:
            nothing = Estimate(name, value, unit, n=n, method=self._method_of(spread))
            return self._range_of_days(nothing, per_unit, statistic, spread.count)
        low, high = float(back(low)), float(back(high))
        if scale == "fisher" and value is not None and abs(value) > _ALMOST_1:
            low, high = min(low, value), max(high, value)
        if bounds is not None and value is not None:
            low, high = max(bounds[0], low), min(bounds[1], max(value, high))
        if scale == "logit":
            low, high = max(0.0, low), min(1.0, high)
        return Estimate(name, value, unit, low, high, LEVEL, n, self.method)

    def _range_of_days(self, nothing: Estimate, per_unit: Floats, statistic: Statistic, independent: float) -> Estimate:
        """Return the range of the statistic over whole days, with the level of a sign test: 1 - 2 / 2^days. With fewer
        `independent` units than days, days are not independent either, and there is nothing."""
        length = max(1, round(DAY_NS / (self.unit * self._step_ns)))
        days = len(per_unit) // length
        if nothing.value is None or self.unit * self._step_ns > DAY_NS or days < _LEAST_DAYS:
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
        forward, back = _SCALES[scale]

        def scaled(sums: Floats) -> Any:
            return forward(statistic(sums))

        with np.errstate(divide="ignore", invalid="ignore"):
            value = np.asarray(statistic(per_unit.sum(axis=0)[None]), np.float64)[0]
            if self._bootstrap is None:
                return value, np.full(value.shape, np.nan), np.full(value.shape, np.nan)
            seen = self._of_seen(per_unit)
            replicates = np.asarray(scaled(self._bootstrap.sums(seen)), np.float64)
            spreads = effective_samples(contributions(seen, scaled), in_time=self._autocorrelated)
            about = np.asarray(forward(value), np.float64).ravel()
        low, high = self._bootstrap.intervals(replicates.reshape(len(replicates), -1), about, spreads.ravel())
        low, high = np.asarray(back(low)).reshape(value.shape), np.asarray(back(high)).reshape(value.shape)
        if scale == "fisher":
            low, high = np.minimum(low, value), np.maximum(high, value)
        return value, low, high

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
    """Return the share of n independent ones with Wilson's interval."""
    if n == 0:
        return Estimate(name, None, "ratio", n=0, method="no values")
    # Rows that contradict each other may count more.
    return _wilson(name, min(1.0, count / n), n, n, math.inf, "share, Wilson interval")


def _wilson(name: str, share: float, n: int, independent: float, groups: float, method: str) -> Estimate:
    """Return Wilson's interval of a share of this many independent ones, its variance known from `groups`."""
    from scipy.special import stdtrit  # a third of a second of start-up

    tail = (1 - LEVEL) / 2
    z = -NormalDist().inv_cdf(tail) if math.isinf(groups) else -float(stdtrit(groups - 1, tail))
    centre = (share + z * z / (2 * independent)) / (1 + z * z / independent)
    half = z * math.sqrt(share * (1 - share) / independent + z * z / (4 * independent**2)) / (1 + z * z / independent)
    return Estimate(name, share, "ratio", max(0.0, centre - half), min(1.0, centre + half), LEVEL, n, method)


def rank_estimate(name: str, rho: float, n: int, method: str) -> Estimate:
    """Spearman's coefficient; the variance of its Fisher's z is 1.06 / (n - 3) (Fieller, Hartley & Pearson 1957)."""
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
    return _wilson(name, share, n, independent, max(2.0, equal), f"share, Wilson interval over {count} {what}s")


def difference_of_logs(name: str, first: Floats, second: Floats, what: str) -> Estimate:
    """Return the ratio of the geometric means of two samples of logarithms, with Welch's interval."""
    from scipy.special import stdtrit  # a third of a second of start-up

    n = len(first) + len(second)
    if min(len(first), len(second)) < _LEAST_GROUPS:
        return Estimate(name, None, "factor", n=n, method=f"fewer than {_LEAST_GROUPS} {what} of one kind")
    parts = np.array([each.var(ddof=1) / len(each) for each in (first, second)])
    freedom = parts.sum() ** 2 / (parts**2 / np.array([len(first) - 1, len(second) - 1])).sum()
    difference = float(first.mean() - second.mean())
    reach = -float(stdtrit(freedom, (1 - LEVEL) / 2)) * math.sqrt(parts.sum())
    ends = (math.exp(difference - reach), math.exp(difference + reach))
    return Estimate(name, math.exp(difference), "factor", *ends, LEVEL, n, f"geometric means of {what}, Welch")


def quantiles(values: NDArray[Any], at: tuple[float, ...] = (0.05, 0.25, 0.5, 0.75, 0.95)) -> list[float | None]:
    """Return quantiles of the known values; None where there is none."""
    sample = known(values)
    return [number(q) for q in np.quantile(sample, at)] if len(sample) else [None] * len(at)
