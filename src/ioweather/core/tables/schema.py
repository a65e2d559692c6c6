"""Columns with types and rules, natural keys, how rows are revised; frames built to a table; and impossible rows,
which are found in a frame, left out or flagged, and named.

Every range lies far beyond what any machine has done, so that it refuses mistakes and forgeries, never a record.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntFlag
from typing import Any, Final, Literal, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from ioweather.core.errors import CorruptInput
from ioweather.core.frames import Bools, Column, Frame, Text
from ioweather.core.units import DAY_NS, MINUTE_NS, NS, format_seconds, format_time_ns, names_of

ColumnType: TypeAlias = Literal["int64", "float64", "text", "bool"]
_TYPES: Final[Mapping[str, ColumnType]] = {"int": "int64", "float": "float64", "text": "text", "bool": "bool"}
# The version of all schemas together; a lake says which one it was written with.
SCHEMA_VERSION = 1
# Every table ends in these; the lake fills them.
LAKE_COLUMNS = ("source", "ingest_id", "day")
COMPONENT_KINDS: Final = ("device", "host", "mds", "mdt", "oss", "ost", "quota")
# An interface is what the application called; highest first. HDF5 and PnetCDF bytes are measured one layer below.
INTERFACES: Final = names_of("HDF5 PnetCDF MPI-IO POSIX STDIO")
# How the processes of a job use a file.
STRATEGIES: Final = ("unique", "partially_shared", "shared")
_NUMBERS = re.compile(r"([0-9]{1,9}(,[0-9]{1,9})*)?")
# Packed as pairs of characters, or as version 1 wrote it (bin:count bin:count); see `stats.slowdown`.
_HISTOGRAM = re.compile("(~([!-\U0010ffff]{2})*|-?[0-9]{1,4}:[0-9]{1,15}( -?[0-9]{1,4}:[0-9]{1,15})*)?")
_MOST_BINS: Final = 4000  # from a nanosecond to more than a hundred years
_EVENT_KEYS: Final = {
    **dict.fromkeys(("interval_ns", "runs", "request_bytes"), int),
    **dict.fromkeys(("probability", "lost_seconds"), float),
    **dict.fromkeys(("direction", "cause", "op", "mode"), str),
    "through": list,
}
_INT64_MOST: Final = (1 << 63) - 1
_YEAR_NS: Final = 365 * DAY_NS


def is_histogram(text: str) -> bool:
    """Whether the text is a packed histogram."""
    gaps = sum(map(ord, text[1::2])) - 33 * (len(text) // 2) if text.startswith("~") else 0
    return gaps <= _MOST_BINS and _HISTOGRAM.fullmatch(text) is not None


def is_event_details(details: Mapping[str, Any]) -> bool:
    """Whether known keys of a JSON object have values of their type."""
    known = {key: value for key, value in details.items() if key in _EVENT_KEYS and value is not None}
    through = known.get("through", [])
    return all(_is(value, _EVENT_KEYS[key]) for key, value in known.items()) and all(_is(name, str) for name in through)


def _is(value: Any, kind: type) -> bool:
    """Whether JSON has a value of the type there; an int also one that fits into 64 bits."""
    if isinstance(value, bool):
        return False
    if kind is int:
        return isinstance(value, int) and abs(value) < 1 << 63
    return isinstance(value, (int, float) if kind is float else kind)


def _object(is_right: Callable[[Mapping[str, Any]], bool]) -> Callable[[str], bool]:
    """Whether a text is a JSON object of which `is_right` is true."""

    def is_such_object(text: str) -> bool:
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            return False
        return isinstance(found, dict) and is_right(found)

    return is_such_object


def _is_count(key: str, value: Any) -> bool:
    return key.isdecimal() and len(key) < 19 and _is(value, int) and value >= 0


class Quality(IntFlag):
    """Flags of a sample; a study excludes by flag and counts the excluded rows. Impossible values are null."""

    OK = 0
    LATE = 1  # carries the sum of missing samples before it; the minute sum is right
    RESET = 2  # the counter restarted; the amount is a lower bound, or null where it came out below zero
    OVER_LIMIT = 4  # above what any component can physically do; the value is null
    SPREAD = 8  # spread over the grid by overlap; the amounts are shares
    SHUTDOWN = 16  # in a declared or detected shutdown
    PARTIAL = 32  # samples of the minute are missing (a lower bound) or came in another minute (the totals are right)
    WHOLE_LIFE = 64  # of job_operations: counted since the entry began; other rows may hold parts of it
    TIME_DOUBTFUL = 128  # longer than a day, or before 2000: when it happened is hardly known


@dataclass(frozen=True)
class Range:
    """From `least` to `most`, both allowed; of a time, to `ahead_ns` after now. `label` is how a page shows it."""

    least: float
    most: float
    label: str
    ahead_ns: int | None = None

    def most_at(self, now_ns: int) -> float:
        return self.most if self.ahead_ns is None else now_ns + self.ahead_ns


# Identities are compared and never counted; hashes stand in for them in anonymous logs. Times of files are whatever
# their owner set.
ANY: Final = Range(-_INT64_MOST - 1, _INT64_MOST, "any")
_NOT_NEGATIVE: Final = Range(0, _INT64_MOST, "0 or more")
_SAMPLE: Final = Range(0.0, float("inf"), "by metric, see below")
# 1 EiB is more than the largest file system holds (Orion of Frontier: 0.7 EB in 2023); a run that moved as much at its
# 10 TB/s would take a day and a half. As many operations, a billion a second, would take 36 years.
_AMOUNT: Final = Range(0, 1 << 60, "0 to 2^60")

# What a number may be (its range), what a text may be (a closed list), or whether a text can be parsed, by name. Table
# definitions add their own lists.
RULES: dict[str, Range | frozenset[str] | Callable[[str], bool]] = {
    "any": ANY,
    "not_negative": _NOT_NEGATIVE,
    # Maintenance is announced, and hardware is written off, years ahead.
    "planned_time": Range(0, _INT64_MOST, "1970 to ten years ahead", 10 * _YEAR_NS),
    # A sparse file may end anywhere below 2^63, and so may a write to it.
    "file_size": _NOT_NEGATIVE,
    # The largest machines have ten million cores (Sunway TaihuLight: 10.6 million).
    "processes": Range(1, 10**8, "1 to 10^8"),
    "parts": Range(0, 10**8, "0 to 10^8"),
    "rank": Range(-1, 10**8, "-1 to 10^8"),
    # What a benchmark measures of a file system; the best of the IO500 are at 3e13 bytes/s and 1e9 operations/s.
    "benchmark_bytes_per_s": Range(0.0, 1e16, "0 to 10^16"),
    "benchmark_ops_per_s": Range(0.0, 1e13, "0 to 10^13"),
    # How many times as much as usual.
    "factor": Range(0.0, 1e15, "0 to 10^15"),
    # Linux numbers errors to 4095.
    "errno": Range(0, 4095, "0 to 4095"),
    "flags": Range(0, (1 << 15) - 1, "0 to 32767"),
    "sample": _SAMPLE,
    "component_kinds": frozenset(COMPONENT_KINDS),
    "numbers": lambda text: _NUMBERS.fullmatch(text) is not None,
    # Lists of numbers, one for each part of a file.
    "layout": lambda text: all(_NUMBERS.fullmatch(part) is not None for part in text.split(";")),
    "histogram": is_histogram,
    "interfaces": lambda text: text == "" or set(text.split(",")) <= set(INTERFACES),
    "object": _object(lambda found: True),
    "object_of_texts": _object(lambda found: all(isinstance(value, str) for value in found.values())),
    "object_of_counts": _object(lambda found: all(_is_count(key, value) for key, value in found.items())),
    "object_of_objects": _object(
        lambda found: all(
            isinstance(inner, dict) and all(_is(value, int) for value in inner.values()) for inner in found.values()
        )
    ),
    "event_details": _object(is_event_details),
}
# Without a rule, the name of a number says its range: all of it, or the longest ending that fits.
_BY_NAME: Final = {
    # Counters looked at once a year are the rarest. Beyond, the clock was not set at one of the two looks.
    "interval_ns": Range(1, 366 * DAY_NS, "1 ns to 366 days"),
    # A time of this century and a length of a hundred years add up within int64.
    "duration_ns": Range(0, 100 * _YEAR_NS, "0 to 100 years"),
    "count": _AMOUNT,
}
_BY_UNIT: Final = {
    # Caches of the nodes together: a hundred thousand nodes at 10 TB/s each.
    "_bytes_per_s": Range(0.0, 1e18, "0 to 10^18"),
    "_per_process": Range(0.0, float(1 << 60), "0 to 2^60"),
    # Times of all processes together: a hundred million of them for three years.
    "_seconds": Range(0.0, 1e16, "0 to 10^16"),
    "_ratio": Range(0.0, 1.0, "0 to 1"),
    "_bytes": _AMOUNT,
    "_count": _AMOUNT,
    # Clocks of hosts differ, and a zone that was guessed wrong shifts by at most 14 hours: a day covers both.
    "_ns": Range(0, _INT64_MOST, "1970 to tomorrow", DAY_NS),
}

# What one component can do in a second. A device: the fastest drives of 2026 reach 28 GB/s and ten million requests a
# second, arrays that look like one a hundred times as much. All others: rows of a whole file system as one component
# are common; 100 TB/s is ten times the largest file system of 2023, 1e11 operations a hundred times the best of the
# IO500. Times are summed over requests, each of which may have waited for days: a billion seconds.
_MOST_PER_S: Final = {"bytes": 1e14, "count": 1e11, "seconds": 1e9}
_MOST_PER_S_OF_DEVICE: Final = {"bytes": 3e12, "count": 1e9, "seconds": 1e7}


def most_per_s(kind: str, unit: str) -> float:
    """Physical limit of a component of this kind, in bytes, counts or seconds a second."""
    return (_MOST_PER_S_OF_DEVICE if kind == "device" else _MOST_PER_S)[unit]


@dataclass(frozen=True)
class ColumnSpec:
    """A column. Of a number `range` says what it may be; of a text `choices` or `reads`, where there is such a rule.
    `else_null`: a number outside of its range is left out, and its row stays."""

    name: str
    type: ColumnType
    doc: str
    nullable: bool = False
    range: Range | None = None
    choices: frozenset[str] | None = None
    reads: Callable[[str], bool] | None = None
    else_null: bool = False

    @property
    def by_rule(self) -> bool:
        """Whether the table's own rule, not one range, says what a number may be."""
        return self.range is _SAMPLE


