"""Delta tables of the lake: their versions, their files, and the commits that change them.

No other module uses the Delta library. Another format (Iceberg, DuckLake) would be another module with these names.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

from deltalake import CommitProperties, DeltaTable, Field, Schema, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.schema import PrimitiveType
from deltalake.transaction import AddAction, RemoveAction

from ioweather.core.errors import LakeError
from ioweather.core.safe_files import make_directories, sync_to_disk, write_whole
from ioweather.core.tables import LAKE_COLUMNS, TABLES, TableSpec
from ioweather.lake.table_files import DataFile, TableFiles, day_of_uri

LAST_CHECKPOINT: Final = "_last_checkpoint"
_COMMIT: Final = re.compile(r"(\d{20})\.(json$|checkpoint\.)")
_TYPES: Final = {"int64": "long", "float64": "double", "text": "string", "bool": "boolean"}
# Opening a table replays the commits since its last checkpoint and lists the whole log, including removed files that
# are within their retention. With the library's defaults (100 commits, 30 days, 7 days) a busy table opens slowly.
_SETTINGS: Final = {
    "delta.checkpointInterval": "20",
    "delta.logRetentionDuration": "interval 1 hours",
    "delta.deletedFileRetentionDuration": "interval 2 days",
}


class TableFault(Exception):
    """The Delta library failed."""


class Refused(TableFault):
    """Another writer committed first; nothing was committed."""


class PinnedTables(Mapping[str, TableFiles]):
    """Tables at their versions of one moment. The files of a table are listed at its first use."""

    def __init__(self, root: Path, names: Sequence[str]) -> None:
        self._root = root
        self._versions = {name: newest_version(root, TABLES[name]) for name in names}
        self._known: dict[str, TableFiles] = {}

    def __getitem__(self, name: str) -> TableFiles:
        if name not in self._known:
            self._known[name] = files_in(self._root, TABLES[name], self._versions[name])
        return self._known[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._versions)

    def __len__(self) -> int:
        return len(self._versions)


def newest_version(root: Path, spec: TableSpec) -> int | None:
    """From the names of commits and checkpoints, which appear complete. None where there is no table."""
    try:
        names = os.listdir(_log_folder(root, spec))  # noqa: PTH208 - names alone, of hundreds
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _not_opened(spec, error) from None
    return max((int(found[1]) for name in names if (found := _COMMIT.match(name))), default=None)


def newest_files(root: Path, spec: TableSpec) -> TableFiles:
    return files_in(root, spec, newest_version(root, spec))


def files_in(root: Path, spec: TableSpec, version: int | None) -> TableFiles:
    if version is None:
        return TableFiles(spec, None, ())
    try:
        with _library():
            opened = DeltaTable(str(root / spec.name), version=version)
            return _files_at(root / spec.name, spec, version, opened.get_add_actions(flatten=True))
    except (OSError, TableFault) as error:
        raise _not_opened(spec, error) from None


def _files_at(folder: Path, spec: TableSpec, version: int, held: Any) -> TableFiles:
    """From the paths in the log. The library's own file URIs write a space in the lake's path as %20."""
    place = folder.resolve()
    return TableFiles(spec, version, tuple(sorted(f"{place}/{unquote(path)}" for path in held["path"].to_pylist())))


def _log_folder(root: Path, spec: TableSpec) -> Path:
    return root / spec.name / "_delta_log"


def commits_until(folder: Path, version: int) -> list[Path]:
    """Commits and checkpoints of a table up to a version, in order, without temporary files."""
    paths = sorted((folder / "_delta_log").iterdir())
    return [path for path in paths if (name := _COMMIT.match(path.name)) and int(name[1]) <= version]


def point_at_checkpoint(folder: Path, version: int) -> None:
    """Make a copied table name the last checkpoint that it has."""
    log = folder / "_delta_log"
    found = [path for path in log.glob("*.checkpoint.parquet") if int(path.name.split(".", 1)[0]) <= version]
    if found:
        hint = {"version": int(max(found).name.split(".", 1)[0]), "size": 0}
        write_whole(log / LAST_CHECKPOINT, json.dumps(hint).encode(), 0o644)
    else:
        (log / LAST_CHECKPOINT).unlink(missing_ok=True)


def _not_opened(spec: TableSpec, error: Exception) -> LakeError:
    return LakeError(f"`{spec.name}` cannot be opened: {error}.", hint="Check the disk and permissions.")


def open_table(root: Path, spec: TableSpec) -> Table | None:
    """Open the newest version. None where there is no such table yet. The library also says so when the disk fails, so
    the log is listed to tell the two cases apart."""
    try:
        try:
            return Table(root, spec)
        except TableNotFoundError:
            if newest_version(root, spec) is None:
                return None
            return Table(root, spec)  # created at this moment, or a passing error
    except (OSError, DeltaError) as error:
        raise _not_opened(spec, error) from None


def make_table(root: Path, spec: TableSpec) -> Table:
    make_directories(_log_folder(root, spec), root.parent)
    try:
        with _library():
            DeltaTable.create(
                str(root / spec.name),
                Schema(_fields(spec)),
                mode="ignore",
                partition_by=["day"],
                name=spec.name,
                configuration=_SETTINGS,
            )
    except TableFault:
        table = open_table(root, spec)  # another writer created it, or it cannot be created
        if table is None:
            raise
        return table
    with suppress(FileNotFoundError, PermissionError):  # another writer's table
        sync_to_disk(_log_folder(root, spec) / f"{0:020d}.json", 0o444)
    return Table(root, spec)


def _fields(spec: TableSpec) -> list[Field]:
    columns = [*((c.name, _TYPES[c.type]) for c in spec.columns), *((n, "string") for n in LAKE_COLUMNS)]
    return [Field(name, PrimitiveType(kind), nullable=True) for name, kind in columns]


@contextmanager
def _library() -> Iterator[None]:
    try:
        yield
    except CommitFailedError as error:
        raise Refused(str(error)) from None
    except DeltaError as error:
        raise TableFault(str(error)) from None
    except BaseException as error:
        if type(error).__name__ == "PanicException":  # of the Rust library; not an Exception
            raise OSError(f"the Delta library failed: {error}") from None
        raise


class Table:
    """A table open for changes. A change is on disk when its method returns: the library does not sync."""

    def __init__(self, root: Path, spec: TableSpec) -> None:
        self.folder = root / spec.name
        self.spec = spec
        self._delta = DeltaTable(str(self.folder))

    @property
    def version(self) -> int:
        return self._delta.version()

    @property
    def unknown_columns(self) -> set[str]:
        """Columns that a newer version of this software wrote."""
        return self._columns() - {*self.spec.names, *LAKE_COLUMNS}

    def _columns(self) -> set[str]:
        return {field.name for field in self._delta.schema().fields}

    def files(self) -> TableFiles:
        return _files_at(self.folder, self.spec, self.version, self.held())

    def held(self) -> Any:
        """An Arrow table of the files: path, num_records, partition.day, and min.* and max.* of each column."""
        return self._delta.get_add_actions(flatten=True)

    def add(self, files: Sequence[DataFile], streams: Collection[str]) -> None:
        """Add new rows. Refused where another writer added rows of one of the streams since this table was opened."""
        known, now = self._columns(), int(time.time() * 1000)
        # Before columns are added: that brings the table to its newest version.
        transactions = [
            Transaction(stream, (self._delta.transaction_version(stream) or 0) + 1, now) for stream in sorted(streams)
        ]
        with self._on_disk():
            if new := [field for field in _fields(self.spec) if field.name not in known]:
                self._delta.alter.add_columns(new)
            self._write(_additions(files, True), CommitProperties(app_transactions=transactions))

    def replace_files(self, uris: Collection[str], files: Sequence[DataFile]) -> None:
        """Replace these files, of any days, by others. Refused where one of them is not in the table any more.

        Not by the library's `optimize.compact`: when two run at the same time on the same files both are accepted, and
        every row is there twice (deltalake 1.6). A removal must therefore be marked as a change of data.
        """
        now = int(time.time() * 1000)
        gone = []
        for day, name in sorted((day_of_uri(uri), uri.rsplit("/", 1)[1]) for uri in uris):
            gone.append(RemoveAction(f"day={day}/{name}", True, now, None, {"day": day}))
        with self._on_disk():
            self._write([*_additions(files, False), *gone])

    def _write(self, actions: Sequence[Any], properties: CommitProperties | None = None) -> None:
        self._delta.create_write_transaction(
            list(actions),
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
                with suppress(Refused), self._on_disk():  # another writer was first: set them the next time
                    self._delta.alter.set_table_properties(_SETTINGS)
        return len(removed)

    @contextmanager
    def _on_disk(self) -> Iterator[None]:
        """Sync the commits and checkpoints that are made within. Their data files were synced before."""
        before, log = self.version, self.folder / "_delta_log"
        with _library():
            yield
        for version in range(before + 1, self.version + 1):
            with suppress(FileNotFoundError, PermissionError):  # another writer's, or no checkpoint
                sync_to_disk(log / f"{version:020d}.json", 0o444)
                sync_to_disk(log / f"{version:020d}.checkpoint.parquet", 0o444)
                sync_to_disk(log / LAST_CHECKPOINT, 0o644)
        for directory in (self.folder, log):
            sync_to_disk(directory)


def _additions(files: Sequence[DataFile], is_change: bool) -> list[AddAction]:
    now = int(time.time() * 1000)
    return [AddAction(f.path, f.size, {"day": f.day}, now, is_change, f.statistics) for f in files]
