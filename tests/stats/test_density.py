"""The binned density against the exact one, and conditional quantiles against what is known of the normal."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import gaussian_kde, norm

from ioweather.stats.density import density


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
    assert found.covariance == pytest.approx(exact.covariance)


def test_conditional_quantiles_of_the_bivariate_normal():
    rng = np.random.default_rng(2)
    x = rng.standard_normal(40_000)
    y = 0.6 * x + 0.8 * rng.standard_normal(40_000)
    found = density(x, y)
    low, median, high = found.conditional_quantiles((0.05, 0.5, 0.95))
    at = np.searchsorted(found.x, 1.0)
    assert median[at] == pytest.approx(0.6, abs=0.05)
    assert high[at] - low[at] == pytest.approx(2 * 0.8 * norm.ppf(0.95), rel=0.06)


def test_far_from_all_points_there_is_no_quantile():
    found = density(np.array([0.0, 1.0, 100.0, 101.0] * 20), np.arange(80.0), bandwidth="botev")
    assert np.isnan(found.conditional_quantiles((0.5,))[0]).any()


def test_botev_is_narrower_on_two_modes_and_alike_on_one():
    rng = np.random.default_rng(3)
    two = np.concatenate([rng.normal(-5, 0.5, 500), rng.normal(5, 0.5, 500)])
    other = rng.standard_normal(1000)
    wide, narrow = (density(two, other, bandwidth=b).covariance[0, 0] for b in ("scott", "botev"))
    assert math.sqrt(narrow) < 0.3 * math.sqrt(wide)
    one = density(other, rng.standard_normal(1000), bandwidth="botev").covariance
    assert one[0, 0] == pytest.approx(1000 ** (-1 / 3), rel=0.5)


@pytest.mark.parametrize("x", [[1.0, 2.0], [3.0] * 10, [np.nan] * 10, []])
def test_without_spread_there_is_no_density(x):
    assert density(np.array(x), np.arange(float(len(x)))) is None