_KIND: Final = re.compile(r"(\w+)([?!]?)(?:\((\w+)\))?")


def columns_of(text: str) -> tuple[ColumnSpec, ...]:
    """The columns of lines `name type description`. The type is int, float, text or bool; `?` after it: may be null;
    `!`: may be null, and becomes null outside of its range; `(rule)`: one of RULES."""
    columns = []
    for line in filter(None, map(str.strip, text.splitlines())):
        name, kind, *doc = line.split()
        match = _KIND.fullmatch(kind)
        assert match is not None, line
        rule = RULES[match[3]] if match[3] else None
        if rule is None and match[1] in ("int", "float"):
            rule = _BY_NAME.get(name) or next((r for unit, r in _BY_UNIT.items() if f"_{name}".endswith(unit)), None)
        columns.append(
            ColumnSpec(
                name,
                _TYPES[match[1]],
                " ".join(doc),
                nullable=bool(match[2]),
                range=rule if isinstance(rule, Range) else None,
                choices=rule if isinstance(rule, frozenset) else None,
                reads=rule if callable(rule) else None,
                else_null=match[2] == "!",
            )
        )
    return tuple(columns)


def specs_of(text: str) -> tuple[ColumnSpec, ...]:
    """Columns of what a query gives, from `name=type name=type? ...`; with a question mark they may be null."""
    pairs = (word.split("=") for word in text.split())
    return tuple(ColumnSpec(name, cast(ColumnType, kind.rstrip("?")), "", kind.endswith("?")) for name, kind in pairs)


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
        for column in self.columns:
            if column.type in ("int64", "float64") and column.range is None:
                raise ValueError(f"column {column.name} of table {self.name} does not say what its values may be")
        for name in (*self.key, *self.order, *self.revision, self.time):
            if name not in self.names and name not in LAKE_COLUMNS:
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

    def frame(self, columns: Mapping[str, Any] | None = None, /, *, rows: int | None = None, **more: Any) -> Frame:
        """A Frame of exactly this table's columns, from lists, arrays or scalars (repeated to `rows`).

        Nullable columns left out are all null; an unknown or a missing required column is a mistake of the caller.
        """
        given = {**(columns or {}), **more}
        unknown = set(given) - set(self.names)
        if unknown:
            raise ValueError(f"table {self.name} has no column {', '.join(sorted(unknown))}")
        if rows is None:
            scalars = (str, bytes, int, float, bool, type(None), np.generic)
            rows = next((len(value) for value in given.values() if not isinstance(value, scalars)), 1)
        return Frame({spec.name: build_column(spec, given.get(spec.name), rows) for spec in self.columns})

    def frame_of(self, rows: Sequence[Mapping[str, Any]]) -> Frame:
        """A frame of rows by the names of their columns; what a row does not have is null."""
        return self.frame({name: [row.get(name) for row in rows] for name in self.names}, rows=len(rows))

    def check(self, frame: Frame, now_ns: int) -> Checked:
        """The possible rows of a frame of this table, and complaints about the others."""
        faults = [*_faults(self, frame, now_ns)] if frame.rows else []
        if not faults:
            return Checked(frame)
        good, flagged = np.ones(frame.rows, np.bool_), np.zeros(frame.rows, np.bool_)
        mended = frame
        for fault in faults:
            if fault.stays:
                flagged |= fault.rows
                mended = _mended(mended, fault)
            else:
                good &= ~fault.rows
        complaints = tuple(_complaint(self, frame, fault) for fault in faults)
        return Checked(mended if good.all() else mended.take(good), complaints, good, flagged & good)


