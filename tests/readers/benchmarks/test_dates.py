"""Dates as benchmarks print them."""

from __future__ import annotations

import datetime as dt

import pytest

from ioweather.readers.benchmarks import find_date


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
