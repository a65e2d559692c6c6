"""Maintenance of a lake: sealing closed days, retention, removing a file's rows, and vacuum.

A sealed day is one Parquet file per table, sorted and without duplicates. For `series` a seal is written too: which
groups the day has and their components, so that inventories need no scan; and their sums.

Files that came in together share their rows' `ingest_id`, and are removed together. Rows are removed first and the
ledger entry last: an interrupted removal is completed by running it again.
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import duckdb

from ioweather.core.clock import day_start_ns, now_ns, utc_day
from ioweather.core.errors import LakeError, UsageError
from ioweather.core.facility import Facility
from ioweather.core.progress import Progress, silent
from ioweather.core.safe_files import make_directories, write_whole
from ioweather.core.tables import TABLES, TableSpec
from ioweather.core.units import DAY_NS, HOUR_NS, MINUTE_NS
from ioweather.lake import layout
from ioweather.lake.appends import delete_rows, not_written, rewrite_day
from ioweather.lake.database import WRITER_MEMORY, connection, literal, quote
from ioweather.lake.delta_tables import Table, TableFault, newest_files, open_table
from ioweather.lake.inventory import IS_MINUTE, find_totals, group_rows, numbered_rows, seal_file, seal_of, write_totals
from ioweather.lake.lake import Lake
from ioweather.lake.table_files import ONE_PER_KEY, TableFiles, is_one_per_key, require_undamaged

# Readers keep files open and versions pinned; removing files younger than this has broken a concurrent reader.
_LEAST_VACUUM_HOURS = 24
# Other tables are computed from their rows, and would keep what those brought.
_ROLLED_UP = ("responses", "scan_entries")
_SEAL_AGAIN_SECONDS = 3600.0


@dataclass(frozen=True)
class Sealed:
    table: str
    day: str
    files_before: int
    rows_before: int
    rows: int


def compact(
    lake: Lake, *, through_day: str | None = None, everything: bool = False, progress: Progress = silent
) -> list[Sealed]:
    """Seal every closed UTC day that is not sealed yet (with `everything`, today too)."""
    last = through_day or utc_day(now_ns() - 24 * HOUR_NS)
    done: list[Sealed] = []
    for name, spec in TABLES.items():
        table = open_table(layout.tables_dir(lake.root), spec)
        if table is None:
            continue
        if unknown := table.unknown_columns:
            raise LakeError(
                f"`{name}` has the column {min(unknown)}, which this software does not know: sealing would drop it.",
                hint="Upgrade ioweather.",
                kind="LakeVersionError",
            )
        days = table.files().days()
        totals = find_totals(lake.root, "hours", days) if name == "series" else {}
        for day, uris in sorted(days.items()):
            if name == "series" and _is_sealed(lake.root, spec, day, uris) and day not in totals:
                progress(len(done), None, f"adding up {day}")  # sealed by an earlier version
                write_seal_of_day(lake.root, spec, day, uris)
            elif (day <= last or everything) and not _is_sealed(lake.root, spec, day, uris):
                progress(len(done), None, f"sealing {name} {day}")
                sealed = _seal_day(lake.root, spec, day)
                if sealed is not None:
                    done.append(sealed)
    return done


def seal_new_days(lake: Lake, since_ns: int) -> list[Sealed]:
    """Seal closed days of `series` from this time on, so that a lake that was only ingested answers as fast as one that
    is tended. A day that late rows keep coming for is sealed again an hour after the last time at the earliest."""
    spec = TABLES["series"]
    table = open_table(layout.tables_dir(lake.root), spec)
    if table is None or table.unknown_columns:
        return []
    first, last = utc_day(max(since_ns, 0)), utc_day(now_ns() - DAY_NS)
    days = [(day, uris) for day, uris in sorted(table.files().days().items()) if first <= day <= last]
    wanted = (day for day, uris in days if not _is_sealed(lake.root, spec, day, uris))
    done = (_seal_day(lake.root, spec, day) for day in wanted if not _was_sealed_lately(lake.root, day))
    return [sealed for sealed in done if sealed is not None]


def _was_sealed_lately(root: Path, day: str) -> bool:
    with suppress(FileNotFoundError):
        return time.time() - seal_file(root, day).stat().st_mtime < _SEAL_AGAIN_SECONDS
    return False


def _is_sealed(root: Path, spec: TableSpec, day: str, uris: list[str]) -> bool:
    if spec.name == "series":
        return seal_of(root, day, uris) is not None
    return len(uris) == 1 and (spec.keeps_revisions or is_one_per_key(uris[0]))


def _seal_day(root: Path, spec: TableSpec, day: str) -> Sealed | None:
    """Rewrite the current files into one; files that are added in the meantime are sealed the next time."""
    table = Table(layout.tables_dir(root), spec)
    files = table.files()
    uris = files.days().get(day, [])
    require_undamaged(uris)
    con = connection(WRITER_MEMORY)
    try:
        before = con.execute(f"SELECT count(*) FROM ({files.scan({day})})").fetchall()[0][0]
        prefix = "part" if spec.keeps_revisions else ONE_PER_KEY
        done = rewrite_day(con, table, files, day, _sorted_once(files, day), prefix)
        if done is None:  # another sealer was faster
            return None
        target, rows = done
        if spec.name == "series":
            _write_seal(root, con, TableFiles(spec, None, (str(target),)), day)
    except (OSError, TableFault, duckdb.IOException) as error:
        raise not_written(spec.name, error) from None
    finally:
        con.close()
    return Sealed(spec.name, day, len(uris), before, rows)


def write_seal_of_day(root: Path, spec: TableSpec, day: str, uris: list[str]) -> None:
    """Write the seal of a day that is already one file, sorted and without duplicates."""
    con = connection()
    try:
        _write_seal(root, con, TableFiles(spec, None, tuple(uris)), day)
    except OSError as error:
        raise not_written(spec.name, error) from None
    finally:
        con.close()


def _sorted_once(files: TableFiles, day: str) -> str:
    spec = files.spec
    columns = ", ".join(quote(n) for n in (*spec.names, "source", "ingest_id"))
    order = ", ".join(quote(n) for n in spec.order)
    if not spec.keeps_revisions:
        return f"SELECT {columns} FROM ({files.view({day})}) ORDER BY {order}"
    identity = ", ".join(quote(n) for n in ((*spec.key, "ingest_id", "source") if spec.revisable else spec.identity))
    return f"SELECT {columns} FROM (SELECT DISTINCT ON ({identity}) * FROM ({files.scan({day})})) ORDER BY {order}"


def _write_seal(root: Path, con: duckdb.DuckDBPyConnection, sealed: TableFiles, day: str) -> None:
    scan = sealed.scan()
    found = group_rows(con, scan)
    rows = numbered_rows(found, scan)
    names: list[list[str]] = [[] for _ in found]
    for number, component in con.execute(f"SELECT DISTINCT number, component FROM ({rows}) ORDER BY ALL").fetchall():
        names[number].append(component)
    groups = [{"group": asdict(group), "component_names": own} for group, own in zip(found, names, strict=True)]
    files = [uri.rsplit("/", 1)[1] for uri in sealed.uris]
    body = {"day": day, "files": files, "groups": groups}
    folder = layout.seals_dir(root)
    make_directories(folder, root)
    write_totals(con, root, day, files, rows)
    write_whole(seal_file(root, day), json.dumps(body).encode(), 0o644)


def apply_retention(lake: Lake, facility: Facility, *, dry_run: bool = False) -> dict[str, int]:
    """Drop whole days of raw samples, operations of jobs and responses past their time, then files no version needs."""
    now = now_ns()
    dropped = {
        "series": _drop_rows(
            lake.root,
            "series",
            now - facility.retention_ns["raw_series"],
            f"interval_ns < {MINUTE_NS}",
            dry_run,
            keep_if_only=True,
        ),
        "job_operations": _drop_rows(
            lake.root, "job_operations", now - facility.retention_ns["raw_series"], "TRUE", dry_run
        ),
        "responses": _drop_rows(lake.root, "responses", now - facility.retention_ns["responses"], "TRUE", dry_run),
    }
    dropped["files"] = vacuum(lake, facility, dry_run=dry_run)
    return dropped


def _drop_rows(
    root: Path, name: str, before_ns: int, condition: str, dry_run: bool, *, keep_if_only: bool = False
) -> int:
    """Rows of days that ended before `before_ns`. With `keep_if_only`, raw samples go only where minutes remain."""
    table = open_table(layout.tables_dir(root), TABLES[name])
    if table is None:
        return 0
    files = table.files()
    con = connection()
    total = 0
    try:
        for day in sorted(day for day in files.days() if day_start_ns(day) + 24 * HOUR_NS <= before_ns):
            found = f"day = {literal(day)} AND ({condition})"
            if keep_if_only:
                for source, system, kind, metric in con.execute(_reduced_sql(files.scan({day}), condition)).fetchall():
                    same = (
                        f"{found} AND source = {literal(source)} AND system = {literal(system)} "
                        f"AND component_kind = {literal(kind)} AND metric = {literal(metric)}"
                    )
                    total += _delete(root, con, files, day, same, dry_run)
            else:
                total += _delete(root, con, files, day, found, dry_run)
    finally:
        con.close()
    return total


def _reduced_sql(scan: str, condition: str) -> str:
    """Series whose raw rows are all covered by stored minutes. A row without one is the only record of its time: iostat
    prints 59 s as well as 60 s, and an interval may have been changed at noon."""
    series = "source, system, component_kind, metric"
    return f"""SELECT {series}
        FROM (SELECT *, start_ns - start_ns % {MINUTE_NS} AS minute_ns FROM ({scan}) WHERE {condition}) r
        LEFT JOIN (SELECT DISTINCT {series}, component, start_ns AS minute_ns, TRUE AS held
            FROM ({scan}) WHERE {IS_MINUTE}) m
        USING ({series}, component, minute_ns)
        GROUP BY ALL HAVING bool_and(held IS TRUE AND r.start_ns + r.interval_ns <= minute_ns + {MINUTE_NS})"""


def _delete(
    root: Path, con: duckdb.DuckDBPyConnection, files: TableFiles, day: str, condition: str, dry_run: bool
) -> int:
    count: int = con.execute(f"SELECT count(*) FROM ({files.scan({day})}) WHERE {condition}").fetchall()[0][0]
    if count and not dry_run:
        delete_rows(layout.tables_dir(root), files.spec, condition)
    return count


def vacuum(lake: Lake, facility: Facility, *, dry_run: bool = False) -> int:
    """Remove files that no version within the retention needs; exhibits older than that say so when asked for again."""
    hours = max(_LEAST_VACUUM_HOURS, facility.retention_ns["versions"] // HOUR_NS)
    removed = 0
    for spec in TABLES.values():
        table = open_table(layout.tables_dir(lake.root), spec)
        if table is not None:
            removed += table.vacuum(hours, dry_run=dry_run)
    days = newest_files(layout.tables_dir(lake.root), TABLES["series"]).days()
    if not dry_run and layout.seals_dir(lake.root).is_dir():
        current = {*find_totals(lake.root, "steps", days).values(), *find_totals(lake.root, "hours", days).values()}
        for path in layout.seals_dir(lake.root).iterdir():
            # Totals of an earlier version (.npz), or of files that the day had before, which readers may still use.
            is_old = path.suffix != ".json" and path not in current and _is_older_than_a_day(path)
            if path.name[:10] not in days or is_old:
                path.unlink()
    return removed


def _is_older_than_a_day(path: Path) -> bool:
    return path.stat().st_mtime < time.time() - 86_400


# Removing the rows of a file


@dataclass(frozen=True)
class Forgettable:
    """What would be removed: files (path to digest) and rows per table."""

    files: dict[str, str]
    rows: dict[str, int]
    ingest_ids: tuple[str, ...]


def find_file(lake: Lake, name: str) -> Forgettable:
    """Files and rows that came in with the file of this path or digest."""
    with lake.snapshot() as snapshot:
        wanted = f"path = {literal(str(Path(name).absolute()))} OR digest = {literal(name)}"
        # Every entry, not the newest alone: a file that was read again brought its rows the first time.
        entries = snapshot.pinned["ingests"].scan()
        newest = f"SELECT digest FROM ({entries}) WHERE {wanted} ORDER BY ingested_ns DESC LIMIT 1"
        found = snapshot.bare.execute(
            f"SELECT string_agg(rows_ingest_ids, ',') FROM ({entries}) WHERE digest = ({newest}) GROUP BY digest"
        ).fetchall()
        if not found:
            raise UsageError(f"The lake has read no file {name}.", hint="Name it as it was ingested, or by its digest.")
        if found[0][0] is None:
            raise LakeError(
                f"Which rows {name} brought was not noted: it brought none, or came in by an older ioweather.",
                hint="Read it again with `ioweather ingest --again`, or make a new lake.",
            )
        ids = tuple(found[0][0].split(","))
        together = f"list_has_any(string_split(rows_ingest_ids, ','), [{_listed(ids)}])"
        files = dict(
            snapshot.bare.execute(f"SELECT path, digest FROM ({entries}) WHERE {together} ORDER BY path").fetchall()
        )
        rows = {}
        for table, pinned in snapshot.pinned.items():
            if pinned.uris and table != "ingests":
                counted = f"SELECT count(*) FROM ({pinned.scan()}) WHERE ingest_id IN ({_listed(ids)})"
                if count := snapshot.bare.execute(counted).fetchall()[0][0]:
                    rows[table] = int(count)
    return Forgettable(files, rows, ids)


def forget_file(lake: Lake, found: Forgettable) -> None:
    if rolled := [table for table in _ROLLED_UP if table in found.rows]:
        raise LakeError(f"Rows of {rolled[0]} cannot be taken back: sums were made of them.")
    layout.lake_directory(lake.root).close()
    for table in found.rows:
        _remove_rows(lake, table, f"ingest_id IN ({_listed(found.ingest_ids)})")
    _remove_rows(lake, "ingests", f"digest IN ({_listed(found.files.values())})")


def forget_runs(lake: Lake, digests: Collection[str]) -> None:
    """Remove the rows of these runs; their files stay in the ledger. `applications` is changed last, because it says
    that a run is stored."""
    if digests:
        named = [name for name, spec in TABLES.items() if "log_digest" in spec.names]
        for name in sorted(named, key=lambda name: name == "applications"):
            _remove_rows(lake, name, f"log_digest IN ({_listed(digests)})")


def _remove_rows(lake: Lake, name: str, condition: str) -> None:
    delete_rows(layout.tables_dir(lake.root), TABLES[name], condition)


def _listed(texts: Collection[str]) -> str:
    return ", ".join(literal(text) for text in texts)
