"""Walk directories by descriptor and count their entries: one stat per entry, columns instead of objects.

A walker gets a few directories and a budget of entries and of time. It gives back directories that it has not reached
when one of them is used up, so that another process can take them. Nothing can lead a walk astray: directories are
opened by descriptor, never through a link, only to read.

Walkers run in child processes or as tasks of an executor on a cluster. A fresh interpreter starts once and forks for
each walker. Children are not waited for at the end: one that hangs in a dead file system never ends. A worker elsewhere
must see the same tree; it may have another number for the device, and records carry that of the machine where the scan
began.
"""

from __future__ import annotations

import errno
import gc
import os
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future
from concurrent.futures import wait as wait_for_futures
from contextlib import suppress
from itertools import islice
from multiprocessing.connection import Connection, Pipe, wait
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from ioweather.core.errors import SourceError, UsageError
from ioweather.readers.scan.tally import Files, LinkRecord, Owner, Projects, Tally, extension_of_name

if TYPE_CHECKING:
    from ioweather.core.facility import ProjectRule

# Directory entries that lead to older states of the same tree.
SNAPSHOTS: Final = frozenset({".snap", ".snapshot", ".snapshots", ".zfs"})

_READ: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_PASS: Final = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Gone, or something else than the directory it was when it was listed.
GONE: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ESTALE})


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


def _error_name(error: OSError) -> str:
    return errno.errorcode.get(error.errno or 0, type(error).__name__)


def joined(parent: str, name: str) -> str:
    """The path of a directory; '.' is the place itself."""
    if name == ".":
        return parent
    return f"{parent}/{name}" if parent else name


_CHUNK: Final = 512  # entries of a directory that are examined together: they fit into the CPU's caches


class Plan(NamedTuple):
    """What all walkers of one scan know. `root` is absolute and has no links; `mounts` are places not to enter."""

    root: str
    device: int
    inode: int
    now_seconds: int
    rules: tuple[ProjectRule, ...] = ()
    mounts: frozenset[str] = frozenset()
    skipped: frozenset[str] = SNAPSHOTS
    listing: bool = False
    entries_per_s: float | None = None
    device_here: int | None = None  # what a walker on another machine knows `device` as

    @property
    def own_device(self) -> int:
        return self.device if self.device_here is None else self.device_here


class Item(NamedTuple):
    """Directories to walk: names in one parent, which is a path below the root. The root itself is '.' in ''."""

    parent: str
    depth: int
    names: tuple[str, ...]


ROOT_ITEM: Final = Item("", 0, (".",))


class Part:
    """Partial result that a walker hands over before it is done, which bounds its memory."""

    def __init__(self) -> None:
        self.items: list[Item] = []
        self.links: list[LinkRecord] = []
        self.listing = bytearray()
        self.entries = 0


class Pace:
    """At most so many entries per second, evened out over any second."""

    def __init__(self, entries_per_s: float | None) -> None:
        self._rate = entries_per_s
        self._due = time.monotonic()
        self.chunk = _CHUNK if entries_per_s is None else max(1, min(_CHUNK, int(entries_per_s / 10)))

    def passed(self, entries: int) -> None:
        if self._rate is None:
            return
        now = time.monotonic()
        self._due = max(self._due, now - 1.0) + entries / self._rate
        if self._due > now:
            time.sleep(self._due - now)


_BATCH: Final = 1024  # files of one owner that are counted together
TASK_SECONDS: Final = 0.5
_LEVELS: Final = 100  # descriptors open at once; deeper directories are given back
_NAMES_HELD: Final = 10_000
_RECORDS_HELD: Final = 5_000
_LISTING_HELD: Final = 1 << 20
_SIGN_OF_LIFE: Final = 50_000  # entries after which a giant directory reports that it is being read
_MOST_BYTES: Final = 1 << 60
_FARTHEST_NS: Final = 1 << 63  # the table has no later times
_REGULAR, _LINK, _FOLDER = 0o10, 0o12, 0o4
_KINDS: Final = {_REGULAR: "f", _LINK: "l", _FOLDER: "d", 0o1: "p", 0o14: "s", 0o2: "c", 0o6: "b"}


class _Level(NamedTuple):
    fd: int
    relative: str
    depth: int
    names: list[str]


class _Place:
    """The directory being read, and its counts so far."""

    def __init__(self, path: str, depth: int) -> None:
        self.path = path
        self.depth = depth
        self.entries = self.files = self.held_bytes = 0


