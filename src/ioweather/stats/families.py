"""Distribution families of response times: density, CDF, quantiles and sampling.

- Parameters are numbers, or arrays of one length: then each row is a distribution of its own and `at(rows)` selects
  some. So one formula serves a single fit and the search over a million candidate splits.
- Bounded families have a lower bound `low`: the tails beyond a pivot. They are truncated there, not shifted, and
  written in the excess ratio x/low, in parameters that stay finite where the usual ones diverge. On power-law data the
  bounded Weibull goes to shape 0 and the bounded LogNormal to log_mean -> -inf; both then *are* the power law
  (`collapsed`).
- `TruncatedHead` ends at the pivot and starts at 0, with the parameters of the truncated family; `Mixture` joins it
  with a tail to a proper distribution. don15 fits the head group with an unbounded Normal or Cauchy instead, whose
  distance is what the paper reports.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
from scipy.special import gammaincc, gammainccinv, gammaln, log_ndtr, ndtr, ndtri

from ioweather.core.frames import Floats

Real: TypeAlias = "float | Floats"
_DEEPEST = 690.0  # -log of the smallest probability asked for


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


@dataclass(frozen=True, eq=False)
class Family(ABC):
    """A distribution with parameters, which can be fitted by maximum likelihood."""

    name: ClassVar[str]
    __match_args__: ClassVar[tuple[str, ...]]  # their names

    @abstractmethod
    def cdf(self, x: Real) -> Floats:
        """P(T <= x) inside the support."""

    @abstractmethod
    def log_density(self, x: Real) -> Floats:
        """Logarithm of the density inside the support."""

    @property
    def parameters(self) -> Mapping[str, float]:
        return {name: float(getattr(self, name)) for name in self.__match_args__}

    def at(self, rows: Any) -> Self:
        """The distributions of these rows, where the parameters are arrays."""
        return type(self)(*[getattr(self, name)[rows] for name in self.__match_args__])

    def one(self, row: int) -> Self:
        return type(self)(*[float(getattr(self, name)[row]) for name in self.__match_args__])


@dataclass(frozen=True, eq=False)
class Normal(Family):
    name: ClassVar[str] = "normal"
    location: Real
    scale: Real

    def cdf(self, x: Real) -> Floats:
        return np.asarray(ndtr((np.asarray(x) - self.location) / self.scale))

    def log_density(self, x: Real) -> Floats:
        z = (np.asarray(x) - self.location) / self.scale
        return np.asarray(-0.5 * z * z - np.log(self.scale) - 0.5 * math.log(2 * math.pi))

    def quantile(self, p: Real) -> Floats:
        return np.asarray(self.location + self.scale * ndtri(p))


@dataclass(frozen=True, eq=False)
class Cauchy(Family):
    name: ClassVar[str] = "cauchy"
    location: Real
    scale: Real

    def cdf(self, x: Real) -> Floats:
        # atan2(1, -z)/pi is 1/2 + atan(z)/pi without its cancellation far to the left.
        return np.asarray(np.arctan2(1.0, (self.location - np.asarray(x)) / self.scale) / math.pi)

    def log_density(self, x: Real) -> Floats:
        z = (np.asarray(x) - self.location) / self.scale
        return np.asarray(-np.log1p(z * z) - np.log(math.pi * self.scale))

    def quantile(self, p: Real) -> Floats:
        return np.asarray(self.location - self.scale / np.tan(math.pi * np.asarray(p)))


# The bounds of the parameter spaces: beyond them the family equals the power law (Weibull, LogNormal),
# or is not a Gamma (shape > 0).
WEIBULL_SHAPE_MIN = 0.01
LOGNORMAL_OFFSET_MAX = 30.0
GAMMA_SHAPE_MIN = 1e-3
# Q(a, c) below this uses the continued fraction: the ratio of two underflows is NaN.
_TINY = 1e-250


@dataclass(frozen=True, eq=False)
class BoundedFamily(Family, Distribution):
    """Support (low, inf)."""

    low: Real

    @property
    def collapsed(self) -> bool:
        """Whether the fit has become the power law, so that the family's own name says nothing."""
        return False


