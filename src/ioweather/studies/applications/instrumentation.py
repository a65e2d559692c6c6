"""How much of what ran left a log (car11 Table II): instrumented jobs and core-hours of all, per project."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ioweather.core.arrays import Bools, Floats, Ints
from ioweather.core.clock import utc_day
from ioweather.core.contracts import Need, Params, Study, StudyData
from ioweather.core.facility import Facility
from ioweather.core.frames import Frame
from ioweather.core.results import Cell, Chart, Coverage, Exhibit, Finding, ResultTable
from ioweather.core.units import DAY_NS, NS, format_bytes, format_value
from ioweather.core.words import names_of
from ioweather.derive.jobs.file_records import rows_of
from ioweather.derive.jobs.matching import match_jobs, state_counts
from ioweather.studies.applications.server_coverage import CAVEAT, COUNTED, Seen, coverage_table, seen_by_servers
from ioweather.studies.shared.intervals import number, plain
from ioweather.studies.shared.job_estimates import share_estimate
from ioweather.tables import encode_text

_MOST_PROJECTS: Final = 10
_LETTERS: Final = {"POSIX": "P", "STDIO": "S", "MPI-IO": "M", "HDF5": "H", "PnetCDF": "N"}


@dataclass(frozen=True, eq=False)
class Allocations:
    """Scheduler jobs that ran: core-hours, project, how many logs match, and the interfaces in these."""

    core_hours: Floats
    start_ns: Ints
    project: list[str]
    logs: Ints
    interfaces: list[frozenset[str]]

    def of(self, name: str) -> Bools:
        return np.fromiter((project == name for project in self.project), np.bool_, len(self.project))


def allocations(jobs: Frame, matches: Frame, job_io: Frame, facility: Facility) -> tuple[Allocations, dict[str, int]]:
    """Allocations with a start and an end; and how many were left out, by reason."""
    whole = jobs.text("step").equals("")
    started = jobs.known("start_ns")
    ended = jobs.known("end_ns")
    kept = np.flatnonzero(whole & started & ended)
    left_out = {"never_started": int((whole & ~started).sum()), "still_running": int((whole & started & ~ended).sum())}
    job_row = matches.ints("job_row", missing=-1)
    position = np.full(jobs.rows, -1)
    position[kept] = np.arange(len(kept))
    of_log = np.where(job_row >= 0, position[np.maximum(job_row, 0)], -1)
    start = jobs.ints("start_ns")[kept]
    seconds = (jobs.ints("end_ns")[kept] - start) / NS
    cpus = jobs.floats("cpu_count")[kept]
    return (
        Allocations(
            core_hours=cpus * seconds / 3600,
            start_ns=start,
            project=_projects(jobs.take(kept), facility),
            logs=np.bincount(of_log[of_log >= 0], minlength=len(kept)),
            interfaces=_interfaces(matches, job_io, of_log, len(kept)),
        ),
        left_out,
    )


def _projects(jobs: Frame, facility: Facility) -> list[str]:
    uids = jobs.array("uid").tolist()
    return [
        facility.project_of(account=account, uid=uid)
        for account, uid in zip(jobs.text("account").tolist(), uids, strict=True)
    ]


def _interfaces(matches: Frame, job_io: Frame, of_log: NDArray[Any], count: int) -> list[frozenset[str]]:
    used: list[set[str]] = [set() for _ in range(count)]
    place = rows_of(job_io.text("log_digest"), matches.text("log_digest"))
    names = job_io.text("interfaces").tolist()
    for allocation, row in zip(of_log.tolist(), place.tolist(), strict=True):
        if allocation >= 0 and row >= 0:
            used[allocation].update(filter(None, (names[row] or "").split(",")))
    return [frozenset(names) for names in used]


def _logs(applications: Frame, matches: Frame, job_io: Frame, facility: Facility) -> Frame:
    """The logs with their project and bytes."""
    place = rows_of(job_io.text("log_digest"), applications.text("log_digest"))
    known = applications.take(np.flatnonzero(place >= 0))
    moved = job_io.take(place[place >= 0])
    accounts = matches.take(np.flatnonzero(place >= 0)).text("account").tolist()
    owners = zip(accounts, known.ints("uid").tolist(), known.text("exe").tolist(), strict=True)
    projects = [facility.project_of(account=account, uid=uid, exe=exe) for account, uid, exe in owners]
    return Frame(
        {
            **{name: known[name] for name in ("job_id", "uid", "start_ns", "end_ns")},
            **{name: moved[name] for name in ("read_bytes", "write_bytes")},
            "project": encode_text(projects),
        }
    )


def _on_servers(data: StudyData, matches: Frame, facility: Facility) -> dict[str, Seen]:
    if "counted" not in data.frames:
        return {}
    logs = _logs(data.frames["applications"], matches, data.frames["job_io"], facility)
    return seen_by_servers(data.frames["counted"], logs, data.frames["jobs"], facility)


def _server_findings(seen: dict[str, Seen]) -> Iterator[Finding]:
    counted = sum(each.server_bytes for each in seen.values())
    with_log = sum(each.server_bytes_with_log for each in seen.values())
    if counted:
        yield Finding(
            f"Of {format_bytes(counted)} that the servers counted of jobs, {with_log / counted:.0%} are of jobs with a "
            "log.",
            name="server_bytes_with_logs",
        )


def _without_logs(known: Allocations, unseen: Collection[str], hours: float) -> Iterator[Finding]:
    used = {name: float(np.nansum(known.core_hours[known.of(name)])) for name in sorted(unseen)}
    if used and hours:
        largest = max(used, key=used.__getitem__)
        share = format_value(used[largest] / hours, "ratio")
        yield Finding(
            f"The largest project without a log is {largest}: {share} of the core-hours.",
            name="largest_project_without_logs",
        )


def run(data: StudyData, facility: Facility, params: Params) -> Iterator[Exhibit]:
    applications = data.frames["applications"]
    matches = match_jobs(applications, data.frames["jobs"])
    known, left_out = allocations(data.frames["jobs"], matches, data.frames["job_io"], facility)
    total = len(known.project)
    if not total:
        return
    instrumented = known.logs > 0
    hours, with_hours = np.nansum(known.core_hours), np.nansum(known.core_hours[instrumented])
    share = share_estimate("jobs_instrumented_ratio", int(instrumented.sum()), total)
    projects = set(known.project)
    captured = {name for name, there in zip(known.project, instrumented.tolist(), strict=True) if there}
    seen = _on_servers(data, matches, facility)
    findings = [
        Finding(
            f"{int(instrumented.sum()):,} of {total:,} jobs ({format_value(share.value, 'ratio')}) left a Darshan log; "
            f"they used {format_value(number(with_hours / hours) if hours else None, 'ratio')} of the core-hours.",
            name="jobs_with_logs",
        ),
        Finding(
            f"{len(captured):,} of {len(projects):,} projects are seen in at least one log.", name="projects_with_logs"
        ),
        *_without_logs(known, projects - captured, hours),
        *_server_findings(seen),
    ]
    yield Exhibit(
        "car11.table2",
        tables=(_by_project(known, instrumented), *((coverage_table(seen),) if seen else ())),
        charts=(_over_time(known, instrumented),),
        estimates=(
            plain("jobs_all", total, "count"),
            plain("jobs_instrumented", int(instrumented.sum()), "count", n=total),
            share,
            plain("core_hours_all", number(hours), "count", n=int(np.isfinite(known.core_hours).sum())),
            plain("core_hours_instrumented", number(with_hours), "count", n=int(instrumented.sum())),
            plain("core_hours_instrumented_ratio", number(with_hours / hours) if hours else None, "ratio", n=total),
            plain("projects_all", len(projects), "count"),
            plain("projects_captured", len(captured), "count", n=len(projects)),
        ),
        findings=tuple(findings),
        caveats=(
            "A job counts as instrumented when at least one log matches it by id, user and time; a log may cover only "
            "a part of the job.",
            "Interfaces: P POSIX, S POSIX streams, M MPI-IO, H HDF5, N PnetCDF, of instrumented jobs.",
            *((CAVEAT,) if seen else ()),
        ),
        coverage=(
            Coverage(
                total + sum(left_out.values()), total, "jobs", {k: n for k, n in left_out.items() if n}, "that ran"
            ),
            Coverage(
                applications.rows, int((known.logs).sum()), "logs", state_counts(matches), "matched to such a job"
            ),
        ),
    )


def _by_project(known: Allocations, instrumented: Bools) -> ResultTable:
    names = sorted(set(known.project), key=lambda name: (-float(np.nansum(known.core_hours[known.of(name)])), name))
    rows: list[tuple[Cell, ...]] = []
    for name in names[:_MOST_PROJECTS]:
        mine = known.of(name)
        both = mine & instrumented
        used = frozenset().union(*(known.interfaces[i] for i in np.flatnonzero(both)))
        hours = float(np.nansum(known.core_hours[mine]))
        with_log = float(np.nansum(known.core_hours[both]))
        letters = ",".join(_LETTERS[name] for name in ("HDF5", "PnetCDF", "MPI-IO", "STDIO", "POSIX") if name in used)
        counts = (int(both.sum()), int(mine.sum()), float(both.sum() / mine.sum()))
        rows.append((name, *counts, with_log, hours, with_log / hours if hours else None, letters or None))
    return ResultTable.of(
        "projects",
        "project [text]; instrumented: jobs with log [count]; jobs: of jobs [count]; jobs_ratio: share [ratio]; "
        "instrumented_hours: core-hours with log [count]; hours: of core-hours [count]; "
        "hours_ratio: share of hours [ratio]; interfaces: APIs [text]",
        rows,
        "The projects with the most core-hours",
    )


def _over_time(known: Allocations, instrumented: Bools) -> Chart:
    """Share of each day's jobs and core-hours that left a log."""
    day = known.start_ns // DAY_NS
    rows: list[tuple[Cell, ...]] = []
    for number_of_day in np.unique(day).tolist():
        there = day == number_of_day
        hours = float(np.nansum(known.core_hours[there]))
        with_log = float(np.nansum(known.core_hours[there & instrumented]))
        moment = int(number_of_day) * DAY_NS
        rows.append((moment, utc_day(moment), float(instrumented[there].mean()), "jobs"))
        rows.append((moment, utc_day(moment), with_log / hours if hours else None, "core-hours"))
    table = ResultTable.of("over_time", "time [time_ns]; day [text]; share: with a log [ratio]; of [text]", rows)
    return Chart.of(
        "timeline", table, "x=time y=share series=of", "Share of each day's jobs and core-hours with a Darshan log"
    )


STUDY = Study(
    name="instrumentation",
    exhibits=("car11.table2",),
    needs=(
        Need(
            "jobs",
            "jobs",
            columns=names_of("cluster raw_job_id step restart uid user account start_ns end_ns node_count cpu_count"),
        ),
        Need("applications", "applications", columns=("log_digest", "job_id", "uid", "exe", "start_ns", "end_ns")),
        Need("job_io", "job_io", columns=("log_digest", "interfaces", "read_bytes", "write_bytes")),
        COUNTED,
    ),
    run=run,
    too_few="the accounting has no job in the period",
)
