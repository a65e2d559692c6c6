"""Head and tail at every candidate pivot, and the pivot where both fit best (don15 section 4.2).

A candidate is the index of a distinct value: head <= values[cut] < tail, so ties at the pivot go to the head. Tail
families are bounded below by the pivot.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np

from ioweather.core.arrays import Floats, Indices
from ioweather.stats.tails.boundedfit import (
    TailSums,
    fit_exponential_tails,
    fit_gamma_tails,
    fit_lognormal_tails,
    fit_power_law_tails,
    tail_sums,
)
from ioweather.stats.tails.families import Family
from ioweather.stats.tails.gaps import Combine, Group, Least, least_gap
from ioweather.stats.tails.heads import fit_normal_heads, fit_truncated_normal_heads
from ioweather.stats.tails.points import EXACT_POINTS, fit_cauchy_heads, fit_weibull_tails
from ioweather.stats.tails.sample import Sample

# `truncated_normal` ends at the pivot [ours]; the paper's two are fitted as if the head were the whole world.
HeadName: TypeAlias = Literal["normal", "cauchy", "truncated_normal"]
TailName: TypeAlias = Literal["power_law", "exponential", "lognormal", "weibull", "gamma"]
Combination: TypeAlias = Literal["weighted", "sum", "maximum"]

HEADS: tuple[HeadName, ...] = ("normal", "cauchy")
ALL_HEADS: tuple[HeadName, ...] = (*HEADS, "truncated_normal")
TAILS: tuple[TailName, ...] = ("power_law", "exponential", "lognormal", "weibull", "gamma")
COMBINATIONS: tuple[Combination, ...] = ("weighted", "sum", "maximum")

_HEAD_FITS: dict[HeadName, Callable[[Sample, Indices], Family]] = {
    "normal": fit_normal_heads,
    "cauchy": fit_cauchy_heads,
    "truncated_normal": fit_truncated_normal_heads,
}
_BY_SUMS: dict[TailName, Callable[[TailSums], Family]] = {
    "power_law": fit_power_law_tails,
    "exponential": fit_exponential_tails,
    "lognormal": fit_lognormal_tails,
    "gamma": fit_gamma_tails,
}
# How many candidates a step of the coarse-to-fine search holds.
_COARSE = 1000


@dataclass(eq=False)
class Splits:
    """The groups at some candidate cuts (ascending), each family fitted when it is first asked for."""

    sample: Sample
    cuts: Indices
    _heads: dict[HeadName, Group] = field(default_factory=dict)
    _tails: dict[TailName, Group] = field(default_factory=dict)
    _bounds: dict[HeadName, Floats] = field(default_factory=dict)
    _sums: TailSums | None = None

    def head(self, name: HeadName) -> Group:
        if name not in self._heads:
            fitted = _HEAD_FITS[name](self.sample, self.cuts)
            self._heads[name] = Group(self.sample, np.zeros_like(self.cuts), self.cuts + 1, fitted)
        return self._heads[name]

    def tail(self, name: TailName) -> Group:
        if name not in self._tails:
            if name == "weibull":
                fitted: Family = fit_weibull_tails(self.sample, self.cuts)
            else:
                fitted = _BY_SUMS[name](self.sums())
            stop = np.full_like(self.cuts, self.sample.distinct)
            self._tails[name] = Group(self.sample, self.cuts + 1, stop, fitted)
        return self._tails[name]

    def head_bound(self, name: HeadName) -> Floats:
        """A lower bound of every row's head distance, from a few places in each head."""
        if name not in self._bounds:
            rows = np.arange(len(self.cuts))
            group = self.head(name)
            self._bounds[name] = np.max([group.gap_near(rows, fraction) for fraction in (1.0, 0.75, 0.5, 0.25)], axis=0)
        return self._bounds[name]

    def taken(self, rows: Indices) -> Splits:
        """Some of the rows, with what is already known of them."""
        heads = {
            name: Group(self.sample, group.first[rows], group.stop[rows], group.fitted.at(rows))
            for name, group in self._heads.items()
        }
        return Splits(self.sample, self.cuts[rows], heads, _sums=self.sums().at(rows))

    def sums(self) -> TailSums:
        if self._sums is None:
            self._sums = tail_sums(self.sample, self.sample.values[self.cuts], self.cuts + 1)
        return self._sums

    def combine(self, combination: Combination) -> Combine:
        """How the two distances become one."""
        if combination == "weighted":
            share = self.sample.below[self.cuts + 1] / self.sample.n
            return lambda rows, gaps: share[rows] * gaps[0] + (1.0 - share[rows]) * gaps[1]
        if combination == "sum":
            return lambda rows, gaps: gaps[0] + gaps[1]
        return lambda rows, gaps: np.maximum(gaps[0], gaps[1])

    def least(self, head: HeadName, tail: TailName, combination: Combination) -> Least:
        return least_gap([self.head(head), self.tail(tail)], self.combine(combination))


