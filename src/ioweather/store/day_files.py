"""Parquet files of a table and the commits that add them: Delta keeps the list.

A file is on disk before a commit speaks of it. What is in memory is written by Arrow, in a fourth of the processor time
that DuckDB takes for tables of a hundred columns; the result of a query is written by DuckDB, which streams it.
"""

from __future__ import annotations

import io
import json
import logging
import re
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction

from ioweather.core.clock import day_start_ns
from ioweather.core.frames import Frame, Text
from ioweather.core.units import DAY_NS
from ioweather.core.whole_files import sync_to_disk
from ioweather.store.convert import SQL_TYPES, arrow_table, encodable, literal, quote
from ioweather.store.panics import without_panics
from ioweather.tables.schema import TableSpec

if TYPE_CHECKING:
    import duckdb

_LOG: Final = logging.getLogger("ioweather.store")
# Texts of up to so many characters are told whole in the statistics of our own files, and longer ones not at all.
_LONGEST_TEXT: Final = 64
_LAKE_TEXTS: Final = ("source", "ingest_id")
# Names of our own files; the Delta library has a number behind the first dash.
_OURS: Final = re.compile(r"[a-z]+-[0-9a-f]{8}-")
# Whoever opens a table reads the commits since its last checkpoint, which takes 0.3 ms each, and lists all that there
# are: 1 ms for each 300. So many are kept, and all of so long, for who has begun to read.
_CHECKPOINT_EVERY: Final = 20
_COMMITS_KEPT: Final = 1000
_KEPT_SECONDS: Final = 3600.0
_COMMIT_FILE: Final = re.compile(r"(\d{20})\.(json|checkpoint\.parquet)")
# What is past its time goes with a checkpoint (`_forget_commits`), or once a day (`vacuum`), not at every commit.
_COMMIT_ALONE: Final = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)


# Writes the rows of a day into a file: how many there are, and what Delta keeps of their values.
Writer: TypeAlias = Callable[[str, Path], tuple[int, Mapping[str, Any]]]


@contextmanager
def written(folder: Path, days: Collection[str], prefix: str, write: Writer) -> Iterator[list[AddAction]]:
    """One file for each of the days that has rows, as the actions of a commit. Where this or the commit is refused they
    are taken away again. After any other error of a commit they stay: it may have been made before the error came, and
    a file that no commit names is in nobody's way."""
    targets: list[Path] = []
    try:
        actions = list(_write(folder, days, prefix, write, targets))
    except BaseException:
        _remove(targets)
        raise
    try:
        yield actions
    except CommitFailedError:
        _remove(targets)
        raise


def _remove(targets: Sequence[Path]) -> None:
    for target in targets:
        target.unlink(missing_ok=True)


def _write(folder: Path, days: Collection[str], prefix: str, write: Writer, targets: list[Path]) -> Iterator[AddAction]:
    """Into files that stand in `targets` before they are there."""
    for day in sorted(days):
        target = folder / f"day={day}" / f"{prefix}-{uuid.uuid4()}.zstd.parquet"
        targets.append(target)
        target.parent.mkdir(parents=True, exist_ok=True)
        rows, statistics = write(day, target)
        if not rows:
            target.unlink(missing_ok=True)
            continue
        sync_to_disk(target)
        sync_to_disk(target.parent)
        yield _action(target, day, rows, statistics)


def from_query(con: duckdb.DuckDBPyConnection, spec: TableSpec, rows: str, days: Collection[str]) -> Writer:
    """The result of a query over these days, in its order."""
    moment = f"coalesce({quote(spec.time)}, 0)"
    columns = [*((c.name, SQL_TYPES[c.type]) for c in spec.columns), ("source", "VARCHAR"), ("ingest_id", "VARCHAR")]
    selected = ", ".join(f"CAST({quote(name)} AS {kind}) AS {quote(name)}" for name, kind in columns)

    def write(day: str, target: Path) -> tuple[int, Mapping[str, Any]]:
        low = day_start_ns(day)
        of_day = "" if len(days) == 1 else f" WHERE {moment} BETWEEN {low} AND {low + DAY_NS - 1}"
        told = con.execute(
            f"COPY (SELECT {selected} FROM ({rows}){of_day}) TO {literal(target)} "
            f"(FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {spec.group_rows}, RETURN_STATS)"
        ).fetchall()
        return (told[0][1], _told_statistics(spec, told[0][1], told[0][4])) if told else (0, {})

    return write


