"""Signatures of single jobs, groups of near-identical ones, and strong scaling."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from planted_jobs import GIB, MIB, planted

from ioweather.core.frames import Frame
from ioweather.facts.runs import SIGNATURES, program_of, signatures, similar_groups, strong_scaling


def frame(jobs: list[dict[str, Any]]) -> Frame:
    frames = planted(jobs)
    return frames["job_io"].with_columns(uid=frames["applications"]["uid"], exe=frames["applications"]["exe"])


def marks(**job: Any) -> set[str]:
    row = signatures(frame([job])).records()[0]
    return {name for name in SIGNATURES if row[name]}


BASE = {
    "nprocs": 64,
    "files": 1,
    "read": GIB,
    "read_count": 1024,
    "fs_read_count": 1024,
    "io": 50.0,
    "read_seconds": 1.0,
}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, set()),
        ({"files": 0, "read": 0, "read_count": 0}, {"zero_files"}),
        ({"io_rank_count": 1}, {"rank0_io"}),
        ({"rank0_bytes": GIB - 1000}, {"rank0_io"}),
        ({"io_rank_count": 8}, {"subset_io"}),
        ({"io_rank_count": 8, "collective_count": 5}, set()),
        ({"unique_file_count": 64}, {"file_per_process"}),
        ({"unique_file_count": 63}, set()),
        ({"seek_count": 1000}, {"seek_per_operation"}),
        ({"seek_count": 800}, set()),
        ({"seek_count": 1000, "fs_read_count": 0}, {"seek_per_operation"}),  # streams, as car11's Climate
        ({"seek_count": 150, "fs_read_count": 100}, set()),  # streams beside a few calls
        ({"seek_count": 1000, "fs_read_count": 8192}, set()),  # many calls below few of MPI-IO
        ({"metadata_ratio": 0.7}, {"metadata_bound"}),
        ({"read_count": 4096}, {"small_requests"}),
        ({"io": 0.5}, {"negligible_io"}),
        ({"nprocs": 1, "io_rank_count": 1, "unique_file_count": 9}, set()),
    ],
)
def test_each_signature(changes: dict[str, Any], expected: set[str]) -> None:
    assert marks(**(BASE | changes)) == expected


def test_near_identical_jobs() -> None:
    base = {"exe": "/a/app -1", "nprocs": 8, "files": 100, "read": 1000 * MIB}
    jobs = [
        base, base | {"exe": "/b/app -2"}, base | {"read": 1020 * MIB}, base | {"files": 103},
        base | {"uid": 8}, base | {"nprocs": 16}, base | {"read": 2000 * MIB}, base | {"exe": "other"},
        base | {"files": 200},
    ]  # fmt: skip
    groups = similar_groups(frame(jobs))
    assert len(set(groups[:4].tolist())) == 1
    assert len(set(groups[3:].tolist())) == 6
    assert similar_groups(frame([])).tolist() == []


def test_strong_and_weak_scaling() -> None:
    sizes = np.array([64, 64, 256, 1024])
    assert strong_scaling(sizes, np.array([100, 104, 98, 101])) == (64, 1024)
    assert strong_scaling(sizes, sizes * 10) is None
    assert strong_scaling(np.array([1, 2]), np.array([5, 5])) is None
    assert strong_scaling(np.array([64, 80, 96]), np.array([5, 5, 5])) is None


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("/opt/bin/ior -a POSIX", "ior"),
        ("python3.11 -u /a/x.py run.in", "x.py"),
        ("sh", "sh"),
        ("/opt/bin/python3 -c from multiprocessing.spawn import spawn_main; spawn_main()", "python3"),
        ("  ", ""),
        ("", ""),
        ("/sw/bin/shared_input --input run.in", "shared_input"),
    ],
)
def test_program_names(command: str, name: str) -> None:
    assert program_of(command) == name
