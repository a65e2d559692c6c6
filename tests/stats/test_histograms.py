"""Histograms against exact order statistics, and planted bands."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from ioweather.facts.slowdown import RELATIVE_ERROR, _Histograms

QUANTILES = (0.0, 0.5, 0.9, 0.95, 0.99, 1.0)
durations = arrays(np.float64, st.integers(1, 200), elements=st.floats(1e-7, 1e4))


@given(durations)
def test_quantiles_are_within_the_stated_error(values):
    made = _Histograms.of_values(np.zeros(len(values), np.int64), values, 1).quantiles(QUANTILES)[0]
    ordered = np.sort(values)
    for q, found in zip(QUANTILES, made, strict=True):
        exact = ordered[max(0, int(np.ceil(q * len(values) - 1e-9)) - 1)]
        assert abs(found / exact - 1) <= RELATIVE_ERROR + 1e-9
    assert RELATIVE_ERROR < 0.01


@given(durations, st.integers(1, 5), st.randoms(use_true_random=False))
def test_parts_equal_the_whole(values, parts, random):
    owner = np.array([random.randrange(parts) for _ in values])
    whole = _Histograms.of_values(np.zeros(len(values), np.int64), values, 1)
    joined = _Histograms.of_values(owner, values, parts).merged(np.zeros(parts, np.int64), 1)
    assert whole.texts() == joined.texts()


@given(durations, st.integers(1, 4))
def test_text_and_back(values, rows):
    row = np.arange(len(values)) % rows
    made = _Histograms.of_values(row, values, rows + 1)  # the last row is empty
    again = _Histograms.of_texts(made.texts())
    assert again.texts() == made.texts()
    assert again.rows == rows + 1
    assert again.totals().sum() == len(values)
    assert np.isnan(again.quantiles([0.5])[-1, 0])


def test_texts_of_an_older_version_are_read_beside_new_ones():
    values = np.array([0.01, 0.01, 3.0])
    new = _Histograms.of_values(np.zeros(3, np.int64), values, 1)
    older = " ".join(f"{b}:{c}" for b, c in zip(new.bin.tolist(), new.count.tolist(), strict=True))
    both = _Histograms.of_texts([older, "", new.texts()[0]])
    assert both.totals().tolist() == [3, 0, 3]
    np.testing.assert_array_equal(both.quantiles([0.1, 0.9])[0], both.quantiles([0.1, 0.9])[2])


def test_counts_of_any_size_survive_the_text():
    counts = np.array([1, 49_999, 50_000, 50_001, 10**6 + 7])
    made = _Histograms(2, np.array([0, 0, 0, 1, 1]), np.array([-1046, -5, -4, 3, 700]), counts)
    again = _Histograms.of_texts(made.texts())
    assert again.row.tolist() == made.row.tolist()
    assert again.bin.tolist() == made.bin.tolist()
    assert again.count.tolist() == counts.tolist()
