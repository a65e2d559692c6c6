"""An agent whose clock is set while it runs, by faketime(1): forward, back, and to years ago."""

from __future__ import annotations

import glob
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ioweather.agent.status import read_status
from ioweather.lake.lake import open_lake
from ioweather.ui.cli.main import run

pytestmark = pytest.mark.real
LIBRARY = next(iter(glob.glob("/usr/lib/*/faketime/libfaketime.so.1")), "")  # noqa: PTH207 - of the system


class Clock:
    """Of the processes that are started with its environment; offsets as faketime writes them."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "clock"
        self.set("+0")
        self.environment = {
            **os.environ, "LD_PRELOAD": LIBRARY, "FAKETIME_TIMESTAMP_FILE": str(self._file), "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }  # fmt: skip

    def set(self, offset: str) -> None:
        draft = self._file.with_name("clock.draft")
        draft.write_text(offset)
        draft.replace(self._file)


def count_to(root: Path, reads: int) -> None:
    draft = root / "proc/draft"
    draft.write_text(f" 8 0 sda {reads} 0 {8 * reads} {reads} 0 0 0 0 0 {reads} {reads}\n")
    draft.replace(root / "proc/diskstats")


@pytest.mark.skipif(not LIBRARY, reason="faketime is not installed")
@pytest.mark.parametrize(
    ("zone", "jumps"),
    [
        ("UTC", ("+45m", "-2h", "+0")),
        ("UTC", ("-20h", "+10h")),
        # A second before clocks in Berlin are set an hour back, and ahead, in 2026; local time, as faketime reads it.
        ("Europe/Berlin", ("@2026-10-25 02:59:59",)),
        ("Europe/Berlin", ("@2026-03-29 01:59:59",)),
    ],
)
def test_what_was_counted_is_told_once_however_the_clock_is_set(tmp_path, capsys, zone, jumps):
    """By less than a day: for a clock that is years back, what was measured before is of the future, and is refused."""
    lake = tmp_path / "lake"
    open_lake(lake, create=True)
    (lake / "facility.toml").write_text(
        f'[collect]\nroot = "{tmp_path}"\nblock_period = "100ms"\nship_every = "700ms"\n'
    )
    (tmp_path / "proc").mkdir()
    counted = first = 1000
    count_to(tmp_path, counted)
    clock = Clock(tmp_path)
    clock.environment["TZ"] = zone
    clock.set(jumps[0] if jumps[0].startswith("@") else "+0")
    command = ["collect", "block", "--lake", str(lake), "--spool", str(tmp_path / "spool")]
    agent = subprocess.Popen(
        [sys.executable, "-m", "ioweather", *command],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=clock.environment,
    )  # fmt: skip
    try:
        end = time.monotonic() + 30
        while time.monotonic() < end:
            status = tmp_path / "spool/status.json"
            if status.exists() and read_status(tmp_path / "spool").sources[0].runs:
                break
            time.sleep(0.02)
        for offset in jumps if jumps[0].startswith("@") else ("+0", *jumps):
            if not offset.startswith("@"):
                clock.set(offset)
            end = time.monotonic() + 1.5
            while time.monotonic() < end:
                counted += 7
                count_to(tmp_path, counted)
                time.sleep(0.03)
    finally:
        agent.terminate()
        said = agent.communicate(timeout=60)[1]
    assert agent.returncode == 0, said
    assert "Traceback" not in said
    assert not list((tmp_path / "spool/segments").glob("seg-*")), "everything was shipped"
    capsys.readouterr()
    sql = "SELECT start_ns, interval_ns, value FROM series WHERE metric = 'read_ops'"
    assert run(["sql", sql, "--lake", str(lake), "--json"]) == 0
    rows = [tuple(row.values()) for row in json.loads(capsys.readouterr().out)]
    assert all(0 < interval <= 60 * 10**9 for _, interval, _ in rows)
    assert all(value is None or value >= 0 for *_, value in rows)
    raw = sum(value or 0.0 for _, interval, value in rows if interval < 60 * 10**9)
    assert 0.5 * (counted - first) <= raw <= counted - first
