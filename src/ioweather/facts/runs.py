"""Runs and jobs as studies see them: signatures (car11 section V), groups of runs that do the same, and tables with
project and nodes, which are joined when read, since accounting may come later than logs.

The thresholds of signatures are ours; the paper describes, it does not define.

Groups: `exact` is mad17's: same user, processes, numbers of files and bytes read and written. `similar` [ours] is for
codes whose bytes vary a little: same user, program and processes, bytes within a factor of the group's smallest.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ioweather.core.contracts import Param, Params
from ioweather.core.facility import Facility
from ioweather.core.frames import Floats, Frame, Ints, Text
from ioweather.core.results import Cell, Coverage, Estimate
from ioweather.core.tables import encode_text
from ioweather.core.units import MIB, format_bytes, names_of
from ioweather.facts.accounting import job_numbers, match_jobs, merge_instances, state_counts
from ioweather.facts.job_metrics import quotient, rows_of
from ioweather.stats.estimates import grouped_share

if TYPE_CHECKING:
    from ioweather.lake.lake import Snapshot
    from ioweather.topics.source import DataSource

_INTERPRETER: Final = re.compile(r"(?:python|perl|bash|sh|java|julia|Rscript)[\d.]*")

# Less than all of the bytes, so that a log file written by another rank does not hide rank-0 I/O.
ALMOST_ALL: Final = 0.99
SEEKS_PER_OPERATION: Final = 0.9
FEWEST_OPERATIONS: Final = 100
METADATA_BOUND: Final = 0.5
SMALL_BYTES: Final = MIB
NEGLIGIBLE: Final = 0.01
# Jobs of one application at one size are near-identical when files and bytes differ by less than this.
NEAR: Final = 0.05
# A project scales strongly when its bytes vary less than this over sizes that vary by this factor or more.
SAME_BYTES: Final = 0.25
SIZE_RANGE: Final = 4

SIGNATURES: Final = {
    "zero_files": "no files",
    "rank0_io": "one process does all I/O",
    "subset_io": "some of the processes do all I/O, without MPI-IO collectives",
    "file_per_process": "at least one unshared file per process",
    "seek_per_operation": "a seek for every read and write",
    "metadata_bound": "more time in metadata than in reading and writing",
    "small_requests": "requests under 1 MiB on average",
    "negligible_io": "I/O takes less than 1% of the run time",
    "many_instances": "several application runs in one job",
}


def signatures(jobs: Frame) -> Frame:
    """Return a boolean column per signature, and their numbers: `io_ratio` (I/O time of run time), `request_bytes`
    (mean), `seeks_per_operation`, `rank0_ratio`."""
    nprocs, io_ranks = jobs.ints("nprocs"), jobs.ints("io_rank_count", missing=np.iinfo(np.int64).max)
    moved = jobs.ints("read_bytes") + jobs.ints("write_bytes")
    operations = jobs.ints("read_count") + jobs.ints("write_count")
    # Seeks are counted for POSIX and for streams. File-system calls exclude streams, and the program's operations
    # exclude calls below MPI-IO: the larger number has all operations that a seek may precede.
    calls = np.maximum(operations, jobs.ints("fs_read_count") + jobs.ints("fs_write_count"))
    parallel = (nprocs > 1) & (moved > 0)
    rank0 = quotient(jobs.ints("rank0_bytes").astype(np.float64), moved)
    io_ratio = quotient(jobs.floats("io_seconds"), jobs.floats("run_seconds"))
    request = quotient(moved.astype(np.float64), operations)
    seeks = quotient(jobs.ints("seek_count").astype(np.float64), calls)
    one = parallel & ((io_ranks == 1) | (rank0 >= ALMOST_ALL))
    instances = jobs.ints("instance_count") if "instance_count" in jobs else np.ones(jobs.rows, np.int64)
    return Frame(
        {
            "zero_files": jobs.ints("file_count", missing=-1) == 0,
            "rank0_io": one,
            "subset_io": parallel & ~one & (io_ranks < nprocs) & (jobs.ints("collective_count") == 0),
            "file_per_process": (nprocs > 1) & (jobs.ints("unique_file_count") >= nprocs),
            "seek_per_operation": (seeks >= SEEKS_PER_OPERATION) & (calls >= FEWEST_OPERATIONS),
            "metadata_bound": jobs.floats("metadata_ratio") >= METADATA_BOUND,
            "small_requests": (request < SMALL_BYTES) & (operations >= FEWEST_OPERATIONS),
            "negligible_io": io_ratio < NEGLIGIBLE,
            "many_instances": instances > 1,
            "io_ratio": io_ratio,
            "request_bytes": request,
            "seeks_per_operation": seeks,
            "rank0_ratio": rank0,
        }
    )


def similar_groups(jobs: Frame) -> Ints:
    """Number groups of near-identical jobs: one user, program and size; files and bytes that differ from the next job's
    by less than NEAR."""
    uid, nprocs, program = jobs.ints("uid"), jobs.ints("nprocs"), program_codes(jobs)
    files = np.log1p(jobs.ints("file_count", missing=0))
    moved = np.log1p(jobs.ints("read_bytes") + jobs.ints("write_bytes"))
    step = np.log1p(NEAR)
    group = np.zeros(jobs.rows, np.int64)
    # Single linkage, one key after the other: each pass splits the groups of the previous pass.
    for values, tolerance in ((uid, 0.0), (program, 0.0), (nprocs, 0.0), (files, step), (moved, step)):
        order = np.lexsort((values, group))
        new = np.ones(jobs.rows, np.bool_)
        new[1:] = (np.diff(group[order]) > 0) | (np.diff(values[order].astype(np.float64)) > tolerance)
        group[order] = np.cumsum(new) - 1
    return group


def number_programs(jobs: Frame) -> Ints:
    """Number the programs of each user: jobs of one program resemble each other."""
    pairs = np.stack([jobs.ints("uid"), program_codes(jobs)])
    return np.asarray(np.unique(pairs, axis=1, return_inverse=True)[1]).reshape(-1)


def program_codes(jobs: Frame) -> Ints:
    """Number the programs of jobs by the names that `program_of` gives; -1 where none is known."""
    exe = jobs.text("exe")
    programs: dict[str, int] = {}
    codes = [programs.setdefault(program_of(command), len(programs)) for command in exe.categories]
    return np.array([*codes, -1], np.int64)[exe.codes]


def program_of(command: str) -> str:
    """Return the program's name in a command line, without its folder and arguments; for interpreters the script's."""
    words = command.split()
    if not words:
        return ""
    if {"-c", "-e"} & set(words[1:2]):  # what follows is code, not the name of a script
        words = words[:1]
    script = next((word for word in words[1:] if not word.startswith("-")), None)
    name = words[0].rsplit("/", 1)[-1]
    return script.rsplit("/", 1)[-1] if script is not None and _INTERPRETER.fullmatch(name) else name


def strong_scaling(nprocs: NDArray[Any], moved: NDArray[Any]) -> tuple[int, int] | None:
    """Return the smallest and the largest job size if jobs of all sizes move about the same bytes, else None."""
    sizes = np.unique(nprocs[moved > 0])
    if len(sizes) < 3 or sizes[-1] < SIZE_RANGE * sizes[0]:
        return None
    medians = np.array([np.median(moved[(nprocs == size) & (moved > 0)]) for size in sizes])
    return (int(sizes[0]), int(sizes[-1])) if medians.std() / medians.mean() < SAME_BYTES else None


Grouping: TypeAlias = Literal["exact", "similar"]

LEAST_RUNS: Final = 8
SIMILAR_FACTOR: Final = 1.25
_EXACT: Final = ("uid", "nprocs", "file_count", "unique_file_count", "shared_file_count", "read_bytes", "write_bytes")


@dataclass(frozen=True, eq=False)
class Groups:
    """`of_run` is each run's group; groups are in order of size, the largest first."""

    of_run: Ints
    names: tuple[str, ...]
    sizes: Ints
    grouping: Grouping

    def members(self, group: int) -> Ints:
        """Return the runs of a group."""
        return np.flatnonzero(self.of_run == group)

    def number(self, name: str) -> int | None:
        """Return the group whose name is `name`, or the only one whose name starts with it."""
        if name in self.names:
            return self.names.index(name)
        found = [i for i, known in enumerate(self.names) if known.startswith(name)]
        return found[0] if len(found) == 1 else None

    @property
    def large(self) -> list[int]:
        """Groups with enough runs to compare."""
        return [i for i, size in enumerate(self.sizes.tolist()) if size >= LEAST_RUNS]


