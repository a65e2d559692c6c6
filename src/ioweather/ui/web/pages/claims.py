"""*Claims*: what the five papers state of storage, each statement beside this site's value; contradictions first."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from fastapi import APIRouter

from ioweather.core.papers import PAPERS
from ioweather.core.papers.claims import claim_of
from ioweather.core.papers.claims import claims as every_claim
from ioweather.core.results import Answer
from ioweather.core.units import format_time_ns
from ioweather.ui.web.facilities import Tell
from ioweather.ui.web.parts import seldom
from ioweather.ui.web.ranges import period_for
from ioweather.ui.web.shell import Html, Listed, Place, page, part, tables_part
from ioweather.ui.web.visible import PublicView, View

router = APIRouter(include_in_schema=False, default_response_class=Html)
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
            tell(f"Testing the papers' statements: {number} of the {len(wanted)} exhibits behind them are made…")
            with suppress(Exception):  # its statements say why they are not judged
                view.exhibit(exhibit_id, {}, period)
        answer = view.ask("claims", {}, period)
        made = f"As of {format_time_ns(answer.provenance.made_ns)}; made again once an hour, when somebody looks."
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
