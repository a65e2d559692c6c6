"""File systems, servers and targets: what one of them did in the period, beside its peers; its events and its runs."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from urllib.parse import quote

from fastapi import APIRouter
from markupsafe import Markup

from ioweather.core.errors import DataUnavailable
from ioweather.core.outcomes import StorageOutcome
from ioweather.core.results import Exhibit
from ioweather.facts.run_targets import target_number
from ioweather.ui.charts import exhibit_section
from ioweather.ui.web.links import components_table, events_table
from ioweather.ui.web.parts import answer_part, behind, kept
from ioweather.ui.web.ranges import RANGE_NS, period_for
from ioweather.ui.web.shell import CHART_PX, Html, Place, page, part
from ioweather.ui.web.visible import OwnView, PublicView

router = APIRouter(include_in_schema=False, default_response_class=Html)


@router.get("/filesystems/{name}")
def filesystem_page(view: PublicView, name: str) -> Html:
    path = f"/filesystems/{quote(name, safe='')}"
    place = Place(view, path)
    parts = (
        (place.link("/fragments/storage", where=name), "Adding up the load…", "What it did"),
        (place.link("/fragments/runs", filesystem=name, order="slowest", days="1"), "Comparing runs…", "Runs"),
    )
    crumbs = [("Facility", place.link("/"))]
    return page("entity.html", view, path, name, heading="", parts=parts, default_ns=RANGE_NS, crumbs=crumbs)


@router.get("/components/{name}")
def component_page(view: PublicView, name: str) -> Html:
    path = f"/components/{quote(name, safe='')}"
    place = Place(view, path)
    parts = [(place.link("/fragments/storage", where=name), "Comparing with its peers…", "What it did")]
    if target_number(name) is not None:
        parts.append((place.link("/fragments/relief", target=name), "Looking for files to move…", "Files to move"))
    crumbs = [("Facility", place.link("/"))]
    return page("entity.html", view, path, name, heading="", parts=parts, default_ns=RANGE_NS, crumbs=crumbs)


@router.get("/fragments/relief")
def relief(view: OwnView, target: str) -> Html:
    """Files to move off a target: by load, and by space where the lake has a list of files with their targets."""

    def make() -> str:
        answers = [view.ask("relieve", {"target": target, "by": "load"}, period_for(view, RANGE_NS))]
        with suppress(DataUnavailable):
            answers.append(view.ask("relieve", {"target": target, "by": "space"}))
        return part(
            "answers.html", sections=[answer_part(a, view.drawn(), second=True) for a in answers], all_later=True
        )

    return kept(view, ("relief", target), make, "Files to move")


def _height(exhibit: Exhibit) -> int:
    """A line per target is wanted where targets are the rows."""
    chart = exhibit.charts[0]
    rows = len(set(chart.table.column("component"))) if chart.kind == "heatmap" else 0
    return min(max(CHART_PX, 12 * rows), 4 * CHART_PX)


@router.get("/fragments/storage")
def storage(view: PublicView, where: str) -> Html:
    def make() -> str:
        answer = view.ask("storage", {"where": where}, period_for(view, RANGE_NS))
        result = answer.result
        assert isinstance(result, StorageOutcome)
        place = Place(view, "")
        tables = [events_table(place, result.events, "Events in this period")]
        tables += [components_table(place, result.components)] if result.components else []
        up = Markup("")
        if result.kind not in ("facility", "filesystem"):
            up = Markup('<p>Part of <a href="{}">{}</a></p>').format(
                place.to("filesystems", result.filesystem), result.filesystem
            )
        facts = answer_part(replace(answer, exhibits=()), view.drawn(), folded=False)
        with view.facilities.drawing():
            charts = [exhibit_section(e, 3, view.drawn(_height(e))) for e in answer.exhibits if e.charts]
        drawn = [Markup(chart) for chart in charts]
        return part("place_parts.html", up=up, facts=facts, charts=drawn, tables=tables, behind=behind(answer))

    return kept(view, ("storage", where), make, where)
