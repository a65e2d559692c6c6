"""A batch of rows on its way into a table: out of memory, or out of files that workers wrote.

Workers write the rows that they read into the table's directory, and give back a list of files (`Staged`). One process
compares the lists with the table and with each other and commits them, without touching a row: of a log it takes a
tenth of the time. A file that no commit names has no reader, and goes with `vacuum`.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from ioweather.core.errors import LakeError
from ioweather.core.frames import Frame, Text
from ioweather.core.units import DAY_NS
from ioweather.store.convert import encodable, literal, quote, register_frame
from ioweather.store.database import Connect, later, or_of_duckdb
from ioweather.store.day_files import Writer, from_frame, from_query, written
from ioweather.store.overlap import Extent, Keys, distinct_keys, extent_of
from ioweather.store.table_files import DataFile, newest_first
from ioweather.tables.schema import TableSpec

if TYPE_CHECKING:
    import duckdb

# A commit names its streams; thousands of devices are folded into this many, which only means a few more retries.
_STREAM_BUCKETS: Final = 16
_NO_DAY: Final = "1970-01-01"  # rows whose time is null


@dataclass(frozen=True)
class Batch:
    """What is known of the rows, each of which is another one. `show` has DuckDB see them as `batch`, to compare them
    with those that are there: seldom needed. `files` hold exactly these rows, or `write` writes them."""

    extent: Extent
    streams: frozenset[str]
    rows: int
    show: Callable[[], None]
    files: tuple[DataFile, ...] = ()
    write: Writer | None = None


@dataclass(frozen=True, eq=False)
class Staged:
    """Rows of one source in files of their own, not committed. `keys` tells them from those of other files."""

    ingest_id: str
    extent: Extent
    streams: frozenset[str]
    rows: int
    files: tuple[DataFile, ...]
    keys: Keys


def load_frame(
    connect: Connect, spec: TableSpec, frame: Frame, source: str, ingest_id: str, *, distinct: bool
) -> Batch:
    """The frame with the lake's columns, one row per identity; of several, the one to show. Where rows are known to be
    different and stay as they are, DuckDB sees them in a view: three copies of a large batch took a gigabyte."""
    extent, streams = extent_of(spec, frame, source), _streams(spec, frame, source)

    def rows() -> str:
        selected = register_frame(connect(), "incoming", frame.select(spec.names))
        day = f"CAST(DATE '1970-01-01' + CAST({quote(spec.time)} // {DAY_NS} AS INTEGER) AS VARCHAR)"
        if len(extent.days) == 1:
            day = literal(next(iter(extent.days)))
        return (
            f"SELECT *, {literal(source)} AS source, {literal(ingest_id)} AS ingest_id, "
            f"coalesce({day}, '{_NO_DAY}') AS day FROM ({selected})"
        )

    def show() -> None:
        connect().execute(f"CREATE OR REPLACE TEMP {'TABLE' if spec.revisable else 'VIEW'} batch AS {rows()}")

    if distinct:
        return Batch(extent, streams, frame.rows, show, write=from_frame(spec, frame, source, ingest_id, extent.days))
    return _one_each(connect(), spec, rows(), extent, streams)


def _one_each(
    con: duckdb.DuckDBPyConnection, spec: TableSpec, rows: str, extent: Extent, streams: frozenset[str]
) -> Batch:
    order = ""
    if spec.revisable:
        order = f" ORDER BY {newest_first(spec, 'place')}"
    elif spec.unfinished:
        order = f" ORDER BY quality & {spec.unfinished}, place"
    identity = ", ".join(quote(name) for name in spec.identity)
    con.execute(
        f"CREATE TEMP TABLE batch AS SELECT * EXCLUDE (place) FROM (SELECT DISTINCT ON ({identity}) * "
        f"FROM (SELECT *, row_number() OVER () AS place FROM ({rows})){order})"
    )
    count = con.execute("SELECT count(*) FROM batch").fetchall()[0][0]
    write = from_query(con, spec, "SELECT * FROM batch", extent.days)
    return Batch(extent, streams, count, lambda: None, write=write)


def _streams(spec: TableSpec, frame: Frame, source: str) -> frozenset[str]:
    systems = frame["system"] if "system" in spec.names else None
    if not isinstance(systems, Text):
        return frozenset({f"{source}:"})
    named = (zlib.crc32(name.encode()) % _STREAM_BUCKETS for name in encodable(systems.categories or ("",)))
    return frozenset(f"{source}:{bucket:x}" for bucket in named)


def stage(tables: Path, spec: TableSpec, frame: Frame, source: str, ingest_id: str) -> Staged:
    """Write checked rows of an append-only table into files that are on disk, and in no commit."""
    try:
        with later() as connect:
            keys = distinct_keys(spec, frame)
            batch = load_frame(connect, spec, frame, source, ingest_id, distinct=len(keys) == frame.rows)
            assert batch.write is not None
            with written(tables / spec.name, batch.extent.days, "part", batch.write) as files:
                # The same minutes from two sources are two rows.
                of_source = np.frombuffer(blake2b(source.encode(), digest_size=8).digest(), np.uint64)
                return Staged(ingest_id, batch.extent, batch.streams, batch.rows, tuple(files), keys ^ of_source)
    except or_of_duckdb(OSError) as error:
        raise not_written(spec.name, error) from None


def load_staged(connect: Connect, folder: Path, spec: TableSpec, staged: Sequence[Staged]) -> Batch:
    """The rows of all of them, one per identity."""
    files = tuple(file for each in staged for file in each.files)
    for file in files:
        if not (folder / file.path).is_file() or (folder / file.path).stat().st_size != file.size:
            raise LakeError(f"{folder / file.path} is not what a worker wrote.", hint="Run the same command again.")
    columns = ", ".join(quote(name) for name in (*spec.names, "source", "ingest_id", "day"))
    listed = ", ".join(literal(folder / file.path) for file in files)
    rows = f"SELECT {columns} FROM read_parquet([{listed}], hive_partitioning=true, hive_types={{'day': 'VARCHAR'}})"
    streams = frozenset[str]().union(*(each.streams for each in staged))
    extent = staged[0].extent
    for each in staged[1:]:
        extent = extent.with_(each.extent)

    def show() -> None:
        connect().execute(f"CREATE OR REPLACE TEMP VIEW batch AS {rows}")

    if len(staged) == 1 or _are_apart([each.keys for each in staged]):
        return Batch(extent, streams, sum(each.rows for each in staged), show, files)
    return _one_each(connect(), spec, rows, extent, streams)


def _are_apart(keys: Sequence[Keys]) -> bool:
    together = np.sort(np.concatenate(keys))
    return not (together[1:] == together[:-1]).any()


def discard(folder: Path, staged: Sequence[Staged]) -> None:
    """Files that will not be committed."""
    for each in staged:
        for file in each.files:
            (folder / file.path).unlink(missing_ok=True)


def not_written(table: str, error: Exception) -> LakeError:
    """The library of tables reports errors of the operating system within sentences of its own."""
    for text in ("No space left on device", "Disk quota exceeded"):
        if text in str(error):
            hint = "Free some space, then run the same command again: what is in the lake stays."
            return LakeError(f"{text} while writing `{table}`.", hint=hint)
    return LakeError(f"`{table}` cannot be written: {error}.", hint="Check space and permissions.")
