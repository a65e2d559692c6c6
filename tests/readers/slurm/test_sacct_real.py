"""A real Slurm: jobs that end well, fail, are cancelled, time out and are requeued; the lake equals what sacct says."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import slurm_cluster
from ioweather.core.contracts import ReadContext
from ioweather.core.units import zone_named
from ioweather.ingestion.ingest import ingest
from ioweather.lake.lake import open_lake

pytestmark = pytest.mark.real
FIELDS = "JobID,JobIDRaw,Cluster,UID,User,Account,JobName,State,Submit,Start,End,NNodes,NCPUS,NodeList"


@pytest.fixture(scope="module")
def slurm() -> Iterator[dict[str, str]]:
    if why := slurm_cluster.missing(accounting=True):
        pytest.skip(f"no Slurm with accounting here: {why}")
    with slurm_cluster.slurm_nodes(4, accounting=True) as environment:
        yield environment


def call(environment: dict[str, str], *command: str) -> str:
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=True, cwd="/tmp")
    return done.stdout


def submit(environment: dict[str, str], script: str, *options: str) -> str:
    return call(environment, "sbatch", "--parsable", "-o", "/dev/null", *options, f"--wrap={script}").strip()


def await_state(environment: dict[str, str], job: str, state: str, seconds: int) -> None:
    """Until accounting knows it."""
    for _ in range(seconds):
        states = call(environment, "sacct", "-n", "-X", "-D", "-j", job, "--format=State")
        if state in states:
            return
        time.sleep(1)
    raise AssertionError(f"job {job} is not {state} after {seconds} s but {states.split()}")


@pytest.fixture(scope="module")
def jobs(slurm) -> dict[str, str]:
    ids = {
        "good": submit(slurm, "sleep 1", "-J", "name|with|pipes"),
        "fails": submit(slurm, "exit 3"),
        "array": submit(slurm, "sleep 1", "--array=1-3"),
        "cancelled": submit(slurm, "sleep 60"),
        "requeued": submit(slurm, "sleep 30", "--requeue"),
        "overtime": submit(slurm, "sleep 300", "--time=1"),
    }
    for name in ("cancelled", "requeued", "overtime"):
        await_state(slurm, ids[name], "RUNNING", 60)
    call(slurm, "scancel", ids["cancelled"])
    call(slurm, "scontrol", "requeue", ids["requeued"])
    await_state(slurm, ids["requeued"], "REQUEUED", 30)
    call(slurm, "scancel", ids["requeued"])
    # A minute is the shortest limit there is, and Slurm looks every half minute whether one has passed.
    await_state(slurm, ids["overtime"], "TIMEOUT", 180)
    return ids


def dump(environment: dict[str, str], target: Path, *options: str, **more: str) -> Path:
    command = ["sacct", "-a", "-P", "-S", "now-1hours", "--duplicates", f"--format={FIELDS}", *options]
    target.write_text(call({**environment, **more}, *command))
    return target


def test_the_lake_equals_sacct(slurm, jobs, tmp_path):
    lake = open_lake(tmp_path / "lake", create=True)
    files = [
        dump(slurm, tmp_path / "pipes.txt", TZ="UTC"),
        dump(slurm, tmp_path / "safe.txt", "--delimiter=\x1f", SLURM_TIME_FORMAT="%s"),
    ]
    report = ingest(lake, files, context=ReadContext(zone=zone_named("UTC")))
    assert not report.bad, [outcome.message for outcome in report.bad]
    expected = [line.split("\x1f") for line in files[1].read_text().splitlines()[1:]]
    with lake.snapshot() as snapshot:
        rows = snapshot.frame("jobs").records()
    assert len(rows) == len(expected), "two dumps of one accounting are one"
    stored = {(r["job_id"] + (f".{r['step']}" if r["step"] else ""), r["submit_ns"] // 10**9): r for r in rows}
    for job_id, raw, _, uid, _, _, name, state, submitted, start, end, nodes, cpus, _ in expected:
        row = stored[(job_id, int(submitted))]
        assert row["state"] == state
        assert row["name"] == name
        assert row["raw_job_id"] == int(raw.split(".")[0])
        assert row["start_ns"] == (int(start) * 10**9 if start.isdigit() else None)
        assert row["end_ns"] == (int(end) * 10**9 if end.isdigit() else None)
        assert (row["node_count"], row["cpu_count"]) == (int(nodes), int(cpus))
        assert row["uid"] == (int(uid) if uid else None)


def test_every_fate_is_there(slurm, jobs, tmp_path):
    lake = open_lake(tmp_path / "lake", create=True)
    ingest(lake, [dump(slurm, tmp_path / "x.txt", SLURM_TIME_FORMAT="%s")])
    with lake.snapshot() as snapshot:
        rows = [row for row in snapshot.frame("jobs").records() if row["step"] == ""]
    states = {name: sorted(r["state"] for r in rows if r["job_id"].split("_")[0] == job) for name, job in jobs.items()}
    assert states["good"] == ["COMPLETED"]
    assert states["fails"] == ["FAILED"]
    assert states["array"] == ["COMPLETED"] * 3
    assert states["overtime"] == ["TIMEOUT"]
    assert states["cancelled"][0].startswith("CANCELLED")
    assert "REQUEUED" in states["requeued"]


def test_json_is_the_same_accounting(slurm, jobs, tmp_path):
    (tmp_path / "s.json").write_text(call(slurm, "sacct", "-a", "-S", "now-1hours", "--duplicates", "--json"))
    lake = open_lake(tmp_path / "lake", create=True)
    assert not ingest(lake, [tmp_path / "s.json"]).bad
    text = open_lake(tmp_path / "text", create=True)
    ingest(text, [dump(slurm, tmp_path / "x.txt", SLURM_TIME_FORMAT="%s")])
    query = "SELECT job_id, step, raw_job_id, start_ns, end_ns, node_count FROM jobs WHERE step = '' ORDER BY ALL"
    with lake.snapshot() as one, text.snapshot() as other:
        assert one.query(query).fetchall() == other.query(query).fetchall()
