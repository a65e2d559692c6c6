"""The check of a stored lake: damaged table files, which can be set aside."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import duckdb

from ioweather.core.clock import now_ns
from ioweather.core.errors import UnsafePlace
from ioweather.core.progress import Progress, silent
from ioweather.core.safe_files import make_directories, write_whole
from ioweather.core.tables import TABLES
from ioweather.lake import layout
from ioweather.lake.appends import retry_refused
from ioweather.lake.database import connection, literal
from ioweather.lake.delta_tables import open_table
from ioweather.lake.lake import Lake
from ioweather.lake.table_files import damaged_files, digest_in_name

_RECORD: Final = "checked.json"


@dataclass(frozen=True)
class LakeCheck:
    """Result of a check of all table files. Paths are relative to the lake's tables."""

    checked_ns: int
    files: int
    bytes: int
    damaged: tuple[str, ...]
    without_digest: int  # written by ioweather 0.2: they can be read, which is all that is known


def check_lake(lake: Lake, *, progress: Progress = silent) -> LakeCheck:
    """Compare every table file with its digest, and record when that was done."""
    tables = layout.tables_dir(lake.root).resolve()
    uris = [uri for files in lake.pinned().values() for uri in files.uris]
    damaged: list[str] = []
    size = 0
    for position, path in enumerate(map(Path, uris)):
        progress(position, len(uris), "files checked")
        if damaged_files([path]) or (digest_in_name(path) is None and not _can_be_read(path)):
            damaged.append(str(path.relative_to(tables)))
        if path.exists():
            size += path.stat().st_size
    progress(len(uris), len(uris), "files checked")
    unknown = sum(digest_in_name(uri) is None for uri in uris)
    found = LakeCheck(now_ns(), len(uris), size, tuple(damaged), unknown)
    with suppress(OSError, UnsafePlace):  # a lake that this user may only read
        layout.lake_directory(lake.root).close()
        write_whole(lake.root / _RECORD, json.dumps(vars(found)).encode(), 0o644)
    return found


def last_check(root: Path) -> LakeCheck | None:
    try:
        return LakeCheck(**json.loads((root / _RECORD).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def _can_be_read(path: Path) -> bool:
    try:
        with connection() as con:
            con.execute(f"SELECT bit_xor(hash(t)) FROM read_parquet({literal(path)}) t").fetchall()
    except (RuntimeError, duckdb.Error):
        return False
    return True


def set_aside(lake: Lake, damaged: Sequence[str]) -> list[str]:
    """Take damaged files out of their tables and move them to `damaged/`. Returns the paths of the input files whose
    rows may have been in them: these can be ingested again."""
    root = layout.tables_dir(lake.root).resolve()
    by_table: dict[str, list[str]] = {}
    for relative in damaged:
        by_table.setdefault(relative.split("/", 1)[0], []).append(relative)
    ranges: list[tuple[str, str]] = []
    layout.lake_directory(lake.root).close()
    for name, files in by_table.items():
        ranges += retry_refused(TABLES[name], partial(_remove_files, root, name, files))
        for relative in files:
            aside = lake.root / "damaged" / relative
            make_directories(aside.parent, lake.root)
            if (root / relative).exists():
                (root / relative).rename(aside)
    return _inputs(lake, ranges)


def _remove_files(root: Path, name: str, files: Sequence[str]) -> list[tuple[str, str]]:
    """Take the files out of the table. Returns the least and the greatest `ingest_id` of each."""
    table = open_table(root, TABLES[name])
    assert table is not None
    held, names = table.held(), {relative.rsplit("/", 1)[1] for relative in files}
    table.replace_files([str(root / relative) for relative in files], [])
    columns = (held[name].to_pylist() for name in ("path", "min.ingest_id", "max.ingest_id"))
    known = zip(*columns, strict=True)
    return [(low, high) for path, low, high in known if path.rsplit("/", 1)[1] in names and low is not None]


def _inputs(lake: Lake, ranges: Iterable[tuple[str, str]]) -> list[str]:
    meets = " OR ".join(f"id BETWEEN {literal(low)} AND {literal(high)}" for low, high in ranges)
    if not meets:
        return []
    with lake.snapshot() as snapshot:
        ids = "SELECT path, unnest(string_split(rows_ingest_ids, ',')) AS id FROM ingests"
        found = snapshot.query(f"SELECT DISTINCT path FROM ({ids}) WHERE {meets} ORDER BY 1").fetchall()
    return [path for (path,) in found]
