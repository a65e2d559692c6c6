"""Phases of activity, and imbalance and parallelism of components (pat19 sections 4 and 6).

- A phase is a maximal run of high steps (at or above the 75th percentile of all steps) or low ones (below the 25th). A
  gap breaks a phase. A time between two starts that spans a gap is not counted: what happened in the gap is unknown.
- Imbalance: the extremes of totals per component.
- Degree of parallelism: in each interval the targets are sorted by activity and clusters grow greedily from the
  smallest, so that in a cluster (max - min) < tolerance * min. A target without activity is in no cluster. The size of
  a cluster is a degree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ioweather.core.arrays import Bools, Floats, Ints

HIGH_QUANTILE = 0.75
LOW_QUANTILE = 0.25


@dataclass(frozen=True, eq=False)
class Phases:
    """Runs in time order: first step, length in steps, and whether an edge or a gap cut the run short.

    `interarrival[i]` is the time in steps from start i to start i + 1; `interarrival_of[i]` says which phase it
    belongs to, because those that span a gap are missing.
    """

    start: Ints
    length: Ints
    cut: Bools
    interarrival: Ints
    interarrival_of: Ints

    @property
    def count(self) -> int:
        return len(self.start)


def thresholds(values: NDArray[Any]) -> tuple[float, float]:
    """(P25, P75) of the steps that are there; NaN if none is."""
    array = np.asarray(values, np.float64)
    present = array[~np.isnan(array)]
    if not present.size:
        return float("nan"), float("nan")
    low, high = np.quantile(present, (LOW_QUANTILE, HIGH_QUANTILE))
    return float(low), float(high)


def members(values: NDArray[Any], threshold: float, side: Literal["high", "low"]) -> Bools:
    """Steps in the state: >= the threshold for high, < for low; missing steps are in neither."""
    array = np.asarray(values, np.float64)
    with np.errstate(invalid="ignore"):
        return np.asarray(array >= threshold if side == "high" else array < threshold)


def find_phases(values: NDArray[Any], threshold: float, side: Literal["high", "low"]) -> Phases:
    """Return the maximal runs of steps in the high or low state."""
    array = np.asarray(values, np.float64)
    state = members(array, threshold, side)
    missing = np.isnan(array)
    padded = np.concatenate([[False], state, [False]])
    start = np.flatnonzero(padded[1:] & ~padded[:-1]).astype(np.int64)
    end = np.flatnonzero(padded[:-1] & ~padded[1:]).astype(np.int64)
    # A missing step, or the end of the data, on either side: the run may have been longer.
    open_ended = np.concatenate([[True], missing, [True]])
    cut = open_ended[start] | open_ended[end + 1]
    gaps_before = np.concatenate([[0], np.cumsum(missing)])
    clean = np.flatnonzero(gaps_before[start[1:]] == gaps_before[start[:-1]])
    return Phases(start, end - start, cut, np.diff(start)[clean], clean.astype(np.int64))


def phase_sums(phases: Phases, steps: int, unit: int) -> Floats:
    """Per unit of time (by a phase's start): phases, their total length, inter-arrivals, their total: (units, 4)."""
    units = -(-steps // unit)
    of = phases.start // unit
    between = of[phases.interarrival_of]
    return np.stack(
        [
            np.bincount(of, minlength=units),
            np.bincount(of, weights=phases.length, minlength=units),
            np.bincount(between, minlength=units),
            np.bincount(between, weights=phases.interarrival, minlength=units),
        ],
        axis=1,
    ).astype(np.float64)


def max_to_min(totals: NDArray[Any]) -> Any:
    """Largest over smallest along the last axis; infinite over zero, NaN where all are zero."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.max(totals, axis=-1) / np.min(totals, axis=-1)


TOLERANCE = 0.05
DEGREES = (10, 20, 25, 50, 75, 100)  # pat19 table 1, and 20 of figure 11
PAPER_TARGETS = 248


def scaled(degree: int, targets: int) -> int:
    """Scale a degree of the paper's 248 targets to this number of targets; at least 2."""
    return max(2, round(degree / PAPER_TARGETS * targets))


def sorted_activity(values: NDArray[Any]) -> Floats:
    """Activities of each interval in ascending order, one interval per *column*; missing counts as no activity.

    The greedy pass goes from rank to rank over all intervals, so each rank is contiguous in memory.
    """
    array = np.array(values, np.float64)
    array.sort(axis=1)
    # Sorting puts NaN last.
    broken = np.isnan(array[:, -1]) if array.shape[1] else np.zeros(len(array), np.bool_)
    if broken.any():
        array[broken] = np.sort(np.nan_to_num(array[broken], nan=0.0), axis=1)
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
        """Degrees 1..targets, and the share of clusters of at most that size."""
        clusters = self.histogram[1:].sum()
        share = np.cumsum(self.histogram[1:]) / max(1, clusters)
        return np.arange(1, len(self.histogram)), share


def count_clusters(ordered: Floats, tolerance: float = TOLERANCE) -> ParallelismCounts:
    """The clusters of intervals that are given as `sorted_activity`."""
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
    """The counts of consecutive stretches as one."""
    rows = np.concatenate([part.per_interval for part in parts])
    return ParallelismCounts(np.sum([part.histogram for part in parts], axis=0), rows)
