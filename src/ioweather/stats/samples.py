"""The empirical distribution of times, and Kolmogorov-Smirnov distances of fitted ones from it.

`least_gap` finds the candidate split with the least distance without evaluating every point, by two exact shortcuts.
(1) Model and ECDF both rise, so between two evaluated points their distance is bounded by those two: only stretches
that could still contain the supremum are examined. (2) The distance at any one point is a lower bound of the supremum:
a candidate whose bound exceeds the best value found is discarded. The place of one candidate's supremum is the best
place to look for its neighbours'.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from ioweather.core.arrays import Floats, Indices
from ioweather.stats.families import Family

# With fewer times no family can be distinguished from another.
MINIMUM_TIMES = 10
# Times that differ by less than a billionth are equal: such differences are rounding of doubles.
_SAME = 1e-9


@dataclass(frozen=True, eq=False)
class Sample:
    """`values` are distinct and ascending; `below[i]` counts the observations < values[i], and `below[-1]` is n.

    So the ECDF jumps at values[i] from below[i]/n to below[i + 1]/n, and ties need no further care anywhere.
    """

    values: Floats
    below: Floats

    @property
    def n(self) -> int:
        return int(self.below[-1])

    @property
    def distinct(self) -> int:
        return len(self.values)

    @property
    def counts(self) -> Floats:
        return np.diff(self.below)

    def resampled(self, rng: np.random.Generator) -> Sample:
        """As many observations drawn with replacement."""
        drawn = np.bincount(rng.integers(0, self.n, self.n), minlength=self.n)
        counts = np.add.reduceat(drawn, self.below[:-1].astype(np.intp))
        present = counts > 0
        return Sample(self.values[present], np.concatenate([[0.0], np.cumsum(counts[present], dtype=np.float64)]))


def sample_of(times: ArrayLike) -> Sample:
    """Return the sorted sample; ValueError for missing, infinite, negative, too few or equal times."""
    array = np.asarray(times, np.float64)
    if array.ndim != 1:
        raise ValueError(f"times must be one-dimensional, not of shape {array.shape}")
    if np.isnan(array).any():
        raise ValueError(f"{np.isnan(array).sum()} of {array.size} times are missing (NaN): leave them out first")
    if np.isinf(array).any():
        raise ValueError(f"{np.isinf(array).sum()} of {array.size} times are infinite: leave them out first")
    if array.size < MINIMUM_TIMES:
        raise ValueError(f"a fit needs at least {MINIMUM_TIMES} times; there are {array.size}")
    ordered = np.sort(array)
    if ordered[0] < 0:
        raise ValueError(f"{(ordered < 0).sum()} of {array.size} times are negative: a time cannot be")
    if ordered[-1] - ordered[0] <= _SAME * ordered[-1]:
        raise ValueError(f"all {array.size} times are equal ({ordered[0]:g}): there is no distribution to fit")
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    return Sample(ordered[starts], np.append(starts, array.size).astype(np.float64))


Combine: TypeAlias = Callable[[Indices, Sequence[Floats]], Floats]
Gap: TypeAlias = tuple[float, int]  # the largest distance, and the index of its value

_FIRST_POINTS = 256
_SPLIT = 16
_PROBES = (1.0, 0.5, 0.75, 0.25, 0.9, 0.1)


@dataclass(frozen=True, eq=False)
class Group:
    """One side of every candidate split: values[first:stop] of the sample, and the distribution fitted to each."""

    sample: Sample
    first: Indices
    stop: Indices
    fitted: Family

    def gap_at(self, rows: Indices, index: Indices | int) -> Floats:
        """Distance at a value of the group, one per row or one for all: an exact lower bound of each row's largest."""
        below, base = self.sample.below, self.sample.below[self.first[rows]]
        size = below[self.stop[rows]] - base
        model = self.fitted.at(rows).cdf(self.sample.values[index])
        before, after = (below[index] - base) / size, (below[index + 1] - base) / size
        return np.maximum(np.abs(model - before), np.abs(model - after))

    def gap(self, row: int) -> Gap:
        return largest_gap(self.sample, self.fitted.one(row), int(self.first[row]), int(self.stop[row]))


