"""`job`: the I/O of one job, from its log or its id, and what to change."""

from __future__ import annotations

from dataclasses import replace

from ioweather.advice.advisor.advise import advise
from ioweather.advice.advisor.words import advised_answer, brief_lines
from ioweather.core.contracts import Param, Params, Question, StudyData
from ioweather.core.facility import Facility
from ioweather.core.outcomes import JobOutcome
from ioweather.core.results import Answer
from ioweather.derive.jobs.server_io import ServerIo
from ioweather.questions.parameters import JOB, LOG, PATHS, PROCESSES_PER_NODE, UID
from ioweather.studies.job.on_servers import server_answer
from ioweather.studies.job.page import page_exhibits
from ioweather.studies.job.summary import job_answer
from ioweather.studies.job.view import JobView


def answer(data: StudyData, facility: Facility, params: Params) -> Answer:
    if isinstance(data.given["job"], ServerIo):
        return server_answer(params["job"], data.of("job", ServerIo))
    view = data.of("job", JobView)
    advised = advise(view)
    found = job_answer(view, lines_beside=brief_lines(advised))
    if params["detail"]:
        found = replace(found, exhibits=tuple(page_exhibits(view)))
    return advised_answer(found, advised, brief=True)


QUESTION = Question(
    name="job",
    result=JobOutcome,
    needs=(replace(LOG, also=(*LOG.also, "job_operations")),),
    answer=answer,
    params=(
        JOB,
        PROCESSES_PER_NODE,
        PATHS,
        UID,
        Param("detail", "All modules, mounts and largest files.", "flag", default=True, shown=False),
    ),
    help="Show the I/O of one job on one screen: time, speed, files, accesses, activity.",
    epilog="""\b
A log is read where it lies: no lake is needed, and nothing is written
beside it. With --lake, accounting gives the nodes. A job id means all
logs of that job in the lake, added up; where there is none, what the
servers counted of it.
Exit codes: 0 shown; 1 the lake has no such job; 2 not a log, or unclear.

\b
Example: ioweather job run.darshan --html run.html
""",
    screen={"detail": False},
    brief={"time": 4, "speed": 2, "files": 2, "accesses": 2, "advice": 3, "one_process_io": 1, "file_per_process": 1},
)
