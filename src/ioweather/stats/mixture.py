"""A head and a heavy tail: the mixed distribution of response times (don15 section 4.2), with its uncertainty.

The paper splits a sample at the pivot where the Kolmogorov-Smirnov distances of head and tail, together, are least. A
candidate pivot is the index of a distinct value: head <= values[cut] < tail, so ties at the pivot go to the head. Tail
families are bounded below by the pivot. The paper leaves open how two distances become one (`combination`, by default
weighted by group size), where a tail's lower bound lies (the pivot) and how small a tail may be (`minimum_group`):
these choices are ours, and are part of the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike

from ioweather.core.arrays import Floats, Indices
from ioweather.stats.families import BoundedFamily, BoundedWeibull, Cauchy, Family, Mixture, Normal, TruncatedHead
from ioweather.stats.samples import Combine, Group, Least, Sample, largest_gap, least_gap, sample_of
from ioweather.stats.tail_fits import (
    EXACT_POINTS,
    TailSums,
    fit_cauchy,
    fit_cauchy_heads,
    fit_exponential_tails,
    fit_gamma_tails,
    fit_lognormal_tails,
    fit_normal_heads,
    fit_power_law_tails,
    fit_truncated_normal_heads,
    fit_weibull_tail,
    fit_weibull_tails,
    tail_sums,
    truncated_head,
)

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
# Candidates in one step of the coarse-to-fine search.
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

    def subset(self, rows: Indices) -> Splits:
        """Return some of the rows, with their fits so far."""
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


def candidate_cuts(sample: Sample, minimum_head: int, minimum_tail: int) -> Indices:
    """Pivots > 0 with enough observations, and two distinct values, on either side."""
    cuts = np.arange(1, sample.distinct - 2)
    size = sample.below[cuts + 1]
    enough = (size >= minimum_head) & (sample.n - size >= minimum_tail) & (sample.values[cuts] > 0)
    return cuts[enough]


def thinned(cuts: Indices, most: int) -> Indices:
    """At most about `most` of them, evenly spaced, both ends included."""
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
    return every.subset(np.flatnonzero(least <= ceiling))


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
    )


def coarse_of(every: Splits) -> Splits:
    """Return the candidates thinned for the first step of the search."""
    return every if len(every.cuts) <= EXACT_POINTS else Splits(every.sample, thinned(every.cuts, _COARSE))


Selection: TypeAlias = Literal["ks", "aic"]
# Heads that end at a pivot, by that and by the head as the paper fits it.
_Ends: TypeAlias = dict[tuple[int, str, float, float], TruncatedHead]

# A group this small says little about its family: without a bound an Exponential picks tails of 7 to 21 points.
MINIMUM_GROUP = 50
# Candidate pivots per bootstrap replicate: a 400th of the sample is finer than any interval.
_REPLICATE_CUTS = 400


@dataclass(frozen=True)
class Interval:
    """A bootstrap interval of one parameter."""

    low: float
    high: float
    level: float
    method: str


@dataclass(frozen=True)
class PairFit:
    """One pair of families at its best pivot. The distances are the paper's; `aic` is that of `distribution`.

    `head` is fitted to the head group as the paper does, `distribution.head` ends at the pivot. `collapsed`: the tail
    has become the power law under another name, and does not compete.
    """

    head: Family
    tail: BoundedFamily
    pivot: float
    tail_share: float
    head_ks: float
    tail_ks: float
    ks: float
    aic: float
    distribution: Mixture
    collapsed: bool

    @property
    def name(self) -> str:
        return f"{_head_name(self.head)} + {self.tail.name}"


@dataclass(frozen=True)
class MixtureFit:
    """The best pair by the criterion named in `select`, and all pairs, best first.

    `ks`: the least combined distance, as in the paper. It favours families with one parameter more, which come near
    any power law; `aic` charges for the parameter, and is the better guide far out in the tail.
    """

    n: int
    best: PairFit
    pairs: tuple[PairFit, ...]
    combination: Combination
    select: Selection
    minimum_group: int
    intervals: Mapping[str, Interval] = field(default_factory=dict)

    @property
    def pivot(self) -> float:
        return self.best.pivot

    @property
    def tail_share(self) -> float:
        return self.best.tail_share

    @property
    def ks(self) -> float:
        return self.best.ks

    @property
    def distribution(self) -> Mixture:
        return self.best.distribution

    @property
    def best_by_aic(self) -> PairFit:
        """The same as `best`, or what it would be under the other criterion."""
        return min(self.pairs, key=_aic_order)


def fit_mixture(
    times: ArrayLike,
    *,
    heads: Sequence[HeadName] = HEADS,
    tails: Sequence[TailName] = TAILS,
    combination: Combination = "weighted",
    select: Selection = "ks",
    minimum_group: int | None = None,
    replicates: int = 0,
    level: float = 0.95,
    seed: int = 0,
) -> MixtureFit:
    """Split response times (seconds, or any unit) into head and tail at the best of all pivots.

    `select` says which of the pairs of families is the best, each at its own best pivot (see MixtureFit).
    Every distinct value with at least `minimum_group` observations on either side is a candidate (default: a tenth
    of the sample, at least 5 and at most 50). With `replicates` the winning pair's parameters get bootstrap intervals
    (200 are enough for .95). Ties at the pivot go to the head. Zeros may lie in the head only. ValueError for fewer
    than 10 times, missing, negative or infinite ones, or times that are all equal.

    >>> import ioweather
    >>> fit = ioweather.fit_mixture([1.0, 1.1, 1.2, 1.3, 1.2, 1.1, 1.0, 1.3, 1.4, 1.2, 4.0, 6.0, 9.0, 20.0, 50.0, 90.0])
    >>> 1.0 < fit.pivot < 20.0
    True
    """
    _check_choice("head", heads, ALL_HEADS)
    _check_choice("tail", tails, TAILS)
    _check_choice("combination", [combination], COMBINATIONS)
    _check_choice("select", [select], get_args(Selection))
    sample = sample_of(times)
    smallest = minimum_group if minimum_group is not None else min(MINIMUM_GROUP, max(5, sample.n // 10))
    every = Splits(sample, candidate_cuts(sample, smallest, smallest))
    if not every.cuts.size:
        raise ValueError(
            f"no pivot leaves {smallest} times and two distinct values on either side of {sample.n} times "
            f"({sample.distinct} distinct): measure more, or lower minimum_group"
        )
    coarse = coarse_of(every)
    ends: _Ends = {}
    fits = [
        _pair_fit(sample, _searched(every, coarse, head, tail, combination), ends) for head in heads for tail in tails
    ]
    ranked = tuple(sorted(fits, key=_aic_order if select == "aic" else lambda pair: (pair.collapsed, pair.ks)))
    fit = MixtureFit(sample.n, ranked[0], ranked, combination, select, smallest)
    if not replicates:
        return fit
    again = bootstrap(sample, fit, range(replicates), seed=seed)
    return replace(fit, intervals=intervals_of(sample, fit, [again], level))


def _aic_order(pair: PairFit) -> tuple[bool, float]:
    return pair.collapsed, pair.aic


@dataclass(frozen=True, eq=False)
class Replicates:
    """`pairs`: the winning pair on observations drawn again, its pivot searched again each time, and where the head is
    a Normal once more with one that ends at the pivot: the paper's does not, and shifts it. `excess` (k, 2): on a
    sample drawn from each of these last, by how much the distance at its pivot, and at its share, exceeds the least."""

    pairs: tuple[PairFit, ...]
    excess: Floats


def bootstrap(sample: Sample, fit: MixtureFit, replicates: range, *, seed: int = 0) -> Replicates:
    """Observations are taken to be independent. Each numbered replicate is the same
    in any selection."""
    drawn = [sample.resampled(np.random.default_rng([seed, number])) for number in replicates]
    head = _head_name(fit.best.head)
    heads: tuple[HeadName, ...] = ("normal", "truncated_normal") if head == "normal" else (head,)
    pairs = tuple(refitted(again, fit, each) for each in heads for again in drawn)
    if head == "cauchy":
        return Replicates(pairs, np.empty((0, 2)))
    excess = []
    for number, ends in zip(replicates, pairs[-len(drawn) :], strict=True):
        again = sample_of(ends.distribution.sample(fit.n, np.random.default_rng([seed, number, 1])))
        splits = _replicate_splits(again, fit)
        pivots, shares = _pivots_and_shares(splits)
        rows = [int(np.abs(a - b).argmin()) for a, b in ((pivots, ends.pivot), (shares, ends.tail_share))]
        least = splits.least("truncated_normal", _tail_name(fit), fit.combination).value
        excess.append(_distances(splits, fit, rows) - least)
    return Replicates(pairs, np.array(excess))


def intervals_of(
    sample: Sample, fit: MixtureFit, made: Sequence[Replicates], level: float = 0.95
) -> Mapping[str, Interval]:
    """Percentiles of the replicates: from the least to the greatest of what the heads say that were tried. Of pivot and
    share, where the distance hardly has a least, those that exceed it by no more than true ones do."""
    rows: dict[HeadName, list[Mapping[str, float]]] = {}
    for pair in (pair for each in made for pair in each.pairs):
        rows.setdefault(_head_name(pair.head), []).append(pair.distribution.parameters)
    count = sum(len(each.pairs) for each in made) // len(rows)
    method = f"percentile bootstrap, {count} replicates, pivot searched again in each"
    if len(rows) > 1:
        method += ", with a head that ends there and one that does not"
    found = {}
    for name in fit.distribution.parameters.keys() - {"pivot", "tail_share"}:
        ends = [np.quantile([row[name] for row in each], [(1 - level) / 2, (1 + level) / 2]) for each in rows.values()]
        found[name] = Interval(float(min(low for low, _ in ends)), float(max(high for _, high in ends)), level, method)
    excess = np.concatenate([each.excess for each in made])
    if not len(excess):
        return found
    splits = _replicate_splits(sample, fit)
    distance = _distances(splits, fit, range(len(splits.cuts)))
    # As measured on planted mixtures of 1,000 and 10,000 values (docs/explanation/tails.md).
    measured_coverage = "planted values lay in 84% to 98% of such 90% intervals"
    method = f"distances near the least, by {len(excess)} samples drawn from fits; {measured_coverage}"
    both = zip(("pivot", "tail_share"), _pivots_and_shares(splits), np.quantile(excess, level, axis=0), strict=True)
    for name, values, most in both:
        inside = np.append(values[distance - distance.min() <= most], fit.distribution.parameters[name])
        found[name] = Interval(float(inside.min()), float(inside.max()), level, method)
    return found


def _replicate_splits(sample: Sample, fit: MixtureFit) -> Splits:
    return Splits(sample, thinned(candidate_cuts(sample, fit.minimum_group, fit.minimum_group), _REPLICATE_CUTS))


def _pivots_and_shares(splits: Splits) -> tuple[Floats, Floats]:
    sample = splits.sample
    return sample.values[splits.cuts], 1 - sample.below[splits.cuts + 1] / sample.n


def _distances(splits: Splits, fit: MixtureFit, rows: Iterable[int]) -> Floats:
    """Combined distances of a head that ends at the pivot and of the tail."""
    groups, combine = (splits.head("truncated_normal"), splits.tail(_tail_name(fit))), splits.combine(fit.combination)
    return np.array([combine(np.array([r]), [np.array([g.gap(r).distance]) for g in groups])[0] for r in rows])


def _tail_name(fit: MixtureFit) -> TailName:
    return fit.best.tail.name  # type: ignore[return-value]


def fits_no_better(fit: MixtureFit, replicates: range, *, seed: int = 0) -> int:
    """How many of these numbered samples, drawn from `fit.distribution` and fitted in the same way, fit no better than
    the data. A small share (below .1, as Clauset, Shalizi & Newman advise) rules the mixture out."""
    drawn = (fit.distribution.sample(fit.n, np.random.default_rng([seed, number])) for number in replicates)
    again = (_split_again(sample_of(times), fit) for times in drawn)
    return sum(found is None or found.value >= fit.ks for found in again)


def refitted(sample: Sample, fit: MixtureFit, head: HeadName | None = None) -> PairFit:
    """The winning pair of `fit`, with another head if one is named, fitted to another sample of the same size."""
    found = _split_again(sample, fit, head)
    return fit.best if found is None else _pair_fit(sample, found, {})


def share_again(sample: Sample, fit: MixtureFit) -> float:
    """The tail's share alone of the same, in half the time."""
    found = _split_again(sample, fit)
    return fit.tail_share if found is None else _tail_share(sample, found)


