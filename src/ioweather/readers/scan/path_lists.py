"""Lists of paths by find, lfs find and GPFS policy: the sources `find`, `lfs_find` and `gpfs`.

`find -printf` has a short and a long form; the long one is also that of the scanner's own listing:

short   '%s %b %T@ %A@ %C@ %U %G %n %p\\n'
long    '%y %D %i %s %b %T@ %A@ %C@ %U %G %n %p\\n'   (or with \\0 at the end, which any name survives)
lustre  '%s %b %T@ %A@ %C@ %U %G %n %Lo %p\\n'         (times in whole seconds; %Lo are the OSTs of its stripes)

GPFS (Storage Scale): `mmapplypolicy` writes for a LIST rule

    InodeNumber GenNumber SnapId [output of SHOW] -- /full/path

SHOW is free text, so it must say what its numbers are: `size=4096 kb=4 uid=1001 ...`, or a first line
`# FILE_SIZE KB_ALLOCATED USER_ID ...` that names them in order.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Final
from urllib.parse import unquote_to_bytes
from zoneinfo import ZoneInfo

from ioweather.core.clock import datetime_to_ns
from ioweather.core.contracts import PathPolicy, ReadContext
from ioweather.core.errors import CorruptInput, UndatedInput
from ioweather.core.frames import Frame
from ioweather.readers.reader_catalogue import FileReader
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
_FIND_NUMBER: Final = rb"(-?\d{1,20})"
_TIME: Final = rb"(-?\d{1,18})\.(\d+)"
_SHORT: Final = rb" ".join([_FIND_NUMBER] * 2 + [_TIME] * 3 + [_FIND_NUMBER] * 3 + [rb"(.+)"])
_SHORT_RECORD: Final = re.compile(_SHORT, re.DOTALL)
_LONG_RECORD: Final = re.compile(rb"([a-zA-Z?]) (\d{1,20}) (\d{1,20}) " + _SHORT, re.DOTALL)
# A list of each part of the layout, as [0,3][5]; ? where a part has no objects yet, nothing where it cannot be told.
_OSTS: Final = rb"([\[\]\d,?]{0,65536})"
_LUSTRE_RECORD: Final = re.compile(
    rb" ".join([rb"(\d{1,18})"] * 2 + [rb"(-?\d{1,18})(\.\d+)?"] * 3 + [rb"(\d{1,18})"] * 3 + [_OSTS, rb"([/.].*)"]),
    re.DOTALL,
)
_FIND_KINDS: Final = {b"f": "file", b"d": "directory", b"l": "symlink"}
_BATCH: Final = 50_000
# A name may hold line ends, but a list that is mostly something else is no list.
_MOST_STRAY_LINES: Final = 1000


def _detect_find(head: bytes, path: Path) -> float:
    plain = plain_bytes(head)
    first = plain.split(b"\0" if b"\0" in plain else b"\n", 1)[0]
    return 0.9 if _pattern_of(first) else 0.0


def _read_find(path: Path, context: ReadContext) -> Iterator[tuple[str, Frame]]:
    return list_frames("find", path, _find_pieces(path), context)


FIND = FileReader(
    "find",
    "lists by find -printf '%s %b %T@ %A@ %C@ %U %G %n %p\\n' (also '%y %D %i ...', lfs find's '... %Lo %p')",
    ("scans", "scan_bins", "scan_entries"),
    _detect_find,
    _read_find,
)


def entry_frames(listing: Path, scan_id: str, start_ns: int, paths: PathPolicy) -> Iterator[Frame]:
    """Rows of `scan_entries` from the scanner's listing."""
    if listing.stat().st_size:
        for entries, _ in _find_pieces(listing):
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


def _find_pieces(path: Path) -> Iterator[tuple[Entries, bool]]:
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
            yield _find_entries(matched[start:end], pattern, before, matched[end]), False
            before = matched[end - 1]
    yield _find_entries(waiting, pattern, before, None), torn


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


def _find_entries(
    records: list[bytes], pattern: re.Pattern[bytes], before: bytes | None, after: bytes | None
) -> Entries:
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
        kinds=[_FIND_KINDS.get(letter, "other") for letter in kind]
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


# `lfs find` and any tool that prints paths: one path per line and nothing else. Counts, no sizes.
_BEGINNINGS: Final = (b"/", b"./", b"../")


