"""The tables of the lake: columns with types and rules, natural keys, how rows are revised, and checks of rows.

`tables.toml` declares the tables and the metrics. Every range lies far beyond what any machine has done, so that it
refuses mistakes and forgeries, never a record.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntFlag
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from ioweather.core.errors import CorruptInput
from ioweather.core.frames import Bools, Column, Frame, Text
from ioweather.core.units import DAY_NS, NS, format_time_ns, names_of, pairs_of

# Darshan's ten access-size bins, as column-name parts, and the largest size in each (the last is open).
SIZE_BINS = ("0_100", "100_1k", "1k_10k", "10k_100k", "100k_1m", "1m_4m", "4m_10m", "10m_100m", "100m_1g", "1g_plus")
SIZE_BIN_UPPER_BYTES = (100, 1 << 10, 10 << 10, 100 << 10, 1 << 20, 4 << 20, 10 << 20, 100 << 20, 1 << 30, None)
READ_BINS = tuple(f"read_{size}_count" for size in SIZE_BINS)
WRITE_BINS = tuple(f"write_{size}_count" for size in SIZE_BINS)
FILE_MODULES = ("MPI-IO", "POSIX", "STDIO")
VERDICT_KINDS = ("both", "normal", "system", "unexplained", "unknown", "you")
VERDICT_PARTS = ("usual", "system", "own", "unexplained")
# The cluster of accounting records that name none, if no option names one either.
UNNAMED_CLUSTER = "cluster"
# What describes an unhealthy component in `events`.
EVENT_COLUMNS: Final = ("system", "component", "label", "start_ns", "end_ns", "strength_ratio", "details")
EVENT_KINDS = ("annotation", "component_health", "episode", "gap", "incident", "maintenance", "phase")

ColumnType: TypeAlias = Literal["int64", "float64", "text", "bool"]
_TYPES: Final[Mapping[str, ColumnType]] = {"int": "int64", "float": "float64", "text": "text", "bool": "bool"}
# Every table ends in these; the lake fills them.
LAKE_COLUMNS = ("source", "ingest_id", "day")
COMPONENT_KINDS: Final = ("device", "host", "mds", "mdt", "oss", "ost")
# An interface is what the application called; highest first. HDF5 and PnetCDF bytes are measured one layer below.
INTERFACES: Final = names_of("HDF5 PnetCDF MPI-IO POSIX STDIO")
# How the processes of a job use a file.
STRATEGIES: Final = ("unique", "partially_shared", "shared")
_NUMBERS = re.compile(r"([0-9]{1,9}(,[0-9]{1,9})*)?")
# Packed as pairs of characters, or as version 1 wrote it (bin:count bin:count); see `facts.slowdown`.
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
    """Whether a text is a packed histogram of durations."""
    gaps = sum(map(ord, text[1::2])) - 33 * (len(text) // 2) if text.startswith("~") else 0
    return gaps <= _MOST_BINS and _HISTOGRAM.fullmatch(text) is not None


def is_event_details(details: Mapping[str, Any]) -> bool:
    """Whether the values of known keys of `events.details` have the right type."""
    known = {key: value for key, value in details.items() if key in _EVENT_KEYS and value is not None}
    if not all(_has_type(value, _EVENT_KEYS[key]) for key, value in known.items()):
        return False
    return all(_has_type(name, str) for name in known.get("through", []))


def _has_type(value: Any, kind: type) -> bool:
    """Whether a value of JSON is of this type; an int must fit into 64 bits."""
    if isinstance(value, bool):
        return False
    if kind is int:
        return isinstance(value, int) and abs(value) < 1 << 63
    return isinstance(value, (int, float) if kind is float else kind)


def _json_object(is_right: Callable[[Mapping[str, Any]], bool]) -> Callable[[str], bool]:
    """A rule for texts: accepts JSON objects for which `is_right` is true."""

    def accepts(text: str) -> bool:
        """Whether the text is a JSON object that is right."""
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            return False
        return isinstance(found, dict) and is_right(found)

    return accepts


def _is_count(key: str, value: Any) -> bool:
    """Whether an entry of a JSON object is a number and how often it occurred."""
    return key.isdecimal() and len(key) < 19 and _has_type(value, int) and value >= 0


def _is_object_of_numbers(value: Any) -> bool:
    return isinstance(value, dict) and all(_has_type(number, int) for number in value.values())


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
    TIME_DOUBTFUL = 128  # longer than a day, or before 2000


# What one component can do in a second. A device: the fastest drives of 2026 reach 28 GB/s and ten million requests a
# second, arrays that look like one a hundred times as much. All others: rows of a whole file system as one component
# are common; 100 TB/s is ten times the largest file system of 2023, 1e11 operations a hundred times the best of the
# IO500. Times are sums over requests that may each have waited for days: a billion seconds.
_MOST_PER_S: Final = {"bytes": 1e14, "count": 1e11, "seconds": 1e9}
_MOST_PER_S_OF_DEVICE: Final = {"bytes": 3e12, "count": 1e9, "seconds": 1e7}
# The largest file systems hold less than 2^60 bytes, and files no smaller than one. No request waits for thirty years.
_MOST: Final = {"bytes": float(1 << 60), "count": float(1 << 60), "seconds": 1e9, "ratio": 1.0}
# The largest machines have ten million cores; each may have a hundred requests in flight.
_MOST_OF: Final = {"queue_length": 1e9, "client_count": 1e9}
# iostat prints up to 100.4%, because ticks of the kernel and the time between two samples differ: ratios this far
# beyond 0 or 1 are set to 0 or 1.
_JITTER: Final = 0.05


def most_per_s(kind: str, unit: str) -> float:
    """Physical limit of a component of this kind, in bytes, counts or seconds a second."""
    return (_MOST_PER_S_OF_DEVICE if kind == "device" else _MOST_PER_S)[unit]


class _Metric(NamedTuple):
    """A metric of `series`: an amount in the interval that adds up (extensive), or a mean over it (intensive)."""

    name: str
    unit: str
    extensive: bool
    doc: str

    def most(self, kind: str) -> float:
        """Largest possible value for a component of this kind; for an extensive metric per second."""
        if not self.extensive:
            return _MOST_OF.get(self.name) or _MOST[self.unit]
        return most_per_s(kind, self.unit)


_DECLARED: Final = tomllib.loads(Path(__file__).with_name("tables.toml").read_text("utf-8"))
METRICS: Final[dict[str, _Metric]] = {
    name: _Metric(name, unit, kind == "extensive", doc)
    for kind, lines in _DECLARED.pop("metrics").items()
    for name, unit, doc in (line.split(maxsplit=2) for line in lines.strip().splitlines())
}


@dataclass(frozen=True)
class _Range:
    """The numbers from `least` to `most`, both included; for times, to `ahead_ns` after now. `label` is for docs."""

    least: float
    most: float
    label: str
    ahead_ns: int | None = None

    def most_at(self, now_ns: int) -> float:
        return self.most if self.ahead_ns is None else now_ns + self.ahead_ns


# For identities, which anonymous logs replace by hashes, and for times of files, which their owner may set.
_ANY: Final = _Range(-_INT64_MOST - 1, _INT64_MOST, "any")
_NOT_NEGATIVE: Final = _Range(0, _INT64_MOST, "0 or more")
_SAMPLE: Final = _Range(0.0, float("inf"), "by metric, see below")
# 1 EiB is more than the largest file system holds (Orion of Frontier: 0.7 EB in 2023); a run that moved as much at its
# 10 TB/s would take a day and a half. As many operations, a billion a second, would take 36 years.
_AMOUNT: Final = _Range(0, 1 << 60, "0 to 2^60")

# What a number may be (its range), what a text may be (a closed list), or whether a text can be parsed, by the name
# that tables.toml gives in brackets.
RULES: Final[Mapping[str, _Range | frozenset[str] | Callable[[str], bool]]] = {
    "any": _ANY,
    "not_negative": _NOT_NEGATIVE,
    # Maintenance is announced, and hardware is written off, years ahead.
    "planned_time": _Range(0, _INT64_MOST, "1970 to ten years ahead", 10 * _YEAR_NS),
    # A sparse file may end anywhere below 2^63, and so may a write to it.
    "file_size": _NOT_NEGATIVE,
    # The largest machines have ten million cores (Sunway TaihuLight: 10.6 million).
    "processes": _Range(1, 10**8, "1 to 10^8"),
    "parts": _Range(0, 10**8, "0 to 10^8"),
    "rank": _Range(-1, 10**8, "-1 to 10^8"),
    # What a benchmark measures of a file system; the best of the IO500 are at 3e13 bytes/s and 1e9 operations/s.
    "benchmark_bytes_per_s": _Range(0.0, 1e16, "0 to 10^16"),
    "benchmark_ops_per_s": _Range(0.0, 1e13, "0 to 10^13"),
    # How many times as much as usual.
    "factor": _Range(0.0, 1e15, "0 to 10^15"),
    # Linux numbers errors to 4095.
    "errno": _Range(0, 4095, "0 to 4095"),
    "flags": _Range(0, (1 << 15) - 1, "0 to 32767"),
    "sample": _SAMPLE,
    "component_kinds": frozenset(COMPONENT_KINDS),
    "verdict_kinds": frozenset(VERDICT_KINDS),
    "event_kinds": frozenset(EVENT_KINDS),
    "quota_owners": frozenset(names_of("fileset group project user")),
    "metrics": frozenset(METRICS),
    "operations": frozenset(names_of("create delete file_read read stat write write_sync")),
    "modes": frozenset(names_of("cache nocache")),
    "statuses": frozenset(names_of("error missed ok pending")),
    "numbers": lambda text: _NUMBERS.fullmatch(text) is not None,
    # Lists of numbers, one for each part of a file.
    "layout": lambda text: all(_NUMBERS.fullmatch(part) is not None for part in text.split(";")),
    "histogram": is_histogram,
    "interfaces": lambda text: text == "" or set(text.split(",")) <= set(INTERFACES),
    "object": _json_object(lambda found: True),
    "object_of_texts": _json_object(lambda found: all(isinstance(value, str) for value in found.values())),
    "object_of_counts": _json_object(lambda found: all(_is_count(key, value) for key, value in found.items())),
    "object_of_objects": _json_object(lambda found: all(map(_is_object_of_numbers, found.values()))),
    "event_details": _json_object(is_event_details),
}
# Without a rule, the name of a number says its range: all of it, or the longest ending that fits.
_BY_NAME: Final = {
    # Counters looked at once a year are the rarest. Beyond, the clock was not set at one of the two looks.
    "interval_ns": _Range(1, 366 * DAY_NS, "1 ns to 366 days"),
    # A time of this century and a length of a hundred years add up within int64.
    "duration_ns": _Range(0, 100 * _YEAR_NS, "0 to 100 years"),
    "count": _AMOUNT,
}
_BY_UNIT: Final = {
    # Caches of the nodes together: a hundred thousand nodes at 10 TB/s each.
    "_bytes_per_s": _Range(0.0, 1e18, "0 to 10^18"),
    "_per_process": _Range(0.0, float(1 << 60), "0 to 2^60"),
    # Times of all processes together: a hundred million of them for three years.
    "_seconds": _Range(0.0, 1e16, "0 to 10^16"),
    "_ratio": _Range(0.0, 1.0, "0 to 1"),
    "_bytes": _AMOUNT,
    "_count": _AMOUNT,
    # Clocks of hosts differ, and a zone that was guessed wrong shifts by at most 14 hours: a day covers both.
    "_ns": _Range(0, _INT64_MOST, "1970 to tomorrow", DAY_NS),
}


@dataclass(frozen=True)
class ColumnSpec:
    """A column and the values that it may have: numbers of `range`; texts of `choices`, or those that `reads` accepts.
    `else_null`: a number outside of its range becomes null, and its row is stored."""

    name: str
    type: ColumnType
    doc: str
    nullable: bool = False
    range: _Range | None = None
    choices: frozenset[str] | None = None
    reads: Callable[[str], bool] | None = None
    else_null: bool = False


_KIND: Final = re.compile(r"(\w+)([?!]?)(?:\((\w+)\))?")


def _parse_columns(text: str) -> tuple[ColumnSpec, ...]:
    """The columns of lines `name type description`, as tables.toml explains them."""
    columns = []
    for line in text.strip().replace("\n    ", " ").splitlines():
        name, kind, doc = line.split(maxsplit=2)
        match = _KIND.fullmatch(kind)
        assert match is not None, line
        rule = RULES[match[3]] if match[3] else None
        if rule is None and match[1] in ("int", "float"):
            rule = _BY_NAME.get(name) or next(r for unit, r in _BY_UNIT.items() if f"_{name}".endswith(unit))
        columns.append(
            ColumnSpec(
                name,
                _TYPES[match[1]],
                doc,
                nullable=bool(match[2]),
                range=rule if isinstance(rule, _Range) else None,
                choices=rule if isinstance(rule, frozenset) else None,
                reads=rule if callable(rule) else None,
                else_null=match[2] == "!",
            )
        )
    return tuple(columns)


def query_columns(text: str) -> tuple[ColumnSpec, ...]:
    """Columns of a query's result, from `name=type name=type? ...`; `?`: may be null."""
    pairs = (word.split("=") for word in text.split())
    return tuple(ColumnSpec(name, cast(ColumnType, kind.rstrip("?")), "", kind.endswith("?")) for name, kind in pairs)


