"""Delta tables of the lake: versions, files, the SQL that reads them, and the commits that change them.

Besides `object_store`, no other module uses the Delta library. Another format (Iceberg, DuckLake) would be another
module with these names, two errors of the library among them: `DeltaError`, and `CommitFailedError` where another
writer committed first, and nothing was committed.

Table files never change. The name of each ends with the digest of its content, so that damage can be found.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

from deltalake import CommitProperties, DeltaTable, Field, Schema, Transaction
from deltalake.exceptions import CommitFailedError as CommitFailedError
from deltalake.exceptions import DeltaError as DeltaError
from deltalake.exceptions import TableNotFoundError
from deltalake.schema import PrimitiveType
from deltalake.transaction import AddAction as AddAction
from deltalake.transaction import RemoveAction

from ioweather.core.errors import LakeError
from ioweather.core.safe_files import make_directories, sync_to_disk
from ioweather.core.tables import LAKE_COLUMNS, TABLES, TableSpec
from ioweather.lake.database import SQL_TYPES, literal, literals, quote
from ioweather.lake.object_store import OPTIONS, fetch, remove, store_of, upload

ONE_PER_KEY: Final = "once"
_COMMIT: Final = re.compile(r"(\d{20})\.(json$|checkpoint\.)")
_TYPES: Final = {"int64": "long", "float64": "double", "text": "string", "bool": "boolean"}
# Opening a table replays the commits since its last checkpoint and lists the whole log, including removed files that
# are within their retention. With the library's defaults (100 commits, 30 days, 7 days) a busy table opens slowly.
_SETTINGS: Final = {
    "delta.checkpointInterval": "20",
    "delta.logRetentionDuration": "interval 1 hours",
    "delta.deletedFileRetentionDuration": "interval 2 days",
}


class TableFiles(NamedTuple):
    """A table at one version, and its Parquet files."""

    spec: TableSpec
    version: int | None
    uris: tuple[str, ...]

    def days(self) -> dict[str, list[str]]:
        """Files by day."""
        found: dict[str, list[str]] = {}
        for uri in self.uris:
            found.setdefault(_day_of(uri), []).append(uri)
        return found

    def with_names(self, names: Collection[str]) -> TableFiles:
        """The files with these names (without directories)."""
        return self._replace(uris=tuple(uri for uri in self.uris if uri.rsplit("/", 1)[1] in names))

    def scan(self, days: Collection[str] | None = None, columns: Collection[str] = ()) -> str:
        """SELECT over the files (of some days), with columns that older files lack as null. Name `columns` of a wide
        table if few are needed: each column takes DuckDB time before it reads a row."""
        uris = self.uris if days is None else [uri for uri in self.uris if _day_of(uri) in days]
        known = [*((c.name, SQL_TYPES[c.type]) for c in self.spec.columns), *((n, "VARCHAR") for n in LAKE_COLUMNS)]
        wanted = [(name, kind) for name, kind in known if not columns or name in columns or name == self.spec.time]
        nothing = f"SELECT {', '.join(f'NULL::{kind} AS {quote(name)}' for name, kind in wanted)} WHERE FALSE"
        if not uris:
            return nothing
        picked = f"COLUMNS('^({'|'.join(name for name, _ in wanted)})$')" if columns else "*"
        # union_by_name: without it a column added later is silently dropped, depending on the order of files. Where
        # none of these files has it, the empty table does.
        files = f"{nothing} UNION ALL BY NAME SELECT {picked} FROM {_parquet(uris)}"
        return f"SELECT {', '.join(quote(name) for name, _ in wanted)} FROM ({files})"

    def select_files_with(self, condition: str) -> str:
        """SELECT of the files that have a row `s` for which the condition is true."""
        return f"SELECT DISTINCT filename FROM {_parquet(self.uris, 'filename=true')} s WHERE {condition}"

    def view(self, days: Collection[str] | None = None, columns: Collection[str] = ()) -> str:
        """The visible rows: the newest revision per key, and none if that one withdraws the row."""
        spec = self.spec
        if not spec.revisable:
            return self.scan(days, columns)
        wanted = {*columns, *spec.key, *spec.revision, "ingest_id", "withdrawn"} if columns else ()
        chosen = {day: uris for day, uris in self.days().items() if days is None or day in days}
        # Days with one row per key need no search for the newest.
        sealed = {day for day, uris in chosen.items() if len(uris) == 1 and is_one_per_key(uris[0])}
        if spec.keeps_revisions or spec.time not in spec.key or not sealed:
            return newest_rows(spec, self.scan(days, wanted))
        rest = newest_rows(spec, self.scan(set(chosen) - sealed, wanted))
        return f"{self.scan(sealed, wanted)} UNION ALL ({rest})"


def newest_rows(spec: TableSpec, rows: str) -> str:
    """SELECT of the newest revision per key among these rows.

    Rows without an origin get that of rows with the same key otherwise, where these have only one."""
    if spec.placeholder is not None:
        column, unknown = quote(spec.placeholder[0]), literal(spec.placeholder[1])
        rest = ", ".join(quote(name) for name in spec.key if name != spec.placeholder[0])
        named = f"nullif({column}, {unknown})"
        only = (
            f"CASE WHEN min({named}) OVER same = max({named}) OVER same THEN min({named}) OVER same ELSE {column} END"
        )
        rows = f"SELECT * REPLACE ({only} AS {column}) FROM ({rows}) WINDOW same AS (PARTITION BY {rest})"
    key = ", ".join(quote(name) for name in spec.key)
    valid = " AND withdrawn IS NOT TRUE" if "withdrawn" in spec.names else ""
    ranked = f"row_number() OVER (PARTITION BY {key} ORDER BY {newest_first(spec, 'ingest_id')})"
    return f"SELECT * FROM ({rows}) QUALIFY {ranked} = 1{valid}"


def newest_first(spec: TableSpec, arrival: str) -> str:
    """The order of revisions of a row: by their revision columns, then by arrival."""
    return ", ".join([*(f"{quote(name)} DESC NULLS LAST" for name in spec.revision), f"{arrival} DESC"])


def data_file(path: str, size: int, day: str, statistics: Mapping[str, Any]) -> AddAction:
    """A Parquet file on disk with rows of one day, which readers see once a commit names it. `path` is relative to the
    table; the statistics are those of Delta's log: numRecords, minValues, maxValues, nullCount."""
    return AddAction(path, size, {"day": day}, int(time.time() * 1000), True, json.dumps(statistics))


