"""The jobs that application studies are about: instances of applications, or the jobs they ran in, with project and
nodes joined when read, as accounting may come later than logs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ioweather.core.arrays import Floats, Ints
from ioweather.core.contracts import Inventory, Need, Param, Params, StudyData
from ioweather.core.facility import Facility
from ioweather.core.frames import Frame, Text
from ioweather.core.results import Cell, Coverage
from ioweather.core.tables import encode_text
from ioweather.core.units import MIB, format_bytes
from ioweather.core.words import names_of
from ioweather.facts.accounting_match import match_jobs, state_counts
from ioweather.facts.file_records import rows_of
from ioweather.facts.instances import job_numbers, merge_instances

LARGE_PROCESSES: Final = 1024
LARGE_BYTES: Final = 500 * MIB

_APPLICATION_COLUMNS: Final = ("log_digest", "job_id", "uid", "exe", "nprocs", "start_ns", "end_ns", "hosts")
JOB_COLUMNS: Final = names_of("cluster raw_job_id step restart uid user account start_ns end_ns node_count cpu_count")
NEEDS: Final = (
    Need("job_io", "job_io"),
    Need("applications", "applications", columns=_APPLICATION_COLUMNS),
    Need("jobs", "jobs", columns=JOB_COLUMNS, optional=True),
)
PROCESSES_PER_NODE: Final = Param(
    "processes_per_node", "processes on a node, where accounting does not tell a job's nodes", kind="int"
)
NODE_SOURCES: Final = ("accounting", "processes_per_node", "cores per node", "hosts in traces")


_MOVED: Final = "SELECT count(*) FROM job_io WHERE read_bytes + write_bytes >= "


def _min_bytes(inventory: Inventory, _: Params) -> Cell:
    """The paper's filter where some job passes it, else none, so that a small site sees its jobs too."""
    return LARGE_BYTES if inventory.scalar(f"{_MOVED}{LARGE_BYTES}") else 1


def _min_processes(inventory: Inventory, values: Params) -> Cell:
    """The same, among the jobs that moved enough."""
    passing = f"{_MOVED}{values['min_bytes']} AND nprocs >= {LARGE_PROCESSES}"
    return LARGE_PROCESSES if inventory.scalar(passing) else 1


MIN_SIZES: Final = (
    Param("min_bytes", "leave out jobs that moved fewer bytes", kind="size", choose=_min_bytes),
    Param("min_processes", "leave out jobs with fewer processes", kind="int", choose=_min_processes),
)
PROJECT: Final = Param("project", "the project to show; the one that fits the exhibit best, if not given")


@dataclass(frozen=True, eq=False)
class Runs:
    """Rows of `job_io` with `project`, `uid`, `exe`, `job_id`, `account`, `node_count`, `moved_bytes` and
    `mib_per_s_per_node`; instances, or jobs with their `instance_count`."""

    frame: Frame
    what: str
    coverage: tuple[Coverage, ...]
    caveats: tuple[str, ...]

    @property
    def node_coverage(self) -> tuple[Coverage, ...]:
        """For exhibits of MiB/s/CN: how many of these jobs have a known number of nodes."""
        unknown = self.rows - int(self.frame.known("node_count").sum())
        excluded = {"nodes not known": unknown} if unknown else {}
        return (*self.coverage, Coverage(self.rows, self.rows - unknown, self.what, excluded, "with known nodes"))

    @property
    def node_caveats(self) -> tuple[str, ...]:
        return (*_node_caveats(self.what, self.frame.text("node_source")), *self.caveats)

    @property
    def rows(self) -> int:
        return self.frame.rows

    def floats(self, name: str) -> Floats:
        """A numeric column as floats, null as NaN."""
        return self.frame.floats(name)

    def ints(self, name: str) -> Ints:
        """An integer column without nulls."""
        return self.frame.ints(name)

    @property
    def projects(self) -> Text:
        return self.frame.text("project")

    def take(self, index: Any, coverage: Coverage | None = None, caveat: str = "") -> Runs:
        return Runs(
            self.frame.take(index),
            self.what,
            (*self.coverage, *((coverage,) if coverage else ())),
            (*((caveat,) if caveat else ()), *self.caveats),
        )

    def of_project(self, name: str) -> Runs:
        return self.take(self.projects.equals(name))

    def largest_projects(self, most: int = 10) -> list[str]:
        """Projects by bytes moved; of ties the first in alphabetical order."""
        totals: dict[str, int] = {}
        for name, moved in zip(self.projects.tolist(), self.ints("moved_bytes").tolist(), strict=True):
            totals[str(name)] = totals.get(str(name), 0) + moved
        return sorted((name for name in totals if totals[name]), key=lambda name: (-totals[name], name))[:most]


def instances_of(data: StudyData, facility: Facility, params: Params) -> Runs:
    """Every application run on its own, with the number of its job."""
    job_io, applications, matches = _aligned(data)
    joined = job_io.with_columns(
        **{name: applications[name] for name in ("job_id", "uid", "exe")},
        **{name: matches[name] for name in ("state", "account", "user", "node_count")},
        instance_count=np.ones(job_io.rows, np.int64),
        job_number=job_numbers(applications, matches),
    )
    return _described(joined, applications.array("hosts"), "application runs", data, facility, params, matches)


