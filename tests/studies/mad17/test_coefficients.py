"""Coefficients against definitions, closed forms and scipy; intervals and p values against what was planted."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from ioweather.studies.mad17 import coefficients


def by_definition(x, y):
    """Double centring, as printed by Székely, Rizzo & Bakirov."""

    def centred(values):
        distance = np.abs(values[:, None] - values)
        return distance - distance.mean(axis=0) - distance.mean(axis=1)[:, None] + distance.mean()

    a, b = centred(x), centred(y)
    return math.sqrt(max((a * b).mean(), 0) / math.sqrt((a * a).mean() * (b * b).mean()))


def normal_pair(n, rho, seed=1):
    z = np.random.default_rng(seed).standard_normal((2, n))
    return z[0], rho * z[0] + math.sqrt(1 - rho * rho) * z[1]


numbers = st.lists(st.tuples(st.integers(-5, 5), st.floats(-1e6, 1e6, width=32)), min_size=2, max_size=40)


@settings(max_examples=150, deadline=None)
@given(numbers)
def test_distance_correlation_is_its_definition_ties_and_all(pairs):
    x, y = (np.array(column, float) for column in zip(*pairs, strict=True))
    if not np.ptp(x) or np.ptp(y) < 1e-3:
        assert math.isnan(coefficients.distance_correlation(x, np.zeros(len(x))))
        return
    assert coefficients.distance_correlation(x, y) == pytest.approx(by_definition(x, y), abs=2e-6)


def test_distance_correlation_of_the_bivariate_normal():
    """rho = .55 gives .50179 (Székely et al. 2007, theorem 7)."""
    found = [coefficients.distance_correlation(*normal_pair(2_000, 0.55, seed)) for seed in range(40)]
    assert np.mean(found) == pytest.approx(0.50179, abs=0.02)


def test_pearson_and_spearman_are_scipys():
    rng = np.random.default_rng(2)
    x, y = rng.integers(0, 9, 200).astype(float), rng.exponential(size=200)
    y += x
    assert coefficients.pearson(x, y) == pytest.approx(scipy.stats.pearsonr(x, y)[0])
    assert coefficients.spearman(x, y) == pytest.approx(scipy.stats.spearmanr(x, y)[0])
    assert math.isnan(coefficients.pearson(x, np.ones(200)))


def test_mutual_information_of_the_bivariate_normal():
    """I = -log(1 - rho^2) / 2, which Linfoot's scale turns back into rho."""
    values = [coefficients.normalised_information(*normal_pair(3000, 0.7, seed)) for seed in range(8)]
    assert np.mean(values) == pytest.approx(0.7, abs=0.02)


def test_mutual_information_sees_what_correlation_does_not():
    x = np.random.default_rng(3).standard_normal(500)
    y = x**2
    assert abs(coefficients.spearman(x, y)) < 0.15
    assert coefficients.normalised_information(x, y) > 0.9
    assert coefficients.normalised_information(x, np.ones(500)) == 0.0


def test_intervals_hold_what_was_planted():
    held = dict.fromkeys(coefficients.MEASURES, 0)
    for seed in range(12):
        found = coefficients.associate(*normal_pair(120, 0.55, seed), replicates=60)
        truth = {"pearson": 0.55, "spearman": 0.534, "distance_correlation": 0.502, "mutual_information": 0.55}
        for name, value in truth.items():
            held[name] += found[name].low <= value <= found[name].high
    # The biased forms lie a little high; nine in ten is what is promised, two thirds what 12 draws must show.
    assert all(count >= 8 for count in held.values()), held


def test_a_change_of_rank_correlation_is_drawn_in_blocks_for_both():
    rng = np.random.default_rng(8)
    load = np.repeat(rng.standard_normal(40), 6)  # six neighbours share a state
    times, blurred = load + 0.3 * rng.standard_normal(240), load + 2.0 * rng.standard_normal(240)
    value, low, high, _ = coefficients.spearman_change(load, times, blurred, times)
    assert value == pytest.approx(coefficients.spearman(blurred, times) - coefficients.spearman(load, times))
    assert low < value < high < 0
    assert coefficients.spearman_change(load, times, load, times) == (0.0, 0.0, 0.0, 240)
    assert coefficients.spearman_change(load, np.ones(240), load, times) is None


def test_the_rank_correlation_alone_is_that_of_all_four():
    rng = np.random.default_rng(9)
    x = rng.standard_normal(60)
    y = x + rng.standard_normal(60)
    one = coefficients.associate(x, y)["spearman"]
    assert coefficients.spearman_interval(x, y) == (one.value, one.low, one.high)
    assert coefficients.spearman_interval(x[:5], y[:5]) is None


def test_p_values_tell_chance_from_association():
    none = coefficients.associate(*normal_pair(100, 0.0), replicates=50)
    strong = coefficients.associate(*normal_pair(100, 0.8), replicates=50)
    assert all(found.p > 0.05 for found in none.values())
    assert all(found.p == pytest.approx(1 / 200) for found in strong.values())


def test_few_or_missing_pairs_have_no_value():
    x = np.array([1.0, 2.0, np.nan, 4.0])
    found = coefficients.associate(x, x)
    assert all(math.isnan(a.value) and a.low is None and a.n == 3 for a in found.values())
    assert "too few" in found["pearson"].method
    same = coefficients.associate(np.ones(20), np.arange(20.0))
    assert same["pearson"].p is None


def test_the_null_of_shared_steps_is_not_zero():
    """Time in steps and volume in the same steps go together without any contention; moved times show how much."""
    rng = np.random.default_rng(5)
    steps = rng.integers(1, 20, 80).astype(float)
    load = rng.exponential(size=(60, 80))
    observed = coefficients.coefficients(steps * load[0], steps)
    nulls = coefficients.shift_null(steps, observed, (steps * row for row in load[1:]))
    assert nulls["spearman"].median > 0.3
    assert nulls["spearman"].p > 0.05
    assert coefficients.shift_null(steps, observed, iter(())) == {}


def test_rounding_noise_has_no_order():
    """sd 4e-11 s about 80.6 ms, as sums of equal times have; a clock ticks in microseconds."""
    rng = np.random.default_rng(11)
    noise = 0.0806 + 4e-11 * rng.standard_normal(60)
    assert not np.ptp(coefficients.above_resolution(noise))
    found = coefficients.associate(rng.random(60), coefficients.above_resolution(noise))
    assert all(np.isnan(each.value) for each in found.values())
    real = 0.0806 + 1e-3 * rng.standard_normal(60)
    assert coefficients.above_resolution(real) is real
    gap = np.append(noise, np.nan)
    assert np.isnan(coefficients.above_resolution(gap)[-1])
