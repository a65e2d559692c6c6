"""Distributions by name, from quantiles: whiskers from 5% to 95%, a box from 25% to 75%, a line at the median.

Where the columns `min` and `max` are encoded, the whiskers reach to the extremes."""

from __future__ import annotations

import numpy as np

from ioweather.core.results import Chart
from ioweather.figures import reading
from ioweather.figures.axes import number_axis
from ioweather.figures.columns import channels, place_axes, place_size, places
from ioweather.figures.compose import Axes, Drawing, Note, PanelKind, View
from ioweather.figures.lines import off_log_axis
from ioweather.figures.references import limits
from ioweather.figures.theme import INK, Spec
from ioweather.figures.tooltips import text_column, tooltip

_QUANTILES = ("q05", "q25", "q50", "q75", "q95")
_WORDS = {"q05": "5%", "q25": "25%", "q50": "median", "q75": "75%", "q95": "95%"}


def _axes(chart: Chart, width: int) -> Axes:
    values = [reading.numbers(chart, q) for q in _QUANTILES]
    log = chart.scales.get("y") == "log"
    lines = limits(chart.references, "y", is_time=False)
    return place_axes(chart, number_axis(reading.column(chart, "q50"), [*values, lines], log=log), width)


def _draw(view: View) -> Drawing:
    chart, axes = view.chart, view.axes
    at = places(view)
    value = axes.x if axes.flipped else axes.y
    quantiles = np.column_stack([reading.numbers(chart, q) for q in _QUANTILES])
    hidden = 0
    if value.log:
        hidden = int((quantiles <= 0).sum())
        quantiles = np.where(quantiles <= 0, value.low, quantiles)
    labels = reading.names(chart, "x")
    series = reading.names(chart, "series") if "series" in chart.encoding else None
    rows: list[Spec] = []
    for i, values in enumerate(quantiles[: view.points // len(_QUANTILES)].tolist()):
        row: Spec = {q: reading.drawable(v) for q, v in zip(_QUANTILES, values, strict=True)}
        row |= {"a": reading.drawable(at.left[i]), "b": reading.drawable(at.right[i])}
        row |= {"c": reading.drawable(at.centre[i]), "n": labels[i]}
        rows.append(row | {"s": series[i]} if series else row)
    notes: list[Note] = [f"box 25% to 75%, line at the median, whiskers {_reach(chart)}"]
    notes += [off_log_axis(hidden)] if hidden else []
    middle = quantiles[:, 2]
    where = (middle, at.centre) if axes.flipped else (at.centre, middle)
    return Drawing(_layers(view), rows, where, tuple(notes))


def _reach(chart: Chart) -> str:
    return "to the extremes" if chart.encoding["q05"] == "min" and chart.encoding["q95"] == "max" else "5% to 95%"


def _layers(view: View) -> list[Spec]:
    chart, series = view.chart, view.series
    column = reading.column(chart, "q50")
    fields = {"s": text_column(series.heading)} if series.names else {}
    fields |= {"n": text_column(reading.column(chart, "x").heading)}
    words = _WORDS if _reach(chart) == "5% to 95%" else {**_WORDS, "q05": "least", "q95": "greatest"}
    fields |= {q: type(column)(q, words[q], column.unit) for q in _QUANTILES}
    tips, transforms = tooltip(fields)
    colour = {"color": series.colour(view.legend)}
    thin, thick = {"type": "rule", "strokeWidth": 1.4}, {"type": "rule", "color": INK, "strokeWidth": 2.2}
    whiskers: Spec = {"mark": thin, "encoding": channels(view, "c", "q05", "", "q95") | colour}
    fill = {"type": "rect", "fillOpacity": 0.45, "strokeWidth": 1.2, "strokeOpacity": 1}
    inside = channels(view, "a", "q25", "b", "q75") | {
        "fill": colour["color"],
        "stroke": colour["color"],
        "tooltip": tips,
    }
    box: Spec = {"transform": transforms, "mark": fill, "encoding": inside}
    median: Spec = {"mark": thick, "encoding": channels(view, "a", "q50", "b")}
    return [whiskers, box, median]


KIND = PanelKind(("x", *_QUANTILES), _axes, _draw, optional=("series",), size=place_size, shown=("q50",))
