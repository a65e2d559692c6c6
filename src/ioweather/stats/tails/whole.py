"""One family for a whole sample: the eight single fits of don15 section 4.1, by maximum likelihood, with KS distance.

Positive families start at 0 (scipy's floc=0); Uniform and Power Law take their support from the data.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import digamma, polygamma

from ioweather.stats.tails.bounded import Exponential, PowerLaw
from ioweather.stats.tails.families import Cauchy, Family, Gamma, LogNormal, Normal, Uniform, Weibull
from ioweather.stats.tails.gaps import largest_gap
from ioweather.stats.tails.points import fit_cauchy
from ioweather.stats.tails.sample import Sample, sample_of


@dataclass(frozen=True)
class WholeFit:
    """One family, or the reason why it cannot be fitted (`problem`); then the numbers are None."""

    family: str
    distribution: Family | None = None
    ks: float | None = None
    aic: float | None = None
    problem: str = ""


def fit_whole(times: ArrayLike, families: Sequence[str] | None = None) -> tuple[WholeFit, ...]:
    """Fits of all (or the named) families, least KS distance first, families that cannot be fitted last."""
    sample = sample_of(times)
    names = tuple(families) if families is not None else tuple(WHOLE_FAMILIES)
    unknown = [name for name in names if name not in WHOLE_FAMILIES]
    if unknown:
        raise ValueError(f"unknown family {', '.join(unknown)}: there are {', '.join(WHOLE_FAMILIES)}")
    fits = [_fit(sample, name) for name in names]
    return tuple(sorted(fits, key=lambda fit: np.inf if fit.ks is None else fit.ks))


def _fit(sample: Sample, name: str) -> WholeFit:
    estimate, degrees = WHOLE_FAMILIES[name]
    if name not in _ANYWHERE and sample.values[0] == 0:
        zeros = int(sample.below[1])
        return WholeFit(name, problem=f"{zeros} of {sample.n} times are 0, which this family cannot produce")
    distribution = estimate(sample)
    log_likelihood = float(sample.counts @ distribution.log_density(sample.values))
    return WholeFit(name, distribution, largest_gap(sample, distribution).distance, 2 * degrees - 2 * log_likelihood)


def _mean(sample: Sample) -> float:
    return float(sample.counts @ sample.values) / sample.n


def _uniform(sample: Sample) -> Uniform:
    return Uniform(float(sample.values[0]), float(sample.values[-1]))


def _normal(sample: Sample) -> Normal:
    mean = _mean(sample)
    return Normal(mean, float(np.sqrt(sample.counts @ (sample.values - mean) ** 2 / sample.n)))


def _cauchy(sample: Sample) -> Cauchy:
    return fit_cauchy(sample.values, sample.counts)


def _lognormal(sample: Sample) -> LogNormal:
    logs = _normal(Sample(np.log(sample.values), sample.below))
    return LogNormal(logs.location, logs.scale)


def _exponential(sample: Sample) -> Exponential:
    return Exponential(0.0, _mean(sample))


def _power_law(sample: Sample) -> PowerLaw:
    low = float(sample.values[0])
    return PowerLaw(low, 1 + sample.n / float(sample.counts @ np.log(sample.values / low)))


def _gamma(sample: Sample) -> Gamma:
    """Newton on log(shape) - digamma(shape) = log(mean) - mean(log), from Minka's (2002) start."""
    mean = _mean(sample)
    gap = np.log(mean) - float(sample.counts @ np.log(sample.values)) / sample.n
    shape = (3 - gap + np.sqrt((gap - 3) ** 2 + 24 * gap)) / (12 * gap)
    for _ in range(50):
        step = (np.log(shape) - digamma(shape) - gap) / (1 / shape - polygamma(1, shape))
        shape = max(shape - step, shape / 2)
        if abs(step) <= 1e-13 * shape:
            break
    return Gamma(float(shape), mean / float(shape))


def _weibull(sample: Sample) -> Weibull:
    """Newton on the profile likelihood of the shape: E_w[log x] - 1/shape = mean log x, weights x^shape."""
    logs = np.log(sample.values)
    mean = float(sample.counts @ logs) / sample.n
    spread = float(np.sqrt(sample.counts @ (logs - mean) ** 2 / sample.n))
    away = logs - logs[-1]
    shape = 1.2 / spread
    for _ in range(100):
        weights = sample.counts * np.exp(shape * away)
        weights /= weights.sum()
        first = float(weights @ away)
        second = float(weights @ (away * away))
        score = first + float(logs[-1]) - 1 / shape - mean
        step = score / (second - first * first + 1 / shape**2)
        shape = max(shape - step, shape / 2)
        if abs(step) <= 1e-13 * shape:
            break
    log_scale = logs[-1] + np.log(float(sample.counts @ np.exp(shape * away)) / sample.n) / shape
    return Weibull(shape, float(np.exp(log_scale)))


# Estimate, and the number of parameters it took from the data.
WHOLE_FAMILIES: dict[str, tuple[Callable[[Sample], Family], int]] = {
    "uniform": (_uniform, 2),
    "normal": (_normal, 2),
    "gamma": (_gamma, 2),
    "cauchy": (_cauchy, 2),
    "weibull": (_weibull, 2),
    "lognormal": (_lognormal, 2),
    "power_law": (_power_law, 2),
    "exponential": (_exponential, 1),
}
_ANYWHERE = {"uniform", "normal", "cauchy", "exponential"}
