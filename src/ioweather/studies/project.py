"""`project`: one project on one screen: volume, performance of its jobs, dominant I/O and files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches

import numpy as np

from ioweather.core.choices import PROCESSES_PER_NODE
from ioweather.core.contracts import Param, Params, Question
from ioweather.core.errors import DataUnavailable
from ioweather.core.facility import Facility
from ioweather.core.frames import Frame
from ioweather.core.results import Answer, Chart, Exhibit, Fact, FactGroup, ResultTable
from ioweather.core.units import DAY_NS, format_bytes
from ioweather.facts.accounting import match_jobs
from ioweather.facts.runs import Runs, fetch_runs, jobs_of
from ioweather.stats.estimates import median
from ioweather.studies.car11.instrumentation import allocations
from ioweather.studies.car11.projects import project_findings
from ioweather.topics.source import DataSource


@dataclass(frozen=True)
class ProjectOutcome:
    """`bytes_ratio`: of the data of all jobs. Medians over jobs; seconds are of all processes."""

    project: str
    jobs: int
    users: int
    read_bytes: int
    write_bytes: int
    bytes_ratio: float
    first_ns: int
    last_ns: int
    bytes_per_s_median: float | None
    mib_per_s_per_node_median: float | None
    io_ratio_median: float | None
    read_seconds: float
    write_seconds: float
    metadata_seconds: float


def project_answer(name: str, frames: Mapping[str, Frame], facility: Facility, params: Params) -> Answer:
    """Return the answer on one project; DataUnavailable without a job of it."""
    jobs = jobs_of(frames, facility, params)
    if name not in jobs.projects.categories:
        near = get_close_matches(name, jobs.projects.categories, n=3)
        hint = f"Did you mean {' or '.join(near)}?" if near else f"Largest: {', '.join(jobs.largest_projects(5))}."
        raise DataUnavailable(f"The lake has no jobs of project {name!r}.", hint=hint)
    mine = jobs.of_project(name)
    read, written = int(mine.ints("read_bytes").sum()), int(mine.ints("write_bytes").sum())
    share = (read + written) / max(1, int(jobs.ints("moved_bytes").sum()))
    users, start, nprocs = len(set(mine.ints("uid").tolist())), mine.ints("start_ns"), mine.ints("nprocs")
    seconds = [float(np.nansum(mine.floats(f"{part}_seconds"))) for part in ("read", "write", "meta")]
    bytes_per_s, per_node = median(mine.floats("bytes_per_s")), median(mine.floats("mib_per_s_per_node"))
    io_ratio = median(mine.floats("io_seconds") / np.maximum(mine.floats("run_seconds"), 1e-9))
    volume = (
        Fact("read_bytes", "read", read, "bytes", read / max(1, read + written)),
        Fact("write_bytes", "written", written, "bytes", written / max(1, read + written)),
        Fact("bytes_ratio", "of the data of all jobs", share, "ratio", share),
    )
    low, high = int(nprocs.min()), int(nprocs.max())
    of_jobs = (
        Fact("jobs", "jobs with a log", mine.rows, "count"),
        Fact("users", "users", users, "count"),
        Fact("processes", "processes", f"{low:,}" if low == high else f"{low:,} to {high:,}"),
        Fact("first", "first", int(start.min()), "time_ns"),
        Fact("last", "last", int(start.max()), "time_ns"),
        *_accounted(name, frames, facility),
    )
    total = sum(seconds) or 1.0
    performance = (
        Fact("mib_per_s_per_node_median", "median per node", per_node, "mib_per_s_per_node"),
        Fact("bytes_per_s_median", "bandwidth, median", bytes_per_s, "bytes_per_s"),
        Fact("io_ratio_median", "median I/O share of run time", io_ratio, "ratio", min(1.0, io_ratio or 0.0)),
        Fact("read_seconds", "reading", seconds[0], "seconds", seconds[0] / total, "of all processes"),
        Fact("write_seconds", "writing", seconds[1], "seconds", seconds[1] / total),
        Fact("metadata_seconds", "metadata", seconds[2], "seconds", seconds[2] / total, "close() included"),
    )
    counts = {kind: int(mine.ints(f"{kind}_file_count").sum()) for kind in ("unique", "partially_shared", "shared")}
    every = max(1, sum(counts.values()))
    per_process = float(np.nanmean(mine.floats("files_per_process")))
    files = (
        *(
            Fact(f"{kind}_files", f"{kind.replace('_', ' ')} files", n, "count", n / every)
            for kind, n in counts.items()
        ),
        Fact("files_per_process_mean", "mean files per process", per_process, "count"),
    )
    groups = [
        FactGroup("volume", "Volume", volume),
        FactGroup("jobs", "Jobs", of_jobs),
        FactGroup("performance", "Performance", performance),
        FactGroup("files", "Files in its jobs", files),
    ]
    return Answer(
        question=f"project {name}",
        headline=f"{name}: {mine.rows:,} jobs read {format_bytes(read)} and wrote {format_bytes(written)}.",
        facts=tuple(groups),
        exhibits=(_daily(name, mine),),
        findings=tuple(project_findings(name, jobs)),
        caveats=mine.node_caveats,
        coverage=mine.coverage,
        name="project",
        result=ProjectOutcome(
            project=name,
            jobs=mine.rows,
            users=users,
            read_bytes=read,
            write_bytes=written,
            bytes_ratio=share,
            first_ns=int(start.min()),
            last_ns=int(start.max()),
            bytes_per_s_median=bytes_per_s,
            mib_per_s_per_node_median=per_node,
            io_ratio_median=io_ratio,
            read_seconds=seconds[0],
            write_seconds=seconds[1],
            metadata_seconds=seconds[2],
        ),
    )


def _accounted(name: str, frames: Mapping[str, Frame], facility: Facility) -> Iterator[Fact]:
    """Share of the project's jobs in the accounting that have a log, and its core-hours."""
    accounting = frames.get("jobs")
    if accounting is None or not accounting.rows:
        return
    matches = match_jobs(frames["applications"], accounting)
    every, _ = allocations(accounting, matches, frames["job_io"], facility)
    mine = every.of(name)
    if mine.any():
        seen = float((every.logs[mine] > 0).mean())
        yield Fact("jobs_with_log_ratio", "of its jobs in accounting", seen, "ratio", seen, "have a log")
        yield Fact("core_hours", "core-hours", every.hours(mine), "count")


