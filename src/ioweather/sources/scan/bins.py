"""Histograms of a scan: their bins, what a bin counts, and how counts and sums are kept.

Sizes and ages have power-of-two bins: bin 0 holds 0, bin k holds [2^(k-1), 2^k), so an edge stands at every power of
two, among them 1 MiB, 64 days and 128 days. A cell is one integer: entries in the high bits, the sum of what they
weigh in the low ones, because one addition per entry costs half of two.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

ONE: Final = 1 << 96  # one entry; below it is room for 2^33 files of the greatest size there is
WEIGHT: Final = ONE - 1
DAY_SECONDS: Final = 86_400
# Ages have fewer than 48 bits in days, whatever the clock said; the last index is free for times to come.
FUTURE: Final = 63
AGE_BITS: Final = 6
FUTURE_DAYS: Final = 1 << (FUTURE - 1)


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
    return cell >> 96


def weight_of(cell: int) -> int:
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
