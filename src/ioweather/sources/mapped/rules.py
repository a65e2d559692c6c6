"""The rules of a mapping: where each column of a table comes from, and how its values are made."""

from __future__ import annotations

import codecs
import csv
import datetime as dt
import gzip
import io
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import IO, Any, TypeAlias, cast
from zoneinfo import ZoneInfo

import numpy as np

from ioweather.core.arrays import Ints
from ioweather.core.clock import datetime_to_ns, local_to_ns, parse_time_ns
from ioweather.core.errors import CorruptInput, EmptyInput, TruncatedInput, UndatedInput, UsageError
from ioweather.core.units import NS, parse_duration_ns
from ioweather.core.words import names_of
from ioweather.sources.parquet_files import opened_parquet
from ioweather.sources.textfiles import note_cut, unfinished_line
from ioweather.tables import ColumnSpec

BATCH_ROWS = 50_000
_GZIP_MAGIC = b"\x1f\x8b"
_PARQUET_MAGIC = b"PAR1"
_NULLS = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None")
_PLAIN_KINDS = frozenset(
    names_of("""
    BOOLEAN TINYINT SMALLINT INTEGER BIGINT UTINYINT USMALLINT UINTEGER UBIGINT FLOAT DOUBLE VARCHAR
""")
)
# What a file calls the column that its header does not name (`unnamed_index`).
INDEX_NAME = "index"


@dataclass(frozen=True)
class Batch:
    """Some rows. `lines` are line numbers of a CSV and row numbers of a Parquet file, from 1."""

    lines: list[int]
    columns: dict[str, list[Any]]

    @property
    def rows(self) -> int:
        return len(self.lines)


@dataclass(frozen=True)
class CsvShape:
    """The [csv] part of a mapping."""

    delimiter: str = ","
    quote: str = '"'
    skip: int = 0
    comment: str = ""
    columns: tuple[str, ...] = ()  # of a file without a line of names
    unnamed_index: bool = False
    decimal: str = "."
    nulls: tuple[str, ...] = _NULLS
    encoding: str = "utf-8"

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> CsvShape:
        values: dict[str, Any] = {}
        for name, value in given.items():
            default = cls.__dataclass_fields__.get(name)
            if default is None:
                raise UsageError(
                    f"The mapping has an unknown entry {name!r} under [csv].",
                    hint=f"There are: {', '.join(cls.__dataclass_fields__)}.",
                )
            values[name] = tuple(value) if isinstance(value, list) else value
            if type(values[name]) is not type(default.default):
                kind = "list" if isinstance(default.default, tuple) else type(default.default).__name__
                raise UsageError(f"{name!r} under [csv] should be a {kind}, not {value!r}.")
        for name in ("delimiter", "quote", "decimal"):
            if name in values and len(values[name]) != 1:
                raise UsageError(f"{name!r} under [csv] should be one character, not {values[name]!r}.")
        try:
            codecs.lookup(values.get("encoding", cls.encoding))
        except LookupError:
            raise UsageError(f"{values['encoding']!r} under [csv] is no known encoding.") from None
        return cls(**values)


def read_batches(path: Path, shape: CsvShape, wanted: frozenset[str]) -> Iterator[Batch]:
    """The wanted columns of the file, batch by batch."""
    with path.open("rb") as file:
        magic = file.read(4)
    if not magic:
        raise EmptyInput(f"{path} is empty.")
    if magic == _PARQUET_MAGIC:
        return _read_parquet(path, wanted)
    return _read_csv(path, shape, wanted, zipped=magic.startswith(_GZIP_MAGIC))


def _require(path: Path, wanted: frozenset[str], present: list[str]) -> None:
    missing = sorted(wanted - set(present))
    if missing:
        raise CorruptInput(
            f"{path} has no column {', '.join(map(repr, missing))}.", hint=f"It has: {', '.join(map(repr, present))}."
        )
    doubled = sorted({name for name in wanted if present.count(name) > 1})
    if doubled:
        raise CorruptInput(f"{path} has the column {', '.join(map(repr, doubled))} more than once.")


