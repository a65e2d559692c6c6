"""Imbalance between components: totals in order, extremes, rank correlation (pat19 section 6)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ioweather.core.arrays import Floats, Ints
from ioweather.stats.series import coefficient_of_variation


@dataclass(frozen=True, eq=False)
class Imbalance:
    """`order` sorts the components by total, least first; `max_to_min` is infinite where one moved nothing."""

    order: Ints
    totals: Floats
    mean: float
    max_to_min: float
    variation: float


def imbalance(totals: NDArray[Any]) -> Imbalance:
    """Of totals per component; NaN (a component never seen) is left out."""
    array = np.asarray(totals, np.float64)
    order = np.argsort(array, kind="stable")[: int(np.sum(~np.isnan(array)))]
    ranked = array[order]
    if not ranked.size:
        return Imbalance(order, ranked, float("nan"), float("nan"), float("nan"))
    return Imbalance(
        order, ranked, float(ranked.mean()), float(max_to_min(ranked)), float(coefficient_of_variation(ranked))
    )


def max_to_min(totals: NDArray[Any]) -> Any:
    """Largest over smallest along the last axis; infinite over zero, NaN where all are zero."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.max(totals, axis=-1) / np.min(totals, axis=-1)


def ranks(values: NDArray[Any]) -> Floats:
    """Average ranks from 1, ties sharing theirs."""
    array = np.asarray(values, np.float64)
    _, inverse, counts = np.unique(array, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return np.asarray((last - (counts - 1) / 2)[inverse], np.float64)


def rank_correlation(x: NDArray[Any], y: NDArray[Any]) -> float:
    """Spearman's coefficient of the pairs that are complete; NaN for fewer than 3, or where a side does not vary."""
    a, b = np.asarray(x, np.float64), np.asarray(y, np.float64)
    both = ~(np.isnan(a) | np.isnan(b))
    if both.sum() < 3:
        return float("nan")
    rx, ry = ranks(a[both]), ranks(b[both])
    rx -= rx.mean()
    ry -= ry.mean()
    scale = float(np.sqrt((rx @ rx) * (ry @ ry)))
    return float(rx @ ry / scale) if scale > 0 else float("nan")
