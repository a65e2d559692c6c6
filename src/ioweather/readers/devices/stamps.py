"""Time stamps of sysstat and collectl: in the writer's locale, in ISO 8601, or in epoch seconds.

`%x %X` of the C locale is month/day/year. Other locales with slashes put the day first; the file itself tells, by a
field above 12 or by the first change of date, which is one day in the right reading and a month in the wrong one.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from zoneinfo import ZoneInfo

from ioweather.core.clock import local_to_ns, parse_time_ns
from ioweather.core.errors import CorruptInput, UndatedInput
from ioweather.readers.text_files import text_blocks

_LOCAL = re.compile(
    r"(\d{1,4})([/.-])(\d{1,2})\2(\d{1,4})[ T]+"
    r"(\d{1,2})[:.](\d{2})[:.](\d{2})(?:[.,](\d{1,9}))?(?:\s*([AaPp][Mm]))?(?:\s+[A-Z]{1,5})?"
)
_ABSOLUTE = re.compile(r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(?:[.,]\d{1,9})?\s*(?:Z|UTC|[+-]\d{2}:?\d{2})")
_SLASHED_DATE = re.compile(r"(\d{1,2})/(\d{1,2})/(\d{2}|\d{4})(?!\d)")
_SLASHED_STAMP = re.compile(r'(?:\n {0,40}|"timestamp"\s*:\s*")(\d{1,2}/\d{1,2}/\d{2,4}) ')
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_DATE_LINE = re.compile(
    rf"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) ({'|'.join(_MONTHS)}) {{1,2}}([0-9]{{1,2}}) ([0-9]{{2}}:[0-9]{{2}}:[0-9]{{2}})"
    r"(?: ([AP]M))? ([A-Z]{2,5}|[+-][0-9]{2,4}) ([0-9]{4})"
)
# Year, month, day, hour, minute and second as China, Japan and Korea write them.
_UNITS = str.maketrans(
    dict.fromkeys("年년月월", "-")
    | dict.fromkeys("日일", " ")
    | dict.fromkeys("時时시分분", ":")
    | dict.fromkeys("秒초", "")
)
_BLANK_BEHIND = re.compile(r"([-:]) ")
# The last moment of int64 nanoseconds is in the year 2262.
_END_OF_TIME_NS = 1 << 63


def is_stamp(text: str) -> bool:
    text = plain_stamp(text)
    return _LOCAL.fullmatch(text) is not None or _ABSOLUTE.fullmatch(text) is not None


def plain_stamp(text: str) -> str:
    """A stamp whose parts have units in the writer's language, '2026年11月15日 19時12分23秒', in numbers alone."""
    if text.isascii():
        return text
    return _BLANK_BEHIND.sub(r"\1", text.translate(_UNITS)).strip(" :")


def date_stamp(text: str) -> str | None:
    """Output of `date` in the C locale, 'Fri Apr 10 12:38:33 EDT 2020', as 2020-04-10 12:38:33; None for other text.
    Only UTC is kept: other short names of zones have several meanings."""
    match = _DATE_LINE.fullmatch(text)
    if match is None:
        return None
    month, day, time, half, zone, year = match.groups()
    utc = " UTC" if zone in ("UTC", "GMT") else ""
    return f"{year}-{_MONTHS.index(month) + 1:02d}-{int(day):02d} {time}{' ' + half if half else ''}{utc}"


def find_day_first(path: Path) -> bool:
    """Whether slashed dates in iostat's text or JSON have the day first; a file without any is not read further."""
    blocks = text_blocks(path)
    first = next(blocks, "")
    if not _SLASHED_STAMP.search("\n" + first):
        return False
    # A block ends behind a line end; the one put before it lets the pattern match at its start.
    return is_day_first(date for text in chain([first], blocks) for date in _SLASHED_STAMP.findall("\n" + text))


