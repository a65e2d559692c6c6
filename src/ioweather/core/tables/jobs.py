"""`jobs`: accounting of the scheduler; `job_operations`: operations of jobs on servers; `events`."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ioweather.core.frames import Frame
from ioweather.core.tables.checks import Fault
from ioweather.core.tables.schema import (
    ANY,
    COMPONENT_KINDS,
    FACTOR,
    FLAGS,
    NOT_NEGATIVE,
    PARTS,
    PLANNED_TIME,
    ColumnSpec,
    TableSpec,
    is_event_details,
    is_object_of_counts,
)
from ioweather.core.tables.series import most_per_s
from ioweather.core.units import NS

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
