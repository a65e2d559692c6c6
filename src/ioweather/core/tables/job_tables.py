"""Tables of jobs and runs: Darshan's records, verdicts, accounting, operations on servers, events, benchmarks."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ioweather.core.frames import Frame
from ioweather.core.tables.schema import (
    ANY,
    BENCHMARK_BYTES_PER_S,
    BENCHMARK_OPS_PER_S,
    COMPONENT_KINDS,
    FACTOR,
    FILE_SIZE,
    FLAGS,
    NOT_NEGATIVE,
    PARTS,
    PLANNED_TIME,
    PROCESSES,
    RANK,
    ColumnSpec,
    Fault,
    Range,
    TableSpec,
    is_event_details,
    is_interfaces,
    is_numbers,
    is_object,
    is_object_of_counts,
    is_object_of_objects,
    is_object_of_texts,
    most_per_s,
)
from ioweather.core.tables.schema import INTERFACES as INTERFACES
from ioweather.core.units import NS

# `applications`, `files`, `job_io`: what Darshan logs say of runs. `verdicts`: what `why` said of them.

# Darshan's ten access-size bins, as column-name parts, and the largest size in each (the last is open).
SIZE_BINS = ("0_100", "100_1k", "1k_10k", "10k_100k", "100k_1m", "1m_4m", "4m_10m", "10m_100m", "100m_1g", "1g_plus")
SIZE_BIN_UPPER_BYTES = (100, 1 << 10, 10 << 10, 100 << 10, 1 << 20, 4 << 20, 10 << 20, 100 << 20, 1 << 30, None)
READ_BINS = tuple(f"read_{size}_count" for size in SIZE_BINS)
WRITE_BINS = tuple(f"write_{size}_count" for size in SIZE_BINS)

FILE_MODULES = ("MPI-IO", "POSIX", "STDIO")
STRATEGIES = ("unique", "partially_shared", "shared")

APPLICATIONS = TableSpec(
    name="applications",
    doc="One row per Darshan log: one instance of an application.",
    columns=(
        ColumnSpec("log_digest", "text", "content digest of the log"),
        ColumnSpec("job_id", "int64", "job id in the log: Slurm's JobIDRaw, or a pid outside a scheduler", range=ANY),
        ColumnSpec("uid", "int64", "user id", range=ANY),
        ColumnSpec("exe", "text", "command line", nullable=True),
        ColumnSpec("nprocs", "int64", "processes", range=PROCESSES),
        ColumnSpec("start_ns", "int64", "start of the run"),
        ColumnSpec("end_ns", "int64", "end of the run"),
        ColumnSpec("log_version", "text", "Darshan log version"),
        ColumnSpec("partial_modules", "text", "comma-separated modules with partial data; '' = complete"),
        ColumnSpec(
            "longer_records",
            "text",
            "comma-separated modules to whose records a fork of Darshan added counters, which are not read",
            nullable=True,
        ),
        ColumnSpec("mounts", "text", "JSON: mount point to file system type", nullable=True, reads=is_object_of_texts),
        ColumnSpec("modules", "text", "comma-separated modules present"),
        ColumnSpec("hosts", "int64", "distinct host names in DXT, where recorded", nullable=True, range=PARTS),
        ColumnSpec(
            "form",
            "text",
            "what the run was read from: null = its log, text = records of darshan-parser, export = records in "
            "Parquet, totals = sums over its files, trace = text of darshan-dxt-parser (up to 0.2)",
            nullable=True,
        ),
        ColumnSpec(
            "file_counts",
            "text",
            "JSON: files by module and kind, of sums that darshan-parser printed (up to 0.2)",
            nullable=True,
            reads=is_object_of_objects,
        ),
    ),
    key=("log_digest",),
    time="start_ns",
    order=("start_ns", "log_digest"),
)


def _count(name: str, doc: str, *, nullable: bool = False) -> ColumnSpec:
    return ColumnSpec(name, "int64", doc, nullable)


def _optional(name: str, doc: str, allowed: Range | None = None) -> ColumnSpec:
    return ColumnSpec(name, "int64", doc, nullable=True, range=allowed)


def _seconds(name: str, doc: str) -> ColumnSpec:
    return ColumnSpec(name, "float64", doc, nullable=True)


def _bins(layer: str, *, nullable: bool) -> tuple[ColumnSpec, ...]:
    return tuple(
        ColumnSpec(f"{verb}_{size}_count", "int64", f"{verb}s of {size.replace('_', ' to ')} bytes, {layer}", nullable)
        for verb in ("read", "write")
        for size in SIZE_BINS
    )


_SPAN_COLUMNS = (
    _optional("first_open_ns", "start of the first open"),
    _optional("last_close_ns", "end of the last close"),
    _optional("first_read_ns", "start of the first read"),
    _optional("last_read_ns", "end of the last read"),
    _optional("first_write_ns", "start of the first write"),
    _optional("last_write_ns", "end of the last write"),
)

FILES = TableSpec(
    name="files",
    doc="One row per file record of a log's POSIX, MPI-IO and STDIO modules. A counter its module lacks is null.",
    columns=(
        ColumnSpec("log_digest", "text", "content digest of the log"),
        ColumnSpec("start_ns", "int64", "start of the run"),
        ColumnSpec(
            "record_id",
            "int64",
            "Darshan's record id (a hash of the path), its 64 bits read as signed; 0 = all files together",
            range=ANY,
        ),
        ColumnSpec("rank", "int64", "rank that opened the file; -1 = one record for all ranks", range=RANK),
        ColumnSpec("module", "text", "MPI-IO, POSIX or STDIO"),
        ColumnSpec("path", "text", "path, its hash, or null: as asked at ingest", nullable=True),
        ColumnSpec("mount", "text", "longest mount point of the log that holds the path", nullable=True),
        ColumnSpec("library", "text", "HDF5 or PnetCDF where the file was opened through it", nullable=True),
        ColumnSpec("standard_stream", "bool", "standard input, output or error: no file of the job's"),
        _optional("open_count", "opens, stream opens included; null = made of a trace"),
        _optional("stream_open_count", "fopen() calls, where POSIX records count them (Darshan 2.x, 3.0)"),
        _count("read_count", "read operations"),
        _count("write_count", "write operations"),
        _optional("seek_count", "seeks"),
        _optional("stat_count", "stats"),
        _optional("sync_count", "fsync, fdatasync, MPI_File_sync or fflush calls"),
        _count("read_bytes", "bytes read"),
        _count("write_bytes", "bytes written"),
        _optional("read_extent_bytes", "highest byte read, plus one; null = nothing read", FILE_SIZE),
        _optional("write_extent_bytes", "highest byte written, plus one; null = nothing written", FILE_SIZE),
        _optional("size_at_open_bytes", "size of the file when first opened (Darshan 2.x)", FILE_SIZE),
        _optional("sequential_read_count", "reads at a higher offset than the one before"),
        _optional("sequential_write_count", "writes at a higher offset than the one before"),
        _optional("consecutive_read_count", "reads that begin where the one before ended"),
        _optional("consecutive_write_count", "writes that begin where the one before ended"),
        _optional("switch_count", "changes between reading and writing"),
        _optional("file_not_aligned_count", "accesses not aligned in the file; null = not tested"),
        _optional("memory_not_aligned_count", "accesses not aligned in memory"),
        _optional("file_alignment_bytes", "alignment that was tested for"),
        _optional("collective_open_count", "collective opens (MPI-IO)"),
        _optional("collective_read_count", "collective and split collective reads (MPI-IO)"),
        _optional("collective_write_count", "collective and split collective writes (MPI-IO)"),
        _optional("nonblocking_count", "non-blocking reads and writes (MPI-IO)"),
        *_bins("as this module saw them", nullable=True),
        *(_optional(f"access{i}_bytes", f"size of the {i}. most common access") for i in range(1, 5)),
        *(_optional(f"access{i}_count", f"accesses of the {i}. most common size") for i in range(1, 5)),
        _seconds("meta_seconds", "time in metadata operations, all ranks of the record; close() flushes count here"),
        _seconds("read_seconds", "time in reads, all ranks of the record"),
        _seconds("write_seconds", "time in writes and syncs, all ranks of the record"),
        _seconds("max_read_seconds", "slowest single read"),
        _seconds("max_write_seconds", "slowest single write"),
        _optional("fastest_rank", "rank with the least I/O time; shared records", RANK),
        _optional("fastest_rank_bytes", "bytes moved by it"),
        _seconds("fastest_rank_seconds", "its metadata, read and write time"),
        _optional("slowest_rank", "rank with the most I/O time; shared records", RANK),
        _optional("slowest_rank_bytes", "bytes moved by it"),
        _seconds("slowest_rank_seconds", "its metadata, read and write time"),
        *_SPAN_COLUMNS,
        _optional("stripe_count", "Lustre stripes, where recorded"),
        _optional("stripe_bytes", "Lustre stripe size, where recorded"),
        ColumnSpec("osts", "text", "comma-separated OST numbers, where recorded", nullable=True, reads=is_numbers),
    ),
    key=("log_digest", "record_id", "rank", "module"),
    time="start_ns",
    order=("log_digest", "module", "record_id", "rank"),
)

JOB_IO = TableSpec(
    name="job_io",
    doc="Job I/O metrics that one log alone yields (METHODS section 1); bytes and times of the layer the job called. "
    "Counts are null where only text of the log was read that does not tell them.",
    columns=(
        ColumnSpec("log_digest", "text", "content digest of the log"),
        ColumnSpec("start_ns", "int64", "start of the run"),
        ColumnSpec("end_ns", "int64", "end of the run"),
        ColumnSpec("nprocs", "int64", "processes", range=PROCESSES),
        ColumnSpec("run_seconds", "float64", "D_J: end - start"),
        ColumnSpec(
            "partial", "bool", "a module ran out of memory, or only sums or a trace were read: figures are lower bounds"
        ),
        _seconds("d_u_m_seconds", "D_U_M: metadata time of the slowest rank on unshared files; null = there are none"),
        _seconds("d_u_rw_seconds", "D_U_RW: read and write time of that rank"),
        _seconds("d_s_seconds", "D_S: time on files shared by all ranks, by d_s_definition; null = none did I/O"),
        ColumnSpec("d_s_definition", "text", "slowest, or per_file where no slowest rank is recorded", nullable=True),
        _seconds("d_s_span_seconds", "D_S as one span, first open to last I/O (mad17)"),
        _seconds("d_s_per_file_seconds", "D_S as that span per file, summed (car11)"),
        _seconds("d_s_slowest_seconds", "D_S as the slowest rank's time per file, summed"),
        _seconds("io_seconds", "D = D_U_M + D_U_RW + D_S (mad17 Eq. 1)"),
        _seconds("posix_io_seconds", "D of the POSIX records alone, those below MPI-IO too; null = no MPI-IO"),
        _seconds("d_read_seconds", "D of reading alone, with its share of metadata time"),
        _seconds("d_write_seconds", "D of writing alone, with its share of metadata time"),
        _seconds("d_f_r_seconds", "D_F_R: longest first-to-last read of a file (mad17 Eq. 6)"),
        _seconds("d_f_w_seconds", "D_F_W: longest first-to-last write of a file (mad17 Eq. 6)"),
        _count("read_bytes", "bytes read, once, at the highest layer"),
        _count("write_bytes", "bytes written, once, at the highest layer"),
        _seconds("bytes_per_s", "(bytes read + written) / D"),
        _seconds("read_bytes_per_s", "bytes read / d_read_seconds"),
        _seconds("write_bytes_per_s", "bytes written / d_write_seconds"),
        _seconds("meta_seconds", "metadata time over all processes; close() flushes count here"),
        _seconds("read_seconds", "read time over all processes"),
        _seconds("write_seconds", "write time over all processes"),
        _seconds("metadata_ratio", "meta_seconds of the three together (car11 Table IV)"),
        _optional("file_count", "files opened or accessed"),
        _optional("read_only_file_count", "files only read"),
        _optional("write_only_file_count", "files only written"),
        _optional("read_write_file_count", "files read and written"),
        *(_optional(f"{name}_file_count", f"{name.replace('_', ' ')} files") for name in STRATEGIES),
        *(
            _optional(f"{name}_{verb}_bytes", f"bytes of {verb}s on {name.replace('_', ' ')} files")
            for name in STRATEGIES
            for verb in ("read", "write")
        ),
        _optional("create_count", "files written and created by the job, by create_rule"),
        ColumnSpec("create_rule", "text", "size_at_open, or the proxy written_whole", nullable=True),
        _optional("size_known_file_count", "written files whose size at open is recorded; null = none (Darshan 3.x)"),
        _optional("new_or_empty_file_count", "of these, the files that were new or empty when opened"),
        _seconds("files_per_process", "files per process"),
        _seconds("creates_per_process", "files created per process"),
        _seconds("bytes_per_process", "bytes read and written per process"),
        _count("read_count", "read operations of the application"),
        _count("write_count", "write operations of the application"),
        _count("fs_read_count", "read operations the file system saw: the POSIX layer, below MPI-IO too"),
        _count("fs_write_count", "write operations the file system saw"),
        _count("fs_read_bytes", "bytes of these reads"),
        _count("fs_write_bytes", "bytes of these writes"),
        _optional("seek_count", "seeks (POSIX, STDIO)"),
        _optional("stat_count", "stats (POSIX)"),
        _optional("collective_count", "collective reads and writes (MPI-IO)"),
        _optional("independent_count", "independent reads and writes (MPI-IO)"),
        _optional("sequential_count", "POSIX accesses at a higher offset than the one before"),
        _optional("consecutive_count", "POSIX accesses that begin where the one before ended"),
        _optional("alignment_tested_count", "POSIX accesses whose alignment was tested"),
        _optional("not_aligned_count", "of these, the accesses not aligned in the file"),
        _seconds("sequential_ratio", "sequential of POSIX accesses (SEQ, not CONSEC)"),
        _seconds("aligned_ratio", "1 - FILE_NOT_ALIGNED / POSIX accesses tested"),
        *_bins("at the layer the application called", nullable=False),
        _optional("common_access_bytes", "most common access size"),
        _optional("common_access_count", "accesses of that size"),
        ColumnSpec("interfaces", "text", "comma-separated interfaces used directly; '' = no file", reads=is_interfaces),
        *(
            _count(f"{interface.lower().replace('-', '')}_{verb}_bytes", f"bytes of {verb}s through {interface}")
            for interface in INTERFACES
            for verb in ("read", "write")
        ),
        _optional("io_rank_count", "ranks that moved data; a file shared by all counts all of them"),
        _optional("rank0_bytes", "bytes that rank 0 alone moved"),
        ColumnSpec("main_mount", "text", "mount point with most of the bytes", nullable=True),
        *_SPAN_COLUMNS,
    ),
    key=("log_digest",),
    time="start_ns",
    order=("start_ns", "log_digest"),
)


VERDICT_KINDS = ("both", "normal", "system", "unexplained", "unknown", "you")
VERDICT_PARTS = ("usual", "system", "own", "unexplained")


def _json(name: str, doc: str) -> ColumnSpec:
    return ColumnSpec(name, "text", f"JSON: {doc}", nullable=True)


_PART_WORDS = ("as usual", "the system", "what it did differently", "unexplained")
_SPLIT = tuple(
    column
    for part, words in zip(VERDICT_PARTS, _PART_WORDS, strict=True)
    for column in (
        _seconds(f"{part}_seconds", f"I/O time: {words}"),
        _seconds(f"{part}_low_seconds", "lower end of its 90% interval"),
        _seconds(f"{part}_high_seconds", "upper end of its 90% interval"),
    )
)

VERDICTS = TableSpec(
    name="verdicts",
    doc="Verdicts on runs. As of the run's end only runs that had ended by then were compared; a row with a later "
    "`as_of_ns` is a revision, and stands beside the first. Of one run and one `as_of_ns`, the row of the newest model "
    "counts, then the one that was made last.",
    columns=(
        ColumnSpec("log_digest", "text", "the run: content digest of its log; null where it has none", nullable=True),
        ColumnSpec("cluster", "text", "cluster of a job without a log", nullable=True),
        ColumnSpec("raw_job_id", "int64", "job id in the log: Slurm's JobIDRaw", nullable=True, range=ANY),
        ColumnSpec("step", "text", "step of a job without a log; '' for all of it", nullable=True),
        ColumnSpec("uid", "int64", "user id", nullable=True, range=ANY),
        ColumnSpec("start_ns", "int64", "start of the run"),
        ColumnSpec("end_ns", "int64", "end of the run"),
        ColumnSpec("as_of_ns", "int64", "only runs that had ended by then count", range=PLANNED_TIME),
        ColumnSpec("model_version", "int64", "version of the model that judged", range=NOT_NEGATIVE),
        ColumnSpec("judged_ns", "int64", "when it was judged"),
        ColumnSpec("kind", "text", ", ".join(VERDICT_KINDS), choices=frozenset(VERDICT_KINDS)),
        ColumnSpec("reason", "text", "why it is unknown", nullable=True),
        ColumnSpec("likeliest", "text", "the likeliest kind", choices=frozenset(VERDICT_KINDS)),
        ColumnSpec("probability_ratio", "float64", "probability of the likeliest kind", nullable=True),
        _json("probabilities", "probability by kind"),
        _seconds("io_seconds", "I/O time of the run"),
        _seconds("harm_seconds", "slowdown is counted from here"),
        *_SPLIT,
        ColumnSpec("filesystem", "text", "file system that was looked at", nullable=True),
        _json("changed", "measures of its pattern that differ from similar runs"),
        _json("culprits", "jobs that slowed it, with probability and seconds"),
        _json("unhealthy", "components that were unhealthy meanwhile"),
        _json("worth", "what is worth changing, the most seconds first"),
        ColumnSpec("similar_count", "int64", "similar runs it was compared with"),
        ColumnSpec("coverage_ratio", "float64", "share of the run in which the system was sampled", nullable=True),
        ColumnSpec("headline", "text", "the verdict in one sentence"),
        _json("table_versions", "versions of the tables that were read"),
        ColumnSpec("software_version", "text", "version of ioweather that judged"),
    ),
    key=("log_digest", "cluster", "raw_job_id", "step", "as_of_ns"),
    time="as_of_ns",
    revisable=True,
    revision=("model_version",),
    order=("as_of_ns", "log_digest"),
)


# `jobs`: accounting of the scheduler; `job_operations`: operations of jobs on servers; `events`.

# The cluster of accounting records that name none, if no option names one either.
UNNAMED_CLUSTER = "cluster"

EVENT_KINDS = ("annotation", "component_health", "episode", "gap", "incident", "maintenance", "phase")

JOBS = TableSpec(
    name="jobs",
    doc="Scheduler accounting: one row per run of a job or step; the newest row of a key counts. A requeued job is "
    "submitted again, so its runs differ in submit_ns, whether a dump lists all of them or the last alone.",
    columns=(
        ColumnSpec("cluster", "text", "cluster name"),
        ColumnSpec(
            "raw_job_id",
            "int64",
            "the scheduler's raw id (Slurm JobIDRaw), where it is known",
            nullable=True,
            range=NOT_NEGATIVE,
        ),
        ColumnSpec("step", "text", "step name; '' for the allocation"),
        ColumnSpec("restart", "int64", "how many requeues came before, where recorded", nullable=True, range=PARTS),
        ColumnSpec("job_id", "text", "as shown to users: 22_1, 43+0"),
        ColumnSpec("array_job_id", "int64", "array the job belongs to", nullable=True, range=NOT_NEGATIVE),
        ColumnSpec("het_offset", "int64", "component of a heterogeneous job", nullable=True, range=PARTS),
        ColumnSpec("uid", "int64", "numeric user id", nullable=True, range=ANY),
        ColumnSpec("user", "text", "user name", nullable=True),
        ColumnSpec("account", "text", "account charged", nullable=True),
        ColumnSpec("name", "text", "job name", nullable=True),
        ColumnSpec("state", "text", "final or current state"),
        ColumnSpec("submit_ns", "int64", "submitted; of a step: started"),
        ColumnSpec("start_ns", "int64", "started; null if it never did", nullable=True),
        ColumnSpec("end_ns", "int64", "ended; null while running", nullable=True),
        ColumnSpec("node_count", "int64", "nodes allocated", nullable=True, range=PARTS),
        ColumnSpec("cpu_count", "int64", "CPUs allocated", nullable=True, range=PARTS),
        ColumnSpec("nodes", "text", "node list, expanded, comma-separated", nullable=True),
    ),
    key=("cluster", "job_id", "step", "submit_ns"),
    time="submit_ns",
    revisable=True,
    # An old dump read after a new one must not bring a finished job back to life, nor let a running one wait again; nor
    # may a poor one take its raw id away.
    revision=("end_ns", "start_ns", "raw_job_id"),
    placeholder=("cluster", UNNAMED_CLUSTER),
    order=("cluster", "job_id", "step", "submit_ns"),
)

EVENTS = TableSpec(
    name="events",
    doc="Phases of benchmarks, maintenance, gaps, incidents, episodes, annotations.",
    columns=(
        ColumnSpec("event_id", "text", "identity; a later row of the same id revises it"),
        ColumnSpec(
            "kind",
            "text",
            "annotation, component_health, episode, gap, incident, maintenance or phase",
            choices=frozenset(EVENT_KINDS),
        ),
        ColumnSpec("system", "text", "raw name of the system", nullable=True),
        ColumnSpec("component", "text", "component, where it is about one", nullable=True),
        ColumnSpec("host", "text", "host, where it is about one", nullable=True),
        ColumnSpec("start_ns", "int64", "start", range=PLANNED_TIME),
        ColumnSpec("end_ns", "int64", "end; null = ongoing", nullable=True, range=PLANNED_TIME),
        ColumnSpec("label", "text", "what people call it"),
        ColumnSpec("strength_ratio", "float64", "how strong, where that has a meaning", nullable=True, range=FACTOR),
        ColumnSpec("details", "text", "JSON with the rest", nullable=True, reads=is_event_details),
        ColumnSpec("withdrawn", "bool", "true where a later look found that it was none: not shown", nullable=True),
    ),
    key=("event_id",),
    time="start_ns",
    revisable=True,
    order=("kind", "start_ns"),
)


def judge_operations(frame: Frame) -> Iterator[Fault]:
    """More than a target can do in the time: the counter is not the job's, or the time is wrong."""
    seconds = np.maximum(frame.array("interval_ns") / NS, 1.0)
    kinds = frame.text("component_kind")
    for column in ("count", "bytes"):
        limits = np.array([most_per_s(kind, column) for kind in kinds.categories] + [np.inf])
        above = np.ma.filled(np.ma.masked_array(frame.array(column)) > limits[kinds.codes] * seconds, False)
        if above.any():
            yield Fault(above, column, "is more than a target can do in the time")


