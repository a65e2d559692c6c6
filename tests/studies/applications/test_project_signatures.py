"""Signatures of planted projects, in the paper's own cases."""

from __future__ import annotations

import pytest
from planted_jobs import GIB, cells, estimate, exhibits, planted, words


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
    assert "typically 512 of 4,096 processes do all the I/O" in words(made)
    rank0 = {"exe": "/bin/nuclear", "nprocs": 4096, "io_rank_count": 1, "rank0_bytes": 4 * GIB, "read": 4 * GIB,
             "io": 0.5, "read_seconds": 0.5}  # fmt: skip
    made = exhibits("project_signatures", planted([rank0] * 3))["car11.projects"]
    assert "one process does all the I/O in 100%" in words(made)
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


def test_jobs_without_files_are_counted_though_they_are_not_large() -> None:
    frames = planted([{"exe": "/bin/earth", "read": GIB, "io": 1.0, "files": 1}, {"exe": "/bin/earth"}])
    made = exhibits("project_signatures", frames)["car11.projects"]
    assert "50% of all its jobs access no file" in words(made)
    assert cells(made, "signatures", signature="zero files")[0]["share"] == 0.5


def test_no_large_job_no_exhibit() -> None:
    assert exhibits("project_signatures", planted([{"read": 5, "io": 1.0}]), min_bytes=GIB) == {}


def test_nuclear_physics_two_applications_of_one_project() -> None:
    """car11 V.B: one reads, the other writes, a third moves next to nothing."""
    reading = {"exe": "/bin/nuclear_reader in", "read": 60 * GIB, "io": 30.0, "read_seconds": 30.0}
    writing = {"exe": "/bin/nuclear_writer out", "written": 40 * GIB, "io": 20.0, "write_seconds": 20.0}
    little = {"exe": "/bin/nuclear_helper", "read": GIB, "io": 1.0, "read_seconds": 1.0}
    made = exhibits("project_signatures", planted([reading, writing, writing, little]))["car11.projects"]
    (table,) = [table for table in made.tables if table.name == "applications"]
    rows = [dict(zip((c.name for c in table.columns), row, strict=True)) for row in table.rows]
    assert [(row["program"], row["jobs"], row["dominant"]) for row in rows] == [
        ("nuclear_writer", 2, "writing"), ("nuclear_reader", 1, "reading"), ("nuclear_helper", 1, "reading"),
    ]  # fmt: skip
    assert sum(row["share"] for row in rows) == pytest.approx(1.0)
    (finding,) = [f for f in made.findings if "several applications" in f.text]
    assert "writer" in finding.text
    assert "reader" in finding.text
    assert "helper" not in finding.text
    alone = exhibits("project_signatures", planted([reading, reading]))["car11.projects"]
    assert not [f for f in alone.findings if "several applications" in f.text]
