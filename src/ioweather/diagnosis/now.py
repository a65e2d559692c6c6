"""`now`: how slow storage is at this moment, from the agents' status, against what the lake knows to be usual."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np

from ioweather.agent.status import (
    OperationStatus,
    Remote,
    Status,
    TargetStatus,
    find_problems,
    read_status,
    remote_agents,
)
from ioweather.core.clock import now_ns
from ioweather.core.contracts import Param, Params, Question
from ioweather.core.errors import DataUnavailable
from ioweather.core.facility import Facility
from ioweather.core.outcomes import AgentOutcome, HangOutcome, NowOutcome, OperationOutcome
from ioweather.core.results import Answer, Coverage, Fact, FactGroup, Finding, numbered
from ioweather.core.safe_files import default_spool_dir
from ioweather.core.sparkline import sparkline
from ioweather.core.units import HOUR_NS, MINUTE_NS, NS, format_seconds, format_time_ns
from ioweather.diagnosis.storage_screens import now_screen
from ioweather.lake.snapshot import Snapshot
from ioweather.stats.histograms import RELATIVE_ERROR
from ioweather.stats.rollups import RESPONSE_COLUMNS, ROLLUP_COLUMNS
from ioweather.stats.slowdown import COUNTINGS, LEAST_BASELINE, OperationSeries, exact_series, operation_series
from ioweather.topics.source import DataSource

SLOW: Final = 2.0
# An operation in flight for longer hangs.
_HANG_SECONDS: Final = 5.0
_DATA: Final = ("read", "write", "write_sync")
# Paths on a screen, the slowest first; other forms of the answer list all.
_MOST_PATHS: Final = 12
_RECENT_MINUTES: Final = 30
_FOREVER_NS: Final = 1 << 62

# Target's system, operation and request size.
Key: TypeAlias = tuple[str, str, int]


@dataclass(frozen=True)
class History:
    """What a lake adds to the agents' status.

    `usual` are the usual seconds and their number; `minutes` the minutes of the last half hour, `half_hour` all of it
    as one interval. `exact`: from single operations, not from roll-ups.
    """

    facility: Facility = field(default_factory=Facility)
    usual: dict[Key, tuple[float, int]] = field(default_factory=dict)
    minutes: dict[Key, OperationSeries] = field(default_factory=dict)
    half_hour: dict[Key, OperationSeries] = field(default_factory=dict)
    exact: bool = False


def recent_history(source: DataSource, params: Params) -> History:
    """Baseline and last half hour of the lake; empty without one."""
    try:
        snapshot = source.place.snapshot_if_there()
        return History() if snapshot is None else lake_history(snapshot, params["at"], params["exact"])
    except DataUnavailable:
        return History()


def lake_history(snapshot: Snapshot, at_ns: int | None = None, exact: bool = False) -> History:
    """The history of a lake, from roll-ups or (`exact`) from every operation."""
    moment = at_ns or now_ns()
    period = (moment - _RECENT_MINUTES * MINUTE_NS, moment)
    if not snapshot.pinned["response_rollups"].uris:
        return History(snapshot.facility)
    baseline = snapshot.facility.baseline
    history = (moment - baseline.window_ns, moment) if baseline.window_ns is not None else baseline.period_ns
    usual: dict[Key, tuple[float, int]]
    if exact:
        # In the database: its median is the same order statistic, and takes less memory.
        given = baseline.seconds or {}
        ended = snapshot.rows("responses", {"status": "ok"}, history)
        rows = snapshot.bare.execute(
            f"SELECT system, op, request_bytes, quantile_disc(duration_ns, 0.5), count(*) FROM ({ended}) "
            "WHERE NOT coalesce(cached, FALSE) AND duration_ns IS NOT NULL GROUP BY ALL"
        ).fetchall()
        usual = {
            (system, op, size): (given.get(op, median / NS), n)
            for system, op, size, median, n in rows
            if n >= LEAST_BASELINE or op in given
        }
        recent, series_of = snapshot.frame("responses", RESPONSE_COLUMNS, period_ns=period), exact_series
    else:
        hours = snapshot.frame("response_rollups", ROLLUP_COLUMNS, {"interval_ns": HOUR_NS}, history)
        found = {_key(series): series.expected(baseline, moment) for series in operation_series(hours, {}, HOUR_NS)}
        usual = {key: (seconds, n) for key, (seconds, n) in found.items() if seconds is not None}
        recent = snapshot.frame("response_rollups", ROLLUP_COLUMNS, {"interval_ns": MINUTE_NS}, period)
        series_of = operation_series
    minutes, half_hour = (
        {_key(series): series for series in series_of(recent, {}, interval)} for interval in (MINUTE_NS, _FOREVER_NS)
    )
    return History(snapshot.facility, usual, minutes, half_hour, exact)


def _key(series: OperationSeries) -> Key:
    return series.filesystem, series.op, series.request_bytes


@dataclass(frozen=True)
class _Operation:
    """One kind of operation on one target, with its last half hour.

    `recent` are the slowdowns of the last minutes, `q99_seconds` the 99% quantile of the half hour (raw and corrected
    for omission), `recent_missed` its missed ticks.
    """

    outcome: OperationOutcome
    recent: tuple[float | None, ...] = ()
    q99_seconds: tuple[float | None, ...] | None = None
    recent_missed: int = 0

    @property
    def slowdown(self) -> float:
        """Slowdown; 0 without a baseline."""
        return self.outcome.slowdown or 0.0

    @property
    def where(self) -> str:
        """File system, and host if another one measured it."""
        host = self.outcome.host
        return f"{self.outcome.filesystem} from {host}" if host else self.outcome.filesystem


@dataclass(frozen=True)
class _Hang:
    outcome: HangOutcome
    report_age_seconds: float  # an agent on another host reports every few minutes

    @property
    def reported(self) -> str:
        """Who reported it, if another host."""
        host = self.outcome.host
        return f" (reported by {host}, {format_seconds(self.report_age_seconds)} ago)" if host else ""


def run(source: DataSource, params: Params) -> Answer:
    """What the agents measure now, compared with the baseline of the lake."""
    source.reads_agents = True
    history = source.shared(recent_history, params)
    moment = params["at"] or now_ns()
    spools = [Path(spool) for spool in params["spool"]] or [default_spool_dir()]
    statuses = list(_read_statuses(spools))
    remote = remote_agents(source.place.directory, moment, statuses)
    if not statuses and not remote:
        raise DataUnavailable("No agent has run here.", hint="Start one: ioweather probe PATH")
    # Numbers of a remote agent that is gone are days old.
    live = [agent.status for agent in remote if agent.status and agent.state(moment) == "running"]
    operations: list[_Operation] = []
    hangs: list[_Hang] = []
    for status in (*statuses, *live):
        host = "" if status.received_ns is None else status.host
        for target in status.targets:
            filesystem = history.facility.filesystem_of(target.system).removeprefix("mount:")
            age = status.in_flight_age_ns(target, moment)
            if target.in_flight is not None and age is not None and age > _HANG_SECONDS * NS:
                outcome = HangOutcome(filesystem, target.target, host, target.in_flight.op, age / NS)
                hangs.append(_Hang(outcome, (moment - status.heard_ns) / NS))
            clock_offset = status.heard_ns - status.written_ns
            operations += [_operation(filesystem, host, target, o, history, clock_offset) for o in target.operations]
    stale = tuple(status.host for status in statuses if status.is_stale(moment))
    return _answer(operations, hangs, remote, stale, history, moment, full=params["full"])


def _read_statuses(spools: Sequence[Path]) -> Iterator[Status]:
    for spool in spools:
        try:
            status = read_status(spool)
        except DataUnavailable:
            continue
        if status is not None:
            yield status


def _operation(
    filesystem: str, host: str, target: TargetStatus, status: OperationStatus, history: History, clock_offset_ns: int
) -> _Operation:
    """`clock_offset_ns`: our clock less that of the agent's host."""
    key = (target.system, status.op, status.request_bytes)
    # The agent's own baseline is shorter than that of the lake.
    expected = history.usual.get(key) or (
        (status.expected_ns / NS if status.expected_ns else None),
        status.expected_count,
    )
    median = status.recent.median_ns / NS if status.recent.median_ns is not None else None
    series = history.minutes.get(key)
    slow_since: int | None = None
    recent: tuple[float | None, ...] = ()
    if series is not None and expected[0]:
        slowdown = series.statistics["median"] / expected[0]
        normal = np.flatnonzero(~(slowdown >= SLOW))
        if len(slowdown) and slowdown[-1] >= SLOW:
            # Start of the slow minutes until now.
            slow_since = int(series.start_ns[int(normal[-1]) + 1 if len(normal) else 0])
        recent = tuple(None if np.isnan(v) else float(v) for v in slowdown[-_RECENT_MINUTES:].tolist())
    tail = history.half_hour.get(key)
    q99 = [float(tail.counted(how)["q99"][0]) for how in COUNTINGS] if tail else []
    return _Operation(
        OperationOutcome(
            filesystem=filesystem,
            target=target.target,
            host=host,
            op=status.op,
            slowdown=median / expected[0] if median is not None and expected[0] else None,
            median_seconds=median,
            usual_seconds=expected[0],
            usual_count=expected[1],
            count=status.ok_count,
            missed=status.missed_count,
            errors=dict(status.errors),
            slow_since_ns=slow_since,
            last_ns=status.last.start_ns + clock_offset_ns if status.last else None,
        ),
        recent=recent,
        q99_seconds=tuple(None if np.isnan(each) else each for each in q99) if tail else None,
        recent_missed=int(tail.missed_count.sum()) if tail else 0,
    )


