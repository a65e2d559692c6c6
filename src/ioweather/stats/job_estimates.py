"""Estimates from samples of jobs: means, medians and shares, each with its interval and n."""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import NormalDist
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ioweather.core.arrays import Floats
from ioweather.core.results import Estimate
from ioweather.stats.intervals import LEVEL, number
from ioweather.stats.resampling import MIN_BLOCKS, BlockBootstrap, independent

# Above this the bootstrap costs more than it tells: the mean is normal enough.
_BOOTSTRAP_MOST: Final = 2000
_RANKED_LEAST: Final = 10


def known(values: NDArray[Any]) -> Floats:
    """The values that are there, as floats."""
    floats = np.ma.filled(np.ma.masked_array(values).astype(np.float64), np.nan)
    return np.asarray(floats[np.isfinite(floats)], np.float64)


def mean_estimate(name: str, values: NDArray[Any], unit: str = "") -> Estimate:
    """Mean over jobs; the interval resamples jobs, which takes them as independent."""
    sample = known(values)
    n = len(sample)
    if n == 0:
        return Estimate(name, None, unit, n=0, method="no values")
    mean = float(sample.mean())
    if n < MIN_BLOCKS:
        return Estimate(name, mean, unit, n=n, method=f"mean; {n} values are too few for an interval")
    if n > _BOOTSTRAP_MOST:
        from scipy.special import stdtrit  # a third of a second, which most have no need of

        half = -float(stdtrit(n - 1, (1 - LEVEL) / 2)) * float(sample.std(ddof=1)) / math.sqrt(n)
        return Estimate(name, mean, unit, mean - half, mean + half, LEVEL, n, "mean, Student's t over jobs")
    bootstrap = BlockBootstrap(n, block=1, level=LEVEL, unit_name="job")
    spread = independent(sample, in_time=False)
    low, high = bootstrap.interval(bootstrap.sums(sample) / n, mean, spread=spread)
    return Estimate(name, mean, unit, low, high, LEVEL if low is not None else None, n, "mean, bootstrap over jobs")


def median_estimate(name: str, values: NDArray[Any], unit: str = "") -> Estimate:
    """Median; the interval between two order statistics holds for any distribution."""
    sample = np.sort(known(values))
    n = len(sample)
    if n == 0:
        return Estimate(name, None, unit, n=0, method="no values")
    from scipy.special import bdtr

    median = float(np.median(sample))
    # The greatest k with P(Binomial(n, 1/2) < k) <= tail: sample[k-1] and sample[n-k] enclose the median.
    counts = np.arange(n // 2 + 1)
    k = int(np.sum(bdtr(counts, n, 0.5) <= (1 - LEVEL) / 2))
    if k == 0:
        return Estimate(name, median, unit, n=n, method=f"median; {n} values are too few for an interval")
    low, high = float(sample[k - 1]), float(sample[n - k])
    return Estimate(name, median, unit, low, high, LEVEL, n, "median, interval by order statistics")


def share_estimate(name: str, count: int, n: int) -> Estimate:
    """Share of n; Wilson's interval."""
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
    """Ratio of two sums over jobs; the interval resamples jobs."""
    part, whole = np.asarray(parts, np.float64), np.asarray(wholes, np.float64)
    n = len(part)
    if not whole.sum() > 0:
        return Estimate(name, None, "ratio", n=n, method="no values")
    share = float(part.sum() / whole.sum())
    if n < MIN_BLOCKS:
        return Estimate(name, share, "ratio", n=n, method=f"ratio of sums; {n} jobs are too few for an interval")
    bootstrap = BlockBootstrap(n, block=1, level=LEVEL, unit_name="job")
    spread = independent(part - share * whole, in_time=False)
    spread = replace(spread, error=spread.error / float(whole.mean()))
    with np.errstate(divide="ignore", invalid="ignore"):
        low, high = bootstrap.interval(bootstrap.sums(part) / bootstrap.sums(whole), share, spread=spread)
    level = LEVEL if low is not None else None
    return Estimate(name, share, "ratio", low, high, level, n, "ratio of sums, bootstrap over jobs")


def quantiles(values: NDArray[Any], at: tuple[float, ...] = (0.05, 0.25, 0.5, 0.75, 0.95)) -> list[float | None]:
    sample = known(values)
    return [number(q) for q in np.quantile(sample, at)] if len(sample) else [None] * len(at)