@dataclass(frozen=True)
class TableSpec:
    """A table of the lake. `key` is the natural key (with `source`, for append-only tables). `time` is the column whose
    UTC date is `day`.

    Append-only rows enter once: a row whose key is there is not added. Revisable rows are all stored; the view shows
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
    # Rows per row group of a sealed file: small if queries need little of a day.
    group_rows: int = 122_880
    # Whether a sealed day keeps rows that newer ones replaced; not if they can be computed again.
    keeps_revisions: bool = True
    # Of revisable tables: (column of the key, value) of rows of unknown origin. They belong to the one origin that has
    # the rest of their key, if there is one.
    placeholder: tuple[str, str] | None = None
    # A table of very many rows with few distinct texts, which is read without copying them.
    is_long: bool = False
    # Of append-only tables: the flag in `quality` of a row that one of the same key without the flag replaces.
    unfinished: int = 0

    @property
    def identity(self) -> tuple[str, ...]:
        """Columns that identify a row. The same minutes from two sources are two rows; a read chooses one."""
        return self.key if self.revisable else (*self.key, "source")

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    def column(self, name: str) -> ColumnSpec:
        """The column of this name."""
        return next(column for column in self.columns if column.name == name)

    def frame(self, columns: Mapping[str, Any] | None = None, /, *, rows: int | None = None, **more: Any) -> Frame:
        """A Frame of this table's columns, from lists, arrays or scalars (repeated to `rows`).

        Nullable columns that are left out are null. Raises ValueError for unknown columns and missing required ones.
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
        """A Frame of rows as mappings; a column that a row lacks is null."""
        return self.frame({name: [row.get(name) for row in rows] for name in self.names}, rows=len(rows))


