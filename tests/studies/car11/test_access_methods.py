"""Interfaces, strategies and files of planted jobs."""

from __future__ import annotations

import numpy as np
from planted_jobs import cells, estimate, exhibits, planted, words

from ioweather.studies.car11.access_methods import category_of


def test_interfaces_are_sets_and_bytes_count_once() -> None:
    frames = planted(
        [
            {"nprocs": 512, "interfaces": "MPI-IO,POSIX", "read": 100, "mpiio_read_bytes": 75, "posix_read_bytes": 25},
            {"nprocs": 512, "interfaces": "POSIX", "read": 100, "posix_read_bytes": 100},
            {"nprocs": 4096, "interfaces": "MPI-IO", "written": 50, "mpiio_write_bytes": 50},
            {"nprocs": 4096, "interfaces": ""},
        ]
    )
    made = exhibits("access_methods", frames)["car11.fig2"]
    small = cells(made, size="256 to 1,023", interface="POSIX")[0]
    assert (small["jobs"], small["using"], small["using_ratio"], small["read_ratio"]) == (2, 2, 1.0, 0.625)
    large = cells(made, size="4,096 to 8,191", interface="MPI-IO")[0]
    assert (large["using_ratio"], large["read_ratio"], large["write_ratio"]) == (0.5, None, 1.0)
    assert estimate(made, "jobs_ratio[POSIX]").value == 0.5
    assert estimate(made, "bytes_ratio[POSIX]").value == 0.5
    assert sum(row["read_bytes"] for row in cells(made)) == 200


def test_strategies_and_the_size_from_which_shared_files_predominate() -> None:
    unique = {"unique_file_count": 9, "unique_read_bytes": 10, "read": 10}
    shared = {"shared_file_count": 1, "shared_read_bytes": 10, "read": 10}
    partial = {"partially_shared_file_count": 1, "partially_shared_write_bytes": 90, "written": 90}
    sizes = [
        ({"nprocs": 100}, unique),
        ({"nprocs": 2000}, shared),
        ({"nprocs": 5000}, unique),
        ({"nprocs": 20000}, partial),
    ]
    frames = planted([size | kind for size, kind in sizes])
    made = exhibits("access_methods", frames)["car11.fig3"]
    assert estimate(made, "shared_predominant_from_processes").value == 16384
    assert estimate(made, "jobs_ratio[unique]").value == 0.5
    assert "from 16,384 processes up" in words(made)


def test_categories_of_files() -> None:
    files = np.array([0, 1, 10, 11, 4095, 4096, 400_000, 3])
    nprocs = np.array([4096] * 7 + [1])
    assert category_of(files, nprocs).tolist() == [0, 1, 1, 2, 2, 3, 3, 4]


def test_files_against_processes_is_per_run_not_per_job() -> None:
    job = {"job_id": 5, "nprocs": 4096, "files": 57_000, "read": 1}
    frames = planted([job, job, job | {"files": 0, "read": 0}])
    made = exhibits("access_methods", frames)["car11.fig5"]
    assert {row["category"]: row["runs"] for row in cells(made)} == {
        "no files": 1, "N:1": 0, "N:M": 0, "N:N": 2, "one process": 0,
    }  # fmt: skip
    assert estimate(made, "zero_files_ratio").value == 1 / 3
    points = {row for row in made.charts[0].table.rows if row[-1] is None}
    assert points == {(4096, 57_000, "uid 7", 2, None), (4096, 0.3, "uid 7", 1, None)}
    assert [line.label for line in made.charts[0].references] == ["N:1 below", "no files: 1 runs"]
