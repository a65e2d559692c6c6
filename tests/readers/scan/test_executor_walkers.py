"""Walkers on a cluster find what one process finds; a lost one costs its task."""

from __future__ import annotations

import io
import time
from concurrent.futures import BrokenExecutor, Executor, Future

import pytest

from ioweather.core.errors import SourceError, UsageError
from ioweather.readers.scan import scanner
from ioweather.readers.scan.scanner import Scan, ScanState, plan_scan
from ioweather.readers.scan.walker import ROOT_ITEM, walk_there
from scan_trees import Naive, counted, runs_tree


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
    for name, value in (("_TASK", 30), ("_SMALL_TASK", 20), ("_DIRECTORIES", 3), ("_ALONE_ENTRIES", 0)):
        monkeypatch.setattr(scanner, name, value)
    return runs_tree(tmp_path / "tree", 30), int(time.time()) + 1


def scan_of(tree, executor) -> Scan:
    root, now = tree
    return Scan(plan_scan(root, start_ns=now * 10**9), ScanState(), 3, executor=executor)


@pytest.mark.parametrize("deadly", [(), (1,), (2, 5)])
def test_the_cluster_finds_what_is_there(tree, deadly):
    executor = There(deadly)
    scan = scan_of(tree, executor)
    assert counted(scan.run()) == Naive(*tree).cells
    assert executor.tasks > 5
    assert scan.cpu_seconds > 0


def test_workers_that_keep_dying_end_the_scan_with_a_sentence(tree):
    with pytest.raises(SourceError, match=r"keep dying.*--resume"):
        scan_of(tree, There(range(1, 100))).run()


def test_the_list_of_entries_is_the_same(tree):
    root, now = tree
    lists = []
    for executor in (None, There()):
        listing = io.BytesIO()
        plan = plan_scan(root, start_ns=now * 10**9, listing=True)
        Scan(plan, ScanState(), 1 if executor is None else 3, listing=listing, executor=executor).run()
        lists.append(sorted(_without_access_times(listing.getvalue())))
    assert lists[0] == lists[1]


def _without_access_times(listing: bytes) -> list[tuple[bytes, ...]]:
    records = [record.split(b" ", 11) for record in listing.split(b"\0") if record]
    return [(*fields[:6], *fields[7:]) for fields in records]


def test_records_carry_the_device_of_the_machine_where_the_scan_began(tree):
    root, now = tree
    plan = plan_scan(root, start_ns=now * 10**9)._replace(device=4711)  # as another machine knows it
    parts, tally, _ = walk_there(plan, [ROOT_ITEM], 10**6)
    assert tally.counts["linked_names"] == 60
    assert {record.device for part in parts for record in part.links} == {4711}


def test_a_worker_that_sees_another_tree_is_named(tree):
    root, now = tree
    plan = plan_scan(root, start_ns=now * 10**9)
    with pytest.raises(UsageError, match=r"does not see .* same place on all workers"):
        walk_there(plan._replace(inode=plan.inode + 1), [ROOT_ITEM], 100)
    with pytest.raises(UsageError, match="No such file"):
        walk_there(plan._replace(root=f"{root}-absent"), [ROOT_ITEM], 100)