def build_column(spec: ColumnSpec, value: Any, rows: int) -> Column:
    """A column of `rows` cells from a list, an array or a scalar. Null is NaN, a mask, or code -1."""
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
            raise CorruptInput(f"{spec.name} has a number larger than 64 bits.") from None
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
    """The rows of all frames, in order. All frames have the same columns."""
    if len(frames) == 1:
        return frames[0]
    return Frame({name: _concat_columns([frame[name] for frame in frames]) for name in frames[0]})


def _concat_columns(columns: Sequence[Column]) -> Column:
    """The cells of all columns; categories of text are merged."""
    if isinstance(columns[0], Text):
        merged: dict[str, int] = {}
        parts = []
        for column in columns:
            assert isinstance(column, Text)
            # Code -1 (null) indexes the last entry.
            lookup = np.array([merged.setdefault(c, len(merged)) for c in column.categories] + [-1], np.int32)
            parts.append(lookup[column.codes])
        return Text(np.concatenate(parts), tuple(merged))
    if any(isinstance(column, np.ma.MaskedArray) for column in columns):
        return np.ma.concatenate(columns)  # type: ignore[no-any-return,no-untyped-call]
    return np.concatenate(columns)  # type: ignore[arg-type]


def _declared_table(name: str, entry: dict[str, Any]) -> TableSpec:
    """A table of tables.toml."""
    words: dict[str, Any] = {each: names_of(entry.pop(each)) for each in ("key", "order", "revision") if each in entry}
    if "placeholder" in entry:
        ((column, value),) = pairs_of(entry.pop("placeholder")).items()
        entry["placeholder"] = (column, value)
    if "unfinished" in entry:
        entry["unfinished"] = int(Quality[entry["unfinished"].upper()])
    return TableSpec(name, columns=_parse_columns(entry.pop("columns")), **words, **entry)


