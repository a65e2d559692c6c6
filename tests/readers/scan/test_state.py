"""Checkpoints: a scan that is interrupted anywhere goes on to the same result; nothing twice, nothing lost."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ioweather.core.errors import LakeError, SourceError
from ioweather.readers.scan import scanner, walker
from ioweather.readers.scan.scanner import Scan, ScanState, plan_scan
from ioweather.readers.scan.walker import ROOT_ITEM
from scan_trees import Naive, counted, runs_tree


class Crash(Exception):
    """The power went off."""


@pytest.fixture
def small_tasks(monkeypatch):
    for name, value in (("_TASK", 30), ("_SMALL_TASK", 20), ("_DIRECTORIES", 3), ("_ALONE_ENTRIES", 40)):
        monkeypatch.setattr(scanner, name, value)
    monkeypatch.setattr(walker, "_NAMES_HELD", 3)
    monkeypatch.setattr(walker, "_RECORDS_HELD", 2)


@pytest.fixture
def tree(tmp_path):
    return runs_tree(tmp_path / "tree", 40), int(time.time()) + 1


def scan_of(root: Path, now: int, state: Path, **options) -> Scan:
    return Scan(plan_scan(root, start_ns=now * 10**9), ScanState(state), checkpoint_seconds=0.0, **options)


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("after", [1, 2, 5, 9])
def test_a_crash_anywhere_costs_only_what_was_not_saved(tree, tmp_path, small_tasks, after, workers):
    root, now = tree
    calls = 0

    def crash(done, total, what):
        nonlocal calls
        calls += 1
        if calls == after:
            raise Crash

    first = scan_of(root, now, tmp_path / "state", progress=crash, workers=workers)
    with pytest.raises(Crash):
        first.run()
    first.state.close()
    second = scan_of(root, now, tmp_path / "state", workers=workers)
    assert counted(second.run()) == Naive(root, now).cells


def test_on_a_slow_file_system_a_task_ends_by_time_and_the_scan_goes_on(tree, tmp_path, monkeypatch):
    """Each task reads one directory, however long it took, and gives the others back."""
    root, now = tree
    monkeypatch.setattr(scanner, "TASK_SECONDS", 0.0)
    assert counted(scan_of(root, now, tmp_path / "state").run()) == Naive(root, now).cells
    parts = []
    tally = walker.Walker(plan_scan(root, start_ns=now * 10**9)).walk([ROOT_ITEM], 10**6, parts.append, 0.0)
    assert tally.counts["directories"] == 1
    assert {name for part in parts for item in part.items for name in item.names} == {
        path.name for path in root.iterdir() if path.is_dir()
    }


def test_ctrl_c_saves_and_resume_goes_on(tree, tmp_path, small_tasks):
    root, now = tree
    handler = signal.getsignal(signal.SIGINT)
    stopped = 0
    for _ in range(100):
        signals = iter([signal.SIGINT])

        def interrupt(done, total, what, signals=signals):
            for number in signals:
                os.kill(os.getpid(), number)

        scan = scan_of(root, now, tmp_path / "state", progress=interrupt)
        before = scan.tally.counts["entries"]
        try:
            tally = scan.run()
            break
        except KeyboardInterrupt:
            stopped += 1
            assert scan.tally.counts["entries"] > before
            scan.state.close()
    assert stopped > 3
    assert counted(tally) == Naive(root, now).cells
    assert signal.getsignal(signal.SIGINT) is handler


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_a_process_that_dies_is_replaced_and_its_work_done_by_others(tree, tmp_path, small_tasks, monkeypatch):
    root, now = tree
    killed = []
    real = walker.Crew.messages

    def kill_and_listen(crew, seconds):
        walkers = {child for process in crew.processes for child in children(process.pid)}.difference(killed)
        if walkers and len(killed) < 3:
            killed.append(walkers.pop())
            os.kill(killed[-1], signal.SIGKILL)
        return real(crew, 0.01)

    monkeypatch.setattr(walker.Crew, "messages", kill_and_listen)
    tally = scan_of(root, now, tmp_path / "state", workers=2).run()
    assert len(set(killed)) == 3
    assert counted(tally) == Naive(root, now).cells


def test_processes_that_keep_dying_end_the_scan_with_a_sentence(tree, tmp_path, small_tasks, monkeypatch):
    root, now = tree
    monkeypatch.setattr(walker, "_MODULE", "ioweather.readers.scan.absent")
    with pytest.raises(SourceError, match="keep dying"):
        scan_of(root, now, tmp_path / "state", workers=2).run()


def test_the_listing_has_every_entry_after_a_crash(tree, tmp_path, small_tasks):
    root, now = tree
    calls = 0

    def crash(done, total, what):
        nonlocal calls
        calls += 1
        if calls == 6:
            raise Crash

    listing = io.BytesIO()
    plan = plan_scan(root, start_ns=now * 10**9, listing=True)
    with pytest.raises(Crash):
        Scan(plan, ScanState(tmp_path / "s"), progress=crash, listing=listing, checkpoint_seconds=0.0).run()
    Scan(plan, ScanState(tmp_path / "s"), listing=listing).run()
    paths = {record.split(b" ", 11)[11] for record in listing.getvalue().split(b"\0") if record}
    expected = {os.fsencode(path) for path in root.rglob("*")} | {os.fsencode(root)}
    assert paths == expected


def test_a_damaged_state_is_refused_with_a_hint(tmp_path):
    (tmp_path / "state").write_bytes(b"not a database" * 1000)
    with pytest.raises(LakeError, match="restart"):
        ScanState(tmp_path / "state")


KILLED = """
import sys
from pathlib import Path
from ioweather.readers.scan import scanner
from ioweather.readers.scan.scanner import ScanState
scanner._ALONE_ENTRIES, scanner._TASK, scanner._SMALL_TASK = 50, 100, 50
plan = scanner.plan_scan(Path(sys.argv[1]), start_ns=int(sys.argv[2]) * 10**9, rate=float(sys.argv[4]))
scan = scanner.Scan(plan, ScanState(Path(sys.argv[3])), 2, checkpoint_seconds=0.1)
scan.run()
"""


@pytest.mark.slow
def test_a_scan_that_is_killed_goes_on_and_leaves_no_process_behind(tree, tmp_path):
    root, now = tree
    command = [sys.executable, "-c", KILLED, str(root), str(now), str(tmp_path / "state")]
    environment = {**os.environ, "PYTHONPATH": str(Path(walker.__file__).parents[3])}
    for _ in range(3):
        process = subprocess.Popen([*command, "30"], env=environment)
        time.sleep(2.5)
        (mother,) = children(process.pid)
        assert len(children(mother)) == 2
        started = [mother, *children(mother)]
        process.kill()
        process.wait()
        deadline = time.monotonic() + 20
        while any(Path(f"/proc/{child}").exists() for child in started):
            assert time.monotonic() < deadline, "a walker outlived its scan"
            time.sleep(0.1)
    state = ScanState(tmp_path / "state")
    assert state.tally().counts["entries"] > 30
    assert counted(Scan(plan_scan(root, start_ns=now * 10**9), state).run()) == Naive(root, now).cells
