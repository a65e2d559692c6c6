"""Timelines, bands and cumulative distributions: thinned lines with gaps, intervals and lone points."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ioweather.core.arrays import Floats, Indices
from ioweather.core.results import Chart
from ioweather.ui.charts import reading
from ioweather.ui.charts.axes import Axis, number_axis, position_axis, value_axis
from ioweather.ui.charts.compose import HOVER, OFF_LOG_AXIS, Axes, Drawing, PanelKind, View
from ioweather.ui.charts.decimate import CDF_POINTS, envelope, thin_cdf, thin_line
from ioweather.ui.charts.theme import Spec

_CROWDED_PX = 9  # closer than this, points on a line become a rope
_STEPS_BELOW = 60  # with more points the step of a distribution is no wider than the line


def _curve_axes(chart: Chart, width: int) -> Axes:
    return Axes(position_axis(chart, "x"), value_axis(chart, "y", ("y", "low", "high")))


def _cdf_axes(chart: Chart, width: int) -> Axes:
    """Shares reach from 0 to 100%, whatever part of it the data show."""
    column = reading.column(chart, "y")
    log = chart.scales.get("y") == "log"
    ends = np.array([1.0]) if log else np.array([0.0, 1.0])
    share = replace(column, unit=column.unit or "ratio")
    y = number_axis(share, [reading.numbers(chart, "y"), ends], log=log, tight=True)
    return Axes(position_axis(chart, "x"), y)


def _draw_lines(view: View) -> Drawing:
    return _draw_curves(view, thin_line, "thinned so that the lowest and highest of every pixel stay")


def _draw_cdf(view: View) -> Drawing:
    count = max(len(view.series.names), 1)
    limit = max(min(CDF_POINTS, view.points // count), 8)
    few = len(view.chart.table.rows) / count <= _STEPS_BELOW
    return _draw_curves(
        view,
        lambda x, y, buckets: thin_cdf(x, y, limit),
        "thinned so that the tails stay",
        "step-after" if few else "linear",
    )


def _draw_curves(
    view: View, thin: Callable[[Floats, Floats, int], Indices], thinning: str, interpolate: str = "linear"
) -> Drawing:
    """Lines, their bands, and points where a value is alone between gaps. `thinning` describes what `thin` keeps."""
    chart, series = view.chart, view.series
    x, y = reading.numbers(chart, "x"), reading.numbers(chart, "y")
    banded = "low" in chart.encoding and "high" in chart.encoding
    labels = np.array(reading.names(chart, "series") if series.names else [""] * len(x))
    names = reading.distinct(labels.tolist())
    shown = _on_axis(y, view.axes.y)
    buckets = max(min(view.width, view.points // (6 if banded else 5) // max(len(names), 1)), 2)
    rows: list[Spec] = []
    alone: list[Spec] = []
    bands: list[Spec] = []
    for name in names:
        mine = np.flatnonzero((labels == name) & np.isfinite(x))
        mine = mine[np.argsort(x[mine], kind="stable")]
        kept = mine[thin(x[mine], shown[mine], buckets)]
        here = [_row(name, x=x[i], y=shown[i]) for i in kept]
        rows += [*here, _row(name, x=math.nan, y=math.nan)] if series.bundled else here
        # A line through a value without a neighbour has no length.
        known = np.r_[False, np.isfinite(shown[kept]), False]
        alone += [here[i] for i in np.flatnonzero(known[1:-1] & ~known[:-2] & ~known[2:])]
        if banded and len(mine):
            low = _on_axis(reading.numbers(chart, "low")[mine], view.axes.y, floor=True)
            high = _on_axis(reading.numbers(chart, "high")[mine], view.axes.y)
            at, low, high = envelope(x[mine], low, high, buckets)
            low, high = np.where(np.isnan(high), np.nan, low), np.where(np.isnan(low), np.nan, high)
            bands += [_row(name, x=a, l=b, h=c) for a, b, c in zip(at, low, high, strict=True)]
    drawn = sum(row["y"] is not None for row in rows)
    total = int((np.isfinite(shown) & np.isfinite(x)).sum())
    hidden = int((np.isfinite(y) & np.isfinite(x)).sum()) - total
    notes = {f"drawn from {{}} values, {thinning}": total} if drawn < total else {}
    notes |= {OFF_LOG_AXIS: hidden} if hidden else {}
    dense = drawn / max(len(names), 1) * _CROWDED_PX > view.width or interpolate != "linear"
    dots = alone if dense or series.bundled else rows
    base = {"x": view.x("x"), "y": view.y("y"), "color": series.colour(view.legend)}
    # A bundle is one path with breaks in the order of the rows: a group of marks per series takes ten times as long.
    split: Spec = {"detail": {"field": "s", "type": "nominal"}} if series.names and not series.bundled else {}
    line: Spec = {"type": "line", "interpolate": interpolate, "clip": True}
    if series.bundled:
        line |= {"strokeWidth": 0.6, "opacity": 0.6, "order": False}
    elif drawn > view.width * max(len(names), 1) and len(series.names) > 1:
        # Lines with more than a point per pixel cover each other: thin and pale, both can be seen.
        line |= {"strokeWidth": 1, "opacity": 0.75}
    else:
        line["strokeWidth"] = 1.6
    layers: list[Spec] = []
    if bands:
        area = base | split | {"y": base["y"] | {"field": "l"}, "y2": {"field": "h"}}
        mark: Spec = {"type": "area", "opacity": 0.22, "interpolate": interpolate, "clip": True, "line": False}
        layers.append({"data": {"values": bands}, "mark": mark, "encoding": area})
    layers.append({"mark": line, "encoding": base | split | series.dash(view.legend)})
    if dots:
        mark = {"type": "point", "filled": True, "size": 20, "opacity": 1}
        layers.append({"data": {"values": [d for d in dots if d["y"] is not None]}, "mark": mark, "encoding": base})
    # Wide enough to be met by a pointer; without a colour, which would change the symbols of the legend.
    tips, transforms = view.tooltip({"x": reading.column(chart, "x"), "y": reading.column(chart, "y")})
    mark = {"type": "point", "filled": True, "size": 300, "opacity": 0}
    where = {"x": base["x"], "y": base["y"], "tooltip": tips}
    layers.append({"name": HOVER, "transform": transforms, "mark": mark, "encoding": where})
    return Drawing(layers, rows, notes)


def _row(series: str, **values: float) -> Spec:
    row: Spec = {name: reading.drawable(float(value)) for name, value in values.items()}
    return row | {"s": series} if series else row


def _on_axis(values: Floats, axis: Axis, *, floor: bool = False) -> Floats:
    """Values that a logarithmic axis cannot show are missing there; the lower edge of a band ends at the axis."""
    if not axis.log:
        return values
    return np.where(values > 0, values, np.where(np.isnan(values), np.nan, axis.low if floor else np.nan))


TIMELINE = PanelKind(("x", "y"), _curve_axes, _draw_lines, optional=("series", "low", "high"))
BAND = PanelKind(("x", "y", "low", "high"), _curve_axes, _draw_lines, optional=("series",), shown=("y", "low", "high"))
CDF = PanelKind(("x", "y"), _cdf_axes, _draw_cdf, optional=("series",))