JOB_OPERATIONS = TableSpec(
    name="job_operations",
    doc="What a job did on a target in [start, start + interval), by operation: differences of the servers' counters "
    "(Lustre job_stats). An operation that did not happen has no row.",
    columns=(
        ColumnSpec("start_ns", "int64", "start of the interval, UTC ns"),
        ColumnSpec("interval_ns", "int64", "length of the interval"),
        ColumnSpec("system", "text", "raw name of the system: Lustre fsname"),
        ColumnSpec("component_kind", "text", "ost or mdt", choices=frozenset(COMPONENT_KINDS)),
        ColumnSpec("component", "text", "the target"),
        ColumnSpec("job_key", "text", "the job id as the servers have it; '' for work without one"),
        ColumnSpec("job_id", "int64", "the scheduler's raw id, where the key tells", nullable=True, range=NOT_NEGATIVE),
        ColumnSpec("cluster", "text", "cluster of that id, where it is known", nullable=True),
        ColumnSpec("uid", "int64", "numeric user id, where the key tells", nullable=True, range=ANY),
        ColumnSpec("exe", "text", "program, where the key tells", nullable=True),
        ColumnSpec("host", "text", "client, where the key tells", nullable=True),
        ColumnSpec("operation", "text", "read, write, open, ...: as the server names it"),
        ColumnSpec("count", "int64", "how often"),
        ColumnSpec("bytes", "int64", "bytes moved, of reads and writes", nullable=True),
        ColumnSpec(
            "time_ns",
            "int64",
            "server time summed over operations, where it is counted",
            nullable=True,
            range=NOT_NEGATIVE,
        ),
        ColumnSpec(
            "histogram",
            "text",
            "JSON: bytes up to -> operations, where it is counted",
            nullable=True,
            reads=is_object_of_counts,
        ),
        ColumnSpec(
            "quality",
            "int64",
            "bit set: 2 reset (the entry started again: a lower bound); 64 whole_life (counted since the entry began, "
            "by a lone snapshot: other rows may hold parts of it); 128 time_doubtful",
            range=FLAGS,
        ),
    ),
    key=("start_ns", "interval_ns", "system", "component_kind", "component", "job_key", "operation"),
    time="start_ns",
    judge=judge_operations,
    order=("system", "job_key", "component", "operation", "start_ns"),
)


