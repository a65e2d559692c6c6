"""Marks of axes: where they are and what they say."""

from __future__ import annotations

import datetime as dt
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ioweather.core.units import GIB, KIB, UNITS
from ioweather.figures.ticks import linear_ticks, log_bounds, log_ticks, nice_bounds, time_context, time_ticks

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
# 2025-11-13
START_MS = 1_762_992_000_000


def labels(ticks: list[tuple[float, str]]) -> list[str]:
    return [label for _, label in ticks]


@pytest.mark.parametrize(
    ("unit", "high", "expected"),
    [
        ("bytes", 3.3 * GIB, ["0", "1 GiB", "2 GiB", "3 GiB", "4 GiB"]),
        ("bytes_per_s", 88 * GIB, ["0", "20 GiB/s", "40 GiB/s", "60 GiB/s", "80 GiB/s", "100 GiB/s"]),
        ("seconds", 0.003, ["0", "1 ms", "2 ms", "3 ms"]),
        ("seconds", 5000, ["0", "20 min", "40 min", "60 min", "80 min"]),
        ("seconds", 100_000, ["0", "6 h", "12 h", "18 h", "24 h", "30 h"]),
        ("ns", 5e8, ["0", "100 ms", "200 ms", "300 ms", "400 ms", "500 ms"]),
        ("ratio", 1, ["0%", "20%", "40%", "60%", "80%", "100%"]),
        ("percent", 245, ["0%", "50%", "100%", "150%", "200%", "250%"]),
        ("count", 3, ["0", "1", "2", "3"]),
        ("count", 2_500_000, ["0", "0.5 M", "1.0 M", "1.5 M", "2.0 M", "2.5 M"]),
        ("factor", 9, ["0x", "2x", "4x", "6x", "8x", "10x"]),
        ("mib_per_s", 7.3, ["0", "2", "4", "6", "8"]),
    ],
)
def test_linear_labels(unit: str, high: float, expected: list[str]) -> None:
    assert labels(linear_ticks(*nice_bounds(0, high, unit, 6), unit, 6)) == expected


@given(
    st.floats(-1e15, 1e15), st.floats(1e-9, 1e15), st.sampled_from(sorted(UNITS - {"time_ns", "date", "text"})),
    st.integers(3, 12),
)  # fmt: skip
def test_linear_marks_lie_on_the_axis_and_are_not_too_many(low: float, span: float, unit: str, most: int) -> None:
    if span < abs(low) * 1e-6:
        return
    low, high = nice_bounds(low, low + span, unit, most)
    ticks = linear_ticks(low, high, unit, most)
    assert 1 <= len(ticks) <= 2 * most + 2
    values = [value for value, _ in ticks]
    assert values == sorted(values)
    slack = (high - low) * 1e-6
    assert low - slack <= values[0]
    assert values[-1] <= high + slack


@pytest.mark.parametrize(
    ("unit", "low", "high", "expected"),
    [
        ("bytes", 1, 2**40, ["1 B", "1 KiB", "1 MiB", "1 GiB", "1 TiB"]),
        ("bytes", 4 * KIB, 4 * KIB**2, ["4 KiB", "16 KiB", "64 KiB", "256 KiB", "1 MiB", "4 MiB"]),
        ("seconds", 0.2, 5, ["200 ms", "500 ms", "1 s", "2 s", "5 s"]),
        ("seconds", 1e-3, 600, ["1 ms", "10 ms", "100 ms", "1 s", "10 s", "1 min", "10 min"]),
        ("ns", 1e6, 6e11, ["1 ms", "10 ms", "100 ms", "1 s", "10 s", "1 min", "10 min"]),
        ("ratio", 1e-4, 1, ["0.01%", "0.1%", "1%", "10%", "100%"]),
        ("factor", 0.5, 100, ["0.5x", "1x", "2x", "5x", "10x", "20x", "50x", "100x"]),
        ("count", 1, 1e6, ["1", "10", "100", "1,000", "10,000", "100 k", "1 M"]),
    ],
)
def test_log_labels(unit: str, low: float, high: float, expected: list[str]) -> None:
    assert labels(log_ticks(low, high, unit, 8)) == expected


@given(st.floats(1e-9, 1e15), st.floats(1, 1e9), st.sampled_from(sorted(UNITS - {"time_ns", "date", "text"})))
def test_log_marks_lie_on_the_axis(low: float, ratio: float, unit: str) -> None:
    least, greatest = log_bounds(low, low * ratio, unit)
    assert 0 < least <= low * 1.000002
    assert greatest >= low * ratio * 0.999998
    ticks = log_ticks(least, greatest, unit, 6)
    assert 1 <= len(ticks) <= 7
    assert all(least * 0.99 <= value <= greatest * 1.01 for value, _ in ticks)


@pytest.mark.parametrize(
    ("span", "expected"),
    [
        (600_000, ["13 Nov", "00:02", "00:04", "00:06", "00:08", "00:10"]),
        (DAY_MS, ["13 Nov", "03:00", "06:00", "09:00", "12:00", "15:00", "18:00", "21:00", "14 Nov"]),
        (3 * DAY_MS, ["13 Nov", "12:00", "14 Nov", "12:00", "15 Nov", "12:00", "16 Nov"]),
        (365 * DAY_MS, ["2026", "Mar", "May", "Jul", "Sep", "Nov"]),
        (2000, ["13 Nov", "00:00:00.500", "00:00:01", "00:00:01.500", "00:00:02"]),
    ],
)
def test_time_labels(span: int, expected: list[str]) -> None:
    found = labels(time_ticks(START_MS, START_MS + span, 8 if span > 2000 else 5))
    assert [text.replace(".000", "") for text in found] == expected


def test_weeks_begin_on_monday() -> None:
    ticks = time_ticks(START_MS, START_MS + 50 * DAY_MS, 7)
    assert all(dt.datetime.fromtimestamp(t / 1000, dt.UTC).weekday() == 0 for t, _ in ticks)


@given(st.integers(0, 4_000_000_000_000), st.integers(10, 10**13), st.integers(2, 10))
def test_a_time_axis_has_at_least_two_marks(start: int, span: int, most: int) -> None:
    ticks = time_ticks(start, start + span, most)
    assert 2 <= len(ticks) <= 3 * most + 3
    assert all(start <= value <= start + span for value, _ in ticks)


def test_time_context_says_what_the_marks_do_not() -> None:
    assert time_context(START_MS, START_MS + HOUR_MS) == "13 Nov 2025"
    assert time_context(START_MS, START_MS + 20 * DAY_MS) == "2025"
    assert time_context(START_MS, START_MS + 90 * DAY_MS) == "2025 to 2026"


def test_steps_of_a_flat_axis_are_finite() -> None:
    low, high = nice_bounds(5, 5.0000001, "", 6)
    assert math.isfinite(low)
    assert high > low


def test_a_narrow_logarithmic_axis_has_its_ends_marked():
    low, high = 1.0010010010010012e16, 1.0010010010010014e16
    assert [value for value, _ in log_ticks(low, high, "", 3)] == [low, high]