def group_runs(runs: Frame, grouping: Grouping) -> Groups:
    """Group runs; `runs` has the columns of `job_io`, and `uid` and `exe` of `applications`."""
    programs = program_names(runs)
    if grouping == "exact":
        keys = np.stack([runs.ints(name) for name in _EXACT], axis=1)
    else:
        # Return user, program, processes, and a class of bytes: from its smallest run up to SIMILAR_FACTOR of it.
        _, program = np.unique(np.array(programs), return_inverse=True)
        uid, nprocs = (runs.ints(name) for name in ("uid", "nprocs"))
        moved = _moved(runs)
        order = np.lexsort((moved, nprocs, program, uid))
        classes = np.zeros(len(order), np.int64)
        begun: tuple[Any, ...] = ()
        least, current = 0.0, -1
        for row in order.tolist():
            key = (uid[row], program[row], nprocs[row])
            if key != begun or moved[row] > least * SIMILAR_FACTOR:
                begun, least, current = key, moved[row], current + 1
            classes[row] = current
        keys = np.stack([uid, program.astype(np.int64), nprocs, classes], axis=1)
    distinct, example, of_run, sizes = np.unique(
        keys, axis=0, return_index=True, return_inverse=True, return_counts=True
    )
    # Largest first; groups of one size in the order of their keys.
    order = np.argsort(-sizes, kind="stable")
    nprocs = runs.ints("nprocs")
    names = []
    for group in order.tolist():
        # Part of the name are digits of the key, which stay the same if other groups come and go.
        digest = hashlib.sha256(",".join(map(str, distinct[group].tolist())).encode()).hexdigest()[:4]
        names.append(f"{programs[example[group]]}-{nprocs[example[group]]}-{digest}")
    rank = np.argsort(order)
    return Groups(rank[of_run.reshape(-1)].astype(np.int64), tuple(names), sizes[order].astype(np.int64), grouping)


