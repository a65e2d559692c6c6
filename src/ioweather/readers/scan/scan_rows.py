"""From a tally to rows of `scans` and `scan_bins`."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

from ioweather.core.contracts import PathPolicy
from ioweather.core.frames import Frame
from ioweather.core.safe_files import file_system_of
from ioweather.core.tables import TABLES
from ioweather.core.words import names_of, pairs_of
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
class ScanFacts:
    """Facts of a scan that are not in its tally. `whole` says that the tree was walked, or the list read, to its end;
    `names` that user and group numbers are those of this host; `tree` is None for a list."""

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


class TreeFacts(NamedTuple):
    """What the system reports of the file system of the root."""

    mount: str | None
    filesystem_type: str | None
    total_bytes: int | None = None
    free_bytes: int | None = None
    total_inodes: int | None = None
    used_inodes: int | None = None


def tree_facts(root: str) -> TreeFacts:
    """What the system reports of the file system of a directory."""
    known = TreeFacts(*file_system_of(root))
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
    """Bins first: a scan that is in `scans` has its bins."""
    yield "scan_bins", bins_frame(facts, tally)
    yield "scans", scans_frame(facts, tally, paths)


def scans_frame(facts: ScanFacts, tally: Tally, paths: PathPolicy = "keep") -> Frame:
    """The row of `scans`. Some counts only a walk knows; others a list knows too, where it has such entries."""
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
    links = whole["link_count"]
    linked = sum(count_of(cell) for index, cell in links.items() if index > 1)
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
        file_bytes=_weight(whole.get("size")),
        capacity_bytes=_weight(whole.get("capacity")),
        directory_bytes=None if present["directory_count"] is None else _weight(whole["directory_size"]),
        linked_file_count=linked if is_walk or links else None,
        largest_file_bytes=max((value for value, _, _ in tally.largest["files"]), default=None),
        errors=_errors(tally, paths),
        largest=_largest(tally, paths),
        cpu_seconds=facts.cpu_seconds,
        **walked,
        **present,
        **{name: min(value, _MOST) if isinstance(value, int) else value for name, value in of_tree.items()},
    )


def bins_frame(facts: ScanFacts, tally: Tally) -> Frame:
    """The rows of `scan_bins`."""
    rows = [
        (kind, owner, name, histogram, *bounds, count_of(cell), _fits(weight_of(cell)))
        for kind, owner, name, histograms in _owners(tally, facts.names)
        for histogram, cells in histograms.items()
        for *bounds, cell in _bins(HISTOGRAMS[histogram], cells)
    ]
    columns = zip(*rows, strict=True) if rows else [()] * len(_BIN_COLUMNS)
    return TABLES["scan_bins"].frame(
        {name: list(column) for name, column in zip(_BIN_COLUMNS, columns, strict=True)},
        rows=len(rows),
        scan_id=facts.scan_id,
        start_ns=facts.start_ns,
        root=stored_text(facts.root)[0],
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


def _fits(number: int) -> int:
    return min(number, _MOST)


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
