"""All that this software knows of Delta: which files a table has at a version, and the commits that change that.
Another format (Iceberg, DuckLake) would be another module with these names.

Who only reads goes by the table's log, as Delta's protocol says: to load Delta's library and to open tables with it
takes longer than many a question does. Who writes opens a table with the library (`open_table`).
"""

from __future__ import annotations

import json
import logging
import os
import re
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from ioweather.core.errors import LakeError
from ioweather.core.whole_files import make_directories, sync_to_disk, write_whole
from ioweather.store.convert import literal
from ioweather.store.database import connection, or_of_duckdb
from ioweather.store.table_files import DataFile, TableFiles, day_of_uri
from ioweather.tables import LAKE_COLUMNS, TABLES, TableSpec

if TYPE_CHECKING:
    from deltalake import DeltaTable, Field

LAST_CHECKPOINT: Final = "_last_checkpoint"
_LOG: Final = logging.getLogger("ioweather.store")
_COMMIT: Final = re.compile(r"(\d{20})\.(json$|checkpoint\.)")
_COMMIT_FILE: Final = re.compile(r"(\d{20})\.(json|checkpoint\.parquet)")
_TYPES: Final = {"int64": "long", "float64": "double", "text": "string", "bool": "boolean"}
# The library cuts texts in its statistics at so many characters: such a one may stand for a greater one.
_CUT_AT: Final = 32
# Names of our own files, with whole texts, on disk before their commit; the library's have a number behind a dash.
_OURS: Final = re.compile(r"[a-z]+-[0-9a-f]{8}-")
# Whoever opens a table reads the commits since its last checkpoint, which takes 0.3 ms each, and lists all that there
# are: 1 ms for each 300, three times for a change. So many are kept, and all of so long, for who has begun to read.
_CHECKPOINT_EVERY: Final = 20
_COMMITS_KEPT: Final = 200
_KEPT_SECONDS: Final = 3600.0
# Whoever opens a table reads of the files that are gone, too: after a week of 10,000 ships a day of 70,000. `vacuum`
# goes by it for so long, and then by the time a file was written.
_SETTINGS: Final = {"delta.deletedFileRetentionDuration": "interval 2 days"}
# Tables by their folder, each with the mark of its newest commit; nobody else has one while it is used.
_LEFT_OPEN: Final[dict[Path, tuple[DeltaTable, tuple[int, ...]]]] = {}


class TableFault(Exception):
    """The library could not do what it was asked."""


class Refused(TableFault):
    """Another writer was faster; nothing was committed."""


class PinnedTables(Mapping[str, TableFiles]):
    """Tables at their versions of one moment. The files of one are listed when they are first asked for."""

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


def changed_ns(root: Path, name: str) -> int:
    """Another one after every commit."""
    try:
        return (root / name / "_delta_log").stat().st_mtime_ns
    except OSError:
        return 0


def newest_version(root: Path, spec: TableSpec) -> int | None:
    """By the names of the commits and checkpoints, which are whole once they are there."""
    return max(_log(root, spec), default=None)


def newest_files(root: Path, spec: TableSpec) -> TableFiles:
    return files_in(root, spec, newest_version(root, spec))


def _log(root: Path, spec: TableSpec) -> dict[int, list[str]]:
    """Names of commits and checkpoints by version."""
    found: dict[int, list[str]] = {}
    try:
        for name in os.listdir(_log_folder(root, spec)):  # noqa: PTH208 - with a Path for each it takes 1.7 times as long
            if _COMMIT.match(name):
                found.setdefault(int(name[:20]), []).append(name)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise _not_opened(spec, error) from None
    return found


def _log_folder(root: Path, spec: TableSpec) -> Path:
    return root / spec.name / "_delta_log"


