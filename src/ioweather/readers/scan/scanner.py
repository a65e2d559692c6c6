"""Walk directories by descriptor and count their entries: one stat per entry.

A task is a few directories and a budget of entries and of time. It gives back directories that it has not reached when
one of them is used up, so that another process can take them. Nothing can lead a walk astray: directories are opened by
descriptor, never through a link, only to read.

A worker elsewhere must see the same tree; it may have another number for the device, and records carry that of the
machine where the scan began.

The state of a scan is one SQLite file: the directories to walk, the tally, and the files with several names, which may
be too many for the memory. A checkpoint is a commit. Directories that a walker has taken are saved as to be walked
until its result has arrived, so every commit is a consistent state: nothing is lost and nothing is counted twice.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import socket
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

from ioweather.core.errors import LakeError, SourceError, UsageError
from ioweather.core.facility import ProjectRule
from ioweather.core.logs import Progress, silent
from ioweather.core.safe_files import mount_points_below
from ioweather.readers.scan.tally import LinkRecord, Projects, Tally

# Directory entries that lead to older states of the same tree.
SNAPSHOTS: Final = frozenset({".snap", ".snapshot", ".snapshots", ".zfs"})
# Gone, or something else than the directory it was when it was listed.
GONE: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ESTALE})
TASK_SECONDS: Final = 0.5

_READ: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_PASS: Final = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_CHUNK: Final = 512
_MOST_BYTES: Final = 1 << 60
_REGULAR, _LINK = 0o10, 0o12


def open_to_read(name: str, parent_fd: int | None = None) -> int:
    """A directory to list. Its access time stays as it is where we may ask for that: as its owner, or as root."""
    try:
        return os.open(name, _READ | os.O_NOATIME, dir_fd=parent_fd)
    except OSError as error:
        if error.errno != errno.EPERM:
            raise
    return os.open(name, _READ, dir_fd=parent_fd)


def open_below(root_fd: int, relative: str) -> int:
    """A directory to open others from. Each step is taken alone, so paths longer than PATH_MAX do no harm and no
    step can be a link."""
    fd = os.dup(root_fd)
    for step in filter(None, relative.split("/")):
        try:
            following = os.open(step, _PASS, dir_fd=fd)
        finally:
            os.close(fd)
        fd = following
    return fd


class Plan(NamedTuple):
    """What all walkers of one scan know. `root` is absolute and has no links; `mounts` are places not to enter."""

    root: str
    device: int
    inode: int
    now_seconds: int
    rules: tuple[ProjectRule, ...] = ()
    mounts: frozenset[str] = frozenset()
    entries_per_s: float | None = None


class Directories(NamedTuple):
    """Directories to walk: names in one parent, which is a path below the root. The root itself is '.' in ''."""

    parent: str
    names: tuple[str, ...]


ROOT: Final = Directories("", (".",))


@dataclass
class TaskResult:
    """Result of a task: counts, directories that are left, files with several names."""

    tally: Tally
    items: list[Directories]
    links: list[LinkRecord] = field(default_factory=list)
    cpu_seconds: float = 0.0


class Walker:
    """Walks the tree of a plan. Refuses a root that is not the directory that the plan was made for."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._projects = Projects(plan.rules)
        try:
            self._root_fd = open_to_read(plan.root)
        except OSError as error:
            raise _other_tree(plan, error.strerror or str(error)) from None
        found = os.fstat(self._root_fd)
        self._device = found.st_dev
        if found.st_ino != plan.inode:
            self.close()
            raise _other_tree(plan, "it is a different directory")
        self._found = TaskResult(Tally(plan.now_seconds), [])

    def close(self) -> None:
        os.close(self._root_fd)

    def walk(self, items: Sequence[Directories], budget: int, seconds: float = TASK_SECONDS) -> TaskResult:
        """Count the items and what is below them, about `budget` entries or so long. At least one directory is read:
        where one takes longer than a task, the scan goes on too."""
        started, spent = time.monotonic(), time.process_time()
        self._found = found = TaskResult(Tally(self._plan.now_seconds, int(time.time())), list(items))
        has_read = False
        while found.items and not (has_read and self._is_over(budget, started + seconds)):
            item = found.items.pop()
            try:
                parent_fd = open_below(self._root_fd, item.parent)
            except OSError as error:
                for name in item.names:
                    self._cannot_enter(_joined(item.parent, name), error)
                continue
            try:
                for place, name in enumerate(item.names):
                    if has_read and self._is_over(budget, started + seconds):
                        found.items.append(item._replace(names=item.names[place:]))
                        break
                    self._count_directory(parent_fd, _joined(item.parent, name), name)
                    has_read = True
            finally:
                os.close(parent_fd)
        found.cpu_seconds = time.process_time() - spent
        return found

    def _is_over(self, budget: int, deadline: float) -> bool:
        """Whether the task has used up its entries or its time."""
        return self._found.tally.counts["entries"] >= budget or time.monotonic() > deadline

    def _count_directory(self, parent_fd: int, relative: str, name: str) -> None:
        """Count the entries of directory `name`, whose path below the root is `relative`; queue its subdirectories.

        Does not cross into other file systems. Reads at most `entries_per_s` of the plan, in chunks of 0.1 s.
        """
        tally, rate = self._found.tally, self._plan.entries_per_s
        chunk_size = _CHUNK if rate is None else max(1, min(_CHUNK, int(rate / 10)))
        try:
            fd = open_to_read(name, parent_fd)
        except OSError as error:
            self._cannot_enter(relative, error)
            return
        folders: list[str] = []
        path = self._full(relative)
        try:
            status = os.fstat(fd)
            if status.st_dev != self._device:
                tally.counts["other_filesystems"] += 1
                return
            try:
                with os.scandir(fd) as listing:
                    while chunk := list(islice(listing, chunk_size)):
                        folders += self._count_chunk(chunk, path)
                        if rate is not None:
                            time.sleep(len(chunk) / rate)
            except OSError as error:
                tally.counts["unreadable"] += 1
                tally.add_trouble(path, _error_name(error))
        finally:
            os.close(fd)
        tally.add_directory(max(0, status.st_size))
        if folders:
            self._found.items.append(Directories(relative, tuple(folders)))

    def _count_chunk(self, entries: Sequence[os.DirEntry[str]], path: str) -> list[str]:
        """Count the entries; returns the directories to enter."""
        tally, folders = self._found.tally, []
        tally.counts["entries"] += len(entries)
        for entry in entries:
            name = entry.name
            try:
                if not entry.is_dir(follow_symlinks=False):
                    self._count(name, entry.stat(follow_symlinks=False), path)
                    continue
            except OSError as error:
                if error.errno in GONE:
                    tally.counts["vanished"] += 1
                else:
                    tally.counts["not_examined"] += 1
                    tally.add_trouble(_inside(path, name), _error_name(error))
                continue
            if name in SNAPSHOTS:
                tally.counts["snapshots"] += 1
            elif self._plan.mounts and _inside(path, name) in self._plan.mounts:
                tally.counts["other_filesystems"] += 1
            else:
                folders.append(name)
        return folders

    def _count(self, name: str, status: os.stat_result, directory: str) -> None:
        """Count an entry that is no directory."""
        tally, size, capacity, links = self._found.tally, status.st_size, status.st_blocks << 9, status.st_nlink
        # The kernel may pass on any number of a server; a negative size would reduce the sum of all others.
        if size < 0 or not 0 <= capacity <= _MOST_BYTES:
            tally.counts["not_examined"] += 1
            tally.add_trouble(_inside(directory, name), "impossible size")
            return
        kind = status.st_mode >> 12
        if kind == _LINK:
            tally.counts["symlinks"] += 1
        elif kind != _REGULAR:
            tally.counts["others"] += 1
        else:
            owner = self._projects.owner(status.st_uid, status.st_gid, directory)
            # As a tuple, a status has its times in whole seconds.
            atime, mtime, ctime = map(int, status[7:10])
            tally.note_largest(size, _inside(directory, name), status.st_uid)
            if links <= 1:
                tally.add_file(owner, 1, size, capacity, mtime, atime, ctime)
            else:
                tally.counts["linked_names"] += 1
                device, project = self._device_of(status), owner.project or ""
                about = (size, capacity, mtime, atime, ctime, links)
                record = LinkRecord(device, status.st_ino, owner.uid, owner.gid, project, *about)
                self._found.links.append(record)

    def _device_of(self, status: os.stat_result) -> int:
        """The device number on the machine where the scan began."""
        return self._plan.device if status.st_dev == self._device else status.st_dev

    def _cannot_enter(self, relative: str, error: OSError) -> None:
        """Count a directory that cannot be opened: vanished, or unreadable with an example."""
        tally = self._found.tally
        if error.errno in GONE:
            tally.counts["vanished"] += 1
            return
        tally.counts["unreadable"] += 1
        tally.counts["directories"] += 1
        tally.add_trouble(self._full(relative), _error_name(error))

    def _full(self, relative: str) -> str:
        """The absolute path of a path below the root."""
        return f"{self._plan.root.rstrip('/')}/{relative}" if relative else self._plan.root