def _read_csv(path: Path, shape: CsvShape, wanted: frozenset[str], *, zipped: bool) -> Iterator[Batch]:
    encoding = "utf-8-sig" if shape.encoding.lower() in ("utf-8", "utf8") else shape.encoding
    try:
        with (
            path.open("rb") as plain,
            io.TextIOWrapper(
                cast(IO[bytes], gzip.GzipFile(fileobj=plain)) if zipped else plain, encoding, newline=""
            ) as text,
        ):
            yield from _csv_batches(path, shape, wanted, text)
    except UnicodeDecodeError as error:
        raise CorruptInput(
            f"{path} is not text in {shape.encoding}: {error}.", hint="Say `encoding` under [csv] of the mapping."
        ) from None
    except csv.Error as error:
        raise CorruptInput(f"{path} is not a CSV file: {error}.") from None
    except EOFError:
        raise TruncatedInput(f"{path} ends in the middle of its gzip stream.", hint="Fetch it again.") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise CorruptInput(f"{path} cannot be unzipped: {error}.", hint="Fetch it again.") from None


def _csv_batches(path: Path, shape: CsvShape, wanted: frozenset[str], text: io.TextIOWrapper) -> Iterator[Batch]:
    lines = _lines(path, text, shape)
    reader = csv.reader(lines, delimiter=shape.delimiter, quotechar=shape.quote, strict=True)
    rows = ((reader.line_num + shape.skip, row) for row in reader if row)
    names = [name.strip() for name in shape.columns or next(rows, (0, []))[1]]
    if not names:
        raise EmptyInput(f"{path} has no line of column names.")
    if shape.unnamed_index:
        names = [INDEX_NAME, *names]
    _require(path, wanted, names)
    places = {name: names.index(name) for name in wanted}
    nulls = frozenset(shape.nulls)
    while batch := list(islice(rows, BATCH_ROWS)):
        for line, row in batch:
            if len(row) != len(names):
                raise _ragged(path, line, len(row), len(names), shape)
        columns = {
            name: [None if row[place] in nulls else row[place] for _, row in batch] for name, place in places.items()
        }
        yield Batch([line for line, _ in batch], columns)


def _lines(path: Path, text: io.TextIOWrapper, shape: CsvShape) -> Iterator[str]:
    """Lines, with those to leave out made empty, so that line numbers stay right. A last line without a line end is
    left out, unless a quote closes it."""
    for number, line in enumerate(islice(text, shape.skip, None), shape.skip + 1):
        if shape.comment and line.startswith(shape.comment):
            yield "\n"
        elif line.endswith(("\n", "\r", shape.quote)):
            yield line
        elif line.strip():
            note_cut(unfinished_line(path, number))


def _ragged(path: Path, line: int, found: int, expected: int, shape: CsvShape) -> CorruptInput:
    hint = ""
    if found == expected + 1 and not shape.unnamed_index and not shape.columns:
        hint = (
            "Where every line begins with a number that the header does not name (pandas writes that), "
            "say `unnamed_index = true` under [csv] of the mapping."
        )
    return CorruptInput(f"{path}, line {line}: expected {expected} fields, found {found}.", hint=hint)


def _read_parquet(path: Path, wanted: frozenset[str]) -> Iterator[Batch]:
    import arro3.core as arro

    with opened_parquet(path) as (con, file):
        types = {row[0]: str(row[1]) for row in con.sql(f"DESCRIBE SELECT * FROM {file}").fetchall()}
        _require(path, wanted, list(types))
        names = sorted(wanted) or list(types)[:1]
        selects = ", ".join(_plain(name, types[name]) for name in names)
        stream = arro.RecordBatchReader.from_stream(con.sql(f"SELECT {selects} FROM {file}"))
        done = 0
        for piece in stream:
            for first in range(0, piece.num_rows, BATCH_ROWS):
                part = piece.slice(first, min(BATCH_ROWS, piece.num_rows - first))
                lines = list(range(done + 1, done + 1 + part.num_rows))
                yield Batch(lines, {name: list(part.column(i).to_pylist()) for i, name in enumerate(names)})
                done += part.num_rows


def _plain(name: str, kind: str) -> str:
    """Numbers and text as they are; anything else as text: times are ISO then, decimals lose no digit, and Arrow's
    Python side does not know every type."""
    column = '"' + name.replace('"', '""') + '"'
    if kind == "TIMESTAMP WITH TIME ZONE":
        return f"CAST({column} AT TIME ZONE 'UTC' AS VARCHAR) || 'Z' AS {column}"
    return column if kind in _PLAIN_KINDS else f"CAST({column} AS VARCHAR) AS {column}"


Value: TypeAlias = "str | int | float | bool | None"

