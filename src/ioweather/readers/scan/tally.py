"""Counts of a scan: histograms, owners, the largest files. Tallies of parts add up to the tally of the whole.

Columns of files go in; nothing is stored per file but the few largest, so a tally stays small for any tree.

Sizes and ages have power-of-two bins: bin 0 is 0, bin k is [2^(k-1), 2^k), so every power of two is an edge, such as
1 MiB, 64 days and 128 days. A cell is one integer: entries in the high bits, the sum of their weights in the low ones,
because one addition per entry costs half of two.
"""

from __future__ import annotations

import grp
import heapq
import os
import pwd
import re
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

if TYPE_CHECKING:  # a process that walks starts twice as fast without it
    from ioweather.core.facility import ProjectRule

ONE: Final = 1 << 96  # one entry; below it is room for 2^33 files of the greatest size there is
WEIGHT: Final = ONE - 1
DAY_SECONDS: Final = 86_400
# Ages have fewer than 48 bits in days, whatever the clock said; the last index is free for times to come.
FUTURE: Final = 63
AGE_BITS: Final = 6


class Histogram(NamedTuple):
    """`edges`: power (of two), linear (one bin per value), label (text), or age_size (both at once)."""

    name: str
    unit: Literal["bytes", "days", "count", "characters", "levels", ""]
    edges: Literal["power", "linear", "label", "age_size"]
    doc: str
    per_owner: bool = False


HISTOGRAMS: Final = {
    item.name: item
    for item in (
        Histogram("age_size", "bytes", "age_size", "files by size and days since modification; bytes of the files"),
        Histogram("atime", "days", "power", "files by days since access; bytes of the files", per_owner=True),
        Histogram("capacity", "bytes", "power", "files by allocated bytes; the allocated bytes", per_owner=True),
        Histogram("ctime", "days", "power", "files by days since inode change; bytes of the files", per_owner=True),
        Histogram("depth", "levels", "linear", "files by levels below the root; bytes of the files"),
        Histogram("directory_entries", "count", "power", "directories by entries; bytes of the directories"),
        Histogram("directory_size", "bytes", "power", "directories by their own size; that size"),
        Histogram("extension", "", "label", "files by extension, lower case; bytes of the files"),
        Histogram("link_count", "count", "power", "files by hard links; bytes of the files"),
        Histogram("mtime", "days", "power", "files by days since modification; bytes of the files", per_owner=True),
        Histogram("name_length", "characters", "linear", "names of all entries by length in bytes; that length"),
        Histogram("overhead_negative", "bytes", "power", "files larger than what they allocate; size - allocated"),
        Histogram("overhead_positive", "bytes", "power", "files that allocate their size or more; allocated - size"),
        Histogram("size", "bytes", "power", "files by size; bytes of the files", per_owner=True),
        Histogram("symlink_length", "characters", "power", "symbolic links by length of their target; that length"),
    )
}


def count_of(cell: int) -> int:
    """Number of entries in a cell."""
    return cell >> 96


def weight_of(cell: int) -> int:
    """Sum of the weights in a cell."""
    return cell & WEIGHT


def power_range(index: int) -> tuple[int, int]:
    """[low, high) of a power-of-two bin."""
    return (0, 1) if index == 0 else (1 << (index - 1), 1 << index)


def age_range(index: int) -> tuple[int | None, int]:
    """[low, high) in days; times to come have no low end."""
    return (None, 0) if index == FUTURE else power_range(index)


def split_size_age(index: int) -> tuple[int, int]:
    """Size bin and age bin."""
    return index >> AGE_BITS, index & FUTURE


# Names as file systems give them: any bytes.
NO_EXTENSION: Final = ""
NUMBER: Final = "(number)"
OTHER: Final = "(other)"
_LONGEST_EXTENSION: Final = 16
_ESCAPE: Final = re.compile(rb"\\(?:\\|x([0-9a-f]{2}))")