def files_in(root: Path, spec: TableSpec, version: int | None) -> TableFiles:
    """Of a version: those of the last checkpoint before it, and what commits since added and removed."""
    if version is None:
        return TableFiles(spec, None, ())
    folder, log = _log_folder(root, spec), _log(root, spec)
    checkpoints = {at: [n for n in names if n.endswith(".parquet")] for at, names in log.items() if at <= version}
    first = max((at for at, names in checkpoints.items() if names), default=-1)
    try:
        paths = set(_listed([folder / name for name in checkpoints[first]])) if first >= 0 else set()
        for at in range(first + 1, version + 1):
            for line in (folder / f"{at:020}.json").read_text("utf-8").splitlines():
                action = json.loads(line)
                if "add" in action:
                    paths.add(action["add"]["path"])
                elif "remove" in action:
                    paths.discard(action["remove"]["path"])
    except or_of_duckdb(OSError, ValueError) as error:
        raise _not_opened(spec, error) from None
    return _files_at(root / spec.name, spec, version, paths)


def _files_at(folder: Path, spec: TableSpec, version: int, paths: Collection[str]) -> TableFiles:
    """Paths as they stand in the log. The library's own addresses of files write a space in the lake's path as %20."""
    place = folder.resolve()
    return TableFiles(spec, version, tuple(sorted(f"{place}/{unquote(path)}" for path in paths)))


def _listed(checkpoint: Sequence[Path]) -> list[str]:
    with connection() as con:
        listed = ", ".join(literal(str(path)) for path in checkpoint)
        found = con.execute(f"SELECT add.path FROM read_parquet([{listed}]) WHERE add.path IS NOT NULL").fetchall()
    return [path for (path,) in found]


def commits_until(folder: Path, version: int) -> list[Path]:
    """Commits and checkpoints of a table up to a version, in order; temporary files and later ones are left out."""
    paths = sorted((folder / "_delta_log").iterdir())
    return [path for path in paths if (name := _COMMIT.match(path.name)) and int(name[1]) <= version]


def point_at_checkpoint(folder: Path, version: int) -> None:
    """The library begins to read at the last checkpoint; it is a hint that names one of a copy's."""
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
    """At its newest version. None where there is no such table yet. Delta says so too where the disk fails: a table
    that is there must not look empty for that."""
    from deltalake.exceptions import DeltaError, TableNotFoundError

    try:
        try:
            return Table(root, spec)
        except TableNotFoundError:
            if newest_version(root, spec) is None:
                return None
            return Table(root, spec)  # made at this moment, or an error that has passed
    except (OSError, DeltaError) as error:
        raise _not_opened(spec, error) from None


def make_table(root: Path, spec: TableSpec) -> Table:
    from deltalake import DeltaTable, Schema

    place, schema = str(root / spec.name), Schema(_fields(spec))
    make_directories(_log_folder(root, spec), root.parent)
    try:
        with _library():
            made = DeltaTable.create(
                place, schema, mode="ignore", partition_by=["day"], name=spec.name, configuration=_SETTINGS
            )
    except TableFault:
        table = open_table(root, spec)  # lost the race to make it, or cannot make it
        if table is None:
            raise
        return table
    with suppress(FileNotFoundError, PermissionError):  # another writer's table
        sync_to_disk(_log_folder(root, spec) / f"{0:020d}.json", 0o444)
    return Table(root, spec, made)


def _fields(spec: TableSpec) -> list[Field]:
    from deltalake import Field
    from deltalake.schema import PrimitiveType

    columns = [*((c.name, _TYPES[c.type]) for c in spec.columns), *((n, "string") for n in LAKE_COLUMNS)]
    return [Field(name, PrimitiveType(kind), nullable=True) for name, kind in columns]


@contextmanager
def _library() -> Iterator[None]:
    from deltalake.exceptions import CommitFailedError, DeltaError

    try:
        yield
    except CommitFailedError as error:
        raise Refused(str(error)) from None
    except DeltaError as error:
        raise TableFault(str(error)) from None
    except BaseException as error:
        # A panic of the library is no Exception.
        if type(error).__name__ == "PanicException":
            raise OSError(f"the Delta library failed: {error}") from None
        raise


