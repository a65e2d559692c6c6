"""MiB/s/CN of planted projects, by project, job and size."""

from __future__ import annotations

import pytest
from planted_jobs import GIB, MIB, accounting, cells, estimate, exhibits, facility, planted, words

from ioweather.core.errors import UsageError
from ioweather.studies.car11.projects import key_access
from judging import stands


def combustion(nodes: int, rate: float, **more: object) -> dict[str, object]:
    """A job of 10 GiB on `nodes` nodes of 4 processes that reaches `rate` MiB/s/CN."""
    return {"exe": "/bin/combustion", "nprocs": 4 * nodes, "written": 10 * GIB,
            "io": 10 * GIB / MIB / rate / nodes, **more}  # fmt: skip


def test_boxes_have_the_quartiles() -> None:
    frames = planted([combustion(256, rate) for rate in (1.0, 2.0, 3.0, 4.0, 5.0)])
    made = exhibits("project_performance", frames)["car11.fig10"]
    row = cells(made)[0]
    assert [row[name] for name in ("min", "q25", "q50", "q75", "max")] == pytest.approx([1, 2, 3, 4, 5])
    assert estimate(made, "interquartile_range[Combustion]").value == pytest.approx(2.0)
    assert estimate(made, "median[Combustion]").n == 5


def test_nodes_come_from_accounting_first() -> None:
    frames = planted([combustion(256, 1.0, job_id=9)])
    made = exhibits("project_performance", {**frames, "jobs": accounting([{"raw_job_id": 9, "node_count": 512}])})
    assert cells(made["car11.fig10"])[0]["q50"] == pytest.approx(0.5)


def test_table_6_of_a_strongly_scaling_project() -> None:
    sizes = {
        1024: [3.0, 3.0, 3.0],
        2048: [1.3, 1.3, 1.3],
        4096: [0.36, 0.36],
        8192: [0.08],
        16384: [0.03],
        32768: [0.01],
    }
    frames = planted([combustion(nodes, rate) for nodes, rates in sizes.items() for rate in rates])
    made = exhibits("project_performance", frames)["car11.table6"]
    assert [(row["nodes"], row["jobs"]) for row in cells(made)] == [(n, len(r)) for n, r in sizes.items()]
    assert [row["per_node"] for row in cells(made)] == pytest.approx([r[0] for r in sizes.values()])
    assert estimate(made, "per_node[4096]").value == pytest.approx(0.36)
    assert "scales strongly" in words(made)
    assert stands(made, "slower_per_node") == "supported"


def test_table_5_goes_from_the_fastest_to_the_slowest() -> None:
    frames = planted([combustion(256, float(rate), metadata_ratio=0.5) for rate in range(1, 12)])
    made = exhibits("project_performance", frames)["car11.table5"]
    assert [row["per_node"] for row in cells(made)] == pytest.approx([11, 9, 7, 5, 3, 1])
    assert [row["job"] for row in cells(made)] == list("ABCDEF")
    assert estimate(made, "fastest_over_slowest").value == pytest.approx(11)


def test_the_project_asked_for_is_shown_and_an_unknown_one_refused() -> None:
    frames = planted([combustion(256, 1.0), {"exe": "/bin/earth", "read": GIB, "io": 1.0}])
    assert exhibits("project_performance", frames, project="Earth")["car11.table5"].title.endswith("Earth")
    with pytest.raises(UsageError, match="Combustion, Earth"):
        exhibits("project_performance", frames, project="Nobody")


def test_without_nodes_the_exhibits_say_so() -> None:
    made = exhibits("project_performance", planted([combustion(256, 1.0)]), processes_per_node=None)
    assert all(exhibit.findings[0].kind == "undecided" for exhibit in made.values())


def test_one_job_cannot_be_compared() -> None:
    made = exhibits("project_performance", planted([combustion(256, 1.0)]))["car11.table5"]
    assert "nothing to compare" in words(made)
    assert estimate(made, "fastest_over_slowest").value is None


def test_outliers_are_not_in_the_boxes() -> None:
    frames = planted([combustion(256, 1.0), combustion(256, 500.0)])
    made = exhibits("project_performance", frames, facility(node_limit_bytes_per_s=10 * MIB))["car11.fig10"]
    assert cells(made)[0]["jobs"] == 1


@pytest.mark.parametrize(
    ("size", "counts", "text"),
    [
        (4, {"read_0_100_count": 9}, "4 B (r)"),
        (20, {"write_0_100_count": 9}, "20 B (w)"),
        (700, {"read_100_1k_count": 5, "write_100_1k_count": 5}, "700 B (r+w)"),
        (74 << 10, {}, "74 KiB"),
        (None, {}, "–"),
    ],
)
def test_key_access(size: int | None, counts: dict[str, int], text: str) -> None:
    row = planted([{"common_access_bytes": size, **counts}])["job_io"].records()[0]
    assert key_access(row) == text
