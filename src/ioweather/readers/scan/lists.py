"""Lists of files and reports that other tools made, counted like a scan of our own; the source `fsstats`.

A reader turns records into `Entries`; `ListTally` counts them, finds the root and makes the rows. What a list does not
say stays unknown: no sizes, no size histogram.

fsstats (Panasas and CMU, 2005 on; used by car11) writes comma-separated text, by itself or in its report:

    histogram,file size
    count,1200,items
    bucket min,bucket max,count,percent,cumulative pct,val count,percent,cumulative pct
    0,2,900,0.750000,0.750000,310.250000,0.000100,0.000100

Its bins are powers of two of KiB and of days; the first reaches from 0 to 2. It names neither the tree nor the time.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any, Final, TypeAlias

from ioweather.core.contracts import PathPolicy, ReadContext
from ioweather.core.errors import CorruptInput, SourceError, TruncatedInput, UndatedInput
from ioweather.core.frames import Frame
from ioweather.core.tables import TABLES
from ioweather.core.tables.schema import ANY, Range
from ioweather.core.units import KIB, ns_to_datetime
from ioweather.core.words import pairs_of
from ioweather.readers.reader_catalogue import FileReader
from ioweather.readers.scan.scan_rows import ScanFacts, scan_frames, shown_path
from ioweather.readers.scan.scanner import ScanState, signed
from ioweather.readers.scan.tally import Files, LinkRecord, Owner, Tally, extension_of_name, linked_tally, stored_text
from ioweather.readers.text_files import plain_bytes, unzipped_blocks

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
    """Kinds for a list without types: a parent of its neighbour is a directory, the rest are files. `before` and
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
_ALLOWED = {name: (TABLES["scan_entries"].column(column).range or ANY) for name, column in _COLUMNS.items()}
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
        good = [index for index in range(len(self.paths)) if index not in wrong]
        columns: dict[str, Any] = {
            name: None if column is None else [column[index] for index in good] for name, column in vars(self).items()
        }
        return Entries(**columns), [*wrong.values()]

    def frame(self, scan_id: str, start_ns: int, paths: PathPolicy) -> Frame:
        """Rows of `scan_entries`."""
        stored = [stored_text(path) for path in self.paths]
        shown = [shown_path(path, "keep" if paths == "keep" else "hash") for path in self.paths]
        return TABLES["scan_entries"].frame(
            rows=len(shown),
            scan_id=scan_id,
            start_ns=start_ns,
            path=shown,
            kind=self.kinds,
            escaped=[escaped for _, escaped in stored] if paths == "keep" else None,
            device=_signed_column(self.device),
            inode=_signed_column(self.inode),
            size_bytes=_listed(self.size),
            capacity_bytes=_listed(self.capacity),
            mtime_ns=_listed(self.mtime_ns),
            atime_ns=_listed(self.atime_ns),
            ctime_ns=_listed(self.ctime_ns),
            uid=_listed(self.uid),
            gid=_listed(self.gid),
            link_count=_listed(self.links),
            osts=self.osts,
        )


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
        """Move the root up to the deepest directory above all paths."""
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
        mtime, atime, ctime = (_at(each, index) for each in (entries.mtime_ns, entries.atime_ns, entries.ctime_ns))
        record = LinkRecord(
            device=_at(entries.device, index) or 0,
            inode=_at(entries.inode, index) or 0,
            uid=owner.uid,
            gid=owner.gid,
            project="",
            size=_at(entries.size, index),
            capacity=_at(entries.capacity, index),
            mtime=_seconds(mtime),
            atime=_seconds(atime),
            ctime=_seconds(ctime),
            links=_at(entries.links, index) or 0,
            depth=entries.paths[index].count("/"),
            extension=extension_of_name(name),
        )
        self._links.add_links([record])
        if entries.size is not None:
            self._tally.note("files", entries.size[index], entries.paths[index], owner.uid or 0)

    def _count_files(self, owner: Owner, entries: Entries, chosen: list[int], names: list[str]) -> None:
        def picked(column: Column, unit: int = 1) -> Column:
            return None if column is None else [column[index] // unit for index in chosen]

        mtime, atime, ctime = (picked(each, NS) for each in (entries.mtime_ns, entries.atime_ns, entries.ctime_ns))
        own_names, size = [names[index] for index in chosen], picked(entries.size)
        files = Files(own_names, size, picked(entries.capacity), mtime, atime, ctime)
        self._tally.add_files(owner, files, self._seen)
        for index in chosen:
            path, file_size = entries.paths[index], _at(entries.size, index)
            self._tally.add("depth", path.count("/"), 1, file_size or 0)
            if entries.links is not None:
                self._tally.add("link_count", entries.links[index].bit_length(), 1, file_size or 0)
            if file_size is not None:
                self._tally.note("files", file_size, path, owner.uid or 0)

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
    """Text of the bytes of a path."""
    return os.fsdecode(raw)


def dated(source: str, path: Path, context: ReadContext) -> tuple[int, str]:
    """The time of the scan, which the user gives, and the id of the scan."""
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
        raise SourceError(
            f"{path}: {len(wrong):,} entries were left out, which no file system can have; first: {wrong[0]}.",
            hint="The others are in.",
            kind="ImpossibleRows",
        )


_MADE_BY: Final = b"Generated by fsstats"
_INCOMPLETE: Final = ("RESULTS MAY BE INCOMPLETE", "interrupted")
_LONGEST: Final = 16 << 20
_MOST_KIB: Final = (1 << 62) // KIB
# Histograms here: those of fsstats that count and that weigh, and what one of their units is here.
_HISTOGRAMS: Final = {
    "size": ("file size", "file size", KIB),
    "capacity": ("capacity used", "capacity used", KIB),
    "directory_size": ("directory size", "directory size", KIB),
    "mtime": ("mtime (files)", "mtime (KB)", 1),
    "ctime": ("ctime (files)", "ctime (KB)", 1),
    "atime": ("atime (files)", "atime (KB)", 1),
}
_AGES: Final = ("mtime", "ctime", "atime")
_NUMBER: Final = re.compile(r"-?[0-9]{1,18}(?:\.[0-9]{1,9})?")


@dataclass(frozen=True)
class Bucket:
    low: int
    count: int
    weight: float


@dataclass
class Report:
    """Lines before the first histogram by their name, and histograms: numbers of items, and their buckets."""

    totals: dict[str, str]
    counts: dict[str, int]
    buckets: dict[str, list[Bucket]]
    whole: bool = True


def _detect_fsstats(head: bytes, path: Path) -> float:
    return 0.95 if _MADE_BY in plain_bytes(head)[:4096] else 0.0


def _read_fsstats(path: Path, context: ReadContext) -> Iterator[tuple[str, Frame]]:
    start_ns, scan_id = dated("fsstats", path, context)
    report = _parsed(_content(path).decode("utf-8", "replace"), path)
    root = context.system or "/"
    bins = list(_bins(report, path))
    if bins:
        columns = {name: [row[name] for row in bins] for name in bins[0]}
        same = {"scan_id": scan_id, "start_ns": start_ns, "root": root, "owner_kind": "all", "owner": ""}
        yield "scan_bins", TABLES["scan_bins"].frame(columns, rows=len(bins), **same)
    system, same = context.system or f"mount:{root}", {"scan_id": scan_id, "start_ns": start_ns, "root": root}
    known = {"host": context.host, "system": system, "complete": report.whole}
    yield "scans", TABLES["scans"].frame(rows=1, **same, **known, **_totals(report))


FSSTATS = FileReader(
    "fsstats",
    "fsstats reports (-o FILE, or its whole output)",
    ("scans", "scan_bins"),
    _detect_fsstats,
    _read_fsstats,
)


def _content(path: Path) -> bytes:
    raw = bytearray()
    for block in unzipped_blocks(path, cut=False):
        raw += block
        if len(raw) > _LONGEST:
            raise CorruptInput(f"{path} has more than 16 MiB: no report of fsstats.", hint="Give one report in a file.")
    return bytes(raw)


def _parsed(text: str, path: Path) -> Report:
    report, name, rows = Report({}, {}, {}), "", False
    for line in text.splitlines():
        if line.startswith(_INCOMPLETE):
            report.whole = False
        if line.startswith("----- END CSV"):
            break
        cells = line.strip().split(",")
        if cells[0] == "histogram" and len(cells) > 1:
            name, rows = ",".join(cells[1:]), False
            if name in report.counts:
                raise CorruptInput(f"{path} has two histograms {name!r}.", hint="Give one report in a file.")
            report.counts[name], report.buckets[name] = 0, []
        elif cells[0] == "bucket min":
            rows = name != ""
        elif name and cells[0] == "count" and len(cells) > 1:
            report.counts[name] = int(_number(cells[1], path))
        elif rows and len(cells) == 8:
            report.buckets[name].append(_bucket(cells, path))
        elif not name and len(cells) == 2:
            report.totals[cells[0]] = cells[1]
        elif not line.strip():
            rows = False
    if "file size" not in report.counts:
        raise TruncatedInput(f"{path} ends before the sizes of files.", hint="Run fsstats again, or copy it again.")
    for found, buckets in report.buckets.items():
        if found in {counting for counting, _, _ in _HISTOGRAMS.values()}:
            short = sum(bucket.count for bucket in buckets) - report.counts[found]
            if short:
                raise CorruptInput(
                    f"{path}: the bins of {found!r} hold {short:+,} of its count.",
                    hint="The report was cut or changed.",
                )
    return report


def _number(text: str, path: Path) -> float:
    value = float(text) if _NUMBER.fullmatch(text) else -1.0
    if not 0 <= value <= _MOST_KIB:
        raise CorruptInput(f"{path}: {text[:40]!r} is no count of fsstats.", hint="The report was changed.")
    return value


def _bucket(cells: list[str], path: Path) -> Bucket:
    # Times in the future are below the first bin, which fsstats calls -1.
    low = -1 if cells[0] == "-1" else int(_number(cells[0], path))
    return Bucket(low, int(_number(cells[2], path)), _number(cells[5], path))


def _bins(report: Report, path: Path) -> Iterator[dict[str, Any]]:
    for histogram, (counting, weighing, unit) in _HISTOGRAMS.items():
        ages = histogram in _AGES
        # The histogram of ages by KiB has the KiB as its count.
        weights = {b.low: float(b.count) if ages else b.weight for b in report.buckets.get(weighing, ())}
        for bucket in report.buckets.get(counting, ()):
            low, high = _edges(bucket.low, unit, path)
            yield {
                "owner_name": None,
                "histogram": histogram,
                "bin": f"fsstats {bucket.low}",
                "low": low,
                "high": high,
                "age_low_days": None,
                "age_high_days": None,
                "count": bucket.count,
                "bytes": round(weights.get(bucket.low, 0.0) * KIB),
            }


def _edges(low: int, unit: int, path: Path) -> tuple[int | None, int]:
    if low < 0:
        return None, 0
    if low == 1 or low & (low - 1):
        raise CorruptInput(f"{path}: a bin begins at {low}, no power of two.", hint="The report was changed.")
    return low * unit, (2 * low or 2) * unit


def _totals(report: Report) -> dict[str, int | None]:
    def held(name: str) -> int | None:
        if name not in report.buckets:
            return None
        return round(sum(bucket.weight for bucket in report.buckets[name]) * KIB)

    def said(name: str) -> int | None:
        value = report.totals.get(name, "")
        return int(value) if value.isascii() and value.isdigit() and len(value) < 18 else None

    files, folders, links = (
        report.counts.get(name) for name in ("file size", "directory size", "symlink target length")
    )
    return {
        "entry_count": sum(count or 0 for count in (files, folders, links)),
        "file_count": files,
        "file_bytes": held("file size"),
        "capacity_bytes": held("capacity used"),
        "directory_count": folders,
        "directory_bytes": held("directory size"),
        "symlink_count": links,
        "other_count": said("skipped special files"),
        "skipped_snapshot_count": said("skipped snapshot dirs"),
    }
