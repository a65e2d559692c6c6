"""*Who*: which jobs and users slowed others in the period, and who does most I/O."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fastapi import APIRouter

from ioweather.core.outcomes import WhoOutcome
from ioweather.core.units import HOUR_NS
from ioweather.topics.analyse import Period
from ioweather.ui.web.parts import answer_part, behind, kept
from ioweather.ui.web.ranges import RANGE_NS, data_end_ns, period_for
from ioweather.ui.web.shell import Html, Listed, Place, headed, page, part, tables_part
from ioweather.ui.web.visible import OwnView, PublicView, View

router = APIRouter(include_in_schema=False, default_response_class=Html)
_MOST_ON_OVERVIEW = 4


@router.get("/who")
def who_page(view: PublicView) -> Html:
    parts = ((Place(view, "/who").link("/fragments/who"), "Looking who it was…", "Who it was"),)
    return page("entity.html", view, "/who", "Who", heading="", parts=parts, crumbs=[], default_ns=RANGE_NS)


@router.get("/fragments/who")
def who(view: OwnView) -> Html:
    def make() -> str:
        low, high = period_for(view, RANGE_NS)
        # With nothing chosen `who` is about the last hour; here all data are meant.
        answer = view.ask("who", {"by": "user"}, (low, min(high, (data_end_ns(view) or high - 1) + 1)))
        result = answer.result
        assert isinstance(result, WhoOutcome)
        said = answer_part(replace(answer, facts=(), exhibits=()), view.drawn(), folded=False)
        return part(
            "place_parts.html",
            up="",
            facts=said,
            charts=[],
            behind=behind(answer),
            tables=[_culprits(view, result), _talkers(view, result, "Who moved most", 50)],
        )

    return kept(view, "who", make, "Who")


@router.get("/fragments/busiest")
def busiest(view: OwnView, days: int = 0) -> Html:
    """For the overview: who moved most in the last hour of the period."""

    def make() -> str:
        result = view.ask("who", {"by": "user"}, last_hour(view)).result
        assert isinstance(result, WhoOutcome)
        title = "Who moved most in the last hour of this period"
        culprits = _culprits(view, result)
        tables = [culprits] if culprits.rows else []
        return tables_part(*tables, _talkers(view, result, title, _MOST_ON_OVERVIEW))

    return kept(view, "busiest", make)


def last_hour(view: View) -> Period:
    low, high = period_for(view, RANGE_NS)
    high = min(high, data_end_ns(view) or high)
    return max(low, high - HOUR_NS), high


def _culprits(view: View, result: WhoOutcome) -> Listed:
    place = Place(view, "/who")
    columns = headed("job; user; project; program; probability [ratio]; cost others [seconds]")
    rows = [
        (str(c.job_id or ""), c.user or "", c.project or "", c.program or "", c.probability, c.seconds)
        for c in result.culprits
    ]
    links = {
        "job": lambda row: place.to("jobs", row[0]),
        "user": lambda row: place.to("users", row[1]),
        "project": lambda row: place.to("projects", row[2]),
    }
    return Listed("Jobs that slowed others", columns, rows, links, "No job is named that slowed others.", "brief")


def _talkers(view: View, result: WhoOutcome, title: str, most: int) -> Listed:
    place = Place(view, "/who")
    columns = (("user", "text"), ("read", "bytes"), ("written", "bytes"), ("share", "ratio"), ("metadata", "count"))
    rows: list[tuple[Any, ...]] = [
        (t.user or "not known", t.read_bytes, t.write_bytes, t.bytes_ratio, round(t.metadata_operations))
        for t in result.talkers[:most]
    ]
    links = {"user": lambda row: place.to("users", row[0]) if row[0] != "not known" else ""}
    return Listed(title, columns, rows, links, f"{title}: no record of a job.", "brief")
