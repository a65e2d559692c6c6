"""Learning curve, forest and joint density against known answers."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from scipy.stats import gaussian_kde, norm

from ioweather.core.errors import UsageError
from ioweather.studies.mad17.curves import (
    density,
    excess,
    forest_curve,
    learning_curve,
    runs_to,
)


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


@pytest.mark.slow
@pytest.mark.parametrize("keeps", [0.0, 0.8])
def test_intervals_hold_the_planted_number_nine_times_in_ten(keeps):
    truth = runs_to(0.24, 0.04, 0.04, 2)
    held = [low <= truth <= high
            for seed in range(100)
            for _, low, high in [learning_curve(*planted(150, 0.2, seed, keeps)).runs_for(0.24)]]  # fmt: skip
    assert np.mean(held) >= 0.84


def test_the_curve_follows():
    x = np.linspace(0, 1, 300)
    curve, explained = forest_curve(x, x**2, np.array([0.1, 0.9]))
    assert curve == pytest.approx([0.01, 0.81], abs=0.03)
    assert explained > 0.95


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.ensemble", None)
    with pytest.raises(UsageError, match=r"ioweather\[forest\]"):
        forest_curve(np.arange(40.0), np.arange(40.0), np.arange(3.0))


def test_scott_equals_scipys_gaussian_kde():
    rng = np.random.default_rng(1)
    x = rng.gamma(2.0, 1e12, 170)
    y = 300 + x / 1e10 + rng.normal(0, 40, 170)
    found = density(x, y)
    exact = gaussian_kde(np.stack([x, y]))
    gx, gy = np.meshgrid(found.x, found.y, indexing="ij")
    reference = exact(np.stack([gx.ravel(), gy.ravel()])).reshape(gx.shape)
    assert np.abs(found.values - reference).max() < 1e-2 * reference.max()
    assert found.values.sum() * (found.x[1] - found.x[0]) * (found.y[1] - found.y[0]) == pytest.approx(1, abs=1e-3)


def test_conditional_quantiles_of_the_bivariate_normal():
    rng = np.random.default_rng(2)
    x = rng.standard_normal(40_000)
    y = 0.6 * x + 0.8 * rng.standard_normal(40_000)
    found = density(x, y)
    low, median, high = found.conditional_quantiles((0.05, 0.5, 0.95))
    at = np.searchsorted(found.x, 1.0)
    assert median[at] == pytest.approx(0.6, abs=0.05)
    assert high[at] - low[at] == pytest.approx(2 * 0.8 * norm.ppf(0.95), rel=0.06)
