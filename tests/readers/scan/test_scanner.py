"""Counts equal a naive recomputation however the work is cut and shared; an interrupted scan goes on to the same."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from concurrent.futures import BrokenExecutor, Executor, Future
from pathlib import Path

import pytest

from ioweather.core.errors import LakeError, SourceError, UsageError
from ioweather.readers.scan import scanner
from ioweather.readers.scan.scanner import ROOT, Scan, ScanState, plan_scan, walk_task
from ioweather.readers.scan.tally import AGES, SIZES
from scan_trees import DAY, Naive, counted, runs_tree


class Crash(Exception):
    """The power went off."""


class There(Executor):
    """Runs at once, and dies under the tasks whose numbers are named."""

    def __init__(self, deadly=()):
        self.deadly, self.tasks = deadly, 0

    def submit(self, fn, /, *args, **kwargs):
        self.tasks += 1
        future: Future[object] = Future()
        try:
            if self.tasks in self.deadly:
                raise BrokenExecutor
            future.set_result(fn(*args))
        except (BrokenExecutor, UsageError) as error:
            future.set_exception(error)
        return future


@pytest.fixture
def tree(tmp_path, monkeypatch):
    for name, value in (("_TASK", 30), ("_DIRECTORIES", 3), ("_ALONE_ENTRIES", 40)):
        monkeypatch.setattr(scanner, name, value)
    return runs_tree(tmp_path / "tree", 40), int(time.time()) + 1


def scan_of(tree, state: Path | None = None, *workers, **options) -> Scan:
    root, now = tree
    plan = plan_scan(root, start_ns=now * 10**9)
    return Scan(plan, ScanState(state), *workers, checkpoint_seconds=0.0, **options)


def crash_after(calls: int):
    def crash(done, total, what):
        nonlocal calls
        calls -= 1
        if calls == 0:
            raise Crash

    return crash


def test_every_histogram_is_filled_by_a_tree_that_has_everything(tree):
    root, now = tree
    (root / "way").symlink_to("nowhere")
    (root / "many").mkdir()
    os.utime(root / "p1" / "run1" / "f5.dat", (now - 9 * DAY, now - 300 * DAY))
    with (root / "holes").open("wb") as file:
        file.truncate(1 << 30)
    tally = scan_of(tree).run()
    assert {name for name, cells in tally.histograms().items() if cells} == {*AGES, *SIZES}
    assert counted(tally) == Naive(root, now).cells


def test_times_after_the_start_count_as_new_and_far_ones_as_to_come(tmp_path):
    start = int(time.time()) - 1000
    for name, moment in (("during", start + 500), ("tomorrow", start + 5000), ("next_year", start + 400 * DAY)):
        (tmp_path / name).write_text("x")
        os.utime(tmp_path / name, (moment, moment))
    os.utime(tmp_path / "during", (-(2**31), start + 500))
    ages = scan_of((tmp_path, start)).run().histograms()
    assert {index: cell >> 96 for index, cell in ages["mtime"].items()} == {0: 2, 63: 1}
    assert {index: cell >> 96 for index, cell in ages["atime"].items()} == {0: 1, 63: 1, 16: 1}


@pytest.mark.parametrize("deadly", [(), (1,), (2, 5)])
def test_workers_find_what_is_there(tree, deadly):
    executor = There(deadly)
    scan = scan_of(tree, None, executor, 3)
    assert counted(scan.run()) == Naive(*tree).cells
    assert executor.tasks > 5
    assert scan.cpu_seconds > 0


def test_workers_that_keep_dying_end_the_scan_with_a_sentence(tree):
    with pytest.raises(SourceError, match=r"crash repeatedly.*--resume"):
        scan_of(tree, None, There(range(1, 100)), 3).run()


@pytest.mark.parametrize("workers", [(), (There(), 3)])
@pytest.mark.parametrize("after", [1, 2, 5, 9])
def test_a_crash_anywhere_costs_only_what_was_not_saved(tree, tmp_path, after, workers):
    first = scan_of(tree, tmp_path / "state", *workers, progress=crash_after(after))
    with pytest.raises(Crash):
        first.run()
    first.state.close()
    second = scan_of(tree, tmp_path / "state", *workers)
    assert counted(second.run()) == Naive(*tree).cells


def test_a_damaged_state_is_refused_with_a_hint(tmp_path):
    (tmp_path / "state").write_bytes(b"not a database" * 1000)
    with pytest.raises(LakeError, match="restart"):
        ScanState(tmp_path / "state")


def test_a_worker_that_sees_another_tree_is_named(tree):
    root, now = tree
    plan = plan_scan(root, start_ns=now * 10**9)
    with pytest.raises(UsageError, match=r"is not the scanned tree.*same path on all workers"):
        walk_task(plan._replace(inode=plan.inode + 1), [ROOT], 100)
    with pytest.raises(UsageError, match="No such file"):
        walk_task(plan._replace(root=f"{root}-absent"), [ROOT], 100)


KILLED = """
import sys
from pathlib import Path
from ioweather.lake.workers import Processes
from ioweather.readers.scan import scanner
scanner._ALONE_ENTRIES, scanner._TASK, scanner._DIRECTORIES = 20, 30, 2
plan = scanner.plan_scan(Path(sys.argv[1]), start_ns=int(sys.argv[2]) * 10**9, rate=100.0)
scanner.Scan(plan, scanner.ScanState(Path(sys.argv[3])), Processes(2), 2, checkpoint_seconds=0.1).run()
"""


@pytest.mark.slow
def test_a_scan_that_is_killed_goes_on(tree, tmp_path):
    root, now = tree
    environment = {**os.environ, "PYTHONPATH": str(Path(scanner.__file__).parents[3])}
    for _ in range(3):
        command = [sys.executable, "-c", KILLED, str(root), str(now), str(tmp_path / "state")]
        process = subprocess.Popen(command, env=environment)
        time.sleep(2.5)
        process.kill()
        process.wait()
    second = scan_of(tree, tmp_path / "state")
    assert second.tally.counts["entries"] > 20
    assert counted(second.run()) == Naive(root, now).cells
