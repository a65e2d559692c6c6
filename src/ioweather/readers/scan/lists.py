"""Lists of files that other tools made: read in pieces, counted like a scan of our own.

A reader turns records into `Entries`; `ListTally` counts them, finds the root and makes the rows. What a list does not
say stays unknown: no sizes, no size histogram.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any, Final, TypeAlias

from ioweather.core.contracts import PathPolicy, ReadContext
from ioweather.core.errors import CorruptInput, ImpossibleRows, TruncatedInput, UndatedInput
from ioweather.core.frames import Frame
from ioweather.core.tables import TABLES
from ioweather.core.tables.schema import ANY, Range
from ioweather.core.units import ns_to_datetime
from ioweather.core.words import pairs_of
from ioweather.readers.scan.scan_rows import ScanFacts, scan_frames, shown_path
from ioweather.readers.scan.state import ScanState, signed
from ioweather.readers.scan.tally import Files, LinkRecord, Owner, Tally, extension_of_name, linked_tally, stored_text
from ioweather.readers.text_files import unzipped_blocks

Column: TypeAlias = Sequence[int] | None
NS: Final = 10**9
_LONGEST_RECORD: Final = 1 << 20
# Linux takes paths of 4 KiB; a name that line after line is added to must end somewhere.
LONGEST_PATH: Final = 64 << 10
_MOST: Final = (1 << 63) - 1
_SHOWN: Final = 60  # last characters of a path


@dataclass(frozen=True)
class Records:
    """Consecutive records without their ends. `torn`: the last one has none, because the list was cut."""

    first: int
    items: list[bytes]
    torn: bool = False


def guessed_kinds(paths: list[str], before: str | None = None, after: str | None = None) -> list[str]:
    """Of a list without types: what holds its neighbour is a directory, the rest are taken as files. `before` and
    `after` are the neighbours of the whole piece."""
    around = [before, *paths, after]
    return [
        "directory" if _holds(path, around[index]) or _holds(path, around[index + 2]) else "file"
        for index, path in enumerate(paths)
    ]


def _holds(path: str, other: str | None) -> bool:
    return other is not None and other.startswith(path.rstrip("/") + "/")


def read_records(path: Path, separator: bytes) -> Iterator[Records]:
    """All records of a list, plain or gzipped, some megabytes at a time."""
    number, rest = 1, b""
    for data in unzipped_blocks(path, cut=False):
        items = (rest + data).split(separator)
        rest = items.pop()
        if len(rest) > _LONGEST_RECORD:
            raise CorruptInput(f"{path}, record {number + len(items)}: longer than any path.")
        if items:
            yield Records(number, items)
            number += len(items)
    if rest:
        yield Records(number, [rest], torn=True)


# What a column may be, as the table says; device and inode have 64 bits, and are stored as signed.
_COLUMNS: Final = pairs_of("size=size_bytes capacity=capacity_bytes uid=uid gid=gid links=link_count")
_ALLOWED = {name: (TABLES["scan_entries"].column(column).allowed or ANY) for name, column in _COLUMNS.items()}
_ALLOWED |= dict.fromkeys(("device", "inode"), Range(0, (1 << 64) - 1, "0 to 2^64 - 1"))


@dataclass
class Entries:
    """Some entries of a list, by column. `kinds` are those of the table; a column that the list lacks is None."""

    paths: list[str]
    kinds: list[str]
    size: Column = None
    capacity: Column = None
    mtime_ns: Column = None
    atime_ns: Column = None
    ctime_ns: Column = None
    uid: Column = None
    gid: Column = None
    links: Column = None
    device: Column = None
    inode: Column = None
    osts: Sequence[str | None] | None = None

    def possible(self) -> tuple[Entries, list[str]]:
        """Without what no file system can have said; and a word on each entry that was left out."""
        wrong: dict[int, str] = {}
        for name, allowed in _ALLOWED.items():
            column = getattr(self, name) or (0,)
            if min(column) < allowed.least or max(column) > allowed.most:
                for index, value in enumerate(column):
                    if not allowed.least <= value <= allowed.most:
                        wrong.setdefault(index, f"{name} = {value} of {self.paths[index][-_SHOWN:]!r}")
        if not wrong:
            return self, []
        kept = [index for index in range(len(self.paths)) if index not in wrong]
        columns: dict[str, Any] = {
            name: None if column is None else [column[index] for index in kept] for name, column in vars(self).items()
        }
        return Entries(**columns), [*wrong.values()]

    def frame(self, scan_id: str, start_ns: int, paths: PathPolicy) -> Frame:
        """Rows of `scan_entries`."""
        stored = [stored_text(path) for path in self.paths]
        shown = [shown_path(path, "keep" if paths == "keep" else "hash") for path in self.paths]
        return TABLES["scan_entries"].frame(
            rows=len(shown), scan_id=scan_id, start_ns=start_ns, path=shown, kind=self.kinds,
            escaped=[escaped for _, escaped in stored] if paths == "keep" else None,
            device=_signed_column(self.device), inode=_signed_column(self.inode), size_bytes=_listed(self.size),
            capacity_bytes=_listed(self.capacity), mtime_ns=_listed(self.mtime_ns), atime_ns=_listed(self.atime_ns),
            ctime_ns=_listed(self.ctime_ns), uid=_listed(self.uid), gid=_listed(self.gid),
            link_count=_listed(self.links), osts=self.osts,
        )  # fmt: skip


def _listed(column: Column) -> list[int] | None:
    """Times after 2262 do not fit into nanoseconds of 64 bits; they stay times that are far away."""
    return None if column is None else [max(-_MOST, min(_MOST, number)) for number in column]


def _signed_column(column: Column) -> list[int] | None:
    return None if column is None else [signed(number) for number in column]


class ListTally:
    """Counts entries in the order they come. Files with several names are counted once where the list has inodes."""

    def __init__(self, start_ns: int) -> None:
        self._start_ns = start_ns
        self._seen = start_ns // NS
        self._tally = Tally(self._seen)
        self._links = ScanState()
        self._root: str | None = None

    def add(self, entries: Entries) -> None:
        for path, kind in zip(entries.paths, entries.kinds, strict=True):
            self._widen(
                path if kind == "directory" else path.rpartition("/")[0] or ("/" if path.startswith("/") else ".")
            )
        names = [path.rpartition("/")[2] for path in entries.paths]
        self._tally.counts["entries"] += len(names)
        self._tally.add_names(names)
        groups: dict[Owner, list[int]] = {}
        for index, kind in enumerate(entries.kinds):
            if kind != "file":
                self._count_other(entries, index, kind)
            elif entries.links is not None and entries.inode is not None and entries.links[index] > 1:
                self._count_linked(entries, index, names[index])
            else:
                groups.setdefault(_owner(entries, index), []).append(index)
        for owner, chosen in groups.items():
            self._count_files(owner, entries, chosen, names)

    def _widen(self, path: str) -> None:
        """The root is the deepest directory that holds everything."""
        if self._root is None:
            self._root = path
        elif path != self._root and not path.startswith(self._root.rstrip("/") + "/"):
            pairs = zip(self._root.split("/"), path.split("/"), strict=False)
            same = [step for step, _ in takewhile(lambda pair: pair[0] == pair[1], pairs)]
            self._root = "/".join(same) or ("/" if path.startswith("/") else "")

    def _count_other(self, entries: Entries, index: int, kind: str) -> None:
        size = entries.size[index] if entries.size is not None else None
        if kind == "directory":
            self._tally.counts["directories"] += 1
            if size is not None:
                self._tally.add("directory_size", size.bit_length(), 1, size)
        elif kind == "symlink":
            self._tally.counts["symlinks"] += 1
            if size is not None:
                self._tally.add("symlink_length", size.bit_length(), 1, size)
        else:
            self._tally.counts["others"] += 1

    def _count_linked(self, entries: Entries, index: int, name: str) -> None:
        self._tally.counts["linked_names"] += 1
        owner = _owner(entries, index)
        values = [_at(column, index) for column in (entries.size, entries.capacity)]
        times = [_seconds(_at(column, index)) for column in (entries.mtime_ns, entries.atime_ns, entries.ctime_ns)]
        record = (
            _at(entries.device, index) or 0, _at(entries.inode, index), owner.uid, owner.gid, "", *values, *times,
            _at(entries.links, index), entries.paths[index].count("/"), extension_of_name(name),
        )  # fmt: skip
        self._links.add_links([LinkRecord(*record)])  # type: ignore[arg-type]
        if entries.size is not None:
            self._tally.note("files", entries.size[index], entries.paths[index], owner.uid or 0)

    def _count_files(self, owner: Owner, entries: Entries, chosen: list[int], names: list[str]) -> None:
        every = len(chosen) == len(names)

        def picked(column: Column) -> Column:
            return column if column is None or every else [column[index] for index in chosen]

        def seconds(column: Column) -> Column:
            found = picked(column)
            return None if found is None else [moment // NS for moment in found]

        size = picked(entries.size)
        times = (seconds(entries.mtime_ns), seconds(entries.atime_ns), seconds(entries.ctime_ns))
        files = Files([names[index] for index in chosen], size, picked(entries.capacity), *times)
        self._tally.add_files(owner, files, self._seen)
        weights = size if size is not None else [0] * len(chosen)
        for position, index in enumerate(chosen):
            self._tally.add("depth", entries.paths[index].count("/"), 1, weights[position])
        if entries.links is not None:
            for position, index in enumerate(chosen):
                self._tally.add("link_count", entries.links[index].bit_length(), 1, weights[position])
        if size is not None:
            bar = self._tally.bar("files")
            for position, amount in enumerate(size):
                if amount > bar:
                    self._tally.note("files", amount, entries.paths[chosen[position]], owner.uid or 0)

    def finish(self) -> tuple[str, Tally]:
        """The root, and the tally of everything; depths counted from the root."""
        self._tally.merge(linked_tally(self._links.links(), self._tally.now))
        self._links.close()
        root = self._root or "/"
        above = root.rstrip("/").count("/")
        depths = self._tally.whole["depth"]
        self._tally.whole["depth"] = {max(0, depth - above): cell for depth, cell in depths.items()}
        return root, self._tally


def _at(column: Column, index: int) -> int | None:
    return None if column is None else column[index]


def _seconds(moment_ns: int | None) -> int | None:
    return None if moment_ns is None else moment_ns // NS


def _owner(entries: Entries, index: int) -> Owner:
    return Owner(_at(entries.uid, index), _at(entries.gid, index))


def decoded(raw: bytes) -> str:
    return os.fsdecode(raw)


def dated(source: str, path: Path, context: ReadContext) -> tuple[int, str]:
    """When what the file holds was seen, as somebody said, and the identity of that scan."""
    if context.start_ns is None:
        raise UndatedInput(
            f"{path} does not say when it was made, and ages are counted from there.",
            hint="Give --start: the time at which it was made.",
        )
    digest = hashlib.sha256(f"{source} {context.start_ns} {context.system}".encode())
    with path.open("rb") as file:
        digest.update(hashlib.file_digest(file, "sha256").digest())
    stamp = ns_to_datetime(context.start_ns).strftime("%Y%m%dT%H%M%SZ")
    return context.start_ns, f"{stamp}-{digest.hexdigest()[:8]}"


def list_frames(
    source: str, path: Path, pieces: Iterator[tuple[Entries, bool]], context: ReadContext
) -> Iterator[tuple[str, Frame]]:
    """The rows of a list. A piece is entries, and whether the list ends in the middle of one."""
    start_ns, scan_id = dated(source, path, context)
    counted = ListTally(start_ns)
    whole = True
    wrong: list[str] = []
    for listed, torn in pieces:
        entries, left_out = listed.possible()
        wrong += left_out
        counted.add(entries)
        whole &= not torn
        if context.keep_raw and entries.paths:
            yield "scan_entries", entries.frame(scan_id, start_ns, context.paths)
    root, tally = counted.finish()
    if not tally.counts["entries"]:
        raise TruncatedInput(f"{path} ends before its first entry does.", hint="Make the list again.")
    system, whole = context.system or f"mount:{root}", whole and not wrong
    facts = ScanFacts(scan_id, start_ns, None, root, system, host=context.host, whole=whole)
    yield from scan_frames(facts, tally, context.paths)
    if wrong:
        raise ImpossibleRows(
            f"{path}: {len(wrong):,} entries were left out, which no file system can have; first: {wrong[0]}.",
            hint="The others are in.",
        )
