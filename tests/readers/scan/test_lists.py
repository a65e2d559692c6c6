"""Lists of other tools: GNU find's own output gives the histograms of our own scan; lfs find by hand."""

from __future__ import annotations

import gzip
import os
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from error_kinds import source_error
from ioweather.core.contracts import ReadContext
from ioweather.core.errors import CorruptInput, SourceError
from ioweather.readers.scan.lists import FIND
from ioweather.readers.scan.scanner import Scan, ScanState, plan_scan
from ioweather.readers.scan.tally import original_name, stored_text
from scan_trees import counted

SHORT = "%s %b %T@ %A@ %C@ %U %G %n %p"
LONG = "%y %D %i " + SHORT


@pytest.fixture
def tree(tmp_path):
    root = tmp_path / "tree"
    now = int(time.time()) + 1
    for number in range(12):
        folder = root / f"p{number % 3}" / f"run {number}"
        folder.mkdir(parents=True)
        for index in range(8):
            file = folder / f"out{index}.h{index % 3}"
            file.write_bytes(b"x" * number * index * 100)
            os.utime(file, (now - number * 86_400, now - index * number * 86_400))
        os.link(folder / "out3.h0", root / f"again{number}.txt")
    os.close(os.open(os.fsencode(root) + b"/odd\xff\nname.dat", os.O_CREAT | os.O_WRONLY))
    (root / "way").symlink_to("nowhere")
    (root / "empty").mkdir()
    return root, now


def find(root: Path, form: str, *conditions: str) -> bytes:
    return subprocess.run(["find", root, *conditions, "-printf", form], capture_output=True, check=True).stdout


def read(source, path: Path, now: int, frames: dict | None = None, **context) -> dict:
    frames = {} if frames is None else frames
    for table, frame in source.read(path, ReadContext(start_ns=now * 10**9, **context)):
        frames.setdefault(table, []).extend(frame.records())
    return frames


def bins(frames: dict) -> dict:
    """As `counted` gives them: (owner kind, owner, histogram) -> bin -> [count, weight]."""
    found: dict = {}
    for row in (row for row in frames["scan_bins"] if row["owner_kind"] != "project"):
        name, label = row["histogram"], row["bin"]
        owner = int(row["owner"]) if row["owner"] else ""
        found.setdefault((row["owner_kind"], owner, name), {})[int(label)] = [row["count"], row["bytes"]]
    return found


def own_scan(root: Path, now: int) -> dict:
    tally = Scan(plan_scan(root, start_ns=now * 10**9), ScanState()).run()
    return counted(tally)


@pytest.mark.parametrize("end", ["\\n", "\\0"])
@pytest.mark.parametrize("zipped", [False, True])
def test_a_long_list_of_find_gives_what_a_scan_gives(tree, tmp_path, end, zipped):
    root, now = tree
    text = find(root, LONG + end)
    path = tmp_path / "list"
    path.write_bytes(gzip.compress(text) if zipped else text)
    assert FIND.detect(path.read_bytes()[:65_536], path) > 0.5
    frames = read(FIND, path, now)
    assert bins(frames) == own_scan(root, now)
    scan = frames["scans"][0]
    assert scan["root"] == str(root)
    assert scan["system"] == f"mount:{root}"
    assert scan["file_count"] == 12 * 8 + 1
    assert scan["linked_file_count"] == 12
    assert scan["linked_name_count"] == 24
    assert scan["complete"]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("f 1 9 -5 8 1.0 1.0 1.0 0 0 1 ", "size = -5"),
        ("f 1 9 9223372036854775808 8 1.0 1.0 1.0 0 0 1 ", "size = 9223372036854775808"),
        ("f 1 9 5 8 1.0 1.0 1.0 0 -3 1 ", "gid = -3"),
        ("f 1 9 5 99999999999999999999 1.0 1.0 1.0 0 0 1 ", "capacity = "),
    ],
)
def test_an_entry_that_cannot_be_is_left_out_alone(tree, tmp_path, wrong, said):
    root, now = tree
    text = find(root, LONG + "\\0")
    path = tmp_path / "list"
    path.write_bytes(text)
    good = read(FIND, path, now)
    path.write_bytes(
        text + f"{wrong}{root}/evil\0f 1 10 7 8 {16_725_225_600}.0 1.0 1.0 0 0 1 {root}/year2500\0".encode()
    )
    frames: dict = {}
    with pytest.raises(SourceError, match=f"skipped 1 invalid entries.*{said}.*evil"):
        read(FIND, path, now, frames)
    assert frames["scans"][0]["entry_count"] == good["scans"][0]["entry_count"] + 1
    assert not frames["scans"][0]["complete"]
    assert frames["scans"][0]["file_bytes"] == good["scans"][0]["file_bytes"] + 7


def test_lists_that_are_cut_or_broken(tree, tmp_path):
    root, now = tree
    text = find(root, LONG + "\\n")
    path = tmp_path / "list"
    path.write_bytes(text[:-20])
    scan = read(FIND, path, now)["scans"][0]
    assert not scan["complete"]
    path.write_bytes(text[:15])
    with source_error("TruncatedInput"):
        read(FIND, path, now)
    path.write_bytes(b"what is this\n" + text)
    assert FIND.detect(path.read_bytes(), path) == 0
    with pytest.raises(CorruptInput, match="record 1"):
        read(FIND, path, now)
    path.write_bytes(text + b"rubbish\n" * 5000)
    with pytest.raises(CorruptInput, match="most lines"):
        read(FIND, path, now)
    path.write_bytes(gzip.compress(text)[:-30])
    with source_error("TruncatedInput", match="is truncated"):
        read(FIND, path, now)


@given(st.binary(max_size=40))
def test_names_come_back_from_their_text(raw):
    text, escaped = stored_text(os.fsdecode(raw))
    assert original_name(text, escaped) == raw
    text.encode("utf-8")


@pytest.mark.parametrize("osts", ["[3,5]", "[0,1][2,3,4]", "[7][?,?]", "]", ""])
def test_lists_of_lfs_find_with_stripes_are_read(tmp_path, osts):
    """A layout of several parts, one whose later parts have no objects yet, one without any."""
    first = "8 16 1700000000 1700000100 1700000200 1000 100 1 [1] /scratch/first\n"
    (tmp_path / "list").write_text(f"{first}8 16 1700000000 1700000100 -5 1000 100 1 {osts} /scratch/a b\n")
    assert FIND.detect(first.encode(), tmp_path / "list") == 0.9
    scan = read(FIND, tmp_path / "list", 1_700_000_300, system="scratch")["scans"][0]
    assert (scan["file_count"], scan["file_bytes"], scan["root"]) == (2, 16, "/scratch")
