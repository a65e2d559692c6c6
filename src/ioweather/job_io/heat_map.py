"""A job's activity by rank and time: how many bytes each group of ranks moved in each stretch of the run.

From Darshan's heat map module, which counts bytes in bins of time while the job runs; else from its traces (DXT),
where the bytes of an operation are spread evenly over the time it took.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ioweather.core.arrays import Floats, Ints
from ioweather.core.results import Cell, Chart, ResultColumn, ResultTable

Origin: TypeAlias = Literal["heat map", "trace"]
# Operations of a trace that are spread over time at once: each may touch every column.
_CHUNK = 1 << 18


@dataclass(frozen=True)
class Resolution:
    """The most rows (groups of ranks) and columns (stretches of time) that are wanted."""

    rows: int
    columns: int


SCREEN = Resolution(rows=8, columns=66)
# A drawn cell takes some 130 bytes, and a page has up to twelve drawings: two modules, two operations, two widths.
PAGE = Resolution(rows=24, columns=48)


@dataclass(frozen=True, eq=False)
class HeatMap:
    """Row i is of ranks [i * rank_step, (i + 1) * rank_step), column j of [j, j + 1) * column_seconds since the start.

    `origin` says what it was made from.
    """

    module: str
    origin: Origin
    nprocs: int
    rank_step: int
    column_seconds: float
    read_bytes: Floats
    write_bytes: Floats

    @property
    def total_bytes(self) -> float:
        return float(self.read_bytes.sum() + self.write_bytes.sum())

    @property
    def rows(self) -> int:
        return int(self.read_bytes.shape[0])

    def within(self, rows: int) -> HeatMap:
        """The same map with neighbouring rows added up, until there are no more than `rows`."""
        step, _ = _grouping(self.rows, rows)
        firsts = np.arange(0, self.rows, step)
        read, write = (np.add.reduceat(values, firsts, axis=0) for values in (self.read_bytes, self.write_bytes))
        return replace(self, rank_step=self.rank_step * step, read_bytes=read, write_bytes=write)


def from_bins(
    module: str,
    nprocs: int,
    bin_seconds: float,
    ranks: NDArray[Any],
    lengths: NDArray[Any],
    read_values: NDArray[Any],
    write_values: NDArray[Any],
    wanted: Resolution,
) -> HeatMap | None:
    """From bins of equal width: record i is of rank `ranks[i]` and has the next `lengths[i]` values. None = fewer
    than two bins, which show no course of time."""
    bins = int(lengths.max(initial=0))
    if bins < 2 or not (np.isfinite(bin_seconds) and bin_seconds > 0):
        return None
    rank_step, rows = _grouping(nprocs, wanted.rows)
    column_step, columns = _grouping(bins, wanted.columns)
    starts = np.cumsum(lengths) - lengths
    column = (np.arange(len(read_values)) - np.repeat(starts, lengths)) // column_step
    rank = np.repeat(np.asarray(ranks, np.int64), lengths)
    inside = (rank >= 0) & (rank < nprocs)
    cell = (rank // rank_step * columns + column)[inside]
    read, write = (_summed(cell, values[inside], rows, columns) for values in (read_values, write_values))
    return HeatMap(module, "heat map", nprocs, rank_step, column_step * bin_seconds, read, write)


def _summed(cell: Ints, values: NDArray[Any], rows: int, columns: int) -> Floats:
    weights = np.maximum(values, 0).astype(np.float64)
    total = np.bincount(cell, weights=weights, minlength=rows * columns)
    return np.asarray(total, np.float64).reshape(rows, columns)


def from_segments(
    module: str,
    nprocs: int,
    run_seconds: float,
    ranks: NDArray[Any],
    segments: NDArray[Any],
    wanted: Resolution,
    origin: Origin = "trace",
) -> HeatMap | None:
    """From traced operations (write, length, start_seconds, end_seconds), each of one rank. None = no operation."""
    start, end = (np.asarray(segments[name], np.float64) for name in ("start_seconds", "end_seconds"))
    rank = np.asarray(ranks, np.int64)
    known = np.isfinite(start) & np.isfinite(end) & (start >= 0) & (end >= start) & (rank >= 0) & (rank < nprocs)
    if not known.any():
        return None
    start, end, rank = start[known], end[known], rank[known]
    length = np.maximum(segments["length"][known], 0).astype(np.float64)
    write = segments["write"][known]
    rank_step, rows = _grouping(nprocs, wanted.rows)
    column_seconds = max(run_seconds, float(end.max()), 1e-9) / wanted.columns
    grids = np.zeros((2, rows, wanted.columns))
    for first in range(0, len(start), _CHUNK):
        part = slice(first, first + _CHUNK)
        operation, column, amount = _spread(start[part], end[part], length[part], column_seconds, wanted.columns)
        cell = rank[part][operation] // rank_step * wanted.columns + column
        for kind in (False, True):
            mine = write[part][operation] == kind
            grids[int(kind)] += _summed(cell[mine], amount[mine], rows, wanted.columns)
    read, written = grids
    return HeatMap(module, origin, nprocs, rank_step, column_seconds, read, written)


def _spread(start: Floats, end: Floats, length: Floats, width: float, columns: int) -> tuple[Ints, Ints, Floats]:
    """Which operation, which column, how many bytes: each operation evenly over the columns that it touches."""
    first = np.minimum((start / width).astype(np.int64), columns - 1)
    last = np.minimum((end / width).astype(np.int64), columns - 1)
    touched = last - first + 1
    operation = np.repeat(np.arange(len(start)), touched)
    column = np.arange(len(operation)) - np.repeat(np.cumsum(touched) - touched, touched) + first[operation]
    inside = np.minimum(end[operation], (column + 1) * width) - np.maximum(start[operation], column * width)
    duration = (end - start)[operation]
    share = np.ones(len(operation))
    np.divide(np.maximum(inside, 0.0), duration, out=share, where=touched[operation] > 1)
    return operation, column, length[operation] * share


def _grouping(count: int, most: int) -> tuple[int, int]:
    """Members per group and number of groups."""
    step = max(1, -(-count // most))
    return step, max(1, -(-count // step))


def busiest(maps: tuple[HeatMap, ...]) -> HeatMap | None:
    """Of the maps with nearly all of the bytes the one of the highest layer, which is what the application called."""
    order = ("MPI-IO", "POSIX", "STDIO")
    most = max((each.total_bytes for each in maps), default=0.0)
    full = [each for each in maps if each.total_bytes >= 0.9 * most > 0]
    return min(full, key=lambda heat: order.index(heat.module) if heat.module in order else len(order), default=None)


def heat_chart(heat: HeatMap, title: str, *, split: bool) -> Chart:
    """With `split` reads and writes side by side, where there are both. A single process has a row for each."""
    parts = [("read", heat.read_bytes), ("written", heat.write_bytes)]
    used = [(name, values) for name, values in parts if values.sum() > 0] or parts[:1]
    times = [column * heat.column_seconds for column in range(heat.read_bytes.shape[1])]
    if heat.nprocs == 1:
        rows = [_cell_rows(times, [name], values) for name, values in used]
        return _chart(title, ResultColumn("rank", "", "text"), [row for part in rows for row in part])
    label = "rank" if heat.rank_step == 1 else f"first of {heat.rank_step:,} ranks"
    ranks: list[Cell] = [row * heat.rank_step for row in range(heat.rows)]
    column = ResultColumn("rank", label, "count")
    if not split or len(used) == 1:
        return _chart(title, column, _cell_rows(times, ranks, heat.read_bytes + heat.write_bytes))
    faceted = [(*row, name) for name, values in used for row in _cell_rows(times, ranks, values)]
    return _chart(title, column, faceted, facet="operation")


def _cell_rows(times: list[float], ranks: list[Cell], values: Floats) -> list[tuple[Cell, ...]]:
    return [
        (time, rank, amount)
        for rank, row in zip(ranks, values.tolist(), strict=True)
        for time, amount in zip(times, row, strict=True)
    ]


def _chart(title: str, ranks: ResultColumn, rows: list[tuple[Cell, ...]], facet: str | None = None) -> Chart:
    columns = [ResultColumn("seconds", "time since the start", "seconds"), ranks, ResultColumn("moved", "", "bytes")]
    columns += [ResultColumn(facet, "", "text")] if facet else []
    encoding = {"x": "seconds", "y": "rank", "value": "moved"}
    return Chart("heatmap", ResultTable("activity", tuple(columns), tuple(rows)), encoding, title, facet=facet)
