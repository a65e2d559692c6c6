"""Volumes, access sizes and characteristics of planted projects."""

from __future__ import annotations

import pytest
from planted_jobs import GIB, MIB, PARAMS, cells, estimate, exhibits, facility, planted

from ioweather.core.contracts import StudyData
from ioweather.studies.car11.projects import IO as STUDY
from judging import stands


def earth(**more: object) -> dict[str, object]:
    return {"exe": "/bin/earth -x", "read": 90 * GIB, "written": 10 * GIB, "io": 100.0, **more}


def test_largest_projects() -> None:
    frames = planted([earth(), earth(), {"exe": "/bin/climate", "written": GIB, "io": 10.0}])
    made = exhibits("project_io", frames)["car11.fig4"]
    rows = cells(made)
    assert [(row["project"], row["jobs"]) for row in rows] == [("Earth", 2), ("Climate", 1)]
    assert rows[0]["moved"] == 200 * GIB
    assert estimate(made, "moved[Earth]").value == 200 * GIB
    assert estimate(made, "projects_reading_more").value == 1
    assert estimate(made, "projects_reading_more").value == 1
    assert stands(made, "projects_read_more") == "undecided"  # of two


def test_at_most_ten_projects() -> None:
    frames = planted([{"uid": 100 + i, "read": i + 1, "io": 1.0} for i in range(12)])
    rows = cells(exhibits("project_io", frames)["car11.fig4"])
    assert len(rows) == 10
    assert rows[0]["project"] == "uid 111"


def test_access_sizes_are_means_over_jobs_not_pooled() -> None:
    frames = planted([earth(read_0_100_count=1000), earth(read_1m_4m_count=1, write_4m_10m_count=3)])
    made = exhibits("project_io", frames)["car11.fig9"]
    small = cells(made, direction="read", size="0-100")[0]
    assert (small["share"], small["jobs"]) == (0.5, 2)
    assert small["pooled"] == pytest.approx(1000 / 1001)
    assert cells(made, direction="write", size="4M-10M")[0]["share"] == 1.0


def test_characteristics_are_means_of_jobs() -> None:
    frames = planted(
        [
            earth(nprocs=400, files=400, create_count=100, meta_seconds=9.0, read_seconds=1.0, fs_read_count=10,
                  sequential_count=10, alignment_tested_count=10, not_aligned_count=10),
            earth(nprocs=100, files=300, create_count=75, meta_seconds=1.0, read_seconds=9.0, fs_read_count=10,
                  sequential_count=5),
        ]
    )  # fmt: skip
    made = exhibits("project_io", frames)["car11.table4"]
    row = cells(made)[0]
    rate = 100 * GIB / MIB / 100.0
    assert row["per_node"] == pytest.approx((rate / 100 + rate / 25) / 2)  # 4 processes on a node
    assert row["metadata_ratio"] == pytest.approx(0.5)
    assert row["files_per_process"] == pytest.approx(2.0)
    assert row["creates_per_process"] == pytest.approx(0.5)
    assert (row["sequential_ratio"], row["aligned_ratio"]) == (0.75, 0.0)
    assert row["moved_per_process"] == pytest.approx((100 * GIB / 400 + 100 * GIB / 100) / 2)


def test_jobs_above_the_ceiling_are_flagged_and_not_averaged_in() -> None:
    site = facility(node_limit_bytes_per_s=100 * MIB)
    frames = planted([earth(), earth(io=0.001)])
    made = exhibits("project_io", frames, site)["car11.table4"]
    assert cells(made)[0]["jobs"] == 1
    assert any("1 jobs are above" in caveat for caveat in made.caveats)
    assert any(c.excluded == {"above the ceiling": 1} for c in made.coverage)


def test_small_jobs_are_left_out_and_counted() -> None:
    frames = planted([earth(), earth(nprocs=8), earth(read=0, written=MIB)])
    made = exhibits("project_io", frames, min_processes=1024, min_bytes=500 * MIB)["car11.table4"]
    assert cells(made)[0]["jobs"] == 1
    assert any(
        c.excluded == {"fewer than 1,024 processes": 1, "less than 500 MiB": 1} and c.present == 1
        for c in made.coverage
    )


def test_unknown_nodes_stay_unknown() -> None:
    made = exhibits("project_io", planted([earth()]), processes_per_node=None)["car11.table4"]
    assert cells(made)[0]["per_node"] is None
    assert any(c.excluded == {"nodes not known": 1} for c in made.coverage)


def test_a_run_with_no_bytes_at_all_gives_nothing() -> None:
    assert list(STUDY.run(StudyData(frames=planted([{"files": 1}])), facility(), PARAMS)) == []
