"""A head and a heavy tail: the mixed distribution of response times (don15 section 4.2), with its uncertainty.

The paper splits a sample at the pivot where the Kolmogorov-Smirnov distances of head and tail, together, are least.
Its text leaves open how two distances become one (`combination`, by default weighted by group size), where a tail's
lower bound lies (the pivot) and how small a tail may be (`minimum_group`): these choices are ours, and stand in the
result.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike

from ioweather.core.arrays import Floats
from ioweather.stats.tails.bounded import BoundedFamily, BoundedWeibull
from ioweather.stats.tails.boundedfit import fit_weibull_tail
from ioweather.stats.tails.families import Cauchy, Family, Normal
from ioweather.stats.tails.gaps import largest_gap
from ioweather.stats.tails.heads import truncated_head
from ioweather.stats.tails.points import EXACT_POINTS, fit_cauchy
from ioweather.stats.tails.sample import Sample, sample_of
from ioweather.stats.tails.splits import (
    ALL_HEADS,
    COMBINATIONS,
    HEADS,
    TAILS,
    BestSplit,
    Combination,
    HeadName,
    Splits,
    TailName,
    candidate_cuts,
    coarse_of,
    search_pair,
    thinned,
)
from ioweather.stats.tails.truncated import Mixture, TruncatedHead

Selection: TypeAlias = Literal["ks", "aic"]
# Heads that end at a pivot, by that and by the head as the paper fits it.
_Ends: TypeAlias = dict[tuple[int, str, float, float], TruncatedHead]

# A group this small says little about its family: without a bound an Exponential picks tails of 7 to 21 points.
MINIMUM_GROUP = 50
# Candidate pivots per bootstrap replicate: a 400th of the sample is finer than any interval.
_REPLICATE_CUTS = 400


@dataclass(frozen=True)
class Interval:
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
    """The best pair by the criterion named in `select`, and all pairs beside it, best first.

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
    """Observations are taken to be independent. Replicates are numbered, and each is the same whichever others are made
    beside it."""
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
    held = "planted values lay in 84% to 98% of such 90% intervals"
    method = f"distances near the least, by {len(excess)} samples drawn from fits; {held}"
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
