"""Statistics of one series or of many side by side: variation, distribution, windows, lagged correlation.

Missing values are NaN and are left out pairwise. pat19 section 2.3 defines the coefficient of variation and the lagged
correlation: corr(X[1:n-k], Y[1+k:n]) with means and standard deviations of exactly those ranges.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]

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
        for place, terms in (
            (N, both.astype(np.float64)), (SX, left), (SY, right),
            (SXX, left * left), (SYY, right * right), (SXY, left * right),
        ):  # fmt: skip
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


def lagged_correlation(x: NDArray[Any], y: NDArray[Any], lags: int) -> Floats:
    """corr(X[1:n-k], Y[1+k:n]) for k = 0..lags (pat19 section 2.3), pairwise complete."""
    if not len(x):
        return np.full(lags + 1, np.nan)
    return correlation(lagged_sums(x, y, lags, max(1, len(x))).sum(axis=0))


class LagBlock:
    """The next rows of many columns, ready to be correlated: about a fixed shift, after the last rows before them.

    `rows[carried:]` are the new ones. Sums over the ranges that each lag needs differ only at the edges, so they are
    made once here and shared by every correlation that the columns take part in.
    """

    def __init__(self, rows: Floats, carried: int, lags: int) -> None:
        self.rows, self.carried, self.lags = rows, carried, lags
        new = rows[carried:]
        total = rows.sum(axis=0)
        self.gappy = np.isnan(total)
        self.total = total - rows[:carried].sum(axis=0)
        self.squares = np.einsum("ij,ij->j", new, new)

    def first_pair(self, lag: int) -> int:
        """Row of the second member of the first pair: it must be new, and its partner must exist."""
        return max(self.carried, lag)

    def leading(self, lag: int) -> tuple[Floats, Floats]:
        """Sum and sum of squares of the first members, rows [first_pair - lag, end - lag)."""
        first, last = self.first_pair(lag) - lag, len(self.rows) - lag
        if last < self.carried:
            return _sums(self.rows[first:last])
        gained, lost = _sums(self.rows[first : self.carried]), _sums(self.rows[last:])
        return self.total + gained[0] - lost[0], self.squares + gained[1] - lost[1]

    def trailing(self, lag: int) -> tuple[Floats, Floats]:
        """The same of the second members, rows [first_pair, end)."""
        lost = _sums(self.rows[self.carried : self.first_pair(lag)])
        return self.total - lost[0], self.squares - lost[1]


def _sums(rows: Floats) -> tuple[Floats, Floats]:
    return rows.sum(axis=0), np.einsum("ij,ij->j", rows, rows)


class LagStream:
    """Turns consecutive blocks of the same columns into LagBlocks that join without a seam.

    Values are taken about the mean of the first block, which a correlation does not feel but rounding does.
    """

    def __init__(self, lags: int) -> None:
        self.lags = lags
        self._shift: Floats | None = None
        self._tail: Floats | None = None

    def next(self, block: NDArray[Any]) -> LagBlock:
        if self._shift is None or self._tail is None:
            self._shift = _column_means(block)
            self._tail = np.empty((0, block.shape[1]))
        carried = len(self._tail)
        rows = np.empty((carried + len(block), block.shape[1]))
        rows[:carried] = self._tail
        np.subtract(block, self._shift, out=rows[carried:])
        self._tail = rows[max(0, len(rows) - self.lags) :].copy()
        return LagBlock(rows, carried, self.lags)


class LaggedCorrelation:
    """Lagged correlations of many pairs of columns at once, fed block by block in time order.

    Columns without a gap cost one dot product per lag; columns with gaps are counted pairwise.
    """

    def __init__(self, columns: int, lags: int) -> None:
        self.lags = lags
        self.sums = np.zeros((lags + 1, 6, columns))

    def update(self, x: LagBlock, y: LagBlock) -> Floats:
        """Adds the next rows; gives their own part of the sums (lags + 1, 6, columns), for resampling by block."""
        gappy = x.gappy | y.gappy
        part = self._pairwise(x.rows, y.rows, x.carried) if gappy.all() else self._complete(x, y)
        if gappy.any() and not gappy.all():
            part[..., gappy] = self._pairwise(x.rows[:, gappy], y.rows[:, gappy], x.carried)
        self.sums += part
        return part

    def _complete(self, x: LagBlock, y: LagBlock) -> Floats:
        out = np.zeros((self.lags + 1, 6, x.rows.shape[1]))
        for lag in range(self.lags + 1):
            first, end = x.first_pair(lag), len(x.rows)
            if first >= end:
                continue
            out[lag, N] = end - first
            out[lag, SX], out[lag, SXX] = x.leading(lag)
            out[lag, SY], out[lag, SYY] = y.trailing(lag)
            same = lag == 0 and x is y
            out[lag, SXY] = (
                x.squares if same else np.einsum("ij,ij->j", x.rows[first - lag : end - lag], y.rows[first:])
            )
        return out

    def _pairwise(self, left: Floats, right: Floats, carried: int) -> Floats:
        x_there, y_there = ~np.isnan(left), ~np.isnan(right)
        x, y = np.where(x_there, left, 0.0), np.where(y_there, right, 0.0)
        out = np.zeros((self.lags + 1, 6, left.shape[1]))
        for lag in range(self.lags + 1):
            first, end = max(carried, lag), len(left)
            if first >= end:
                continue
            lead, trail = slice(first - lag, end - lag), slice(first, end)
            both = x_there[lead] & y_there[trail]
            xs, ys = x[lead] * both, y[trail] * both
            out[lag, N] = both.sum(axis=0)
            out[lag, SX], out[lag, SXX] = _sums(xs)
            out[lag, SY], out[lag, SYY] = _sums(ys)
            out[lag, SXY] = np.einsum("ij,ij->j", xs, ys)
        return out

    def result(self) -> Floats:
        """Correlations (lags + 1, columns)."""
        return correlation(np.moveaxis(self.sums, 1, -1))


def _column_means(block: NDArray[Any]) -> Floats:
    there = ~np.isnan(block)
    count = there.sum(axis=0)
    return np.asarray(np.where(there, block, 0.0).sum(axis=0) / np.maximum(count, 1))


class WindowReducer:
    """`window_sums` over blocks that need not be multiples of the window: what is left over waits for the next."""

    def __init__(self, width: int, *, mean: bool = False) -> None:
        self.width = width
        self.mean = mean
        self._rest: Floats | None = None

    def update(self, block: NDArray[Any]) -> Floats:
        rows = block if self._rest is None or not len(self._rest) else np.concatenate([self._rest, block])
        whole = len(rows) // self.width * self.width
        self._rest = np.array(rows[whole:], np.float64)
        return window_sums(rows[:whole], self.width, mean=self.mean)
