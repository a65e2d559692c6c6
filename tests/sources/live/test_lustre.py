"""Lustre counters from a tree that changes under the collector."""

from __future__ import annotations

from pathlib import Path

import pytest

from ioweather.core.errors import SourceError
from ioweather.sources.live.lustre import LustreServer
from live_reporter import Heard

OST = "proc/fs/lustre/obdfilter/fs1-OST0000"


def write_tree(root: Path, seconds: int, reads: int) -> None:
    folder = root / OST
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "stats").write_text(
        f"snapshot_time             {seconds}.5 secs.usecs\n"
        f"read_bytes                {reads} samples [bytes] 4096 1048576 {reads * 1048576}\n"
    )
    (folder / "kbytesfree").write_text("1000\n")


def test_amounts_between_snapshots_and_states_once_an_hour(tmp_path):
    server, heard = LustreServer(root=tmp_path, host="oss1"), Heard()
    for seconds, reads in ((1000, 10), (1010, 14), (1020, 14)):
        write_tree(tmp_path, seconds, reads)
        server.cycle(0, heard)
    moved = [row for row in heard.of("series") if row["metric"] == "read_bytes"]
    assert [(row["interval_ns"], row["value"]) for row in moved] == [(10**10, 4.0 * 2**20), (10**10, 0.0)]
    assert (moved[0]["system"], moved[0]["component_kind"], moved[0]["component"]) == ("fs1", "ost", "fs1-OST0000")
    free = [row["value"] for row in heard.of("series") if row["metric"] == "free_bytes"]
    assert free == [1000 * 1024.0]


def test_a_restart_of_the_server_is_a_lower_bound_and_never_negative(tmp_path):
    server, heard = LustreServer(root=tmp_path), Heard()
    for seconds, reads in ((1000, 10), (1010, 3)):
        write_tree(tmp_path, seconds, reads)
        server.cycle(0, heard)
    row = next(row for row in heard.of("series") if row["metric"] == "read_ops")
    assert (row["value"], row["quality"]) == (3.0, 2)


def test_a_server_clock_set_back_is_a_gap_and_nothing_is_told_twice(tmp_path):
    server, heard = LustreServer(root=tmp_path), Heard()
    for n, seconds in enumerate((1000, 1010, 990, 1000, 1010, 1020, 1030)):
        write_tree(tmp_path, seconds, 10 * n)
        server.cycle(0, heard)
    spans = [(row["start_ns"] // 10**9, row["value"]) for row in heard.of("series") if row["metric"] == "read_ops"]
    assert spans == [(1000, 10.0), (1010, 10.0), (1020, 10.0)]
    (gap,) = heard.of("events")
    assert (gap["kind"], gap["component"]) == ("gap", "fs1-OST0000")
    assert gap["start_ns"] < gap["end_ns"]


def test_where_there_is_no_lustre(tmp_path):
    with pytest.raises(SourceError, match="no Lustre"):
        LustreServer(root=tmp_path).prepare(Heard())


@pytest.mark.shared
@pytest.mark.parametrize("version", ["1.8.3", "2.10.8", "2.12.9_12"])
def test_real_trees_are_read(shared_data, version):
    ready = LustreServer(root=shared_data / "lustre" / version).prepare(Heard())
    assert "OST" in ready.message or "MDT" in ready.message
