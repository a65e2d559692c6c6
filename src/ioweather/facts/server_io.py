"""The I/O of jobs as the servers counted it: rows of `job_operations` added up, each operation once."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

from ioweather.core.frames import Frame
from ioweather.core.tables import Quality

_SERIES: Final = ("system", "component", "job_key", "operation")


@dataclass(frozen=True)
class OperationTotals:
    """Count and bytes of an operation."""

    count: int
    bytes: int


@dataclass(frozen=True)
class ServerIo:
    """I/O of one job. `restarted_rows` are lower bounds: the servers' counters of the job were reset. `times` are
    intervals in order: start, end, bytes read, bytes written."""

    start_ns: int
    end_ns: int
    systems: tuple[str, ...]
    operations: dict[str, OperationTotals]
    targets: dict[str, OperationTotals]
    restarted_rows: int
    times: tuple[tuple[int, int, int, int], ...] = ()

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
    ordered = [row | {"end_ns": row["start_ns"] + row["interval_ns"]} for row in rows.records()]
    ordered.sort(key=lambda row: (*(str(row[name]) for name in _SERIES), row["start_ns"], -row["end_ns"]))
    once: list[dict[str, Any]] = []
    for _, series in groupby(ordered, key=lambda row: [row[name] for name in _SERIES]):
        reached = 0
        for row in series:
            if row["end_ns"] > reached:
                once.append(row)
                reached = row["end_ns"]
    if not once:
        return None
    times: dict[tuple[int, int], Counter[str]] = defaultdict(Counter)
    for row in once:
        times[row["start_ns"], row["end_ns"]][row["operation"]] += row["bytes"] or 0
    return ServerIo(
        start_ns=min(row["start_ns"] for row in once),
        end_ns=max(row["end_ns"] for row in once),
        systems=tuple(sorted({row["system"] for row in once})),
        operations=_add_up(once, "operation"),
        targets=_add_up(once, "component"),
        restarted_rows=sum(bool(row["quality"] & Quality.RESET) for row in once),
        times=tuple((*span, moved["read"], moved["write"]) for span, moved in sorted(times.items())),
    )


def _add_up(rows: Sequence[Mapping[str, Any]], column: str) -> dict[str, OperationTotals]:
    """Return amounts by the values of a column, most bytes first."""
    groups: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        groups[str(row[column])].append(row)
    found = {
        name: OperationTotals(sum(row["count"] for row in mine), sum(row["bytes"] or 0 for row in mine))
        for name, mine in groups.items()
    }
    return dict(sorted(found.items(), key=lambda item: (-item[1].bytes, -item[1].count, item[0])))
