"""`ioweather now`: the agents' status files, with the last hour and the baseline from the lake where there is one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from ioweather.collect.status import OperationStatus, Status, TargetStatus, read_status
from ioweather.core.clock import now_ns
from ioweather.core.errors import DataUnavailable, LakeError
from ioweather.core.facility import Facility
from ioweather.core.results import Answer
from ioweather.core.units import HOUR_NS, MINUTE_NS, NS
from ioweather.derive.slowdown import OperationSeries, operation_series
from ioweather.store.lake import Lake, open_lake
from ioweather.studies.weather import HANG_SECONDS, SLOW, Hang, OperationNow, weather_answer
from ioweather.tables.responses import RESPONSE_ROLLUPS

_SPARK_MINUTES = 30


def weather_now(
    spools: Sequence[Path],
    lake_dir: str | None = None,
    *,
    at_ns: int | None = None,
    history: History | None = None,
) -> tuple[Answer, bool]:
    """What the agents whose spools these are see; whether something is wrong. `history` stands for the lake's own."""
    moment = at_ns or now_ns()
    statuses = [status for spool in spools if (status := _status(spool)) is not None]
    if history is None:
        lake = _lake(lake_dir)
        history = lake_history(lake, moment) if lake else History()
    facility, usual, recent = history.facility, history.usual, history.recent
    operations: list[OperationNow] = []
    hangs: list[Hang] = []
    for status in statuses:
        for target in status.targets:
            filesystem = facility.filesystem_of(target.system).removeprefix("mount:")
            age = status.in_flight_age_ns(target, moment)
            if target.in_flight is not None and age is not None and age > HANG_SECONDS * NS:
                hangs.append(Hang(filesystem, target.target, target.in_flight.op, age / NS))
            operations += [_operation(filesystem, target, o, usual, recent) for o in target.operations]
    stale = [status.host for status in statuses if status.is_stale(moment)]
    if not statuses:
        raise DataUnavailable("No agent has run here.", hint="Start one: ioweather probe PATH")
    return weather_answer(operations, hangs, now_ns=moment, stale=stale)


def _status(spool: Path) -> Status | None:
    try:
        return read_status(spool)
    except DataUnavailable:
        return None


def _lake(lake_dir: str | None) -> Lake | None:
    try:
        return open_lake(lake_dir)
    except LakeError:
        if lake_dir is not None:
            raise
        return None


Baselines = dict[tuple[str, str, int], tuple[float, int]]
Recent = dict[tuple[str, str, int], OperationSeries]


@dataclass(frozen=True)
class History:
    """What a lake adds to the agents' status: per target's system and operation the median of all hours, and the
    minutes of the last hour."""

    facility: Facility = field(default_factory=Facility)
    usual: Baselines = field(default_factory=dict)
    recent: Recent = field(default_factory=dict)


def lake_history(lake: Lake, at_ns: int | None = None) -> History:
    moment = at_ns or now_ns()
    with lake.snapshot() as snapshot:
        if not snapshot.pinned["response_rollups"].uris:
            return History(snapshot.facility)
        columns = RESPONSE_ROLLUPS.names
        hours = snapshot.frame("response_rollups", columns, {"interval_ns": HOUR_NS})
        period = (moment - _SPARK_MINUTES * MINUTE_NS, moment)
        minutes = snapshot.frame("response_rollups", columns, {"interval_ns": MINUTE_NS}, period)
    usual: Baselines = {}
    for series in operation_series(hours, {}, HOUR_NS):
        expected, n = series.expected()
        if expected is not None:
            usual[(series.filesystem, series.op, series.request_bytes)] = (expected, n)
    recent = {(s.filesystem, s.op, s.request_bytes): s for s in operation_series(minutes, {}, MINUTE_NS)}
    return History(snapshot.facility, usual, recent)


def _operation(
    filesystem: str, target: TargetStatus, status: OperationStatus, usual: Baselines, recent: Recent
) -> OperationNow:
    key = (target.system, status.op, status.request_bytes)
    # The lake's baseline is of the whole period; the agent's own serves until there is one.
    expected = usual.get(key) or (
        (status.expected_ns / NS, status.expected_count) if status.expected_ns else (None, status.expected_count)
    )
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
    )
    series = recent.get(key)
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