class Held:
    """The files of a table, and what is known of each without opening it."""

    def __init__(self, listed: Any) -> None:
        self._listed = listed
        self._columns = set(listed.schema.names)
        self.paths: list[str] = listed["path"].to_pylist()
        self.names = [path.rsplit("/", 1)[1] for path in self.paths]
        self.days: list[str] = listed["partition.day"].to_pylist()
        self.rows: list[int] = [rows or 0 for rows in listed["num_records"].to_pylist()]

    def extremes(self, column: str) -> tuple[list[Any], list[Any]]:
        """Least and greatest value in each file; None where it is not known."""
        if not {f"min.{column}", f"max.{column}"} <= self._columns:
            unknown = [None] * len(self.names)
            return unknown, unknown
        most = [
            None if isinstance(value, str) and len(value) >= _CUT_AT and not _OURS.match(name) else value
            for name, value in zip(self.names, self._listed[f"max.{column}"].to_pylist(), strict=True)
        ]
        return self._listed[f"min.{column}"].to_pylist(), most


class Table:
    """A table open for changes. Each is one commit or more, and on disk when the method returns: the library leaves
    that to the kernel, and who shipped the rows deletes his own once they are in."""

    def __init__(self, root: Path, spec: TableSpec, opened: DeltaTable | None = None) -> None:
        self.folder = root / spec.name
        self.spec = spec
        self._delta = opened or _newest(self.folder)

    @property
    def version(self) -> int:
        return self._delta.version()

    @property
    def unknown_columns(self) -> set[str]:
        """Those that a newer version of this software wrote."""
        return self._columns() - {*self.spec.names, *LAKE_COLUMNS}

    def _columns(self) -> set[str]:
        return {field.name for field in self._delta.schema().fields}

    def files(self) -> TableFiles:
        return _files_at(self.folder, self.spec, self.version, self.held().paths)

    def held(self) -> Held:
        return Held(self._delta.get_add_actions(flatten=True))

    def add(self, files: Sequence[DataFile], streams: Collection[str]) -> None:
        """New rows. Refused where another writer committed rows of one of the streams since this table was opened."""
        from deltalake import CommitProperties, Transaction

        known, now = self._columns(), int(time.time() * 1000)
        # Before columns are added, which brings the table to its newest version.
        transactions = [
            Transaction(stream, (self._delta.transaction_version(stream) or 0) + 1, now) for stream in sorted(streams)
        ]
        with self._on_disk():
            if new := [field for field in _fields(self.spec) if field.name not in known]:
                self._delta.alter.add_columns(new)
            self._write(
                self._additions(files, True), "append",
                commit_properties=CommitProperties(app_transactions=transactions),
            )  # fmt: skip

    def replace_day(self, day: str, files: Sequence[DataFile]) -> None:
        """Replace the files that this version has of the day by these, which hold the same rows. Refused where one of
        them is not there any more.

        By explicit actions and not by write_deltalake(mode='overwrite'): that one does not keep the order of rows,
        and would refuse when a writer appended meanwhile. Not by Delta's own `optimize.compact` either: of two that run
        at the same time on the same files both are accepted, and every row is there twice (deltalake 1.6), as with any
        file that is said to go without a change of data.
        """
        with self._on_disk():
            self._write(self._additions(files, False), "overwrite", partition_filters=[("day", "=", day)])

    def replace_files(self, uris: Collection[str], files: Sequence[DataFile]) -> None:
        """Replace these files, of any days, by others. Refused where one of them is not there any more."""
        from deltalake.transaction import RemoveAction

        now = int(time.time() * 1000)
        gone = []
        for day, name in sorted((day_of_uri(uri), uri.rsplit("/", 1)[1]) for uri in uris):
            gone.append(RemoveAction(f"day={day}/{name}", True, now, None, {"day": day}))
        with self._on_disk():
            self._write([*self._additions(files, False), *gone], "append")

    def _additions(self, files: Sequence[DataFile], is_change: bool) -> list[Any]:
        from deltalake.transaction import AddAction

        now = int(time.time() * 1000)
        return [AddAction(f.path, f.size, {"day": f.day}, now, is_change, _statistics(f)) for f in files]

    def _write(self, actions: Sequence[Any], mode: Any, **options: Any) -> None:
        from deltalake import PostCommitHookProperties

        # What is past its time goes with a checkpoint (`_forget_commits`), or once a day (`vacuum`).
        alone = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)
        self._delta.create_write_transaction(
            list(actions), mode=mode, schema=self._delta.schema(), partition_by=["day"],
            post_commithook_properties=alone, **options,
        )  # fmt: skip
        self._delta.update_incremental()

    def vacuum(self, hours: int, *, dry_run: bool) -> int:
        """Remove files that no version of the last hours needs, those too that a worker wrote and nobody committed,
        because the process was killed; returns how many."""
        removed = self._delta.vacuum(hours, dry_run, enforce_retention_duration=False, full=True)
        if not dry_run:
            self._delta.cleanup_metadata()
            if not _SETTINGS.items() <= self._delta.metadata().configuration.items():  # made by an earlier version
                with suppress(Refused), self._on_disk():  # while somebody writes: next time
                    self._delta.alter.set_table_properties(_SETTINGS)
        return len(removed)

    @contextmanager
    def _on_disk(self) -> Iterator[None]:
        """The commits that are made within. Their files were on disk before."""
        before = self.version
        with _library():
            yield
        for version in range(before + 1, self.version + 1):
            with suppress(FileNotFoundError, PermissionError):  # of another writer, or in a checkpoint already
                sync_to_disk(self.folder / "_delta_log" / f"{version:020d}.json", 0o444)
        for directory in (self.folder, self.folder / "_delta_log"):
            sync_to_disk(directory)

    def done(self, before: int) -> None:
        """After changes since a version: a checkpoint, where it is time for one; else it stays open for the next."""
        if self.version // _CHECKPOINT_EVERY == before // _CHECKPOINT_EVERY:
            if mark := _mark(self.folder, self.version):
                _LEFT_OPEN[self.folder] = self._delta, mark
            return
        log = self.folder / "_delta_log"
        try:
            with _library():
                self._delta.create_checkpoint()
            sync_to_disk(log / f"{self.version:020d}.checkpoint.parquet", 0o444)
            sync_to_disk(log / LAST_CHECKPOINT, 0o644)
            _forget_commits(log, self.version - _COMMITS_KEPT)
        except (OSError, TableFault) as error:  # the next one will do
            _LOG.warning("%s has no checkpoint of version %d: %s", self.spec.name, self.version, error)


