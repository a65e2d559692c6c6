"""Amounts by name or by time, side by side for series, with intervals where there are any."""

from __future__ import annotations

import numpy as np

from ioweather.core.arrays import Floats, Indices
from ioweather.core.results import Chart
from ioweather.figures import reading
from ioweather.figures.axes import Side, number_axis
from ioweather.figures.columns import Places, bar_px, channels, place_axes, place_size, places
from ioweather.figures.compose import Axes, Counted, Drawing, Note, PanelKind, View
from ioweather.figures.decimate import thin_line
from ioweather.figures.lines import off_log_axis
from ioweather.figures.references import limits
from ioweather.figures.theme import AXIS, INK, Spec
from ioweather.figures.tooltips import text_column, tooltip

_THINNEST_PX = 1.3


def _axes(chart: Chart, width: int) -> Axes:
    values = [reading.numbers(chart, channel) for channel in ("y", "low", "high") if channel in chart.encoding]
    log = chart.scales.get("y") == "log"
    value = number_axis(
        reading.column(chart, "y"), [*values, limits(chart.references, "y", is_time=False)], log=log, zero=not log
    )
    return place_axes(chart, value, width)


def _draw(view: View) -> Drawing:
    chart, axes = view.chart, view.axes
    y = reading.numbers(chart, "y")
    value = axes.x if axes.flipped else axes.y
    drawable = np.isfinite(y) & ((y > 0) | (not value.log))
    hidden = int(np.isfinite(y).sum() - drawable.sum())
    at = places(view)
    shown = np.flatnonzero(drawable)
    dots = bar_px(view) < _THINNEST_PX
    if len(shown) > view.points // 2:
        order = shown[np.argsort(at.centre[shown], kind="stable")]
        shown = order[thin_line(at.centre[order], y[order], view.points // 10)]
    rows = _rows(view, at, y, shown, value.low if value.log else 0.0)
    notes: list[Note] = [off_log_axis(hidden)] if hidden else []
    missing = len(y) - int(np.isfinite(y).sum())
    notes += [Counted("{} without a value", missing)] if missing else []
    total = int(drawable.sum())
    notes += [f"{len(shown):,} of {total:,} drawn, the lowest and highest among them"] if len(shown) < total else []
    where = (y[shown], at.centre[shown]) if axes.flipped else (at.centre[shown], y[shown])
    return Drawing(_layers(view, dots=dots), rows, where, tuple(notes))


def _rows(view: View, at: Places, y: Floats, shown: Indices, base: float) -> list[Spec]:
    chart = view.chart
    labels = reading.names(chart, "x")
    series = reading.names(chart, "series") if "series" in chart.encoding else None
    interval = "low" in chart.encoding and "high" in chart.encoding
    low = reading.numbers(chart, "low") if interval else y
    high = reading.numbers(chart, "high") if interval else y
    rows = []
    for i in shown.tolist():
        row: Spec = {"a": reading.drawable(at.left[i]), "b": reading.drawable(at.right[i]), "n": labels[i]}
        row |= {"y": reading.drawable(y[i]), "o": reading.drawable(base)}
        row |= {"s": series[i]} if series else {}
        if interval and np.isfinite(low[i]) and np.isfinite(high[i]):
            row |= {"c": reading.drawable(at.centre[i]), "l": reading.drawable(max(low[i], base) if base else low[i])}
            row["h"] = reading.drawable(high[i])
        rows.append(row)
    return rows


def _layers(view: View, *, dots: bool) -> list[Spec]:
    chart, series = view.chart, view.series
    fields = {"s": text_column(series.heading)} if series.names else {}
    fields |= {"n": text_column(reading.column(chart, "x").heading), "y": reading.column(chart, "y")}
    if "low" in chart.encoding and "high" in chart.encoding:
        fields |= {"l": reading.column(chart, "low"), "h": reading.column(chart, "high")}
    tips, transforms = tooltip(fields)
    colour = {"color": series.colour(view.legend), "tooltip": tips}
    if dots:
        mark: Spec = {"type": "point", "filled": True, "size": 9, "opacity": 1}
        return [{"transform": transforms, "mark": mark, "encoding": channels(view, "a", "y") | colour}]
    encoding = channels(view, "a", "o", "b", "y") | colour
    layers: list[Spec] = [{"transform": transforms, "mark": {"type": "rect"}, "encoding": encoding}]
    value = view.axes.x if view.axes.flipped else view.axes.y
    if value.low < 0 < value.high:
        side: Side = "x" if view.axes.flipped else "y"
        zero = {side: {"datum": 0, "type": "quantitative", "scale": value.scale(side)}}
        mark = {"type": "rule", "color": AXIS}
        layers.append({"data": {"values": [{}]}, "mark": mark, "encoding": zero})
    if "low" in chart.encoding and "high" in chart.encoding:
        known = [{"filter": "isValid(datum.l)"}]
        rule = {"type": "rule", "color": INK, "strokeWidth": 1.2}
        layers.append({"transform": known, "mark": rule, "encoding": channels(view, "c", "l", "", "h")})
    return layers


KIND = PanelKind(("x", "y"), _axes, _draw, optional=("series", "low", "high"), size=place_size)