def _split_again(sample: Sample, fit: MixtureFit, head: HeadName | None = None) -> BestSplit | None:
    """Where the winning pair splits another sample, if that can be split."""
    splits = _replicate_splits(sample, fit)
    if not splits.cuts.size:
        return None
    return _searched(splits, splits, head or _head_name(fit.best.head), _tail_name(fit), fit.combination)


def _tail_share(sample: Sample, best: BestSplit) -> float:
    return 1 - float(sample.below[best.cut + 1]) / sample.n


def _pair_fit(sample: Sample, best: BestSplit, ends: _Ends) -> PairFit:
    share = _tail_share(sample, best)
    plain = best.head.base if isinstance(best.head, TruncatedHead) else best.head
    assert isinstance(plain, (Normal, Cauchy))
    assert isinstance(best.tail, BoundedFamily)
    # Tails of several families often begin at the same pivot.
    which = (best.cut, plain.name, float(plain.location), float(plain.scale))
    if which not in ends:
        ends[which] = truncated_head(sample, best.cut, plain)
    mixture = Mixture(ends[which], best.tail, share)
    return PairFit(
        head=best.head,
        tail=best.tail,
        pivot=float(sample.values[best.cut]),
        tail_share=share,
        head_ks=best.head_gap,
        tail_ks=best.tail_gap,
        ks=best.value,
        aic=2 * len(mixture.parameters) - 2 * float(sample.counts @ mixture.log_density(sample.values)),
        distribution=mixture,
        collapsed=best.tail.collapsed,
    )


