"""`responses` and `response_rollups`: what single operations took, measured by probe and sampler."""

from __future__ import annotations

from ioweather.core.tables.schema import ERRNO, ColumnSpec, TableSpec, is_histogram

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
