"""*Exhibits*: all of the five papers, and one of them with its parameters and downloads."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from markupsafe import Markup

from ioweather.core.errors import IoweatherError
from ioweather.core.papers import PAPERS, as_printed, exhibit_entry, published
from ioweather.core.results import Exhibit, quantity_label
from ioweather.core.units import format_value
from ioweather.topics.analyse import parameters_of
from ioweather.ui.charts import exhibit_section
from ioweather.ui.web.parts import failed
from ioweather.ui.web.requests import RESERVED, Between, StudyParams, period_of
from ioweather.ui.web.shared_answers import available
from ioweather.ui.web.shell import Html, page, part, problem
from ioweather.ui.web.statuses import status_of
from ioweather.ui.web.visible import OwnView, PublicView

router = APIRouter(include_in_schema=False, default_response_class=Html)
_MOST_PRINTED = 3


@router.get("/exhibits")
def exhibits_page(view: OwnView) -> Html:
    found, error = available(view)
    papers = [
        (paper, [(item, _printed(item.id)) for item in found if item.id.startswith(f"{paper.key}.")])
        for paper in PAPERS.values()
    ]
    ready = sum(item.ready for item in found)
    return page(
        "exhibits.html", view, "/exhibits", "Exhibits", error=error, ready_count=ready, total=len(found), papers=papers
    )


def _printed(exhibit_id: str) -> str:
    values = published(exhibit_id)
    more = f" and {len(values) - _MOST_PRINTED} more" if len(values) > _MOST_PRINTED else ""
    return "; ".join(f"{quantity_label(v.quantity, v.unit)} {as_printed(v)}" for v in values[:_MOST_PRINTED]) + more


@router.get("/exhibits/{exhibit_id}")
def exhibit_page(view: PublicView, request: Request, exhibit_id: str) -> Html:
    try:
        entry = exhibit_entry(exhibit_id)
    except IoweatherError as error:
        return page("base.html", view, "/exhibits", "No such exhibit", status=status_of(error), body=problem(error))
    query = {name: value for name, value in request.query_params.items() if value}
    address = f"/fragments/exhibits/{exhibit_id}?{urlencode({**query, 'heading': '1'})}"
    return page(
        "exhibit.html",
        view,
        "/exhibits",
        entry.title,
        entry=entry,
        paper=PAPERS[entry.paper],
        query=query,
        address=address,
        fields=_fields(exhibit_id),
    )


def _fields(exhibit_id: str) -> list[tuple[str, str, str]]:
    try:
        params = parameters_of(exhibit_id)
    except IoweatherError:
        return []
    chosen = "chosen from the data"
    return [
        ("from", "Only from this time on", ""),
        ("to", "Only before this time", ""),
        *((p.name, p.help, chosen if p.choose and p.default is None else format_value(p.default)) for p in params),
    ]


@router.get("/fragments/exhibits/{exhibit_id}")
def exhibit(view: OwnView, request: Request, exhibit_id: str, between: Between, params: StudyParams) -> Html:
    level = 1 if request.query_params.get("heading") == "1" else 2
    query = [
        (name, value)
        for name, value in request.query_params.items()
        if name not in ("format", "theme", "heading") and value
    ]

    def make() -> bytes:
        made = view.exhibit(exhibit_id, params, period_of(between, view.lake.facility))
        with view.facilities.drawing():
            section = Markup(exhibit_section(made, level, view.drawn()))
        return (section + _downloads(made, query)).encode()

    try:
        key = ("fragment", view.key, view.screen, exhibit_id, level, tuple(query))
        return Html(view.facilities.exhibit_answered(view.name, exhibit_id, key, make))
    except IoweatherError as error:
        return failed(error, exhibit_id if level == 1 else "")


def _downloads(made: Exhibit, query: Sequence[tuple[str, str]]) -> str:
    def address(**more: str) -> str:
        return f"/api/v1/exhibits/{made.id}?{urlencode([*query, *more.items()])}"

    links = [("JSON", address(format="json"), "json"), ("CSV", address(format="csv"), "csv")]
    if made.charts:
        links = [
            ("SVG", address(format="svg"), "svg"),
            ("PNG", address(format="png"), "png"),
            ("SVG dark", address(format="svg", theme="dark"), "svg"),
            *links,
        ]
    kept = [(name, value) for name, value in query if name not in RESERVED - {"lake", "from", "to"}]
    here = f"/exhibits/{made.id}" + (f"?{urlencode(kept)}" if kept else "")
    return part("downloads.html", id=made.id, links=links, here=here)
