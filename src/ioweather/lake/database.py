"""DuckDB within this process: connections, literals of SQL, and rows as Frames.

Making a database takes 20 ms of processor time, a connection to one takes 1 ms. Connections make TEMP objects only: no
other connection sees them, and they go when the connection is closed. Frames go in by Arrow's C interface (arro3),
without pyarrow or pandas: NaN, infinities and masked values become NULL; NULL becomes NaN, a mask or code -1.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Sequence
from functools import cache
from typing import Any, Final, Literal, TypeAlias

import arro3.core as arro
import duckdb
import numpy as np

from ioweather.core.frames import Column, Frame, Text
from ioweather.core.tables.schema import ColumnSpec

SQL_TYPES: Final = {"int64": "BIGINT", "float64": "DOUBLE", "text": "VARCHAR", "bool": "BOOLEAN"}
_FETCHED = "__fetched"
_DICTIONARY = arro.DataType.dictionary(arro.DataType.int32(), arro.DataType.utf8())
Keep: TypeAlias = Literal["always", "many", "never"]
_MANY_TEXTS = 1000
# Up to so many rows, an object for each text takes less time than the questions for distinct ones.
_FEW_ROWS = 100_000
WRITER_MEMORY: Final = "512MiB"


def connection(memory: str = "") -> duckdb.DuckDBPyConnection:
    """A connection for the calling thread, to be closed by the caller. With a limit of memory, its database is another
    one, which puts on disk what does not fit."""
    return _database(os.getpid(), memory).cursor()


def _remove(place: str, owner: int) -> None:
    if os.getpid() == owner:  # a forked child ends too
        shutil.rmtree(place, ignore_errors=True)


@cache
def _database(_process: int, memory: str) -> duckdb.DuckDBPyConnection:
    # A forked child has none of its parent's threads: it makes its own.
    database = duckdb.connect(":memory:")
    # Files of the lake do not change once they are written, and one answer reads the same ones many times.
    database.execute("SET GLOBAL parquet_metadata_cache = true")
    if memory:
        place = tempfile.mkdtemp(prefix="ioweather-")  # private (mode 0700), also in a shared /tmp
        atexit.register(_remove, place, os.getpid())
        database.execute(f"SET GLOBAL memory_limit = '{memory}'")
        database.execute(f"SET GLOBAL temp_directory = '{place}'")
    return database


def quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def literal(value: object) -> str:
    """A SQL literal of a value that came from our own code or a parameter."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, (int, np.integer)):
        return str(int(value))
    if isinstance(value, (float, np.floating)):
        return repr(float(value))
    return "'" + str(value).replace("'", "''") + "'"


def register_frame(con: duckdb.DuckDBPyConnection, name: str, frame: Frame) -> str:
    """Make the frame queryable; returns the SELECT that reads it."""
    con.register(name, arro.Table({name: _arrow_column(column) for name, column in frame.items()}))
    return f"SELECT * FROM {quote(name)}"


def _arrow_column(column: Column) -> Any:
    if isinstance(column, Text):
        return _strings(column)
    values = np.ascontiguousarray(np.ma.getdata(column))
    # Store NaN and infinity as null, so that they do not spoil sums.
    null = ~np.isfinite(values) if values.dtype.kind == "f" else np.ma.getmask(column)
    array = arro.Array.from_numpy(values)
    if not np.any(null):
        return array
    # Each null takes the appended one.
    padded = arro.ChunkedArray([array, arro.Array([None], type=array.type)]).combine_chunks()
    return padded.take(arro.Array.from_numpy(np.where(null, len(values), np.arange(len(values)))))


def encodable(texts: Sequence[str]) -> Sequence[str]:
    """Texts with escapes (x\\udcff) for what is not UTF-8, so that different names stay different."""
    return texts if "".join(texts).isascii() else [text.encode(errors="backslashreplace").decode() for text in texts]


def _strings(column: Text) -> Any:
    # Code -1 takes the appended None. Only codes of the dictionary are taken, so no text is copied.
    texts = [*encodable(column.categories), None]
    values = arro.Array(texts, type=arro.DataType.utf8()).cast(_DICTIONARY)
    codes = column.codes.astype(np.int64)
    return values.take(arro.Array.from_numpy(np.where(codes < 0, len(column.categories), codes)))


