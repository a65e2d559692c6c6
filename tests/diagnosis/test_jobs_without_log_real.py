"""On a real Slurm: jobs without a Darshan log are judged, and their lines reach accounting."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import slurm_cluster
from ioweather.lake.lake import open_lake
from ioweather.ui.cli.main import run as command

pytestmark = pytest.mark.real
TELL = Path(__file__).resolve().parents[2] / "deploy" / "slurm" / "tell-slurm"
USUAL, SLOW = 1, 12


@pytest.fixture(scope="module")
def slurm() -> Iterator[None]:
    if why := slurm_cluster.missing(accounting=True):
        pytest.skip(f"no Slurm with accounting here: {why}")
    before = dict(os.environ)
    with slurm_cluster.slurm_nodes(2, accounting=True) as environment:
        os.environ.update(environment, SLURM_TIME_FORMAT="%s")
        yield
    os.environ.clear()
    os.environ.update(before)


def call(*words: str) -> str:
    return subprocess.run(words, capture_output=True, text=True, timeout=60, check=True, cwd="/tmp").stdout


@pytest.fixture(scope="module")
def jobs(slurm: None) -> dict[str, dict[str, int]]:
    """Three jobs that ended, as sacct reports them: a usual and a slow one of a program, and another."""

    def submit(name: str, seconds: int, *options: str) -> str:
        script = f"--wrap=sleep {seconds}"
        return call("sbatch", "--parsable", "--mem=50", "-o", "/dev/null", "-J", name, *options, script).strip()

    ids = {"slow": submit("model", SLOW), "alone": submit("other", USUAL)}
    ids["usual"] = submit("model", USUAL, "--array=1-5")
    for _ in range(80):
        printed = call("sacct", "-n", "-X", "-P", "-a", "-o", "JobID,JobIDRaw,State,Start,End")
        rows = [line.split("|") for line in printed.splitlines()]
        if len(rows) == 7 and {state for _, _, state, *_ in rows} == {"COMPLETED"}:
            break
        time.sleep(0.5)
    else:
        raise AssertionError(f"the jobs did not end: {rows}")
    known = {name: (int(raw), int(start), int(end)) for name, raw, _, start, end in rows}
    # On a busy machine some take longer than they sleep: the shortest is a usual one for certain.
    tasks = [each for name, each in known.items() if name.startswith(f"{ids['usual']}_")]
    chosen = {"usual": min(tasks, key=lambda each: each[2] - each[1]), "slow": known[ids["slow"]]}
    chosen["alone"] = known[ids["alone"]]
    return {name: dict(zip(("id", "start", "end"), each, strict=True)) for name, each in chosen.items()}


@pytest.fixture(scope="module")
def lake(jobs: dict[str, dict[str, int]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Accounting as the product asks for it; no log."""
    folder = tmp_path_factory.mktemp("site")
    open_lake(folder / "lake", create=True)
    (folder / "empty").mkdir()
    assert command(["ingest", "--watch", "--once", str(folder / "empty"), "--lake", str(folder / "lake")]) == 0
    return folder / "lake"


def test_recorded_verdicts_reach_the_comments_of_their_jobs_in_slurm(jobs, lake, tmp_path):
    """A pass that begins a minute after the last job ended."""
    (lake / "facility.toml").write_text(f'[watch]\ndirectories = ["{tmp_path}"]\ntell = "{TELL}"\n')
    time.sleep(max(0.0, max(job["end"] for job in jobs.values()) + 62 - time.time()))
    assert command(["ingest", "--watch", "--once", "--lake", str(lake)]) == 0
    lines = comments()
    assert len(lines) == 7
    assert all("(ioweather, at its end)" in line for line in lines.values()), lines
    assert "only 0 similar jobs" in lines[str(jobs["alone"]["id"])]
    assert "no storage data for that time" in lines[str(jobs["slow"]["id"])]


def test_a_line_for_another_cluster_changes_no_job(jobs):
    before = comments()
    subprocess.run([TELL, str(jobs["slow"]["id"]), "another line", "elsewhere"], capture_output=True, timeout=60)
    assert comments() == before


def comments() -> dict[str, str]:
    """Job id -> AdminComment."""
    printed = call("sacct", "-n", "-X", "-P", "-a", "-o", "JobIDRaw,AdminComment")
    return dict(line.split("|", 1) for line in printed.splitlines())
