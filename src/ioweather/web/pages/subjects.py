"""A page of exhibits for each subject, and above them what its topic has besides: advice on a transfer, projects."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Annotated

from fastapi import APIRouter, Query, Request

from ioweather.core.errors import IoweatherError, UsageError
from ioweather.core.units import NS, parse_size
from ioweather.web.parts import answer_part, kept
from ioweather.web.queries import last_ns
from ioweather.web.shell import Html, Place, page, part
from ioweather.web.topics import TOPICS, Topic, exhibits_of
from ioweather.web.visible import OwnView, PublicView, View
from ioweather.workflows.analyse import Availability, availability, catalogue_only

router = APIRouter(include_in_schema=False, default_response_class=Html)
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_QUICK = {"Last day": 1, "Last week": 7, "Last 30 days": 30, "Last year": 365}


def available(view: View) -> tuple[list[Availability], int | None, IoweatherError | None]:
    """What can be made, where the data end, and what is wrong."""

    def look() -> tuple[list[Availability], int | None, IoweatherError | None]:
        with view.lake.snapshot() as snapshot:
            return availability(snapshot), last_ns(snapshot), None

    if view.name not in view.facilities.lakes:
        return [], None, None
    try:
        return view.facilities.remembered(view.name, ("available", view.key), look)
    except IoweatherError as error:
        return catalogue_only(), None, error


def _subject_page(topic: Topic, view: View, request: Request) -> Html:
    found, end_ns, error = available(view)
    mine = {item.id: item for item in found if item.id in exhibits_of(topic)}
    query = request.query_params
    period = {name: query.get(name, "") for name in ("from", "to")}
    place = Place(view.facilities, view.name, f"/{topic.slug}")
    return page(
        "subject.html",
        view,
        place.path,
        topic.title,
        topic=topic,
        error=error,
        size=query.get("size", ""),
        op=query.get("op", ""),
        period=period,
        # A moment that came in an address stays as it was written; a date gets the browser's calendar.
        dates=[
            (name, label, period[name], "date" if _DATE.fullmatch(period[name] or "2026-01-01") else "text")
            for name, label in (("from", "From"), ("to", "Until"))
        ],
        quick=list(_quick(place, period, end_ns)),
        ready=[item for item in mine.values() if item.ready],
        missing=[item for item in mine.values() if not item.ready],
    )


def _quick(place: Place, period: dict[str, str], end_ns: int | None) -> Iterator[tuple[str, str, bool]]:
    """The stretches that people ask for most, counted back from where the data end."""
    starts = {"All": ""}
    if end_ns is not None:
        last = datetime.fromtimestamp((end_ns - 1) // NS, UTC).date()
        starts |= {name: str(last - timedelta(days=days - 1)) for name, days in _QUICK.items()}
    for name, start in starts.items():
        yield name, place.link(place.path, **{"from": start}), (start, "") == (period["from"], period["to"])


def _add_subject(topic: Topic) -> None:
    def endpoint(view: OwnView, request: Request) -> Html:
        return _subject_page(topic, view, request)

    router.add_api_route(f"/{topic.slug}", endpoint, methods=["GET"], name=topic.slug)


for _topic in TOPICS:
    _add_subject(_topic)


@router.get("/fragments/transfer")
def transfer(
    view: PublicView,
    size: Annotated[str, Query(max_length=40)] = "64GiB",
    op: Annotated[str, Query(pattern="^(read|write)$")] = "write",
) -> Html:
    """Over how many targets to stripe a file of this size, and how long moving it takes."""

    def make() -> str:
        try:
            amount = parse_size(size)
        except ValueError as error:
            raise UsageError(str(error), hint="Write a size as 64GiB or 1TB.") from None
        answers = [view.ask(name, {"size": str(amount), "op": op}) for name in ("stripe", "predict")]
        with view.facilities.drawing():
            sections = [answer_part(answer, second=True) for answer in answers]
        return part("answers.html", sections=sections, all_later=True)

    return kept(view, ("transfer", size, op), make)
