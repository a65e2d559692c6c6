"""An agent whose clock is set while it runs, by faketime(1): forward and back, by hand and by summer time."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ioweather.lake.lake import open_lake

pytestmark = pytest.mark.real
LIBRARY = next(map(str, Path("/usr/lib").glob("*/faketime/libfaketime.so.1")), "")


def replace(path: Path, text: str) -> None:
    draft = path.with_name("draft")
    draft.write_text(text)
    draft.replace(path)


@pytest.mark.skipif(not LIBRARY, reason="faketime is not installed")
@pytest.mark.parametrize(
    ("zone", "clocks"),
    [
        ("UTC", ("+0", "+45m", "-2h", "+0")),
        ("UTC", ("+0", "-20h", "+10h")),
        ("Europe/Berlin", ("@2026-10-25 02:59:59",)),  # a second before clocks are set an hour back
    ],
)
def test_what_was_counted_is_told_once_however_the_clock_is_set(tmp_path, zone, clocks):
    """By less than a day: for a clock that is years back, what was measured before is of the future, and is refused."""
    lake, first = open_lake(tmp_path / "lake", create=True), 1000
    (lake.root / "facility.toml").write_text(
        f'[collect]\nroot = "{tmp_path}"\nblock_period = "100ms"\nship_every = "700ms"\n'
    )
    (tmp_path / "proc").mkdir()
    counted = first
    replace(tmp_path / "clock", clocks[0])
    environment = {
        **os.environ, "TZ": zone, "LD_PRELOAD": LIBRARY, "FAKETIME_TIMESTAMP_FILE": str(tmp_path / "clock"),
        "FAKETIME_NO_CACHE": "1", "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }  # fmt: skip
    command = ["agent", "run", "block", "--lake", str(lake.root), "--spool", str(tmp_path / "spool"), "--for", "9s"]
    with subprocess.Popen(
        [sys.executable, "-m", "ioweather", *command], stderr=subprocess.PIPE, text=True, env=environment
    ) as agent:
        begin = None
        while agent.poll() is None:
            counted += 7
            replace(tmp_path / "proc/diskstats", f" 8 0 sda {counted} 0 {8 * counted} 0 0 0 0 0 0 0 0\n")
            if begin is None and list(tmp_path.glob("spool/segments/.seg-*")):
                begin = time.monotonic()
            if begin is not None and not clocks[0].startswith("@"):
                replace(tmp_path / "clock", clocks[min(int((time.monotonic() - begin) / 1.5), len(clocks) - 1)])
            time.sleep(0.03)
        said = agent.communicate()[1]
    assert (agent.returncode, "Traceback" in said) == (0, False), said
    assert not list((tmp_path / "spool/segments").glob("seg-*")), "everything was shipped"
    rows = lake.sql("SELECT interval_ns, value FROM series WHERE metric = 'read_ops' AND value IS NOT NULL").rows
    assert all(0 < interval <= 60 * 10**9 and value >= 0 for interval, value in rows)
    assert 0 < sum(value for _, value in rows) <= counted - first
