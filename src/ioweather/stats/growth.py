"""Growth of something that is looked at now and then: a steady drift with random steps, and when it reaches a goal.

Model: a random walk with drift. Increments over dt have mean mu*dt and variance s2*dt, so looks need not be evenly
spaced. Of the drift itself the first and the last look tell everything; the looks between them tell how sure that is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit


@dataclass(frozen=True)
class Drift:
    """`rate` per unit of time; `variance` per unit of time, None with fewer than three looks."""

    rate: float
    variance: float | None
    span: float
    steps: int

    def rate_interval(self, level: float) -> tuple[float, float] | None:
        if self.variance is None:
            return None
        # mu = sum(dN) / T has variance s2 / T.
        half = self._quantile(level) * math.sqrt(self.variance / self.span)
        return self.rate - half, self.rate + half

    def _quantile(self, level: float) -> float:
        return -float(stdtrit(self.steps - 1, (1 - level) / 2))

    def reaches(self, distance: float) -> float | None:
        """Time until it has grown by `distance`; None if it does not grow."""
        if distance <= 0:
            return 0.0
        return distance / self.rate if self.rate > 0 else None

    def reach_interval(self, distance: float, level: float) -> tuple[float, float | None] | None:
        """Times between which it reaches `distance`; no upper end where it may never.

        After t the growth is mu*t with variance s2*t*(1 + t/T): its own steps, and what is not known of the drift.
        """
        if self.variance is None or distance <= 0:
            return None
        if self.variance == 0:
            exact = self.reaches(distance)
            return None if exact is None else (exact, exact)
        q, s2, span, mu = self._quantile(level), self.variance, self.span, self.rate

        def ahead(t: float, sign: float) -> float:
            return mu * t + sign * q * math.sqrt(s2 * t * (1 + t / span)) - distance

        # In the long run the bounds have these slopes; a bound that does not rise may never arrive.
        low_slope = mu - q * math.sqrt(s2 / span)
        high_slope = mu + q * math.sqrt(s2 / span)
        if high_slope <= 0:
            return None
        first = _root(lambda t: ahead(t, +1.0), distance / high_slope)
        last = _root(lambda t: ahead(t, -1.0), distance / low_slope) if low_slope > 0 else None
        return first, last


def _root(function: Any, guess: float) -> float:
    from scipy.optimize import brentq  # a fifth of a second, and only here

    high = guess
    while function(high) < 0:
        high *= 2
    return float(brentq(function, 0.0, high, xtol=1e-9 * high)) if function(0.0) < 0 else 0.0


def drift(times: NDArray[Any], values: NDArray[Any]) -> Drift | None:
    """Of two or more looks at increasing times; None with fewer."""
    t, v = np.asarray(times, np.float64), np.asarray(values, np.float64)
    dt, dv = np.diff(t), np.diff(v)
    if len(dt) == 0 or (dt <= 0).any():
        return None
    span = float(dt.sum())
    rate = float(dv.sum()) / span
    # Standardised residuals have variance s2; one degree of freedom went to the rate.
    residual = (dv - rate * dt) ** 2 / dt
    variance = float(residual.sum()) / (len(dt) - 1) if len(dt) > 1 else None
    return Drift(rate, variance, span, len(dt))
