"""Dask workers in a real Slurm, started by the lines of docs/how-to/cluster.md: one job is killed midway, and the lake
equals the local one."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import slurm_cluster
from ioweather.ingestion.ingest import ingest
from ioweather.lake.lake import open_lake
from ioweather.lake.workers import Processes
from ioweather.readers.darshan.writer import write_log
from lake_contents import contents
from planted_logs import JOB, records, write_climate

pytestmark = pytest.mark.real
LOGS = 6_000
PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "cluster.md"
# What differs between the site of the page and the Slurm of this test.
HERE = {
    '"regular"': '"work"', '"02:00:00"': '"00:30:00"',
    'account="m1234"': "account=None", "cores=4": "cores=1", "processes=4": "processes=1",
    '"8 GiB"': '"1 GiB"', '"ib0"': '"lo"', '["module load python"]': "[]", "jobs=16": "jobs=4",
}  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def slurm(tmp_path_factory) -> Iterator[None]:
    pytest.importorskip("dask_jobqueue", reason="needs the extra `dev`")
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


def running_jobs() -> list[str]:
    listed = subprocess.run(["squeue", "-h", "-t", "R", "-o", "%i"], capture_output=True, text=True)
    return listed.stdout.split()


def wait_until(condition, seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not so after {seconds} s: {running_jobs()}"
        time.sleep(0.2)


def test_a_job_killed_midway_leaves_the_lake_as_it_would_be(logs, tmp_path):
    local = open_lake(tmp_path / "local", create=True)
    with Processes(2) as processes:
        assert len(ingest(local, [logs], executor=processes).good) == LOGS
    (script,) = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), flags=re.DOTALL)
    for of_page, here in HERE.items():
        assert of_page in script, of_page
        script = script.replace(of_page, here)
    (tmp_path / "workers.py").write_text(script)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "cwd": tmp_path}
    cluster = subprocess.Popen([sys.executable, "workers.py"], **pipes)
    try:
        address = cluster.stdout.readline().strip()
        assert address.startswith("tcp://127.0.0.1:")
        wait_until(lambda: len(running_jobs()) == 4)
        command = [sys.executable, "-m", "ioweather", "ingest", str(logs), "--lake", str(tmp_path / "lake"), "--json"]
        process = subprocess.Popen([*command, "--dask", address], stdout=subprocess.PIPE, text=True)
        wait_until(lambda: len(list((tmp_path / "lake").rglob("*.parquet"))) > 3 or process.poll() is not None)
        killed = running_jobs()[0]
        subprocess.run(["scancel", "--signal=KILL", "--full", killed], check=True)
        wait_until(lambda: len(running_jobs()) == 4 and killed not in running_jobs())  # another has taken its place
        said, _ = process.communicate(timeout=600)
        assert process.returncode == 0
        assert json.loads(said)["read"] == LOGS
    finally:
        cluster.communicate("\n", timeout=120)
    assert contents(open_lake(tmp_path / "lake")) == contents(local)
    wait_until(lambda: not running_jobs())
