"""Change points and drifts against known answers and by coverage."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ioweather.studies.car11.contents import Drift
from ioweather.studies.car11.volume import single_change


def slow_best(values: np.ndarray, weights: np.ndarray, min_side: int) -> tuple[int, float]:
    def around(x: np.ndarray, w: np.ndarray) -> float:
        return float(np.sum(w * (x - np.average(x, weights=w)) ** 2))

    whole = around(values, weights)
    left = {
        i: around(values[:i], weights[:i]) + around(values[i:], weights[i:])
        for i in range(min_side, len(values) - min_side + 1)
    }
    best = min(left, key=lambda i: left[i])
    return best, 1 - left[best] / whole


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(8, 40))
def test_the_place_is_the_least_squares_one(seed: int, length: int) -> None:
    rng = np.random.default_rng(seed)
    values, weights = rng.random(length), rng.random(length) + 0.1
    found = single_change(values, weights, replicates=9)
    index, explained = slow_best(values, weights, 3)
    assert found is not None
    assert found.index == index
    assert found.explained == pytest.approx(explained)
    assert found.before == pytest.approx(np.average(values[:index], weights=weights[:index]))


def test_a_planted_change_of_the_mix_is_found() -> None:
    rng = np.random.default_rng(11)
    share = np.concatenate([rng.normal(0.8, 0.05, 33), rng.normal(0.5, 0.05, 27)])
    found = single_change(share, rng.lognormal(0, 0.3, 60))
    assert found is not None
    assert found.index == 33
    assert found.p_value < 0.01
    assert found.before == pytest.approx(0.8, abs=0.03)
    assert found.after == pytest.approx(0.5, abs=0.03)


def shapes(planted: str, *, keeps: float = 0.0, seeds: range = range(8)) -> list[str]:
    """What `single_change` says of noise with autocorrelation `keeps` and a step of 3 sd somewhere in the middle, a
    drift by 4 sd, or nothing."""
    found, days = [], 63
    for seed in seeds:
        rng = np.random.default_rng([39, seed])
        noise = rng.standard_normal(days)
        for day in range(1, days):
            noise[day] = keeps * noise[day - 1] + np.sqrt(1 - keeps**2) * noise[day]
        step = 3.0 * (np.arange(days) >= rng.integers(16, 47))
        change = {"none": 0.0, "step": step, "drift": np.linspace(0, 4, days)}[planted]
        made = single_change(noise + change, min_side=7, replicates=199)
        assert made is not None
        found.append(made.shape if made.p_value < 0.05 else "none")
    return found


@pytest.mark.parametrize(("planted", "wrong"), [("step", "drift"), ("drift", "step")])
def test_a_drift_is_not_called_a_step(planted: str, wrong: str) -> None:
    found = shapes(planted)
    assert found.count(planted) >= 5
    assert wrong not in found


def test_noise_alone_is_no_change() -> None:
    assert shapes("none", keeps=0.5, seeds=range(20)).count("none") >= 17


@pytest.mark.slow
@pytest.mark.parametrize("keeps", [0.0, 0.5])
@pytest.mark.parametrize(("planted", "wrong"), [("step", "drift"), ("drift", "step")])
def test_shapes_are_rarely_confused(planted: str, wrong: str, keeps: float) -> None:
    found = shapes(planted, keeps=keeps, seeds=range(100, 160))
    assert found.count(wrong) <= 6
    assert found.count(planted) >= (15 if keeps else 40)


LEVEL = 0.9


def test_two_looks_give_a_rate_and_no_interval():
    found = Drift.of(np.array([0.0, 61.0]), np.array([96.2, 191.4]))
    assert found is not None
    assert found.rate == pytest.approx(95.2 / 61)
    assert found.reach_interval(100.0, LEVEL) is None
    # car11 IV-A: 10^9 files in September 2011, from 191.4 million in late March 2010.
    assert found.reaches(1000 - 191.4) == pytest.approx(518.1, abs=0.1)


@given(st.lists(st.tuples(st.floats(0.1, 50), st.floats(-100, 100)), min_size=3, max_size=12))
def test_the_rate_is_the_weighted_regression_of_increments(steps):
    """Least squares of dN on dt with weights 1/dt, without intercept: the same rate and residual variance."""
    dt, dv = np.array(steps).T
    times, values = np.concatenate([[0], dt.cumsum()]), np.concatenate([[0], dv.cumsum()])
    found = Drift.of(times, values)
    assert found is not None
    design, response = (np.diff(times) / np.sqrt(np.diff(times)))[:, None], np.diff(values) / np.sqrt(np.diff(times))
    solution, residual, _, _ = np.linalg.lstsq(design, response, rcond=None)
    assert found.rate == pytest.approx(solution[0], rel=1e-6, abs=1e-6)
    assert found.variance == pytest.approx(float(residual[0]) / (len(steps) - 1), rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("distance", [5.0, 50.0, 500.0])
def test_bounds_lie_on_the_prediction_quantiles(distance):
    found = Drift(rate=2.0, variance=1.5, span=30.0, steps=8)
    bounds = found.reach_interval(distance, LEVEL)
    assert bounds is not None
    low, high = bounds
    middle = found.reaches(distance)
    assert middle is not None
    assert high is not None
    assert low < middle < high
    q = 1.8945786050613  # Student's t, 7 degrees of freedom, 95%
    for t, sign in ((low, 1), (high, -1)):
        assert 2.0 * t + sign * q * np.sqrt(1.5 * t * (1 + t / 30.0)) == pytest.approx(distance)


def test_intervals_hold_the_truth_as_often_as_they_say():
    """Planted drift, uneven looks: the growth at a later time is within its quantiles."""
    rng = np.random.default_rng(5)
    ahead_hits = 0
    runs = 2000
    for _ in range(runs):
        dt = rng.uniform(1, 20, 7)
        values = np.concatenate([[0], (3.0 * dt + rng.normal(0, 4.0 * np.sqrt(dt))).cumsum()])
        found = Drift.of(np.concatenate([[0], dt.cumsum()]), values)
        assert found is not None
        later = 40.0
        distance = 3.0 * later + rng.normal(0, 4.0 * np.sqrt(later))  # where the walk truly is after that time
        bounds = found.reach_interval(distance, LEVEL)
        if bounds is not None:
            ahead_hits += bounds[0] <= later and (bounds[1] is None or later <= bounds[1])
    assert ahead_hits / runs == pytest.approx(LEVEL, abs=0.03)
