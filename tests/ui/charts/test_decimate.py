"""Thinning: the extremes survive, gaps survive, and there is never more than asked for."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ioweather.ui.charts.chart_data import bin_cells, thin_line, thin_scatter

values = st.one_of(st.floats(-1e12, 1e12), st.just(float("nan")))


@settings(max_examples=60, deadline=None)
@given(st.lists(values, min_size=1, max_size=400), st.integers(1, 40))
def test_every_bucket_keeps_its_lowest_and_highest(y: list[float], buckets: int) -> None:
    x, high = np.arange(len(y), dtype=float), np.array(y)
    kept = thin_line(x, high, buckets)
    assert np.all(np.diff(kept) > 0)
    assert len(kept) <= 5 * buckets
    finite = np.flatnonzero(np.isfinite(high))
    if len(finite) == 0:
        return
    # Independently: the samples of each bucket, by a plain loop over the definition.
    low_x, span = x[finite[0]], x[finite[-1]] - x[finite[0]]
    for bucket in range(buckets):
        inside = [
            i for i in finite if (min(int((x[i] - low_x) / span * buckets), buckets - 1) if span else 0) == bucket
        ]
        if inside:
            here = set(kept.tolist()) & set(inside)
            assert min(high[i] for i in here) == min(high[i] for i in inside)
            assert max(high[i] for i in here) == max(high[i] for i in inside)


def test_a_spike_among_a_million_stays() -> None:
    y = np.ones(1_000_000)
    y[654_321] = 99.0
    y[123_456] = -5.0
    kept = thin_line(np.arange(1e6), y, 500)
    assert {654_321, 123_456, 0, 999_999} <= set(kept.tolist())
    assert len(kept) <= 2500


def test_a_wide_gap_stays_a_gap_and_a_narrow_one_does_not() -> None:
    x, y = np.arange(10_000.0), np.sin(np.arange(10_000.0))
    y[3000:3500] = np.nan
    y[7001] = np.nan
    kept = thin_line(x, y, 100)
    assert np.isnan(y[kept]).sum() == 1
    gap = int(np.flatnonzero(np.isnan(y[kept]))[0])
    assert (kept[gap - 1], kept[gap], kept[gap + 1]) == (2999, 3000, 3500)


def test_short_series_are_left_alone() -> None:
    y = np.array([1.0, np.nan, 3.0])
    assert thin_line(np.arange(3.0), y, 10).tolist() == [0, 1, 2]
    assert thin_line(np.zeros(0), np.zeros(0), 10).tolist() == []
    assert thin_line(np.arange(100.0), np.full(100, np.nan), 3).tolist() == []
    assert len(thin_line(np.zeros(100), np.arange(100.0), 3)) == 2  # all at one moment


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 3000), st.integers(20, 400), st.integers(0, 2**31))
def test_scatter_keeps_the_extremes(n: int, limit: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    x, y = generator.normal(size=n), generator.standard_cauchy(n)
    kept = thin_scatter(x, y, limit)
    assert len(kept) <= limit
    for axis in (x, y):
        assert axis[kept].min() == axis.min()
        assert axis[kept].max() == axis.max()


def test_cells_are_averaged_as_a_plain_loop_does() -> None:
    generator = np.random.default_rng(2)
    column, row = (a.ravel() for a in np.meshgrid(np.arange(37), np.arange(23)))
    value = generator.normal(size=37 * 23)
    value[::7] = np.nan
    left, bottom, mean, wide, high = bin_cells(column, row, value, 100)
    assert len(mean) <= 100
    assert wide * high > 1
    for a, b, m in zip(left, bottom, mean, strict=True):
        inside = (column // wide == a // wide) & (row // high == b // high)
        assert m == pytest.approx(np.nanmean(value[inside]))
