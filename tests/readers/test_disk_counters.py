"""The agent's differences of /proc/diskstats are those of the log reader, value by value."""

from __future__ import annotations

from ioweather.core.counters.diskstats import RESET, amounts_between, parse_diskstats
from ioweather.core.tables import Quality

NS = 10**9


def test_the_flag_is_the_tables_own():
    assert int(Quality.RESET) == RESET


def test_a_wrap_goes_on_and_a_restart_begins_anew():
    before = [10, 0, (1 << 32) - 8, 5, 0, 0, 0, 0, 0, 0, 0]
    after = [12, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0]
    wrapped = amounts_between(before, after, 1.0)
    assert wrapped.values["read_bytes"] == 16 * 512
    assert not wrapped.restarted
    restarted = amounts_between([1000] * 11, [3] * 11, 1.0)
    assert restarted.restarted
    assert restarted.values["read_ops"] == 3


def test_counters_of_another_kernel_are_not_compared():
    assert amounts_between([0] * 11, [0] * 17, 1.0) is None
    assert amounts_between([0] * 11, [1] * 11, 0.0) is None


def test_lines_of_other_shapes_are_left_out():
    text = " 8 0 sda 1 2 3 4 5 6 7 8 9 10 11\n 8 1 sda1 1 2 3 4\ngarbage\n 8 2 sdb x 2 3 4 5 6 7 8 9 10 11\n"
    assert parse_diskstats(text) == {"sda": tuple(range(1, 12))}
    assert parse_diskstats("") == {}
