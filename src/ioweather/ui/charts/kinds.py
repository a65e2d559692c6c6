"""The chart kinds: which channels each has, its axes, and how a panel of it is drawn."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Final, Literal

import numpy as np

from ioweather.core.frames import Floats, Indices
from ioweather.core.results import Chart, ResultColumn
from ioweather.core.units import format_value
from ioweather.ui.charts import axes as axis_of
from ioweather.ui.charts import chart_data, theme
from ioweather.ui.charts.axes import (
    Axis,
    draw_text,
    make_number_axis,
    make_position_axis,
    make_time_axis,
    make_value_axis,
)
from ioweather.ui.charts.chart_data import Series, thin_line
from ioweather.ui.charts.panels import (
    HOVER,
    NO_VALUE,
    OFF_LOG_AXIS,
    SIDE_LEGEND_PX,
    Axes,
    Drawing,
    PanelKind,
    View,
    choose_standard_size,
)
from ioweather.ui.charts.theme import INK, LABEL_SIZE, NEUTRAL, SERIES, Spec, text_px

# Rows have short fields, because pages carry thousands: x, y; l, h: low and high; s: series; n, m: names; a, b: left
# and right; c, d: bottom and top; o: base of a bar; v: value; z: size; t: text; k: class or ink.
_CROWDED_PX = 9  # closer than this, points on a line become a rope
_STEPS_BELOW = 60  # with more points the step of a distribution is no wider than the line


def _make_cdf_axes(chart: Chart, width: int) -> Axes:
    """Shares reach from 0 to 100%, whatever part of it the data show."""
    column = chart_data.column(chart, "y")
    log = chart.scales.get("y") == "log"
    ends = np.array([1.0]) if log else np.array([0.0, 1.0])
    share = replace(column, unit=column.unit or "ratio")
    y = make_number_axis(share, [chart_data.numbers(chart, "y"), ends], log=log, tight=True)
    return Axes(make_position_axis(chart, "x"), y)


def _draw_curves(view: View) -> Drawing:
    """Lines, their bands, and points where a value is alone between gaps."""
    chart, series = view.chart, view.series
    x, y = chart_data.numbers(chart, "x"), chart_data.numbers(chart, "y")
    position, shown = view.axes.x.fractions(x), _select_drawable(y, view.axes.y)
    drawn_columns = {"y": shown}
    banded = "low" in chart.encoding and "high" in chart.encoding
    if banded:
        low = _select_drawable(chart_data.numbers(chart, "low"), view.axes.y, floor=True)
        high = _select_drawable(chart_data.numbers(chart, "high"), view.axes.y)
        drawn_columns |= {"l": np.where(np.isnan(high), np.nan, low), "h": np.where(np.isnan(low), np.nan, high)}
    labels = np.array(chart_data.names(chart, "series") if series.names else [""] * len(x))
    names = chart_data.distinct(labels.tolist())
    buckets = max(min(view.width, view.points // (5 * len(drawn_columns)) // max(len(names), 1)), 2)
    rows: list[Spec] = []
    alone: list[Spec] = []
    for name in names:
        mine = np.flatnonzero((labels == name) & np.isfinite(x))
        mine = mine[np.argsort(x[mine], kind="stable")]
        kept = [thin_line(position[mine], values[mine], buckets) for values in drawn_columns.values()]
        places = mine[np.unique(np.concatenate(kept))]
        here = [
            _make_row(name, x=x[i], **{field: values[i] for field, values in drawn_columns.items()}) for i in places
        ]
        rows += [*here, _make_row(name, x=math.nan, y=math.nan)] if series.bundled else here
        # A line through a value without a neighbour has no length.
        known = np.r_[False, np.isfinite(shown[places]), False]
        alone += [here[i] for i in np.flatnonzero(known[1:-1] & ~known[:-2] & ~known[2:])]
    drawn = sum(row["y"] is not None for row in rows)
    total = int((np.isfinite(shown) & np.isfinite(x)).sum())
    hidden = int((np.isfinite(y) & np.isfinite(x)).sum()) - total
    thinned = "drawn from {} values: the lowest and highest value of each pixel"
    notes = {thinned: total} if drawn < total else {}
    notes |= {OFF_LOG_AXIS: hidden} if hidden else {}
    per_series = drawn / max(len(names), 1)
    is_distribution = chart.kind == "cdf"
    stepped = is_distribution and len(chart.table.rows) / max(len(series.names), 1) <= _STEPS_BELOW
    dots = alone if per_series * _CROWDED_PX > view.width or stepped or series.bundled else rows
    base = {"x": view.x("x"), "y": view.y("y"), "color": series.colour(view.legend)}
    # A bundle is one path with breaks in the order of the rows: a group of marks per series takes ten times as long.
    split: Spec = {"detail": {"field": "s", "type": "nominal"}} if series.names and not series.bundled else {}
    line: Spec = {"type": "line", "interpolate": "step-after" if stepped else "linear", "clip": True}
    if series.bundled:
        line |= {"strokeWidth": 0.6, "opacity": 0.6, "order": False}
    elif per_series > view.width and len(series.names) > 1:
        # Lines with more than a point per pixel cover each other: thin and pale, both can be seen.
        line |= {"strokeWidth": 1, "opacity": 0.75}
    else:
        line["strokeWidth"] = 1.6
    layers: list[Spec] = []
    if banded:
        area = base | split | {"y": base["y"] | {"field": "l"}, "y2": {"field": "h"}}
        layers.append({"mark": line | {"type": "area", "opacity": 0.22, "line": False}, "encoding": area})
    layers.append({"mark": line, "encoding": base | split | series.dash(view.legend)})
    if dots:
        mark = {"type": "point", "filled": True, "size": 20, "opacity": 1}
        layers.append({"data": {"values": [d for d in dots if d["y"] is not None]}, "mark": mark, "encoding": base})
    # Wide enough to be met by a pointer; without a colour, which would change the symbols of the legend.
    tips, transforms = view.tooltip({"x": chart_data.column(chart, "x"), "y": chart_data.column(chart, "y")})
    mark = {"type": "point", "filled": True, "size": 300, "opacity": 0}
    where = {"x": base["x"], "y": base["y"], "tooltip": tips}
    layers.append({"name": HOVER, "transform": transforms, "mark": mark, "encoding": where})
    return Drawing(layers, rows, notes)


def _make_row(series: str, **values: float) -> Spec:
    row: Spec = {name: chart_data.drawable(float(value)) for name, value in values.items()}
    return row | {"s": series} if series else row


def _select_drawable(values: Floats, axis: Axis, *, floor: bool = False) -> Floats:
    """Values that a logarithmic axis cannot show are missing there; the lower edge of a band ends at the axis."""
    if not axis.log:
        return values
    return np.where(values > 0, values, np.where(np.isnan(values), np.nan, axis.low if floor else np.nan))


def _make_curve_axes(chart: Chart, _: int) -> Axes:
    return Axes(make_position_axis(chart, "x"), make_value_axis(chart, "y", ("y", "low", "high")))


TIMELINE = PanelKind(("x", "y"), _make_curve_axes, _draw_curves, optional=("series", "low", "high"))
BAND = PanelKind(
    ("x", "y", "low", "high"), _make_curve_axes, _draw_curves, optional=("series",), shown=("y", "low", "high")
)
CDF = PanelKind(("x", "y"), _make_cdf_axes, _draw_curves, optional=("series",))


_MOST_LYING = 40
_GAP = 0.12  # of a place, on each side
_QUANTILES = ("q05", "q25", "q50", "q75", "q95")
_FEW_BINS = 16
_OPEN = (chart_data.NONE, "∞", "-∞", "–")  # how a missing edge is written


def _make_place_axes(chart: Chart, value: Axis, width: int) -> Axes:
    """Names of the x column along the bottom, or down the side where they do not fit next to each other."""
    places = axis_of.make_names_axis(chart, "x")
    widest = max(map(text_px, places.names), default=0)
    fit = axis_of.names_fit(places.names, width - 70)
    lying = not fit and len(places.names) <= _MOST_LYING and widest > 26
    return Axes(value, places, flipped=True) if lying else Axes(places, value)


def _choose_place_size(axes: Axes, series: Series, width: int, panels: int) -> tuple[int, int]:
    """The plot in pixels; with names down the side it is as high as they need."""
    if not axes.flipped:
        return choose_standard_size(axes, series, width, panels)
    each = 8 + max(len(series.names), 1) * (11 if len(series.names) > 1 else 14)
    return width, max(len(axes.y.names) * each, 60)


def _find_row_extents(view: View) -> tuple[Floats, Floats]:
    """Start and end of each row along the axis of names, in places from 0."""
    axis = view.axes.y if view.axes.flipped else view.axes.x
    index = {name: i for i, name in enumerate(axis.names)}
    left = np.array([index[name] for name in chart_data.names(view.chart, "x")], dtype=np.float64)
    return _split_extents(view, left, left + 1)


def _split_extents(view: View, left: Floats, right: Floats, gap: float = _GAP) -> tuple[Floats, Floats]:
    """Start and end of each row within its place: series share the place side by side, with a gap on both sides."""
    count = max(len(view.series.names), 1)
    slot = np.zeros(len(left))
    if view.series.names:
        order = {name: i for i, name in enumerate(view.series.names)}
        slot = np.array([order[name] for name in chart_data.names(view.chart, "series")], dtype=np.float64)
    inner = (right - left) * (1 - 2 * gap)
    start = left + (right - left) * gap + inner * slot / count
    return start, start + inner / count


def _make_position_channels(view: View, place: str, value: str, place2: str = "", value2: str = "") -> Spec:
    """The position channels of fields: `place` along the names, `value` along the values, on either side."""
    across, along = ("y", "x") if view.axes.flipped else ("x", "y")
    encoding: Spec = {across: (view.y if view.axes.flipped else view.x)(place)}
    encoding[along] = (view.x if view.axes.flipped else view.y)(value)
    encoding |= {f"{across}2": {"field": place2}} if place2 else {}
    return encoding | ({f"{along}2": {"field": value2}} if value2 else {})


def _make_rows(view: View, indices: list[int], names: list[str], **columns: Floats) -> list[Spec]:
    """Rows of a layer: a name, the series, and the numbers of `columns`."""
    series = chart_data.names(view.chart, "series") if view.series.names else None
    return [
        {"n": names[i]}
        | ({"s": series[i]} if series else {})
        | {field: chart_data.drawable(float(values[i])) for field, values in columns.items()}
        for i in indices
    ]


def _draw_bars(view: View) -> Drawing:
    """Amounts by name or by bin, side by side for series, with intervals where there are any."""
    chart, value, is_binned = view.chart, view.axes.value, view.chart.kind == "histogram"
    y = chart_data.numbers(chart, "y")
    drawable = np.isfinite(y) & ((y > 0) | (not value.log))
    total, missing = int(drawable.sum()), int(np.isnan(y).sum())
    left, right = _find_bin_extents(view) if is_binned else _find_row_extents(view)
    names = _name_bins(chart) if is_binned else chart_data.names(chart, "x")
    shown = np.flatnonzero(drawable)
    if len(shown) > view.points // 2:
        order = shown[np.argsort(left[shown] + right[shown], kind="stable")]
        shown = order[thin_line((left + right)[order], y[order], view.points // 10)]
    base = np.full(len(y), value.low if value.log else 0.0)
    columns = {"a": left, "b": right, "y": y, "o": base}
    heading = chart_data.column(chart, "low" if is_binned else "x").heading
    fields: dict[str, ResultColumn | str] = {"n": heading, "y": chart_data.column(chart, "y")}
    interval = not is_binned and "low" in chart.encoding and "high" in chart.encoding
    if interval:
        low, high = chart_data.numbers(chart, "low"), chart_data.numbers(chart, "high")
        low, high = np.where(np.isnan(high), np.nan, low), np.where(np.isnan(low), np.nan, high)
        columns |= {"c": (left + right) / 2, "l": np.maximum(low, base) if value.log else low, "h": high}
        fields |= {"l": chart_data.column(chart, "low"), "h": chart_data.column(chart, "high")}
    hidden = len(y) - missing - total
    notes = {OFF_LOG_AXIS: hidden} if hidden else {}
    notes |= {NO_VALUE: missing} if missing else {}
    if len(shown) < total:
        notes[f"{len(shown):,} of {total:,} values drawn, including the lowest and highest"] = 0
    tips, transforms = view.tooltip(fields)
    mark: Spec = {"type": "rect"}
    if is_binned and not view.series.names and view.axes.x.measure != "bins":
        mark |= {"stroke": theme.BACKGROUND, "strokeWidth": 0.5}
    colour = {"color": view.series.colour(view.legend), "tooltip": tips}
    rows = _make_rows(view, shown.tolist(), names, **columns)
    bars = _make_position_channels(view, "a", "o", "b", "y") | colour
    layers: list[Spec] = [{"transform": transforms, "mark": mark, "encoding": bars}]
    if interval:
        rule = {"type": "rule", "color": INK, "strokeWidth": 1.2}
        known = [{"filter": "isValid(datum.l)"}]
        layers.append({"transform": known, "mark": rule, "encoding": _make_position_channels(view, "c", "l", "", "h")})
    return Drawing(layers, rows, notes)


def _draw_boxes(view: View) -> Drawing:
    """Distributions by name, from quantiles: whiskers from 5% to 95%, a box from 25% to 75%, a line at the median.
    Where the columns `min` and `max` are encoded, the whiskers reach to the extremes."""
    chart, value = view.chart, view.axes.value
    column = chart_data.column(chart, "q50")
    to_extremes = chart.encoding["q05"] == "min" and chart.encoding["q95"] == "max"
    left, right = _find_row_extents(view)
    quantiles = {q: chart_data.numbers(chart, q) for q in _QUANTILES}
    hidden = sum(int((values <= 0).sum()) for values in quantiles.values()) if value.log else 0
    if value.log:
        quantiles = {q: np.where(values <= 0, value.low, values) for q, values in quantiles.items()}
    shown = list(range(min(len(left), view.points // len(_QUANTILES))))
    names = chart_data.names(chart, "x")
    rows = _make_rows(view, shown, names, a=left, b=right, c=(left + right) / 2, **quantiles)
    notes = {f"box 25% to 75%, line at the median, whiskers {'to the extremes' if to_extremes else '5% to 95%'}": 0}
    notes |= {OFF_LOG_AXIS: hidden} if hidden else {}
    words = ("least", "25%", "median", "75%", "greatest") if to_extremes else ("5%", "25%", "median", "75%", "95%")
    quantile_columns = {q: replace(column, name=q, label=word) for q, word in zip(_QUANTILES, words, strict=True)}
    tips, transforms = view.tooltip({"n": chart_data.column(chart, "x").heading, **quantile_columns})
    colour = view.series.colour(view.legend)
    box = _make_position_channels(view, "a", "q25", "b", "q75") | {"fill": colour, "stroke": colour, "tooltip": tips}
    fill = {"type": "rect", "fillOpacity": 0.45, "strokeWidth": 1.2, "strokeOpacity": 1}
    whiskers = {"type": "rule", "strokeWidth": 1.4}
    median = {"type": "rule", "color": INK, "strokeWidth": 2.2}
    layers: list[Spec] = [
        {"mark": whiskers, "encoding": _make_position_channels(view, "c", "q05", "", "q95") | {"color": colour}},
        {"transform": transforms, "mark": fill, "encoding": box},
        {"mark": median, "encoding": _make_position_channels(view, "a", "q50", "b")},
    ]
    return Drawing(layers, rows, notes)


def _make_histogram_axes(chart: Chart, width: int) -> Axes:
    """A few bins of uneven width, or with open ends, are drawn evenly, with their edges at the borders."""
    y = make_value_axis(chart, "y", ("y",), zero=True)
    column = chart_data.column(chart, "low")
    edges = np.unique(np.r_[_find_edges(chart)])
    finite = edges[np.isfinite(edges)]
    if chart_data.is_time(chart, "low"):
        return Axes(make_time_axis(column, [finite]), y)
    widths = np.diff(finite)
    log = "log" in (chart.scales.get("x"), chart.scales.get("low"), chart.scales.get("high"))
    even = len(widths) < 2 or bool(widths.max() <= widths.min() * 1.001)
    if not np.isfinite(edges).all() or (not even and not log and len(edges) <= _FEW_BINS + 1):
        return Axes(Axis(axis_of.format_axis_title(column), "bins", unit=column.unit, edges=tuple(edges.tolist())), y)
    marks = np.array([chart_data.number(r.value) for r in chart.references if r.axis == "x" and r.end is None])
    positive = finite[finite > 0]
    geometric = len(positive) == len(finite) > 2 and np.ptp(np.diff(np.log(finite))) < 0.01
    log = log or (bool(geometric) and not even)
    return Axes(make_number_axis(column, [positive if log else finite, marks], log=log, tight=True), y)


def _find_edges(chart: Chart) -> tuple[Floats, Floats]:
    """Missing edges are open ends."""
    low, high = chart_data.numbers(chart, "low"), chart_data.numbers(chart, "high")
    return np.where(np.isnan(low), -math.inf, low), np.where(np.isnan(high), math.inf, high)


def _find_bin_extents(view: View) -> tuple[Floats, Floats]:
    """Start and end of each row along the axis of bins; bins of series are side by side."""
    axis, (left, right) = view.axes.x, _find_edges(view.chart)
    if axis.measure == "bins":
        left, right = (np.searchsorted(np.array(axis.edges), each).astype(np.float64) for each in (left, right))
    elif axis.log or axis.measure == "time":  # zero is not on the one, an open end on neither
        left, right = np.clip(left, axis.low, axis.high), np.clip(right, axis.low, axis.high)
    gap = 0.08 if axis.measure == "bins" or len(view.series.names) > 1 else 0.0
    if not axis.log:
        return _split_extents(view, left, right, gap)
    first, last = _split_extents(view, np.log(left), np.log(right), gap)  # side by side by ratio
    return np.exp(first), np.exp(last)


def _name_bins(chart: Chart) -> list[str]:
    """The bins in words: "1 KiB to 10 KiB", "below 1 KiB", "1 MiB and more"."""
    return [
        f"{low} and more" if high in _OPEN else f"below {high}" if low in _OPEN else f"{low} to {high}"
        for low, high in zip(chart_data.names(chart, "low"), chart_data.names(chart, "high"), strict=True)
    ]


BARS = PanelKind(
    ("x", "y"),
    lambda chart, width: _make_place_axes(chart, make_value_axis(chart, "y", ("y", "low", "high"), zero=True), width),
    _draw_bars,
    optional=("series", "low", "high"),
    size=_choose_place_size,
)
BOX = PanelKind(
    ("x", *_QUANTILES),
    lambda chart, width: _make_place_axes(chart, make_value_axis(chart, "y", _QUANTILES), width),
    _draw_boxes,
    optional=("series",),
    size=_choose_place_size,
    shown=("q50",),
)
HISTOGRAM = PanelKind(("low", "high", "y"), _make_histogram_axes, _draw_bars, optional=("series",))


_MOST_COUNTED = 31
_COUNTED = ("", "count")
_SEAM_PX = 0.7
_MOST_CELLS = 3600  # a printed cell takes 100 bytes
_CELL_PX = 88
_ROW_PX = 34


def _make_grid_axis(chart: Chart, channel: str) -> tuple[Axis, float]:
    """The axis and the width of a cell on it. Evenly spaced times and numbers keep their axis; others become names."""
    column = chart_data.column(chart, channel)
    values = chart_data.numbers(chart, channel)
    distinct = np.unique(values[np.isfinite(values)])
    is_time, is_numeric = chart_data.is_time(chart, channel), chart_data.is_numeric(chart, channel)
    few_counts = column.unit in _COUNTED and len(distinct) <= _MOST_COUNTED
    steps = np.diff(distinct)
    even = False
    if len(steps) and chart.scales.get(channel) != "log" and (is_time or (is_numeric and not few_counts)):
        multiples = steps / steps.min()
        even = bool(np.all(np.abs(multiples - np.rint(multiples)) < 0.02) and multiples.sum() < 1e5)
    if not even:
        if is_numeric:
            rows = [chart.table.rows[i] for i in np.argsort(values, kind="stable")]
            chart = chart_data.with_rows(chart, rows)
        return axis_of.make_names_axis(chart, channel), 1.0
    step = float(steps.min())
    # A rank or an hour is in the middle of its cell; a time or a size is where the cell begins.
    start = float(distinct[0]) - (step / 2 if column.unit in _COUNTED else 0.0)
    end = start + round((distinct[-1] - distinct[0]) / step + 1) * step
    if is_time:
        return make_time_axis(column, [np.array([start, end])]), step
    return Axis(axis_of.format_axis_title(column), "number", start, end, column.unit), step


def _find_cell_index(view: View, channel: Literal["x", "y"]) -> tuple[Indices, float, float]:
    """Column or row of each table row, where the first cell begins, and the width of a cell. The axis of a panel may be
    its own or the whole chart's."""
    axis = view.axes.x if channel == "x" else view.axes.y
    if axis.measure == "names":
        places = {name: i for i, name in enumerate(axis.names)}
        return np.array([places[name] for name in chart_data.names(view.chart, channel)], dtype=np.intp), 0.0, 1.0
    own, step = _make_grid_axis(view.chart, channel)
    step = step if own == axis else _make_grid_axis(view.whole, channel)[1]
    first = axis.low + (step / 2 if axis.unit in _COUNTED else 0.0)
    values = np.nan_to_num(chart_data.numbers(view.chart, channel), nan=first)
    return np.rint((values - first) / step).astype(np.intp), axis.low, step


