"""Series statistics against known answers."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ioweather.stats.series import (
    coefficient_of_variation,
    correlation,
    lagged_column_sums,
    variation_from_sums,
    window_sums,
    with_squares,
)
from ioweather.stats.summary_tables import ecdf_points
from lagged_correlations import lagged_correlation


def slow_lagged(x: np.ndarray, y: np.ndarray, lag: int) -> float:
    """pat19 section 2.3, pair by pair."""
    pairs = [(x[i], y[i + lag]) for i in range(len(x) - lag) if not (math.isnan(x[i]) or math.isnan(y[i + lag]))]
    if len(pairs) < 3:
        return math.nan
    mean_x = math.fsum(p[0] for p in pairs) / len(pairs)
    mean_y = math.fsum(p[1] for p in pairs) / len(pairs)
    top = math.fsum((a - mean_x) * (b - mean_y) for a, b in pairs)
    vx = math.fsum((a - mean_x) ** 2 for a, _ in pairs)
    vy = math.fsum((b - mean_y) ** 2 for _, b in pairs)
    return top / math.sqrt(vx * vy) if vx * vy > 0 else math.nan


@st.composite
def tables(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, list[int]]:
    seed = draw(st.integers(0, 2**32 - 1))
    rows, columns = draw(st.integers(12, 60)), draw(st.integers(1, 5))
    holes = draw(st.sampled_from((0.0, 0.02, 0.3)))
    offset = draw(st.sampled_from((0.0, 1e12)))
    rng = np.random.default_rng(seed)
    x = offset + 1e9 * rng.lognormal(0, 1, (rows, columns)).cumsum(axis=0)
    y = offset + 1e9 * rng.lognormal(0, 1, (rows, columns))
    x[rng.random(x.shape) < holes] = np.nan
    y[rng.random(y.shape) < holes] = np.nan
    cuts = sorted(draw(st.lists(st.integers(0, rows), max_size=6)))
    return x, y, cuts


@settings(max_examples=60, deadline=None)
@given(tables())
def test_lagged_correlation_in_blocks_equals_the_definition(table: tuple[np.ndarray, np.ndarray, list[int]]) -> None:
    """Stretches that overlap by the largest lag add up to the whole."""
    x, y, cuts = table
    lags = 5
    sums = np.zeros((lags + 1, 6, x.shape[1]))
    for start, stop in pairwise([0, *cuts, len(x)]):
        begin = max(0, start - lags)
        sides = with_squares(x[begin:stop]), with_squares(y[begin:stop])
        sums += lagged_column_sums(*sides, range(lags + 1), start - begin)
    found = correlation(np.moveaxis(sums, 1, -1))
    auto = correlation(np.moveaxis(lagged_column_sums(with_squares(x), with_squares(x), range(lags + 1)), 1, -1))
    for column in range(x.shape[1]):
        for lag in range(lags + 1):
            want = slow_lagged(x[:, column], y[:, column], lag)
            assert found[lag, column] == pytest.approx(want, abs=1e-7, nan_ok=True)
            alone = slow_lagged(x[:, column], x[:, column], lag)
            assert auto[lag, column] == pytest.approx(alone, abs=1e-7, nan_ok=True)
        single = lagged_correlation(x[:, column], y[:, column], lags)
        np.testing.assert_allclose(single, found[:, column], atol=1e-7, equal_nan=True)


def test_constant_and_short_series_have_no_correlation() -> None:
    assert np.isnan(lagged_correlation(np.full(50, 7e15), np.arange(50.0), 2)).all()
    assert np.isnan(lagged_correlation(np.array([1.0, 2.0]), np.array([1.0, 2.0]), 3)).all()
    assert np.isnan(lagged_correlation(np.array([]), np.array([]), 3)).all()
    constant = with_squares(np.full((40, 1), 1e15 / 3))
    assert np.isnan(correlation(np.moveaxis(lagged_column_sums(constant, constant, range(3)), 1, -1))).all()


@given(st.lists(st.floats(0.1, 1e15), min_size=2, max_size=50))
def test_variation_is_sd_over_mean(values: list[float]) -> None:
    mean = math.fsum(values) / len(values)
    sd = math.sqrt(math.fsum((v - mean) ** 2 for v in values) / len(values))
    got = coefficient_of_variation(np.array([*values, np.nan]))
    assert got == pytest.approx(sd / mean, rel=1e-9, abs=1e-9)
    table = np.stack([np.array(values), np.array(values) * 3], axis=1)
    np.testing.assert_allclose(coefficient_of_variation(table, axis=0), [got, got], rtol=1e-9, atol=1e-9)
    from_sums = variation_from_sums(np.array(len(values)), np.sum(values), np.sum(np.square(values)))
    assert float(from_sums) == pytest.approx(got, abs=1e-6)


def test_ecdf_counts_ties_once_and_thins_to_the_points_asked_for() -> None:
    x, share = ecdf_points(np.array([2.0, 1.0, 2.0, np.nan, 5.0]), 10)
    assert x.tolist() == [1, 2, 5]
    assert share.tolist() == [0.25, 0.75, 1.0]
    values = np.random.default_rng(1).lognormal(size=10_000)
    few, p = ecdf_points(values, 200)
    assert len(few) <= 200
    assert few[0] == values.min()
    assert few[-1] == values.max()
    for value, probability in zip(few, p, strict=True):
        assert probability == pytest.approx(np.mean(values <= value))


@given(st.integers(1, 7), st.booleans())
def test_windows_equal_a_loop(width: int, mean: bool) -> None:
    values = np.arange(80.0).reshape(40, 2)
    values[7, 1] = np.nan
    want = [values[i : i + width] for i in range(0, 40 - width + 1, width)]
    slow = np.array([w.mean(axis=0) if mean else w.sum(axis=0) for w in want])
    np.testing.assert_allclose(window_sums(values, width, mean=mean), slow)
