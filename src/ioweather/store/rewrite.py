"""All files of a day become one, in one commit: to seal a day, and to merge the small files of an open one.

By an explicit add action and not by write_deltalake(mode='overwrite'): that one does not keep the order of rows, and
would refuse when a writer appended meanwhile. Not by Delta's own `optimize.compact` either: of two that run at the same
time on the same files both are accepted, and every row is there twice (deltalake 1.6).
"""

from __future__ import annotations

import json
import time
import uuid
from pathlib import Path

import duckdb
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction

from ioweather.core.whole_files import sync_to_disk
from ioweather.store.convert import literal
from ioweather.tables import TableSpec


def rewrite_day(
    con: duckdb.DuckDBPyConnection, folder: Path, table: DeltaTable, spec: TableSpec, day: str, prefix: str, rows: str
) -> tuple[Path, int] | None:
    """Put the result of a query into the place of the files that this version of the table has of the day. Returns the
    new file and its rows; None where another writer replaced one of these files meanwhile. Files that came meanwhile
    stay beside it."""
    name = f"day={day}/{prefix}-{uuid.uuid4()}.zstd.parquet"
    target = folder / name
    try:
        con.execute(
            f"COPY ({rows}) TO {literal(target)} (FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {spec.group_rows})"
        )
        count: int = con.sql(f"SELECT count(*) FROM read_parquet({literal(target)})").fetchall()[0][0]
        sync_to_disk(target)
        sync_to_disk(target.parent)
        replace_files(table, day, name, target.stat().st_size, count)
    except CommitFailedError:
        target.unlink()
        return None
    except BaseException:
        target.unlink(missing_ok=True)
        raise
    return target, count


def replace_files(table: DeltaTable, day: str, name: str, size: int, rows: int) -> None:
    """One commit: out with the files this version knows of that day, in with this one."""
    action = AddAction(
        path=name,
        size=size,
        partition_values={"day": day},
        modification_time=int(time.time() * 1000),
        data_change=False,
        stats=json.dumps({"numRecords": rows}),
    )
    table.create_write_transaction(
        [action],
        mode="overwrite",
        schema=table.schema(),
        partition_by=["day"],
        partition_filters=[("day", "=", day)],
    )
