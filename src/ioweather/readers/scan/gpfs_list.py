"""Lists by GPFS (Storage Scale) policy: what `mmapplypolicy` writes for a LIST rule.

    InodeNumber GenNumber SnapId [what SHOW said] -- /full/path

SHOW is free text, so it must say what its numbers are: `size=4096 kb=4 uid=1001 ...`, or a first line
`# FILE_SIZE KB_ALLOCATED USER_ID ...` that names them in order.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final
from urllib.parse import unquote_to_bytes
from zoneinfo import ZoneInfo

from ioweather.core.clock import datetime_to_ns
from ioweather.core.contracts import ReadContext
from ioweather.core.errors import CorruptInput, UndatedInput
from ioweather.core.frames import Frame
from ioweather.readers.scan.lists import NS, Entries, decoded, list_frames, read_records
from ioweather.readers.text_files import plain_bytes

# <thread> stands before lines that come through an external script.
_NUMBERS: Final = re.compile(rb"(?:<\d+>)?\s*(\d{1,20})\s+\d+\s+-?\d+\s")
_BEFORE_PATH: Final = re.compile(rb"-- (?=/|%2F)")
_NUMBER: Final = re.compile(r"-?[0-9]{1,20}")
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
_KINDS: Final = {"-": "file", "d": "directory", "l": "symlink"}
_HINT: Final = "Let SHOW label its values (size=... kb=...), or name them in a first line; see docs/sources/scan.md."


@dataclass(frozen=True)
class GpfsSource:
    """Reads lists by GPFS policy."""

    name: str = "gpfs"
    title: str = "GPFS policy lists (mmapplypolicy, LIST rules with SHOW)"
    tables: tuple[str, ...] = ("scans", "scan_bins", "scan_entries")

    def detect(self, head: bytes, path: Path) -> float:
        lines = [line for line in plain_bytes(head).split(b"\n")[:3] if not line.startswith(b"#")]
        return 0.85 if lines and _record(lines[0]) else 0.0

    def read(self, path: Path, context: ReadContext) -> Iterator[tuple[str, Frame]]:
        return list_frames(self.name, path, _pieces(path, context.zone), context)


def _pieces(path: Path, zone: ZoneInfo | None) -> Iterator[tuple[Entries, bool]]:
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
            record = _record(item)
            if record is None:
                raise CorruptInput(
                    f"{path}, line {number}: expected 'inode generation snapshot ... -- /path', found {item[:60]!r}."
                )
            inode, show, place = record
            shown = _shown(show, order, path, number)
            rows.setdefault(frozenset(shown), []).append((_path(place), inode, shown))
        # A file whose SHOW is NULL has no attributes; such files are counted apart.
        for known, group in rows.items():
            yield _entries(known, group, zone, path), False


def _record(item: bytes) -> tuple[int, bytes, bytes] | None:
    """(inode, what SHOW said, path). The path begins behind the first mark: SHOW is one's own, a path anybody's."""
    numbers = _NUMBERS.match(item)
    mark = numbers and _BEFORE_PATH.search(item, numbers.end())
    return (
        (int(numbers[1]), item[numbers.end() : mark.start()].strip(), item[mark.end() :]) if numbers and mark else None
    )


def _path(raw: bytes) -> str:
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


def _entries(
    known: frozenset[str], rows: list[tuple[str, int, dict[str, str]]], zone: ZoneInfo | None, path: Path
) -> Entries:
    shown = [values for _, _, values in rows]

    def numbers(column: str) -> list[int] | None:
        if column not in known:
            return None
        texts = [values[column] for values in shown]
        wrong = next((text for text in texts if not _NUMBER.fullmatch(text)), None)
        if wrong is not None:
            raise CorruptInput(f"{path}: {column} is not a number: {wrong!r}.", hint=_HINT)
        return [int(text) for text in texts]

    times = {
        column: [_moment(values[column], zone, path) for values in shown] if column in known else None
        for column in _TIMES
    }
    kilobytes = numbers("capacity")
    return Entries(
        paths=[place for place, _, _ in rows],
        # Without DIRECTORIES_PLUS a LIST rule lists files only.
        kinds=[_KINDS.get(values["mode"][:1], "other") if "mode" in known else "file" for values in shown],
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


def _moment(text: str, zone: ZoneInfo | None, path: Path) -> int:
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


SOURCE = GpfsSource()
