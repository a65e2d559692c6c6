"""A snapshot: all tables pinned at one version, so that a command sees one state of the lake from start to end."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import duckdb

from ioweather.core.clock import utc_day
from ioweather.core.contracts import SeriesGroup
from ioweather.core.errors import DataUnavailable, LakeError
from ioweather.core.facility import Facility
from ioweather.core.frames import Frame
from ioweather.core.tables import LAKE_COLUMNS, TABLES, ColumnSpec
from ioweather.core.units import DAY_NS
from ioweather.core.visibility import Owner
from ioweather.lake import grid, inventory
from ioweather.lake.database import connection, fetch_frame, literal, quote
from ioweather.lake.per_user_view import note_who_owns_what, owned
from ioweather.lake.table_files import TableFiles, require_undamaged

if TYPE_CHECKING:
    from ioweather.core.results import Cell

# A period up to this long is read from the files of its days alone; of a longer one most files are wanted anyway.
_LISTED_DAYS = 400
T = TypeVar("T")
_BETWEEN_WORDS = re.compile(r"\W")

Where = Mapping[str, "Cell | Sequence[Cell]"]


@dataclass(repr=False)
class Snapshot:
    """Satisfies core.contracts.Inventory. With an owner it shows what that person may see."""

    root: Path
    pinned: Mapping[str, TableFiles]
    facility: Facility
    owner: Owner | None = None
    _series: list[SeriesGroup] | None = field(default=None, repr=False)
    _shown: set[str] = field(default_factory=set, repr=False)
    # What was read and is likely to be asked for again, by whoever reads it.
    memory: dict[str, Any] = field(default_factory=dict, repr=False)

    def __repr__(self) -> str:
        return f"<Snapshot of {self.root}: {sum(bool(files.uris) for files in self.pinned.values())} tables with rows>"

    @cached_property
    def bare(self) -> duckdb.DuckDBPyConnection:
        """The connection, which has views of those tables alone that were asked for: to make a view of a year, DuckDB
        opens every file of it."""
        if self.owner is None:
            return connection()
        con = duckdb.connect(":memory:")  # a person's rows are in a database of their own
        note_who_owns_what(con, self.pinned, self.owner)
        return con

    @cached_property
    def whole(self) -> Snapshot:
        """The same rows as an operator sees them. Whoever uses it must hide whose they are (`workflows.hiding`)."""
        return self if self.owner is None else replace(self, owner=None, _shown=set(), memory={})

    def query(self, sql: str, values: Sequence[Cell] = ()) -> duckdb.DuckDBPyConnection:
        """The answer to a question in SQL. A view is made of each table that it names, and of no other."""
        self._show(_BETWEEN_WORDS.split(sql))
        return self.bare.execute(sql, values)

    def _show(self, names: Collection[str]) -> None:
        wanted = dict.fromkeys(["ingests", *names] if "quarantine" in names else names)
        for name in [name for name in wanted if name not in self._shown]:
            if name in self.pinned:
                self.bare.execute(f"CREATE TEMP VIEW {quote(name)} AS {self._visible(name, self.pinned[name].view())}")
            elif name == "quarantine":
                self.bare.execute(f"CREATE TEMP VIEW quarantine AS {QUARANTINE}")
            self._shown.add(name)

    def _visible(self, table: str, select: str) -> str:
        return select if self.owner is None else owned(table, select, self.owner)

    @property
    def versions(self) -> dict[str, int]:
        return {name: files.version for name, files in self.pinned.items() if files.version is not None}

    def filled(self, among: Collection[str] = TABLES) -> set[str]:
        """Tables with rows in them, of those that may be seen."""
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
        try:
            rows = self.query(sql).fetchall()
        except duckdb.Error as error:
            self._name_damage(error)
            raise LakeError(f"the lake could not answer {sql!r}: {error}.") from None
        return rows[0][0] if rows else None

    def once(self, what: str, tables: Collection[str], make: Callable[[], T]) -> T:
        """Something small that is made of whole tables, which all may see. Of a lake that is kept it is made once for
        each version of them."""
        return make()

    def series(self) -> list[SeriesGroup]:
        if self._series is None:
            self._series = inventory.inventory(self.root, lambda: self.bare, self.pinned["series"], self.facility)
        return self._series

    def filesystems(self) -> tuple[str, ...]:
        return tuple(sorted({group.filesystem for group in self.series()}))

    def frame(
        self,
        table: str,
        columns: Sequence[str] = (),
        where: Where | None = None,
        period_ns: tuple[int, int] | None = None,
        days: Collection[str] | None = None,
    ) -> Frame:
        """Rows of a table. `filesystem` may stand in `where` for the raw systems that map to it. Who knows the UTC days
        that the rows lie in spares the lake the other days' files."""
        spec = TABLES[table]
        names = tuple(columns) or spec.names
        specs = tuple(spec.column(n) if n not in LAKE_COLUMNS else ColumnSpec(n, "text", "") for n in names)
        rows = self.rows(table, where, period_ns, days, names)
        return fetch_frame(self.bare, rows, specs, keep="never" if spec.is_long else "many")

    def rows(
        self,
        table: str,
        where: Where | None = None,
        period_ns: tuple[int, int] | None = None,
        days: Collection[str] | None = None,
        columns: Sequence[str] = (),
    ) -> str:
        """The same as a SELECT, for a question to `bare` that reduces them. It has at least these columns."""
        spec = TABLES[table]
        conditions = [self._condition(table, name, value, days) for name, value in (where or {}).items()]
        if period_ns is not None:
            low, high = period_ns
            conditions.append(f"{quote(spec.time)} >= {low} AND {quote(spec.time)} < {high}")
            if days is None and high - low <= _LISTED_DAYS * DAY_NS:
                days = {utc_day(moment) for moment in (*range(low, high, DAY_NS), high - 1)}
        # A revision of a row may lie in another day, unless its time is part of its key.
        part = days is not None and (not spec.revisable or spec.time in spec.key)
        # Whose a row is, another column may say.
        asked = () if self.owner is not None or not columns else {*columns, *map(_column_of, where or ())}
        rows = self._visible(table, self.pinned[table].view(set(days or ()) if part else None, asked))
        return f"SELECT * FROM ({rows}) WHERE {' AND '.join(conditions) or 'TRUE'}"

    def _condition(
        self, table: str, name: str, value: Cell | Sequence[Cell], days: Collection[str] | None = None
    ) -> str:
        if name == "filesystem":
            return f"system IN ({', '.join(literal(s) for s in self._systems(table, value, days)) or 'NULL'})"
        _, _, comparison = name.partition(" ")
        if comparison:
            return f"{quote(_column_of(name))} {comparison} {literal(value)}"
        if value is None:
            return f"{quote(name)} IS NULL"
        if isinstance(value, (tuple, list)):
            return f"{quote(name)} IN ({', '.join(literal(item) for item in value) or 'NULL'})"
        return f"{quote(name)} = {literal(value)}"

    def _systems(self, table: str, filesystem: Cell | Sequence[Cell], days: Collection[str] | None = None) -> list[str]:
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
                f"The lake has no {', '.join(metrics)} of any {component_kind} of {filesystem} in this period.",
                hint="`ioweather lake` shows what there is.",
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
        if "whole" in self.__dict__ and self.whole is not self:
            self.whole.close()
        if "bare" in self.__dict__:
            self.bare.close()
            self._shown.clear()
            del self.__dict__["bare"]

    def _name_damage(self, error: BaseException) -> None:
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
            self._name_damage(error)
        if isinstance(error, duckdb.IOException):
            reason = str(error).splitlines()[0]
            raise LakeError(f"A file of the lake cannot be read: {reason}.", hint="Check the disk.") from None


def _column_of(condition: str) -> str:
    """Which column a name in `where` is about."""
    return "system" if condition == "filesystem" else condition.partition(" ")[0]


# Of a file that was refused and is in since, only the end counts.
QUARANTINE = """SELECT path, status, reason, message, source, ingested_ns FROM (
    SELECT * FROM ingests QUALIFY row_number() OVER (PARTITION BY path ORDER BY ingested_ns DESC) = 1
) WHERE status <> 'ok'"""
