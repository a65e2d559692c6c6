"""A real file system with several servers: one that is slowed is named within minutes."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.moosefs_servers import MooseFS, moosefs, why_not

import ioweather

pytestmark = [pytest.mark.real, pytest.mark.skipif(why_not() is not None, reason=str(why_not()))]


def probe(fs: MooseFS, spool: Path, seconds: int) -> Path:
    """Every target in turn for so long. The files stay: a file system gives a server that stands still no new ones, and
    an agent that runs on has its own there."""
    where = fs.mount / "probed"
    where.mkdir(exist_ok=True)
    sizes = ["--file-size", "4MiB", "--pool", "4", "--period", "200ms", "--for", f"{seconds}s"]
    command = [sys.executable, "-m", "ioweather", "probe", str(where), "--targets", "--keep", *sizes, "--name", "here"]
    done = subprocess.run([*fs.inside, *command, "--spool", str(spool)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return spool


def named_after(spool: Path, lake: Path) -> list[str]:
    report = ioweather.ingest(spool, lake=lake)
    assert report.rows_added["responses"]
    return [str(each.component) for each in ioweather.health(lake=lake).result.unhealthy]


def test_one_slowed_server_is_named(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    with moosefs(tmp_path, servers=4) as fs:
        assert named_after(probe(fs, tmp_path / "quiet", 30), lake) == []
        with ioweather.open_lake(lake).snapshot() as snapshot:
            rows = snapshot.query("SELECT DISTINCT component FROM responses WHERE component IS NOT NULL").fetchall()
        assert {row[0] for row in rows} == set(fs.servers), "every server is probed"
        sick, began = sorted(fs.servers)[1], time.monotonic()
        named: list[str] = []
        with fs.slowed(sick):
            while not named and time.monotonic() - began < 180:
                named = named_after(probe(fs, tmp_path / f"slow{time.monotonic_ns()}", 20), lake)
        assert named == [sick]
