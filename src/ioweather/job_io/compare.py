"""`compare`: runs before and after a change."""

from __future__ import annotations

from ioweather.core.contracts import Param, Params, Question
from ioweather.core.errors import UsageError
from ioweather.core.outcomes import CompareOutcome
from ioweather.core.question_parameters import PATHS, PROCESSES_PER_NODE
from ioweather.core.results import Answer
from ioweather.job_io.job_source import LOG_TABLES, find_job, note_log
from ioweather.job_io.run_comparison import comparison
from ioweather.topics.source import DataSource


def run(source: DataSource, params: Params) -> Answer:
    """Compare the runs of the parameter `runs` with the first of them."""
    views = [find_job(source, params, target) for target in params["runs"]]
    for view in views:
        note_log(source, "runs", view)
    if len(views) < 2:
        raise UsageError("Name at least two runs to compare, the original first.")
    return comparison([view.row() for view in views], [view.label for view in views])


QUESTION = Question(
    name="compare",
    result=CompareOutcome,
    run=run,
    tables=LOG_TABLES,
    params=(
        Param(
            "runs",
            "Darshan logs, or ids of jobs in the lake; the original first.",
            required=True,
            many=True,
            metavar="LOG|JOBID...",
        ),
        PROCESSES_PER_NODE,
        PATHS,
    ),
    help="Compare runs before and after a change: how much faster, and what changed in their I/O.",
    epilog="""\b
The first is the original; the others are compared with it. Logs are read
where they lie and need no lake; job ids mean jobs in the lake.

\b
Example: ioweather compare before.darshan after.darshan
""",
    period=False,
    table="runs",
)
