"""*Events*: what happened in the period; one event with what the system did and who ran meanwhile."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Query
from markupsafe import Markup

from ioweather.core.errors import DataUnavailable, IoweatherError
from ioweather.core.outcomes import TROUBLES, EventOutcome, RunsOutcome
from ioweather.core.results import Reference
from ioweather.core.units import DAY_NS
from ioweather.topics.analyse import ALL_TIME
from ioweather.ui.charts import exhibit_section
from ioweather.ui.web.links import around_ns, events_table, runs_table, where_address
from ioweather.ui.web.parts import failed, kept
from ioweather.ui.web.ranges import period_for
from ioweather.ui.web.shell import CHART_PX, Html, Place, page, part, problem, tables_part
from ioweather.ui.web.statuses import status_of
from ioweather.ui.web.visible import OwnView, PublicView, View

router = APIRouter(include_in_schema=False, default_response_class=Html)
_MOST_EVENTS = 200
_MOST_RUNS = 20


@router.get("/events")
def events_page(view: PublicView, kind: str = "") -> Html:
    place = Place(view, "/events")
    parts = ((place.link("/fragments/events", kind=kind), "Looking for events…", "Events"),)
    return page("entity.html", view, "/events", "Events", heading="Events", parts=parts, crumbs=[])


@router.get("/fragments/events")
def events(
    view: PublicView,
    kind: str | None = None,
    most: Annotated[int, Query(ge=1, le=_MOST_EVENTS)] = _MOST_EVENTS,
    days: Annotated[int, Query(ge=0, le=36500)] = 0,
    troubles: bool = False,
) -> Html:
    """`days`: of the newest, where the page has no range. `troubles`: only what was wrong."""
    try:
        found = view.events(kind or None, period_for(view, days * DAY_NS or None))
        found = [event for event in found if event.kind in TROUBLES] if troubles else found
    except IoweatherError as error:
        return failed(error)
    notes = [f"{len(found) - most:,} older ones are not shown."] if len(found) > most else []
    title = "Troubles" if troubles else f"{min(most, len(found)):,} of {len(found):,} events, the newest first"
    return Html(tables_part(events_table(Place(view, ""), found[:most], title, brief=most < _MOST_EVENTS), notes=notes))


@router.get("/events/{event_id}")
def event_page(view: PublicView, event_id: str) -> Html:
    try:
        event = _event(view, event_id)
    except IoweatherError as error:
        return page("base.html", view, "/events", "No such event", status=status_of(error), body=problem(error))
    path = f"/events/{event_id}"
    if view.between == ("", ""):
        around = around_ns(event.start_ns, event.end_ns)
        view = replace(view, between=(around["from"], around["to"]))
    place = Place(view, path)
    parts = (
        (place.link(f"/fragments/events/{event_id}"), "Looking what the system did…", "What the system did"),
        (place.link(f"/fragments/events/{event_id}/runs"), "Looking who ran…", "Runs meanwhile"),
    )
    crumbs = [("Facility", place.link("/")), ("Events", place.link("/events"))]
    where = event.component or event.filesystem.removeprefix("mount:")
    crumbs += [(where, where_address(place, event))] if where_address(place, event) else []
    return page("entity.html", view, path, event.label, heading=event.label, parts=parts, crumbs=crumbs)


def _event(view: View, event_id: str) -> EventOutcome:
    found = next((e for e in view.events(None, ALL_TIME) if e.event_id == event_id), None)
    if found is None:
        raise DataUnavailable("There is no such event.", hint="It may have been found again with other bounds.")
    return found


@router.get("/fragments/events/{event_id}")
def event(view: PublicView, event_id: str) -> Html:
    def make() -> str:
        found = _event(view, event_id)
        where = found.component or found.filesystem.removeprefix("mount:").split(" ")[0]
        try:
            answer = view.ask("storage", {"where": where or None}, period_for(view))
        except DataUnavailable:
            answer = view.ask("storage", {}, period_for(view))
        span = Reference("x", found.start_ns, "this event", found.end_ns or period_for(view)[1])
        exhibits = [
            replace(e, charts=tuple(replace(c, references=(span,)) for c in e.charts))
            for e in answer.exhibits
            if e.charts and e.charts[0].kind == "timeline"
        ]
        with view.facilities.drawing():
            charts = [Markup(exhibit_section(e, 2, view.drawn(CHART_PX))) for e in exhibits]
        tables = [events_table(Place(view, ""), [found], "This event", brief=True)]
        return part("place_parts.html", up="", facts=tables_part(*tables), charts=charts, tables=[], behind="")

    return kept(view, ("event", event_id), make)


@router.get("/fragments/events/{event_id}/runs")
def event_runs(view: OwnView, event_id: str) -> Html:
    def make() -> str:
        found = _event(view, event_id)
        period = (found.start_ns, found.end_ns or period_for(view)[1])
        result = view.ask("runs", {"order": "slowest", "most": _MOST_RUNS}, period).result
        assert isinstance(result, RunsOutcome)
        title = f"Slowest of {result.count:,} runs meanwhile"
        return tables_part(runs_table(Place(view, ""), result.runs, title))

    return kept(view, ("event runs", event_id), make)
