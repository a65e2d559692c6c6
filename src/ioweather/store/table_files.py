"""The files of a Delta table at a version, and the SQL that reads them: all that who only reads needs.

Which files these are is read from the table's log, as Delta's protocol says: to load Delta's library and to open tables
with it takes longer than many a question does. Who writes opens a table with the library.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from ioweather.core.errors import LakeError
from ioweather.store.convert import SQL_TYPES, literal, quote
from ioweather.store.database import connection, or_of_duckdb
from ioweather.tables import LAKE_COLUMNS, TABLES, TableSpec

if TYPE_CHECKING:
    from deltalake import DeltaTable

ONE_PER_KEY = "once"
_COMMIT = re.compile(r"(\d{20})\.(json$|checkpoint\.)")


@dataclass(frozen=True)
class TableFiles:
    """A table at one version, and its Parquet files."""

    spec: TableSpec
    version: int | None
    uris: tuple[str, ...]

    def days(self) -> dict[str, list[str]]:
        """Files by partition."""
        found: dict[str, list[str]] = {}
        for uri in self.uris:
            found.setdefault(day_of_uri(uri), []).append(uri)
        return found

    def scan(self, days: set[str] | None = None, columns: Collection[str] = ()) -> str:
        """SELECT over the files (of some days), with columns that older files lack as null. Of wide tables, who needs
        few columns names them: each one that a question passes through takes DuckDB time before it reads a row."""
        uris = self.uris if days is None else [uri for uri in self.uris if day_of_uri(uri) in days]
        known = [*((c.name, SQL_TYPES[c.type]) for c in self.spec.columns), *((n, "VARCHAR") for n in LAKE_COLUMNS)]
        wanted = [(name, kind) for name, kind in known if not columns or name in columns or name == self.spec.time]
        nothing = f"SELECT {', '.join(f'NULL::{kind} AS {quote(name)}' for name, kind in wanted)} WHERE FALSE"
        if not uris:
            return nothing
        listed = ", ".join(literal(uri) for uri in uris)
        picked = f"COLUMNS('^({'|'.join(name for name, _ in wanted)})$')" if columns else "*"
        # union_by_name: without it a column added later is silently dropped, depending on the order of files. Where
        # none of these files has it, the empty table does.
        options = "union_by_name=true, hive_partitioning=true, hive_types={'day': 'VARCHAR'}"
        files = f"{nothing} UNION ALL BY NAME SELECT {picked} FROM read_parquet([{listed}], {options})"
        return f"SELECT {', '.join(quote(name) for name, _ in wanted)} FROM ({files})"

    def view(self, days: set[str] | None = None, columns: Collection[str] = ()) -> str:
        """What readers see: of revisable rows, one per key, and none where that one takes the row back."""
        if not self.spec.revisable:
            return self.scan(days, columns)
        wanted = {*columns, *self.spec.key, *self.spec.revision, "ingest_id", "withdrawn"} if columns else ()
        if not self.spec.keeps_revisions and self.spec.time in self.spec.key:
            chosen = {day: uris for day, uris in self.days().items() if days is None or day in days}
            single = {day for day, uris in chosen.items() if len(uris) == 1 and is_one_per_key(uris[0])}
            if single:
                # Days with one row per key need no search for the newest.
                rest, sealed = set(chosen) - single, self.scan(single, wanted)
                return f"{sealed} UNION ALL ({self._newest(rest, wanted)})" if rest else sealed
        return self._newest(days, wanted)

    def _newest(self, days: set[str] | None, columns: Collection[str]) -> str:
        key = ", ".join(quote(name) for name in self.spec.key)
        newest = newest_first(self.spec, "ingest_id")
        kept = " AND withdrawn IS NOT TRUE" if "withdrawn" in self.spec.names else ""
        ranked = f"row_number() OVER (PARTITION BY {key} ORDER BY {newest})"
        return f"SELECT * FROM ({_with_origins(self.spec, self.scan(days, columns))}) QUALIFY {ranked} = 1{kept}"


def _with_origins(spec: TableSpec, rows: str) -> str:
    """Rows of unknown origin with the origin of those that have the rest of their key, where that is one."""
    if spec.placeholder is None:
        return rows
    column, unknown = quote(spec.placeholder[0]), literal(spec.placeholder[1])
    rest = ", ".join(quote(name) for name in spec.key if name != spec.placeholder[0])
    named = f"nullif({column}, {unknown})"
    only = f"CASE WHEN min({named}) OVER same = max({named}) OVER same THEN min({named}) OVER same ELSE {column} END"
    return f"SELECT * REPLACE ({only} AS {column}) FROM ({rows}) WINDOW same AS (PARTITION BY {rest})"


def newest_first(spec: TableSpec, arrival: str) -> str:
    """The order of revisions of a row: by what they say, and of equals the one that came last."""
    return ", ".join([*(f"{quote(name)} DESC NULLS LAST" for name in spec.revision), f"{arrival} DESC"])


def is_one_per_key(uri: str) -> bool:
    """Whether a sealed file holds each key once: its name says so."""
    return uri.rsplit("/", 1)[1].startswith(ONE_PER_KEY)


def day_of_uri(uri: str) -> str:
    return uri.rsplit("day=", 1)[1].split("/", 1)[0]


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


def newest_version(root: Path, spec: TableSpec) -> int | None:
    """By the names of the commits and checkpoints, which are whole once they are there."""
    return max(_log(root, spec), default=None)


def _log(root: Path, spec: TableSpec) -> dict[int, list[Path]]:
    """Commits and checkpoints by version."""
    found: dict[int, list[Path]] = {}
    try:
        for path in (root / spec.name / "_delta_log").iterdir():
            if name := _COMMIT.match(path.name):
                found.setdefault(int(name[1]), []).append(path)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise _not_opened(spec, error) from None
    return found


def files_in(root: Path, spec: TableSpec, version: int | None) -> TableFiles:
    """Of a version: those of the last checkpoint before it, and what commits since added and removed."""
    if version is None:
        return TableFiles(spec, None, ())
    log = _log(root, spec)
    checkpoints = {at: [p for p in paths if p.suffix == ".parquet"] for at, paths in log.items() if at <= version}
    first = max((at for at, paths in checkpoints.items() if paths), default=-1)
    try:
        paths = set(_listed(checkpoints[first])) if first >= 0 else set()
        for at in range(first + 1, version + 1):
            for line in (root / spec.name / "_delta_log" / f"{at:020}.json").read_text("utf-8").splitlines():
                action = json.loads(line)
                if "add" in action:
                    paths.add(action["add"]["path"])
                elif "remove" in action:
                    paths.discard(action["remove"]["path"])
    except or_of_duckdb(OSError, ValueError) as error:
        raise _not_opened(spec, error) from None
    place = (root / spec.name).resolve()
    return TableFiles(spec, version, tuple(sorted(f"{place}/{unquote(path)}" for path in paths)))


def _listed(checkpoint: Sequence[Path]) -> list[str]:
    with connection() as con:
        listed = ", ".join(literal(str(path)) for path in checkpoint)
        found = con.execute(f"SELECT add.path FROM read_parquet([{listed}]) WHERE add.path IS NOT NULL").fetchall()
    return [path for (path,) in found]


def open_table(root: Path, spec: TableSpec) -> DeltaTable | None:
    """At its newest version. None where there is no such table yet. Delta says so too where the disk fails: a table
    that is there must not look empty for that."""
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError, TableNotFoundError

    path = root / spec.name
    try:
        try:
            return DeltaTable(str(path))
        except TableNotFoundError:
            if newest_version(root, spec) is None:
                return None
            return DeltaTable(str(path))  # made at this moment, or an error that has passed
    except (OSError, DeltaError) as error:
        raise _not_opened(spec, error) from None


def _not_opened(spec: TableSpec, error: Exception) -> LakeError:
    return LakeError(f"`{spec.name}` cannot be opened: {error}.", hint="Check the disk and permissions.")


def files_at(table: DeltaTable | None, spec: TableSpec) -> TableFiles:
    if table is None:
        return TableFiles(spec, None, ())
    return TableFiles(spec, table.version(), tuple(sorted(table.file_uris())))