def _answer(
    operations: Sequence[_Operation],
    hangs: Sequence[_Hang],
    remote: Sequence[Remote],
    stale: Sequence[str],
    history: History,
    moment_ns: int,
    *,
    full: bool,
) -> Answer:
    """`full` lists all paths, and the tail of every operation."""
    slow = [o for o in operations if o.slowdown >= SLOW]
    groups, left_out = _path_groups(operations, moment_ns, full)
    findings = [
        Finding(
            f"A {h.outcome.op} on {h.outcome.filesystem} has been hanging for "
            f"{format_seconds(h.outcome.age_seconds)}{h.reported}.",
            "alarm",
            "hang",
        )
        for h in hangs
    ]
    findings += [
        Finding(f"{n:,} {o.outcome.op} operations on {o.where} failed with {name}.", "alarm", "failed_operations")
        for o in operations
        for name, n in o.outcome.errors.items()
    ]
    agents = [
        (AgentOutcome(each.host, each.state(moment_ns), (moment_ns - each.heard_ns) / NS), each) for each in remote
    ]
    facts = []
    for number, (agent, each) in enumerate(agents, 1):
        note = ", ".join(filter(None, [agent.state, *_agent_notes(each)]))
        facts.append(Fact(f"agent_{number}", agent.host, agent.heard_seconds, "seconds", None, note))
        ago = format_seconds(agent.heard_seconds)
        if agent.state == "silent":
            findings.append(Finding(f"The agent on {agent.host} has been silent for {ago}.", "alarm", "silent_agent"))
        elif agent.state == "stopped":
            findings.append(Finding(f"The agent on {agent.host} stopped {ago} ago.", name="stopped_agent"))
        if each.status is not None:
            # Hangs of a running agent are listed above.
            for (_, state), text in find_problems(each.status).items():
                if state != "hung" or agent.state != "running":
                    findings.append(Finding(f"{agent.host}: {text}", "alarm", "agent_trouble"))
    if facts:
        groups.append(FactGroup("agents", "Agents of other hosts (time since their last report)", tuple(facts)))
    good, missed = sum(o.outcome.count for o in operations), sum(o.outcome.missed for o in operations)
    failed = sum(sum(o.outcome.errors.values()) for o in operations)
    excluded = {k: n for k, n in (("missed_ticks", missed), ("failed", failed)) if n}
    coverage = (Coverage(good + missed + failed, good, "operations of the agent", excluded),) if operations else ()
    notes = []
    if history.usual:
        origin = "single operations" if history.exact else f"roll-ups, accurate to {RELATIVE_ERROR:.1%}"
        notes.append(f"Baseline: {history.facility.baseline}, from {origin}.")
    return Answer(
        question="How slow is storage now?",
        headline=_headline(operations, slow, hangs, [agent.host for agent, _ in agents if agent.state == "running"]),
        facts=tuple(groups),
        findings=numbered(findings),
        caveats=(
            *(f"The agent on {name} has stopped; its last measurements are shown." for name in stale),
            *left_out,
            *notes,
        ),
        coverage=coverage,
        name="now",
        result=NowOutcome(
            wrong=bool(slow or hangs or (agents and not operations)),
            operations=tuple(o.outcome for o in operations),
            hangs=tuple(h.outcome for h in hangs),
            agents=tuple(agent for agent, _ in agents),
            stale=tuple(stale),
        ),
    )


