"""The power-law fit of Clauset, Shalizi & Newman (SIAM Review 51, 2009): xmin, alpha, and whether to believe them.

xmin is the value whose tail, fitted by maximum likelihood, has the least Kolmogorov-Smirnov distance. The package
`powerlaw` is the usual implementation; to get its results say ecdf="left" (its ECDF is taken before each jump only)
and minimum_distinct=2 (version 1.5) or 3 (version 2, which also caps alpha at 3 unless told otherwise).
For integers (section 2.1) the Hurwitz zeta function stands in place of powers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import erfc, zeta

from ioweather.core.arrays import Floats, Indices
from ioweather.stats.tails.bounded import BoundedFamily, PowerLaw
from ioweather.stats.tails.boundedfit import (
    fit_exponential_tails,
    fit_gamma_tails,
    fit_lognormal_tails,
    fit_power_law_tails,
    fit_weibull_tail,
    tail_sums,
)
from ioweather.stats.tails.families import Real
from ioweather.stats.tails.gaps import Ecdf, Group, least_gap
from ioweather.stats.tails.sample import Sample, sample_of

_ALPHA_MIN, _ALPHA_MAX = 1.0 + 1e-6, 60.0
_DIRECT_TERMS = 20


@dataclass(frozen=True, eq=False)
class DiscretePowerLaw(BoundedFamily):
    """P(X = x) ~ x^-alpha for the integers x >= low."""

    name: ClassVar[str] = "discrete_power_law"
    continuous: ClassVar[bool] = False
    alpha: Real

    def survival(self, x: Real) -> Floats:
        return np.asarray(zeta(self.alpha, np.floor(x) + 1.0) / zeta(self.alpha, self.low))

    def cdf_before(self, x: Real) -> Floats:
        return np.asarray(1.0 - zeta(self.alpha, np.ceil(x)) / zeta(self.alpha, self.low))

    def log_density(self, x: Real) -> Floats:
        return np.asarray(-np.asarray(self.alpha) * np.log(x) - np.log(zeta(self.alpha, self.low)))

    def upper_quantile(self, q: Real) -> Floats:
        """The smallest x with P(X > x) <= q: doubling, then bisection (appendix D)."""
        wanted = np.atleast_1d(np.asarray(q, np.float64))
        low = np.full(wanted.shape, float(self.low) - 1.0)
        high = np.full(wanted.shape, float(self.low))
        while (above := self.survival(high) > wanted).any():
            low, high = np.where(above, high, low), np.where(above, 2 * high, high)
        while (high - low > 1).any():
            middle = np.floor((low + high) / 2)
            above = self.survival(middle) > wanted
            low, high = np.where(above, middle, low), np.where(above, high, middle)
        return high.reshape(np.shape(q))

    @property
    def mean(self) -> float:
        alpha, low = float(self.alpha), float(self.low)
        return float(zeta(alpha - 1, low) / zeta(alpha, low)) if alpha > 2 else np.inf


def fit_discrete_tails(low: Floats, mean_log: Floats) -> DiscretePowerLaw:
    """Exact maximum likelihood, -zeta'(alpha, low)/zeta(alpha, low) = mean log x (Eq. 3.5), by Newton for all rows."""
    # Eq. 3.7 is a good start, not an answer: it is 1% off at low = 6.
    alpha = np.clip(1.0 + 1.0 / (mean_log - np.log(low - 0.5)), 1.01, _ALPHA_MAX / 2)
    for _ in range(100):
        gap = _log_zeta_slope(alpha, low) + mean_log
        step = np.clip(-gap / log_zeta_curvature(alpha, low), -0.5 * (alpha - 1.0), 2.0)
        alpha = np.clip(alpha + step, _ALPHA_MIN, _ALPHA_MAX)
        if np.all(np.abs(step) <= 1e-11 * alpha):
            break
    return DiscretePowerLaw(low, alpha)


