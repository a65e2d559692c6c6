"""`job_system`: what the system did during a run, from the run's log and the servers' samples."""

from __future__ import annotations

from ioweather.tables.schema import ColumnSpec, TableSpec

# complete; a step with no sample lies in the run; the run reaches beyond the monitored period.
STATES = ("complete", "gap", "outside")

_AMOUNTS = (("read_bytes", "bytes read"), ("write_bytes", "bytes written"),
            ("read_ops_count", "read operations"), ("write_ops_count", "write operations"))  # fmt: skip


def _amount(name: str, doc: str) -> ColumnSpec:
    return ColumnSpec(name, "float64", doc, nullable=True)


JOB_SYSTEM = TableSpec(
    name="job_system",
    doc="What the system did while a run ran (mad17 Eq. 2 to 5), on one grid. Null where samples are missing.",
    columns=(
        ColumnSpec("log_digest", "text", "content digest of the log"),
        ColumnSpec("interval_ns", "int64", "length of a step of the grid"),
        ColumnSpec("start_ns", "int64", "start of the run"),
        ColumnSpec("filesystem", "text", "file system whose servers were sampled"),
        ColumnSpec("state", "text", "complete, gap or outside: whether the whole run was monitored"),
        ColumnSpec("coverage_ratio", "float64", "share of the run's time that was monitored"),
        *(_amount(f"psi_{name}", f"Psi: {what} by all during the run (Eq. 2, 3)") for name, what in _AMOUNTS),
        *(_amount(f"psid_{name}", f"PsiD: {what} by all in steps with the run's I/O (Eq. 4)")
          for name, what in _AMOUNTS),
        *(_amount(f"psii_{name}", f"PsiI: {what} by all in steps with its I/O on monitored mounts")
          for name, what in _AMOUNTS),
        _amount("d_d_seconds", "D_D = m delta: time of the steps with the run's I/O (Eq. 5)"),
        _amount("inside_seconds", "of D_D, the time between the first and the last I/O"),
        ColumnSpec("d_d_steps", "int64", "m: steps with the run's I/O; null = none", nullable=True),
        _amount("d_i_seconds", "D_I: the same for files on monitored mounts"),
        ColumnSpec("d_i_steps", "int64", "steps with I/O on monitored mounts; null = none", nullable=True),
        ColumnSpec("own_read_bytes", "int64", "eta: the run's own bytes read, on monitored mounts where known"),
        ColumnSpec("own_write_bytes", "int64", "eta: the run's own bytes written, on monitored mounts where known"),
        *(_amount(f"others_{verb}_bytes", f"nu: bytes of {verb}s by others during the run, signed")
          for verb in ("read", "write")),
        *(_amount(f"others_io{end}_{verb}_bytes", f"nu in steps with the run's I/O, bytes of {verb}s{words}")
          for verb in ("read", "write")
          for end, words in (("", ", signed"), ("_low", ", if the end steps' traffic fell outside"),
                             ("_high", ", if it fell inside"))),
        ColumnSpec("file_count", "int64", "files with I/O"),
        ColumnSpec("monitored_file_count", "int64", "of these, on monitored mounts; null = not known", nullable=True),
        ColumnSpec("series_version", "int64", "version of `series` it was made from", nullable=True),
    ),
    key=("log_digest", "interval_ns", "filesystem"),
    time="start_ns",
    revisable=True,
    order=("start_ns", "log_digest"),
)  # fmt: skip