def from_frame(spec: TableSpec, frame: Frame, source: str, ingest_id: str, days: Collection[str]) -> Writer:
    """Rows of these days that are in memory."""
    frame = frame.select(spec.names)
    texts: dict[str | Sequence[str], bool] = {c.name: c.type == "text" for c in spec.columns}
    texts |= dict.fromkeys(_LAKE_TEXTS, True)

    def write(day: str, target: Path) -> tuple[int, Mapping[str, Any]]:
        from arro3.io import write_parquet

        rows = frame if len(days) == 1 else frame.take(frame.ints(spec.time) // DAY_NS == day_start_ns(day) // DAY_NS)
        if rows.rows:
            content = io.BytesIO()  # of a disk that is full, the library would not report but panic
            # Numbers repeat too seldom to pay for the search for those that do; sealing does it again, and better.
            write_parquet(
                arrow_table(rows, source=source, ingest_id=ingest_id), content, compression="zstd(1)",
                max_row_group_size=spec.group_rows, dictionary_enabled=False, column_dictionary_enabled=texts,
            )  # fmt: skip
            target.write_bytes(content.getvalue())  # a view of it would outlive an error of the disk
        return rows.rows, _statistics(rows, source, ingest_id)

    return write


def _action(target: Path, day: str, rows: int, statistics: Mapping[str, Any]) -> AddAction:
    return AddAction(
        path=f"day={day}/{target.name}",
        size=target.stat().st_size,
        partition_values={"day": day},
        modification_time=int(time.time() * 1000),
        data_change=True,
        stats=json.dumps({"numRecords": rows, **statistics}),
    )


def _statistics(frame: Frame, source: str, ingest_id: str) -> dict[str, Any]:
    """Least and greatest values of whole numbers and short texts, and how many nulls there are."""
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
    return {"minValues": least, "maxValues": most, "nullCount": nulls}


def _told_statistics(spec: TableSpec, rows: int, told: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    """The same, as DuckDB tells them."""
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
    return {"minValues": least, "maxValues": most, "nullCount": nulls}


def has_whole_texts(name: str) -> bool:
    """Whether the statistics of a file give its greatest texts as they are. The Delta library cuts them."""
    return _OURS.match(name) is not None


def add_files(table: DeltaTable, actions: Sequence[AddAction], properties: CommitProperties) -> None:
    """One commit of new rows."""
    with without_panics():
        table.create_write_transaction(
            list(actions), mode="append", schema=table.schema(), partition_by=["day"], commit_properties=properties,
            post_commithook_properties=_COMMIT_ALONE,
        )  # fmt: skip
    table.update_incremental()


def checkpoint(folder: Path, table: DeltaTable, before: int) -> None:
    """Where it is time for one since a version."""
    if table.version() // _CHECKPOINT_EVERY == before // _CHECKPOINT_EVERY:
        return
    try:
        with without_panics():
            table.create_checkpoint()
        for name in (f"{table.version():020d}.checkpoint.parquet", "_last_checkpoint"):
            sync_to_disk(folder / "_delta_log" / name)
        _forget_commits(folder / "_delta_log", table.version() - _COMMITS_KEPT)
    except (OSError, DeltaError) as error:  # the next one will do
        _LOG.warning("%s has no checkpoint of version %d: %s", folder.name, table.version(), error)


def _forget_commits(log: Path, before: int) -> None:
    """Those before an old checkpoint, which holds all that they say."""
    names = {path.name for path in log.iterdir()} if before > 0 else set()
    versions = {name: int(found[1]) for name in names if (found := _COMMIT_FILE.fullmatch(name))}
    made = sorted(version for name, version in versions.items() if name.endswith("parquet") and version <= before)
    since = time.time() - _KEPT_SECONDS
    while made and (log / f"{made[-1]:020d}.checkpoint.parquet").stat().st_mtime > since:
        made.pop()
    for name in sorted(name for name, version in versions.items() if made and version < made[-1]):
        (log / name).unlink(missing_ok=True)


def rewrite_day(
    con: duckdb.DuckDBPyConnection, folder: Path, table: DeltaTable, spec: TableSpec, day: str, prefix: str, rows: str
) -> tuple[Path, int] | None:
    """Put the result of a query into the place of the files that this version of the table has of the day: to seal it,
    or to merge its small files. Returns the new file and its rows; None where another writer replaced one of these
    files meanwhile, or where there are no rows. Files that came meanwhile stay beside it.

    By an explicit action and not by write_deltalake(mode='overwrite'): that one does not keep the order of rows, and
    would refuse when a writer appended meanwhile. Not by Delta's own `optimize.compact` either: of two that run at the
    same time on the same files both are accepted, and every row is there twice (deltalake 1.6).
    """
    try:
        with written(folder, [day], prefix, from_query(con, spec, rows, [day])) as actions:
            if not actions:
                return None
            replace_files(table, day, actions)
    except CommitFailedError:
        return None
    table.update_incremental()
    return folder / actions[0].path, int(json.loads(actions[0].stats)["numRecords"])


def replace_files(table: DeltaTable, day: str, actions: Sequence[AddAction]) -> None:
    """One commit: out with the files this version knows of that day, in with these, which hold the same rows."""
    same_rows: list[Any] = [
        AddAction(a.path, a.size, a.partition_values, a.modification_time, data_change=False, stats=a.stats)
        for a in actions
    ]
    table.create_write_transaction(
        same_rows, mode="overwrite", schema=table.schema(), partition_by=["day"], partition_filters=[("day", "=", day)],
        post_commithook_properties=_COMMIT_ALONE,
    )  # fmt: skip
