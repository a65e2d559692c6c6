"""Forest and joint density against known answers."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from scipy.stats import gaussian_kde, norm

from ioweather.core.errors import UsageError
from ioweather.studies.mad17.curves import (
    density,
    forest_curve,
)


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
