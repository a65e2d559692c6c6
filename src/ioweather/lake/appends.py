"""Appends to one table of the lake that racing writers cannot double or lose.

An append opens the table at a version, leaves out the rows that it has (an anti join in DuckDB), and names the streams
it writes. The commit is refused when another writer advanced one of these streams since; then it starts again from the
newer version. So of several writers of the same rows exactly one commits them.

The rows of a commit are in Parquet files, one for each day, which are on disk before the commit names them. A file that
no commit names is read by no query, and `vacuum` removes it.
"""

from __future__ import annotations

import logging
import random
import time
import uuid
import zlib
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import duckdb

from ioweather.core.errors import LakeError
from ioweather.core.frames import Frame
from ioweather.core.safe_files import make_directories, sync_to_disk
from ioweather.core.tables import TableSpec
from ioweather.core.units import DAY_NS, day_start_ns
from ioweather.lake.database import SQL_TYPES, WRITER_MEMORY, connection, literal, quote, register_frame
from ioweather.lake.delta_tables import (
    AddAction,
    CommitFailedError,
    DeltaError,
    Table,
    TableFiles,
    data_file,
    make_table,
    newest_first,
    newest_rows,
    open_table,
)
from ioweather.lake.layout import content_digest, require_undamaged
from ioweather.lake.object_store import fetch

_LOG = logging.getLogger("ioweather.store")
T = TypeVar("T")
_PATIENCE_SECONDS: Final = 300.0
# So many files of a day with about as many rows become one file.
_MANY_FILES = 16
# A commit names its streams; thousands of devices are folded into this many, which only means a few more retries.
_STREAM_BUCKETS: Final = 16
# Longer texts have no minimum and maximum in the table's log.
_LONGEST_TEXT: Final = 64


def append(root: Path, spec: TableSpec, rows: Frame, *, source: str, ingest_id: str) -> int:
    """Add rows that are not stored, and complete stored unfinished ones; returns how many. Safe with any number of
    racing writers."""
    if rows.rows == 0:
        return 0
    completed = 0
    with writer_connection(spec) as con:
        count, low_ns, high_ns, days, streams = _make_batch(con, spec, rows, source, ingest_id)

        def add_new_rows() -> int:
            """Commit the rows that the newest version does not have; returns those added and completed."""
            nonlocal completed
            table = open_table(root, spec) or make_table(root, spec)
            near = table.files_near(days, low_ns, high_ns)
            added, new = count, "batch"
            if near.uris:
                stored = _select_stored(near, low_ns, high_ns)
                if spec.revisable:
                    _make_batch_newest(con, stored, ingest_id)
                added, new = _create_table(con, "fresh", _select_new(spec, stored)), "fresh"
                if added < count and spec.unfinished:
                    flag, same = f"quality & {spec.unfinished}", _equal((*spec.identity, "day"))
                    unfinished = f"SELECT * FROM ({stored}) WHERE {flag} <> 0"
                    complete = f"SELECT b.* FROM batch b SEMI JOIN ({unfinished}) s ON {same} WHERE b.{flag} = 0"
                    if finished := _create_table(con, "finished", complete):
                        replace_rows(con, table, near, f"EXISTS (SELECT 1 FROM finished b WHERE {same})", "finished")
                        completed += finished
                        return add_new_rows()  # the commit above made a new version
            if added:
                table.add(write_files(con, table, f"FROM {new}", days), streams)
                merge_small_files(con, table, days)
            return completed + added

        return retry_conflicts(spec, add_new_rows)


def delete_rows(root: Path, spec: TableSpec, condition: str) -> None:
    """Remove the rows `s` for which the condition is true, in one commit."""

    def delete() -> None:
        if (table := open_table(root, spec)) is not None:
            replace_rows(con, table, table.files(), condition)

    with writer_connection(spec) as con:
        retry_conflicts(spec, delete)


@contextmanager
def writer_connection(spec: TableSpec) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection to write a table with; errors of libraries and the operating system become LakeError."""
    with connection(WRITER_MEMORY) as con:
        try:
            yield con
        except (OSError, DeltaError, duckdb.Error) as error:
            for text in ("No space left on device", "Disk quota exceeded"):
                if text in str(error):
                    hint = "Free some space and run the same command again. Rows already in the lake are safe."
                    raise LakeError(f"{text} while writing `{spec.name}`.", hint=hint) from None
            raise LakeError(f"Cannot write `{spec.name}`: {error}.", hint="Check space and permissions.") from None


def retry_conflicts(spec: TableSpec, change: Callable[[], T]) -> T:
    """Repeat a change until no other writer commits first, each time from a newer version of the table."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    attempt = 0
    while True:
        try:
            return change()
        except CommitFailedError as error:
            attempt += 1
            if time.monotonic() > deadline:
                raise LakeError(
                    f"Could not commit to `{spec.name}` after {attempt} attempts (concurrent writers): {error}.",
                    hint="Run the same command again. No data were lost.",
                    kind="LakeConflict",
                ) from None
            time.sleep(random.uniform(0, min(0.5, 0.01 * 2 ** min(attempt, 6))))


