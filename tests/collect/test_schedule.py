"""Ticks: each handed out once, on an absolute grid."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ioweather.collect.member import Schedule


def test_ticks_fall_on_the_grid_whoever_is_late():
    schedule = Schedule(100, 10)
    assert list(schedule.due(99)) == []
    assert list(schedule.due(100)) == [100]
    assert list(schedule.due(109)) == []
    assert list(schedule.due(137)) == [110, 120, 130]
    assert schedule.next_ns == 140


@given(st.integers(1, 1000), st.lists(st.integers(0, 5000), max_size=60))
def test_every_tick_once_in_order(period, waits):
    schedule, now, seen = Schedule(0, period), 0, []
    for wait in waits:
        now += wait
        seen += schedule.due(now)
    assert seen == list(range(0, now + 1, period)) if waits else seen == []


def test_a_period_of_nothing():
    with pytest.raises(ValueError, match="period"):
        Schedule(0, 0)
