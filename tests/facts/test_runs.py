"""Which jobs a study is about, on how many nodes, and of which project."""

from __future__ import annotations

from typing import Any

import duckdb
import pytest
from planted_jobs import GIB, MIB, PARAMS, accounting, facility, planted

from ioweather.core.frames import Frame
from ioweather.facts.runs import LARGE_BYTES, MIN_SIZES, instances_of, jobs_of, large
from ioweather.topics.source import resolve_params


def data(runs: list[dict[str, Any]], **frames: Frame) -> dict[str, Frame]:
    return {**planted(runs), **frames}


def test_nodes_by_the_best_that_is_known() -> None:
    job = {"nprocs": 10, "job_id": 5, "hosts": 3, "read": MIB, "io": 1.0}
    alone, site = data([job]), facility(node_cores=5)

    def nodes(source: dict[str, Frame], **params: Any) -> tuple[Any, Any]:
        row = instances_of(source, params.pop("site", facility()), PARAMS | params).frame.records()[0]
        return row["node_count"], row["node_source"]

    scheduled = data([job], jobs=accounting([{"raw_job_id": 5, "node_count": 7}]))
    assert nodes(scheduled, processes_per_node=4) == (7, "accounting")
    assert nodes(alone, processes_per_node=4) == (3, "processes_per_node")
    assert nodes(alone, processes_per_node=None, site=site) == (2, "cores per node")
    assert nodes(alone, processes_per_node=None) == (3, "hosts in traces")
    assert nodes(data([job | {"hosts": None}]), processes_per_node=None) == (None, None)


def test_projects_follow_the_facility_file_then_the_account_then_the_user() -> None:
    jobs = [{"exe": "/bin/earth -v"}, {"job_id": 9}, {"uid": 8, "job_id": 77}]
    source = data(jobs, jobs=accounting([{"raw_job_id": 9, "account": "m1"}]))
    assert instances_of(source, facility(), PARAMS).projects.tolist() == ["Earth", "m1", "uid 8"]


def test_the_filter_of_the_paper() -> None:
    runs = jobs_of(
        data([{"nprocs": 2048, "read": GIB}, {"nprocs": 8, "read": GIB}, {"nprocs": 2048}]), facility(), PARAMS
    )
    kept = large(runs, PARAMS | {"min_processes": 1024, "min_bytes": LARGE_BYTES})
    assert kept.rows == 1
    assert kept.caveats == ()
    assert any("the paper shows" in note for note in large(runs, PARAMS).caveats)


@pytest.mark.parametrize(
    ("jobs", "typed", "expected"),
    [
        ([(2048, GIB)], {}, (LARGE_BYTES, 1024)),
        ([(2048, 8), (4, GIB)], {}, (LARGE_BYTES, 1)),
        ([(2048, 8), (4, GIB)], {"min_bytes": "1"}, (1, 1024)),
        ([(4, 8)], {}, (1, 1)),
        ([], {}, (1, 1)),
    ],
)
def test_small_sites_see_their_jobs_too(
    jobs: list[tuple[int, int]], typed: dict[str, str], expected: tuple[int, int]
) -> None:
    con = duckdb.connect()
    con.execute("CREATE TABLE job_io (nprocs BIGINT, read_bytes BIGINT, write_bytes BIGINT)")
    for job in jobs:
        con.execute("INSERT INTO job_io VALUES (?, ?, 0)", job)

    class Inventory:
        def scalar(self, sql: str) -> Any:
            return con.sql(sql).fetchall()[0][0]

    values = resolve_params(MIN_SIZES, typed, lambda: Inventory(), lambda: "UTC")  # type: ignore[arg-type, return-value]
    assert tuple(values.values()) == expected
