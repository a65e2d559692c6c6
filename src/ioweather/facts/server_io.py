"""The I/O of one job as the servers counted it: rows of `job_operations` added up, each operation once."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from ioweather.core.contracts import Period
from ioweather.core.frames import Frame
from ioweather.core.tables import Quality
from ioweather.core.tables.schema import specs_of
from ioweather.core.units import NS
from ioweather.lake.convert import fetch_frame
from ioweather.lake.snapshot import Snapshot

_SERIES: Final = ("system", "component", "job_key", "operation")


@dataclass(frozen=True)
class Done:
    """How often, and how many bytes where the operation moves any. Where the servers count them: the seconds that they
    took for it, and how many requests had up to so many bytes."""

    count: int
    bytes: int
    seconds: float | None = None
    sizes: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class ServerIo:
    """`restarted_rows` are lower bounds: the servers' entry of the job started again. `times` are intervals in order:
    start, end, bytes read, bytes written, operations. `users` and `projects` are as accounting has them."""

    start_ns: int
    end_ns: int
    systems: tuple[str, ...]
    job_keys: tuple[str, ...]
    job_ids: tuple[int, ...]
    uids: tuple[int, ...]
    programs: tuple[str, ...]
    operations: dict[str, Done]
    targets: dict[str, Done]
    restarted_rows: int
    times: tuple[tuple[int, int, int, int, int], ...] = ()
    users: tuple[str, ...] = ()
    projects: tuple[str, ...] = ()

    @property
    def read_bytes(self) -> int:
        return self.operations["read"].bytes if "read" in self.operations else 0

    @property
    def write_bytes(self) -> int:
        return self.operations["write"].bytes if "write" in self.operations else 0


def server_io(rows: Frame) -> ServerIo | None:
    """None without a row. A row that lies within another one of the same job, target and operation is a part of it:
    lone snapshots count from the entry's begin on, beside recordings that tell the same piece by piece."""
    if not rows.rows:
        return None
    once = rows.take(_outermost(rows))
    start, length = once.ints("start_ns"), once.ints("interval_ns")
    quality = once.ints("quality")
    return ServerIo(
        start_ns=int(start.min()),
        end_ns=int((start + length).max()),
        systems=_distinct(once, "system"),
        job_keys=_distinct(once, "job_key"),
        job_ids=_distinct(once, "job_id"),
        uids=_distinct(once, "uid"),
        programs=_distinct(once, "exe"),
        operations=_by(once, "operation"),
        targets=_by(once, "component"),
        restarted_rows=int(((quality & int(Quality.RESET)) != 0).sum()),
        times=tuple(_times(once)),
    )


def _outermost(rows: Frame) -> Any:
    """Rows that do not lie within another: sorted by start, the longest first, each must end after all before it."""
    keys = [rows.text(name).codes for name in _SERIES]
    start = rows.ints("start_ns")
    end = start + rows.ints("interval_ns")
    order = np.lexsort((-end, start, *keys))
    same = np.ones(len(order), np.bool_)
    same[0] = False
    for codes in keys:
        same[1:] &= codes[order][1:] == codes[order][:-1]
    group = np.cumsum(~same)
    kept = np.zeros(len(order), np.bool_)
    reached, current = 0, 0
    for place, (number, row) in enumerate(zip(group.tolist(), order.tolist(), strict=True)):
        if number != current:
            current, reached = number, 0
        kept[place] = end[row] > reached
        reached = max(reached, int(end[row]))
    return np.sort(order[kept])


def _distinct(rows: Frame, column: str) -> tuple[Any, ...]:
    values = rows.text(column).tolist() if column not in ("job_id", "uid") else rows.array(column).tolist()
    return tuple(sorted({value for value in values if value is not None}))


def _by(rows: Frame, column: str) -> dict[str, Done]:
    """Counts and bytes by the values of a column, most bytes first."""
    names, counts = rows.text(column).tolist(), rows.ints("count").tolist()
    moved, lasted = _filled(rows, "bytes"), rows.array("time_ns").tolist()
    sums: dict[str, list[int]] = {}
    times: dict[str, int] = {}
    sizes: dict[str, dict[int, int]] = {}
    histograms = rows.text("histogram").tolist()
    for name, count, size, time_ns, histogram in zip(names, counts, moved, lasted, histograms, strict=True):
        total = sums.setdefault(str(name), [0, 0])
        total[0] += count
        total[1] += size
        if time_ns is not None:
            times[str(name)] = times.get(str(name), 0) + time_ns
        for up_to, requests in json.loads(histogram or "{}").items():
            found = sizes.setdefault(str(name), {})
            found[int(up_to)] = found.get(int(up_to), 0) + int(requests)
    ordered = sorted(sums.items(), key=lambda item: (-item[1][1], -item[1][0], item[0]))
    return {
        name: Done(count, size, times[name] / NS if name in times else None, dict(sorted(sizes.get(name, {}).items())))
        for name, (count, size) in ordered
    }


def _times(rows: Frame) -> Iterator[tuple[int, int, int, int, int]]:
    sums: dict[tuple[int, int], list[int]] = {}
    numbers = [rows.ints(name).tolist() for name in ("start_ns", "interval_ns", "count")]
    columns = (*numbers[:2], rows.text("operation").tolist(), _filled(rows, "bytes"), numbers[2])
    for start, length, operation, moved, count in zip(*columns, strict=True):
        total = sums.setdefault((start, start + length), [0, 0, 0])
        if operation in ("read", "write"):
            total[0 if operation == "read" else 1] += moved
        total[2] += count
    for (start, end), total in sorted(sums.items()):
        yield start, end, total[0], total[1], total[2]


def _filled(rows: Frame, column: str) -> list[int]:
    found: list[int] = np.ma.filled(np.ma.masked_array(rows.array(column)), 0).tolist()
    return found


_COLUMNS: Final = specs_of("""
    job_key=text job_id=int64? cluster=text? uid=int64? exe=text? start_ns=int64 end_ns=int64 read_bytes=int64
    write_bytes=int64
""")


def server_volumes(snapshot: Snapshot, period: Period) -> Frame:
    """A row per job: its keys, first and last moment, bytes read and written. Counts of a whole life only of jobs of
    which there is nothing finer, and of these the longest."""
    life = int(Quality.WHOLE_LIFE)
    sql = f"""WITH counted AS ({snapshot.rows("job_operations", period_ns=period)}),
        fine AS (SELECT DISTINCT system, job_key FROM counted WHERE quality & {life} = 0),
        once AS (SELECT * FROM counted WHERE quality & {life} = 0 UNION ALL (
            SELECT * FROM counted ANTI JOIN fine USING (system, job_key)
            QUALIFY row_number() OVER (PARTITION BY system, job_key, component, operation, start_ns
                                       ORDER BY interval_ns DESC) = 1))
        SELECT job_key, job_id, cluster, uid, any_value(exe) AS exe, min(start_ns) AS start_ns,
            max(start_ns + interval_ns) AS end_ns,
            TRY_CAST(coalesce(sum(bytes) FILTER (operation = 'read'), 0) AS BIGINT) AS read_bytes,
            TRY_CAST(coalesce(sum(bytes) FILTER (operation = 'write'), 0) AS BIGINT) AS write_bytes
        FROM once GROUP BY job_key, job_id, cluster, uid ORDER BY ALL"""
    return fetch_frame(snapshot.bare, sql, _COLUMNS)