def _agent_notes(agent: Remote) -> Iterator[str]:
    """Version of an agent, age of its last measurement when it last reported, and files in its spool."""
    status = agent.status
    if status is None:
        yield "no status"
        return
    yield status.software_version
    cycles = [source.last_start_ns for source in status.sources if source.last_start_ns is not None]
    cycles += [o.last.start_ns for target in status.targets for o in target.operations if o.last is not None]
    if cycles:
        yield f"last cycle {format_seconds(max(0, status.written_ns - max(cycles)) / NS)} before"
    if status.spool.files:
        yield f"{status.spool.files:,} files wait"


def _path_groups(operations: Sequence[_Operation], now_ns: int, full: bool) -> tuple[list[FactGroup], list[str]]:
    """(facts by path and host, a note on paths that are not listed)."""
    paths: dict[tuple[str, str], list[_Operation]] = {}
    for o in operations:
        paths.setdefault((o.outcome.host, o.outcome.target), []).append(o)
    listed = list(paths.items())
    left_out = 0 if full else max(0, len(listed) - _MOST_PATHS)
    if left_out:
        listed.sort(key=lambda path: max(o.slowdown for o in path[1]), reverse=True)
    groups = []
    for number, ((_, target), mine) in enumerate(listed[: len(listed) - left_out], 1):
        name = mine[0].where
        groups.append(FactGroup(f"path_{number}", f"{name} ({target})", numbered(_fact(o, now_ns) for o in mine)))
        tail = []
        for o in mine:
            if o.q99_seconds is not None and (full or o.recent_missed):
                missed = f"{o.recent_missed:,} missed ticks" if o.recent_missed else ""
                for kind, seconds, note in zip(COUNTINGS, o.q99_seconds, ("", missed), strict=True):
                    tail.append(
                        Fact(f"{o.outcome.op}_{kind}", f"{o.outcome.op} {kind}", seconds, "seconds", None, note)
                    )
        if tail:
            title = f"{name}, 99% of the last half hour ({target})"
            groups.append(FactGroup(f"path_{number}_tail", title, numbered(tail)))
    more = [f"{left_out:,} more probed paths, none of them slower, are listed with --json."] if left_out else []
    return groups, more


