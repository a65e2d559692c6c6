"""Appends to one Delta table of the lake that racing writers cannot double or lose.

Each append reads the table at a version, leaves out what is there, and commits with one application transaction per
stream it writes. Delta refuses the commit when another writer advanced the same stream meanwhile; then it is done
again from the newer version. So of several writers of the same rows exactly one wins.
"""

from __future__ import annotations

import json
import logging
import random
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from deltalake import CommitProperties, DeltaTable, Field, Schema, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.schema import PrimitiveType
from deltalake.transaction import AddAction

from ioweather.core.errors import LakeConflict
from ioweather.core.frames import Frame
from ioweather.core.whole_files import sync_to_disk
from ioweather.store.batches import Batch, Staged, discard, load_frame, load_staged, not_written
from ioweather.store.convert import literal, quote
from ioweather.store.database import Connect, later, or_of_duckdb
from ioweather.store.day_files import Writer, add_files, checkpoint, from_query, rewrite_day, written
from ioweather.store.overlap import Extent, files_near
from ioweather.store.panics import without_panics
from ioweather.store.table_files import TableFiles, files_at, open_table
from ioweather.tables import LAKE_COLUMNS, TableSpec

if TYPE_CHECKING:
    import duckdb

_LOG = logging.getLogger("ioweather.store")
_DELTA_TYPES = {"int64": "long", "float64": "double", "text": "string", "bool": "boolean"}
_PATIENCE_SECONDS = 300.0
# Files of one day: so many are merged where that is little work, and so many in any case.
_MANY_FILES, _MOST_FILES = 32, 64


def make_table(root: Path, spec: TableSpec) -> DeltaTable:
    try:
        with without_panics():
            DeltaTable.create(
                str(root / spec.name), Schema(_fields(spec)), mode="ignore", partition_by=["day"], name=spec.name
            )
    except (CommitFailedError, DeltaError):
        if open_table(root, spec) is None:  # lost the race to make it, or cannot make it
            raise
    return DeltaTable(str(root / spec.name))


def _fields(spec: TableSpec) -> list[Field]:
    columns = [*((c.name, _DELTA_TYPES[c.type]) for c in spec.columns), *((n, "string") for n in LAKE_COLUMNS)]
    return [Field(name, PrimitiveType(kind), nullable=True) for name, kind in columns]


def append(root: Path, spec: TableSpec, rows: Frame, *, source: str, ingest_id: str) -> int:
    """Add the rows that are not there, and complete those that are there unfinished; returns how many. Safe against any
    number of racing writers."""
    if rows.rows == 0:
        return 0
    with _writing(spec) as connect:
        batch, _ = load_frame(connect, spec, rows, source, ingest_id)
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
    with later() as connect:
        try:
            yield connect
        except or_of_duckdb(OSError, DeltaError) as error:
            raise not_written(spec.name, error) from None


