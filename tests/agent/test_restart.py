"""`collect block` killed and started again: nothing negative, nothing twice, and the time between is a gap."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ioweather.agent.status import read_status
from ioweather.core.units import NS
from ioweather.lake.lake import open_lake
from ioweather.ui.cli.main import run


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    open_lake(tmp_path / "lake", create=True)
    (tmp_path / "lake/facility.toml").write_text(f'[collect]\nroot = "{tmp_path}"\nblock_period = "100ms"\n')
    (tmp_path / "proc").mkdir()
    return tmp_path / "lake"


def count_to(root: Path, reads: int) -> None:
    draft = root / "proc/draft"
    draft.write_text(f" 8 0 sda {reads} 0 {8 * reads} {reads} 0 0 0 0 0 {reads} {reads}\n")
    draft.replace(root / "proc/diskstats")


def collect_for(seconds: float, lake: Path, counted: int, how: str) -> int:
    """Run the agent while the counter rises; end it; returns the counter."""
    root = lake.parent
    count_to(root, counted)
    agent = subprocess.Popen(
        [sys.executable, "-m", "ioweather", "collect", "block", "--lake", str(lake), "--spool", str(root / "spool"),
         "--no-ship"], stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        for _ in range(600):
            status = root / "spool/status.json"
            if status.exists() and (found := read_status(root / "spool")).pid == agent.pid and found.sources[0].runs:
                break
            time.sleep(0.02)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            counted += 7
            count_to(root, counted)
            time.sleep(0.05)
    finally:
        getattr(agent, how)()
        agent.wait(30)
    return counted


def test_a_kill_and_a_restart(lake, capsys):
    before = collect_for(1.5, lake, 1000, "kill")
    between = before + 5000  # while nobody looked
    after = collect_for(1.5, lake, between, "terminate")
    assert run(["ingest", str(lake.parent / "spool/segments"), "--lake", str(lake)]) == 0
    capsys.readouterr()
    sql = "SELECT start_ns, interval_ns, value FROM series WHERE metric = 'read_ops' ORDER BY start_ns"
    assert run(["sql", sql, "--lake", str(lake), "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    rows = [tuple(row.values()) if isinstance(row, dict) else tuple(row) for row in rows]
    assert len(rows) >= 10
    assert all(value >= 0 for *_, value in rows)
    assert all(a[0] + a[1] <= b[0] for a, b in itertools.pairwise(rows)), "no moment is told of twice"
    told = sum(value for *_, value in rows)
    assert told <= (before - 1000) + (after - between), "what happened between the agents is nobody's"
    assert told >= 0.5 * ((before - 1000) + (after - between))
    assert run(["events", "--kind", "gap", "--lake", str(lake), "--json"]) == 0
    (gap,) = json.loads(capsys.readouterr().out)["result"]["events"]
    assert gap["label"] == "agent ended without saying so"
    assert 0 < gap["end_ns"] - gap["start_ns"] < 30 * NS
    assert not any(gap["start_ns"] + NS < start < gap["end_ns"] - NS for start, *_ in rows)