def is_one_per_key(uri: str) -> bool:
    """Whether a sealed file has each key once: its name says so."""
    return uri.rsplit("/", 1)[1].startswith(ONE_PER_KEY)


def _parquet(uris: Iterable[str], *options: str) -> str:
    """SQL of a table function that reads these files."""
    uris = [*uris]
    if uris:
        root = Path(uris[0].rsplit("/", 4)[0])
        fetch(root, uris)
    named = ("union_by_name=true", "hive_partitioning=true", "hive_types={'day': 'VARCHAR'}", *options)
    return f"read_parquet([{literals(uris)}], {', '.join(named)})"


def _day_of(uri: str) -> str:
    """The day (UTC, YYYY-MM-DD) of a file, from its partition."""
    return uri.rsplit("day=", 1)[1].split("/", 1)[0]


# Versions


def pin_tables(root: Path, names: Sequence[str]) -> Mapping[str, TableFiles]:
    """Tables at their versions of this moment. The files of a table are listed at its first use."""
    return _PinnedTables(root, names)


class _PinnedTables(Mapping[str, TableFiles]):
    def __init__(self, root: Path, names: Sequence[str]) -> None:
        self._root = root
        self._known: dict[str, TableFiles] = {}
        if store_of(root.parent) is not None:  # to ask for a version there is to open the table: all at once
            with ThreadPoolExecutor(len(names)) as threads:
                first = _files_now(root, names[0])
                found = [first, *threads.map(partial(_files_now, root), names[1:])]
            self._known = dict(zip(names, found, strict=True))
            self._versions = {name: files.version for name, files in self._known.items()}
            return
        self._versions = {name: newest_version(root, TABLES[name]) for name in names}

    def __getitem__(self, name: str) -> TableFiles:
        if name not in self._known:
            self._known[name] = files_in(self._root, TABLES[name], self._versions[name])
        return self._known[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._versions)

    def __len__(self) -> int:
        return len(self._versions)


def _files_now(root: Path, name: str) -> TableFiles:
    table = open_table(root, TABLES[name])
    return TableFiles(TABLES[name], None, ()) if table is None else table.files()


def newest_version(root: Path, spec: TableSpec) -> int | None:
    """Newest version, from the names of commits and checkpoints, which appear whole. None where there is no table."""
    if store_of(root.parent) is not None:
        return _files_now(root, spec.name).version
    try:
        names = os.listdir(root / spec.name / "_delta_log")  # noqa: PTH208 - names alone, of hundreds
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _not_opened(spec, error) from None
    return max((int(found[1]) for name in names if (found := _COMMIT.match(name))), default=None)