_KEYS = {"from", "value", "text", "unit", "format", "factor", "map", "default", "shift"}
_SCALES = {"s": NS, "ms": 10**6, "us": 10**3, "ns": 1}
_MOMENTS = ("iso", "utc", "local")
# Columns in nanoseconds that are lengths, not moments.
_LENGTHS = ("interval_ns", "duration_ns")
_PLACEHOLDER = re.compile(r"\{([^{}]+)\}")
_TRUTHS = {"true": True, "yes": True, "1": True, "t": True, "false": False, "no": False, "0": False, "f": False}
_INT64 = 1 << 63
# Below this a shift still fits.
_SAFE = 1 << 62
_MOST_MOMENTS = 100_000


@dataclass(frozen=True)
class Rule:
    """How one column is filled."""

    column: ColumnSpec
    source: str | None = None  # `from`
    constant: Value = None  # `value`
    text: str | None = None
    unit: str | None = None
    format: str | None = None
    factor: Decimal | None = None
    mapping: Mapping[str, Value] | None = None
    default: Value = None
    shift_ns: int = 0

    @property
    def wanted(self) -> frozenset[str]:
        """The columns of the file that it reads."""
        if self.source is not None:
            return frozenset({self.source})
        return frozenset(_PLACEHOLDER.findall(self.text or ""))


def make_rule(column: ColumnSpec, given: object) -> Rule:
    """The rule that an entry of the mapping file describes."""
    where = f"The mapping of {column.name!r}"
    if not isinstance(given, Mapping):
        raise UsageError(f'{where} should be a table such as {{from = "name"}} or {{value = 1}}, not {given!r}.')
    unknown = sorted(set(given) - _KEYS)
    if unknown:
        raise UsageError(
            f"{where} has an unknown entry {unknown[0]!r}.", hint=f"There are: {', '.join(sorted(_KEYS))}."
        )
    if sum(key in given for key in ("from", "value", "text")) != 1:
        raise UsageError(f"{where} needs exactly one of `from`, `value` and `text`.")
    unit = given.get("unit")
    if "from" in given and column.name.endswith("_ns") and unit not in (*_SCALES, *_MOMENTS):
        raise UsageError(f"{where} needs a `unit`: s, ms, us, ns, iso, utc or local.")
    if unit in _MOMENTS and column.name in _LENGTHS:
        raise UsageError(f"{where} is a length of time; its unit is s, ms, us or ns.")
    if unit is not None and not column.name.endswith("_ns"):
        raise UsageError(f"{where} has a `unit`; only times have one.", hint="Use `factor` for other numbers.")
    if "shift" in given and not column.name.endswith("_ns"):
        raise UsageError(f"{where} has a `shift`; only times have one.")
    mapping = given.get("map")
    if mapping is not None and not isinstance(mapping, Mapping):
        raise UsageError(f'{where}: `map` should be a table such as {{R = "read"}}.')
    rule = Rule(
        column,
        source=_text_of(where, given, "from"),
        text=_text_of(where, given, "text"),
        unit=unit,
        format=_text_of(where, given, "format"),
        factor=_factor(where, given.get("factor")),
        mapping=mapping,
        default=given.get("default"),
        shift_ns=_shift(where, given.get("shift")),
    )
    if "value" not in given:
        return rule
    return Rule(column, constant=_constant(where, rule, given["value"]))


def _text_of(where: str, given: Mapping[str, Any], key: str) -> str | None:
    value = given.get(key)
    if value is not None and not isinstance(value, str):
        raise UsageError(f"{where}: `{key}` should be text, not {value!r}.")
    return value


def _factor(where: str, value: object) -> Decimal | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UsageError(f"{where}: `factor` should be a number, not {value!r}.")
    return Decimal(repr(value))


def _shift(where: str, value: object) -> int:
    if value is None:
        return 0
    try:
        text = str(value)
        return -parse_duration_ns(text[1:]) if text.startswith("-") else parse_duration_ns(text)
    except ValueError:
        raise UsageError(f"{where}: `shift` should be a length of time such as '-60s', not {value!r}.") from None


