"""Appends to one table of the lake that racing writers cannot double or lose.

An append opens the table at a version, leaves out the rows that it has (an anti join in DuckDB), and names the streams
it writes. The commit is refused when another writer advanced one of these streams since; then it starts again from the
newer version. So of several writers of the same rows exactly one commits them.

The rows of a commit are in Parquet files, one for each day, which are on disk before the commit names them. A file that
no commit names is read by no query, and `vacuum` removes it.
"""

from __future__ import annotations

import json
import logging
import random
import re
import time
import uuid
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import duckdb

from ioweather.core.clock import day_start_ns
from ioweather.core.errors import LakeError
from ioweather.core.frames import Frame
from ioweather.core.safe_files import make_directories, sync_to_disk
from ioweather.core.tables import TableSpec
from ioweather.core.units import DAY_NS
from ioweather.lake.database import SQL_TYPES, WRITER_MEMORY, connection, literal, quote, register_frame
from ioweather.lake.delta_tables import Refused, Table, TableFault, make_table, open_table
from ioweather.lake.table_files import DataFile, TableFiles, content_digest, newest_first, require_undamaged

_LOG = logging.getLogger("ioweather.store")
T = TypeVar("T")
_PATIENCE_SECONDS: Final = 300.0
# So many files of a day with about as many rows become one file. Merging large files costs more than opening them.
_MANY_FILES, _MANY_LARGE, _LARGE_ROWS = 16, 32, 256
# A commit names its streams; thousands of devices are folded into this many, which only means a few more retries.
_STREAM_BUCKETS: Final = 16
# Longer texts have no minimum and maximum in the table's log.
_LONGEST_TEXT: Final = 64
_LAKE_TEXTS: Final = ("source", "ingest_id")
# The Delta library cuts texts in its statistics at so many characters. Names of our own files have a UUID first.
_CUT_AT: Final = 32
_OUR_FILE: Final = re.compile(r"[a-z]+-[0-9a-f]{8}-")


@dataclass(frozen=True)
class _Batch:
    """The rows in DuckDB's view or table `batch`: their number, days, least and greatest time, and the range of each
    column of the identity without null."""

    rows: int
    days: frozenset[str]
    low_ns: int
    high_ns: int
    ranges: Mapping[str, tuple[Any, Any]]
    streams: frozenset[str]


def append(root: Path, spec: TableSpec, rows: Frame, *, source: str, ingest_id: str) -> int:
    """Add rows that are not stored, and complete stored unfinished ones; returns how many. Safe with any number of
    racing writers."""
    if rows.rows == 0:
        return 0
    with _writing(spec) as con:
        return _add(con, root, spec, _load(con, spec, rows, source, ingest_id), ingest_id)


def delete_rows(root: Path, spec: TableSpec, condition: str) -> None:
    """Remove the rows `s` for which the condition is true, in one commit."""

    def delete() -> None:
        if (table := open_table(root, spec)) is not None:
            replace_rows(con, table, table.files(), condition)

    with _writing(spec) as con:
        retry_refused(spec, delete)


@contextmanager
def _writing(spec: TableSpec) -> Iterator[duckdb.DuckDBPyConnection]:
    with connection(WRITER_MEMORY) as con:
        try:
            yield con
        except (OSError, TableFault, duckdb.Error) as error:
            raise not_written(spec.name, error) from None


def not_written(table: str, error: Exception) -> LakeError:
    """The error to raise. Libraries report errors of the operating system in messages of their own."""
    for text in ("No space left on device", "Disk quota exceeded"):
        if text in str(error):
            hint = "Free some space, then run the same command again: what is in the lake stays."
            return LakeError(f"{text} while writing `{table}`.", hint=hint)
    return LakeError(f"`{table}` cannot be written: {error}.", hint="Check space and permissions.")