def build_column(spec: ColumnSpec, value: Any, rows: int) -> Column:
    """A column with null as NaN, a mask, or code -1."""
    if value is None and not spec.nullable:
        raise ValueError(f"column {spec.name} may not be null")
    if spec.type == "text":
        if value is None or isinstance(value, str):
            return Text(np.full(rows, -1 if value is None else 0, np.int32), () if value is None else (value,))
        return value if isinstance(value, Text) else encode_text(list(value))
    if spec.type == "float64":
        cells = [np.nan if v is None else v for v in value] if isinstance(value, (list, tuple)) else value
        return np.broadcast_to(np.asarray(np.nan if cells is None else cells, np.float64), (rows,))
    dtype = np.bool_ if spec.type == "bool" else np.int64
    if value is None:
        return np.ma.MaskedArray(np.zeros(rows, dtype), mask=np.ones(rows, np.bool_))
    missing: Any = np.False_
    if isinstance(value, (list, tuple)):
        missing = np.fromiter((v is None for v in value), np.bool_, len(value))
        try:
            data: NDArray[Any] = np.fromiter((0 if v is None else v for v in value), dtype, len(value))
        except OverflowError:
            raise CorruptInput(f"{spec.name} has a number of more than 64 bits.") from None
    else:
        missing = np.ma.getmaskarray(value) if isinstance(value, np.ma.MaskedArray) else missing
        data = np.asarray(np.ma.filled(value, 0) if missing.any() else np.ma.getdata(value))
        if data.dtype.kind == "f":
            raise TypeError(f"column {spec.name} is {spec.type}: a float array would lose digits")
        data = np.broadcast_to(data.astype(dtype, copy=False), (rows,))
    if not missing.any():
        return data
    if not spec.nullable:
        raise ValueError(f"column {spec.name} may not be null")
    return np.ma.MaskedArray(data, mask=missing)


