"""Parts of pages that take time: exhibits, answers, lists, agents, the quality of what was recorded.

Each is markup made by the one renderer in `figures`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import replace
from html import escape
from typing import Annotated, Any
from urllib.parse import urlencode

import anyio.to_thread
from fastapi import APIRouter, Query, Request

from ioweather.collect.queue import Waiting, waiting
from ioweather.collect.remote import remote_agents
from ioweather.collect.status import Status, read_status
from ioweather.core.cells import as_text
from ioweather.core.clock import now_ns
from ioweather.core.errors import DataUnavailable, IoweatherError, UsageError
from ioweather.core.results import Answer, Exhibit, ResultColumn, ResultTable
from ioweather.core.units import format_bytes, format_seconds, parse_size
from ioweather.derive.jobs.signatures import program_of
from ioweather.figures import answer_section, exhibit_section, provenance_html, table_html
from ioweather.tables.series import Quality
from ioweather.web.api import job_answers
from ioweather.web.errors import status_of
from ioweather.web.queries import find_jobs, inventory, series_held
from ioweather.web.requests import RESERVED, Between, StudyParams, period_of
from ioweather.web.shell import Markup, Place, problem
from ioweather.web.sqlpage import SqlQuestion, ask
from ioweather.web.uploads import answers_for_log, few_at_once, received
from ioweather.web.visible import OperatorView, OwnView, PublicView, View
from ioweather.workflows.analyse import ALL_TIME

router = APIRouter(prefix="/fragments", include_in_schema=False, default_response_class=Markup)
_MOST_EVENTS = 100


def failed(error: IoweatherError, heading: str = "") -> Markup:
    """What is missing is said in the place where it is missing, and is no failure of the page."""
    head = f"<h1>{escape(heading)}</h1>" if heading else ""
    status = 200 if isinstance(error, DataUnavailable) else status_of(error)
    return Markup(head + problem(error.message, error.hint), status)


@router.get("/exhibits/{exhibit_id}")
def exhibit(view: OwnView, request: Request, exhibit_id: str, between: Between, params: StudyParams) -> Markup:
    level = 1 if request.query_params.get("heading") == "1" else 2
    query = [
        (name, value)
        for name, value in request.query_params.items()
        if name not in ("format", "theme", "heading") and value
    ]

    def make() -> bytes:
        made = view.exhibit(exhibit_id, params, period_of(between, view.lake.facility))
        with view.facilities.drawing():
            section = exhibit_section(made, level, live=True)
        return (section + _downloads(made, query)).encode()

    try:
        key = ("fragment", view.key, exhibit_id, level, tuple(query))
        return Markup(view.facilities.exhibit_answered(view.name, exhibit_id, key, make))
    except IoweatherError as error:
        return failed(error, exhibit_id if level == 1 else "")


def _downloads(made: Exhibit, query: Sequence[tuple[str, str]]) -> str:
    def address(**more: str) -> str:
        return escape(f"/api/v1/exhibits/{made.id}?{urlencode([*query, *more.items()])}")

    links = [("JSON", address(format="json"), "json"), ("CSV", address(format="csv"), "csv")]
    if made.charts:
        links = [
            ("SVG", address(format="svg"), "svg"),
            ("PNG", address(format="png"), "png"),
            ("SVG dark", address(format="svg", theme="dark"), "svg"),
            *links,
        ]
    items = "".join(
        f'<li><a href="{link}" download="{escape(made.id)}.{ending}">{text}</a></li>' for text, link, ending in links
    )
    here = [(name, value) for name, value in query if name not in RESERVED - {"lake", "from", "to"}]
    page = escape(f"/exhibits/{made.id}" + (f"?{urlencode(here)}" if here else ""))
    return (
        f'<ul class="downloads" aria-label="Download {escape(made.id)}">{items}<li><a href="{page}">Link</a></li></ul>'
    )


def answer_part(answer: Answer, *, second: bool = False) -> str:
    """An answer on a page; the `second` on a page has no heading of the first level."""
    if second:
        return answer_section(answer, 2, live=True) + provenance_html(answer.provenance)
    return answer_section(answer, live=True)


@router.get("/now")
def now(view: PublicView) -> Markup:
    try:
        return Markup(view.facilities.now_as(view.name, "html", _now_part))
    except IoweatherError as error:
        return Markup("<h1>How slow storage is now</h1>" + problem(error.message, error.hint))


def _now_part(answer: Answer, wrong: bool) -> bytes:
    return f'<div class="{"wrong" if wrong else "fine"}">{answer_part(answer)}</div>'.encode()


@router.get("/events")
def events(
    view: PublicView,
    between: Between,
    kind: str | None = None,
    most: Annotated[int, Query(ge=1, le=_MOST_EVENTS)] = _MOST_EVENTS,
) -> Markup:
    try:
        found = view.events(kind or None, period_of(between, view.lake.facility))
    except IoweatherError as error:
        return failed(error)
    rows = tuple(
        (e.start_ns, e.end_ns, e.kind, e.filesystem.removeprefix("mount:"), e.label, e.strength_ratio)
        for e in found[:most]
    )
    more = (
        f'<p class="quiet">{len(found) - len(rows):,} older ones are not shown.</p>' if len(found) > len(rows) else ""
    )
    if not rows:
        return Markup('<p class="quiet">No events recorded.</p>')
    units = ("time_ns", "time_ns", "text", "text", "text", "factor")
    return Markup(rows_html(("from", "to", "kind", "where", "what", "strength"), units, rows, "Events") + more)


@router.get("/jobs")
def jobs(view: OwnView, q: str = "") -> Markup:
    try:
        with view.lake.snapshot() as snapshot:
            found = find_jobs(snapshot, q)
    except IoweatherError as error:
        return failed(error)
    if not found:
        return Markup('<p class="quiet">No run with a Darshan log matches.</p>')
    rows = [
        (
            str(job["job_id"]), job["user"] or f"uid {job['uid']}", job["account"], program_of(job["exe"] or ""),
            job["nprocs"], job["start_ns"], job["read_bytes"], job["write_bytes"], job["io_seconds"],
        )
        for job in found
    ]  # fmt: skip
    names = ("job", "user", "project", "program", "processes", "start", "read", "written", "I/O time")
    units = ("text", "text", "text", "text", "count", "time_ns", "bytes", "bytes", "seconds")
    table = rows_html(names, units, rows, f"{len(rows)} runs, the newest first")
    place = Place(view.facilities, view.name, "/job")
    return Markup(linked(table, place, "/jobs/", {str(job["job_id"]) for job in found}))


def linked(table: str, place: Place, prefix: str, ids: set[str]) -> str:
    """The names of rows as links: the renderer knows no addresses."""

    def link(match: re.Match[str]) -> str:
        text = match[2]
        return f'{match[1]}<a href="{escape(place.link(prefix + text))}">{text}</a>' if text in ids else match[0]

    return re.sub(r'(<th scope="row"[^<>]*>)([^<]*)', link, table)


@router.get("/jobs/{job_id}")
def job(view: OwnView, job_id: str) -> Markup:
    try:
        return Markup(_job_parts(*job_answers(view, job_id)))
    except IoweatherError as error:
        return failed(error, f"Job {job_id}")


def _job_parts(reason: Answer, facts: Answer) -> str:
    """The verdict with its advice, then what the run did; the same advice not twice, nor an id."""
    told = {exhibit.id for exhibit in reason.exhibits}
    groups = {group.name for group in reason.facts}
    rest = replace(
        facts,
        facts=tuple(group for group in facts.facts if group.name not in groups),
        exhibits=tuple(exhibit for exhibit in facts.exhibits if exhibit.id not in told),
        findings=tuple(finding for finding in facts.findings if finding not in reason.findings),
    )
    return answer_part(reason) + f'<section class="later">{answer_part(rest, second=True)}</section>'


@router.post("/upload")
async def upload(request: Request, view: OwnView) -> Markup:
    try:
        data = await received(request)
        with few_at_once():
            parts = await anyio.to_thread.run_sync(_upload_parts, data, view)
    except IoweatherError as error:
        return failed(error)
    return Markup(parts)


def _upload_parts(data: bytes, view: View) -> str:
    return _job_parts(*answers_for_log(data, view))


@router.get("/projects/{name}")
def project(view: OwnView, name: str) -> Markup:
    try:
        return Markup(answer_part(view.ask("project", {"name": name})))
    except IoweatherError as error:
        return failed(error, f"Project {name}")


@router.get("/lake")
def held(view: OwnView) -> Markup:
    try:
        with view.lake.snapshot() as snapshot:
            found, series = inventory(snapshot), series_held(snapshot)
    except IoweatherError as error:
        return failed(error)
    counted = [(name, t["rows"], t["version"]) for name, t in found["tables"].items() if t["rows"]]
    tables = rows_html(("table", "rows", "version"), ("text", "count", "count"), counted, "Tables")
    held_series = rows_html(
        ("file system", "kind", "source", "components", "step", "from", "to", "rows"),
        ("text", "text", "text", "count", "seconds", "time_ns", "time_ns", "count"),
        [
            (s.filesystem, s.component_kind, s.source, s.components, s.interval_seconds, s.first_ns, s.end_ns, s.rows)
            for s in series
        ],
        "Series of servers and devices",
    )
    kept_out = [(q["path"], q["reason"], q["message"]) for q in found["quarantine"]]
    refused = rows_html(("file", "reason", "message"), ("text", "text", "text"), kept_out, "Files in quarantine")
    none = "" if found["quarantine"] else '<p class="quiet">No file is in quarantine.</p>'
    return Markup(tables + (held_series if series else "") + (refused if found["quarantine"] else none))


def rows_html(names: Sequence[str], units: Sequence[str], rows: Sequence[Sequence[Any]], title: str) -> str:
    columns = tuple(ResultColumn(name, name, unit) for name, unit in zip(names, units, strict=True))
    return table_html(ResultTable(title, columns, tuple(tuple(row) for row in rows), title))


@router.post("/sql")
def sql(view: OperatorView, question: SqlQuestion) -> Markup:
    """As a table made here: a browser would round nanoseconds."""
    try:
        result = ask(view, question)
    except IoweatherError as error:
        return failed(error)
    columns = tuple(ResultColumn(f"c{i}", name) for i, name in enumerate(result.columns))
    rows = tuple(tuple(map(as_text, row)) for row in result.rows)
    note = f'<p class="quiet">Only the first {len(rows):,} rows.</p>' if result.truncated else ""
    return Markup(table_html(ResultTable("sql", columns, rows, f"{len(rows):,} rows")) + note)


_PROJECTS_EXHIBIT = "car11.fig4"
_QUALITY_SQL = "SELECT source, quality, count(*) FROM series GROUP BY ALL ORDER BY source, quality"


def _kept(view: View, key: Hashable, make: Callable[[], str]) -> Markup:
    try:
        return Markup(view.facilities.answered(view.name, (view.key, key), lambda: make().encode()))
    except IoweatherError as error:
        return failed(error)


def _drawn(view: View, answer: Answer) -> str:
    with view.facilities.drawing():
        return answer_part(answer, second=True)


@router.get("/forecast")
def expected(view: PublicView) -> Markup:
    return _kept(view, "forecast", lambda: _drawn(view, view.ask("forecast", {})))


@router.get("/transfer")
def transfer(
    view: PublicView,
    size: Annotated[str, Query(max_length=40)] = "64GiB",
    op: Annotated[str, Query(pattern="^(read|write)$")] = "write",
) -> Markup:
    """Over how many targets to stripe a file of this size, and how long moving it takes."""

    def make() -> str:
        try:
            amount = parse_size(size)
        except ValueError as error:
            raise UsageError(str(error), hint="Write a size as 64GiB or 1TB.") from None
        answers = (view.ask(name, {"size": str(amount), "op": op}) for name in ("stripe", "predict"))
        return "".join(f'<section class="later">{_drawn(view, answer)}</section>' for answer in answers)

    return _kept(view, ("transfer", size, op), make)


@router.get("/projects")
def projects(view: OwnView) -> Markup:
    def make() -> str:
        table = view.exhibit(_PROJECTS_EXHIBIT, {}, ALL_TIME).tables[0]
        names = {str(row[0]) for row in table.rows}
        html = rows_html(
            [c.heading for c in table.columns], [c.unit for c in table.columns], table.rows, "The largest projects"
        )
        return linked(html, Place(view.facilities, view.name, "/applications"), "/projects/", names)

    return _kept(view, "projects", make)


@router.get("/agents")
def agents(view: PublicView) -> Markup:
    """Of the main facility: only it is measured from here."""
    try:
        view.facilities.measured(view.name)
    except DataUnavailable as error:
        return failed(error)
    moment = now_ns()
    statuses = list(_statuses(view))
    elsewhere = remote_agents(view.facilities.directory(view.name), moment, statuses)
    rows = [row for status in statuses for row in _agent_rows(status, "gone" if status.is_stale(moment) else "")]
    for agent in elsewhere:
        state = agent.state(moment)
        if agent.status is None:
            rows.append((agent.host, "tells no status", state, agent.heard_ns, None, None, None, ""))
        else:
            statuses.append(agent.status)
            rows += _agent_rows(agent.status, "" if state == "running" else state)
    if not rows:
        return Markup('<p class="quiet">No agent has run here. Start one: ioweather probe PATH</p>')
    names = ("host", "what", "state", "seen", "runs", "missed", "errors", "message")
    units = ("text", "text", "text", "time_ns", "count", "count", "count", "text")
    queue = waiting(view.facilities.directory(view.name))
    return Markup(
        rows_html(names, units, rows, "Agents") + _queue_html(queue, moment) + "".join(map(_spool_html, statuses))
    )


def _statuses(view: View) -> Iterator[Status]:
    for spool in view.facilities.spools:
        try:
            yield read_status(spool)
        except DataUnavailable:
            continue


def _agent_rows(status: Status, end: str) -> Iterator[tuple[Any, ...]]:
    """`end` is what became of the agent, where it is no more."""
    for target in status.targets:
        errors = sum(operation.error_count for operation in target.operations)
        yield (status.host, f"probe {target.target}", end or target.state, status.heard_ns, target.ticks,
               target.missed_ticks, errors, target.message)  # fmt: skip
    for source in status.sources:
        yield (status.host, source.name, end or source.state, source.last_start_ns, source.runs, source.missed_ticks,
               source.failed_runs, source.message)  # fmt: skip


def _queue_html(queue: Waiting, moment: int) -> str:
    if not queue.files:
        return ""
    size, age = format_bytes(queue.bytes), format_seconds(queue.age_seconds(moment))
    text = f"{queue.files:,} files that were pushed wait for the lake ({size}), the oldest for {age}."
    return f'<p class="quiet">{text}</p>'


def _spool_html(status: Status) -> str:
    spool = status.spool
    lost = f", {spool.dropped_rows:,} rows given up because it was full" if spool.dropped_rows else ""
    held = f"{spool.files:,} files wait ({spool.bytes / 2**20:.1f} of {spool.limit_bytes / 2**20:.0f} MiB)"
    version = escape(status.software_version)
    return f'<p class="quiet">Spool of {escape(status.host)} ({version}): {held}{lost}. {escape(spool.message)}</p>'


@router.get("/quality")
def quality(view: PublicView) -> Markup:
    def make() -> str:
        with view.lake.snapshot() as snapshot:
            if not snapshot.pinned["series"].uris:
                return '<p class="quiet">The lake holds no series.</p>'
            counted = snapshot.con.sql(_QUALITY_SQL).fetchall()
        rows = [(source, _flags(flags), count) for source, flags, count in counted]
        return rows_html(("source", "flags", "samples"), ("text", "text", "count"), rows, "Samples by quality")

    return _kept(view, "quality", make)


def _flags(bits: int | None) -> str:
    names = [str(flag.name).lower().replace("_", " ") for flag in Quality if flag & (bits or 0)]
    return ", ".join(names) or "none"