def newest_files(root: Path, spec: TableSpec) -> TableFiles:
    """The files of the table's newest version."""
    return files_in(root, spec, newest_version(root, spec))


def files_in(root: Path, spec: TableSpec, version: int | None) -> TableFiles:
    """The files of the table at this version; none where it is None."""
    if version is None:
        return TableFiles(spec, None, ())
    with suppress(FileNotFoundError):
        return _list_files(root, spec.name, version, (root.parent / "lake.json").stat().st_mtime_ns)
    return _open(root, spec, version).files()


@lru_cache(maxsize=64)
def _list_files(root: Path, name: str, version: int, _created_ns: int) -> TableFiles:
    """The files of a version. Cached for servers: a version of the same lake never changes."""
    return _open(root, TABLES[name], version).files()


def open_table(root: Path, spec: TableSpec) -> Table | None:
    """Open the newest version. None where there is no such table yet."""
    if store_of(root.parent) is not None:
        with suppress(TableNotFoundError):
            return _open(root, spec)
        return None
    return None if newest_version(root, spec) is None else _open(root, spec)


def _open(root: Path, spec: TableSpec, version: int | None = None) -> Table:
    try:
        return Table(root, spec, version)
    except TableNotFoundError:
        raise
    except (OSError, DeltaError) as error:
        raise _not_opened(spec, error) from None


def _not_opened(spec: TableSpec, error: Exception) -> LakeError:
    return LakeError(f"Cannot open `{spec.name}`: {error}.", hint="Check the disk and its permissions.")


def commits_until(folder: Path, version: int) -> list[Path]:
    """Commits and checkpoints of a table up to a version, in order, without temporary files."""
    paths = sorted((folder / "_delta_log").iterdir())
    return [path for path in paths if (name := _COMMIT.match(path.name)) and int(name[1]) <= version]


# Commits


def make_table(root: Path, spec: TableSpec) -> Table:
    """Create the table, or open the one that is there."""
    log = root / spec.name / "_delta_log"
    make_directories(log, root.parent)
    try:
        address, options = _address(root, spec)
        DeltaTable.create(
            address,
            Schema(_fields(spec)),
            mode="ignore",
            partition_by=["day"],
            name=spec.name,
            configuration=_SETTINGS,
            storage_options=options,
        )
    except DeltaError:
        table = open_table(root, spec)  # another writer created it, or it cannot be created
        if table is None:
            raise
        return table
    with suppress(FileNotFoundError, PermissionError):  # another writer's table
        sync_to_disk(log / f"{0:020d}.json", 0o444)
    return Table(root, spec)


def _fields(spec: TableSpec) -> list[Field]:
    """The columns of the table as the Delta library wants them."""
    columns = [*((c.name, _TYPES[c.type]) for c in spec.columns), *((n, "string") for n in LAKE_COLUMNS)]
    return [Field(name, PrimitiveType(kind), nullable=True) for name, kind in columns]


def _address(root: Path, spec: TableSpec) -> tuple[str, dict[str, str] | None]:
    """Where the library finds a table, and its options; None for a directory."""
    store = store_of(root.parent)
    return (str(root / spec.name), None) if store is None else (f"{store}/tables/{spec.name}", OPTIONS)


