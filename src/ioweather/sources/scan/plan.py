"""The words that scanning processes speak with each other: what to scan, what is left, what was found."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, NamedTuple

from ioweather.sources.scan.directory import SNAPSHOTS

if TYPE_CHECKING:
    from ioweather.core.facility import ProjectRule

_CHUNK: Final = 512  # entries of a directory that are looked at together: what the processor's caches hold


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


class LinkRecord(NamedTuple):
    """A file with several names, as seen under one of them. It is counted once, when all names are in.

    What a list does not say is None; a scan of our own knows everything.
    """

    device: int
    inode: int
    uid: int | None
    gid: int | None
    project: str
    size: int | None
    capacity: int | None
    mtime: int | None
    atime: int | None
    ctime: int | None
    links: int
    depth: int
    extension: str


ROOT_ITEM: Final = Item("", 0, (".",))


class Part:
    """What a walker hands over before it is done, so that it need not hold it."""

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