class Walker:
    """Stateless between calls of `walk` but for the open root."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._own_device = plan.own_device
        self._pace = Pace(plan.entries_per_s)
        self._projects = Projects(plan.rules)
        self._root_fd = open_to_read(plan.root)
        self._tally = Tally(plan.now_seconds)
        self._waiting: dict[Owner, list[list[Any]]] = {}  # columns of `Files` that are not counted yet
        self._names: list[str] = []
        self._part = Part()
        self._emit: Callable[[Part], None] = lambda part: None
        self._held_names = 0
        self._left = 0
        self._begun = self._seconds = 0.0
        self._has_entered = False

    @property
    def same_root(self) -> bool:
        """Whether the root is still the directory that the plan was made for."""
        found = os.fstat(self._root_fd)
        return (found.st_dev, found.st_ino) == (self._own_device, self._plan.inode)

    def close(self) -> None:
        os.close(self._root_fd)

    def walk(
        self, items: Iterable[Item], budget: int, emit: Callable[[Part], None], seconds: float = TASK_SECONDS
    ) -> Tally:
        """Count the items and what is below them, about `budget` entries or so long; the rest is emitted as items."""
        self._tally, self._emit, self._left = Tally(self._plan.now_seconds), emit, budget
        self._begun, self._seconds, self._has_entered = time.monotonic(), seconds, False
        for item in items:
            if self._is_over:
                self._give_back(item)
            else:
                self._walk_item(item)
        self._count_waiting()
        self._hand_over()
        return self._tally

    @property
    def _is_over(self) -> bool:
        """Never before a directory was read: where one takes longer than a task, the scan goes on too."""
        return self._left <= 0 or (self._has_entered and time.monotonic() - self._begun > self._seconds)

    def _walk_item(self, item: Item) -> None:
        try:
            fd = open_below(self._root_fd, item.parent)
        except OSError as error:
            for name in item.names:
                self._cannot_enter(joined(item.parent, name), error)
            return
        stack = [_Level(fd, item.parent, item.depth, list(item.names))]
        try:
            while stack:
                level = stack[-1]
                if not level.names:
                    os.close(stack.pop().fd)
                elif self._is_over:
                    self._give_back(Item(level.relative, level.depth, tuple(level.names)))
                    level.names.clear()
                else:
                    below = self._enter(level, level.names.pop())
                    if below is not None and len(stack) >= _LEVELS:
                        self._give_back(Item(below.relative, below.depth, tuple(below.names)))
                        os.close(below.fd)
                    elif below is not None:
                        stack.append(below)
        finally:
            for level in stack:
                os.close(level.fd)

    def _enter(self, level: _Level, name: str) -> _Level | None:
        """Read one directory; a level where it has directories of its own."""
        relative = joined(level.relative, name)
        self._has_entered = True
        try:
            fd = open_to_read(name, level.fd)
        except OSError as error:
            self._cannot_enter(relative, error)
            return None
        keep = False
        try:
            found = os.fstat(fd)
            if found.st_dev != self._own_device:
                self._tally.counts["other_filesystems"] += 1
                return None
            folders = self._read(fd, relative, level.depth, found)
            keep = bool(folders)
        finally:
            if not keep:
                os.close(fd)
        return _Level(fd, relative, level.depth + 1, folders) if keep else None

    def _read(self, fd: int, relative: str, depth: int, found: os.stat_result) -> list[str]:
        """Count what is in a directory; returns the directories in it."""
        place = _Place(self._full(relative), depth)
        folders: list[str] = []
        try:
            with os.scandir(fd) as listing:
                while True:
                    chunk: list[os.DirEntry[str]] = []
                    try:
                        chunk.extend(islice(listing, self._pace.chunk))
                    finally:  # what came before an error is good
                        folders += self._count_chunk(chunk, place)
                    if not chunk:
                        break
                    if len(folders) > _NAMES_HELD:
                        self._give_back(Item(relative, depth + 1, tuple(folders)))
                        folders.clear()
        except OSError as error:
            self._tally.counts["unreadable"] += 1
            self._tally.trouble(place.path, _error_name(error))
        tally = self._tally
        tally.add_directory(place.path, found.st_uid, place.entries, max(0, found.st_size), place.held_bytes)
        if place.files:
            tally.add("depth", depth + 1, place.files, place.held_bytes)
            tally.add("link_count", 1, place.files, place.held_bytes)
        if self._plan.listing:
            self._list(found, place.path)
        return folders

    def _count_chunk(self, entries: list[os.DirEntry[str]], place: _Place) -> list[str]:
        if not entries:
            return []
        folders: list[os.DirEntry[str]] = []
        rest = entries
        try:
            folders = [entry for entry in entries if entry.is_dir(follow_symlinks=False)]
            if folders:
                rest = [entry for entry in entries if not entry.is_dir(follow_symlinks=False)]
            stats = [entry.stat(follow_symlinks=False) for entry in rest]
        except OSError:
            folders, rest, stats = self._one_by_one(entries, place)
        if stats:
            self._count_files([entry.name for entry in rest], stats, place)
        number = len(entries)
        place.entries += number
        self._tally.counts["entries"] += number
        self._left -= number
        self._part.entries += number
        if len(self._names) >= _BATCH:
            self._count_names()
        if self._part.entries >= _SIGN_OF_LIFE or self._full_part():
            self._hand_over()
        self._pace.passed(number)
        return self._to_enter([entry.name for entry in folders], place) if folders else []

    def _to_enter(self, folders: list[str], place: _Place) -> list[str]:
        self._names += folders
        entered = []
        for name in folders:
            if name in self._plan.skipped:
                self._tally.counts["snapshots"] += 1
            elif self._plan.mounts and _inside(place, name) in self._plan.mounts:
                self._tally.counts["other_filesystems"] += 1
            else:
                entered.append(name)
        return entered

    def _one_by_one(
        self, entries: list[os.DirEntry[str]], place: _Place
    ) -> tuple[list[os.DirEntry[str]], list[os.DirEntry[str]], list[os.stat_result]]:
        """The same where an entry has gone or cannot be looked at. What was looked at before is remembered in it."""
        folders, rest, stats = [], [], []
        for entry in entries:
            try:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry)
                    continue
                found = entry.stat(follow_symlinks=False)
            except OSError as error:
                if error.errno in GONE:
                    self._tally.counts["vanished"] += 1
                else:
                    self._tally.counts["not_examined"] += 1
                    self._tally.trouble(_inside(place, entry.name), _error_name(error))
                continue
            rest.append(entry)
            stats.append(found)
        return folders, rest, stats

    def _count_files(self, names: list[str], stats: list[os.stat_result], place: _Place) -> None:
        tally = self._tally
        for name, found in zip(names, stats, strict=True):
            # The kernel may pass on any number of a server; a negative size would reduce the sum of all others.
            if found.st_size < 0 or not 0 <= found.st_blocks << 9 <= _MOST_BYTES:
                tally.counts["not_examined"] += 1
                tally.trouble(_inside(place, name), "impossible size")
                continue
            self._names.append(name)
            if self._plan.listing:
                self._list(found, _inside(place, name))
            kind = found.st_mode >> 12
            if kind == _LINK:
                tally.counts["symlinks"] += 1
                tally.add("symlink_length", found.st_size.bit_length(), 1, found.st_size)
            elif kind != _REGULAR:
                tally.counts["others"] += 1
            elif found.st_nlink > 1:
                self._count_linked(name, found, place)
            else:
                times = (found[stat.ST_MTIME], found[stat.ST_ATIME], found[stat.ST_CTIME])  # in whole seconds
                row = (name, found.st_size, found.st_blocks << 9, *times)
                for column, value in zip(self._waiting_of(found.st_uid, found.st_gid, place), row, strict=True):
                    column.append(value)
                place.files += 1
                place.held_bytes += found.st_size
                tally.note("files", found.st_size, _inside(place, name), found.st_uid)
        if sum(len(names) for names, *_ in self._waiting.values()) >= _BATCH:
            self._count_waiting()

    def _count_linked(self, name: str, found: os.stat_result, place: _Place) -> None:
        self._tally.counts["linked_names"] += 1
        owner = self._projects.owner(found.st_uid, found.st_gid, place.path)
        record = LinkRecord(
            device=self._device(found),
            inode=found.st_ino,
            uid=found.st_uid,
            gid=found.st_gid,
            project=owner.project or "",
            size=found.st_size,
            capacity=found.st_blocks << 9,
            mtime=found.st_mtime_ns // 10**9,
            atime=found.st_atime_ns // 10**9,
            ctime=found.st_ctime_ns // 10**9,
            links=found.st_nlink,
            depth=place.depth + 1,
            extension=extension_of_name(name),
        )
        self._part.links.append(record)
        self._tally.note("files", found.st_size, _inside(place, name), found.st_uid)

    def _device(self, found: os.stat_result) -> int:
        """As the machine knows it where the scan began."""
        return self._plan.device if found.st_dev == self._own_device else found.st_dev

    def _waiting_of(self, uid: int, gid: int, place: _Place) -> list[list[Any]]:
        return self._waiting.setdefault(self._projects.owner(uid, gid, place.path), [[], [], [], [], [], []])

    def _count_waiting(self) -> None:
        seen = int(time.time())
        for owner, (names, size, capacity, mtime, atime, ctime) in self._waiting.items():
            self._tally.add_files(owner, Files(names, size, capacity, mtime, atime, ctime), seen)
        self._waiting.clear()
        self._count_names()

    def _count_names(self) -> None:
        self._tally.add_names(self._names)
        self._names = []

    def _cannot_enter(self, relative: str, error: OSError) -> None:
        if error.errno in GONE:
            self._tally.counts["vanished"] += 1
            return
        self._tally.counts["unreadable"] += 1
        self._tally.counts["directories"] += 1
        self._tally.trouble(self._full(relative), _error_name(error))

    def _full(self, relative: str) -> str:
        return f"{self._plan.root.rstrip('/')}/{relative}" if relative else self._plan.root

    def _list(self, found: os.stat_result, path: str) -> None:
        """A record as `find -printf '%y %D %i %s %b %T@ %A@ %C@ %U %G %n %p\\0'` writes it."""
        kind = _KINDS.get(found.st_mode >> 12, "U")
        moments: tuple[int, ...] = (found.st_mtime_ns, found.st_atime_ns, found.st_ctime_ns)
        if max(moments) > _FARTHEST_NS or min(moments) < -_FARTHEST_NS:
            moments = tuple(max(-_FARTHEST_NS, min(_FARTHEST_NS, moment)) for moment in moments)
        times = " ".join(f"{moment // 10**9}.{moment % 10**9:09d}" for moment in moments)
        head = f"{kind} {self._device(found)} {found.st_ino} {found.st_size} {found.st_blocks} {times} "
        owner = f"{found.st_uid} {found.st_gid} {found.st_nlink} "
        self._part.listing += (head + owner).encode() + os.fsencode(path) + b"\0"

    def _give_back(self, item: Item) -> None:
        self._part.items.append(item)
        self._held_names += len(item.names)
        if self._full_part():
            self._hand_over()

    def _full_part(self) -> bool:
        part = self._part
        return self._held_names > _NAMES_HELD or len(part.links) > _RECORDS_HELD or len(part.listing) > _LISTING_HELD

    def _hand_over(self) -> None:
        if self._part.items or self._part.links or self._part.listing or self._part.entries:
            self._emit(self._part)
        self._part = Part()
        self._held_names = 0


def _inside(place: _Place, name: str) -> str:
    return f"{place.path}/{name}" if place.path != "/" else f"/{name}"


_MODULE: Final = "ioweather.readers.scan.walker"
_MOST_DEATHS: Final = 5
Found: TypeAlias = tuple[list[Part], Tally, float]


class Member:
    """One walker. `task` is the number of its task (0: idle), `ids` are the rows of the state that it has taken."""

    def __init__(self, connection: Connection | None = None) -> None:
        self.connection = connection
        self.future: Future[Found] | None = None
        self.task = 0
        self.ids: list[int] = []


class Crew:
    """Walkers in processes of this machine."""

    def __init__(self, plan: Plan, size: int) -> None:
        self._plan = plan
        self._deaths = 0
        self.cpu_seconds = 0.0  # of tasks elsewhere: the system counts that of children as ours
        self.processes: list[subprocess.Popen[bytes]] = []  # each leads a process group of walkers
        self.members: list[Member] = []
        self._start(size)

    def _start(self, size: int) -> None:
        pairs = [Pipe() for _ in range(size)]
        theirs = [there.fileno() for _, there in pairs]
        self.processes.append(
            subprocess.Popen(
                [sys.executable, "-c", f"from {_MODULE} import main; main()", *map(str, theirs)],
                pass_fds=theirs,
                stdin=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                process_group=0,
            )
        )
        for here, there in pairs:
            there.close()
            self.members.append(Member(here))
            _send(here, self._plan)

    def give(self, member: Member, items: list[Item], budget: int) -> None:
        assert member.connection is not None
        _send(member.connection, (items, budget))

    def messages(self, timeout_seconds: float) -> Iterator[tuple[Member, Part | Tally | None]]:
        """Messages that arrive in time. None: the walker died, and its task is undone."""
        by_connection = {member.connection: member for member in self.members if member.connection is not None}
        for ready in wait(list(by_connection), timeout_seconds):
            assert isinstance(ready, Connection)
            member = by_connection[ready]
            try:
                message = ready.recv()
            except (EOFError, ConnectionResetError):
                yield member, None
                ready.close()
                self.members.remove(member)
                self._count_death()
                self._start(1)
                continue
            yield member, message

    def _count_death(self) -> None:
        self._deaths += 1
        if self._deaths > _MOST_DEATHS:
            raise SourceError(
                f"Processes that scan {self._plan.root} keep dying.",
                hint="Look for a lack of memory; --resume goes on from the last checkpoint.",
            )

    def close(self) -> None:
        for member in self.members:
            if member.connection is not None:
                member.connection.close()
        for process in self.processes:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
        for process in self.processes:
            try:
                process.wait(timeout=2)
            except subprocess.TimeoutExpired:
                # In the kernel, waiting for a server. It ends when that answers; do not wait for it.
                process.returncode = -9
        self.members.clear()


def _send(connection: Connection, message: object) -> None:
    """Send a message; a dead process shows when the next message is received from it."""
    with suppress(BrokenPipeError, ConnectionResetError):
        connection.send(message)


class ExecutorCrew(Crew):
    """Walkers that are tasks of an executor, one task at a time each."""

    def __init__(self, plan: Plan, executor: Executor, size: int) -> None:
        self._executor = executor
        super().__init__(plan, size)

    def _start(self, size: int) -> None:
        self.members += [Member() for _ in range(size)]

    def give(self, member: Member, items: list[Item], budget: int) -> None:
        member.future = self._executor.submit(walk_there, self._plan, items, budget)

    def messages(self, timeout_seconds: float) -> Iterator[tuple[Member, Part | Tally | None]]:
        by_future = {member.future: member for member in self.members if member.future is not None}
        for future in wait_for_futures(by_future, timeout_seconds, return_when=FIRST_COMPLETED).done:
            member = by_future[future]
            member.future = None
            try:
                parts, tally, spent = future.result()
            except BrokenExecutor:
                self._count_death()
                yield member, None
                continue
            self.cpu_seconds += spent
            yield from ((member, part) for part in parts)
            yield member, tally

    def close(self) -> None:
        for member in self.members:
            if member.future is not None:
                member.future.cancel()
        super().close()


def walk_there(plan: Plan, items: list[Item], budget: int) -> Found:
    """In a worker of an executor: parts, tally and processor seconds of one task."""
    spent = time.process_time()
    parts: list[Part] = []
    try:
        walker = Walker(plan._replace(device_here=os.stat(plan.root).st_dev))  # noqa: PTH116
    except OSError as error:
        raise _other_tree(plan, error.strerror or str(error)) from None
    try:
        if not walker.same_root:
            raise _other_tree(plan, "it is another directory")
        tally = walker.walk(items, budget, parts.append)
    finally:
        walker.close()
    return parts, tally, time.process_time() - spent


def _other_tree(plan: Plan, why: str) -> UsageError:
    return UsageError(
        f"A worker on {socket.gethostname()} does not see {plan.root} as this machine does: {why}.",
        hint="Scan a file system that is mounted at the same place on all workers.",
    )


def serve(connection: Connection) -> None:
    """In a child: the plan comes first, then (items, budget) again and again."""
    walker = Walker(connection.recv())
    while True:
        items, budget = connection.recv()
        connection.send(walker.walk(items, budget, connection.send))


def main() -> None:
    """Fork for each descriptor in sys.argv, and wait for the children, so that their CPU time counts as the scanner's.

    Ctrl-C goes to the whole group; the scanner takes it and closes the connections.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Millions of short-lived tuples and no cycles among them: looking for cycles costs a tenth of the time.
    gc.disable()
    descriptors = {int(word) for word in sys.argv[1:]}
    for own in descriptors:
        if os.fork() == 0:
            for other in descriptors - {own}:
                os.close(other)
            with suppress(EOFError, BrokenPipeError, ConnectionResetError):
                serve(Connection(own))
            return
    for descriptor in descriptors:
        os.close(descriptor)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for _ in descriptors:
        os.wait()