TABLES: Final[Mapping[str, TableSpec]] = {name: _declared_table(name, entry) for name, entry in _DECLARED.items()}
APPLICATIONS, FILES, JOB_IO = (TABLES[name] for name in ("applications", "files", "job_io"))
JOBS, JOB_OPERATIONS, SERIES = (TABLES[name] for name in ("jobs", "job_operations", "series"))
COMPONENTS, BENCHMARKS = TABLES["components"], TABLES["benchmarks"]
RESPONSES, RESPONSE_ROLLUPS = TABLES["responses"], TABLES["response_rollups"]


# Checks of rows, the same for every source, mapping and push.

# 2000-01-01: no log of this software's sources is older. A clock that was never set counts from 1970.
OLDEST_NS: Final = 10_957 * DAY_NS


class _Fault(NamedTuple):
    """Rows of a frame that break one rule. They are refused, unless the rule says that a row `stays`: then they have
    `becomes` in the column (NaN is null), and `flag` in their quality."""

    rows: Bools
    column: str
    why: str
    stays: bool = False
    becomes: float | None = None
    flag: int = 0


class Complaints:
    """Checks the rows of one file, and sums up which rules they break: rows refused and rows flagged, by table."""

    def __init__(self) -> None:
        # Rows by name of the table: left out, and stored with a flag.
        self.refused = Counter[str]()
        self.flagged = Counter[str]()
        # The same rows by (whether such rows are stored, text of the rule): number of rows, description of the first.
        self.by_rule: dict[tuple[bool, str], tuple[int, str]] = {}

    def check(self, table: TableSpec, frame: Frame, now_ns: int) -> tuple[Frame, Bools]:
        """The possible rows, with values set to null and quality flags added where a rule says so; and a mask of the
        given rows that break a rule."""
        refused, flagged = np.zeros((2, frame.rows), np.bool_)
        possible = frame
        faults = _faults(table, frame, now_ns) if frame.rows else iter(())
        for fault in (each for each in faults if each.rows.any()):
            if fault.stays:
                flagged |= fault.rows
                possible = _mended(possible, fault)
            else:
                refused |= fault.rows
            rule = (fault.stays, f"{fault.column} {fault.why}")
            count, first = self.by_rule.get(rule) or (0, _first_row(table, frame, fault))
            self.by_rule[rule] = (count + int(fault.rows.sum()), first)
        self.refused[table.name] += int(refused.sum())
        self.flagged[table.name] += int((flagged & ~refused).sum())
        return possible.take(~refused) if refused.any() else possible, refused | flagged

    @property
    def refused_rows(self) -> int:
        return self.refused.total()

    @property
    def flagged_rows(self) -> int:
        return self.flagged.total()

    def __str__(self) -> str:
        """What was left out and flagged, with the broken rules; empty if nothing was."""
        said = []
        for counted, stays, verb in ((self.refused, False, "left out"), (self.flagged, True, "flagged")):
            if counted.total():
                broken = ((rule, *found) for (each, rule), found in self.by_rule.items() if each == stays)
                rules = "; ".join(f"{rule} ({count:,}; first: {first})" for rule, count, first in broken)
                counts = sorted((table, n) for table, n in counted.items() if n)
                rows = ", ".join(f"{n:,} row{'s' if n > 1 else ''} of {table}" for table, n in counts)
                said.append(f"{rows} {verb}: {rules}.")
        return " ".join(said)