def _add(
    connect: Connect, root: Path, spec: TableSpec, batch: Batch, ingest_id: str
) -> tuple[int, tuple[AddAction, ...]]:
    """How many rows changed; and the files of the batch, if they are in the table now."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    attempt = completed = 0
    while True:
        table = open_table(root, spec) or make_table(root, spec)
        stored = _stored_sql(table, spec, batch.extent)
        if stored is not None:
            batch.show()
            if spec.placeholder is None and not _has_some(connect(), spec, stored):
                stored = None  # as usual
            elif spec.revisable:
                _let_come_last(connect(), stored, ingest_id)
                _name_origins(connect(), spec, stored)
        try:
            before = table.version()
            if spec.unfinished and stored is not None and _keep(connect(), "finished", _finished_sql(spec, stored)):
                completed += _complete(table, connect(), spec)
                commits_to_disk(root / spec.name, before, table.version())
                continue  # what is to be added is found in the version that this made
            files, added, write = batch.files, batch.rows, batch.write
            if stored is not None:
                files, added = (), _keep(connect(), "fresh", _fresh_sql(spec, stored))
                write = from_query(connect(), spec, "SELECT * FROM fresh", batch.extent.days)
            if added:
                _commit(table, root / spec.name, spec, batch, write or files)
                commits_to_disk(root / spec.name, before, table.version())
                merge_small_files(connect, root / spec.name, table, spec, batch.extent.days)
                checkpoint(root / spec.name, table, before)
            return completed + added, files
        except CommitFailedError as error:
            attempt += 1
            if time.monotonic() > deadline:
                raise LakeConflict(
                    f"{attempt} tries to add rows to `{spec.name}` lost against other writers: {error}.",
                    hint="Run the same command again; nothing was lost.",
                ) from None
            time.sleep(random.uniform(0, min(0.5, 0.01 * 2 ** min(attempt, 6))))


def commits_to_disk(folder: Path, before: int, last: int) -> None:
    """The commits after a version, and the files they add. The Delta library leaves that to the kernel, and who shipped
    the rows deletes his own once they are in."""
    changed = {folder, folder / "_delta_log"}
    for version in range(before + 1, last + 1):
        log = folder / "_delta_log" / f"{version:020d}.json"
        with suppress(FileNotFoundError):  # of another writer: compacted meanwhile, or into a checkpoint
            for line in log.read_text(encoding="utf-8").splitlines():
                if added := json.loads(line).get("add"):
                    file = folder / unquote(added["path"])
                    sync_to_disk(file)
                    changed.add(file.parent)
            sync_to_disk(log)
    for directory in sorted(changed):
        sync_to_disk(directory)


def merge_small_files(
    connect: Connect, folder: Path, table: DeltaTable, spec: TableSpec, days: Collection[str]
) -> None:
    """Each commit leaves a file. Where a day has many they become one, so that neither reading nor the next commit
    takes longer the longer the day goes on. What fails here has been written before, and stays."""
    if {field.name for field in table.schema().fields} - {*spec.names, *LAKE_COLUMNS}:
        return  # a newer version of this software wrote columns that would be lost
    listed = table.get_add_actions(flatten=True)
    rows_of: dict[str, list[int]] = {}
    for day, rows in zip(listed["partition.day"].to_pylist(), listed["num_records"].to_pylist(), strict=True):
        if day in days:
            rows_of.setdefault(day, []).append(rows or 0)
    for day in sorted(day for day, rows in rows_of.items() if _is_worth_merging(rows)):
        files = files_at(table, spec)
        columns = ", ".join(quote(name) for name in (*spec.names, "source", "ingest_id"))
        # In the order of time, a reader of some hours passes over the others.
        rows_by_time = f"SELECT {columns} FROM ({files.scan({day})}) ORDER BY {quote(spec.time)}"
        before = table.version()
        try:
            # None where another writer was faster: then there is no need.
            if rewrite_day(connect(), folder, table, spec, day, "part", rows_by_time) is not None:
                commits_to_disk(folder, before, table.version())
        except or_of_duckdb(OSError, DeltaError) as error:
            _LOG.warning("the files of `%s` of %s were not merged: %s", spec.name, day, error)


def _is_worth_merging(rows: list[int]) -> bool:
    """When a quarter of the rows came since the last time, so that every row is rewritten four times or so and not
    hundreds of times; and when there are too many files for readers."""
    if len(rows) < _MANY_FILES:
        return False
    return 4 * (sum(rows) - max(rows)) >= sum(rows) or len(rows) >= _MOST_FILES


def _count(con: duckdb.DuckDBPyConnection, name: str) -> int:
    count: int = con.sql(f"SELECT count(*) FROM {name}").fetchall()[0][0]
    return count


def _keep(con: duckdb.DuckDBPyConnection, name: str, sql: str) -> int:
    """Rows of a query, which is kept as a table of that name."""
    con.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS {sql}")
    return _count(con, name)


def _stored_sql(table: DeltaTable, spec: TableSpec, extent: Extent) -> str | None:
    """What the table may hold of the batch's rows; of revisable rows, those that count now. None where it can hold none
    of them."""
    near = files_near(table, extent)
    if not near:
        return None
    everything = files_at(table, spec)
    files = TableFiles(spec, everything.version, tuple(u for u in everything.uris if u.rsplit("/", 1)[1] in near))
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
    newest = con.sql(f"SELECT max(ingest_id) FROM ({stored})").fetchall()[0][0]
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


def _complete(table: DeltaTable, con: duckdb.DuckDBPyConnection, spec: TableSpec) -> int:
    """Put the rows of `finished` into the place of theirs; returns how many."""
    merge = table.merge(con.sql("SELECT * FROM finished"), _same((*spec.identity, "day")), "b", "s", merge_schema=True)
    with without_panics():
        replaced: int = merge.when_matched_update_all().execute()["num_target_rows_updated"]
    return replaced


def _commit(table: DeltaTable, folder: Path, spec: TableSpec, batch: Batch, rows: Writer | Sequence[AddAction]) -> None:
    """Rows are to be written, or in files."""
    transactions = [
        Transaction(stream, (table.transaction_version(stream) or 0) + 1, int(time.time() * 1000))
        for stream in sorted(batch.streams)
    ]
    known = {field.name for field in table.schema().fields}
    if new := [field for field in _fields(spec) if field.name not in known]:
        table.alter.add_columns(new)
    properties = CommitProperties(app_transactions=transactions)
    if callable(rows):
        with written(folder, batch.extent.days, "part", rows) as actions:
            add_files(table, actions, properties)
    else:
        add_files(table, rows, properties)