def _make_colour_axis(chart: Chart) -> Axis:
    """The range of colours. Coefficients and values of both signs get a range that is symmetric around zero."""
    log = chart.scales.get("value") == "log"
    axis = make_number_axis(
        chart_data.column(chart, "value"), [chart_data.numbers(chart, "value")], log=log, tight=True
    )
    if chart.kind == "matrix" and axis.unit == "" and not log and axis.low >= -1 and axis.high <= 1:
        return Axis(axis.title, "number", -1.0, 1.0)  # coefficients: weak ones look weak in every table
    if axis.low < 0 < axis.high and not log:  # a colour per sign, and a pale zero
        reach = max(-axis.low, axis.high)
        if axis.unit in ("", "ratio") and 0.5 < reach <= 1:
            reach = 1.0  # a correlation
        return Axis(axis.title, "number", -reach, reach, axis.unit)
    return axis


def _select_shown_values(view: View, axis: Axis) -> tuple[Floats, dict[str, int]]:
    """The values that have a colour, and a note on those that a logarithmic scale leaves without one."""
    values = chart_data.numbers(view.chart, "value")
    if not axis.log:
        return values, {}
    hidden = int((values <= 0).sum())
    notes = {"not on the logarithmic colour scale: {} at or below zero": hidden} if hidden else {}
    return np.where(values > 0, values, np.nan), notes


