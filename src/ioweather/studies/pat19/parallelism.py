"""Degree of parallelism (pat19 section 5): in each interval the targets are sorted by activity and clusters grow
greedily from the smallest, so that in a cluster (max - min) < tolerance * min. A target without activity is in no
cluster. The size of a cluster is a degree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ioweather.core.frames import Floats, Ints

TOLERANCE = 0.05
DEGREES = (10, 20, 25, 50, 75, 100)  # pat19 table 1, and 20 of figure 11
PAPER_TARGETS = 248


def scaled(degree: int, targets: int) -> int:
    """Scale a degree of the paper's 248 targets to this number of targets; at least 2."""
    return max(2, round(degree / PAPER_TARGETS * targets))


def sort_activity(values: NDArray[Any]) -> Floats:
    """Return (targets, intervals) activity in ascending order within each interval, from (intervals, targets) values.

    A missing value counts as 0.
    The greedy pass goes from rank to rank over all intervals, so each rank is contiguous in memory.
    """
    array = np.array(values, np.float64)
    array.sort(axis=1)
    # Sorting puts NaN last.
    incomplete = np.isnan(array[:, -1]) if array.shape[1] else np.zeros(len(array), np.bool_)
    if incomplete.any():
        array[incomplete] = np.sort(np.nan_to_num(array[incomplete], nan=0.0), axis=1)
    return np.ascontiguousarray(array.T)


def _clusters(ordered: Floats, tolerance: float) -> tuple[Ints, Ints, Ints]:
    """(clusters of each interval, active targets of each interval, size of each cluster, interval by interval)."""
    targets, intervals = ordered.shape
    starts = np.empty((targets, intervals), np.bool_)
    # The least positive number: zero activity never reaches it, anything else does.
    limit = np.full(intervals, np.nextafter(0.0, 1.0))
    reach = np.empty(intervals)
    for rank in range(targets):
        # (max - min) < tolerance * min fails: this one starts the next cluster, which reaches up to min * (1 + tol).
        started = np.greater_equal(ordered[rank], limit, out=starts[rank])
        np.multiply(ordered[rank], started, out=reach)
        np.multiply(reach, 1.0 + tolerance, out=reach)
        # A target that starts a cluster is above the old limit; for the others `reach` is 0.
        np.maximum(limit, reach, out=limit)
    flat = np.flatnonzero(np.ascontiguousarray(starts.T))
    edges = np.arange(intervals + 1) * targets
    bounds = np.searchsorted(flat, edges)
    count = np.diff(bounds)
    some = np.flatnonzero(count)
    # A cluster ends where the next one starts, the last of an interval with the interval.
    size = np.diff(flat, append=0)
    last = bounds[some + 1] - 1
    size[last] = edges[some + 1] - flat[last]
    # From the first cluster on every target is active.
    active = np.zeros(intervals, np.int64)
    active[some] = edges[some + 1] - flat[bounds[some]]
    return count, active, size


@dataclass(frozen=True, eq=False)
class ParallelismCounts:
    """The distribution of degrees, and small counts per interval.

    Counts per interval (clusters, targets in them, clusters of at least each of `degrees`: those of the paper, then the
    same scaled to these targets) allow any selection of intervals afterwards, such as the high phases.
    """

    histogram: Ints  # clusters by size
    per_interval: NDArray[np.int32]  # (intervals, 2 + 2 * len(DEGREES))

    def cdf(self) -> tuple[Ints, Floats]:
        """Return the degrees 1..targets, and the share of clusters of at most that size."""
        clusters = self.histogram[1:].sum()
        share = np.cumsum(self.histogram[1:]) / max(1, clusters)
        return np.arange(1, len(self.histogram)), share


def count_clusters(ordered: Floats, tolerance: float = TOLERANCE) -> ParallelismCounts:
    """Count the clusters of intervals given as `sort_activity` returns them."""
    targets, intervals = ordered.shape
    degrees = (*DEGREES, *(scaled(degree, targets) for degree in DEGREES))
    count, active, size = _clusters(ordered, tolerance)
    counts = np.zeros((intervals, 2 + len(degrees)), np.int32)
    counts[:, 0], counts[:, 1] = count, active
    row = np.repeat(np.arange(intervals), count)
    for place, degree in enumerate(degrees, start=2):
        counts[:, place] = np.bincount(row[size >= degree], minlength=intervals)
    return ParallelismCounts(np.bincount(size, minlength=targets + 1), counts)


def join_counts(parts: Sequence[ParallelismCounts]) -> ParallelismCounts:
    """Return the counts of consecutive stretches as one."""
    rows = np.concatenate([part.per_interval for part in parts])
    return ParallelismCounts(np.sum([part.histogram for part in parts], axis=0), rows)
