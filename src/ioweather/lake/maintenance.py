"""Care of a stored lake: closed days sealed into one sorted file each, retention, vacuum, check of all files, and the
removal of the rows of a file.

A sealed day needs no search for duplicates; a seal of `series` says what is in the day, so that no question counts the
rows. Files that came in together share their rows' `ingest_id`, and are removed together. Rows
are removed first and the ledger entry last: an interrupted removal is completed by running it again.
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import duckdb

from ioweather.core.errors import LakeError, UnsafePlace, UsageError
from ioweather.core.facility import Facility
from ioweather.core.logs import Progress, silent
from ioweather.core.safe_files import make_directories, write_whole
from ioweather.core.tables import TABLES, TableSpec
from ioweather.core.units import DAY_NS, HOUR_NS, MINUTE_NS, day_start_ns, now_ns, utc_day
from ioweather.lake import layout
from ioweather.lake.appends import delete_rows, retry_conflicts, rewrite_day, writer_connection
from ioweather.lake.database import connection, literal, literals, quote
from ioweather.lake.delta_tables import ONE_PER_KEY, Table, TableFiles, is_one_per_key, newest_files, open_table
from ioweather.lake.inventory import IS_MINUTE, read_seal, seal_file, write_seal
from ioweather.lake.layout import damaged_files, digest_in_name
from ioweather.lake.object_store import fetch, remove

if TYPE_CHECKING:
    from ioweather.lake.lake import Lake

# Readers keep files open and versions pinned; removing files younger than this has broken a concurrent reader.
_LEAST_VACUUM_HOURS = 24
# Other tables are computed from their rows, and would keep what those brought.
_ROLLED_UP = ("responses", "scan_entries")
_SEAL_AGAIN_SECONDS = 3600.0


# A sealed day: table, day, number of files before, number of rows.
SealedDay: TypeAlias = tuple[str, str, int, int]


def compact(lake: Lake, *, everything: bool = False, progress: Progress = silent) -> list[SealedDay]:
    """Seal every closed UTC day that is not sealed yet (with `everything`, today too)."""
    last = utc_day(now_ns() - DAY_NS)
    done: list[SealedDay] = []
    for name, spec in TABLES.items():
        table = open_table(layout.tables_dir(lake.root), spec)
        if table is None:
            continue
        if unknown := table.unknown_columns:
            raise LakeError(
                f"`{name}` has the unknown column {min(unknown)}; sealing would drop it.",
                hint="Upgrade ioweather.",
                kind="LakeVersionError",
            )
        for day, uris in sorted(table.files().days().items()):
            if (day <= last or everything) and not _is_sealed(lake.root, spec, day, uris):
                progress(len(done), None, f"sealing {name} {day}")
                done += _seal_day(lake.root, spec, day)
    return done


def seal_new_days(lake: Lake, since_ns: int) -> list[SealedDay]:
    """Seal closed days of `series` from this time on, so that a lake that was only ingested answers as fast as one that
    is tended. A day that late rows keep coming for is sealed again an hour after the last time at the earliest."""
    spec = TABLES["series"]
    table = open_table(layout.tables_dir(lake.root), spec)
    if table is None or table.unknown_columns:
        return []
    first, last = utc_day(max(since_ns, 0)), utc_day(now_ns() - DAY_NS)
    done: list[SealedDay] = []
    for day, uris in sorted(table.files().days().items()):
        if first <= day <= last and not _is_sealed(lake.root, spec, day, uris):
            sealed_before = seal_file(lake.root, day)
            if not (sealed_before.exists() and _measure_age_seconds(sealed_before) < _SEAL_AGAIN_SECONDS):
                done += _seal_day(lake.root, spec, day)
    return done


def _measure_age_seconds(path: Path) -> float:
    return time.time() - path.stat().st_mtime


def _is_sealed(root: Path, spec: TableSpec, day: str, uris: list[str]) -> bool:
    """Whether the day is one file that needs no search for duplicates (and a day of `series` has its seal)."""
    if spec.name == "series":
        return read_seal(root, day, uris) is not None
    return len(uris) == 1 and (spec.keeps_revisions or is_one_per_key(uris[0]))


def _seal_day(root: Path, spec: TableSpec, day: str) -> list[SealedDay]:
    """Rewrite the current files into one; files that are added in the meantime are sealed the next time. Nothing where
    another sealer was faster."""
    table = Table(layout.tables_dir(root), spec)
    files = table.files()
    uris = files.days().get(day, [])
    order = ", ".join(map(quote, spec.order))
    if spec.keeps_revisions:
        identity = (*spec.key, "ingest_id", "source") if spec.revisable else spec.identity
        once = f"SELECT DISTINCT ON ({', '.join(map(quote, identity))}) * FROM ({files.scan({day})})"
        rows, prefix = f"SELECT * FROM ({once}) ORDER BY {order}", "part"
    else:
        rows, prefix = f"SELECT * FROM ({files.view({day})}) ORDER BY {order}", ONE_PER_KEY
    with writer_connection(spec) as con:
        made = rewrite_day(con, table, files, day, rows, prefix)
        if made is None:
            return []
        sealed = TableFiles(spec, None, (str(made),))
        if spec.name == "series":
            write_seal(con, root, sealed, day)
        count = con.execute(f"SELECT count(*) FROM ({sealed.scan()})").fetchall()[0][0]
    return [(spec.name, day, len(uris), count)]


def apply_retention(lake: Lake, facility: Facility, *, dry_run: bool = False) -> dict[str, int]:
    """Drop whole days of raw samples, operations of jobs and responses past their time, then files no version needs.
    Returns the number of rows by table, and of `files`."""
    raw, now = "raw_series", now_ns()
    dropped = {}
    for name, kept in (("series", raw), ("job_operations", raw), ("responses", "responses")):
        total, before_ns, files = 0, now - facility.retention_ns[kept], lake.pinned()[name]
        for day in sorted(day for day in files.days() if day_start_ns(day) + DAY_NS <= before_ns):
            condition = f"day = {literal(day)}"
            if name == "series":
                condition += f" AND {_has_minutes(files.scan({day}))}"
            with connection() as con:
                count = con.execute(f"SELECT count(*) FROM ({files.scan({day})}) s WHERE {condition}").fetchall()[0][0]
            if count and not dry_run:
                delete_rows(layout.tables_dir(lake.root), files.spec, condition)
            total += count
        dropped[name] = total
    return {**dropped, "files": vacuum(lake, facility, dry_run=dry_run)}


def _has_minutes(scan: str) -> str:
    """Condition for raw samples of a series whose raw rows are all covered by stored minutes. A row without one is the
    only record of its time: iostat prints 59 s as well as 60 s, and an interval may have been changed at noon."""
    series, raw = "source, system, component_kind, metric", f"interval_ns < {MINUTE_NS}"
    reduced = f"""SELECT {series}
        FROM (SELECT *, start_ns - start_ns % {MINUTE_NS} AS minute_ns FROM ({scan}) WHERE {raw}) r
        LEFT JOIN (SELECT DISTINCT {series}, component, start_ns AS minute_ns, TRUE AS held
            FROM ({scan}) WHERE {IS_MINUTE}) m
        USING ({series}, component, minute_ns)
        GROUP BY ALL HAVING bool_and(held IS TRUE AND r.start_ns + r.interval_ns <= minute_ns + {MINUTE_NS})"""
    return f"{raw} AND ({series}) IN ({reduced})"


def vacuum(lake: Lake, facility: Facility, *, dry_run: bool = False) -> int:
    """Remove files that no version within the retention needs; exhibits older than that say so when asked for again."""
    hours = max(_LEAST_VACUUM_HOURS, facility.retention_ns["versions"] // HOUR_NS)
    tables = (open_table(layout.tables_dir(lake.root), spec) for spec in TABLES.values())
    removed = sum(table.vacuum(hours, dry_run=dry_run) for table in tables if table is not None)
    days = newest_files(layout.tables_dir(lake.root), TABLES["series"]).days()
    if not dry_run and layout.seals_dir(lake.root).is_dir():
        for path in layout.seals_dir(lake.root).iterdir():
            if path.suffix != ".json" or path.name[:10] not in days:  # or one of the sums that earlier versions wrote
                path.unlink()
                remove(lake.root, [path])
    return removed


# Damaged table files


def check_lake(lake: Lake, *, progress: Progress = silent) -> dict[str, Any]:
    """Compare every table file with its digest. Returns what `checked.json` then says: `checked_ns`, number of `files`,
    their `bytes`, the `damaged` ones (paths relative to the tables), and the number `without_digest` (written by
    ioweather 0.2), which are only tried for being readable."""
    tables = layout.tables_dir(lake.root).resolve()
    paths = [Path(uri) for files in lake.pinned().values() for uri in files.uris]
    damaged: list[str] = []
    size = 0
    for position, path in enumerate(paths):
        progress(position, len(paths), "files checked")
        fetch(lake.root, [path], again=True)
        if damaged_files([path]) or (digest_in_name(path) is None and not _is_readable(path)):
            damaged.append(str(path.relative_to(tables)))
        if path.exists():
            size += path.stat().st_size
    progress(len(paths), len(paths), "files checked")
    unknown = sum(digest_in_name(path) is None for path in paths)
    found = {"checked_ns": now_ns(), "files": len(paths), "bytes": size, "damaged": damaged, "without_digest": unknown}
    with suppress(OSError, UnsafePlace):  # a lake that this user may only read
        layout.lake_directory(lake.root).close()
        write_whole(lake.root / "checked.json", json.dumps(found).encode(), 0o644)
    return found


def last_check(root: Path) -> dict[str, Any] | None:
    """What the last `check_lake` returned; None where there was none, or its file is damaged."""
    try:
        found: dict[str, Any] = json.loads((root / "checked.json").read_text(encoding="utf-8"))
        return found if {"checked_ns", "files", "damaged"} <= found.keys() else None
    except (OSError, ValueError, AttributeError):
        return None


def _is_readable(path: Path) -> bool:
    """Whether DuckDB reads every row of the file."""
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
    layout.lake_directory(lake.root).close()
    ranges: list[tuple[str, str]] = []
    for name in sorted({relative.split("/", 1)[0] for relative in damaged}):
        files = [relative for relative in damaged if relative.startswith(f"{name}/")]
        ranges += retry_conflicts(TABLES[name], partial(_remove_files, root, name, files))
        for relative in files:
            aside = lake.root / "damaged" / relative
            make_directories(aside.parent, lake.root)
            if (root / relative).exists():
                (root / relative).rename(aside)
    if not ranges:
        return []
    meets = " OR ".join(f"id BETWEEN {literal(low)} AND {literal(high)}" for low, high in ranges)
    with lake.snapshot() as snapshot:
        ids = "SELECT path, unnest(string_split(rows_ingest_ids, ',')) AS id FROM ingests"
        found = snapshot.query(f"SELECT DISTINCT path FROM ({ids}) WHERE {meets} ORDER BY 1").fetchall()
    return [path for (path,) in found]


def _remove_files(root: Path, name: str, files: Sequence[str]) -> list[tuple[str, str]]:
    """Take the files out of the table. Returns the least and the greatest `ingest_id` of each."""
    table = open_table(root, TABLES[name])
    assert table is not None
    held, names = table.describe_files("path", "min.ingest_id", "max.ingest_id"), {Path(file).name for file in files}
    table.replace_files([str(root / relative) for relative in files], [])
    return [(low, high) for path, low, high in held if path.rsplit("/", 1)[1] in names and low is not None]


# Removing the rows of a file


def find_file(lake: Lake, name: str) -> tuple[dict[str, str], dict[str, int], tuple[str, ...]]:
    """What came in together with the file of this path or digest: files (path to digest), number of rows by table, and
    the ids of their ingests."""
    with lake.snapshot() as snapshot:
        wanted = f"path = {literal(str(Path(name).absolute()))} OR digest = {literal(name)}"
        # Every entry, not the newest alone: a file that was read again brought its rows the first time.
        entries = snapshot.pinned["ingests"].scan()
        newest = f"SELECT digest FROM ({entries}) WHERE {wanted} ORDER BY ingested_ns DESC LIMIT 1"
        found = snapshot.bare.execute(
            f"SELECT string_agg(rows_ingest_ids, ',') FROM ({entries}) WHERE digest = ({newest}) GROUP BY digest"
        ).fetchall()
        if not found:
            raise UsageError(f"The lake has no file {name}.", hint="Use the path from ingestion, or the digest.")
        if found[0][0] is None:
            raise LakeError(
                f"The rows of {name} are not recorded. The file has no rows, or an older ioweather ingested it.",
                hint="Ingest it again with `ioweather ingest --again`, or create a new lake.",
            )
        ids = tuple(found[0][0].split(","))
        together = f"list_has_any(string_split(rows_ingest_ids, ','), [{literals(ids)}])"
        files = snapshot.bare.execute(f"SELECT path, digest FROM ({entries}) WHERE {together} ORDER BY path").fetchall()
        rows = {}
        for table, pinned in snapshot.pinned.items():
            if pinned.uris and table != "ingests":
                counted = f"SELECT count(*) FROM ({pinned.scan()}) WHERE ingest_id IN ({literals(ids)})"
                if count := snapshot.bare.execute(counted).fetchall()[0][0]:
                    rows[table] = int(count)
    return dict(files), rows, ids


def forget_file(lake: Lake, files: Mapping[str, str], rows: Mapping[str, int], ingest_ids: Collection[str]) -> None:
    """Remove what `find_file` found: rows first, then the ledger entries."""
    if rolled := [table for table in _ROLLED_UP if table in rows]:
        raise LakeError(f"Cannot remove rows of {rolled[0]}, because daily sums already include them.")
    layout.lake_directory(lake.root).close()
    for table in rows:
        _remove_rows(lake, table, f"ingest_id IN ({literals(ingest_ids)})")
    _remove_rows(lake, "ingests", f"digest IN ({literals(files.values())})")


def forget_runs(lake: Lake, digests: Collection[str]) -> None:
    """Remove the rows of these runs; their files stay in the ledger. `applications` is changed last, because it says
    that a run is stored."""
    if digests:
        named = [name for name, spec in TABLES.items() if "log_digest" in spec.names]
        for name in sorted(named, key=lambda name: name == "applications"):
            _remove_rows(lake, name, f"log_digest IN ({literals(digests)})")


def _remove_rows(lake: Lake, name: str, condition: str) -> None:
    delete_rows(layout.tables_dir(lake.root), TABLES[name], condition)
