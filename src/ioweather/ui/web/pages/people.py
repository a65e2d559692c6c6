"""Users, projects and programs: what their runs did; the list of runs that all pages share."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Final, Literal
from urllib.parse import quote

from fastapi import APIRouter, Query

from ioweather.core.outcomes import RunsOutcome
from ioweather.core.units import DAY_NS
from ioweather.topics.analyse import ALL_TIME
from ioweather.ui.web.links import runs_table
from ioweather.ui.web.parts import answer_part, kept
from ioweather.ui.web.ranges import period_for
from ioweather.ui.web.shell import Html, Listed, Place, page, part, tables_part
from ioweather.ui.web.visible import OwnView, PublicView, View

router = APIRouter(include_in_schema=False, default_response_class=Html)
_LISTED_BY: Final = "car11.fig4"
Order = Literal["newest", "slowest", "largest", "longest"]
Name = Annotated[str, Query(max_length=1000)]


def _entity(view: View, kind: str, name: str, *more: tuple[str, str, str]) -> Html:
    path = f"/{kind}s/{quote(name, safe='')}"
    place = Place(view, path)
    runs = (place.link("/fragments/runs", **{kind: name, "order": "slowest"}), "Comparing runs…", "Runs")
    crumbs = [("Facility", place.link("/")), ("Jobs", place.link("/job"))]
    title = f"{kind.capitalize()} {name}"
    return page("entity.html", view, path, title, heading=title, parts=(*more, runs), crumbs=crumbs)


@router.get("/users/{name}")
def user_page(view: PublicView, name: str) -> Html:
    return _entity(view, "user", name)


@router.get("/programs/{name}")
def program_page(view: PublicView, name: str) -> Html:
    return _entity(view, "program", name)


@router.get("/projects/{name}")
def project_page(view: PublicView, name: str) -> Html:
    address = Place(view, "").link(f"/fragments/projects/{quote(name, safe='')}")
    return _entity(view, "project", name, (address, "Adding up…", "What it did"))


@router.get("/fragments/projects/{name}")
def project(view: OwnView, name: str) -> Html:
    def make() -> str:
        answer = view.ask("project", {"name": name}, period_for(view))
        with view.facilities.drawing():
            return answer_part(answer, view.drawn(), second=True)

    return kept(view, ("project", name), make)


@router.get("/fragments/projects")
def projects(view: OwnView) -> Html:
    place = Place(view, "/applications")

    def make() -> str:
        table = view.exhibit(_LISTED_BY, {}, ALL_TIME).tables[0]
        columns = [(column.heading, column.unit) for column in table.columns]
        links = {columns[0][0]: lambda row: place.to("projects", row[0])}
        return tables_part(Listed("The largest projects", columns, table.rows, links))

    return kept(view, "projects", make)


@router.get("/fragments/runs")
def runs(
    view: OwnView,
    q: Name = "",
    user: Name = "",
    project: Name = "",
    program: Name = "",
    filesystem: Name = "",
    order: Order = "newest",
    most: Annotated[int, Query(ge=1, le=1000)] = 50,
    days: Annotated[int, Query(ge=0, le=36500)] = 0,
) -> Html:
    """`days`: of the newest, where the page has no range."""
    chosen = {"words": q, "user": user, "project": project, "program": program, "filesystem": filesystem}
    chosen = {name: text for name, text in chosen.items() if text}

    def make() -> str:
        result = view.ask(
            "runs", {**chosen, "order": order, "most": most}, period_for(view, days * DAY_NS or None)
        ).result
        assert isinstance(result, RunsOutcome)
        place = Place(view, "")
        query = {("q" if name == "words" else name): text for name, text in chosen.items()}
        days_asked = str(days or "")
        kinds = ("newest", "slowest", "largest", "longest")
        address = partial(place.link, "/fragments/runs", **query, days=days_asked)
        orders = [(name, address(order=name), name == order) for name in kinds]
        title = f"{len(result.runs):,} of {result.count:,} runs, the {order} first"
        judged = any(run.verdict for run in result.runs)
        return part(
            "runs.html", result=result, orders=orders, judged=judged, listed=runs_table(place, result.runs, title)
        )

    return kept(view, ("runs", tuple(chosen.items()), order, most, days), make)
