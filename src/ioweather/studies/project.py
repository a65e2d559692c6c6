"""`project`: what one project moved, how its jobs perform, what dominates, what it keeps."""

from __future__ import annotations

from dataclasses import replace

from ioweather.core.contracts import Need, Param, Params, Question, StudyData
from ioweather.core.facility import Facility
from ioweather.core.outcomes import ProjectOutcome
from ioweather.core.question_parameters import PROCESSES_PER_NODE
from ioweather.core.results import Answer
from ioweather.facts.runs import NEEDS as RUN_NEEDS
from ioweather.studies.car11.instrumentation import COUNTED
from ioweather.studies.project_summary import project_answer

_NO_LOGS = "The lake has no Darshan logs. Ingest some: ioweather ingest LOGS"


def answer(data: StudyData, facility: Facility, params: Params) -> Answer:
    return project_answer(str(params["name"]), data, facility, params)


QUESTION = Question(
    name="project",
    result=ProjectOutcome,
    needs=(
        *(replace(need, missing=_NO_LOGS) for need in RUN_NEEDS),
        Need(
            "sizes",
            "scan_bins",
            columns=("scan_id", "start_ns", "owner", "count", "bytes"),
            where={"owner_kind": "project", "histogram": "size"},
            optional=True,
        ),
        COUNTED,
    ),
    answer=answer,
    params=(Param("name", "The project, as accounting names it.", required=True), PROCESSES_PER_NODE),
    help="Show one project: volume, jobs, performance, what dominates its I/O, what it keeps.",
    epilog="Example: ioweather project climate",
)