def log_zeta_curvature(alpha: Real, low: Real) -> Floats:
    """Second derivative of log zeta in alpha: the Fisher information of one observation (Eq. 3.6)."""
    alpha = np.asarray(alpha, np.float64)
    width = 1e-4 * (alpha - 1.0)
    return (_log_zeta_slope(alpha + width, low) - _log_zeta_slope(alpha - width, low)) / (2 * width)


def _log_zeta_slope(alpha: Floats, low: Real) -> Floats:
    """d log zeta(alpha, low) / d alpha, by a complex step through the Euler-Maclaurin sum (DLMF 25.11.5)."""
    tiny = 1e-100
    s = np.asarray(alpha) + 1j * tiny
    q = np.asarray(low, np.float64)
    total = np.zeros(np.broadcast_shapes(s.shape, q.shape), np.complex128)
    for k in range(_DIRECT_TERMS):
        total += (q + k) ** -s
    a = q + _DIRECT_TERMS
    last = a**-s
    rising = s * (s + 1) * (s + 2)
    total += last * (a / (s - 1) + 0.5 + s / (12 * a) - rising / (720 * a**3))
    total += last * rising * (s + 3) * (s + 4) / (30240 * a**5)
    return np.asarray(np.imag(np.log(total)) / tiny)


Alternative = Literal["exponential", "lognormal", "weibull", "gamma"]
ALTERNATIVES: tuple[Alternative, ...] = ("exponential", "lognormal", "weibull", "gamma")


@dataclass(frozen=True)
class PowerLawFit:
    """`alpha_error` is one standard error; `ks` the distance under the named ECDF; `searched`: xmin was not given."""

    xmin: float
    alpha: float
    alpha_error: float
    ks: float
    n: int
    n_tail: int
    ecdf: Ecdf
    discrete: bool
    searched: bool
    minimum_distinct: int

    @property
    def distribution(self) -> PowerLaw | DiscretePowerLaw:
        return (DiscretePowerLaw if self.discrete else PowerLaw)(self.xmin, self.alpha)


@dataclass(frozen=True)
class LikelihoodRatio:
    """Vuong's test of the power law against another family on the same tail.

    `ratio` > 0 speaks for the power law; `p_value` is the chance of a ratio as far from 0 were both equally far from
    the truth. `favours` is None where p > .1, or where the alternative has become the power law itself.
    """

    alternative: str
    ratio: float
    normalised: float
    p_value: float
    favours: str | None
    fitted: BoundedFamily


def fit_power_law(
    values: ArrayLike,
    *,
    discrete: bool = False,
    xmin: float | None = None,
    ecdf: Ecdf = "both",
    minimum_distinct: int = 3,
) -> PowerLawFit:
    """Fit the upper tail of `values`; with `xmin` given only alpha is fitted. Zeros never belong to a power law."""
    return _fit(_checked(values, discrete), discrete, xmin, ecdf, minimum_distinct)


def _checked(values: ArrayLike, discrete: bool) -> Sample:
    sample = sample_of(values)
    if discrete and (sample.values != np.floor(sample.values)).any():
        raise ValueError("a discrete power law is one of whole numbers; these have fractions")
    return sample


def _fit(sample: Sample, discrete: bool, xmin: float | None, ecdf: Ecdf, minimum_distinct: int) -> PowerLawFit:
    if xmin is None:
        first = np.arange(sample.distinct - minimum_distinct + 1)
    else:
        first = np.atleast_1d(np.searchsorted(sample.values, xmin))
    first = first[(first <= sample.distinct - 2)]
    first = first[sample.values[first] > 0]
    if not first.size:
        raise ValueError(f"no tail of {minimum_distinct} distinct positive values in {sample.n} values")
    group = _tails(sample, first, discrete, ecdf, xmin)
    least = least_gap([group], lambda rows, gaps: gaps[0])
    fitted = group.fitted.one(least.row)
    assert isinstance(fitted, (PowerLaw, DiscretePowerLaw))
    alpha = float(fitted.alpha)
    n_tail = int(sample.n - sample.below[first[least.row]])
    # Eqs. 3.2 and 3.6.
    spread = 1 / np.sqrt(log_zeta_curvature(alpha, fitted.low)) if discrete else alpha - 1
    return PowerLawFit(
        xmin=float(fitted.low),
        alpha=alpha,
        alpha_error=float(spread / np.sqrt(n_tail)),
        ks=least.value,
        n=sample.n,
        n_tail=n_tail,
        ecdf=ecdf,
        discrete=discrete,
        searched=xmin is None,
        minimum_distinct=minimum_distinct,
    )


