"""Columns with types and ranges, natural keys, how rows are revised; and frames built to a table.

Every range lies far beyond what any machine has done, so that it refuses mistakes and forgeries, never a record.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Literal, TypeAlias, cast

import numpy as np

from ioweather.core.errors import CorruptInput
from ioweather.core.frames import Column, Frame, Text
from ioweather.core.tables.checks import Checked, Fault, check
from ioweather.core.units import DAY_NS
from ioweather.core.words import names_of, pairs_of

Reads: TypeAlias = "Callable[[str], bool]"  # whether a text can be parsed

# An interface is what the application called; highest first. HDF5 and PnetCDF bytes are measured one layer below.
INTERFACES: Final = names_of("HDF5 PnetCDF MPI-IO POSIX STDIO")
_NUMBERS = re.compile(r"([0-9]{1,9}(,[0-9]{1,9})*)?")
# Packed as pairs of characters, or as version 1 wrote it (bin:count bin:count); see `stats.histograms`.
_HISTOGRAM = re.compile("(~([!-\U0010ffff]{2})*|-?[0-9]{1,4}:[0-9]{1,15}( -?[0-9]{1,4}:[0-9]{1,15})*)?")
_MOST_BINS: Final = 4000  # from a nanosecond to more than a hundred years
_EVENT_KEYS: Final = {
    "through": list,
    "interval_ns": int,
    "probability": float,
    "runs": int,
    "lost_seconds": float,
    "direction": str,
    "cause": str,
    "op": str,
    "mode": str,
    "request_bytes": int,
}


def is_numbers(text: str) -> bool:
    """Whether the text is numbers separated by commas."""
    return _NUMBERS.fullmatch(text) is not None


def is_layout(text: str) -> bool:
    """Whether the text is lists of numbers, one for each part of a file."""
    return all(map(is_numbers, text.split(";")))


def is_histogram(text: str) -> bool:
    """Whether the text is a packed histogram."""
    gaps = sum(map(ord, text[1::2])) - 33 * (len(text) // 2) if text.startswith("~") else 0
    return gaps <= _MOST_BINS and _HISTOGRAM.fullmatch(text) is not None


def is_interfaces(text: str) -> bool:
    """Whether the text is names of I/O interfaces separated by commas."""
    return text == "" or set(text.split(",")) <= set(INTERFACES)


def is_object(text: str) -> bool:
    """Whether the text is a JSON object."""
    return isinstance(_parsed(text), dict)


def is_object_of_texts(text: str) -> bool:
    """Whether the text is a JSON object of texts."""
    found = _parsed(text)
    return isinstance(found, dict) and all(isinstance(value, str) for value in found.values())


def is_object_of_counts(text: str) -> bool:
    """Whether the text is a JSON object of counts by number."""
    found = _parsed(text)
    return isinstance(found, dict) and all(
        key.isdecimal() and len(key) < 19 and _is(value, int) and value >= 0 for key, value in found.items()
    )


def is_object_of_objects(text: str) -> bool:
    """Whether the text is a JSON object of objects of counts."""
    found = _parsed(text)
    return isinstance(found, dict) and all(
        isinstance(inner, dict) and all(_is(value, int) for value in inner.values()) for inner in found.values()
    )


def is_event_details(text: str) -> bool:
    """Whether the text is a JSON object whose known keys have values of their type."""
    found = _parsed(text)
    if not isinstance(found, dict):
        return False
    known = {key: value for key, value in found.items() if key in _EVENT_KEYS and value is not None}
    through = known.get("through", [])
    return all(_is(value, _EVENT_KEYS[key]) for key, value in known.items()) and all(_is(name, str) for name in through)


def _is(value: Any, kind: type) -> bool:
    """Whether JSON has a value of the type there; an int also one that fits into 64 bits."""
    if isinstance(value, bool):
        return False
    if kind is int:
        return isinstance(value, int) and abs(value) < 1 << 63
    return isinstance(value, (int, float) if kind is float else kind)


def _parsed(text: str) -> Any:
    """The parsed JSON; None if it is invalid or nested too deeply."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


_YEAR_NS: Final = 365 * DAY_NS
INT64_MOST: Final = (1 << 63) - 1


