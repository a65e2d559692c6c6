"""Volumes, performance and signatures of planted projects."""

from __future__ import annotations

import pytest
from planted_jobs import GIB, MIB, cells, estimate, exhibits, facility, planted, words

from ioweather.core.errors import UsageError
from ioweather.studies.car11.projects import key_access
from judging import stands


def earth(**more: object) -> dict[str, object]:
    return {"exe": "/bin/earth -x", "read": 90 * GIB, "written": 10 * GIB, "io": 100.0, **more}


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
    assert any("1 jobs exceed" in caveat for caveat in made.caveats)
    assert any(c.excluded == {"above the ceiling": 1} for c in made.coverage)


def combustion(nodes: int, rate: float, **more: object) -> dict[str, object]:
    """A job of 10 GiB on `nodes` nodes of 4 processes that reaches `rate` MiB/s/CN."""
    return {"exe": "/bin/combustion", "nprocs": 4 * nodes, "written": 10 * GIB,
            "io": 10 * GIB / MIB / rate / nodes, **more}  # fmt: skip


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
    assert stands(made, "slower_per_node") == "supported"


def test_the_project_asked_for_is_shown_and_an_unknown_one_refused() -> None:
    frames = planted([combustion(256, 1.0), {"exe": "/bin/earth", "read": GIB, "io": 1.0}])
    assert exhibits("project_performance", frames, project="Earth")["car11.table5"].title.endswith("Earth")
    with pytest.raises(UsageError, match="Combustion, Earth"):
        exhibits("project_performance", frames, project="Nobody")


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


def test_earthscience_identical_jobs_of_repeated_instances_with_many_files() -> None:
    run = {"exe": "/bin/earth", "nprocs": 4096, "files": 57_000, "unique_file_count": 57_000, "read": 86 * GIB,
           "written": GIB, "write_only_file_count": 10, "meta_seconds": 95.0, "read_seconds": 5.0, "io": 20.0,
           "create_count": 40_000}  # fmt: skip
    frames = planted([run | {"job_id": job} for job in range(10) for _ in range(3)])
    made = exhibits("project_signatures", frames)["car11.projects"]
    assert estimate(made, "identical_jobs[Earth]").value == 10
    assert estimate(made, "instances_per_job[Earth]").value == 3
    assert estimate(made, "files_per_instance[Earth]").value == 57_000
    assert estimate(made, "read_over_written[Earth]").value == pytest.approx(86)
    assert estimate(made, "file_size_mean[Earth]").value == pytest.approx(GIB / 10)
    text = words(made)
    assert "95% of the I/O time of all processes is metadata" in text
    assert "dominated by 10 nearly identical jobs" in text
    assert "up to 3 instances" in text
    assert "files per process" in text


def test_nuclear_physics_own_aggregation_and_rank_0() -> None:
    aggregating = {"exe": "/bin/nuclear", "nprocs": 4096, "io_rank_count": 512, "read": 1000 * GIB, "io": 50.0,
                   "read_seconds": 9.0}  # fmt: skip
    made = exhibits("project_signatures", planted([aggregating] * 3))["car11.projects"]
    assert "typically, 512 of 4,096 processes do all I/O" in words(made)
    rank0 = {"exe": "/bin/nuclear", "nprocs": 4096, "io_rank_count": 1, "rank0_bytes": 4 * GIB, "read": 4 * GIB,
             "io": 0.5, "read_seconds": 0.5}  # fmt: skip
    made = exhibits("project_signatures", planted([rank0] * 3))["car11.projects"]
    assert "one process does all I/O in 100%" in words(made)
    assert "less than 1% of the run" in words(made)
    assert estimate(made, "rank0_jobs_ratio[Nuclear]").value == 1.0


def test_climate_seeks_with_every_operation_in_small_requests() -> None:
    job = {"exe": "/bin/climate", "written": GIB, "write_count": 16_384, "fs_write_count": 16_384, "seek_count": 16_384,
           "io": 10.0}  # fmt: skip
    made = exhibits("project_signatures", planted([job]))["car11.projects"]
    assert "seeks with every read or write" in words(made)
    assert estimate(made, "write_size[Climate]").value == 64 << 10
    assert estimate(made, "seeks_per_operation[Climate]").value == 1.0
    assert "64 KiB" in words(made)


def test_combustion_scales_strongly() -> None:
    jobs = [{"exe": "/bin/combustion", "nprocs": n, "written": 10 * GIB + n, "io": 5.0} for n in (1024, 4096, 16384)]
    made = exhibits("project_signatures", planted(jobs))["car11.projects"]
    assert "scales strongly: from 1,024 to 16,384 processes" in words(made)


def test_nuclear_physics_two_applications_of_one_project() -> None:
    """car11 V.B: one reads, the other writes, a third moves next to nothing."""
    reading = {"exe": "/bin/nuclear_reader in", "read": 60 * GIB, "io": 30.0, "read_seconds": 30.0}
    writing = {"exe": "/bin/nuclear_writer out", "written": 40 * GIB, "io": 20.0, "write_seconds": 20.0}
    little = {"exe": "/bin/nuclear_helper", "read": GIB, "io": 1.0, "read_seconds": 1.0}
    made = exhibits("project_signatures", planted([reading, writing, writing, little]))["car11.projects"]
    (finding,) = [f for f in made.findings if "several different applications" in f.text]
    assert "writer" in finding.text
    assert "reader" in finding.text
    assert "helper" not in finding.text
    alone = exhibits("project_signatures", planted([reading, reading]))["car11.projects"]
    assert not [f for f in alone.findings if "several different applications" in f.text]


def of_sizes(program: str, sizes: dict[int, list[float]]) -> list[dict[str, object]]:
    """Jobs of a program: seconds of I/O by number of nodes, four processes on each, a GiB per node."""
    return [
        {"exe": f"/bin/{program}", "uid": 7, "nprocs": 4 * nodes, "written": nodes * GIB, "io": seconds}
        for nodes, times in sizes.items() for seconds in times
    ]  # fmt: skip


def test_programs_of_different_sizes_do_not_compare() -> None:
    """A fast program on few nodes and a slow one on many: nothing falls with the number of nodes."""
    fast, slow = ({nodes: [t * (1 + i / 50) for i in range(10)]} for nodes, t in ((512, 10.0), (2048, 90.0)))
    made = exhibits("project_performance", planted([*of_sizes("fast", fast), *of_sizes("slow", slow)]))["car11.table6"]
    assert stands(made, "slower_per_node") == "untestable"
    assert "different programs cannot be compared" in words(made)


def test_a_program_that_slows_with_its_size_is_seen() -> None:
    falls = {nodes: [10.0 * nodes / 256 * (1 + i / 50) for i in range(8)] for nodes in (256, 512, 1024)}
    made = exhibits("project_performance", planted(of_sizes("one", falls)))["car11.table6"]
    assert stands(made, "slower_per_node") == "supported"
    assert estimate(made, "size_trend").n == 24
