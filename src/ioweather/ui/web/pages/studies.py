"""The pages of exhibits: the list, one with its parameters, those of a subject, and the claims of the papers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request
from fastapi.responses import RedirectResponse
from markupsafe import Markup

from ioweather.core.errors import IoweatherError, UsageError
from ioweather.core.papers import PAPERS, as_printed, exhibit_entry, published
from ioweather.core.papers.claims import claim_of
from ioweather.core.papers.claims import claims as every_claim
from ioweather.core.results import Answer, Exhibit, quantity_label
from ioweather.core.units import format_time_ns, format_value, parse_size
from ioweather.topics.analyse import parameters_of
from ioweather.ui.charts import exhibit_section
from ioweather.ui.web.facilities import Tell
from ioweather.ui.web.queries import available
from ioweather.ui.web.requests import (
    RESERVED,
    TOPICS,
    Between,
    StudyParams,
    exhibits_of,
    period_for,
    period_of,
    status_of,
)
from ioweather.ui.web.shell import (
    Html,
    Listed,
    Place,
    answer_part,
    cached_part,
    failed,
    figure,
    page,
    part,
    problem,
    seldom,
    tables_part,
)
from ioweather.ui.web.visible import OwnView, PublicView, View

router = APIRouter(include_in_schema=False, default_response_class=Html)
_MOST_PRINTED = 3
_PANEL_PX = 40


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
            section = Markup(exhibit_section(made, level, view.drawn(less=_PANEL_PX)))
        return (section + _downloads(made, query)).encode()

    try:
        key = ("fragment", view.key, view.screen, view.width, exhibit_id, level, tuple(query))
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


_SHOWN = ("text", "mark", "value", "interval", "paper", "criterion", "place")
_HEADINGS = ("what the paper states", "here", "value here", "90% interval", "in the paper", "criterion", "place")


@router.get("/claims")
def claims_page(view: PublicView) -> Html:
    place = Place(view, "/claims")
    parts = ((place.link("/fragments/claims"), "Testing the papers' statements…", "Claims"),)
    crumbs = [("Exhibits", place.link("/exhibits"))]
    return page("entity.html", view, "/claims", "Claims", heading="Claims of the papers", parts=parts, crumbs=crumbs)


@router.get("/fragments/claims")
def claims(view: PublicView) -> Html:
    def make(tell: Tell) -> str:
        period = period_for(view)
        wanted = sorted({claim.exhibit for claim in every_claim()})
        for number, exhibit_id in enumerate(wanted):
            tell(f"Checking the papers' claims: {number} of {len(wanted)} exhibits done…")
            with suppress(Exception):  # its statements say why they are not judged
                view.exhibit(exhibit_id, {}, period)
        answer = view.ask("claims", {}, period)
        made = f"As of {format_time_ns(answer.provenance.made_ns)}; refreshed on access, at most once an hour."
        return part("claims.html", headline=answer.headline) + tables_part(
            *_tables(view, answer), notes=[*answer.caveats, made]
        )

    return seldom(view, "claims", make)


def _tables(view: View, answer: Answer) -> Iterator[Listed]:
    """One of each paper. The statement links to the exhibit that its value is from."""
    (table,) = answer.exhibits[0].tables
    place = Place(view, "/claims")
    names = [column.name for column in table.columns]
    kept_places = [names.index(name) for name in _SHOWN]
    for key, paper in PAPERS.items():
        mine = [row for row in table.rows if claim_of(str(row[0])).paper == key]
        address = {row[1]: place.link(f"/exhibits/{claim_of(str(row[0])).exhibit}") for row in mine}

        def exhibit(row: Any, address: dict[Any, str] = address) -> str:
            return address[row[0]]

        yield Listed(
            f"{key}: {paper.site}",
            tuple((heading, "text") for heading in _HEADINGS),
            [tuple(row[n] for n in kept_places) for row in mine],
            {_HEADINGS[0]: exhibit},
            "No statement.",
            "brief",
        )


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
    return page(
        "climate.html", view, "/climate", "Climate", error=error, topics=topics, ready_count=ready, total=len(found)
    )


@router.get("/applications", response_model=None)
@router.get("/responses", response_model=None)
@router.get("/contents", response_model=None)
@router.get("/health", response_model=None)
def former_subject(view: OwnView, request: Request) -> RedirectResponse:
    """Groups of exhibits had pages of their own; components are on the page of storage."""
    slug = request.url.path.strip("/")
    place = Place(view, "")
    return RedirectResponse(place.link("/storage") if slug == "health" else f"{place.link('/climate')}#{slug}", 307)


_CLAIM_MARKS = {
    "supported": "As in the paper",
    "refuted": "Differs from the paper",
    "undecided": "Too little data to tell",
}
_CARD_PX = 90


@router.get("/fragments/cards/{exhibit_id}")
def card(view: OwnView, request: Request, exhibit_id: str, between: Between) -> Html:
    """A thumbnail of an exhibit, and its finding in one sentence."""

    def make() -> bytes:
        made = view.exhibit(exhibit_id, {}, period_of(between, view.lake.facility))
        drawn = view.drawn(_CARD_PX, live=False)
        with view.facilities.drawing():
            pictures = [
                figure(replace(chart, title="", facet=None), f"card-{made.id}", drawn) for chart in made.charts[:1]
            ]
        marks = [_CLAIM_MARKS[finding.kind] for finding in made.findings if finding.kind in _CLAIM_MARKS]
        said = next((finding.text for finding in made.findings), made.empty_because)
        entry = PAPERS[made.id.partition(".")[0]]
        paper = f"{entry.authors[0].split()[-1]} {entry.year} · {made.id.partition('.')[2]}"
        return part(
            "card.html",
            figure=pictures[0] if pictures else "",
            title=made.title,
            finding=said.partition(" (")[0].rstrip("."),
            paper=paper,
            mark=marks[0] if marks else "",
        ).encode()

    try:
        key = ("card", view.key, view.width, exhibit_id, tuple(request.query_params.items()))
        return Html(view.facilities.exhibit_answered(view.name, exhibit_id, key, make))
    except IoweatherError as error:
        return failed(error)


@router.get("/fragments/transfer")
@cached_part()
def transfer(
    view: PublicView,
    size: Annotated[str, Query(max_length=40)] = "64GiB",
    op: Annotated[str, Query(pattern="^(read|write)$")] = "write",
) -> str:
    """Over how many targets to stripe a file of this size, and how long moving it takes."""

    try:
        amount = parse_size(size)
    except ValueError as error:
        raise UsageError(str(error), hint="Write a size as 64GiB or 1TB.") from None
    answers = [view.ask(name, {"size": str(amount), "op": op}) for name in ("stripe", "predict")]
    with view.facilities.drawing():
        sections = [answer_part(answer, view.drawn(), second=True) for answer in answers]
    return part("answers.html", sections=sections, all_later=True)
