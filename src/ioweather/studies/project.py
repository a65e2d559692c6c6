"""`project`: what one project moved, how its jobs perform, what dominates, what it keeps."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from ioweather.core.contracts import Need, Param, Params, Question
from ioweather.core.outcomes import ProjectOutcome
from ioweather.core.question_parameters import PROCESSES_PER_NODE
from ioweather.core.results import Answer
from ioweather.facts.job_volumes import server_volumes
from ioweather.facts.runs import NEEDS as RUN_NEEDS
from ioweather.studies.project_summary import project_answer
from ioweather.topics.source import DataSource

_NO_LOGS = "The lake has no Darshan logs. Ingest some: ioweather ingest LOGS"
_NEEDS: Final = (
    *RUN_NEEDS,
    Need(
        "sizes",
        "scan_bins",
        columns=("scan_id", "start_ns", "owner", "count", "bytes"),
        where={"owner_kind": "project", "histogram": "size"},
        optional=True,
    ),
)


def run(source: DataSource, params: Params) -> Answer:
    """Volume, jobs, performance and files of one project."""
    data = source.fetch(_NEEDS, missing=_NO_LOGS)
    source.note_tables(("job_operations",))
    counted = server_volumes(source.snapshot, source.period_ns)
    data = replace(data, frames={**data.frames, "counted": counted})
    return project_answer(str(params["name"]), data, source.facility, params)


QUESTION = Question(
    name="project",
    result=ProjectOutcome,
    run=run,
    tables=frozenset({"applications", "job_io", "job_operations", "jobs", "scan_bins"}),
    params=(Param("name", "The project, as accounting names it.", required=True), PROCESSES_PER_NODE),
    help="Show one project: volume, jobs, performance, what dominates its I/O, what it keeps.",
    epilog="Example: ioweather project climate",
)
