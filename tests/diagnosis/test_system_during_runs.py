"""A slow target that moves few bytes: probes, other people's runs and its health give it away, its load does not."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from planted_jobs import GIB, planted
from store_lakes import DAY, series_frame

from asking import why
from ioweather.core.tables import FILES, TABLES
from ioweather.core.units import MINUTE_NS, NS
from ioweather.facts.job_metrics import job_io
from ioweather.lake.lake import open_lake

MINUTES = 2 * 1440
SICK = (2000, 2300)  # minutes in which target 1 serves a third
SLOW, QUIET = 900, 901


FACILITY = """
[filesystem.scratch]
mounts = ["/scratch"]
probes = ["/scratch/.probe"]
[filesystem.project]
mounts = ["/project"]
probes = ["/project/.probe"]
"""
ELSEWHERE = 902


def run(job_id, start, seconds, target, program="solver", uid=3, system="scratch"):
    return {
        "job_id": job_id, "exe": f"/bin/{program}", "uid": uid, "nprocs": 8, "start_ns": DAY + start * MINUTE_NS,
        "read": 8 * GIB, "files": 1, "unique_file_count": 1, "io": float(seconds), "run_seconds": seconds + 60.0,
        "read_count": 8192, "io_rank_count": 8, "main_mount": f"/{system}", "target": target,
    }  # fmt: skip


def planted_runs():
    """Runs on either target take 300 s, and three times as long on the sick one; so do those of other people."""
    rng = np.random.default_rng(8)
    jobs = []
    for number in range(60):
        program, uid = (("solver", 3), ("other", 4), ("third", 5))[number % 3]
        start, target = int(rng.integers(10, MINUTES - 100)), int(rng.integers(2))
        slow = target == 1 and SICK[0] - 5 < start < SICK[1]
        jobs.append(run(number + 1, start, 300 * (3 if slow else 1) * rng.lognormal(0, 0.03), target, program, uid))
    for number, start in enumerate((2050, 2100, 2150, 2200)):  # some of each, so that slowness can be told from bytes
        for offset, (program, uid) in enumerate((("solver", 3), ("other", 4))):
            jobs.append(run(100 + 10 * number + offset, start, 900 * rng.lognormal(0, 0.03), 1, program, uid))
    return [*jobs, run(SLOW, 2120, 900, 1), run(QUIET, 500, 300, 1)]


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    return made_lake(tmp_path_factory.mktemp("conditions") / "lake", planted_runs())


def made_lake(root, jobs):
    """Target 1 of /scratch is sick; where there are runs on /project, its targets are as ever."""
    made = open_lake(root, create=True)
    systems = sorted({one["main_mount"][1:] for one in jobs})
    if len(systems) > 1:
        (root / "facility.toml").write_text(FACILITY)
        made = open_lake(root)
    frames = planted(jobs)
    rows = [
        {"log_digest": digest, "start_ns": one["start_ns"], "record_id": 1, "rank": -1, "module": "POSIX",
         "standard_stream": False, "mount": one["main_mount"], "read_bytes": 8 * GIB, "read_seconds": one["io"],
         "slowest_rank_seconds": one["io"], "meta_seconds": 0.0, "write_seconds": 0.0, "read_count": 8192,
         "open_count": 8, "first_open_ns": one["start_ns"], "first_read_ns": one["start_ns"],
         "last_read_ns": one["start_ns"] + int(one["io"] * NS), "osts": str(one["target"])}
        for digest, one in zip(frames["applications"].text("log_digest").tolist(), jobs, strict=True)
    ]  # fmt: skip
    columns = {s.name: [row.get(s.name, None if s.nullable else 0) for row in rows] for s in FILES.columns}
    frames["files"] = FILES.frame(columns, rows=len(rows))
    frames["job_io"] = job_io(frames["applications"], frames["files"])
    for table, frame in frames.items():
        made.append(table, frame, source="darshan")
    rng = np.random.default_rng(9)
    values = 60e9 * rng.lognormal(0, 0.3, (MINUTES, 2))
    for metric, system in itertools.product(("read_bytes", "write_bytes"), systems):
        made.append("series", series_frame(values, metric=metric, system=system), source="lmt")
    minute = np.arange(MINUTES)
    for system, target in itertools.product(systems, (0, 1)):
        sick = system == "scratch" and target == 1
        slow = np.where(sick & (minute >= SICK[0]) & (minute < SICK[1]), 3.0, 1.0)
        probes = TABLES["responses"].frame(
            rows=MINUTES, start_ns=DAY + minute * MINUTE_NS, host=f"login{target}", target=f"/{system}/.probe",
            op="read", request_bytes=1_000_000, mode="nocache", system=system, component=f"OST{target:04x}",
            status="ok", duration_ns=(8e6 * slow * rng.lognormal(0, 0.1, MINUTES)).astype(np.int64),
        )  # fmt: skip
        made.append("responses", probes, source="spool")
    made.append("events", TABLES["events"].frame(
        event_id=["one", "two"], kind="component_health", system="scratch", component=["OST0001", "OST0000"],
        start_ns=DAY + SICK[0] * MINUTE_NS, end_ns=DAY + SICK[1] * MINUTE_NS,
        label=["OST0001 worked at a third", "OST0000 was odd"], rows=2,
    ), source="health")  # fmt: skip
    return root


@pytest.fixture(scope="module")
def two_systems(tmp_path_factory):
    """The same programs run on /project, where a run of 600 s has nothing to do with the sick target of /scratch."""
    jobs = planted_runs()
    rng = np.random.default_rng(10)
    for number in range(24):
        start, seconds = int(rng.integers(10, MINUTES - 100)), 300 * rng.lognormal(0, 0.03)
        program, uid = (("solver", 3), ("other", 4))[number % 2]
        jobs.append(run(200 + number, start, seconds, number // 2 % 2, program, uid, "project"))
    jobs.append(run(ELSEWHERE, 2110, 600, 1, system="project"))
    return made_lake(tmp_path_factory.mktemp("two") / "lake", jobs)


def test_a_storm_on_one_file_system_is_no_verdict_for_a_run_on_another(two_systems):
    answer = why(ELSEWHERE, two_systems)
    assert answer.result.likeliest == "unexplained", answer.headline
    facts = {fact.label: fact.value for group in answer.facts for fact in group.facts}
    assert facts["probe, targets"] in {f"{1 + k / 100:.2f}x usual" for k in range(-15, 16)}
    assert (answer.result.filesystem, answer.result.unhealthy, answer.result.n) == ("project", (), 12)


def test_beside_another_file_system_a_sick_target_is_still_the_system(two_systems):
    answer = why(SLOW, two_systems)
    assert answer.headline.startswith("Storage was slow"), answer.headline


def test_a_sick_target_is_the_system(lake):
    answer = why(SLOW, lake)
    assert answer.headline.startswith("Storage was slow"), answer.headline
    facts = {fact.label: fact for group in answer.facts for fact in group.facts}
    assert float(str(facts["probe, targets"].value).split("x")[0]) == pytest.approx(3.0, rel=0.15)
    assert facts["unhealthy components"].value == 1  # the other one is not a target of this run
    assert facts["on its targets"].value == pytest.approx(120e9 / 60, rel=0.3)
    assert facts["storage"].value == pytest.approx(600, rel=0.1)
    said = " ".join(finding.text for finding in answer.findings)
    assert "OST0001 worked at a third" in said
    assert "OST0000" not in said


def test_on_a_quiet_day_all_is_usual(lake):
    answer = why(QUIET, lake)
    assert answer.headline.startswith("I/O was as fast as usual"), answer.headline
    facts = {fact.label: fact.value for group in answer.facts for fact in group.facts}
    assert facts["probe, targets"] in {f"{1 + k / 100:.2f}x usual" for k in range(-15, 16)}
    assert facts["unhealthy components"] == 0
