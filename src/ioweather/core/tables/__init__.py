"""The tables of the lake: columns, units in their names, natural keys, and how their frames are built."""

from __future__ import annotations

from ioweather.core.tables.applications import APPLICATIONS, FILES, JOB_IO, VERDICTS
from ioweather.core.tables.checks import Checked, Complaints
from ioweather.core.tables.contents import SCAN_BINS, SCAN_ENTRIES, SCANS
from ioweather.core.tables.jobs import EVENTS, JOB_OPERATIONS, JOBS
from ioweather.core.tables.responses import RESPONSE_ROLLUPS, RESPONSES
from ioweather.core.tables.schema import (
    BENCHMARK_BYTES_PER_S,
    BENCHMARK_OPS_PER_S,
    FILE_SIZE,
    LAKE_COLUMNS,
    SCHEMA_VERSION,
    ColumnSpec,
    TableSpec,
    concat,
    encode_text,
    is_object,
)
from ioweather.core.tables.series import COMPONENTS, METRICS, SERIES, Metric, Quality

__all__ = [
    "LAKE_COLUMNS",
    "METRICS",
    "SCHEMA_VERSION",
    "TABLES",
    "Checked",
    "ColumnSpec",
    "Complaints",
    "Metric",
    "Quality",
    "TableSpec",
    "concat",
    "encode_text",
]

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
