"""The pages of file systems, servers and targets, of events, *Who*, and the parts of *Health*."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Query
from markupsafe import Markup

from ioweather.agent.status import SpoolStatus, Status, read_status, remote_agents
from ioweather.core.clock import now_ns
from ioweather.core.errors import DataUnavailable, IoweatherError
from ioweather.core.outcomes import TROUBLES, EventOutcome, HealthOutcome, RunsOutcome, StorageOutcome, WhoOutcome
from ioweather.core.results import Exhibit, Reference
from ioweather.core.tables import Quality
from ioweather.core.units import DAY_NS, HOUR_NS, format_bytes, format_seconds
from ioweather.facts.run_targets import target_number
from ioweather.ingestion.queue import Waiting, waiting
from ioweather.topics.analyse import ALL_TIME, Period
from ioweather.ui.charts import exhibit_section
from ioweather.ui.web.queries import inventory, series_held
from ioweather.ui.web.requests import RANGE_NS, data_end_ns, period_for, status_of
from ioweather.ui.web.shell import (
    CHART_PX,
    Html,
    Listed,
    Place,
    answer_part,
    around_ns,
    behind,
    cached_part,
    components_table,
    events_table,
    failed,
    headed,
    page,
    part,
    problem,
    runs_table,
    tables_part,
    where_address,
)
from ioweather.ui.web.visible import OwnView, PublicView, View

router = APIRouter(include_in_schema=False, default_response_class=Html)
_QUALITY_SQL = "SELECT source, quality, count(*) FROM series GROUP BY ALL ORDER BY source, quality"


@router.get("/fragments/agents")
def agents(view: PublicView) -> Html:
    """Of the main facility: only it is measured from here."""
    try:
        view.facilities.measured(view.name)
    except DataUnavailable as error:
        return failed(error)
    return Html(_agents(view))


def _agents(view: View) -> str:
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
    columns = headed("host; what; state; seen [time_ns]; runs [count]; missed [count]; errors [count]; message")
    notes = [*_queued(waiting(view.facilities.directory(view.name)), moment), *map(_spooled, statuses)] if rows else []
    empty = "No agent has run here. Start one: ioweather probe PATH"
    return tables_part(Listed("Agents", columns, rows, empty=empty), notes=notes)


def _statuses(view: View) -> Iterator[Status]:
    for spool in view.facilities.spools:
        try:
            yield read_status(spool)
        except DataUnavailable:
            continue


def _agent_rows(status: Status, end: str) -> Iterator[tuple[Any, ...]]:
    """`end` is the state of an agent that no longer runs."""
    for target in status.targets:
        errors = sum(operation.error_count for operation in target.operations)
        seen = (status.heard_ns, target.ticks, target.missed_ticks, errors, target.message)
        yield status.host, f"probe {target.target}", end or target.state, *seen
    for source in status.sources:
        done = (source.last_start_ns, source.runs, source.missed_ticks, source.failed_runs, source.message)
        yield status.host, source.name, end or source.state, *done


def _queued(queue: Waiting, moment: int) -> Iterator[str]:
    if queue.files:
        size, age = format_bytes(queue.bytes), format_seconds(queue.age_seconds(moment))
        yield f"{queue.files:,} files that were pushed wait for the lake ({size}), the oldest for {age}."
        if queue.trouble:
            yield f"The last try to write them failed: {queue.trouble}"


def _spooled(status: Status) -> str:
    spool: SpoolStatus = status.spool
    why = f" ({spool.dropped_why})" if spool.dropped_why else ""
    lost = f", {spool.dropped_rows:,} rows given up{why}" if spool.dropped_rows else ""
    held = f"{spool.files:,} files wait ({spool.bytes / 2**20:.1f} of {spool.limit_bytes / 2**20:.0f} MiB)"
    return f"Spool of {status.host} ({status.software_version}): {held}{lost}. {spool.message}"


@router.get("/fragments/unhealthy")
@cached_part()
def unhealthy(view: OwnView) -> str:
    result = view.ask("health", {}, period_for(view)).result
    assert isinstance(result, HealthOutcome)
    place = Place(view, "/health")
    columns = headed("""component; file system; how; from [time_ns]; to [time_ns]; probability [ratio];
        × usual [factor]; runs on it [count]; they lost [seconds]""")
    rows = [
        (
            u.component or "",
            u.filesystem or "",
            u.cause,
            u.start_ns,
            u.end_ns,
            u.probability,
            u.factor,
            u.runs,
            u.lost_seconds,
        )
        for u in result.unhealthy
    ]
    links = {
        "component": lambda row: place.to("components", row[0], **around_ns(row[3], row[4])),
        "file system": lambda row: place.to("filesystems", row[1], **around_ns(row[3], row[4])),
    }
    empty = "No unhealthy component was found in this period."
    return tables_part(Listed("Unhealthy components", columns, rows, links, empty))


@router.get("/fragments/lake")
@cached_part()
def held(view: OwnView) -> str:
    with view.lake.snapshot() as snapshot:
        found, series = inventory(snapshot), series_held(snapshot)
    counted = [(name, t["rows"], t["version"]) for name, t in found["tables"].items() if t["rows"]]
    columns = headed("""file system; kind; source; components [count]; step [seconds]; from [time_ns]; to [time_ns];
        rows [count]""")
    kept_out = [(q["path"], q["reason"], q["message"]) for q in found["quarantine"]]
    return tables_part(
        Listed("Tables", (("table", "text"), ("rows", "count"), ("version", "count")), counted),
        Listed(
            "Series of servers and devices",
            columns,
            [tuple(vars(s).values()) for s in series],
            empty="No series of servers and devices.",
        ),
        Listed(
            "Files in quarantine",
            (("file", "text"), ("reason", "text"), ("message", "text")),
            kept_out,
            empty="No file is in quarantine.",
        ),
    )


@router.get("/fragments/quality")
@cached_part()
def quality(view: PublicView) -> str:
    with view.lake.snapshot() as snapshot:
        counted = snapshot.query(_QUALITY_SQL).fetchall() if snapshot.pinned["series"].uris else []
    rows = [(source, _flags(flags), count) for source, flags, count in counted]
    columns = (("source", "text"), ("flags", "text"), ("samples", "count"))
    return tables_part(Listed("Samples by quality", columns, rows, empty="The lake holds no series."))


def _flags(bits: int | None) -> str:
    names = [str(flag.name).lower().replace("_", " ") for flag in Quality if flag & (bits or 0)]
    return ", ".join(names) or "none"


@router.get("/filesystems/{name}")
def filesystem_page(view: PublicView, name: str) -> Html:
    path = f"/filesystems/{quote(name, safe='')}"
    place = Place(view, path)
    parts = (
        (place.link("/fragments/storage", where=name), "Adding up the load…", "What it did"),
        (place.link("/fragments/runs", filesystem=name, order="slowest", days="1"), "Comparing runs…", "Runs"),
    )
    crumbs = [("Facility", place.link("/"))]
    return page("entity.html", view, path, name, heading="", parts=parts, default_ns=RANGE_NS, crumbs=crumbs)


@router.get("/components/{name}")
def component_page(view: PublicView, name: str) -> Html:
    path = f"/components/{quote(name, safe='')}"
    place = Place(view, path)
    parts = [(place.link("/fragments/storage", where=name), "Comparing with its peers…", "What it did")]
    if target_number(name) is not None:
        parts.append((place.link("/fragments/relief", target=name), "Looking for files to move…", "Files to move"))
    crumbs = [("Facility", place.link("/"))]
    return page("entity.html", view, path, name, heading="", parts=parts, default_ns=RANGE_NS, crumbs=crumbs)


@router.get("/fragments/relief")
@cached_part("Files to move")
def relief(view: OwnView, target: str) -> str:
    """Files to move off a target: by load, and by space where the lake has a list of files with their targets."""

    answers = [view.ask("relieve", {"target": target, "by": "load"}, period_for(view, RANGE_NS))]
    with suppress(DataUnavailable):
        answers.append(view.ask("relieve", {"target": target, "by": "space"}))
    return part("answers.html", sections=[answer_part(a, view.drawn(), second=True) for a in answers], all_later=True)


def _height(exhibit: Exhibit) -> int:
    """A line per target is wanted where targets are the rows."""
    chart = exhibit.charts[0]
    rows = len(set(chart.table.column("component"))) if chart.kind == "heatmap" else 0
    return min(max(CHART_PX, 12 * rows), 4 * CHART_PX)


@router.get("/fragments/storage")
@cached_part("{where}")
def storage(view: PublicView, where: str) -> str:
    answer = view.ask("storage", {"where": where}, period_for(view, RANGE_NS))
    result = answer.result
    assert isinstance(result, StorageOutcome)
    place = Place(view, "")
    tables = [events_table(place, result.events, "Events in this period")]
    tables += [components_table(place, result.components)] if result.components else []
    up = Markup("")
    if result.kind not in ("facility", "filesystem"):
        up = Markup('<p>Part of <a href="{}">{}</a></p>').format(
            place.to("filesystems", result.filesystem), result.filesystem
        )
    facts = answer_part(replace(answer, exhibits=()), view.drawn(), folded=False)
    with view.facilities.drawing():
        charts = [exhibit_section(e, 3, view.drawn(_height(e))) for e in answer.exhibits if e.charts]
    drawn = [Markup(chart) for chart in charts]
    return part("place_parts.html", up=up, facts=facts, charts=drawn, tables=tables, behind=behind(answer))


_MOST_EVENTS = 200
_MOST_RUNS = 20


@router.get("/events")
def events_page(view: PublicView, kind: str = "") -> Html:
    place = Place(view, "/events")
    parts = ((place.link("/fragments/events", kind=kind), "Looking for events…", "Events"),)
    return page("entity.html", view, "/events", "Events", heading="Events", parts=parts, crumbs=[])


@router.get("/fragments/events")
def events(
    view: PublicView,
    kind: str | None = None,
    most: Annotated[int, Query(ge=1, le=_MOST_EVENTS)] = _MOST_EVENTS,
    days: Annotated[int, Query(ge=0, le=36500)] = 0,
    troubles: bool = False,
) -> Html:
    """`days`: of the newest, where the page has no range. `troubles`: only what was wrong."""
    try:
        found = view.events(kind or None, period_for(view, days * DAY_NS or None))
        found = [event for event in found if event.kind in TROUBLES] if troubles else found
    except IoweatherError as error:
        return failed(error)
    notes = [f"{len(found) - most:,} older ones are not shown."] if len(found) > most else []
    title = "Troubles" if troubles else f"{min(most, len(found)):,} of {len(found):,} events, the newest first"
    return Html(tables_part(events_table(Place(view, ""), found[:most], title, brief=most < _MOST_EVENTS), notes=notes))


@router.get("/events/{event_id}")
def event_page(view: PublicView, event_id: str) -> Html:
    try:
        event = _event(view, event_id)
    except IoweatherError as error:
        return page("base.html", view, "/events", "No such event", status=status_of(error), body=problem(error))
    path = f"/events/{event_id}"
    if view.between == ("", ""):
        around = around_ns(event.start_ns, event.end_ns)
        view = replace(view, between=(around["from"], around["to"]))
    place = Place(view, path)
    parts = (
        (place.link(f"/fragments/events/{event_id}"), "Looking what the system did…", "What the system did"),
        (place.link(f"/fragments/events/{event_id}/runs"), "Looking who ran…", "Runs meanwhile"),
    )
    crumbs = [("Facility", place.link("/")), ("Events", place.link("/events"))]
    where = event.component or event.filesystem.removeprefix("mount:")
    crumbs += [(where, where_address(place, event))] if where_address(place, event) else []
    return page("entity.html", view, path, event.label, heading=event.label, parts=parts, crumbs=crumbs)


def _event(view: View, event_id: str) -> EventOutcome:
    found = next((e for e in view.events(None, ALL_TIME) if e.event_id == event_id), None)
    if found is None:
        raise DataUnavailable("There is no such event.", hint="It may have been found again with other bounds.")
    return found


@router.get("/fragments/events/{event_id}")
@cached_part()
def event(view: PublicView, event_id: str) -> str:
    found = _event(view, event_id)
    where = found.component or found.filesystem.removeprefix("mount:").split(" ")[0]
    try:
        answer = view.ask("storage", {"where": where or None}, period_for(view))
    except DataUnavailable:
        answer = view.ask("storage", {}, period_for(view))
    span = Reference("x", found.start_ns, "this event", found.end_ns or period_for(view)[1])
    exhibits = [
        replace(e, charts=tuple(replace(c, references=(span,)) for c in e.charts))
        for e in answer.exhibits
        if e.charts and e.charts[0].kind == "timeline"
    ]
    with view.facilities.drawing():
        charts = [Markup(exhibit_section(e, 2, view.drawn(CHART_PX))) for e in exhibits]
    tables = [events_table(Place(view, ""), [found], "This event", brief=True)]
    return part("place_parts.html", up="", facts=tables_part(*tables), charts=charts, tables=[], behind="")


@router.get("/fragments/events/{event_id}/runs")
@cached_part()
def event_runs(view: OwnView, event_id: str) -> str:
    found = _event(view, event_id)
    period = (found.start_ns, found.end_ns or period_for(view)[1])
    result = view.ask("runs", {"order": "slowest", "most": _MOST_RUNS}, period).result
    assert isinstance(result, RunsOutcome)
    title = f"Slowest of {result.count:,} runs meanwhile"
    return tables_part(runs_table(Place(view, ""), result.runs, title))


_MOST_ON_OVERVIEW = 4


@router.get("/who")
def who_page(view: PublicView) -> Html:
    parts = ((Place(view, "/who").link("/fragments/who"), "Looking who it was…", "Who it was"),)
    return page("entity.html", view, "/who", "Who", heading="", parts=parts, crumbs=[], default_ns=RANGE_NS)


@router.get("/fragments/who")
@cached_part("Who")
def who(view: OwnView) -> str:
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


@router.get("/fragments/busiest")
@cached_part()
def busiest(view: OwnView, days: int = 0) -> str:
    """For the overview: who moved most in the last hour of the period."""

    result = view.ask("who", {"by": "user"}, last_hour(view)).result
    assert isinstance(result, WhoOutcome)
    title = "Who moved most in the last hour of this period"
    culprits = _culprits(view, result)
    tables = [culprits] if culprits.rows else []
    return tables_part(*tables, _talkers(view, result, title, _MOST_ON_OVERVIEW))


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
