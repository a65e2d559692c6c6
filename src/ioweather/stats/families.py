"""Distribution families of response times: density, CDF, quantiles and sampling.

- Parameters are numbers, or arrays of one length: then each row is a law of its own and `at(rows)` selects some. So one
  formula serves a single fit and the search over a million candidate splits.
- Tails have a lower bound `low`, the pivot. They are truncated there, not shifted, and written in the excess ratio
  x/low, in parameters that stay finite where the usual ones diverge. On power-law data the Weibull goes to shape 0 and
  the LogNormal to log_mean -> -inf; both then *are* the power law (`collapsed`).
- Truncated heads end at the pivot and start at 0; `Mixture` joins one with a tail to a proper distribution. don15 fits
  the head group with an unbounded Normal or Cauchy instead, whose distance is what the paper reports.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from scipy.special import gammaincc, gammainccinv, gammaln, log_ndtr, ndtr, ndtri

from ioweather.core.frames import Floats

Real: TypeAlias = "float | Floats"
_DEEPEST = 690.0  # -log of the smallest probability asked for
# The bounds of the parameter spaces: beyond them the family equals the power law (Weibull, LogNormal), or is no Gamma
# (shape > 0).
WEIBULL_SHAPE_MIN = 0.01
LOGNORMAL_OFFSET_MAX = 30.0
GAMMA_SHAPE_MIN = 1e-3
# Q(a, c) below this uses the continued fraction: the ratio of two underflows is NaN.
_TINY = 1e-250


class Distribution(ABC):
    """A distribution of times, known by its quantiles."""

    @abstractmethod
    def upper_quantile(self, q: Real) -> Floats:
        """The x with P(T > x) = q, accurate for small q."""

    def quantile(self, p: Real) -> Floats:
        return self.upper_quantile(1.0 - np.asarray(p))

    def sample(self, size: int, rng: np.random.Generator) -> Floats:
        return self.upper_quantile(1.0 - rng.random(size))

    @property
    def mean(self) -> float:
        """Expectation: the integral of Q(e^-w) e^-w over w = -log(survival), with a geometric remainder.

        Infinite where the integrand does not fall any more: a power-law tail with alpha <= 2.
        """
        nodes, weights = np.polynomial.legendre.leggauss(32)
        # Fine where the head is, and as deep as doubles go.
        edges = np.concatenate([[0.0], np.geomspace(1e-6, 40, 60), np.linspace(40, _DEEPEST, 60)[1:]])
        width = np.diff(edges)[:, None]
        w = edges[:-1, None] + width * (nodes + 1) / 2
        with np.errstate(over="ignore"):
            quantiles = self.upper_quantile(np.exp(-w))
        if np.isinf(quantiles).any():
            return math.inf
        log_integrand = np.log(np.maximum(quantiles, 1e-300)) - w
        total = float((np.exp(log_integrand) * weights * width / 2).sum())
        rate = float(log_integrand[-1, 0] - log_integrand[-1, -1]) / float(w[-1, -1] - w[-1, 0])
        return total + math.exp(float(log_integrand[-1, -1])) / rate if rate > 1e-9 else math.inf


def log_upper_gamma(shape: Real, x: Real) -> Floats:
    """log Gamma(shape, x), also where Q(shape, x) underflows: Legendre's continued fraction, DLMF 8.9.2."""
    a, x = np.broadcast_arrays(np.asarray(shape, np.float64), np.asarray(x, np.float64))
    ratio = np.asarray(gammaincc(a, x))
    deep = ratio < _TINY
    with np.errstate(divide="ignore"):
        result = np.asarray(np.log(ratio) + gammaln(a))
    if deep.any():
        a, x = a[deep], x[deep]
        fraction = np.zeros_like(x)
        for k in range(60, 0, -1):
            fraction = k * (k - a) / (x + 2 * k + 1 - a - fraction)
        result[deep] = a * np.log(x) - x - np.log(x + 1 - a - fraction)
    return result


