"""A slow target that moves few bytes: probes, other people's runs and its health give it away, its load does not."""

from __future__ import annotations

import numpy as np
import pytest
from planted_jobs import GIB, planted
from store_lakes import DAY, series_frame

from asking import why
from ioweather.core.units import MINUTE_NS, NS
from ioweather.derive.jobs.job_io import job_io
from ioweather.store.lake import open_lake
from ioweather.tables import TABLES
from ioweather.tables.applications import FILES

MINUTES = 2 * 1440
SICK = (2000, 2300)  # minutes in which target 1 serves a third
SLOW, QUIET = 900, 901


def run(job_id, start, seconds, target, program="solver", uid=3):
    return {
        "job_id": job_id, "exe": f"/bin/{program}", "uid": uid, "nprocs": 8, "start_ns": DAY + start * MINUTE_NS,
        "read": 8 * GIB, "files": 1, "unique_file_count": 1, "io": float(seconds), "run_seconds": seconds + 60.0,
        "read_count": 8192, "io_rank_count": 8, "main_mount": "/scratch", "target": target,
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
    root = tmp_path_factory.mktemp("conditions") / "lake"
    made = open_lake(root, create=True)
    jobs = planted_runs()
    frames = planted(jobs)
    rows = [
        {"log_digest": digest, "start_ns": one["start_ns"], "record_id": 1, "rank": -1, "module": "POSIX",
         "standard_stream": False, "mount": "/scratch", "read_bytes": 8 * GIB, "read_seconds": one["io"],
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
    for metric in ("read_bytes", "write_bytes"):
        made.append("series", series_frame(values, metric=metric), source="lmt")
    minute = np.arange(MINUTES)
    for target in (0, 1):
        slow = np.where((target == 1) & (minute >= SICK[0]) & (minute < SICK[1]), 3.0, 1.0)
        probes = TABLES["responses"].frame(
            rows=MINUTES, start_ns=DAY + minute * MINUTE_NS, host=f"login{target}", target="/scratch/.probe", op="read",
            request_bytes=1_000_000, mode="nocache", system="scratch", component=f"OST{target:04x}", status="ok",
            duration_ns=(8e6 * slow * rng.lognormal(0, 0.1, MINUTES)).astype(np.int64),
        )  # fmt: skip
        made.append("responses", probes, source="spool")
    made.append("events", TABLES["events"].frame(
        event_id=["one", "two"], kind="component_health", system="scratch", component=["OST0001", "OST0000"],
        start_ns=DAY + SICK[0] * MINUTE_NS, end_ns=DAY + SICK[1] * MINUTE_NS,
        label=["OST0001 worked at a third", "OST0000 was odd"], rows=2,
    ), source="health")  # fmt: skip
    return root


def test_a_sick_target_is_the_system(lake):
    answer = why(SLOW, lake)
    assert answer.headline.startswith("The system"), answer.headline
    facts = {fact.label: fact for group in answer.facts for fact in group.facts}
    assert float(str(facts["probe, targets"].value).split("x")[0]) == pytest.approx(3.0, rel=0.15)
    assert float(str(facts["others' runs"].value).split("x")[0]) == pytest.approx(3.0, rel=0.3)
    assert facts["sick components"].value == 1  # the other one is not a target of this run
    assert facts["on its targets"].value == pytest.approx(120e9 / 60, rel=0.3)
    assert facts["the system"].value == pytest.approx(600, rel=0.1)
    said = " ".join(finding.text for finding in answer.findings)
    assert "OST0001 worked at a third" in said
    assert "OST0000" not in said


def test_each_measure_is_a_row_among_the_like_runs(lake):
    answer = why(SLOW, lake)
    (chart,) = answer.exhibits[0].charts
    assert chart.table.name == "among_like_runs"
    rows = set(chart.table.column("metric"))
    assert {"probe, data [x usual]", "probe, targets [x usual]", "others' runs [x usual]"} <= rows
    assert "sick components [count]" in rows


def test_on_a_quiet_day_all_is_usual(lake):
    answer = why(QUIET, lake)
    assert answer.headline.startswith("Normal"), answer.headline
    facts = {fact.label: fact.value for group in answer.facts for fact in group.facts}
    assert facts["probe, targets"] in {f"{1 + k / 100:.2f}x usual" for k in range(-15, 16)}
    assert facts["sick components"] == 0


def test_a_part_of_many_responses_says_the_same(lake, monkeypatch):
    monkeypatch.setattr("ioweather.workflows.system_during_runs._MOST_RESPONSES", 1500)
    answer = why(SLOW, lake)
    assert answer.headline.startswith("The system"), answer.headline
    facts = {fact.label: fact.value for group in answer.facts for fact in group.facts}
    assert float(str(facts["probe, targets"]).split("x")[0]) == pytest.approx(3.0, rel=0.2)
