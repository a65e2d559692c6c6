"""Lists of paths by find, lfs find and GPFS policy: the sources `find`, `lfs_find` and `gpfs`.

They are counted like a scan of our own; what a list does not say stays unknown: no sizes, no size histogram.

`find -printf` has a short and a long form; the long one is also that of the scanner's own listing:

short   '%s %b %T@ %A@ %C@ %U %G %n %p\\n'
long    '%y %D %i %s %b %T@ %A@ %C@ %U %G %n %p\\n'   (or with \\0 at the end, which any name survives)
lustre  '%s %b %T@ %A@ %C@ %U %G %n %Lo %p\\n'         (times in whole seconds; %Lo are the OSTs of its stripes)

`lfs find` and any tool that prints paths: one path per line and nothing else. Counts, no sizes.

GPFS (Storage Scale): `mmapplypolicy` writes for a LIST rule

    InodeNumber GenNumber SnapId [output of SHOW] -- /full/path

SHOW is free text, so it must say what its numbers are: `size=4096 kb=4 uid=1001 ...`, or a first line
`# FILE_SIZE KB_ALLOCATED USER_ID ...` that names them in order.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice, takewhile
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import unquote_to_bytes
from zoneinfo import ZoneInfo

from ioweather.core.contracts import ReadContext
from ioweather.core.errors import CorruptInput, SourceError
from ioweather.core.frames import Frame
from ioweather.core.tables import ANY, TABLES, Range
from ioweather.core.units import NS, datetime_to_ns, ns_to_datetime, pairs_of
from ioweather.readers.reader_catalogue import FileReader
from ioweather.readers.scan.scanner import ScanState
from ioweather.readers.scan.tally import (
    Cells,
    LinkRecord,
    Owner,
    ScanFacts,
    Tally,
    extension_of_name,
    scan_frames,
)
from ioweather.readers.text_files import ZONE_HINT, plain_bytes, unzipped_blocks

_LONGEST_RECORD: Final = 1 << 20
# Linux takes paths of 4 KiB; a name that line after line is added to must end somewhere.
_LONGEST_PATH: Final = 64 << 10
# A name may contain line ends, but a list of mostly other lines is refused.
_MOST_STRAY_LINES: Final = 1000
_BATCH: Final = 50_000
_TABLES: Final = ("scans", "scan_bins")


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
_ALLOWED: Final = {
    name: TABLES["scan_entries"].column(column).range or ANY
    for name, column in pairs_of("size=size_bytes capacity=capacity_bytes uid=uid gid=gid links=link_count").items()
} | dict.fromkeys(("device", "inode"), Range(0, (1 << 64) - 1, "0 to 2^64 - 1"))
_CHECKED: Final = [(Entry._fields.index(name), name, allowed) for name, allowed in _ALLOWED.items()]


def _find_impossible(entry: Entry) -> str:
    """The first impossible number of an entry, such as a negative size; empty if there is none."""
    for place, name, allowed in _CHECKED:
        value: int | None = entry[place]  # type: ignore[assignment]
        if value is not None and not allowed.least <= value <= allowed.most:
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
            parent, _, name = entry.path.rpartition("/")
            path = entry.path if entry.kind == "directory" else parent or ("/" if entry.path.startswith("/") else ".")
            if self._root is None:
                self._root = path
            elif path != self._root and not path.startswith(self._root.rstrip("/") + "/"):
                pairs = zip(self._root.split("/"), path.split("/"), strict=False)
                same = [step for step, _ in takewhile(lambda pair: pair[0] == pair[1], pairs)]
                self._root = "/".join(same) or ("/" if path.startswith("/") else "")
            tally.counts["entries"] += 1
            tally.add_name(name)
            if entry.kind == "file":
                self._count_file(entry, name)
                continue
            counter = {"directory": "directories", "symlink": "symlinks"}.get(entry.kind, "others")
            tally.counts[counter] += 1
            if entry.size is not None and counter != "others":
                histogram = "directory_size" if counter == "directories" else "symlink_length"
                tally.add_to_histogram(histogram, entry.size.bit_length(), entry.size)

    def _count_file(self, entry: Entry, name: str) -> None:
        """Count a file: at once, or with all its names at the end if it has several."""
        depth, extension = entry.path.count("/"), extension_of_name(name)
        times = [None if ns is None else ns // NS for ns in (entry.mtime_ns, entry.atime_ns, entry.ctime_ns)]
        if entry.size is not None:
            self._tally.note_largest("files", entry.size, entry.path, entry.uid or 0)
        if entry.inode is not None and (entry.links or 0) > 1:
            self._tally.counts["linked_names"] += 1
            mtime, atime, ctime = times
            about = (entry.size, entry.capacity, mtime, atime, ctime, entry.links or 0, depth, extension)
            self._links.add_links([LinkRecord(entry.device or 0, entry.inode, entry.uid, entry.gid, "", *about)])
        else:
            owner = Owner(entry.uid, entry.gid)
            self._tally.add_file(owner, extension, depth, entry.links, entry.size, entry.capacity, *times)

    def finish(self) -> tuple[str, Tally]:
        """The root, and the tally of everything; depths counted from the root."""
        self._tally.add_links(self._links.links())
        self._links.close()
        root = self._root or "/"
        above = root.rstrip("/").count("/")
        depths: Cells = self._tally.whole.pop("depth", Counter())
        for depth, cell in depths.items():
            self._tally.whole["depth"][max(0, depth - above)] += cell
        return root, self._tally


def scan_identity(source: str, path: Path, context: ReadContext) -> tuple[int, str]:
    """The time of the scan, which the user gives, and the id of the scan."""
    if context.start_ns is None:
        raise SourceError(
            f"{path} has no creation time, so ages cannot be computed.",
            hint="Use --start (time of the list).",
            kind="UndatedInput",
        )
    digest = hashlib.sha256(f"{source} {context.start_ns} {context.system}".encode())
    with path.open("rb") as file:
        digest.update(hashlib.file_digest(file, "sha256").digest())
    stamp = ns_to_datetime(context.start_ns).strftime("%Y%m%dT%H%M%SZ")
    return context.start_ns, f"{stamp}-{digest.hexdigest()[:8]}"


def _list_frames(
    source: str, path: Path, entries: Iterator[Entry | None], context: ReadContext
) -> Iterator[tuple[str, Frame]]:
    """The rows of a list. None among the entries says that the list ends in the middle of one."""
    start_ns, scan_id = scan_identity(source, path, context)
    counted = ListTally(start_ns)
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
    facts = ScanFacts(scan_id, start_ns, None, root, system, host=context.host, whole=whole and not wrong)
    yield from scan_frames(facts, tally, context.paths)
    if wrong:
        raise SourceError(
            f"{path}: skipped {len(wrong):,} invalid entries; first: {wrong[0]}.",
            hint="The other entries were added.",
            kind="ImpossibleRows",
        )


def _whole_records(
    path: Path, begins: Callable[[bytes], object], separator: bytes = b"\n", joins: bool = True
) -> Iterator[tuple[int, bytes | None]]:
    """Numbered records of a list, plain or gzipped; None for a last one that was cut. With `joins` a line that does not
    begin a record belongs to the name before it."""
    number = stray = waiting_number = 0
    waiting: bytes | None = None
    rest = b""
    for data in unzipped_blocks(path, cut=False):
        *items, rest = (rest + data).split(separator)
        if len(rest) > _LONGEST_RECORD:
            raise CorruptInput(f"{path}, record {number + len(items)}: the record is longer than the longest path.")
        for item in items:
            number += 1
            if begins(item) or (waiting is None and not joins):
                if waiting is not None:
                    yield waiting_number, waiting
                waiting, waiting_number = item, number
                continue
            if waiting is None or not joins:
                raise CorruptInput(
                    f"{path}, record {number}: {item[:60]!r} does not fit this kind of list.",
                    hint="See docs/sources/scan.md for the formats.",
                )
            waiting += b"\n" + item
            stray += 1
            if len(waiting) > _LONGEST_PATH:
                raise CorruptInput(f"{path}, record {number}: a name longer than the longest path ends here.")
            if stray > _MOST_STRAY_LINES and stray > number // 10:
                raise CorruptInput(f"{path}, record {number}: most lines do not fit this kind of list.")
    if waiting is not None:
        yield waiting_number, waiting
    if rest:
        yield number + 1, None


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
    _TABLES,
    _detect_find,
    lambda path, context: _list_frames("find", path, _find_entries(path), context),
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
        for _, record in _whole_records(path, pattern.fullmatch, separator)
    )
    return entries if pattern is _LONG_RECORD else _with_guessed_kinds(entries)


def _find_entry(record: bytes, pattern: re.Pattern[bytes]) -> Entry:
    """The entry of a record that fits the pattern."""
    match = pattern.fullmatch(record)
    assert match is not None
    found = match.groupdict().items()
    fields: dict[str, Any] = {name: _FIND_READERS[name](text) for name, text in found if name in Entry._fields}
    return Entry(**{"kind": "file", **fields})


_BEGINNINGS: Final = (b"/", b"./", b"../")


def _detect_lfs_find(head: bytes, path: Path) -> float:
    """Little is needed to be a list of paths, so anything that recognises more goes first."""
    plain = plain_bytes(head)
    lines = plain.split(b"\n")
    lines = lines[:-1] if len(lines) > 1 else lines
    paths = sum(line.startswith(_BEGINNINGS) for line in lines)
    return 0.2 if lines[0].startswith(_BEGINNINGS) and paths >= 0.9 * len(lines) and b"\0" not in plain else 0.0


def _read_lfs_find(path: Path, context: ReadContext) -> Iterator[tuple[str, Frame]]:
    records = _whole_records(path, lambda line: line.startswith(_BEGINNINGS))
    entries = (None if record is None else Entry(os.fsdecode(record), "file") for _, record in records)
    return _list_frames("lfs_find", path, _with_guessed_kinds(entries), context)


LFS_FIND = FileReader(
    "lfs_find",
    "path lists from lfs find, one path per line (counts, no sizes)",
    _TABLES,
    _detect_lfs_find,
    _read_lfs_find,
)


# <thread> comes before lines of an external script.
_GPFS_NUMBERS: Final = re.compile(rb"(?:<\d+>)?\s*(\d{1,20})\s+\d+\s+-?\d+\s")
_BEFORE_PATH: Final = re.compile(rb"-- (?=/|%2F)")
_GPFS_NUMBER: Final = re.compile(r"-?[0-9]{1,20}")
_LABELLED: Final = re.compile(r"([A-Za-z_]{1,64})=(\S*(?: \d\d:\d\d:\d\d(?:\.\d+)?)?)")
_LABELS: Final = {
    label: column
    for column, labels in {
        "size": "file_size size s",
        "capacity": "kb_allocated kb a",
        "mtime_ns": "modification_time mtime mo",
        "atime_ns": "access_time atime ac",
        "ctime_ns": "change_time ctime ch",
        "uid": "user_id uid u",
        "gid": "group_id gid g",
        "links": "nlink links nl",
        "mode": "mode p",
    }.items()
    for label in labels.split()
}
_GPFS_KINDS: Final = {"-": "file", "d": "directory", "l": "symlink"}
_HINT: Final = "Label the values in SHOW (size=... kb=...) or in a first line; see docs/sources/scan.md."


def _detect_gpfs(head: bytes, path: Path) -> float:
    lines = [line for line in plain_bytes(head).split(b"\n")[:3] if not line.startswith(b"#")]
    return 0.85 if lines and _gpfs_parts(lines[0]) else 0.0


GPFS = FileReader(
    "gpfs",
    "GPFS policy lists (mmapplypolicy, LIST rules with SHOW)",
    _TABLES,
    _detect_gpfs,
    lambda path, context: _list_frames("gpfs", path, _gpfs_entries(path, context.zone), context),
)


def _gpfs_parts(record: bytes) -> tuple[int, bytes, bytes] | None:
    """Inode, output of SHOW, and path of a record; None for other lines. The path begins behind the first `--`, as any
    user may put another into a path."""
    numbers = _GPFS_NUMBERS.match(record)
    mark = numbers and _BEFORE_PATH.search(record, numbers.end())
    if not numbers or not mark:
        return None
    return int(numbers[1]), record[numbers.end() : mark.start()].strip(), record[mark.end() :]


def _gpfs_entries(path: Path, zone: ZoneInfo | None) -> Iterator[Entry | None]:
    """The entries of a policy list; None for a last one that was cut."""
    order: list[str] | None = None
    for number, record in _whole_records(path, lambda line: True):
        if record is None:
            yield None
            return
        if number == 1 and record.startswith(b"#"):
            order = os.fsdecode(record).lstrip("# ").lower().split()
            continue
        where = f"{path}, line {number}"
        parts = _gpfs_parts(record)
        if parts is None:
            raise CorruptInput(f"{where}: expected 'inode generation snapshot ... -- /path', found {record[:60]!r}.")
        inode, show, raw = parts
        shown = _shown_values(os.fsdecode(show), order, where)
        # Without DIRECTORIES_PLUS a LIST rule lists files only.
        kind = _GPFS_KINDS.get(shown.pop("mode")[:1], "other") if "mode" in shown else "file"
        numbers: dict[str, Any] = {
            name: _gpfs_moment(text, zone, where) if name.endswith("_ns") else _gpfs_number(name, text, where)
            for name, text in shown.items()
        }
        name = os.fsdecode(unquote_to_bytes(raw) if raw.startswith(b"%") else raw)
        yield Entry(name, kind, inode=inode)._replace(**numbers)


def _shown_values(text: str, order: Sequence[str] | None, where: str) -> dict[str, str]:
    """What SHOW said, by the columns of an entry. Values in the order of a first line: a time is two words."""
    if not text:
        return {}
    found: Mapping[str, str] = {label.lower(): value for label, value in _LABELLED.findall(text)}
    if order is not None:
        found, values = {}, text.split()
        for label in order:
            words = 2 if label.endswith("_time") and values and "-" in values[0] else 1
            if len(values) < words:
                raise CorruptInput(f"{where}: there are fewer values than labels in the first line.", hint=_HINT)
            found[label] = " ".join(values[:words])
            del values[:words]
    elif not found:
        raise CorruptInput(f"{where}: the values of SHOW have no labels.", hint=_HINT)
    return {_LABELS[label]: value for label, value in found.items() if label in _LABELS}


def _gpfs_number(name: str, text: str, where: str) -> int:
    if not _GPFS_NUMBER.fullmatch(text):
        raise CorruptInput(f"{where}: {name} is not a number: {text[:60]!r}.", hint=_HINT)
    return int(text) << 10 if name == "capacity" else int(text)


def _gpfs_moment(text: str, zone: ZoneInfo | None, where: str) -> int:
    """'2010-03-25 10:11:12.123456' on the clock of the cluster, or seconds since the epoch."""
    if re.fullmatch(r"[0-9]{1,18}(?:\.[0-9]+)?", text):
        return int(text.partition(".")[0]) * NS
    if zone is None:
        raise SourceError(f"{where} uses the local time of the GPFS cluster.", hint=ZONE_HINT, kind="UndatedInput")
    try:
        return _minute_ns(text[:16].replace("@", " "), zone) + int(float(text[17:] or 0) * NS)
    except (ValueError, OverflowError):
        raise CorruptInput(f"{where}: {text[:60]!r} is not a time.", hint=_HINT) from None


@lru_cache(maxsize=65_536)
def _minute_ns(text: str, zone: ZoneInfo) -> int:
    """UTC of a local minute; the first of two where clocks go back, because ages are counted in days."""
    moment = dt.datetime.strptime(text, "%Y-%m-%d %H:%M")
    return datetime_to_ns(moment.replace(tzinfo=zone).astimezone(dt.UTC))
