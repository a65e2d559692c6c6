"""Bars, boxes and histograms: places along one axis, split between series, upright or lying."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from ioweather.core.arrays import Floats
from ioweather.core.results import Chart, ResultColumn
from ioweather.ui.charts import reading
from ioweather.ui.charts.axes import (
    Axis,
    Side,
    axis_title,
    names_axis,
    names_fit,
    number_axis,
    text_px,
    time_axis,
    value_axis,
)
from ioweather.ui.charts.compose import NO_VALUE, OFF_LOG_AXIS, Axes, Drawing, PanelKind, View, standard_size
from ioweather.ui.charts.decimate import thin_line
from ioweather.ui.charts.series import Series
from ioweather.ui.charts.theme import AXIS, BACKGROUND, INK, Spec

_MOST_LYING = 40
_GAP = 0.12  # of a place, on each side
_THINNEST_PX = 1.3
_QUANTILES = ("q05", "q25", "q50", "q75", "q95")
_FEW_BINS = 16
_SIDE_BY_SIDE_PX = 3.0
_OPEN = (reading.NONE, "∞", "-∞", "–")  # how a missing edge is written


def _bar_axes(chart: Chart, width: int) -> Axes:
    return _place_axes(chart, value_axis(chart, "y", ("y", "low", "high"), zero=True), width)


def _box_axes(chart: Chart, width: int) -> Axes:
    return _place_axes(chart, value_axis(chart, "y", _QUANTILES), width)


def _place_axes(chart: Chart, value: Axis, width: int) -> Axes:
    """Places from the x column: times keep their distances; names that do not fit side by side run down the side."""
    if reading.is_time(chart, "x"):
        x = reading.numbers(chart, "x")
        return Axes(time_axis(reading.column(chart, "x"), [x, x + _step(x)]), value)
    places = names_axis(chart, "x")
    widest = max(map(text_px, places.names), default=0)
    lying = not names_fit(places.names, width - 70) and len(places.names) <= _MOST_LYING and widest > 26
    return Axes(value, places, flipped=True) if lying else Axes(places, value)


def _place_size(axes: Axes, series: Series, width: int, panels: int) -> tuple[int, int]:
    """A lying chart is as high as its places need."""
    if not axes.flipped:
        return standard_size(axes, series, width, panels)
    each = 8 + max(len(series.names), 1) * (11 if len(series.names) > 1 else 14)
    return width, max(len(axes.y.names) * each, 60)


def _step(x: Floats) -> float:
    """The shortest distance between two times; a day where there is only one."""
    distinct = np.unique(x[np.isfinite(x)])
    return float(np.diff(distinct).min()) if len(distinct) > 1 else 86_400_000.0


def _places(view: View) -> tuple[Floats, Floats]:
    """Left and right end of each row along the axis of places."""
    if reading.is_time(view.chart, "x"):
        left = reading.numbers(view.chart, "x")
        return _split(view, left, left + _step(left))
    axis = view.axes.y if view.axes.flipped else view.axes.x
    index = {name: i for i, name in enumerate(axis.names)}
    left = np.array([index[name] for name in reading.names(view.chart, "x")], dtype=np.float64)
    return _split(view, left, left + 1)


def _split(view: View, left: Floats, right: Floats, gap: float = _GAP) -> tuple[Floats, Floats]:
    """The part of each place that belongs to the row's series."""
    count = max(len(view.series.names), 1)
    slot = np.zeros(len(left))
    if view.series.names:
        order = {name: i for i, name in enumerate(view.series.names)}
        slot = np.array([order[name] for name in reading.names(view.chart, "series")], dtype=np.float64)
    inner = (right - left) * (1 - 2 * gap)
    start = left + (right - left) * gap + inner * slot / count
    return start, start + inner / count


def _channels(view: View, place: str, value: str, place2: str = "", value2: str = "") -> Spec:
    """Position channels by field, upright or lying."""
    across, along = ("y", "x") if view.axes.flipped else ("x", "y")
    encoding: Spec = {across: (view.y if view.axes.flipped else view.x)(place)}
    encoding[along] = (view.x if view.axes.flipped else view.y)(value)
    encoding |= {f"{across}2": {"field": place2}} if place2 else {}
    return encoding | ({f"{along}2": {"field": value2}} if value2 else {})


def _drawn_rows(view: View, indices: list[int], names: list[str], **columns: Floats) -> list[Spec]:
    """Rows of a layer: a name, the series, and the numbers of `columns`."""
    series = reading.names(view.chart, "series") if view.series.names else None
    return [
        {"n": names[i]}
        | ({"s": series[i]} if series else {})
        | {field: reading.drawable(float(values[i])) for field, values in columns.items()}
        for i in indices
    ]


