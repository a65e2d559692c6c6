"""Every histogram equals a naive recomputation, on random trees, however the work is cut and shared."""

# Names are any bytes here, and pathlib knows only text.
# ruff: noqa: PTH102, PTH123, PTH211
from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ioweather.readers.scan import scanner, walker
from ioweather.readers.scan.scanner import Scan, ScanState, plan_scan
from ioweather.readers.scan.tally import HISTOGRAMS, Tally
from scan_trees import DAY, Naive, counted

USUAL = [b"a", b"b.h5", b"run.0001", b".hidden", b".rc.txt", b"x.TAR", b"\xff\xfe.dat", b"new\nline.nc", b"\\x41"]


def possible(name: bytes) -> bool:
    return not {0, 47} & set(name) and name not in (b".", b"..")


NAMES = st.one_of(
    st.sampled_from(USUAL),
    st.binary(min_size=1, max_size=30).filter(possible),
    st.text(st.characters(codec="utf-8"), min_size=1, max_size=12).map(os.fsencode).filter(possible),
)
NODES = st.tuples(
    st.sampled_from(["dir", "dir", "file", "file", "file", "sparse", "link", "hard", "fifo"]),
    st.integers(0, 1000),  # which directory
    NAMES,
    st.sampled_from([0, 1, 511, 512, 4095, 4096, 4097, 65_536, 1 << 20, (1 << 20) - 1]),
    st.integers(0, 900 * DAY),  # age
    st.sampled_from([(0, 0), (1001, 100), (1001, 200), (1002, 100)]),
)  # fmt: skip


def build(root: Path, nodes: list[tuple[str, int, bytes, int, int, tuple[int, int]]], now: int) -> None:
    folders = [os.fsencode(root)]
    files: list[bytes] = []
    for kind, which, name, size, age, owner in nodes:
        path = folders[which % len(folders)] + b"/" + name
        if os.path.lexists(path):
            continue
        if kind == "dir":
            os.mkdir(path)
            folders.append(path)
        elif kind == "link":
            os.symlink(b"x" * (size % 300 + 1), path)
        elif kind == "fifo":
            os.mkfifo(path)
        elif kind == "hard" and files:
            os.link(files[which % len(files)], path)
        else:
            with open(path, "wb") as file:
                file.truncate(size << 12) if kind == "sparse" else file.write(b"x" * size)
            if os.geteuid() == 0:
                os.chown(path, *owner)
            os.utime(path, (now - age // 2, now - age))
            files.append(path)


def scanned(root: Path, now: int, workers: int = 1, state: ScanState | None = None) -> Tally:
    return Scan(plan_scan(root, start_ns=now * 10**9), state or ScanState(), workers).run()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(nodes=st.lists(NODES, max_size=60), small=st.booleans())
def test_histograms_equal_a_naive_recomputation(nodes, small, monkeypatch):
    folder = Path(tempfile.mkdtemp())
    try:
        with monkeypatch.context() as patch:
            if small:  # the same tree in tiny pieces: every limit is reached
                for module, name, value in [
                    (walker, "_LEVELS", 2), (walker, "_NAMES_HELD", 2), (walker, "_RECORDS_HELD", 1),
                    (walker, "_BATCH", 3), (walker, "_SIGN_OF_LIFE", 2), (scanner, "_TASK", 4),
                    (scanner, "_DIRECTORIES", 2), (walker.Pace, "__init__", tiny_chunks),
                ]:  # fmt: skip
                    patch.setattr(module, name, value)
            now = int(time.time()) + 1
            build(folder, nodes, now)
            expected, tally = Naive(folder, now), scanned(folder, now)
        found = counted(tally)
        assert {key: cells for key, cells in found.items() if cells} == expected.cells
        for name, count in expected.counts.items():
            assert tally.counts[name] == count, name
    finally:
        shutil.rmtree(folder)


def tiny_chunks(self, entries_per_s):
    self._rate, self._due, self.chunk = None, 0.0, 2


@pytest.fixture
def tree(tmp_path):
    """Two hundred directories, 2,000 files."""
    now = int(time.time()) + 1
    for number in range(200):
        folder = tmp_path / "tree" / f"p{number % 7}" / f"q{number % 5}" / f"run{number}"
        folder.mkdir(parents=True)
        for index in range(10):
            file = folder / f"out{index}.h{index % 3}"
            file.write_bytes(b"x" * (number * index))
            os.utime(file, (now - number * DAY, now - index * number * DAY))
    os.link(folder / "out1.h1", tmp_path / "tree" / "same.h1")
    return tmp_path / "tree", now


def test_every_histogram_is_filled_by_a_tree_that_has_everything(tree):
    root, now = tree
    (root / "way").symlink_to("nowhere")
    with (root / "holes").open("wb") as file:
        file.truncate(1 << 30)
    tally = scanned(root, now)
    assert {name for name, cells in tally.histograms().items() if cells} == set(HISTOGRAMS)


@pytest.mark.parametrize("workers", [2, 3])
def test_processes_find_what_one_finds(tree, workers, monkeypatch):
    root, now = tree
    alone = counted(scanned(root, now))
    for name, value in (("_ALONE_ENTRIES", 50), ("_TASK", 200), ("_SMALL_TASK", 50), ("_DIRECTORIES", 4)):
        monkeypatch.setattr(scanner, name, value)
    together = scanned(root, now, workers)
    assert counted(together) == alone == Naive(root, now).cells
    assert together.counts["entries"] == 2000 + 1 + 200 + 7 + 35


def test_parts_add_up_to_the_whole(tree):
    """Tallies of disjoint subtrees merge to the tally of all, in any order and through JSON."""
    root, now = tree
    (root / "same.h1").unlink()
    parts = [scanned(root / f"p{i}", now) for i in range(7)]
    forward, backward = Tally(now), Tally(now)
    for part in parts:
        forward.merge(Tally.from_json(json.loads(json.dumps(part.to_json()))))
    for part in reversed(parts):
        backward.merge(part)
    assert counted(forward) == counted(backward)
    assert forward.counts == backward.counts
    assert forward.histograms()["age_size"] == scanned(root, now).histograms()["age_size"]
    assert sorted(v for v, _, _ in forward.largest["files"]) == sorted(v for v, _, _ in backward.largest["files"])


def test_times_after_the_start_count_as_new_and_far_ones_as_to_come(tmp_path):
    start = int(time.time()) - 1000
    for name, moment in (("during", start + 500), ("tomorrow", start + 5000), ("next_year", start + 400 * DAY)):
        (tmp_path / name).write_text("x")
        os.utime(tmp_path / name, (moment, moment))
    os.utime(tmp_path / "during", (-(2**31), start + 500))
    ages = scanned(tmp_path, start).histograms()
    assert {index: cell >> 96 for index, cell in ages["mtime"].items()} == {0: 2, 63: 1}
    assert {index: cell >> 96 for index, cell in ages["atime"].items()} == {0: 1, 63: 1, 16: 1}


def test_the_largest_are_found(tree):
    root, now = tree
    tally = scanned(root, now)
    sizes = sorted((p.stat().st_size for p in root.rglob("out*")), reverse=True)
    assert sorted((v for v, _, _ in tally.largest["files"]), reverse=True) == sizes[:20]
    value, path, _ = max(tally.largest["directories_by_bytes"])
    assert path == str(root / "p2" / "q3" / "run198")  # run199 has a file with two names, which is in no one directory
    assert value == 198 * 45