def _daily(name: str, mine: Runs) -> Exhibit:
    """Bytes read and written by day."""
    day = mine.ints("start_ns") // DAY_NS
    days, place = np.unique(day, return_inverse=True)
    rows = []
    for label, column in (("read", "read_bytes"), ("written", "write_bytes")):
        totals = np.bincount(place, weights=mine.ints(column).astype(float), minlength=len(days))
        rows += [(int(d) * DAY_NS, label, float(v)) for d, v in zip(days.tolist(), totals.tolist(), strict=True)]
    table = ResultTable.of("daily", "day [time_ns]; direction [text]; bytes [bytes]", rows)
    chart = Chart.of("timeline", table, "x=day y=bytes series=direction", "Bytes per day")
    return Exhibit("project.daily", f"Data per day of {name}", charts=(chart,))


_NO_LOGS = "The lake has no Darshan logs. Ingest some: ioweather ingest LOGS"


def run(source: DataSource, params: Params) -> Answer:
    """Volume, jobs, performance and files of one project."""
    frames = {
        **fetch_runs(source, missing=_NO_LOGS),
    }
    return project_answer(str(params["name"]), frames, source.facility, params)


QUESTION = Question(
    name="project",
    result=ProjectOutcome,
    run=run,
    tables=frozenset({"applications", "job_io", "jobs"}),
    params=(Param("name", "Project name in the accounting data.", required=True), PROCESSES_PER_NODE),
    help="Show one project: volume, jobs, performance, dominant I/O patterns.",
    epilog="Example: ioweather project climate",
)
