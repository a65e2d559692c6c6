"""Imbalance and rank correlation against sorting by hand and scipy."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from ioweather.stats.imbalance import imbalance, rank_correlation, rank_correlations, ranks


@given(st.lists(st.integers(0, 6), min_size=1, max_size=30))
def test_ranks_share_ties(values: list[int]) -> None:
    assert ranks(np.array(values)).tolist() == scipy.stats.rankdata(values).tolist()


def test_rank_correlation_equals_scipy_and_leaves_out_missing() -> None:
    rng = np.random.default_rng(4)
    x = rng.integers(0, 20, 60).astype(float)
    y = x + rng.integers(0, 20, 60)
    want = scipy.stats.spearmanr(x, y).statistic
    assert rank_correlation(x, y) == pytest.approx(want)
    assert rank_correlation(np.append(x, np.nan), np.append(y, 1.0)) == pytest.approx(want)


def test_rank_correlation_of_too_little_is_unknown() -> None:
    assert np.isnan(rank_correlation(np.array([1.0, 2.0]), np.array([1.0, 2.0])))
    assert np.isnan(rank_correlation(np.ones(5), np.arange(5.0)))


def test_imbalance_orders_components_and_leaves_out_those_never_seen() -> None:
    found = imbalance(np.array([4.0, np.nan, 2.0, 5.0]))
    assert found.order.tolist() == [2, 0, 3]
    assert found.totals.tolist() == [2, 4, 5]
    assert found.max_to_min == 2.5
    assert found.mean == pytest.approx(11 / 3)
    assert found.variation == pytest.approx(np.std([2, 4, 5]) / np.mean([2, 4, 5]))


def test_imbalance_of_nothing_and_of_an_idle_component() -> None:
    assert np.isnan(imbalance(np.array([np.nan])).max_to_min)
    assert imbalance(np.array([0.0, 3.0])).max_to_min == np.inf


def test_many_rank_correlations_are_those_of_each() -> None:
    """Plain rows, ties, missing values, rows that do not vary, and too few."""
    random = np.random.default_rng(3)
    x, y = random.normal(size=(2, 40, 9))
    x[5:10] = np.round(x[5:10])
    y[8:12, 3] = np.nan
    x[13] = 1.0
    each = [rank_correlation(a, b) for a, b in zip(x, y, strict=True)]
    np.testing.assert_allclose(rank_correlations(x, y), each, rtol=1e-12)
    assert np.isnan(rank_correlations(x[:, :2], y[:, :2])).all()
    assert rank_correlations(np.zeros((0, 5)), np.zeros((0, 5))).shape == (0,)
