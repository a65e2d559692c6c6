"""Statistics of one series or of many side by side: variation, distribution, windows, lagged correlation.

Missing values are NaN and are left out pairwise. pat19 section 2.3 defines the coefficient of variation and the lagged
correlation: corr(X[1:n-k], Y[1+k:n]) with means and standard deviations of exactly those ranges.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ioweather.core.arrays import Floats

# Order of the six sums that a correlation is made of.
N, SX, SY, SXX, SYY, SXY = range(6)


def coefficient_of_variation(values: NDArray[Any], axis: int | None = None) -> Any:
    """sd / mean (population sd), NaN left out; NaN where the mean is not positive."""
    array = np.asarray(values, np.float64)
    count = np.sum(~np.isnan(array), axis=axis)
    total = np.nansum(array, axis=axis)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = total / count
        centred = array - (mean if axis is None else np.expand_dims(mean, axis))
        spread = np.sqrt(np.nansum(centred**2, axis=axis) / count)
        return np.where(mean > 0, spread / mean, np.nan)[()]


def variation_from_sums(count: NDArray[Any], total: NDArray[Any], squares: NDArray[Any]) -> Floats:
    """The same from n, sum and sum of squares, for bootstrap replicates."""
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = total / count
        variance = np.maximum(squares / count - mean**2, 0.0)
        return np.asarray(np.where(mean > 0, np.sqrt(variance) / mean, np.nan), np.float64)


def ecdf(values: NDArray[Any]) -> tuple[Floats, Floats]:
    """Distinct values in order, and the share of values <= each."""
    array = np.asarray(values, np.float64)
    distinct, counts = np.unique(array[~np.isnan(array)], return_counts=True)
    return distinct, np.cumsum(counts) / max(1, counts.sum())


def ecdf_points(values: NDArray[Any], points: int) -> tuple[Floats, Floats]:
    """At most `points` points of the ECDF, even in probability with both ends kept: what a chart can show."""
    x, share = ecdf(values)
    if len(x) <= points:
        return x, share
    wanted = np.linspace(share[0], 1.0, points)
    picks = np.unique(np.minimum(np.searchsorted(share, wanted), len(x) - 1))
    return x[picks], share[picks]


def window_sums(values: NDArray[Any], width: int, *, mean: bool = False) -> Floats:
    """Non-overlapping windows of `width` rows, summed (or averaged); a window with a missing value is missing.

    Rows that do not fill the last window are left out.
    """
    array = np.asarray(values, np.float64)
    if width == 1:
        return array
    whole = len(array) // width
    folded = array[: whole * width].reshape(whole, width, *array.shape[1:])
    return np.asarray(folded.mean(axis=1) if mean else folded.sum(axis=1))


def lagged_sums(x: NDArray[Any], y: NDArray[Any], lags: int, unit: int) -> Floats:
    """The six sums of the pairs (x[i], y[i+k]) for k = 0..lags, by unit of i: an array (units, lags + 1, 6).

    Adding units up and calling `correlation` gives the lagged correlation; resampling units gives its interval.
    """
    # A correlation does not change when a constant is taken off; the sums lose fewer digits.
    xs, ys = _centred(x), _centred(y)
    edges = np.arange(0, len(xs), unit)
    out = np.zeros((len(edges), lags + 1, 6))
    for lag in range(min(lags, max(0, len(xs) - 1)) + 1):
        left = xs.copy() if lag == 0 else np.concatenate([xs[:-lag], np.full(lag, np.nan)])
        right = np.concatenate([ys[lag:], np.full(lag, np.nan)])
        both = ~(np.isnan(left) | np.isnan(right))
        left[~both], right[~both] = 0.0, 0.0
        both_of = {N: both.astype(np.float64), SX: left, SY: right}
        both_of |= {SXX: left * left, SYY: right * right, SXY: left * right}
        for place, terms in both_of.items():
            out[:, lag, place] = np.add.reduceat(terms, edges)
    return out


def _centred(values: NDArray[Any]) -> Floats:
    array = np.asarray(values, np.float64)
    present = array[~np.isnan(array)]
    return np.asarray(array - present.mean() if present.size else array.copy())


def correlation(sums: NDArray[Any]) -> Floats:
    """Pearson's r from the six sums on the last axis; NaN where a side does not vary or fewer than 3 pairs exist."""
    n, sx, sy, sxx, syy, sxy = (sums[..., place] for place in range(6))
    with np.errstate(divide="ignore", invalid="ignore"):
        vx, vy = sxx - sx * sx / n, syy - sy * sy / n
        r = (sxy - sx * sy / n) / np.sqrt(vx * vy)
        # What is left of a constant column after rounding is not variation.
        real = (n > 2) & (vx > 1e-12 * sxx) & (vy > 1e-12 * syy)
        return np.asarray(np.where(real, np.clip(r, -1.0, 1.0), np.nan), np.float64)


def lagged_column_sums(x: Floats, y: Floats, lags: Iterable[int], first: int = 0) -> Floats:
    """The six sums of the pairs (x[i, j], y[i + lag, j]) by lag and column j: an array (lags, 6, columns).

    Pairs count whose second row is `first` or later, so that stretches which overlap by the largest lag add up. Sums
    are of the values as they are: they lose about twice the digits of mean / sd, which for amounts is little.
    """
    has_x, xs, xx = _with_squares(x)
    has_y, ys, yy = (has_x, xs, xx) if y is x else _with_squares(y)
    factors = ((has_x, has_y), (xs, has_y), (has_x, ys), (xx, has_y), (has_x, yy), (xs, ys))
    chosen = list(lags)
    out = np.zeros((len(chosen), 6, x.shape[1]))
    for place, lag in enumerate(chosen):
        start = max(first, lag)
        if start < len(y):
            earlier, later = slice(start - lag, len(x) - lag), slice(start, None)
            out[place] = [np.einsum("ij,ij->j", a[earlier], b[later]) for a, b in factors]
    return out


def _with_squares(values: Floats) -> tuple[Floats, Floats, Floats]:
    """1 where a value is there, the values, and their squares; 0 where it is missing."""
    there = ~np.isnan(values)
    filled = np.where(there, values, 0.0)
    return there.astype(np.float64), filled, filled * filled
