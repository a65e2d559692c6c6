"""One project on one screen, from planted jobs."""

from __future__ import annotations

import pytest
from planted_jobs import accounting, facility, planted

from ioweather.core.errors import DataUnavailable
from ioweather.studies.project import project_answer

JOBS = [
    {"exe": "/bin/earth", "job_id": 1, "read_bytes": 300, "write_bytes": 100, "io_seconds": 2.0},
    {"exe": "/bin/earth", "job_id": 2, "read_bytes": 200, "write_bytes": 0},
    {"exe": "/bin/climate", "job_id": 3, "read_bytes": 0, "write_bytes": 400},
]


def study_data(planted_jobs, **more):
    return {**planted(planted_jobs), **more}


def facts(answer, title):
    return {fact.label: fact.value for group in answer.facts if group.title == title for fact in group.facts}


def test_volume_jobs_and_share():
    answer = project_answer("Earth", study_data(JOBS), facility(), {})
    assert facts(answer, "Volume") == {"read": 500, "written": 100, "of the data of all jobs": 0.6}
    assert facts(answer, "Jobs")["jobs with a log"] == 2
    assert answer.headline.startswith("Earth: 2 jobs read 500 B")
    assert sum(row[2] for row in answer.exhibits[0].charts[0].table.rows) == 600


def test_accounting_adds_coverage_and_nodes():
    data = study_data(JOBS, jobs=accounting([{"raw_job_id": 1, "node_count": 2}, {"raw_job_id": 2, "node_count": 2}]))
    assert facts(project_answer("Earth", data, facility(), {}), "Performance")["median per node"] is not None


def test_an_unknown_name_suggests_others():
    with pytest.raises(DataUnavailable, match="Earth"):
        project_answer("earth", study_data(JOBS), facility(), {})
