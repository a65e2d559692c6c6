"""Reads the table of a chart: columns by channel, thinned points, series with colours, and a description in words."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from ioweather.core.frames import Floats, Indices
from ioweather.core.results import Cell, Chart, ResultColumn
from ioweather.core.units import format_value, marked, names_of, ns_to_datetime, shown_zone
from ioweather.ui.charts.theme import HUES, SERIES, Spec, text_px

NONE = "(none)"
_NS_PER_MS = 1_000_000
TIME_UNITS = ("time_ns", "date")
_BEYOND = 1e30  # more than any facility measures; larger floats lose precision in arithmetic
_LONGEST_NAME = 200
FIRST_MS, LAST_MS = -62_000_000_000_000.0, 253_000_000_000_000.0  # the years 5 and 9987


def column(chart: Chart, channel: str) -> ResultColumn:
    """The column that is drawn on a channel."""
    name = chart.encoding[channel]
    return next(c for c in chart.table.columns if c.name == name)


def is_time(chart: Chart, channel: str) -> bool:
    return column(chart, channel).unit in TIME_UNITS


def cells(chart: Chart, channel: str) -> tuple[Cell, ...]:
    return chart.table.column(chart.encoding[channel])


def numbers(chart: Chart, channel: str) -> Floats:
    """The column as floats; missing, text and infinities are NaN. Times become epoch milliseconds."""
    read = {"time_ns": _parse_milliseconds, "date": _parse_date}.get(column(chart, channel).unit, number)
    return np.array([read(cell) for cell in cells(chart, channel)], dtype=np.float64)


def is_numeric(chart: Chart, channel: str) -> bool:
    """Whether the column has at least one number and no text."""
    kinds = {type(cell) for cell in cells(chart, channel) if cell is not None}
    return bool(kinds) and all(issubclass(kind, (int, float)) and kind is not bool for kind in kinds)


def names(chart: Chart, channel: str) -> list[str]:
    """The column as formatted texts."""
    unit = column(chart, channel).unit
    return [name_of(cell, unit) for cell in cells(chart, channel)]


def name_of(cell: Cell, unit: str) -> str:
    """The cell as a formatted text, shortened in the middle if very long."""
    if cell is None or cell == "":
        return NONE
    try:
        name = marked(format_value(cell, unit))
        # To draw a name of 100,000 characters takes minutes.
        return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 50]}…{name[-49:]}"
    except (OverflowError, ValueError):  # a time outside the calendar
        return str(cell)


def split_curves(chart: Chart) -> tuple[Chart, dict[str, list[tuple[float, float]]]]:
    """The chart without the rows of its curves, and the points of each curve by name; NaN is a break."""
    if "curve" not in chart.encoding:
        return chart, {}
    curves: dict[str, list[tuple[float, float]]] = {}
    rows = []
    of_row = zip(chart.table.rows, cells(chart, "curve"), numbers(chart, "x"), numbers(chart, "y"), strict=True)
    for row, name, x, y in of_row:
        if name:
            curves.setdefault(str(name), []).append((float(x), float(y)))
        else:
            rows.append(row)
    encoding = {channel: column for channel, column in chart.encoding.items() if channel != "curve"}
    return replace(with_rows(chart, rows), encoding=encoding), curves


def distinct(values: Iterable[str]) -> tuple[str, ...]:
    """The distinct values in order of first appearance."""
    return tuple(dict.fromkeys(values))


def with_rows(chart: Chart, rows: Sequence[tuple[Cell, ...]]) -> Chart:
    return replace(chart, table=replace(chart.table, rows=tuple(rows)))


def drawable(value: float) -> float | int | None:
    """A number as it goes into a specification, without digits that no screen shows. NaN is null.

    From a million on whole numbers are fine enough, and times (1.7e12 ms) need every digit before the point.
    """
    if not math.isfinite(value):
        return None
    whole = round(value)
    if (whole == value or abs(value) >= 1e6) and abs(whole) < 1 << 53:
        return whole
    return float(f"{value:.9g}")


def number(cell: Cell) -> float:
    """The cell as a float; text, infinities and numbers too large to draw are NaN."""
    if cell is None or isinstance(cell, str):
        return math.nan
    value = float(cell)
    if abs(value) < 1 / _BEYOND:
        return 0.0
    return value if abs(value) < _BEYOND else math.nan


def _parse_milliseconds(cell: Cell) -> float:
    """Nanoseconds as milliseconds of the shown clock; NaN outside the calendar. Integers are divided exactly."""
    value = float(cell // _NS_PER_MS) if isinstance(cell, int) else number(cell) / _NS_PER_MS
    return local_ms(value) if FIRST_MS <= value <= LAST_MS else math.nan


def local_ms(value: float) -> float:
    """The milliseconds of the clock in the zone that people read times in: charts have no zones of their own."""
    zone = shown_zone()
    if zone is dt.UTC or math.isnan(value):
        return value
    offset = ns_to_datetime(int(value) * _NS_PER_MS, zone).utcoffset()
    return value if offset is None else value + offset.total_seconds() * 1000


def _parse_date(cell: Cell) -> float:
    """Milliseconds since 1970 of an ISO date; NaN if it is none."""
    try:
        day = dt.date.fromisoformat(str(cell)[:10])
    except ValueError:
        return math.nan
    return (day - dt.date(1970, 1, 1)).days * 86_400_000.0


# No chart carries more: a browser stays quick, and a page with sixty charts stays below a few megabytes.
MAX_POINTS: Final = 5000


def thin_line(x: Floats, y: Floats, buckets: int) -> Indices:
    """First, lowest, highest and last of every bucket of x (M4, Jugel et al. 2014): a line drawn from them at one
    bucket per pixel covers the same pixels. `x` ascends.

    One missing value is kept for every gap wider than a bucket; narrower ones cannot be seen. At most five indices
    per bucket come back.
    """
    finite = np.isfinite(y) & np.isfinite(x)
    if len(x) <= 4 * buckets:
        return np.flatnonzero(np.isfinite(x))
    where = np.flatnonzero(finite)
    if len(where) == 0:
        return where
    bucket = _assign_buckets(x, x[where[0]], x[where[-1]], buckets)[where]
    starts = np.flatnonzero(np.r_[True, np.diff(bucket) > 0])
    ends = np.r_[starts[1:], len(where)] - 1
    by_height = where[np.lexsort((y[where], bucket))]  # within each bucket from the lowest to the highest
    before, after = where[:-1], where[1:]
    wide = x[after] - x[before] > (x[where[-1]] - x[where[0]]) / buckets
    gaps = before[(after - before > 1) & wide] + 1
    gaps = gaps[np.isfinite(x[gaps])]
    return np.unique(np.r_[where[starts], by_height[starts], by_height[ends], where[ends], gaps])


def _assign_buckets(x: Floats, low: float, high: float, buckets: int) -> Indices:
    """The number of the bucket of each value, of `buckets` equal ones between `low` and `high`."""
    if high <= low:
        return np.zeros(len(x), dtype=np.intp)
    scaled = (x - low) / (high - low) * buckets
    return np.clip(np.nan_to_num(scaled), 0, buckets - 1).astype(np.intp)


def thin_scatter(x: Floats, y: Floats, limit: int) -> Indices:
    """One point for every cell of the finest grid with at most `limit` occupied cells, and the extremes of both axes.

    Outliers have a cell of their own, so they stay; what is lost is how many lie on top of each other.
    """
    where = np.flatnonzero(np.isfinite(x) & np.isfinite(y))
    if len(where) <= limit:
        return where
    px, py = x[where], y[where]
    extremes = np.array([px.argmin(), px.argmax(), py.argmin(), py.argmax()])
    room = max(limit - len(np.unique(extremes)), 1)
    first = np.zeros(1, dtype=np.intp)
    for side in (400, 300, 220, 160, 120, 90, 64, 45, 32, 16, 8, 4, 2):
        cell = _assign_buckets(px, px.min(), px.max(), side) * side + _assign_buckets(py, py.min(), py.max(), side)
        _, first = np.unique(cell, return_index=True)
        if len(first) <= room:
            break
    kept: Indices = where[np.unique(np.r_[first[:room], extremes])]
    return kept


def bin_cells(column: Indices, row: Indices, value: Floats, limit: int) -> tuple[Indices, Indices, Floats, int, int]:
    """Cells (column, row, value) averaged over blocks until at most `limit` remain.

    Gives the first column and first row of each block, its mean, and the block's size. Missing values take no part;
    a block without any stays out.
    """
    known = np.isfinite(value)
    column, row, value = column[known], row[known], value[known]
    wide, high = 1, 1
    while len(value):
        columns, rows = int(column.max()) // wide + 1, int(row.max()) // high + 1
        if len(np.unique((row // high) * columns + column // wide)) <= limit:
            break
        if columns >= rows:
            wide += max(1, wide // 4)
        else:
            high += max(1, high // 4)
    if wide == high == 1:
        return column, row, value, 1, 1
    columns = int(column.max()) // wide + 1
    key, inverse, count = np.unique((row // high) * columns + column // wide, return_inverse=True, return_counts=True)
    mean = np.bincount(inverse, weights=value) / count
    return key % columns * wide, key // columns * high, mean, wide, high


# Series that have the same colour in every picture, by the first of their names.
_PEERS: Final = {"highest": 7, "median": 15}  # the palette's greys: what something is compared with
_FIXED: Final[Mapping[str, int]] = {
    name: place
    for place, names in enumerate(
        [
            "read",
            "write, written, power law",
            "create, gamma",
            "delete, lognormal",
            "file_read, weibull, this run",
            "stat, exponential, during the problem",
            "",
            "similar runs",
        ]
    )
    for name in names.split(", ")
}
_ROUND: Final = ("this run", "during the problem")
_SHAPES: Final = names_of("circle square triangle-up diamond cross triangle-down triangle-right circle")


@dataclass(frozen=True)
class Series:
    """`names` is empty for a chart without series. More than two rounds of colours cannot be distinguished: such a
    bundle is drawn in one thin colour, without a legend."""

    names: tuple[str, ...] = ()
    heading: str = ""
    subject: int = 0  # the place in the palette of a series that is drawn with the median of its peers

    @property
    def bundled(self) -> bool:
        return len(self.names) > len(SERIES)

    @property
    def order(self) -> list[int]:
        """The place in the palette of each series: fixed by its name, else the next free one.
        Peers are grey, their median pale; then the series without a fixed place have the colour of `subject`."""
        peers = {n: _PEERS[n.split(" of ")[0]] for n in self.names if n.startswith(tuple(f"{k} of " for k in _PEERS))}
        other = self.subject if peers else None
        fixed = {n: peers[n] if n in peers else _FIXED.get(n.casefold().partition(",")[0], other) for n in self.names}
        taken = {place for place in fixed.values() if place is not None}
        free = (index for index in range(len(SERIES) + len(taken)) if index not in taken)
        chosen = [fixed[n] for n in self.names[: len(SERIES)]]
        return [next(free) % len(SERIES) if place is None else place for place in chosen]

    def legend(self, width: int, offset: int = 6) -> Spec | None:
        """The legend above the plot; None without series, or with too many."""
        if not self.names or self.bundled:
            return None
        widest = max(text_px(name) for name in self.names)
        columns = max(1, min(len(self.names), int((width + 14) // (min(widest, 220) + 36))))
        legend = {"title": None, "orient": "top", "direction": "horizontal", "columns": columns}
        return legend | {"offset": offset, "labelLimit": 220, "symbolOpacity": 1}

    def colour(self, legend: Spec | None) -> Spec:
        """The colour channel of the field `s`."""
        if not self.names or self.bundled:
            return {"value": SERIES[0]}
        scale = {"domain": list(self.names), "range": [SERIES[i] for i in self.order]}
        return {"field": "s", "type": "nominal", "scale": scale, "legend": legend}

    def dash(self, legend: Spec | None) -> Spec:
        """The channel that dashes the lines of the second round of colours."""
        if self.bundled or len(self.names) <= HUES:
            return {}
        dashes = [[1, 0] if i < HUES else [5, 3] for i in self.order]
        scale = {"domain": list(self.names), "range": dashes}
        return {"strokeDash": {"field": "s", "type": "nominal", "scale": scale, "legend": legend}}

    def shape(self, legend: Spec | None) -> Spec:
        """The channel that gives each series its own symbol."""
        if self.bundled or len(self.names) < 2:
            return {}
        shapes = ["circle" if n in _ROUND else _SHAPES[i % HUES] for n, i in zip(self.names, self.order, strict=False)]
        scale = {"domain": list(self.names), "range": shapes}
        return {"shape": {"field": "s", "type": "nominal", "scale": scale, "legend": legend}}


def series_of(chart: Chart) -> Series:
    """The series of a chart in the order of the table, with the heading of their column."""
    if "series" not in chart.encoding:
        return Series()
    chart, _ = split_curves(chart)
    subject = 5 if any(each.role == "bad" for each in chart.references) else 0
    return Series(distinct(names(chart, "series")), column(chart, "series").heading, subject)


_KIND = {
    "timeline": "Timeline",
    "cdf": "Cumulative distribution",
    "histogram": "Histogram",
    "box": "Box plot",
    "band": "Curve with interval",
    "scatter": "Scatter plot",
    "heatmap": "Heat map",
    "bars": "Bar chart",
    "matrix": "Matrix",
}
_MOST_NAMES = 12


def describe(chart: Chart) -> str:
    """Describe a chart in words: kind, title, axes with their ranges, series."""
    chart, _ = split_curves(chart)
    parts = [_KIND[chart.kind] + (f": {chart.title}" if chart.title else "")]
    channels = [channel for channel in chart.encoding if channel not in ("series", "label")]
    ranges = [_describe_range(chart, channel) for channel in channels] if chart.table.rows else []
    parts.append("; ".join(filter(None, ranges)) or "no data")
    if "series" in chart.encoding and chart.table.rows:
        parts.append(f"Series: {_join_names(distinct(names(chart, 'series')))}")
    return ". ".join(parts) + "."


def _describe_range(chart: Chart, channel: str) -> str:
    """The lowest and highest value of a channel in words, or its names; empty if there are none."""
    shown = column(chart, channel)
    if not (is_time(chart, channel) or is_numeric(chart, channel)):
        if channel not in ("x", "y"):
            return ""
        return f"{shown.heading}: {_join_names(distinct(names(chart, channel)))}"
    values = numbers(chart, channel)
    known = values[np.isfinite(values)]
    if len(known) == 0:
        return ""
    scale = 1_000_000 if is_time(chart, channel) else 1
    unit = "time_ns" if is_time(chart, channel) else shown.unit
    low, high = (format_value(float(v) * scale, unit) for v in (known.min(), known.max()))
    return f"{shown.heading} {low} to {high}" if low != high else f"{shown.heading} {low}"


def _join_names(labels: tuple[str, ...]) -> str:
    more = len(labels) - _MOST_NAMES
    return ", ".join(labels[:_MOST_NAMES]) + (f" and {more:,} more" if more > 0 else "")
