"""The pages of file systems, servers and targets, of events, *Who*, and the parts of *Health*."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Query
from markupsafe import Markup

from ioweather.agent.status import SpoolStatus, Status, read_status, remote_agents
from ioweather.core.clock import now_ns
from ioweather.core.errors import DataUnavailable, IoweatherError
from ioweather.core.outcomes import TROUBLES, EventOutcome, RunsOutcome, StorageOutcome, WhoOutcome
from ioweather.core.results import Answer, Block, Fact, FactGroup, Items, Reference, ResultTable
from ioweather.core.tables import Quality
from ioweather.core.units import DAY_NS, format_bytes, format_seconds, format_value
from ioweather.facts.run_targets import target_number
from ioweather.ingestion.queue import Waiting, waiting
from ioweather.topics.analyse import ALL_TIME
from ioweather.ui.charts.page import block_html
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
    figure,
    headed,
    items_part,
    page,
    part,
    problem,
    runs_table,
    tables_part,
    where_address,
)
from ioweather.ui.web.visible import OwnView, PublicView, View

router = APIRouter(include_in_schema=False, default_response_class=Html)
_MAIN = 0.66  # the main column's share of a page
_PANEL_PX = 40
_MOST_LINES = 4
_MOST_TILES = 32
_MOST_STEPS = 96
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
            rows.append((agent.host, "no status", state, agent.heard_ns, None, None, None, ""))
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
        yield f"{queue.files:,} pushed files are queued for the lake ({size}), the oldest for {age}."
        if queue.trouble:
            yield f"The last try to write them failed: {queue.trouble}"


def _spooled(status: Status) -> str:
    spool: SpoolStatus = status.spool
    why = f" ({spool.dropped_why})" if spool.dropped_why else ""
    lost = f", {spool.dropped_rows:,} rows given up{why}" if spool.dropped_rows else ""
    held = f"{spool.files:,} files wait ({spool.bytes / 2**20:.1f} of {spool.limit_bytes / 2**20:.0f} MiB)"
    return f"Spool of {status.host} ({status.software_version}): {held}{lost}. {spool.message}"


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
    return tables_part(Listed("Samples by their flags", columns, rows, empty="No samples of servers or devices."))


def _flags(bits: int | None) -> str:
    names = [str(flag.name).lower().replace("_", " ") for flag in Quality if flag & (bits or 0)]
    return ", ".join(names) or "none"


@router.get("/storage")
def storage_page(view: PublicView, size: str = "", op: str = "write") -> Html:
    return page("storage.html", view, "/storage", "Storage", size=size, op=op, default_ns=RANGE_NS)


@router.get("/fragments/storage_home")
@cached_part("Storage")
def storage_home(view: PublicView) -> str:
    """The only file system; of several, what each does."""
    result = view.ask("storage", {}, period_for(view, RANGE_NS)).result
    assert isinstance(result, StorageOutcome)
    names = [state.filesystem for state in result.filesystems]
    return _storage(view, names[0] if len(names) == 1 else None)


@router.get("/filesystems/{name}")
def filesystem_page(view: PublicView, name: str) -> Html:
    path = f"/filesystems/{quote(name, safe='')}"
    place = Place(view, path)
    parts = (
        (place.link("/fragments/storage", where=name), "Adding up the load…", "What it did"),
        (place.link("/fragments/runs", filesystem=name, order="slowest", days="1"), "Comparing runs…", "Runs"),
    )
    return page("entity.html", view, path, name, heading="", parts=parts, default_ns=RANGE_NS, crumbs=[])


@router.get("/components/{name}")
def component_page(view: PublicView, name: str) -> Html:
    path = f"/components/{quote(name, safe='')}"
    place = Place(view, path)
    parts = [(place.link("/fragments/storage", where=name), "Comparing with its peers…", "What it did")]
    if target_number(name) is not None:
        parts.append((place.link("/fragments/relief", target=name), "Looking for files to move…", "Files to move"))
    return page("entity.html", view, path, name, heading="", parts=parts, default_ns=RANGE_NS, crumbs=[])


@router.get("/fragments/relief")
@cached_part("Files to move")
def relief(view: OwnView, target: str) -> str:
    """Files to move off a target: by load, and by space where the lake has a list of files with their targets."""

    answers = [view.ask("relieve", {"target": target, "by": "load"}, period_for(view, RANGE_NS))]
    with suppress(DataUnavailable):
        answers.append(view.ask("relieve", {"target": target, "by": "space"}))
    return part("answers.html", sections=[answer_part(a, view.drawn(), second=True) for a in answers], all_later=True)


@router.get("/fragments/storage")
@cached_part("{where}")
def storage(view: PublicView, where: str) -> str:
    return _storage(view, where)


def _storage(view: View, where: str | None) -> str:
    """The state, load and slowdown on one time axis, problems beside them, and small multiples of the targets."""
    answer = view.ask("storage", {"where": where} if where else {}, period_for(view, RANGE_NS))
    result = answer.result
    assert isinstance(result, StorageOutcome)
    place = Place(view, "")
    tables = [components_table(place, result.components)] if result.components else []
    tables.append(events_table(place, result.events, "Events in this period"))
    up = [("Storage", place.link("/storage"))]
    if result.kind not in ("facility", "filesystem"):
        up.append((str(result.filesystem), place.to("filesystems", result.filesystem)))
    charts = [(e.title, chart) for e in answer.exhibits for chart in e.charts if chart.kind == "timeline"]
    problems = [block for block in answer.blocks if isinstance(block, Items)]
    share = _MAIN if problems else 1.0
    with view.facilities.drawing():
        drawn = [
            figure(
                replace(chart, title=chart.title or title), f"line{number}", view.drawn(CHART_PX, share, _PANEL_PX), 2
            )
            for number, (title, chart) in enumerate(charts[:_MOST_LINES])
        ]
    state = next((block for block in answer.blocks if isinstance(block, (FactGroup, ResultTable))), None)
    side = [items_part(place, block) for block in problems]
    side += [block_html(state, 3, view.drawn(), "state")] if state is not None else []
    return part(
        "place_parts.html",
        up=part("crumbs.html", crumbs=up),
        facts=Markup("<h1>{}</h1>").format(answer.headline),
        charts=drawn,
        side=side,
        tiles=_tiles(place, answer, result),
        tables=tables,
        behind=behind(answer),
    )


@dataclass(frozen=True)
class Tile:
    """A target: its rate over the period as polygons (gaps are gaps), and what is wrong with it, if anything."""

    name: str
    address: str
    rates: Sequence[float | None]
    shapes: Sequence[str]
    context: str
    words: str


def _tiles(place: Place, answer: Answer, result: StorageOutcome) -> str:
    """Targets as small multiples on one scale, by server; of hundreds the sick ones and the busiest."""
    heat = next((c for e in answer.exhibits for c in e.charts if c.kind == "heatmap"), None)
    if heat is None or not result.components:
        return ""
    rates: dict[str, list[float | None]] = {}
    for _, name, rate in heat.table.rows:
        rates.setdefault(str(name), []).append(rate if isinstance(rate, (int, float)) else None)
    sick = {event.component: event for event in result.events if event.kind == "component_health"}
    top = max((rate for values in rates.values() for rate in values if rate is not None), default=0.0) or 1.0
    parts = sorted(result.components, key=lambda c: (c.component not in sick, -(c.most_bytes_per_s or 0.0)))
    chosen = parts if len(parts) <= _MOST_TILES else parts[:_MOST_TILES]
    tiles = []
    for part_ in sorted(chosen, key=lambda c: (c.server or "", c.component)):
        values = _thinned(rates.get(part_.component, []))
        moved = (part_.read_bytes or 0.0) + (part_.write_bytes or 0.0)
        most = format_value(part_.most_bytes_per_s, "bytes_per_s")
        context = f"{part_.server or ''} · max {most} · {format_bytes(moved)}".removeprefix(" · ")
        event = sick.get(part_.component)
        words = f"{event.label.partition(', for ')[0].removeprefix(f'{event.component} ')}" if event else ""
        tiles.append(
            Tile(
                part_.component.removeprefix(f"{result.filesystem}-"),
                place.to("components", part_.component),
                values,
                list(_polygons(values, top)),
                context,
                words,
            )
        )
    title = f"{len(parts):,} targets" + (
        f" on {len({c.server for c in parts if c.server}):,} servers" if parts[0].server else ""
    )
    return part("tiles.html", title=title, tiles=tiles, left=len(parts) - len(chosen))


def _thinned(values: Sequence[float | None]) -> list[float | None]:
    """The highest rate of each of at most `_MOST_STEPS` stretches."""
    size = -(-len(values) // _MOST_STEPS) or 1
    pieces = ([v for v in values[i : i + size] if v is not None] for i in range(0, len(values), size))
    return [max(piece, default=None) for piece in pieces]


def _polygons(values: Sequence[float | None], top: float) -> Iterator[str]:
    """An area per stretch without gaps, in a box 40 high."""
    for known, run in groupby(enumerate(values), key=lambda each: each[1] is not None):
        if known:
            points = [(place, 40 - 38 * (value or 0.0) / top) for place, value in run]
            first, last = points[0][0], points[-1][0] + 1
            line = [*points, (last, points[-1][1]), (last, 40), (first, 40)]
            yield " ".join(f"{x},{y:.1f}" for x, y in line)


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
    title = "Problems" if troubles else f"{min(most, len(found)):,} of {len(found):,} events, the newest first"
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
        (place.link(f"/fragments/events/{event_id}"), "Drawing what the system did…", "What the system did"),
        (place.link(f"/fragments/events/{event_id}/runs"), "Finding the runs…", "Runs during it"),
    )
    crumbs = [("Events", place.link("/events"))]
    where = event.component or event.filesystem.removeprefix("mount:")
    crumbs += [(where, where_address(place, event))] if where_address(place, event) else []
    return page("entity.html", view, path, event.label, heading=event.label, parts=parts, crumbs=crumbs)


def _event(view: View, event_id: str) -> EventOutcome:
    found = next((e for e in view.events(None, ALL_TIME) if e.event_id == event_id), None)
    if found is None:
        raise DataUnavailable("No such event.", hint="It may have been detected again with a different start or end.")
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
    lines = [
        replace(chart, title=e.title, references=(span,))
        for e in answer.exhibits
        for chart in e.charts
        if chart.kind == "timeline"
    ]
    drawn = view.drawn(CHART_PX, 1.0, _PANEL_PX)
    with view.facilities.drawing():
        charts = [figure(chart, f"event{number}", drawn, 2) for number, chart in enumerate(lines[:_MOST_LINES])]
    facts = tables_part(events_table(Place(view, ""), [found], "This event", brief=True))
    return part(
        "place_parts.html", up="", facts=facts, charts=charts, side=[], tiles="", tables=[], behind=behind(answer)
    )


@router.get("/fragments/events/{event_id}/runs")
@cached_part()
def event_runs(view: OwnView, event_id: str) -> str:
    found = _event(view, event_id)
    period = (found.start_ns, found.end_ns or period_for(view)[1])
    result = view.ask("runs", {"order": "slowest", "most": _MOST_RUNS}, period).result
    assert isinstance(result, RunsOutcome)
    title = f"Slowest of {result.count:,} runs during this event"
    return tables_part(runs_table(Place(view, ""), result.runs, title))


_MOST_ON_OVERVIEW = 4


@router.get("/who")
def who_page(view: PublicView) -> Html:
    parts = ((Place(view, "/who").link("/fragments/who"), "Finding out who…", "Who"),)
    return page("entity.html", view, "/who", "Who", heading="", parts=parts, crumbs=[], default_ns=RANGE_NS)


@router.get("/fragments/who")
@cached_part("Who")
def who(view: OwnView) -> str:
    low, high = period_for(view, RANGE_NS)
    # With nothing chosen `who` is about the last hour; here all data are meant.
    answer = view.ask("who", {"by": "user"}, (low, min(high, (data_end_ns(view) or high - 1) + 1)))
    result = answer.result
    assert isinstance(result, WhoOutcome)
    said = replace(answer, facts=(), exhibits=(), findings=())
    return part(
        "place_parts.html",
        up="",
        facts=answer_part(said, view.drawn(), folded=False),
        charts=[],
        side=[],
        tiles="",
        behind=behind(answer),
        tables=[_culprits(view, result), _talkers(view, result, "Who moved most", 50)],
    )


@router.get("/fragments/busiest")
@cached_part()
def busiest(view: OwnView) -> str:
    """Users by what their jobs moved in the period."""
    low, high = period_for(view, RANGE_NS)
    answer = view.ask("who", {"by": "user"}, (low, min(high, (data_end_ns(view) or high - 1) + 1)))
    result = answer.result
    assert isinstance(result, WhoOutcome)
    found = [talker for talker in result.talkers if talker.read_bytes + talker.write_bytes][:_MOST_ON_OVERVIEW]
    if not found:
        return Markup('<p class="quiet">No logged job in this period.</p>')
    most = max(talker.read_bytes + talker.write_bytes for talker in found)
    facts = tuple(
        Fact(f"user_{n}", t.user or "not known", moved, "bytes", moved / most, f"{format_bytes(t.read_bytes)} read")
        for n, t in enumerate(found)
        for moved in [t.read_bytes + t.write_bytes]
    )
    said = [finding for finding in answer.findings if finding.name == "known"]
    blocks: list[Block] = [FactGroup("users", "", facts), *said]
    return Markup("").join(block_html(block, 3, view.drawn(), "busiest") for block in blocks)


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
    return Listed("Jobs that slowed others", columns, rows, links, "No job was found that slowed others.", "brief")


def _talkers(view: View, result: WhoOutcome, title: str, most: int) -> Listed:
    place = Place(view, "/who")
    columns = (("user", "text"), ("read", "bytes"), ("written", "bytes"), ("share", "ratio"), ("metadata", "count"))
    rows: list[tuple[Any, ...]] = [
        (t.user or "not known", t.read_bytes, t.write_bytes, t.bytes_ratio, round(t.metadata_operations))
        for t in result.talkers[:most]
    ]
    links = {"user": lambda row: place.to("users", row[0]) if row[0] != "not known" else ""}
    return Listed(title, columns, rows, links, f"{title}: no job records.", "brief")
