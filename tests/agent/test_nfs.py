"""NFS counters under a collector whose clock may jump."""

from __future__ import annotations

from pathlib import Path

import pytest

from ioweather.agent.counters import NfsClient, has_nfs
from ioweather.core.errors import SourceError
from live_reporter import HandClock, Heard

NS = 10**9


def write(root: Path, age: int, reads: int) -> None:
    path = root / "proc/self/mountstats"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        "device nas:/export mounted on /scratch with fstype nfs statvers=1.1\n"
        f"\tage:\t{age}\n\tbytes:\t0 0 0 0 {reads * 4096} 0 0 0\n\tper-op statistics\n"
        f"\t        READ: {reads} {reads} 0 0 0 0 {reads} {3 * reads}\n\n"
    )


def test_amounts_and_a_clock_that_is_set(tmp_path: Path):
    clock, heard = HandClock(wall_ns=1000 * NS), Heard()
    client = NfsClient(root=tmp_path, host="node7", clocks=clock.clocks)
    for age, reads, jump_seconds in ((100, 5, 0), (110, 9, 0), (120, 10, -500), (130, 11, 0)):
        clock.step_seconds(jump_seconds)
        write(tmp_path, age, reads)
        client.cycle(0, heard)
        clock.pass_seconds(10)
    moved = [row for row in heard.of("series") if row["metric"] == "read_bytes"]
    assert [(row["start_ns"], row["interval_ns"], row["value"]) for row in moved] == [(1000 * NS, 10 * NS, 4 * 4096.0)]
    assert (moved[0]["system"], moved[0]["component"]) == ("mount:/scratch", "node7")
    assert heard.of("events")  # the clock was set back: a gap, and nothing is told of twice


def test_a_mount_that_comes_later_and_no_mountstats(tmp_path: Path):
    assert not has_nfs(tmp_path)
    with pytest.raises(SourceError, match="Cannot read"):
        NfsClient(root=tmp_path).prepare(Heard())
    write(tmp_path, 1, 1)
    assert has_nfs(tmp_path)
    assert NfsClient(root=tmp_path).prepare(Heard()).message == "/scratch"
