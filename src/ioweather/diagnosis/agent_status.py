"""The agents' status files, with the last half hour and the baseline from the lake: the needs `status`, `recent`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from ioweather.agent.status import OperationStatus, Remote, Status, TargetStatus, read_status, remote_agents, troubles
from ioweather.core.baseline import Baseline
from ioweather.core.clock import now_ns
from ioweather.core.default_paths import default_spool_dir
from ioweather.core.errors import DataUnavailable
from ioweather.core.facility import Facility
from ioweather.core.units import HOUR_NS, MINUTE_NS, NS
from ioweather.diagnosis.now_answer import HANG_SECONDS, SLOW, AgentNow, Hang, OperationNow, SeenNow
from ioweather.lake.snapshot import Snapshot
from ioweather.stats.histograms import RELATIVE_ERROR
from ioweather.stats.rollups import RESPONSE_COLUMNS, ROLLUP_COLUMNS
from ioweather.stats.slowdown import (
    COUNTINGS,
    LEAST_BASELINE,
    OperationSeries,
    exact_series,
    operation_series,
)

_SPARK_MINUTES = 30
_RECENT_NS = _SPARK_MINUTES * MINUTE_NS
_FOR_EVER_NS = 1 << 62


def seen_now(
    spools: Sequence[Path], history: History | None, pushed_to: Path | None, at_ns: int | None = None
) -> SeenNow:
    """What the agents whose spools these are see (default: the person's own), and those that push to the lake."""
    moment, history = at_ns or now_ns(), history or History()
    places = spools or (default_spool_dir(),)
    statuses = [status for spool in places if (status := _status(spool)) is not None]
    remote = remote_agents(pushed_to, moment, statuses)
    if not statuses and not remote:
        raise DataUnavailable("No agent has run here.", hint="Start one: ioweather probe PATH")
    operations: list[OperationNow] = []
    hangs: list[Hang] = []
    # Of an agent elsewhere that is gone no old numbers: they would be told for days.
    live = [agent.status for agent in remote if agent.status and agent.state(moment) == "running"]
    for status in (*statuses, *live):
        host = "" if status.received_ns is None else status.host
        for target in status.targets:
            filesystem = history.facility.filesystem_of(target.system).removeprefix("mount:")
            age = status.in_flight_age_ns(target, moment)
            if target.in_flight is not None and age is not None and age > HANG_SECONDS * NS:
                told = (moment - status.heard_ns) / NS
                hangs.append(Hang(filesystem, target.target, target.in_flight.op, age / NS, host, told))
            found = (_operation(filesystem, target, o, history) for o in target.operations)
            operations += [replace(o, host=host, last_ns=_by_our_clock(status, o.last_ns)) for o in found]
    stale = tuple(status.host for status in statuses if status.is_stale(moment))
    agents = tuple(_agent(agent, moment) for agent in remote)
    return SeenNow(tuple(operations), tuple(hangs), agents, stale, tuple(_notes(history)), moment)


def _by_our_clock(status: Status, moment_ns: int | None) -> int | None:
    """A moment of the agent's clock: what was written at `written_ns` came here at `heard_ns`."""
    return None if moment_ns is None else moment_ns + status.heard_ns - status.written_ns


def _agent(agent: Remote, moment: int) -> AgentNow:
    heard, status = (moment - agent.heard_ns) / NS, agent.status
    if status is None:
        return AgentNow(agent.host, agent.state(moment), heard, version="tells no status")
    state = agent.state(moment)
    cycles = [source.last_start_ns for source in status.sources if source.last_start_ns is not None]
    cycles += [o.last.start_ns for target in status.targets for o in target.operations if o.last is not None]
    return AgentNow(
        agent.host,
        state,
        heard,
        max(0, status.written_ns - max(cycles)) / NS if cycles else None,
        status.spool.files,
        status.software_version,
        tuple(troubles(status, hangs=state != "running")),  # those of one that runs are told as the weather
    )


def _status(spool: Path) -> Status | None:
    try:
        return read_status(spool)
    except DataUnavailable:
        return None


Key = tuple[str, str, int]
Usual = dict[Key, tuple[float, int]]
Recent = dict[Key, OperationSeries]


@dataclass(frozen=True)
class History:
    """What a lake adds to the agents' status: per target's system and operation what is usual, the minutes of the last
    half hour, and all of it as one interval."""

    facility: Facility = field(default_factory=Facility)
    usual: Usual = field(default_factory=dict)
    minutes: Recent = field(default_factory=dict)
    half_hour: Recent = field(default_factory=dict)
    exact: bool = False


def lake_history(snapshot: Snapshot, at_ns: int | None = None, exact: bool = False) -> History:
    """From roll-ups; `exact` from every operation."""
    moment = at_ns or now_ns()
    period = (moment - _RECENT_NS, moment)
    if not snapshot.pinned["response_rollups"].uris:
        return History(snapshot.facility)
    if exact:
        usual = _exact_baselines(snapshot, moment)
        rows, of_rows = snapshot.frame("responses", RESPONSE_COLUMNS, period_ns=period), exact_series
    else:
        usual = _baselines(snapshot, moment)
        rows = snapshot.frame("response_rollups", ROLLUP_COLUMNS, {"interval_ns": MINUTE_NS}, period)
        of_rows = operation_series

    def by_key(interval_ns: int) -> Recent:
        return {(s.filesystem, s.op, s.request_bytes): s for s in of_rows(rows, {}, interval_ns)}

    return History(snapshot.facility, usual, by_key(MINUTE_NS), by_key(_FOR_EVER_NS), exact)


def _span(baseline: Baseline, moment: int) -> tuple[int, int] | None:
    """The part of the lake that tells what is usual at this moment; None is all of it."""
    return (moment - baseline.window_ns, moment) if baseline.window_ns is not None else baseline.period_ns


def _baselines(snapshot: Snapshot, moment: int) -> Usual:
    baseline = snapshot.facility.baseline
    hours = snapshot.frame("response_rollups", ROLLUP_COLUMNS, {"interval_ns": HOUR_NS}, _span(baseline, moment))
    found = {
        (s.filesystem, s.op, s.request_bytes): s.expected(baseline, moment)
        for s in operation_series(hours, {}, HOUR_NS)
    }
    return {key: (usual, n) for key, (usual, n) in found.items() if usual is not None}


def _exact_baselines(snapshot: Snapshot, moment: int) -> Usual:
    """In the database: its median is the same order statistic, and the operations need not be held here."""
    baseline = snapshot.facility.baseline
    given = baseline.seconds or {}
    ended = snapshot.rows("responses", {"status": "ok"}, _span(baseline, moment))
    rows = snapshot.bare.execute(
        f"SELECT system, op, request_bytes, quantile_disc(duration_ns, 0.5), count(*) FROM ({ended}) "
        "WHERE NOT coalesce(cached, FALSE) AND duration_ns IS NOT NULL GROUP BY ALL"
    ).fetchall()
    return {
        (system, op, size): (given.get(op, median / NS), n)
        for system, op, size, median, n in rows
        if n >= LEAST_BASELINE or op in given
    }


def _notes(history: History) -> list[str]:
    if not history.usual:
        return []
    source = "single operations" if history.exact else f"roll-ups, right to within {RELATIVE_ERROR:.1%}"
    return [f"Usual is {history.facility.baseline}, from {source}."]


def _operation(filesystem: str, target: TargetStatus, status: OperationStatus, history: History) -> OperationNow:
    key = (target.system, status.op, status.request_bytes)
    # The lake's baseline is of the whole period; the agent's own serves until there is one.
    expected = history.usual.get(key) or (
        (status.expected_ns / NS, status.expected_count) if status.expected_ns else (None, status.expected_count)
    )
    tail = history.half_hour.get(key)
    now = OperationNow(
        filesystem=filesystem,
        target=target.target,
        op=status.op,
        median_seconds=status.recent.median_ns / NS if status.recent.median_ns is not None else None,
        expected_seconds=expected[0],
        expected_count=expected[1],
        count=status.ok_count,
        errors=dict(status.errors),
        missed=status.missed_count,
        last_ns=status.last.start_ns if status.last else None,
        q99_seconds=_tail(tail) if tail else None,
        recent_missed=int(tail.missed_count.sum()) if tail else 0,
    )
    series = history.minutes.get(key)
    if series is None or not now.expected_seconds:
        return now
    slowdown = series.statistics["median"] / now.expected_seconds
    slow = np.flatnonzero(slowdown >= SLOW)
    since = None
    if len(slow) and slow[-1] == len(slowdown) - 1:
        # The start of the stretch of slow minutes that reaches to now.
        calm = np.flatnonzero(~(slowdown >= SLOW))
        since = int(series.start_ns[int(calm[-1]) + 1 if len(calm) else 0])
    values = tuple(None if np.isnan(v) else float(v) for v in slowdown[-_SPARK_MINUTES:].tolist())
    return replace(now, recent=values, slow_since_ns=since)


def _tail(series: OperationSeries) -> tuple[float | None, float | None]:
    raw, corrected = (float(series.counted(how)["q99"][0]) for how in COUNTINGS)
    return (None if np.isnan(raw) else raw, None if np.isnan(corrected) else corrected)