def retry_refused(spec: TableSpec, change: Callable[[], T]) -> T:
    """Repeat a change until it is not refused, each time from a newer version of the table."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    attempt = 0
    while True:
        try:
            return change()
        except Refused as error:
            attempt += 1
            if time.monotonic() > deadline:
                raise LakeError(
                    f"{attempt} tries to change `{spec.name}` lost against other writers: {error}.",
                    hint="Run the same command again; nothing was lost.",
                    kind="LakeConflict",
                ) from None
            time.sleep(random.uniform(0, min(0.5, 0.01 * 2 ** min(attempt, 6))))


def _load(con: duckdb.DuckDBPyConnection, spec: TableSpec, frame: Frame, source: str, ingest_id: str) -> _Batch:
    """Make `batch` of the rows, one per identity; of several, the newest or the finished one. It is a view where no two
    rows are the same and none is changed: copies of a large batch would take a gigabyte."""
    selected = register_frame(con, "incoming", frame.select(spec.names))
    day = f"CAST(DATE '1970-01-01' + CAST(coalesce({quote(spec.time)}, 0) // {DAY_NS} AS INTEGER) AS VARCHAR)"
    constants = f"{literal(source)} AS source, {literal(ingest_id)} AS ingest_id"
    rows = f"SELECT *, {constants}, {day} AS day FROM ({selected})"
    con.execute(f"CREATE TEMP {'TABLE' if spec.revisable else 'VIEW'} batch AS {rows}")
    identity, moment = ", ".join(map(quote, spec.identity)), f"coalesce({quote(spec.time)}, 0)"
    # A revisable row may have another time than its revision; any other row of another time is another row.
    names = {*spec.identity, *(() if spec.revisable else (spec.time,))} - {(spec.placeholder or ("",))[0]}
    kinds = {column.name: column.type for column in spec.columns} | {"source": "text"}
    ranged = sorted(name for name in names if kinds[name] in ("int64", "text"))
    bounds = (f"min({quote(name)}), max({quote(name)}), count({quote(name)})" for name in ranged)
    system = "coalesce(system, '')" if "system" in spec.names else "NULL"
    count, distinct, low_ns, high_ns, days, origins, *found = con.execute(
        f"SELECT count(*), count(DISTINCT hash({identity})), min({moment}), max({moment}), list(DISTINCT day), "
        f"list(DISTINCT [source, {system}]), {', '.join(bounds)} FROM batch"
    ).fetchall()[0]
    limits = zip(ranged, found[::3], found[1::3], found[2::3], strict=True)
    ranges = {name: (low, high) for name, low, high, known in limits if known == count}
    streams = frozenset(
        f"{source}:" if name is None else f"{source}:{zlib.crc32(name.encode()) % _STREAM_BUCKETS:x}"
        for source, name in origins
    )
    if distinct < count:
        order = newest_first(spec, "place") if spec.revisable else "place"
        if spec.unfinished:
            order = f"quality & {spec.unfinished}, {order}"
        placed = "SELECT *, row_number() OVER () AS place FROM batch"
        count = _create_table(con, "once", f"SELECT DISTINCT ON ({identity}) * FROM ({placed}) ORDER BY {order}")
        con.execute(f"DROP {'TABLE' if spec.revisable else 'VIEW'} batch")
        con.execute(f"CREATE TEMP {'TABLE' if spec.revisable else 'VIEW'} batch AS SELECT * EXCLUDE (place) FROM once")
    return _Batch(count, frozenset(days), low_ns, high_ns, ranges, streams)


def _add(con: duckdb.DuckDBPyConnection, root: Path, spec: TableSpec, batch: _Batch, ingest_id: str) -> int:
    """Commit the rows of `batch` that are not there; returns how many rows changed."""
    completed = 0

    def add() -> int:
        nonlocal completed
        table = open_table(root, spec) or make_table(root, spec)
        near = _files_near(table, batch)
        stored = _stored_sql(near, batch) if near.uris else None
        if stored is not None:
            if spec.placeholder is None and not _has_some(con, spec, stored):
                stored = None  # the usual case
            elif spec.revisable:
                _let_come_last(con, stored, ingest_id)
                _name_origins(con, spec, stored)
        if spec.unfinished and stored is not None and _create_table(con, "finished", _finished_sql(spec, stored)):
            same = f"EXISTS (SELECT 1 FROM finished b WHERE {_same((*spec.identity, 'day'))})"
            replace_rows(con, table, near, same, "finished")
            completed += _count(con, "finished")
            return add()  # the rows to add are those that the new version does not have
        added, rows = batch.rows, "FROM batch"
        if stored is not None:
            added, rows = _create_table(con, "fresh", _fresh_sql(spec, stored)), "FROM fresh"
        if added:
            with written(con, table.folder, spec, rows, batch.days) as files:
                table.add(files, batch.streams)
            merge_small_files(con, table, batch.days)
        return completed + added

    return retry_refused(spec, add)


def merge_small_files(con: duckdb.DuckDBPyConnection, table: Table, days: Collection[str]) -> None:
    """Merge files of about the same size where a day has many: each commit leaves a file, and neither reading nor the
    next commit may take longer as the day goes on. The rows are already committed, so an error is only logged."""
    if table.unknown_columns:
        return  # they would be lost
    spec, held = table.spec, table.held()
    # By powers of sixteen: merged files are of the next size, so a row is rewritten once for each size.
    sizes: dict[tuple[str, int], set[str]] = {}
    columns = (held[name].to_pylist() for name in ("path", "partition.day", "num_records"))
    for path, day, rows in zip(*columns, strict=True):
        if day in days:
            sizes.setdefault((day, 16 ** ((rows or 0).bit_length() // 4)), set()).add(path.rsplit("/", 1)[1])
    for (day, rows), names in sorted(sizes.items()):
        if len(names) < (_MANY_FILES if rows < _LARGE_ROWS else _MANY_LARGE):
            continue
        files = table.files().only(names)
        # In the order of time, a reader of some hours skips the other row groups.
        rows_by_time = f"SELECT {columns_of(spec)} FROM ({files.scan()}) ORDER BY {quote(spec.time)}"
        try:
            rewrite_day(con, table, files, day, rows_by_time)  # None where another writer merged them: as good
        except (OSError, TableFault, LakeError, duckdb.Error) as error:
            _LOG.warning("the files of `%s` of %s were not merged: %s", spec.name, day, error)


def _count(con: duckdb.DuckDBPyConnection, name: str) -> int:
    count: int = con.execute(f"SELECT count(*) FROM {name}").fetchall()[0][0]
    return count


def _create_table(con: duckdb.DuckDBPyConnection, name: str, sql: str) -> int:
    con.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS {sql}")
    return _count(con, name)


def _files_near(table: Table, batch: _Batch) -> TableFiles:
    """The files that may have a row of the batch. A file without a statistic may have any row."""
    held = table.held()
    names = [path.rsplit("/", 1)[1] for path in held["path"].to_pylist()]
    near = [place for place, day in enumerate(held["partition.day"].to_pylist()) if day in batch.days]
    for column, (low, high) in batch.ranges.items():
        if near and {f"min.{column}", f"max.{column}"} <= {*held.schema.names}:
            least, most = held[f"min.{column}"].to_pylist(), held[f"max.{column}"].to_pylist()
            near = [
                place
                for place in near
                if (least[place] is None or least[place] <= high)
                and (most[place] is None or most[place] >= low or _may_be_cut(names[place], most[place]))
            ]
    return table.files().only({names[place] for place in near})


def _may_be_cut(name: str, greatest: Any) -> bool:
    """Whether the text may be the beginning of a longer one. Statistics of our own files have whole texts."""
    return isinstance(greatest, str) and len(greatest) >= _CUT_AT and not _OUR_FILE.match(name)


def _stored_sql(files: TableFiles, batch: _Batch) -> str:
    """The rows of these files that may be in the batch; of revisable rows, the newest ones."""
    spec = files.spec
    if spec.revisable:
        ranges = (f"{quote(n)} BETWEEN {literal(r[0])} AND {literal(r[1])}" for n, r in batch.ranges.items())
        return f"SELECT * FROM ({files.view()}) WHERE {' AND '.join(ranges) or 'TRUE'}"
    moment = f"coalesce({quote(spec.time)}, 0)"
    return f"SELECT * FROM ({files.scan()}) WHERE {moment} BETWEEN {batch.low_ns} AND {batch.high_ns}"


def _has_some(con: duckdb.DuckDBPyConnection, spec: TableSpec, stored: str) -> bool:
    return _count(con, f"batch b SEMI JOIN ({stored}) s ON {_same(spec.identity)}") > 0


def _let_come_last(con: duckdb.DuckDBPyConnection, stored: str, ingest_id: str) -> None:
    """Give the batch a newer id than the rows it revises, also where the clock was set back."""
    newest = con.execute(f"SELECT max(ingest_id) FROM ({stored})").fetchall()[0][0]
    if newest is not None and newest >= ingest_id:
        moment, _, mark = newest.partition("-")
        con.execute("UPDATE batch SET ingest_id = ?", [f"{int(moment) + 1:0{len(moment)}d}-{mark}"])


def _name_origins(con: duckdb.DuckDBPyConnection, spec: TableSpec, stored: str) -> None:
    """Give rows without an origin that of the stored rows with the same key otherwise, where these have only one."""
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
    """The batch without stored rows. A revision is new when it differs from the newest stored one."""
    same = _same(spec.names if spec.revisable else spec.identity)
    return f"SELECT b.* FROM batch b ANTI JOIN ({stored}) s ON {same}"


def _finished_sql(spec: TableSpec, stored: str) -> str:
    """Rows of the batch that are finished, and stored unfinished."""
    flag = f"quality & {spec.unfinished}"
    unfinished = f"SELECT * FROM ({stored}) WHERE {flag} <> 0"
    return f"SELECT b.* FROM batch b SEMI JOIN ({unfinished}) s ON {_same(spec.identity)} WHERE b.{flag} = 0"


def _same(names: Collection[str]) -> str:
    return " AND ".join(f"b.{quote(name)} IS NOT DISTINCT FROM s.{quote(name)}" for name in names)


# Parquet files of a table, one per day


def columns_of(spec: TableSpec) -> str:
    """The columns that a file has, for a SELECT."""
    return ", ".join(quote(name) for name in (*spec.names, *_LAKE_TEXTS))


@contextmanager
def written(
    con: duckdb.DuckDBPyConnection,
    folder: Path,
    spec: TableSpec,
    rows: str,
    days: Collection[str],
    prefix: str = "part",
) -> Iterator[list[DataFile]]:
    """Write the rows of a query, which are of these days, in its order: one file for each day that has rows.

    The files are removed when writing them fails, or when the caller's commit is refused. After any other error of a
    commit they stay, since the commit may have been made; a file that no commit names is removed by `vacuum`.
    """
    targets: list[Path] = []
    try:
        files = list(_write(con, folder, spec, rows, days, prefix, targets))
    except BaseException:
        _remove(targets)
        raise
    try:
        yield files
    except Refused:
        _remove(targets)
        raise


def _remove(targets: Collection[Path]) -> None:
    for target in targets:
        target.unlink(missing_ok=True)


def _write(
    con: duckdb.DuckDBPyConnection,
    folder: Path,
    spec: TableSpec,
    rows: str,
    days: Collection[str],
    prefix: str,
    targets: list[Path],
) -> Iterator[DataFile]:
    """Write files that are listed in `targets` before they exist. They get their final name once they are on disk."""
    columns = [*((c.name, SQL_TYPES[c.type]) for c in spec.columns), *((name, "VARCHAR") for name in _LAKE_TEXTS)]
    selected = ", ".join(f"CAST({quote(name)} AS {kind}) AS {quote(name)}" for name, kind in columns)
    for day in sorted(days):
        name, low = f"{prefix}-{uuid.uuid4()}", day_start_ns(day)
        draft = folder / f"day={day}" / f"{name}.zstd.parquet"
        targets.append(draft)
        make_directories(draft.parent, folder.parent.parent)
        moment = f"coalesce({quote(spec.time)}, 0)"
        of_day = "" if len(days) == 1 else f" WHERE {moment} BETWEEN {low} AND {low + DAY_NS - 1}"
        found = con.execute(
            f"COPY (SELECT {selected} FROM ({rows}){of_day}) TO {literal(draft)} "
            f"(FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {spec.group_rows}, RETURN_STATS)"
        ).fetchall()
        count, by_column = (found[0][1], found[0][4]) if found else (0, {})
        if not count:
            draft.unlink(missing_ok=True)
            continue
        sync_to_disk(draft, 0o444)
        target = draft.with_name(f"{name}-{content_digest(draft)}.zstd.parquet")
        targets.append(target)
        draft.rename(target)
        sync_to_disk(target.parent)
        statistics = _statistics(dict(columns), count, by_column)
        yield DataFile(f"day={day}/{target.name}", target.stat().st_size, day, count, statistics)


def _statistics(types: Mapping[str, str], rows: int, by_column: Mapping[str, Mapping[str, str]]) -> str:
    """From what DuckDB returns: the range of whole numbers and short texts, and the number of nulls."""
    least: dict[str, Any] = {}
    most: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for name, kind in types.items():
        found = by_column.get(quote(name), {})
        nulls[name] = int(found.get("null_count", rows))
        if "min" not in found or "max" not in found:
            continue
        low, high = found["min"], found["max"]
        if kind == "BIGINT":
            least[name], most[name] = int(low), int(high)
        elif kind == "VARCHAR" and max(len(low), len(high)) <= _LONGEST_TEXT:
            least[name], most[name] = low, high
    return json.dumps({"numRecords": rows, "minValues": least, "maxValues": most, "nullCount": nulls})


def rewrite_day(
    con: duckdb.DuckDBPyConnection, table: Table, files: TableFiles, day: str, rows: str, prefix: str = "part"
) -> tuple[Path, int] | None:
    """Replace these files of a day by the result of a query. Returns the new file and its rows; None where another
    writer replaced one of the files, or where there are no rows. Files that were added since stay."""
    uris = files.days().get(day, [])
    require_undamaged(uris)
    try:
        with written(con, table.folder, table.spec, rows, [day], prefix) as made:
            if not made:
                return None
            table.replace_files(uris, made)
    except Refused:
        return None
    return table.folder / made[0].path, made[0].rows


def replace_rows(
    con: duckdb.DuckDBPyConnection, table: Table, files: TableFiles, condition: str, added: str = ""
) -> None:
    """Remove the rows `s` of these files for which the condition is true, and add the rows of the table `added`, which
    are of the same days, in one commit. Raises Refused where another writer replaced one of the files."""
    if not files.uris:
        return
    if table.unknown_columns:
        raise TableFault("it has columns of a newer ioweather, which would be lost")
    found = files.only({uri.rsplit("/", 1)[1] for (uri,) in con.execute(files.holding(condition)).fetchall()})
    if not found.uris:
        return
    require_undamaged(found.uris)
    columns = columns_of(table.spec)
    rows = f"SELECT {columns} FROM ({found.scan()}) s WHERE ({condition}) IS NOT TRUE"
    if added:
        rows += f" UNION ALL SELECT {columns} FROM {added}"
    in_order = f"SELECT * FROM ({rows}) ORDER BY {quote(table.spec.time)}"
    with written(con, table.folder, table.spec, in_order, found.days()) as made:
        table.replace_files(found.uris, made)
