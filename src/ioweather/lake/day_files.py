"""Write Parquet files of a table, one per day. A file is on disk before a commit names it."""

from __future__ import annotations

import json
import uuid
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import duckdb

from ioweather.core.clock import day_start_ns
from ioweather.core.safe_files import make_directories, sync_to_disk
from ioweather.core.tables.schema import TableSpec
from ioweather.core.units import DAY_NS
from ioweather.lake.convert import SQL_TYPES, literal, quote
from ioweather.lake.delta_tables import Refused, Table, TableFault
from ioweather.lake.table_files import DataFile, TableFiles, content_digest, require_undamaged

# Longer texts have no minimum and maximum in the table's log.
_LONGEST_TEXT: Final = 64
_LAKE_TEXTS: Final = ("source", "ingest_id")


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
    con: duckdb.DuckDBPyConnection, folder: Path, spec: TableSpec, rows: str, days: Collection[str], prefix: str,
    targets: list[Path],
) -> Iterator[DataFile]:  # fmt: skip
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
