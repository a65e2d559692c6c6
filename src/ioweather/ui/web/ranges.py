"""The one time range of a page: in its address, carried by all its links, with presets counted back from where the data
end, so that "the last week" is one with data in it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Final

from ioweather.core.errors import IoweatherError
from ioweather.core.units import DAY_NS, HOUR_NS, MINUTE_NS, format_time_ns
from ioweather.topics.analyse import ALL_TIME, Period
from ioweather.ui.web.queries import TIMED_TABLES, last_ns
from ioweather.ui.web.requests import period_of

if TYPE_CHECKING:
    from ioweather.ui.web.visible import View

RANGE_NS: Final = DAY_NS  # of a page where nothing was chosen
PRESETS: Final = {
    "Last hour": HOUR_NS,
    "Last 6 hours": 6 * HOUR_NS,
    "Last day": DAY_NS,
    "Last week": 7 * DAY_NS,
    "Last 30 days": 30 * DAY_NS,
    "Last year": 365 * DAY_NS,
}


def data_end_ns(view: View) -> int | None:
    def look(table: str) -> int | None:
        with view.lake.snapshot() as snapshot:
            return last_ns(snapshot, table)

    try:
        ends = [
            view.facilities.answered(view.name, ("end", table, view.key), partial(look, table), (table,), queued=False)
            for table in TIMED_TABLES
        ]
    except IoweatherError:
        return None
    return max((end for end in ends if end is not None), default=None)


def period_for(view: View, default_ns: int | None = None) -> Period:
    """What the address says, else the last `default_ns` of the data, else all of it."""
    if view.between != ("", ""):
        return period_of(view.between, view.lake.facility)
    end = data_end_ns(view) if default_ns else None
    return ALL_TIME if end is None or default_ns is None else (_start_ns(end, default_ns), ALL_TIME[1])


def presets(view: View, default_ns: int | None) -> Iterator[tuple[str, str, bool]]:
    """Name, start as the address has it, and whether it is the one that is shown."""
    end = data_end_ns(view)
    for name, length in PRESETS.items() if end is not None else ():
        start = _text(_start_ns(end, length)) if end is not None else ""
        yield name, start, view.between == (start, "") or (view.between == ("", "") and default_ns == length)
    first = "@0"
    yield "All", first, view.between == (first, "") or (view.between == ("", "") and default_ns is None)


def _start_ns(end_ns: int, length_ns: int) -> int:
    unit = DAY_NS if length_ns > DAY_NS else MINUTE_NS
    return (end_ns - length_ns) // unit * unit


def _text(moment_ns: int) -> str:
    text = format_time_ns(moment_ns)
    return f"{text[:10]}T{text[11:16]}Z" if moment_ns % DAY_NS else text[:10]
