"""`series`: amounts and states of servers and devices over time, and the closed list of metrics."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntFlag

from ioweather.tables.schema import ColumnSpec, TableSpec


class Quality(IntFlag):
    """Flags of a sample. Nothing is thrown away at ingest; a study excludes by flag and counts what it excluded."""

    OK = 0
    LATE = 1  # carries the sum of missing samples before it; the minute sum is right
    RESET = 2  # the counter restarted; the amount is a lower bound
    OVER_LIMIT = 4  # above what the component can physically do
    SPREAD = 8  # spread over the grid by overlap; the amounts are shares
    SHUTDOWN = 16  # in a declared or detected shutdown
    PARTIAL = 32  # samples of the minute are missing (a lower bound) or came in another minute (the totals are right)


@dataclass(frozen=True)
class Metric:
    """Extensive metrics are amounts in the interval and add up; intensive ones are means over it."""

    name: str
    unit: str
    extensive: bool
    doc: str


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

COMPONENT_KINDS = ("device", "host", "mds", "mdt", "oss", "ost")

SERIES = TableSpec(
    name="series",
    doc="Samples of servers, targets and devices. One row: one metric of one component in [start, start + interval).",
    columns=(
        ColumnSpec("start_ns", "int64", "start of the interval, UTC ns"),
        ColumnSpec("interval_ns", "int64", "length of the interval; raw and 1-minute rows differ by it"),
        ColumnSpec("system", "text", "raw name of the system: Lustre fsname, or host:device"),
        ColumnSpec("component_kind", "text", "ost, oss, mdt, mds, device or host"),
        ColumnSpec("component", "text", "name of the component within its system"),
        ColumnSpec("metric", "text", "one of the closed list of metrics"),
        ColumnSpec("value", "float64", "amount in the interval (extensive) or mean over it (intensive)", nullable=True),
        ColumnSpec("quality", "int64", "bit set: 1 late, 2 reset, 4 over_limit, 8 spread, 16 shutdown, 32 partial"),
    ),
    key=("start_ns", "interval_ns", "system", "component_kind", "component", "metric"),
    time="start_ns",
    order=("system", "component_kind", "source", "interval_ns", "metric", "start_ns", "component"),
    # The last minute of an archive that still grows.
    unfinished=int(Quality.PARTIAL),
)

COMPONENTS = TableSpec(
    name="components",
    doc="Topology: which component sat on which server, and its physical limit, from when to when.",
    columns=(
        ColumnSpec("system", "text", "raw name of the system"),
        ColumnSpec("kind", "text", "ost, oss, mdt, mds, device or host"),
        ColumnSpec("component", "text", "name of the component"),
        ColumnSpec("valid_from_ns", "int64", "from when this row holds"),
        ColumnSpec("valid_to_ns", "int64", "until when; null = still", nullable=True),
        ColumnSpec("server", "text", "the server it is attached to", nullable=True),
        ColumnSpec("limit_bytes_per_s", "float64", "physical limit, where known", nullable=True),
    ),
    key=("system", "kind", "component", "valid_from_ns"),
    time="valid_from_ns",
    revisable=True,
    order=("system", "kind", "component", "valid_from_ns"),
)