def _searched(every: Splits, coarse: Splits, head: HeadName, tail: TailName, combination: Combination) -> BestSplit:
    """The best split; of a Cauchy or Weibull solved once more without the run-wise points of the search."""
    sample, best = every.sample, search_pair(every, coarse, head, tail, combination)
    solved_on_points = isinstance(best.head, Cauchy) or isinstance(best.tail, BoundedWeibull)
    if sample.distinct <= EXACT_POINTS or not solved_on_points:
        return best
    stop, counts, first, second = best.cut + 1, sample.counts, best.head, best.tail
    if isinstance(first, Cauchy):
        first = fit_cauchy(sample.values[:stop], counts[:stop], first)
    if isinstance(second, BoundedWeibull):
        second = fit_weibull_tail(float(second.low), sample.values[stop:], counts[stop:], float(second.shape))
    gaps = largest_gap(sample, first, 0, stop).distance, largest_gap(sample, second, stop).distance
    combine = Splits(sample, np.array([best.cut])).combine(combination)
    value = float(combine(np.array([0]), [np.array([gap]) for gap in gaps])[0])
    return replace(best, head=first, tail=second, head_gap=gaps[0], tail_gap=gaps[1], value=value)


def _head_name(head: Family) -> HeadName:
    if isinstance(head, TruncatedHead):
        return "truncated_normal"
    return "cauchy" if isinstance(head, Cauchy) else "normal"


def _check_choice(what: str, given: Sequence[str], known: Sequence[str]) -> None:
    unknown = [name for name in given if name not in known]
    if unknown or not given:
        raise ValueError(f"unknown {what} {', '.join(unknown) or '(none given)'}: there are {', '.join(known)}")
