"""Dates as benchmarks print them."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from ioweather.core.clock import parse_time_ns
from ioweather.core.errors import UndatedInput
from ioweather.readers.benchmark_phases import LocalTimes, find_date


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Began               : Sun Nov 15 07:04:39 2026", dt.datetime(2026, 11, 15, 7, 4, 39)),
        ("Tue Feb  8 23:10:58 2011", dt.datetime(2011, 2, 8, 23, 10, 58)),
        ("11/15/2026 07:04:40", dt.datetime(2026, 11, 15, 7, 4, 40)),
        ("2024-05-03 09:25:48", dt.datetime(2024, 5, 3, 9, 25, 48)),
        ("no date", None),
        ("", None),
        ("Sun Xyz 15 07:04:39 2026", None),
        ("02/30/2026 07:04:40", None),
        ("2024-05-03 09:99:48", None),
        ("9024-05-03 09:09:48", None),
    ],
)
def test_find_date(text: str, expected: dt.datetime | None) -> None:
    assert find_date(text) == expected


def test_equal_dates_in_the_doubled_hour_stay_equal() -> None:
    times = LocalTimes(Path("x"), ZoneInfo("Europe/Berlin"))
    before = times.ns("2026-10-25 01:59:59")
    first, again, later = (times.ns("2026-10-25 02:30:00") for _ in range(3))
    assert before == parse_time_ns("2026-10-24T23:59:59Z")
    assert first == again == later == parse_time_ns("2026-10-25T00:30:00Z")
    # Earlier on the clock than the one before: the hour has begun again.
    assert times.ns("2026-10-25 02:10:00") == parse_time_ns("2026-10-25T01:10:00Z")


def test_no_zone_no_time() -> None:
    assert LocalTimes(Path("x"), None).ns("nothing here") is None
    with pytest.raises(UndatedInput, match=r"out\.txt gives local times \(2026-11-15 07:04:40\)"):
        LocalTimes(Path("out.txt"), None).ns("11/15/2026 07:04:40")


def test_a_time_that_does_not_exist_is_refused_with_the_file_named() -> None:
    with pytest.raises(UndatedInput, match=r"out\.txt: .* does not exist"):
        LocalTimes(Path("out.txt"), ZoneInfo("Europe/Berlin")).ns("2026-03-29 02:30:00")
