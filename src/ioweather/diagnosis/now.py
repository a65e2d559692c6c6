"""`now`: how slow storage is at this moment, from the agents' status, against what the lake knows to be usual."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from ioweather.agent.status import (
    OperationStatus,
    Status,
    TargetStatus,
    find_problems,
    read_status,
    remote_agents,
)
from ioweather.core.contracts import Param, Params, Question
from ioweather.core.errors import DataUnavailable
from ioweather.core.facility import Facility
from ioweather.core.results import Answer, Block, Coverage, Exhibit, Fact, FactGroup, Finding, ResultTable, number_names
from ioweather.core.safe_files import default_spool_dir
from ioweather.core.units import DAY_NS, HOUR_NS, MINUTE_NS, NS, format_seconds, format_time_ns, now_ns
from ioweather.facts.slowdown import RELATIVE_ERROR, ROLLUP_COLUMNS, OperationSeries, operation_series

if TYPE_CHECKING:
    from ioweather.lake.lake import Snapshot
    from ioweather.topics.source import DataSource


@dataclass(frozen=True)
class OperationOutcome:
    """One kind of operation on one path. `host` is where it was issued, empty for this machine."""

    filesystem: str
    target: str
    host: str
    op: str
    slowdown: float | None
    median_seconds: float | None
    usual_seconds: float | None
    usual_count: int
    count: int
    missed: int
    errors: Mapping[str, int]
    slow_since_ns: int | None
    last_ns: int | None


@dataclass(frozen=True)
class HangOutcome:
    filesystem: str
    target: str
    host: str
    op: str
    age_seconds: float


@dataclass(frozen=True)
class AgentOutcome:
    host: str
    state: str
    heard_seconds: float


@dataclass(frozen=True)
class NowOutcome:
    """`wrong`: something is slow or hangs, or no agent measures any more. A slowdown is a median over the usual one."""

    wrong: bool
    operations: tuple[OperationOutcome, ...]
    hangs: tuple[HangOutcome, ...]
    agents: tuple[AgentOutcome, ...]
    stale: tuple[str, ...]


SLOW: Final = 2.0
# An operation in flight for longer hangs.
_HANG_SECONDS: Final = 5.0
_DATA: Final = ("read", "write", "write_sync")
_RECENT_MINUTES: Final = 30
# A facility whose baseline is the whole period: so much of it, so that the cost does not grow with the lake. [ours]
_USUAL_NS: Final = 28 * DAY_NS

# Target's system, operation and request size.
Key: TypeAlias = tuple[str, str, int]


@dataclass(frozen=True)
class History:
    """What a lake adds to the agents' status: the usual seconds and their number, and the minutes of the last half
    hour."""

    facility: Facility = field(default_factory=Facility)
    usual: dict[Key, tuple[float, int]] = field(default_factory=dict)
    minutes: dict[Key, OperationSeries] = field(default_factory=dict)


def recent_history(source: DataSource, params: Params) -> History:
    """Baseline and last half hour of the lake; empty without one."""
    try:
        snapshot = source.snapshot_if_there()
        return History() if snapshot is None else read_history(snapshot, params["at"])
    except DataUnavailable:
        return History()


def read_history(snapshot: Snapshot, at_ns: int | None = None) -> History:
    """The history of a lake, from its roll-ups."""
    moment = at_ns or now_ns()
    if not snapshot.pinned["response_rollups"].uris:
        return History(snapshot.facility)
    window_ns = snapshot.facility.baseline_ns
    history = (moment - (window_ns or _USUAL_NS), moment)
    recent = (moment - _RECENT_MINUTES * MINUTE_NS, moment)
    hours, minutes = (
        {
            (series.filesystem, series.op, series.request_bytes): series
            for series in operation_series(
                snapshot.frame("response_rollups", ROLLUP_COLUMNS, {"interval_ns": interval}, period), {}, interval
            )
        }
        for interval, period in ((HOUR_NS, history), (MINUTE_NS, recent))
    )
    expected = {key: series.expected(window_ns, moment) for key, series in hours.items()}
    usual = {key: (seconds, n) for key, (seconds, n) in expected.items() if seconds is not None}
    return History(snapshot.facility, usual, minutes)


def run(source: DataSource, params: Params) -> Answer:
    """What the agents measure now, compared with the baseline of the lake."""
    source.reads_agents = True
    moment = params["at"] or now_ns()
    statuses = list[Status]()
    for spool in [Path(spool) for spool in params["spool"]] or [default_spool_dir()]:
        with suppress(DataUnavailable):
            statuses += filter(None, [read_status(spool)])
    remote = remote_agents(source.directory, moment, statuses)
    history = source.shared(recent_history, params)
    if not statuses and not remote:
        raise DataUnavailable("No agent has run here.", hint="Start one: ioweather probe PATH")
    # Numbers of a remote agent that is gone are days old.
    live = [status for status in remote if status.life(moment) == "running"]
    targets = [(status, target) for status in (*statuses, *live) for target in status.targets]
    outcomes = [_compare_operation(*each, operation, history) for each in targets for operation in each[1].operations]
    hangs = [hang for each in targets for hang in _hangs(*each, history.facility, moment)]
    agents = tuple(AgentOutcome(each.host, each.life(moment), (moment - each.heard_ns) / NS) for each in remote)
    stale = tuple(status.host for status in statuses if status.is_stale(moment))
    caveats = [f"The agent on {name} has stopped; its last measurements are shown." for name in stale]
    if history.usual:
        usual = history.facility.baseline_text.replace("the whole period", "the last four weeks")
        caveats.append(f"Baseline: the median of {usual}, accurate to {RELATIVE_ERROR:.0%}.")
    good, missed = sum(o.count for o in outcomes), sum(o.missed for o in outcomes)
    failed = sum(sum(o.errors.values()) for o in outcomes)
    excluded = {k: n for k, n in (("missed_ticks", missed), ("failed", failed)) if n}
    slow = any((o.slowdown or 0.0) >= SLOW for o in outcomes)
    return Answer(
        question="How slow is storage now?",
        headline=_headline(outcomes, hangs, agents),
        facts=tuple(_list_agents(agents, remote)),
        exhibits=(Exhibit("now.operations", "Operations", tables=(_tabulate(outcomes, moment),)),) if outcomes else (),
        findings=number_names([*_operation_findings(outcomes, hangs), *_agent_findings(agents, remote)]),
        caveats=tuple(caveats),
        coverage=(Coverage(good + missed + failed, good, "probe operations", excluded),) if outcomes else (),
        name="now",
        result=NowOutcome(
            wrong=bool(slow or hangs or (agents and not outcomes)),
            operations=tuple(outcomes),
            hangs=tuple(hang for hang, _ in hangs),
            agents=agents,
            stale=stale,
        ),
    )


def _hangs(status: Status, target: TargetStatus, facility: Facility, now_ns: int) -> Iterator[tuple[HangOutcome, str]]:
    """The operation of a target that hangs, and which other host reported it when."""
    age = status.in_flight_age_ns(target, now_ns)
    if target.in_flight is None or age is None or age <= _HANG_SECONDS * NS:
        return
    host = _host_of(status)
    # An agent on another host reports every few minutes.
    by = f" (reported by {host}, {format_seconds((now_ns - status.heard_ns) / NS)} ago)" if host else ""
    yield HangOutcome(_filesystem_of(target, facility), target.target, host, target.in_flight.op, age / NS), by


def _operation_findings(
    operations: Sequence[OperationOutcome], hangs: Sequence[tuple[HangOutcome, str]]
) -> Iterator[Finding]:
    """Operations that hang, and operations that failed."""
    for hang, by in hangs:
        text = f"A {hang.op} on {hang.filesystem} has been hanging for {format_seconds(hang.age_seconds)}{by}."
        yield Finding(text, "alarm", "hang")
    for o in operations:
        for name, n in o.errors.items():
            yield Finding(f"{n:,} {o.op} operations on {_where(o)} failed with {name}.", "alarm", "failed_operations")


def _list_agents(agents: Sequence[AgentOutcome], remote: Sequence[Status]) -> Iterator[FactGroup]:
    """Time since the last report of each agent on another host, with its state and version."""
    facts = []
    for number, (agent, each) in enumerate(zip(agents, remote, strict=True), 1):
        note = f"{agent.state}, {each.software_version}"
        facts.append(Fact(f"agent_{number}", agent.host, agent.heard_seconds, "seconds", None, note))
    if facts:
        yield FactGroup("agents", "Agents on other hosts (time since last report)", tuple(facts))


def _agent_findings(agents: Sequence[AgentOutcome], remote: Sequence[Status]) -> Iterator[Finding]:
    """Which agents on other hosts no longer report, and the problems that they reported."""
    for agent, each in zip(agents, remote, strict=True):
        ago = format_seconds(agent.heard_seconds)
        if agent.state == "silent":
            yield Finding(f"The agent on {agent.host} has been silent for {ago}.", "alarm", "silent_agent")
        elif agent.state == "stopped":
            yield Finding(f"The agent on {agent.host} stopped {ago} ago.", name="stopped_agent")
        for (_, state), text in find_problems(each).items():
            # Hangs of a running agent are listed by target.
            if state != "hung" or agent.state != "running":
                yield Finding(f"{agent.host}: {text}", "alarm", "agent_trouble")


def _host_of(status: Status) -> str:
    """Host of an agent; empty for this machine."""
    return "" if status.received_ns is None else status.host


def _filesystem_of(target: TargetStatus, facility: Facility) -> str:
    return facility.filesystem_of(target.system).removeprefix("mount:")


def _where(outcome: OperationOutcome) -> str:
    """File system, and host if another one measured it."""
    return f"{outcome.filesystem} from {outcome.host}" if outcome.host else outcome.filesystem


def _compare_operation(
    agent: Status, target: TargetStatus, operation: OperationStatus, history: History
) -> OperationOutcome:
    """One kind of operation on one target."""
    key = (target.system, operation.op, operation.request_bytes)
    # The agent's own baseline is shorter than that of the lake.
    own = (operation.expected_ns / NS if operation.expected_ns else None, operation.expected_count)
    usual, usual_count = history.usual.get(key) or own
    median = operation.recent.median_ns / NS if operation.recent.median_ns is not None else None
    clock_offset_ns = agent.heard_ns - agent.written_ns  # our clock less that of the agent's host
    series = history.minutes.get(key)
    slow_since: int | None = None
    if series is not None and usual:
        slowdown = series.statistics["median"] / usual
        normal = np.flatnonzero(~(slowdown >= SLOW))
        if len(slowdown) and slowdown[-1] >= SLOW:
            # Start of the slow minutes until now.
            slow_since = int(series.start_ns[int(normal[-1]) + 1 if len(normal) else 0])
    return OperationOutcome(
        filesystem=_filesystem_of(target, history.facility),
        target=target.target,
        host=_host_of(agent),
        op=operation.op,
        slowdown=median / usual if median is not None and usual else None,
        median_seconds=median,
        usual_seconds=usual,
        usual_count=usual_count,
        count=operation.ok_count,
        missed=operation.missed_count,
        errors=dict(operation.errors),
        slow_since_ns=slow_since,
        last_ns=operation.last.start_ns + clock_offset_ns if operation.last else None,
    )


def _tabulate(operations: Sequence[OperationOutcome], moment_ns: int) -> ResultTable:
    """All operations, the slowest against their usual time first."""
    columns = (
        "where [text]; path [text]; operation [text]; slowdown: against usual [factor]; takes [seconds]; "
        "usual [seconds]; age: since last result [seconds]"
    )
    rows = [
        (
            *(_where(o), o.target, o.op, o.slowdown, o.median_seconds, o.usual_seconds),
            None if o.last_ns is None else max(0.0, (moment_ns - o.last_ns) / NS),
        )
        for o in sorted(operations, key=lambda each: -(each.slowdown or 0.0))
    ]
    return ResultTable.of("operations", columns, rows)


def _headline(
    operations: Sequence[OperationOutcome], hangs: Sequence[tuple[HangOutcome, str]], agents: Sequence[AgentOutcome]
) -> str:
    if hangs:
        longest, by = max(hangs, key=lambda each: each[0].age_seconds)
        age = format_seconds(longest.age_seconds)
        return f"Storage hangs: a {longest.op} on {longest.filesystem} has not returned for {age}{by}."
    elsewhere = [agent.host for agent in agents if agent.state == "running"]
    if not operations and elsewhere:
        return f"No path is probed. Agents without a probe run on {', '.join(elsewhere[:3])}."
    if not operations:
        return "No data: no agent is running."
    known = [o for o in operations if o.slowdown is not None]
    if all(o.median_seconds is None for o in operations):
        return "No data in the last minute: the speed of storage now is unknown."
    if not known:
        return "No baseline yet: storage is measured, but the usual speed is unknown."
    slow = [o for o in known if (o.slowdown or 0.0) >= SLOW]
    if not slow:
        return "Storage is as fast as usual."
    worst = max(slow, key=lambda o: o.slowdown or 0.0)
    since = f" since {format_time_ns(worst.slow_since_ns)[11:16]} UTC" if worst.slow_since_ns else ""
    text = f"{worst.op} on {_where(worst)} takes {worst.slowdown:.1f} times as long as usual{since}"
    kinds = {o.op in _DATA for o in slow if o.filesystem == worst.filesystem}
    if len(kinds) == 1 and any((o.op in _DATA) not in kinds for o in known):
        text += "; metadata is normal" if kinds == {True} else "; reads and writes are normal"
    return f"{text}."


def now_screen(answer: Answer, params: Params) -> Iterator[Block]:
    """The slowest operations, then what is wrong."""
    measured = [each for exhibit in answer.exhibits for each in exhibit.tables[0].rows if each[4] is not None]
    rows = [(each[0], *each[2:6]) for each in measured[:10]]
    if rows:
        columns = "where [text]; operation [text]; slowdown: against usual [factor]; takes [seconds]; usual [seconds]"
        title = f"The slowest of {len(measured)}" if len(measured) > len(rows) else ""
        yield ResultTable.of("operations", columns, rows, title)
    yield from (finding for finding in answer.findings if finding.kind == "alarm")


QUESTION = Question(
    name="now",
    result=NowOutcome,
    run=run,
    tables=frozenset({"response_rollups", "series", "ingests"}),
    params=(
        Param(
            "spool",
            "Agent spool directory, repeatable (default: yours).",
            many=True,
            metavar="DIR",
            local=True,
        ),
        Param("at", "As of this time (default: now).", "time", shown=False, local=True),
    ),
    help="Show how slow storage is now compared with its baseline, as measured by the agent's probe.",
    epilog="""\b
Exit codes: 0 as usual; 1 slow, hanging, or nothing measured; 2 failed.

\b
Example: ioweather now
""",
    seen_by="public",
    period=False,
    page=False,
    blocks=now_screen,
)
