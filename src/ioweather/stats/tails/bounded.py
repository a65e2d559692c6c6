"""Families with a lower bound `low`: the tails beyond a pivot. Truncated there, not shifted: each keeps its own shape.

They are written in the excess ratio x/low, in the parameters that stay finite where the usual ones run away: on
power-law data the bounded Weibull goes to shape 0 and the bounded LogNormal to log_mean -> -inf, and both then *are*
the power law (`collapsed`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import gammaincc, gammainccinv, gammaln, log_ndtr, ndtr, ndtri

from ioweather.core.arrays import Floats
from ioweather.stats.tails.families import Family, Real

# The bounds of the parameter spaces: beyond them the family cannot be told from the power law (Weibull, LogNormal),
# or is no Gamma any more (shape > 0).
WEIBULL_SHAPE_MIN = 0.01
LOGNORMAL_OFFSET_MAX = 30.0
GAMMA_SHAPE_MIN = 1e-3
# Q(a, c) below this is taken by its continued fraction: the ratio of two underflows is no number.
_TINY = 1e-250


@dataclass(frozen=True, eq=False)
class BoundedFamily(Family):
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

    def survival(self, x: Real) -> Floats:
        return np.asarray(np.exp((1.0 - self.alpha) * np.log(np.asarray(x) / self.low)))

    def log_density(self, x: Real) -> Floats:
        slope = np.asarray(self.alpha)
        return np.asarray(np.log((slope - 1.0) / self.low) - slope * np.log(np.asarray(x) / self.low))

    def upper_quantile(self, q: Real) -> Floats:
        return np.asarray(self.low * np.power(q, 1.0 / (1.0 - np.asarray(self.alpha))))

    @property
    def mean(self) -> float:
        alpha = float(self.alpha)
        return float(self.low) * (alpha - 1) / (alpha - 2) if alpha > 2 else math.inf


@dataclass(frozen=True, eq=False)
class Exponential(BoundedFamily):
    """`scale` is the mean excess over `low`."""

    name: ClassVar[str] = "exponential"
    scale: Real

    def cdf(self, x: Real) -> Floats:
        return np.asarray(-np.expm1((self.low - np.asarray(x)) / self.scale))

    def survival(self, x: Real) -> Floats:
        return np.exp((self.low - np.asarray(x)) / self.scale)

    def log_density(self, x: Real) -> Floats:
        return np.asarray((self.low - np.asarray(x)) / self.scale - np.log(self.scale))

    def upper_quantile(self, q: Real) -> Floats:
        return np.asarray(self.low - self.scale * np.log(q))

    @property
    def mean(self) -> float:
        return float(self.low + self.scale)


@dataclass(frozen=True, eq=False)
class BoundedLogNormal(BoundedFamily):
    """`offset` = (log low - log_mean) / log_sd: where the bound lies on the scale of the standard normal."""

    name: ClassVar[str] = "lognormal"
    offset: Real
    log_sd: Real

    def survival(self, x: Real) -> Floats:
        z = np.log(np.asarray(x) / self.low) / self.log_sd
        return np.asarray(ndtr(-(self.offset + z)) / ndtr(-np.asarray(self.offset)))

    def log_density(self, x: Real) -> Floats:
        z = self.offset + np.log(np.asarray(x) / self.low) / self.log_sd
        norm = log_ndtr(-np.asarray(self.offset)) + np.log(self.log_sd) + 0.5 * math.log(2 * math.pi)
        return np.asarray(-0.5 * z * z - norm - np.log(x))

    def upper_quantile(self, q: Real) -> Floats:
        z = -ndtri(np.asarray(q) * ndtr(-np.asarray(self.offset))) - self.offset
        return np.asarray(self.low * np.exp(self.log_sd * z))

    @property
    def mean(self) -> float:
        # The moment of a truncated lognormal: the bound moves by log_sd under the tilted measure.
        offset, sd = float(self.offset), float(self.log_sd)
        log_ratio = float(log_ndtr(sd - offset) - log_ndtr(-offset))
        return float(self.low) * _exp(sd * sd / 2 - offset * sd + log_ratio)

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
            return np.asarray(
                np.asarray(self.steepness) * np.expm1(self.shape * np.log(np.asarray(x) / self.low)) / self.shape
            )

    def cdf(self, x: Real) -> Floats:
        return np.asarray(-np.expm1(-self._hazard(x)))

    def survival(self, x: Real) -> Floats:
        return np.exp(-self._hazard(x))

    def log_density(self, x: Real) -> Floats:
        y = np.log(np.asarray(x) / self.low)
        return np.asarray(np.log(np.asarray(self.steepness) / self.low) + (self.shape - 1.0) * y - self._hazard(x))

    def upper_quantile(self, q: Real) -> Floats:
        grown = np.log1p(-np.log(q) * self.shape / np.asarray(self.steepness)) / self.shape
        with np.errstate(over="ignore"):
            return np.asarray(self.low * np.exp(grown))

    @property
    def mean(self) -> float:
        # low * e^tau * tau^(-1/shape) * Gamma(1 + 1/shape, tau), with tau = (low / scale)^shape.
        shape = float(self.shape)
        tau = float(self.steepness) / shape
        log_gamma = float(log_upper_gamma(1 + 1 / shape, tau))
        return float(self.low) * _exp(tau - math.log(tau) / shape + log_gamma)

    @property
    def collapsed(self) -> bool:
        return float(self.shape) <= WEIBULL_SHAPE_MIN * (1 + 1e-9)

    @property
    def parameters(self) -> Mapping[str, float]:
        shape = float(self.shape)
        log_scale = math.log(float(self.low)) - math.log(float(self.steepness) / shape) / shape
        return {"low": float(self.low), "shape": shape, "scale": _exp(log_scale)}


@dataclass(frozen=True, eq=False)
class BoundedGamma(BoundedFamily):
    """`cut` = low / scale: where the bound lies on the scale of the standard Gamma."""

    name: ClassVar[str] = "gamma"
    shape: Real
    cut: Real

    def survival(self, x: Real) -> Floats:
        shape, cut, y = np.broadcast_arrays(self.shape, self.cut, np.asarray(x) / self.low)
        beyond = gammaincc(shape, cut)
        deep = beyond < _TINY
        if not deep.any():
            return np.asarray(gammaincc(shape, cut * y) / beyond)
        return np.exp(log_upper_gamma(shape, cut * y) - log_upper_gamma(shape, cut))

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
            reached[deep] = self._deep_quantile(shape[deep], cut[deep], wanted[deep])
        return np.asarray(self.low * np.maximum(reached, cut) / cut)

    @staticmethod
    def _deep_quantile(shape: Floats, cut: Floats, wanted: Floats) -> Floats:
        """Newton on log Gamma(shape, t), which falls and is concave: from the right it comes down without a miss."""
        log_wanted = np.log(wanted)
        target = log_upper_gamma(shape, cut) + log_wanted
        # Beyond this point less than `wanted` is left (Laurent & Massart 2000).
        peak = np.maximum(shape, cut)
        t = peak + np.sqrt(-4 * peak * log_wanted) - 2 * log_wanted
        for _ in range(200):
            log_beyond = log_upper_gamma(shape, t)
            step = (log_beyond - target) / np.exp((shape - 1.0) * np.log(t) - t - log_beyond)
            t = np.maximum(t + step, cut)
            if np.all(np.abs(step) <= 1e-12 * t):
                break
        return np.asarray(t)

    @property
    def mean(self) -> float:
        shape, cut = float(self.shape), float(self.cut)
        ratio = math.exp(float(log_upper_gamma(shape + 1, cut) - log_upper_gamma(shape, cut)))
        return float(self.low) * ratio / cut

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


def _exp(value: float) -> float:
    return math.exp(value) if value < 709 else math.inf
