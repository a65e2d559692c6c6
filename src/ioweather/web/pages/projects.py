"""Projects: the largest, and what one of them did."""

from __future__ import annotations

from urllib.parse import quote

from fastapi import APIRouter

from ioweather.web.parts import answer_part, kept
from ioweather.web.shell import Html, Listed, Place, page, tables_part
from ioweather.web.visible import OwnView, PublicView
from ioweather.workflows.analyse import ALL_TIME

router = APIRouter(include_in_schema=False, default_response_class=Html)
_LISTED_BY = "car11.fig4"


@router.get("/projects/{name}")
def project_page(view: PublicView, name: str) -> Html:
    address = Place(view.facilities, view.name, "").link(f"/fragments/projects/{quote(name, safe='')}")
    return page(
        "one_part.html", view, "/applications", f"Project {name}", kicker="", address=address, waiting="Adding up…"
    )


@router.get("/fragments/projects/{name}")
def project(view: OwnView, name: str) -> Html:
    def make() -> str:
        answer = view.ask("project", {"name": name})
        with view.facilities.drawing():
            return answer_part(answer)

    return kept(view, ("project", name), make, f"Project {name}")


@router.get("/fragments/projects")
def projects(view: OwnView) -> Html:
    place = Place(view.facilities, view.name, "/applications")

    def make() -> str:
        table = view.exhibit(_LISTED_BY, {}, ALL_TIME).tables[0]
        columns = [(column.heading, column.unit) for column in table.columns]
        links = {columns[0][0]: lambda row: place.link(f"/projects/{quote(str(row[0]), safe='')}")}
        return tables_part(Listed("The largest projects", columns, table.rows, links))

    return kept(view, "projects", make)