def _detect_lfs_find(head: bytes, path: Path) -> float:
    """Little is needed to be a list of paths, so anything that recognises more goes first."""
    plain = plain_bytes(head)
    lines = plain.split(b"\n")
    lines = lines[:-1] if len(lines) > 1 else lines
    paths = sum(line.startswith(_BEGINNINGS) for line in lines)
    return 0.2 if lines[0].startswith(_BEGINNINGS) and paths >= 0.9 * len(lines) and b"\0" not in plain else 0.0


def _read_lfs_find(path: Path, context: ReadContext) -> Iterator[tuple[str, Frame]]:
    return list_frames("lfs_find", path, _path_pieces(path), context)


LFS_FIND = FileReader(
    "lfs_find",
    "lists of paths, one per line, as lfs find prints them (counts, no sizes)",
    ("scans", "scan_bins", "scan_entries"),
    _detect_lfs_find,
    _read_lfs_find,
)


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


# <thread> stands before lines that come through an external script.
_NUMBERS: Final = re.compile(rb"(?:<\d+>)?\s*(\d{1,20})\s+\d+\s+-?\d+\s")
_BEFORE_PATH: Final = re.compile(rb"-- (?=/|%2F)")
_GPFS_NUMBER: Final = re.compile(r"-?[0-9]{1,20}")
_LABELLED: Final = re.compile(rb"([A-Za-z_]{1,64})=(\S*(?: \d\d:\d\d:\d\d(?:\.\d+)?)?)")
_NAMES: Final = {
    "size": ("file_size", "size", "s"),
    "capacity": ("kb_allocated", "kb", "a"),
    "mtime_ns": ("modification_time", "mtime", "mo"),
    "atime_ns": ("access_time", "atime", "ac"),
    "ctime_ns": ("change_time", "ctime", "ch"),
    "uid": ("user_id", "uid", "u"),
    "gid": ("group_id", "gid", "g"),
    "links": ("nlink", "links", "nl"),
    "mode": ("mode", "p"),
}
_COLUMNS: Final = {label: column for column, labels in _NAMES.items() for label in labels}
_TIMES: Final = ("mtime_ns", "atime_ns", "ctime_ns")
_GPFS_KINDS: Final = {"-": "file", "d": "directory", "l": "symlink"}
_HINT: Final = "Let SHOW label its values (size=... kb=...), or name them in a first line; see docs/sources/scan.md."


def _detect_gpfs(head: bytes, path: Path) -> float:
    lines = [line for line in plain_bytes(head).split(b"\n")[:3] if not line.startswith(b"#")]
    return 0.85 if lines and _gpfs_record(lines[0]) else 0.0


def _read_gpfs(path: Path, context: ReadContext) -> Iterator[tuple[str, Frame]]:
    return list_frames("gpfs", path, _gpfs_pieces(path, context.zone), context)


GPFS = FileReader(
    "gpfs",
    "GPFS policy lists (mmapplypolicy, LIST rules with SHOW)",
    ("scans", "scan_bins", "scan_entries"),
    _detect_gpfs,
    _read_gpfs,
)


def _gpfs_pieces(path: Path, zone: ZoneInfo | None) -> Iterator[tuple[Entries, bool]]:
    order: tuple[str, ...] | None = None
    first_number = 1
    for records in read_records(path, b"\n"):
        items = records.items
        if records.torn:
            yield Entries([], []), True
            return
        if records.first == 1 and items[0].startswith(b"#"):
            order = tuple(decoded(items[0]).lstrip("# ").lower().split())
            items, first_number = items[1:], 2
        rows: dict[frozenset[str], list[tuple[str, int, dict[str, str]]]] = {}
        for number, item in enumerate(items, start=max(first_number, records.first)):
            record = _gpfs_record(item)
            if record is None:
                raise CorruptInput(
                    f"{path}, line {number}: expected 'inode generation snapshot ... -- /path', found {item[:60]!r}."
                )
            inode, show, place = record
            shown = _shown(show, order, path, number)
            rows.setdefault(frozenset(shown), []).append((_gpfs_path(place), inode, shown))
        # A file whose SHOW is NULL has no attributes; such files are counted apart.
        for known, group in rows.items():
            yield _gpfs_entries(known, group, zone, path), False


