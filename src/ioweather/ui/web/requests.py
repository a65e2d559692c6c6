"""A request in the types of this package: its period, the parameters of a study, the page of exhibits; and the status
of each error."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final

from fastapi import Depends, Query, Request
from pydantic import BaseModel

from ioweather.core.clock import parse_moment_ns, zone_named
from ioweather.core.errors import (
    AccessDenied,
    Busy,
    DataUnavailable,
    FacilityError,
    IoweatherError,
    LakeError,
    QueryRefused,
    SlowSender,
    SourceError,
    UsageError,
)
from ioweather.core.facility import Facility
from ioweather.core.papers import exhibit_entry, exhibits
from ioweather.core.units import DAY_NS, HOUR_NS, MINUTE_NS, format_time_ns
from ioweather.topics.analyse import ALL_TIME, Period
from ioweather.ui.web.queries import TIMED_TABLES, last_ns

if TYPE_CHECKING:
    from ioweather.ui.web.visible import View

# Names in a query that are not parameters of a study.
RESERVED: Final = frozenset({"lake", "format", "theme", "from", "to", "table", "heading"})
PeriodText = tuple[str, str]
_TIME: Final = "ISO 8601, or @EPOCH; in the facility's zone where it names none."


# async: a dependency without `async` would cost a trip to a thread.
async def study_params(request: Request) -> dict[str, str]:
    """An empty field of a form means: choose for me."""
    return {name: value for name, value in request.query_params.items() if name not in RESERVED and value.strip()}


async def period_text(
    from_: Annotated[str, Query(alias="from", description=f"Only from this time on. {_TIME}", max_length=100)] = "",
    to: Annotated[str, Query(description=f"Only before this time. {_TIME}", max_length=100)] = "",
) -> PeriodText:
    return from_.strip(), to.strip()


def period_of(texts: PeriodText, facility: Facility) -> Period:
    if texts == ("", ""):
        return ALL_TIME
    zone = zone_named(facility.zone or "UTC")
    ends = []
    for name, text, default in zip(("from", "to"), texts, ALL_TIME, strict=True):
        try:
            ends.append(parse_moment_ns(text, zone) if text else default)
        except (ValueError, OverflowError, IoweatherError) as error:
            raise UsageError(f"{name}: {error}") from None
    if ends[0] >= ends[1]:
        raise UsageError("The period ends before it begins.")
    return ends[0], ends[1]


StudyParams = Annotated[dict[str, str], Depends(study_params)]
Between = Annotated[PeriodText, Depends(period_text)]


# The first class that fits.
STATUS: Final[tuple[tuple[type[IoweatherError], int], ...]] = (
    (DataUnavailable, 404),
    (SourceError, 422),
    (QueryRefused, 400),
    (UsageError, 400),
    (AccessDenied, 403),
    (SlowSender, 408),
    (Busy, 503),
    (LakeError, 503),
    (FacilityError, 503),
    (IoweatherError, 500),
)


class ErrorText(BaseModel):
    kind: str
    message: str
    hint: str


class ErrorBody(BaseModel):
    error: ErrorText


_MEANINGS: Final = {
    400: "The request is invalid or was refused.",
    401: "A token is needed.",
    403: "You do not have access to this.",
    404: "The data does not exist or is not sufficient.",
    408: "The request came too slowly.",
    413: "The body is too large.",
    422: "The file cannot be read.",
    503: "The lake cannot be opened, or there are too many requests.",
}


def may_answer(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """For the description of an endpoint."""
    return {status: {"model": ErrorBody, "description": _MEANINGS[status]} for status in statuses}


def status_of(error: IoweatherError) -> int:
    if error.kind == "TokenRefused":
        return 401
    return next(status for kind, status in STATUS if isinstance(error, kind))


@dataclass(frozen=True)
class Topic:
    """A question that a group of exhibits answers. `last` come after the others: checks of the method itself."""

    slug: str
    title: str
    lead: str
    last: tuple[str, ...] = ()


TOPICS: Final = (
    Topic("climate", "How busy, and when?", "volume, bursts, hours and days, phases, balance"),
    Topic("applications", "What do jobs do?", "interfaces, files, request sizes, projects", last=("car11.table1",)),
    Topic("responses", "How variable are response times?", "distributions, tails, slow episodes"),
    Topic("contents", "What is on disk?", "sizes, ages, growth"),
    Topic("health", "How healthy are servers and targets?", "load of servers, slow targets, episodes"),
)


def topic_of(exhibit_id: str) -> Topic:
    page = exhibit_entry(exhibit_id).page
    return next(topic for topic in TOPICS if topic.slug == page)


def exhibits_of(topic: Topic) -> tuple[str, ...]:
    """The exhibits of a page, in the order of their papers."""
    found = [entry.id for entry in exhibits() if entry.page == topic.slug]
    return tuple(sorted(found, key=lambda exhibit_id: exhibit_id in topic.last))


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
    text = format_time_ns(moment_ns, dt.UTC)
    return f"{text[:10]}T{text[11:16]}Z" if moment_ns % DAY_NS else text[:10]
