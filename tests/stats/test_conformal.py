"""Intervals cover as often as they promise, where the plain mean and standard deviation do not."""

from __future__ import annotations

import numpy as np
import pytest

from ioweather.stats.conformal import MIN_POINTS, NeighbourQuantiles, conformal_folds


def loaded_jobs(n, seed):
    """Time grows with load, and so does its spread."""
    rng = np.random.default_rng(seed)
    load = rng.gamma(2.0, 1.0, n)
    return load, 1 + load + load * rng.gamma(1.0, 0.5, n)


def test_nine_of_ten_new_values_fall_inside():
    shares = []
    for seed in range(25):
        x, y = loaded_jobs(170, seed)
        new_x, new_y = loaded_jobs(300, 1000 + seed)
        band = conformal_folds(x, y, new_x)
        assert (band.low <= band.median).all()
        assert (band.median <= band.high).all()
        shares.append(np.mean((new_y >= band.low) & (new_y <= band.high)))
    assert np.mean(shares) == pytest.approx(0.9, abs=0.025)


def test_under_load_the_mean_and_its_deviation_mislead():
    """mean +/- 1.645 sd holds far fewer than nine of ten in the top tenth of load."""
    inside, conformal = [], []
    for seed in range(10):
        x, y = loaded_jobs(300, seed)
        new_x, new_y = loaded_jobs(2000, 99 + seed)
        top = new_x > np.quantile(new_x, 0.9)
        inside.append(np.mean(np.abs(new_y[top] - y.mean()) < 1.645 * y.std()))
        band = conformal_folds(x, y, new_x[top])
        conformal.append(np.mean((new_y[top] >= band.low) & (new_y[top] <= band.high)))
    assert np.mean(inside) < 0.75
    assert np.mean(conformal) > 0.8


def test_few_points_have_no_interval():
    x, y = loaded_jobs(MIN_POINTS - 1, 1)
    assert conformal_folds(x, y, x) is None


def test_several_features_on_different_scales():
    rng = np.random.default_rng(4)
    x = np.stack([rng.random(500), 1e12 * rng.random(500)], axis=1)
    y = x[:, 0] + x[:, 1] / 1e12
    at = np.array([[0.5, 5e11]])
    assert NeighbourQuantiles(x, y, 20)(at, (0.5,))[0, 0] == pytest.approx(1.0, abs=0.1)
