"""Counts of a scan: histograms, owners, the largest files; and their rows of `scans` and `scan_bins`. Tallies of parts
add up to the tally of the whole.

Files go in one by one; nothing is stored of them but the few largest, so a tally stays small for any tree.

Sizes and ages have power-of-two bins: bin 0 is 0, bin k is [2^(k-1), 2^k), so every power of two is an edge, such as
1 MiB, 64 days and 128 days. A cell is one integer: entries in the high bits, the sum of their weights in the low ones,
because one addition per entry costs half of two.
"""

from __future__ import annotations

import grp
import hashlib
import heapq
import json
import os
import pwd
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, NamedTuple, TypeAlias

from ioweather.core.contracts import PathPolicy
from ioweather.core.facility import Facility, ProjectRule
from ioweather.core.frames import Frame
from ioweather.core.safe_files import file_system_of
from ioweather.core.tables import TABLES
from ioweather.core.units import pairs_of

ONE: Final = 1 << 96  # one entry; below it is room for 2^33 files of the greatest size there is
WEIGHT: Final = ONE - 1
DAY_SECONDS: Final = 86_400
# Ages have fewer than 48 bits in days, whatever the clock said; the last index is free for times to come.
FUTURE: Final = 63


# Histograms of files in bytes and in days, of each owner, and one of directories. A bin has its number of entries, and
# their bytes (`capacity`: allocated bytes).
SIZES: Final = ("capacity", "directory_size", "size")
AGES: Final = ("atime", "ctime", "mtime")


def entries_in(cell: int) -> int:
    """Number of entries in a cell."""
    return cell >> 96


def weight_in(cell: int) -> int:
    """Sum of the weights in a cell."""
    return cell & WEIGHT


# Names as file systems give them: any bytes.
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


class Owner(NamedTuple):
    """User, group and project of a file. Unknown parts are None: a list of paths has no users, and a project is known
    only where a rule names one."""

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
        """The owner of files with these numbers in a directory; remembered, as most files have the same."""
        if self._by_path and directory != self._place:
            self._known.clear()
            self._place = directory
        found = self._known.get((uid, gid))
        if found is None:
            found = self._known[(uid, gid)] = Owner(uid, gid, self._project(uid, gid, directory))
        return found

    def _project(self, uid: int, gid: int, directory: str) -> str | None:
        """The first project whose rule fits the group, the user or the path."""
        if not self._rules:
            return None
        account = group_name(gid)
        path = directory if directory.endswith("/") else f"{directory}/"
        matching = (rule for rule in self._rules if rule.matches(account=account, uid=uid, exe=None, path=path))
        return next((rule.name for rule in matching), None)


def project_name(owner: Owner) -> str | None:
    """The project, or what a facility without rules calls the user; when read, such users are mapped again."""
    if owner.project is not None or owner.uid is None:
        return owner.project
    return Facility().project_of(uid=owner.uid)


class LinkRecord(NamedTuple):
    """A file with several names, as seen under one of them; counted once, when all names are in. Unknown: None."""

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


Cells: TypeAlias = Counter[int]
Histograms: TypeAlias = defaultdict[str, Cells]

LARGEST_KEPT: Final = 20
TROUBLES_KEPT: Final = 20


def _histograms() -> Histograms:
    return defaultdict(Counter)


