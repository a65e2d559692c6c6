"""One project on one screen: what it moved, how its jobs perform, what dominates, what it keeps."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

import numpy as np

from ioweather.core.arrays import Floats
from ioweather.core.contracts import Params, StudyData
from ioweather.core.errors import DataUnavailable
from ioweather.core.facility import Facility
from ioweather.core.frames import Frame
from ioweather.core.outcomes import ProjectOutcome
from ioweather.core.results import Answer, Chart, Exhibit, Fact, FactGroup, ResultTable
from ioweather.core.units import DAY_NS, format_bytes
from ioweather.derive.jobs.matching import match_jobs
from ioweather.studies.applications.instrumentation import CAVEAT, Seen, allocations, seen_by_servers
from ioweather.studies.applications.projects import project_findings
from ioweather.studies.shared.job_estimates import known
from ioweather.studies.shared.runs import Runs, jobs_of


def project_answer(name: str, data: StudyData, facility: Facility, params: Params) -> Answer:
    jobs = jobs_of(data, facility, params)
    if name not in jobs.projects.categories:
        near = get_close_matches(name, jobs.projects.categories, n=3) or jobs.largest_projects(5)
        raise DataUnavailable(f"No job of project {name!r} is in the lake.", hint=f"There are: {', '.join(near)}.")
    mine = jobs.of_project(name)
    read, written = int(mine.ints("read_bytes").sum()), int(mine.ints("write_bytes").sum())
    servers = seen_by_servers(data.given.get("counted"), jobs.frame, data.frames.get("jobs"), facility).get(name)
    share = (read + written) / max(1, int(jobs.ints("moved_bytes").sum()))
    volume = (
        Fact("read_bytes", "read", read, "bytes", read / max(1, read + written)),
        Fact("write_bytes", "written", written, "bytes", written / max(1, read + written)),
        Fact("bytes_ratio", "of all bytes of all jobs", share, "ratio", share),
    )
    groups = [
        FactGroup("volume", "Volume", volume),
        _job_facts(name, mine, data, facility),
        _performance(mine),
        _files(mine),
        *_on_servers(servers),
        *_contents(name, data.frames.get("sizes")),
    ]
    return Answer(
        question=f"project {name}",
        headline=f"{name}: {mine.rows:,} jobs read {format_bytes(read)} and wrote {format_bytes(written)}.",
        facts=tuple(groups),
        exhibits=(_daily(name, mine),),
        findings=tuple(project_findings(name, jobs)),
        caveats=(*mine.node_caveats, *((CAVEAT,) if servers else ())),
        coverage=mine.coverage,
        name="project",
        result=_outcome(name, mine, share, servers),
    )


def _on_servers(seen: Seen | None) -> list[FactGroup]:
    if seen is None:
        return []
    without, ratio = seen.jobs - seen.jobs_with_log, seen.with_log_ratio
    note = f"of {seen.jobs:,} that servers counted"
    facts = (
        Fact("server_bytes", "moved by its jobs", seen.server_bytes, "bytes"),
        Fact("server_bytes_with_log_ratio", "of it by jobs with a log", ratio, "ratio", ratio),
        Fact("log_bytes", "moved meanwhile, as logs say", seen.log_bytes, "bytes"),
        Fact("jobs_without_log", "jobs without a log", without, "count", note=note),
    )
    return [FactGroup("servers", "As the servers count it", facts)]


def _outcome(name: str, mine: Runs, share: float, servers: Seen | None) -> ProjectOutcome:
    read, write, metadata = _process_seconds(mine)
    return ProjectOutcome(
        project=name,
        jobs=mine.rows,
        users=len(set(mine.ints("uid").tolist())),
        read_bytes=int(mine.ints("read_bytes").sum()),
        write_bytes=int(mine.ints("write_bytes").sum()),
        bytes_ratio=share,
        first_ns=int(mine.ints("start_ns").min()),
        last_ns=int(mine.ints("start_ns").max()),
        bytes_per_s_median=_median(mine.floats("bytes_per_s")),
        mib_per_s_per_node_median=_median(mine.floats("mib_per_s_per_node")),
        io_ratio_median=_median(_io_ratio(mine)),
        read_seconds=read,
        write_seconds=write,
        metadata_seconds=metadata,
        server_bytes=servers.server_bytes if servers else None,
        server_bytes_with_log_ratio=servers.with_log_ratio if servers else None,
    )


def _process_seconds(mine: Runs) -> list[float]:
    return [float(np.nansum(mine.floats(f"{part}_seconds"))) for part in ("read", "write", "meta")]


def _io_ratio(mine: Runs) -> Floats:
    return known(mine.floats("io_seconds") / np.maximum(mine.floats("run_seconds"), 1e-9))


def _median(values: Any) -> float | None:
    sample = known(values)
    return float(np.median(sample)) if len(sample) else None


def _job_facts(name: str, mine: Runs, data: StudyData, facility: Facility) -> FactGroup:
    low, high = int(mine.ints("nprocs").min()), int(mine.ints("nprocs").max())
    facts = [
        Fact("jobs", "jobs with a log", mine.rows, "count"),
        Fact("users", "users", len(set(mine.ints("uid").tolist())), "count"),
        Fact("processes", "processes", f"{low:,}" if low == high else f"{low:,} to {high:,}"),
        Fact("first", "first", int(mine.ints("start_ns").min()), "time_ns"),
        Fact("last", "last", int(mine.ints("start_ns").max()), "time_ns"),
    ]
    accounting = data.frames.get("jobs")
    if accounting is not None and accounting.rows:
        matches = match_jobs(data.frames["applications"], accounting)
        every, _ = allocations(accounting, matches, data.frames["job_io"], facility)
        of_project = every.of(name)
        if of_project.any():
            seen = float((every.logs[of_project] > 0).mean())
            facts.append(Fact("jobs_with_log_ratio", "of its accounted jobs", seen, "ratio", seen, "have a log"))
            facts.append(Fact("core_hours", "core-hours", float(np.nansum(every.core_hours[of_project])), "count"))
    return FactGroup("jobs", "Jobs", tuple(facts))


def _performance(mine: Runs) -> FactGroup:
    seconds = _process_seconds(mine)
    total = sum(seconds) or 1.0
    io_share = _median(_io_ratio(mine))
    per_node, unit = _median(mine.floats("mib_per_s_per_node")), "mib_per_s_per_node"
    facts = (
        Fact("mib_per_s_per_node_median", "per node, median", per_node, unit),
        Fact("bytes_per_s_median", "bandwidth, median", _median(mine.floats("bytes_per_s")), "bytes_per_s"),
        Fact("io_ratio_median", "I/O of run time, median", io_share, "ratio", min(1.0, io_share or 0.0)),
        Fact("read_seconds", "reading", seconds[0], "seconds", seconds[0] / total, "of all processes"),
        Fact("write_seconds", "writing", seconds[1], "seconds", seconds[1] / total),
        Fact("metadata_seconds", "metadata", seconds[2], "seconds", seconds[2] / total, "close() included"),
    )
    return FactGroup("performance", "Performance", facts)


def _files(mine: Runs) -> FactGroup:
    counts = {kind: int(mine.ints(f"{kind}_file_count").sum()) for kind in ("unique", "partially_shared", "shared")}
    total = max(1, sum(counts.values()))
    facts = [
        Fact(f"{kind}_files", f"{kind.replace('_', ' ')} files", n, "count", n / total) for kind, n in counts.items()
    ]
    facts.append(
        Fact(
            "files_per_process_mean",
            "files per process, mean",
            float(np.nanmean(mine.floats("files_per_process"))),
            "count",
        )
    )
    return FactGroup("files", "Files in its jobs", tuple(facts))


def _contents(name: str, sizes: Frame | None) -> list[FactGroup]:
    """What the newest scan found of the project, and how it grew since the oldest."""
    if sizes is None or not sizes.rows:
        return []
    mine = sizes.take(sizes.text("owner").equals(name))
    if not mine.rows:
        return []
    moments = sorted(set(np.asarray(mine.array("start_ns")).tolist()))

    def at(moment: int) -> tuple[int, int]:
        rows = np.asarray(mine.array("start_ns")) == moment
        return int(np.asarray(mine.array("count"))[rows].sum()), int(np.asarray(mine.array("bytes"))[rows].sum())

    count, held = at(moments[-1])
    facts = [
        Fact("files", "files", count, "count"),
        Fact("bytes", "bytes", held, "bytes"),
        Fact("scanned", "scanned", moments[-1], "time_ns"),
    ]
    if len(moments) > 1:
        before, _ = at(moments[0])
        days = (moments[-1] - moments[0]) / DAY_NS
        facts.append(
            Fact("files_added_per_day", "files added per day", (count - before) / days if days else None, "count")
        )
    return [FactGroup("contents", "What it keeps", tuple(facts))]


def _daily(name: str, mine: Runs) -> Exhibit:
    day = mine.ints("start_ns") // DAY_NS
    days, place = np.unique(day, return_inverse=True)
    rows = []
    for label, column in (("read", "read_bytes"), ("written", "write_bytes")):
        totals = np.bincount(place, weights=mine.ints(column).astype(float), minlength=len(days))
        rows += [(int(d) * DAY_NS, label, float(v)) for d, v in zip(days.tolist(), totals.tolist(), strict=True)]
    table = ResultTable.of("daily", "day [time_ns]; direction [text]; bytes [bytes]", rows)
    encoding = {"x": "day", "y": "bytes", "series": "direction"}
    return Exhibit(
        "project.daily", f"Bytes per day of {name}", charts=(Chart("timeline", table, encoding, "Bytes per day"),)
    )
