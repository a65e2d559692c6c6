"""Draws and splits are those of scikit-learn, and so is the curve."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor

from ioweather.stats.forest import LEAST_LEAF, TREES, forest_curve


def test_the_curve_follows():
    x = np.linspace(0, 1, 300)
    curve, explained = forest_curve(x, x**2, np.array([0.1, 0.9]))
    assert curve == pytest.approx([0.01, 0.81], abs=0.03)
    assert explained > 0.95


@pytest.mark.parametrize("n", [8, 12, 40, 400])
@pytest.mark.parametrize("distinct", [3, 100_000])
def test_it_is_the_forest_of_scikit_learn(n, distinct):
    rng = np.random.default_rng(n)
    x = rng.integers(0, distinct, n).astype(np.float64)
    y, at = np.hypot(x / distinct, rng.normal(size=n)), np.linspace(-1, distinct, 50)
    theirs = RandomForestRegressor(TREES, min_samples_leaf=LEAST_LEAF, oob_score=True, random_state=20170807)
    theirs.fit(x[:, None], y)
    curve, explained = forest_curve(x, y, at)
    assert curve == pytest.approx(theirs.predict(at[:, None]), rel=1e-12)
    assert explained == pytest.approx(theirs.oob_score_, rel=1e-9)


def test_equal_times_are_foretold():
    curve, explained = forest_curve(np.arange(40.0), np.full(40, 0.5), np.array([-1.0, 20.0, 90.0]))
    assert (curve.tolist(), explained) == ([0.5, 0.5, 0.5], 1.0)