def _make_batch(
    con: duckdb.DuckDBPyConnection, spec: TableSpec, frame: Frame, source: str, ingest_id: str
) -> tuple[int, int, int, frozenset[str], frozenset[str]]:
    """Make the table `batch` of the rows, one per identity; of several, the newest or the finished one. Returns its
    number of rows, their least and greatest time, days and streams."""
    moment = f"coalesce({quote(spec.time)}, 0)"
    day = f"CAST(DATE '1970-01-01' + CAST({moment} // {DAY_NS} AS INTEGER) AS VARCHAR)"
    rows = register_frame(con, "incoming", frame.select(spec.names))
    constants = f"{literal(source)} AS source, {literal(ingest_id)} AS ingest_id"
    con.execute(f"CREATE TEMP TABLE batch AS SELECT *, {constants}, {day} AS day FROM ({rows})")
    con.unregister("incoming")
    identity = ", ".join(map(quote, spec.identity))
    system = "coalesce(system, '')" if "system" in spec.names else "NULL"
    count, distinct, low_ns, high_ns, days, systems = con.execute(
        f"SELECT count(*), count(DISTINCT hash({identity})), min({moment}), max({moment}), list(DISTINCT day), "
        f"list(DISTINCT {system}) FROM batch"
    ).fetchall()[0]
    if distinct < count:
        order = newest_first(spec, "rowid") if spec.revisable else "rowid"
        if spec.unfinished:
            order = f"quality & {spec.unfinished}, {order}"
        once = f"SELECT DISTINCT ON ({identity}) * FROM batch ORDER BY {order}"
        count = _create_table(con, "batch", once)
    buckets = {"" if name is None else f"{zlib.crc32(name.encode()) % _STREAM_BUCKETS:x}" for name in systems or [None]}
    return count, low_ns, high_ns, frozenset(days), frozenset(f"{source}:{bucket}" for bucket in buckets)


def _create_table(con: duckdb.DuckDBPyConnection, name: str, sql: str) -> int:
    """Make a table of the rows of a query; returns their number."""
    con.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS {sql}")
    count: int = con.execute(f"SELECT count(*) FROM {name}").fetchall()[0][0]
    return count


def _equal(names: Collection[str]) -> str:
    """SQL condition: the batch `b` and the stored row `s` agree in these columns; null equals null."""
    return " AND ".join(f"b.{quote(name)} IS NOT DISTINCT FROM s.{quote(name)}" for name in names)


def _select_stored(files: TableFiles, low_ns: int, high_ns: int) -> str:
    """The rows of these files that may be in the batch; of revisable rows, the newest ones."""
    spec = files.spec
    if not spec.revisable:
        moment = f"coalesce({quote(spec.time)}, 0)"
        return f"SELECT * FROM ({files.scan()}) WHERE {moment} BETWEEN {low_ns} AND {high_ns}"
    key = [name for name in spec.key if spec.placeholder is None or name != spec.placeholder[0]]
    return newest_rows(spec, f"SELECT s.* FROM ({files.scan()}) s SEMI JOIN batch b ON {_equal(key)}")


def _select_new(spec: TableSpec, stored: str) -> str:
    """The batch without stored rows. A revision is new when it differs from the newest stored one; a row without an
    origin, when it differs from those of every origin."""
    if not spec.revisable:
        return f"SELECT b.* FROM batch b ANTI JOIN ({stored}) s ON {_equal(spec.identity)}"
    if spec.placeholder is None:
        return f"SELECT b.* FROM batch b ANTI JOIN ({stored}) s ON {_equal(spec.names)}"
    name, unknown = spec.placeholder
    same = _equal(spec.names)
    rest = _equal([column for column in spec.names if column != name])
    return (
        f"SELECT b.* FROM batch b WHERE NOT EXISTS (SELECT 1 FROM ({stored}) s WHERE {same}) "
        f"AND NOT (b.{quote(name)} = {literal(unknown)} AND EXISTS (SELECT 1 FROM ({stored}) s WHERE {rest}))"
    )


def _make_batch_newest(con: duckdb.DuckDBPyConnection, stored: str, ingest_id: str) -> None:
    """Give the batch a newer id than the rows it revises, also where the clock was set back."""
    newest = con.execute(f"SELECT max(ingest_id) FROM ({stored})").fetchall()[0][0]
    if newest is not None and newest >= ingest_id:
        moment, _, mark = newest.partition("-")
        con.execute("UPDATE batch SET ingest_id = ?", [f"{int(moment) + 1:0{len(moment)}d}-{mark}"])


# Parquet files of a table, one per day


