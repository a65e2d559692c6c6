"""Workers by sbatch on a real Slurm: 20,000 logs, one job cancelled midway, and the lake equals the local one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import slurm_cluster
from ioweather.core.errors import UsageError
from ioweather.ingestion.ingest import ingest
from ioweather.lake.lake import open_lake
from ioweather.lake.workers import Processes, open_executor
from ioweather.readers.darshan.writer import write_log
from lake_contents import contents
from planted_logs import JOB, records, write_climate

pytestmark = pytest.mark.real
LOGS = 20_000
SETTINGS = {"partition": "work", "walltime": "00:30:00", "cores": 1, "memory": "1 GiB", "interface": "lo"}


@pytest.fixture(scope="module", autouse=True)
def slurm(tmp_path_factory) -> Iterator[None]:
    pytest.importorskip("dask_jobqueue", reason="needs the extra `dask`")
    if why := slurm_cluster.missing():
        pytest.skip(f"no Slurm here: {why}")
    before = dict(os.environ)
    with slurm_cluster.slurm_nodes(4) as environment:
        os.environ.update(environment, XDG_STATE_HOME=str(tmp_path_factory.mktemp("state")))
        yield
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture(scope="module")
def logs(tmp_path_factory) -> Path:
    """Small logs as real ones mostly are: one process, one file; every hundredth has four ranks and three modules."""
    folder = tmp_path_factory.mktemp("logs")
    row = {"file": 1, "rank": 0, "OPENS": 1, "WRITES": 2, "BYTES_WRITTEN": 8192, "F_WRITE_TIME": 0.5}
    one = records("POSIX", [row])
    for n in range(LOGS):
        path = folder / f"{n:05}.darshan"
        if n % 100 == 0:
            write_climate(path, job_id=n + 1)
        else:
            write_log(path, JOB._replace(job_id=n + 1, nprocs=1), {"POSIX": one}, {1: f"/scratch/run{n}/out"})
    return folder


def jobs() -> dict[str, str]:
    """Job -> state, of the workers."""
    listed = subprocess.run(["squeue", "-h", "-n", "ioweather", "-o", "%i %T"], capture_output=True, text=True)
    return dict(line.split() for line in listed.stdout.splitlines())


def wait_until(condition, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not so after {seconds} s: {jobs()}"
        time.sleep(0.2)


def test_a_job_cancelled_midway_leaves_the_lake_as_it_would_be(logs, tmp_path):
    local = open_lake(tmp_path / "local", create=True)
    with Processes(2) as processes:
        assert len(ingest(local, [logs], executor=processes).good) == LOGS
    lake = open_lake(tmp_path / "lake", create=True)
    cancelled: list[str] = []

    def cancel_one(done: int, total: int | None, what: str) -> None:
        if done >= LOGS // 3 and not cancelled:
            running = [job for job, state in jobs().items() if state == "RUNNING"]
            assert len(running) >= 2
            cancelled.append(running[0])
            subprocess.run(["scancel", "--signal=KILL", "--full", running[0]], check=True)

    with open_executor(slurm=4, settings=lambda: SETTINGS) as executor:
        wait_until(lambda: executor.threads == 4)
        began = time.monotonic()
        report = ingest(lake, [logs], executor=executor, progress=cancel_one)
        print(f"\n{LOGS:,} logs by 4 Slurm jobs in {time.monotonic() - began:.1f} s")
        assert cancelled
        assert cancelled[0] not in jobs()
        wait_until(lambda: executor.threads == 4)  # another job has taken its place
    assert len(report.good) == LOGS
    assert contents(lake) == contents(local)
    wait_until(lambda: not jobs())


def test_ctrl_c_cancels_the_jobs_and_the_same_command_goes_on(logs, tmp_path):
    root = tmp_path / "lake"
    open_lake(root, create=True)
    (root / "facility.toml").write_text(
        '[engine]\npartition = "work"\nwalltime = "00:30:00"\nmemory = "1 GiB"\ninterface = "lo"\n'
    )
    some = tmp_path / "some"
    some.mkdir()
    for path in sorted(logs.iterdir())[:6000]:
        (some / path.name).hardlink_to(path)
    command = [sys.executable, "-m", "ioweather", "ingest", str(some), "--lake", str(root), "--slurm", "2", "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_until(lambda: "RUNNING" in jobs().values())
    time.sleep(2)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    if process.returncode != 0:  # else it was done already
        assert process.returncode == 130
        (line,) = errors.strip().splitlines()
        assert line.startswith("Stopped."), "nothing but this: no traceback, nothing of Dask's own talk"
    wait_until(lambda: not jobs())
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stderr == "", "nothing of Dask's own talk"
    body = json.loads(done.stdout)
    assert body["read"] + body["known"] == 6000
    wait_until(lambda: not jobs())


def test_what_slurm_refuses_is_said_at_once():
    with (
        pytest.raises(UsageError, match=r"Slurm rejected the job: .*partition.*facility\.toml"),
        open_executor(slurm=1, settings=lambda: {**SETTINGS, "partition": "nowhere"}),
    ):
        pass
    assert not jobs()
