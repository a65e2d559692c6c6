"""How much of what ran left a log (car11 Table II): instrumented jobs and core-hours of all, and per project."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from ioweather.core.contracts import Params, Study
from ioweather.core.facility import Facility
from ioweather.core.frames import Bools, Floats, Frame, Ints
from ioweather.core.results import Cell, Coverage, Exhibit, Finding, Piece, ResultTable, exhibit
from ioweather.core.units import NS, format_value
from ioweather.facts.accounting import match_jobs, state_counts
from ioweather.facts.job_metrics import rows_of
from ioweather.facts.runs import JOB_COLUMNS
from ioweather.stats.estimates import grouped_share, number, plain
from ioweather.topics.source import DataSource

_MOST_PROJECTS: Final = 10
_LETTERS: Final = {"HDF5": "H", "PnetCDF": "N", "MPI-IO": "M", "STDIO": "S", "POSIX": "P"}


@dataclass(frozen=True, eq=False)
class Allocations:
    """Scheduler jobs that ran: core-hours, project, how many logs match, and the interfaces in these."""

    core_hours: Floats
    start_ns: Ints
    project: list[str]
    logs: Ints
    interfaces: list[set[str]]

    def of(self, name: str) -> Bools:
        """Return which allocations belong to a project."""
        return np.fromiter((project == name for project in self.project), np.bool_, len(self.project))

    def hours(self, rows: Bools) -> float:
        """Return the core-hours of these allocations, the same in whatever order they were read."""
        return math.fsum(np.nan_to_num(self.core_hours[rows]))


def allocations(jobs: Frame, matches: Frame, job_io: Frame, facility: Facility) -> tuple[Allocations, dict[str, int]]:
    """Allocations with a start and an end; and how many were left out, by reason."""
    whole = jobs.text("step").equals("")
    started, ended = jobs.known("start_ns"), jobs.known("end_ns")
    kept = np.flatnonzero(whole & started & ended)
    left_out = {"never_started": int((whole & ~started).sum()), "still_running": int((whole & started & ~ended).sum())}
    job_row = matches.ints("job_row", missing=-1)
    position = np.full(jobs.rows, -1)
    position[kept] = np.arange(len(kept))
    of_log = np.where(job_row >= 0, position[np.maximum(job_row, 0)], -1)
    used: list[set[str]] = [set() for _ in kept]
    names = job_io.text("interfaces").tolist()
    place = rows_of(job_io.text("log_digest"), matches.text("log_digest"))
    for allocation, row in zip(of_log.tolist(), place.tolist(), strict=True):
        if allocation >= 0 and row >= 0:
            used[allocation].update(filter(None, (names[row] or "").split(",")))
    chosen = jobs.take(kept)
    start = chosen.ints("start_ns")
    core_hours = chosen.floats("cpu_count") * (chosen.ints("end_ns") - start) / NS / 3600
    owners = zip(chosen.text("account").tolist(), chosen.array("uid").tolist(), strict=True)
    projects = [facility.project_of(account=account, uid=uid) for account, uid in owners]
    logs = np.bincount(of_log[of_log >= 0], minlength=len(kept))
    return Allocations(core_hours, start, projects, logs, used), left_out


def run(source: DataSource, params: Params) -> Iterator[Exhibit]:
    """Make Table II."""
    frames = {
        "jobs": source.frame("jobs", JOB_COLUMNS),
        "applications": source.frame("applications", ("log_digest", "job_id", "uid", "start_ns", "end_ns")),
        "job_io": source.frame("job_io", ("log_digest", "interfaces")),
    }
    yield from instrumented(frames, source.facility)


def instrumented(frames: Mapping[str, Frame], facility: Facility) -> Iterator[Exhibit]:
    """Make Table II of `jobs`, `applications` and `job_io`."""
    matches = match_jobs(frames["applications"], frames["jobs"])
    known, left_out = allocations(frames["jobs"], matches, frames["job_io"], facility)
    if known.project:
        yield _instrumented(frames, facility, matches, known, left_out)


@exhibit("car11.table2")
def _instrumented(
    frames: Mapping[str, Frame], facility: Facility, matches: Frame, known: Allocations, left_out: dict[str, int]
) -> Iterator[Piece]:
    """Share of jobs and core-hours with a log, in total, by project and by day."""
    total, with_log = len(known.project), known.logs > 0
    jobs = int(with_log.sum())

    hours, with_hours = known.hours(np.ones(total, np.bool_)), known.hours(with_log)
    ratio = number(with_hours / hours) if hours else None
    share = grouped_share("jobs_instrumented_ratio", with_log, np.ones(total), np.asarray(known.project), "project")
    used = {name: known.hours(known.of(name)) for name in sorted(set(known.project))}
    captured = {name for name, there in zip(known.project, with_log.tolist(), strict=True) if there}
    yield plain("jobs_all", total, "count"), plain("jobs_instrumented", jobs, "count", n=total), share
    yield plain("core_hours_all", number(hours), "count", n=int(np.isfinite(known.core_hours).sum()))
    yield plain("core_hours_instrumented", number(with_hours), "count", n=jobs)
    yield plain("core_hours_instrumented_ratio", ratio, "ratio", n=total)
    yield plain("projects_all", len(used), "count"), plain("projects_captured", len(captured), "count", n=len(used))
    yield Finding(
        f"{jobs:,} of {total:,} jobs ({format_value(share.value, 'ratio')}) have a Darshan log. They used "
        f"{format_value(ratio, 'ratio')} of the core-hours.",
        name="jobs_with_logs",
    )
    unseen = [name for name in used if name not in captured]
    if unseen and hours:
        largest = max(unseen, key=used.__getitem__)
        part = format_value(used[largest] / hours, "ratio")
        text = f"The largest project without a log is {largest}: {part} of the core-hours."
        yield Finding(text, name="largest_project_without_logs")
    rows: list[tuple[Cell, ...]] = []
    for name in sorted(used, key=lambda name: (-used[name], name))[:_MOST_PROJECTS]:
        mine = known.of(name)
        both = mine & with_log
        seen = set().union(*(known.interfaces[i] for i in np.flatnonzero(both)))
        letters = ",".join(letter for interface, letter in _LETTERS.items() if interface in seen)
        counts = (int(both.sum()), int(mine.sum()), float(both.sum() / mine.sum()))
        own = known.hours(both)
        rows.append((name, *counts, own, used[name], own / used[name] if used[name] else None, letters or None))
    yield ResultTable.of(
        "projects",
        "project [text]; instrumented: jobs with log [count]; jobs: of jobs [count]; jobs_ratio: share [ratio]; "
        "instrumented_hours: core-hours with log [count]; hours: of core-hours [count]; "
        "hours_ratio: share of hours [ratio]; interfaces: APIs [text]",
        rows,
        "The projects with the most core-hours",
    )
    yield (
        "A job counts as instrumented if at least one log matches its ID, user and time. A log may cover only part "
        "of the job."
    )
    yield "Interfaces of instrumented jobs: P POSIX, S POSIX streams, M MPI-IO, H HDF5, N PnetCDF."
    excluded = {reason: n for reason, n in left_out.items() if n}
    yield Coverage(total + sum(left_out.values()), total, "jobs", excluded, "that ran")
    logs = frames["applications"].rows
    yield Coverage(logs, int(known.logs.sum()), "logs", state_counts(matches), "matched to a job")


STUDY = Study(
    name="instrumentation",
    exhibits=("car11.table2",),
    needs="jobs applications job_io",
    run=run,
    too_few="the accounting data contain no job in the period",
)
