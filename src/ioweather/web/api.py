"""/api/v1: everything the dashboard shows, as data."""

from __future__ import annotations

import csv
import io
import json
import re
from typing import Annotated, Any, Final, Literal

import anyio.to_thread
from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, Field

from ioweather._version import __version__
from ioweather.core.errors import UsageError
from ioweather.core.papers import PAPERS, exhibit_entry, published
from ioweather.core.results import SCHEMA_VERSION, Answer, Exhibit, ResultTable, to_jsonable
from ioweather.store.usersql import Limits, run_user_sql
from ioweather.web.facilities import Facilities
from ioweather.web.queries import find_jobs, inventory, plain
from ioweather.web.requests import InFacilities, LakeName, StudyParams, period_of
from ioweather.web.topics import topic_of
from ioweather.web.uploads import answers_for_log, received
from ioweather.workflows.analyse import availability, parameters_of
from ioweather.workflows.job import JobRequest, describe_job
from ioweather.workflows.project import ask_project
from ioweather.workflows.why import WhyRequest, why

router = APIRouter(prefix="/api/v1")
JOB_ID: Final = re.compile(r"\d+([_+]\d+)?")
SQL_LIMITS: Final = Limits(rows=2000, seconds=10.0, memory="512MiB")


def answered(answer: Answer) -> dict[str, Any]:
    return {"schema_version": SCHEMA_VERSION, **to_jsonable(answer)}


@router.get("/exhibits")
def list_exhibits(facilities: InFacilities, lake: LakeName) -> dict[str, Any]:
    """All exhibits of the five papers, and whether this lake can make them."""
    with facilities.lake(lake).snapshot() as snapshot:
        found = availability(snapshot)
    return {
        "exhibits": [
            {
                "id": item.id, "title": item.title, "what": exhibit_entry(item.id).what, "study": item.study,
                "ready": item.ready, "missing": list(item.missing), "topic": topic_of(item.id).slug,
                "site": PAPERS[item.id.partition(".")[0]].site, "published": to_jsonable(published(item.id)),
            }
            for item in found
        ]
    }  # fmt: skip


@router.get("/exhibits/{exhibit_id}/parameters")
def parameters(exhibit_id: str) -> dict[str, Any]:
    return {
        "parameters": [
            {"name": p.name, "kind": p.kind, "help": p.help, "default": p.default, "chosen": p.choose is not None}
            for p in parameters_of(exhibit_id)
        ]
    }  # fmt: skip


@router.get("/exhibits/{exhibit_id}")
def one_exhibit(
    request: Request,
    exhibit_id: str,
    facilities: InFacilities,
    lake: LakeName,
    params: StudyParams,
    form: Annotated[Literal["json", "csv", "svg", "png"], Query(alias="format")] = "json",
    theme: Literal["light", "dark"] = "light",
    table: str = "",
) -> Response:
    """One exhibit as data, as a table or as a picture; other names in the query are parameters of its study."""
    period = period_of(request.query_params, facilities.lake(lake).facility)
    exhibit = facilities.exhibit(lake, exhibit_id, params, period)
    if form == "json":
        return _file(
            json.dumps({"schema_version": SCHEMA_VERSION, **to_jsonable(exhibit)}).encode(), "application/json"
        )
    if form == "csv":
        return _file(exhibit_csv(exhibit, table).encode(), "text/csv; charset=utf-8", f"{exhibit_id}.csv")
    from ioweather.figures.render import exhibit_figure

    data = exhibit_figure(exhibit, form, theme)
    kind = "image/svg+xml" if form == "svg" else "image/png"
    return _file(data, kind, f"{exhibit_id}.{form}")


def _file(data: bytes, media_type: str, name: str = "") -> Response:
    headers = {"content-disposition": f'inline; filename="{name}"'} if name else {}
    return Response(data, media_type=media_type, headers=headers)


