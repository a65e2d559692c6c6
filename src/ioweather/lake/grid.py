"""`series` on a regular grid: rollups over components, and matrices time x component.

Rows that lie on the grid are added up; rows that do not (samples at odd seconds, jittering intervals) are split by
overlap, so that amounts are conserved.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from ioweather.core.contracts import SeriesGroup
from ioweather.core.frames import Cells, Floats, Frame, Matrix
from ioweather.core.tables import METRICS, TABLES, ColumnSpec, Quality
from ioweather.core.units import DAY_NS, day_start_ns, names_of
from ioweather.lake.database import fetch_frame, literal, literals
from ioweather.lake.delta_tables import TableFiles
from ioweather.lake.inventory import LONGEST_NS, POSSIBLE, read_seal, rows_of_groups

_COVERAGE = ColumnSpec("coverage", "float64", "share of component-time present", nullable=True)


def _connect_one_thread() -> duckdb.DuckDBPyConnection:
    """A connection for a worker: there is one worker per core."""
    return duckdb.connect(":memory:", config={"threads": 1})


@dataclass(frozen=True)
class Selection:
    """Rows of one kind of component of one file system, from chosen sources, on a grid of `step_ns`."""

    root: Path
    connect: Callable[[], duckdb.DuckDBPyConnection]  # called at the first query
    files: TableFiles
    groups: tuple[SeriesGroup, ...]
    step_ns: int
    start_ns: int
    end_ns: int
    excluded_quality: int = 0
    # Only these stretches of the period, [low, high); empty: all of it.
    windows: tuple[tuple[int, int], ...] = ()

    @cached_property
    def con(self) -> duckdb.DuckDBPyConnection:
        return self.connect()

    def __getstate__(self) -> dict[str, Any]:
        """Without the connection: another process opens its own."""
        return {name: value for name, value in self.__dict__.items() if name != "con"} | {
            "connect": _connect_one_thread
        }

    def groups_of(self, metric: str) -> tuple[SeriesGroup, ...]:
        """The chosen groups of a metric."""
        return tuple(group for group in self.groups if group.metric == metric)

    def is_regular(self, metrics: Collection[str]) -> bool:
        """Whether every row is within one cell."""
        return all(g.regular and self.step_ns % g.interval_ns == 0 for g in self.groups if g.metric in metrics)

    def scan(self, metrics: Collection[str], groups: Sequence[SeriesGroup] | None = None) -> str:
        """SELECT of the stored rows of these metrics, of the chosen groups (or of these) alone."""
        wanted = [group for group in (self.groups if groups is None else groups) if group.metric in metrics]
        stretches = self.windows or ((self.start_ns, self.end_ns),)
        on_grid = self.is_regular(metrics) and not any(low % self.step_ns for low, _ in stretches)
        # On a grid no row crosses a line, and DuckDB can compare the statistics of a file with this condition.
        begun = "start_ns >= {}" if on_grid else "start_ns + interval_ns > {}"
        period = " OR ".join(f"(start_ns < {high} AND {begun.format(low)})" for low, high in stretches)
        quality = f" AND quality & {self.excluded_quality} = 0" if self.excluded_quality else ""
        # DuckDB skips parts of files by this list, and not by the join.
        named = f"metric IN ({literals(sorted({group.metric for group in wanted}))})"
        stored = rows_of_groups(self.files.scan({group.day for group in wanted}), wanted)
        return f"{stored} AND {named} AND ({period}){quality} AND {POSSIBLE}"

    def split_into_cells(self, metrics: Sequence[str], scan: str) -> str:
        """The rows of a SELECT, each in the cells that it covers."""
        step, columns = self.step_ns, "metric, system, component, value, interval_ns"
        if self.is_regular(metrics):
            return f"SELECT start_ns - start_ns % {step} AS cell, {columns}, interval_ns AS weight FROM ({scan})"
        # A long row is split into the cells of the period only.
        first, last = f"greatest(start_ns, {self.start_ns})", f"least(start_ns + interval_ns, {self.end_ns}) - 1"
        pieces = f"""SELECT *, unnest(range({first} // {step}, ({last}) // {step} + 1)) * {step} AS cell
            FROM ({scan}) WHERE interval_ns <= {LONGEST_NS}"""
        overlap = f"least(start_ns + interval_ns, cell + {step}) - greatest(start_ns, cell)"
        inside = f"cell >= {self.start_ns - self.start_ns % step} AND cell < {self.end_ns}"
        return f"SELECT cell, {columns}, {overlap} AS weight FROM ({pieces}) WHERE {inside}"

    def cell_values(self, metric: str) -> str:
        """One row per cell and component: cell, system, component, value, weight."""
        scan = self.scan([metric])
        if self.is_regular([metric]) and all(group.interval_ns == self.step_ns for group in self.groups):
            # One row fills one cell; of duplicates, any will do.
            return f"SELECT start_ns AS cell, system, component, value, interval_ns::DOUBLE AS weight FROM ({scan})"
        once = f"SELECT DISTINCT ON (start_ns, interval_ns, system, component) * FROM ({scan})"
        amounts, means = "sum(value * weight / interval_ns)", "sum(value * weight) / sum(weight)"
        value = amounts if METRICS[metric].extensive else means
        return f"""SELECT cell, system, component, {value} AS value, sum(weight)::DOUBLE AS weight
            FROM ({self.split_into_cells([metric], once)}) GROUP BY cell, system, component"""


def rollup(selection: Selection, metrics: Sequence[str]) -> Frame:
    """Sums (of rates: means) over all components: start_ns, metric, value, coverage (0 to 1); in time order."""
    expected: dict[tuple[str, str], int] = {}
    for group in selection.groups:
        expected[(group.metric, group.day)] = expected.get((group.metric, group.day), 0) + group.components
    table = ", ".join(f"({literal(m)}, {literal(d)}, {n})" for (m, d), n in expected.items()) or "(NULL, NULL, NULL)"
    day = f"CAST(DATE '1970-01-01' + CAST(cell // {DAY_NS} AS INTEGER) AS VARCHAR)"
    sql = f"""SELECT cell AS start_ns, s.metric, value,
            least(1.0, weight / ({selection.step_ns}::DOUBLE * e.components)) AS coverage
        FROM (SELECT *, {day} AS day FROM ({_select_sums(selection, metrics, by_component=False)})) s
        LEFT JOIN (VALUES {table}) AS e(metric, day, components) ON e.metric = s.metric AND e.day = s.day
        ORDER BY start_ns, s.metric"""
    columns = (*(TABLES["series"].column(n) for n in ("start_ns", "metric", "value")), _COVERAGE)
    return fetch_frame(selection.con, sql, columns)


def sums_by_component(selection: Selection, metrics: Sequence[str]) -> Frame:
    """Sums or means per component: start_ns, component, metric, value; in time order. `component_cells` has sums only,
    and coverage."""
    summed = _select_sums(selection, metrics, by_component=True)
    sql = f"SELECT cell AS start_ns, component, metric, value FROM ({summed}) ORDER BY ALL"
    columns = ("start_ns", "component", "metric", "value")
    return fetch_frame(selection.con, sql, tuple(TABLES["series"].column(n) for n in columns))


def _select_sums(selection: Selection, metrics: Sequence[str], *, by_component: bool) -> str:
    """SQL for the columns cell (number of the grid's time step), [component,] metric, value and weight (ns).

    The value of an extensive metric is a sum, where a row counts by its share of time in the cell; that of another
    metric is a mean weighted by time. The weight is the recorded time, summed over components.
    """
    extensive = literals(name for name in metrics if METRICS[name].extensive)
    # A row that is not split counts exactly.
    amount = "CASE WHEN weight = interval_ns THEN value ELSE value * weight / interval_ns END"
    keys = "cell, component, metric" if by_component else "cell, metric"
    return f"""SELECT {keys}, CASE WHEN metric IN ({extensive}) THEN sum({amount})
            ELSE sum(value * weight) / sum(weight) END AS value, sum(weight)::DOUBLE AS weight
        FROM ({selection.split_into_cells(metrics, selection.scan(metrics))}) GROUP BY {keys}"""


def component_cells(selection: Selection, metrics: Sequence[str]) -> Cells:
    """Amounts per cell and component. Rows are fetched unsorted and added up with numpy: grouping and sorting by name
    in SQL takes several times as long as reading."""
    if not all(METRICS[name].extensive for name in metrics):
        raise ValueError(f"not all of {', '.join(metrics)} are amounts")
    columns = (*(TABLES["series"].column(n) for n in ("start_ns", "component", "metric", "value")), _COVERAGE)
    rows = fetch_frame(
        selection.con,
        f"""SELECT cell AS start_ns, component, metric, value * weight / interval_ns AS value, weight AS coverage
            FROM ({selection.split_into_cells(metrics, selection.scan(metrics))})""",
        columns,
    )
    start_ns, step = np.unique(rows.ints("start_ns"), return_inverse=True)
    components, kinds = rows.text("component"), rows.text("metric")
    codes = {name: code for code, name in enumerate(kinds.categories)}
    shape = len(start_ns), len(components.categories)
    values, coverage = {}, {}
    for name in [name for name in metrics if len(start_ns) and selection.groups_of(name)]:
        mine = np.flatnonzero(kinds.codes == codes.get(name, -2))
        place = step[mine] * shape[1] + components.codes[mine]
        total = np.full(shape[0] * shape[1], np.nan)
        total[place] = 0.0
        np.add.at(total, place, rows.floats("value")[mine])
        values[name] = total.reshape(shape)
        # Component-time of each step if no sample were missing, from the components of its day.
        days: Counter[int] = Counter()
        for group in selection.groups_of(name):
            days[day_start_ns(group.day) // DAY_NS] += group.components
        expected_ns = selection.step_ns * np.array([days[day] or np.nan for day in (start_ns // DAY_NS).tolist()])
        covered_ns = np.bincount(step[mine], weights=rows.floats("coverage")[mine], minlength=shape[0])
        coverage[name] = np.minimum(1.0, covered_ns / expected_ns)
    return Cells(start_ns, selection.step_ns, components.categories, values, coverage)


@dataclass(frozen=True)
class _LazyMatrix:
    """A BlockwiseMatrix that reads each stretch from the lake when it is asked for."""

    selection: Selection
    metric: str
    start_ns: int
    step_ns: int
    steps: int
    labels: tuple[tuple[str, str], ...]
    components: tuple[str, ...]

    def load(self) -> Matrix:
        """The whole matrix."""
        return self.stretch(0, self.steps)

    def stretch(self, first: int, last: int) -> Matrix:
        """The matrix of the steps `first` to `last` - 1."""
        low, high = (self.start_ns + step * self.step_ns for step in (first, last))
        values = np.full((last - first, len(self.components)), np.nan)
        coverage = np.zeros(values.shape, np.float32)
        # A row may begin up to its interval before the stretch, on the day before.
        groups = tuple(g for g in self.selection.groups_of(self.metric) if g.first_ns < high and g.end_ns > low)
        per_day = Counter(group.day for group in groups)
        for group in groups if not self.selection.windows else ():
            whole = self._read_in_order(group) if per_day[group.day] == 1 else None
            if whole is not None:
                begin = (group.first_ns - low) // self.step_ns
                rows = slice(max(0, begin), min(len(values), begin + len(whole)))
                values[rows], coverage[rows] = whole[rows.start - begin : rows.stop - begin], 1.0
                groups = tuple(each for each in groups if each is not group)
        if groups:
            # Rows in any order go into their cells; a join gives each component its column.
            block = replace(self.selection, groups=groups, start_ns=low, end_ns=high)
            listed = ", ".join(f"({literal(s)}, {literal(name)}, {n})" for n, (s, name) in enumerate(self.labels))
            place = f"(cell - {low}) // {self.step_ns} * {len(self.components)} + place"
            found = self.selection.con.execute(
                f"""SELECT {place} AS place, value, weight FROM ({block.cell_values(self.metric)})
                JOIN (VALUES {listed}) AS l(system, component, place) USING (system, component) WHERE {POSSIBLE}"""
            ).fetchnumpy()
            cells = np.asarray(found["place"], np.int64)
            values.reshape(-1)[cells] = found["value"]
            coverage.reshape(-1)[cells] = np.minimum(np.asarray(found["weight"]) / self.step_ns, 1.0)
        return Matrix(self.metric, low, self.step_ns, self.components, values, coverage)

    def _read_in_order(self, group: SeriesGroup) -> Floats | None:
        """Return all values of a sealed day that has one of each component in each step: (steps, components).

        They are stored in this order, and reading them so takes a third of the time. None for other days.
        """
        length, flags = group.end_ns - group.first_ns, (Quality[name.upper()] for name in group.flagged)
        is_whole = group.regular and group.rows * self.step_ns == group.components * length
        if group.interval_ns != self.step_ns or not is_whole or any(self.selection.excluded_quality & f for f in flags):
            return None
        uris = self.selection.files.days()[group.day]
        if _find_sealed_names(self.selection, group, uris) != [name for _, name in self.labels]:
            return None
        keys = ("source", "system", "component_kind", "metric")
        chosen = " AND ".join(f"{key} = {literal(getattr(group, key))}" for key in keys)
        files = f"read_parquet([{literals(uris)}], hive_partitioning=false)"
        found = self.selection.con.execute(f"SELECT value FROM {files} WHERE {chosen}").fetchnumpy()["value"]
        is_possible = len(found) == group.rows and not np.ma.is_masked(found) and bool((found >= 0).all())
        return np.ma.getdata(found).reshape(-1, group.components) if is_possible else None


def _find_sealed_names(selection: Selection, group: SeriesGroup, uris: Sequence[str]) -> list[str] | None:
    """Return the sorted names of a group's components; None where the day has no seal of it."""
    seal, keys = read_seal(selection.root, group.day, uris), names_of("source system component_kind metric selection")
    for entry in seal["groups"] if seal else ():
        if all(entry["group"][key] == getattr(group, key) for key in keys):
            names: list[str] = entry["component_names"]
            return names
    return None


def matrix(selection: Selection, metric: str, groups: Sequence[SeriesGroup] = ()) -> _LazyMatrix:
    """The metric on the grid from the first to the last cell of the period that any row of these groups touches, and of
    their components; by default those of the metric."""
    groups = groups or selection.groups_of(metric)
    step = selection.step_ns
    first = max(selection.start_ns, min(g.first_ns for g in groups)) // step * step
    last = -(-min(selection.end_ns, max(g.end_ns for g in groups)) // step) * step
    labels = _find_components(selection, groups)
    several = len({system for system, _ in labels}) > 1
    names = tuple(
        name if not several else system if system.endswith(f":{name}") else f"{system}:{name}"
        for system, name in labels
    )
    return _LazyMatrix(selection, metric, first, step, (last - first) // step, labels, names)


def _find_components(selection: Selection, groups: Sequence[SeriesGroup]) -> tuple[tuple[str, str], ...]:
    """(system, component) of all days; from the seals where days are sealed."""
    by_day = selection.files.days()
    listed: set[tuple[str, tuple[str, ...]]] = set()  # on most days the same
    unknown: list[SeriesGroup] = []
    for group in groups:
        names = _find_sealed_names(selection, group, by_day[group.day])
        if names is None:
            unknown.append(group)
        else:
            listed.add((group.system, tuple(names)))
    found = {(system, name) for system, names in listed for name in names}
    if unknown:
        metrics = {group.metric for group in unknown}
        sql = f"SELECT DISTINCT system, component FROM ({selection.scan(metrics, unknown)})"
        found.update(selection.con.execute(sql).fetchall())
    return tuple(sorted(found))