def encode_text(values: Sequence[str | None]) -> Text:
    """A Text column of these values, with codes in order of first appearance."""
    distinct = tuple(value for value in dict.fromkeys(values) if value is not None)
    codes = dict(zip([*distinct, None], [*range(len(distinct)), -1], strict=True))
    return Text(np.fromiter(map(codes.__getitem__, values), np.int32, len(values)), distinct)


def concat(frames: Sequence[Frame]) -> Frame:
    """Rows of all frames, in order; they must have the same columns."""
    if len(frames) == 1:
        return frames[0]
    return Frame({name: _concat_columns([frame[name] for frame in frames]) for name in frames[0]})


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


# Impossible rows: values are judged here alone, for every source, mapping and push.

# 2000-01-01: no log of this software's sources is older. A clock that was never set counts from 1970.
OLDEST_NS: Final = 10_957 * DAY_NS


@dataclass(frozen=True)
class Fault:
    """Rows of a frame that break one rule. They are refused, unless the rule says that a row `stays`: then they have
    `becomes` in the column (NaN is null), and `flag` in their quality."""

    rows: Bools
    column: str
    why: str
    stays: bool = False
    becomes: float | None = None
    flag: int = 0


@dataclass(frozen=True)
class Complaint:
    """One rule that rows of a table break: how many rows, and a description of the first."""

    table: str
    rule: str
    stays: bool
    rows: int
    first: str


