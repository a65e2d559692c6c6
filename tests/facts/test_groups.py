"""Runs that do the same come together, and others do not."""

from __future__ import annotations

from planted_jobs import planted

from ioweather.facts.runs import best_grouping, find_similar_runs, group_runs


def runs_of(jobs):
    frames = planted(jobs)
    applications = frames["applications"]
    return frames["job_io"].with_columns(uid=applications.array("uid"), exe=applications.text("exe"))


def esb(n, **changes):
    job = {"exe": "/soft/esb in.nml", "uid": 5, "nprocs": 4096, "files": 57349, "unique_file_count": 57346,
           "shared_file_count": 3, "read": 938 << 30, "written": 17 << 27}  # fmt: skip
    return [job | changes] * n


def test_exact_groups_share_user_processes_files_and_bytes():
    runs = runs_of(esb(9) + esb(3, uid=6) + esb(10, read=900 << 30) + esb(2, nprocs=2048))
    groups = group_runs(runs, "exact")
    assert groups.sizes.tolist() == [10, 9, 3, 2]
    assert groups.members(0).tolist() == list(range(12, 22))
    assert groups.large == [0, 1]
    assert best_grouping(runs) == "exact"
    assert all(name.startswith("esb-") for name in groups.names)
    assert len(set(groups.names)) == 4


def test_similar_groups_allow_a_quarter_more_bytes():
    sizes = [100, 104, 110, 124, 126, 150, 400]
    jobs = [{"exe": "/bin/app a", "read": size << 20} for size in sizes]
    runs = runs_of([*jobs, {"exe": "/bin/other", "read": 100 << 20}])
    assert best_grouping(runs) == "similar"
    groups = group_runs(runs, "similar")
    assert sorted(groups.sizes.tolist()) == [1, 1, 2, 4]
    assert groups.members(0).tolist() == [0, 1, 2, 3]
    assert find_similar_runs(runs, 3).tolist() == [0, 1, 2, 3, 4, 5]
    assert find_similar_runs(runs, 6).tolist() == [6]
