"""Kolmogorov-Smirnov distances without looking at every point, and the candidate split with the least of them.

Two exact shortcuts. (1) Model and ECDF both rise, so between two evaluated points their distance is bounded by those
two; only stretches that could still hold the supremum are looked into. (2) The distance at any one point is a lower
bound of the supremum, so a candidate whose bound exceeds the best value found is discarded unseen; where one
candidate's supremum lies is the best place to look for its neighbours'.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from ioweather.core.arrays import Floats, Indices
from ioweather.stats.tails.families import Family
from ioweather.stats.tails.sample import Sample

# `both`: the textbook supremum, at the ECDF before and after each jump. `left`: only before the jump, as the package
# `powerlaw` does; with ties, or few points, it can choose another xmin.
Ecdf: TypeAlias = Literal["both", "left"]
Combine: TypeAlias = Callable[[Indices, Sequence[Floats]], Floats]

_FIRST_POINTS = 256
_SPLIT = 16
_PROBES = (1.0, 0.5, 0.75, 0.25, 0.9, 0.1)


@dataclass(frozen=True)
class Gap:
    """The largest distance and the index of the value where it lies."""

    distance: float
    index: int


@dataclass(frozen=True, eq=False)
class Group:
    """One side of every candidate split: values[first:stop] of the sample, and the distribution fitted to each."""

    sample: Sample
    first: Indices
    stop: Indices
    fitted: Family
    ecdf: Ecdf = "both"

    def gap_at(self, rows: Indices, index: Indices | int) -> Floats:
        """Distance at a value of the group, one per row or one for all: an exact lower bound of each row's largest."""
        below, base = self.sample.below, self.sample.below[self.first[rows]]
        size = below[self.stop[rows]] - base
        before, after = _model(self.fitted.at(rows), self.sample.values[index])
        gap = np.abs(before - (below[index] - base) / size)
        if self.ecdf == "both":
            np.maximum(gap, np.abs(after - (below[index + 1] - base) / size), out=gap)
        return gap

    def gap_near(self, rows: Indices, fraction: float) -> Floats:
        """Distance at a value that lies at `fraction` of each row's own stretch of distinct values."""
        first, last = self.first[rows], self.stop[rows] - 1
        return self.gap_at(rows, first + ((last - first) * fraction).astype(np.intp))

    def holds(self, rows: Indices, index: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        return (self.first[rows] <= index) & (index < self.stop[rows])

    def gap(self, row: int) -> Gap:
        return largest_gap(self.sample, self.fitted.one(row), int(self.first[row]), int(self.stop[row]), self.ecdf)


def largest_gap(sample: Sample, model: Family, first: int = 0, stop: int | None = None, ecdf: Ecdf = "both") -> Gap:
    """sup |model - ECDF| of values[first:stop], exactly."""
    stop = sample.distinct if stop is None else stop
    base, size = sample.below[first], sample.below[stop] - sample.below[first]

    def look(index: Indices) -> tuple[Floats, Floats, Floats, Floats]:
        before, after = _model(model, sample.values[index])
        return before, after, (sample.below[index] - base) / size, (sample.below[index + 1] - base) / size

    few = stop - first <= _FIRST_POINTS
    index = np.arange(first, stop) if few else np.linspace(first, stop - 1, _FIRST_POINTS).astype(np.intp)
    seen = look(index)
    best = _largest(index, seen, ecdf)
    if few:
        return best
    # What bounds the inside of each stretch (left, right): the model rises from `low` to `high`, the ECDF from
    # `floor` to `ceiling`.
    left, right = index[:-1], index[1:]
    low, high, floor, ceiling = seen[1][:-1], seen[0][1:], seen[3][:-1], seen[2][1:]
    while True:
        promising = (right - left > 1) & (np.maximum(high - floor, ceiling - low) > best.distance)
        if not promising.any():
            return best
        left, right = left[promising, None], right[promising, None]
        low, high, floor, ceiling = (bound[promising, None] for bound in (low, high, floor, ceiling))
        inner = left + ((right - left) * np.arange(1, _SPLIT)) // _SPLIT
        seen = look(inner)
        found = _largest(inner, seen, ecdf)
        best = found if found.distance > best.distance else best
        left, right = np.hstack([left, inner]).ravel(), np.hstack([inner, right]).ravel()
        low, high = np.hstack([low, seen[1]]).ravel(), np.hstack([seen[0], high]).ravel()
        floor, ceiling = np.hstack([floor, seen[3]]).ravel(), np.hstack([seen[2], ceiling]).ravel()


def _model(model: Family, x: Floats) -> tuple[Floats, Floats]:
    """P(T < x) and P(T <= x)."""
    after = model.cdf(x)
    return (after if model.continuous else model.cdf_before(x)), after


def _largest(index: Indices, seen: tuple[Floats, Floats, Floats, Floats], ecdf: Ecdf) -> Gap:
    gap = np.abs(seen[0] - seen[2])
    if ecdf == "both":
        gap = np.maximum(gap, np.abs(seen[1] - seen[3]))
    place = int(np.argmax(gap))
    return Gap(float(gap.flat[place]), int(index.flat[place]))


@dataclass(frozen=True)
class Least:
    """The best candidate: its row, the combined distance and the gap of each group; and how many were looked at."""

    row: int
    value: float
    gaps: tuple[Gap, ...]
    evaluated: int


def least_gap(groups: Sequence[Group], combine: Combine) -> Least:
    """The row whose combined gaps are least. Exact: what is discarded has a lower bound at or above the best found.

    `combine` must not fall when a gap grows. Each round raises the bounds of all rows still alive, at a new relative
    place first and then where the last examined row had its gaps, and examines the row with the lowest bound.
    """
    alive = np.arange(len(groups[0].first), dtype=np.intp)
    bounds = [np.zeros(len(alive)) for _ in groups]
    best = Least(-1, np.inf, (), 0)
    evaluated = 0
    probes = list(reversed(_PROBES))
    while alive.size:
        if probes:
            fraction = probes.pop()
            for group, bound in zip(groups, bounds, strict=True):
                bound[alive] = np.maximum(bound[alive], group.gap_near(alive, fraction))
        lowest = int(np.argmin(combine(alive, [bound[alive] for bound in bounds])))
        row = int(alive[lowest])
        alive = np.concatenate((alive[:lowest], alive[lowest + 1 :]))
        gaps = tuple(group.gap(row) for group in groups)
        value = float(combine(np.array([row]), [np.array([gap.distance]) for gap in gaps])[0])
        evaluated += 1
        if (value, row) < (best.value, best.row):
            best = Least(row, value, gaps, 0)
        for group, bound, gap in zip(groups, bounds, gaps, strict=True):
            reached = alive[group.holds(alive, gap.index)]
            bound[reached] = np.maximum(bound[reached], group.gap_at(reached, gap.index))
        alive = alive[combine(alive, [bound[alive] for bound in bounds]) < best.value]
    return Least(best.row, best.value, best.gaps, evaluated)
