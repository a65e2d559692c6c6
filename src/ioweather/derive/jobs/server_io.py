"""The I/O of one job as the servers counted it: rows of `job_operations` added up, each operation once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from ioweather.core.frames import Frame
from ioweather.tables.series import Quality

_SERIES: Final = ("system", "component", "job_key", "operation")


@dataclass(frozen=True)
class Done:
    """How often, and how many bytes where the operation moves any."""

    count: int
    bytes: int


@dataclass(frozen=True)
class ServerIo:
    """`restarted_rows` are lower bounds: the servers' entry of the job started again."""

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
    sums: dict[str, list[int]] = {}
    moved = np.ma.filled(np.ma.masked_array(rows.array("bytes")), 0).tolist()
    for name, count, size in zip(rows.text(column).tolist(), rows.ints("count").tolist(), moved, strict=True):
        total = sums.setdefault(str(name), [0, 0])
        total[0] += count
        total[1] += size
    ordered = sorted(sums.items(), key=lambda item: (-item[1][1], -item[1][0], item[0]))
    return {name: Done(count, size) for name, (count, size) in ordered}