def _constant(where: str, rule: Rule, value: object) -> Value:
    """A value of the mapping file itself: lengths as '60s', moments as ISO text."""
    column = rule.column
    try:
        if column.type == "text":
            return str(value)
        if column.type == "int64" and column.name.endswith("_ns") and isinstance(value, str):
            return parse_duration_ns(value) if column.name in _LENGTHS else parse_time_ns(value)
        if column.type == "int64":
            return _scaled(value, Decimal(_SCALES[rule.unit]) if rule.unit in _SCALES else rule.factor)
        if column.type == "bool":
            return _truth(value)
        return float(value) * float(rule.factor or 1)  # type: ignore[arg-type]
    except (ValueError, TypeError, ArithmeticError, UndatedInput) as error:
        raise UsageError(f"{where}: the value {value!r} does not fit ({error}).") from None


class Converter:
    """Makes the values of columns. Keeps the last moment, which tells the two halves of a doubled hour apart."""

    def __init__(self, where: str, zone: ZoneInfo | None, decimal: str = ".") -> None:
        self._where = where
        self._zone = zone
        self._decimal = decimal
        self._moments: dict[tuple[str, str], int] = {}
        self._last: dict[str, tuple[str, int]] = {}

    def convert(self, rule: Rule, batch: Batch) -> Any:
        """The column of a batch, ready for the table."""
        if rule.source is None and rule.text is None:
            return rule.constant  # the table repeats it
        raw = self._raw(rule, batch)
        kind = rule.column.type
        if kind == "text":
            return [value if value is None else str(value) for value in raw]
        if self._decimal != ".":
            raw = [value.replace(self._decimal, ".") if isinstance(value, str) else value for value in raw]
        if kind == "bool":
            return self._each(rule, batch, raw, _truth)
        if kind == "float64":
            return self._floats(rule, batch, raw)
        return self._integers(rule, batch, raw)

    def _raw(self, rule: Rule, batch: Batch) -> list[Any]:
        """What the file says, after `map` and `default`."""
        if rule.source is not None:
            raw = batch.columns[rule.source]
        else:
            raw = [_filled(rule.text or "", batch, row) for row in range(batch.rows)]
        if rule.mapping is not None:
            raw = self._each(rule, batch, raw, lambda value: _mapped(rule, value))
        if rule.default is not None:
            raw = [rule.default if value is None else value for value in raw]
        if not rule.column.nullable and None in raw:
            line = batch.lines[raw.index(None)]
            raise CorruptInput(
                f"{self._where}, line {line}: {self._origin(rule)} is empty, and {rule.column.name} must not be.",
                hint="Say `default` in the mapping where something else is meant.",
            )
        return raw

    def _origin(self, rule: Rule) -> str:
        return f"column {rule.source!r}" if rule.source is not None else f"{rule.text!r}"

    def _each(self, rule: Rule, batch: Batch, raw: Sequence[Any], make: Callable[[Any], Any]) -> list[Any]:
        """One value at a time; the one that cannot be made is named."""
        made = []
        for row, value in enumerate(raw):
            try:
                made.append(None if value is None else make(value))
            except UndatedInput as error:
                where = f"{self._where}, line {batch.lines[row]}, {self._origin(rule)}"
                raise UndatedInput(f"{where}: {error.message}", hint=error.hint) from None
            except (ValueError, TypeError, ArithmeticError) as error:
                reason = str(error) if isinstance(error, _NotInMap) else _expected(rule)
                raise CorruptInput(
                    f"{self._where}, line {batch.lines[row]}, {self._origin(rule)}: {value!r} is not {reason}."
                ) from None
        return made

    def _floats(self, rule: Rule, batch: Batch, raw: list[Any]) -> Any:
        try:
            numbers = np.array(list(map(float, raw)), np.float64)
        except (ValueError, TypeError):
            numbers = np.array(
                [np.nan if value is None else value for value in self._each(rule, batch, raw, float)], np.float64
            )
        if np.isinf(numbers).any():
            row = int(np.flatnonzero(np.isinf(numbers))[0])
            self._each(rule, Batch([batch.lines[row]], {}), [raw[row]], _refuse)
        return numbers if rule.factor is None else numbers * float(rule.factor)

    def _integers(self, rule: Rule, batch: Batch, raw: list[Any]) -> Any:
        if rule.unit in _MOMENTS:
            return self._each(rule, batch, raw, lambda value: _in_range(self._moment(rule, str(value)) + rule.shift_ns))
        factor = Decimal(_SCALES[rule.unit]) if rule.unit in _SCALES else rule.factor
        plain = _plain_integers(raw, factor)
        if plain is not None:
            return plain + rule.shift_ns
        return self._each(rule, batch, raw, lambda value: _in_range(_scaled(value, factor) + rule.shift_ns))

    def _moment(self, rule: Rule, text: str) -> int:
        if rule.unit == "local":
            return self._local(rule, text)
        key = (rule.column.name, text)
        if key not in self._moments:
            if len(self._moments) > _MOST_MOMENTS:
                self._moments.clear()
            if rule.unit == "utc":
                self._moments[key] = _wall_clock_ns(text, rule.format, ZoneInfo("UTC"), None)
            else:
                try:
                    self._moments[key] = _in_range(parse_time_ns(text))
                except UndatedInput:
                    return self._local(rule, text)
        return self._moments[key]

    def _local(self, rule: Rule, text: str) -> int:
        last_text, last_ns = self._last.get(rule.column.name, ("", None))
        if text == last_text and last_ns is not None:
            return last_ns
        if self._zone is None:
            raise UndatedInput(f"{text!r} has no zone.", hint="Give --zone, or set `zone` in facility.toml.")
        value = _wall_clock_ns(text, rule.format, self._zone, last_ns)
        self._last[rule.column.name] = (text, value)
        return value