def stored_text(name: str) -> tuple[str, bool]:
    """Text that any table can store, and whether it is escaped.

    UTF-8 names stay as they are. In others each byte that is not UTF-8 becomes `\\xNN` and a backslash is doubled.
    """
    if name.isascii():
        return name, False
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return os.fsencode(name).replace(b"\\", b"\\\\").decode("utf-8", "backslashreplace"), True
    return name, False


def original_name(text: str, escaped: bool) -> bytes:
    """The bytes that `stored_text` was given."""
    raw = text.encode("utf-8")
    if not escaped:
        return raw
    return _ESCAPE.sub(lambda match: bytes([int(match[1], 16)]) if match[1] else b"\\", raw)


def byte_lengths(names: list[str]) -> Iterable[int]:
    """Lengths in bytes: what the file system limits."""
    if all(map(str.isascii, names)):
        return map(len, names)
    return map(len, map(os.fsencode, names))


@lru_cache(maxsize=10_000)
def extension_of(suffix: str) -> str:
    """What counts as an extension of the text behind the last dot: `H5` is h5, `0001` a number, a sentence none."""
    if not 0 < len(suffix) <= _LONGEST_EXTENSION:
        return NO_EXTENSION
    if suffix.isdecimal():
        return NUMBER
    if not (suffix.isascii() and suffix.replace("_", "").replace("-", "").isalnum()):
        return NO_EXTENSION
    return suffix.lower()


def extension_of_name(name: str) -> str:
    """A leading dot hides a file; it does not begin an extension."""
    head, _, suffix = name.rpartition(".")
    return extension_of(suffix) if head else NO_EXTENSION


class Owner(NamedTuple):
    """Unknown parts are None: a list of paths has no users, and a project is known only where a rule named one."""

    uid: int | None = None
    gid: int | None = None
    project: str | None = None


@cache
def group_name(gid: int) -> str | None:
    """Name of a group on this host; None where it has none."""
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return None


@cache
def user_name(uid: int) -> str | None:
    """Name of a user on this host; None where it has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return None


class Projects:
    """Finds the owner of the files of a directory. Rules see the directory's path with a slash at its end; a rule's
    account is compared with the group's name, because centres name the groups of projects after their accounts."""

    def __init__(self, rules: Sequence[ProjectRule]) -> None:
        self._rules = tuple(rule for rule in rules if rule.exe is None)
        self._by_path = any(rule.path is not None for rule in self._rules)
        self._known: dict[tuple[int, int], Owner] = {}
        self._place = ""

    def owner(self, uid: int, gid: int, directory: str) -> Owner:
        if self._by_path and directory != self._place:
            self._known.clear()
            self._place = directory
        found = self._known.get((uid, gid))
        if found is None:
            found = self._known[(uid, gid)] = Owner(uid, gid, self._project(uid, gid, directory))
        return found

    def _project(self, uid: int, gid: int, directory: str) -> str | None:
        if not self._rules:
            return None
        account = group_name(gid)
        path = directory if directory.endswith("/") else f"{directory}/"
        matching = (rule for rule in self._rules if rule.matches(account=account, uid=uid, exe=None, path=path))
        return next((rule.name for rule in matching), None)


def project_name(owner: Owner) -> str | None:
    """The project, or what a facility without rules calls the user; when read, such users are mapped again."""
    from ioweather.core.facility import Facility

    if owner.project is not None or owner.uid is None:
        return owner.project
    return Facility().project_of(uid=owner.uid)


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


Cells: TypeAlias = dict[Any, int]
Column: TypeAlias = Sequence[int] | None

LARGEST_KEPT: Final = 20
TROUBLES_KEPT: Final = 20
# Names with random endings must not fill the memory; beyond this many, new extensions count as other.
EXTENSIONS_KEPT: Final = 2000
LARGEST_KINDS: Final = ("directories_by_bytes", "directories_by_entries", "files")


class Files(NamedTuple):
    """Columns of regular files of one owner, each inode once. Times in seconds; a column not known is None.

    `names` may be the extensions alone (`named` is false), where a file has several names.
    """

    names: list[str]
    size: Column = None
    capacity: Column = None
    mtime: Column = None
    atime: Column = None
    ctime: Column = None
    named: bool = True