def _draw_bars(view: View) -> Drawing:
    """Amounts by name or by time, side by side for series, with intervals where there are any."""
    chart, value = view.chart, view.axes.value
    x, y = reading.column(chart, "x"), reading.numbers(chart, "y")
    drawable = np.isfinite(y) & ((y > 0) | (not value.log))
    total, missing = int(drawable.sum()), int(np.isnan(y).sum())
    left, right = _places(view)
    centre = (left + right) / 2
    shown = np.flatnonzero(drawable)
    if len(shown) > view.points // 2:
        order = shown[np.argsort(centre[shown], kind="stable")]
        shown = order[thin_line(centre[order], y[order], view.points // 10)]
    base = np.full(len(y), value.low if value.log else 0.0)
    columns = {"a": left, "b": right, "y": y, "o": base}
    fields: dict[str, ResultColumn | str] = {"n": x.heading, "y": reading.column(chart, "y")}
    interval = "low" in chart.encoding and "high" in chart.encoding
    if interval:
        low, high = reading.numbers(chart, "low"), reading.numbers(chart, "high")
        low, high = np.where(np.isnan(high), np.nan, low), np.where(np.isnan(low), np.nan, high)
        columns |= {"c": centre, "l": np.maximum(low, base) if value.log else low, "h": high}
        fields |= {"l": reading.column(chart, "low"), "h": reading.column(chart, "high")}
    hidden = len(y) - missing - total
    notes = {OFF_LOG_AXIS: hidden} if hidden else {}
    notes |= {NO_VALUE: missing} if missing else {}
    if len(shown) < total:
        notes[f"{len(shown):,} of {total:,} drawn, the lowest and highest among them"] = 0
    tips, transforms = view.tooltip(fields)
    colour = {"color": view.series.colour(view.legend), "tooltip": tips}
    axis, length = (view.axes.y, view.height) if view.axes.flipped else (view.axes.x, view.width)
    count = (len(axis.names) or len(set(reading.cells(chart, "x"))) or 1) * max(len(view.series.names), 1)
    rows = _drawn_rows(view, shown.tolist(), reading.names(chart, "x"), **columns)
    if length * (1 - 2 * _GAP) / count < _THINNEST_PX:
        mark: Spec = {"type": "point", "filled": True, "size": 9, "opacity": 1}
        dots = {"transform": transforms, "mark": mark, "encoding": _channels(view, "a", "y") | colour}
        return Drawing([dots], rows, notes)
    bars = _channels(view, "a", "o", "b", "y") | colour
    layers: list[Spec] = [{"transform": transforms, "mark": {"type": "rect"}, "encoding": bars}]
    if value.low < 0 < value.high:
        side: Side = "x" if view.axes.flipped else "y"
        zero = {side: {"datum": 0, "type": "quantitative", "scale": value.scale(side)}}
        layers.append({"data": {"values": [{}]}, "mark": {"type": "rule", "color": AXIS}, "encoding": zero})
    if interval:
        rule = {"type": "rule", "color": INK, "strokeWidth": 1.2}
        known = [{"filter": "isValid(datum.l)"}]
        layers.append({"transform": known, "mark": rule, "encoding": _channels(view, "c", "l", "", "h")})
    return Drawing(layers, rows, notes)


def _draw_boxes(view: View) -> Drawing:
    """Distributions by name, from quantiles: whiskers from 5% to 95%, a box from 25% to 75%, a line at the median.
    Where the columns `min` and `max` are encoded, the whiskers reach to the extremes."""
    chart, value = view.chart, view.axes.value
    column = reading.column(chart, "q50")
    to_extremes = chart.encoding["q05"] == "min" and chart.encoding["q95"] == "max"
    left, right = _places(view)
    quantiles = {q: reading.numbers(chart, q) for q in _QUANTILES}
    hidden = sum(int((values <= 0).sum()) for values in quantiles.values()) if value.log else 0
    if value.log:
        quantiles = {q: np.where(values <= 0, value.low, values) for q, values in quantiles.items()}
    shown = list(range(min(len(left), view.points // len(_QUANTILES))))
    names = reading.names(chart, "x")
    rows = _drawn_rows(view, shown, names, a=left, b=right, c=(left + right) / 2, **quantiles)
    notes = {f"box 25% to 75%, line at the median, whiskers {'to the extremes' if to_extremes else '5% to 95%'}": 0}
    notes |= {OFF_LOG_AXIS: hidden} if hidden else {}
    words = ("least", "25%", "median", "75%", "greatest") if to_extremes else ("5%", "25%", "median", "75%", "95%")
    quantile_columns = {q: replace(column, name=q, label=word) for q, word in zip(_QUANTILES, words, strict=True)}
    tips, transforms = view.tooltip({"n": reading.column(chart, "x").heading, **quantile_columns})
    colour = view.series.colour(view.legend)
    box = _channels(view, "a", "q25", "b", "q75") | {"fill": colour, "stroke": colour, "tooltip": tips}
    fill = {"type": "rect", "fillOpacity": 0.45, "strokeWidth": 1.2, "strokeOpacity": 1}
    whiskers = {"type": "rule", "strokeWidth": 1.4}
    median = {"type": "rule", "color": INK, "strokeWidth": 2.2}
    layers: list[Spec] = [
        {"mark": whiskers, "encoding": _channels(view, "c", "q05", "", "q95") | {"color": colour}},
        {"transform": transforms, "mark": fill, "encoding": box},
        {"mark": median, "encoding": _channels(view, "a", "q50", "b")},
    ]
    return Drawing(layers, rows, notes)


def _histogram_axes(chart: Chart, width: int) -> Axes:
    """A few bins of uneven width, or with open ends, are drawn evenly, with their edges at the borders."""
    y = value_axis(chart, "y", ("y",), zero=True)
    column = reading.column(chart, "low")
    edges = np.unique(np.r_[_edges(chart)])
    finite = edges[np.isfinite(edges)]
    if reading.is_time(chart, "low"):
        return Axes(time_axis(column, [finite]), y)
    widths = np.diff(finite)
    log = "log" in (chart.scales.get("x"), chart.scales.get("low"), chart.scales.get("high"))
    even = len(widths) < 2 or bool(widths.max() <= widths.min() * 1.001)
    if not np.isfinite(edges).all() or (not even and not log and len(edges) <= _FEW_BINS + 1):
        return Axes(Axis(axis_title(column), "bins", unit=column.unit, edges=tuple(edges.tolist())), y)
    marks = np.array([reading.number(r.value) for r in chart.references if r.axis == "x" and r.end is None])
    positive = finite[finite > 0]
    geometric = len(positive) == len(finite) > 2 and np.ptp(np.diff(np.log(finite))) < 0.01
    log = log or (bool(geometric) and not even)
    return Axes(number_axis(column, [positive if log else finite, marks], log=log, tight=True), y)


def _edges(chart: Chart) -> tuple[Floats, Floats]:
    """Missing edges are open ends."""
    low, high = reading.numbers(chart, "low"), reading.numbers(chart, "high")
    return np.where(np.isnan(low), -math.inf, low), np.where(np.isnan(high), math.inf, high)


def _draw_histogram(view: View) -> Drawing:
    chart, axis, series = view.chart, view.axes.x, view.series
    left, right = _edges(chart)
    bins = max(len(np.unique(left)), 1)
    y = reading.numbers(chart, "y")
    drawable = np.isfinite(y) & ((y > 0) | (not view.axes.y.log))
    hidden = int(np.isfinite(y).sum() - drawable.sum())
    notes = {OFF_LOG_AXIS: hidden} if hidden else {}
    if axis.measure == "bins":
        left, right = (np.searchsorted(np.array(axis.edges), each).astype(np.float64) for each in (left, right))
    elif axis.log or axis.measure == "time":  # zero is not on the one, an open end on neither
        left, right = np.clip(left, axis.low, axis.high), np.clip(right, axis.low, axis.high)
    colour = {"color": series.colour(view.legend)}
    if (
        len(series.names) > 1 and axis.measure != "bins" and view.width / bins / len(series.names) < _SIDE_BY_SIDE_PX
    ):  # too narrow to be side by side: one stepped line per series
        labels = np.array(reading.names(chart, "series"))
        rows: list[Spec] = []
        for name in series.names:
            mine = np.flatnonzero(labels == name)
            mine = mine[np.argsort(left[mine], kind="stable")]
            steps = [(left[i], i) for i in mine] + [(right[i], i) for i in mine[-1:]]
            values = [(at, y[i] if drawable[i] else math.nan) for at, i in steps]
            rows += [{"x": reading.drawable(a), "y": reading.drawable(b), "s": name} for a, b in values]
        mark: Spec = {"type": "line", "interpolate": "step-after", "strokeWidth": 1.5}
        outlines = {"mark": mark, "encoding": {"x": view.x("x"), "y": view.y("y")} | colour}
        return Drawing([outlines], rows[: view.points], notes)
    gap = 0.08 if axis.measure == "bins" or len(series.names) > 1 else 0.0
    if axis.log:  # side by side by ratio
        left, right = (np.exp(part) for part in _split(view, np.log(left), np.log(right), gap))
    else:
        left, right = _split(view, left, right, gap)
    names = [
        f"{low} and more" if high in _OPEN else f"below {high}" if low in _OPEN else f"{low} to {high}"
        for low, high in zip(reading.names(chart, "low"), reading.names(chart, "high"), strict=True)
    ]
    base = np.full(len(y), view.axes.y.low if view.axes.y.log else 0.0)
    rows = _drawn_rows(view, np.flatnonzero(drawable)[: view.points].tolist(), names, a=left, b=right, o=base, y=y)
    tips, transforms = view.tooltip({"n": reading.column(chart, "low").heading, "y": reading.column(chart, "y")})
    mark = {"type": "rect"}
    if not series.names and axis.measure != "bins":
        mark |= {"stroke": BACKGROUND, "strokeWidth": 0.5}
    encoding: Spec = {"x": view.x("a"), "x2": {"field": "b"}, "y": view.y("o"), "y2": {"field": "y"}, "tooltip": tips}
    return Drawing([{"transform": transforms, "mark": mark, "encoding": encoding | colour}], rows, notes)


BARS = PanelKind(("x", "y"), _bar_axes, _draw_bars, optional=("series", "low", "high"), size=_place_size)
BOX = PanelKind(("x", *_QUANTILES), _box_axes, _draw_boxes, optional=("series",), size=_place_size, shown=("q50",))
HISTOGRAM = PanelKind(("low", "high", "y"), _histogram_axes, _draw_histogram, optional=("series",))
