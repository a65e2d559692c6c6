"""Many logs of one job as one run: processes without MPI write a log each, and know nothing of each other.

Deep learning and workflows run so: data loaders, tasks of a task farm. Each log alone shows little; together they read
the same files again and again, in small pieces. Here each log becomes a process of one run. Darshan's id of a file is a
hash of its path, so that files that several opened are the same file.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from ioweather.core.frames import Frame
from ioweather.core.run_outcomes import AllRuns
from ioweather.derive.jobs.file_records import rows_of
from ioweather.derive.jobs.job_io import job_io
from ioweather.studies.job.view import JobView, overlapping
from ioweather.tables import encode_text

# Two processes that overlap are a pipe; from here on it is a pattern.
FEWEST_LOGS: Final = 4


def are_one_run(runs: Frame) -> bool:
    """Several logs of single processes that went on at the same time."""
    return runs.rows >= FEWEST_LOGS and bool((runs.ints("nprocs") == 1).all()) and overlapping(runs)


def main_run_of(view: JobView) -> JobView:
    """The run that a job with several runs is judged by: the one with the most I/O time, as a job of its own. Processes
    without MPI are one run together, so their view stays whole."""
    if view.logs == 1 or are_one_run(view.applications):
        return view
    row = view.main_run
    digest = str(view.applications.text("log_digest").tolist()[row])
    seconds, read, write = (view.job_io.floats(name) for name in ("io_seconds", "read_bytes", "write_bytes"))
    return replace(
        view, applications=view.applications.take([row]), job_io=view.job_io.take([row]),
        files=view.files.take(view.files.text("log_digest").equals(digest)),
        run_number=row + 1, of_job=AllRuns(view.logs, float(np.nansum(seconds)), int(read.sum()), int(write.sum())),
    )  # fmt: skip


def as_one_run(view: JobView) -> JobView:
    """The view with one row of `applications` and `job_io`, and a rank for each log; itself where that is not so."""
    if not are_one_run(view.applications):
        return view
    logs = view.applications
    rank = rows_of(logs.text("log_digest"), view.files.text("log_digest"))
    mine = rank >= 0
    start = logs.ints("start_ns")
    first = int(start.argmin())
    digest = str(logs.text("log_digest").tolist()[first])
    partial = {name for text in logs.text("partial_modules").tolist() for name in (text or "").split(",") if name}
    one = logs.take([first]).with_columns(
        nprocs=np.array([view.logs], np.int64),
        end_ns=np.array([int(logs.ints("end_ns").max())], np.int64),
        partial_modules=encode_text([",".join(sorted(partial))]),
    )
    files: Frame = view.files.take(mine)
    files = files.with_columns(
        log_digest=encode_text([digest] * files.rows),
        start_ns=np.full(files.rows, int(start.min()), np.int64),
        rank=rank[mine],
    )
    return replace(view, applications=one, files=files, job_io=job_io(one, files), separate=True)
