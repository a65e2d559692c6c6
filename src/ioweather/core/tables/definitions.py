"""The tables of the lake: their columns, natural keys, and how their rows are judged."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntFlag
from typing import Final

import numpy as np

from ioweather.core.frames import Frame
from ioweather.core.tables.checks import TIME_DOUBTFUL, Fault
from ioweather.core.tables.schema import (
    ANY,
    BENCHMARK_BYTES_PER_S,
    BENCHMARK_OPS_PER_S,
    COMPONENT_KINDS,
    ERRNO,
    FACTOR,
    FILE_SIZE,
    FILE_TIME,
    FLAGS,
    NOT_NEGATIVE,
    PARTS,
    PLANNED_TIME,
    PROCESSES,
    RANK,
    SAMPLE,
    ColumnSpec,
    Range,
    TableSpec,
    is_event_details,
    is_histogram,
    is_interfaces,
    is_layout,
    is_numbers,
    is_object,
    is_object_of_counts,
    is_object_of_objects,
    is_object_of_texts,
)
from ioweather.core.tables.schema import INTERFACES as INTERFACES
from ioweather.core.units import NS
from ioweather.core.words import names_of

# `series`: amounts and states of servers and devices over time, and the closed list of metrics.


class Quality(IntFlag):
    """Flags of a sample; a study excludes by flag and counts the excluded rows. Impossible values are null."""

    OK = 0
    LATE = 1  # carries the sum of missing samples before it; the minute sum is right
    RESET = 2  # the counter restarted; the amount is a lower bound, or null where it came out below zero
    OVER_LIMIT = 4  # above what any component can physically do; the value is null
    SPREAD = 8  # spread over the grid by overlap; the amounts are shares
    SHUTDOWN = 16  # in a declared or detected shutdown
    PARTIAL = 32  # samples of the minute are missing (a lower bound) or came in another minute (the totals are right)
    WHOLE_LIFE = 64  # of job_operations: counted since the entry began; other rows may hold parts of it
    TIME_DOUBTFUL = TIME_DOUBTFUL  # longer than a day, or before 2000: when it happened is hardly known


@dataclass(frozen=True)
class Metric:
    """Extensive metrics are amounts in the interval and add up; intensive ones are means over it."""

    name: str
    unit: str
    extensive: bool
    doc: str

    def most(self, kind: str) -> float:
        """Largest possible value for a component of this kind; for an extensive metric per second."""
        if not self.extensive:
            return _MOST_OF.get(self.name) or _MOST[self.unit]
        return most_per_s(kind, self.unit)


# What one component can do in a second. A device: the fastest drives of 2026 reach 28 GB/s and ten million requests a
# second, arrays that look like one a hundred times as much. All others: rows of a whole file system as one component
# are common; 100 TB/s is ten times the largest file system of 2023, 1e11 operations a hundred times the best of the
# IO500. Times are summed over requests, each of which may have waited for days: a billion seconds.
_MOST_PER_S: Final = {"bytes": 1e14, "count": 1e11, "seconds": 1e9}
_MOST_PER_S_OF_DEVICE: Final = {"bytes": 3e12, "count": 1e9, "seconds": 1e7}


def most_per_s(kind: str, unit: str) -> float:
    """Physical limit of a component of this kind, in bytes, counts or seconds a second."""
    return (_MOST_PER_S_OF_DEVICE if kind == "device" else _MOST_PER_S)[unit]


# The largest file systems hold less than 2^60 bytes, and files no smaller than one. No request waits for thirty years.
_MOST: Final = {"bytes": float(1 << 60), "count": float(1 << 60), "seconds": 1e9, "ratio": 1.0}
# The largest machines have ten million cores; each may have a hundred requests in flight.
_MOST_OF: Final = {"queue_length": 1e9, "client_count": 1e9}
# Ticks of the kernel and the time between two looks do not fit: iostat prints up to 100.4%. So much beyond 0 or 1 is
# taken for it.
_JITTER: Final = 0.05

METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric("read_bytes", "bytes", True, "bytes read"),
        Metric("write_bytes", "bytes", True, "bytes written"),
        Metric("discard_bytes", "bytes", True, "bytes discarded (TRIM)"),
        Metric("read_ops", "count", True, "read requests"),
        Metric("write_ops", "count", True, "write requests"),
        Metric("discard_ops", "count", True, "discard requests"),
        Metric("flush_ops", "count", True, "cache flush requests"),
        Metric("open_ops", "count", True, "file opens at the metadata server"),
        Metric("close_ops", "count", True, "file closes at the metadata server"),
        Metric("mknod_ops", "count", True, "mknod (creates)"),
        Metric("link_ops", "count", True, "hard links made"),
        Metric("unlink_ops", "count", True, "unlinks"),
        Metric("mkdir_ops", "count", True, "directories made"),
        Metric("rmdir_ops", "count", True, "directories removed"),
        Metric("rename_ops", "count", True, "renames"),
        Metric("getattr_ops", "count", True, "getattr (stat)"),
        Metric("setattr_ops", "count", True, "setattr"),
        Metric("getxattr_ops", "count", True, "getxattr"),
        Metric("setxattr_ops", "count", True, "setxattr"),
        Metric("statfs_ops", "count", True, "statfs"),
        Metric("sync_ops", "count", True, "sync"),
        Metric("punch_ops", "count", True, "truncates on a target"),
        Metric("create_ops", "count", True, "object creates on a target"),
        Metric("destroy_ops", "count", True, "object destroys on a target"),
        Metric("other_ops", "count", True, "metadata operations with no metric of their own"),
        Metric("reconnects", "count", True, "client reconnects"),
        Metric("read_busy_seconds", "seconds", True, "time spent on reads, summed over requests"),
        Metric("write_busy_seconds", "seconds", True, "time spent on writes, summed over requests"),
        Metric("metadata_busy_seconds", "seconds", True, "time spent on metadata operations, summed over requests"),
        Metric(
            "request_ops", "count", True, "requests that a service of a server, or an NFS client, has seen answered"
        ),
        Metric("request_wait_seconds", "seconds", True, "time that requests waited for a thread or a slot, summed"),
        Metric("read_rtt_seconds", "seconds", True, "time that reads were on the way and at the server, summed"),
        Metric("write_rtt_seconds", "seconds", True, "time that writes were on the way and at the server, summed"),
        Metric("metadata_rtt_seconds", "seconds", True, "the same of all other requests"),
        Metric("bulk_read_ops", "count", True, "bulk requests that read"),
        Metric("bulk_write_ops", "count", True, "bulk requests that wrote"),
        Metric("small_bulk_read_ops", "count", True, "of these, requests of at most 128 pages"),
        Metric("small_bulk_write_ops", "count", True, "of these, requests of at most 128 pages"),
        Metric("disk_read_ops", "count", True, "reads that a target made on its disks"),
        Metric("disk_write_ops", "count", True, "writes that a target made on its disks"),
        Metric("slow_disk_read_ops", "count", True, "of these, reads that took longer than 128 ms"),
        Metric("slow_disk_write_ops", "count", True, "of these, writes that took longer than 128 ms"),
        Metric("cpu_ratio", "ratio", False, "share of CPU time not idle"),
        Metric("memory_ratio", "ratio", False, "share of memory used"),
        Metric("busy_ratio", "ratio", False, "share of time with a request in flight (%util)"),
        Metric("await_seconds", "seconds", False, "mean response time of a request"),
        Metric("read_await_seconds", "seconds", False, "mean response time of a read"),
        Metric("write_await_seconds", "seconds", False, "mean response time of a write"),
        Metric("queue_length", "count", False, "mean requests in flight"),
        Metric("client_count", "count", False, "connected clients (exports)"),
        Metric("capacity_bytes", "bytes", False, "capacity"),
        Metric("free_bytes", "bytes", False, "free capacity"),
        Metric("capacity_files", "count", False, "inodes"),
        Metric("free_files", "count", False, "free inodes"),
    )
}


def judge_samples(frame: Frame) -> Iterator[Fault]:
    """What the metric allows its values to be. An infinite one is refused elsewhere.

    A negative difference of counters means that they restarted, and says nothing of the amount; neither does a value
    above all limits. Both stay as samples without a value, so that a reader sees the flag and counts a gap.
    """
    value, text = frame.array("value"), frame.text("metric")
    known = [METRICS.get(name) for name in text.categories]
    kinds = frame.text("component_kind")
    limits = [[metric.most(kind) if metric else np.inf for metric in known] + [np.inf] for kind in kinds.categories]
    most = np.array([*limits, [np.inf] * (len(known) + 1)])[kinds.codes, text.codes]
    below, above = (value < 0) & (value > -np.inf), (value > most) & (value < np.inf)
    if not below.any() and not above.any():
        return
    extensive = np.array([metric is not None and metric.extensive for metric in known] + [False])[text.codes]
    ratio = np.array([metric is not None and metric.unit == "ratio" for metric in known] + [False])[text.codes]
    # Rows shorter than a second may hold what ended in them and began before.
    above &= ~extensive | (value > most * np.maximum(frame.array("interval_ns") / NS, 1.0))
    for rows, becomes in ((below & ratio & (value >= -_JITTER), 0.0), (above & ratio & (value <= 1 + _JITTER), 1.0)):
        if rows.any():
            yield Fault(rows, "value", f"of a ratio was just beyond {becomes:.0f}", kept=True, becomes=becomes)
            below, above = below & ~rows, above & ~rows
    if (rows := below & extensive).any():
        yield Fault(rows, "value", "is an amount below 0 (RESET)", True, np.nan, int(Quality.RESET))
    if (rows := below & ~extensive).any():
        yield Fault(rows, "value", "is below 0")
    if above.any():
        yield Fault(above, "value", "is above what can be (OVER_LIMIT)", True, np.nan, int(Quality.OVER_LIMIT))


SERIES = TableSpec(
    name="series",
    doc="Samples of servers, targets and devices. One row: one metric of one component in [start, start + interval).",
    columns=(
        ColumnSpec("start_ns", "int64", "start of the interval, UTC ns"),
        ColumnSpec("interval_ns", "int64", "length of the interval; raw and 1-minute rows differ by it"),
        ColumnSpec("system", "text", "raw name of the system: Lustre fsname, or host:device"),
        ColumnSpec("component_kind", "text", "ost, oss, mdt, mds, device or host", choices=frozenset(COMPONENT_KINDS)),
        ColumnSpec("component", "text", "name of the component within its system"),
        ColumnSpec("metric", "text", "one of the closed list of metrics", choices=frozenset(METRICS)),
        ColumnSpec(
            "value",
            "float64",
            "amount in the interval (extensive) or mean over it (intensive)",
            nullable=True,
            range=SAMPLE,
        ),
        ColumnSpec(
            "quality",
            "int64",
            "bit set: 1 late, 2 reset, 4 over_limit, 8 spread, 16 shutdown, 32 partial, 128 time_doubtful",
            range=FLAGS,
        ),
    ),
    key=("start_ns", "interval_ns", "system", "component_kind", "component", "metric"),
    time="start_ns",
    order=("system", "component_kind", "source", "interval_ns", "metric", "start_ns", "component"),
    # The last minute of an archive that still grows.
    unfinished=int(Quality.PARTIAL),
    judge=judge_samples,
)

COMPONENTS = TableSpec(
    name="components",
    doc="Topology: which component sat on which server, and its physical limit, from when to when.",
    columns=(
        ColumnSpec("system", "text", "raw name of the system"),
        ColumnSpec("kind", "text", "ost, oss, mdt, mds, device or host", choices=frozenset(COMPONENT_KINDS)),
        ColumnSpec("component", "text", "name of the component"),
        ColumnSpec("valid_from_ns", "int64", "from when this row holds"),
        ColumnSpec("valid_to_ns", "int64", "until when; null = still", nullable=True, range=PLANNED_TIME),
        ColumnSpec("server", "text", "the server it is attached to", nullable=True),
        ColumnSpec("limit_bytes_per_s", "float64", "physical limit, where known", nullable=True),
    ),
    key=("system", "kind", "component", "valid_from_ns"),
    time="valid_from_ns",
    revisable=True,
    order=("system", "kind", "component", "valid_from_ns"),
)


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


# `responses` and `response_rollups`: what single operations took, measured by probe and sampler.

OPERATIONS = ("create", "delete", "file_read", "read", "stat", "write", "write_sync")
MODES = ("cache", "nocache")
STATUSES = ("error", "missed", "ok", "pending")

RESPONSES = TableSpec(
    name="responses",
    doc="One timed operation of a probe or sampler.",
    columns=(
        ColumnSpec("start_ns", "int64", "when the operation began, UTC ns"),
        ColumnSpec("host", "text", "where it was issued"),
        ColumnSpec("target", "text", "what was probed: a path"),
        ColumnSpec(
            "op", "text", "create, delete, file_read, read, stat, write or write_sync", choices=frozenset(OPERATIONS)
        ),
        ColumnSpec("request_bytes", "int64", "size of the request"),
        ColumnSpec("mode", "text", "cache or nocache", choices=frozenset(MODES)),
        ColumnSpec("scheduled_ns", "int64", "when it should have begun", nullable=True),
        ColumnSpec("duration_ns", "int64", "how long it took; null while pending or missed", nullable=True),
        ColumnSpec("system", "text", "raw name of the system: mount:/path or fsname"),
        ColumnSpec("component", "text", "the target of the file or folder, where known", nullable=True),
        ColumnSpec("cached", "bool", "whether the client cache answered, where known", nullable=True),
        ColumnSpec("status", "text", "ok, error, pending or missed", choices=frozenset(STATUSES)),
        ColumnSpec("errno", "int64", "error number", nullable=True, range=ERRNO),
        ColumnSpec("run_id", "text", "which run of the probe", nullable=True),
    ),
    key=("start_ns", "host", "target", "op", "request_bytes", "mode"),
    time="start_ns",
    order=("system", "op", "request_bytes", "mode", "start_ns"),
    is_long=True,
)

RESPONSE_ROLLUPS = TableSpec(
    name="response_rollups",
    doc="Responses reduced per interval: counts, extremes and a log-histogram that merges.",
    columns=(
        ColumnSpec("start_ns", "int64", "start of the interval, UTC ns"),
        ColumnSpec("interval_ns", "int64", "60 s, 10 min or 1 h"),
        ColumnSpec("system", "text", "raw name of the system"),
        ColumnSpec("target", "text", "what was probed"),
        ColumnSpec("host", "text", "where it was issued"),
        ColumnSpec("op", "text", "operation"),
        ColumnSpec("request_bytes", "int64", "size of the request"),
        ColumnSpec("mode", "text", "cache or nocache", choices=frozenset(MODES)),
        ColumnSpec("count", "int64", "operations that ended well and were not answered by the client cache"),
        ColumnSpec("cached_count", "int64", "operations that the client cache answered; not in what follows"),
        ColumnSpec("error_count", "int64", "operations that failed"),
        ColumnSpec("missed_count", "int64", "ticks without an operation, because one before it had not ended"),
        ColumnSpec("sum_seconds", "float64", "sum of durations"),
        ColumnSpec("min_seconds", "float64", "shortest", nullable=True),
        ColumnSpec("max_seconds", "float64", "longest", nullable=True),
        ColumnSpec(
            "histogram",
            "text",
            "of durations, in bins of ratio 1.02 (quantiles are within 1%), packed; see weather.md",
            reads=is_histogram,
        ),
        ColumnSpec(
            "omitted_sum_seconds",
            "float64",
            "sum of what missed and pending operations would have waited",
            nullable=True,
        ),
        ColumnSpec("omitted_max_seconds", "float64", "longest of these waits", nullable=True),
        ColumnSpec(
            "omitted_histogram",
            "text",
            "of these waits; null or empty where none was",
            nullable=True,
            reads=is_histogram,
        ),
    ),
    key=("start_ns", "interval_ns", "system", "target", "host", "op", "request_bytes", "mode"),
    time="start_ns",
    revisable=True,
    # Readers want one length of interval, and pass over the rest of the day.
    order=("interval_ns", "system", "op", "start_ns"),
    group_rows=2048,
    keeps_revisions=False,
)


# `scans`, `scan_bins`, `scan_entries`: what lies in a file system at a moment.

HISTOGRAM_NAMES = names_of("""
    age_size atime capacity ctime depth directory_entries directory_size extension link_count mtime name_length
    overhead_negative overhead_positive size symlink_length
