"""Cauchy and Weibull: solved exactly on few values, and closely on runs of many."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from ioweather.stats.tails.boundedfit import fit_weibull_tail
from ioweather.stats.tails.points import EXACT_POINTS, fit_cauchy, fit_cauchy_heads, fit_weibull_tails, points_of
from ioweather.stats.tails.sample import sample_of


@pytest.mark.parametrize("draw", ["cauchy", "normal", "exponential", "rounded"])
def test_the_cauchy_fit_is_the_maximum_likelihood(draw: str) -> None:
    rng = np.random.default_rng(0)
    values = {
        "cauchy": rng.standard_cauchy(300) + 500,
        "normal": rng.normal(5, 1, 200),
        "exponential": rng.exponential(1, 60),
        "rounded": np.round(rng.normal(5, 1, 500), 1),
    }[draw]
    ours = fit_cauchy(np.sort(values), np.ones(len(values)))
    theirs = stats.cauchy.fit(values)
    assert ours.log_density(values).sum() >= stats.cauchy.logpdf(values, *theirs).sum() - 1e-6
    assert ours.location == pytest.approx(theirs[0], abs=1e-3)
    assert ours.scale == pytest.approx(theirs[1], rel=1e-3)


def test_half_tied_values_end_at_the_smallest_scale() -> None:
    values = np.array([1.0] * 6 + [2, 3, 4, 9])
    fitted = fit_cauchy(values, np.ones(10))
    assert fitted.location == pytest.approx(1)
    assert 0 < float(fitted.scale) < 1e-6


def test_points_keep_weight_and_mean_at_every_cut() -> None:
    sample = sample_of(np.random.default_rng(1).lognormal(0, 2, 30_000))
    cuts = np.array([500, 12_000, 29_000])
    points = points_of(sample, cuts)
    assert len(points.values) < 10_000
    for cut, split in zip(cuts, points.split, strict=True):
        assert points.weights[:split].sum() == sample.below[cut + 1]
        mean = points.weights[:split] @ points.values[:split] / sample.below[cut + 1]
        assert mean == pytest.approx(sample.values[: cut + 1].mean(), rel=1e-6)
    few = sample.part(0, EXACT_POINTS)
    assert points_of(few, cuts[:1]).values is few.values


def test_runs_of_values_lose_next_to_nothing() -> None:
    rng = np.random.default_rng(2)
    sample = sample_of(np.concatenate([rng.normal(5, 0.5, 17_000), rng.weibull(0.7, 3_000) + 6]))
    cuts = np.linspace(5_000, sample.distinct - 500, 20).astype(int)
    heads, tails = fit_cauchy_heads(sample, cuts), fit_weibull_tails(sample, cuts)
    for row, cut in enumerate(cuts):
        head = fit_cauchy(sample.values[: cut + 1], sample.counts[: cut + 1])
        tail = fit_weibull_tail(float(sample.values[cut]), sample.values[cut + 1 :], sample.counts[cut + 1 :])
        assert heads.one(row).location == pytest.approx(head.location, rel=1e-6)
        assert heads.one(row).scale == pytest.approx(head.scale, rel=1e-4)
        assert tails.one(row).shape == pytest.approx(tail.shape, rel=1e-3)
        assert tails.one(row).steepness == pytest.approx(tail.steepness, rel=1e-3)
