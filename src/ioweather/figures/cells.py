"""What heat maps and matrices share: cells on a grid, coloured by a value."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ioweather.core.arrays import Floats, Indices
from ioweather.core.results import Chart
from ioweather.figures import reading
from ioweather.figures.axes import Axis, axis_title, label_expression, names_axis, number_axis, time_axis, wrapped
from ioweather.figures.compose import SIDE_LEGEND_PX, Counted, Note, View
from ioweather.figures.theme import DIVERGING, LABEL_SIZE, SEQUENTIAL, Spec

_MOST_NAMES = 31
_COUNTED = ("", "count")


@dataclass(frozen=True)
class Grid:
    """How the values of one channel fall into columns or rows: the first begins at `start`, each is `step` wide."""

    axis: Axis
    first: float = 0.0  # the value of the first cell; `start` lies half a step below where values are middles
    start: float = 0.0
    step: float = 1.0

    def index(self, chart: Chart, channel: str) -> Indices:
        if self.axis.measure == "names":
            places = {name: i for i, name in enumerate(self.axis.names)}
            return np.array([places[name] for name in reading.names(chart, channel)], dtype=np.intp)
        values = reading.numbers(chart, channel)
        index: Indices = np.rint((np.nan_to_num(values, nan=self.first) - self.first) / self.step).astype(np.intp)
        return index


def grid(chart: Chart, channel: str) -> Grid:
    """Evenly spaced times and numbers keep their axis; anything else becomes names."""
    column = reading.column(chart, channel)
    values = reading.numbers(chart, channel)
    distinct = np.unique(values[np.isfinite(values)])
    few_counts = column.unit in _COUNTED and len(distinct) <= _MOST_NAMES
    numeric = reading.is_time(chart, channel) or (reading.is_numeric(chart, channel) and not few_counts)
    if not numeric or len(distinct) < 2 or chart.scales.get(channel) == "log" or not _even(distinct):
        labels = reading.names(chart, channel)
        if reading.is_numeric(chart, channel):
            order = np.argsort(values, kind="stable")
            labels = [labels[i] for i in order]
        return Grid(names_axis(column, labels))
    step = float(np.diff(distinct).min())
    # A rank or an hour names its cell and lies in its middle; a time or a size is where the cell begins.
    first = float(distinct[0])
    start = first - (step / 2 if column.unit in _COUNTED else 0.0)
    ends = np.array([start, start + round((distinct[-1] - distinct[0]) / step + 1) * step])
    if reading.is_time(chart, channel):
        return Grid(time_axis(column, [ends]), first, start, step)
    return Grid(Axis(axis_title(column), "number", float(ends[0]), float(ends[1]), column.unit), first, start, step)


def grid_on(view: View, channel: str, axis: Axis) -> Grid:
    """The grid behind an axis of a panel, which may be the whole chart's or the panel's own."""
    own = grid(view.chart, channel)
    return own if own.axis == axis else grid(view.whole, channel)


def _even(distinct: Floats) -> bool:
    """Whether all distances are whole multiples of the smallest one."""
    steps = np.diff(distinct) / np.diff(distinct).min()
    return bool(np.all(np.abs(steps - np.rint(steps)) < 0.02) and steps.sum() < 1e5)


def colour_axis(chart: Chart) -> Axis:
    values = reading.numbers(chart, "value")
    log = chart.scales.get("value") == "log"
    axis = number_axis(reading.column(chart, "value"), [values], log=log, tight=True)
    if chart.kind == "matrix" and axis.unit == "" and not log and axis.low >= -1 and axis.high <= 1:
        return Axis(axis.title, "number", -1.0, 1.0)  # coefficients: what is weak looks weak in every table
    if axis.low < 0 < axis.high and not log:  # signs get a colour each, zero the pale middle
        reach = max(-axis.low, axis.high)
        if axis.unit in ("", "ratio") and 0.5 < reach <= 1:
            reach = 1.0  # a correlation
        return Axis(axis.title, "number", -reach, reach, axis.unit)
    return axis


def shown_values(view: View) -> tuple[Floats, list[Note]]:
    """The values that have a colour, and a note on those that a logarithmic scale leaves without one."""
    values = reading.numbers(view.chart, "value")
    if view.axes.colour is None or not view.axes.colour.log:
        return values, []
    shown = np.where(values > 0, values, np.nan)
    hidden = int(np.isfinite(values).sum() - np.isfinite(shown).sum())
    return shown, [Counted("{} zero or below, not on the logarithmic scale of colours", hidden)] if hidden else []


def is_diverging(axis: Axis) -> bool:
    return axis.low < 0 < axis.high


def colour_channel(view: View) -> Spec:
    axis = view.axes.colour
    assert axis is not None, "a grid has a colour axis"
    length = view.height if view.legend_beside else view.width
    length = min(max(length, 60), 240)
    ticks = axis.ticks(length, "y" if view.legend_beside else "x")
    legend: Spec = {
        "title": wrapped(axis.title, SIDE_LEGEND_PX if view.legend_beside else view.width, LABEL_SIZE + 1),
        "orient": "right" if view.legend_beside else "bottom",
        "direction": "vertical" if view.legend_beside else "horizontal",
        "gradientLength": length,
        "gradientThickness": 12,
        "values": [value for value, _ in ticks],
        "labelExpr": label_expression(ticks),
    }
    scale: Spec = {"type": "log" if axis.log else "linear", "domain": [axis.low, axis.high], "nice": False}
    scale |= {"zero": False} if not axis.log else {}
    if is_diverging(axis):
        stops = np.linspace(axis.low, axis.high, len(DIVERGING)).tolist()
        scale |= {"range": list(DIVERGING), "interpolate": "lab", "domain": stops}
    else:
        scale |= {"scheme": SEQUENTIAL}
    return {"field": "v", "type": "quantitative", "scale": scale, "legend": legend}