def fetch_frame(
    con: duckdb.DuckDBPyConnection, sql: str, columns: tuple[ColumnSpec, ...], *, keep: Keep = "always"
) -> Frame:
    """The result of a query that has at least these columns.

    It is queried for its number of rows, its texts and its values. `keep` says when it is stored in a temporary table
    for that. Rows that are read from files and not computed are stored only if they are "many", as reading the first
    ones is cheap; "never" takes a tenth of the memory.
    """
    # A sum beyond 64 bits is null: one absurd row must not make every question fail.
    plain = {c.name: f"TRY_CAST({quote(c.name)} AS {SQL_TYPES[c.type]}) AS {quote(c.name)}" for c in columns}
    asked = f"SELECT {', '.join(plain.values())} FROM ({sql})"
    source = f"({asked})"
    try:
        if keep == "always":
            source = _kept(con, asked)
        arrays = con.execute(f"FROM {source} LIMIT {_FEW_ROWS + 1}").fetchnumpy()
        categories: dict[str, tuple[str, ...]] = {}
        if columns and len(arrays[columns[0].name]) > _FEW_ROWS:
            if keep == "many":
                source = _kept(con, asked)
            arrays, categories = _many_rows(con, source, columns)
    finally:
        if source == _FETCHED:
            con.execute(f"DROP TABLE {_FETCHED}")
    return Frame({spec.name: _column(spec, arrays[spec.name], categories) for spec in columns})


def _kept(con: duckdb.DuckDBPyConnection, sql: str) -> str:
    con.execute(f"CREATE OR REPLACE TEMP TABLE {_FETCHED} AS {sql}")
    return _FETCHED


def _many_rows(
    con: duckdb.DuckDBPyConnection, source: str, columns: tuple[ColumnSpec, ...]
) -> tuple[dict[str, Any], dict[str, tuple[str, ...]]]:
    """Fetch text as codes and distinct values instead of an object per row, unless most values are distinct."""
    categories: dict[str, tuple[str, ...]] = {}
    selects = []
    distinct_texts = _mostly_distinct(con, source, [spec.name for spec in columns if spec.type == "text"])
    for index, spec in enumerate(columns):
        name = quote(spec.name)
        if spec.type != "text" or spec.name in distinct_texts:
            selects.append(name)
            continue
        kind = f"__text{index}"
        distinct = f"SELECT DISTINCT {name} FROM {source} WHERE {name} IS NOT NULL ORDER BY 1"
        con.execute(f"CREATE OR REPLACE TEMP TYPE {kind} AS ENUM ({distinct})")
        found = con.execute(f"SELECT unnest(enum_range(NULL::{kind}))").fetchall()
        categories[spec.name] = tuple(row[0] for row in found)
        selects.append(f"coalesce(enum_code(CAST({name} AS {kind}))::INTEGER, -1) AS {name}")
    return con.execute(f"SELECT {', '.join(selects)} FROM {source}").fetchnumpy(), categories


def _mostly_distinct(con: duckdb.DuckDBPyConnection, source: str, names: Sequence[str]) -> set[str]:
    """Text columns whose first rows are mostly distinct. It only decides between two ways with the same result."""
    if not names:
        return set()
    few = f"SELECT {', '.join(map(quote, names))} FROM {source} LIMIT {_MANY_TEXTS}"
    counts = ", ".join(f"count({quote(name)}), count(DISTINCT {quote(name)})" for name in names)
    (found,) = con.execute(f"SELECT {counts} FROM ({few})").fetchall()
    pairs = zip(names, found[::2], found[1::2], strict=True)
    return {name for name, rows, distinct in pairs if rows == _MANY_TEXTS and distinct > rows / 2}


def _column(spec: ColumnSpec, array: Any, categories: dict[str, tuple[str, ...]]) -> Column:
    if spec.type == "text" and spec.name not in categories:
        values = np.ma.MaskedArray(array).tolist()  # null is None
        distinct = sorted({value for value in values if value is not None})
        codes = {None: -1, **{value: code for code, value in enumerate(distinct)}}
        return Text(np.fromiter(map(codes.__getitem__, values), np.int32, len(values)), tuple(distinct))
    if spec.type == "text":
        return Text(np.asarray(array, np.int32), categories[spec.name])
    if spec.type == "float64":
        return np.asarray(array.filled(np.nan) if isinstance(array, np.ma.MaskedArray) else array, np.float64)
    if isinstance(array, np.ma.MaskedArray) and not np.ma.getmaskarray(array).any():
        return np.asarray(array.filled(0))
    return array  # type: ignore[no-any-return]