def best_grouping(runs: Frame) -> Grouping:
    """Return `exact` if it gives a group with enough runs to compare, else `similar`."""
    return "exact" if group_runs(runs, "exact").large else "similar"


def find_similar_runs(runs: Frame, run: int) -> Ints:
    """Return the runs to compare one run with, including itself: same user, program and processes, and bytes within
    SIMILAR_FACTOR of its own, up or down."""
    programs = np.array(program_names(runs))
    moved = _moved(runs)
    same = (
        (runs.ints("uid") == int(runs.array("uid")[run]))
        & (runs.ints("nprocs") == int(runs.array("nprocs")[run]))
        & (programs == programs[run])
        & (moved <= moved[run] * SIMILAR_FACTOR)
        & (moved * SIMILAR_FACTOR >= moved[run])
    )
    return np.flatnonzero(same)


def program_names(runs: Frame) -> list[str]:
    """Return the name of each run's program; for interpreters that of the script."""
    text = runs.text("exe")
    known = [program_of(command) or "unknown" for command in text.categories]
    lookup = [*known, "unknown"]
    return [lookup[code] for code in text.codes.tolist()]


def _moved(runs: Frame) -> Floats:
    """Return bytes read and written by each run."""
    return runs.floats("read_bytes") + runs.floats("write_bytes")


LARGE_PROCESSES: Final = 1024
LARGE_BYTES: Final = 500 * MIB

_APPLICATION_COLUMNS: Final = ("log_digest", "job_id", "uid", "exe", "nprocs", "start_ns", "end_ns", "hosts")
JOB_COLUMNS: Final = names_of("cluster raw_job_id step restart uid user account start_ns end_ns node_count cpu_count")
NEEDS: Final = "job_io applications jobs?"
PROCESSES_PER_NODE: Final = Param(
    "processes_per_node", "processes per node, if accounting has no node count", kind="int"
)
NODE_SOURCES: Final = ("accounting", "processes_per_node", "cores per node", "hosts in traces")


