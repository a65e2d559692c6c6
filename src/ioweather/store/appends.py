"""Appends to one table of the lake that racing writers cannot double or lose.

Each append reads the table at a version, leaves out what is there, and names the
streams it writes. The commit is refused when another writer advanced the same stream meanwhile; then it is done
again from the newer version. So of several writers of the same rows exactly one wins.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from ioweather.core.errors import LakeConflict, LakeError
from ioweather.core.frames import Frame
from ioweather.store.batches import Batch, Staged, discard, load_frame, load_staged, not_written
from ioweather.store.convert import literal, quote
from ioweather.store.database import WRITER_MEMORY, Connect, later, or_of_duckdb
from ioweather.store.day_files import Writer, from_query, replace_rows, rewrite_day, written
from ioweather.store.delta_tables import Held, Refused, Table, TableFault, make_table, open_table
from ioweather.store.overlap import Extent, are_distinct, files_near
from ioweather.store.table_files import DataFile
from ioweather.tables import TableSpec

if TYPE_CHECKING:
    import duckdb

_LOG = logging.getLogger("ioweather.store")
T = TypeVar("T")
_PATIENCE_SECONDS = 300.0
# So many files of a day that have alike many rows become one; of those with hundreds more, for to merge them takes
# longer, and to read them longer than to open them.
_MANY_FILES, _MANY_LARGE, _LARGE_ROWS = 16, 32, 256


def append(root: Path, spec: TableSpec, rows: Frame, *, source: str, ingest_id: str) -> int:
    """Add the rows that are not there, and complete those that are there unfinished; returns how many. Safe against any
    number of racing writers."""
    if rows.rows == 0:
        return 0
    with _writing(spec) as connect:
        batch = load_frame(connect, spec, rows, source, ingest_id, distinct=are_distinct(spec, rows))
        return _add(connect, root, spec, batch, ingest_id)[0]


def commit(root: Path, spec: TableSpec, staged: Sequence[Staged]) -> int:
    """The same of rows that workers wrote: their files are added as they are, unless the table has some of the rows."""
    if not staged:
        return 0
    with _writing(spec) as connect:
        added, files = _add(connect, root, spec, load_staged(connect, root / spec.name, spec, staged), "")
        if not files:
            discard(root / spec.name, staged)
        return added


@contextmanager
def _writing(spec: TableSpec) -> Iterator[Connect]:
    with later(WRITER_MEMORY) as connect:
        try:
            yield connect
        except or_of_duckdb(OSError, TableFault) as error:
            raise not_written(spec.name, error) from None


def delete_rows(root: Path, spec: TableSpec, condition: str) -> None:
    """Remove the rows `s` for which the condition is true, in one commit."""

    def delete() -> None:
        if (table := open_table(root, spec)) is not None:
            replace_rows(connect(), table, condition)

    with _writing(spec) as connect:
        retry_refused(spec, delete)


def retry_refused(spec: TableSpec, change: Callable[[], T]) -> T:
    """Repeat a change until no other writer gets in its way, from a newer version of the table each time."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    attempt = 0
    while True:
        try:
            return change()
        except Refused as error:
            attempt += 1
            if time.monotonic() > deadline:
                raise LakeConflict(
                    f"{attempt} tries to change `{spec.name}` lost against other writers: {error}.",
                    hint="Run the same command again; nothing was lost.",
                ) from None
            time.sleep(random.uniform(0, min(0.5, 0.01 * 2 ** min(attempt, 6))))


def _add(
    connect: Connect, root: Path, spec: TableSpec, batch: Batch, ingest_id: str
) -> tuple[int, tuple[DataFile, ...]]:
    """How many rows changed; and the files of the batch, if they are in the table now."""
    completed = 0

    def add() -> tuple[int, tuple[DataFile, ...]]:
        nonlocal completed
        table = open_table(root, spec) or make_table(root, spec)
        stored = _stored_sql(table, batch.extent)
        if stored is not None:
            batch.show()
            if spec.placeholder is None and not _has_some(connect(), spec, stored):
                stored = None  # as usual
            elif spec.revisable:
                _let_come_last(connect(), stored, ingest_id)
                _name_origins(connect(), spec, stored)
        before = table.version
        if spec.unfinished and stored is not None and _keep(connect(), "finished", _finished_sql(spec, stored)):
            same = f"EXISTS (SELECT 1 FROM finished b WHERE {_same((*spec.identity, 'day'))})"
            replace_rows(connect(), table, same, "finished", files_near(table.held(), batch.extent))
            completed += _count(connect(), "finished")
            return add()  # the rows to add are those that the new version does not have
        files, added, write = batch.files, batch.rows, batch.write
        if stored is not None:
            files, added = (), _keep(connect(), "fresh", _fresh_sql(spec, stored))
            write = from_query(connect(), spec, "SELECT * FROM fresh", batch.extent.days)
        if added:
            _commit(table, batch, write or files)
            merge_small_files(connect, table, batch.extent.days)
            table.done(before)
        return completed + added, files

    return retry_refused(spec, add)