class _NotInMap(ValueError):
    """A value that `map` does not have; its message says what it has."""


def _expected(rule: Rule) -> str:
    if rule.unit in _MOMENTS:
        return f"a time in {rule.format!r}" if rule.format else "a time such as 2026-11-15T06:32:16+00:00"
    return {"int64": "a whole number", "float64": "a number", "bool": "true or false"}.get(rule.column.type, "text")


def _mapped(rule: Rule, value: Any) -> Value:
    assert rule.mapping is not None
    if str(value) not in rule.mapping:
        raise _NotInMap(f"in `map`, which has {', '.join(map(repr, rule.mapping))}")
    found: Value = rule.mapping[str(value)]
    return found


def _filled(template: str, batch: Batch, row: int) -> str | None:
    parts = {name: batch.columns[name][row] for name in _PLACEHOLDER.findall(template)}
    if None in parts.values():
        return None
    return _PLACEHOLDER.sub(lambda match: str(parts[match[1]]), template)


def _truth(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if str(value).strip().lower() not in _TRUTHS:
        raise ValueError(value)
    return _TRUTHS[str(value).strip().lower()]


def _scaled(value: Any, factor: Decimal | None) -> int:
    """Exact: a number with a fraction never passes through float. What is finer than the unit is rounded."""
    if isinstance(value, bool):
        raise ValueError(value)
    number = Decimal(value if isinstance(value, int) else str(value).strip())
    if number.is_finite() and number.adjusted() > 30:
        raise OverflowError(value)  # before it becomes an integer of a billion digits
    if factor is not None:
        return _in_range(int((number * factor).to_integral_value()))
    if number != number.to_integral_value():
        raise ValueError(value)
    return _in_range(int(number))


def _plain_integers(raw: list[Any], factor: Decimal | None) -> Ints | None:
    """The common case, all whole numbers, at once; None where it is not that case."""
    scale = 1 if factor is None else int(factor) if factor == factor.to_integral_value() else 0
    if scale == 0 or not set(map(type, raw)) <= {str, int}:
        return None
    try:
        numbers = np.array(list(map(int, raw)), np.int64)
    except (ValueError, OverflowError):
        return None
    if np.abs(numbers).max(initial=0) >= _SAFE // abs(scale):
        return None
    return numbers * scale


def _in_range(value: int) -> int:
    if not -_INT64 <= value < _INT64:
        raise OverflowError(value)
    return value


def _refuse(value: Any) -> Any:
    raise ValueError(value)


def _wall_clock_ns(text: str, pattern: str | None, zone: ZoneInfo, after_ns: int | None) -> int:
    """UTC of a time in `zone`, unless it says its own offset."""
    if pattern is not None:
        moment = dt.datetime.strptime(text, pattern)
        if moment.tzinfo is not None:
            return _in_range(datetime_to_ns(moment))
        fraction_ns = moment.microsecond * 1000
        return _in_range(local_to_ns(moment.replace(microsecond=0), zone, after_ns=after_ns) + fraction_ns)
    try:
        return _in_range(parse_time_ns(text))
    except UndatedInput:
        # datetime holds no nanoseconds: the fraction is put aside.
        whole, _, fraction = text.strip().replace(",", ".").partition(".")
        naive = dt.datetime.fromisoformat(whole)
        return _in_range(local_to_ns(naive, zone, after_ns=after_ns) + int(fraction.ljust(9, "0")))