@dataclass(frozen=True)
class Range:
    """From `least` to `most`, both allowed; of a time, to `ahead_ns` after now. `label` is how a page shows it."""

    least: float
    most: float
    label: str
    ahead_ns: int | None = None

    def most_at(self, now_ns: int) -> float:
        return self.most if self.ahead_ns is None else now_ns + self.ahead_ns


# Identities are compared and never counted; hashes stand in for them in anonymous logs.
ANY: Final = Range(-INT64_MOST - 1, INT64_MOST, "any")
NOT_NEGATIVE: Final = Range(0, INT64_MOST, "0 or more")
# Clocks of hosts differ, and a zone that was guessed wrong shifts by at most 14 hours: a day covers both.
TIME: Final = Range(0, INT64_MOST, "1970 to tomorrow", DAY_NS)
# Maintenance is announced, and hardware is written off, years ahead.
PLANNED_TIME: Final = Range(0, INT64_MOST, "1970 to ten years ahead", 10 * _YEAR_NS)
# Times of files are whatever their owner set.
FILE_TIME: Final = ANY
# A time of this century and a length of a hundred years add up within int64.
LENGTH: Final = Range(0, 100 * _YEAR_NS, "0 to 100 years")
# Counters looked at once a year are the rarest. Beyond, the clock was not set at one of the two looks.
INTERVAL: Final = Range(1, 366 * DAY_NS, "1 ns to 366 days")
# 1 EiB is more than the largest file system holds (Orion of Frontier: 0.7 EB in 2023); a run that moved as much at its
# 10 TB/s would take a day and a half. As many operations, a billion a second, would take 36 years.
AMOUNT: Final = Range(0, 1 << 60, "0 to 2^60")
# A sparse file may end anywhere below 2^63, and so may a write to it.
FILE_SIZE: Final = NOT_NEGATIVE
# The largest machines have ten million cores (Sunway TaihuLight: 10.6 million).
PROCESSES: Final = Range(1, 10**8, "1 to 10^8")
PARTS: Final = Range(0, 10**8, "0 to 10^8")
RANK: Final = Range(-1, 10**8, "-1 to 10^8")
# Times of all processes together: a hundred million of them for three years.
SECONDS: Final = Range(0.0, 1e16, "0 to 10^16")
# Caches of the nodes together: a hundred thousand nodes at 10 TB/s each.
BYTES_PER_S: Final = Range(0.0, 1e18, "0 to 10^18")
# What a benchmark measures of a file system; the best of the IO500 are at 3e13 bytes/s and 1e9 operations/s.
BENCHMARK_BYTES_PER_S: Final = Range(0.0, 1e16, "0 to 10^16")
BENCHMARK_OPS_PER_S: Final = Range(0.0, 1e13, "0 to 10^13")
RATIO: Final = Range(0.0, 1.0, "0 to 1")
# How many times as much as usual.
FACTOR: Final = Range(0.0, 1e15, "0 to 10^15")
PER_PROCESS: Final = Range(0.0, float(1 << 60), "0 to 2^60")
# Linux numbers errors to 4095.
ERRNO: Final = Range(0, 4095, "0 to 4095")
FLAGS: Final = Range(0, (1 << 15) - 1, "0 to 32767")
# By metric: definitions.SAMPLES.
SAMPLE: Final = Range(0.0, float("inf"), "by metric, see below")

_BY_NAME: Final = {"interval_ns": INTERVAL, "duration_ns": LENGTH, "count": AMOUNT}
# The longest ending that fits counts.
_BY_UNIT: Final = {
    "_bytes_per_s": BYTES_PER_S,
    "_per_process": PER_PROCESS,
    "_seconds": SECONDS,
    "_ratio": RATIO,
    "_bytes": AMOUNT,
    "_count": AMOUNT,
    "_ns": TIME,
}


@cache
def range_of(name: str) -> Range | None:
    """The range of a column by the unit in its name; None without a unit."""
    found = _BY_NAME.get(name)
    return found or next((allowed for unit, allowed in _BY_UNIT.items() if f"_{name}".endswith(unit)), None)


ColumnType: TypeAlias = Literal["int64", "float64", "text", "bool"]

