"""/api/v1: everything the dashboard shows, as data."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from typing import Annotated, Any, Final, Literal, cast

import anyio.to_thread
from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse
from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema

from ioweather._version import __version__
from ioweather.core.contracts import Question
from ioweather.core.errors import DataUnavailable, UsageError
from ioweather.core.results import SCHEMA_VERSION, Answer, Exhibit, result_json, to_jsonable
from ioweather.core.tabular import csv_text
from ioweather.diagnosis.events import EventOutcome
from ioweather.diagnosis.list_jobs import RunOutcome, RunsOutcome
from ioweather.diagnosis.recorded_verdicts import job_text
from ioweather.facts.accounting import Quota, latest_quotas
from ioweather.topics.analyse import parameters_of
from ioweather.topics.catalogue import QUESTIONS, TITLES
from ioweather.ui.charts.render import exhibit_figure
from ioweather.ui.web.queries import (
    JOB_ID,
    SqlQuestion,
    answers_for_log,
    few_at_once,
    inventory,
    job_answers,
    listed_exhibits,
    received,
    run_sql,
)
from ioweather.ui.web.served_lake import is_wrong
from ioweather.ui.web.visible import (
    Between,
    OperatorView,
    OwnView,
    PublicView,
    StudyParams,
    View,
    may_answer,
    period_of,
)

router = APIRouter(prefix="/api/v1", responses=may_answer(400, 403, 404, 503))
_BINARY: Final = {
    "requestBody": {
        "required": True,
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}


def _forms(*types: str) -> dict[int | str, dict[str, Any]]:
    """For the description of an endpoint: JSON, and further media types."""
    return {200: {"content": {"application/json": {"schema": {"type": "object"}}, **{name: {} for name in types}}}}


_JSON, _TABLE = _forms(), _forms("text/csv")
_ANY_FORM: Final = _forms("text/csv", "image/svg+xml", "image/png")
JobId = Annotated[str, Path(pattern=f"^{JOB_ID}$", examples=["4711"])]
Cluster = Annotated[
    str, Query(max_length=200, description="Select the job in this cluster, if several jobs have this ID.")
]
ExhibitId = Annotated[str, Path(max_length=100, description="Exhibit ID from /exhibits.", examples=["car11.fig7"])]
Answered = Response | dict[str, Any]
Form = Annotated[Literal["json", "csv"], Query(alias="format")]


@router.get("/exhibits", response_class=Response, responses=_JSON)
def list_exhibits(view: OwnView) -> Response:
    """List all exhibits of the five papers, and whether this lake has their data."""

    def make() -> bytes:
        return json.dumps({"schema_version": SCHEMA_VERSION, "exhibits": listed_exhibits(view.lake)}).encode()

    return Response(view.served.answered(("exhibits", view.key), make), media_type="application/json")


@router.get("/exhibits/{exhibit_id}/parameters")
def parameters(view: PublicView, exhibit_id: ExhibitId) -> dict[str, Any]:
    """List the parameters of an exhibit."""
    return {
        "schema_version": SCHEMA_VERSION,
        "parameters": [
            {"name": p.name, "kind": p.kind, "help": p.help, "default": p.default, "chosen": p.choose is not None}
            for p in parameters_of(exhibit_id)
        ],
    }


@router.get("/exhibits/{exhibit_id}", response_class=Response, responses=_ANY_FORM)
def one_exhibit(
    view: OwnView,
    exhibit_id: ExhibitId,
    between: Between,
    params: StudyParams,
    form: Annotated[Literal["json", "csv", "svg", "png"], Query(alias="format")] = "json",
    table: Annotated[str, Query(max_length=200, description="For CSV: table name.")] = "",
) -> Response:
    """Return one exhibit as data, table or picture. Other names in the query are study parameters."""
    key = ("exhibit", view.key, exhibit_id, between, tuple(sorted(params.items())), form, table)

    def make() -> bytes:
        exhibit = view.exhibit(exhibit_id, params, period_of(between, view.lake.facility))
        if form == "json":
            return json.dumps(result_json(exhibit)).encode()
        if form == "csv":
            return exhibit_csv(exhibit, table).encode()
        return exhibit_figure(exhibit, form)

    data = view.served.answered(key, make)
    # A name that is none of ours never comes here: making it has failed before.
    headers = {} if form == "json" else {"content-disposition": f'inline; filename="{exhibit_id}.{form}"'}
    return Response(data, media_type=_TYPES[form], headers=headers)


_TYPES: Final = {
    "json": "application/json",
    "csv": "text/csv; charset=utf-8",
    "svg": "image/svg+xml",
    "png": "image/png",
}


def exhibit_csv(exhibit: Exhibit, name: str = "") -> str:
    """The named table, else the first, in plain numbers; the estimates where there is none."""
    tables = {table.name: table for table in (*(chart.table for chart in exhibit.charts), *exhibit.tables)}
    if name and name not in tables:
        raise UsageError(f"{exhibit.id} has no table {name!r}.", hint=f"There are: {', '.join(tables) or 'none'}.")
    chosen = tables.get(name) or next(iter((*exhibit.tables, *tables.values())), None)
    if chosen is None:
        rows = [(e.name, e.value, e.unit, e.low, e.high, e.level, e.n, e.method) for e in exhibit.estimates]
        return csv_text(
            ("estimate", "value", "unit", "low", "high", "level", "n", "method"), rows, for_spreadsheets=True
        )
    return csv_text([column.name for column in chosen.columns], chosen.rows, for_spreadsheets=True)


def _rows(form: str, columns: Sequence[str], rows: Iterable[Sequence[Any]], body: dict[str, Any]) -> Answered:
    """Rows as CSV, or the body as JSON."""
    if form == "csv":
        return Response(csv_text(columns, rows, for_spreadsheets=True), media_type=_TYPES["csv"])
    return {"schema_version": SCHEMA_VERSION, **body}


@router.get("/now", response_class=Response, responses=_JSON)
def now(view: PublicView) -> Response:
    """Return how slow storage is now."""
    found = view.served.now()
    return JSONResponse({**result_json(found), "wrong": is_wrong(found)})


@router.get("/events", response_model=None, responses=_TABLE)
def events(
    view: PublicView, between: Between, kind: Annotated[str | None, Query(max_length=50)] = None, form: Form = "json"
) -> Answered:
    """List events, newest first."""
    found = view.served.events(kind, period_of(between, view.lake.facility))
    rows = [{**vars(event), "strength": event.strength_ratio} for event in found]
    names = [*(field.name for field in fields(EventOutcome)), "strength"]
    return _rows(form, names, (list(row.values()) for row in rows), {"events": rows})


@router.get("/jobs", response_model=None, responses=_TABLE)
def jobs(
    view: OwnView,
    q: Annotated[str, Query(max_length=1000, description="Words that must all match.")] = "",
    cluster: Cluster = "",
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    form: Form = "json",
) -> Answered:
    """List jobs with or without a Darshan log, newest first. For each job, the run with the most I/O time is shown."""
    try:
        found = cast(RunsOutcome, view.ask("runs", {"words": q, "most": limit, "cluster": cluster or None}).result).runs
    except DataUnavailable:
        found = ()
    # `account` and `name` are the former names of project and program, for one release.
    rows = [
        {**to_jsonable(run), "account": run.project, "name": run.program, "log": run.known_by is None} for run in found
    ]
    names = [*(field.name for field in fields(RunOutcome)), "account", "name", "log"]
    return _rows(form, names, (list(row.values()) for row in rows), {"jobs": rows})


@router.get("/quotas", response_model=None, responses=_TABLE)
def quotas(view: OwnView, form: Form = "json") -> Answered:
    """List the last recorded quotas, fullest first. A user gets their own quotas and those of groups, projects and
    filesets."""
    with view.lake.snapshot() as snapshot:
        rows = [vars(each) for each in latest_quotas(snapshot)]
    names = [field.name for field in fields(Quota)]
    return _rows(form, names, (list(row.values()) for row in rows), {"quotas": rows})


@router.post("/jobs", responses=may_answer(408, 422, 503), openapi_extra=_BINARY)
async def upload(request: Request, view: OwnView) -> dict[str, Any]:
    """Explain a Darshan log in the request body: why it took so long, and what it did. Nothing is stored."""
    data = await received(request)
    with few_at_once():
        reason, facts = await anyio.to_thread.run_sync(answers_for_log, data, view)
    return {"schema_version": SCHEMA_VERSION, "why": result_json(reason), "job": result_json(facts)}


@router.get("/jobs/{job_id}", response_class=Response, responses=_JSON)
def job(view: OwnView, job_id: JobId, cluster: Cluster = "") -> Response:
    """Return the verdict and I/O summary of a job. Without a log, accounting is used; `why` is null without both."""

    def make() -> bytes:
        reason, facts = job_answers(view, job_id, cluster)
        why = None if reason is None else result_json(reason)
        return json.dumps({"schema_version": SCHEMA_VERSION, "why": why, "job": result_json(facts)}).encode()

    data = view.served.answered(("job json", view.key, job_id, cluster), make)
    return Response(data, media_type="application/json")


@router.get(
    "/jobs/{job_id}/text",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
def job_as_text(
    view: OwnView, job_id: JobId, form: Literal["line", "block"] = "line", cluster: Cluster = ""
) -> PlainTextResponse:
    """Return the verdict on the job as plain text, for mails and terminals. A recorded verdict is used if it exists."""

    def make() -> bytes:
        found = job_text(view.lake, job_id, cluster=cluster or None, files=False)
        return (f"{found.line()}\n" if form == "line" else found.block()).encode()

    return PlainTextResponse(view.served.answered(("job text", view.key, job_id, cluster, form), make))


def _asked(question: Question) -> Callable[..., Any]:
    """The route of a question: names in the query are its parameters."""

    def put(view: View, between: Between, params: StudyParams) -> dict[str, Any]:
        lists = {param.name for param in question.params if param.many}
        typed = {name: tuple(text.split(",")) if name in lists else text for name, text in params.items()}
        return result_json(view.ask_as_sent(question.name, typed, between))

    put.__annotations__["view"] = PublicView if question.seen_by == "public" else OwnView
    put.__name__, put.__doc__ = f"ask_{question.name}", TITLES.get(question.name, question.help)
    return put


for _question in QUESTIONS.values():
    router.get(f"/ask/{_question.name}")(_asked(_question))


@router.get("/lake")
def lake_inventory(view: OwnView) -> dict[str, Any]:
    """Return the tables, series, overlaps between sources, and quarantined files."""
    with view.lake.snapshot() as snapshot:
        return inventory(snapshot)


@router.post("/sql", response_model=None, responses=_TABLE)
def sql(view: OperatorView, question: SqlQuestion, form: Form = "json") -> Answered:
    """Run one SELECT or EXPLAIN on the lake's tables, with limits on rows, time and memory."""
    result = run_sql(view, question)
    names = ("columns", "types", "rows", "truncated")
    return _rows(form, result.columns, result.rows, {name: getattr(result, name) for name in names})


