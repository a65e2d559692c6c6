"""Lustre counters from a tree that changes under the collector."""

from __future__ import annotations

from pathlib import Path

import pytest

from ioweather.agent.counters import LustreServer
from ioweather.core.errors import SourceError
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


def test_the_server_of_each_target_is_reported_once_a_day(tmp_path):
    server, heard = LustreServer(root=tmp_path, host="oss1"), Heard()
    for seconds in (1000, 1010):
        write_tree(tmp_path, seconds, 1)
        server.cycle(0, heard)
    (row,) = heard.of("components")
    assert (row["system"], row["kind"], row["component"], row["server"]) == ("fs1", "ost", "fs1-OST0000", "oss1")


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


def write_jobs(root: Path, *jobs: tuple[str, int, int], begun: int = 900) -> None:
    folder = root / OST
    folder.mkdir(parents=True, exist_ok=True)
    entries = "".join(
        f'- job_id:          "{job}"\n  snapshot_time:   {last}.000000000 secs.nsecs\n'
        f"  start_time:      {begun}.000000000 secs.nsecs\n"
        f"  write_bytes:     {{ samples: {writes}, unit: bytes, min: 1, max: 1, sum: {writes * 100}, hist: {{ }} }}\n"
        for job, last, writes in jobs
    )
    (folder / "job_stats").write_text("job_stats:\n" + entries)


def test_jobs_that_moved_are_told_and_no_others(tmp_path):
    server, heard = LustreServer(root=tmp_path, host="oss1", cluster="big"), Heard()
    write_jobs(tmp_path, ("7", 1000, 5), ("dd:0:n1", 1000, 1))
    server.cycle(0, heard)
    assert heard.of("job_operations") == []  # what was before this agent is nobody's guess
    write_jobs(tmp_path, ("7", 1010, 9), ("dd:0:n1", 1000, 1))
    server.cycle(0, heard)
    (row,) = heard.of("job_operations")
    assert (row["job_id"], row["cluster"], row["operation"], row["count"], row["bytes"]) == (7, "big", "write", 4, 400)
    assert (row["start_ns"], row["interval_ns"], row["quality"]) == (1000 * 10**9, 10**10, 0)
    write_jobs(tmp_path, ("dd:0:n1", 1000, 1))
    server.cycle(0, heard)
    write_jobs(tmp_path, ("dd:0:n1", 1000, 1), ("7", 1100, 2), begun=1090)
    server.cycle(0, heard)
    back = [row for row in heard.of("job_operations") if row["job_key"] == "7"][-1]
    assert (back["start_ns"], back["count"], back["quality"]) == (1090 * 10**9, 2, 2)


def test_an_entry_without_end_is_refused(tmp_path):
    folder = tmp_path / OST
    folder.mkdir(parents=True)
    (folder / "job_stats").write_bytes(b"job_stats:\n- job_id: x" + b" " * (1 << 20))
    with pytest.raises(SourceError, match="maximum length"):
        LustreServer(root=tmp_path).cycle(0, Heard())


def test_where_there_is_no_lustre(tmp_path):
    with pytest.raises(SourceError, match="No Lustre"):
        LustreServer(root=tmp_path).prepare(Heard())


def test_copied_trees_are_read(samples):
    trees = [path for path in (samples / "lustre").iterdir() if path.name not in ("get_param", "gsi-2.x")]
    assert trees
    for tree in trees:
        ready = LustreServer(root=tree).prepare(Heard())
        assert "OST" in ready.message or "MDT" in ready.message, tree
