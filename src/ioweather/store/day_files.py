"""Parquet files of a table, written.

A file is on disk before a commit speaks of it. What is in memory is written by Arrow, in a fourth of the processor time
that DuckDB takes for tables of a hundred columns; the result of a query is written by DuckDB, which streams it.
"""

from __future__ import annotations

import io
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from ioweather.core.clock import day_start_ns
from ioweather.core.frames import Frame, Text
from ioweather.core.units import DAY_NS
from ioweather.core.whole_files import make_directories, sync_to_disk
from ioweather.store.convert import SQL_TYPES, arrow_table, encodable, literal, quote
from ioweather.store.delta_tables import Refused, Table, TableFault
from ioweather.store.table_files import DataFile, Statistics, content_digest, require_undamaged
from ioweather.tables.schema import TableSpec

if TYPE_CHECKING:
    import duckdb

# Texts of up to so many characters are told whole in the statistics of our own files, and longer ones not at all.
_LONGEST_TEXT: Final = 64
_LAKE_TEXTS: Final = ("source", "ingest_id")


# Writes the rows of a day into a file: how many there are, and what is told of their values.
Writer: TypeAlias = Callable[[str, Path], tuple[int, Statistics]]


@contextmanager
def written(folder: Path, days: Collection[str], prefix: str, write: Writer) -> Iterator[list[DataFile]]:
    """One file for each of the days that has rows, for a commit. Where this or the commit is refused they
    are taken away again. After any other error of a commit they stay: it may have been made before the error came, and
    a file that no commit names is in nobody's way."""
    targets: list[Path] = []
    try:
        files = list(_write(folder, days, prefix, write, targets))
    except BaseException:
        _remove(targets)
        raise
    try:
        yield files
    except Refused:
        _remove(targets)
        raise


def _remove(targets: Sequence[Path]) -> None:
    for target in targets:
        target.unlink(missing_ok=True)


def _write(folder: Path, days: Collection[str], prefix: str, write: Writer, targets: list[Path]) -> Iterator[DataFile]:
    """Into files that are listed in `targets` before they exist. They get their final name once they are on disk."""
    for day in sorted(days):
        name = f"{prefix}-{uuid.uuid4()}"
        draft = folder / f"day={day}" / f"{name}.zstd.parquet"
        targets.append(draft)
        make_directories(draft.parent, folder.parent.parent)
        rows, statistics = write(day, draft)
        if not rows:
            draft.unlink(missing_ok=True)
            continue
        sync_to_disk(draft, 0o444)
        target = draft.with_name(f"{name}-{content_digest(draft)}.zstd.parquet")
        targets.append(target)
        draft.rename(target)
        sync_to_disk(target.parent)
        yield DataFile(f"day={day}/{target.name}", target.stat().st_size, day, rows, statistics)


def from_query(con: duckdb.DuckDBPyConnection, spec: TableSpec, rows: str, days: Collection[str]) -> Writer:
    """The result of a query over these days, in its order."""
    moment = f"coalesce({quote(spec.time)}, 0)"
    columns = [*((c.name, SQL_TYPES[c.type]) for c in spec.columns), ("source", "VARCHAR"), ("ingest_id", "VARCHAR")]
    selected = ", ".join(f"CAST({quote(name)} AS {kind}) AS {quote(name)}" for name, kind in columns)

    def write(day: str, target: Path) -> tuple[int, Statistics]:
        low = day_start_ns(day)
        of_day = "" if len(days) == 1 else f" WHERE {moment} BETWEEN {low} AND {low + DAY_NS - 1}"
        told = con.execute(
            f"COPY (SELECT {selected} FROM ({rows}){of_day}) TO {literal(target)} "
            f"(FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {spec.group_rows}, RETURN_STATS)"
        ).fetchall()
        rows_written, of_columns = (told[0][1], told[0][4]) if told else (0, {})
        return rows_written, _told_statistics(spec, rows_written, of_columns)

    return write


def from_frame(spec: TableSpec, frame: Frame, source: str, ingest_id: str, days: Collection[str]) -> Writer:
    """Rows of these days that are in memory."""
    frame = frame.select(spec.names)
    texts: dict[str | Sequence[str], bool] = {c.name: c.type == "text" for c in spec.columns}
    texts |= dict.fromkeys(_LAKE_TEXTS, True)

    def write(day: str, target: Path) -> tuple[int, Statistics]:
        from arro3.io import write_parquet

        times, low = frame.ints(spec.time), day_start_ns(day)
        rows = frame if len(days) == 1 else frame.take((times >= low) & (times < low + DAY_NS))
        if rows.rows:
            content = io.BytesIO()  # of a disk that is full, the library would not report but panic
            # Numbers repeat too seldom to pay for the search for those that do; sealing does it again, and better.
            write_parquet(
                arrow_table(rows, source=source, ingest_id=ingest_id), content, compression="zstd(1)",
                max_row_group_size=spec.group_rows, dictionary_enabled=False, column_dictionary_enabled=texts,
                skip_arrow_metadata=True,
            )  # fmt: skip
            target.write_bytes(content.getvalue())  # a view of it would outlive an error of the disk
        return rows.rows, _statistics(rows, source, ingest_id)

    return write


