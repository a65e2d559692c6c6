"""Distributions as data: what every family can answer, and the families of whole samples and of heads.

The parameters are numbers, or arrays of one length: then each row is a distribution of its own, and `at(rows)` picks
some. That is how one formula serves both a single fit and the search over a million candidate splits.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
from scipy.special import gammaincc, gammainccinv, gammaln, ndtr, ndtri, xlogy

from ioweather.core.arrays import Floats

Real: TypeAlias = "float | Floats"


@dataclass(frozen=True, eq=False)
class Distribution(ABC):
    """A distribution of times."""

    name: ClassVar[str]
    # Whether P(T < x) = P(T <= x) everywhere; else `cdf_before` is its own.
    continuous: ClassVar[bool] = True

    @abstractmethod
    def survival(self, x: Real) -> Floats:
        """P(T > x), accurate where it is small."""

    @abstractmethod
    def upper_quantile(self, q: Real) -> Floats:
        """The x with P(T > x) = q, accurate for small q."""

    @property
    @abstractmethod
    def mean(self) -> float:
        """Expectation; infinite where it does not exist as a number."""

    def cdf(self, x: Real) -> Floats:
        return np.asarray(1.0 - self.survival(x))

    def cdf_before(self, x: Real) -> Floats:
        """P(T < x)."""
        return self.cdf(x)

    def quantile(self, p: Real) -> Floats:
        return self.upper_quantile(1.0 - np.asarray(p))

    def sample(self, size: int, rng: np.random.Generator) -> Floats:
        return self.upper_quantile(1.0 - rng.random(size))


@dataclass(frozen=True, eq=False)
class Family(Distribution):
    """A distribution with parameters, which can be fitted by maximum likelihood."""

    __match_args__: ClassVar[tuple[str, ...]]  # their names

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
class Uniform(Family):
    name: ClassVar[str] = "uniform"
    low: Real
    high: Real

    def survival(self, x: Real) -> Floats:
        return np.clip((self.high - np.asarray(x)) / (self.high - self.low), 0.0, 1.0)

    def log_density(self, x: Real) -> Floats:
        return np.full(np.shape(x), -np.log(self.high - self.low))

    def upper_quantile(self, q: Real) -> Floats:
        return np.asarray(self.high - np.asarray(q) * (self.high - self.low))

    @property
    def mean(self) -> float:
        return float((self.low + self.high) / 2)


@dataclass(frozen=True, eq=False)
class Normal(Family):
    name: ClassVar[str] = "normal"
    location: Real
    scale: Real

    def cdf(self, x: Real) -> Floats:
        return np.asarray(ndtr((np.asarray(x) - self.location) / self.scale))

    def survival(self, x: Real) -> Floats:
        return np.asarray(ndtr((self.location - np.asarray(x)) / self.scale))

    def log_density(self, x: Real) -> Floats:
        z = (np.asarray(x) - self.location) / self.scale
        return np.asarray(-0.5 * z * z - np.log(self.scale) - 0.5 * math.log(2 * math.pi))

    def upper_quantile(self, q: Real) -> Floats:
        return np.asarray(self.location - self.scale * ndtri(q))

    def quantile(self, p: Real) -> Floats:
        return np.asarray(self.location + self.scale * ndtri(p))

    @property
    def mean(self) -> float:
        return float(self.location)

    def mean_between(self, low: float, high: float) -> float:
        mass = float(self.cdf(high) - self.cdf(low))
        falls = np.exp(self.log_density(low)) - np.exp(self.log_density(high))
        return float(self.location + np.square(self.scale) * falls / mass)


@dataclass(frozen=True, eq=False)
class Cauchy(Family):
    """Its mean does not exist: NaN."""

    name: ClassVar[str] = "cauchy"
    location: Real
    scale: Real

    def cdf(self, x: Real) -> Floats:
        return self._below((np.asarray(x) - self.location) / self.scale)

    def survival(self, x: Real) -> Floats:
        return self._below((self.location - np.asarray(x)) / self.scale)

    @staticmethod
    def _below(z: Floats) -> Floats:
        # atan2(1, -z)/pi is 1/2 + atan(z)/pi without its cancellation far to the left.
        return np.asarray(np.arctan2(1.0, -z) / math.pi)

    def log_density(self, x: Real) -> Floats:
        z = (np.asarray(x) - self.location) / self.scale
        return np.asarray(-np.log1p(z * z) - np.log(math.pi * self.scale))

    def upper_quantile(self, q: Real) -> Floats:
        return np.asarray(self.location + self.scale / np.tan(math.pi * np.asarray(q)))

    def quantile(self, p: Real) -> Floats:
        return np.asarray(self.location - self.scale / np.tan(math.pi * np.asarray(p)))

    @property
    def mean(self) -> float:
        return math.nan

    def mean_between(self, low: float, high: float) -> float:
        """Finite, because the interval is."""
        mass = float(self.cdf(high) - self.cdf(low))
        a, b = (low - self.location) / self.scale, (high - self.location) / self.scale
        return float(self.location + self.scale * np.log((1 + b * b) / (1 + a * a)) / (2 * math.pi * mass))


@dataclass(frozen=True, eq=False)
class LogNormal(Family):
    name: ClassVar[str] = "lognormal"
    log_mean: Real
    log_sd: Real

    def survival(self, x: Real) -> Floats:
        return np.asarray(ndtr((self.log_mean - np.log(x)) / self.log_sd))

    def log_density(self, x: Real) -> Floats:
        return Normal(self.log_mean, self.log_sd).log_density(np.log(x)) - np.log(x)

    def upper_quantile(self, q: Real) -> Floats:
        return np.exp(self.log_mean - self.log_sd * ndtri(q))

    @property
    def mean(self) -> float:
        return float(np.exp(self.log_mean + np.square(self.log_sd) / 2))


@dataclass(frozen=True, eq=False)
class Weibull(Family):
    name: ClassVar[str] = "weibull"
    shape: Real
    scale: Real

    def survival(self, x: Real) -> Floats:
        return np.exp(-np.power(np.asarray(x) / self.scale, self.shape))

    def log_density(self, x: Real) -> Floats:
        y = np.log(x) - np.log(self.scale)
        return np.log(self.shape) - np.log(x) + self.shape * y - np.exp(self.shape * y)

    def upper_quantile(self, q: Real) -> Floats:
        return np.asarray(self.scale * np.power(-np.log(q), 1.0 / np.asarray(self.shape)))

    @property
    def mean(self) -> float:
        return float(self.scale * np.exp(gammaln(1 + 1 / self.shape)))


@dataclass(frozen=True, eq=False)
class Gamma(Family):
    name: ClassVar[str] = "gamma"
    shape: Real
    scale: Real

    def survival(self, x: Real) -> Floats:
        return np.asarray(gammaincc(self.shape, np.asarray(x) / self.scale))

    def log_density(self, x: Real) -> Floats:
        y = np.asarray(x) / self.scale
        return np.asarray(xlogy(np.asarray(self.shape) - 1, y) - y - gammaln(self.shape) - np.log(self.scale))

    def upper_quantile(self, q: Real) -> Floats:
        return np.asarray(self.scale * gammainccinv(self.shape, q))

    @property
    def mean(self) -> float:
        return float(self.shape * self.scale)