def _newest(folder: Path) -> DeltaTable:
    """One that this process left open needs to read what came since. To open it again takes longer the more files
    a day has had: the library reads of those too that are gone."""
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError

    table, mark = _LEFT_OPEN.pop(folder, (None, None))
    if table is not None and mark == _mark(folder, table.version()):
        if _mark(folder, table.version() + 1) is None:
            return table
        with suppress(DeltaError):
            table.update_incremental()
            return table
    return DeltaTable(str(folder))


def _mark(folder: Path, version: int) -> tuple[int, ...] | None:
    """Of a commit; no other has it, that of another table in the same place neither."""
    try:
        status = (folder / "_delta_log" / f"{version:020d}.json").stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


def _statistics(file: DataFile) -> str:
    told = {"minValues": file.statistics.least, "maxValues": file.statistics.most, "nullCount": file.statistics.nulls}
    return json.dumps({"numRecords": file.rows, **told})


def _forget_commits(log: Path, before: int) -> None:
    """Those before an old checkpoint, which holds all that they say."""
    names = os.listdir(log) if before > 0 else []  # noqa: PTH208 - names alone, of hundreds
    versions = {name: int(found[1]) for name in names if (found := _COMMIT_FILE.fullmatch(name))}
    made = sorted(version for name, version in versions.items() if name.endswith("parquet") and version <= before)
    since = time.time() - _KEPT_SECONDS
    while made and (log / f"{made[-1]:020d}.checkpoint.parquet").stat().st_mtime > since:
        made.pop()
    for name in sorted(name for name, version in versions.items() if made and version < made[-1]):
        (log / name).unlink(missing_ok=True)
