"""Head and tail together: planted mixtures are found again, edge cases have clear answers."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from ioweather.core.frames import Floats
from ioweather.facts.response_samples import parameter_estimates
from ioweather.stats.families import Law, Mixture
from ioweather.stats.mixture import MixtureFit, fit_mixture, fits_no_better
from ioweather.stats.order_statistics import slowest_of
from ioweather.stats.tail_fits import sample_of, truncated_head

PLANTED = Mixture(Law("truncated_normal", 1.0, 0.12, 1.3), Law("power_law", 1.3, 3.0), 0.15)


def drawn(n: int, seed: int = 0, mixture: Mixture = PLANTED) -> Floats:
    return mixture.sample(n, np.random.default_rng(seed))


@pytest.fixture(scope="module")
def fit() -> MixtureFit:
    return fit_mixture(drawn(3_000), replicates=40)


def test_a_planted_mixture_is_found(fit: MixtureFit) -> None:
    assert fit.best.name == "normal + power_law"
    assert fit.pivot == pytest.approx(1.3, abs=0.08)
    assert fit.tail_share == pytest.approx(0.15, abs=0.02)
    assert fit.distribution.parameters["tail_alpha"] == pytest.approx(3.0, abs=0.3)
    assert len(fit.pairs) == 10
    assert fit.combination == "weighted"
    assert fit.minimum_group == 50
    low, high = fit.intervals["tail_alpha"].low, fit.intervals["tail_alpha"].high
    assert low < 3.0 < high
    assert "40 replicates" in fit.intervals["tail_alpha"].method
    assert fit.intervals["pivot"].method.startswith("profile likelihood with a limit from 40 samples")


def test_the_distances_are_those_of_the_groups(fit: MixtureFit) -> None:
    times = drawn(3_000)
    head, tail = times[times <= fit.pivot], times[times > fit.pivot]
    assert fit.tail_share == pytest.approx(len(tail) / 3_000)
    for pair in fit.pairs[:3]:
        head, tail = times[times <= pair.pivot], times[times > pair.pivot]
        assert pair.head_ks == pytest.approx(stats.kstest(head, pair.head.cdf).statistic, abs=1e-12)
        assert pair.tail_ks == pytest.approx(stats.kstest(tail, pair.tail.cdf).statistic, abs=1e-9)
        assert pair.ks == pytest.approx((len(head) * pair.head_ks + len(tail) * pair.tail_ks) / 3_000)


def test_aic_and_distance_are_both_told(fit: MixtureFit) -> None:
    times = drawn(3_000)
    pair = fit.best
    likelihood = float(pair.distribution.log_density(times).sum())
    assert pair.aic == pytest.approx(2 * 5 - 2 * likelihood)
    assert fit.best_by_aic.aic == min(p.aic for p in fit.pairs if not p.collapsed)
    again = fit_mixture(times, select="aic")
    assert (again.best.name, again.select) == (fit.best_by_aic.name, "aic")
    assert fit.best_by_aic.tail.name in {"power_law", "lognormal", "weibull"}


@pytest.mark.parametrize(
    ("tail", "name"),
    [(Law("exponential", 1.3, 0.4), "exponential"), (Law("lognormal", 1.3, -0.5, 0.5), "lognormal")],
)
def test_other_tails_are_told_apart_by_aic(tail: Law, name: str) -> None:
    fit = fit_mixture(drawn(8_000, 4, Mixture(PLANTED.head, tail, 0.3)), heads=["truncated_normal"])
    power = next(pair for pair in fit.pairs if pair.tail.name == "power_law")
    chosen = next(pair for pair in fit.pairs if pair.tail.name == name)
    assert chosen.aic < power.aic - 10
    assert chosen.ks < power.ks


@pytest.mark.parametrize("kind", ["normal", "cauchy"])
def test_the_truncated_head_is_a_maximum(kind: str) -> None:
    planted = Law(f"truncated_{kind}", 1.0, 0.15, 1.1)
    times = np.sort(planted.sample(4_000, np.random.default_rng(2)))
    sample = sample_of(times)
    found = truncated_head(sample, sample.distinct - 1, Law(kind, 1.0, 0.1))
    best = found.log_density(times).sum()
    for location in (0.97, 1.0, 1.03):
        for scale in (0.13, 0.15, 0.17):
            other = Law(f"truncated_{kind}", location, scale, float(found["high"]))
            assert other.log_density(times).sum() <= best + 1e-6
    assert found["scale"] == pytest.approx(0.15, rel=0.1)


def test_the_goodness_of_fit_tells_a_mixture_from_something_else() -> None:
    options = {"heads": ["truncated_normal"], "tails": ["power_law"]}
    right = fit_mixture(drawn(500, 7), **options)  # type: ignore[arg-type]
    assert fits_no_better(right, range(40)) > 4
    wrong = fit_mixture(np.random.default_rng(1).uniform(1, 2, 500) ** 4, **options)  # type: ignore[arg-type]
    assert fits_no_better(wrong, range(40)) < 4


@pytest.mark.parametrize(
    ("times", "options", "sentence"),
    [
        (np.arange(9.0), {}, "at least 10 times"),
        (np.array([1.0] * 20), {}, "all 20 times are equal"),
        (np.array([1.0] * 15 + [2.0] * 15), {}, "each side needs 5 times and two distinct values"),
        (np.arange(100.0), {"minimum_group": 60}, "each side needs 60 times"),
        (np.append(np.arange(20.0), np.nan), {}, "missing"),
        (np.append(np.arange(20.0), -1), {}, "negative"),
        (np.arange(100.0), {"heads": ["gauss"]}, "unknown head gauss: use normal, cauchy"),
        (np.arange(100.0), {"tails": []}, r"unknown tail \(none given\)"),
        (np.arange(100.0), {"combination": "product"}, "unknown combination product"),
        (np.arange(100.0), {"select": "bic"}, "unknown select bic: use ks, aic"),
    ],
)
def test_what_cannot_be_split_is_refused_with_a_sentence(
    times: Floats, options: dict[str, object], sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence):
        fit_mixture(times, **options)  # type: ignore[arg-type]


HOSTILE = {
    "over many decades": lambda rng, n: rng.lognormal(0, 3, n),
    "few whole numbers": lambda rng, n: rng.integers(1, 7, n).astype(float),
    "nanoseconds": lambda rng, n: 1e-9 * rng.gamma(2, 1, n),
    "huge and without a mean": lambda rng, n: 1e12 * rng.pareto(0.5, n) + 1e12,
    "two narrow heaps far apart": lambda rng, n: np.concatenate([rng.normal(1, 1e-3, n), rng.normal(100, 0.1, n)]),
    "half zeros": lambda rng, n: np.concatenate([np.zeros(n), rng.exponential(1, n)]),
    "nearly all tied": lambda rng, n: np.concatenate([np.full(n, 1.0), rng.random(n // 8) + 2]),
    "beyond all moments": lambda rng, n: np.exp(rng.standard_cauchy(n).clip(-200, 200)),
    "flat": lambda rng, n: rng.uniform(1, 2, n),
}


@pytest.mark.parametrize("kind", HOSTILE)
@pytest.mark.parametrize("n", [60, 300])
def test_hostile_samples_get_a_finite_answer(kind: str, n: int) -> None:
    times = HOSTILE[kind](np.random.default_rng(n), n)
    fit = fit_mixture(times, heads=["normal", "cauchy", "truncated_normal"], replicates=2)
    for pair in fit.pairs:
        assert 0 <= pair.ks <= 1
        assert not math.isnan(pair.aic)
    slowest = slowest_of(fit.distribution, 64).quantile(np.array([0.1, 0.5, 0.9]))
    assert (np.diff(slowest) >= 0).all()
    assert fit.distribution.mean > 0


def test_where_a_cauchy_ends_has_no_interval() -> None:
    fit = fit_mixture(drawn(300), heads=["cauchy"], tails=["power_law"], replicates=3)
    assert fit.intervals.keys() == {"head_location", "head_scale", "tail_alpha"}
    item: Any = SimpleNamespace(sample=SimpleNamespace(seconds=drawn(300)), fit=fit, laws=[None] * 3, seed=0)
    method = {estimate.name: estimate.method for estimate in parameter_estimates(item)}["pivot"]
    assert method == "no interval: the end of a Cauchy head is not identifiable"
