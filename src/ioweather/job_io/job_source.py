"""One job, named by its log or by its id.

A log is read in place and needs no lake. A job id means all logs of that job in the lake.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Final

from ioweather.core.contracts import Params, PathPolicy
from ioweather.core.errors import UsageError
from ioweather.job_io.heat_map import PAGE, SCREEN
from ioweather.job_io.view import JobView
from ioweather.topics.source import DataSource

# 4711, or what schedulers show for members of arrays and of heterogeneous jobs: 22_1, 43+0.
JOB_ID: Final = re.compile(r"\d{1,18}([_+]\d{1,9})?")


# What `find_job` may read.
LOG_TABLES: Final = frozenset({"applications", "files", "ingests", "jobs", "series"})


def named_log(source: DataSource, params: Params) -> JobView:
    """The job that the parameter `job` names, found once for all questions that share results."""
    view = source.shared(find_named_log, params)
    note_log(source, "job", view)
    return view


def note_log(source: DataSource, param: str, view: JobView) -> None:
    """Record that the answer is about this job."""
    digests = [str(digest) for digest in view.applications.text("log_digest").tolist()]
    source.note_logs(param, digests, from_file=bool(view.log))


def find_named_log(source: DataSource, params: Params) -> JobView:
    """The job that the parameter `job` names; with heat maps of its logs if the question draws them."""
    view = find_job(source, params, params["job"])
    if view.log is None and source.reads_files and "detail" in params:
        # A server opens no logs for the asking user: the files at those paths may have changed.
        from ioweather.job_io.job_in_lake import with_heat_maps

        return with_heat_maps(view, source.snapshot, PAGE if params["detail"] else SCREEN)
    return view


def find_job(source: DataSource, params: Params, target: str) -> JobView:
    """The job that `target` names: a file is a log, if files may be read; else it is a job id. Accounting of a log
    comes from a lake that was named."""
    place, files = source.place, source.reads_files
    paths: PathPolicy = params.get("paths", "keep")
    path = Path(target)
    if files and path.is_file():
        from ioweather.job_io.job_from_log import view_of_log

        view = view_of_log(path, paths, PAGE if params.get("detail") else SCREEN)
        if place.was_named:
            from ioweather.job_io.job_in_lake import with_accounting

            view = with_accounting(view, place.snapshot)
    elif files and path.is_dir():
        raise UsageError(f"{target} is a directory.", hint="Name one log, or ingest them all and name a job id.")
    elif JOB_ID.fullmatch(target):
        from ioweather.job_io.job_in_lake import Which, view_in

        view = view_in(place.snapshot, target, Which(params.get("uid"), source.period_ns), paths)
    elif files:
        raise UsageError(f"There is no file {target}, and it is not a job id.")
    else:
        raise UsageError(f"{target!r} is not a job id.", hint="Expected a number, such as 4711 or 22_1.")
    return replace(view, processes_per_node=params.get("processes_per_node"))
