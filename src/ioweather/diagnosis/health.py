"""`health`: which components were unhealthy, from when to when, why, how surely, and what it cost jobs."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ioweather.core.contracts import Param, Params, Period, Question
from ioweather.core.results import (
    Answer,
    Block,
    Coverage,
    Exhibit,
    Fact,
    FactGroup,
    Finding,
    Item,
    Items,
    Next,
    ResultTable,
    columns_of,
)
from ioweather.core.tables import EVENT_COLUMNS
from ioweather.core.units import NS, format_seconds, format_span, format_time_ns
from ioweather.diagnosis.events import without_name
from ioweather.diagnosis.health_incidents import (
    LEAST_LIMITED,
    LEAST_REPORTING,
    LEAST_SILENT_NS,
    MIN_MINUTES,
    SHARED_MINUTES,
    least_slow_bins,
)
from ioweather.diagnosis.health_query import (
    SearchWindow,
    count_components,
    evidence_sources,
    list_windows,
    target_names,
)
from ioweather.job_io.outcomes import Unhealthy, unhealthy_of
from ioweather.lake.lake import Snapshot
from ioweather.topics.source import DataSource


@dataclass(frozen=True)
class Searched:
    """What a search for unhealthy components covers on one file system. `components` counts them by what they are
    called there; the seconds are the shortest slowness, silence and limit that it names, None where it sees none;
    `unseen` says what it cannot see; `sample_seconds` is the time between samples."""

    filesystem: str
    start_ns: int
    end_ns: int
    components: Mapping[str, int]
    slow_seconds: float | None
    silent_seconds: float | None
    limited_seconds: float | None
    unseen: tuple[str, ...] = ()
    sample_seconds: float | None = None


@dataclass(frozen=True)
class HealthOutcome:
    """The newest first, and what was searched."""

    unhealthy: tuple[Unhealthy, ...]
    searched: tuple[Searched, ...] = ()


_COLUMNS: Final = columns_of(
    "start_ns: from [time_ns]; end_ns: to [time_ns]; component [text]; lost_seconds: delay of runs [seconds]; "
    "runs: runs delayed [count]; filesystem: file system [text]; kind [text]; cause [text]; probability [ratio]"
)
_NAMED_IN_HEADLINE: Final = 3
# What an administrator does first, by how a problem showed.
_ACTIONS: Final[Mapping[str | None, str]] = {
    "slow": "check the disks behind it for a slow or failing drive",
    "stalled": "check its server and network, its device is not slow",
    "capped": "check the disks behind it for a rebuild or a failed drive",
    "absent": "check that the server is up and sends data",
    "busy": "check what uses the processors of the server",
    "overloaded": "find the job that sends the operations: `ioweather who`",
}


def run(source: DataSource, params: Params) -> Answer:
    """The stored incidents of the period and what they cost jobs."""
    low, high = source.period_ns
    events = source.frame("events", EVENT_COLUMNS, {"kind": "component_health"}, optional=True, any_time=True)
    facility = source.facility
    every = [
        unhealthy_of(row, facility.filesystem_of(row["system"]) if row["system"] else None) for row in events.records()
    ]
    found = [
        each for each in every if each.start_ns < high and (each.end_ns or high) > low and _is_selected(each, params)
    ]
    found.sort(key=lambda each: (-each.start_ns, each.component or ""))
    scope = list_searched(source.snapshot, (low, high), params["filesystem"])
    rows = tuple(tuple(getattr(each, column.name) for column in _COLUMNS) for each in found)
    return Answer(
        question="What was unhealthy?",
        headline=_headline(found, scope),
        facts=_cost_facts(found),
        exhibits=(Exhibit("health", "Unhealthy components", tables=(ResultTable("incidents", _COLUMNS, rows),)),),
        findings=tuple(
            Finding(_describe_search(each), name=f"searched_{number}") for number, each in enumerate(scope, 1)
        ),
        coverage=(Coverage(len(every), len(found), "incidents shown"),) if every else (),
        name="health",
        result=HealthOutcome(tuple(found), scope),
    )


def _is_selected(each: Unhealthy, params: Params) -> bool:
    return params["filesystem"] in (None, each.filesystem) and params["component"] in (None, each.component)


def _headline(found: list[Unhealthy], scope: Sequence[Searched]) -> str:
    if not found and not scope:
        return "Unknown: no server samples and no probe data in this period."
    if not found:
        return "No unhealthy component found."
    costly = sorted(found, key=lambda each: -(each.lost_seconds or 0.0))
    first = {each.component: each for each in reversed(costly)}
    named = [f"{each.component} {format_span(each.start_ns, each.end_ns)}" for each in reversed(first.values())]
    count, named = len(named), named[:_NAMED_IN_HEADLINE]
    more = f"; and {count - len(named)} more" if count > len(named) else ""
    end = max((each.end_ns for each in scope), default=math.inf)
    last = {str(each.component) for each in found if each.end_ns is None or each.end_ns >= end}
    still = f"{len(last)} components" if len(last) > _NAMED_IN_HEADLINE else ", ".join(sorted(last)) or "none"
    were = f"{count} component{'s were' if count > 1 else ' was'} unhealthy: {'; '.join(named)}{more}"
    return f"{were}. Still unhealthy at the end of the period: {still}."


def _cost_facts(found: list[Unhealthy]) -> tuple[FactGroup, ...]:
    if not found:
        return ()
    lost = [each.lost_seconds for each in found if each.lost_seconds is not None]
    facts = [Fact("incidents", "incidents", len(found), "count")]
    if lost:
        runs = sum(each.runs or 0 for each in found)
        facts += [
            Fact("runs", "delayed runs", runs, "count"),
            Fact("lost_seconds", "delay of these runs", sum(lost), "seconds"),
        ]
    return (FactGroup("cost", "Incidents and their cost", tuple(facts)),)


# What the search covers. The shortest trouble that shows follows from the samples and from the thresholds of the
# search, for the case that one kind of measurement shows it as clearly as it can.

_KINDS: Final = {
    "ost": "target",
    "device": "device",
    "probed": "probed target",
    "mdt": "metadata target",
    "mds": "metadata server",
    "oss": "server",
    "host": "client",
}


def list_searched(snapshot: Snapshot, period: Period, filesystem: str | None) -> tuple[Searched, ...]:
    """Return what the search covered of each file system in the period, the one with most components first.

    Components and the shortest detectable troubles (seconds; None: not detectable) are those of its newest window.
    """
    low, high = period
    windows: dict[str, list[SearchWindow]] = {}
    for window in list_windows(snapshot, max(low, 0), high):
        if filesystem in (None, window.filesystem) and window.start_ns < high and window.end_ns > low:
            windows.setdefault(window.filesystem, []).append(window)
    found = []
    for name in sorted(windows, key=lambda name: (-windows[name][-1].components, name)):
        window = windows[name][-1]
        start, end = max(low, windows[name][0].start_ns), min(high, window.end_ns)
        sources, counted = evidence_sources(window), count_components(window)
        sampled = counted.get("ost", counted.get("device", 0))
        if "ost" in counted:
            counted.pop("device", None)  # disks of these targets
        if sampled:
            counted.pop("probed", None)  # probes time the same targets
        # The more is searched, the longer a target must be slow before chance is excluded.
        slow_bins = least_slow_bins(window.bins.count * max(1, sampled or counted.get("probed", 0)))
        is_shared_seen = sampled >= LEAST_REPORTING and bool(sources & _BY_TARGET)
        shared, single = SHARED_MINUTES * 60.0, MIN_MINUTES * 60.0
        limited = shared if is_shared_seen else single if sampled >= LEAST_LIMITED else math.inf
        found.append(
            Searched(
                filesystem=name,
                start_ns=start,
                end_ns=end,
                components={_component_word(window, kind): count for kind, count in counted.items()},
                slow_seconds=slow_bins * window.bin_ns / NS if sources - _BY_METADATA else None,
                limited_seconds=limited if (end - start) / NS >= limited else None,
                silent_seconds=max(LEAST_SILENT_NS, window.interval_ns) / NS if sampled >= LEAST_REPORTING else None,
                unseen=tuple(_list_unseen(sources, sampled)),
                sample_seconds=window.interval_ns / NS if window.interval_ns else None,
            )
        )
    return tuple(found)


# Names of targets with a number: brick3, scratch-OST000a.
_NUMBERED: Final = re.compile(r"(?:^|-)((?:OST|MDT)(?=[0-9a-f]{4}$)|[A-Za-z]{3,}(?=[-_. ]?\d+$))")
_BY_METADATA: Final = {"metadata", "metadata_served"}
_BY_TARGET: Final = {"probe", "served"}


def _component_word(window: SearchWindow, kind: str) -> str:
    """What the file system calls its components of a kind, in the singular: OST, brick, target."""
    stems = {match[1] if (match := _NUMBERED.search(name)) else "" for name in target_names(window, kind)}
    return stems.pop() if len(stems) == 1 and "" not in stems else _KINDS[kind]


def _list_unseen(sources: set[str], sampled: int) -> Iterator[str]:
    """What a search with these sources of evidence and sampled targets cannot see."""
    if not sources - _BY_METADATA:
        yield "slow targets (no request times, no job counters, and probes on fewer than three targets)"
    elif sources - _BY_METADATA == {"service"}:
        yield "stalled servers with fast devices (no probes on single targets)"
    if sampled < LEAST_REPORTING:
        yield "silent targets (fewer than three report)"
    if sampled < LEAST_LIMITED:
        yield "targets stuck at a limit (fewer than four report)"
    if not sources & _BY_METADATA:
        yield "slow metadata servers (needs metadata counters and probes)"
    if not sources & _BY_TARGET:
        yield "limits shared by all targets, such as the network (no probes on single targets)"
    if "clients" not in sources:
        yield "slow clients"


def _describe_search(searched: Searched) -> str:
    """Sentences on what was searched."""
    counted = [f"{count:,} {word}{'s' if count != 1 else ''}" for word, count in searched.components.items()]
    listed = " and ".join(filter(None, (", ".join(counted[:-1]), *counted[-1:])))
    durations = {
        "slowness": searched.slow_seconds,
        "silence": searched.silent_seconds,
        "limits": searched.limited_seconds,
    }
    shown = [f"{what} {format_seconds(seconds)}" for what, seconds in durations.items() if seconds is not None]
    times = f"{format_time_ns(searched.start_ns)} to {format_time_ns(searched.end_ns)}"
    every = f", sampled every {format_seconds(searched.sample_seconds)}" if searched.sample_seconds else ""
    found = f"; shortest detectable: {', '.join(shown)}" if shown else ""
    unseen = f" Not detectable: {', '.join(searched.unseen)}." if searched.unseen else ""
    return f"Searched {listed} of {searched.filesystem}, {times}{every}{found}.{unseen}"


def health_screen(answer: Answer, params: Params) -> Iterator[Block]:
    """Each incident: what, when, and what it cost."""
    result = answer.result
    assert isinstance(result, HealthOutcome)
    found = result.unhealthy
    items = []
    for each in found[:10]:
        what = without_name(each.cause, each.component)
        runs = each.runs or 0
        lost = f"delayed {runs:,} run{'s' if runs != 1 else ''} by {format_seconds(each.lost_seconds or 0.0)}"
        sure = f"{each.probability:.0%} sure" if each.probability is not None else ""
        note = ", ".join(filter(None, [lost if runs and each.lost_seconds else "", sure]))
        note += f". Do: {_ACTIONS[each.kind]}" if each.kind in _ACTIONS else ""
        page = f"components/{each.component}" if each.component else ""
        items.append(Item(each.component or each.filesystem or "", what, each.start_ns, each.end_ns, note, page))
    if items:
        more = f"{len(found) - len(items):,} more: --from, --to or --csv" if len(found) > len(items) else ""
        yield Items("", tuple(items), more=more)
    yield from answer.findings
    if items:
        costliest = max(found, key=lambda each: each.lost_seconds or 0.0)
        if costliest.component:
            yield Next(f"ioweather fs {costliest.component}")


QUESTION = Question(
    name="health",
    result=HealthOutcome,
    run=run,
    tables=frozenset({"components", "events", "job_operations", "responses", "series"}),
    params=(Param("filesystem", "Only this file system."), Param("component", "Only this server or target.")),
    help="""List unhealthy servers and targets: start and end, symptom, probability, number of affected runs and
    their delay. The answer also lists what was searched, the shortest detectable problem, and what cannot be detected.

    A component is unhealthy when it does less than its peers under the same demand: it works more slowly than usual at
    the same queue, its probes take longer, a new limit caps it, or it does not report. A target that works at its
    maximum is loaded, not unhealthy. All targets together may be stuck at a limit, such as the network. The search runs
    when new rows are ingested.""",
    epilog="Example: ioweather health --from 2026-11-01",
    seen_by="public",
    table="incidents",
    blocks=health_screen,
)
