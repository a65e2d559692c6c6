"""Statistics of one series or of many side by side: variation, distribution, windows, lagged correlation.

Missing values are NaN and are left out pairwise. pat19 section 2.3 defines the coefficient of variation and the lagged
correlation: corr(X[1:n-k], Y[1+k:n]) with means and standard deviations of exactly those ranges.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ioweather.core.arrays import Floats, Indices

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


class LagBlock:
    """The next rows of many columns, ready to be correlated, and the last rows before them (`tail`).

    Missing values are 0 here; `missing` holds their places (row, column), rows counted from the first of the tail.
    Sums over the ranges that each lag needs differ only at the edges, so they are made once and shared by every
    correlation that the columns take part in. They are of the values as they are: sums of squares then lose about
    twice the digits of mean / sd, which for amounts is none that matters.
    """

    def __init__(self, rows: Floats, tail: Floats) -> None:
        self.rows, self.tail = rows, tail
        self.missing: tuple[Indices, Indices] | None = None
        self.total = rows.sum(axis=0)
        if np.isnan(self.total).any() or np.isnan(tail).any():
            joined = np.concatenate([tail, rows])
            self.gone = np.isnan(joined)
            row, column = np.nonzero(self.gone)
            self.missing = (row, column)
            joined[row, column] = 0.0
            self.tail, self.rows = joined[: len(tail)], joined[len(tail) :]
            self.total = self.rows.sum(axis=0)
        self.squares = np.einsum("ij,ij->j", self.rows, self.rows)

    @property
    def end(self) -> int:
        return len(self.tail) + len(self.rows)

    def at(self, row: Indices, column: Indices) -> Floats:
        """Values by place."""
        carried = len(self.tail)
        out = self.rows[np.maximum(row - carried, 0), column]
        early = row < carried
        out[early] = self.tail[row[early], column[early]]
        return np.asarray(out)

    def first_pair(self, lag: int) -> int:
        """Row of the second member of the first pair: it must be new, and its partner must exist."""
        return max(len(self.tail), lag)

    def leading(self, lag: int) -> tuple[Floats, Floats]:
        """Sum and sum of squares of the first members, rows [first_pair - lag, end - lag)."""
        first, last = self.first_pair(lag) - lag, self.end - lag
        if last < len(self.tail):
            return _sums(self.tail[first:last])
        gained, lost = _sums(self.tail[first:]), _sums(self.rows[len(self.rows) - lag :])
        return self.total + gained[0] - lost[0], self.squares + gained[1] - lost[1]

    def trailing(self, lag: int) -> tuple[Floats, Floats]:
        """The same of the second members, rows [first_pair, end)."""
        lost = _sums(self.rows[: self.first_pair(lag) - len(self.tail)])
        return self.total - lost[0], self.squares - lost[1]

    def products(self, later: LagBlock, lag: int) -> Floats:
        """Sum of first member times second member; the second ones are the other block's."""
        if lag == 0:
            return self.squares if self is later else np.asarray(np.einsum("ij,ij->j", self.rows, later.rows))
        carried, new = len(self.tail), len(self.rows)
        inner = np.einsum("ij,ij->j", self.rows[: max(0, new - lag)], later.rows[lag:])
        # Pairs across the seam: the first member is in the tail.
        first, last = self.first_pair(lag) - carried, min(lag, new)
        seam = self.tail[carried + first - lag : carried + last - lag]
        return np.asarray(inner + np.einsum("ij,ij->j", seam, later.rows[first:last]))


def _sums(rows: Floats) -> tuple[Floats, Floats]:
    return rows.sum(axis=0), np.einsum("ij,ij->j", rows, rows)


class LagStream:
    """Turns consecutive blocks of the same columns into LagBlocks that join without a seam."""

    def __init__(self, lags: int) -> None:
        self.lags = lags
        self._tail: Floats | None = None

    def next(self, block: Floats) -> LagBlock:
        tail = np.empty((0, block.shape[1])) if self._tail is None else self._tail
        keep = block if len(block) >= self.lags else np.concatenate([tail, block])
        self._tail = keep[max(0, len(keep) - self.lags) :].copy()
        return LagBlock(block, tail)


class LaggedCorrelation:
    """Lagged correlations of many pairs of columns at once, fed block by block in time order.

    Each lag costs one dot product per column. Pairs with a missing member are taken out of the other sums one by one:
    they are few, or all of them are missing together.
    """

    def __init__(self, columns: int, lags: int) -> None:
        self.lags = lags
        self.sums = np.zeros((lags + 1, 6, columns))

    def update(self, x: LagBlock, y: LagBlock) -> Floats:
        """Adds the next rows; gives their own part of the sums (lags + 1, 6, columns), for resampling by block."""
        part = np.zeros_like(self.sums)
        for lag in range(self.lags + 1):
            first = x.first_pair(lag)
            if first >= x.end:
                continue
            out = part[lag]
            out[N] = x.end - first
            out[SX], out[SXX] = x.leading(lag)
            out[SY], out[SYY] = y.trailing(lag)
            out[SXY] = x.products(y, lag)
            _take_out_missing(out, x, y, lag)
        self.sums += part
        return part

    def result(self) -> Floats:
        """Correlations (lags + 1, columns)."""
        return correlation(np.moveaxis(self.sums, 1, -1))


def _take_out_missing(out: Floats, x: LagBlock, y: LagBlock, lag: int) -> None:
    """Leaves in the six sums only pairs with both members. Missing values are 0, so what is to go is their partners."""
    first, columns = x.first_pair(lag), out.shape[1]
    if y.missing is not None:
        row, column = (places[y.missing[0] >= first] for places in y.missing)
        partner = x.at(row - lag, column)
        out[SX] -= np.bincount(column, partner, columns)
        out[SXX] -= np.bincount(column, partner**2, columns)
        out[N] -= np.bincount(column, minlength=columns)
    if x.missing is not None:
        inside = (x.missing[0] >= first - lag) & (x.missing[0] < x.end - lag)
        row, column = (places[inside] for places in x.missing)
        partner = y.at(row + lag, column)
        out[SY] -= np.bincount(column, partner, columns)
        out[SYY] -= np.bincount(column, partner**2, columns)
        # A pair that lacks both was counted out above already.
        once = column if y.missing is None else column[~y.gone[row + lag, column]]
        out[N] -= np.bincount(once, minlength=columns)


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
