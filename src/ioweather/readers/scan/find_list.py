"""Lists of `find -printf`, in a short and a long form, which is also that of the scanner's own listing, of
`lfs find -printf`, and plain lists of paths.

short   '%s %b %T@ %A@ %C@ %U %G %n %p\\n'
long    '%y %D %i %s %b %T@ %A@ %C@ %U %G %n %p\\n'   (or with \\0 at the end, which any name survives)
lustre  '%s %b %T@ %A@ %C@ %U %G %n %Lo %p\\n'         (times in whole seconds; %Lo are the OSTs of its stripes)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ioweather.core.contracts import PathPolicy, ReadContext
from ioweather.core.errors import CorruptInput
from ioweather.core.frames import Frame
from ioweather.readers.scan.lists import (
    LONGEST_PATH,
    NS,
    Entries,
    Records,
    decoded,
    guessed_kinds,
    list_frames,
    read_records,
)
from ioweather.readers.text_files import plain_bytes

# No number of 64 bits has more than 20 digits. What no file system can have said is still a record, and left out alone.
_NUMBER: Final = rb"(-?\d{1,20})"
_TIME: Final = rb"(-?\d{1,18})\.(\d+)"
_SHORT: Final = rb" ".join([_NUMBER] * 2 + [_TIME] * 3 + [_NUMBER] * 3 + [rb"(.+)"])
_SHORT_RECORD: Final = re.compile(_SHORT, re.DOTALL)
_LONG_RECORD: Final = re.compile(rb"([a-zA-Z?]) (\d{1,20}) (\d{1,20}) " + _SHORT, re.DOTALL)
# A list of each part of the layout, as [0,3][5]; ? where a part has no objects yet, nothing where it cannot be told.
_OSTS: Final = rb"([\[\]\d,?]{0,65536})"
_LUSTRE_RECORD: Final = re.compile(
    rb" ".join([rb"(\d{1,18})"] * 2 + [rb"(-?\d{1,18})(\.\d+)?"] * 3 + [rb"(\d{1,18})"] * 3 + [_OSTS, rb"([/.].*)"]),
    re.DOTALL,
)
_KINDS: Final = {b"f": "file", b"d": "directory", b"l": "symlink"}
_BATCH: Final = 50_000
# A name may hold line ends, but a list that is mostly something else is no list.
_MOST_STRAY_LINES: Final = 1000


@dataclass(frozen=True)
class FindSource:
    """Reads lists made by `find -printf`."""

    name: str = "find"
    title: str = (
        "lists by find -printf '%s %b %T@ %A@ %C@ %U %G %n %p\\n' (also '%y %D %i ...', lfs find's '... %Lo %p')"
    )
    tables: tuple[str, ...] = ("scans", "scan_bins", "scan_entries")

    def detect(self, head: bytes, path: Path) -> float:
        plain = plain_bytes(head)
        first = plain.split(b"\0" if b"\0" in plain else b"\n", 1)[0]
        return 0.9 if _pattern_of(first) else 0.0

    def read(self, path: Path, context: ReadContext) -> Iterator[tuple[str, Frame]]:
        return list_frames(self.name, path, _pieces(path), context)


def entry_frames(listing: Path, scan_id: str, start_ns: int, paths: PathPolicy) -> Iterator[Frame]:
    """Rows of `scan_entries` from the scanner's listing."""
    if listing.stat().st_size:
        for entries, _ in _pieces(listing):
            if entries.paths:
                yield entries.frame(scan_id, start_ns, paths)


def _pattern_of(first: bytes) -> re.Pattern[bytes] | None:
    """The form of a list, by its first record."""
    lustre = _LUSTRE_RECORD.fullmatch(first)
    if lustre is not None and lustre[12]:
        return _LUSTRE_RECORD
    if _LONG_RECORD.fullmatch(first):
        return _LONG_RECORD
    if _SHORT_RECORD.fullmatch(first):
        return _SHORT_RECORD
    return None if lustre is None else _LUSTRE_RECORD


def _pieces(path: Path) -> Iterator[tuple[Entries, bool]]:
    with path.open("rb") as file:
        head = plain_bytes(file.read(64 << 10))
    nul = b"\0" in head
    first = head.split(b"\0" if nul else b"\n", 1)[0]
    pattern = _pattern_of(first) or _SHORT_RECORD
    waiting: list[bytes] = []
    before: bytes | None = None
    stray, torn = 0, False
    for records in read_records(path, b"\0" if nul else b"\n"):
        if records.torn:
            torn = True
            break
        matched, strays = _joined(records, pattern, waiting, path)
        stray += strays
        if stray > _MOST_STRAY_LINES and stray > records.first // 10:
            raise CorruptInput(f"{path}, record {records.first}: most of this is not what find -printf writes.")
        # The last record waits: the next line may be the rest of its name.
        waiting = matched[-1:]
        for start in range(0, len(matched) - 1, _BATCH):
            end = min(start + _BATCH, len(matched) - 1)
            yield _entries(matched[start:end], pattern, before, matched[end]), False
            before = matched[end - 1]
    yield _entries(waiting, pattern, before, None), torn


