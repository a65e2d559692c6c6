"""The power law of integers (Clauset, Shalizi & Newman 2009, section 2.1): Hurwitz zeta in place of powers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import zeta

from ioweather.stats.tails.bounded import BoundedFamily
from ioweather.stats.tails.families import Real
from ioweather.stats.tails.sample import Floats

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
