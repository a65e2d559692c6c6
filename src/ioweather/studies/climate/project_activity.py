"""What each project did on each local day: bytes of its instrumented runs, or node-hours of its jobs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ioweather.core.facility import Facility
from ioweather.core.frames import Frame
from ioweather.core.units import DAY_NS, HOUR_NS
from ioweather.derive.calendar import facility_zone, offsets_ns

Floats: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ProjectDays:
    """`amount[i, j]`: what project i did on day first_day + j."""

    projects: tuple[str, ...]
    first_day: int
    amount: Floats


def days_of_jobs(jobs: Frame, facility: Facility, span: tuple[int, int]) -> ProjectDays:
    """Node-hours by project and day of a span of local days, a job's time split at midnight."""
    accounts, uids = jobs.text("account").tolist(), _optional(jobs.array("uid"))
    names = [facility.project_of(account=account, uid=uid) for account, uid in zip(accounts, uids, strict=True)]
    nodes = np.ma.filled(jobs.array("node_count").astype(np.float64), 1.0)
    return _spread(names, jobs.array("start_ns"), jobs.array("end_ns"), nodes / HOUR_NS, facility, span)


def days_of_runs(
    runs: Frame, applications: Frame, jobs: Frame | None, facility: Facility, span: tuple[int, int]
) -> tuple[ProjectDays, ProjectDays]:
    """Bytes read, and bytes written, by project and day: a run's bytes spread evenly over its time."""
    account_of = _accounts(jobs)
    described = {
        row["log_digest"]: facility.project_of(account=account_of.get(row["job_id"]), uid=row["uid"], exe=row["exe"])
        for row in applications.select(("log_digest", "uid", "exe", "job_id")).records()
    }
    names = [described.get(digest, "unknown") for digest in runs.text("log_digest").tolist()]
    start = runs.array("start_ns")
    end = np.maximum(runs.array("end_ns"), start + 1)
    read, write = (
        _spread(names, start, end, runs.array(metric) / (end - start), facility, span)
        for metric in ("read_bytes", "write_bytes")
    )
    return read, write


def _accounts(jobs: Frame | None) -> dict[Any, str | None]:
    if jobs is None:
        return {}
    return dict(zip(_optional(jobs.array("raw_job_id")), jobs.text("account").tolist(), strict=True))


def _optional(column: NDArray[Any]) -> list[Any]:
    """Values with None for null."""
    return list(column.tolist())


def _spread(
    names: list[str], start_ns: NDArray[Any], end_ns: NDArray[Any], per_ns: Floats, facility: Facility,
    span: tuple[int, int],
) -> ProjectDays:  # fmt: skip
    """A constant rate per ns in [start, end), cut at local midnights. Rows without both times are left out."""
    first, last = span
    projects = tuple(sorted(set(names)))
    amount = np.zeros((len(projects), max(0, last - first)))
    zone, _ = facility_zone(facility)
    known = ~(np.ma.getmaskarray(start_ns) | np.ma.getmaskarray(end_ns))
    code = {name: i for i, name in enumerate(projects)}
    row = np.array([code[name] for name in names], np.int64)[known]
    starts, ends = (np.ma.getdata(times)[known].astype(np.int64) for times in (start_ns, end_ns))
    starts, ends = starts + offsets_ns(starts, zone), ends + offsets_ns(ends, zone)
    for day in range(first, last):
        overlap = np.minimum(ends, (day + 1) * DAY_NS) - np.maximum(starts, day * DAY_NS)
        inside = overlap > 0
        np.add.at(amount[:, day - first], row[inside], overlap[inside] * per_ns[known][inside])
    return ProjectDays(projects, first, amount)