@dataclass(frozen=True)
class Checked:
    """The rows that can be, mended where a rule says so. `good` tells which those are of the rows that were given, and
    `flagged` which of those given stay with a complaint; both None: all of them, and none."""

    frame: Frame
    complaints: tuple[Complaint, ...] = ()
    good: Bools | None = None
    flagged: Bools | None = None

    @property
    def doubtful(self) -> Bools | slice:
        """Mask of the given rows that have a complaint."""
        return slice(0) if self.good is None or self.flagged is None else ~self.good | self.flagged


def _faults(spec: TableSpec, frame: Frame, now_ns: int) -> Iterator[Fault]:
    for column in spec.columns:
        yield from _text_faults(column, frame) if column.type == "text" else _number_faults(column, frame, now_ns)
    for first, last in (("start_ns", "end_ns"), ("valid_from_ns", "valid_to_ns")):
        if first in frame and last in frame:
            behind = np.ma.filled(np.ma.masked_array(frame.array(last)) < np.ma.masked_array(frame.array(first)), False)
            if behind.any():
                yield Fault(behind, last, f"lies before {first}")
    for length in ("interval_ns", "duration_ns"):
        if length in frame and spec.time in frame:
            ends = np.ma.masked_array(frame.array(length)) + frame.array(spec.time)
            if (beyond := _outside(ends, -_INT64_MOST - 1, now_ns + 2 * DAY_NS)) is not None:
                yield Fault(beyond, length, "leads far into the future")
    flag = int(Quality.TIME_DOUBTFUL) if "quality" in frame else 0
    if flag and "interval_ns" in frame and (long := _outside(frame.array("interval_ns"), 0, DAY_NS)) is not None:
        yield Fault(long, "interval_ns", "is more than a day (TIME_DOUBTFUL)", stays=True, flag=flag)
    if spec.time != "valid_from_ns":  # which may well say: since ever
        old = _outside(frame.array(spec.time), OLDEST_NS, _INT64_MOST)
        if old is not None:
            yield Fault(old, spec.time, "is before the year 2000 (a clock that was never set)", stays=True, flag=flag)
    if spec.judge is not None:
        yield from spec.judge(frame)


