"""Walk directories by descriptor and count their entries: one stat per entry.

A task is a few directories and a budget of entries and of time. It gives back directories that it has not reached when
one of them is used up, so that another process can take them. Nothing can lead a walk astray: directories are opened by
descriptor, never through a link, only to read.

A worker elsewhere must see the same tree; it may have another number for the device, and records carry that of the
machine where the scan began.
"""

from __future__ import annotations

import errno
import os
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, NamedTuple

from ioweather.core.errors import UsageError
from ioweather.core.facility import ProjectRule
from ioweather.readers.scan.tally import LinkRecord, Projects, Tally, extension_of_name

# Directory entries that lead to older states of the same tree.
SNAPSHOTS: Final = frozenset({".snap", ".snapshot", ".snapshots", ".zfs"})
# Gone, or something else than the directory it was when it was listed.
GONE: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ESTALE})
TASK_SECONDS: Final = 0.5

_READ: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_PASS: Final = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_CHUNK: Final = 512
_MOST_BYTES: Final = 1 << 60
_FARTHEST_NS: Final = 1 << 63  # the table has no later times
_REGULAR, _LINK = 0o10, 0o12
_KINDS: Final = {_REGULAR: "f", _LINK: "l", 0o4: "d", 0o1: "p", 0o14: "s", 0o2: "c", 0o6: "b"}


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
    listing: bool = False
    entries_per_s: float | None = None


class Item(NamedTuple):
    """Directories to walk: names in one parent, which is a path below the root. The root itself is '.' in ''."""

    parent: str
    depth: int
    names: tuple[str, ...]


ROOT_ITEM: Final = Item("", 0, (".",))


@dataclass
class Found:
    """Result of a task: counts, directories that are left, files with several names, the list of entries."""

    tally: Tally
    items: list[Item]
    links: list[LinkRecord] = field(default_factory=list)
    listing: bytearray = field(default_factory=bytearray)
    cpu_seconds: float = 0.0