def _lognormal_log_density(x: Floats, low: Floats, offset: Floats, log_sd: Floats) -> Floats:
    z = offset + np.log(x / low) / log_sd
    norm = log_ndtr(-offset) + np.log(log_sd) + 0.5 * math.log(2 * math.pi)
    return np.asarray(-0.5 * z * z - norm - np.log(x))


def _weibull_hazard(x: Floats, low: Floats, shape: Floats, steepness: Floats) -> Floats:
    with np.errstate(over="ignore"):
        return np.asarray(steepness * np.expm1(shape * np.log(x / low)) / shape)


def _weibull_upper_quantile(q: Floats, low: Floats, shape: Floats, steepness: Floats) -> Floats:
    with np.errstate(over="ignore"):
        return np.asarray(low * np.exp(np.log1p(-np.log(q) * shape / steepness) / shape))


def _gamma_cdf(x: Floats, low: Floats, shape: Floats, cut: Floats) -> Floats:
    shape, cut, y = np.broadcast_arrays(shape, cut, x / low)
    beyond = gammaincc(shape, cut)
    if (beyond >= _TINY).all():
        return np.asarray(1 - gammaincc(shape, cut * y) / beyond)
    return np.asarray(-np.expm1(log_upper_gamma(shape, cut * y) - log_upper_gamma(shape, cut)))


def _gamma_log_density(x: Floats, low: Floats, shape: Floats, cut: Floats) -> Floats:
    y, norm = x / low, log_upper_gamma(shape, cut) - shape * np.log(cut) + np.log(low)
    return np.asarray((shape - 1.0) * np.log(y) - cut * y - norm)


def _gamma_upper_quantile(q: Floats, low: Floats, shape: Floats, cut: Floats) -> Floats:
    """Invert the incomplete Gamma function; where it underflows, its logarithm."""
    shape, cut, wanted = np.broadcast_arrays(shape, cut, np.asarray(q, np.float64))
    below = wanted * gammaincc(shape, cut)
    reached = np.asarray(gammainccinv(shape, below))
    deep = below < _TINY
    if deep.any():
        # Newton on log Gamma(shape, t), which falls and is concave, from a point beyond which less than `wanted` is
        # left (Laurent & Massart 2000): from the right it comes down without a miss.
        a, c, log_wanted = shape[deep], cut[deep], np.log(wanted[deep])
        target, peak = log_upper_gamma(a, c) + log_wanted, np.maximum(a, c)
        t = peak + np.sqrt(-4 * peak * log_wanted) - 2 * log_wanted
        for _ in range(50):
            beyond = log_upper_gamma(a, t)
            t = np.maximum(t + (beyond - target) / np.exp((a - 1.0) * np.log(t) - t - beyond), c)
        reached[deep] = t
    return np.asarray(low * np.maximum(reached, cut) / cut)


class _Family(NamedTuple):
    """Names of the parameters, and functions of a value (or a probability) and of the parameters in that order."""

    parameters: tuple[str, ...]
    cdf: Callable[..., Any]
    log_density: Callable[..., Any]
    upper_quantile: Callable[..., Any] | None = None


_NORMAL = _Family(
    ("location", "scale"),
    cdf=lambda x, location, scale: ndtr((x - location) / scale),
    log_density=lambda x, location, scale: (
        -0.5 * ((x - location) / scale) ** 2 - np.log(scale) - 0.5 * math.log(2 * math.pi)
    ),
)
_CAUCHY = _Family(
    ("location", "scale"),
    # atan2(1, -z)/pi is 1/2 + atan(z)/pi without its cancellation far to the left.
    cdf=lambda x, location, scale: np.arctan2(1.0, (location - x) / scale) / math.pi,
    log_density=lambda x, location, scale: -np.log1p(((x - location) / scale) ** 2) - np.log(math.pi * scale),
)