def _faults(table: TableSpec, frame: Frame, now_ns: int) -> Iterator[_Fault]:
    """Every rule with the rows that break it, which may be none."""
    for column in table.columns:
        yield from _text_faults(column, frame) if column.type == "text" else _number_faults(column, frame, now_ns)
    for first, last in (("start_ns", "end_ns"), ("valid_from_ns", "valid_to_ns")):
        if first in frame and last in frame:
            behind = np.ma.filled(np.ma.masked_array(frame.array(last)) < np.ma.masked_array(frame.array(first)), False)
            yield _Fault(behind, last, f"is before {first}")
    for length in ("interval_ns", "duration_ns"):
        if length in frame and table.time in frame:
            ends = np.ma.masked_array(frame.array(length)) + frame.array(table.time)
            yield _Fault(
                _outside(ends, -_INT64_MOST - 1, now_ns + 2 * DAY_NS), length, "ends more than 2 days in the future"
            )
    flag = int(Quality.TIME_DOUBTFUL) if "quality" in frame else 0
    if flag and "interval_ns" in frame:
        long = _outside(frame.array("interval_ns"), 0, DAY_NS)
        yield _Fault(long, "interval_ns", "is more than a day (TIME_DOUBTFUL)", stays=True, flag=flag)
    if table.time != "valid_from_ns":  # which may well say: since ever
        old = _outside(frame.array(table.time), OLDEST_NS, _INT64_MOST)
        yield _Fault(old, table.time, "is before the year 2000 (clock not set)", stays=True, flag=flag)
    if table is SERIES:
        yield from _sample_faults(frame)
    if table is JOB_OPERATIONS:
        yield from _operation_faults(frame)


