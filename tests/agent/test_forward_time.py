"""Intervals of samples never overlap, never run backwards, and say where time is missing."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ioweather.agent.counters import ForwardTime

S = 1_000_000_000


def test_a_clock_set_back_gives_up_the_time_that_was_reported():
    time = ForwardTime()
    time.step(1000 * S, 5 * S)
    time.step(1010 * S, 15 * S)
    assert time.step(990 * S, 25 * S) is None
    assert time.gap[:2] == (990 * S, 1010 * S)
    assert time.step(1000 * S, 35 * S) is None
    assert time.step(1009 * S, 44 * S) is None
    assert time.step(1019 * S, 54 * S) is None, "it begins at 1009, before 1010"
    assert time.step(1029 * S, 64 * S) == (1019 * S, 1029 * S)
    assert time.gap is None


def test_a_clock_that_was_ahead_and_is_right_again_goes_on_at_once():
    time = ForwardTime()
    time.step(1000 * S, 0)
    time.step(1010 * S, 10 * S)
    assert time.step(9_000_000 * S, 20 * S)
    assert time.step(1030 * S, 30 * S) == (1020 * S, 1030 * S)
    assert time.gap[:2] == (1030 * S, 1030 * S)
    assert time.step(1040 * S, 40 * S) == (1030 * S, 1040 * S)
    assert time.step(9_000_001 * S, 50 * S) is None, "that was reported the first time"


@given(st.lists(st.tuples(st.integers(1, 100 * S), st.integers(-500 * S, 500 * S)), min_size=1, max_size=50))
def test_whatever_the_clock_does_intervals_are_positive_and_disjoint(moves):
    time, wall, mono = ForwardTime(), 10_000 * S, 0
    reported: list[tuple[int, int]] = []
    time.step(wall, mono)
    for passed, jump in moves:
        wall, mono = wall + passed + jump, mono + passed
        interval = time.step(wall, mono)
        if interval is not None:
            start, end = interval
            assert start >= 10_000 * S
            assert all(end <= first or last <= start for first, last in reported)
            assert end > start
            reported.append(interval)
            # A jump that is noticed leaves the interval as long as it really was.
            assert abs(end - start - passed) <= max(20_000_000, passed // 10)
        if time.gap is not None:
            assert time.gap[1] >= time.gap[0]