def _truncated(base: _Family, quantile: Callable[[Any, Any, Any], Any]) -> _Family:
    """The family between 0 and `high`; `quantile` is that of the base."""

    def ends(location: Floats, scale: Floats, high: Floats) -> tuple[Any, Any, Any]:
        """CDF of the base at both ends, and the mass between: with a floor, so that a base without mass there has a
        large distance instead of NaN."""
        low_share, high_share = base.cdf(0.0, location, scale), base.cdf(high, location, scale)
        return low_share, high_share, np.maximum(high_share - low_share, 1e-300)

    def cdf(x: Floats, location: Floats, scale: Floats, high: Floats) -> Floats:
        low_share, _, mass = ends(location, scale, high)
        return np.asarray(np.clip((base.cdf(x, location, scale) - low_share) / mass, 0.0, 1.0))

    def log_density(x: Floats, location: Floats, scale: Floats, high: Floats) -> Any:
        return base.log_density(x, location, scale) - np.log(ends(location, scale, high)[2])

    def upper_quantile(q: Floats, location: Floats, scale: Floats, high: Floats) -> Floats:
        _, high_share, mass = ends(location, scale, high)
        return np.asarray(np.clip(quantile(high_share - q * mass, location, scale), 0.0, high))

    return _Family((*base.parameters, "high"), cdf, log_density, upper_quantile)


# Tails: power law with density ~ x^-alpha (Clauset, Shalizi & Newman 2009, Eq. 2.2); `scale` of the exponential is the
# mean excess over `low`; `offset` of the lognormal is (log low - log_mean) / log_sd, the bound on the scale of the
# standard normal; survival of the weibull is exp(-steepness * ((x/low)^shape - 1) / shape), the power law at shape 0
# and the exponential at 1; `cut` of the gamma is low / scale.
_FAMILIES: Final = {
    "normal": _NORMAL,
    "cauchy": _CAUCHY,
    "truncated_normal": _truncated(_NORMAL, lambda p, location, scale: location + scale * ndtri(p)),
    "truncated_cauchy": _truncated(_CAUCHY, lambda p, location, scale: location - scale / np.tan(math.pi * p)),
    "power_law": _Family(
        ("low", "alpha"),
        cdf=lambda x, low, alpha: -np.expm1((1.0 - alpha) * np.log(x / low)),
        log_density=lambda x, low, alpha: np.log((alpha - 1.0) / low) - alpha * np.log(x / low),
        upper_quantile=lambda q, low, alpha: low * np.power(q, 1.0 / (1.0 - alpha)),
    ),
    "exponential": _Family(
        ("low", "scale"),
        cdf=lambda x, low, scale: -np.expm1((low - x) / scale),
        log_density=lambda x, low, scale: (low - x) / scale - np.log(scale),
        upper_quantile=lambda q, low, scale: low - scale * np.log(q),
    ),
    "lognormal": _Family(
        ("low", "offset", "log_sd"),
        cdf=lambda x, low, offset, log_sd: 1 - ndtr(-(offset + np.log(x / low) / log_sd)) / ndtr(-offset),
        log_density=_lognormal_log_density,
        upper_quantile=lambda q, low, offset, log_sd: low * np.exp(log_sd * (-ndtri(q * ndtr(-offset)) - offset)),
    ),
    "weibull": _Family(
        ("low", "shape", "steepness"),
        cdf=lambda x, *values: -np.expm1(-_weibull_hazard(x, *values)),
        log_density=lambda x, low, shape, steepness: (
            np.log(steepness / low) + (shape - 1.0) * np.log(x / low) - _weibull_hazard(x, low, shape, steepness)
        ),
        upper_quantile=_weibull_upper_quantile,
    ),
    "gamma": _Family(("low", "shape", "cut"), _gamma_cdf, _gamma_log_density, _gamma_upper_quantile),
}


