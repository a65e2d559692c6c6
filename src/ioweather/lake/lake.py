"""Open a lake; write to it; pin it for reading."""

from __future__ import annotations

import logging
import os
import re
import secrets
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import duckdb

from ioweather.core.contracts import SeriesGroup
from ioweather.core.errors import DataUnavailable, LakeError
from ioweather.core.facility import Facility, Owner, load_facility
from ioweather.core.frames import Frame
from ioweather.core.safe_files import lake_place
from ioweather.core.tables import LAKE_COLUMNS, TABLES, ColumnSpec, Complaints
from ioweather.core.units import DAY_NS, now_ns, utc_day
from ioweather.lake import appends, grid, inventory, layout, object_store
from ioweather.lake.database import connection, fetch_frame, literal, literals, quote
from ioweather.lake.delta_tables import TableFiles, pin_tables
from ioweather.lake.layout import require_undamaged
from ioweather.lake.sandbox import SqlResult, run_user_sql

if TYPE_CHECKING:
    from ioweather.core.results import Cell

# A period up to this long is read from the files of its days alone; of a longer one most files are wanted anyway.
_LISTED_DAYS = 400
_BETWEEN_WORDS = re.compile(r"\W")

Where = Mapping[str, "Cell | Sequence[Cell]"]
# What a person may see: rows of the facility in full, rows of people only where they are the person's. A table that is
# in neither list shows nothing, so that one added later is not shown by mistake. Benchmarks are the facility's own.
OF_THE_FACILITY: Final = frozenset({"benchmarks", "components", "events", "response_rollups", "responses", "series"})
_UIDS, _LOGS, _JOBS, _IDS = "__own_uids", "__own_logs", "__own_jobs", "__own_job_ids"
_OWN_LOG = f"log_digest IN (SELECT log_digest FROM {_LOGS})"
# Conditions for the rows of a person; `$user` is replaced by the name.
OF_PEOPLE: Final[Mapping[str, str]] = {
    "applications": _OWN_LOG,
    "files": _OWN_LOG,
    "job_io": _OWN_LOG,
    # Without user and cluster: accounting must have one cluster only, and no other user's job with that id.
    "job_operations": f"(uid IN (SELECT uid FROM {_UIDS}) OR (uid IS NULL AND (cluster, job_id) IN (FROM {_JOBS})) "
    f"OR (uid IS NULL AND cluster IS NULL AND job_id IN (FROM {_IDS})))",
    "jobs": f'("user" = $user OR ("user" IS NULL AND uid IN (SELECT uid FROM {_UIDS})))',
    "ingests": f"digest IN (SELECT log_digest FROM {_LOGS})",
    "quotas": f"(owner_kind <> 'user' OR owner = $user OR uid IN (SELECT uid FROM {_UIDS}))",
    "scans": "TRUE",
    "verdicts": f"({_OWN_LOG} OR (log_digest IS NULL AND uid IN (SELECT uid FROM {_UIDS})))",
    "scan_bins": f"(owner_kind = 'all' OR (owner_kind = 'user' AND owner IN (SELECT uid::VARCHAR FROM {_UIDS})))",
    "scan_entries": f"uid IN (SELECT uid FROM {_UIDS})",
}
# Columns with paths of others in public rows, and with jobs of others in a person's rows.
_HIDDEN: Final = {"scans": ("errors", "largest"), "verdicts": ("culprits",)}