def _text_faults(column: ColumnSpec, frame: Frame) -> Iterator[_Fault]:
    """Rules of a column of text: null, closed lists, formats."""
    text = frame.text(column.name)
    if not column.nullable:
        yield _Fault(text.codes < 0, column.name, "is missing")
    for is_right, why in (
        (column.choices and column.choices.__contains__, f"is not a known {column.name}"),
        (column.reads, f"is not a valid {column.name}"),
    ):
        wrong = [code for code, name in enumerate(text.categories) if is_right and not is_right(name)]
        if wrong:
            yield _Fault(np.isin(text.codes, wrong), column.name, why)


def _number_faults(column: ColumnSpec, frame: Frame, now_ns: int) -> Iterator[_Fault]:
    """Rules of a column of numbers: finite, not null, within its range."""
    allowed, values = column.range, frame.array(column.name)
    if allowed is None:  # true or false
        return
    if column.type == "float64":
        infinite = np.isinf(values)
        yield _Fault(infinite, column.name, "is not finite")
        if not column.nullable:
            yield _Fault(np.isnan(values), column.name, "is missing")
        wrong = ((values < allowed.least) | (values > allowed.most)) & ~infinite
    else:
        wrong = _outside(values, allowed.least, allowed.most_at(now_ns))
    if allowed is not _SAMPLE:
        becomes = np.nan if column.else_null else None
        yield _Fault(wrong, column.name, f"is out of range ({allowed.label})", column.else_null, becomes)