# `benchmarks`: a benchmark's own figures, to check ours against.

BENCHMARKS = TableSpec(
    name="benchmarks",
    doc="One phase of a benchmark run, in the benchmark's own words.",
    columns=(
        ColumnSpec(
            "digest", "text", "identity of the run: of its start and command, where it prints them, else of the file"
        ),
        ColumnSpec("phase", "text", "phase name, unique within the file (write, read, ior-easy-write, ...)"),
        ColumnSpec("tool", "text", "ior, mdtest or io500"),
        ColumnSpec("operation", "text", "read, write, create, stat, delete, ...", nullable=True),
        ColumnSpec("bytes_per_s", "float64", "bandwidth it printed", nullable=True, range=BENCHMARK_BYTES_PER_S),
        ColumnSpec(
            "ops_per_s", "float64", "operations per second it printed", nullable=True, range=BENCHMARK_OPS_PER_S
        ),
        ColumnSpec("duration_seconds", "float64", "time it printed", nullable=True),
        ColumnSpec("start_ns", "int64", "start of the phase", nullable=True),
        ColumnSpec("end_ns", "int64", "end of the phase", nullable=True),
        ColumnSpec(
            "parameters",
            "text",
            "JSON: tasks, transfer size, block size, command line",
            nullable=True,
            reads=is_object,
        ),
    ),
    key=("digest", "phase"),
    time="start_ns",
    revisable=True,
    # Of an output that was cut and the whole one, whichever came first, the whole one counts.
    revision=("end_ns", "duration_seconds"),
    order=("start_ns",),
)
