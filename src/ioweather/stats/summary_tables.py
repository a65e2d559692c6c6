"""From arrays to small tables: time lines thinned with their extremes, distributions, estimates as rows.

Exhibits are stored as JSON, so no table here has more than about 2,000 rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ioweather.core.frames import Floats, Ints
from ioweather.core.results import Cell, Reference, ResultColumn, ResultTable, columns_of

MAX_ROWS = 1998
CDF_POINTS = 400
_CUMULATIVE_POINTS = 500


def cells(values: Any) -> list[Cell]:
    """Return plain Python values; NaN and infinities are None."""
    if not isinstance(values, np.ndarray):
        return list(values)
    if values.dtype.kind != "f":
        return list(values.tolist())
    return [value if np.isfinite(value) else None for value in values.tolist()]


def table(name: str, columns: str, *values: Any, title: str = "") -> ResultTable:
    """Return a table of columns, which are written as for `ResultTable.of`; `values` are arrays or lists."""
    return ResultTable.of(name, columns, zip(*map(cells, values), strict=True), title)


def relabelled(made: ResultTable, **labels: str) -> ResultTable:
    """Return the table with other column labels, for the axes of a chart."""
    columns = tuple(replace(column, label=labels.get(column.name, column.label)) for column in made.columns)
    return replace(made, columns=columns)


def p_text(p: float) -> str:
    """Return a p-value as text; below a thousandth its digits mean nothing."""
    return f"p = {p:.2g}" if p >= 0.001 else "p < 0.001"


def thin(values: Floats, buckets: int) -> Ints:
    """Return the indices of the lowest and highest value of each of `buckets` stretches; of an empty one, its first
    step."""
    steps = len(values)
    if steps <= 2 * buckets:
        return np.arange(steps)
    edges = np.linspace(0, steps, buckets, endpoint=False).astype(np.int64)
    width = int(np.diff(np.append(edges, steps)).max())
    # Rows of equal width, padded with NaN: one argmin for all buckets.
    index = np.minimum(edges[:, None] + np.arange(width), steps - 1)
    inside = edges[:, None] + np.arange(width) < np.append(edges[1:], steps)[:, None]
    block = np.where(inside, values[index], np.nan)
    lowest = np.where(np.isnan(block), np.inf, block).argmin(axis=1)
    highest = np.where(np.isnan(block), -np.inf, block).argmax(axis=1)
    return np.unique(np.concatenate([edges + lowest, edges + highest]))


def timeline_table(
    name: str, times_ns: NDArray[Any], series: Mapping[str, Floats], label: str, unit: str
) -> ResultTable:
    """Return all series as long rows, thinned to MAX_ROWS in total."""
    buckets = max(1, MAX_ROWS // (2 * max(1, len(series))))
    rows: list[tuple[Cell, ...]] = []
    for key, values in series.items():
        picks = thin(values, buckets)
        rows += zip(cells(times_ns[picks]), [key] * len(picks), cells(values[picks]), strict=True)
    columns = (*columns_of("time [time_ns]; series [text]"), ResultColumn("value", label, unit))
    return ResultTable(name, columns, tuple(rows))


def cumulative_table(
    name: str, times_ns: NDArray[Any], series: Mapping[str, Floats], label: str, unit: str
) -> ResultTable:
    """Return running totals of amounts at evenly spaced steps (`series`, NaN where nothing was recorded).

    Totals only rise, so nothing hides between two points. Visible gaps, longer than a point's share of the axis, stay
    empty.
    """
    rows: list[tuple[Cell, ...]] = []
    for key, amounts in series.items():
        values = np.cumsum(np.nan_to_num(amounts, nan=0.0))
        picks = np.linspace(0, len(values) - 1, min(len(values), _CUMULATIVE_POINTS)).astype(np.int64)
        missing = np.concatenate([[False], np.isnan(amounts), [False]])
        first, after = np.flatnonzero(missing[1:] & ~missing[:-1]), np.flatnonzero(missing[:-1] & ~missing[1:])
        for low, high in zip(first.tolist(), after.tolist(), strict=True):
            if high - low > len(values) / _CUMULATIVE_POINTS:
                values[low:high] = np.nan
                picks = np.append(picks, [each for each in (low - 1, low, high) if 0 <= each < len(values)])
        picks = np.unique(picks)
        rows += zip(cells(times_ns[picks]), [key] * len(picks), cells(values[picks]), strict=True)
    columns = (*columns_of("time [time_ns]; series [text]"), ResultColumn("value", label, unit))
    return ResultTable(name, columns, tuple(rows))


def ecdf_points(values: NDArray[Any], points: int) -> tuple[Floats, Floats]:
    """Return distinct values in order, and the share of values <= each.

    At most `points`, even in probability, both ends included.
    """
    array = np.asarray(values, np.float64)
    x, counts = np.unique(array[~np.isnan(array)], return_counts=True)
    share = np.cumsum(counts) / max(1, counts.sum())
    if len(x) <= points:
        return x, share
    wanted = np.linspace(share[0], 1.0, points)
    picks = np.unique(np.minimum(np.searchsorted(share, wanted), len(x) - 1))
    return x[picks], share[picks]


def cdf_table(name: str, series: Mapping[str, Floats], label: str, unit: str) -> ResultTable:
    """Return cumulative distributions as long rows, with at most CDF_POINTS points each."""
    rows: list[tuple[Cell, ...]] = []
    for key, values in series.items():
        x, share = ecdf_points(values, CDF_POINTS)
        rows += zip([key] * len(x), cells(x), cells(share), strict=True)
    columns = (
        ResultColumn("series", "", "text"),
        ResultColumn("value", label, unit),
        ResultColumn("share", "share at or below", "ratio"),
    )
    return ResultTable(name, columns, tuple(rows))


def shaded(start_ns: int, end_ns: int, label: str) -> Reference:
    """Return a shaded range of the time axis."""
    return Reference("x", float(start_ns), label, float(end_ns))
