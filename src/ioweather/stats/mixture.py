"""A head and a heavy tail: the mixed distribution of response times (don15 section 4.2), with its uncertainty.

The paper splits a sample at the pivot where the Kolmogorov-Smirnov distances of head and tail, together, are least. A
candidate pivot is the index of a distinct value: head <= values[cut] < tail, so ties at the pivot go to the head. Tail
families are bounded below by the pivot. The paper leaves open how two distances become one (`combination`, by default
weighted by group size), where a tail's lower bound lies (the pivot) and how small a tail may be (`minimum_group`):
these choices are ours, and are part of the result.

`least_gap` finds the candidate split with the least distance. The distance at any one point is a lower bound of the
supremum: a candidate whose bound exceeds the best value found is discarded. The place of one candidate's supremum is
the best place to look for its neighbours'.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike

from ioweather.core.frames import Floats, Indices
from ioweather.core.results import Estimate
from ioweather.stats.families import Law, Mixture
from ioweather.stats.tail_fits import (
    EXACT_POINTS,
    Gap,
    Sample,
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
    largest_gap,
    points_of,
    sample_of,
    tail_sums,
    truncated_head,
)

# `truncated_normal` ends at the pivot [ours]; the paper's two are fitted as if the head were the whole world.
HeadName: TypeAlias = Literal["normal", "cauchy", "truncated_normal"]
TailName: TypeAlias = Literal["power_law", "exponential", "lognormal", "weibull", "gamma"]
Combination: TypeAlias = Literal["weighted", "sum", "maximum"]
Selection: TypeAlias = Literal["ks", "aic"]

HEADS: tuple[HeadName, ...] = ("normal", "cauchy")
TAILS: tuple[TailName, ...] = get_args(TailName)

_HEAD_FITS = {"normal": fit_normal_heads, "cauchy": fit_cauchy_heads, "truncated_normal": fit_truncated_normal_heads}
_BY_SUMS: dict[str, Any] = {
    "power_law": fit_power_law_tails,
    "exponential": fit_exponential_tails,
    "lognormal": fit_lognormal_tails,
    "gamma": fit_gamma_tails,
}
# Candidates in one step of the coarse-to-fine search.
_COARSE = 1000
# A group this small says little about its family: without a bound an Exponential picks tails of 7 to 21 points.
MINIMUM_GROUP = 50
# Candidate pivots per bootstrap replicate: a 400th of the sample is finer than any interval.
_REPLICATE_CUTS = 400
# Shares of the tail at which the profile likelihood is computed.
_SHARES = 1000


# Distances of head and tail (by group) of some rows to one.
Combine: TypeAlias = Callable[[Indices, Sequence[Floats]], Floats]
_PROBES = (1.0, 0.5, 0.75, 0.25, 0.9, 0.1)


@dataclass(frozen=True, eq=False)
class _Group:
    """One side of every candidate split: values[first:stop] of the sample, and the distribution fitted to each."""

    sample: Sample
    first: Indices
    stop: Indices
    fitted: Law

    def gap_at(self, rows: Indices, index: Indices | int) -> Floats:
        """Distance at a value of the group, one per row or one for all: an exact lower bound of each row's largest."""
        below, base = self.sample.below, self.sample.below[self.first[rows]]
        size = below[self.stop[rows]] - base
        model = self.fitted.at(rows).cdf(self.sample.values[index])
        before, after = (below[index] - base) / size, (below[index + 1] - base) / size
        return np.maximum(np.abs(model - before), np.abs(model - after))

    def gap(self, row: int) -> Gap:
        """Return the largest distance of one row, and where it is."""
        return largest_gap(self.sample, self.fitted.at(row), int(self.first[row]), int(self.stop[row]))


