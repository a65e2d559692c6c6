"""Lists of paths by `find -printf`: the source `find`.

They are counted like a scan of our own. There is a short and a long form; the long one is also that of the scanner's
own listing:

short   '%s %b %T@ %A@ %C@ %U %G %n %p\\n'
long    '%y %D %i %s %b %T@ %A@ %C@ %U %G %n %p\\n'   (or with \\0 at the end, which any name survives)
lustre  '%s %b %T@ %A@ %C@ %U %G %n %Lo %p\\n'         (times in whole seconds; %Lo are the OSTs of its stripes)
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import islice, takewhile
from pathlib import Path
from typing import Any, Final, NamedTuple

from ioweather.core.contracts import ReadContext
from ioweather.core.errors import CorruptInput, SourceError
from ioweather.core.frames import Frame
from ioweather.core.tables import TABLES
from ioweather.core.units import NS, ns_to_datetime, pairs_of
from ioweather.readers.reader_catalogue import FileReader
from ioweather.readers.scan.scanner import ScanState
from ioweather.readers.scan.tally import (
    LinkRecord,
    Owner,
    ScanFacts,
    Tally,
    scan_frames,
)
from ioweather.readers.text_files import plain_bytes, unzipped_blocks

_LONGEST_RECORD: Final = 1 << 20
# Linux takes paths of 4 KiB; a name that line after line is added to must end somewhere.
_LONGEST_PATH: Final = 64 << 10
# A name may contain line ends, but a list of mostly other lines is refused.
_MOST_STRAY_LINES: Final = 1000
_BATCH: Final = 50_000


class Entry(NamedTuple):
    """One entry of a list; what the list does not say is None. `kind` is one of the table `scan_entries`."""

    path: str
    kind: str
    size: int | None = None
    capacity: int | None = None
    mtime_ns: int | None = None
    atime_ns: int | None = None
    ctime_ns: int | None = None
    uid: int | None = None
    gid: int | None = None
    links: int | None = None
    device: int | None = None
    inode: int | None = None


# What a number may be, as the table says; device and inode have 64 bits.
_RANGES: Final = {
    name: TABLES["scan_entries"].column(column).range
    for name, column in pairs_of("size=size_bytes capacity=capacity_bytes uid=uid gid=gid links=link_count").items()
}
_ALLOWED: Final = {name: (known.least, known.most) for name, known in _RANGES.items() if known} | dict.fromkeys(
    ("device", "inode"), (0, (1 << 64) - 1)
)
_CHECKED: Final = [(Entry._fields.index(name), name, *ends) for name, ends in _ALLOWED.items()]


def _find_impossible(entry: Entry) -> str:
    """The first impossible number of an entry, such as a negative size; empty if there is none."""
    for place, name, least, most in _CHECKED:
        value: int | None = entry[place]  # type: ignore[assignment]
        if value is not None and not least <= value <= most:
            return f"{name} = {value} of {entry.path[-60:]!r}"
    return ""


class ListTally:
    """Counts entries in the order they come. Files with several names are counted once where the list has inodes."""

    def __init__(self, start_ns: int) -> None:
        self._tally = Tally(start_ns // NS)
        self._links = ScanState()
        self._root: str | None = None

    def add(self, entries: Iterable[Entry]) -> None:
        """Count entries, and move the root up to the deepest directory above all paths."""
        tally = self._tally
        for entry in entries:
            parent = entry.path.rpartition("/")[0]
            path = entry.path if entry.kind == "directory" else parent or ("/" if entry.path.startswith("/") else ".")
            if self._root is None:
                self._root = path
            elif path != self._root and not path.startswith(self._root.rstrip("/") + "/"):
                pairs = zip(self._root.split("/"), path.split("/"), strict=False)
                same = [step for step, _ in takewhile(lambda pair: pair[0] == pair[1], pairs)]
                self._root = "/".join(same) or ("/" if path.startswith("/") else "")
            tally.counts["entries"] += 1
            if entry.kind == "file":
                self._count_file(entry)
            elif entry.kind == "directory":
                tally.add_directory(entry.size)
            else:
                tally.counts["symlinks" if entry.kind == "symlink" else "others"] += 1

    def _count_file(self, entry: Entry) -> None:
        """Count a file: at once, or with all its names at the end if it has several."""
        times = [None if ns is None else ns // NS for ns in (entry.mtime_ns, entry.atime_ns, entry.ctime_ns)]
        if entry.size is not None:
            self._tally.note_largest(entry.size, entry.path, entry.uid or 0)
        if entry.inode is not None and (entry.links or 0) > 1:
            self._tally.counts["linked_names"] += 1
            mtime, atime, ctime = times
            about = (entry.size, entry.capacity, mtime, atime, ctime, entry.links or 0)
            self._links.add_links([LinkRecord(entry.device or 0, entry.inode, entry.uid, entry.gid, "", *about)])
        else:
            owner = Owner(entry.uid, entry.gid)
            self._tally.add_file(owner, entry.links, entry.size, entry.capacity, *times)

    def finish(self) -> tuple[str, Tally]:
        """The root, and the tally of everything."""
        self._tally.add_links(self._links.links())
        self._links.close()
        return self._root or "/", self._tally


def _read_find(path: Path, context: ReadContext) -> Iterator[tuple[str, Frame]]:
    """The rows of a list, whose time the user gives."""
    if context.start_ns is None:
        raise SourceError(
            f"{path} has no creation time, so ages cannot be computed.",
            hint="Use --start (time of the list).",
            kind="UndatedInput",
        )
    digest = hashlib.sha256(f"find {context.start_ns} {context.system}".encode())
    with path.open("rb") as file:
        digest.update(hashlib.file_digest(file, "sha256").digest())
    scan_id = f"{ns_to_datetime(context.start_ns).strftime('%Y%m%dT%H%M%SZ')}-{digest.hexdigest()[:8]}"
    counted, entries = ListTally(context.start_ns), _find_entries(path)
    whole, wrong = True, list[str]()
    while batch := list(islice(entries, _BATCH)):
        good = []
        for entry in batch:
            if entry is None:
                whole = False
            elif said := _find_impossible(entry):
                wrong.append(said)
            else:
                good.append(entry)
        counted.add(good)
    root, tally = counted.finish()
    if not tally.counts["entries"]:
        raise SourceError(f"{path} ends within its first entry.", hint="Create the list again.", kind="TruncatedInput")
    system = context.system or f"mount:{root}"
    facts = ScanFacts(scan_id, context.start_ns, None, root, system, host=context.host, whole=whole and not wrong)
    yield from scan_frames(facts, tally, context.paths)
    if wrong:
        raise SourceError(
            f"{path}: skipped {len(wrong):,} invalid entries; first: {wrong[0]}.",
            hint="The other entries were added.",
            kind="ImpossibleRows",
        )


def _whole_records(path: Path, begins: Callable[[bytes], object], separator: bytes) -> Iterator[bytes | None]:
    """Records of a list, plain or gzipped; None for a last one that was cut. A line that does not begin a record
    belongs to the name before it."""
    number = stray = 0
    waiting: bytes | None = None
    rest = b""
    for data in unzipped_blocks(path, cut=False):
        *items, rest = (rest + data).split(separator)
        if len(rest) > _LONGEST_RECORD:
            raise CorruptInput(f"{path}, record {number + len(items)}: the record is longer than a path can be.")
        for item in items:
            number += 1
            if begins(item):
                if waiting is not None:
                    yield waiting
                waiting = item
                continue
            if waiting is None:
                raise CorruptInput(
                    f"{path}, record {number}: {item[:60]!r} does not fit this kind of list.",
                    hint="See docs/sources/scan.md for the formats.",
                )
            waiting += b"\n" + item
            stray += 1
            if len(waiting) > _LONGEST_PATH:
                raise CorruptInput(f"{path}, record {number}: the name that ends here is longer than a path can be.")
            if stray > _MOST_STRAY_LINES and stray > number // 10:
                raise CorruptInput(f"{path}, record {number}: most lines do not fit this kind of list.")
    if waiting is not None:
        yield waiting
    if rest:
        yield None


def _with_guessed_kinds(entries: Iterator[Entry | None]) -> Iterator[Entry | None]:
    """Entries of a list without types: a parent of its neighbour is a directory, the rest are files."""
    before = ""
    waiting = next(entries, None)
    for entry in entries:
        if waiting is not None:
            folder = waiting.path.rstrip("/") + "/"
            holds = before.startswith(folder) or (entry is not None and entry.path.startswith(folder))
            yield waiting._replace(kind="directory") if holds else waiting
            before = waiting.path
        waiting = entry
    if waiting is not None and before.startswith(waiting.path.rstrip("/") + "/"):
        waiting = waiting._replace(kind="directory")
    yield waiting


def _find_nanoseconds(text: bytes) -> int:
    """Seconds as nanoseconds: find prints ten digits of the fraction, lfs find none."""
    seconds, _, fraction = text.partition(b".")
    return int(seconds) * NS + int(fraction[:9].ljust(9, b"0"))


# What find prints for each directive of its format: the field of an entry, its form, how it is read. No number of 64
# bits has more than 20 digits. An impossible number is still a record, and left out alone.
_FIND_NUMBER: Final = rb"-?\d{1,20}"
_FIND_KINDS: Final = {b"f": "file", b"d": "directory", b"l": "symlink"}
_DIRECTIVES: Final[dict[str, tuple[str, bytes, Callable[[bytes], Any]]]] = {
    "%y": ("kind", rb"[a-zA-Z?]", lambda letter: _FIND_KINDS.get(letter, "other")),
    "%D": ("device", rb"\d{1,20}", int),
    "%i": ("inode", rb"\d{1,20}", int),
    "%s": ("size", _FIND_NUMBER, int),
    "%b": ("capacity", _FIND_NUMBER, lambda blocks: int(blocks) << 9),
    "%T@": ("mtime_ns", rb"-?\d{1,18}\.\d+", _find_nanoseconds),
    "%A@": ("atime_ns", rb"-?\d{1,18}\.\d+", _find_nanoseconds),
    "%C@": ("ctime_ns", rb"-?\d{1,18}\.\d+", _find_nanoseconds),
    "%U": ("uid", _FIND_NUMBER, int),
    "%G": ("gid", _FIND_NUMBER, int),
    "%n": ("links", _FIND_NUMBER, int),
    # OSTs of each part of the layout, as [0,3][5]; ? where a part has no objects yet, nothing where it is not known.
    "%Lo": ("osts", rb"[\[\]\d,?]{0,65536}", bytes),
    "%p": ("path", rb".+", os.fsdecode),
}


def _find_form(directives: str, **forms: bytes) -> re.Pattern[bytes]:
    """The pattern of a record, by the format that find was given; `forms` replaces that of some fields."""
    fields = [_DIRECTIVES[directive] for directive in directives.split()]
    groups = (b"(?P<%s>%s)" % (name.encode(), forms.get(name, form)) for name, form, _ in fields)
    return re.compile(b" ".join(groups), re.DOTALL)


_SHORT_RECORD: Final = _find_form("%s %b %T@ %A@ %C@ %U %G %n %p")
_LONG_RECORD: Final = _find_form("%y %D %i %s %b %T@ %A@ %C@ %U %G %n %p")
_WHOLE_OR_NOT: Final = rb"-?\d{1,18}(?:\.\d+)?"
_LUSTRE_RECORD: Final = _find_form(
    "%s %b %T@ %A@ %C@ %U %G %n %Lo %p",
    mtime_ns=_WHOLE_OR_NOT,
    atime_ns=_WHOLE_OR_NOT,
    ctime_ns=_WHOLE_OR_NOT,
    path=rb"[/.].*",
)
_FIND_READERS: Final = {name: read for name, _, read in _DIRECTIVES.values()}


def _detect_find(head: bytes, path: Path) -> float:
    plain = plain_bytes(head)
    first = plain.split(b"\0" if b"\0" in plain else b"\n", 1)[0]
    return 0.9 if _pattern_of(first) else 0.0


FIND = FileReader(
    "find",
    "lists by find -printf '%s %b %T@ %A@ %C@ %U %G %n %p\\n' (also '%y %D %i ...', lfs find's '... %Lo %p')",
    ("scans", "scan_bins"),
    _detect_find,
    _read_find,
)


def _pattern_of(first: bytes) -> re.Pattern[bytes] | None:
    """The form of a list, by its first record."""
    lustre = _LUSTRE_RECORD.fullmatch(first)
    if lustre is not None and lustre["osts"]:
        return _LUSTRE_RECORD
    others = (pattern for pattern in (_LONG_RECORD, _SHORT_RECORD) if pattern.fullmatch(first))
    return next(others, None if lustre is None else _LUSTRE_RECORD)


def _find_entries(path: Path) -> Iterator[Entry | None]:
    """The entries of a list by find; None for a last one that was cut."""
    with path.open("rb") as file:
        head = plain_bytes(file.read(64 << 10))
    separator = b"\0" if b"\0" in head else b"\n"
    pattern = _pattern_of(head.split(separator, 1)[0]) or _SHORT_RECORD
    entries = (
        None if record is None else _find_entry(record, pattern)
        for record in _whole_records(path, pattern.fullmatch, separator)
    )
    return entries if pattern is _LONG_RECORD else _with_guessed_kinds(entries)


def _find_entry(record: bytes, pattern: re.Pattern[bytes]) -> Entry:
    """The entry of a record that fits the pattern."""
    match = pattern.fullmatch(record)
    assert match is not None
    found = match.groupdict().items()
    fields: dict[str, Any] = {name: _FIND_READERS[name](text) for name, text in found if name in Entry._fields}
    return Entry(**{"kind": "file", **fields})
