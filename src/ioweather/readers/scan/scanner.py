"""Scan a tree: plan it, walk it in one or several processes, save a state to resume from, and add everything up.

The state is one SQLite file: the directories to walk, the tally, and the files with several names, which may be too
many for the memory. A checkpoint is a commit. Directories that a walker has taken are saved as to be walked until its
result has arrived, so every commit is a consistent state: nothing is lost and nothing is counted twice.
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final

from ioweather.core.errors import LakeError, SourceError, UsageError
from ioweather.core.facility import ProjectRule
from ioweather.core.progress import Progress, silent
from ioweather.core.safe_files import mount_points_below
from ioweather.readers.scan.tally import LinkRecord, Tally
from ioweather.readers.scan.walker import ROOT_ITEM, TASK_SECONDS, Found, Item, Plan, Walker, walk_task

_VERSION: Final = 2
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS links (
    device INTEGER, inode INTEGER, uid INTEGER, gid INTEGER, project TEXT, size INTEGER, capacity INTEGER,
    mtime INTEGER, atime INTEGER, ctime INTEGER, links INTEGER, depth INTEGER, extension TEXT,
    PRIMARY KEY (device, inode)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS notes (name TEXT PRIMARY KEY, value TEXT);
"""
# The first name of a file in this order gives depth, extension and project, whichever walker was faster.
_ADD_LINK: Final = """
INSERT INTO links VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE
SET depth = excluded.depth, extension = excluded.extension, project = excluded.project
WHERE (excluded.depth, excluded.extension, excluded.project) < (links.depth, links.extension, links.project)
"""
# Entries and directories of one task: much more than its trip costs, little enough to share and to lose.
_TASK: Final = 20_000
_DIRECTORIES: Final = 64
# What is walked before another process could start.
_ALONE_ENTRIES: Final = 20_000
_ALONE_SECONDS: Final = 0.5
_CHECKPOINT_SECONDS: Final = 10.0
_LOOK_SECONDS: Final = 0.5
_MOST_DEATHS: Final = 5  # of each worker, one after the other


def signed(number: int) -> int:
    """64 bits read as signed: SQLite and the lake have no others."""
    return number - (1 << 64) if number >= 1 << 63 else number