@dataclass(repr=False)
class Snapshot:
    """The lake at one moment. With an owner it shows what that person may see."""

    root: Path
    pinned: Mapping[str, TableFiles]
    facility: Facility
    owner: Owner | None = None
    _series: list[SeriesGroup] | None = field(default=None, repr=False)
    _shown: set[str] = field(default_factory=set, repr=False)
    # Cache of functions that read the snapshot.
    memory: dict[str, Any] = field(default_factory=dict, repr=False)

    def __repr__(self) -> str:
        return f"<Snapshot of {self.root}: {sum(bool(files.uris) for files in self.pinned.values())} tables with rows>"

    @cached_property
    def bare(self) -> duckdb.DuckDBPyConnection:
        """The connection. It has views only of tables that a query names: DuckDB opens all files of a view."""
        if self.owner is None:
            return connection()
        con = duckdb.connect(":memory:")  # a person's rows are in a database of their own
        create_owner_tables(con, self.pinned, self.owner)
        return con

    @cached_property
    def whole(self) -> Snapshot:
        """The same rows as an operator sees them. The caller must mask whose they are (`diagnosis.masking`)."""
        return self if self.owner is None else replace(self, owner=None, _shown=set(), memory={})

    def query(self, sql: str, values: Sequence[Cell] = ()) -> duckdb.DuckDBPyConnection:
        """Run a query. A view is made of each table that it names, and of no other."""
        self._create_views(_BETWEEN_WORDS.split(sql))
        return self.bare.execute(sql, values)

    def _create_views(self, names: Collection[str]) -> None:
        """Create the views of these tables that the connection lacks."""
        wanted = dict.fromkeys(["ingests", *names] if "quarantine" in names else names)
        for name in [name for name in wanted if name not in self._shown]:
            if name in self.pinned:
                self.bare.execute(
                    f"CREATE TEMP VIEW {quote(name)} AS {self._visible_rows(name, self.pinned[name].view())}"
                )
            elif name == "quarantine":
                self.bare.execute(f"CREATE TEMP VIEW quarantine AS {QUARANTINE}")
            self._shown.add(name)

    def _visible_rows(self, table: str, select: str) -> str:
        """The rows of a SELECT over the table that the owner of this snapshot may see."""
        return select if self.owner is None else select_owned(table, select, self.owner)

    def fetch_all(self) -> None:
        """Fetch all table files of a lake in object storage."""
        object_store.fetch(self.root, (uri for files in self.pinned.values() for uri in files.uris))

    @property
    def versions(self) -> dict[str, int]:
        """Version of each table that exists."""
        return {name: files.version for name, files in self.pinned.items() if files.version is not None}

    def filled(self, among: Collection[str] = TABLES) -> set[str]:
        """Tables with visible rows."""
        names = {name for name in among if self.pinned[name].uris}
        if self.owner is None:
            return names
        return {name for name in names if self.scalar(f"SELECT 1 FROM {quote(name)} LIMIT 1") is not None}

    def tables(self) -> dict[str, int]:
        """Rows per table."""
        counts = {}
        for name, files in self.pinned.items():
            counts[name] = self.scalar(f"SELECT count(*) FROM {quote(name)}") if files.uris else 0
        return counts  # type: ignore[return-value]

    def scalar(self, sql: str) -> Cell:
        """First value of the first row of a query; None without rows."""
        try:
            rows = self.query(sql).fetchall()
        except duckdb.Error as error:
            self._raise_if_damaged(error)
            raise LakeError(f"The query {sql!r} failed: {error}.") from None
        return rows[0][0] if rows else None

    def series(self) -> list[SeriesGroup]:
        """Groups of rows of `series`: source, system, metric, day, interval and how much of the day they cover."""
        if self._series is None:
            self._series = inventory.list_groups(self.root, self.pinned["series"], self.facility)
        return self._series

    def filesystems(self) -> tuple[str, ...]:
        """Names of the file systems that `series` has rows of."""
        return tuple(sorted({group.filesystem for group in self.series()}))

    def time_span(self) -> tuple[int, int] | None:
        """The first time of the visible rows in the lake, and the end of the last; None without rows."""
        times = [(group.first_ns, group.end_ns) for group in self.series()]
        for table, end in (("applications", "coalesce(end_ns, start_ns)"), ("responses", "start_ns")):
            if self.pinned[table].uris:
                first, last = self.query(f"SELECT min(start_ns), max({end}) FROM {table}").fetchall()[0]
                times += [(first, last)] if first is not None else []
        return (min(first for first, _ in times), max(last for _, last in times)) if times else None

    def frame(
        self,
        table: str,
        columns: Sequence[str] = (),
        where: Where | None = None,
        period_ns: tuple[int, int] | None = None,
        days: Collection[str] | None = None,
    ) -> Frame:
        """Rows of a table. In `where`, `filesystem` selects the raw systems that map to it. With `days` (UTC), only the
        files of these days are read."""
        spec = TABLES[table]
        names = tuple(columns) or spec.names
        specs = tuple(spec.column(n) if n not in LAKE_COLUMNS else ColumnSpec(n, "text", "") for n in names)
        return fetch_frame(self.bare, self.rows(table, where, period_ns, days, names), specs, copy=not spec.is_long)

    def rows(
        self,
        table: str,
        where: Where | None = None,
        period_ns: tuple[int, int] | None = None,
        days: Collection[str] | None = None,
        columns: Sequence[str] = (),
    ) -> str:
        """The rows of `frame` as a SELECT with at least these columns, for a query on `bare` that reduces them."""
        spec = TABLES[table]
        conditions = []
        if period_ns is not None:
            low, high = period_ns
            conditions.append(f"{quote(spec.time)} >= {low} AND {quote(spec.time)} < {high}")
            if days is None and high - low <= _LISTED_DAYS * DAY_NS:
                days = {utc_day(moment) for moment in (*range(low, high, DAY_NS), high - 1)}
        conditions += [self._condition(table, name, value, days) for name, value in (where or {}).items()]
        # A revision of a row may lie in another day, unless its time is part of its key.
        part = days is not None and (not spec.revisable or spec.time in spec.key)
        # The owner of a row may be in another column.
        asked = () if self.owner is not None or not columns else {*columns, *map(_column_of, where or ())}
        rows = self._visible_rows(table, self.pinned[table].view(set(days or ()) if part else None, asked))
        return f"SELECT * FROM ({rows}) WHERE {' AND '.join(conditions) or 'TRUE'}"

    def _condition(
        self, table: str, name: str, value: Cell | Sequence[Cell], days: Collection[str] | None = None
    ) -> str:
        """SQL condition for one entry of `where`."""
        if name == "filesystem":
            return f"system IN ({literals(self._find_systems(table, value, days))})"
        _, _, comparison = name.partition(" ")
        if comparison:
            return f"{quote(_column_of(name))} {comparison} {literal(value)}"
        if value is None:
            return f"{quote(name)} IS NULL"
        if isinstance(value, (tuple, list)):
            return f"{quote(name)} IN ({literals(value)})"
        return f"{quote(name)} = {literal(value)}"

    def _find_systems(
        self, table: str, filesystem: Cell | Sequence[Cell], days: Collection[str] | None = None
    ) -> list[str]:
        """Raw systems in the table that facility.toml maps to the file system, or to one of several."""
        wanted = set(filesystem) if isinstance(filesystem, (tuple, list)) else {filesystem}
        rows = self.rows(table, days=days, columns=("system",))
        raw = [row[0] for row in self.bare.execute(f"SELECT DISTINCT system FROM ({rows})").fetchall()]
        return [system for system in raw if system is not None and self.facility.filesystem_of(system) in wanted]

    def selection(
        self,
        filesystem: str,
        component_kind: str,
        metrics: Sequence[str],
        step_ns: int,
        *,
        period_ns: tuple[int, int] | None = None,
        excluded_quality: int = 0,
        windows: Sequence[tuple[int, int]] = (),
    ) -> grid.Selection:
        """Rows of `series` for a grid: one source per day, as the facility orders them; of a period, or of several
        windows of time at once."""
        low, high = period_ns or (0, 2**62)
        groups = [
            group
            for group in self.series()
            if group.filesystem == filesystem
            and group.component_kind == component_kind
            and group.metric in metrics
            and any(group.first_ns < last and group.end_ns > first for first, last in windows or ((low, high),))
        ]
        if not groups:
            raise DataUnavailable(
                f"The lake has no {', '.join(metrics)} for any {component_kind} of {filesystem} in this period.",
                hint="Run `ioweather lake` for a list of the data.",
            )
        chosen = tuple(inventory.choose_sources(groups, self.facility, step_ns))
        return grid.Selection(
            self.root,
            lambda: self.bare,
            self.pinned["series"],
            chosen,
            step_ns,
            low,
            high,
            excluded_quality,
            tuple(windows),
        )

    def close(self) -> None:
        """Close the connection; the next query opens another."""
        if "whole" in self.__dict__ and self.whole is not self:
            self.whole.close()
        if "bare" in self.__dict__:
            self.bare.close()
            self._shown.clear()
            del self.__dict__["bare"]

    def _raise_if_damaged(self, error: BaseException) -> None:
        """Raise an error that names the file, where a damaged file is the cause of this one."""
        # Damaged metadata are a plain Error. Other kinds are faults of the query, and hashing a large lake takes long.
        kinds = (duckdb.IOException, duckdb.InvalidInputException, duckdb.InternalException)
        if isinstance(error, kinds) or type(error) is duckdb.Error:
            require_undamaged(uri for files in self.pinned.values() for uri in files.uris)

    def __enter__(self) -> Snapshot:
        return self

    def __exit__(self, _kind: Any, error: BaseException | None, _trace: Any) -> None:
        self.close()
        if error is not None:
            self._raise_if_damaged(error)
        if isinstance(error, duckdb.IOException):
            reason = str(error).splitlines()[0]
            raise LakeError(f"Cannot read a file of the lake: {reason}.", hint="Check the disk.") from None


