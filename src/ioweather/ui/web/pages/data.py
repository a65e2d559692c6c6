"""The pages *Data* (what the lake holds, agents, SQL) and *Search*."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response
from fastapi.responses import RedirectResponse
from markupsafe import Markup

from ioweather.agent.status import Status, read_status, remote_agents
from ioweather.core.errors import DataUnavailable, IoweatherError
from ioweather.core.papers import exhibits
from ioweather.core.results import ResultColumn, ResultTable
from ioweather.core.tabular import as_text
from ioweather.core.units import DAY_NS, NS, format_bytes, format_seconds, now_ns, unit_of_name
from ioweather.diagnosis.file_systems import StorageOutcome
from ioweather.ingestion.queue import waiting
from ioweather.ui.web import shell
from ioweather.ui.web.queries import JOB_ID, SqlQuestion, inventory, run_sql
from ioweather.ui.web.shell import Html, Listed, Place
from ioweather.ui.web.visible import OperatorView, OwnView, PublicView, View, data_end_ns, period_for

router = APIRouter(include_in_schema=False, default_response_class=Html)
_MOST = 25
_EXAMPLES = (
    ("Tables and columns", "SELECT table_name, column_name, data_type FROM information_schema.columns"),
    (
        "Bytes per day",
        "SELECT day, metric, sum(value) AS bytes FROM series "
        "WHERE metric IN ('read_bytes', 'write_bytes') AND component_kind = 'ost' GROUP BY ALL ORDER BY day, metric",
    ),
    ("Slowest operations", "SELECT start_ns, host, op, duration_ns FROM responses ORDER BY duration_ns DESC LIMIT 20"),
)
Hit = tuple[str, str, str]  # what it is, its name, its address


@router.get("/data")
def data_page(view: PublicView, q: str = "") -> Html:
    """Return the *Data* page. Its sections load separately."""
    return shell.page("data.html", view, "/data", "Data", q=q, examples=_EXAMPLES, ranged=False)


@router.get("/sql")
def sql_page(view: OperatorView, q: str = "") -> Html:
    return shell.page("data.html", view, "/sql", "SQL", q=q, examples=_EXAMPLES, ranged=False)


@router.post("/fragments/sql")
def sql(view: OperatorView, question: SqlQuestion) -> Html:
    """Render the table on the server, because a browser would round nanoseconds."""
    try:
        result = run_sql(view, question)
    except IoweatherError as error:
        return shell.failed(error)
    rows = [tuple(map(as_text, row)) for row in result.rows]
    notes = [f"Only the first {len(rows):,} rows."] if result.truncated else []
    columns = tuple(ResultColumn(name, unit=unit_of_name(name)) for name in result.columns)
    table = ResultTable("sql", columns, tuple(rows), f"{len(rows):,} rows")
    return Html(shell.tables_part(Listed(table, empty="No rows."), notes=notes))


@router.get("/fragments/agents")
def agents(view: PublicView) -> Html:
    """Agents on this machine and on others."""
    directory, moment = view.served.directory, now_ns()
    statuses = []
    for spool in view.served.spools:
        try:
            statuses.append(read_status(spool))
        except DataUnavailable:
            continue
    rows = [row for status in statuses for row in _agent_rows(status, "gone" if status.is_stale(moment) else "")]
    for status in remote_agents(directory, moment, statuses):
        state = status.life(moment)
        statuses.append(status)
        rows += _agent_rows(status, "" if state == "running" else state)
    notes = []
    queue = waiting(directory)
    if rows and queue.files:
        size, age = format_bytes(queue.bytes), format_seconds(queue.age_seconds(moment))
        notes.append(f"{queue.files:,} pushed files are queued for the lake ({size}), the oldest for {age}.")
        if queue.trouble:
            notes.append(f"The last write failed: {queue.trouble}")
    for status in statuses if rows else ():
        spooled = status.spool
        why = f" ({spooled.dropped_why})" if spooled.dropped_why else ""
        lost = f", {spooled.dropped_rows:,} rows dropped{why}" if spooled.dropped_rows else ""
        room = f"{spooled.bytes / 2**20:.1f} of {spooled.limit_bytes / 2**20:.0f} MiB"
        held = f"{spooled.files:,} files queued ({room}){lost}. {spooled.message}"
        notes.append(f"Spool of {status.host} ({status.software_version}): {held}")
    columns = "host; what; state; seen [time_ns]; runs [count]; missed [count]; errors [count]; message"
    empty = "No agent has run here. Start a probe: ioweather probe PATH"
    return Html(shell.tables_part(Listed.of("Agents", columns, rows, empty=empty), notes=notes))


def _agent_rows(status: Status, end: str) -> Iterator[tuple[Any, ...]]:
    """A row per probed target and per source of an agent. `end` is the state of one that no longer runs."""
    for target in status.targets:
        errors = sum(operation.error_count for operation in target.operations)
        seen = (status.heard_ns, target.ticks, target.missed_ticks, errors, target.message)
        yield status.host, f"probe {target.target}", end or target.state, *seen
    for source in status.sources:
        done = (source.last_start_ns, source.runs, source.missed_ticks, source.failed_runs, source.message)
        yield status.host, source.name, end or source.state, *done


@router.get("/fragments/lake")
@shell.cached_part()
def lake(view: OwnView) -> str:
    with view.lake.snapshot() as snapshot:
        found = inventory(snapshot)
    counted = [(name, t["rows"], t["version"]) for name, t in found["tables"].items() if t["rows"]]
    columns = (
        "file system; kind; source; components [count]; step [seconds]; from [time_ns]; to [time_ns]; rows [count]"
    )
    series = [tuple(each.values()) for each in found["series"]]
    kept_out = [(q["path"], q["reason"], q["message"]) for q in found["quarantine"]]
    newest = data_end_ns(view)
    age = f"The newest data are {format_seconds((now_ns() - newest) / NS)} old." if newest is not None else "No data."
    return Markup("<p>{}</p>{}").format(
        age,
        shell.tables_part(
            Listed.of("Tables", "table; rows [count]; version [count]", counted),
            Listed.of("Server and device series", columns, series, empty="No server or device series."),
            Listed.of("Files in quarantine", "file; reason; message", kept_out, empty="No file is in quarantine."),
        ),
    )


@router.get("/search", response_model=None)
def search(view: OwnView, q: Annotated[str, Query(max_length=200)] = "") -> Response:
    """Redirect to the page of a single match, list several, and search the jobs for other words."""
    words = q.strip()
    place = Place(view, "/search")
    hits = list(_hits(view, place, words.lower())) if words else []
    exact = [hit for hit in hits if hit[1].lower() == words.lower()]
    if len(exact) == 1 or len(hits) == 1:
        return RedirectResponse((exact or hits)[0][2], 303)
    if words and not hits:
        return RedirectResponse(place.link("/jobs", q=words), 303)
    addresses = {(name, kind): address for kind, name, address in hits}
    rows = [(name, kind) for kind, name, _ in hits[:_MOST]]
    links = {"name": lambda row: addresses[row[0], row[1]]}
    listed = Listed.of("Pages", "name; what it is", rows, links=links)
    return shell.page("search.html", view, "/search", "Search", sought=q, listed=listed)


def _hits(view: View, place: Place, words: str) -> Iterator[Hit]:
    """A job id, and everything else with a page whose name contains the words."""
    if re.fullmatch(JOB_ID, words):
        yield "job", words, place.to("jobs", words)
    for kind, name in _places(view):
        if words in name.lower():
            yield kind, name, place.to("filesystems" if kind == "file system" else "components", name)
    for entry in exhibits():
        if words in entry.id.lower() or words in entry.title.lower():
            yield f"exhibit: {entry.title}", entry.id, place.link(f"/exhibits/{entry.id}")


def _places(view: View) -> Sequence[tuple[str, str]]:
    """File systems and their components, as of the last day of the data."""

    def look() -> Sequence[tuple[str, str]]:
        found: list[tuple[str, str]] = []
        period = period_for(view, DAY_NS)
        whole = view.ask("storage", {}, period).result
        assert isinstance(whole, StorageOutcome)
        for state in whole.filesystems:
            found.append(("file system", state.filesystem))
            one = view.ask("storage", {"where": state.filesystem}, period).result
            assert isinstance(one, StorageOutcome)
            found += [(c.kind, c.component) for c in one.components]
            found += [("server", c.server) for c in one.components if c.server]
        return list(dict.fromkeys(found))

    try:
        return view.served.answered("places", look, ("series", "components"), queued=False)
    except IoweatherError:
        return []
