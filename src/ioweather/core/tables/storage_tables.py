"""Tables of storage: samples of servers and devices, response times, contents of file systems; and of ingestion."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntFlag
from typing import Final

import numpy as np

from ioweather.core.frames import Frame
from ioweather.core.tables.schema import (
    ANY,
    COMPONENT_KINDS,
    ERRNO,
    FILE_SIZE,
    FILE_TIME,
    FLAGS,
    NOT_NEGATIVE,
    PLANNED_TIME,
    SAMPLE,
    TIME_DOUBTFUL,
    ColumnSpec,
    Fault,
    Range,
    TableSpec,
    is_histogram,
    is_layout,
    is_object,
    most_per_s,
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
        Metric("network_send_bytes", "bytes", True, "bytes that Lustre's network (LNet) sent from this host"),
        Metric("network_receive_bytes", "bytes", True, "bytes that it received"),
        Metric("network_drop_ops", "count", True, "messages that it dropped"),
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
            yield Fault(rows, "value", f"of a ratio was just beyond {becomes:.0f}", stays=True, becomes=becomes)
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
        ColumnSpec(
            "component_kind",
            "text",
            "ost, oss, mdt, mds, device, host or quota",
            choices=frozenset(COMPONENT_KINDS),
        ),
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
        ColumnSpec("kind", "text", "ost, oss, mdt, mds, device, host or quota", choices=frozenset(COMPONENT_KINDS)),
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
