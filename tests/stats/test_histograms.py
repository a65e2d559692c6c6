"""Histograms against exact order statistics, and planted bands."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from ioweather.stats.histograms import RELATIVE_ERROR, Histograms, find_bands

QUANTILES = (0.0, 0.5, 0.9, 0.95, 0.99, 1.0)
durations = arrays(np.float64, st.integers(1, 200), elements=st.floats(1e-7, 1e4))


@given(durations)
def test_quantiles_are_within_the_stated_error(values):
    made = Histograms.of_values(np.zeros(len(values), np.int64), values, 1).quantiles(QUANTILES)[0]
    ordered = np.sort(values)
    for q, found in zip(QUANTILES, made, strict=True):
        exact = ordered[max(0, int(np.ceil(q * len(values) - 1e-9)) - 1)]
        assert abs(found / exact - 1) <= RELATIVE_ERROR + 1e-9
    assert RELATIVE_ERROR < 0.01


@given(durations, st.integers(1, 5), st.randoms(use_true_random=False))
def test_parts_equal_the_whole(values, parts, random):
    owner = np.array([random.randrange(parts) for _ in values])
    whole = Histograms.of_values(np.zeros(len(values), np.int64), values, 1)
    joined = Histograms.of_values(owner, values, parts).merged(np.zeros(parts, np.int64), 1)
    assert whole.texts() == joined.texts()


@given(durations, st.integers(1, 4))
def test_text_and_back(values, rows):
    row = np.arange(len(values)) % rows
    made = Histograms.of_values(row, values, rows + 1)  # the last row is empty
    again = Histograms.of_texts(made.texts())
    assert again.texts() == made.texts()
    assert again.rows == rows + 1
    assert again.totals().sum() == len(values)
    assert np.isnan(again.quantiles([0.5])[-1, 0])


def test_zero_and_nothing():
    made = Histograms.of_values(np.array([0, 0]), np.array([0.0, -1.0]), 1)
    assert made.totals().tolist() == [2]
    empty = Histograms.of_texts(["", ""])
    assert np.isnan(empty.quantiles([0.5])).all()
    assert empty.texts() == ["", ""]


@given(
    st.lists(st.integers(1, 10**9), min_size=1, max_size=200), st.integers(1, 8), st.integers(0, 9),
    st.sampled_from([0.1, 0.5, 0.9]),
)  # fmt: skip
def test_quantiles_of_moving_windows_equal_a_plain_loop(values, rows, width, at):
    nanoseconds = np.array(values)
    row = np.sort(np.arange(len(values)) % rows)
    made = Histograms.of_nanoseconds(row, nanoseconds, rows)
    first = np.maximum(0, np.arange(rows) - width)
    found = made.quantiles_before(first, 3, at)
    for position in range(rows):
        inside = nanoseconds[(row >= first[position]) & (row < position)]
        if len(inside) < 3:
            assert np.isnan(found[position])
        else:
            assert found[position] == np.sort(inside)[max(1, math.ceil(at * len(inside) - 1e-9)) - 1] / 1e9


def test_parts_and_sums_of_histograms():
    made = Histograms.of_nanoseconds(np.array([0, 1, 1, 2]), np.array([5, 7, 7, 9]), 3)
    middle = made.part(1, 3)
    assert (middle.rows, middle.totals().tolist()) == (2, [2, 1])
    both = middle.with_those_of(Histograms.of_nanoseconds(np.array([1]), np.array([1]), 2))
    assert both.totals().tolist() == [2, 2]
    assert both.quantiles([0.5])[1, 0] == 1e-9


def test_texts_of_an_older_version_are_read_beside_new_ones():
    values = np.array([0.01, 0.01, 3.0])
    new = Histograms.of_values(np.zeros(3, np.int64), values, 1)
    older = " ".join(f"{b}:{c}" for b, c in zip(new.bin.tolist(), new.count.tolist(), strict=True))
    both = Histograms.of_texts([older, "", new.texts()[0]])
    assert both.totals().tolist() == [3, 0, 3]
    np.testing.assert_array_equal(both.quantiles([0.1, 0.9])[0], both.quantiles([0.1, 0.9])[2])


def test_counts_of_any_size_survive_the_text():
    counts = np.array([1, 49_999, 50_000, 50_001, 10**6 + 7])
    made = Histograms(2, np.array([0, 0, 0, 1, 1]), np.array([-1046, -5, -4, 3, 700]), counts)
    again = Histograms.of_texts(made.texts())
    assert again.row.tolist() == made.row.tolist()
    assert again.bin.tolist() == made.bin.tolist()
    assert again.count.tolist() == counts.tolist()


def test_cache_and_disk_are_told_apart():
    rng = np.random.default_rng(1)
    times = np.concatenate([1e-4 * rng.lognormal(0, 0.2, 300), 1e-2 * rng.lognormal(0, 0.3, 700)])
    cache, disk = find_bands(times)
    assert cache.centre == pytest.approx(1e-4, rel=0.1)
    assert disk.centre == pytest.approx(1e-2, rel=0.1)
    assert cache.share == pytest.approx(0.3, abs=0.01)
    assert 1.5e-4 < cache.high == disk.low < 5e-3


@pytest.mark.parametrize("seed", range(10))
def test_one_mode_is_one_band_and_stragglers_are_none(seed):
    rng = np.random.default_rng(seed)
    times = 1e-2 * rng.lognormal(0, 0.4, 2000)
    times[:10] *= 200
    assert len(find_bands(times)) == 1


def test_too_few_constant_and_bad_times():
    assert find_bands(np.full(5, 0.1)) == []
    assert [band.share for band in find_bands(np.full(50, 0.1))] == [1.0]
    assert find_bands(np.array([np.nan, -1.0, 0.0] * 20)) == []


def test_every_time_is_in_one_band():
    rng = np.random.default_rng(4)
    times = np.concatenate([10.0**p * rng.lognormal(0, 0.1, 100) for p in (-5, -3, -1)])
    bands = find_bands(times)
    assert len(bands) == 3
    assert sum(band.n for band in bands) == 300
    assert bands[0].low == 0.0
    assert bands[-1].high == float("inf")
