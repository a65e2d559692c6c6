"""Tables of runs, events and components with their links: from each name to its page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from markupsafe import Markup

from ioweather.core.outcomes import ComponentState, EventOutcome, RunOutcome
from ioweather.core.results import Answer, Exhibit
from ioweather.core.run_outcomes import JobOutcome
from ioweather.core.units import MINUTE_NS, format_seconds, format_time_ns
from ioweather.job_io.job_page import NOT_SHOWN
from ioweather.ui.web.shell import Listed, Place, headed, tables_part


def runs_table(place: Place, runs: Sequence[RunOutcome], title: str, *, brief: bool = False) -> Listed:
    columns = headed("""job; user; project; program; processes [count]; start [time_ns]; read [bytes]; written [bytes];
        I/O time [seconds]; × similar [factor]; verdict""")
    rows = [
        (
            str(r.job_id),
            r.user,
            r.project,
            r.program,
            r.processes,
            r.start_ns,
            r.read_bytes,
            r.write_bytes,
            r.io_seconds,
            r.slowness,
            r.verdict_words,
        )
        for r in runs
    ]
    judged = any(r.verdict for r in runs)
    shown = [i for i in ((0, 1, 3, 5, 8, 9, 10) if brief else range(len(columns))) if judged or i < 10]
    links = {
        "job": lambda row: place.to("jobs", row[0]),
        "user": lambda row: place.to("users", row[1]),
        "project": lambda row: place.to("projects", row[2]),
        "program": lambda row: place.to("programs", row[2 if brief else 3]),
    }
    return Listed(
        title,
        [columns[i] for i in shown],
        [tuple(row[i] for i in shown) for row in rows],
        links,
        "No run with a Darshan log matches. Choose a longer period, or ingest logs: ioweather ingest LOGS",
        "brief" if brief else "all",
    )


def files_part(place: Place, exhibit: Exhibit, job_id: str) -> Markup:
    """The largest files of a job, with their pages; none of a log that was sent, and of a path that is not shown."""

    def address(row: Sequence[object]) -> str:
        has_page = job_id and row[0] != NOT_SHOWN
        return place.link(f"/jobs/{job_id}/file", path=str(row[0])) if has_page else ""

    tables = [
        Listed(t.title, [(c.heading, c.unit) for c in t.columns], t.rows, {"file": address}, tools="brief")
        for t in exhibit.tables
    ]
    return tables_part(*tables, notes=exhibit.caveats)


def events_table(place: Place, events: Iterable[EventOutcome], title: str, *, brief: bool = False) -> Listed:
    """`brief`: without the kind, for half a screen."""
    columns = headed("from [time_ns]; to [time_ns]; kind; where; what; strength [factor]")
    found = list(events)
    rows = [
        (
            e.start_ns,
            e.end_ns,
            e.kind.replace("_", " "),
            e.component or e.filesystem.removeprefix("mount:"),
            e.label,
            e.strength_ratio,
        )
        for e in found
    ]
    shown = (0, 1, 3, 4, 5) if brief else range(6)
    listed = [tuple(row[i] for i in shown) for row in rows]
    of_row = dict(zip(listed, found, strict=True))
    links = {
        "from": lambda row: event_address(place, of_row[tuple(row)]),
        "where": lambda row: where_address(place, of_row[tuple(row)]),
    }
    return Listed(
        title,
        [columns[i] for i in shown],
        listed,
        links,
        "No events recorded in this period.",
        "brief" if brief else "all",
    )


def event_address(place: Place, event: EventOutcome) -> str:
    """The page of the event; of one without an id (a maintenance window), its time on the overview."""
    around = around_ns(event.start_ns, event.end_ns)
    return place.to("events", event.event_id, **around) or place.link("/", **around)


def where_address(place: Place, event: EventOutcome) -> str:
    if event.component:
        return place.to("components", event.component)
    name = event.filesystem.removeprefix("mount:").split(" ")[0]
    return place.to("filesystems", name) if name and not name.startswith("/") else ""


def around_ns(start_ns: int, end_ns: int | None) -> dict[str, str]:
    """A range that shows a stretch with what was before and after it, as an address has it."""
    length = max((end_ns or start_ns + 60 * MINUTE_NS) - start_ns, 30 * MINUTE_NS)
    low, high = start_ns - length, (end_ns or start_ns + length) + length
    return {name: minute_text(moment) for name, moment in (("from", low), ("to", high))}


def minute_text(moment_ns: int) -> str:
    text = format_time_ns(moment_ns // MINUTE_NS * MINUTE_NS)
    return f"{text[:10]}T{text[11:16]}Z"


def components_table(place: Place, components: Sequence[ComponentState]) -> Listed:
    columns = headed("target; server; read [bytes]; written [bytes]; share [ratio]; highest rate [bytes_per_s]")
    rows = [
        (c.component, c.server or "", c.read_bytes, c.write_bytes, c.bytes_ratio, c.most_bytes_per_s)
        for c in components
    ]
    links = {"target": lambda row: place.to("components", row[0]), "server": lambda row: place.to("components", row[1])}
    return Listed("Targets", columns, rows, links)


def where_to(place: Place, filesystem: str | None, facts: Answer) -> Iterator[tuple[str, str, str]]:
    """What the run belongs to, each with its page; the links show the time of the run."""
    result = facts.result
    if not isinstance(result, JobOutcome):
        return
    around = around_ns(result.start_ns, result.end_ns)
    if result.user:
        yield "user", result.user, place.to("users", result.user)
    if result.project:
        yield "project", result.project, place.to("projects", result.project)
    if result.program:
        yield "program", result.program, place.to("programs", result.program)
    if filesystem:
        yield "file system", filesystem, place.to("filesystems", filesystem, **around)
    took = f"{format_time_ns(result.start_ns)[:16]}, {format_seconds((result.end_ns - result.start_ns) / 1e9)}"
    yield "ran", took, place.link("/", **around)
    if result.processes:
        yield "processes", f"{result.processes:,}", ""