def _gpfs_record(item: bytes) -> tuple[int, bytes, bytes] | None:
    """(inode, what SHOW said, path). The path begins behind the first mark: SHOW is one's own, a path anybody's."""
    numbers = _NUMBERS.match(item)
    mark = numbers and _BEFORE_PATH.search(item, numbers.end())
    return (
        (int(numbers[1]), item[numbers.end() : mark.start()].strip(), item[mark.end() :]) if numbers and mark else None
    )


def _gpfs_path(raw: bytes) -> str:
    return decoded(unquote_to_bytes(raw)) if raw.startswith(b"%") else decoded(raw)


def _shown(text: bytes, order: tuple[str, ...] | None, path: Path, number: int) -> dict[str, str]:
    if not text:
        return {}
    if order is not None:
        return _in_order(decoded(text).split(), order, path, number)
    found = {decoded(label).lower(): decoded(value) for label, value in _LABELLED.findall(text)}
    if not found:
        raise CorruptInput(f"{path}, line {number}: SHOW does not say what its values are.", hint=_HINT)
    return {_COLUMNS[label]: value for label, value in found.items() if label in _COLUMNS}


def _in_order(values: list[str], order: tuple[str, ...], path: Path, number: int) -> dict[str, str]:
    """Values as the first line names them; a time is two words."""
    found: dict[str, str] = {}
    position = 0
    for label in order:
        column = _COLUMNS.get(label)
        words = 2 if label.endswith("_time") and position < len(values) and "-" in values[position] else 1
        if position + words > len(values):
            raise CorruptInput(f"{path}, line {number}: fewer values than the first line names.", hint=_HINT)
        if column is not None:
            found[column] = " ".join(values[position : position + words])
        position += words
    return found


def _gpfs_entries(
    known: frozenset[str], rows: list[tuple[str, int, dict[str, str]]], zone: ZoneInfo | None, path: Path
) -> Entries:
    shown = [values for _, _, values in rows]

    def numbers(column: str) -> list[int] | None:
        if column not in known:
            return None
        texts = [values[column] for values in shown]
        wrong = next((text for text in texts if not _GPFS_NUMBER.fullmatch(text)), None)
        if wrong is not None:
            raise CorruptInput(f"{path}: {column} is not a number: {wrong!r}.", hint=_HINT)
        return [int(text) for text in texts]

    times = {
        column: [_gpfs_moment(values[column], zone, path) for values in shown] if column in known else None
        for column in _TIMES
    }
    kilobytes = numbers("capacity")
    return Entries(
        paths=[place for place, _, _ in rows],
        # Without DIRECTORIES_PLUS a LIST rule lists files only.
        kinds=[_GPFS_KINDS.get(values["mode"][:1], "other") if "mode" in known else "file" for values in shown],
        size=numbers("size"),
        capacity=None if kilobytes is None else [amount << 10 for amount in kilobytes],
        mtime_ns=times["mtime_ns"],
        atime_ns=times["atime_ns"],
        ctime_ns=times["ctime_ns"],
        uid=numbers("uid"),
        gid=numbers("gid"),
        links=numbers("links"),
        inode=[inode for _, inode, _ in rows],
    )


def _gpfs_moment(text: str, zone: ZoneInfo | None, path: Path) -> int:
    """'2010-03-25 10:11:12.123456' on the clock of the cluster, or seconds since the epoch."""
    if re.fullmatch(r"[0-9]{1,18}(?:\.[0-9]+)?", text):
        return int(text.partition(".")[0]) * NS
    if zone is None:
        raise UndatedInput(
            f"{path} has times on the clock of the GPFS cluster.", hint="Give --zone, or set `zone` in facility.toml."
        )
    try:
        return _minute(text[:16], zone) + int(float(text[17:] or 0) * NS)
    except (ValueError, OverflowError):
        raise CorruptInput(f"{path}: {text[:60]!r} is not a time.", hint=_HINT) from None


@lru_cache(maxsize=65_536)
def _minute(text: str, zone: ZoneInfo) -> int:
    """A file's time in the hour that clocks show twice is taken as the first: ages are counted in days."""
    moment = dt.datetime.strptime(text, "%Y-%m-%d %H:%M" if " " in text else "%Y-%m-%d@%H:%M")
    return datetime_to_ns(moment.replace(tzinfo=zone).astimezone(dt.UTC))