def merge_small_files(connect: Connect, table: Table, days: Collection[str]) -> None:
    """Each commit leaves a file. Where a day has many of about the same size these become one, so that neither reading
    nor the next commit takes longer the longer the day goes on. What fails here has been written before, and stays."""
    if table.unknown_columns:
        return  # they would be lost
    spec = table.spec
    columns = ", ".join(quote(name) for name in (*spec.names, "source", "ingest_id"))
    for day, names in _alike(table.held(), days):
        # In the order of time, a reader of some hours passes over the others.
        rows_by_time = f"SELECT {columns} FROM ({table.files().only(names).scan()}) ORDER BY {quote(spec.time)}"
        try:
            rewrite_day(connect(), table, day, "part", rows_by_time, names)  # or another writer was faster: as good
        except or_of_duckdb(OSError, TableFault, LakeError) as error:
            _LOG.warning("the files of `%s` of %s were not merged: %s", spec.name, day, error)


def _alike(held: Held, days: Collection[str]) -> list[tuple[str, set[str]]]:
    """Files to merge, and their day: where there are many whose rows differ by less than sixteenfold. Together they
    are of the next size, so that a row is rewritten once for each size there is, whatever comes after it."""
    sizes: dict[tuple[str, int], set[str]] = {}
    for name, day, rows in zip(held.names, held.days, held.rows, strict=True):
        if day in days:
            sizes.setdefault((day, 16 ** (rows.bit_length() // 4)), set()).add(name)
    return [
        (day, names)
        for (day, rows), names in sorted(sizes.items())
        if len(names) >= (_MANY_FILES if rows < _LARGE_ROWS else _MANY_LARGE)
    ]


def _count(con: duckdb.DuckDBPyConnection, name: str) -> int:
    count: int = con.execute(f"SELECT count(*) FROM {name}").fetchall()[0][0]
    return count


def _keep(con: duckdb.DuckDBPyConnection, name: str, sql: str) -> int:
    """Rows of a query, which is kept as a table of that name."""
    con.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS {sql}")
    return _count(con, name)


def _stored_sql(table: Table, extent: Extent) -> str | None:
    """What the table may hold of the batch's rows; of revisable rows, those that count now. None where it can hold none
    of them."""
    near = files_near(table.held(), extent)
    if not near:
        return None
    spec, files = table.spec, table.files().only(near)
    if spec.revisable:  # of other keys nothing is asked, and most are
        ranges = (f"{quote(n)} BETWEEN {literal(r[0])} AND {literal(r[1])}" for n, r in extent.ranges.items())
        return f"SELECT * FROM ({files.view()}) WHERE {' AND '.join(ranges) or 'TRUE'}"
    moment = f"coalesce({quote(spec.time)}, 0)"
    return f"SELECT * FROM ({files.scan()}) WHERE {moment} BETWEEN {extent.low_ns} AND {extent.high_ns}"


def _has_some(con: duckdb.DuckDBPyConnection, spec: TableSpec, stored: str) -> bool:
    same = " AND ".join(f"b.{quote(n)} IS NOT DISTINCT FROM s.{quote(n)}" for n in spec.identity)
    return _count(con, f"batch b SEMI JOIN ({stored}) s ON {same}") > 0


def _let_come_last(con: duckdb.DuckDBPyConnection, stored: str, ingest_id: str) -> None:
    """A clock that was set back does not make a revision older than what it revises."""
    newest = con.execute(f"SELECT max(ingest_id) FROM ({stored})").fetchall()[0][0]
    if newest is not None and newest >= ingest_id:
        moment, _, mark = newest.partition("-")
        con.execute("UPDATE batch SET ingest_id = ?", [f"{int(moment) + 1:0{len(moment)}d}-{mark}"])


def _name_origins(con: duckdb.DuckDBPyConnection, spec: TableSpec, stored: str) -> None:
    """Rows of the batch of unknown origin are compared with, and stored as, those of the one whose they are."""
    if spec.placeholder is None:
        return
    column, unknown = quote(spec.placeholder[0]), literal(spec.placeholder[1])
    rest = [name for name in spec.key if name != spec.placeholder[0]]
    keys = ", ".join(quote(name) for name in rest)
    named = (
        f"SELECT {keys}, min({column}) AS origin FROM ({stored}) WHERE {column} <> {unknown} GROUP BY {keys} "
        f"HAVING count(DISTINCT {column}) = 1"
    )
    con.execute(
        f"UPDATE batch AS b SET {column} = s.origin FROM ({named}) AS s "
        f"WHERE b.{column} = {unknown} AND {_same(tuple(rest))}"
    )


def _fresh_sql(spec: TableSpec, stored: str) -> str:
    """The batch without what is stored. A revision is new when it differs from the row that counts now."""
    if spec.revisable:
        same = " AND ".join(f"b.{quote(n)} IS NOT DISTINCT FROM s.{quote(n)}" for n in spec.names)
    else:
        same = _same(spec.identity)
    return f"SELECT b.* FROM batch b ANTI JOIN ({stored}) s ON {same}"


def _finished_sql(spec: TableSpec, stored: str) -> str:
    """Rows of the batch that are stored unfinished, and are not any more."""
    flag = f"quality & {spec.unfinished}"
    held = f"SELECT * FROM ({stored}) WHERE {flag} <> 0"
    return f"SELECT b.* FROM batch b SEMI JOIN ({held}) s ON {_same(spec.identity)} WHERE b.{flag} = 0"


def _same(names: tuple[str, ...]) -> str:
    return " AND ".join(f"b.{quote(name)} = s.{quote(name)}" for name in names)


def _commit(table: Table, batch: Batch, rows: Writer | Sequence[DataFile]) -> None:
    """Rows are to be written, or in files."""
    if callable(rows):
        with written(table.folder, batch.extent.days, "part", rows) as files:
            table.add(files, batch.streams)
    else:
        table.add(rows, batch.streams)
