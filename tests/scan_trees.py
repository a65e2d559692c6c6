"""Directory trees for tests of the scanner, and a second, slow statement of everything it counts."""

# Names are any bytes here, and pathlib knows only text.
# ruff: noqa: PTH208
from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DAY = 86_400
Histogram = dict[Any, list[int]]


def entries(folder: bytes, depth: int = 0) -> Iterator[tuple[bytes, int, os.stat_result]]:
    """Everything below a directory, and the directory itself."""
    yield folder, depth, os.lstat(folder)
    for name in sorted(os.listdir(folder)):
        path = folder + b"/" + name
        found = os.lstat(path)
        if stat.S_ISDIR(found.st_mode):
            yield from entries(path, depth + 1)
        else:
            yield path, depth + 1, found


def runs_tree(root: Path, runs: int) -> Path:
    """Directories of six files each, one of which has a second name above."""
    for number in range(runs):
        folder = root / f"p{number % 3}" / f"run{number}"
        folder.mkdir(parents=True)
        for index in range(6):
            (folder / f"f{index}.dat").write_bytes(b"x" * number * index)
        os.link(folder / "f1.dat", root / f"again{number}.txt")
    return root


def bin_of(amount: int) -> int:
    """0 is 0; otherwise k with 2^(k-1) <= amount < 2^k."""
    k = 0
    while amount >= 2**k:
        k += 1
    return 0 if amount == 0 else k


def age_bin(moment: int, now: int) -> int:
    return bin_of(max(0, now - moment) // DAY)


def extension(name: bytes) -> str:
    text = os.fsdecode(name)
    if "." not in text.lstrip(".") or text.rindex(".") == 0:
        return ""
    end = text.rsplit(".", 1)[1]
    if end.isdecimal() and 0 < len(end) <= 16:
        return "(number)"
    fine = 0 < len(end) <= 16 and all(c.isascii() and (c.isalnum() or c in "_-") for c in end)
    return end.lower() if fine and any(c.isalnum() for c in end) else ""


class Naive:
    """Histograms by (owner kind, owner, histogram) -> bin -> [count, weight], by the book and one file at a time."""

    def __init__(self, root: Path, now: int) -> None:
        self.cells: dict[tuple[str, Any, str], Histogram] = {}
        self.counts = dict.fromkeys(("files", "directories", "symlinks", "others", "entries"), 0)
        self._now = now
        inodes: dict[tuple[int, int], list[tuple[int, str]]] = {}
        found_of: dict[tuple[int, int], os.stat_result] = {}
        for path, depth, found in entries(os.fsencode(root)):
            name = path.rsplit(b"/", 1)[1]
            if depth:
                self.counts["entries"] += 1
                self._add("all", "", "name_length", len(name), len(name))
            if stat.S_ISREG(found.st_mode):
                key = (found.st_dev, found.st_ino)
                inodes.setdefault(key, []).append((depth, extension(name)))
                found_of[key] = found
            elif stat.S_ISDIR(found.st_mode):
                self.counts["directories"] += 1
                self._add("all", "", "directory_entries", bin_of(len(os.listdir(path))), found.st_size)
                self._add("all", "", "directory_size", bin_of(found.st_size), found.st_size)
            elif stat.S_ISLNK(found.st_mode):
                self.counts["symlinks"] += 1
                self._add("all", "", "symlink_length", bin_of(found.st_size), found.st_size)
            else:
                self.counts["others"] += 1
        for key, names in inodes.items():
            self._file(found_of[key], *min(names))

    def _file(self, found: os.stat_result, depth: int, ending: str) -> None:
        self.counts["files"] += 1
        size, capacity = found.st_size, found.st_blocks * 512
        ages = {
            name: age_bin(getattr(found, f"st_{name}_ns") // 10**9, self._now) for name in ("mtime", "atime", "ctime")
        }
        for kind, owner in (("all", ""), ("user", found.st_uid), ("group", found.st_gid)):
            self._add(kind, owner, "size", bin_of(size), size)
            self._add(kind, owner, "capacity", bin_of(capacity), capacity)
            for name, age in ages.items():
                self._add(kind, owner, name, age, size)
        self._add("all", "", "age_size", (bin_of(size), ages["mtime"]), size)
        over = "overhead_positive" if capacity >= size else "overhead_negative"
        self._add("all", "", over, bin_of(abs(capacity - size)), abs(capacity - size))
        self._add("all", "", "depth", depth, size)
        self._add("all", "", "extension", ending, size)
        self._add("all", "", "link_count", bin_of(found.st_nlink), size)

    def _add(self, kind: str, owner: Any, histogram: str, index: Any, weight: int) -> None:
        cell = self.cells.setdefault((kind, owner, histogram), {}).setdefault(index, [0, 0])
        cell[0] += 1
        cell[1] += weight


def counted(tally: Any) -> dict[tuple[str, Any, str], Histogram]:
    """A tally in the same form."""
    from ioweather.readers.scan.tally import entries_in, split_size_age, weight_in

    found: dict[tuple[str, Any, str], Histogram] = {}

    def put(kind: str, owner: Any, histograms: Any) -> None:
        for name, cells in histograms.items():
            for index, cell in cells.items():
                place = split_size_age(index) if name == "age_size" else index
                found.setdefault((kind, owner, name), {})[place] = [entries_in(cell), weight_in(cell)]

    put("all", "", tally.histograms())
    for kind in ("uid", "gid"):
        for number in {getattr(owner, kind) for owner in tally.owners}:
            members = [owner for owner in tally.owners if getattr(owner, kind) == number]
            put({"uid": "user", "gid": "group"}[kind], number, tally.histograms(members))
    return found
