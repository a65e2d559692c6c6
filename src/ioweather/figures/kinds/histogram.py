"""Amounts by bin. A few bins of uneven width are drawn evenly, with their edges at the borders."""

from __future__ import annotations

import math

import numpy as np

from ioweather.core.arrays import Floats, Indices
from ioweather.core.results import Chart
from ioweather.figures import reading
from ioweather.figures.axes import Axis, axis_title, number_axis, time_axis
from ioweather.figures.columns import Places, split
from ioweather.figures.compose import Axes, Drawing, Note, PanelKind, View
from ioweather.figures.lines import off_log_axis
from ioweather.figures.references import limits
from ioweather.figures.theme import BACKGROUND, Spec
from ioweather.figures.tooltips import text_column, tooltip

_FEW_BINS = 16
_SIDE_BY_SIDE_PX = 3.0
_OPEN = (reading.NONE, "∞", "-∞", "–")  # how a missing edge is written


def _axes(chart: Chart, width: int) -> Axes:
    y_log = chart.scales.get("y") == "log"
    lines = limits(chart.references, "y", is_time=False)
    y = number_axis(reading.column(chart, "y"), [reading.numbers(chart, "y"), lines], log=y_log, zero=not y_log)
    return Axes(_bin_axis(chart), y)


def _bin_axis(chart: Chart) -> Axis:
    column = reading.column(chart, "low")
    low, high = _edges(chart)
    edges = np.unique(np.r_[low, high])
    finite = edges[np.isfinite(edges)]
    if reading.is_time(chart, "low"):
        return time_axis(column, [finite])
    widths = np.diff(finite)
    log = "log" in (chart.scales.get("x"), chart.scales.get("low"), chart.scales.get("high"))
    even = len(widths) < 2 or bool(widths.max() <= widths.min() * 1.001)
    if not np.isfinite(edges).all() or (not even and not log and len(edges) <= _FEW_BINS + 1):
        return Axis(axis_title(column), "bins", unit=column.unit, edges=tuple(edges.tolist()))
    marks = limits(chart.references, "x", is_time=False)
    positive = finite[finite > 0]
    geometric = len(positive) == len(finite) > 2 and np.ptp(np.diff(np.log(finite))) < 0.01
    log = log or (bool(geometric) and not even)
    return number_axis(column, [positive if log else finite, marks], log=log, tight=True)


def _edges(chart: Chart) -> tuple[Floats, Floats]:
    """Missing edges are open ends."""
    low, high = reading.numbers(chart, "low"), reading.numbers(chart, "high")
    return np.where(np.isnan(low), -math.inf, low), np.where(np.isnan(high), math.inf, high)


def _draw(view: View) -> Drawing:
    axis = view.axes.x
    low, high = _edges(view.chart)
    y = reading.numbers(view.chart, "y")
    drawable = np.isfinite(y) & ((y > 0) | (not view.axes.y.log))
    hidden = int(np.isfinite(y).sum() - drawable.sum())
    left, right = (_places(axis, low), _places(axis, high)) if axis.measure == "bins" else (low, high)
    if axis.log or axis.measure == "time":  # zero is not on the one, an open end on neither
        left, right = np.clip(left, axis.low, axis.high), np.clip(right, axis.low, axis.high)
    count = max(len(view.series.names), 1)
    bins = max(len(np.unique(low)), 1)
    notes: list[Note] = [off_log_axis(hidden)] if hidden else []
    if count > 1 and axis.measure != "bins" and view.width / bins / count < _SIDE_BY_SIDE_PX:
        return _outlines(view, left, right, np.where(drawable, y, np.nan), notes)
    at = _split(view, left, right)
    shown = np.flatnonzero(drawable)[: view.points]
    rows = _rows(view, at, y, shown)
    where = (at.centre[shown], y[shown])
    if axis.measure == "bins":
        where = (np.full(len(shown), np.nan), y[shown])
    return Drawing(_bars(view), rows, where, tuple(notes))


def _split(view: View, left: Floats, right: Floats) -> Places:
    """Side by side inside a bin; on a logarithmic axis by ratio."""
    gap = 0.08 if view.axes.x.measure == "bins" or len(view.series.names) > 1 else 0.0
    if not view.axes.x.log:
        return split(view, left, right, gap)
    parts = split(view, np.log(left), np.log(right), gap)
    return Places(np.exp(parts.left), np.exp(parts.right))


def _places(axis: Axis, edges: Floats) -> Floats:
    return np.searchsorted(np.array(axis.edges), edges).astype(np.float64)


def _rows(view: View, at: Places, y: Floats, shown: Indices) -> list[Spec]:
    chart = view.chart
    names = zip(reading.names(chart, "low"), reading.names(chart, "high"), strict=True)
    bins = [_bin_name(*pair) for pair in names]
    series = reading.names(chart, "series") if "series" in chart.encoding else None
    base = view.axes.y.low if view.axes.y.log else 0
    rows: list[Spec] = []
    for i in shown.tolist():
        row: Spec = {"a": reading.drawable(at.left[i]), "b": reading.drawable(at.right[i]), "o": reading.drawable(base)}
        row |= {"y": reading.drawable(y[i]), "n": bins[i]}
        rows.append(row | {"s": series[i]} if series else row)
    return rows


def _bin_name(low: str, high: str) -> str:
    if high in _OPEN:
        return f"{low} and more"
    return f"below {high}" if low in _OPEN else f"{low} to {high}"


def _bars(view: View) -> list[Spec]:
    chart, series = view.chart, view.series
    fields = {"s": text_column(series.heading)} if series.names else {}
    fields |= {"n": text_column(reading.column(chart, "low").heading), "y": reading.column(chart, "y")}
    tips, transforms = tooltip(fields)
    mark: Spec = {"type": "rect"}
    if not series.names and view.axes.x.measure != "bins":
        mark |= {"stroke": BACKGROUND, "strokeWidth": 0.5}
    encoding: Spec = {"x": view.x("a"), "x2": {"field": "b"}, "y": view.y("o"), "y2": {"field": "y"}}
    encoding |= {"color": series.colour(view.legend), "tooltip": tips}
    return [{"transform": transforms, "mark": mark, "encoding": encoding}]


def _outlines(view: View, left: Floats, right: Floats, y: Floats, notes: list[Note]) -> Drawing:
    """Bins too narrow to stand side by side: one stepped line per series."""
    labels = np.array(reading.names(view.chart, "series"))
    rows: list[Spec] = []
    for name in view.series.names:
        mine = np.flatnonzero(labels == name)
        mine = mine[np.argsort(left[mine], kind="stable")]
        steps = [(left[i], y[i]) for i in mine] + [(right[i], y[i]) for i in mine[-1:]]
        rows += [{"x": reading.drawable(a), "y": reading.drawable(b), "s": name} for a, b in steps]
    mark = {"type": "line", "interpolate": "step-after", "strokeWidth": 1.5}
    encoding = {"x": view.x("x"), "y": view.y("y"), "color": view.series.colour(view.legend)}
    rows = rows[: view.points]
    where = (np.array([r["x"] for r in rows], dtype=float), np.array([r["y"] for r in rows], dtype=float))
    return Drawing([{"mark": mark, "encoding": encoding}], rows, where, tuple(notes))


KIND = PanelKind(("low", "high", "y"), _axes, _draw, optional=("series",))
