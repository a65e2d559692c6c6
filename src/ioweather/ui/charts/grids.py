"""Heat maps and matrices: cells on a grid, coloured by a value."""

from __future__ import annotations

from typing import Literal

import numpy as np

from ioweather.core.arrays import Floats, Indices
from ioweather.core.results import Chart, ResultColumn
from ioweather.core.units import format_value
from ioweather.ui.charts import reading
from ioweather.ui.charts.axes import Axis, axis_title, names_axis, number_axis, text_px, time_axis, wrapped
from ioweather.ui.charts.compose import SIDE_LEGEND_PX, Axes, Drawing, PanelKind, View, standard_size
from ioweather.ui.charts.decimate import bin_cells
from ioweather.ui.charts.series import Series
from ioweather.ui.charts.theme import (
    BACKGROUND,
    CELL_INK,
    CELL_PAPER,
    DIVERGING,
    LABEL_SIZE,
    SECONDARY,
    SEQUENTIAL,
    Spec,
)  # fmt: skip

_MOST_NAMES = 31
_COUNTED = ("", "count")
_SEAM_PX = 0.7
_MOST_CELLS = 3600  # a printed cell takes 100 bytes
_CELL_PX = 88
_ROW_PX = 34


def _grid_axis(chart: Chart, channel: str) -> tuple[Axis, float]:
    """The axis and the width of a cell on it. Evenly spaced times and numbers keep their axis; others become names."""
    column = reading.column(chart, channel)
    values = reading.numbers(chart, channel)
    distinct = np.unique(values[np.isfinite(values)])
    is_time, is_numeric = reading.is_time(chart, channel), reading.is_numeric(chart, channel)
    few_counts = column.unit in _COUNTED and len(distinct) <= _MOST_NAMES
    steps = np.diff(distinct)
    even = False
    if len(steps) and chart.scales.get(channel) != "log" and (is_time or (is_numeric and not few_counts)):
        multiples = steps / steps.min()
        even = bool(np.all(np.abs(multiples - np.rint(multiples)) < 0.02) and multiples.sum() < 1e5)
    if not even:
        if is_numeric:
            rows = [chart.table.rows[i] for i in np.argsort(values, kind="stable")]
            chart = reading.with_rows(chart, rows)
        return names_axis(chart, channel), 1.0
    step = float(steps.min())
    # A rank or an hour is in the middle of its cell; a time or a size is where the cell begins.
    start = float(distinct[0]) - (step / 2 if column.unit in _COUNTED else 0.0)
    end = start + round((distinct[-1] - distinct[0]) / step + 1) * step
    if is_time:
        return time_axis(column, [np.array([start, end])]), step
    return Axis(axis_title(column), "number", start, end, column.unit), step


def _cell_index(view: View, channel: Literal["x", "y"]) -> tuple[Indices, float, float]:
    """Column or row of each table row, where the first cell begins, and the width of a cell. The axis of a panel may be
    its own or the whole chart's."""
    axis = view.axes.x if channel == "x" else view.axes.y
    if axis.measure == "names":
        places = {name: i for i, name in enumerate(axis.names)}
        return np.array([places[name] for name in reading.names(view.chart, channel)], dtype=np.intp), 0.0, 1.0
    own, step = _grid_axis(view.chart, channel)
    step = step if own == axis else _grid_axis(view.whole, channel)[1]
    first = axis.low + (step / 2 if axis.unit in _COUNTED else 0.0)
    values = np.nan_to_num(reading.numbers(view.chart, channel), nan=first)
    return np.rint((values - first) / step).astype(np.intp), axis.low, step


def _colour_axis(chart: Chart) -> Axis:
    log = chart.scales.get("value") == "log"
    axis = number_axis(reading.column(chart, "value"), [reading.numbers(chart, "value")], log=log, tight=True)
    if chart.kind == "matrix" and axis.unit == "" and not log and axis.low >= -1 and axis.high <= 1:
        return Axis(axis.title, "number", -1.0, 1.0)  # coefficients: weak ones look weak in every table
    if axis.low < 0 < axis.high and not log:  # a colour per sign, and a pale zero
        reach = max(-axis.low, axis.high)
        if axis.unit in ("", "ratio") and 0.5 < reach <= 1:
            reach = 1.0  # a correlation
        return Axis(axis.title, "number", -reach, reach, axis.unit)
    return axis