def largest_gap(sample: Sample, model: Family, first: int = 0, stop: int | None = None) -> Gap:
    """sup |model - ECDF| of values[first:stop], exactly, and the index of the value where it is."""
    stop = sample.distinct if stop is None else stop
    base, size = sample.below[first], sample.below[stop] - sample.below[first]

    def evaluate(index: Indices) -> tuple[Floats, Floats, Floats]:
        below, up_to = (sample.below[index] - base) / size, (sample.below[index + 1] - base) / size
        return model.cdf(sample.values[index]), below, up_to

    def largest(index: Indices, evaluated: tuple[Floats, Floats, Floats]) -> Gap:
        gap = np.maximum(np.abs(evaluated[0] - evaluated[1]), np.abs(evaluated[0] - evaluated[2]))
        place = int(np.argmax(gap))
        return float(gap.flat[place]), int(index.flat[place])

    few = stop - first <= _FIRST_POINTS
    index = np.arange(first, stop) if few else np.linspace(first, stop - 1, _FIRST_POINTS).astype(np.intp)
    evaluated = evaluate(index)
    best = largest(index, evaluated)
    if few:
        return best
    # What bounds the inside of each stretch (left, right): the model rises from `low` to `high`, the ECDF from
    # `floor` to `ceiling`.
    left, right = index[:-1], index[1:]
    low, high, floor, ceiling = evaluated[0][:-1], evaluated[0][1:], evaluated[2][:-1], evaluated[1][1:]
    while True:
        promising = (right - left > 1) & (np.maximum(high - floor, ceiling - low) > best[0])
        if not promising.any():
            return best
        left, right = left[promising, None], right[promising, None]
        low, high, floor, ceiling = (bound[promising, None] for bound in (low, high, floor, ceiling))
        inner = left + ((right - left) * np.arange(1, _SPLIT)) // _SPLIT
        evaluated = evaluate(inner)
        best = max(best, largest(inner, evaluated), key=lambda gap: gap[0])
        left, right = np.hstack([left, inner]).ravel(), np.hstack([inner, right]).ravel()
        low, high = np.hstack([low, evaluated[0]]).ravel(), np.hstack([evaluated[0], high]).ravel()
        floor, ceiling = np.hstack([floor, evaluated[2]]).ravel(), np.hstack([evaluated[1], ceiling]).ravel()


def least_gap(groups: Sequence[Group], combine: Combine) -> tuple[int, float, list[float]]:
    """The row whose combined gaps are least, their combination and the gap of each group. Exact: what is discarded has
    a lower bound at or above the best found.

    `combine` must not fall when a gap grows. Each round raises the bounds of all rows still alive, at a new relative
    place first and then where the last examined row had its gaps, and examines the row with the lowest bound.
    """
    alive = np.arange(len(groups[0].first), dtype=np.intp)
    bounds = [np.zeros(len(alive)) for _ in groups]
    best: tuple[int, float, list[float]] = (-1, np.inf, [])
    probes = list(reversed(_PROBES))
    while alive.size:
        if probes:
            fraction = probes.pop()
            for group, bound in zip(groups, bounds, strict=True):
                first, last = group.first[alive], group.stop[alive] - 1
                near = group.gap_at(alive, first + ((last - first) * fraction).astype(np.intp))
                bound[alive] = np.maximum(bound[alive], near)
        lowest = int(np.argmin(combine(alive, [bound[alive] for bound in bounds])))
        row = int(alive[lowest])
        alive = np.delete(alive, lowest)
        gaps = [group.gap(row) for group in groups]
        value = float(combine(np.array([row]), [np.array([distance]) for distance, _ in gaps])[0])
        if (value, row) < (best[1], best[0]):
            best = row, value, [distance for distance, _ in gaps]
        for group, bound, (_, index) in zip(groups, bounds, gaps, strict=True):
            reached = alive[(group.first[alive] <= index) & (index < group.stop[alive])]
            bound[reached] = np.maximum(bound[reached], group.gap_at(reached, index))
        alive = alive[combine(alive, [bound[alive] for bound in bounds]) < best[1]]
    return best