@dataclass
class _Place:
    """The directory being read, and its counts so far."""

    path: str
    depth: int
    entries: int = 0
    held_bytes: int = 0

    def inside(self, name: str) -> str:
        return f"{self.path}/{name}" if self.path != "/" else f"/{name}"


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
            raise _other_tree(plan, "it is another directory")
        self._found = Found(Tally(plan.now_seconds), [])

    def close(self) -> None:
        os.close(self._root_fd)

    def walk(self, items: Sequence[Item], budget: int, seconds: float = TASK_SECONDS) -> Found:
        """Count the items and what is below them, about `budget` entries or so long. At least one directory is read:
        where one takes longer than a task, the scan goes on too."""
        started, spent = time.monotonic(), time.process_time()
        self._found = found = Found(Tally(self._plan.now_seconds, int(time.time())), list(items))
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
                    self._enter(parent_fd, _joined(item.parent, name), name, item.depth)
                    has_read = True
            finally:
                os.close(parent_fd)
        found.cpu_seconds = time.process_time() - spent
        return found

    def _is_over(self, budget: int, deadline: float) -> bool:
        return self._found.tally.counts["entries"] >= budget or time.monotonic() > deadline

    def _enter(self, parent_fd: int, relative: str, name: str, depth: int) -> None:
        """Count what is in one directory; the directories in it are left to walk."""
        tally = self._found.tally
        try:
            fd = open_to_read(name, parent_fd)
        except OSError as error:
            self._cannot_enter(relative, error)
            return
        folders: list[str] = []
        try:
            status = os.fstat(fd)
            if status.st_dev != self._device:
                tally.counts["other_filesystems"] += 1
                return
            place = _Place(self._full(relative), depth)
            rate = self._plan.entries_per_s
            try:
                with os.scandir(fd) as listing:
                    while chunk := list(
                        islice(listing, _CHUNK if rate is None else max(1, min(_CHUNK, int(rate / 10))))
                    ):
                        folders += self._count_chunk(chunk, place)
                        if rate is not None:
                            time.sleep(len(chunk) / rate)
            except OSError as error:
                tally.counts["unreadable"] += 1
                tally.trouble(place.path, _error_name(error))
        finally:
            os.close(fd)
        tally.add_directory(place.path, status.st_uid, place.entries, max(0, status.st_size), place.held_bytes)
        if self._plan.listing:
            self._list(status, place.path)
        if folders:
            self._found.items.append(Item(relative, depth + 1, tuple(folders)))

    def _count_chunk(self, entries: Sequence[os.DirEntry[str]], place: _Place) -> list[str]:
        """Count the entries; returns the directories to enter."""
        tally, folders = self._found.tally, []
        place.entries += len(entries)
        tally.counts["entries"] += len(entries)
        for entry in entries:
            name = entry.name
            try:
                if not entry.is_dir(follow_symlinks=False):
                    self._count(name, entry.stat(follow_symlinks=False), place)
                    continue
            except OSError as error:
                if error.errno in GONE:
                    tally.counts["vanished"] += 1
                else:
                    tally.counts["not_examined"] += 1
                    tally.trouble(place.inside(name), _error_name(error))
                continue
            tally.add_name(name)
            if name in SNAPSHOTS:
                tally.counts["snapshots"] += 1
            elif self._plan.mounts and place.inside(name) in self._plan.mounts:
                tally.counts["other_filesystems"] += 1
            else:
                folders.append(name)
        return folders

    def _count(self, name: str, status: os.stat_result, place: _Place) -> None:
        """Count an entry that is no directory."""
        tally, size, capacity, links = self._found.tally, status.st_size, status.st_blocks << 9, status.st_nlink
        # The kernel may pass on any number of a server; a negative size would reduce the sum of all others.
        if size < 0 or not 0 <= capacity <= _MOST_BYTES:
            tally.counts["not_examined"] += 1
            tally.trouble(place.inside(name), "impossible size")
            return
        tally.add_name(name)
        if self._plan.listing:
            self._list(status, place.inside(name))
        kind = status.st_mode >> 12
        if kind == _LINK:
            tally.counts["symlinks"] += 1
            tally.add("symlink_length", size.bit_length(), size)
        elif kind != _REGULAR:
            tally.counts["others"] += 1
        else:
            owner = self._projects.owner(status.st_uid, status.st_gid, place.path)
            # As a tuple, a status has its times in whole seconds.
            atime, mtime, ctime = map(int, status[7:10])
            extension, depth = extension_of_name(name), place.depth + 1
            tally.note("files", size, place.inside(name), status.st_uid)
            if links <= 1:
                place.held_bytes += size
                tally.add_file(owner, extension, depth, 1, size, capacity, mtime, atime, ctime)
            else:
                tally.counts["linked_names"] += 1
                device, project = self._device_of(status), owner.project or ""
                about = (size, capacity, mtime, atime, ctime, links, depth, extension)
                record = LinkRecord(device, status.st_ino, owner.uid, owner.gid, project, *about)
                self._found.links.append(record)

    def _device_of(self, status: os.stat_result) -> int:
        """As the machine knows it where the scan began."""
        return self._plan.device if status.st_dev == self._device else status.st_dev

    def _cannot_enter(self, relative: str, error: OSError) -> None:
        tally = self._found.tally
        if error.errno in GONE:
            tally.counts["vanished"] += 1
            return
        tally.counts["unreadable"] += 1
        tally.counts["directories"] += 1
        tally.trouble(self._full(relative), _error_name(error))

    def _full(self, relative: str) -> str:
        return f"{self._plan.root.rstrip('/')}/{relative}" if relative else self._plan.root

    def _list(self, status: os.stat_result, path: str) -> None:
        """A record as `find -printf '%y %D %i %s %b %T@ %A@ %C@ %U %G %n %p\\0'` writes it."""
        moments = (status.st_mtime_ns, status.st_atime_ns, status.st_ctime_ns)
        inside = (max(-_FARTHEST_NS, min(_FARTHEST_NS, moment)) for moment in moments)
        times = " ".join(f"{moment // 10**9}.{moment % 10**9:09d}" for moment in inside)
        kind = _KINDS.get(status.st_mode >> 12, "U")
        head = f"{kind} {self._device_of(status)} {status.st_ino} {status.st_size} {status.st_blocks} {times} "
        owner = f"{status.st_uid} {status.st_gid} {status.st_nlink} "
        self._found.listing += (head + owner).encode() + os.fsencode(path) + b"\0"


def walk_task(plan: Plan, items: Sequence[Item], budget: int) -> Found:
    """Walk one task in a worker of an executor."""
    walker = Walker(plan)
    try:
        return walker.walk(items, budget)
    finally:
        walker.close()


def _other_tree(plan: Plan, why: str) -> UsageError:
    return UsageError(
        f"{socket.gethostname()} does not see {plan.root} as the scan found it: {why}.",
        hint="Run as a user who may list it; a cluster needs it mounted at the same place on all workers.",
    )


def _error_name(error: OSError) -> str:
    return errno.errorcode.get(error.errno or 0, type(error).__name__)


def _joined(parent: str, name: str) -> str:
    """The path of a directory; '.' is the place itself."""
    if name == ".":
        return parent
    return f"{parent}/{name}" if parent else name
