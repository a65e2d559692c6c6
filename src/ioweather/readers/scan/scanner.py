"""Scan a tree: plan it, walk it in one or several processes, keep a state to go on from, and add everything up."""

from __future__ import annotations

import gc
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from ioweather.core.errors import UsageError
from ioweather.core.progress import Progress, silent
from ioweather.core.safe_files import mount_points_below
from ioweather.readers.scan.state import ScanState
from ioweather.readers.scan.tally import Tally, linked_tally
from ioweather.readers.scan.walker import ROOT_ITEM, TASK_SECONDS, Part, Plan, Walker
from ioweather.readers.scan.walkers import Crew, ExecutorCrew

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from ioweather.core.facility import ProjectRule

# Entries of one task: much more than its trip costs, little enough to share and to lose. Small ones while there is
# less left than there are hands.
_TASK, _SMALL_TASK = 20_000, 2_000
_DIRECTORIES: Final = 64
# What is walked before another process could start.
_ALONE_ENTRIES: Final = 10_000
_ALONE_SECONDS: Final = 0.1
_CHECKPOINT_SECONDS: Final = 10.0
_LOOK_SECONDS: Final = 0.5


def plan_scan(
    root: Path, *, start_ns: int, rules: Sequence[ProjectRule] = (), listing: bool = False, rate: float | None = None
) -> Plan:
    """Look at the root; refuse what is not a directory."""
    resolved = Path(os.path.realpath(root))
    try:
        found = resolved.stat()
    except OSError as error:
        raise UsageError(f"{root} cannot be scanned: {error.strerror}.", hint="Name a directory.") from None
    if not resolved.is_dir():
        raise UsageError(f"{root} is not a directory.", hint="Name a directory, or use `ioweather ingest` for a list.")
    return Plan(
        root=str(resolved),
        device=found.st_dev,
        inode=found.st_ino,
        now_seconds=start_ns // 10**9,
        rules=tuple(rules),
        mounts=mount_points_below(str(resolved)),
        listing=listing,
        entries_per_s=rate,
    )


def processor_seconds() -> float:
    """Of this process and of those that it waited for."""
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system


