"""Maximum likelihood of heads: a Normal for every candidate pivot by prefix sums, and one head that ends at it."""

from __future__ import annotations

import numpy as np

from ioweather.core.arrays import Floats, Indices
from ioweather.stats.tails.boundedfit import TailSums, fit_lognormal_tails
from ioweather.stats.tails.families import Cauchy, Normal
from ioweather.stats.tails.points import points_of
from ioweather.stats.tails.sample import Sample
from ioweather.stats.tails.truncated import TruncatedHead


def fit_normal_heads(sample: Sample, cuts: Indices) -> Normal:
    """Mean and standard deviation of every head by prefix sums, about the median so that squares do not cancel."""
    centre = float(sample.values[np.searchsorted(sample.below, sample.n / 2) - 1])
    away = sample.values - centre
    counts = sample.counts
    size = sample.below[cuts + 1]
    mean = np.cumsum(counts * away)[cuts] / size
    variance = np.cumsum(counts * away * away)[cuts] / size - mean * mean
    smallest = 1e-12 * float(sample.values[-1] - sample.values[0])
    return Normal(mean + centre, np.maximum(np.sqrt(np.maximum(variance, 0.0)), smallest))


def fit_truncated_normal_heads(sample: Sample, cuts: Indices) -> TruncatedHead:
    """Every head as a Normal that ends at its pivot: pivot - x is then a normal truncated at 0, as log(x/low) is for
    the LogNormal tail, and the same solve serves."""
    high = sample.values[cuts]
    plain = fit_normal_heads(sample, cuts)
    below = high - plain.location
    square = below * below + np.square(plain.scale)
    solved = fit_lognormal_tails(TailSums(high, below, below, square))
    return TruncatedHead(Normal(high + solved.offset * solved.log_sd, solved.log_sd), high)


def truncated_head(sample: Sample, cut: int, plain: Normal | Cauchy) -> TruncatedHead:
    """Maximum likelihood between 0 and the pivot; the peak stays within the head, which is what makes it a head."""
    if isinstance(plain, Normal):
        solved = fit_truncated_normal_heads(sample, np.array([cut])).one(0)
        # The closed solve knows the upper bound only; it is the answer where 0 is far away and the peak inside.
        if solved.base.cdf(0.0) < 1e-9 and solved.base.location <= solved.high:
            return solved
    return _bounded_fit(sample, cut, plain)


def _bounded_fit(sample: Sample, cut: int, plain: Normal | Cauchy) -> TruncatedHead:
    from scipy.optimize import minimize

    high = float(sample.values[cut])
    points = points_of(sample, np.array([cut]))
    values, weights = points.values[: points.split[0]], points.weights[: points.split[0]]
    centre, width = float(plain.location), float(plain.scale)
    total = float(weights.sum())
    mean = float(weights @ values) / total
    variance = float(weights @ (values - mean) ** 2) / total

    def base(place: Floats) -> Normal | Cauchy:
        return type(plain)(centre + width * float(place[0]), width * float(np.exp(place[1])))

    def loss(place: Floats) -> float:
        trial = base(place)
        mass = float(trial.cdf(high) - trial.cdf(0.0))
        if mass <= 1e-300:
            return np.inf
        if isinstance(trial, Normal):
            square = ((mean - trial.location) ** 2 + variance) / trial.scale**2
            return float(square / 2 + np.log(trial.scale) + np.log(mass))
        return float(np.log(mass) - weights @ trial.log_density(values) / total)

    inside = ((float(values[0]) - centre) / width, (high - centre) / width)
    start = (min(max(0.0, inside[0]), inside[1]), 0.0)
    if not np.isfinite(loss(np.array(start))):
        return TruncatedHead(plain, high)
    solved = minimize(
        loss, start, method="Nelder-Mead", bounds=(inside, (-5.0, 5.0)), options={"xatol": 1e-7, "fatol": 1e-12}
    )
    return TruncatedHead(base(solved.x), high)