def jobs_of(data: StudyData, facility: Facility, params: Params) -> Runs:
    """Scheduler jobs: all runs of one allocation together."""
    job_io, applications, matches = _aligned(data)
    merged = merge_instances(job_io, applications, matches)
    hosts = applications.array("hosts")[rows_of(applications.text("log_digest"), merged.text("log_digest"))]
    runs = _described(merged, hosts, "jobs", data, facility, params, matches)
    several = int((runs.ints("instance_count") > 1).sum())
    if not several:
        return runs
    note = (
        f"{several:,} jobs hold several application runs: their bytes, files and I/O times are added up, and files of "
        "different runs are taken to differ."
    )
    return runs.take(slice(None), caveat=note)


def large(runs: Runs, params: Params) -> Runs:
    """Jobs that pass the filter of car11 section V; the others are counted."""
    processes, least = int(params["min_processes"]), int(params["min_bytes"])
    few = runs.ints("nprocs") < processes
    little = ~few & (runs.ints("moved_bytes") < least)
    excluded = {
        f"fewer than {processes:,} processes": int(few.sum()),
        f"less than {format_bytes(least)}": int(little.sum()),
    }
    kept = ~(few | little)
    coverage = Coverage(
        runs.rows, int(kept.sum()), runs.what, {k: v for k, v in excluded.items() if v}, "jobs large enough to show"
    )
    if (processes, least) == (LARGE_PROCESSES, LARGE_BYTES):
        return runs.take(kept, coverage)
    shown = f"Shown are jobs of at least {processes:,} processes and {format_bytes(least)}"
    if processes <= 1 and least <= 1:
        shown = "Shown are all jobs that moved data"
    paper = f"{LARGE_PROCESSES:,} processes and {format_bytes(LARGE_BYTES)}"
    return runs.take(kept, coverage, f"{shown}; the paper shows those of at least {paper}.")


def _aligned(data: StudyData) -> tuple[Frame, Frame, Frame]:
    """Metrics, applications and matches of the logs that have both, in one order."""
    job_io, applications = data.frames["job_io"], data.frames["applications"]
    place = rows_of(applications.text("log_digest"), job_io.text("log_digest"))
    job_io, applications = job_io.take(place >= 0), applications.take(place[place >= 0])
    return job_io, applications, match_jobs(applications, data.frames.get("jobs"))


def _described(
    joined: Frame, hosts: NDArray[Any], what: str, data: StudyData, facility: Facility, params: Params, matches: Frame
) -> Runs:
    nodes, source = _nodes(joined, hosts, facility, params)
    moved = joined.ints("read_bytes") + joined.ints("write_bytes")
    rate = joined.floats("bytes_per_s")
    frame = joined.with_columns(
        node_count=nodes,
        node_source=source,
        moved_bytes=moved,
        mib_per_s_per_node=rate / MIB / np.ma.filled(nodes.astype(np.float64), np.nan),
        project=_projects(joined, facility),
    )
    logs = [Coverage(data.frames["applications"].rows, matches.rows, "logs", {}, "with I/O metrics")]
    alone = state_counts(matches)
    if alone:
        matched = matches.rows - sum(alone.values())
        logs.append(Coverage(matches.rows, matched, "logs", alone, "with their scheduler job"))
    partial = int(joined.bools("partial").sum())
    note = f"Darshan ran out of memory in {partial:,} {what}: their counts, bytes and times are lower bounds."
    return Runs(frame, what, tuple(logs), (note,) if partial else ())


def _nodes(joined: Frame, hosts: NDArray[Any], facility: Facility, params: Params) -> tuple[NDArray[Any], Text]:
    """Ncn: nodes allocated, from accounting; else by the best that is known, named; else null."""
    nprocs = joined.ints("nprocs")
    nodes = joined.ints("node_count")
    source = np.where(nodes <= 0, -1, 0)
    for code, per_node in ((1, params.get("processes_per_node")), (2, facility.node_cores)):
        if per_node:
            nodes = np.where(source < 0, -(-nprocs // int(per_node)), nodes)
            source = np.where(source < 0, code, source)
    seen = np.ma.filled(np.ma.masked_array(hosts), 0)
    nodes = np.where((source < 0) & (seen > 0), seen, nodes)
    source = np.where((source < 0) & (seen > 0), 3, source)
    return np.ma.MaskedArray(nodes, mask=source < 0), Text(source.astype(np.int32), NODE_SOURCES)


def _projects(joined: Frame, facility: Facility) -> Text:
    columns = (joined.text("account"), joined.text("exe"), joined.text("main_mount"))
    uids = joined.ints("uid").tolist()
    seen: dict[tuple[Any, ...], str] = {}
    names: list[str | None] = []
    for account, exe, mount, uid in zip(*(column.tolist() for column in columns), uids, strict=True):
        key = (account, exe, mount, uid)
        if key not in seen:
            seen[key] = facility.project_of(account=account, uid=uid, exe=exe, path=mount)
        names.append(seen[key])
    return encode_text(names)


def _node_caveats(what: str, source: Text) -> Iterator[str]:
    unknown = int((source.codes < 0).sum())
    if unknown:
        yield (
            f"The nodes of {unknown:,} {what} are not known, so they have no MiB/s/CN: ingest accounting, or give "
            "processes_per_node."
        )
    for code, words in (
        (1, "computed from processes_per_node"),
        (2, "computed from node_cores of facility.toml, one process per core"),
        (3, "the host names in traces, which are nodes used, not allocated"),
    ):
        count = int((source.codes == code).sum())
        if count:
            yield f"Nodes of {count:,} {what} are {words}."