def _statistics(frame: Frame, source: str, ingest_id: str) -> Statistics:
    least: dict[str, Any] = {"source": source, "ingest_id": ingest_id}
    most: dict[str, Any] = dict(least)
    nulls: dict[str, int] = dict.fromkeys(least, 0)
    for name, column in frame.items():
        if isinstance(column, Text):
            nulls[name], *counts = np.bincount(column.codes + 1, minlength=1).tolist()
            found = encodable([text for text, count in zip(column.categories, counts, strict=False) if count])
            low, high = min(found, default=""), max(found, default="")
            if found and max(len(low), len(high)) <= _LONGEST_TEXT:
                least[name], most[name] = low, high
            continue
        is_float = column.dtype.kind == "f"
        known = column[np.isfinite(column)] if is_float else np.ma.compressed(column)
        nulls[name] = frame.rows - len(known)
        if column.dtype.kind == "i" and len(known):
            least[name], most[name] = int(known.min()), int(known.max())
    return Statistics(least, most, nulls)


def _told_statistics(spec: TableSpec, rows: int, told: Mapping[str, Mapping[str, str]]) -> Statistics:
    """As DuckDB tells them."""
    least: dict[str, Any] = {}
    most: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    kinds = {column.name: column.type for column in spec.columns} | dict.fromkeys(_LAKE_TEXTS, "text")
    for name, kind in kinds.items():
        of_column = told.get(quote(name), {})
        nulls[name] = int(of_column.get("null_count", rows))
        if "min" not in of_column or "max" not in of_column:
            continue
        if kind == "int64":
            least[name], most[name] = int(of_column["min"]), int(of_column["max"])
        elif kind == "text" and max(len(of_column["min"]), len(of_column["max"])) <= _LONGEST_TEXT:
            least[name], most[name] = of_column["min"], of_column["max"]
    return Statistics(least, most, nulls)


def rewrite_day(
    con: duckdb.DuckDBPyConnection, table: Table, day: str, prefix: str, rows: str, names: Collection[str] | None = None
) -> tuple[Path, int] | None:
    """Put the result of a query into the place of the files that this version of the table has of the day (to seal it),
    or of some of them (to merge small ones). Returns the new file and its rows; None where another writer replaced one
    of these files meanwhile, or where there are no rows. Files that came meanwhile stay beside it."""
    replaced = table.files().only(names) if names is not None else table.files()
    uris = replaced.days().get(day, [])
    require_undamaged(uris)
    try:
        with written(table.folder, [day], prefix, from_query(con, table.spec, rows, [day])) as files:
            if not files:
                return None
            if names is None:
                table.replace_day(day, files)
            else:
                table.replace_files(uris, files)
    except Refused:
        return None
    return table.folder / files[0].path, files[0].rows


def replace_rows(
    con: duckdb.DuckDBPyConnection, table: Table, condition: str, added: str = "", names: Collection[str] | None = None
) -> None:
    """Remove the rows `s` for which the condition is true, and add the rows of the table `added`, which are of the same
    days, in one commit. Only the files of these names are searched, where some are given. Raises Refused where another
    writer replaced one of the files."""
    files, spec = table.files() if names is None else table.files().only(names), table.spec
    if not files.uris:
        return
    if table.unknown_columns:
        raise TableFault("it has columns of a newer ioweather, which would be lost")
    found = files.only({uri.rsplit("/", 1)[1] for (uri,) in con.execute(files.holding(condition)).fetchall()})
    if not found.uris:
        return
    require_undamaged(found.uris)
    columns = ", ".join(quote(name) for name in (*spec.names, *_LAKE_TEXTS))
    rows = f"SELECT {columns} FROM ({found.scan()}) s WHERE ({condition}) IS NOT TRUE"
    if added:
        rows += f" UNION ALL SELECT {columns} FROM {added}"
    days, before = found.days(), table.version
    write = from_query(con, spec, f"SELECT * FROM ({rows}) ORDER BY {quote(spec.time)}", days)
    with written(table.folder, days, "part", write) as made:
        table.replace_files(found.uris, made)
    table.done(before)