@dataclass(frozen=True)
class BestSplit:
    """Where one pair of families fits best."""

    cut: int
    head: Family
    tail: Family
    head_gap: float
    tail_gap: float
    value: float
    evaluated: int


def candidate_cuts(sample: Sample, minimum_head: int, minimum_tail: int) -> Indices:
    """Pivots > 0 with enough observations, and two distinct values, on either side."""
    cuts = np.arange(1, sample.distinct - 2)
    size = sample.below[cuts + 1]
    enough = (size >= minimum_head) & (sample.n - size >= minimum_tail) & (sample.values[cuts] > 0)
    return cuts[enough]


def thinned(cuts: Indices, most: int) -> Indices:
    """At most about `most` of them, evenly spaced, both ends kept."""
    if len(cuts) <= most:
        return cuts
    return cuts[np.unique(np.linspace(0, len(cuts) - 1, most).astype(np.intp))]


def search_pair(every: Splits, coarse: Splits, head: HeadName, tail: TailName, combination: Combination) -> BestSplit:
    """The best split of one pair. `every` holds all candidates, `coarse` the same ones thinned (shared by all pairs).

    Exact for Normal heads with tails that sums can fit, and for any pair where there are no more than EXACT_POINTS
    candidates. Cauchy and Weibull beyond that: coarse to fine.
    """
    if len(every.cuts) <= EXACT_POINTS:
        return _best(every, head, tail, combination)
    if head != "cauchy" and tail != "weibull":
        return _best(_not_beaten(every, coarse, head, tail, combination), head, tail, combination)
    splits, best = coarse, coarse.least(head, tail, combination)
    while len(splits.cuts) < len(every.cuts):
        around = splits.cuts[[max(best.row - 1, 0), min(best.row + 1, len(splits.cuts) - 1)]]
        low, high = np.searchsorted(every.cuts, around)
        near = every.cuts[low : high + 1]
        splits = Splits(every.sample, np.union1d(thinned(near, _COARSE), splits.cuts[best.row]))
        best = splits.least(head, tail, combination)
        if len(splits.cuts) >= len(near):
            break
    return _report(splits, best, head, tail)


def _not_beaten(every: Splits, coarse: Splits, head: HeadName, tail: TailName, combination: Combination) -> Splits:
    """The candidates whose head alone does not rule them out: only for those is a tail worth fitting."""
    ceiling = coarse.least(head, tail, combination).value
    rows = np.arange(len(every.cuts))
    least = every.combine(combination)(rows, [every.head_bound(head), np.zeros(len(rows))])
    return every.taken(np.flatnonzero(least <= ceiling))


def _best(splits: Splits, head: HeadName, tail: TailName, combination: Combination) -> BestSplit:
    return _report(splits, splits.least(head, tail, combination), head, tail)


def _report(splits: Splits, least: Least, head: HeadName, tail: TailName) -> BestSplit:
    return BestSplit(
        cut=int(splits.cuts[least.row]),
        head=splits.head(head).fitted.one(least.row),
        tail=splits.tail(tail).fitted.one(least.row),
        head_gap=least.gaps[0].distance,
        tail_gap=least.gaps[1].distance,
        value=least.value,
        evaluated=least.evaluated,
    )


def coarse_of(every: Splits) -> Splits:
    return every if len(every.cuts) <= EXACT_POINTS else Splits(every.sample, thinned(every.cuts, _COARSE))
