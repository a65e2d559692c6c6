"""What of a table an append must look at: the files that may hold a row of the batch, by the table's own statistics.

An open day has thousands of small files, of other hosts and of other hours. To open each for every commit would make
the day's last commit the slowest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ioweather.core.clock import utc_day
from ioweather.core.frames import Column, Frame, Text
from ioweather.core.units import DAY_NS
from ioweather.store.convert import encodable
from ioweather.store.delta_tables import Held
from ioweather.tables.schema import TableSpec

# Odd numbers without any pattern, one for each column of a key; the same in every process.
_FACTORS: Final = np.frombuffer(blake2b(digest_size=64).digest() + blake2b(b"2").digest(), np.uint64) | np.uint64(1)

Range: TypeAlias = "tuple[int, int] | tuple[str, str]"
Keys: TypeAlias = NDArray[np.uint64]


@dataclass(frozen=True)
class Extent:
    """The days of a batch, its least and greatest time (null is 0), and the range of each column that tells rows apart
    and has no null."""

    days: frozenset[str]
    low_ns: int
    high_ns: int
    ranges: Mapping[str, Range]

    def with_(self, other: Extent) -> Extent:
        """Of both batches together."""
        ranges: dict[str, Any] = {
            name: (min(low, other.ranges[name][0]), max(high, other.ranges[name][1]))
            for name, (low, high) in self.ranges.items()
            if name in other.ranges
        }
        low_ns, high_ns = min(self.low_ns, other.low_ns), max(self.high_ns, other.high_ns)
        return Extent(self.days | other.days, low_ns, high_ns, ranges)


def extent_of(spec: TableSpec, frame: Frame, source: str) -> Extent:
    moments = np.ma.filled(frame.array(spec.time), 0)
    low, high = int(moments.min()), int(moments.max())
    days = range(low // DAY_NS, high // DAY_NS + 1)
    if len(days) > 2:
        days = np.unique(moments // DAY_NS).tolist()
    names = {*spec.identity} - {spec.placeholder[0] if spec.placeholder else ""}
    if not spec.revisable:  # a row of another time is another row
        names.add(spec.time)
    ranges = {name: found for name in names if name != "source" and (found := _range(frame[name])) is not None}
    if "source" in names:
        ranges["source"] = (source, source)
    return Extent(frozenset(utc_day(day * DAY_NS) for day in days), low, high, ranges)


def _range(column: Any) -> Range | None:
    if isinstance(column, Text):
        if not column.categories or (column.codes < 0).any():
            return None
        texts = encodable(column.categories)
        return min(texts), max(texts)
    if column.dtype.kind not in "iu" or np.ma.is_masked(column):
        return None
    return int(column.min()), int(column.max())


def files_near(held: Held, extent: Extent) -> set[str]:
    """Names of the files that may hold a row of the batch. A file without a statistic may hold anything."""
    near = [place for place, day in enumerate(held.days) if day in extent.days]
    for name, (low, high) in extent.ranges.items():
        if not near:
            break
        least, most = held.extremes(name)
        near = [place for place in near if _meet(least[place], most[place], low, high)]
    return {held.names[place] for place in near}


def _meet(least: Any, most: Any, low: Any, high: Any) -> bool:
    if least is None or most is None or type(least) is not type(low) or type(most) is not type(low):
        return True
    return bool(least <= high and low <= most)


def are_distinct(spec: TableSpec, frame: Frame) -> bool:
    """Whether no two rows are the same: as where each has a text of its own."""
    texts = [column for name in spec.identity if name != "source" and isinstance(column := frame[name], Text)]
    if any(len(text.categories) == frame.rows and _rise([text]) for text in texts):
        return True
    return len(distinct_keys(spec, frame)) == frame.rows


def distinct_keys(spec: TableSpec, frame: Frame) -> Keys:
    """A number for each identity in the frame: the same row has the same one in every process. As many numbers as rows
    say that no two rows are the same; fewer, that two may be."""
    keys = np.zeros(frame.rows, np.uint64)
    columns = [frame[name] for name in spec.identity if name != "source"]  # which is one for all rows
    for column, factor in zip(columns, _FACTORS, strict=False):
        keys += _bits(column) * factor
    if frame.rows and not _rise(columns):
        keys.sort()
        keys = keys[np.append(True, keys[1:] != keys[:-1])]
    return keys


def _rise(columns: Sequence[Column]) -> bool:
    """Whether the rows are in the order of these columns, one that changes less often before one that does more often,
    so that no two are the same. Samples of many components are, and to sort them takes six times as long."""
    texts = [column.categories for column in columns if isinstance(column, Text)]
    if any(len({*encodable(each)}) < len(each) for each in texts):
        return False
    values = [column.codes if isinstance(column, Text) else np.ma.filled(column, 0) for column in columns]
    steps = [(each[1:] > each[:-1], each[1:] == each[:-1]) for each in values]
    risen: Any = False
    for rises, stays in sorted(steps, key=lambda step: np.count_nonzero(step[1])):
        risen = rises | (stays & risen)
    return bool(np.all(risen))


def _bits(column: Column) -> Keys:
    """Of texts and whole numbers (no table is told apart by others): equal where the values are, 0 for null; one for
    all rows where they are the same."""
    if isinstance(column, Text):
        texts = (blake2b(text.encode(), digest_size=8).digest() for text in encodable(column.categories))
        bits = np.frombuffer(b"".join(texts) + bytes(8), np.uint64)
        return bits[:1] if len(column.categories) == 1 and not column.codes.any() else bits[column.codes]
    values = np.ma.filled(column, 0)
    if values.strides == (0,):
        values = values[:1]
    return values.astype(np.int64, copy=False).view(np.uint64)