def fetch_runs(
    source: DataSource, columns: Sequence[str] = (), *, any_time: bool = False, missing: str = ""
) -> dict[str, Frame]:
    """Rows of `job_io` (these columns, or all), `applications` and `jobs` (the allocations, perhaps none) of the
    period, for `jobs_of` and `instances_of`. Raises DataUnavailable, which says `missing`, without any log."""
    return {
        "job_io": source.frame("job_io", columns, any_time=any_time, missing=missing),
        "applications": source.frame("applications", _APPLICATION_COLUMNS, any_time=any_time, missing=missing),
        "jobs": source.frame("jobs", JOB_COLUMNS, optional=True, any_time=any_time),
    }


_MOVED: Final = "SELECT count(*) FROM job_io WHERE read_bytes + write_bytes >= "


def _min_bytes(snapshot: Snapshot, _: Params) -> Cell:
    """Return the paper's filter if some job passes it, else 1, so that a small site sees its jobs."""
    return LARGE_BYTES if snapshot.scalar(f"{_MOVED}{LARGE_BYTES}") else 1


def _min_processes(snapshot: Snapshot, values: Params) -> Cell:
    """Return the paper's filter if some job with enough bytes passes it, else 1."""
    passing = f"{_MOVED}{values['min_bytes']} AND nprocs >= {LARGE_PROCESSES}"
    return LARGE_PROCESSES if snapshot.scalar(passing) else 1


MIN_SIZES: Final = (
    Param("min_bytes", "skip jobs that moved less data", kind="size", choose=_min_bytes),
    Param("min_processes", "skip jobs with fewer processes", kind="int", choose=_min_processes),
)
PROJECT: Final = Param("project", "project to show; default: the best fit for the exhibit")


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
        """Coverage for exhibits of MiB/s/CN: jobs with a known number of nodes."""
        unknown = self.rows - int(self.frame.known("node_count").sum())
        excluded = {"nodes not known": unknown} if unknown else {}
        return (*self.coverage, Coverage(self.rows, self.rows - unknown, self.what, excluded, "with known nodes"))

    @property
    def node_caveats(self) -> tuple[str, ...]:
        """Caveats with those on the source of node counts."""
        return (*_node_caveats(self.what, self.frame.text("node_source")), *self.caveats)

    @property
    def rows(self) -> int:
        return self.frame.rows

    def floats(self, name: str) -> Floats:
        """Return a numeric column as floats, null as NaN."""
        return self.frame.floats(name)

    def ints(self, name: str) -> Ints:
        """Return an integer column without nulls."""
        return self.frame.ints(name)

    @property
    def projects(self) -> Text:
        return self.frame.text("project")

    @property
    def programs(self) -> Ints:
        return number_programs(self.frame)

    def share(self, name: str, which: NDArray[Any], of: NDArray[Any] | None = None) -> Estimate:
        """Return the share of jobs, or of amounts `of` them, with an interval that takes programs as independent."""
        return grouped_share(name, which, np.ones(self.rows) if of is None else of, self.programs)

    def take(self, index: Any, coverage: Coverage | None = None, caveat: str = "") -> Runs:
        """Return some of the runs, with one more coverage and caveat."""
        return Runs(
            self.frame.take(index),
            self.what,
            (*self.coverage, *((coverage,) if coverage else ())),
            (*((caveat,) if caveat else ()), *self.caveats),
        )

    def of_project(self, name: str) -> Runs:
        """Return the runs of one project."""
        return self.take(self.projects.equals(name))

    def largest_projects(self, most: int = 10) -> list[str]:
        """Return projects by bytes moved, ties in alphabetical order."""
        totals: Counter[str] = Counter()
        for name, moved in zip(self.projects.tolist(), self.ints("moved_bytes").tolist(), strict=True):
            totals[str(name)] += moved
        return sorted((name for name in totals if totals[name]), key=lambda name: (-totals[name], name))[:most]


def instances_of(frames: Mapping[str, Frame], facility: Facility, params: Params) -> Runs:
    """Return one row per application run, with the number of its job."""
    job_io, applications, matches = _align_with_logs(frames)
    joined = job_io.with_columns(
        **{name: applications[name] for name in ("job_id", "uid", "exe")},
        **{name: matches[name] for name in ("state", "cluster", "account", "user", "node_count")},
        instance_count=np.ones(job_io.rows, np.int64),
        job_number=job_numbers(applications, matches),
    )
    hosts = applications.array("hosts")
    return _add_nodes_and_projects(joined, hosts, "application runs", frames, facility, params, matches)