def _fact(operation: _Operation, now_ns: int) -> Fact:
    o = operation.outcome
    # Logarithmic, from usual to ten times the usual.
    line = sparkline([None if v is None else math.log10(max(v, 1.0)) for v in operation.recent], top=1.0)
    if o.slowdown is None:
        note = f"no baseline yet ({o.usual_count})" if o.median_seconds is not None else "nothing in the last minute"
        return Fact(o.op, o.op, o.median_seconds, "seconds", None, f"{note} {line}".strip())
    age = "" if o.last_ns is None else f", {format_seconds(max(0.0, (now_ns - o.last_ns) / 1e9))} ago"
    share = min(1.0, max(0.0, math.log10(o.slowdown))) if o.slowdown > 0 else 0.0
    note = f"{format_seconds(o.median_seconds or 0.0)}{age} {line}".rstrip()
    return Fact(o.op, o.op, o.slowdown, "factor", share, note)


def _headline(
    operations: Sequence[_Operation], slow: Sequence[_Operation], hangs: Sequence[_Hang], elsewhere: Sequence[str]
) -> str:
    if hangs:
        longest = max(hangs, key=lambda h: h.outcome.age_seconds)
        o, age = longest.outcome, format_seconds(longest.outcome.age_seconds)
        return f"Storage hangs: a {o.op} on {o.filesystem} has not returned for {age}{longest.reported}."
    if not operations and elsewhere:
        return f"No path is probed. Other data come from {', '.join(elsewhere[:3])}."
    if not operations:
        return "Nothing is measured: no agent is running."
    known = [o for o in operations if o.outcome.slowdown is not None]
    if not known:
        return "No baseline yet: storage is measured, but the usual speed is unknown."
    if not slow:
        return "Storage is as fast as usual."
    worst = max(slow, key=lambda o: o.slowdown)
    since_ns = worst.outcome.slow_since_ns
    since = f" since {format_time_ns(since_ns)[11:16]} UTC" if since_ns else ""
    text = f"{worst.outcome.op} on {worst.where} takes {worst.slowdown:.1f} times as long as usual{since}"
    kinds = {o.outcome.op in _DATA for o in slow if o.outcome.filesystem == worst.outcome.filesystem}
    if len(kinds) == 1 and any((o.outcome.op in _DATA) not in kinds for o in known):
        text += "; metadata is normal" if kinds == {True} else "; reads and writes are normal"
    return f"{text}."


QUESTION = Question(
    name="now",
    result=NowOutcome,
    run=run,
    tables=frozenset({"response_rollups", "responses"}),
    params=(
        Param(
            "spool",
            "Spool of an agent; may be given several times (default: yours).",
            many=True,
            metavar="DIR",
            local=True,
        ),
        Param("exact", "From every operation in the lake, not from roll-ups.", "flag", default=False),
        Param("at", "As of this time (default: now).", "time", shown=False, local=True),
        Param("full", "All paths, and both tails of every operation.", "flag", default=True, shown=False),
    ),
    help="Show how slow storage is now compared with its baseline, as measured by the agent's probe.",
    epilog="""\b
Exit codes: 0 as usual; 1 slow, hanging, or nothing measured; 2 not done.

\b
Example: ioweather now --watch
""",
    seen_by="public",
    period=False,
    page=False,
    screen={"full": False},
    blocks=now_screen,
)