class ScanState:
    """Used by one process. Without a path it lives in a temporary file and is gone at the end."""

    def __init__(self, path: Path | None = None) -> None:
        # No locks of SQLite's own: they fail on some network file systems; the caller has one.
        place = f"{path.absolute().as_uri()}?nolock=1" if path else ""
        try:
            self._db = sqlite3.connect(place, uri=path is not None, isolation_level=None)
            self._db.executescript(_SCHEMA)
            if self.noted("version") != _VERSION:
                self._db.executescript("DELETE FROM links; DELETE FROM notes")
            self._db.execute("BEGIN")
        except sqlite3.Error as error:
            raise LakeError(
                f"{path}: the state of a scan cannot be kept there: {error}.", hint="Remove the file, or use --restart."
            ) from None
        self.items = [Item(parent, depth, tuple(names)) for parent, depth, names in self.noted("items") or ()]

    def note(self, name: str, value: Any) -> None:
        self._db.execute("INSERT OR REPLACE INTO notes VALUES (?, ?)", (name, json.dumps(value)))

    def noted(self, name: str) -> Any:
        row = self._db.execute("SELECT value FROM notes WHERE name = ?", (name,)).fetchone()
        return json.loads(row[0]) if row else None

    @property
    def usable(self) -> bool:
        """Whether there is a state in it."""
        return self.noted("tally") is not None

    def take(self, directories: int) -> list[Item]:
        """Up to so many directories, the latest first: that keeps the list of what is left short."""
        found: list[Item] = []
        while self.items and directories > 0:
            item = self.items.pop()
            if len(item.names) > directories:
                self.items.append(item._replace(names=item.names[directories:]))
            found.append(item._replace(names=item.names[:directories]))
            directories -= len(item.names)
        return found

    def add_links(self, records: Iterable[LinkRecord]) -> None:
        self._db.executemany(_ADD_LINK, ((signed(r.device), signed(r.inode), *r[2:]) for r in records))

    def links(self) -> Iterator[LinkRecord]:
        return (LinkRecord(*row) for row in self._db.execute("SELECT * FROM links"))

    def checkpoint(self, tally: Tally, under_way: Sequence[Item] = ()) -> None:
        self.note("version", _VERSION)
        self.note("items", [*self.items, *under_way])
        self.note("tally", tally.to_json())
        self._db.execute("COMMIT")
        self._db.execute("BEGIN")

    def close(self) -> None:
        """What is not committed is dropped."""
        if hasattr(self, "_db"):
            self._db.close()

    __del__ = close  # an open database would be complained of


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
    mounts = mount_points_below(str(resolved))
    return Plan(str(resolved), found.st_dev, found.st_ino, start_ns // 10**9, tuple(rules), mounts, listing, rate)


class Scan:
    """A scan under way. `run` ends with the tally of everything; after an interruption another `Scan` with the same
    state goes on. With an `executor` of so many `workers`, this process only begins the walk."""

    def __init__(
        self,
        plan: Plan,
        state: ScanState,
        executor: Executor | None = None,
        workers: int = 1,
        *,
        expected: int | None = None,
        progress: Progress = silent,
        listing: BinaryIO | None = None,
        checkpoint_seconds: float = _CHECKPOINT_SECONDS,
    ) -> None:
        self.plan, self.state, self.executor, self.workers = plan, state, executor, workers
        self.expected, self.progress, self.listing = expected, progress, listing
        self.checkpoint_seconds = checkpoint_seconds
        if state.usable:
            self.tally = Tally.from_json(state.noted("tally"))
        else:
            self.tally = Tally(plan.now_seconds)
            state.items = [ROOT_ITEM]
            state.checkpoint(self.tally)
        self.cpu_seconds: float = state.noted("cpu_seconds") or 0.0  # of earlier runs of the same scan too
        self._under_way: dict[Future[Found], list[Item]] = {}
        self._saved = time.monotonic()
        self._stopping = False

    def run(self) -> Tally:
        """KeyboardInterrupt after Ctrl-C or SIGTERM, with the state saved."""
        with self._held_signals():
            self._walk_here()
            if self.executor is not None:
                self._walk_elsewhere(self.executor)
            self._save()
        if self._stopping:
            raise KeyboardInterrupt
        whole = Tally(self.plan.now_seconds)
        whole.merge(self.tally)
        whole.add_links(self.state.links())
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

    def _walk_here(self) -> None:
        """Walk in this process: the beginning, or everything where there is no other."""
        walker = Walker(self.plan)
        entries, deadline = self.tally.counts["entries"] + _ALONE_ENTRIES, time.monotonic() + _ALONE_SECONDS
        try:
            while self.state.items and not self._stopping:
                if self.executor is not None and (
                    self.tally.counts["entries"] >= entries or time.monotonic() > deadline
                ):
                    return
                self._add(walker.walk(self.state.take(_DIRECTORIES), _TASK, TASK_SECONDS))
        finally:
            walker.close()

    def _walk_elsewhere(self, executor: Executor) -> None:
        """Walk on the workers of an executor, each with its share of the remaining directories."""
        rate, deaths = self.plan.entries_per_s, 0
        plan = self.plan._replace(entries_per_s=rate / self.workers) if rate else self.plan
        try:
            while (self.state.items or self._under_way) and not self._stopping:
                left = sum(len(item.names) for item in self.state.items)
                while self.state.items and len(self._under_way) < self.workers:
                    items = self.state.take(max(1, min(_DIRECTORIES, left // (2 * self.workers))))
                    self._under_way[executor.submit(walk_task, plan, items, _TASK)] = items
                for future in wait(self._under_way, _LOOK_SECONDS, return_when=FIRST_COMPLETED).done:
                    items = self._under_way.pop(future)
                    try:
                        found = future.result()
                    except BrokenExecutor:
                        self.state.items += items
                        deaths += 1
                        if deaths > _MOST_DEATHS * self.workers:
                            raise SourceError(
                                f"Processes that scan {self.plan.root} keep dying.",
                                hint="Look for a lack of memory; --resume goes on from the last checkpoint.",
                            ) from None
                        continue
                    deaths = 0
                    self._add(found)
        finally:
            for future in self._under_way:
                future.cancel()

    def _add(self, found: Found) -> None:
        self.tally.merge(found.tally)
        self.state.items += found.items
        self.state.add_links(found.links)
        self.cpu_seconds += found.cpu_seconds
        if self.listing is not None:
            self.listing.write(found.listing)
        done = self.tally.counts["entries"]
        self.progress(done, None if self.expected is None else max(self.expected, done), "entries")
        if time.monotonic() - self._saved >= self.checkpoint_seconds:
            self._save()

    def _save(self) -> None:
        if self.listing is not None:
            self.listing.flush()
        self.state.note("cpu_seconds", self.cpu_seconds)
        self.state.checkpoint(self.tally, [item for items in self._under_way.values() for item in items])
        self._saved = time.monotonic()
