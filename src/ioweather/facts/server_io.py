"""The I/O of jobs as the servers counted it: rows of `job_operations` added up, each operation once."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from ioweather.core.contracts import Period
from ioweather.core.frames import Frame
from ioweather.core.tables import Quality
from ioweather.core.tables.schema import specs_of
from ioweather.core.units import NS
from ioweather.facts.file_records import first_of_each
from ioweather.lake.database import fetch_frame
from ioweather.lake.snapshot import Snapshot

_SERIES: Final = ("system", "component", "job_key", "operation")


@dataclass(frozen=True)
class Done:
    """Count and bytes of an operation; if the servers count them, their seconds, and requests by upper size limit."""

    count: int
    bytes: int
    seconds: float | None = None
    sizes: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class ServerIo:
    """I/O of one job. `restarted_rows` are lower bounds: the servers' counters of the job were reset. `times` are
    intervals in order: start, end, bytes read, bytes written, operations. `users` and `projects` are of accounting."""

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
    """Add up the rows of one job; None without rows.

    A row within the time of another one of the same job, target and operation is a part of it: single snapshots count
    from the entry's begin on, and recordings have the same operations piece by piece.
    """
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
    """Rows that are not within another: sorted by start, the longest first, each must end after all before it."""
    keys = [rows.text(name).codes for name in _SERIES]
    start = rows.ints("start_ns")
    end = start + rows.ints("interval_ns")
    order = np.lexsort((-end, start, *keys))
    group = np.cumsum(first_of_each(*(codes[order] for codes in keys)))
    kept = np.zeros(len(order), np.bool_)
    reached, current = 0, 0
    for place, (number, row) in enumerate(zip(group.tolist(), order.tolist(), strict=True)):
        if number != current:
            current, reached = number, 0
        kept[place] = end[row] > reached
        reached = max(reached, int(end[row]))
    return np.sort(order[kept])


def _distinct(rows: Frame, column: str) -> tuple[Any, ...]:
    values = rows.array(column) if column in ("job_id", "uid") else rows.text(column)
    return tuple(sorted(set(values.tolist()) - {None}))


def _by(rows: Frame, column: str) -> dict[str, Done]:
    """Return amounts by the values of a column, most bytes first."""
    names, histograms = rows.text(column).tolist(), rows.text("histogram").tolist()
    columns = (names, rows.ints("count").tolist(), _filled(rows, "bytes"), rows.array("time_ns").tolist(), histograms)
    count, moved, sizes = Counter[str](), Counter[str](), defaultdict[str, Counter[int]](Counter)
    time_ns: dict[str, int] = {}
    for value, operations, amount, spent_ns, histogram in zip(*columns, strict=True):
        name = str(value)
        count[name] += operations
        moved[name] += amount
        if spent_ns is not None:
            time_ns[name] = time_ns.get(name, 0) + spent_ns
        for up_to, requests in json.loads(histogram or "{}").items():
            sizes[name][int(up_to)] += int(requests)
    seconds = {name: total / NS for name, total in time_ns.items()}
    ordered = sorted(count, key=lambda name: (-moved[name], -count[name], name))
    return {
        name: Done(count[name], moved[name], seconds.get(name), dict(sorted(sizes[name].items()))) for name in ordered
    }


def _times(rows: Frame) -> Iterator[tuple[int, int, int, int, int]]:
    sums: dict[tuple[int, int], list[int]] = {}
    numbers = (rows.ints(name).tolist() for name in ("start_ns", "interval_ns", "count"))
    for start, length, count, operation, moved in zip(
        *numbers, rows.text("operation").tolist(), _filled(rows, "bytes"), strict=True
    ):
        total = sums.setdefault((start, start + length), [0, 0, 0])
        if operation in ("read", "write"):
            total[("read", "write").index(operation)] += moved
        total[2] += count
    for (start, end), (read, written, operations) in sorted(sums.items()):
        yield start, end, read, written, operations


def _filled(rows: Frame, column: str) -> list[int]:
    found: list[int] = np.ma.filled(np.ma.masked_array(rows.array(column)), 0).tolist()
    return found


_COLUMNS: Final = specs_of("""
    job_key=text job_id=int64? cluster=text? uid=int64? exe=text? start_ns=int64 end_ns=int64 read_bytes=int64
    write_bytes=int64
""")


def server_volumes(snapshot: Snapshot, period: Period) -> Frame:
    """Return a row per job: keys, first and last time, bytes read and written. Counts over a job's whole life are only
    used for jobs without finer ones, and of these the longest."""
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
