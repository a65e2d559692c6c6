"""Of *Health*: agents, what the lake holds and refused, the quality of its samples."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fastapi import APIRouter

from ioweather.agent.status import SpoolStatus, Status, read_status, remote_agents
from ioweather.core.clock import now_ns
from ioweather.core.errors import DataUnavailable
from ioweather.core.outcomes import HealthOutcome
from ioweather.core.tables.series import Quality
from ioweather.core.units import format_bytes, format_seconds
from ioweather.ingestion.queue import Waiting, waiting
from ioweather.ui.web.links import around_ns
from ioweather.ui.web.parts import failed, kept
from ioweather.ui.web.queries import inventory, series_held
from ioweather.ui.web.ranges import period_for
from ioweather.ui.web.shell import Html, Listed, Place, headed, tables_part
from ioweather.ui.web.visible import OwnView, PublicView, View

router = APIRouter(prefix="/fragments", include_in_schema=False, default_response_class=Html)
_QUALITY_SQL = "SELECT source, quality, count(*) FROM series GROUP BY ALL ORDER BY source, quality"


@router.get("/agents")
def agents(view: PublicView) -> Html:
    """Of the main facility: only it is measured from here."""
    try:
        view.facilities.measured(view.name)
    except DataUnavailable as error:
        return failed(error)
    return Html(view.facilities.lately("agents", lambda: _agents(view).encode()))


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
    """`end` is what became of the agent, where it is no more."""
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


@router.get("/unhealthy")
def unhealthy(view: OwnView) -> Html:
    def make() -> str:
        result = view.ask("health", {}, period_for(view)).result
        assert isinstance(result, HealthOutcome)
        place = Place(view, "/health")
        columns = headed("""component; file system; how; from [time_ns]; to [time_ns]; probability [ratio];
            × usual [factor]; runs on it [count]; they lost [seconds]""")
        rows = [(u.component or "", u.filesystem or "", u.cause, u.start_ns, u.end_ns, u.probability, u.factor, u.runs,
                 u.lost_seconds) for u in result.unhealthy]  # fmt: skip
        links = {
            "component": lambda row: place.to("components", row[0], **around_ns(row[3], row[4])),
            "file system": lambda row: place.to("filesystems", row[1], **around_ns(row[3], row[4])),
        }
        empty = "No unhealthy component was found in this period."
        return tables_part(Listed("Unhealthy components", columns, rows, links, empty))

    return kept(view, "unhealthy", make)


@router.get("/lake")
def held(view: OwnView) -> Html:
    def make() -> str:
        with view.lake.snapshot() as snapshot:
            found, series = inventory(snapshot), series_held(snapshot)
        counted = [(name, t["rows"], t["version"]) for name, t in found["tables"].items() if t["rows"]]
        columns = headed("""file system; kind; source; components [count]; step [seconds]; from [time_ns]; to [time_ns];
            rows [count]""")
        kept_out = [(q["path"], q["reason"], q["message"]) for q in found["quarantine"]]
        return tables_part(
            Listed("Tables", (("table", "text"), ("rows", "count"), ("version", "count")), counted),
            Listed("Series of servers and devices", columns, [tuple(vars(s).values()) for s in series],
                   empty="No series of servers and devices."),
            Listed("Files in quarantine", (("file", "text"), ("reason", "text"), ("message", "text")), kept_out,
                   empty="No file is in quarantine."),
        )  # fmt: skip

    return kept(view, "lake", make)


@router.get("/quality")
def quality(view: PublicView) -> Html:
    def make() -> str:
        with view.lake.snapshot() as snapshot:
            counted = snapshot.query(_QUALITY_SQL).fetchall() if snapshot.pinned["series"].uris else []
        rows = [(source, _flags(flags), count) for source, flags, count in counted]
        columns = (("source", "text"), ("flags", "text"), ("samples", "count"))
        return tables_part(Listed("Samples by quality", columns, rows, empty="The lake holds no series."))

    return kept(view, "quality", make)


def _flags(bits: int | None) -> str:
    names = [str(flag.name).lower().replace("_", " ") for flag in Quality if flag & (bits or 0)]
    return ", ".join(names) or "none"
