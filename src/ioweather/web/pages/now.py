"""*Now*: how slow storage is, what happened lately, what is expected."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from ioweather.core.errors import IoweatherError
from ioweather.core.results import Answer
from ioweather.web.facilities import MAIN
from ioweather.web.parts import answer_part, failed, kept
from ioweather.web.requests import Between, period_of
from ioweather.web.shell import Html, Listed, page, problem, tables_part
from ioweather.web.visible import PublicView

router = APIRouter(include_in_schema=False, default_response_class=Html)
_LATEST_EVENTS = 10
_MOST_EVENTS = 100


@router.get("/")
def now_page(view: PublicView) -> Html:
    live = "/api/v1/now/stream" if view.name == MAIN else ""
    return page("now.html", view, "/", "Now", live=live, most=str(_LATEST_EVENTS))


@router.get("/fragments/now")
def now(view: PublicView) -> Html:
    try:
        return Html(view.facilities.now_as(view.name, "html", _now_part))
    except IoweatherError as error:
        return Html(problem(error, "How slow storage is now"))


def _now_part(answer: Answer, wrong: bool) -> bytes:
    return f'<div class="{"wrong" if wrong else "fine"}">{answer_part(answer)}</div>'.encode()


@router.get("/fragments/events")
def events(
    view: PublicView,
    between: Between,
    kind: str | None = None,
    most: Annotated[int, Query(ge=1, le=_MOST_EVENTS)] = _MOST_EVENTS,
) -> Html:
    try:
        found = view.events(kind or None, period_of(between, view.lake.facility))
    except IoweatherError as error:
        return failed(error)
    columns = (("from", "time_ns"), ("to", "time_ns"), ("kind", "text"), ("where", "text"), ("what", "text"),
               ("strength", "factor"))  # fmt: skip
    rows = [
        (e.start_ns, e.end_ns, e.kind, e.filesystem.removeprefix("mount:"), e.label, e.strength_ratio)
        for e in found[:most]
    ]
    notes = [f"{len(found) - most:,} older ones are not shown."] if len(found) > most else []
    return Html(tables_part(Listed("Events", columns, rows, empty="No events recorded."), notes=notes))


@router.get("/fragments/forecast")
def forecast(view: PublicView) -> Html:
    def make() -> str:
        answer = view.ask("forecast", {})
        with view.facilities.drawing():
            return answer_part(answer, second=True)

    return kept(view, "forecast", make)