def exhibit_csv(exhibit: Exhibit, name: str = "") -> str:
    """The named table, else the first, in plain numbers; the estimates where there is none."""
    tables = {table.name: table for table in (*(chart.table for chart in exhibit.charts), *exhibit.tables)}
    if name and name not in tables:
        raise UsageError(f"{exhibit.id} has no table {name!r}.", hint=f"There are: {', '.join(tables) or 'none'}.")
    chosen = tables.get(name) or next(iter((*exhibit.tables, *tables.values())), None)
    out = io.StringIO()
    writer = csv.writer(out)
    if chosen is None:
        writer.writerow(("estimate", "value", "unit", "low", "high", "level", "n", "method"))
        for e in exhibit.estimates:
            writer.writerow((e.name, e.value, e.unit, e.low, e.high, e.level, e.n, e.method))
    else:
        write_table(writer, chosen)
    return out.getvalue()


def write_table(writer: Any, table: ResultTable) -> None:
    writer.writerow([column.name for column in table.columns])
    writer.writerows([[_inert(plain(cell)) for cell in row] for row in table.rows])


def _inert(cell: Any) -> Any:
    """A spreadsheet takes such a text for a formula, and it may come from the name of somebody's file."""
    return f"'{cell}" if isinstance(cell, str) and cell[:1] in ("=", "+", "-", "@", "\t") else cell


@router.get("/now")
def now(facilities: InFacilities, lake: LakeName) -> dict[str, Any]:
    answer, wrong = facilities.now(lake)
    return {**answered(answer), "wrong": wrong}


@router.get("/events")
def events(request: Request, facilities: InFacilities, lake: LakeName, kind: str | None = None) -> dict[str, Any]:
    period = period_of(request.query_params, facilities.lake(lake).facility)
    return {"events": [vars(event) for event in facilities.events(lake, kind, period)]}


@router.get("/jobs")
def jobs(
    facilities: InFacilities, lake: LakeName, q: str = "", limit: Annotated[int, Query(ge=1, le=200)] = 50
) -> dict[str, Any]:
    with facilities.lake(lake).snapshot() as snapshot:
        return {"jobs": find_jobs(snapshot, q, limit)}


@router.post("/jobs")
async def upload(request: Request, facilities: InFacilities, lake: LakeName) -> dict[str, Any]:
    """A Darshan log as the body: why it took so long, and what it did. Nothing is kept."""
    data = await received(request)
    reason, facts = await anyio.to_thread.run_sync(answers_for_log, data, facilities, lake)
    return {"why": answered(reason), "job": answered(facts)}


@router.get("/jobs/{job_id}")
def job(facilities: InFacilities, lake: LakeName, job_id: str) -> dict[str, Any]:
    reason, facts = job_answers(facilities, lake, job_id)
    return {"why": answered(reason), "job": answered(facts)}


def job_answers(facilities: Facilities, lake: str, job_id: str) -> tuple[Answer, Answer]:
    """Only ids: a path would be read from the server's own disk."""
    if JOB_ID.fullmatch(job_id) is None:
        raise UsageError(f"{job_id!r} is not a job id.", hint="Expected a number, such as 4711 or 22_1.")
    request = JobRequest(str(facilities.lake(lake).root))
    return why(job_id, WhyRequest(request)), describe_job(job_id, request, detail=True)


@router.get("/projects/{name}")
def project(request: Request, facilities: InFacilities, lake: LakeName, name: str) -> dict[str, Any]:
    opened = facilities.lake(lake)
    return answered(ask_project(opened, name, period_ns=period_of(request.query_params, opened.facility)))


@router.get("/lake")
def lake_inventory(facilities: InFacilities, lake: LakeName) -> dict[str, Any]:
    with facilities.lake(lake).snapshot() as snapshot:
        return inventory(snapshot)


class SqlQuestion(BaseModel):
    query: str = Field(min_length=1, max_length=20_000)


@router.post("/sql")
def sql(facilities: InFacilities, lake: LakeName, question: SqlQuestion) -> dict[str, Any]:
    """One SELECT or EXPLAIN over the tables of the lake, bounded in rows, time and memory."""
    with facilities.lake(lake).snapshot() as snapshot:
        result = run_user_sql(snapshot, question.query, SQL_LIMITS)
    rows = [[plain(cell) for cell in row] for row in result.rows]
    return {"columns": result.columns, "types": result.types, "rows": rows, "truncated": result.truncated}


@router.get("/healthz")
def health() -> dict[str, Any]:
    return {"status": "ok", "version": __version__}
