"""Time stamps in every dress that sysstat and collectl give them."""

from __future__ import annotations

import datetime as dt
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest

from ioweather.core.errors import CorruptInput
from ioweather.readers.device_rows import StampReader, is_day_first

BERLIN = ZoneInfo("Europe/Berlin")
UTC = ZoneInfo("UTC")


def utc_ns(*parts: int) -> int:
    return int(dt.datetime(*parts, tzinfo=dt.UTC).timestamp()) * 10**9  # type: ignore[misc,arg-type]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("11/15/26 06:32:16", (2026, 11, 15, 6, 32, 16)),
        ("06/13/2020 02:15:01 PM", (2020, 6, 13, 14, 15, 1)),
        ("06/13/2020 12:15:01 AM", (2020, 6, 13, 0, 15, 1)),
        ("06/13/2020 12:15:01 PM", (2020, 6, 13, 12, 15, 1)),
        ("13.06.2020 14:15:01", (2020, 6, 13, 14, 15, 1)),
        ("05.06.2020 14:15:01", (2020, 6, 5, 14, 15, 1)),
        ("05-06-20 14.15.01", (2020, 6, 5, 14, 15, 1)),
        ("2020-06-05 14:15:01", (2020, 6, 5, 14, 15, 1)),
        ("2020/06/05 14:15:01", (2020, 6, 5, 14, 15, 1)),
        ("2026-11-15T06:32:16+0000", (2026, 11, 15, 6, 32, 16)),
        ("2026-11-15T06:32:16+0130", (2026, 11, 15, 5, 2, 16)),
        ("2026-11-15 06:32:17 UTC", (2026, 11, 15, 6, 32, 17)),
        ("1794724337", (2026, 11, 15, 6, 32, 17)),
    ],
)
def test_a_stamp_is_read(text: str, expected: tuple[int, ...]) -> None:
    assert StampReader("f", UTC).read(text, 1) == utc_ns(*expected)


@pytest.mark.parametrize(
    "text", ["13/13/26 06:00:00", "02/30/26 06:00:00", "11/15/26 25:00:00", "soon", "13:00:00 PM", "9" * 30, "11/15/26"]
)
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(CorruptInput, match="line 5"):
        StampReader("f", UTC).read(text, 5)


def test_autumn_hours_are_told_apart_by_order() -> None:
    reader = StampReader("f", BERLIN)
    stamps = [f"10/25/26 {time}:00" for time in ("01:30", "02:00", "02:30", "02:00", "02:30", "03:00")]
    read = [reader.read(stamp, 1) for stamp in stamps]
    assert [b - a for a, b in pairwise(read)] == [1800 * 10**9] * 5
    assert read[0] == utc_ns(2026, 10, 24, 23, 30)


@pytest.mark.parametrize(
    ("dates", "expected"),
    [
        (["05/06/26"], False),  # undecided: the C locale
        (["05/06/26", "05/07/26"], False),
        (["05/06/26", "06/06/26"], True),
        (["12/06/26", "13/06/26"], True),
        (["06/12/26", "06/13/26"], False),
        (["31/12/26"], True),
        (["12/31/26", "01/01/27"], False),
        (["30/06/26", "01/07/26"], True),
        (["00/06/26", "2026-06-05", ""], False),
        ([], False),
    ],
)
def test_the_file_tells_day_from_month(dates: list[str], expected: bool) -> None:
    assert is_day_first(dates) is expected
