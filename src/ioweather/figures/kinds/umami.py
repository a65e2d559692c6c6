"""A run beside the history of its group, metric by metric: the history left, its box right, this run marked.

After UMAMI (Lockwood et al., PDSW 2017). Which end of a metric is the good one is not in the data, so colours say
only where a run lies: below the first quartile, between, above the third.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ioweather.core.arrays import Floats
from ioweather.core.results import Chart, ResultColumn
from ioweather.figures import reading
from ioweather.figures.axes import Axis, number_axis, position_axis, wrapped
from ioweather.figures.compose import no_data, titled
from ioweather.figures.decimate import MAX_POINTS, thin_line
from ioweather.figures.theme import AXIS, HIGH, INK, LABEL_SIZE, LOW, NEUTRAL, Spec
from ioweather.figures.ticks import tick_label
from ioweather.figures.tooltips import tooltip

_ROW_PX = 58
_BOX_PX = 46
_GAP_PX = 12
_MOST_METRICS = 16
_CLASSES = ("lowest quarter", "middle half", "highest quarter")
_COLOURS = (LOW, NEUTRAL, HIGH)


class UmamiKind:
    """Not a panel kind: every metric has two pictures that share an axis."""

    required = ("metric", "x", "y", "this", "q25", "q50", "q75")
    optional: tuple[str, ...] = ()

    def build(self, chart: Chart, width: int) -> Spec:
        labels = reading.names(chart, "metric")
        metrics = reading.distinct(labels)
        if not np.isfinite(reading.numbers(chart, "y")).any():
            return no_data(chart, width)
        times = position_axis(chart, "x")
        parts = [(name, _rows_of(chart, labels, name)) for name in metrics[:_MOST_METRICS]]
        axes = {name: _value_axis(part) for name, part in parts}
        left = max(axis.label_px(_ROW_PX) for axis in axes.values())
        plot = max(width - 16 - left - _BOX_PX - _GAP_PX - 64, 80)
        budget = MAX_POINTS // max(len(parts), 1)
        rows = [
            _row(part, name, times, axes[name], plot, budget, last=index == len(parts) - 1)
            for index, (name, part) in enumerate(parts)
        ]
        notes = ["box 25% to 75% with the median, whiskers to the extremes; diamond: this run"]
        more = len(metrics) - _MOST_METRICS
        notes += [f"{more:,} more metrics are not shown"] if more > 0 else []
        return {"vconcat": rows, "spacing": 10, **titled(chart.title, notes, width)}


def _rows_of(chart: Chart, labels: list[str], name: str) -> Chart:
    return reading.with_rows(chart, [row for row, label in zip(chart.table.rows, labels, strict=True) if label == name])


def _value_axis(part: Chart) -> Axis:
    values = [reading.numbers(part, channel) for channel in ("y", "q25", "q50", "q75")]
    log = part.scales.get("y") == "log"
    return number_axis(reading.column(part, "y"), [*values, np.array(_this(part)[1:])], log=log)


def _this(part: Chart) -> tuple[float, float]:
    """Time and value of this run. `this` either flags its row, or gives its value in every row."""
    flags = reading.cells(part, "this")
    x, y = reading.numbers(part, "x"), reading.numbers(part, "y")
    marked = [i for i, flag in enumerate(flags) if flag is True]
    if marked:
        return float(x[marked[-1]]), float(y[marked[-1]])
    values = reading.numbers(part, "this")
    known = np.flatnonzero(np.isfinite(values) & np.array([not isinstance(flag, bool) for flag in flags], dtype=bool))
    if len(known) == 0:
        return float("nan"), float("nan")
    value = float(values[known[-1]])
    same = np.flatnonzero(y == value)
    return (float(x[same[-1]]) if len(same) else float("nan")), value


def _row(part: Chart, name: str, times: Axis, axis: Axis, width: int, budget: int, *, last: bool) -> Spec:
    quartiles = [_known(reading.numbers(part, q)) for q in ("q25", "q50", "q75")]
    at, value = _this(part)
    history, rows = _history(part, times, axis, width, quartiles, (at, value), budget, last=last)
    title = wrapped(name, width + _BOX_PX, LABEL_SIZE + 1, bold=True, most=1)
    text = title[0] if isinstance(title, list) else title
    head = {"text": text, "fontSize": LABEL_SIZE + 1, "offset": 4}
    layers = [*history, *_box(part, axis, quartiles, value, width + _GAP_PX)]
    return {"title": head, "width": width, "height": _ROW_PX, "data": {"values": rows}, "layer": layers}


def _history(
    part: Chart,
    times: Axis,
    axis: Axis,
    width: int,
    quartiles: list[float],
    this: tuple[float, float],
    budget: int,
    *,
    last: bool,
) -> tuple[list[Spec], list[Spec]]:
    """Layers, and the rows that they draw."""
    x, y = reading.numbers(part, "x"), reading.numbers(part, "y")
    order = np.flatnonzero(np.isfinite(x))
    order = order[np.argsort(x[order], kind="stable")]
    kept = order[thin_line(x[order], y[order], max(min(width, budget // 5), 2))]
    rows: list[Spec] = [
        {"x": reading.drawable(x[i]), "y": reading.drawable(y[i]), "k": _class(y[i], quartiles)} for i in kept.tolist()
    ]
    across = times.channel("x", "x", width, titled=last)
    if not last:
        across["axis"] = across["axis"] | {"labels": False, "ticks": False}
    up = axis.channel("y", "y", _ROW_PX, titled=False)
    both = {"x": across, "y": up}
    tips, transforms = tooltip({"x": reading.column(part, "x"), "y": ResultColumn("y", "Value", axis.unit)})
    small = len(kept) * 5 > width
    points = {"type": "point", "filled": True, "opacity": 1, "size": 12 if small else 26}
    layers: list[Spec] = [
        {"mark": {"type": "line", "color": NEUTRAL, "strokeWidth": 1}, "encoding": both},
        {
            "transform": [{"filter": "isValid(datum.y)"}, *transforms],
            "mark": points,
            "encoding": both | {"color": _class_channel(), "tooltip": tips},
        },
    ]
    if np.isfinite(this[0]):
        place = {"x": reading.drawable(this[0]), "y": reading.drawable(this[1])}
        rule = {"type": "rule", "color": AXIS, "strokeDash": [2, 2]}
        layers.insert(0, {"data": {"values": [place]}, "mark": rule, "encoding": {"x": across}})
        layers.append({"data": {"values": [place]}, "mark": _diamond(this[1], quartiles), "encoding": both})
    return layers, rows


def _diamond(value: float, quartiles: list[float]) -> Spec:
    fill = _COLOURS[_CLASSES.index(_class(value, quartiles))]
    mark = {"type": "point", "shape": "diamond", "size": 110, "fill": fill}
    return mark | {"stroke": INK, "strokeWidth": 1.4, "opacity": 1}


def _box(part: Chart, axis: Axis, quartiles: list[float], value: float, at_px: int) -> list[Spec]:
    """Beside the plot and on its axis: a plot of its own would take half as long again to draw."""
    y = reading.numbers(part, "y")
    known = y[np.isfinite(y) & ((y > 0) | (not axis.log))]
    up = axis.channel("m", "y", _ROW_PX, titled=False)
    row: Spec = {"q1": quartiles[0], "m": quartiles[1], "q3": quartiles[2], "v": value}
    row |= {"l": float(known.min()) if len(known) else None, "h": float(known.max()) if len(known) else None}
    row = {k: reading.drawable(v) if isinstance(v, float) else v for k, v in row.items()}
    middle, left, right = ({"value": at_px + _BOX_PX * share} for share in (0.5, 0.25, 0.75))

    def vertical(field: str, field2: str = "") -> dict[str, Any]:
        return {"y": up | {"field": field}} | ({"y2": {"field": field2}} if field2 else {})

    layers: list[Spec] = [
        {"mark": {"type": "rule", "color": NEUTRAL}, "encoding": {"x": middle} | vertical("l", "h")},
        {
            "mark": {"type": "rect", "color": NEUTRAL, "opacity": 0.45, "stroke": NEUTRAL},
            "encoding": {"x": left, "x2": right} | vertical("q1", "q3"),
        },
        {
            "mark": {"type": "rule", "color": INK, "strokeWidth": 1.6},
            "encoding": {"x": left, "x2": right} | vertical("m"),
        },
    ]
    if np.isfinite(value):
        layers.append({"mark": _diamond(value, quartiles), "encoding": {"x": middle} | vertical("v")})
        label = tick_label(float(f"{value:.3g}"), axis.unit)
        text = {"type": "text", "align": "left", "dx": _BOX_PX / 2 + 4, "baseline": "middle", "text": label}
        layers.append({"mark": text, "encoding": {"x": middle} | vertical("v")})
    return [layer | {"data": {"values": [row]}} for layer in layers]


def _class_channel() -> Spec:
    scale = {"domain": list(_CLASSES), "range": list(_COLOURS)}
    shown = {"title": None, "orient": "top", "direction": "horizontal", "offset": 6}
    return {"field": "k", "type": "nominal", "scale": scale, "legend": shown}


def _class(value: float, quartiles: list[float]) -> str:
    if value < quartiles[0]:
        return _CLASSES[0]
    return _CLASSES[2] if value > quartiles[2] else _CLASSES[1]


def _known(values: Floats) -> float:
    finite = values[np.isfinite(values)]
    return float(finite[-1]) if len(finite) else float("nan")


KIND = UmamiKind()
