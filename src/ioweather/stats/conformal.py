"""Intervals for a new value given where it stands, with the coverage they promise: conformalised quantile regression.

Quantiles of the nearest neighbours are widened by how far held-out values fell outside theirs (Romano, Patterson &
Candès 2019), each value being held out once (CV+, Barber et al. 2021).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ioweather.core.arrays import Floats, Indices

LEVEL: Final = 0.9
FOLDS: Final = 10
MIN_POINTS: Final = 20
_SEED: Final = 20190508


@dataclass(frozen=True)
class Band:
    """Median and central interval of y at each place asked for."""

    median: Floats
    low: Floats
    high: Floats
    level: float
    method: str


def neighbour_count(n: int) -> int:
    """Enough for the outer quantiles to mean something, few enough to stay near."""
    return int(min(n, max(10, round(2 * math.sqrt(n)))))


class NeighbourQuantiles:
    """Quantiles of y among the nearest of the known points; features are brought to one scale first."""

    def __init__(self, x: NDArray[Any], y: NDArray[Any], neighbours: int = 0) -> None:
        self._y = np.asarray(y, np.float64)
        known = _columns(x)
        self._centre, spread = np.median(known, axis=0), known.std(axis=0)
        self._spread = np.where(spread > 0, spread, 1.0)
        self._points = (known - self._centre) / self._spread
        self.neighbours = neighbours or neighbour_count(len(self._y))

    def nearest(self, x: NDArray[Any]) -> Indices:
        from scipy.spatial import cKDTree

        wanted = (_columns(x) - self._centre) / self._spread
        _, found = cKDTree(self._points).query(wanted, k=min(self.neighbours, len(self._y)))
        return np.asarray(found, np.intp).reshape(len(wanted), -1)

    def __call__(self, x: NDArray[Any], levels: tuple[float, ...]) -> Floats:
        """(len(levels), len(x))."""
        return np.asarray(np.quantile(self._y[self.nearest(x)], levels, axis=1), np.float64)


def _columns(x: NDArray[Any]) -> Floats:
    values = np.asarray(x, np.float64)
    return values[:, None] if values.ndim == 1 else values


def conformal_folds(
    x: NDArray[Any], y: NDArray[Any], at: NDArray[Any], *, level: float = LEVEL, folds: int = FOLDS
) -> Band | None:
    """CV+ over `folds`; None with fewer than MIN_POINTS points."""
    n = len(y)
    if n < MIN_POINTS:
        return None
    levels = ((1 - level) / 2, (1 + level) / 2)
    known, values = _columns(x), np.asarray(y, np.float64)
    fold = np.random.default_rng(_SEED).permutation(n) % min(folds, n)
    lows, highs = [], []
    for number in range(int(fold.max()) + 1):
        out = fold == number
        model = NeighbourQuantiles(known[~out], values[~out])
        low, high = model(known[out], levels)
        miss = np.maximum(low - values[out], values[out] - high)
        low_at, high_at = model(at, levels)
        lows.append(low_at[None, :] - miss[:, None])
        highs.append(high_at[None, :] + miss[:, None])
    low_all, high_all = np.concatenate(lows), np.concatenate(highs)
    rank = math.ceil(level * (n + 1))
    # The rank-th smallest upper end, and the rank-th largest lower end.
    high_end = np.sort(high_all, axis=0)[min(rank, n) - 1]
    low_end = np.sort(low_all, axis=0)[max(n - rank, 0)]
    median = NeighbourQuantiles(known, values)(at, (0.5,))[0]
    method = f"{folds}-fold conformalised quantile regression on {neighbour_count(n)} nearest neighbours"
    return Band(median, np.minimum(low_end, median), np.maximum(high_end, median), level, method)
