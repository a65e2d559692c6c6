"""A real file system with several servers: one that is slowed is named within minutes, none when all are busy."""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from tests.moosefs_servers import MooseFS, moosefs, why_not

import ioweather

pytestmark = [pytest.mark.real, pytest.mark.skipif(why_not() is not None, reason=str(why_not()))]


@contextmanager
def probing(fs: MooseFS, spool: Path):
    """Every target in turn, by one agent that runs on: the file system gives a server that stands still no new files,
    so that one which began now would have none there."""
    where = fs.mount / "probed"
    where.mkdir(exist_ok=True)
    sizes = ["--file-size", "4MiB", "--pool", "4", "--period", "200ms", "--for", "1h"]
    command = [sys.executable, "-m", "ioweather", "probe", str(where), "--targets", *sizes, "--name", "here"]
    agent = subprocess.Popen(
        [*fs.inside, *command, "--spool", str(spool)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield
    finally:
        agent.terminate()
        agent.wait(60)


def measured(lake: Path) -> dict[str, int]:
    """Response times in the lake, by target."""
    with ioweather.open_lake(lake).snapshot() as snapshot:
        sql = "SELECT component, count(*) FROM responses WHERE component IS NOT NULL GROUP BY 1"
        return dict(snapshot.con.sql(sql).fetchall())


def named_after(spool: Path, lake: Path) -> list[str]:
    """What has been measured so far goes into the lake, also what stands in a segment that is still written."""
    ioweather.ingest(spool, lake=lake)
    return [str(each.component) for each in ioweather.health(lake=lake).result.unhealthy]


def until_measured(spool: Path, lake: Path, servers: int, looks: int, seconds: float) -> list[str]:
    """Until every target was looked at so often: on a busy machine that takes its time."""
    began, named = time.monotonic(), named_after(spool, lake)
    while time.monotonic() - began < seconds and sum(n >= looks for n in measured(lake).values()) < servers:
        time.sleep(5.0)
        named = named_after(spool, lake)
    return named


@contextmanager
def all_busy(fs: MooseFS):
    """Everybody writes, on all servers."""
    with ExitStack() as until:
        for number in range(6):
            line = f"while :; do dd if=/dev/zero of={fs.mount}/busy{number} bs=1M count=4 conv=fsync; sleep 0.1; done"
            process = subprocess.Popen(["sh", "-c", line], stderr=subprocess.DEVNULL)
            until.callback(process.wait)
            until.callback(process.kill)
        yield


def test_one_slowed_server_is_named_and_none_when_all_are_busy(tmp_path: Path) -> None:
    lake, spool = tmp_path / "lake", tmp_path / "spool"
    with moosefs(tmp_path, servers=4) as fs, probing(fs, spool):
        began = time.monotonic()
        while not any(spool.glob("segments/seg-*")) and time.monotonic() - began < 60:
            time.sleep(1.0)
        assert until_measured(spool, lake, 4, looks=60, seconds=240) == []
        assert set(measured(lake)) == set(fs.servers), "every server is probed"
        with all_busy(fs):
            time.sleep(15.0)
        assert named_after(spool, lake) == []
        sick, began = sorted(fs.servers)[1], time.monotonic()
        named: list[str] = []
        with fs.slowed(sick):
            while not named and time.monotonic() - began < 180:
                time.sleep(10.0)
                named = named_after(spool, lake)
        assert named == [sick]
