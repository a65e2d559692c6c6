"""`ioweather scan`: what it counts in a tree, an interrupted scan that goes on, and lists that other tools made."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest

import ioweather
from ioweather.ui.cli.main import run

BINS = """SELECT owner_kind, owner, histogram, bin, low, high, count, bytes FROM scan_bins
          WHERE histogram <> 'atime' ORDER BY ALL"""
COUNTS = """SELECT file_count, file_bytes, capacity_bytes, directory_count, symlink_count, linked_name_count,
            linked_file_count, largest_file_bytes, entry_count, complete, errors FROM scans"""


@pytest.fixture
def tree(tmp_path):
    root = tmp_path / "tree"
    now = int(time.time()) - 60
    for number in range(40):
        folder = root / f"p{number % 4}" / f"run {number}" / "out"
        folder.mkdir(parents=True)
        for index in range(8):
            file = folder / f"f{index}.{'h5' if index % 2 else 'DAT'}"
            file.write_bytes(b"x" * number * index * 50)
            os.utime(file, (now, now - number * index * 86_400))
        os.link(folder / "f1.h5", root / f"again{number}")
    (root / "way").symlink_to("nowhere")
    (root / ".snapshot").mkdir()
    (root / ".snapshot" / "old").write_bytes(b"x")
    return root


def rows(lake, sql):
    with ioweather.open_lake(lake).snapshot() as snapshot:
        return snapshot.query(sql).fetchall()


def test_counts_of_a_tree(tree, tmp_path, capsys):
    assert run(["scan", str(tree), "--workers", "1", "--json", "--lake", str(tmp_path / "one")]) == 0
    found = json.loads(capsys.readouterr().out)
    files = [path for path in tree.rglob("*.*") if path.is_file() and ".snapshot" not in path.parts]
    assert found["file_count"] == 320
    assert found["file_bytes"] == sum(path.stat().st_size for path in files)
    assert (found["directory_count"], found["symlink_count"], found["linked_file_count"]) == (85, 1, 40)
    assert (found["linked_name_count"], found["skipped_snapshot_count"]) == (80, 1)
    assert run(["scan", str(tree), "--workers", "2", "--lake", str(tmp_path / "two")]) == 0
    capsys.readouterr()
    for sql in (BINS, COUNTS):
        assert rows(tmp_path / "one", sql) == rows(tmp_path / "two", sql)


@pytest.mark.parametrize("workers", ["1", "2"])
def test_an_interrupted_scan_goes_on(tree, tmp_path, capsys, workers):
    command = [sys.executable, "-m", "ioweather", "scan", str(tree), "--workers", workers]
    slow = subprocess.Popen([*command, "--rate", "200", "--lake", str(tmp_path / "lake")], stderr=subprocess.PIPE)
    state = tmp_path / "lake" / "scans"
    deadline = time.monotonic() + 20
    while not list(state.glob("*.state")) and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.7)
    slow.send_signal(signal.SIGINT)
    assert b"--resume" in slow.communicate(timeout=20)[1]
    assert slow.returncode == 130
    again = ["scan", str(tree), "--workers", workers, "--lake"]
    assert run([*again, str(tmp_path / "lake")]) == 2
    assert run([*again, str(tmp_path / "lake"), "--resume"]) == 0
    assert run([*again, str(tmp_path / "whole")]) == 0
    capsys.readouterr()
    for sql in (BINS, COUNTS):
        assert rows(tmp_path / "lake", sql) == rows(tmp_path / "whole", sql)


def test_lists_of_other_tools_count_the_same(tree, tmp_path, capsys):
    (tree / ".snapshot" / "old").unlink()
    (tree / ".snapshot").rmdir()
    assert run(["scan", str(tree), "--lake", str(tmp_path / "lake")]) == 0
    (start_ns,) = rows(tmp_path / "lake", "SELECT start_ns FROM scans")[0]
    form = "%y %D %i %s %b %T@ %A@ %C@ %U %G %n %p\\n"
    listed = subprocess.run(["find", tree, "-mindepth", "1", "-printf", form], capture_output=True, check=True)
    (tmp_path / "list.txt").write_bytes(listed.stdout)
    listing = [
        "ingest",
        str(tmp_path / "list.txt"),
        "--start",
        f"@{start_ns / 1e9}",
        "--lake",
        str(tmp_path / "listed"),
    ]
    assert run(listing) == 0
    bins = """SELECT histogram, bin, sum(count), sum(bytes) FROM scan_bins
              WHERE owner_kind = 'all' AND histogram IN ('size', 'mtime', 'capacity') GROUP BY ALL"""
    assert sorted(rows(tmp_path / "listed", bins)) == sorted(rows(tmp_path / "lake", bins))
    capsys.readouterr()
