"""More parts of pages: the forecast, stripe advice, projects, agents, and the quality of what was recorded."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from html import escape
from typing import Annotated, Any

from fastapi import APIRouter, Query

from ioweather.collect.queue import Waiting, waiting
from ioweather.collect.remote import remote_agents
from ioweather.collect.status import Status, read_status
from ioweather.core.clock import now_ns
from ioweather.core.errors import DataUnavailable, IoweatherError, UsageError
from ioweather.core.results import Answer
from ioweather.core.units import format_bytes, format_seconds, parse_size
from ioweather.tables.series import Quality
from ioweather.web.fragments import answer_part, failed, linked, rows_html
from ioweather.web.shell import Markup, Place
from ioweather.web.visible import OwnView, PublicView, View
from ioweather.workflows.analyse import ALL_TIME
from ioweather.workflows.forecast import forecast
from ioweather.workflows.transfers import ask_predict, ask_stripe

router = APIRouter(prefix="/fragments", include_in_schema=False, default_response_class=Markup)
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
    return _kept(view, "forecast", lambda: _drawn(view, forecast(view.lake)))


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
        answers = (ask_stripe(view.lake, file_bytes=amount, op=op), ask_predict(view.lake, total_bytes=amount, op=op))
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