def _text_faults(column: ColumnSpec, frame: Frame) -> Iterator[Fault]:
    text = frame.text(column.name)
    if not column.nullable and text.codes.min() < 0:
        yield Fault(text.codes < 0, column.name, "is missing")
    for is_right, why in (
        (column.choices and column.choices.__contains__, f"is no {column.name} of the list"),
        (column.reads, f"is not written as a {column.name} is"),
    ):
        strange = [code for code, name in enumerate(text.categories) if is_right and not is_right(name)]
        if strange and (wrong := np.isin(text.codes, strange)).any():
            yield Fault(wrong, column.name, why)


def _number_faults(column: ColumnSpec, frame: Frame, now_ns: int) -> Iterator[Fault]:
    allowed, values = column.range, frame.array(column.name)
    if allowed is None:
        return
    wrong: Bools | None = None
    if column.type == "float64":
        infinite = np.isinf(values)
        if infinite.any():
            yield Fault(infinite, column.name, "is not finite")
        if not column.nullable and (missing := np.isnan(values)).any():
            yield Fault(missing, column.name, "is missing")
        if not column.by_rule:
            wrong = ((values < allowed.least) | (values > allowed.most)) & ~infinite
    else:
        wrong = _outside(values, allowed.least, allowed.most_at(now_ns))
    if wrong is not None and wrong.any():
        becomes = np.nan if column.else_null else None
        yield Fault(wrong, column.name, f"is outside of what can be ({allowed.label})", column.else_null, becomes)


def _outside(values: NDArray[Any], least: float, most: float) -> Bools | None:
    """Integers below or above; None where there is none, which two passes over the numbers tell: what lies below a
    mask is 0, and looked at only when it seems wrong."""
    plain = np.ma.getdata(values)
    if plain.min() >= least and plain.max() <= most:
        return None
    wrong = ((plain < least) | (plain > most)) & ~np.ma.getmaskarray(values)
    return wrong if wrong.any() else None


def _mended(frame: Frame, fault: Fault) -> Frame:
    changed: dict[str, NDArray[Any]] = {}
    before = frame.array(fault.column)
    if fault.becomes is not None and before.dtype.kind == "i":
        changed[fault.column] = np.ma.masked_array(np.ma.getdata(before), np.ma.getmaskarray(before) | fault.rows)
    elif fault.becomes is not None:
        changed[fault.column] = np.where(fault.rows, fault.becomes, before)
    if fault.flag:
        changed["quality"] = np.where(fault.rows, frame.array("quality") | fault.flag, frame.array("quality"))
    return frame.with_columns(**changed)


def _complaint(spec: TableSpec, frame: Frame, fault: Fault) -> Complaint:
    place = int(np.flatnonzero(fault.rows)[0])
    named = ", ".join(f"{name} {_shown(frame, name, place)}" for name in spec.key if name != fault.column)
    first = f"{fault.column} = {_shown(frame, fault.column, place)}{f' at {named}' if named else ''}"
    return Complaint(spec.name, f"{fault.column} {fault.why}", fault.stays, int(fault.rows.sum()), first)


def _shown(frame: Frame, name: str, place: int) -> str:
    column = frame[name]
    if isinstance(column, Text):
        code = int(column.codes[place])
        return repr(column.categories[code])[:60] if code >= 0 else "null"
    value = column[place]
    if value is np.ma.masked:
        return "null"
    is_time = name.endswith("_ns") and name not in ("interval_ns", "duration_ns")
    return format_time_ns(int(value)) if is_time and 0 <= value < _INT64_MOST - DAY_NS else str(value)


