"""Fewer points, the same picture: what is kept of series, distributions, point clouds and cells before they are drawn.

All functions take arrays and give indices into them in ascending order (or binned cells). Missing is NaN.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ioweather.core.arrays import Bools, Floats, Indices

# No chart carries more: a browser stays quick, and a page with sixty charts stays below a few megabytes.
MAX_POINTS: Final = 5000
CDF_POINTS: Final = 500


def thin_line(x: Floats, y: Floats, buckets: int) -> Indices:
    """First, lowest, highest and last of every bucket of x (M4, Jugel et al. 2014): a line drawn from them at one
    bucket per pixel covers the same pixels. `x` ascends.

    One missing value is kept for every gap wider than a bucket; narrower ones cannot be seen. At most five indices
    per bucket come back.
    """
    finite = np.isfinite(y) & np.isfinite(x)
    if len(x) <= 4 * buckets:
        return np.flatnonzero(np.isfinite(x))
    where = np.flatnonzero(finite)
    if len(where) == 0:
        return where[:0]
    bucket = _buckets(x, x[where[0]], x[where[-1]], buckets)[where]
    starts = np.flatnonzero(np.r_[True, np.diff(bucket) > 0])
    ends = np.r_[starts[1:], len(where)]
    kept: list[int] = []
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        part = y[where[start:end]]
        kept += [start, start + int(part.argmin()), start + int(part.argmax()), end - 1]
    indices = where[np.unique(np.array(kept))]
    return np.union1d(indices, _visible_gaps(x, finite, where, (x[where[-1]] - x[where[0]]) / buckets))


def _visible_gaps(x: Floats, finite: Bools, where: Indices, width: float) -> Indices:
    """The first missing sample of every gap wider than `width`."""
    before, after = where[:-1], where[1:]
    broken = (after - before > 1) & (x[after] - x[before] > width)
    gaps = before[broken] + 1
    return gaps[np.isfinite(x[gaps]) & ~finite[gaps]]


def _buckets(x: Floats, low: float, high: float, buckets: int) -> Indices:
    if high <= low:
        return np.zeros(len(x), dtype=np.intp)
    scaled = (x - low) / (high - low) * buckets
    return np.clip(np.nan_to_num(scaled), 0, buckets - 1).astype(np.intp)


def envelope(x: Floats, low: Floats, high: Floats, buckets: int) -> tuple[Floats, Floats, Floats]:
    """The least `low` and greatest `high` of every bucket, at the bucket's first x; NaN where a bucket has neither."""
    if len(x) <= buckets:
        return x, low, high
    bucket = _buckets(x, float(x[0]), float(x[-1]), buckets)
    starts = np.flatnonzero(np.r_[True, np.diff(bucket) > 0])
    least = np.fmin.reduceat(low, starts)
    greatest = np.fmax.reduceat(high, starts)
    return x[starts], least, greatest


def thin_cdf(x: Floats, y: Floats, limit: int = CDF_POINTS) -> Indices:
    """Evenly spaced in probability through the body and in its logarithm through both tails; both ends are kept.

    `x` ascends; points with a missing part are left out.
    """
    where = np.flatnonzero(np.isfinite(x) & np.isfinite(y))
    if len(where) <= limit:
        return where
    share = max((limit - 2) // 4, 1)
    level = y[where]
    lowest, highest = float(level.min()), float(level.max())
    span = highest - lowest
    tail = span * np.geomspace(1e-6, 0.1, share)
    wanted = np.r_[np.linspace(lowest, highest, limit - 2 - 2 * share), lowest + tail, highest - tail]
    nearest = np.clip(np.searchsorted(level, np.sort(wanted)), 0, len(where) - 1)
    kept: Indices = where[np.unique(np.r_[0, nearest, len(where) - 1])]
    return kept


def thin_scatter(x: Floats, y: Floats, limit: int) -> Indices:
    """One point for every cell of the finest grid with at most `limit` occupied cells, and the extremes of both axes.

    Outliers have a cell of their own, so they stay; what is lost is how many lie on top of each other.
    """
    where = np.flatnonzero(np.isfinite(x) & np.isfinite(y))
    if len(where) <= limit:
        return where
    px, py = x[where], y[where]
    extremes = np.array([px.argmin(), px.argmax(), py.argmin(), py.argmax()])
    room = max(limit - len(np.unique(extremes)), 1)
    first = np.zeros(1, dtype=np.intp)
    for side in (400, 300, 220, 160, 120, 90, 64, 45, 32, 16, 8, 4, 2):
        cell = _buckets(px, px.min(), px.max(), side) * side + _buckets(py, py.min(), py.max(), side)
        _, first = np.unique(cell, return_index=True)
        if len(first) <= room:
            break
    kept: Indices = where[np.unique(np.r_[first[:room], extremes])]
    return kept


def bin_cells(column: Indices, row: Indices, value: Floats, limit: int) -> tuple[Indices, Indices, Floats, int, int]:
    """Cells (column, row, value) averaged over blocks until at most `limit` remain.

    Gives the first column and first row of each block, its mean, and the block's size. Missing values take no part;
    a block without any stays out.
    """
    known = np.isfinite(value)
    column, row, value = column[known], row[known], value[known]
    wide, high = 1, 1
    while len(value):
        columns, rows = int(column.max()) // wide + 1, int(row.max()) // high + 1
        if len(np.unique((row // high) * columns + column // wide)) <= limit:
            break
        if columns >= rows:
            wide += max(1, wide // 4)
        else:
            high += max(1, high // 4)
    if wide == high == 1:
        return column, row, value, 1, 1
    columns = int(column.max()) // wide + 1
    key, inverse, count = np.unique((row // high) * columns + column // wide, return_inverse=True, return_counts=True)
    mean = np.bincount(inverse, weights=value) / count
    return key % columns * wide, key // columns * high, mean, wide, high
