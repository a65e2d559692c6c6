"""`benchmarks`: a benchmark's own figures, to check ours against."""

from __future__ import annotations

from ioweather.tables.ranges import BENCHMARK_BYTES_PER_S, BENCHMARK_OPS_PER_S
from ioweather.tables.schema import ColumnSpec, TableSpec

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
        ColumnSpec("parameters", "text", "JSON: tasks, transfer size, block size, command line", nullable=True),
    ),
    key=("digest", "phase"),
    time="start_ns",
    revisable=True,
    # Of an output that was cut and the whole one, whichever came first, the whole one counts.
    revision=("end_ns", "duration_seconds"),
    order=("start_ns",),
)