def write_files(
    con: duckdb.DuckDBPyConnection, table: Table, rows: str, days: Collection[str], prefix: str = "part"
) -> list[AddAction]:
    """Write the rows of a query, which are of these days, in its order: one file for each day that has rows.

    A file gets its final name once it is on disk. All are removed when writing one of them fails."""
    spec, made, targets = table.spec, [], list[Path]()
    columns = {c.name: SQL_TYPES[c.type] for c in spec.columns} | {"source": "VARCHAR", "ingest_id": "VARCHAR"}
    selected = ", ".join(f"CAST({quote(name)} AS {kind}) AS {quote(name)}" for name, kind in columns.items())
    try:
        for day in sorted(days):
            name, low = f"{prefix}-{uuid.uuid4()}", day_start_ns(day)
            draft = table.folder / f"day={day}" / f"{name}.zstd.parquet"
            targets.append(draft)
            make_directories(draft.parent, table.folder.parent.parent)
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
            statistics = _delta_statistics(columns, count, by_column)
            made.append(data_file(f"day={day}/{target.name}", target.stat().st_size, day, statistics))
    except BaseException:
        for target in targets:
            target.unlink(missing_ok=True)
        raise
    return made


def _delta_statistics(columns: dict[str, str], rows: int, by_column: dict[str, dict[str, str]]) -> dict[str, Any]:
    """Statistics for Delta's log, from those of DuckDB: range of whole numbers and short texts, number of nulls."""
    least: dict[str, Any] = {}
    most: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for name, kind in columns.items():
        found = by_column.get(quote(name), {})
        nulls[name] = int(found.get("null_count", rows))
        low, high = found.get("min"), found.get("max")
        if low is not None and high is not None:
            if kind == "BIGINT":
                least[name], most[name] = int(low), int(high)
            elif kind == "VARCHAR" and max(len(low), len(high)) <= _LONGEST_TEXT:
                least[name], most[name] = low, high
    return {"numRecords": rows, "minValues": least, "maxValues": most, "nullCount": nulls}


def merge_small_files(con: duckdb.DuckDBPyConnection, table: Table, days: Collection[str]) -> None:
    """Merge files of about the same size where a day has many: each commit leaves a file, and neither reading nor the
    next commit may take longer as the day goes on. The rows are already committed, so an error is only logged."""
    if table.unknown_columns:
        return  # they would be lost
    # By powers of sixteen: merged files are of the next size, so a row is rewritten once for each size.
    sizes: dict[tuple[str, int], set[str]] = {}
    for path, day, rows in table.describe_files("path", "partition.day", "num_records"):
        if day in days:
            sizes.setdefault((day, (rows or 0).bit_length() // 4), set()).add(path.rsplit("/", 1)[1])
    for (day, _), names in sorted(sizes.items()):
        if len(names) >= _MANY_FILES:
            files = table.files().with_names(names)
            # In the order of time, a reader of some hours skips the other row groups.
            by_time = f"SELECT * FROM ({files.scan()}) ORDER BY {quote(table.spec.time)}"
            try:
                rewrite_day(con, table, files, day, by_time)  # None where another writer merged them: as good
            except (OSError, DeltaError, LakeError, duckdb.Error) as error:
                _LOG.warning("the files of `%s` of %s were not merged: %s", table.spec.name, day, error)


def rewrite_day(
    con: duckdb.DuckDBPyConnection, table: Table, files: TableFiles, day: str, rows: str, prefix: str = "part"
) -> Path | None:
    """Replace these files of a day by the result of a query. Returns the new file; None where another writer replaced
    one of the files, or where there are no rows. Files that were added since stay."""
    uris = files.days().get(day, [])
    fetch(table.folder.parent.parent, uris)
    require_undamaged(uris)
    made = write_files(con, table, rows, [day], prefix)
    if not made:
        return None
    try:
        table.replace_files(uris, made)
    except CommitFailedError:
        return None
    return table.folder / made[0].path


def replace_rows(
    con: duckdb.DuckDBPyConnection, table: Table, files: TableFiles, condition: str, added: str = ""
) -> None:
    """Remove the rows `s` of these files for which the condition is true, and add the rows of the table `added`, which
    are of the same days, in one commit. Raises CommitFailedError where another writer replaced one of the files."""
    if not files.uris:
        return
    if table.unknown_columns:
        raise DeltaError("it has columns from a newer ioweather, and merging would drop them")
    uris = con.execute(files.select_files_with(condition)).fetchall()
    found = files.with_names({uri.rsplit("/", 1)[1] for (uri,) in uris})
    if not found.uris:
        return
    fetch(table.folder.parent.parent, found.uris)
    require_undamaged(found.uris)
    rows = f"SELECT * FROM ({found.scan()}) s WHERE ({condition}) IS NOT TRUE"
    if added:
        rows += f" UNION ALL BY NAME SELECT * FROM {added}"
    in_order = f"SELECT * FROM ({rows}) ORDER BY {quote(table.spec.time)}"
    table.replace_files(found.uris, write_files(con, table, in_order, found.days()))