# The version of all schemas together; a lake says which one it was written with.
SCHEMA_VERSION = 1
# Every table ends in these; the lake fills them.
LAKE_COLUMNS = ("source", "ingest_id", "day")
COMPONENT_KINDS: Final = ("device", "host", "mds", "mdt", "oss", "ost", "quota")


@dataclass(frozen=True)
class ColumnSpec:
    name: str
    type: ColumnType
    doc: str
    nullable: bool = False
    # What a number may be, where its name does not say; what a text may be, where that is a closed list.
    range: Range | None = None
    choices: frozenset[str] | None = None
    # Of a text that programs parse: whether they can.
    reads: Reads | None = None
    # Of a number outside of its range: whether it alone is left out, and its row stays.
    else_null: bool = False

    @property
    def allowed(self) -> Range | None:
        """Range of a number; None for texts and truth values."""
        return (self.range or range_of(self.name)) if self.type in ("int64", "float64") else None

    @property
    def by_rule(self) -> bool:
        """Whether the table's own rule, not one range, says what a number may be."""
        return self.range is SAMPLE


def specs_of(text: str) -> tuple[ColumnSpec, ...]:
    """Columns of what a query gives, from `name=type name=type? ...`; with a question mark they may be null."""
    kinds = pairs_of(text).items()
    return tuple(ColumnSpec(name, cast(ColumnType, kind.rstrip("?")), "", kind.endswith("?")) for name, kind in kinds)


@dataclass(frozen=True)
class TableSpec:
    """`key` is the natural key (with `source`, for append-only tables). `time` is the column whose UTC date is `day`.

    Append-only rows enter once: a row whose key is there is not added. Revisable rows are all kept; the view shows
    one per key: the greatest in the `revision` columns (null is least), then the one that came last; none where that
    one is `withdrawn`, in tables with such a column. `order` is how sealed days are sorted.
    """

    name: str
    doc: str
    columns: tuple[ColumnSpec, ...]
    key: tuple[str, ...]
    time: str
    revisable: bool = False
    revision: tuple[str, ...] = ()
    order: tuple[str, ...] = ()
    # Rows per group of a sealed file: small where readers pass over most of a day.
    group_rows: int = 122_880
    # Whether a sealed day keeps rows that newer ones replaced. What can be computed again need not.
    keeps_revisions: bool = True
    # Of revisable tables: (column of the key, value) that rows of unknown origin have there. They belong to the one
    # origin that has the rest of their key, where there is one.
    placeholder: tuple[str, str] | None = None
    # Very many rows of few distinct texts: read without a copy of them.
    is_long: bool = False
    # Of append-only tables: the flag in `quality` of a row that one of the same key without the flag replaces.
    unfinished: int = 0
    # What ranges of single columns cannot say of a row.
    judge: Callable[[Frame], Iterator[Fault]] | None = None

    def __post_init__(self) -> None:
        names = [column.name for column in self.columns]
        for column in self.columns:
            if column.type in ("int64", "float64") and column.allowed is None:
                raise ValueError(f"column {column.name} of table {self.name} does not say what its values may be")
        for name in (*self.key, *self.order, *self.revision, self.time):
            if name not in names and name not in LAKE_COLUMNS:
                raise ValueError(f"table {self.name} has no column {name}")

    @property
    def identity(self) -> tuple[str, ...]:
        """Columns that identify a row. The same minutes from two sources are two rows; a read chooses one."""
        return self.key if self.revisable else (*self.key, "source")

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    def column(self, name: str) -> ColumnSpec:
        return next(column for column in self.columns if column.name == name)

    def check(self, frame: Frame, now_ns: int) -> Checked:
        """The possible rows of the frame, and complaints about the others."""
        return check(self, frame, now_ns)

    def frame(self, columns: Mapping[str, Any] | None = None, /, *, rows: int | None = None, **more: Any) -> Frame:
        """A Frame of exactly this table's columns, from lists, arrays or scalars (repeated to `rows`).

        Nullable columns left out are all null; an unknown or a missing required column is a mistake of the caller.
        """
        given = {**(columns or {}), **more}
        unknown = set(given) - set(self.names)
        if unknown:
            raise ValueError(f"table {self.name} has no column {', '.join(sorted(unknown))}")
        length = rows if rows is not None else _length(given)
        return Frame({spec.name: build_column(spec, given.get(spec.name), length) for spec in self.columns})


