"""Scan a tree: plan it, walk it in one or several processes, save a state to resume from, and add everything up.

The state has the directories to walk, the files with several names, and the tally, in one SQLite file; a checkpoint
is a commit. Directories that a walker has taken stay in it until their result has arrived, so every commit is a
consistent state: nothing is lost and nothing is counted twice.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from ioweather.core.errors import LakeError, UsageError
from ioweather.core.progress import Progress, silent
from ioweather.core.safe_files import mount_points_below
from ioweather.readers.scan.tally import LinkRecord, Tally, linked_tally
from ioweather.readers.scan.walker import ROOT_ITEM, TASK_SECONDS, Crew, ExecutorCrew, Item, Part, Plan, Walker

_VERSION: Final = 1
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS items (id INTEGER PRIMARY KEY, parent BLOB, depth INTEGER, names BLOB);
CREATE TABLE IF NOT EXISTS arriving (task INTEGER, parent BLOB, depth INTEGER, names BLOB);
CREATE TABLE IF NOT EXISTS links (
    device INTEGER, inode INTEGER, uid INTEGER, gid INTEGER, project TEXT, size INTEGER, capacity INTEGER,
    mtime INTEGER, atime INTEGER, ctime INTEGER, links INTEGER, depth INTEGER, extension TEXT,
    PRIMARY KEY (device, inode)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS notes (name TEXT PRIMARY KEY, value TEXT);
"""
# Of several names of a file the first in this order says depth, extension and project, whoever was faster.
_ADD_LINK: Final = """
INSERT INTO links VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE
SET depth = excluded.depth, extension = excluded.extension, project = excluded.project
WHERE (excluded.depth, excluded.extension, excluded.project) < (links.depth, links.extension, links.project)
"""
# A row of many names is cut, so that several walkers can share the directories of one.
_NAMES_PER_ROW, _ROWS = 8, 128


class ScanState:
    """Used by one process. Without a path it lives in a temporary file and is gone at the end."""

    def __init__(self, path: Path | None = None) -> None:
        # No locks of SQLite's own: they fail on some network file systems; the caller holds one.
        place = f"{path.absolute().as_uri()}?nolock=1" if path else ""
        try:
            self._db = sqlite3.connect(place, uri=path is not None, isolation_level=None)
            self._db.executescript(_SCHEMA)
            self._db.execute("BEGIN")
            # What arrived of tasks that never ended will arrive again.
            self._db.execute("DELETE FROM arriving")
        except sqlite3.Error as error:
            raise LakeError(
                f"{path}: the state of a scan cannot be kept there: {error}.", hint="Remove the file, or use --restart."
            ) from None
        self._taken: set[int] = set()

    def __del__(self) -> None:
        # Whoever drops the state is done with it; an open database would be complained of.
        if hasattr(self, "_db"):
            self._db.close()

    def note(self, name: str, value: Any) -> None:
        self._db.execute("INSERT OR REPLACE INTO notes VALUES (?, ?)", (name, json.dumps(value)))

    def noted(self, name: str) -> Any:
        row = self._db.execute("SELECT value FROM notes WHERE name = ?", (name,)).fetchone()
        return json.loads(row[0]) if row else None

    def begin(self, item: Item) -> None:
        self.note("version", _VERSION)
        self._insert([item])

    @property
    def usable(self) -> bool:
        """Whether there is a state in it, and one that this version wrote."""
        return bool(self.noted("version") == _VERSION)

    def take(self, directories: int) -> tuple[list[int], list[Item]]:
        """Up to so many directories, the latest first: that keeps the list of what is left short."""
        ids: list[int] = []
        items: list[Item] = []
        found = 0
        # Those that are taken lie near the end too; there are never more than the workers hold.
        rows = self._db.execute("SELECT id, parent, depth, names FROM items ORDER BY id DESC")
        for row_id, parent, depth, names in rows:
            if row_id in self._taken:
                continue
            item = Item(os.fsdecode(parent), depth, tuple(os.fsdecode(names).split("\0")))
            if items and found + len(item.names) > directories:
                break
            ids.append(row_id)
            items.append(item)
            found += len(item.names)
        rows.close()
        self._taken.update(ids)
        return ids, items

    def arrived(self, task: int, items: Iterable[Item]) -> None:
        """Directories that a task found, provisional until it is done."""
        self._db.executemany("INSERT INTO arriving VALUES (?, ?, ?, ?)", ((task, *row) for row in _rows(items)))

    def done(self, task: int, ids: list[int]) -> None:
        """The result of a task is in the tally: what it took is walked, what it found is to walk."""
        self._db.executemany("DELETE FROM items WHERE id = ?", ((row_id,) for row_id in ids))
        self._taken.difference_update(ids)
        self._db.execute(
            "INSERT INTO items (parent, depth, names) SELECT parent, depth, names FROM arriving WHERE task = ?", (task,)
        )
        self._db.execute("DELETE FROM arriving WHERE task = ?", (task,))

    def lost(self, task: int, ids: list[int]) -> None:
        """The process of a task died: somebody else takes its directories."""
        self._taken.difference_update(ids)
        self._db.execute("DELETE FROM arriving WHERE task = ?", (task,))

    def left(self, most: int) -> int:
        """Rows that nobody has taken, counted up to `most`."""
        rows = self._db.execute("SELECT count(*) FROM (SELECT 1 FROM items LIMIT ?)", (most + len(self._taken),))
        return max(0, int(rows.fetchone()[0]) - len(self._taken))

    def add_links(self, records: Iterable[LinkRecord]) -> None:
        self._db.executemany(_ADD_LINK, ((signed(r.device), signed(r.inode), *r[2:]) for r in records))

    def links(self) -> Iterator[LinkRecord]:
        return (LinkRecord(*row) for row in self._db.execute("SELECT * FROM links"))

    def checkpoint(self, tally: Tally) -> None:
        self.note("tally", tally.to_json())
        self._db.execute("COMMIT")
        self._db.execute("BEGIN")

    def tally(self) -> Tally:
        return Tally.from_json(self.noted("tally"))

    def close(self) -> None:
        """What is not committed is dropped."""
        self._db.close()

    def _insert(self, items: Iterable[Item]) -> None:
        self._db.executemany("INSERT INTO items (parent, depth, names) VALUES (?, ?, ?)", _rows(items))


def _rows(items: Iterable[Item]) -> Iterator[tuple[bytes, int, bytes]]:
    for item in items:
        each = min(_NAMES_PER_ROW, 1 + len(item.names) // _ROWS)
        for first in range(0, len(item.names), each):
            names = item.names[first : first + each]
            yield os.fsencode(item.parent), item.depth, os.fsencode("\0".join(names))


def signed(number: int) -> int:
    """64 bits read as signed: SQLite and the lake have no others."""
    return number - (1 << 64) if number >= 1 << 63 else number


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
    ) -> None:
        self.plan, self.state, self.workers = plan, state, workers
        self.expected, self.progress, self.listing, self.executor = expected, progress, listing, executor
        self.checkpoint_seconds = checkpoint_seconds
        if self.state.usable:
            self.tally = self.state.tally()
        else:
            self.tally = Tally(self.plan.now_seconds)
            self.state.begin(ROOT_ITEM)
            self.state.checkpoint(self.tally)
        self._saved = time.monotonic()
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
        if time.monotonic() - self._saved >= self.checkpoint_seconds:
            self._save()

    def _save(self) -> None:
        if self.listing is not None:
            self.listing.flush()
        self.state.note("cpu_seconds", self.cpu_seconds)
        self.state.checkpoint(self.tally)
        self._saved = time.monotonic()
