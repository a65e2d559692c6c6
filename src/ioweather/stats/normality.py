"""Whether times are Normal, by skewness and kurtosis (Jarque & Bera 1987), where neighbours in time are alike.

Skewness and kurtosis of n alike values vary as those of n over the sums of the third and the fourth powers of the
autocorrelations (Lobato & Velasco 2004, Eq. 2); of independent ones these sums are 1. Mean and variances of few are the
exact ones (Urzua 1996), not those of the limit, with which short samples are refused too seldom.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ioweather.core.arrays import Floats

# [ours] With fewer independent values the statistic is far from its law: of 50 of AR(0.8) it refused .025 at .05.
_LEAST = 25


@dataclass(frozen=True)
class Moments:
    """`statistic` is chi-square with two degrees of freedom where the values are Normal."""

    skewness: float
    kurtosis: float
    skewness_error: float
    statistic: float

    @property
    def p_value(self) -> float:
        return math.exp(-self.statistic / 2)


def moments(values: Floats) -> Moments | None:
    """Of values in the order of time; None where they do not vary, or too few are independent of the others."""
    if not len(values) or values.min() == values.max():
        return None
    away = values - values.mean()
    variance = float(np.mean(away**2))
    skewness, kurtosis = float(np.mean(away**3)) / variance**1.5, float(np.mean(away**4)) / variance**2
    n = len(values)
    lags = math.isqrt(n)
    alike = np.array([float(away[lag:] @ away[: n - lag]) / (n * variance) for lag in range(1, lags + 1)])
    # Chance correlations are small, and their powers next to nothing; a sum below 1 would be chance.
    third, fourth = (n / max(1.0, 1 + 2 * float((alike**power).sum())) for power in (3, 4))
    if third < _LEAST:
        return None
    skewness_variance = 6 * (third - 2) / ((third + 1) * (third + 3))
    usual = 3 * (fourth - 1) / (fourth + 1)
    kurtosis_variance = 24 * fourth * (fourth - 2) * (fourth - 3) / ((fourth + 1) ** 2 * (fourth + 3) * (fourth + 5))
    statistic = skewness**2 / skewness_variance + (kurtosis - usual) ** 2 / kurtosis_variance
    return Moments(skewness, kurtosis, math.sqrt(skewness_variance), statistic)
