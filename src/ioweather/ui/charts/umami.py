"""A run and the history of its group, metric by metric: the history left, its box right, this run marked.

After UMAMI (Lockwood et al., PDSW 2017). The data do not say which end of a metric is the good one, so colours only
show where a run is: below the first quartile, between, above the third.
"""

from __future__ import annotations

import numpy as np

from ioweather.core.results import Chart, ResultColumn
from ioweather.ui.charts import reading
from ioweather.ui.charts.axes import Axis, number_axis, position_axis
from ioweather.ui.charts.compose import no_data, panel_title, titled, tooltip
from ioweather.ui.charts.decimate import MAX_POINTS, thin_line
from ioweather.ui.charts.theme import AXIS, HIGH, INK, LOW, NEUTRAL, Spec

_ROW_PX = 58
_BOX_PX = 46
_GAP_PX = 12
_MOST_METRICS = 16
_CLASSES = {"lowest quarter": LOW, "middle half": NEUTRAL, "highest quarter": HIGH}


class UmamiKind:
    """Not a panel kind: every metric has two pictures that share an axis."""

    required = ("metric", "x", "y", "this", "q25", "q50", "q75")
    optional: tuple[str, ...] = ()

    def build(self, chart: Chart, width: int) -> Spec:
        labels = reading.names(chart, "metric")
        metrics = reading.distinct(labels)
        if not np.isfinite(reading.numbers(chart, "y")).any():
            return no_data(chart, width)
        shown = metrics[:_MOST_METRICS]
        parts = [
            reading.with_rows(
                chart, [row for row, label in zip(chart.table.rows, labels, strict=True) if label == name]
            )
            for name in shown
        ]
        axes = [_value_axis(part) for part in parts]
        plot = max(width - 16 - max(axis.label_px() for axis in axes) - _BOX_PX - _GAP_PX - 64, 80)
        points = max(min(plot, MAX_POINTS // len(parts) // 5), 2)
        rows = []
        for name, part, axis in zip(shown, parts, axes, strict=True):
            across = position_axis(chart, "x").channel("x", "x", plot, titled=name == shown[-1])
            if name != shown[-1]:
                across["axis"] |= {"labels": False, "ticks": False}
            rows.append(panel_title(name, plot + _BOX_PX, 4) | _metric_row(part, across, axis, plot, points))
        notes = {"box 25% to 75% with the median, whiskers to the extremes; diamond: this run": 0}
        more = len(metrics) - _MOST_METRICS
        notes |= {"{} more metrics are not shown": more} if more > 0 else {}
        return {"vconcat": rows, "spacing": 10, **titled(chart.title, notes, width)}


def _value_axis(part: Chart) -> Axis:
    values = [reading.numbers(part, channel) for channel in ("y", "q25", "q50", "q75")]
    log = part.scales.get("y") == "log"
    return number_axis(reading.column(part, "y"), [*values, np.array(_this_run(part)[1:])], log=log)


def _this_run(part: Chart) -> tuple[float, float]:
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


def _metric_row(part: Chart, across: Spec, axis: Axis, width: int, points: int) -> Spec:
    """The history of one metric as a thinned line with coloured points; its box is to the right, on the same axis."""
    x, y = reading.numbers(part, "x"), reading.numbers(part, "y")
    known = [values[np.isfinite(values)] for values in (reading.numbers(part, q) for q in ("q25", "q50", "q75"))]
    low, median, high = (float(values[-1]) if len(values) else float("nan") for values in known)
    at, value = _this_run(part)

    def class_of(value: float) -> str:
        return "lowest quarter" if value < low else "highest quarter" if value > high else "middle half"

    order = np.flatnonzero(np.isfinite(x))
    order = order[np.argsort(x[order], kind="stable")]
    kept = order[thin_line(x[order], y[order], points)]
    rows = [{"x": reading.drawable(x[i]), "y": reading.drawable(y[i]), "k": class_of(y[i])} for i in kept.tolist()]
    both = {"x": across, "y": axis.channel("y", "y", _ROW_PX, titled=False)}
    tips, transforms = tooltip({"x": reading.column(part, "x"), "y": ResultColumn("y", "Value", axis.unit)})
    dots = {"type": "point", "filled": True, "opacity": 1, "size": 12 if len(kept) * 5 > width else 26}
    legend = {"title": None, "orient": "top", "direction": "horizontal", "offset": 6}
    scale = {"domain": list(_CLASSES), "range": list(_CLASSES.values())}
    colour = {"field": "k", "type": "nominal", "scale": scale, "legend": legend}
    diamond = {"type": "point", "shape": "diamond", "size": 110, "fill": _CLASSES[class_of(value)]}
    diamond |= {"stroke": INK, "strokeWidth": 1.4, "opacity": 1}
    layers: list[Spec] = [
        {"mark": {"type": "line", "color": NEUTRAL, "strokeWidth": 1}, "encoding": both},
        {
            "transform": [{"filter": "isValid(datum.y)"}, *transforms],
            "mark": dots,
            "encoding": both | {"color": colour, "tooltip": tips},
        },
    ]
    if np.isfinite(at):
        place = {"values": [{"x": reading.drawable(at), "y": reading.drawable(value)}]}
        rule = {"type": "rule", "color": AXIS, "strokeDash": [2, 2]}
        layers.insert(0, {"data": place, "mark": rule, "encoding": {"x": across}})
        layers.append({"data": place, "mark": diamond, "encoding": both})
    inside = y[np.isfinite(y) & ((y > 0) | (not axis.log))]
    extremes = (float(inside.min()), float(inside.max())) if len(inside) else (float("nan"), float("nan"))
    numbers = zip(("q1", "m", "q3", "v", "l", "h"), (low, median, high, value, *extremes), strict=True)
    box = {"values": [{name: reading.drawable(number) for name, number in numbers}]}
    middle, left, right = ({"value": width + _GAP_PX + _BOX_PX * share} for share in (0.5, 0.25, 0.75))
    text = {"type": "text", "align": "left", "dx": _BOX_PX / 2 + 4, "baseline": "middle"}
    text["text"] = reading.name_of(float(f"{value:.3g}"), axis.unit)
    parts: list[tuple[Spec, Spec, str, str]] = [
        ({"type": "rule", "color": NEUTRAL}, {"x": middle}, "l", "h"),
        ({"type": "rect", "color": NEUTRAL, "opacity": 0.45, "stroke": NEUTRAL}, {"x": left, "x2": right}, "q1", "q3"),
        ({"type": "rule", "color": INK, "strokeWidth": 1.6}, {"x": left, "x2": right}, "m", ""),
    ]
    if np.isfinite(value):
        parts += [(diamond, {"x": middle}, "v", ""), (text, {"x": middle}, "v", "")]
    for mark, where, field, field2 in parts:
        upright = {"y": both["y"] | {"field": field}} | ({"y2": {"field": field2}} if field2 else {})
        layers.append({"data": box, "mark": mark, "encoding": where | upright})
    return {"width": width, "height": _ROW_PX, "data": {"values": rows}, "layer": layers}


UMAMI = UmamiKind()
