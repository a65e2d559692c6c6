"""What bars, boxes and histograms share: places along one axis, split between series, standing or lying."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ioweather.core.arrays import Floats
from ioweather.core.results import Chart
from ioweather.figures import reading
from ioweather.figures.axes import Axis, names_axis, names_fit, text_px, time_axis
from ioweather.figures.compose import Axes, View, standard_size
from ioweather.figures.series import Series
from ioweather.figures.theme import Spec

_MOST_LYING = 40
_GAP = 0.12  # of a place, on each side


@dataclass(frozen=True)
class Places:
    """Where each row stands along the axis of places, in units of that axis."""

    left: Floats
    right: Floats

    @property
    def centre(self) -> Floats:
        return (self.left + self.right) / 2


def place_axes(chart: Chart, value: Axis, width: int) -> Axes:
    """Places from the x column: times keep their distances; names that do not fit side by side run down the side."""
    column = reading.column(chart, "x")
    if reading.is_time(chart, "x"):
        x = reading.numbers(chart, "x")
        return Axes(time_axis(column, [x, x + _step(x)]), value)
    places = names_axis(column, reading.names(chart, "x"))
    widest = max(map(text_px, places.names), default=0)
    lying = not names_fit(places.names, width - 70) and len(places.names) <= _MOST_LYING and widest > 26
    return Axes(value, places, flipped=True) if lying else Axes(places, value)


def place_size(axes: Axes, series: Series, width: int, panels: int) -> tuple[int, int]:
    """A lying chart is as high as its places need."""
    if not axes.flipped:
        return standard_size(axes, series, width, panels)
    each = 8 + max(len(series.names), 1) * (11 if len(series.names) > 1 else 14)
    return width, max(len(axes.y.names) * each, 60)


def places(view: View) -> Places:
    chart = view.chart
    if reading.is_time(chart, "x"):
        left = reading.numbers(chart, "x")
        return split(view, left, left + _step(left))
    axis = view.axes.y if view.axes.flipped else view.axes.x
    index = {name: i for i, name in enumerate(axis.names)}
    left = np.array([index[name] for name in reading.names(chart, "x")], dtype=np.float64)
    return split(view, left, left + 1)


def split(view: View, left: Floats, right: Floats, gap: float = _GAP) -> Places:
    """The part of each place that belongs to the row's series."""
    count = max(len(view.series.names), 1)
    slot = np.zeros(len(left))
    if view.series.names:
        order = {name: i for i, name in enumerate(view.series.names)}
        slot = np.array([order[name] for name in reading.names(view.chart, "series")], dtype=np.float64)
    inner = (right - left) * (1 - 2 * gap)
    start = left + (right - left) * gap + inner * slot / count
    return Places(start, start + inner / count)


def bar_px(view: View) -> float:
    """How thick a bar comes out."""
    axis, length = (view.axes.y, view.height) if view.axes.flipped else (view.axes.x, view.width)
    count = len(axis.names) or len(set(reading.cells(view.chart, "x"))) or 1
    return length * (1 - 2 * _GAP) / count / max(len(view.series.names), 1)


def channels(view: View, place: str, value: str, place2: str = "", value2: str = "") -> Spec:
    """Position channels by field, standing or lying."""
    across, along = ("y", "x") if view.axes.flipped else ("x", "y")
    encoding: Spec = {across: (view.y if view.axes.flipped else view.x)(place)}
    encoding[along] = (view.x if view.axes.flipped else view.y)(value)
    if place2:
        encoding[f"{across}2"] = {"field": place2}
    if value2:
        encoding[f"{along}2"] = {"field": value2}
    return encoding


def _step(x: Floats) -> float:
    """The shortest distance between two times; a day where there is only one."""
    distinct = np.unique(x[np.isfinite(x)])
    return float(np.diff(distinct).min()) if len(distinct) > 1 else 86_400_000.0