class Tally:
    """Histograms by owner and of the whole, counts by name, the largest, and examples of what went wrong.

    Ages are those at `now_seconds`, the start of the scan; times more than a day after `seen_seconds`, when the files
    are examined, are in the future.
    """

    def __init__(self, now_seconds: int, seen_seconds: int = 0) -> None:
        self.now = now_seconds
        self._latest = max(now_seconds, seen_seconds) + DAY_SECONDS
        self.owners: defaultdict[Owner, Histograms] = defaultdict(_histograms)
        self.whole = _histograms()
        self.counts: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()
        self.largest: list[tuple[int, str, int]] = []  # a heap of (bytes, path, uid) of files
        self.troubles: list[tuple[str, str]] = []

    def add_file(
        self,
        owner: Owner,
        links: int | None,
        size: int | None,
        capacity: int | None,
        mtime: int | None,
        atime: int | None,
        ctime: int | None,
    ) -> None:
        """Count a regular file. Times are in seconds; what is not known is None."""
        self.counts["files"] += 1
        own = self.owners[owner]
        value = ONE if size is None else ONE + size
        for name, moment in (("mtime", mtime), ("atime", atime), ("ctime", ctime)):
            if moment is not None:
                age = FUTURE if moment > self._latest else (max(0, self.now - moment) // DAY_SECONDS).bit_length()
                own[name][age] += value
        if size is not None:
            own["size"][size.bit_length()] += value
        if capacity is not None:
            own["capacity"][capacity.bit_length()] += capacity + ONE
        if links is not None:
            self.counts["known_links"] += 1
            self.counts["linked_files"] += links > 1

    def add_links(self, records: Iterable[LinkRecord]) -> None:
        """Count files with several names, of which all names are in."""
        for r in records:
            owner = Owner(r.uid, r.gid, r.project or None)
            self.add_file(owner, r.links, r.size, r.capacity, r.mtime, r.atime, r.ctime)

    def add_directory(self, size_bytes: int | None) -> None:
        """Count a directory and its own size."""
        self.counts["directories"] += 1
        if size_bytes is not None:
            self.whole["directory_size"][size_bytes.bit_length()] += ONE + size_bytes

    def note_largest(self, value: int, path: str, uid: int) -> None:
        """Remember the file if it is one of the largest."""
        if len(self.largest) < LARGEST_KEPT:
            heapq.heappush(self.largest, (value, path, uid))
        elif value > self.largest[0][0]:
            heapq.heapreplace(self.largest, (value, path, uid))

    def add_trouble(self, path: str, code: str) -> None:
        """Count an error by its code (EACCES), with the first paths as examples."""
        self.errors[code] += 1
        if len(self.troubles) < TROUBLES_KEPT:
            self.troubles.append((path, code))

    def merge(self, other: Tally) -> None:
        """Add the counts of another part of the tree."""
        for owner, histograms in other.owners.items():
            for name, cells in histograms.items():
                self.owners[owner][name].update(cells)
        for name, cells in other.whole.items():
            self.whole[name].update(cells)
        self.counts.update(other.counts)
        self.errors.update(other.errors)
        for value, path, uid in other.largest:
            self.note_largest(value, path, uid)
        self.troubles += other.troubles[: TROUBLES_KEPT - len(self.troubles)]

    def histograms(self, owners: Iterable[Owner] | None = None) -> Histograms:
        """Histograms summed over some owners (those per owner only), or over all."""
        total = _histograms()
        if owners is None:
            total |= {name: cells.copy() for name, cells in self.whole.items()}
        for owner in self.owners if owners is None else owners:
            for name, cells in self.owners[owner].items():
                total[name].update(cells)
        return total

    def to_json(self) -> dict[str, Any]:
        """The tally as plain data for JSON, which makes text of the keys of cells."""
        owners = [[*owner, histograms] for owner, histograms in self.owners.items()]
        parts = ("now", "whole", "counts", "errors", "largest", "troubles")
        return {"owners": owners, **{part: getattr(self, part) for part in parts}}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Tally:
        """The tally that `to_json` gave."""

        def numbered(histograms: Mapping[str, Mapping[str, int]]) -> Histograms:
            """Histograms whose bins are numbers again."""
            found = _histograms()
            for name, cells in histograms.items():
                found[name].update({int(index): value for index, value in cells.items()})
            return found

        tally = cls(data["now"])
        tally.owners.update({Owner(*owner): numbered(histograms) for *owner, histograms in data["owners"]})
        tally.whole = numbered(data["whole"])
        tally.counts.update(data["counts"])
        tally.errors.update(data["errors"])
        tally.largest = [(value, path, uid) for value, path, uid in data["largest"]]
        tally.troubles = [(path, code) for path, code in data["troubles"]]
        return tally


@dataclass(frozen=True)
class ScanFacts:
    """Facts of a scan that are not in its tally. `whole` says that the tree was walked, or the list read, to its end;
    `names` that user and group numbers are those of this host; `tree` is None for a list."""

    scan_id: str
    start_ns: int
    end_ns: int | None
    root: str
    system: str
    host: str | None = None
    tree: _TreeFacts | None = None
    whole: bool = True
    names: bool = False
    cpu_seconds: float | None = None


class _TreeFacts(NamedTuple):
    """What the system reports of the file system of the root."""

    mount: str | None
    filesystem_type: str | None
    total_bytes: int | None = None
    free_bytes: int | None = None
    total_inodes: int | None = None
    used_inodes: int | None = None


def tree_facts(root: str) -> _TreeFacts:
    """What the system reports of the file system of a directory."""
    known = _TreeFacts(*file_system_of(root))
    try:
        found = os.statvfs(root)
    except OSError:
        return known
    known = known._replace(total_bytes=found.f_blocks * found.f_frsize, free_bytes=found.f_bavail * found.f_frsize)
    if not found.f_files:  # file systems that make inodes as they need them say 0
        return known
    return known._replace(total_inodes=found.f_files, used_inodes=found.f_files - found.f_ffree)


_MOST: Final = (1 << 63) - 1  # sparse files can add up to more than 64 bits


def scan_frames(facts: ScanFacts, tally: Tally, paths: PathPolicy = "keep") -> Iterator[tuple[str, Frame]]:
    """Rows of `scan_bins`, then of `scans`: a scan that is in `scans` has its bins."""
    yield "scan_bins", bins_frame(facts, tally)
    yield "scans", scans_frame(facts, tally, paths)


def scans_frame(facts: ScanFacts, tally: Tally, paths: PathPolicy = "keep") -> Frame:
    """The row of `scans`. Counts that a list of paths cannot have are null."""
    counts, whole, is_walk = tally.counts, tally.histograms(), facts.tree is not None
    walked = {
        column: counts[name] if is_walk else None
        for column, name in pairs_of("""
            vanished_count=vanished unreadable_count=unreadable not_examined_count=not_examined
            skipped_filesystem_count=other_filesystems skipped_snapshot_count=snapshots
        """).items()
    }
    present = {
        column: counts[name] if is_walk or counts[name] else None
        for column, name in pairs_of("""
            directory_count=directories symlink_count=symlinks other_count=others linked_name_count=linked_names
        """).items()
    }
    examples = [[stored_path(path, paths), code] for path, code in tally.troubles]
    errors = {"errors": dict(sorted(tally.errors.items())), "examples": examples}
    of_tree = {} if facts.tree is None else facts.tree._asdict()
    of_tree.pop("mount", None)
    return TABLES["scans"].frame(
        rows=1,
        scan_id=facts.scan_id,
        start_ns=facts.start_ns,
        end_ns=facts.end_ns,
        host=facts.host,
        root=stored_text(facts.root)[0],
        system=stored_text(facts.system)[0],
        complete=facts.whole and not counts["unreadable"],
        entry_count=counts["entries"],
        file_count=counts["files"],
        file_bytes=_sum_weights(whole.get("size")),
        capacity_bytes=_sum_weights(whole.get("capacity")),
        directory_bytes=None if present["directory_count"] is None else _sum_weights(whole["directory_size"]),
        linked_file_count=counts["linked_files"] if is_walk or counts["known_links"] else None,
        largest_file_bytes=max((value for value, _, _ in tally.largest), default=None),
        errors=json.dumps(errors) if tally.errors else None,
        largest=_largest_json(tally, paths),
        cpu_seconds=facts.cpu_seconds,
        **walked,
        **present,
        **{name: min(value, _MOST) if isinstance(value, int) else value for name, value in of_tree.items()},
    )


def bins_frame(facts: ScanFacts, tally: Tally) -> Frame:
    """The rows of `scan_bins`."""
    same = {"scan_id": facts.scan_id, "start_ns": facts.start_ns, "root": stored_text(facts.root)[0]}
    return TABLES["scan_bins"].frame_of(
        [
            {
                **same,
                "owner_kind": kind,
                "owner": owner,
                "owner_name": name,
                "histogram": histogram,
                **_bin_columns(histogram, index),
                "count": entries_in(cell),
                "bytes": _cap_int64(weight_in(cell)),
            }
            for kind, owner, name, histograms in _list_owners(tally, facts.names)
            for histogram, cells in histograms.items()
            for index, cell in sorted(cells.items())
        ]
    )


def _list_owners(tally: Tally, named: bool) -> Iterator[tuple[str, str, str | None, Mapping[str, Cells]]]:
    """Kind, number and name of each owner, with its histograms; first all owners together."""
    yield "all", "", None, tally.histograms()
    kinds: tuple[tuple[str, Callable[[Owner], Any], Callable[[int], str | None] | None], ...] = (
        ("user", lambda owner: owner.uid, user_name),
        ("group", lambda owner: owner.gid, group_name),
        ("project", project_name, None),
    )
    for kind, part_of, name_of in kinds:
        members: dict[Any, list[Owner]] = {}
        for owner in tally.owners:
            if (part := part_of(owner)) is not None:
                members.setdefault(part, []).append(owner)
        for part, owners in sorted(members.items()):
            yield kind, str(part), name_of(part) if named and name_of else None, tally.histograms(owners)


def _bin_columns(histogram: str, index: int) -> dict[str, Any]:
    """The columns of a bin: its number, and its edges in bytes or days."""
    if histogram in AGES and index == FUTURE:  # times to come have no low end
        return {"bin": "-1", "low": None, "high": 0}
    low = 0 if index == 0 else 1 << (index - 1)
    return {"bin": str(index), "low": _cap_int64(low), "high": _cap_int64(1 << index)}


def _cap_int64(number: int) -> int:
    return min(number, _MOST)


def _sum_weights(cells: Mapping[Any, int] | None) -> int | None:
    """The sum of all weights of a histogram."""
    return _cap_int64(sum(map(weight_in, cells.values()))) if cells is not None else None


def stored_path(path: str, paths: PathPolicy) -> str | None:
    """A path, its hash or None, as the policy says."""
    if paths == "drop":
        return None
    text, _ = stored_text(path)
    return text if paths == "keep" else hashlib.sha256(text.encode()).hexdigest()[:32]


def _largest_json(tally: Tally, paths: PathPolicy) -> str | None:
    """The largest files as JSON; None if there are none."""
    found = [
        {"value": value, "path": stored_path(path, paths), "uid": uid}
        for value, path, uid in sorted(tally.largest, reverse=True)
    ]
    return json.dumps({"files": found}) if found else None
