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
from collections.abc import Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import arro3.core as arro
import duckdb
import numpy as np

from ioweather.core.frames import Column, Frame, Text

if TYPE_CHECKING:
    from ioweather.core.tables import ColumnSpec

SQL_TYPES: Final = {"int64": "BIGINT", "float64": "DOUBLE", "text": "VARCHAR", "bool": "BOOLEAN"}
_FETCHED = "__fetched"
_DICTIONARY = arro.DataType.dictionary(arro.DataType.int32(), arro.DataType.utf8())
# Up to so many rows, an object for each text takes less time than the questions for distinct ones.
_FEW_ROWS = 100_000
WRITER_MEMORY: Final = "512MiB"


def connection(memory: str = "") -> duckdb.DuckDBPyConnection:
    """A connection for the calling thread, to be closed by the caller. With a limit of memory, its database is another
    one, which puts on disk what does not fit."""
    return _database(os.getpid(), memory).cursor()


def _remove_at_exit(place: str, owner: int) -> None:
    if os.getpid() == owner:  # a forked child ends too
        shutil.rmtree(place, ignore_errors=True)


@cache
def _database(_process: int, memory: str) -> duckdb.DuckDBPyConnection:
    """The database of this process, made at the first use; with a limit of memory, one that spills to disk."""
    # A forked child has none of its parent's threads: it makes its own.
    database = duckdb.connect(":memory:")
    # Files of the lake do not change once they are written, and one answer reads the same ones many times.
    database.execute("SET GLOBAL parquet_metadata_cache = true")
    if memory:
        place = tempfile.mkdtemp(prefix="ioweather-")  # private (mode 0700), also in a shared /tmp
        atexit.register(_remove_at_exit, place, os.getpid())
        database.execute(f"SET GLOBAL memory_limit = '{memory}'")
        database.execute(f"SET GLOBAL temp_directory = '{place}'")
    return database


def quote(name: str) -> str:
    """The name of a table or column as SQL."""
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


def literals(values: Iterable[object]) -> str:
    """SQL literals for `IN (...)`, which matches nothing where there are none."""
    return ", ".join(map(literal, values)) or "NULL"


def register_frame(con: duckdb.DuckDBPyConnection, name: str, frame: Frame) -> str:
    """Make the frame queryable; returns the SELECT that reads it."""
    con.register(name, arro.Table({name: _arrow_column(column) for name, column in frame.items()}))
    return f"SELECT * FROM {quote(name)}"


def _arrow_column(column: Column) -> Any:
    """The column as an Arrow array; NaN, infinities and masked values are null."""
    if isinstance(column, Text):
        return _arrow_text(column)
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


def _arrow_text(column: Text) -> Any:
    """A text column as a dictionary array of Arrow."""
    # Code -1 takes the appended None. Only codes of the dictionary are taken, so no text is copied.
    texts = [*encodable(column.categories), None]
    values = arro.Array(texts, type=arro.DataType.utf8()).cast(_DICTIONARY)
    codes = column.codes.astype(np.int64)
    return values.take(arro.Array.from_numpy(np.where(codes < 0, len(column.categories), codes)))


def fetch_frame(
    con: duckdb.DuckDBPyConnection, sql: str, columns: tuple[ColumnSpec, ...], *, copy: bool = True
) -> Frame:
    """The result of a query that has at least these columns.

    Many rows are queried for their texts and then for their values, with codes and distinct values instead of an object
    per text; with `copy` from a temporary table, without it from the query again, which takes a tenth of the memory.
    """
    # A sum beyond 64 bits is null: one absurd row must not make every question fail.
    plain = (f"TRY_CAST({quote(c.name)} AS {SQL_TYPES[c.type]}) AS {quote(c.name)}" for c in columns)
    source = f"(SELECT {', '.join(plain)} FROM ({sql}))"
    categories: dict[str, tuple[str, ...]] = {}
    arrays = con.execute(f"FROM {source} LIMIT {_FEW_ROWS + 1}").fetchnumpy()
    if columns and len(arrays[columns[0].name]) > _FEW_ROWS:
        if copy:
            con.execute(f"CREATE OR REPLACE TEMP TABLE {_FETCHED} AS FROM {source}")
            source = _FETCHED
        selects = []
        for index, name in enumerate(quote(spec.name) for spec in columns):
            if columns[index].type == "text":
                kind = f"__text{index}"
                distinct = f"SELECT DISTINCT {name} FROM {source} WHERE {name} IS NOT NULL ORDER BY 1"
                con.execute(f"CREATE OR REPLACE TEMP TYPE {kind} AS ENUM ({distinct})")
                found = con.execute(f"SELECT unnest(enum_range(NULL::{kind}))").fetchall()
                categories[columns[index].name] = tuple(row[0] for row in found)
                name = f"coalesce(enum_code(CAST({name} AS {kind}))::INTEGER, -1) AS {name}"
            selects.append(name)
        arrays = con.execute(f"SELECT {', '.join(selects)} FROM {source}").fetchnumpy()
        if copy:
            con.execute(f"DROP TABLE {_FETCHED}")
    return Frame({spec.name: _frame_column(spec, arrays[spec.name], categories) for spec in columns})


def _frame_column(spec: ColumnSpec, array: Any, categories: dict[str, tuple[str, ...]]) -> Column:
    """A column of a Frame from an array of DuckDB; text by codes if its categories are known."""
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
