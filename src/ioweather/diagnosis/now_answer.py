"""How slow storage is now, in one screen: the agent's status, and what the lake knows to be usual. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ioweather.core.outcomes import AgentOutcome, HangOutcome, NowOutcome, OperationOutcome
from ioweather.core.results import Answer, Coverage, Fact, FactGroup, Finding, numbered
from ioweather.core.sparkline import sparkline
from ioweather.core.units import format_seconds, format_time_ns
from ioweather.stats.slowdown import COUNTINGS

SLOW: Final = 2.0
# A hang shows before its operation ends: this old, an operation in flight is news.
HANG_SECONDS: Final = 5.0
_DATA: Final = ("read", "write", "write_sync")
# So many paths are listed on a screen, the slowest first; the rest is in the other forms of the answer.
_MOST_PATHS: Final = 12


@dataclass(frozen=True)
class OperationNow:
    """One kind of operation on one target, as of now. Ratios are null without a baseline. `host` is where it was
    issued, empty for this machine."""

    filesystem: str
    target: str
    op: str
    median_seconds: float | None
    expected_seconds: float | None
    expected_count: int
    count: int
    errors: Mapping[str, int]
    missed: int
    last_ns: int | None
    recent: tuple[float | None, ...] = ()  # slowdown of the last hour's minutes
    slow_since_ns: int | None = None
    # 99% of the last half hour took at most this, raw and omission_corrected; ticks missed meanwhile.
    q99_seconds: tuple[float | None, float | None] | None = None
    recent_missed: int = 0
    host: str = ""

    @property
    def slowdown(self) -> float | None:
        if self.median_seconds is None or not self.expected_seconds:
            return None
        return self.median_seconds / self.expected_seconds


@dataclass(frozen=True)
class Hang:
    filesystem: str
    target: str
    op: str
    age_seconds: float
    host: str = ""
    told_seconds: float = 0.0  # ago; an agent elsewhere tells every few minutes

    @property
    def told(self) -> str:
        return f" (reported by {self.host}, {format_seconds(self.told_seconds)} ago)" if self.host else ""


@dataclass(frozen=True)
class AgentNow:
    """An agent of another host. `cycle_seconds`: how old its last measurement was when it was last heard of."""

    host: str
    state: str
    heard_seconds: float
    cycle_seconds: float | None = None
    files_waiting: int = 0
    version: str = ""
    troubles: tuple[str, ...] = ()


@dataclass(frozen=True)
class SeenNow:
    """What all agents see at one moment. `stale`: hosts whose agent is gone."""

    operations: tuple[OperationNow, ...]
    hangs: tuple[Hang, ...]
    agents: tuple[AgentNow, ...]
    stale: tuple[str, ...]
    notes: tuple[str, ...]
    now_ns: int


def weather_answer(
    operations: Sequence[OperationNow],
    hangs: Sequence[Hang],
    *,
    now_ns: int,
    stale: Sequence[str] = (),
    agents: Sequence[AgentNow] = (),
    notes: Sequence[str] = (),
    full: bool = False,
) -> Answer:
    """Its result says whether something is wrong (slow, hanging, or nobody elsewhere measures any more). `full` gives
    the tail also where nothing was hidden from it, and lists all paths."""
    slow = [o for o in operations if o.slowdown is not None and o.slowdown >= SLOW]
    groups, left_out = _path_groups(operations, now_ns, full)
    findings = []
    for h in hangs:
        text = f"A {h.op} on {h.filesystem} has been hanging for {format_seconds(h.age_seconds)}{h.told}."
        findings.append(Finding(text, "alarm", "hang"))
    for o in operations:
        for name, n in o.errors.items():
            text = f"{n:,} {o.op} operations on {o.filesystem}{_seen_from(o)} failed with {name}."
            findings.append(Finding(text, "alarm", "failed_operations"))
    facts = []
    for number, agent in enumerate(agents, 1):
        notes_of = [agent.state, agent.version]
        if agent.cycle_seconds is not None:
            notes_of.append(f"last cycle {format_seconds(agent.cycle_seconds)} before")
        if agent.files_waiting:
            notes_of.append(f"{agent.files_waiting:,} files wait")
        note = ", ".join(filter(None, notes_of))
        facts.append(Fact(f"agent_{number}", agent.host, agent.heard_seconds, "seconds", None, note))
        ago = format_seconds(agent.heard_seconds)
        if agent.state == "silent":
            text = f"The agent on {agent.host} has been silent for {ago}."
            findings.append(Finding(text, "alarm", "silent_agent"))
        elif agent.state == "stopped":
            findings.append(Finding(f"The agent on {agent.host} stopped {ago} ago.", name="stopped_agent"))
        findings += [Finding(f"{agent.host}: {trouble}", "alarm", "agent_trouble") for trouble in agent.troubles]
    if facts:
        groups.append(FactGroup("agents", "Agents of other hosts (since last heard of)", tuple(facts)))
    good, missed = sum(o.count for o in operations), sum(o.missed for o in operations)
    failed = sum(sum(o.errors.values()) for o in operations)
    excluded = {k: n for k, n in (("missed_ticks", missed), ("failed", failed)) if n}
    coverage = (Coverage(good + missed + failed, good, "operations of the agent", excluded),) if operations else ()
    return Answer(
        question="How slow is storage now?",
        headline=_headline(operations, slow, hangs, [agent.host for agent in agents if agent.state == "running"]),
        facts=tuple(groups),
        findings=numbered(findings),
        caveats=(*(f"The agent on {name} is gone; what it last saw is shown." for name in stale), *left_out, *notes),
        coverage=coverage,
        name="now",
        result=NowOutcome(
            bool(slow or hangs or (agents and not operations)),
            tuple(map(_operation_outcome, operations)),
            tuple(HangOutcome(h.filesystem, h.target, h.host, h.op, h.age_seconds) for h in hangs),
            tuple(AgentOutcome(agent.host, agent.state, agent.heard_seconds) for agent in agents),
            tuple(stale),
        ),
    )


def _operation_outcome(o: OperationNow) -> OperationOutcome:
    where, seconds = (o.filesystem, o.target, o.host, o.op), (o.slowdown, o.median_seconds, o.expected_seconds)
    counts = (o.expected_count, o.count, o.missed)
    return OperationOutcome(*where, *seconds, *counts, dict(o.errors), o.slow_since_ns, o.last_ns)


def _path_groups(operations: Sequence[OperationNow], now_ns: int, full: bool) -> tuple[list[FactGroup], list[str]]:
    """What was probed, by path and host; and what to say of those that are not listed."""
    paths: dict[tuple[str, str], list[OperationNow]] = {}
    for o in operations:
        paths.setdefault((o.host, o.target), []).append(o)
    listed = list(paths.items())
    if not full and len(listed) > _MOST_PATHS:
        listed.sort(key=lambda path: max(o.slowdown or 0.0 for o in path[1]), reverse=True)
    groups = []
    for number, ((_, target), mine) in enumerate(listed if full else listed[:_MOST_PATHS], 1):
        name = f"{mine[0].filesystem}{_seen_from(mine[0])}"
        groups.append(FactGroup(f"path_{number}", f"{name} ({target})", numbered(_fact(o, now_ns) for o in mine)))
        tail = []
        for o in mine:
            if o.q99_seconds is not None and (full or o.recent_missed):
                missed = f"{o.recent_missed:,} missed ticks" if o.recent_missed else ""
                for kind, seconds, note in zip(COUNTINGS, o.q99_seconds, ("", missed), strict=True):
                    tail.append(Fact(f"{o.op}_{kind}", f"{o.op} {kind}", seconds, "seconds", None, note))
        if tail:
            title = f"{name}, 99% of the last half hour ({target})"
            groups.append(FactGroup(f"path_{number}_tail", title, numbered(tail)))
    more = 0 if full else max(0, len(listed) - _MOST_PATHS)
    return groups, [f"{more:,} more probed paths, none of them slower, are listed with --json."] if more else []


def _seen_from(o: OperationNow) -> str:
    return f" from {o.host}" if o.host else ""


def _fact(o: OperationNow, now_ns: int) -> Fact:
    # A full block is ten times the usual or more, the lowest as usual or less.
    line = sparkline([None if v is None else math.log10(max(v, 1.0)) for v in o.recent], top=1.0)
    if o.slowdown is None:
        note = f"no baseline yet ({o.expected_count})" if o.median_seconds is not None else "nothing in the last minute"
        return Fact(o.op, o.op, o.median_seconds, "seconds", None, f"{note} {line}".strip())
    age = "" if o.last_ns is None else f", {format_seconds(max(0.0, (now_ns - o.last_ns) / 1e9))} ago"
    # A bar on a log scale: full at ten times the usual.
    share = min(1.0, max(0.0, math.log10(o.slowdown))) if o.slowdown > 0 else 0.0
    note = f"{format_seconds(o.median_seconds or 0.0)}{age} {line}".rstrip()
    return Fact(o.op, o.op, o.slowdown, "factor", share, note)


def _headline(
    operations: Sequence[OperationNow], slow: Sequence[OperationNow], hangs: Sequence[Hang], elsewhere: Sequence[str]
) -> str:
    if hangs:
        hang = max(hangs, key=lambda h: h.age_seconds)
        what = f"a {hang.op} on {hang.filesystem} has not returned for {format_seconds(hang.age_seconds)}{hang.told}"
        return f"Storage hangs: {what}."
    if not operations and elsewhere:
        return f"No path is probed: {', '.join(elsewhere[:3])} bring rows of other kinds."
    if not operations:
        return "Nothing is measured: no agent is running."
    known = [o for o in operations if o.slowdown is not None]
    if not known:
        return "No baseline yet: storage is measured, but what is usual is not known."
    if not slow:
        return "Storage is as fast as usual."
    worst = max(slow, key=lambda o: o.slowdown or 0.0)
    since = f" since {format_time_ns(worst.slow_since_ns)[11:16]} UTC" if worst.slow_since_ns else ""
    where = f"{worst.op} on {worst.filesystem}{_seen_from(worst)}"
    text = f"{where} takes {worst.slowdown:.1f} times as long as usual{since}"
    kinds = {o.op in _DATA for o in slow if o.filesystem == worst.filesystem}
    if len(kinds) == 1 and any((o.op in _DATA) not in kinds for o in known):
        text += "; metadata is normal" if kinds == {True} else "; reads and writes are normal"
    return f"{text}."
