"""A change in level: found where planted, refused where there is none."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ioweather.stats.changepoint import single_change


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


def test_no_change_is_rarely_called_one() -> None:
    called = 0
    for seed in range(60):
        series = np.random.default_rng(seed).normal(size=50)
        found = single_change(series, replicates=99)
        assert found is not None
        called += found.p_value <= 0.1
    # Binomial(60, 0.1): 99.9% of the time at most 14.
    assert called <= 14


def test_short_flat_and_empty_series_have_none() -> None:
    assert single_change(np.array([])) is None
    assert single_change(np.arange(5.0)) is None
    assert single_change(np.ones(20)) is None
    assert single_change(np.arange(20.0), np.zeros(20)) is None
