"""The activity of a run by rank and time: bytes of each group of ranks in each stretch of the run.

It comes from Darshan's heat map module, which counts bytes in bins of time, or from its traces (DXT). Each bin, or
traced operation, is spread evenly over its time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ioweather.core.frames import Floats, Ints
from ioweather.core.results import Cell, Chart, ResultColumn, ResultTable
from ioweather.readers.darshan.log import DarshanLog

Origin: TypeAlias = Literal["heat map", "trace"]
_TRACES: Final = {"MPI-IO": "DXT_MPIIO", "POSIX": "DXT_POSIX"}
_NAMES: Final = {"MPIIO": "MPI-IO"}
# Modules of a log that heat maps are made from.
HEAT_MODULES: Final = ("HEATMAP", *_TRACES.values())
# Operations of a trace per chunk: each may cover every column.
_CHUNK = 1 << 18
_FEWEST_BINS: Final = 2  # of a map that shows anything
# Part of a bin: rounding must not move a bin over the edge of a column.
_MARGIN: Final = 1e-10
_SEGMENT: Final = [("write", "?"), ("length", "f8"), ("start_seconds", "f8"), ("end_seconds", "f8")]


# Maximum number of rows (groups of ranks) and columns (stretches of time): a drawn cell takes some 130 bytes, and a
# page has up to twelve drawings: two modules, two operations, two widths.
_MOST: Final = (24, 48)


@dataclass(frozen=True, eq=False)
class HeatMap:
    """Row i has ranks [i * rank_step, (i + 1) * rank_step), column j the time [j, j + 1) * column_seconds since the
    start. `unrecorded_ranks` have no record of it although Darshan ran out of memory for it."""

    module: str
    origin: Origin
    nprocs: int
    rank_step: int
    column_seconds: float
    read_bytes: Floats
    write_bytes: Floats
    unrecorded_ranks: tuple[int, ...] = ()

    @property
    def total_bytes(self) -> float:
        return float(self.read_bytes.sum() + self.write_bytes.sum())


class Operations(NamedTuple):
    """Ranks and segments (write, length, start_seconds, end_seconds) of one module of a log; the width and number of
    its bins, 0 for a trace; and ranks without a record."""

    ranks: Ints
    segments: NDArray[Any]
    bin_seconds: float = 0.0
    bins: int = 0
    unrecorded_ranks: tuple[int, ...] = ()


def make_heat_maps(log: DarshanLog) -> tuple[HeatMap, ...]:
    """Return one heat map per module of a log. Time is since its start; columns are whole bins of its heat map."""
    found = []
    for module, operations in sorted(_list_operations(log).items()):
        origin: Origin = "heat map" if operations.bins else "trace"
        found.append(spread_operations(module, log.job.nprocs, log.job.run_seconds, operations, origin, _MOST))
    return tuple(heat for heat in found if heat is not None and heat.total_bytes > 0)


def _list_operations(log: DarshanLog) -> dict[str, Operations]:
    """Return operations by module: each bin of its heat map as one operation, else those of its trace."""
    found: dict[str, Operations] = {}
    heat = log.modules.get("HEATMAP")
    if heat is not None:
        records = heat.records
        lengths = records["bins"].astype(np.int64)
        of_record = np.repeat(np.arange(len(records)), lengths)
        number = np.arange(len(of_record)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        for record_id in np.unique(records["id"]).tolist():
            mine = records["id"] == record_id
            width, bins = float(records["bin_width_seconds"][mine][0]), int(lengths[mine].max())
            if bins < _FEWEST_BINS or not (np.isfinite(width) and width > 0):
                continue
            parts, ranks = [], []
            for write, name in ((False, "read_bins"), (True, "write_bins")):
                values = heat.ragged[name].values
                there = mine[of_record] & (values > 0)
                start = (number[there] + _MARGIN) * width
                end = (number[there] + 1 - _MARGIN) * width
                # The last bin reaches beyond the run; what is in it happened before its end.
                end = np.where(start < log.job.run_seconds, np.minimum(end, log.job.run_seconds), end)
                segments = np.zeros(len(start), _SEGMENT)
                segments["write"], segments["length"] = write, values[there]
                segments["start_seconds"], segments["end_seconds"] = start, end
                parts.append(segments)
                ranks.append(records["rank"][of_record][there])
            if any(map(len, parts)):
                module = log.names.get(record_id, "").removeprefix("heatmap:") or "unnamed"
                lost = np.setdiff1d(np.arange(log.job.nprocs), records["rank"][mine]).tolist() if heat.partial else ()
                operations = Operations(np.concatenate(ranks), np.concatenate(parts), width, bins, tuple(lost))
                found[_NAMES.get(module, module)] = operations
    for module, trace in _TRACES.items():
        part = log.modules.get(trace)
        if module not in found and part is not None and part.segments is not None and len(part.segments):
            segments = np.zeros(len(part.segments), _SEGMENT)
            for name, _ in _SEGMENT:
                segments[name] = part.segments[name]
            found[module] = Operations(part.records["rank"][part.segments["record"]], segments)
    return found


def spread_operations(
    module: str, nprocs: int, run_seconds: float, operations: Operations, origin: Origin, most: tuple[int, int]
) -> HeatMap | None:
    """Make a heat map from operations of one rank each; None without any. Its columns are whole bins, if there are;
    `most` are its rows and columns at most."""
    ranks, segments, bin_seconds, bins, unrecorded = operations
    start, end = (np.asarray(segments[name], np.float64) for name in ("start_seconds", "end_seconds"))
    known = np.isfinite(start) & np.isfinite(end) & (start >= 0) & (end >= start) & (ranks >= 0) & (ranks < nprocs)
    if not known.any():
        return None
    start, end, ranks, write = start[known], end[known], ranks[known], segments["write"][known]
    length = np.maximum(segments["length"][known], 0).astype(np.float64)
    rank_step, rows = _split_into_groups(nprocs, most[0])
    columns, column_seconds = most[1], max(run_seconds, float(end.max()), 1e-9) / most[1]
    if bins:
        bins_of_column, columns = _split_into_groups(bins, most[1])
        column_seconds = bins_of_column * bin_seconds
    grids = np.zeros((2, rows * columns))
    for first in range(0, len(start), _CHUNK):
        part = slice(first, first + _CHUNK)
        operation, column, share = _spread_over_columns(start[part], end[part], column_seconds, columns)
        cell = ranks[part][operation] // rank_step * columns + column
        amount, wrote = length[part][operation] * share, write[part][operation]
        for kind in (0, 1):
            grids[kind] += np.bincount(cell[wrote == kind], amount[wrote == kind], minlength=rows * columns)
    read, written = grids.reshape(2, rows, columns)
    return HeatMap(module, origin, nprocs, rank_step, column_seconds, read, written, unrecorded)


def _spread_over_columns(start: Floats, end: Floats, width: float, columns: int) -> tuple[Ints, Ints, Floats]:
    """Return operation, column and share: each operation is spread evenly over the columns of its time."""
    first, last = (np.minimum((each / width).astype(np.int64), columns - 1) for each in (start, end))
    touched = last - first + 1
    operation = np.repeat(np.arange(len(start)), touched)
    column = np.arange(len(operation)) - np.repeat(np.cumsum(touched) - touched, touched) + first[operation]
    inside = np.minimum(end[operation], (column + 1) * width) - np.maximum(start[operation], column * width)
    share = np.ones(len(operation))
    np.divide(np.maximum(inside, 0.0), (end - start)[operation], out=share, where=touched[operation] > 1)
    return operation, column, share


def _split_into_groups(count: int, most: int) -> tuple[int, int]:
    """Return members per group and number of groups."""
    step = max(1, -(-count // most))
    return step, max(1, -(-count // step))


def draw_heat_map(heat: HeatMap, title: str) -> Chart:
    """Return the chart of a heat map, reads and writes side by side. A single process has a row for each."""
    if lost := heat.unrecorded_ranks:
        which = f"rank {lost[0]:,}" if len(lost) == 1 else f"{len(lost):,} of {heat.nprocs:,} ranks"
        title = f"{title}; not recorded: {which}"
    parts = [("read", heat.read_bytes), ("written", heat.write_bytes)]
    used = [(name, values) for name, values in parts if values.sum() > 0] or parts[:1]
    facet = len(used) > 1 and heat.nprocs > 1
    rows: list[tuple[Cell, ...]] = []
    for name, values in used:
        for row, amounts in enumerate(values.tolist()):
            rank = name if heat.nprocs == 1 else row * heat.rank_step
            cells = ((place * heat.column_seconds, rank, amount) for place, amount in enumerate(amounts))
            rows += [(*cell, name) for cell in cells] if facet else cells
    ranks = ResultColumn("rank", "rank" if heat.rank_step == 1 else f"rank (one row for {heat.rank_step:,})", "count")
    if heat.nprocs == 1:
        ranks = ResultColumn("rank", "", "text")
    columns = [ResultColumn("seconds", "time since start", "seconds"), ranks, ResultColumn("moved", "", "bytes")]
    columns += [ResultColumn("operation", "", "text")] if facet else []
    encoding = {"x": "seconds", "y": "rank", "value": "moved"}
    table = ResultTable("activity", tuple(columns), tuple(rows))
    return Chart("heatmap", table, encoding, title, facet="operation" if facet else None)
