"""Points: two numbers each, optionally a series, a size and a name."""

from __future__ import annotations

import numpy as np

from ioweather.core.arrays import Floats, Indices
from ioweather.core.results import Chart, ResultColumn
from ioweather.ui.charts import reading
from ioweather.ui.charts.axes import number_axis, position_axis, text_px, wrapped
from ioweather.ui.charts.compose import NO_VALUE, OFF_LOG_AXIS, SIDE_LEGEND_PX, Axes, Drawing, PanelKind, View
from ioweather.ui.charts.decimate import thin_scatter
from ioweather.ui.charts.theme import INK, LABEL_SIZE, NEUTRAL, Spec

_MOST_NAMES = 20
_OVERHANG_PX = 24  # beside the plot there is nothing to cover
_MOST_POINTS = 3000  # a printed point takes 130 bytes
_OFFSETS = ((7, 4, "left"), (-7, 4, "right"), (0, -7, "center"), (0, 15, "center"))


def _axes(chart: Chart, width: int) -> Axes:
    return Axes(position_axis(chart, "x"), position_axis(chart, "y"))


def _draw(view: View) -> Drawing:
    chart, series = view.chart, view.series
    x, y = reading.numbers(chart, "x"), reading.numbers(chart, "y")
    known = np.isfinite(x) & np.isfinite(y)
    across, up = view.axes.x.fractions(x), view.axes.y.fractions(y)
    drawable = known & np.isfinite(across + up)
    total, missing, hidden = int(drawable.sum()), int((~known).sum()), int(known.sum() - drawable.sum())
    kept = thin_scatter(np.where(drawable, across, np.nan), up, min(view.points, _MOST_POINTS))
    notes = {OFF_LOG_AXIS: hidden} if hidden else {}
    if len(kept) < total:
        notes[f"{len(kept):,} of {total:,} points drawn, one for each spot; outliers stay"] = 0
    notes |= {NO_VALUE: missing} if missing else {}
    fields: dict[str, ResultColumn | str] = {"x": reading.column(chart, "x"), "y": reading.column(chart, "y")}
    rows: list[Spec] = [{"x": reading.drawable(float(x[i])), "y": reading.drawable(float(y[i]))} for i in kept]
    encoding: Spec = {"x": view.x("x"), "y": view.y("y"), "color": series.colour(view.legend)}
    encoding |= series.shape(view.legend)
    crowded = len(kept) > 600
    mark: Spec = {"type": "point", "filled": True, "opacity": 0.4 if crowded else 0.7}
    if "label" in chart.encoding:
        fields = {"n": reading.column(chart, "label").heading, **fields}
    for field, channel in (("s", "series"), ("n", "label")):
        if channel in chart.encoding:
            names = reading.names(chart, channel)
            rows = [row | {field: names[i]} for row, i in zip(rows, kept, strict=True)]
    if "size" in chart.encoding:
        size = reading.numbers(chart, "size")
        rows = [row | {"z": reading.drawable(float(size[i]))} for row, i in zip(rows, kept, strict=True)]
        fields["z"] = reading.column(chart, "size")
        encoding["size"] = _size_channel(view)
    else:
        mark["size"] = 10 if crowded else 34
    tips, transforms = view.tooltip(fields)
    layers: list[Spec] = [{"transform": transforms, "mark": mark, "encoding": encoding | {"tooltip": tips}}]
    if "label" in chart.encoding and len(kept) <= _MOST_NAMES:
        layers += _names(view, kept, across * view.width, (1 - up) * view.height)
    return Drawing(layers, rows, notes)


def _size_channel(view: View) -> Spec:
    """The area is proportional to the value, so that twice the value is twice the ink."""
    axis = number_axis(reading.column(view.chart, "size"), [reading.numbers(view.whole, "size")], zero=True)
    legend = {
        "title": wrapped(axis.title, SIDE_LEGEND_PX, LABEL_SIZE + 1),
        "orient": "right" if view.legend_beside else "bottom",
        "symbolFillColor": NEUTRAL,
        "symbolStrokeColor": NEUTRAL,
        **axis.number_labels(5),
    }
    if "values" in legend:
        legend["values"] = [value for value in legend["values"] if value > 0]
    scale = {"type": "linear", "domain": [0, axis.high], "range": [6, 260]}
    return {"field": "z", "type": "quantitative", "legend": legend, "scale": scale}


def _names(view: View, kept: Indices, x: Floats, y: Floats) -> list[Spec]:
    """Names next to their points where they cover neither a point nor another name; the others are in the tooltip."""
    labels = reading.names(view.chart, "label")
    taken = [(x[i] - 4, x[i] + 4, y[i] - 4, y[i] + 4) for i in kept]
    layers: list[Spec] = []
    for i in kept.tolist():
        size = text_px(labels[i])
        for dx, dy, align in _OFFSETS:
            left = x[i] + dx - {"left": 0.0, "right": size, "center": size / 2}[align]
            right, top, bottom = left + size, y[i] + dy - LABEL_SIZE, y[i] + dy + 2
            inside = left >= 0 and right <= view.width + _OVERHANG_PX and top >= -LABEL_SIZE and bottom <= view.height
            if inside and not any(left < b[1] and b[0] < right and top < b[3] and b[2] < bottom for b in taken):
                taken.append((left, right, top, bottom))
                mark = {"type": "text", "text": labels[i], "align": align, "baseline": "alphabetic", "color": INK}
                place = {"x": {"value": round(float(x[i]) + dx, 1)}, "y": {"value": round(float(y[i]) + dy, 1)}}
                layers.append({"data": {"values": [{}]}, "mark": mark, "encoding": place})
                break
    return layers


SCATTER = PanelKind(("x", "y"), _axes, _draw, optional=("series", "size", "label"))