""")


def _known(name: str, doc: str, allowed: Range | None = None) -> ColumnSpec:
    return ColumnSpec(name, "int64", doc, nullable=True, range=allowed)


def _total(name: str, doc: str, allowed: Range | None = None) -> ColumnSpec:
    """One number that a file system says of itself, or that its files make it, must not cost the whole scan."""
    return ColumnSpec(name, "int64", doc, nullable=True, range=allowed, else_null=True)


SCANS = TableSpec(
    name="scans",
    doc="One look at a directory tree: by the scanner, or by another tool whose list was read.",
    columns=(
        ColumnSpec("scan_id", "text", "identity of the scan"),
        ColumnSpec("start_ns", "int64", "when it began; ages are counted from here"),
        _known("end_ns", "when it ended"),
        ColumnSpec("host", "text", "where it ran", nullable=True),
        ColumnSpec("root", "text", "the directory that was scanned"),
        ColumnSpec("system", "text", "raw name of the file system: mount:/path, or as given"),
        ColumnSpec("filesystem_type", "text", "as the kernel names it", nullable=True),
        ColumnSpec("complete", "bool", "nothing was left out: no directory unreadable, no list cut short"),
        ColumnSpec("entry_count", "int64", "names below the root, of any kind"),
        ColumnSpec("file_count", "int64", "regular files, each inode once"),
        _total("file_bytes", "their sizes together", FILE_SIZE),
        _total("capacity_bytes", "what they allocate together"),
        _total("directory_count", "directories, the root too"),
        _total("directory_bytes", "sizes of the directories themselves"),
        _total("symlink_count", "symbolic links; none was followed"),
        _total("other_count", "devices, pipes and sockets"),
        _total("linked_name_count", "names of files that have several"),
        _total("linked_file_count", "files that have several names"),
        _total("largest_file_bytes", "size of the largest file", FILE_SIZE),
        _total("vanished_count", "entries that went away between listing and looking"),
        _total("unreadable_count", "directories that could not be read"),
        _total("not_examined_count", "entries that could not be looked at"),
        _total("skipped_filesystem_count", "mount points that were not entered"),
        _total("skipped_snapshot_count", "snapshot directories that were not entered"),
        _total("total_bytes", "size of the file system"),
        _total("free_bytes", "free for users"),
        _total("total_inodes", "inodes of the file system; null where it makes them as needed", NOT_NEGATIVE),
        _total("used_inodes", "inodes in use in the whole file system", NOT_NEGATIVE),
        ColumnSpec("errors", "text", "JSON: errors by name, with examples", nullable=True, reads=is_object),
        ColumnSpec(
            "largest",
            "text",
            "JSON: largest files, directories with most entries and bytes",
            nullable=True,
            reads=is_object,
        ),
        ColumnSpec("cpu_seconds", "float64", "processor time it took", nullable=True),
    ),
    key=("scan_id",),
    time="start_ns",
    revisable=True,
    order=("start_ns", "scan_id"),
)

SCAN_BINS = TableSpec(
    name="scan_bins",
    doc="Histograms of a scan. Bins of sizes and ages are powers of two: [0, 1), [1, 2), [2, 4), ...",
    columns=(
        ColumnSpec("scan_id", "text", "the scan"),
        ColumnSpec("start_ns", "int64", "when it began"),
        ColumnSpec("root", "text", "the directory that was scanned"),
        ColumnSpec("owner_kind", "text", "all, user, group or project"),
        ColumnSpec("owner", "text", "user or group number, project name; '' for all"),
        ColumnSpec("owner_name", "text", "name of the user or group on the host of the scan", nullable=True),
        ColumnSpec("histogram", "text", f"one of {', '.join(HISTOGRAM_NAMES)}"),
        ColumnSpec("bin", "text", "the bin: its number, size and age bin joined by x, or an extension"),
        _known("low", "lower edge (bytes, days, count, characters or levels); null for labels and times to come", ANY),
        _known("high", "upper edge, not in the bin; null for labels", ANY),
        _known("age_low_days", "lower edge of the age, in age_size", ANY),
        _known("age_high_days", "upper edge of the age, in age_size", ANY),
        ColumnSpec("count", "int64", "files, directories, links or names in the bin"),
        ColumnSpec(
            "bytes", "int64", "what they weigh: bytes of files, allocated bytes, overhead, or length", range=FILE_SIZE
        ),
    ),
    key=("scan_id", "owner_kind", "owner", "histogram", "bin"),
    time="start_ns",
    order=("scan_id", "owner_kind", "owner", "histogram", "bin"),
)

SCAN_ENTRIES = TableSpec(
    name="scan_entries",
    doc="Every entry of a scan, where somebody asked for the listing.",
    columns=(
        ColumnSpec("scan_id", "text", "the scan"),
        ColumnSpec("start_ns", "int64", "when it began"),
        ColumnSpec("path", "text", "path, or its hash"),
        ColumnSpec("escaped", "bool", "not UTF-8: its bytes stand as \\xNN, backslashes doubled", nullable=True),
        ColumnSpec("kind", "text", "directory, file, other or symlink", nullable=True),
        _known("device", "device number", ANY),
        _known("inode", "inode number, its 64 bits read as signed", ANY),
        _known("size_bytes", "size", FILE_SIZE),
        _known("capacity_bytes", "allocated"),
        _known("mtime_ns", "last modification", FILE_TIME),
        _known("atime_ns", "last access", FILE_TIME),
        _known("ctime_ns", "last change of the inode", FILE_TIME),
        _known("uid", "user", NOT_NEGATIVE),
        _known("gid", "group", NOT_NEGATIVE),
        _known("link_count", "hard links"),
        ColumnSpec(
            "osts",
            "text",
            "OST numbers of its stripes, comma-separated; parts of its layout apart by ;",
            nullable=True,
            reads=is_layout,
        ),
    ),
    key=("scan_id", "path"),
    time="start_ns",
    order=("scan_id", "path"),
)


# `ingests`: the ledger of files that came in, or did not, and why. Quarantine is a view of it.

INGESTS = TableSpec(
    name="ingests",
    doc="One row per file digest: committed last, so a file that is here is in.",
    columns=(
        ColumnSpec("digest", "text", "content digest of the file (with the context that changes its meaning)"),
        ColumnSpec("path", "text", "where it was read from"),
        ColumnSpec("bytes", "int64", "size of the file", range=FILE_SIZE),
        ColumnSpec("status", "text", "ok, partial or quarantined"),
        ColumnSpec("reason", "text", "why not ok: the error's name", nullable=True),
        ColumnSpec("message", "text", "what is wrong with the file, or with some of its rows", nullable=True),
        ColumnSpec("rows", "text", "JSON: rows read per table, those that were there already too", reads=is_object),
        ColumnSpec("refused_count", "int64", "rows left out, because they cannot be", nullable=True),
        ColumnSpec("flagged_count", "int64", "rows kept, with a complaint", nullable=True),
        ColumnSpec(
            "rows_ingest_ids",
            "text",
            "comma-separated: the ingest_id of its rows, and of those that came in with them",
            nullable=True,
        ),
        ColumnSpec("ingested_ns", "int64", "when"),
        ColumnSpec("software_version", "text", "by which version"),
    ),
    key=("digest",),
    time="ingested_ns",
    revisable=True,
    order=("ingested_ns",),
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


TABLES: dict[str, TableSpec] = {
    spec.name: spec
    for spec in (
        APPLICATIONS,
        BENCHMARKS,
        COMPONENTS,
        EVENTS,
        FILES,
        INGESTS,
        JOB_IO,
        JOB_OPERATIONS,
        JOBS,
        RESPONSE_ROLLUPS,
        RESPONSES,
        SCAN_BINS,
        SCAN_ENTRIES,
        SCANS,
        SERIES,
        VERDICTS,
    )
}
