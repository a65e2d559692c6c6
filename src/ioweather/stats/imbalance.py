"""Imbalance between components: totals in order, extremes, rank correlation (pat19 section 6)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ioweather.core.arrays import Bools, Floats, Ints
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


def rank_correlations(x: NDArray[Any], y: NDArray[Any]) -> Floats:
    """The same of each row of two tables. Where nothing is missing and no two are alike, of all rows at once."""
    a, b = np.asarray(x, np.float64), np.asarray(y, np.float64)
    (first, plain_a), (second, plain_b) = _distinct_ranks(a), _distinct_ranks(b)
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = np.sqrt((first * first).sum(axis=1) * (second * second).sum(axis=1))
        out = np.asarray((first * second).sum(axis=1) / scale)
    for row in np.flatnonzero(~(plain_a & plain_b) | (a.shape[1] < 3)).tolist():
        out[row] = rank_correlation(a[row], b[row])
    return out


def _distinct_ranks(values: Floats) -> tuple[Floats, Bools]:
    """Ranks along rows less their mean, and of which rows they are right: those of different values, none missing."""
    order = np.argsort(values, axis=1, kind="stable")
    ordered = np.take_along_axis(values, order, axis=1)
    distinct = (np.diff(ordered, axis=1) > 0).all(axis=1)  # NaN is not greater than anything
    found = np.empty(values.shape)
    np.put_along_axis(found, order, np.arange(values.shape[1]) - (values.shape[1] - 1) / 2, axis=1)
    return found, np.asarray(distinct)
