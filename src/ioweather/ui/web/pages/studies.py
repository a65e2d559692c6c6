"""The pages of exhibits: the gallery, one with its parameters, and the claims of the papers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse
from markupsafe import Markup

from ioweather.core.errors import IoweatherError
from ioweather.core.papers import PAPERS, exhibit_entry
from ioweather.core.papers.claim_tests import claim_of
from ioweather.core.results import Answer
from ioweather.core.units import format_time_ns, format_value
from ioweather.topics.analyse import parameters_of
from ioweather.ui.charts.page import exhibit_section
from ioweather.ui.web import shell
from ioweather.ui.web.queries import TOPICS, available, exhibits_of
from ioweather.ui.web.shell import Html, Listed, Place
from ioweather.ui.web.visible import (
    Between,
    OwnView,
    PublicView,
    StudyParams,
    View,
    period_for,
    period_of,
    status_of,
)

router = APIRouter(include_in_schema=False, default_response_class=Html)
_CARD_PX = 90
_CLAIM_MARKS = {
    "supported": "As in the paper",
    "refuted": "Differs from the paper",
    "undecided": "Too little data",
}
_MARKS_IN_WORDS = {"✓": "agree", "~": "weaker", "✗": "contradicted", "?": "undecided", "–": "not testable"}
# Columns of the table of claims, as they are and as they are headed.
_CLAIM_COLUMNS = {
    "text": "what the paper states",
    "mark": "here",
    "value": "value here",
    "interval": "90% interval",
    "paper": "in the paper",
    "criterion": "criterion",
    "place": "place",
}


@router.get("/exhibits/{exhibit_id}")
def exhibit_page(view: PublicView, request: Request, exhibit_id: str) -> Html:
    """One exhibit with a form for its period and parameters."""
    try:
        entry = exhibit_entry(exhibit_id)
    except IoweatherError as error:
        body = shell.problem(error)
        return shell.page("base.html", view, "/exhibits", "No such exhibit", status=status_of(error), body=body)
    query = {name: value for name, value in request.query_params.items() if value}
    address = f"/fragments/exhibits/{exhibit_id}?{urlencode({**query, 'heading': '1'})}"
    fields = [("from", "Start of the period", ""), ("to", "End of the period", "")]
    for p in parameters_of(exhibit_id):
        default = "chosen from the data" if p.choose and p.default is None else format_value(p.default)
        fields.append((p.name, p.help, default))
    shown: dict[str, Any] = {
        "entry": entry,
        "crumbs": [("Climate", Place(view).link("/climate")), (exhibit_id, "")],
        "query": query,
        "address": address,
        "fields": fields,
    }
    return shell.page("exhibit.html", view, "/exhibits", entry.title, **shown)


@router.get("/fragments/exhibits/{exhibit_id}")
@shell.cached_part("{exhibit_id}")
def exhibit(
    view: OwnView, exhibit_id: str, between: Between, params: StudyParams, heading: str = "", table: str = ""
) -> str:
    """One exhibit with links to its other forms; with `heading`, on a page of its own."""
    made = view.exhibit(exhibit_id, params, period_of(between, view.lake.facility))
    place = Place(view)

    def address(**more: str) -> str:
        return place.link(f"/api/v1/exhibits/{exhibit_id}", **params, table=table, **more)

    links = [(form.upper(), address(format=form), form) for form in ("json", "csv")]
    if made.charts:
        links = [(form.upper(), address(format=form), form) for form in ("svg", "png")] + links
    here = place.link(f"/exhibits/{made.id}", **params)
    downloads = shell.part("downloads.html", id=made.id, links=links, here=here)
    if heading == "1":
        return exhibit_section(made, 1, view.drawn(share=shell.MAIN_SHARE, less=shell.PANEL_PX), actions=downloads)
    return exhibit_section(made, 2, view.drawn(less=shell.PANEL_PX)) + downloads


@router.get("/claims")
def claims_page(view: PublicView) -> Html:
    place = Place(view, "/claims")
    part = (place.link("/fragments/claims"), "Testing the papers' statements…", "Claims")
    crumbs = [("Climate", place.link("/climate")), ("Claims", "")]
    return shell.parts_page(view, "/claims", "Claims", part, heading="Claims of the papers", crumbs=crumbs)


@router.get("/fragments/claims")
@shell.cached_part("Claims", hourly=True)
def claims(view: PublicView) -> str:
    """All statements of the papers with their results here, computed at most once an hour."""
    answer = view.ask("claims", {}, period_for(view))
    made = f"As of {format_time_ns(answer.provenance.made_ns)}; refreshed on access, at most once an hour."
    folds = [shell.fold(listed.table.title, listed.html) for listed in _claim_tables(view, answer)]
    notes = shell.tables_part(notes=[*answer.caveats, made])
    return Markup("<p>{}</p>").format(answer.headline) + Markup("").join(folds) + notes


def _claim_tables(view: View, answer: Answer) -> Iterator[Listed]:
    """A table for each paper, whose title counts the statements by how they stand here. A statement links to the
    exhibit that its value is from."""
    (table,) = answer.exhibits[0].tables
    place = Place(view, "/claims")
    names = [column.name for column in table.columns]
    places = [names.index(name) for name in _CLAIM_COLUMNS]
    exhibit_of = {row[names.index("text")]: claim_of(str(row[0])).exhibit for row in table.rows}
    links = {_CLAIM_COLUMNS["text"]: lambda row: place.link(f"/exhibits/{exhibit_of[row[0]]}")}
    for key, paper in PAPERS.items():
        rows = [tuple(row[n] for n in places) for row in table.rows if claim_of(str(row[0])).paper == key]
        marks = Counter(str(row[list(_CLAIM_COLUMNS).index("mark")]) for row in rows)
        counts = ", ".join(f"{marks[mark]} {words}" for mark, words in _MARKS_IN_WORDS.items() if marks[mark])
        columns = "; ".join(_CLAIM_COLUMNS.values())
        yield Listed.of(f"{key}, {paper.site}: {counts}", columns, rows, empty="No statement.", links=links)


@router.get("/climate")
def climate_page(view: OwnView) -> Html:
    """A gallery of exhibits by question."""
    found, error = available(view)
    known = {item.id: item for item in found}
    topics = []
    for topic in TOPICS:
        mine = [known[exhibit_id] for exhibit_id in exhibits_of(topic) if exhibit_id in known]
        topics.append((topic, [item for item in mine if item.ready], [item for item in mine if not item.ready]))
    ready = sum(item.ready for item in found)
    shown: dict[str, Any] = {"error": error, "topics": topics, "ready_count": ready, "total": len(found)}
    return shell.page("climate.html", view, "/climate", "Climate", **shown)


@router.get("/exhibits", response_model=None)
@router.get("/applications", response_model=None)
@router.get("/responses", response_model=None)
@router.get("/contents", response_model=None)
@router.get("/health", response_model=None)
def former_subject(view: OwnView, request: Request) -> RedirectResponse:
    """Redirect the former pages of exhibit groups; components are on the storage page."""
    slug = request.url.path.strip("/")
    place = Place(view, "")
    page = place.link("/storage" if slug == "health" else "/climate")
    return RedirectResponse(page if slug in ("health", "exhibits") else f"{page}#{slug}", 307)


@router.get("/fragments/cards/{exhibit_id}")
@shell.cached_part()
def card(view: OwnView, exhibit_id: str, between: Between) -> str:
    """A thumbnail of an exhibit, and its finding in one sentence."""
    made = view.exhibit(exhibit_id, {}, period_of(between, view.lake.facility))
    drawn = view.drawn(_CARD_PX, live=False)
    first = [replace(chart, title="", facet=None) for chart in made.charts[:1]]
    pictures = [shell.figure(chart, f"card-{made.id}", drawn) for chart in first]
    marks = [_CLAIM_MARKS[finding.kind] for finding in made.findings if finding.kind in _CLAIM_MARKS]
    said = next((finding.text for finding in made.findings), made.empty_because)
    entry = PAPERS[made.id.partition(".")[0]]
    return shell.part(
        "card.html",
        figure=pictures[0] if pictures else "",
        table=next((table for table in made.tables if table.rows), None),
        title=made.title,
        finding=said.partition(" (")[0].rstrip("."),
        paper=f"{entry.authors[0].split()[-1]} {entry.year} · {made.id.partition('.')[2]}",
        mark=marks[0] if marks else "",
    )