def _column_of(condition: str) -> str:
    """The column of a name in `where`."""
    return "system" if condition == "filesystem" else condition.partition(" ")[0]


# Only the last outcome of a file counts.
QUARANTINE = """SELECT path, status, reason, message, source, ingested_ns FROM (
    SELECT * FROM ingests QUALIFY row_number() OVER (PARTITION BY path ORDER BY ingested_ns DESC) = 1
) WHERE status <> 'ok'"""


# The view of one person


def create_owner_tables(con: duckdb.DuckDBPyConnection, pinned: Mapping[str, TableFiles], owner: Owner) -> None:
    """Make tables of the person's uids (from accounting and facility.toml), jobs and logs, once per connection."""
    listed = ", ".join(f"({uid})" for uid in owner.uids)
    known = f'SELECT uid FROM ({pinned["jobs"].scan()}) WHERE "user" = {literal(owner.user)} AND uid IS NOT NULL'
    said = f" UNION SELECT * FROM (VALUES {listed})" if listed else ""
    con.execute(f"CREATE TEMP TABLE {_UIDS} AS SELECT DISTINCT uid FROM ({known}{said})")
    con.execute(
        f"CREATE TEMP TABLE {_JOBS} AS SELECT DISTINCT cluster, raw_job_id FROM ({pinned['jobs'].scan()}) "
        f'WHERE "user" = {literal(owner.user)} OR ("user" IS NULL AND uid IN (SELECT uid FROM {_UIDS}))'
    )
    con.execute(
        f"CREATE TEMP TABLE {_IDS} AS SELECT raw_job_id FROM {_JOBS} "
        f"WHERE raw_job_id IS NOT NULL AND raw_job_id NOT IN ("
        f"SELECT raw_job_id FROM ({pinned['jobs'].scan()}) WHERE raw_job_id IS NOT NULL AND NOT coalesce("
        f'"user" = {literal(owner.user)}, uid IN (SELECT uid FROM {_UIDS}), FALSE)) '
        f"AND (SELECT count(DISTINCT cluster) FROM ({pinned['jobs'].scan()})) = 1"
    )
    con.execute(
        f"CREATE TEMP TABLE {_LOGS} AS SELECT log_digest FROM ({pinned['applications'].scan()}) "
        f"WHERE uid IN (SELECT uid FROM {_UIDS})"
    )


