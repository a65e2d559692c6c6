"""The pivot search against plain loops over every pivot, with the same families fitted by scipy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from ioweather.core.arrays import Floats
from ioweather.stats import mixture as module
from ioweather.stats.families import Family
from ioweather.stats.mixture import (
    ALL_HEADS,
    COMBINATIONS,
    TAILS,
    Splits,
    candidate_cuts,
    coarse_of,
    search_pair,
    thinned,
)
from ioweather.stats.samples import Sample, sample_of
from ioweather.stats.tail_fits import fit_cauchy, fit_weibull_tail


def times(n: int, seed: int, digits: int = 9) -> Floats:
    rng = np.random.default_rng(seed)
    tail = n // 6
    return np.round(np.concatenate([rng.normal(1, 0.12, n - tail), 1.25 * rng.random(tail) ** -0.6]), digits)


def plain_distance(observations: Floats, model: Family) -> float:
    return float(stats.kstest(observations, model.cdf).statistic)


def plain_normal_power_law(observations: Floats, smallest: int, combination: str) -> tuple[float, float]:
    """Least combined distance and its pivot, straight from the definition."""
    best = (np.inf, 0.0)
    for pivot in np.unique(observations):
        head, tail = observations[observations <= pivot], observations[observations > pivot]
        if min(len(head), len(tail)) < smallest or len(np.unique(head)) < 2 or len(np.unique(tail)) < 2:
            continue
        alpha = 1 + len(tail) / np.log(tail / pivot).sum()
        in_head = stats.kstest(head, stats.norm(head.mean(), head.std()).cdf).statistic
        in_tail = stats.kstest(tail, stats.pareto(alpha - 1, 0, pivot).cdf).statistic
        share = len(head) / len(observations)
        value = {
            "weighted": share * in_head + (1 - share) * in_tail,
            "sum": in_head + in_tail,
            "maximum": max(in_head, in_tail),
        }[combination]
        best = min(best, (float(value), float(pivot)))
    return best


@pytest.mark.parametrize("combination", COMBINATIONS)
@pytest.mark.parametrize("digits", [9, 2])
def test_the_search_equals_the_definition(combination: str, digits: int) -> None:
    observations = times(150, 1, digits)
    sample = sample_of(observations)
    every = Splits(sample, candidate_cuts(sample, 20, 20))
    found = search_pair(every, every, "normal", "power_law", combination)  # type: ignore[arg-type]
    value, pivot = plain_normal_power_law(observations, 20, combination)
    assert found.value == pytest.approx(value, abs=1e-12)
    assert sample.values[found.cut] == pivot


def exhaustive(every: Splits, head: str, tail: str) -> float:
    """The least weighted distance when every row is evaluated in full."""
    heads, tails = every.head(head), every.tail(tail)  # type: ignore[arg-type]
    rows = range(len(every.cuts))
    gaps = [np.array([group.gap(row).distance for row in rows]) for group in (heads, tails)]
    return float(every.combine("weighted")(np.arange(len(every.cuts)), gaps).min())


@pytest.mark.parametrize("head", ALL_HEADS)
@pytest.mark.parametrize("tail", TAILS)
def test_nothing_better_is_discarded(head: str, tail: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also above the size where candidates are thinned: that size is lowered here. Cauchy and Weibull are then
    searched coarse to fine, and may lose a little."""
    sample = sample_of(times(500, 2))
    every = Splits(sample, candidate_cuts(sample, 20, 20))
    truth = exhaustive(every, head, tail)
    assert search_pair(every, every, head, tail, "weighted").value == pytest.approx(truth, abs=1e-14)  # type: ignore[arg-type]
    monkeypatch.setattr(module, "EXACT_POINTS", 100)
    monkeypatch.setattr(module, "_COARSE", 60)
    fresh = Splits(sample, every.cuts)
    found = search_pair(fresh, coarse_of(fresh), head, tail, "weighted").value  # type: ignore[arg-type]
    if head == "cauchy" or tail == "weibull":
        assert truth - 1e-12 <= found <= 1.05 * truth
    else:
        assert found == pytest.approx(truth, abs=1e-14)


def test_fits_at_the_best_split_are_those_of_its_groups() -> None:
    sample = sample_of(times(600, 3))
    every = Splits(sample, candidate_cuts(sample, 20, 20))
    best = search_pair(every, every, "cauchy", "weibull", "weighted")
    head, tail = groups(sample, best.cut)
    assert best.head.log_density(head).sum() == pytest.approx(
        fit_cauchy(head, np.ones(len(head))).log_density(head).sum(), abs=1e-7
    )
    low = float(sample.values[best.cut])
    alone = fit_weibull_tail(low, tail, np.ones(len(tail)))
    assert best.tail.log_density(tail).sum() == pytest.approx(alone.log_density(tail).sum(), abs=1e-7)
    assert best.head_gap == pytest.approx(plain_distance(head, best.head))
    assert best.tail_gap == pytest.approx(plain_distance(tail, best.tail))


def groups(sample: Sample, cut: int) -> tuple[Floats, Floats]:
    return sample.part(0, cut + 1).expanded(), sample.part(cut + 1, sample.distinct).expanded()


def test_candidates_leave_enough_on_both_sides() -> None:
    sample = sample_of([0.0] * 5 + [1, 1, 2, 2, 3, 3, 4, 4, 5, 6])
    cuts = candidate_cuts(sample, 6, 4)
    assert sample.values[cuts].tolist() == [1, 2, 3]
    assert candidate_cuts(sample, 10, 10).size == 0
    assert thinned(np.arange(100), 3).tolist() == [0, 49, 99]
    assert thinned(np.arange(3), 5).tolist() == [0, 1, 2]
