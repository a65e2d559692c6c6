"""The pivot search against plain loops over every pivot, with the same families fitted by scipy."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest
from scipy import stats

from ioweather.core.frames import Floats
from ioweather.stats.mixture import TAILS, Combination, HeadName, _Splits, candidate_cuts, search_pair, thinned
from ioweather.stats.tail_fits import fit_cauchy, fit_weibull_tail, sample_of


def times(n: int, seed: int, digits: int = 9) -> Floats:
    rng = np.random.default_rng(seed)
    tail = n // 6
    return np.round(np.concatenate([rng.normal(1, 0.12, n - tail), 1.25 * rng.random(tail) ** -0.6]), digits)


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


@pytest.mark.parametrize("combination", get_args(Combination))
@pytest.mark.parametrize("digits", [9, 2])
def test_the_search_equals_the_definition(combination: str, digits: int) -> None:
    observations = times(150, 1, digits)
    sample = sample_of(observations)
    cuts = candidate_cuts(sample, 20)
    found = search_pair(_Splits(sample, cuts), cuts, "normal", "power_law", combination)  # type: ignore[arg-type]
    value, pivot = plain_normal_power_law(observations, 20, combination)
    assert found.value == pytest.approx(value, abs=1e-12)
    assert sample.values[found.cut] == pivot


@pytest.mark.parametrize("head", get_args(HeadName))
@pytest.mark.parametrize("tail", TAILS)
def test_nothing_better_is_discarded(head: str, tail: str) -> None:
    """Every row evaluated in full; from a few candidates, coarse to fine, the search may lose a little."""
    sample = sample_of(times(500, 2))
    cuts = candidate_cuts(sample, 20)
    every = _Splits(sample, cuts)
    groups = every.head(head), every.tail(tail)  # type: ignore[arg-type]
    gaps = [np.array([group.gap(row)[0] for row in range(len(cuts))]) for group in groups]
    truth = float(every.combine("weighted")(np.arange(len(cuts)), gaps).min())
    assert search_pair(every, cuts, head, tail, "weighted").value == pytest.approx(truth, abs=1e-14)  # type: ignore[arg-type]
    coarse = _Splits(sample, thinned(cuts, 60))
    assert truth - 1e-12 <= search_pair(coarse, cuts, head, tail, "weighted").value <= 1.05 * truth  # type: ignore[arg-type]


def test_fits_at_the_best_split_are_those_of_its_groups() -> None:
    sample = sample_of(times(600, 3))
    cuts = candidate_cuts(sample, 20)
    best = search_pair(_Splits(sample, cuts), cuts, "cauchy", "weibull", "weighted")
    head, tail = sample.values[: best.cut + 1], sample.values[best.cut + 1 :]
    alone = fit_cauchy(head, np.ones(len(head)))
    assert best.head.log_density(head).sum() == pytest.approx(alone.log_density(head).sum(), abs=1e-7)
    law = fit_weibull_tail(float(sample.values[best.cut]), tail, np.ones(len(tail)))
    assert best.tail.log_density(tail).sum() == pytest.approx(law.log_density(tail).sum(), abs=1e-7)
    assert best.head_gap == pytest.approx(float(stats.kstest(head, best.head.cdf).statistic))
    assert best.tail_gap == pytest.approx(float(stats.kstest(tail, best.tail.cdf).statistic))


def test_candidates_leave_enough_on_both_sides() -> None:
    sample = sample_of([0.0] * 5 + [1, 1, 2, 2, 3, 3, 4, 4, 5, 6])
    assert sample.values[candidate_cuts(sample, 4)].tolist() == [1, 2, 3]
    assert candidate_cuts(sample, 10).size == 0
    assert thinned(np.arange(100), 3).tolist() == [0, 49, 99]
    assert thinned(np.arange(3), 5).tolist() == [0, 1, 2]