def own_uids(con: duckdb.DuckDBPyConnection) -> set[int]:
    """The person's uids, on a connection with these tables."""
    return {int(uid) for (uid,) in con.execute(f"SELECT uid FROM {_UIDS}").fetchall()}


def select_owned(table: str, select: str, owner: Owner) -> str:
    """SELECT of those rows of a SELECT over a table that the person may see."""
    if table in OF_THE_FACILITY:
        return select
    condition = OF_PEOPLE.get(table, "FALSE").replace("$user", literal(owner.user))
    hidden = ", ".join(f"NULL::VARCHAR AS {quote(name)}" for name in _HIDDEN.get(table, ()))
    columns = f"* REPLACE ({hidden})" if hidden else "*"
    return f"SELECT {columns} FROM ({select}) WHERE {condition}"


_LOG = logging.getLogger("ioweather.lake")
# Whatever the ledger lists is then visible.
LEDGER_FIRST: Final = ("ingests", *(name for name in TABLES if name != "ingests"))


def new_ingest_id() -> str:
    """An id for the rows of one ingest: sortable by time, so that there is a newest row, and unique among writers."""
    return f"{now_ns():020d}-{secrets.token_hex(4)}"


class Lake:
    """The lake in a directory. Nothing is read until a snapshot or an append. Snapshots of a lake with an owner show
    what that person may see."""

    def __init__(self, root: Path, owner: Owner | None = None) -> None:
        self.root = root
        self.owner = owner

    def __repr__(self) -> str:
        return f"Lake({str(self.root)!r})"

    def tables(self) -> dict[str, int]:
        """Rows per table.

        >>> import ioweather
        >>> ioweather.open_lake("my-lake").tables()["series"]
        84
        """
        with self.snapshot() as snapshot:
            return snapshot.tables()

    def sql(self, query: str, *, rows: int = 10_000, seconds: float = 30.0, memory: str = "1GiB") -> SqlResult:
        """One SELECT or EXPLAIN in DuckDB's SQL, as `ioweather.sql`."""
        with self.snapshot() as snapshot:
            return run_user_sql(snapshot, query, rows=rows, seconds=seconds, memory=memory)

    def seen_by(self, owner: Owner | None) -> Lake:
        """The same lake as this person may see it; None: as an operator sees it."""
        return Lake(self.root, owner)

    @property
    def facility(self) -> Facility:
        """facility.toml of the lake; empty defaults without one."""
        return load_facility(layout.facility_file(self.root))

    def append(
        self,
        table: str,
        rows: Frame,
        *,
        source: str,
        ingest_id: str | None = None,
        complaints: Complaints | None = None,
        checked: bool = False,
    ) -> int:
        """Add rows that are valid and not stored yet; returns how many there were.

        Rows are checked here, unless `checked` (readers check rows themselves, to name the file and to use the time at
        which it was read). Rows that are left out are added to `complaints`, or logged.
        """
        layout.lake_directory(self.root).close()
        if not checked:
            found = complaints if complaints is not None else Complaints()
            rows, _ = found.check(TABLES[table], rows, now_ns())
            if complaints is None and found.refused_rows:
                _LOG.warning("%s", found)
        where = layout.tables_dir(self.root)
        return appends.append(where, TABLES[table], rows, source=source, ingest_id=ingest_id or new_ingest_id())

    def snapshot(self) -> Snapshot:
        """All tables at their current versions."""
        pinned, facility = self.pinned(), self.facility
        if pinned["components"].uris and (named := _named_hosts(pinned["components"].scan())):
            facility = replace(facility, hosts={**named, **facility.hosts})
        return Snapshot(self.root, pinned, facility, self.owner)

    def pinned(self) -> Mapping[str, TableFiles]:
        """All tables at their newest versions."""
        return pin_tables(layout.tables_dir(self.root), LEDGER_FIRST)