class Tally:
    """Histograms by owner and of the whole, counts by name, the largest, and examples of what went wrong."""

    def __init__(self, now_seconds: int) -> None:
        self.now = now_seconds
        self.owners: dict[Owner, dict[str, Cells]] = {}
        self.whole: dict[str, Cells] = {name: {} for name, spec in HISTOGRAMS.items() if not spec.per_owner}
        self.counts: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()
        self.largest: dict[str, list[tuple[int, str, int]]] = {kind: [] for kind in LARGEST_KINDS}
        self.troubles: list[tuple[str, str]] = []

    def add_files(self, owner: Owner, files: Files, seen_seconds: int) -> None:
        """Count the files. `seen_seconds`: when they were examined; times more than a day later are in the future."""
        count = len(files.names)
        if not count:
            return
        self.counts["files"] += count
        own = self.owners.setdefault(owner, {})
        size, capacity = files.size, files.capacity
        values = [ONE] * count if size is None else [number + ONE for number in size]
        times = {"mtime": files.mtime, "atime": files.atime, "ctime": files.ctime}
        ages = {name: self._age_bins(each, seen_seconds) for name, each in times.items() if each is not None}
        if size is not None:
            size_bins = [number.bit_length() for number in size]
            _add_values(own.setdefault("size", {}), size_bins, values)
            if "mtime" in ages:
                pairs = zip(size_bins, ages["mtime"], strict=True)
                _add_values(self.whole["age_size"], [index << AGE_BITS | age for index, age in pairs], values)
        for name, bins in ages.items():
            _add_values(own.setdefault(name, {}), bins, values)
        if capacity is not None:
            bins = [number.bit_length() for number in capacity]
            _add_values(own.setdefault("capacity", {}), bins, [number + ONE for number in capacity])
        if size is not None and capacity is not None:
            for used, allocated in zip(size, capacity, strict=True):
                name = "overhead_positive" if allocated >= used else "overhead_negative"
                difference = abs(allocated - used)
                self.add(name, difference.bit_length(), 1, difference)
        extensions = map(extension_of_name, files.names) if files.named else files.names
        for extension, value in zip(extensions, values, strict=True):
            self.add_extension(extension, value)

    def _age_bins(self, times: Sequence[int], seen_seconds: int) -> list[int]:
        """Bins of ages at the start of the scan; files written during the scan have age 0."""
        latest = max(self.now, seen_seconds) + DAY_SECONDS
        return [
            FUTURE if moment > latest else (max(0, self.now - moment) // DAY_SECONDS).bit_length() for moment in times
        ]

    def add_extension(self, extension: str, value: int) -> None:
        cells = self.whole["extension"]
        if extension not in cells and len(cells) >= EXTENSIONS_KEPT:
            extension = OTHER
        cells[extension] = cells.get(extension, 0) + value

    def add(self, histogram: str, index: int, count: int, weight: int) -> None:
        cells = self.whole[histogram]
        cells[index] = cells.get(index, 0) + count * ONE + weight

    def add_names(self, names: list[str]) -> None:
        """Names of entries of any kind; a file with two names has two."""
        cells = self.whole["name_length"]
        for length, count in Counter(byte_lengths(names)).items():
            cells[length] = cells.get(length, 0) + count * (ONE + length)

    def add_directory(self, path: str, uid: int, entries: int, size_bytes: int, held_bytes: int) -> None:
        self.counts["directories"] += 1
        self.add("directory_entries", entries.bit_length(), 1, size_bytes)
        self.add("directory_size", size_bytes.bit_length(), 1, size_bytes)
        self.note("directories_by_entries", entries, path, uid)
        self.note("directories_by_bytes", held_bytes, path, uid)

    def note(self, kind: str, value: int, path: str, uid: int) -> None:
        largest = self.largest[kind]
        if len(largest) < LARGEST_KEPT:
            heapq.heappush(largest, (value, path, uid))
        elif value > largest[0][0]:
            heapq.heapreplace(largest, (value, path, uid))

    def trouble(self, path: str, code: str) -> None:
        self.errors[code] += 1
        if len(self.troubles) < TROUBLES_KEPT:
            self.troubles.append((path, code))

    def merge(self, other: Tally) -> None:
        for owner, histograms in other.owners.items():
            own = self.owners.setdefault(owner, {})
            for name, cells in histograms.items():
                _merge(own.setdefault(name, {}), cells)
        for name, cells in other.whole.items():
            if name == "extension":
                for extension, value in cells.items():
                    self.add_extension(extension, value)
            else:
                _merge(self.whole[name], cells)
        self.counts.update(other.counts)
        self.errors.update(other.errors)
        for kind, largest in other.largest.items():
            for value, path, uid in largest:
                self.note(kind, value, path, uid)
        self.troubles += other.troubles[: TROUBLES_KEPT - len(self.troubles)]

    def histograms(self, owners: Iterable[Owner] | None = None) -> dict[str, Cells]:
        """Histograms summed over some owners (those per owner only), or over all."""
        total: dict[str, Cells] = (
            {} if owners is not None else {name: dict(cells) for name, cells in self.whole.items()}
        )
        for owner in self.owners if owners is None else owners:
            for name, cells in self.owners[owner].items():
                _merge(total.setdefault(name, {}), cells)
        return total

    def to_json(self) -> dict[str, Any]:
        """Plain data; JSON makes text of the keys of cells."""
        return {
            "now": self.now,
            "owners": [[*owner, histograms] for owner, histograms in self.owners.items()],
            "whole": self.whole,
            "counts": self.counts,
            "errors": self.errors,
            "largest": self.largest,
            "troubles": self.troubles,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Tally:
        tally = cls(data["now"])
        for uid, gid, project, histograms in data["owners"]:
            tally.owners[Owner(uid, gid, project)] = {name: _numbered(name, c) for name, c in histograms.items()}
        tally.whole |= {name: _numbered(name, cells) for name, cells in data["whole"].items()}
        tally.counts.update(data["counts"])
        tally.errors.update(data["errors"])
        tally.largest = {kind: [(v, p, u) for v, p, u in largest] for kind, largest in data["largest"].items()}
        tally.troubles = [(path, code) for path, code in data["troubles"]]
        return tally


def _add_values(into: Cells, indexes: Iterable[int], values: Iterable[int]) -> None:
    for index, value in zip(indexes, values, strict=True):
        into[index] = into.get(index, 0) + value


def _merge(into: Cells, cells: Cells) -> None:
    for index, value in cells.items():
        into[index] = into.get(index, 0) + value


def _numbered(name: str, cells: Mapping[str, int]) -> Cells:
    return dict(cells) if HISTOGRAMS[name].edges == "label" else {int(index): value for index, value in cells.items()}


_LINKS_AT_ONCE: Final = 4096
_AMOUNTS: Final = ("size", "capacity", "mtime", "atime", "ctime")


def linked_tally(records: Iterable[LinkRecord], now_seconds: int) -> Tally:
    """Files with several names are counted once, when all their names are in: a record each."""
    tally = Tally(now_seconds)
    seen = int(time.time())
    source = iter(records)
    while batch := list(islice(source, _LINKS_AT_ONCE)):
        by_owner: dict[Owner, list[LinkRecord]] = {}
        for record in batch:
            by_owner.setdefault(Owner(record.uid, record.gid, record.project or None), []).append(record)
            tally.add("depth", record.depth, 1, record.size or 0)
            tally.add("link_count", record.links.bit_length(), 1, record.size or 0)
        for owner, group in by_owner.items():
            size, capacity, mtime, atime, ctime = (_column(group, name) for name in _AMOUNTS)
            files = Files([record.extension for record in group], size, capacity, mtime, atime, ctime, named=False)
            tally.add_files(owner, files, seen)
    return tally


def _column(records: list[LinkRecord], name: str) -> list[int] | None:
    """A list may not say everything of its files."""
    values = [getattr(record, name) for record in records]
    return None if None in values else values
