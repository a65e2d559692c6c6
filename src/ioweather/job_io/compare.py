"""`compare`: runs before and after a change."""

from __future__ import annotations

from ioweather.core.contracts import Need, Param, Params, Question, StudyData
from ioweather.core.errors import UsageError
from ioweather.core.facility import Facility
from ioweather.core.outcomes import CompareOutcome
from ioweather.core.question_parameters import LOG, PATHS, PROCESSES_PER_NODE
from ioweather.core.results import Answer
from ioweather.job_io.run_comparison import comparison


def answer(data: StudyData, facility: Facility, params: Params) -> Answer:
    views = data.of("runs", tuple)
    if len(views) < 2:
        raise UsageError("Name at least two runs to compare, the original first.")
    return comparison([view.row() for view in views], [view.label for view in views])


QUESTION = Question(
    name="compare",
    result=CompareOutcome,
    needs=(Need("runs", LOG.table, shape="log", param="runs", also=LOG.also),),
    answer=answer,
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