def _length(given: Mapping[str, Any]) -> int:
    for value in given.values():
        if not isinstance(value, (str, bytes, int, float, bool, type(None))) and np.ndim(_shape_of(value)) > 0:
            return len(value)
    return 1


def _shape_of(value: Any) -> Any:
    return value.codes if isinstance(value, Text) else value


def build_column(spec: ColumnSpec, value: Any, rows: int) -> Column:
    """A column with null as NaN, a mask, or code -1."""
    if value is None:
        if not spec.nullable:
            raise ValueError(f"column {spec.name} may not be null")
        return _all_null(spec, rows)
    if spec.type == "text":
        return _text(value, rows)
    if spec.type == "float64":
        array = np.asarray([np.nan if v is None else v for v in value] if isinstance(value, (list, tuple)) else value)
        return np.broadcast_to(array.astype(np.float64, copy=False), (rows,))
    dtype = np.bool_ if spec.type == "bool" else np.int64
    if isinstance(value, (list, tuple)):
        known = value if None not in value else [0 if v is None else v for v in value]
        try:
            data: np.ndarray[Any, Any] = np.fromiter(known, dtype, len(value))
        except OverflowError:
            raise CorruptInput(f"{spec.name} has a number of more than 64 bits.") from None
        return data if known is value else _masked(spec, data, np.fromiter((v is None for v in value), np.bool_))
    if isinstance(value, np.ma.MaskedArray):
        return _masked(spec, value.filled(0).astype(dtype, copy=False), np.ma.getmaskarray(value))
    array = np.asarray(value)
    if array.dtype.kind == "f":
        raise TypeError(f"column {spec.name} is {spec.type}: a float array would lose digits")
    return np.broadcast_to(array.astype(dtype, copy=False), (rows,))


def _masked(spec: ColumnSpec, data: Any, mask: Any) -> Column:
    if not mask.any():
        return np.asarray(data)
    if not spec.nullable:
        raise ValueError(f"column {spec.name} may not be null")
    return np.ma.MaskedArray(data, mask=mask)


def _all_null(spec: ColumnSpec, rows: int) -> Column:
    if spec.type == "text":
        return Text(np.full(rows, -1, np.int32), ())
    if spec.type == "float64":
        return np.full(rows, np.nan)
    dtype = np.bool_ if spec.type == "bool" else np.int64
    return np.ma.MaskedArray(np.zeros(rows, dtype), mask=np.ones(rows, np.bool_))


def _text(value: Any, rows: int) -> Text:
    if isinstance(value, Text):
        return value
    if isinstance(value, str):
        return Text(np.zeros(rows, np.int32), (value,))
    return encode_text(list(value))


def encode_text(values: Sequence[str | None]) -> Text:
    """A Text column of these values, with codes in order of first appearance."""
    distinct = tuple(value for value in dict.fromkeys(values) if value is not None)
    if len(distinct) == len(values):
        return Text(np.arange(len(values), dtype=np.int32), distinct)
    codes = dict(zip([*distinct, None], [*range(len(distinct)), -1], strict=True))
    return Text(np.fromiter(map(codes.__getitem__, values), np.int32, len(values)), distinct)


def concat(frames: Sequence[Frame]) -> Frame:
    """Rows of all frames, in order; they must have the same columns."""
    if len(frames) == 1:
        return frames[0]
    names = list(frames[0])
    return Frame({name: _concat_columns([frame[name] for frame in frames]) for name in names})


def _concat_columns(columns: Sequence[Column]) -> Column:
    if isinstance(columns[0], Text):
        merged: dict[str, int] = {}
        parts = []
        for column in columns:
            assert isinstance(column, Text)
            # The extra last entry is where code -1 looks.
            lookup = np.array([merged.setdefault(c, len(merged)) for c in column.categories] + [-1], np.int32)
            parts.append(lookup[column.codes])
        return Text(np.concatenate(parts), tuple(merged))
    if any(isinstance(column, np.ma.MaskedArray) for column in columns):
        return np.ma.concatenate(columns)  # type: ignore[no-any-return,no-untyped-call]
    return np.concatenate(columns)  # type: ignore[arg-type]