def least_gap(groups: Sequence[_Group], combine: Combine) -> tuple[int, float, list[float]]:
    """Return the row with the least combined gap, that value, and the gap of each group.

    Exact: discarded rows have a lower bound at or above the best value found. `combine` must not fall when a gap grows.
    Each round raises the bounds of the remaining rows, at a new relative place first and then where the last examined
    row had its gaps, and examines the row with the lowest bound.
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


class _Splits:
    """Heads and tails at candidate cuts (ascending); each family is fitted on first use."""

    def __init__(self, sample: Sample, cuts: Indices) -> None:
        self.sample, self.cuts = sample, cuts
        self._groups: dict[str, _Group] = {}

    @cached_property
    def _sums(self) -> Any:
        return tail_sums(self.sample, self.sample.values[self.cuts], self.cuts + 1)

    def head(self, name: HeadName) -> _Group:
        """Return the fits of this family to every head."""
        key = f"head {name}"
        if key not in self._groups:
            fitted = _HEAD_FITS[name](self.sample, self.cuts)
            self._groups[key] = _Group(self.sample, np.zeros_like(self.cuts), self.cuts + 1, fitted)
        return self._groups[key]

    def tail(self, name: TailName) -> _Group:
        """Return the fits of this family to every tail."""
        key = f"tail {name}"
        if key not in self._groups:
            weibull = name == "weibull"
            fitted = fit_weibull_tails(self.sample, self.cuts) if weibull else _BY_SUMS[name](self._sums)
            stop = np.full_like(self.cuts, self.sample.distinct)
            self._groups[key] = _Group(self.sample, self.cuts + 1, stop, fitted)
        return self._groups[key]

    def combine(self, combination: Combination) -> Combine:
        """Return the function that combines the distances of head and tail."""
        if combination == "weighted":
            share = self.sample.below[self.cuts + 1] / self.sample.n
            return lambda rows, gaps: share[rows] * gaps[0] + (1.0 - share[rows]) * gaps[1]
        if combination == "sum":
            return lambda rows, gaps: gaps[0] + gaps[1]
        return lambda rows, gaps: np.maximum(gaps[0], gaps[1])

    def least(self, head: HeadName, tail: TailName, combination: Combination) -> tuple[int, float, list[float]]:
        """Return row, combined distance and both distances of the best split; see `least_gap`."""
        return least_gap([self.head(head), self.tail(tail)], self.combine(combination))


@dataclass(frozen=True)
class _BestSplit:
    """The best pivot of one pair of families; `value` is the combined distance."""

    cut: int
    head: Law
    tail: Law
    head_gap: float
    tail_gap: float
    value: float


def candidate_cuts(sample: Sample, minimum_group: int, most: int | None = None) -> Indices:
    """Return the pivots > 0 with enough observations and two distinct values on either side.

    With `most`, about so many of them, evenly spaced, both ends included.
    """
    cuts = np.arange(1, sample.distinct - 2)
    size = sample.below[cuts + 1]
    enough = (size >= minimum_group) & (sample.n - size >= minimum_group) & (sample.values[cuts] > 0)
    return thinned(cuts[enough], most) if most else cuts[enough]


def thinned(cuts: Indices, most: int) -> Indices:
    """Return about `most` of the cuts, evenly spaced, both ends included."""
    if len(cuts) <= most:
        return cuts
    return cuts[np.unique(np.linspace(0, len(cuts) - 1, most).astype(np.intp))]


def search_pair(coarse: _Splits, cuts: Indices, head: HeadName, tail: TailName, combination: Combination) -> _BestSplit:
    """Return the best split of one pair of families among the candidates `cuts`.

    `coarse` has the same candidates thinned, shared by all pairs. Exact if `coarse` has all; else coarse to fine around
    the best.
    """
    sample, splits = coarse.sample, coarse
    row, value, gaps = splits.least(head, tail, combination)
    while len(splits.cuts) < len(cuts):
        around = splits.cuts[[max(row - 1, 0), min(row + 1, len(splits.cuts) - 1)]]
        low, high = np.searchsorted(cuts, around)
        near = cuts[low : high + 1]
        splits = _Splits(sample, np.union1d(thinned(near, _COARSE), splits.cuts[row]))
        row, value, gaps = splits.least(head, tail, combination)
        if len(splits.cuts) >= len(near):
            break
    cut, first, second = int(splits.cuts[row]), splits.head(head).fitted.at(row), splits.tail(tail).fitted.at(row)
    if sample.distinct > EXACT_POINTS and (first.name == "cauchy" or second.name == "weibull"):
        # Once more without the run-wise points of the search.
        stop, counts = cut + 1, sample.counts
        if first.name == "cauchy":
            first = fit_cauchy(sample.values[:stop], counts[:stop], first)
        if second.name == "weibull":
            second = fit_weibull_tail(float(second["low"]), sample.values[stop:], counts[stop:], float(second["shape"]))
        gaps = [largest_gap(sample, first, 0, stop)[0], largest_gap(sample, second, stop)[0]]
        value = float(splits.combine(combination)(np.array([row]), [np.array([gap]) for gap in gaps])[0])
    return _BestSplit(cut, first, second, gaps[0], gaps[1], value)


@dataclass(frozen=True)
class PairFit:
    """One pair of families at its best pivot. The distances are the paper's; `aic` is that of `distribution`.

    `head` is fitted to the head group as the paper does, `distribution.head` ends at the pivot. `collapsed`: the tail
    has become the power law under another name, and does not compete.
    """

    head: Law
    tail: Law
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
        """'head + tail'."""
        return f"{self.head.name} + {self.tail.name}"


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
    intervals: Mapping[str, Estimate] = field(default_factory=dict)

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
        """The pair with the least AIC."""
        return min(self.pairs, key=lambda pair: (pair.collapsed, pair.aic))


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
    for what, given, kind in (
        ("head", heads, HeadName),
        ("tail", tails, TailName),
        ("combination", [combination], Combination),
        ("select", [select], Selection),
    ):
        unknown = [name for name in given if name not in get_args(kind)]
        if unknown or not given:
            wrong = ", ".join(unknown) or "(none given)"
            raise ValueError(f"unknown {what} {wrong}: use {', '.join(get_args(kind))}")
    sample = sample_of(times)
    smallest = minimum_group if minimum_group is not None else min(MINIMUM_GROUP, max(5, sample.n // 10))
    cuts = candidate_cuts(sample, smallest)
    if not cuts.size:
        raise ValueError(
            f"too few times for a pivot: each side needs {smallest} times and two distinct values, but the sample "
            f"has {sample.n} times ({sample.distinct} distinct); measure more, or reduce minimum_group"
        )
    coarse = _Splits(sample, cuts if len(cuts) <= EXACT_POINTS else thinned(cuts, _COARSE))
    ends: dict[tuple[int, str, float, float], Law] = {}
    found = (search_pair(coarse, cuts, head, tail, combination) for head in heads for tail in tails)
    fits = [_pair_fit(sample, best, ends) for best in found]
    ranked = tuple(sorted(fits, key=lambda pair: (pair.collapsed, pair.aic if select == "aic" else pair.ks)))
    fit = MixtureFit(sample.n, ranked[0], ranked, combination, select, smallest)
    if not replicates:
        return fit
    return replace(fit, intervals=bootstrap_intervals(sample, fit, range(replicates), seed=seed, level=level))


def _pair_fit(sample: Sample, best: _BestSplit, ends: dict[tuple[int, str, float, float], Law]) -> PairFit:
    """Return the pair with its proper distribution.

    `ends` caches truncated heads by pivot and by the head as the paper fits it: several tails often begin at the same
    pivot.
    """
    share = 1 - float(sample.below[best.cut + 1]) / sample.n
    plain = Law(best.head.name.removeprefix("truncated_"), best.head["location"], best.head["scale"])
    which = (best.cut, plain.name, float(plain["location"]), float(plain["scale"]))
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


def bootstrap_intervals(
    sample: Sample, fit: MixtureFit, replicates: range, *, seed: int, level: float
) -> dict[str, Estimate]:
    """Intervals of the winning pair's parameters. Observations are taken to be independent.

    Of families: percentiles over samples drawn again, each with its pivot searched again; where the head is a Normal
    once more with one that ends at the pivot (the paper's does not, and shifts it), from the least to the greatest of
    both. Of pivot and share: the profile likelihood, and the value of the paper's search. The limit of the likelihood
    ratio is its quantile in samples drawn from fits, because a pivot is no regular parameter. A Cauchy head does not
    tell where it ends.
    """
    head = _names(fit)[0]

    def estimate(name: str, low: float, high: float, method: str) -> Estimate:
        return Estimate(name, fit.distribution.parameters[name], "", low, high, level, fit.n, method)

    drawn = [sample.resampled(np.random.default_rng([seed, number])) for number in replicates]
    heads: list[HeadName] = ["normal", "truncated_normal"] if head == "normal" else [head]
    again = {each: [refitted(one, fit, each).distribution for one in drawn] for each in heads}
    method = f"percentile bootstrap, {len(drawn)} replicates, pivot searched again in each"
    if len(heads) > 1:
        method += ", with and without a head truncated at the pivot"
    tails = [(1 - level) / 2, (1 + level) / 2]
    found = {}
    for name in fit.distribution.parameters.keys() - {"pivot", "tail_share"}:
        refits = [[law.parameters[name] for law in laws] for laws in again.values()]
        # By k / (n + 1): the usual quantiles of 40 replicates leave 7% on either side instead of 5%.
        ends = np.quantile(refits, tails, axis=1, method="weibull")
        found[name] = estimate(name, float(ends[0].min()), float(ends[1].max()), method)
    if head == "cauchy":
        return found
    lacks = []
    for number, law in zip(replicates, again[heads[-1]], strict=True):
        simulated = _Profile.of(sample_of(law.sample(fit.n, np.random.default_rng([seed, number, 1]))), fit)
        lacks.append(
            (simulated.lack_of_pivot(law.pivot), float(simulated.lack_of_shares(np.array([law.tail_share]))[0]))
        )
    own = _Profile.of(sample, fit)
    shares = np.linspace(own.shares.min(), own.shares.max(), _SHARES)
    limits = np.quantile(lacks, level, axis=0, method="weibull")
    method = (
        f"profile likelihood with a limit from {len(lacks)} samples simulated from the fits; always includes the "
        "fitted value"
    )
    for name, values, lack, most in (
        ("pivot", own.pivots, own.best - own.likelihood, limits[0]),
        ("tail_share", shares, own.lack_of_shares(shares), limits[1]),
    ):
        near = np.flatnonzero(lack <= most)
        ordered = values[near[0] - 1 : near[-1] + 2] if near[0] else values[: near[-1] + 2]
        # Half way to the next candidates on either side.
        inside = np.concatenate([(ordered[1:] + ordered[:-1]) / 2, [fit.distribution.parameters[name]]])
        found[name] = estimate(name, float(inside.min()), float(inside.max()), method)
    return found


@dataclass(frozen=True, eq=False)
class _Profile:
    """Log-likelihood of a head that ends at each candidate pivot, joined with a tail of the share found there."""

    pivots: Floats
    shares: Floats
    likelihood: Floats
    n: int

    @classmethod
    def of(cls, sample: Sample, fit: MixtureFit) -> _Profile:
        cuts = candidate_cuts(sample, fit.minimum_group, _REPLICATE_CUTS)
        splits = _Splits(sample, cuts)
        head, tail = splits.head("truncated_normal").fitted, splits.tail(_names(fit)[1]).fitted
        values, weights, stops = points_of(sample, cuts)
        shares = 1 - sample.below[cuts + 1] / sample.n
        likelihood = sample.n * ((1 - shares) * np.log1p(-shares) + shares * np.log(shares))
        for row, stop in enumerate(stops):
            for law, part in ((head, slice(None, stop)), (tail, slice(stop, None))):
                likelihood[row] += weights[part] @ law.at(row).log_density(values[part])
        return cls(sample.values[cuts], shares, likelihood, sample.n)

    @property
    def best(self) -> float:
        return float(self.likelihood.max())

    def lack_of_pivot(self, pivot: float) -> float:
        """Return by how much the log-likelihood at the candidate nearest to a pivot falls short of the best."""
        return self.best - float(self.likelihood[np.abs(self.pivots - pivot).argmin()])

    def lack_of_shares(self, shares: Floats) -> Floats:
        """Return by how much the log-likelihood with each share, at its best pivot, falls short of the best."""
        own, given = self.shares, shares[:, None]
        change = (1 - own) * np.log((1 - given) / (1 - own)) + own * np.log(given / own)
        return np.asarray(self.best - (self.likelihood + self.n * change).max(axis=1))


def fits_no_better(fit: MixtureFit, replicates: range, *, seed: int = 0) -> int:
    """Return how many samples drawn from `fit.distribution`, and fitted in the same way, fit no better than the data.

    `replicates` are their seeds. A small share (below .1, as Clauset, Shalizi & Newman advise) rules the mixture out.
    """
    drawn = (fit.distribution.sample(fit.n, np.random.default_rng([seed, number])) for number in replicates)
    again = (_split_again(sample_of(times), fit, _names(fit)[0]) for times in drawn)
    return sum(found is None or found.value >= fit.ks for found in again)


def refitted(sample: Sample, fit: MixtureFit, head: HeadName | None = None) -> PairFit:
    """Return the winning pair of `fit`, with another head if one is named, fitted to another sample of the same
    size."""
    found = _split_again(sample, fit, head or _names(fit)[0])
    return fit.best if found is None else _pair_fit(sample, found, {})


def _split_again(sample: Sample, fit: MixtureFit, head: HeadName) -> _BestSplit | None:
    """Return the best split of another sample by the winning pair; None without a candidate."""
    cuts = candidate_cuts(sample, fit.minimum_group, _REPLICATE_CUTS)
    return search_pair(_Splits(sample, cuts), cuts, head, _names(fit)[1], fit.combination) if cuts.size else None


def _names(fit: MixtureFit) -> tuple[HeadName, TailName]:
    """Return the families of the best pair."""
    return fit.best.head.name, fit.best.tail.name  # type: ignore[return-value]