class _SchemaOfResults(GenerateJsonSchema):
    """Every field is present in JSON, and a float that is not finite is null (`to_jsonable`)."""

    def float_schema(self, schema: Any) -> dict[str, Any]:
        return {"type": ["number", "null"]}

    def field_is_required(self, *_: Any, **__: Any) -> bool:
        return True

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def default_schema(self, schema: Any) -> dict[str, Any]:
        return self.generate_inner(schema["schema"])


def answer_schema() -> dict[str, Any]:
    """The JSON Schema of an answer, whose result is that of its question, or of an exhibit."""
    Outcome = Any  # noqa: F841 - `Answer` names this type for type checkers only; pydantic looks for it here
    kinds = {"Answer": Answer, "Exhibit": Exhibit} | {name: QUESTIONS[name].result for name in TITLES}
    adapters: list[Any] = [(name, "serialization", TypeAdapter(kind)) for name, kind in kinds.items()]
    of, definitions = TypeAdapter.json_schemas(
        adapters,
        schema_generator=_SchemaOfResults,
        ref_template="#/$defs/{model}",
    )
    by_question = [
        {
            "if": {"properties": {"name": {"const": name}}},
            "then": {"properties": {"result": of[name, "serialization"]}},
        }
        for name in TITLES
    ]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "ioweather: answers and exhibits",
        "type": "object",
        "properties": {"schema_version": {"const": SCHEMA_VERSION}},
        "required": ["schema_version"],
        "if": {"required": ["headline"]},
        "then": {"allOf": [of["Answer", "serialization"], *by_question]},
        "else": of["Exhibit", "serialization"],
        **definitions,
    }


@router.get("/schema")
async def schema(view: PublicView) -> dict[str, Any]:
    """Return the JSON Schema of answers and exhibits."""
    return answer_schema()


@router.get("/healthz")
async def health(view: PublicView) -> dict[str, Any]:
    """Report that the server is running."""
    return {"status": "ok", "version": __version__}