def is_day_first(dates: Iterable[str]) -> bool:
    """Whether slashed dates, in the order of the file, are day/month/year. Undecided is the C locale: no."""
    first: tuple[int, int, int] | None = None
    for text in dates:
        match = _SLASHED_DATE.match(text)
        if match is None:
            continue
        date = (int(match[1]), int(match[2]), _full_year(match[3]))
        if 0 in date:
            continue
        if date[0] > 12 or date[1] > 12:
            return date[0] > 12
        if first is None:
            first = date
        elif date != first:
            a_month, b_month = (dt.date(year, month, day) for month, day, year in (first, date))
            a_day, b_day = (dt.date(year, month, day) for day, month, year in (first, date))
            return abs(b_day - a_day) < abs(b_month - a_month)
    return False


def parse_date(text: str, *, day_first: bool = False) -> dt.date:
    """A date alone, as in the first line of iostat."""
    match = _LOCAL.fullmatch(f"{text} 00:00:00")
    if match is None:
        raise ValueError(text)
    return _date(match[1], match[2], match[3], match[4], day_first=day_first)


def _date(a: str, separator: str, b: str, c: str, *, day_first: bool) -> dt.date:
    if len(a) == 4:
        return dt.date(int(a), int(b), int(c))
    if separator == "/" and not day_first:
        return dt.date(_full_year(c), int(a), int(b))
    return dt.date(_full_year(c), int(b), int(a))


def _full_year(digits: str) -> int:
    if len(digits) > 2:
        return int(digits)
    return int(digits) + (1900 if int(digits) >= 70 else 2000)  # as strptime's %y


class StampReader:
    """Reads the stamps of one file in their order, which distinguishes the two passes of a doubled hour."""

    def __init__(self, where: str, zone: ZoneInfo | None, *, day_first: bool = False) -> None:
        self._where = where
        self._zone = zone
        self._day_first = day_first
        self._text = ""
        self._ns: int | None = None

    def restart(self) -> None:
        """Forget the order: the next stamp may be earlier."""
        self._text, self._ns = "", None

    def read(self, text: str, line: int) -> int:
        if text == self._text and self._ns is not None:
            return self._ns
        value = self._absolute(plain_stamp(text), line)
        if not 0 <= value < _END_OF_TIME_NS:
            raise CorruptInput(f"{self._where}, line {line}: {text!r} is not a time of this age.")
        self._ns, self._text = value, text
        return value

    def _absolute(self, text: str, line: int) -> int:
        try:
            if text.replace(".", "", 1).isdigit():
                return parse_time_ns("@" + text)
            if _ABSOLUTE.fullmatch(text):
                return parse_time_ns(text)
            naive, fraction_ns = self._naive(text)
            if self._zone is None:
                raise UndatedInput(f"{text!r} has no zone.", hint="Give --zone, or set `zone` in facility.toml.")
            return local_to_ns(naive, self._zone, after_ns=self._ns) + fraction_ns
        except UndatedInput as error:
            raise UndatedInput(f"{self._where}, line {line}: {error.message}", hint=error.hint) from None
        except (ValueError, OverflowError):
            raise CorruptInput(
                f"{self._where}, line {line}: {text!r} is not a time stamp.",
                hint="Write logs with S_TIME_FORMAT=ISO, which every reader understands.",
            ) from None

    def _naive(self, text: str) -> tuple[dt.datetime, int]:
        match = _LOCAL.fullmatch(text.rstrip())
        if match is None:
            raise ValueError(text)
        *date_parts, hour, minute, second, fraction, half = match.groups()
        date = _date(*date_parts, day_first=self._day_first)
        if half is not None:
            if not 1 <= int(hour) <= 12:
                raise ValueError(hour)
            hour = int(hour) % 12 + (12 if half.lower() == "pm" else 0)
        time = dt.time(int(hour), int(minute), int(second))
        return dt.datetime.combine(date, time), int((fraction or "").ljust(9, "0"))
