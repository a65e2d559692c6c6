"""Anybody's CSV or Parquet file as batches of named columns, plain values and line numbers."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Any, cast

from ioweather.core.errors import CorruptInput, EmptyInput, TruncatedInput, UsageError
from ioweather.sources.parquet_files import opened_parquet

BATCH_ROWS = 50_000
_GZIP_MAGIC = b"\x1f\x8b"
_PARQUET_MAGIC = b"PAR1"
_NULLS = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None")
_PLAIN_KINDS = frozenset(
    ("BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "FLOAT",
     "DOUBLE", "VARCHAR")
)  # fmt: skip
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
    lines = _without_comments(text, shape)
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


def _without_comments(text: io.TextIOWrapper, shape: CsvShape) -> Iterator[str]:
    """Lines, with those to leave out made empty, so that line numbers stay right."""
    for line in islice(text, shape.skip, None):
        yield "\n" if shape.comment and line.startswith(shape.comment) else line


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
