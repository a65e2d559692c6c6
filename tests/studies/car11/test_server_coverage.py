"""What servers counted beside what logs say: by project, with and without a log, each job once."""

from __future__ import annotations

from typing import Any

import numpy as np
from planted_jobs import NS, T, accounting, facility, planted

from ioweather.core.frames import Frame
from ioweather.core.tables import encode_text
from ioweather.studies.car11.instrumentation import instrumented
from ioweather.studies.project import ProjectOutcome, project_answer

DAY = 86400 * NS
JOBS = [
    {"exe": "/bin/earth", "job_id": 1, "uid": 7, "read_bytes": 300, "write_bytes": 100},
    {"exe": "/bin/earth", "job_id": 9, "uid": 7, "start_ns": T + 30 * DAY, "write_bytes": 7000},
]


def counted(*rows: tuple[int | None, int | None, int, int]) -> Frame:
    """(job id, user id, start, bytes written); each took 100 s."""
    ids, uids, starts, moved = zip(*rows, strict=True)

    def numbers(values: tuple[int | None, ...]) -> Any:
        return np.ma.MaskedArray([v or 0 for v in values], mask=[v is None for v in values])

    return Frame({
        "job_key": encode_text([str(i) for i in ids]), "job_id": numbers(ids), "uid": numbers(uids),
        "cluster": encode_text([None] * len(rows)), "exe": encode_text([None] * len(rows)),
        "start_ns": np.array(starts), "end_ns": np.array(starts) + 100 * NS,
        "read_bytes": np.zeros(len(rows), np.int64), "write_bytes": np.array(moved),
    })  # fmt: skip


def data(*rows: tuple[int | None, int | None, int, int]) -> dict[str, Frame]:
    jobs = accounting([
        {"raw_job_id": 1, "uid": 7, "account": "Earth", "start_ns": T, "end_ns": T + 200 * NS},
        {"raw_job_id": 2, "uid": 8, "account": "Earth", "start_ns": T, "end_ns": T + 200 * NS},
        {"raw_job_id": 3, "uid": 8, "account": "Fire", "start_ns": T, "end_ns": T + 200 * NS},
    ])  # fmt: skip
    return {**planted(JOBS), "jobs": jobs, "counted": counted(*rows)}


# Job 1 has a log; 2 is of the same project without one; 3 of another; the last is work without a job. Of 9 the servers
# counted another job of that id, a month before the one with the log.
ROWS = ((1, None, T, 600), (2, None, T, 200), (3, 8, T, 50), (9, 6, T, 10), (None, 0, T, 10**9))


def test_a_project_by_its_servers_and_by_its_logs() -> None:
    answer = project_answer("Earth", data(*ROWS), facility(), {})
    (group,) = [group for group in answer.facts if group.name == "servers"]
    facts = {fact.name: fact.value for fact in group.facts}
    assert facts == {"server_bytes": 800, "server_bytes_with_log_ratio": 0.75, "log_bytes": 400, "jobs_without_log": 1}
    assert isinstance(answer.result, ProjectOutcome)
    assert (answer.result.server_bytes, answer.result.server_bytes_with_log_ratio) == (800, 0.75)


def test_all_projects_beside_the_paper_s_table() -> None:
    (exhibit,) = instrumented(data(*ROWS), facility())
    (table,) = [table for table in exhibit.tables if table.name == "servers"]
    assert table.rows == (
        ("Earth", 2, 1, 800, 600, 0.75, 400), ("Fire", 1, 0, 50, 0, 0.0, 0), ("uid 6", 1, 0, 10, 0, 0.0, 0),
    )  # fmt: skip
    (said,) = [finding.text for finding in exhibit.findings if finding.name == "server_bytes_with_logs"]
    assert "Jobs with a log moved 70%" in said
