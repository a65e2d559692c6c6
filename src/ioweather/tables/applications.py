"""`applications`, `files`, `job_io`: what Darshan logs say of application runs."""

from __future__ import annotations

from ioweather.tables.schema import ColumnSpec, TableSpec

APPLICATIONS = TableSpec(
    name="applications",
    doc="One row per Darshan log: one instance of an application.",
    columns=(
        ColumnSpec("log_digest", "text", "content digest of the log"),
        ColumnSpec("job_id", "int64", "job id in the log: Slurm's JobIDRaw, or a pid outside a scheduler"),
        ColumnSpec("uid", "int64", "user id"),
        ColumnSpec("exe", "text", "command line", nullable=True),
        ColumnSpec("nprocs", "int64", "processes"),
        ColumnSpec("start_ns", "int64", "start of the run"),
        ColumnSpec("end_ns", "int64", "end of the run"),
        ColumnSpec("log_version", "text", "Darshan log version"),
        ColumnSpec("partial_modules", "text", "comma-separated modules with partial data; '' = complete"),
        ColumnSpec("mounts", "text", "JSON: mount point to file system type", nullable=True),
        ColumnSpec("modules", "text", "comma-separated modules present"),
        ColumnSpec("hosts", "int64", "distinct host names in DXT, where recorded", nullable=True),
    ),
    key=("log_digest",),
    time="start_ns",
    order=("start_ns", "log_digest"),
)

FILES = TableSpec(
    name="files",
    doc="One row per file record of a log's POSIX, MPI-IO and STDIO modules.",
    columns=(
        ColumnSpec("log_digest", "text", "content digest of the log"),
        ColumnSpec("start_ns", "int64", "start of the run"),
    ),
    key=("log_digest",),
    time="start_ns",
    order=("log_digest",),
)

JOB_IO = TableSpec(
    name="job_io",
    doc="Job I/O metrics that one log alone yields (METHODS section 1).",
    columns=(
        ColumnSpec("log_digest", "text", "content digest of the log"),
        ColumnSpec("start_ns", "int64", "start of the run"),
    ),
    key=("log_digest",),
    time="start_ns",
    order=("log_digest",),
)
