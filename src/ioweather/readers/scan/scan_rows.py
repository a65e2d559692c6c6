"""From a tally to rows of `scans` and `scan_bins`."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, overload

from ioweather.core.contracts import PathPolicy
from ioweather.core.frames import Frame
from ioweather.core.safe_files import file_system_of
from ioweather.core.tables import TABLES
from ioweather.core.words import names_of
from ioweather.readers.scan.tally import (
    FUTURE,
    HISTOGRAMS,
    Cells,
    Histogram,
    Owner,
    Tally,
    age_range,
    count_of,
    group_name,
    power_range,
    project_name,
    split_size_age,
    stored_text,
    user_name,
    weight_of,
)


@dataclass(frozen=True)
class TreeFacts:
    """What the system reports of the file system of the root."""

    mount: str | None
    type: str | None
    total_bytes: int | None
    free_bytes: int | None
    total_inodes: int | None
    used_inodes: int | None


@dataclass(frozen=True)
class ScanFacts:
    """Facts of a scan that are not in its tally. `whole` says that the tree was walked, or the list read, to its end;
    `names` that user and group numbers are those of this host."""

    scan_id: str
    start_ns: int
    end_ns: int | None
    root: str
    system: str
    host: str | None = None
    tree: TreeFacts | None = None
    whole: bool = True
    names: bool = False
    cpu_seconds: float | None = None


def tree_facts(root: str) -> TreeFacts:
    """What the system reports of the file system of a directory."""
    mount, kind = file_system_of(root)
    try:
        found = os.statvfs(root)
    except OSError:
        return TreeFacts(mount, kind, None, None, None, None)
    inodes = found.f_files or None  # file systems that make inodes as they need them say 0
    return TreeFacts(
        mount,
        kind,
        found.f_blocks * found.f_frsize,
        found.f_bavail * found.f_frsize,
        inodes,
        found.f_files - found.f_ffree if inodes else None,
    )


_MOST: Final = (1 << 63) - 1  # sparse files can add up to more than 64 bits


def scan_frames(facts: ScanFacts, tally: Tally, paths: PathPolicy = "keep") -> Iterator[tuple[str, Frame]]:
    """Bins first: a scan that is in `scans` has its bins."""
    yield "scan_bins", bins_frame(facts, tally)
    yield "scans", scans_frame(facts, tally, paths)


def scans_frame(facts: ScanFacts, tally: Tally, paths: PathPolicy = "keep") -> Frame:
    """The row of `scans`."""
    counts, whole = tally.counts, tally.histograms()
    tree, links = facts.tree, whole["link_count"]

    def walked(name: str) -> int | None:
        """The count of a walk; a list does not know it."""
        return counts[name] if tree is not None else None

    def present(name: str) -> int | None:
        """The count of a walk, or of a list that has such entries."""
        return counts[name] if tree is not None or counts[name] else None

    return TABLES["scans"].frame(
        rows=1,
        scan_id=facts.scan_id,
        start_ns=facts.start_ns,
        end_ns=facts.end_ns,
        host=facts.host,
        root=stored_text(facts.root)[0],
        system=stored_text(facts.system)[0],
        filesystem_type=tree.type if tree else None,
        complete=facts.whole and not counts["unreadable"],
        entry_count=counts["entries"],
        file_count=counts["files"],
        file_bytes=_weight(whole.get("size")),
        capacity_bytes=_weight(whole.get("capacity")),
        directory_count=present("directories"),
        directory_bytes=_weight(whole["directory_size"]) if present("directories") is not None else None,
        symlink_count=present("symlinks"),
        other_count=present("others"),
        linked_name_count=present("linked_names"),
        linked_file_count=sum(count_of(cell) for index, cell in links.items() if index > 1)
        if tree is not None or links
        else None,
        largest_file_bytes=max((value for value, _, _ in tally.largest["files"]), default=None),
        vanished_count=walked("vanished"),
        unreadable_count=walked("unreadable"),
        not_examined_count=walked("not_examined"),
        skipped_filesystem_count=walked("other_filesystems"),
        skipped_snapshot_count=walked("snapshots"),
        total_bytes=_fits(tree.total_bytes) if tree else None,
        free_bytes=_fits(tree.free_bytes) if tree else None,
        total_inodes=_fits(tree.total_inodes) if tree else None,
        used_inodes=_fits(tree.used_inodes) if tree else None,
        errors=_errors(tally, paths),
        largest=_largest(tally, paths),
        cpu_seconds=facts.cpu_seconds,
    )


def bins_frame(facts: ScanFacts, tally: Tally) -> Frame:
    """The rows of `scan_bins`."""
    rows: dict[str, list[Any]] = {name: [] for name in _BIN_COLUMNS}
    for kind, owner, name, histograms in _owners(tally, facts.names):
        for histogram, cells in histograms.items():
            for label, low, high, age_low, age_high, cell in _bins(HISTOGRAMS[histogram], cells):
                values = (kind, owner, name, histogram, label, low, high, age_low, age_high)
                for column, value in zip(_BIN_COLUMNS, (*values, count_of(cell), _fits(weight_of(cell))), strict=True):
                    rows[column].append(value)
    return TABLES["scan_bins"].frame(
        rows, rows=len(rows["count"]), scan_id=facts.scan_id, start_ns=facts.start_ns, root=stored_text(facts.root)[0]
    )


_BIN_COLUMNS: Final = names_of("""
    owner_kind owner owner_name histogram bin low high age_low_days age_high_days count bytes
