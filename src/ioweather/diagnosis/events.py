"""`events`: what happened, the newest first; maintenance windows of the facility file among them."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ioweather.core.contracts import Param, Params, Question
from ioweather.core.frames import Bools, Frame
from ioweather.core.results import (
    Answer,
    Block,
    Coverage,
    Exhibit,
    Item,
    Items,
    ResultTable,
    columns_of,
)
from ioweather.core.tables import TABLES, concat
from ioweather.core.units import HOUR_NS, MINUTE_NS, names_of
from ioweather.facts.slowdown import ROLLUP_COLUMNS, Episode, all_episodes, operation_series, usual_requests

if TYPE_CHECKING:
    from ioweather.lake.lake import Lake
    from ioweather.topics.source import DataSource

# Kinds of events that say that something was wrong; the most serious first.
TROUBLES: Final = ("incident", "component_health", "episode")


@dataclass(frozen=True)
class EventOutcome:
    """An event. `filesystem` also names the component, `strength_ratio` is a slowdown; `end_ns` None: it continues."""

    kind: str
    filesystem: str
    label: str
    start_ns: int
    end_ns: int | None
    strength_ratio: float | None
    source: str
    event_id: str = ""
    component: str | None = None


@dataclass(frozen=True)
class EventsOutcome:
    """The selected events, in the order asked for."""

    events: tuple[EventOutcome, ...]


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
    return Answer(
        question="What happened?",
        headline=f"{count_by_kind(found)}." if found else _NOTHING,
        exhibits=(Exhibit("events", "Events", tables=(ResultTable("events", _COLUMNS, rows),)),),
        coverage=(Coverage(len(every), len(found), "matching events in the lake"),),
        name="events",
        result=EventsOutcome(tuple(found)),
    )


_STORED: Final = names_of("event_id kind system component label start_ns end_ns strength_ratio source")
_NAMES: Final = {
    "component_health": "unhealthy component",
    "episode": "slow episode",
    "maintenance": "maintenance window",
    "phase": "benchmark phase",
}
_NOTHING: Final = "No events recorded."


def count_by_kind(events: Iterable[EventOutcome]) -> str:
    """Return how many events there are of each kind, such as `9 unhealthy components, 1 slow episode`."""
    counts = Counter(_NAMES.get(event.kind, event.kind) for event in events)
    return ", ".join(f"{n:,} {name}{'s' if n != 1 else ''}" for name, n in sorted(counts.items(), reverse=True))


def newest_first(events: Iterable[EventOutcome]) -> list[EventOutcome]:
    """Sort events by time, the newest first; ties in a fixed order."""
    return sorted(events, key=lambda each: (-each.start_ns, each.kind, each.label, each.filesystem, each.event_id))


def events_of(source: DataSource) -> list[EventOutcome]:
    """All stored events, and the maintenance windows of the facility file."""
    facility, found = source.facility, list[EventOutcome]()
    for row in source.frame("events", _STORED, optional=True, any_time=True).records():
        filesystem = facility.filesystem_of(row["system"]) if row["system"] else None
        where = " ".join(filter(None, [filesystem, row["component"]]))
        same = {name: row[name] for name in ("kind", "label", "start_ns", "end_ns", "strength_ratio", "source")}
        found.append(EventOutcome(filesystem=where, event_id=row["event_id"], component=row["component"], **same))
    for window in facility.maintenance:
        label = window.label or "maintenance"
        found.append(EventOutcome("maintenance", "", label, window.start_ns, window.end_ns, None, "facility.toml"))
    return found


def events_screen(answer: Answer, params: Params) -> Iterator[Block]:
    """What happened, the newest first; phases of benchmarks only where they were asked for."""
    result = answer.result
    assert isinstance(result, EventsOutcome)
    phases = [event for event in result.events if event.kind == "phase"]
    found = [event for event in result.events if event.kind != "phase"] or phases
    items = tuple(event_item(event) for event in found[:20])
    left = [f"{len(found) - len(items):,} more: narrow with --from, --to or --kind"] if len(found) > len(items) else []
    left += [f"{len(phases):,} benchmark phases: list them with --kind phase"] if phases and found is not phases else []
    if items:
        yield Items("", items, more="; ".join(left))


def without_name(label: str, component: str | None) -> str:
    """Return the label of an event without the name of its component and without its duration."""
    return label.partition(", for ")[0].removeprefix(f"{component} ").replace(f" on {component}", "", 1)


def event_item(event: EventOutcome) -> Item:
    """Return the event as a row with name and time, which its text leaves out."""
    where = event.component or event.filesystem.removeprefix("mount:") or "facility"
    text = without_name(event.label, event.component)
    if event.kind == "episode" and event.strength_ratio is not None:
        text = f"{text}, {event.strength_ratio:.1f}x its usual time"
    return Item(where, text, event.start_ns, event.end_ns, page=f"components/{where}" if event.component else "")


QUESTION = Question(
    name="events",
    result=EventsOutcome,
    run=run,
    tables=frozenset({"events"}),
    params=(
        Param("kind", "Only events of this kind.", choices=KINDS),
        Param("strongest", "Sort by strength instead of time.", "flag", default=False),
    ),
    help="""List events: slow episodes, benchmark phases, incidents, maintenance and gaps.

    Episodes and unhealthy components (--kind component_health) are detected when rows are ingested; `ioweather health`
    has details of unhealthy components. To search all rows again, run `ioweather lake compact --everything`.""",
    epilog="Example: ioweather events --kind episode --from 2026-11-01",
    seen_by="public",
    page=False,
    table="events",
    blocks=events_screen,
)


# Slow episodes: found in the roll-ups of responses when rows arrive, and stored as events.

SOURCE: Final = "episodes"
_THRESHOLD: Final = 2.0
# Longer histories are searched by the hour.
_FINE_NS: Final = 14 * 24 * HOUR_NS
_DETAILS: Final = ("op", "request_bytes", "mode", "interval_ns", "peak_ns", "recovery_ns")


def find_episodes(lake: Lake) -> int:
    """Store new and changed episodes and withdraw those no longer found; return the number of these rows.

    A moving baseline, late rows and another interval change the bounds of an episode: of overlapping episodes, the new
    one counts.
    """
    with lake.snapshot() as snapshot:
        if not snapshot.pinned["response_rollups"].uris:
            return 0
        last = snapshot.scalar("SELECT max(start_ns) FROM response_rollups")
        first = snapshot.scalar("SELECT min(start_ns) FROM response_rollups")
        assert isinstance(last, int)
        assert isinstance(first, int)
        interval = MINUTE_NS * 10 if last - first <= _FINE_NS else HOUR_NS
        rollups = snapshot.frame("response_rollups", ROLLUP_COLUMNS, {"interval_ns": interval})
        stored = snapshot.frame("events", where={"kind": "episode", "source": SOURCE, "start_ns >=": first})
    # Episodes have raw system names; readers map them to file systems.
    series = usual_requests(operation_series(rollups, {}, interval))
    found = _episode_rows(all_episodes(series, _THRESHOLD, snapshot.facility.baseline_ns))
    gone = _is_withdrawn(stored, found, interval)
    return replace_events(lake, found, stored.take(gone), SOURCE)


def replace_events(lake: Lake, found: Frame, gone: Frame, source: str) -> int:
    """Store the events found and withdraw those that are gone; return the number of new rows."""
    withdrawn = gone.with_columns(withdrawn=np.ones(gone.rows, np.bool_))
    return lake.append("events", concat([found, withdrawn]), source=source)


def _is_withdrawn(stored: Frame, found: Frame, interval_ns: int) -> Bools:
    """Stored episodes that are replaced or no longer found.

    An episode that was found with shorter intervals, and has ended, may be too short to be found with this one.
    """
    known = set(found.text("event_id").tolist())
    by_series: dict[Hashable, list[Mapping[str, Any]]] = {}
    for event in found.records():
        by_series.setdefault(_series_of(event), []).append(event)
    gone = []
    for event in stored.records():
        is_replaced = any(_overlap(event, other) for other in by_series.get(_series_of(event), ()))
        found_by = json.loads(event["details"] or "{}").get("interval_ns", interval_ns)
        is_too_short = found_by < interval_ns and event["end_ns"] is not None
        gone.append(event["event_id"] not in known and (is_replaced or not is_too_short))
    return np.array(gone, np.bool_)


def _overlap(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two events overlap; an event without an end continues."""
    return all(a["end_ns"] is None or a["end_ns"] > b["start_ns"] for a, b in ((one, other), (other, one)))


def _series_of(event: Mapping[str, Any]) -> Hashable:
    details = json.loads(event["details"] or "{}")
    return (event["system"], *(details.get(name) for name in ("op", "request_bytes", "mode")))


def _episode_rows(found: list[Episode]) -> Frame:
    """Rows of `events`; the id of an episode is stable while it is found again."""

    def event_id(episode: Episode) -> str:
        series = (episode.filesystem, episode.op, episode.request_bytes, episode.mode)
        return hashlib.sha256(f"episode {series} {episode.start_ns}".encode()).hexdigest()[:24]

    return TABLES["events"].frame(
        event_id=[event_id(e) for e in found],
        kind="episode",
        system=[e.filesystem for e in found],
        start_ns=[e.start_ns for e in found],
        end_ns=[None if e.ongoing else e.end_ns for e in found],
        label=[f"slow {e.op}" for e in found],
        strength_ratio=[e.peak_ratio for e in found],
        details=[json.dumps({name: getattr(e, name) for name in _DETAILS}) for e in found],
        rows=len(found),
    )
