"""Intervals of samples never overlap, never run backwards, and say where time is missing."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ioweather.core.counters.growth import ForwardTime

S = 1_000_000_000


def test_a_clock_set_back_gives_up_time_that_is_told_of():
    time = ForwardTime()
    time.step(1000 * S, 5 * S)
    time.step(1010 * S, 15 * S)
    back = time.step(990 * S, 25 * S)
    assert not back.is_placed
    assert (back.gap.start_ns, back.gap.end_ns) == (990 * S, 1010 * S)
    assert not time.step(1000 * S, 35 * S).is_placed
    assert not time.step(1009 * S, 44 * S).is_placed
    again = time.step(1019 * S, 54 * S)
    assert not again.is_placed, "it begins at 1009, before 1010"
    after = time.step(1029 * S, 64 * S)
    assert (after.start_ns, after.interval_ns, after.gap) == (1019 * S, 10 * S, None)


def test_a_clock_that_was_ahead_and_is_right_again_goes_on_at_once():
    time = ForwardTime()
    time.step(1000 * S, 0)
    time.step(1010 * S, 10 * S)
    assert time.step(9_000_000 * S, 20 * S).is_placed
    back = time.step(1030 * S, 30 * S)
    assert (back.start_ns, back.interval_ns) == (1020 * S, 10 * S)
    assert (back.gap.start_ns, back.gap.end_ns) == (1030 * S, 1030 * S)
    assert time.step(1040 * S, 40 * S).start_ns == 1030 * S
    assert not time.step(9_000_001 * S, 50 * S).is_placed, "that was told of the first time"


@given(st.lists(st.tuples(st.integers(1, 100 * S), st.integers(-500 * S, 500 * S)), min_size=1, max_size=50))
def test_whatever_the_clock_does_intervals_are_positive_and_disjoint(moves):
    time, wall, mono = ForwardTime(), 10_000 * S, 0
    told: list[tuple[int, int]] = []
    time.step(wall, mono)
    for passed, jump in moves:
        wall, mono = wall + passed + jump, mono + passed
        step = time.step(wall, mono)
        if step.is_placed:
            end = step.start_ns + step.interval_ns
            assert step.start_ns >= 10_000 * S
            assert all(end <= first or last <= step.start_ns for first, last in told)
            assert step.interval_ns > 0
            told.append((step.start_ns, end))
            # A jump that is noticed leaves the interval as long as it really was.
            assert abs(step.interval_ns - passed) <= max(20_000_000, passed // 10)
        if step.gap:
            assert step.gap.end_ns >= step.gap.start_ns
