"""The files of a table at a version, and the SQL that reads them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ioweather.core.errors import LakeError
from ioweather.core.tables import LAKE_COLUMNS, TableSpec
from ioweather.lake.database import SQL_TYPES, literal, quote

ONE_PER_KEY = "once"
_DIGEST_BYTES: Final = 16
_NAME_WITH_DIGEST: Final = re.compile(r"-([0-9a-f]{32})\.zstd\.parquet$")


@dataclass(frozen=True)
class DataFile:
    """A Parquet file with rows of one day, on disk. Readers see it once a commit names it."""

    path: str  # relative to the table's directory
    size: int
    day: str
    rows: int
    statistics: str  # JSON, as Delta's log has it: numRecords, minValues, maxValues, nullCount


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

    def only(self, names: Collection[str]) -> TableFiles:
        return TableFiles(self.spec, self.version, tuple(u for u in self.uris if u.rsplit("/", 1)[1] in names))

    def scan(self, days: set[str] | None = None, columns: Collection[str] = ()) -> str:
        """SELECT over the files (of some days), with columns that older files lack as null. Name `columns` of a wide
        table if few are needed: each column takes DuckDB time before it reads a row."""
        uris = self.uris if days is None else [uri for uri in self.uris if day_of_uri(uri) in days]
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

    def holding(self, condition: str) -> str:
        """SELECT of the files that have a row `s` for which the condition is true."""
        return f"SELECT DISTINCT filename FROM {_parquet(self.uris, 'filename=true')} s WHERE {condition}"

    def view(self, days: set[str] | None = None, columns: Collection[str] = ()) -> str:
        """The visible rows: the newest revision per key, and none if that one withdraws the row."""
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


def _parquet(uris: Iterable[str], *options: str) -> str:
    listed = ", ".join(literal(uri) for uri in uris)
    named = ("union_by_name=true", "hive_partitioning=true", "hive_types={'day': 'VARCHAR'}", *options)
    return f"read_parquet([{listed}], {', '.join(named)})"


def _with_origins(spec: TableSpec, rows: str) -> str:
    """Rows without an origin get that of rows with the same key otherwise, where these have only one."""
    if spec.placeholder is None:
        return rows
    column, unknown = quote(spec.placeholder[0]), literal(spec.placeholder[1])
    rest = ", ".join(quote(name) for name in spec.key if name != spec.placeholder[0])
    named = f"nullif({column}, {unknown})"
    only = f"CASE WHEN min({named}) OVER same = max({named}) OVER same THEN min({named}) OVER same ELSE {column} END"
    return f"SELECT * REPLACE ({only} AS {column}) FROM ({rows}) WINDOW same AS (PARTITION BY {rest})"


def newest_first(spec: TableSpec, arrival: str) -> str:
    """The order of revisions of a row: by their revision columns, then by arrival."""
    return ", ".join([*(f"{quote(name)} DESC NULLS LAST" for name in spec.revision), f"{arrival} DESC"])


def is_one_per_key(uri: str) -> bool:
    """Whether a sealed file has each key once: its name says so."""
    return uri.rsplit("/", 1)[1].startswith(ONE_PER_KEY)


def day_of_uri(uri: str) -> str:
    return uri.rsplit("day=", 1)[1].split("/", 1)[0]


# Table files never change. The name of each ends with the digest of its content, so that damage can be found.


def content_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=_DIGEST_BYTES)).hexdigest()


def digest_in_name(path: str | Path) -> str | None:
    """None for files that ioweather 0.2 or another program wrote."""
    found = _NAME_WITH_DIGEST.search(str(path))
    return found[1] if found else None


def damaged_files(paths: Iterable[str | Path]) -> list[Path]:
    """Those that are missing, or whose content has another digest than their name says."""
    return [path for path in map(Path, paths) if _is_damaged(path)]


def _is_damaged(path: Path) -> bool:
    expected = digest_in_name(path)
    try:
        return content_digest(path) != expected if expected else path.stat().st_size == 0
    except FileNotFoundError:
        return True


def require_undamaged(paths: Iterable[str | Path]) -> None:
    """Raise LakeError if one is damaged: a file made from it would be wrong, and have a valid digest."""
    if damaged := damaged_files(paths):
        more = f" and {len(damaged) - 1} more" if len(damaged) > 1 else ""
        raise LakeError(
            f"{damaged[0]}{more} is damaged or missing: its content is not what was written.",
            hint="`ioweather lake check` lists the damage; with --set-aside the rest of the lake answers.",
        )