def jobs_of(frames: Mapping[str, Frame], facility: Facility, params: Params) -> Runs:
    """Return one row per scheduler job: all runs of an allocation together."""
    job_io, applications, matches = _align_with_logs(frames)
    merged = merge_instances(job_io, applications, matches)
    hosts = applications.array("hosts")[rows_of(applications.text("log_digest"), merged.text("log_digest"))]
    runs = _add_nodes_and_projects(merged, hosts, "jobs", frames, facility, params, matches)
    several = int((runs.ints("instance_count") > 1).sum())
    if not several:
        return runs
    note = (
        f"{several:,} jobs have several application runs. Their values are sums of bytes, files and I/O times. Files "
        "of different runs are assumed to be different."
    )
    return runs.take(slice(None), caveat=note)


def large(runs: Runs, params: Params) -> Runs:
    """Return the jobs that pass the filter of car11 section V, with the number of others as coverage."""
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
    shown = f"Only jobs of at least {processes:,} processes and {format_bytes(least)} are shown"
    if processes <= 1 and least <= 1:
        shown = "All jobs that moved data are shown"
    paper = f"{LARGE_PROCESSES:,} processes and {format_bytes(LARGE_BYTES)}"
    return runs.take(kept, coverage, f"{shown}; the paper shows jobs of at least {paper}.")


def _align_with_logs(frames: Mapping[str, Frame]) -> tuple[Frame, Frame, Frame]:
    """Return metrics, applications and matches of the logs that have both, in one order."""
    job_io, applications = frames["job_io"], frames["applications"]
    place = rows_of(applications.text("log_digest"), job_io.text("log_digest"))
    job_io, applications = job_io.take(place >= 0), applications.take(place[place >= 0])
    return job_io, applications, match_jobs(applications, frames.get("jobs"))


def _add_nodes_and_projects(
    joined: Frame,
    hosts: NDArray[Any],
    what: str,
    frames: Mapping[str, Frame],
    facility: Facility,
    params: Params,
    matches: Frame,
) -> Runs:
    """Add nodes, bytes, rate per node and project to joined rows, with coverage and caveats."""
    nodes, source = _node_counts(joined, hosts, facility, params)
    moved = joined.ints("read_bytes") + joined.ints("write_bytes")
    rate = joined.floats("bytes_per_s")
    frame = joined.with_columns(
        node_count=nodes,
        node_source=source,
        moved_bytes=moved,
        mib_per_s_per_node=rate / MIB / np.ma.filled(nodes.astype(np.float64), np.nan),
        project=_projects(joined, facility),
    )
    logs = [Coverage(frames["applications"].rows, matches.rows, "logs", {}, "with I/O metrics")]
    alone = state_counts(matches)
    if alone:
        matched = matches.rows - sum(alone.values())
        logs.append(Coverage(matches.rows, matched, "logs", alone, "matched to a scheduler job"))
    partial = int(joined.bools("partial").sum())
    note = f"Darshan ran out of memory in {partial:,} {what}. Their counts, bytes and times are lower bounds."
    return Runs(frame, what, tuple(logs), (note,) if partial else ())


def _node_counts(joined: Frame, hosts: NDArray[Any], facility: Facility, params: Params) -> tuple[NDArray[Any], Text]:
    """Return Ncn, the allocated nodes, and its source: accounting, else an estimate, else null."""
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
    """Return the project of each run, by account, user, program and mount."""
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
    """Yield how many runs have no number of nodes, and where the other numbers come from."""
    unknown = int((source.codes < 0).sum())
    if unknown:
        yield (
            f"{unknown:,} {what} have no node count and therefore no rate per node. Ingest accounting data, or set "
            "processes_per_node."
        )
    for code, words in (
        (1, "computed from processes_per_node"),
        (2, "computed from node_cores in facility.toml, with one process per core"),
        (3, "host names in traces (used nodes, not allocated nodes)"),
    ):
        count = int((source.codes == code).sum())
        if count:
            yield f"The node counts of {count:,} {what} are {words}."