def _shown_values(view: View, axis: Axis) -> tuple[Floats, dict[str, int]]:
    """The values that have a colour, and a note on those that a logarithmic scale leaves without one."""
    values = reading.numbers(view.chart, "value")
    if not axis.log:
        return values, {}
    hidden = int((values <= 0).sum())
    notes = {"{} zero or below, not on the logarithmic scale of colours": hidden} if hidden else {}
    return np.where(values > 0, values, np.nan), notes


def _is_diverging(axis: Axis) -> bool:
    return axis.low < 0 < axis.high


def _colour_channel(view: View, axis: Axis) -> Spec:
    length = min(max(view.height if view.legend_beside else view.width, 60), 240)
    legend: Spec = {
        "title": wrapped(axis.title, SIDE_LEGEND_PX if view.legend_beside else view.width, LABEL_SIZE + 1),
        "orient": "right" if view.legend_beside else "bottom",
        "direction": "vertical" if view.legend_beside else "horizontal",
        "gradientLength": length,
        "gradientThickness": 12,
        **axis.number_labels(length // (40 if view.legend_beside else 72)),
    }
    scale: Spec = {"type": "log" if axis.log else "linear", "domain": [axis.low, axis.high], "nice": False}
    scale |= {"zero": False} if not axis.log else {}
    if _is_diverging(axis):
        stops = np.linspace(axis.low, axis.high, len(DIVERGING)).tolist()
        scale |= {"range": list(DIVERGING), "interpolate": "lab", "domain": stops}
    else:
        scale |= {"scheme": SEQUENTIAL}
    return {"field": "v", "type": "quantitative", "scale": scale, "legend": legend}


def _heatmap_axes(chart: Chart, width: int) -> Axes:
    return Axes(_grid_axis(chart, "x")[0], _grid_axis(chart, "y")[0], _colour_axis(chart))


def _heatmap_size(axes: Axes, series: Series, width: int, panels: int) -> tuple[int, int]:
    _, height = standard_size(axes, series, width, panels)
    return width, min(height, max(len(axes.y.names) * 26, 60)) if axes.y.names else height


def _draw_heatmap(view: View) -> Drawing:
    """A value as a colour over two axes: rank by time, hour by day. A cell without a value stays blank."""
    chart, axes = view.chart, view.axes
    assert axes.colour is not None, "a grid has a colour axis"
    (across, start_x, step_x), (up, start_y, step_y) = _cell_index(view, "x"), _cell_index(view, "y")
    value, notes = _shown_values(view, axes.colour)
    column, row, mean, wide, high = bin_cells(across, up, value, min(view.points, _MOST_CELLS))
    left: Floats = start_x + column.astype(np.float64) * step_x
    bottom: Floats = start_y + row.astype(np.float64) * step_y
    # Cells reach a little below their neighbours: edges between pixels would show as a pale grid.
    right = np.minimum(left + wide * step_x + _SEAM_PX * axes.x.reach / view.width, axes.x.end)
    top = np.minimum(bottom + high * step_y + _SEAM_PX * axes.y.reach / view.height, axes.y.end)
    rows: list[Spec] = [
        {k: reading.drawable(v) for k, v in zip("abcdv", cell, strict=True)}
        for cell in zip(left.tolist(), right.tolist(), bottom.tolist(), top.tolist(), mean.tolist(), strict=True)
    ]
    fields: dict[str, ResultColumn | str] = {}
    for channel, start, name, axis, places in (("x", "a", "n", axes.x, column), ("y", "c", "m", axes.y, row)):
        if axis.measure == "names":
            fields[name] = reading.column(chart, channel).heading
            for cell, place in zip(rows, places.tolist(), strict=True):
                cell[name] = axis.names[place]
        else:
            fields[start] = reading.column(chart, channel)
    fields["v"] = reading.column(chart, "value")
    notes |= {f"each cell is the mean of up to {wide * high:,} values": 0} if wide * high > 1 else {}
    notes |= {"blank: no data": 0} if not np.isfinite(value).all() else {}
    tips, transforms = view.tooltip(fields)
    encoding: Spec = {"x": view.x("a"), "x2": {"field": "b"}, "y": view.y("c"), "y2": {"field": "d"}}
    for side in ("x", "y"):
        encoding[side]["axis"] = encoding[side]["axis"] | {"grid": False}
    encoding |= {"color": _colour_channel(view, axes.colour), "tooltip": tips}
    cells: Spec = {"transform": transforms, "mark": {"type": "rect", "clip": True}, "encoding": encoding}
    return Drawing([cells], rows, notes)


def _matrix_axes(chart: Chart, width: int) -> Axes:
    return Axes(names_axis(chart, "x"), names_axis(chart, "y"), _colour_axis(chart))


def _matrix_size(axes: Axes, series: Series, width: int, panels: int) -> tuple[int, int]:
    columns, rows = max(len(axes.x.names), 1), max(len(axes.y.names), 1)
    return min(width, columns * _CELL_PX), max(min(rows * _ROW_PX, 560), 40)


def _draw_matrix(view: View) -> Drawing:
    """A small table of numbers as coloured cells with the numbers in them: correlations, coefficients."""
    chart, axes, colour = view.chart, view.axes, view.axes.colour
    assert colour is not None, "a grid has a colour axis"
    (column, _, _), (line, _, _) = _cell_index(view, "x"), _cell_index(view, "y")
    columns, lines = len(axes.x.names), len(axes.y.names)
    value, notes = _shown_values(view, colour)
    unit = reading.column(chart, "value").unit
    place, row, mean, wide, high = bin_cells(column, line, value, view.points)
    rows: list[Spec] = []
    for i, j, v in zip(place.tolist(), row.tolist(), mean.tolist(), strict=True):
        # Coefficients have two decimals, as in print; other units are written as everywhere.
        small = unit == "" and abs(v) < 10
        text = f"{v:.2f}".replace("-0.00", "0.00") if small else format_value(v, unit)
        # Dark text does not stand out from the ends of the diverging colours and the dark half of the sequential ones.
        share = float(colour.fractions(np.array([v]))[0])
        pale = abs(share - 0.5) > 0.44 if _is_diverging(colour) else share < 0.43
        cell: Spec = {"a": i, "b": min(i + wide, columns), "c": j, "d": min(j + high, lines), "v": reading.drawable(v)}
        rows.append(cell | {"t": text, "n": axes.x.names[i], "m": axes.y.names[j], "k": int(pale)})
    notes |= {f"each cell is the mean of up to {wide * high:,} values": 0} if wide * high > 1 else {}
    fields = {"n": reading.column(chart, "x").heading, "m": reading.column(chart, "y").heading}
    tips, transforms = view.tooltip({**fields, "v": reading.column(chart, "value")})
    encoding: Spec = {"x": view.x("a"), "x2": {"field": "b"}, "y": view.y("c"), "y2": {"field": "d"}}
    encoding |= {"color": _colour_channel(view, colour), "tooltip": tips}
    mark: Spec = {"type": "rect", "stroke": BACKGROUND, "strokeWidth": 1}
    layers: list[Spec] = [{"transform": transforms, "mark": mark, "encoding": encoding}]
    widest = max((text_px(cell["t"]) for cell in rows), default=0)
    if wide * high > 1 or widest + 4 > view.width / columns or view.height / lines < 14:
        return Drawing(layers, rows, notes)
    # The numbers, in the ink that stands out from their cell; a dash where there is none.
    middle: list[Spec] = [{"calculate": "datum.a+0.5", "as": "ax"}, {"calculate": "datum.c+0.5", "as": "cy"}]
    centre = {"x": view.x("ax"), "y": view.y("cy"), "text": {"field": "t", "type": "nominal"}}
    text_mark: Spec = {"type": "text", "baseline": "middle", "align": "center"}
    for ink, test in ((CELL_INK, "datum.k===0"), (CELL_PAPER, "datum.k===1")):
        only: list[Spec] = [{"filter": test}, *middle]
        layers.append({"transform": only, "mark": text_mark | {"color": ink}, "encoding": centre})
    places = zip(column[np.isnan(value)].tolist(), line[np.isnan(value)].tolist(), strict=True)
    blank: list[Spec] = [{"a": i, "c": j, "t": "–"} for i, j in places]
    if blank:
        dashes: Spec = {"data": {"values": blank}, "transform": middle, "encoding": centre}
        layers.append(dashes | {"mark": text_mark | {"color": SECONDARY}})
    return Drawing(layers, rows, notes)


HEATMAP = PanelKind(("x", "y", "value"), _heatmap_axes, _draw_heatmap, size=_heatmap_size, shown=("value",))
MATRIX = PanelKind(("x", "y", "value"), _matrix_axes, _draw_matrix, size=_matrix_size, shown=("value",))