@dataclass(frozen=True, eq=False)
class PowerLaw(BoundedFamily):
    """Density ~ x^-alpha (Clauset, Shalizi & Newman 2009, Eq. 2.2)."""

    name: ClassVar[str] = "power_law"
    alpha: Real

    def cdf(self, x: Real) -> Floats:
        return np.asarray(-np.expm1((1.0 - self.alpha) * np.log(np.asarray(x) / self.low)))

    def log_density(self, x: Real) -> Floats:
        slope = np.asarray(self.alpha)
        return np.asarray(np.log((slope - 1.0) / self.low) - slope * np.log(np.asarray(x) / self.low))

    def upper_quantile(self, q: Real) -> Floats:
        return np.asarray(self.low * np.power(q, 1.0 / (1.0 - np.asarray(self.alpha))))


@dataclass(frozen=True, eq=False)
class Exponential(BoundedFamily):
    """`scale` is the mean excess over `low`."""

    name: ClassVar[str] = "exponential"
    scale: Real

    def cdf(self, x: Real) -> Floats:
        return np.asarray(-np.expm1((self.low - np.asarray(x)) / self.scale))

    def log_density(self, x: Real) -> Floats:
        return np.asarray((self.low - np.asarray(x)) / self.scale - np.log(self.scale))

    def upper_quantile(self, q: Real) -> Floats:
        return np.asarray(self.low - self.scale * np.log(q))


@dataclass(frozen=True, eq=False)
class BoundedLogNormal(BoundedFamily):
    """`offset` = (log low - log_mean) / log_sd: the bound on the scale of the standard normal."""

    name: ClassVar[str] = "lognormal"
    offset: Real
    log_sd: Real

    def cdf(self, x: Real) -> Floats:
        z = np.log(np.asarray(x) / self.low) / self.log_sd
        return np.asarray(1 - ndtr(-(self.offset + z)) / ndtr(-np.asarray(self.offset)))

    def log_density(self, x: Real) -> Floats:
        z = self.offset + np.log(np.asarray(x) / self.low) / self.log_sd
        norm = log_ndtr(-np.asarray(self.offset)) + np.log(self.log_sd) + 0.5 * math.log(2 * math.pi)
        return np.asarray(-0.5 * z * z - norm - np.log(x))

    def upper_quantile(self, q: Real) -> Floats:
        z = -ndtri(np.asarray(q) * ndtr(-np.asarray(self.offset))) - self.offset
        return np.asarray(self.low * np.exp(self.log_sd * z))

    @property
    def collapsed(self) -> bool:
        return float(self.offset) >= LOGNORMAL_OFFSET_MAX * (1 - 1e-9)

    @property
    def parameters(self) -> Mapping[str, float]:
        log_mean = math.log(float(self.low)) - float(self.offset) * float(self.log_sd)
        return {"low": float(self.low), "log_mean": log_mean, "log_sd": float(self.log_sd)}


@dataclass(frozen=True, eq=False)
class BoundedWeibull(BoundedFamily):
    """Survival exp(-steepness * (y^shape - 1) / shape), y = x/low: the power law at shape 0, exponential at 1."""

    name: ClassVar[str] = "weibull"
    shape: Real
    steepness: Real

    def _hazard(self, x: Real) -> Floats:
        with np.errstate(over="ignore"):
            grown = np.expm1(self.shape * np.log(np.asarray(x) / self.low))
            return np.asarray(np.asarray(self.steepness) * grown / self.shape)

    def cdf(self, x: Real) -> Floats:
        return np.asarray(-np.expm1(-self._hazard(x)))

    def log_density(self, x: Real) -> Floats:
        y = np.log(np.asarray(x) / self.low)
        return np.asarray(np.log(np.asarray(self.steepness) / self.low) + (self.shape - 1.0) * y - self._hazard(x))

    def upper_quantile(self, q: Real) -> Floats:
        grown = np.log1p(-np.log(q) * self.shape / np.asarray(self.steepness)) / self.shape
        with np.errstate(over="ignore"):
            return np.asarray(self.low * np.exp(grown))

    @property
    def collapsed(self) -> bool:
        return float(self.shape) <= WEIBULL_SHAPE_MIN * (1 + 1e-9)

    @property
    def parameters(self) -> Mapping[str, float]:
        shape = float(self.shape)
        log_scale = math.log(float(self.low)) - math.log(float(self.steepness) / shape) / shape
        return {"low": float(self.low), "shape": shape, "scale": math.exp(min(log_scale, 709))}


