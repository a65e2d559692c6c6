"""Every histogram equals a naive recomputation, on random trees, however the work is cut and shared."""

# Names are any bytes here, and pathlib knows only text.
from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from ioweather.readers.scan import scanner
from ioweather.readers.scan.scanner import Scan, ScanState, plan_scan
from ioweather.readers.scan.tally import HISTOGRAMS, Tally
from scan_trees import DAY, Naive, counted


def scanned(root: Path, now: int, workers: int = 1, state: ScanState | None = None) -> Tally:
    return Scan(plan_scan(root, start_ns=now * 10**9), state or ScanState(), workers).run()


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


def test_times_after_the_start_count_as_new_and_far_ones_as_to_come(tmp_path):
    start = int(time.time()) - 1000
    for name, moment in (("during", start + 500), ("tomorrow", start + 5000), ("next_year", start + 400 * DAY)):
        (tmp_path / name).write_text("x")
        os.utime(tmp_path / name, (moment, moment))
    os.utime(tmp_path / "during", (-(2**31), start + 500))
    ages = scanned(tmp_path, start).histograms()
    assert {index: cell >> 96 for index, cell in ages["mtime"].items()} == {0: 2, 63: 1}
    assert {index: cell >> 96 for index, cell in ages["atime"].items()} == {0: 1, 63: 1, 16: 1}