class Table:
    """A table open for changes. A change is on disk when its method returns: the library does not sync."""

    def __init__(self, root: Path, spec: TableSpec, version: int | None = None) -> None:
        self.folder = root / spec.name
        self.spec = spec
        address, options = _address(root, spec)
        self._is_remote = options is not None
        self._delta = DeltaTable(address, version=version, storage_options=options)

    @property
    def unknown_columns(self) -> set[str]:
        """Columns that a newer version of this software wrote."""
        return self._columns() - {*self.spec.names, *LAKE_COLUMNS}

    def _columns(self) -> set[str]:
        return {field.name for field in self._delta.schema().fields}

    def describe_files(self, *columns: str) -> list[tuple[Any, ...]]:
        """These columns of each file (path, num_records, partition.day, min.NAME, max.NAME); None where unknown."""
        held = self._delta.get_add_actions(flatten=True)
        nothing = [None] * held.num_rows
        known = {*held.schema.names}
        return [*zip(*(held[name].to_pylist() if name in known else nothing for name in columns), strict=True)]

    def files(self) -> TableFiles:
        """The files of this version, from the paths in the log. The library's own URIs write a space in them as %20."""
        place = self.folder.resolve()
        uris = tuple(sorted(f"{place}/{unquote(path)}" for (path,) in self.describe_files("path")))
        return TableFiles(self.spec, self._delta.version(), uris)

    def files_near(self, days: Collection[str], low_ns: int, high_ns: int) -> TableFiles:
        """The files of these days that may have rows of this time."""
        time = self.spec.time
        near = {
            path.rsplit("/", 1)[1]
            for path, day, least, most in self.describe_files("path", "partition.day", f"min.{time}", f"max.{time}")
            if day in days and (least is None or least <= high_ns) and (most is None or most >= low_ns)
        }
        return self.files().with_names(near)

    def add(self, files: Sequence[AddAction], streams: Collection[str]) -> None:
        """Add new rows. Raises CommitFailedError where another writer added rows of one of the streams since this table
        was opened."""
        known, now = self._columns(), int(time.time() * 1000)
        # Before columns are added: that brings the table to its newest version.
        transactions = [
            Transaction(stream, (self._delta.transaction_version(stream) or 0) + 1, now) for stream in sorted(streams)
        ]
        with self._on_disk(files):
            if new := [field for field in _fields(self.spec) if field.name not in known]:
                self._delta.alter.add_columns(new)
            self._write(files, [], CommitProperties(app_transactions=transactions))

    def replace_files(self, uris: Collection[str], files: Sequence[AddAction]) -> None:
        """Replace these files, of any days, by others. Raises CommitFailedError where one is not in the table any more.

        Not by the library's `optimize.compact`: when two run at the same time on the same files both are accepted, and
        every row is there twice (deltalake 1.6). A removal must therefore be marked as a change of data.
        """
        with self._on_disk(files):
            self._write(files, uris, None)

    def _write(self, files: Sequence[AddAction], gone: Collection[str], properties: CommitProperties | None) -> None:
        """Commit new files, in place of the files that are gone."""
        now = int(time.time() * 1000)
        upload(self.folder.parent.parent, (self.folder / file.path for file in files))
        actions: list[Any] = [replace(file, data_change=not gone) for file in files]
        for day, name in sorted((_day_of(uri), uri.rsplit("/", 1)[1]) for uri in gone):
            actions.append(RemoveAction(f"day={day}/{name}", True, now, None, {"day": day}))
        self._delta.create_write_transaction(
            actions,
            mode="append",
            schema=self._delta.schema(),
            partition_by=["day"],
            commit_properties=properties,
        )
        self._delta.update_incremental()

    def vacuum(self, hours: int, *, dry_run: bool) -> int:
        """Remove files that no version of the last hours needs, including files that were never committed because their
        writer was killed; returns how many."""
        removed = self._delta.vacuum(hours, dry_run, enforce_retention_duration=False, full=True)
        if not dry_run:
            self._delta.cleanup_metadata()
            if not _SETTINGS.items() <= self._delta.metadata().configuration.items():  # made by an earlier version
                with suppress(CommitFailedError), self._on_disk():  # another writer was first: set them the next time
                    self._delta.alter.set_table_properties(_SETTINGS)
            if self._is_remote:  # copies of files that the table no longer has
                current, oldest = {*self.files().uris}, time.time() - hours * 3600
                for path in self.folder.rglob("*.parquet"):
                    if str(path) not in current and path.stat().st_mtime < oldest:
                        path.unlink()
        return len(removed)

    @contextmanager
    def _on_disk(self, files: Sequence[AddAction] = ()) -> Iterator[None]:
        """Sync the commits and checkpoints that are made within; their data files were synced before. Remove the data
        files of a commit that is refused. After any other error they stay: the commit may have been made."""
        before, log = self._delta.version(), self.folder / "_delta_log"
        try:
            yield
        except CommitFailedError:
            for file in files:
                (self.folder / file.path).unlink(missing_ok=True)
            remove(self.folder.parent.parent, (self.folder / file.path for file in files))
            raise
        if self._is_remote:  # a put is on disk when it returns
            return
        for version in range(before + 1, self._delta.version() + 1):
            with suppress(FileNotFoundError, PermissionError):  # another writer's, or no checkpoint
                sync_to_disk(log / f"{version:020d}.json", 0o444)
                sync_to_disk(log / f"{version:020d}.checkpoint.parquet", 0o444)
                sync_to_disk(log / "_last_checkpoint", 0o644)
        for directory in (self.folder, log):
            sync_to_disk(directory)
