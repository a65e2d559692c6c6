"""Points: two numbers each, optionally a series, a size and a name."""

from __future__ import annotations

import numpy as np

from ioweather.core.arrays import Floats, Indices
from ioweather.core.results import Chart
from ioweather.figures import reading
from ioweather.figures.axes import Axis, label_expression, number_axis, position_axis, text_px, wrapped
from ioweather.figures.compose import SIDE_LEGEND_PX, Axes, Counted, Drawing, Note, PanelKind, View
from ioweather.figures.decimate import thin_scatter
from ioweather.figures.lines import off_log_axis
from ioweather.figures.references import limits
from ioweather.figures.theme import INK, LABEL_SIZE, NEUTRAL, Spec
from ioweather.figures.tooltips import text_column, tooltip

_MOST_NAMES = 20
_OVERHANG_PX = 24  # beside the plot there is nothing to cover
_MOST_POINTS = 3000  # a printed point takes 130 bytes
_OFFSETS = ((7, 4, "left"), (-7, 4, "right"), (0, -7, "center"), (0, 15, "center"))


def _axes(chart: Chart, width: int) -> Axes:
    x_time = reading.is_time(chart, "x")
    x = position_axis(chart, "x", extra=[limits(chart.references, "x", is_time=x_time)])
    y = position_axis(chart, "y", extra=[limits(chart.references, "y", is_time=reading.is_time(chart, "y"))])
    return Axes(x, y)


def _draw(view: View) -> Drawing:
    chart, axes = view.chart, view.axes
    x, y = reading.numbers(chart, "x"), reading.numbers(chart, "y")
    known = np.isfinite(x) & np.isfinite(y)
    across, up = axes.x.fractions(x), axes.y.fractions(y)
    drawable = np.where(known, across + up, np.nan)
    hidden = int(known.sum() - np.isfinite(drawable).sum())
    kept = thin_scatter(np.where(np.isfinite(drawable), across, np.nan), up, min(view.points, _MOST_POINTS))
    notes: list[Note] = [off_log_axis(hidden)] if hidden else []
    total = int(np.isfinite(drawable).sum())
    notes += [f"{len(kept):,} of {total:,} points drawn, one for each spot; outliers stay"] if len(kept) < total else []
    missing = len(x) - int(known.sum())
    notes += [Counted("{} without a value", missing)] if missing else []
    layers = [_points(view, crowded=len(kept) > 600)]
    if "label" in chart.encoding and len(kept) <= _MOST_NAMES:
        layers += _names(view, kept, across * view.width, (1 - up) * view.height)
    return Drawing(layers, _rows(view, kept, x, y), (x[kept], y[kept]), tuple(notes))


def _rows(view: View, kept: Indices, x: Floats, y: Floats) -> list[Spec]:
    chart = view.chart
    series = reading.names(chart, "series") if "series" in chart.encoding else None
    size = reading.numbers(chart, "size") if "size" in chart.encoding else None
    label = reading.names(chart, "label") if "label" in chart.encoding else None
    rows: list[Spec] = []
    for i in kept.tolist():
        row: Spec = {"x": reading.drawable(x[i]), "y": reading.drawable(y[i])}
        row |= {"s": series[i]} if series else {}
        row |= {"n": label[i]} if label else {}
        row |= {"z": reading.drawable(size[i])} if size is not None else {}
        rows.append(row)
    return rows


def _points(view: View, *, crowded: bool) -> Spec:
    chart, series = view.chart, view.series
    fields = {"s": text_column(series.heading)} if series.names else {}
    fields |= {"n": text_column(reading.column(chart, "label").heading)} if "label" in chart.encoding else {}
    fields |= {"x": reading.column(chart, "x"), "y": reading.column(chart, "y")}
    encoding: Spec = {"x": view.x("x"), "y": view.y("y"), "color": series.colour(view.legend)}
    encoding |= series.shape(view.legend)
    if "size" in chart.encoding:
        column = reading.column(chart, "size")
        fields["z"] = column
        encoding["size"] = _size_channel(number_axis(column, [reading.numbers(view.whole, "size")], zero=True), view)
    tips, transforms = tooltip(fields)
    mark: Spec = {"type": "point", "filled": True, "opacity": 0.4 if crowded else 0.7}
    if "size" not in chart.encoding:
        mark["size"] = 10 if crowded else 34
    return {"transform": transforms, "mark": mark, "encoding": encoding | {"tooltip": tips}}


def _size_channel(axis: Axis, view: View) -> Spec:
    """The area says the size, so that twice the value is twice the ink."""
    ticks = [tick for tick in axis.ticks(150, "y") if tick[0] > 0]
    legend = {
        "title": wrapped(axis.title, SIDE_LEGEND_PX, LABEL_SIZE + 1),
        "orient": "right" if view.legend_beside else "bottom",
        "values": [value for value, _ in ticks],
        "labelExpr": label_expression(ticks),
        "symbolFillColor": NEUTRAL,
        "symbolStrokeColor": NEUTRAL,
    }
    scale = {"type": "linear", "domain": [0, axis.high], "range": [6, 260]}
    return {"field": "z", "type": "quantitative", "legend": legend, "scale": scale}


def _names(view: View, kept: Indices, x: Floats, y: Floats) -> list[Spec]:
    """Names beside their points where they cover neither a point nor another name; otherwise the pointer shows them."""
    labels = reading.names(view.chart, "label")
    taken = [(x[i] - 4, x[i] + 4, y[i] - 4, y[i] + 4) for i in kept]
    layers: list[Spec] = []
    for i in kept.tolist():
        size = text_px(labels[i])
        for dx, dy, align in _OFFSETS:
            left = x[i] + dx - {"left": 0.0, "right": size, "center": size / 2}[align]
            box = (left, left + size, y[i] + dy - LABEL_SIZE, y[i] + dy + 2)
            inside = (
                box[0] >= 0 and box[1] <= view.width + _OVERHANG_PX and box[2] >= -LABEL_SIZE and box[3] <= view.height
            )
            if inside and not any(box[0] < b[1] and b[0] < box[1] and box[2] < b[3] and b[2] < box[3] for b in taken):
                taken.append(box)
                mark = {"type": "text", "text": labels[i], "align": align, "baseline": "alphabetic", "color": INK}
                place = {"x": {"value": round(float(x[i]) + dx, 1)}, "y": {"value": round(float(y[i]) + dy, 1)}}
                layers.append({"data": {"values": [{}]}, "mark": mark, "encoding": place})
                break
    return layers


KIND = PanelKind(("x", "y"), _axes, _draw, optional=("series", "size", "label"))
