"""Coefficients of dependence between two series."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from ioweather.core.frames import Floats


def pearson(x: Floats, y: Floats) -> Any:
    """Return Pearson's coefficient along the last axis; NaN where one of the two does not vary."""
    a, b = x - x.mean(axis=-1, keepdims=True), y - y.mean(axis=-1, keepdims=True)
    scale = np.sqrt((a * a).sum(axis=-1) * (b * b).sum(axis=-1))
    return np.divide((a * b).sum(axis=-1), scale, out=np.full(scale.shape, np.nan), where=scale > 0)[()]


def midranks(values: Floats) -> Floats:
    """Ranks from 1 along the last axis, ties share their mean."""
    return np.asarray(rankdata(values, axis=-1), np.float64)


def spearman(x: Floats, y: Floats) -> Any:
    """Return Spearman's coefficient along the last axis; NaN where one of the two does not vary."""
    return pearson(midranks(x), midranks(y))


def rank_correlation(x: NDArray[Any], y: NDArray[Any]) -> Any:
    """Return Spearman's coefficient along the last axis, of the places that are complete; NaN for fewer than 3."""
    there = np.isfinite(x) & np.isfinite(y)
    there = there.all(axis=tuple(range(there.ndim - 1)))
    if there.sum() < 3:
        return np.full(np.shape(x)[:-1], np.nan)[()]
    return spearman(np.asarray(x, np.float64)[..., there], np.asarray(y, np.float64)[..., there])


def rank_correlation_within(x: Floats, y: Floats, groups: NDArray[Any]) -> tuple[float, int]:
    """Return Spearman's coefficient pooled within groups, and the number of pairs minus one per further group.

    Ranks are taken and centred within each group in which both vary. A group's weight is the variation of its ranks
    relative to its size, so that large groups do not dominate. (nan, 0) where no group has three pairs that vary.
    """
    ranks = []
    for group in np.unique(groups):
        a, b = x[groups == group], y[groups == group]
        if len(a) >= 3 and np.ptp(a) > 0 and np.ptp(b) > 0:
            both = midranks(np.stack([a, b]))
            ranks.append((both - both.mean(axis=1, keepdims=True)) / len(a))
    if not ranks:
        return float("nan"), 0
    u, v = np.concatenate(ranks, axis=1)
    return float(pearson(u, v)), len(u) - len(ranks) + 1