def _tails(sample: Sample, first: Indices, discrete: bool, ecdf: Ecdf, xmin: float | None) -> Group:
    low = sample.values[first] if xmin is None else np.array([float(xmin)])
    sums = tail_sums(sample, low, first)
    fitted = fit_discrete_tails(low, sums.log + np.log(low)) if discrete else fit_power_law_tails(sums)
    return Group(sample, first, np.full_like(first, sample.distinct), fitted, ecdf)


def power_law_p_value(values: ArrayLike, fit: PowerLawFit, *, replicates: int = 1000, seed: int = 0) -> float:
    """Goodness of fit by the semi-parametric bootstrap (section 4.1): p <= .1 rules the power law out.

    Each replicate draws the tail from the fit and the rest from the data below xmin, and finds xmin as the fit did.
    The standard error of p is at most 0.5 / sqrt(replicates). With a given xmin p is uniform under the null; with a
    searched one it is conservative, because the search has chosen where the data fit best by luck.
    """
    sample = _checked(values, fit.discrete)
    ordered = sample.expanded()
    body = ordered[: sample.n - fit.n_tail]
    xmin = None if fit.searched else fit.xmin
    rng = np.random.default_rng(seed)
    worse = 0
    for _ in range(replicates):
        in_tail = int(rng.binomial(sample.n, fit.n_tail / sample.n)) if body.size else sample.n
        drawn = np.concatenate([rng.choice(body, sample.n - in_tail), fit.distribution.sample(in_tail, rng)])
        again = _fit(sample_of(drawn), fit.discrete, xmin, fit.ecdf, fit.minimum_distinct)
        worse += again.ks >= fit.ks
    return worse / replicates


def compare_power_law(
    values: ArrayLike, fit: PowerLawFit, alternatives: Sequence[Alternative] = ALTERNATIVES
) -> tuple[LikelihoodRatio, ...]:
    """The tail beyond xmin under other families, all bounded at xmin (section 5; Vuong 1989). Continuous data only."""
    if fit.discrete:
        raise ValueError("alternatives are compared on continuous data only: their discrete forms have no closed sums")
    sample = sample_of(values)
    first = int(np.searchsorted(sample.values, fit.xmin))
    tail = sample.part(first, sample.distinct)
    law = PowerLaw(fit.xmin, fit.alpha)
    return tuple(_vuong(tail, law, _fit_alternative(tail, fit.xmin, name)) for name in alternatives)


def _fit_alternative(tail: Sample, low: float, name: Alternative) -> BoundedFamily:
    sums = tail_sums(tail, np.array([low]), np.array([0]))
    match name:
        case "exponential":
            return fit_exponential_tails(sums).one(0)
        case "lognormal":
            return fit_lognormal_tails(sums).one(0)
        case "gamma":
            return fit_gamma_tails(sums).one(0)
        case "weibull":
            return fit_weibull_tail(low, tail.values, tail.counts)


def _vuong(tail: Sample, law: PowerLaw, other: BoundedFamily) -> LikelihoodRatio:
    difference = law.log_density(tail.values) - other.log_density(tail.values)
    ratio = float(tail.counts @ difference)
    variance = float(tail.counts @ (difference - ratio / tail.n) ** 2) / tail.n
    spread = float(np.sqrt(tail.n * variance))
    p_value = float(erfc(abs(ratio) / (spread * np.sqrt(2)))) if spread > 0 else 1.0
    winner = "power_law" if ratio > 0 else other.name
    favours = None if p_value > 0.1 or other.collapsed else winner
    return LikelihoodRatio(other.name, ratio, ratio / spread if spread > 0 else 0.0, p_value, favours, other)