@dataclass(frozen=True, eq=False)
class BoundedGamma(BoundedFamily):
    """`cut` = low / scale: the bound on the scale of the standard Gamma."""

    name: ClassVar[str] = "gamma"
    shape: Real
    cut: Real

    def cdf(self, x: Real) -> Floats:
        shape, cut, y = np.broadcast_arrays(self.shape, self.cut, np.asarray(x) / self.low)
        beyond = gammaincc(shape, cut)
        if (beyond >= _TINY).all():
            return np.asarray(1 - gammaincc(shape, cut * y) / beyond)
        return np.asarray(-np.expm1(log_upper_gamma(shape, cut * y) - log_upper_gamma(shape, cut)))

    def log_density(self, x: Real) -> Floats:
        y = np.asarray(x) / self.low
        shape, cut = np.asarray(self.shape), np.asarray(self.cut)
        norm = log_upper_gamma(shape, cut) - shape * np.log(cut) + np.log(self.low)
        return np.asarray((shape - 1.0) * np.log(y) - cut * y - norm)

    def upper_quantile(self, q: Real) -> Floats:
        shape, cut, wanted = np.broadcast_arrays(self.shape, self.cut, np.asarray(q, np.float64))
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
        return np.asarray(self.low * np.maximum(reached, cut) / cut)

    @property
    def parameters(self) -> Mapping[str, float]:
        return {"low": float(self.low), "shape": float(self.shape), "scale": float(self.low) / float(self.cut)}


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


@dataclass(frozen=True, eq=False)
class TruncatedHead(Family, Distribution):
    """`base` between 0 and `high`."""

    name: ClassVar[str] = "truncated_normal"
    base: Normal | Cauchy
    high: Real

    def at(self, rows: Any) -> Self:
        return type(self)(self.base.at(rows), np.asarray(self.high)[rows])

    def one(self, row: int) -> Self:
        return type(self)(self.base.one(row), float(np.asarray(self.high)[row]))

    @property
    def _ends(self) -> tuple[Floats, Floats, Floats]:
        """Return the CDF of the base at both ends, and the mass between. The mass has a floor, so that a base without
        mass there gets a large distance instead of NaN."""
        low, high = self.base.cdf(0.0), self.base.cdf(self.high)
        return low, high, np.maximum(high - low, 1e-300)

    def cdf(self, x: Real) -> Floats:
        low, _, mass = self._ends
        return np.clip((self.base.cdf(x) - low) / mass, 0.0, 1.0)

    def log_density(self, x: Real) -> Floats:
        return self.base.log_density(x) - np.log(self._ends[2])

    def upper_quantile(self, q: Real) -> Floats:
        _, high, mass = self._ends
        return np.clip(self.base.quantile(high - np.asarray(q) * mass), 0.0, self.high)

    @property
    def parameters(self) -> Mapping[str, float]:
        return {**self.base.parameters, "high": float(self.high)}


@dataclass(frozen=True, eq=False)
class Mixture(Family, Distribution):
    """`tail_share` of the times lie beyond the pivot and follow `tail`, the others follow `head`."""

    name: ClassVar[str] = "mixture"
    head: TruncatedHead
    tail: BoundedFamily
    tail_share: float

    @property
    def pivot(self) -> float:
        return float(self.tail.low)

    def cdf(self, x: Real) -> Floats:
        times, share = np.atleast_1d(np.asarray(x, np.float64)), self.tail_share
        result = (1 - share) * self.head.cdf(times)
        far = times > self.pivot
        result[far] = (1 - share) + share * self.tail.cdf(times[far])
        return result.reshape(np.shape(x))

    def log_density(self, x: Real) -> Floats:
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
        base = {f"head_{name}": value for name, value in self.head.base.parameters.items()}
        tail = {f"tail_{name}": value for name, value in self.tail.parameters.items() if name != "low"}
        return {"pivot": self.pivot, "tail_share": self.tail_share, **base, **tail}