@lru_cache(maxsize=8)
def _named_hosts(components: str) -> dict[str, str]:
    """Names of the hosts that samples label otherwise, by label; `components` is a SELECT over these files."""
    sql = f"""SELECT component, arg_max(server, valid_from_ns) FROM ({components})
        WHERE kind = 'host' AND server IS NOT NULL GROUP BY component"""
    return dict(connection().execute(sql).fetchall())


def open_lake(path: str | os.PathLike[str] | None = None, *, create: bool = False) -> Lake:
    """The lake at `path`, at IOWEATHER_LAKE, or in the user's data home. With `create`, made if absent.

    >>> import ioweather
    >>> ioweather.open_lake("my-lake")
    Lake('my-lake')
    """
    root = lake_place(path) if path is not None else layout.default_lake_dir()
    object_store.connect(root)
    if not layout.lake_marker(root).exists():
        if not create:
            raise LakeError(
                f"There is no lake at {object_store.store_of(root) or root}.",
                hint="Create one with `ioweather ingest FILES`, or set --lake.",
            )
        layout.create_lake(root)
        object_store.upload_small_files(root)
    elif create:
        layout.lake_directory(root).close()
    layout.check_version(root)
    return Lake(root)


def lake_at(lake: Lake | str | os.PathLike[str] | None, *, create: bool = False) -> Lake:
    """A lake, or the one in that directory; None is the person's own."""
    return lake if isinstance(lake, Lake) else open_lake(lake, create=create)
