"""The empirical side of every fit: distinct sorted values with counts, checked once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ioweather.core.arrays import Floats, Ints

# Below this no family can be told from another; a fit would only look like one.
MINIMUM_TIMES = 10
# Times that differ by less than a billionth are equal: what is left is the rounding of doubles.
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

    def expanded(self) -> Floats:
        """Every observation, sorted."""
        if self.distinct == self.n:
            return self.values
        return np.repeat(self.values, self.counts.astype(np.intp))

    def part(self, first: int, stop: int) -> Sample:
        """The observations of values[first:stop] alone."""
        return Sample(self.values[first:stop], self.below[first : stop + 1] - self.below[first])

    def resampled(self, rng: np.random.Generator) -> Sample:
        """As many observations drawn with replacement."""
        drawn = np.bincount(rng.integers(0, self.n, self.n), minlength=self.n)
        counts = drawn if self.distinct == self.n else np.add.reduceat(drawn, self.below[:-1].astype(np.intp))
        return weighted_sample(self.values, counts)


def weighted_sample(values: Floats, counts: Ints) -> Sample:
    """A sample of ascending distinct `values` that occur `counts` times; those that do not occur are left out."""
    kept = counts > 0
    return Sample(values[kept], np.concatenate([[0.0], np.cumsum(counts[kept], dtype=np.float64)]))


def sample_of(times: ArrayLike, *, minimum: int = MINIMUM_TIMES) -> Sample:
    """The sorted sample, or a ValueError with the sentence that says what is wrong with it."""
    array = np.asarray(times, np.float64)
    if array.ndim != 1:
        raise ValueError(f"times must be one-dimensional, not of shape {array.shape}")
    if np.isnan(array).any():
        raise ValueError(f"{np.isnan(array).sum()} of {array.size} times are missing (NaN): leave them out first")
    if np.isinf(array).any():
        raise ValueError(f"{np.isinf(array).sum()} of {array.size} times are infinite: leave them out first")
    if array.size < minimum:
        raise ValueError(f"a fit needs at least {minimum} times; there are {array.size}")
    ordered = np.sort(array)
    if ordered[0] < 0:
        raise ValueError(f"{(ordered < 0).sum()} of {array.size} times are negative: a time cannot be")
    if ordered[-1] - ordered[0] <= _SAME * ordered[-1]:
        raise ValueError(f"all {array.size} times are equal ({ordered[0]:g}): there is no distribution to fit")
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    return Sample(ordered[starts], np.append(starts, array.size).astype(np.float64))
