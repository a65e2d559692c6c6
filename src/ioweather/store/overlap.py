"""What of a table an append must look at: the files that may hold a row of the batch, by Delta's own statistics.

An open day has thousands of small files, of other hosts and of other hours. To open each for every commit would make
the day's last commit the slowest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
from deltalake import DeltaTable

from ioweather.core.arrays import Ints
from ioweather.core.clock import utc_day
from ioweather.core.frames import Frame, Text
from ioweather.core.units import DAY_NS
from ioweather.store.convert import encodable
from ioweather.store.day_files import WHOLE_TEXT
from ioweather.tables import TableSpec

# A table of all possible keys is faster than sorting, up to this many for each row.
_KEYS_PER_ROW: Final = 8

Range: TypeAlias = "tuple[int, int] | tuple[str, str]"


@dataclass(frozen=True)
class Extent:
    """The days of a batch, its least and greatest time (null is 0), and the range of each column that tells rows apart
    and has no null."""

    days: frozenset[str]
    low_ns: int
    high_ns: int
    ranges: Mapping[str, Range]


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
        texts = [encodable(text) for text in column.categories]
        return min(texts), max(texts)
    if column.dtype.kind not in "iu" or np.ma.is_masked(column):
        return None
    return int(column.min()), int(column.max())


def files_near(table: DeltaTable, extent: Extent) -> set[str]:
    """Names of the files that may hold a row of the batch. A file without a statistic may hold anything."""
    listed = table.get_add_actions(flatten=True)
    known = set(listed.schema.names)
    days = listed["partition.day"].to_pylist()
    near = [place for place, day in enumerate(days) if day in extent.days]
    for name, (low, high) in extent.ranges.items():
        if not near:
            break
        if {f"min.{name}", f"max.{name}"} <= known:
            least, most = listed[f"min.{name}"].to_pylist(), listed[f"max.{name}"].to_pylist()
            near = [place for place in near if _meet(least[place], most[place], low, high)]
    paths = listed["path"].to_pylist()
    return {paths[place].rsplit("/", 1)[1] for place in near}


def _meet(least: Any, most: Any, low: Any, high: Any) -> bool:
    if least is None or most is None or type(least) is not type(low) or type(most) is not type(low):
        return True
    return bool(least <= high and (low <= most or (isinstance(most, str) and len(most) >= WHOLE_TEXT)))


def is_one_row_each(spec: TableSpec, frame: Frame) -> bool:
    """Whether no two rows have the same identity, as far as integers can tell: text has codes already. False where they
    would not fit into 64 bits."""
    keys, size = np.zeros(frame.rows, np.int64), 1
    for name in spec.identity:
        if name == "source":  # one for all rows
            continue
        codes, count = _codes(frame[name])
        size *= count
        if size >= 2**62:
            return False
        keys *= count
        keys += codes
    if size <= _KEYS_PER_ROW * frame.rows:
        seen = np.zeros(size, np.bool_)
        seen[keys] = True
        return int(np.count_nonzero(seen)) == frame.rows
    keys.sort()
    return not (keys[1:] == keys[:-1]).any()


def _codes(column: Any) -> tuple[Ints, int]:
    """Numbers from 0, equal where the values are, and how many they may be."""
    if isinstance(column, Text):
        texts = [encodable(text) for text in column.categories]
        places = {text: place for place, text in enumerate(texts)}
        codes: Ints = column.codes.astype(np.int64)
        if len(places) < len(texts):
            codes = np.array([places[text] for text in texts] + [-1], np.int64)[codes]
        return codes + 1, len(texts) + 1
    values = np.ma.getdata(column)
    if np.ma.is_masked(column) or values.dtype.kind not in "iub" or len(values) == 0:
        return np.zeros(len(values), np.int64), 2**62  # cannot tell
    low = int(values.min())
    offsets = values.astype(np.int64) - low
    step = int(np.gcd.reduce(offsets)) or 1  # minutes in nanoseconds are few numbers
    return offsets // step, int(offsets.max()) // step + 1
