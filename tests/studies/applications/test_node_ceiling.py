"""The ceiling of planted jobs."""

from __future__ import annotations

import pytest
from planted_jobs import GIB, MIB, cells, estimate, exhibits, facility, planted


def job(nodes: int, rate: float, mount: str = "/scratch") -> dict[str, object]:
    return {"nprocs": 4 * nodes, "read": 10 * GIB, "io": 10 * GIB / MIB / rate / nodes, "main_mount": mount}


SITE = facility(
    node_limit_bytes_per_s=10 * MIB,
    filesystem={
        "scratch": {"mounts": ["/scratch"], "peak_bytes_per_s": 1000 * MIB},
        "home": {"mounts": ["/home"], "peak_bytes_per_s": 100 * MIB},
    },
)


def test_ceiling_is_the_lower_of_link_and_share_of_the_file_system() -> None:
    made = exhibits(
        "node_ceiling", planted([job(10, 9.0), job(1000, 0.5), job(1000, 2.0), job(100, 5.0, "/home")]), SITE
    )
    exhibit = made["car11.ceiling"]
    rows = {row["nodes"]: row for row in cells(exhibit, "ceiling_by_size")}
    assert rows[10]["ceiling"] == pytest.approx(10.0)
    assert rows[1000]["ceiling"] == pytest.approx(1.0)
    assert rows[100]["ceiling"] == pytest.approx(1.0)  # the peak of /home
    assert (rows[1000]["above"], rows[100]["above"], rows[10]["above"]) == (1, 1, 0)
    assert estimate(exhibit, "outlier_jobs").value == 2
    assert len(cells(exhibit, "above")) == 2
    assert {row[2] for row in exhibit.charts[0].table.rows} == {"job", "above the ceiling", "ceiling"}


def test_without_limits_it_is_undecided() -> None:
    exhibit = exhibits("node_ceiling", planted([job(10, 9.0)]))["car11.ceiling"]
    assert exhibit.findings[0].kind == "undecided"
    assert estimate(exhibit, "outlier_jobs").value is None
    assert any("node_limit_bytes_per_s" in caveat for caveat in exhibit.caveats)