@dataclass
class Complaints:
    """Complaints about the rows of one file, summed over its frames."""

    refused: Counter[str] = field(default_factory=Counter)
    flagged: Counter[str] = field(default_factory=Counter)
    _by_rule: dict[tuple[bool, str], Complaint] = field(default_factory=dict)

    def add(self, checked: Checked) -> None:
        for new in checked.complaints:
            known = self._by_rule.get((new.stays, new.rule))
            self._by_rule[new.stays, new.rule] = replace(known, rows=known.rows + new.rows) if known else new
        if checked.good is not None and checked.flagged is not None:
            table = checked.complaints[0].table
            self.refused[table] += int((~checked.good).sum())
            self.flagged[table] += int(checked.flagged.sum())

    @property
    def refused_rows(self) -> int:
        return self.refused.total()

    @property
    def flagged_rows(self) -> int:
        return self.flagged.total()

    def __str__(self) -> str:
        said = []
        for counted, stays, verb in ((self.refused, False, "left out"), (self.flagged, True, "flagged")):
            if counted.total():
                complaints = [complaint for complaint in self._by_rule.values() if complaint.stays == stays]
                rules = "; ".join(f"{c.rule} ({c.rows:,}; first: {c.first})" for c in complaints)
                counts = sorted((table, n) for table, n in counted.items() if n)
                rows = ", ".join(f"{n:,} row{'s' if n > 1 else ''} of {table}" for table, n in counts)
                said.append(f"{rows} {verb}: {rules}.")
        return " ".join(said)


# Times the median interval of the same metric of the same kind of component; at least a minute: raw rows and those of
# minutes come together.
_MOST_INTERVALS: Final = 10
_LEARNED_FROM: Final = 10_000  # intervals of a metric


class Cadence:
    """Usual interval of samples in a file, learned from all frames; then longer samples are removed."""

    def __init__(self) -> None:
        self._intervals: dict[tuple[str, str], NDArray[Any]] = {}
        self._left_out = 0
        self._first = ""
        self.rows = 0  # learned from

    def learn(self, frame: Frame) -> None:
        self.rows += frame.rows
        for name, chosen in _groups(frame):
            known = self._intervals.get(name, np.zeros(0, np.int64))
            new = frame.array("interval_ns")[chosen][: _LEARNED_FROM - len(known)]
            self._intervals[name] = np.concatenate([known, new])

    def regular(self, frame: Frame) -> Frame:
        """The rows whose interval is within its bound."""
        intervals = frame.array("interval_ns")
        good = np.ones(frame.rows, np.bool_)
        for name, chosen in _groups(frame):
            usual = np.quantile(self._intervals[name], 0.5, method="lower")
            good[chosen] = intervals[chosen] <= max(_MOST_INTERVALS * usual, MINUTE_NS)
        if good.all():
            return frame
        self._left_out += int((~good).sum())
        first = int(np.flatnonzero(~good)[0])
        begin, length = format_time_ns(int(frame.array("start_ns")[first])), format_seconds(intervals[first] / NS)
        self._first = self._first or f"the first begins {begin} and lasts {length}"
        return frame.take(good)

    def __str__(self) -> str:
        """Describe what was left out; empty if nothing was."""
        if not self._left_out:
            return ""
        return (
            f"{self._left_out:,} row(s) of series left out that last more than {_MOST_INTERVALS} times the usual "
            f"interval: the clock was set, or nothing was recorded ({self._first})."
        )


def _groups(frame: Frame) -> Iterator[tuple[tuple[str, str], Bools]]:
    """(kind of component, metric) and their rows."""
    kinds, metrics = frame.text("component_kind"), frame.text("metric")
    count = max(1, len(metrics.categories))
    groups = kinds.codes.astype(np.int64) * count + metrics.codes
    for group in np.unique(groups).tolist():
        yield (kinds.categories[group // count], metrics.categories[group % count]), groups == group
