"""Correlation of two whole series at several lags, made of the sums that are kept of parts of them."""

from __future__ import annotations

import numpy as np

from ioweather.stats.series import correlation, lagged_sums


def lagged_correlation(x: np.ndarray, y: np.ndarray, lags: int) -> np.ndarray:
    if not len(x):
        return np.full(lags + 1, np.nan)
    return correlation(lagged_sums(x, y, lags, len(x)).sum(axis=0))