def _joined(records: Records, pattern: re.Pattern[bytes], waiting: list[bytes], path: Path) -> tuple[list[bytes], int]:
    """Whole records: a line that does not begin one belongs to the name before it."""
    found = list(waiting)
    stray = 0
    for number, item in enumerate(records.items, start=records.first):
        if pattern.fullmatch(item):
            found.append(item)
        elif found:
            found[-1] += b"\n" + item
            stray += 1
            if len(found[-1]) > LONGEST_PATH:
                raise CorruptInput(f"{path}, record {number}: a name longer than any path ends here.")
        else:
            raise CorruptInput(
                f"{path}, record {number}: expected what find -printf writes, found {item[:60]!r}.",
                hint="See docs/sources/scan.md for its forms.",
            )
    return found, stray


def _entries(records: list[bytes], pattern: re.Pattern[bytes], before: bytes | None, after: bytes | None) -> Entries:
    """`before` and `after` are the neighbours of these records."""
    if not records:
        return Entries([], [])
    rows = [match.groups() for record in records if (match := pattern.fullmatch(record))]
    columns = list(zip(*rows, strict=True))
    long = pattern is _LONG_RECORD
    kind, device, inode = (columns.pop(0), columns.pop(0), columns.pop(0)) if long else (None, None, None)
    stripes = columns.pop(-2) if pattern is _LUSTRE_RECORD else None
    size, blocks, mtime, mtime_part, atime, atime_part, ctime, ctime_part, uid, gid, links, raw = columns
    paths = [decoded(path) for path in raw]
    return Entries(
        paths=paths,
        kinds=[_KINDS.get(letter, "other") for letter in kind]
        if kind
        else guessed_kinds(paths, _path(before, pattern), _path(after, pattern)),
        size=[int(text) for text in size],
        capacity=[int(text) << 9 for text in blocks],
        mtime_ns=_moments(mtime, mtime_part),
        atime_ns=_moments(atime, atime_part),
        ctime_ns=_moments(ctime, ctime_part),
        uid=[int(text) for text in uid],
        gid=[int(text) for text in gid],
        links=[int(text) for text in links],
        device=[int(text) for text in device] if device else None,
        inode=[int(text) for text in inode] if inode else None,
        osts=[_stripes(text) for text in stripes] if stripes else None,
    )


def _stripes(text: bytes) -> str | None:
    """`[0,3][5]` as 0,3;5; parts without objects are left out."""
    parts = [part.strip("[,") for part in text.decode().split("]")]
    return ";".join(part for part in parts if part and "?" not in part) or None


def _moments(seconds: tuple[bytes, ...], parts: tuple[bytes | None, ...]) -> list[int]:
    """Nanoseconds; find writes ten digits of a second, lfs find none."""
    fractions = [(part or b"").removeprefix(b".")[:9].ljust(9, b"0") for part in parts]
    return [int(whole) * NS + int(part) for whole, part in zip(seconds, fractions, strict=True)]


def _path(record: bytes | None, pattern: re.Pattern[bytes]) -> str | None:
    match = pattern.fullmatch(record) if record is not None else None
    return decoded(match[match.re.groups]) if match else None


SOURCE = FindSource()


# `lfs find` and any tool that prints paths: one path per line and nothing else. Counts, no sizes.
_BEGINNINGS: Final = (b"/", b"./", b"../")


@dataclass(frozen=True)
class PathListSource:
    """Reads lists of paths."""

    name: str = "lfs_find"
    title: str = "lists of paths, one per line, as lfs find prints them (counts, no sizes)"
    tables: tuple[str, ...] = ("scans", "scan_bins", "scan_entries")

    def detect(self, head: bytes, path: Path) -> float:
        """Little is needed to be a list of paths, so anything that recognises more goes first."""
        plain = plain_bytes(head)
        lines = plain.split(b"\n")
        lines = lines[:-1] if len(lines) > 1 else lines
        paths = sum(line.startswith(_BEGINNINGS) for line in lines)
        return 0.2 if lines[0].startswith(_BEGINNINGS) and paths >= 0.9 * len(lines) and b"\0" not in plain else 0.0

    def read(self, path: Path, context: ReadContext) -> Iterator[tuple[str, Frame]]:
        return list_frames(self.name, path, _path_pieces(path), context)


def _path_pieces(path: Path) -> Iterator[tuple[Entries, bool]]:
    waiting: list[str] = []
    before: str | None = None
    torn = False
    for records in read_records(path, b"\n"):
        if records.torn:
            torn = True
            break
        paths = waiting
        for item in records.items:
            # A line that does not begin like the others is the rest of a name with a line end in it.
            if item.startswith(_BEGINNINGS) or not paths:
                paths.append(decoded(item))
            else:
                paths[-1] += "\n" + decoded(item)
                if len(paths[-1]) > LONGEST_PATH:
                    raise CorruptInput(f"{path}: a name longer than any path: {paths[-1][:60]!r}.")
        waiting = paths[-1:]
        done = paths[:-1]
        if done:
            yield Entries(done, guessed_kinds(done, before, waiting[0])), False
            before = done[-1]
    yield Entries(waiting, guessed_kinds(waiting, before)), torn


PATHS = PathListSource()