def walk_task(plan: Plan, items: Sequence[Directories], budget: int) -> TaskResult:
    """Walk one task in a worker of an executor."""
    walker = Walker(plan)
    try:
        return walker.walk(items, budget)
    finally:
        walker.close()


def _other_tree(plan: Plan, why: str) -> UsageError:
    """The error of a worker that does not see the tree of the plan."""
    return UsageError(
        f"{plan.root} on {socket.gethostname()} is not the scanned tree: {why}.",
        hint="Mount it at the same path on all workers, and run as a user with permission to list it.",
    )


def _error_name(error: OSError) -> str:
    return errno.errorcode.get(error.errno or 0, type(error).__name__)


def _inside(directory: str, name: str) -> str:
    return f"{directory}/{name}" if directory != "/" else f"/{name}"


def _joined(parent: str, name: str) -> str:
    """The path of a directory; '.' is the place itself."""
    if name == ".":
        return parent
    return f"{parent}/{name}" if parent else name


_VERSION: Final = 3
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS links (
    device INTEGER, inode INTEGER, uid INTEGER, gid INTEGER, project TEXT, size INTEGER, capacity INTEGER,
    mtime INTEGER, atime INTEGER, ctime INTEGER, links INTEGER,
    PRIMARY KEY (device, inode)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS notes (name TEXT PRIMARY KEY, value TEXT);
"""
# Of several projects the first by name counts, whichever walker was faster.
_ADD_LINK: Final = """
INSERT INTO links VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET project = excluded.project WHERE excluded.project < links.project
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
    """The SQLite file of a scan, used by one process. Without a path it is temporary."""

    def __init__(self, path: Path | None = None) -> None:
        # No locks of SQLite's own: they fail on some network file systems; the caller has one.
        place = f"{path.absolute().as_uri()}?nolock=1" if path else ""
        try:
            self._db = sqlite3.connect(place, uri=path is not None, isolation_level=None)
            self._db.executescript(_SCHEMA)
            if self.load_note("version") != _VERSION:
                self._db.executescript(f"DROP TABLE links; DROP TABLE notes; {_SCHEMA}")
            self._db.execute("BEGIN")
        except sqlite3.Error as error:
            raise LakeError(
                f"Cannot store the state of the scan in {path}: {error}.", hint="Remove the file, or use --restart."
            ) from None
        self.items = [Directories(parent, tuple(names)) for parent, names in self.load_note("items") or ()]

    def save_note(self, name: str, value: Any) -> None:
        """Store a JSON value by name."""
        self._db.execute("INSERT OR REPLACE INTO notes VALUES (?, ?)", (name, json.dumps(value)))

    def load_note(self, name: str) -> Any:
        """The value stored by name; None if there is none."""
        row = self._db.execute("SELECT value FROM notes WHERE name = ?", (name,)).fetchone()
        return json.loads(row[0]) if row else None

    @property
    def usable(self) -> bool:
        """Whether it has the checkpoint of a scan."""
        return self.load_note("tally") is not None

    def take(self, directories: int) -> list[Directories]:
        """Up to so many directories, the latest first: that keeps the list of what is left short."""
        found: list[Directories] = []
        while self.items and directories > 0:
            item = self.items.pop()
            if len(item.names) > directories:
                self.items.append(item._replace(names=item.names[directories:]))
            found.append(item._replace(names=item.names[:directories]))
            directories -= len(item.names)
        return found

    def add_links(self, records: Iterable[LinkRecord]) -> None:
        """Store files with several names: one record for each, whatever name is seen first."""
        self._db.executemany(_ADD_LINK, ((signed(r.device), signed(r.inode), *r[2:]) for r in records))

    def links(self) -> Iterator[LinkRecord]:
        """All files with several names, once each."""
        return (LinkRecord(*row) for row in self._db.execute("SELECT * FROM links"))

    def checkpoint(self, tally: Tally, under_way: Sequence[Directories] = ()) -> None:
        """Commit the tally and the directories that are left, with those that walkers have taken."""
        self.save_note("version", _VERSION)
        self.save_note("items", [*self.items, *under_way])
        self.save_note("tally", tally.to_json())
        self._db.execute("COMMIT")
        self._db.execute("BEGIN")

    def close(self) -> None:
        """What is not committed is dropped."""
        if hasattr(self, "_db"):
            self._db.close()

    __del__ = close  # an open database would be complained of


def plan_scan(root: Path, *, start_ns: int, rules: Sequence[ProjectRule] = (), rate: float | None = None) -> Plan:
    """The plan of a scan of a directory. Raises UsageError for anything else."""
    resolved = Path(os.path.realpath(root))
    try:
        found = resolved.stat()
    except OSError as error:
        raise UsageError(f"Cannot scan {root}: {error.strerror}.", hint="Use a directory.") from None
    if not resolved.is_dir():
        raise UsageError(f"{root} is not a directory.", hint="Use a directory, or `ioweather ingest` for a list.")
    mounts = mount_points_below(str(resolved))
    return Plan(str(resolved), found.st_dev, found.st_ino, start_ns // 10**9, tuple(rules), mounts, rate)


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
        checkpoint_seconds: float = _CHECKPOINT_SECONDS,
    ) -> None:
        self.plan, self.state, self.executor, self.workers = plan, state, executor, workers
        self.expected, self.progress = expected, progress
        self.checkpoint_seconds = checkpoint_seconds
        if state.usable:
            self.tally = Tally.from_json(state.load_note("tally"))
        else:
            self.tally = Tally(plan.now_seconds)
            state.items = [ROOT]
            state.checkpoint(self.tally)
        self.cpu_seconds: float = state.load_note("cpu_seconds") or 0.0  # of earlier runs of the same scan too
        self._under_way: dict[Future[TaskResult], list[Directories]] = {}
        self._saved = time.monotonic()
        self._stopping = False

    def run(self) -> Tally:
        """The tally of the whole tree. Raises KeyboardInterrupt after Ctrl-C or SIGTERM, with the state saved."""
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
        """Delay SIGINT and SIGTERM until a result is counted and its directories are off the list. A second signal
        interrupts at once; then the last checkpoint counts."""
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
                                f"Processes that scan {self.plan.root} crash repeatedly.",
                                hint="Check whether the host ran out of memory. Use --resume to continue.",
                            ) from None
                        continue
                    deaths = 0
                    self._add(found)
        finally:
            for future in self._under_way:
                future.cancel()

    def _add(self, found: TaskResult) -> None:
        """Add the result of a task; make a checkpoint if the last is old."""
        self.tally.merge(found.tally)
        self.state.items += found.items
        self.state.add_links(found.links)
        self.cpu_seconds += found.cpu_seconds
        done = self.tally.counts["entries"]
        self.progress(done, None if self.expected is None else max(self.expected, done), "entries")
        if time.monotonic() - self._saved >= self.checkpoint_seconds:
            self._save()

    def _save(self) -> None:
        """Make a checkpoint."""
        self.state.save_note("cpu_seconds", self.cpu_seconds)
        self.state.checkpoint(self.tally, [item for items in self._under_way.values() for item in items])
        self._saved = time.monotonic()
