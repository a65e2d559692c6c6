"""A response that never falls: y = c0 + sum of rising functions of several measures, few rows, robust, with its error.

Each measure enters as hinges max(x - knot, 0) with coefficients of at least 0, so the response rises, and ever more
steeply, as queues do; beyond the data it goes on along the last slope, and its error grows. A ridge holds small groups
together. Huber's weights keep single wild rows from bending it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.optimize import nnls

from ioweather.core.arrays import Floats

# [ours] A prior row per coefficient: 0 +- spread / RIDGE, on measures scaled to about 1.
RIDGE: Final = 0.3
_KNOTS: Final = (0.0, 0.5, 0.8)
_HUBER: Final = 1.5
_ITERATIONS: Final = 8
MAD_TO_SD: Final = 1.4826  # of a normal distribution


def hinges(values: Floats, among: Floats) -> Floats:
    """(row, hinge): knots at the least, the median and the 80% quantile of `among`, scaled by its 90% quantile."""
    scale = float(np.quantile(among, 0.9))
    scale = scale if scale > 0 else 1.0
    knots = np.unique(np.quantile(among / scale, _KNOTS))
    return np.asarray(np.maximum(values[:, None] / scale - knots, 0.0))


@dataclass(frozen=True, eq=False)
class RisingFit:
    """Coefficients (the constant last), their covariance, and the residuals of the rows it was made from."""

    coefficients: Floats
    covariance: Floats
    residuals: Floats

    def at(self, columns: Floats) -> Floats:
        return np.asarray(_with_constant(columns) @ self.coefficients)

    def error_between(self, here: Floats, there: Floats) -> float:
        """Standard error of the difference of the response at two rows; of the response itself if `there` is empty."""
        row = np.append(here, 1.0) - (np.append(there, 1.0) if len(there) else 0.0)
        return float(np.sqrt(max(0.0, row @ self.covariance @ row)))


def fit_rising(columns: Floats, y: Floats, least_spread: float) -> RisingFit:
    """`columns` of at least 0; `least_spread` is the smallest believable standard deviation of y."""
    rows, width = columns.shape
    design = _with_constant(columns)
    ridge = np.eye(width, width + 1) * RIDGE
    below = float(y.min()) - 1.0  # so that the constant is positive too, as the solver wants it
    weights, spread = np.ones(rows), least_spread
    coefficients, residuals = np.zeros(width + 1), y - below
    for _ in range(_ITERATIONS):
        root = np.sqrt(weights)
        system = np.concatenate([design * root[:, None], ridge])
        coefficients, _ = nnls(system, np.concatenate([(y - below) * root, np.zeros(width)]))
        residuals = y - below - design @ coefficients
        spread = max(least_spread, MAD_TO_SD * float(np.median(np.abs(residuals))))
        weights = 1.0 / np.maximum(1.0, np.abs(residuals) / (_HUBER * spread))
    free = np.flatnonzero(np.append(coefficients[:-1] > 0, True))
    information = (design * weights[:, None]).T @ design + ridge.T @ ridge
    covariance = np.zeros((width + 1, width + 1))
    covariance[np.ix_(free, free)] = np.linalg.inv(information[np.ix_(free, free)]) * spread**2
    return RisingFit(coefficients + np.append(np.zeros(width), below), covariance, residuals)


def _with_constant(columns: Floats) -> Floats:
    return np.concatenate([columns, np.ones((len(columns), 1))], axis=1)
