"""How many runs a model needs: against planted models, whose error at any number of runs is known."""

from __future__ import annotations

import numpy as np
import pytest

from ioweather.stats.learning import LEAST_RUNS, excess, learning_curve, runs_to


def planted(n, spread, seed=0, keeps=0.0):
    """Time = 3 volume^0.5 rate^-0.2, and a spread that nothing explains; neighbours in time may be alike."""
    rng = np.random.default_rng(seed)
    noise = rng.standard_normal((n, 2))
    for i in range(1, n):
        noise[i] = keeps * noise[i - 1] + np.sqrt(1 - keeps**2) * noise[i]
    measures = np.exp(noise + 20)
    return measures, 3 * measures[:, 0] ** 0.5 * measures[:, 1] ** -0.2 * np.exp(spread * rng.standard_normal(n))


def test_the_error_of_few_runs_is_that_of_the_formula():
    """Models fitted to 12 runs and tried on new ones, 5,000 times."""
    rng = np.random.default_rng(5)
    squares = []
    for _ in range(5_000):
        x = np.column_stack([np.ones(13), rng.standard_normal((13, 2))])
        y = rng.standard_normal(13)
        factors = np.linalg.lstsq(x[:12], y[:12], rcond=None)[0]
        squares.append((x[12] @ factors - y[12]) ** 2)
    assert np.mean(squares) == pytest.approx(1 + excess(12, 2), rel=0.06)


def test_the_least_number_of_runs():
    """With a limit of 0.2 and as much to learn, an error of 24%: the first number whose error is below."""
    needed = runs_to(0.24, 0.04, 0.04, 2)
    assert 0.04 * (1 + excess(needed, 2)) <= np.log(1.24) ** 2 < 0.04 * (1 + excess(needed - 1, 2))
    assert runs_to(0.2, 0.04, 0.04, 2) == np.inf
    assert runs_to(0.3, 0.0, 0.0, 2) == 5


@pytest.mark.parametrize(("n", "spread", "error"), [(60, 0.2, 0.3), (200, 0.2, 0.24), (200, 0.1, 0.13)])
def test_the_planted_number_lies_in_the_interval(n, spread, error):
    truth = runs_to(error, spread**2, spread**2, 2)
    held = 0
    for seed in range(10):
        value, low, high = learning_curve(*planted(n, spread, seed)).runs_for(error)
        held += low <= truth <= high
        assert low <= value <= high
    assert held >= 8


def test_what_no_number_of_runs_reaches_is_said():
    curve = learning_curve(*planted(200, 0.3))
    assert curve.runs_for(0.1) == (np.inf, np.inf, np.inf)
    value, low, high = curve.limit()
    assert low < np.expm1(0.3) < high
    assert curve.error_at(10**9) == pytest.approx(value)


def test_too_few_runs_give_no_curve():
    measures, seconds = planted(LEAST_RUNS - 1, 0.1)
    assert learning_curve(measures, seconds) is None
    assert learning_curve(np.full((50, 2), np.nan), np.ones(50)) is None


def test_runs_that_do_not_differ_need_no_more():
    measures, _ = planted(60, 0.1)
    curve = learning_curve(measures, np.full(60, 42.0))
    assert curve.limit()[0] == pytest.approx(0.0, abs=1e-6)
    assert curve.runs_for(0.05)[0] == 5


def test_a_measure_that_never_changes():
    _, seconds = planted(60, 0.1)
    curve = learning_curve(np.zeros((60, 2)), seconds)
    assert np.isfinite(curve.limit()[0])


@pytest.mark.slow
@pytest.mark.parametrize("keeps", [0.0, 0.8])
def test_intervals_hold_the_planted_number_nine_times_in_ten(keeps):
    truth = runs_to(0.24, 0.04, 0.04, 2)
    held = [low <= truth <= high
            for seed in range(100)
            for _, low, high in [learning_curve(*planted(150, 0.2, seed, keeps)).runs_for(0.24)]]  # fmt: skip
    assert np.mean(held) >= 0.84
