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


class Naive:
    """Histograms by (owner kind, owner, histogram) -> bin -> [count, weight], by the book and one file at a time."""

    def __init__(self, root: Path, now: int) -> None:
        self.cells: dict[tuple[str, Any, str], Histogram] = {}
        self.counts = dict.fromkeys(("files", "directories", "symlinks", "others", "entries"), 0)
        self._now = now
        found_of: dict[tuple[int, int], os.stat_result] = {}
        for _, depth, found in entries(os.fsencode(root)):
            self.counts["entries"] += depth > 0
            if stat.S_ISREG(found.st_mode):
                found_of[found.st_dev, found.st_ino] = found
            elif stat.S_ISDIR(found.st_mode):
                self.counts["directories"] += 1
                self._add("all", "", "directory_size", bin_of(found.st_size), found.st_size)
            elif stat.S_ISLNK(found.st_mode):
                self.counts["symlinks"] += 1
            else:
                self.counts["others"] += 1
        for found in found_of.values():
            self._file(found)

    def _file(self, found: os.stat_result) -> None:
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

    def _add(self, kind: str, owner: Any, histogram: str, index: Any, weight: int) -> None:
        cell = self.cells.setdefault((kind, owner, histogram), {}).setdefault(index, [0, 0])
        cell[0] += 1
        cell[1] += weight


def counted(tally: Any) -> dict[tuple[str, Any, str], Histogram]:
    """A tally in the same form."""
    from ioweather.readers.scan.tally import entries_in, weight_in

    found: dict[tuple[str, Any, str], Histogram] = {}

    def put(kind: str, owner: Any, histograms: Any) -> None:
        for name, cells in histograms.items():
            for index, cell in cells.items():
                found.setdefault((kind, owner, name), {})[index] = [entries_in(cell), weight_in(cell)]

    put("all", "", tally.histograms())
    for kind in ("uid", "gid"):
        for number in {getattr(owner, kind) for owner in tally.owners}:
            members = [owner for owner in tally.owners if getattr(owner, kind) == number]
            put({"uid": "user", "gid": "group"}[kind], number, tally.histograms(members))
    return found
