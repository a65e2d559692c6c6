"""One job, named by its log or by its id, described; several of them compared.

A log is read where it lies and needs no lake. A job id means all logs of that job in the lake.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ioweather._version import __version__
from ioweather.advice.advisor.advise import advise
from ioweather.advice.advisor.words import advised_answer, brief_lines
from ioweather.core.clock import now_ns
from ioweather.core.contracts import PathPolicy
from ioweather.core.errors import UsageError
from ioweather.core.results import Answer, Provenance
from ioweather.core.visibility import Owner
from ioweather.studies.job.heat_map import PAGE, SCREEN, Resolution
from ioweather.studies.job.summary import job_answer
from ioweather.studies.job.view import JobView
from ioweather.workflows.job_log import view_of_log

if TYPE_CHECKING:
    from ioweather.store.snapshot import Snapshot

# 4711, or what schedulers show for members of arrays and of heterogeneous jobs: 22_1, 43+0.
_JOB_ID: Final = re.compile(r"\d+([_+]\d+)?")


@dataclass(frozen=True)
class JobRequest:
    """What the person knows and wants. `lake_dir` is opened for job ids, and for logs only where it is given; with an
    `owner`, only for rows that this person may see."""

    lake_dir: str | None = None
    processes_per_node: int | None = None
    paths: PathPolicy = "keep"
    uid: int | None = None
    period_ns: tuple[int, int] = (0, 2**62)
    owner: Owner | None = None


def find_job(
    target: str, request: JobRequest, resolution: Resolution = SCREEN, snapshot: Snapshot | None = None
) -> JobView:
    """The job that `target` names: a file is a log; else it is a job id. `snapshot` is the lake, if it is open."""
    path = Path(target)
    if path.is_file():
        view = view_of_log(path, request.paths, resolution)
        if request.lake_dir is not None:
            from ioweather.workflows.job_lake import with_accounting

            view = with_accounting(view, request.lake_dir, request.owner)
    elif path.is_dir():
        raise UsageError(f"{target} is a directory.", hint="Name one log, or ingest them all and name a job id.")
    elif _JOB_ID.fullmatch(target):
        from ioweather.workflows.job_lake import Which, view_in, view_of_job

        which = Which(request.uid, request.period_ns)
        if snapshot is not None:
            view = view_in(snapshot, target, which, request.paths)
        else:
            view = view_of_job(request.lake_dir, target, which, request.paths, request.owner)
    else:
        raise UsageError(f"There is no file {target}, and it is not a job id.")
    return replace(view, processes_per_node=request.processes_per_node)


def describe_job(target: str, request: JobRequest, *, detail: bool = False) -> Answer:
    """The answer of `ioweather job`; with `detail` all modules, mounts and largest files behind it."""
    view = find_job(target, request, PAGE if detail else SCREEN)
    advised = advise(view)
    answer = job_answer(view, lines_beside=brief_lines(advised))
    if detail:
        from ioweather.studies.job.page import page_exhibits

        answer = replace(answer, exhibits=tuple(page_exhibits(view)))
    answer = advised_answer(answer, advised, brief=True)
    return replace(answer, provenance=_provenance([view], request))


def compare_jobs(targets: Sequence[str], request: JobRequest) -> Answer:
    """The answer of `ioweather compare`; the first target is the original."""
    if len(targets) < 2:
        raise UsageError("Name at least two runs to compare, the original first.")
    from ioweather.studies.job.before_after import comparison

    views = [find_job(target, request) for target in targets]
    answer = comparison([view.row() for view in views], [view.label for view in views])
    return replace(answer, provenance=_provenance(views, request))


def _provenance(views: Sequence[JobView], request: JobRequest) -> Provenance:
    digests = [str(digest) for view in views for digest in view.applications.text("log_digest").tolist()]
    params = {"processes_per_node": request.processes_per_node, "paths": request.paths}
    return Provenance(
        lake=request.lake_dir or "",
        params={name: value for name, value in params.items() if value is not None and value != "keep"},
        input_digest=",".join(digest[:16] for digest in digests),
        software_version=__version__,
        made_ns=now_ns(),
    )
