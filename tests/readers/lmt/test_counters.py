"""Cumulative counters to amounts: gaps, restarts, and any cut into blocks."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ioweather.readers.lmt_minutes import ABSENT, CounterMemory, difference_counters, fill_unused_counters


def one(counters: list[list[int]]) -> np.ndarray:
    """(step, 1 component, counters)"""
    return np.array(counters, np.int64)[:, None, :]


def test_growth_gap_and_restart():
    memory = CounterMemory.empty(1, 2)
    found = difference_counters(one([[10, 100], [15, 100], [ABSENT, ABSENT], [25, 130], [4, 0], [4, 7]]), 0, memory)
    assert np.isnan(found.values[[0, 2]]).all()  # nothing to differ from; no sample
    assert found.values[[1, 3, 4, 5], 0].tolist() == [[5, 0], [10, 30], [4, 0], [0, 7]]
    assert found.spans[[1, 3, 4, 5], 0].tolist() == [1, 2, 1, 1]
    assert found.restarted.ravel().tolist() == [False, False, False, False, True, False]


def test_one_dropped_counter_means_that_all_began_anew():
    """Its neighbour had grown past its old value in the meantime: that is no small difference."""
    found = difference_counters(one([[1000, 5], [10, 9]]), 0, CounterMemory.empty(1, 2))
    assert found.values[1, 0].tolist() == [10, 9]
    assert found.restarted[1, 0]


def test_zeros_after_a_restart_are_real():
    found = difference_counters(one([[50, 50], [0, 0], [0, 0]]), 0, CounterMemory.empty(1, 2))
    assert found.values[1:, 0].tolist() == [[0, 0], [0, 0]]
    assert found.restarted.ravel().tolist() == [False, True, False]


def test_counters_beyond_the_digits_of_a_float():
    big = 2**62
    found = difference_counters(one([[big], [big + 3]]), 0, CounterMemory.empty(1, 1))
    assert found.values[1, 0, 0] == 3


def test_a_counter_left_out_is_zero_until_its_first_use():
    memory = CounterMemory.empty(1, 2)
    filled = fill_unused_counters(one([[5, ABSENT], [6, ABSENT], [ABSENT, ABSENT], [8, 3], [9, ABSENT]]), memory)
    assert filled[:, 0].tolist() == [[5, 0], [6, 0], [ABSENT, ABSENT], [8, 3], [9, 3]]


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.lists(st.one_of(st.just(ABSENT), st.integers(0, 50)), min_size=2, max_size=2), min_size=2, max_size=40),
    st.integers(0, 40),
)
def test_blocks_equal_the_whole(counters: list[list[int]], cut: int):
    grid = np.array(counters, np.int64)[:, :, None]
    whole = difference_counters(grid, 0, CounterMemory.empty(2, 1))
    memory = CounterMemory.empty(2, 1)
    parts = [
        difference_counters(part, first, memory) for part, first in ((grid[:cut], 0), (grid[cut:], cut)) if len(part)
    ]
    for name in ("values", "spans", "restarted"):
        joined = np.concatenate([getattr(part, name) for part in parts])
        assert np.array_equal(joined, getattr(whole, name), equal_nan=name == "values")


@settings(max_examples=80, deadline=None)
@given(st.lists(st.one_of(st.just(ABSENT), st.integers(0, 1000)), min_size=1, max_size=60))
def test_against_a_plain_loop(counters: list[int]):
    found = difference_counters(one([[value] for value in counters]), 0, CounterMemory.empty(1, 1))
    last, expected = None, []
    for value in counters:
        if value == ABSENT:
            expected.append(None)
            continue
        expected.append(None if last is None else value if value < last else value - last)
        last = value
    assert [None if np.isnan(v) else v for v in found.values.ravel().tolist()] == expected