class Law(Distribution):
    """A distribution of a named family, with values of its parameters: `Law("power_law", low, alpha)`.

    The families and their parameters are normal and cauchy (location, scale), truncated_normal and truncated_cauchy
    (location, scale, high), and the tails beyond `low`: power_law (low, alpha), exponential (low, scale), lognormal
    (low, offset, log_sd), weibull (low, shape, steepness), gamma (low, shape, cut).
    """

    def __init__(self, name: str, *values: Real) -> None:
        self.name = name
        self._values = tuple(np.asarray(value, np.float64) for value in values)

    def __getitem__(self, parameter: str) -> Floats:
        return self._values[_FAMILIES[self.name].parameters.index(parameter)]

    def at(self, rows: Any) -> Law:
        """The laws of these rows, or of one row, where the parameters are arrays."""
        return Law(self.name, *(value[rows] for value in self._values))

    def cdf(self, x: Real) -> Floats:
        """P(T <= x) inside the support."""
        return np.asarray(_FAMILIES[self.name].cdf(np.asarray(x), *self._values))

    def log_density(self, x: Real) -> Floats:
        """Logarithm of the density inside the support."""
        return np.asarray(_FAMILIES[self.name].log_density(np.asarray(x), *self._values))

    def upper_quantile(self, q: Real) -> Floats:
        function = _FAMILIES[self.name].upper_quantile
        if function is None:
            raise NotImplementedError(f"the unbounded {self.name} has no quantile function")
        return np.asarray(function(np.asarray(q), *self._values))

    @property
    def collapsed(self) -> bool:
        """Whether the fit has become the power law, so that the family's own name says nothing."""
        if self.name == "lognormal":
            return float(self["offset"]) >= LOGNORMAL_OFFSET_MAX * (1 - 1e-9)
        return self.name == "weibull" and float(self["shape"]) <= WEIBULL_SHAPE_MIN * (1 + 1e-9)

    @property
    def parameters(self) -> Mapping[str, float]:
        """The parameters of one law, as textbooks have them."""
        named = {name: float(self[name]) for name in _FAMILIES[self.name].parameters}
        low = named.get("low", 0.0)
        if self.name == "lognormal":
            log_mean, log_sd = math.log(low) - named["offset"] * named["log_sd"], named["log_sd"]
            return {"low": low, "log_mean": log_mean, "log_sd": log_sd}
        if self.name == "weibull":
            log_scale = math.log(low) - math.log(named["steepness"] / named["shape"]) / named["shape"]
            return {"low": low, "shape": named["shape"], "scale": math.exp(min(log_scale, 709))}
        if self.name == "gamma":
            return {"low": low, "shape": named["shape"], "scale": low / named["cut"]}
        return named


@dataclass(frozen=True, eq=False)
class Mixture(Distribution):
    """`tail_share` of the times are beyond the pivot and follow `tail`; the others follow the truncated `head`."""

    head: Law
    tail: Law
    tail_share: float

    @property
    def pivot(self) -> float:
        return float(self.tail["low"])

    def cdf(self, x: Real) -> Floats:
        """P(T <= x)."""
        times, share = np.atleast_1d(np.asarray(x, np.float64)), self.tail_share
        result = (1 - share) * self.head.cdf(times)
        far = times > self.pivot
        result[far] = (1 - share) + share * self.tail.cdf(times[far])
        return result.reshape(np.shape(x))

    def log_density(self, x: Real) -> Floats:
        """Logarithm of the density."""
        times = np.atleast_1d(np.asarray(x, np.float64))
        result = np.asarray(np.log1p(-self.tail_share) + self.head.log_density(times))
        far = times > self.pivot
        result[far] = np.log(self.tail_share) + self.tail.log_density(times[far])
        return result.reshape(np.shape(x))

    def upper_quantile(self, q: Real) -> Floats:
        wanted = np.atleast_1d(np.asarray(q, np.float64))
        result = np.empty(wanted.shape)
        far = wanted < self.tail_share
        result[far] = self.tail.upper_quantile(wanted[far] / self.tail_share)
        result[~far] = self.head.upper_quantile((wanted[~far] - self.tail_share) / (1 - self.tail_share))
        return result.reshape(np.shape(q))

    @property
    def parameters(self) -> Mapping[str, float]:
        """Pivot, share and the parameters of both parts."""
        head = {f"head_{name}": value for name, value in self.head.parameters.items() if name != "high"}
        tail = {f"tail_{name}": value for name, value in self.tail.parameters.items() if name != "low"}
        return {"pivot": self.pivot, "tail_share": self.tail_share, **head, **tail}
