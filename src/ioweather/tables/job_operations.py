"""`job_operations`: what each job did on each target, as the servers count it."""

from __future__ import annotations

from ioweather.tables.ranges import ANY, FLAGS, NOT_NEGATIVE
from ioweather.tables.schema import ColumnSpec, TableSpec
from ioweather.tables.series import COMPONENT_KINDS

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
            "time_ns", "int64", "server time summed over operations, where it is counted", nullable=True,
            range=NOT_NEGATIVE,
        ),
        ColumnSpec("histogram", "text", "JSON: bytes up to -> operations, where it is counted", nullable=True),
        ColumnSpec(
            "quality",
            "int64",
            "bit set: 2 reset (the entry started again: a lower bound); 64 whole_life (counted since the entry began, "
            "by a lone snapshot: other rows may hold parts of it)",
            range=FLAGS,
        ),
    ),
    key=("start_ns", "interval_ns", "system", "component_kind", "component", "job_key", "operation"),
    time="start_ns",
    order=("system", "job_key", "component", "operation", "start_ns"),
)  # fmt: skip
