"""Phases of activity, and imbalance and parallelism of components (pat19 sections 4 and 6).

- A phase is a maximal run of high steps (at or above the 75th percentile of all steps) or low ones (below the 25th). A
  gap breaks a phase. Means come from rates of starts over recorded time (`phase_sums`), which gaps do not bias; the
  times from start to start of the chart leave out those that span a gap, long ones first.
- Imbalance: the extremes of totals per component.
- Degree of parallelism: in each interval the targets are sorted by activity and clusters grow greedily from the
  smallest, so that in a cluster (max - min) < tolerance * min. A target without activity is in no cluster. The size of
  a cluster is a degree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ioweather.core.arrays import Bools, Floats, Ints
from ioweather.stats.bootstrap import sums_by_unit

Side: TypeAlias = Literal["high", "low"]

HIGH_QUANTILE = 0.75
LOW_QUANTILE = 0.25


@dataclass(frozen=True, eq=False)
class Phases:
    """Runs in time order: first step, length in steps, and whether an edge or a gap cut the run short.

    `interarrival` are the times in steps from one start to the next, those without a gap between them.
    """

    start: Ints
    length: Ints
    cut: Bools
    interarrival: Ints

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


def members(values: NDArray[Any], threshold: float, side: Side) -> Bools:
    """Steps in the state: >= the threshold for high, < for low; missing steps are in neither."""
    array = np.asarray(values, np.float64)
    with np.errstate(invalid="ignore"):
        return np.asarray(array >= threshold if side == "high" else array < threshold)


def find_phases(values: NDArray[Any], threshold: float, side: Side) -> Phases:
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
    return Phases(start, end - start, cut, np.diff(start)[clean])


# Thresholds around the percentile: those that resampled days may have.
_LEVELS = np.linspace(-0.2, 0.2, 17)


def phase_sums(values: NDArray[Any], side: Side, unit: int, short: float, *, resampled: bool) -> Floats:
    """Per unit of time, what phases at each of some thresholds add up to: (units, thresholds, 7).

    Columns: recorded steps; steps in the state; steps whose predecessor was recorded (or the first one); those of them
    that begin a phase; those of them in the state; phases; phases of at most `short` steps. The middle threshold is the
    percentile itself; without `resampled` it is the only one. Only a step with a recorded predecessor can be seen to
    begin a phase, so means over these steps are right whatever is missing.
    """
    array = np.asarray(values, np.float64)
    there = ~np.isnan(array)
    exposed = there.copy()
    exposed[1:] &= there[:-1]
    middle = HIGH_QUANTILE if side == "high" else LOW_QUANTILE
    shifts = _LEVELS if resampled else np.zeros(1)
    cuts = np.quantile(array[there], np.clip(middle + shifts, 0, 1)) if there.any() else np.full(len(shifts), np.nan)
    out = []
    for cut in cuts:
        phases = find_phases(array, float(cut), side)
        state = members(array, float(cut), side)
        begins = np.zeros(len(array), np.bool_)
        begins[phases.start] = True
        runs = np.zeros((len(array), 2))
        runs[phases.start] = np.stack([np.ones(phases.count), phases.length <= short], axis=1)
        columns = [there, state, exposed, exposed & begins, exposed & state, runs[:, 0], runs[:, 1]]
        out.append(sums_by_unit(np.stack(columns, axis=1).astype(np.float64), unit))
    return np.stack(out, axis=1)


def at_percentile(sums: Floats, whole: Floats) -> Floats:
    """Sums at the threshold that puts as much of the units drawn into the state as the percentile does in the whole
    period: (..., 7), from `phase_sums` on the last two axes of `sums` and `whole`.

    So the threshold is estimated again from the units drawn, between two thresholds by interpolation.
    """
    if sums.shape[-2] == 1:
        return sums[..., 0, :]
    with np.errstate(divide="ignore", invalid="ignore"):
        middle = whole[..., whole.shape[-2] // 2, :]
        wanted = (middle[..., 1] / middle[..., 0])[..., None]
        share = sums[..., 1] / sums[..., 0]
        falling = (share[..., -1] < share[..., 0])[..., None]
        share = np.where(falling, share[..., ::-1], share)
        ordered = np.where(falling[..., None], sums[..., ::-1, :], sums)
        after = np.clip((share < wanted * (1 - 1e-12)).sum(axis=-1), 1, share.shape[-1] - 1)[..., None]
        low, high = (np.take_along_axis(share, at, axis=-1) for at in (after - 1, after))
        part = np.clip(np.where(high > low, (wanted - low) / (high - low), 1.0), 0.0, 1.0)
    first, second = (np.take_along_axis(ordered, at[..., None], axis=-2)[..., 0, :] for at in (after - 1, after))
    return np.asarray((1 - part) * first + part * second)


def mean_length(sums: Floats) -> Floats:
    """Mean length of a phase in steps: steps in the state per start."""
    return np.asarray(sums[..., 4] / sums[..., 3])


def mean_interarrival(sums: Floats) -> Floats:
    """Mean time from one start to the next in steps: recorded time per start."""
    return np.asarray(sums[..., 2] / sums[..., 3])


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
