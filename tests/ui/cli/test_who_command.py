"""`who` counts the jobs of one file system, and groups them in both views."""

from __future__ import annotations

import json

import pytest
from planted_jobs import GIB, NS, planted

from ioweather.lake.lake import open_lake
from planted_culprit import BEGAN, HEAVY, make_culprit_lake

SITE = "".join(f'[filesystem.{name}]\nlustre = ["{name}"]\nmounts = ["/{name}"]\n' for name in ("scratch", "home"))
# Mount, user and GiB read of each run; the last two name no mount, and the last one has no I/O.
RUNS = [("/scratch", 1, 60), ("/scratch", 2, 20), ("/home", 1, 5), ("/elsewhere", 3, 900), (None, 4, 20), (None, 5, 0)]


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    made = open_lake(tmp_path_factory.mktemp("who") / "lake", create=True)
    jobs = [
        {
            "main_mount": mount,
            "uid": uid,
            "read": size * GIB,
            "files": int(size > 0),
            "io": float(size),
            "start_ns": BEGAN,
        }
        for mount, uid, size in RUNS
    ]
    for table, frame in planted(jobs).items():
        made.append(table, frame, source="darshan")
    (made.root / "facility.toml").write_text(SITE)
    return made.root


@pytest.mark.parametrize(
    ("filesystem", "shares"),
    [("scratch", {"uid 1": 0.6, "uid 2": 0.2, "uid 4": 0.2}), ("home", {"uid 4": 0.8, "uid 1": 0.2})],
)
def test_who_counts_the_data_and_runs_of_one_file_system(call, two, filesystem, shares):
    asked = ("who", "--by", "user", "--filesystem", filesystem, "--lake", two)
    result = json.loads(call(*asked, "--json")[1])["result"]
    assert {talker["user"]: talker["bytes_ratio"] for talker in result["talkers"]} == pytest.approx(shares)
    assert result["runs"] == len(shares)
    said = " ".join(call(*asked)[1].split())
    unplaced = f"1 of {len(shares)} logs do not say on which file system they moved data"
    assert f"{unplaced}; these are counted on every file system." in said
    assert f"Most I/O on {filesystem}, by user" in said


def test_who_by_user_lists_users_where_it_names_a_job(call, tmp_path):
    lake = make_culprit_lake(tmp_path / "lake").root
    period = ("--from", f"@{BEGAN // NS}", "--to", f"@{BEGAN // NS + 1200}", "--lake", lake)
    by_job, by_user = (call("who", *more, *period)[1] for more in ((), ("--by", "user")))
    assert f"Job {HEAVY}" in by_job
    assert "cost others" in by_job
    assert "while it overlapped the slowed run" in " ".join(by_job.split())
    assert f"Job {HEAVY}" in by_user
    assert "Most I/O on scratch, by user" in by_user
    assert "of logged bytes" in by_user
    assert "cost others" not in by_user


def test_jobs_of_a_period_after_the_data_say_where_the_data_are(call, two):
    out = " ".join(call("jobs", "--from", "yesterday", "--lake", two)[1].split())
    assert "No job matches. The newest data are of" in out
    assert "`ioweather lake` lists the periods with data." in out
    assert call("jobs", "--user", "noone", "--lake", two)[1].startswith("No job matches.\n")
