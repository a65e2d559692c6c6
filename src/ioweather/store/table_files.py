"""The files of a Delta table at a version, and the SQL that reads them: all that who only reads needs."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from ioweather.core.errors import LakeError
from ioweather.store.convert import SQL_TYPES, literal, quote
from ioweather.tables import LAKE_COLUMNS, TABLES, TableSpec

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
    """Tables at their versions of one moment. The files of one are listed when they are first asked for: to open all
    tables takes longer than many a question does."""

    def __init__(self, root: Path, names: Sequence[str]) -> None:
        self._root = root
        self._versions = {name: newest_version(root, TABLES[name]) for name in names}
        self._known: dict[str, TableFiles] = {}

    def __getitem__(self, name: str) -> TableFiles:
        if name not in self._known:
            version, spec = self._versions[name], TABLES[name]
            table = None if version is None else open_table(self._root, spec, version)
            self._known[name] = files_at(table, spec)
        return self._known[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._versions)

    def __len__(self) -> int:
        return len(self._versions)


def newest_version(root: Path, spec: TableSpec) -> int | None:
    """By the names of the commits and checkpoints, which are whole once they are there."""
    try:
        names = [path.name for path in (root / spec.name / "_delta_log").iterdir()]
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _not_opened(spec, error) from None
    return max((int(found[1]) for name in names if (found := _COMMIT.match(name))), default=None)


def open_table(root: Path, spec: TableSpec, version: int | None = None) -> DeltaTable | None:
    """At its newest version, or at one. None where there is no such table yet. Delta says so too where the disk fails:
    a table that is there must not look empty for that."""
    path = root / spec.name
    try:
        try:
            return DeltaTable(str(path), version=version)
        except TableNotFoundError:
            if newest_version(root, spec) is None:
                return None
            return DeltaTable(str(path), version=version)  # made at this moment, or an error that has passed
    except (OSError, DeltaError) as error:
        raise _not_opened(spec, error) from None


def _not_opened(spec: TableSpec, error: Exception) -> LakeError:
    return LakeError(f"`{spec.name}` cannot be opened: {error}.", hint="Check the disk and permissions.")


def files_at(table: DeltaTable | None, spec: TableSpec) -> TableFiles:
    if table is None:
        return TableFiles(spec, None, ())
    return TableFiles(spec, table.version(), tuple(sorted(table.file_uris())))
