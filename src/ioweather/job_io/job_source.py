"""One job, named by its log or by its id: what the needs of shape `log` are.

A log is read where it lies and needs no lake. A job id means all logs of that job in the lake.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from ioweather.core.contracts import PathPolicy
from ioweather.core.errors import UsageError
from ioweather.job_io.heat_map import PAGE, SCREEN
from ioweather.job_io.view import JobView
from ioweather.lake.place import Place

# 4711, or what schedulers show for members of arrays and of heterogeneous jobs: 22_1, 43+0.
JOB_ID: Final = re.compile(r"\d{1,18}([_+]\d{1,9})?")


def find_job(
    target: str, place: Place, values: Mapping[str, Any], period_ns: tuple[int, int], files: bool = True
) -> JobView:
    """The job that `target` names: a file is a log, where `files` may be read; else it is a job id. Accounting of a log
    comes from a lake that was named, or is open."""
    paths: PathPolicy = values.get("paths", "keep")
    path = Path(target)
    if files and path.is_file():
        from ioweather.job_io.job_from_log import view_of_log

        view = view_of_log(path, paths, PAGE if values.get("detail") else SCREEN)
        if place.was_named:
            from ioweather.job_io.job_in_lake import with_accounting

            view = with_accounting(view, place.snapshot)
    elif files and path.is_dir():
        raise UsageError(f"{target} is a directory.", hint="Name one log, or ingest them all and name a job id.")
    elif JOB_ID.fullmatch(target):
        from ioweather.job_io.job_in_lake import Which, view_in

        view = view_in(place.snapshot, target, Which(values.get("uid"), period_ns), paths)
    elif files:
        raise UsageError(f"There is no file {target}, and it is not a job id.")
    else:
        raise UsageError(f"{target!r} is not a job id.", hint="Expected a number, such as 4711 or 22_1.")
    return replace(view, processes_per_node=values.get("processes_per_node"))
