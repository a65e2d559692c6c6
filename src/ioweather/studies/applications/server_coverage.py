"""What logs show of what jobs moved, beside what the servers counted of all jobs, with and without a log."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from ioweather.core.contracts import Need
from ioweather.core.facility import Facility
from ioweather.core.frames import Frame
from ioweather.core.results import Cell, ResultTable
from ioweather.core.units import NS

COUNTED: Final = Need("counted", "job_operations", shape="volumes", optional=True)
CAVEAT: Final = (
    "Servers count one file system and what clients do not keep in memory; logs count all file systems. Bytes of logs "
    "are those of runs that began while the servers counted."
)
# A job's counters appear and vanish up to so long beside its time.
_GRACE_NS: Final = 600 * NS
_MOST_PROJECTS: Final = 10


@dataclass
class Seen:
    """Of one project: jobs and bytes that servers counted, those of them that have a log, and bytes of all logs."""

    jobs: int = 0
    jobs_with_log: int = 0
    server_bytes: int = 0
    server_bytes_with_log: int = 0
    log_bytes: int = 0

    @property
    def with_log_ratio(self) -> float | None:
        return self.server_bytes_with_log / self.server_bytes if self.server_bytes else None


def seen_by_servers(counted: Frame | None, logs: Frame, jobs: Frame | None, facility: Facility) -> dict[str, Seen]:
    """By project. `counted` has a row per job, `logs` are runs with `job_id`, `uid`, `project`, `start_ns`, `end_ns`
    and bytes, `jobs` the accounting. Work without a job id is nobody's job and left out. Empty where nothing is
    counted."""
    found: dict[str, Seen] = {}
    if counted is None or not counted.rows:
        return found
    ran, accounts = _by_id(logs.records(), "job_id"), _by_id(_allocations(jobs), "raw_job_id")
    for row in counted.records():
        if row["job_id"] is None:
            continue
        log = _of(ran, row)
        account = _of(accounts, row) or {}
        uid = row["uid"] if row["uid"] is not None else account.get("uid")
        name = log["project"] if log else facility.project_of(account=account.get("account"), uid=uid, exe=row["exe"])
        seen, moved = found.setdefault(str(name), Seen()), row["read_bytes"] + row["write_bytes"]
        seen.jobs += 1
        seen.server_bytes += moved
        if log:
            seen.jobs_with_log += 1
            seen.server_bytes_with_log += moved
    first, last = int(counted.ints("start_ns").min()), int(counted.ints("end_ns").max())
    start = logs.ints("start_ns")
    for row in logs.take(np.flatnonzero((start >= first) & (start < last))).records():
        found.setdefault(str(row["project"]), Seen()).log_bytes += row["read_bytes"] + row["write_bytes"]
    return found


def _allocations(jobs: Frame | None) -> list[dict[str, Any]]:
    if jobs is None:
        return []
    return [row for row in jobs.records() if not row["step"] and None not in (row["raw_job_id"], row["start_ns"])]


def _by_id(rows: Iterable[dict[str, Any]], column: str) -> dict[int, list[dict[str, Any]]]:
    found: dict[int, list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault(int(row[column]), []).append(row)
    return found


def _of(known: dict[int, list[dict[str, Any]]], counted: dict[str, Any]) -> dict[str, Any] | None:
    """The first that has the id and ran meanwhile, of the same user and cluster where both are known."""
    for row in known.get(counted["job_id"], ()):
        end = row["end_ns"] if row["end_ns"] is not None else counted["end_ns"]
        if row["start_ns"] > counted["end_ns"] + _GRACE_NS or end < counted["start_ns"] - _GRACE_NS:
            continue
        if all(None in (row.get(name), counted[name]) or row[name] == counted[name] for name in ("uid", "cluster")):
            return row
    return None


def coverage_table(seen: dict[str, Seen]) -> ResultTable:
    names = sorted(seen, key=lambda name: (-seen[name].server_bytes, name))[:_MOST_PROJECTS]
    of_each = [(name, seen[name]) for name in names]
    rows: list[tuple[Cell, ...]] = [
        (name, s.jobs, s.jobs_with_log, s.server_bytes, s.server_bytes_with_log, s.with_log_ratio, s.log_bytes)
        for name, s in of_each
    ]
    return ResultTable.of(
        "servers",
        "project [text]; jobs: jobs counted by servers [count]; jobs_with_log: of them with log [count]; "
        "server_bytes: bytes by servers [bytes]; server_bytes_with_log: of jobs with log [bytes]; "
        "with_log_ratio: share [ratio]; log_bytes: bytes by logs [bytes]",
        rows,
        "Bytes by the servers, and how much of them is of jobs with a log",
    )