def _sample_faults(frame: Frame) -> Iterator[_Fault]:
    """Rules of samples, by their metric. Infinite values are refused by the rules of the column.

    A negative amount means that a counter restarted; it and a value above all limits are stored as null with a quality
    flag, so that readers of the lake see a gap.
    """
    value, text = frame.array("value"), frame.text("metric")
    known = [METRICS.get(name) for name in text.categories]
    kinds = frame.text("component_kind")
    limits = [[metric.most(kind) if metric else np.inf for metric in known] + [np.inf] for kind in kinds.categories]
    most = np.array([*limits, [np.inf] * (len(known) + 1)])[kinds.codes, text.codes]
    below, above = (value < 0) & (value > -np.inf), (value > most) & (value < np.inf)
    if not below.any() and not above.any():
        return
    extensive = np.array([metric is not None and metric.extensive for metric in known] + [False])[text.codes]
    ratio = np.array([metric is not None and metric.unit == "ratio" for metric in known] + [False])[text.codes]
    # Rows shorter than a second may hold what ended in them and began before.
    above &= ~extensive | (value > most * np.maximum(frame.array("interval_ns") / NS, 1.0))
    for rows, becomes in ((below & ratio & (value >= -_JITTER), 0.0), (above & ratio & (value <= 1 + _JITTER), 1.0)):
        yield _Fault(rows, "value", f"is a ratio rounded to {becomes:.0f}", stays=True, becomes=becomes)
        below, above = below & ~rows, above & ~rows
    yield _Fault(below & extensive, "value", "is a negative amount (RESET)", True, np.nan, int(Quality.RESET))
    yield _Fault(below & ~extensive, "value", "is negative")
    yield _Fault(above, "value", "exceeds the possible maximum (OVER_LIMIT)", True, np.nan, int(Quality.OVER_LIMIT))


def _operation_faults(frame: Frame) -> Iterator[_Fault]:
    """Rules of `job_operations`: no more than a target can do in the time."""
    seconds = np.maximum(frame.array("interval_ns") / NS, 1.0)
    kinds = frame.text("component_kind")
    for column in ("count", "bytes"):
        limits = np.array([most_per_s(kind, column) for kind in kinds.categories] + [np.inf])
        above = np.ma.filled(np.ma.masked_array(frame.array(column)) > limits[kinds.codes] * seconds, False)
        yield _Fault(above, column, "exceeds the capacity of a target")


def _outside(values: NDArray[Any], least: float, most: float) -> Bools:
    """Mask of the integers below `least` or above `most`; null is neither."""
    return np.ma.filled(np.ma.masked_array((values < least) | (values > most)), False)


def _mended(frame: Frame, fault: _Fault) -> Frame:
    """The frame with the value and the quality flag that the rule sets."""
    changed: dict[str, NDArray[Any]] = {}
    before = frame.array(fault.column)
    if fault.becomes is not None and before.dtype.kind == "i":
        changed[fault.column] = np.ma.masked_array(np.ma.getdata(before), np.ma.getmaskarray(before) | fault.rows)
    elif fault.becomes is not None:
        changed[fault.column] = np.where(fault.rows, fault.becomes, before)
    if fault.flag:
        changed["quality"] = np.where(fault.rows, frame.array("quality") | fault.flag, frame.array("quality"))
    return frame.with_columns(**changed)


def _first_row(table: TableSpec, frame: Frame, fault: _Fault) -> str:
    """The first row that breaks the rule: the value, and the rest of the key."""
    place = int(np.flatnonzero(fault.rows)[0])
    named = ", ".join(f"{name} {_shown(frame, name, place)}" for name in table.key if name != fault.column)
    return f"{fault.column} = {_shown(frame, fault.column, place)}{f' at {named}' if named else ''}"


def _shown(frame: Frame, name: str, place: int) -> str:
    """A cell for the description of a row."""
    column = frame[name]
    if isinstance(column, Text):
        code = int(column.codes[place])
        return repr(column.categories[code])[:60] if code >= 0 else "null"
    value = column[place]
    if value is np.ma.masked:
        return "null"
    is_time = name.endswith("_ns") and name not in ("interval_ns", "duration_ns")
    return format_time_ns(int(value)) if is_time and 0 <= value < _INT64_MOST - DAY_NS else str(value)