def _make_colour_channel(view: View, axis: Axis) -> Spec:
    """The colour channel of the field `v`: one hue per sign, or one scale from low to high."""
    beside = view.legend_beside
    length = min(max(view.height if beside else view.width, 60), 240)
    legend: Spec = {
        "title": theme.wrapped(axis.title, SIDE_LEGEND_PX if beside else view.width, LABEL_SIZE + 1),
        "orient": "right" if beside else "bottom",
        "direction": "vertical" if beside else "horizontal",
        "gradientLength": length,
        "gradientThickness": 12,
        **axis.number_labels(max(1, length // (40 if beside else 72))),
    }
    scale: Spec = {"type": "log" if axis.log else "linear", "domain": [axis.low, axis.high], "nice": False}
    scale |= {"zero": False} if not axis.log else {}
    if axis.low < 0 < axis.high:
        stops = np.linspace(axis.low, axis.high, len(theme.DIVERGING)).tolist()
        scale |= {"range": list(theme.DIVERGING), "interpolate": "lab", "domain": stops}
    else:
        scale |= {"scheme": theme.SEQUENTIAL}
    return {"field": "v", "type": "quantitative", "scale": scale, "legend": legend}


def _draw_cells(view: View) -> Drawing:
    """A value as a colour over two axes: rank by time, hour by day. A matrix has the numbers in its cells too. A cell
    without a value stays blank."""
    chart, axes, is_matrix = view.chart, view.axes, view.chart.kind == "matrix"
    assert axes.colour is not None, "a grid has a colour axis"
    (across, start_x, step_x), (up, start_y, step_y) = _find_cell_index(view, "x"), _find_cell_index(view, "y")
    value, notes = _select_shown_values(view, axes.colour)
    column, row, mean, wide, high = chart_data.bin_cells(across, up, value, min(view.points, _MOST_CELLS))
    left: Floats = start_x + column.astype(np.float64) * step_x
    bottom: Floats = start_y + row.astype(np.float64) * step_y
    # Cells reach a little below their neighbours: edges between pixels would show as a pale grid.
    seam = 0.0 if is_matrix else _SEAM_PX
    right = np.minimum(left + wide * step_x + seam * axes.x.reach / view.width, axes.x.end)
    top = np.minimum(bottom + high * step_y + seam * axes.y.reach / view.height, axes.y.end)
    rows: list[Spec] = [
        {k: chart_data.drawable(v) for k, v in zip("abcdv", cell, strict=True)}
        for cell in zip(left.tolist(), right.tolist(), bottom.tolist(), top.tolist(), mean.tolist(), strict=True)
    ]
    fields: dict[str, ResultColumn | str] = {}
    for channel, start, name, axis, places in (("x", "a", "n", axes.x, column), ("y", "c", "m", axes.y, row)):
        if axis.measure == "names":
            fields[name] = chart_data.column(chart, channel).heading
            for cell, place in zip(rows, places.tolist(), strict=True):
                cell[name] = axis.names[place]
        else:
            fields[start] = chart_data.column(chart, channel)
    fields["v"] = chart_data.column(chart, "value")
    notes |= {f"each cell is the mean of up to {wide * high:,} values": 0} if wide * high > 1 else {}
    notes |= {"blank: no data": 0} if not (is_matrix or np.isfinite(value).all()) else {}
    tips, transforms = view.tooltip(fields)
    encoding: Spec = {"x": view.x("a"), "x2": {"field": "b"}, "y": view.y("c"), "y2": {"field": "d"}}
    for side in ("x", "y"):
        encoding[side]["axis"] = encoding[side]["axis"] | {"grid": False}
    encoding |= {"color": _make_colour_channel(view, axes.colour), "tooltip": tips}
    edge = {"stroke": theme.BACKGROUND, "strokeWidth": 1} if is_matrix else {"clip": True}
    layers: list[Spec] = [{"transform": transforms, "mark": {"type": "rect"} | edge, "encoding": encoding}]
    if is_matrix and wide * high == 1:
        missing = np.isnan(value)
        blank: list[Spec] = [{"a": float(a), "c": float(c)} for a, c in zip(across[missing], up[missing], strict=True)]
        layers += _draw_numbers_in_cells(view, axes.colour, rows, blank)
    return Drawing(layers, rows, notes)


def _draw_numbers_in_cells(view: View, colour: Axis, rows: list[Spec], blank: list[Spec]) -> list[Spec]:
    """Layers with the number of each cell in the ink that stands out from it, and a dash where there is none; no layers
    where the numbers do not fit. Adds the texts to the rows."""
    unit = chart_data.column(view.chart, "value").unit
    for cell in rows:
        # Coefficients have two decimals, as in print; other units are written as everywhere.
        small = unit == "" and abs(cell["v"]) < 10
        cell["t"] = f"{cell['v']:.2f}".replace("-0.00", "0.00") if small else format_value(cell["v"], unit)
        # Dark text does not stand out from the ends of the diverging colours and the dark half of the sequential ones.
        share = float(colour.fractions(np.array([cell["v"]]))[0])
        cell["k"] = int(abs(share - 0.5) > 0.44 if colour.low < 0 < colour.high else share < 0.43)
    widest = max((text_px(cell["t"]) for cell in rows), default=0)
    if widest + 4 > view.width / len(view.axes.x.names) or view.height / len(view.axes.y.names) < 14:
        return []
    middle: list[Spec] = [{"calculate": "datum.a+0.5", "as": "ax"}, {"calculate": "datum.c+0.5", "as": "cy"}]
    centre = {"x": view.x("ax"), "y": view.y("cy"), "text": {"field": "t", "type": "nominal"}}
    mark: Spec = {"type": "text", "baseline": "middle", "align": "center"}
    layers: list[Spec] = [
        {"transform": [{"filter": test}, *middle], "mark": mark | {"color": ink}, "encoding": centre}
        for ink, test in ((theme.CELL_INK, "datum.k===0"), (theme.CELL_PAPER, "datum.k===1"))
    ]
    if blank:
        dashes: Spec = {"data": {"values": [cell | {"t": "–"} for cell in blank]}, "transform": middle}
        layers.append(dashes | {"mark": mark | {"color": theme.SECONDARY}, "encoding": centre})
    return layers


def _choose_grid_size(axes: Axes, series: Series, width: int, panels: int) -> tuple[int, int]:
    """A heat map fills its width, and is no higher than its names need."""
    _, height = choose_standard_size(axes, series, width, panels)
    return width, min(height, max(len(axes.y.names) * 26, 60)) if axes.y.names else height


def _make_heat_map_axes(chart: Chart, _: int) -> Axes:
    """The axes of the cells; curves over them do not make them longer."""
    chart = chart_data.split_curves(chart)[0]
    return Axes(_make_grid_axis(chart, "x")[0], _make_grid_axis(chart, "y")[0], _make_colour_axis(chart))


HEATMAP = PanelKind(
    ("x", "y", "value"),
    _make_heat_map_axes,
    _draw_cells,
    optional=("curve",),
    size=_choose_grid_size,
    shown=("value",),
)
MATRIX = PanelKind(
    ("x", "y", "value"),
    lambda chart, _: Axes(
        axis_of.make_names_axis(chart, "x"), axis_of.make_names_axis(chart, "y"), _make_colour_axis(chart)
    ),
    _draw_cells,
    size=lambda axes, _, width, __: (
        min(width, max(len(axes.x.names), 1) * _CELL_PX),
        max(min(max(len(axes.y.names), 1) * _ROW_PX, 560), 40),
    ),
    shown=("value",),
)


_SUBJECT: Final = "this run"
_MOST_LABELS = 20
_MOST_POINTS = 3000  # a printed point takes 130 bytes


def _draw_scatter(view: View) -> Drawing:
    """Points, thinned where there are thousands; few of them have their names beside them."""
    chart, series = view.chart, view.series
    x, y = chart_data.numbers(chart, "x"), chart_data.numbers(chart, "y")
    known = np.isfinite(x) & np.isfinite(y)
    across, up = view.axes.x.fractions(x), view.axes.y.fractions(y)
    drawable = known & np.isfinite(across + up)
    total, missing, hidden = int(drawable.sum()), int((~known).sum()), int(known.sum() - drawable.sum())
    kept = chart_data.thin_scatter(np.where(drawable, across, np.nan), up, min(view.points, _MOST_POINTS))
    notes = {OFF_LOG_AXIS: hidden} if hidden else {}
    if len(kept) < total:
        notes[f"{len(kept):,} of {total:,} points drawn: one per location, and all outliers"] = 0
    notes |= {NO_VALUE: missing} if missing else {}
    fields: dict[str, ResultColumn | str] = {"x": chart_data.column(chart, "x"), "y": chart_data.column(chart, "y")}
    rows: list[Spec] = [{"x": chart_data.drawable(float(x[i])), "y": chart_data.drawable(float(y[i]))} for i in kept]
    encoding: Spec = {"x": view.x("x"), "y": view.y("y"), "color": series.colour(view.legend)}
    encoding |= series.shape(view.legend)
    crowded = len(kept) > 600
    mark: Spec = {"type": "point", "filled": True, "opacity": 0.4 if crowded else 0.7}
    if "label" in chart.encoding:
        fields = {"n": chart_data.column(chart, "label").heading, **fields}
    for field, channel in (("s", "series"), ("n", "label")):
        if channel in chart.encoding:
            names = chart_data.names(chart, channel)
            rows = [row | {field: names[i]} for row, i in zip(rows, kept, strict=True)]
    if "size" in chart.encoding:
        size = chart_data.numbers(chart, "size")
        rows = [row | {"z": chart_data.drawable(float(size[i]))} for row, i in zip(rows, kept, strict=True)]
        fields["z"] = chart_data.column(chart, "size")
        # The area is proportional to the value, so that twice the value is twice the ink.
        axis = make_number_axis(
            chart_data.column(view.chart, "size"), [chart_data.numbers(view.whole, "size")], zero=True
        )
        legend = {
            "title": theme.wrapped(axis.title, SIDE_LEGEND_PX, LABEL_SIZE + 1),
            "orient": "right" if view.legend_beside else "bottom",
            "symbolFillColor": NEUTRAL,
            "symbolStrokeColor": NEUTRAL,
            **axis.number_labels(5),
        }
        step = axis_of.tick_step(0.0, axis.high, axis.unit, 5)
        legend["values"] = [step * i for i in range(1, round(axis.high / step) + 1)]  # no symbol for zero
        scale = {"type": "linear", "domain": [0, axis.high], "range": [6, 260]}
        encoding["size"] = {"field": "z", "type": "quantitative", "legend": legend, "scale": scale}
    else:
        mark["size"] = 10 if crowded else 34
    tips, transforms = view.tooltip(fields)
    layers: list[Spec] = [{"transform": transforms, "mark": mark, "encoding": encoding | {"tooltip": tips}}]
    layers += [layer for row in rows if row.get("s") == _SUBJECT for layer in _draw_subject(view, row)]
    if "label" in chart.encoding and len(kept) <= _MOST_LABELS:
        layers += _draw_names_beside_points(view, kept, across * view.width, (1 - up) * view.height)
    return Drawing(layers, rows, notes)


def _draw_subject(view: View, row: Spec) -> list[Spec]:
    """Layers with the point that a chart is about: larger, and with its name and value."""
    where: Spec = {"data": {"values": [row]}, "encoding": {"x": view.x("x"), "y": view.y("y")}}
    is_late = float(view.axes.x.fractions(np.array([row["x"]]))[0]) > 0.75
    text = f"{_SUBJECT}: {format_value(row['y'], chart_data.column(view.chart, 'y').unit)}"
    name = {"type": "text", "text": text, "align": "right" if is_late else "left", "dx": -9 if is_late else 9}
    point = {"type": "point", "filled": True, "size": 110, "opacity": 1, "shape": "circle", "color": SERIES[4]}
    return [where | {"mark": mark} for mark in (point, name | {"fontWeight": "bold", "color": SERIES[4]})]


def _draw_names_beside_points(view: View, kept: Indices, x: Floats, y: Floats) -> list[Spec]:
    """Layers with the names to the right of their points, at pixels; a name that would cover another is left to the
    tooltip."""
    labels = chart_data.names(view.chart, "label")
    layers: list[Spec] = []
    taken: list[tuple[float, float]] = []  # right end and height of the names so far
    for i in sorted(kept.tolist(), key=lambda i: float(x[i])):
        left, height = round(float(x[i]) + 7, 1), round(float(y[i]) + 4, 1)
        if all(left > end or abs(height - other) > LABEL_SIZE for end, other in taken):
            taken.append((left + text_px(labels[i]), height))
            layers.append(draw_text(left, height, labels[i], INK, align="left"))
    return layers


SCATTER = PanelKind(
    ("x", "y"),
    lambda chart, _: Axes(make_position_axis(chart, "x"), make_position_axis(chart, "y")),
    _draw_scatter,
    optional=("series", "size", "label", "curve"),
)


KINDS: Final[Mapping[str, PanelKind]] = {
    "band": BAND,
    "bars": BARS,
    "box": BOX,
    "cdf": CDF,
    "heatmap": HEATMAP,
    "histogram": HISTOGRAM,
    "matrix": MATRIX,
    "scatter": SCATTER,
    "timeline": TIMELINE,
}
