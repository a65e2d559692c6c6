"""The dates benchmarks print: local time of the machine they ran on, without a zone, to the second."""

from __future__ import annotations

import datetime as dt
import re
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo

from ioweather.core.clock import local_to_ns
from ioweather.core.errors import UndatedInput

_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
# asctime(3), '11/15/2026 07:04:40' and '2024-05-03 09:25:48'. Not strptime: its month names follow the reader's locale.
_ASCTIME: Final = re.compile(r"[A-Z][a-z]{2} ([A-Z][a-z]{2}) +(\d{1,2}) (\d{1,2}):(\d{2}):(\d{2}) (\d{4})")
_AMERICAN: Final = re.compile(r"(\d{2})/(\d{2})/(\d{4}) (\d{1,2}):(\d{2}):(\d{2})")
_ISO: Final = re.compile(r"(\d{4})-(\d{2})-(\d{2})[ T](\d{1,2}):(\d{2}):(\d{2})")


def find_date(text: str) -> dt.datetime | None:
    """The first date in a line; None where there is none, or one that no calendar has."""
    try:
        if match := _ASCTIME.search(text):
            month, day, hour, minute, second, year = match.groups()
            date = dt.date(int(year), _MONTHS.index(month) + 1, int(day))
        elif match := _AMERICAN.search(text):
            month, day, year, hour, minute, second = match.groups()
            date = dt.date(int(year), int(month), int(day))
        elif match := _ISO.search(text):
            year, month, day, hour, minute, second = match.groups()
            date = dt.date(int(year), int(month), int(day))
        else:
            return None
        moment = dt.datetime.combine(date, dt.time(int(hour), int(minute), int(second)))
    except ValueError:
        return None
    return moment if 1970 < moment.year < 2262 else None  # the range of nanoseconds in 64 bits


class LocalTimes:
    """Turns the dates of one output, in their order, into UTC. The order settles the doubled hour of autumn."""

    def __init__(self, path: Path, zone: ZoneInfo | None) -> None:
        self._path = path
        self._zone = zone
        self._last_ns: int | None = None

    def ns(self, text: str) -> int | None:
        """The date in a line; None where it has none."""
        naive = find_date(text)
        if naive is None:
            return None
        if self._zone is None:
            raise UndatedInput(
                f"{self._path} gives local times ({naive}) and does not say in which zone.",
                hint="Give --zone, or set `zone` in facility.toml.",
            )
        # Two lines may carry the same second, so the moment before the last one is what the next must follow.
        after_ns = None if self._last_ns is None else self._last_ns - 1
        try:
            self._last_ns = local_to_ns(naive, self._zone, after_ns=after_ns)
        except UndatedInput as error:
            raise UndatedInput(f"{self._path}: {error.message}", hint=error.hint) from None
        return self._last_ns