class Scan:
    """A scan under way. `run` ends with the tally of everything; after an interruption another `Scan` with the same
    state goes on. `executor` has walkers elsewhere, in place of processes of our own."""

    def __init__(
        self,
        plan: Plan,
        state: ScanState,
        workers: int = 1,
        expected: int | None = None,
        progress: Progress = silent,
        listing: BinaryIO | None = None,
        executor: Executor | None = None,
        checkpoint_seconds: float = _CHECKPOINT_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.plan, self.state, self.workers = plan, state, workers
        self.expected, self.progress, self.listing, self.executor = expected, progress, listing, executor
        self.checkpoint_seconds, self.clock = checkpoint_seconds, clock
        if self.state.usable:
            self.tally = self.state.tally()
        else:
            self.tally = Tally(self.plan.now_seconds)
            self.state.begin(ROOT_ITEM)
            self.state.checkpoint(self.tally)
        self._saved = self.clock()
        self._spent = (self.state.noted("cpu_seconds") or 0.0) - processor_seconds()
        self._task = 0
        self._under_way: dict[int, int] = {}
        self._stopping = False

    @property
    def cpu_seconds(self) -> float:
        """Processor time so far, that of earlier runs of the same scan included."""
        return self._spent + processor_seconds()

    def run(self) -> Tally:
        """KeyboardInterrupt after Ctrl-C or SIGTERM, with the state saved."""
        with self._held_signals(), self._own_walker() as walker:
            self._alone(walker)
            if not self._stopping and self.state.left(1):
                self._together()
            self._save()
        if self._stopping:
            raise KeyboardInterrupt
        whole = Tally(self.plan.now_seconds)
        whole.merge(self.tally)
        whole.merge(linked_tally(self.state.links(), self.plan.now_seconds))
        return whole

    @contextmanager
    def _held_signals(self) -> Iterator[None]:
        """A result is either in the tally and off the list, or neither: so signals wait until it is. A second one
        does not; then the last checkpoint counts."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def stop(number: int, frame: Any) -> None:
            if self._stopping:
                raise KeyboardInterrupt
            self._stopping = True

        before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    @contextmanager
    def _own_walker(self) -> Iterator[Walker]:
        try:
            walker = Walker(self.plan)
        except OSError as error:
            raise UsageError(
                f"{self.plan.root} cannot be read: {error.strerror}.", hint="Run as a user who may list it."
            ) from None
        collecting = gc.isenabled()
        gc.disable()  # as the worker does, and for the same reason
        try:
            if not walker.same_root:
                raise UsageError(f"{self.plan.root} was replaced while the scan began.", hint="Start it again.")
            yield walker
        finally:
            walker.close()
            if collecting:
                gc.enable()

    def _alone(self, walker: Walker) -> None:
        """In this process: all of a small tree, and everything where one process is asked for."""
        entries = self.tally.counts["entries"] + _ALONE_ENTRIES
        begun = time.monotonic()
        while not self._stopping:
            if self.workers == 1:
                budget, seconds = _TASK, TASK_SECONDS
            else:
                budget, seconds = _SMALL_TASK, begun + _ALONE_SECONDS - time.monotonic()
                if seconds <= 0 or self.tally.counts["entries"] >= entries:
                    return
            ids, items = self.state.take(_DIRECTORIES)
            if not items:
                return
            self._task += 1
            self._result(self._task, ids, walker.walk(items, budget, partial(self._part, self._task), seconds))

    def _together(self) -> None:
        """In several processes, each with its share of the remaining directories."""
        rate = self.plan.entries_per_s
        plan = self.plan._replace(entries_per_s=rate / self.workers) if rate else self.plan
        size, executor = self.workers, self.executor
        crew = Crew(plan, size) if executor is None else ExecutorCrew(plan, executor, size)
        try:
            while not self._stopping:
                share = self.state.left(2 * _DIRECTORIES * size) // (2 * size)
                for member in crew.members:
                    if member.task == 0:
                        member.ids, items = self.state.take(max(1, share))
                        if items:
                            self._task += 1
                            member.task = self._task
                            crew.give(member, items, _TASK if share > 1 else _SMALL_TASK)
                if not any(member.task for member in crew.members):
                    return
                for member, message in crew.messages(_LOOK_SECONDS):
                    if isinstance(message, Part):
                        self._part(member.task, message)
                        continue
                    if message is None:
                        self.state.lost(member.task, member.ids)
                        self._under_way.pop(member.task, None)
                    else:
                        self._result(member.task, member.ids, message)
                    member.task, member.ids = 0, []
                self._save_when_due()
        finally:
            self._spent += crew.cpu_seconds
            crew.close()

    def _part(self, task: int, part: Part) -> None:
        self.state.arrived(task, part.items)
        self.state.add_links(part.links)
        if self.listing is not None:
            self.listing.write(part.listing)
        self._under_way[task] = self._under_way.get(task, 0) + part.entries
        self._report()

    def _result(self, task: int, ids: list[int], found: Tally) -> None:
        self.tally.merge(found)
        self.state.done(task, ids)
        self._under_way.pop(task, None)
        self._report()
        self._save_when_due()

    def _report(self) -> None:
        done = self.tally.counts["entries"] + sum(self._under_way.values())
        total = None if self.expected is None else max(self.expected, done)
        self.progress(done, total, "entries")

    def _save_when_due(self) -> None:
        if self.clock() - self._saved >= self.checkpoint_seconds:
            self._save()

    def _save(self) -> None:
        if self.listing is not None:
            self.listing.flush()
        self.state.note("cpu_seconds", self.cpu_seconds)
        self.state.checkpoint(self.tally)
        self._saved = self.clock()