""")


def _owners(tally: Tally, named: bool) -> Iterator[tuple[str, str, str | None, Mapping[str, Cells]]]:
    """Owner kind, owner, name, histograms."""
    yield "all", "", None, tally.histograms()
    users: dict[int, list[Owner]] = {}
    groups: dict[int, list[Owner]] = {}
    projects: dict[str, list[Owner]] = {}
    for owner in tally.owners:
        if owner.uid is not None:
            users.setdefault(owner.uid, []).append(owner)
        if owner.gid is not None:
            groups.setdefault(owner.gid, []).append(owner)
        if (project := project_name(owner)) is not None:
            projects.setdefault(project, []).append(owner)
    for uid, members in sorted(users.items()):
        yield "user", str(uid), user_name(uid) if named else None, tally.histograms(members)
    for gid, members in sorted(groups.items()):
        yield "group", str(gid), group_name(gid) if named else None, tally.histograms(members)
    for project, members in sorted(projects.items()):
        yield "project", project, None, tally.histograms(members)


Bin: TypeAlias = tuple[str, int | None, int | None, int | None, int | None, int]


def _bins(spec: Histogram, cells: Cells) -> Iterator[Bin]:
    """Label, edges, edges of the age, cell."""
    for index, cell in sorted(cells.items()):
        if spec.edges == "label":
            yield stored_text(index)[0], None, None, None, None, cell
        elif spec.edges == "linear":
            yield str(index), index, index + 1, None, None, cell
        elif spec.edges == "age_size":
            size_bin, age_bin = split_size_age(index)
            low, high = power_range(size_bin)
            age_low, age_high = age_range(age_bin)
            yield f"{size_bin}x{_age_label(age_bin)}", _fits(low), _fits(high), age_low, age_high, cell
        elif spec.unit == "days":
            age_low, age_high = age_range(index)
            yield _age_label(index), age_low, age_high, None, None, cell
        else:
            low, high = power_range(index)
            yield str(index), _fits(low), _fits(high), None, None, cell


def _age_label(index: int) -> str:
    return "-1" if index == FUTURE else str(index)


@overload
def _fits(number: int) -> int: ...
@overload
def _fits(number: int | None) -> int | None: ...
def _fits(number: int | None) -> int | None:
    return None if number is None else min(number, _MOST)


def _weight(cells: Mapping[Any, int] | None) -> int | None:
    return _fits(sum(map(weight_of, cells.values()))) if cells is not None else None


def shown_path(path: str, paths: PathPolicy) -> str | None:
    """A path, its hash or None, as the policy says."""
    if paths == "drop":
        return None
    text, _ = stored_text(path)
    return text if paths == "keep" else hashlib.sha256(text.encode()).hexdigest()[:32]


def _errors(tally: Tally, paths: PathPolicy) -> str | None:
    if not tally.errors:
        return None
    examples = [[shown_path(path, paths), code] for path, code in tally.troubles]
    return json.dumps({"errors": dict(sorted(tally.errors.items())), "examples": examples})


def _largest(tally: Tally, paths: PathPolicy) -> str | None:
    found = {
        kind: [
            {"value": value, "path": shown_path(path, paths), "uid": uid}
            for value, path, uid in sorted(largest, reverse=True)
        ]
        for kind, largest in tally.largest.items()
        if largest
    }
    return json.dumps(found) if found else None
