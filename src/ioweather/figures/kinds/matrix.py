"""A small table of numbers as coloured cells with the numbers in them: correlations, coefficients."""

from __future__ import annotations

import numpy as np

from ioweather.core.results import Chart
from ioweather.core.units import format_value
from ioweather.figures import reading
from ioweather.figures.axes import Axis, names_axis, text_px
from ioweather.figures.cells import colour_axis, colour_channel, is_diverging, shown_values
from ioweather.figures.compose import Axes, Drawing, PanelKind, View
from ioweather.figures.decimate import bin_cells
from ioweather.figures.series import Series
from ioweather.figures.theme import BACKGROUND, CELL_INK, CELL_PAPER, SECONDARY, Spec
from ioweather.figures.tooltips import text_column, tooltip

_CELL_PX = 88
_ROW_PX = 34


def _axes(chart: Chart, width: int) -> Axes:
    x = names_axis(reading.column(chart, "x"), reading.names(chart, "x"))
    y = names_axis(reading.column(chart, "y"), reading.names(chart, "y"))
    return Axes(x, y, colour_axis(chart))


def _size(axes: Axes, series: Series, width: int, panels: int) -> tuple[int, int]:
    columns, rows = max(len(axes.x.names), 1), max(len(axes.y.names), 1)
    wide = min(width, columns * _CELL_PX)
    return wide, max(min(rows * _ROW_PX, 560), 40)


def _draw(view: View) -> Drawing:
    chart, axes = view.chart, view.axes
    columns = {name: i for i, name in enumerate(axes.x.names)}
    lines = {name: i for i, name in enumerate(axes.y.names)}
    column = np.array([columns[n] for n in reading.names(chart, "x")], dtype=np.intp)
    line = np.array([lines[n] for n in reading.names(chart, "y")], dtype=np.intp)
    value, notes = shown_values(view)
    unit = reading.column(chart, "value").unit
    place, row, mean, wide, high = bin_cells(column, line, value, view.points)
    rows: list[Spec] = []
    for i, j, v in zip(place.tolist(), row.tolist(), mean.tolist(), strict=True):
        cell: Spec = {"a": i, "b": min(i + wide, len(columns)), "c": j, "d": min(j + high, len(lines))}
        cell |= {"v": reading.drawable(v), "t": _text(v, unit), "n": axes.x.names[i], "m": axes.y.names[j]}
        rows.append(cell | {"k": int(_needs_paper(v, axes.colour))})
    places = zip(column[np.isnan(value)].tolist(), line[np.isnan(value)].tolist(), strict=True)
    blank: list[Spec] = [{"a": i, "c": j, "t": "–"} for i, j in places]
    layers = [_cells(view)]
    widest = max((text_px(cell["t"]) for cell in rows), default=0)
    if wide * high == 1 and widest + 4 <= view.width / len(columns) and view.height / len(lines) >= 14:
        layers += _texts(view, blank)
    notes += [f"each cell is the mean of up to {wide * high:,} values"] if wide * high > 1 else []
    return Drawing(layers, rows, notes=tuple(notes))


def _text(value: float, unit: str) -> str:
    """Coefficients have two decimals, as in print; other units are written as everywhere."""
    return f"{value:.2f}".replace("-0.00", "0.00") if unit == "" and abs(value) < 10 else format_value(value, unit)


def _needs_paper(value: float, axis: Axis | None) -> bool:
    """Whether black does not stand out: the dark ends of the diverging colours, the dark half of the sequential."""
    if axis is None:
        return False
    share = float(axis.fractions(np.array([value]))[0])
    return abs(share - 0.5) > 0.44 if is_diverging(axis) else share < 0.43


def _cells(view: View) -> Spec:
    chart = view.chart
    headings = {"n": reading.column(chart, "x").heading, "m": reading.column(chart, "y").heading}
    fields = {name: text_column(heading) for name, heading in headings.items()}
    tips, transforms = tooltip(fields | {"v": reading.column(chart, "value")})
    encoding: Spec = {"x": view.x("a"), "x2": {"field": "b"}, "y": view.y("c"), "y2": {"field": "d"}}
    encoding |= {"color": colour_channel(view), "tooltip": tips}
    mark = {"type": "rect", "stroke": BACKGROUND, "strokeWidth": 1}
    return {"transform": transforms, "mark": mark, "encoding": encoding}


def _texts(view: View, blank: list[Spec]) -> list[Spec]:
    """The numbers, in the ink that stands out from their cell; a dash where there is none."""
    layers: list[Spec] = []
    for ink, test in ((CELL_INK, "datum.k===0"), (CELL_PAPER, "datum.k===1")):
        mark: Spec = {"type": "text", "color": ink, "baseline": "middle", "align": "center"}
        layers.append({"transform": [{"filter": test}, *_MIDDLE], "mark": mark, "encoding": _middle(view)})
    if blank:
        mark = {"type": "text", "color": SECONDARY, "baseline": "middle", "align": "center"}
        layers.append({"data": {"values": blank}, "transform": _MIDDLE, "mark": mark, "encoding": _middle(view)})
    return layers


_MIDDLE: list[Spec] = [{"calculate": "datum.a+0.5", "as": "ax"}, {"calculate": "datum.c+0.5", "as": "cy"}]


def _middle(view: View) -> Spec:
    return {"x": view.x("ax"), "y": view.y("cy"), "text": {"field": "t", "type": "nominal"}}


KIND = PanelKind(("x", "y", "value"), _axes, _draw, size=_size, shown=("value",))
