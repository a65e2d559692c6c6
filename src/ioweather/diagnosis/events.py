"""`events`: what happened, the newest first; maintenance windows of the facility file among them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from ioweather.core.contracts import Param, Params, Question
from ioweather.core.facility import Facility
from ioweather.core.outcomes import EventOutcome, EventsOutcome
from ioweather.core.results import Answer, Coverage, Exhibit, Fact, FactGroup, ResultTable, columns_of
from ioweather.core.words import names_of
from ioweather.topics.source import DataSource

KINDS: Final = ("annotation", "component_health", "episode", "gap", "incident", "maintenance", "phase")
_COLUMNS: Final = columns_of(
    "start_ns: from [time_ns]; end_ns: to [time_ns]; kind [text]; filesystem: where [text]; label: what [text]; "
    "strength_ratio: strength [factor]; source [text]"
)


def run(source: DataSource, params: Params) -> Answer:
    """Events of the period, stored or in the facility file."""
    low, high = source.period_ns
    every = events_of(source)
    found = [
        event
        for event in every
        if event.start_ns < high and (event.end_ns or high) > low and params["kind"] in (None, event.kind)
    ]
    found = newest_first(found)
    if params["strongest"]:
        found.sort(key=lambda event: -(event.strength_ratio or 0.0))
    rows = tuple(tuple(getattr(event, column.name) for column in _COLUMNS) for event in found)
    counts = Counter(event.kind for event in found)
    facts = tuple(Fact(kind, kind.replace("_", " "), counts[kind], "count") for kind in sorted(counts))
    return Answer(
        question="What happened?",
        headline=f"{len(found):,} event{'s' if len(found) != 1 else ''} recorded." if found else _NOTHING,
        facts=(FactGroup("kinds", "Events by kind", facts),) if facts else (),
        exhibits=(Exhibit("events", "Events", tables=(ResultTable("events", _COLUMNS, rows),)),),
        coverage=(Coverage(len(every), len(found), "events in the lake, within what was asked"),),
        name="events",
        result=EventsOutcome(tuple(found)),
    )


_STORED: Final = names_of("event_id kind system component label start_ns end_ns strength_ratio source")
_NOTHING: Final = "No events recorded."


def newest_first(events: Iterable[EventOutcome]) -> list[EventOutcome]:
    """Those that began together always in the same order."""
    return sorted(events, key=lambda each: (-each.start_ns, each.kind, each.label, each.filesystem, each.event_id))


def events_of(source: DataSource) -> list[EventOutcome]:
    """All stored events, and the maintenance windows of the facility file."""
    return [*_stored(source), *_maintenance(source.facility)]


def _stored(source: DataSource) -> Iterator[EventOutcome]:
    events, facility = source.frame("events", _STORED, optional=True, any_time=True), source.facility
    for row in events.records():
        filesystem = facility.filesystem_of(row["system"]) if row["system"] else None
        where = " ".join(filter(None, [filesystem, row["component"]]))
        when = (row["start_ns"], row["end_ns"], row["strength_ratio"])
        yield EventOutcome(row["kind"], where, row["label"], *when, row["source"], row["event_id"], row["component"])


def _maintenance(facility: Facility) -> Iterator[EventOutcome]:
    for window in facility.maintenance:
        label = window.label or "maintenance"
        yield EventOutcome("maintenance", "", label, window.start_ns, window.end_ns, None, "facility.toml")


QUESTION = Question(
    name="events",
    result=EventsOutcome,
    run=run,
    tables=frozenset({"events"}),
    params=(
        Param("kind", "Only events of this kind.", choices=KINDS),
        Param("strongest", "The strongest first, not the newest.", "flag", default=False),
    ),
    help="""List what happened: slow episodes, phases of benchmarks, incidents, maintenance, gaps.

    Episodes and unhealthy components (--kind component_health) are searched for when rows come in; `ioweather health`
    says more of the latter. `ioweather lake compact --everything` searches all rows again.""",
    epilog="Example: ioweather events --kind episode --from 2026-11-01",
    seen_by="public",
    page=False,
    table="events",
)
