"""What the kinds with curves share: rows split by series, thinned, drawn as lines with gaps, bands and lone points."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from ioweather.core.arrays import Floats, Indices
from ioweather.core.results import Chart
from ioweather.figures import reading
from ioweather.figures.axes import Axis, number_axis, position_axis
from ioweather.figures.compose import Axes, Counted, Drawing, Note, View
from ioweather.figures.decimate import envelope
from ioweather.figures.references import limits
from ioweather.figures.theme import Spec
from ioweather.figures.tooltips import HOVER, text_column, tooltip

KEPT_OF_LINES = "thinned so that the lowest and highest of every pixel stay"
_SERIES: Spec = {"field": "s", "type": "nominal"}
_CROWDED_PX = 9  # closer than this, points on a line become a rope


@dataclass(frozen=True)
class Curve:
    """One series in ascending order of x; NaN in `y` is a gap."""

    name: str
    x: Floats
    y: Floats
    low: Floats | None = None
    high: Floats | None = None


def curve_axes(chart: Chart, width: int) -> Axes:
    """x may be a time or a number; y holds the values and their bands."""
    time = reading.is_time(chart, "x")
    x = position_axis(chart, "x", extra=[limits(chart.references, "x", is_time=time)])
    values = [reading.numbers(chart, channel) for channel in ("y", "low", "high") if channel in chart.encoding]
    log = chart.scales.get("y") == "log"
    column = reading.column(chart, "y")
    return Axes(x, number_axis(column, [*values, limits(chart.references, "y", is_time=False)], log=log))


def curves(chart: Chart) -> Iterator[Curve]:
    x, y = reading.numbers(chart, "x"), reading.numbers(chart, "y")
    banded = "low" in chart.encoding and "high" in chart.encoding
    low = reading.numbers(chart, "low") if banded else None
    high = reading.numbers(chart, "high") if banded else None
    labels = np.array(reading.names(chart, "series") if "series" in chart.encoding else [""] * len(x))
    for name in reading.distinct(labels.tolist()):
        mine = np.flatnonzero((labels == name) & np.isfinite(x))
        mine = mine[np.argsort(x[mine], kind="stable")]
        yield Curve(name, x[mine], y[mine], None if low is None else low[mine], None if high is None else high[mine])


def draw_curves(
    view: View, thin: Callable[[Floats, Floats, int], Indices], thinning: str, interpolate: str = "linear"
) -> Drawing:
    """Lines, their bands, and points where a value stands alone between gaps. `thinning` says what `thin` keeps."""
    every = list(curves(view.chart))
    banded = any(curve.low is not None for curve in every)
    buckets = max(min(view.width, view.points // (6 if banded else 5) // max(len(every), 1)), 2)
    rows: list[Spec] = []
    alone: list[Spec] = []
    bands: list[Spec] = []
    hidden = total = 0
    for curve in every:
        y = _on_axis(curve.y, view.axes.y)
        hidden += int(np.isfinite(curve.y).sum() - np.isfinite(y).sum())
        total += int(np.isfinite(y).sum())
        kept = thin(curve.x, y, buckets)
        here = [_row(curve.x[i], y[i], curve.name) for i in kept]
        rows += [*here, _row(math.nan, math.nan, curve.name)] if view.series.bundled else here
        alone += [here[i] for i in _alone(y[kept])]
        bands += _band_rows(curve, view, buckets)
    drawn = sum(row["y"] is not None for row in rows)
    notes = _notes(drawn, total, hidden, thinning)
    dense = drawn / max(len(every), 1) * _CROWDED_PX > view.width or interpolate != "linear"
    dots = alone if dense or view.series.bundled else rows
    # Lines with more than a point per pixel cover each other: thin and pale, both can be seen.
    layers = _layers(view, dots, bands, interpolate, crowded=drawn > view.width * max(len(every), 1))
    at = (np.array([r["x"] for r in rows], dtype=float), np.array([r["y"] for r in rows], dtype=float))
    return Drawing(layers, rows, at, notes)


def _layers(view: View, dots: list[Spec], bands: list[Spec], interpolate: str, *, crowded: bool) -> list[Spec]:
    chart, series = view.chart, view.series
    base = {"x": view.x("x"), "y": view.y("y"), "color": series.colour(view.legend)}
    # A bundle is one path with breaks in the order of the rows: a group of marks per series takes ten times as long.
    split: Spec = {"detail": _SERIES} if series.names and not series.bundled else {}
    columns = {"x": reading.column(chart, "x"), "y": reading.column(chart, "y")}
    named = {"s": text_column(series.heading)} | columns if series.names else columns
    tips, transforms = tooltip(named)
    line: Spec = {"type": "line", "interpolate": interpolate, "clip": True}
    if series.bundled:
        line |= {"strokeWidth": 0.6, "opacity": 0.6, "order": False}
    else:
        line |= {"strokeWidth": 1, "opacity": 0.75} if crowded and len(series.names) > 1 else {"strokeWidth": 1.6}
    layers: list[Spec] = []
    if bands:
        area = base | split | {"y": base["y"] | {"field": "l"}, "y2": {"field": "h"}}
        mark = {"type": "area", "opacity": 0.22, "interpolate": interpolate, "clip": True, "line": False}
        layers.append({"data": {"values": bands}, "mark": mark, "encoding": area})
    layers.append({"mark": line, "encoding": base | split | series.dash(view.legend)})
    if dots:
        mark = {"type": "point", "filled": True, "size": 20, "opacity": 1}
        layers.append({"data": {"values": [d for d in dots if d["y"] is not None]}, "mark": mark, "encoding": base})
    # Wide enough to be met by a pointer; without a colour, which would change the symbols of the legend.
    hover = {"type": "point", "filled": True, "size": 300, "opacity": 0}
    where = {"x": base["x"], "y": base["y"], "tooltip": tips}
    layers.append({"name": HOVER, "transform": transforms, "mark": hover, "encoding": where})
    return layers


def _row(x: float, y: float, name: str) -> Spec:
    row = {"x": reading.drawable(x), "y": reading.drawable(y)}
    return row | {"s": name} if name else row


def _alone(y: Floats) -> list[int]:
    """Values without a neighbour: a line through them has no length."""
    known = np.r_[False, np.isfinite(y), False]
    return np.flatnonzero(known[1:-1] & ~known[:-2] & ~known[2:]).tolist()


def _band_rows(curve: Curve, view: View, buckets: int) -> list[Spec]:
    if curve.low is None or curve.high is None or len(curve.x) == 0:
        return []
    low, high = _on_axis(curve.low, view.axes.y, floor=True), _on_axis(curve.high, view.axes.y)
    x, low, high = envelope(curve.x, low, high, buckets)
    known = np.isfinite(low) & np.isfinite(high)
    low, high = np.where(known, low, np.nan), np.where(known, high, np.nan)
    named = {"s": curve.name} if curve.name else {}
    return [
        {"x": reading.drawable(a), "l": reading.drawable(b), "h": reading.drawable(c)} | named
        for a, b, c in zip(x.tolist(), low.tolist(), high.tolist(), strict=True)
    ]


def _on_axis(values: Floats, axis: Axis, *, floor: bool = False) -> Floats:
    """Values that a logarithmic axis cannot show are missing there; the lower edge of a band ends at the axis."""
    if not axis.log:
        return values
    with np.errstate(invalid="ignore"):
        return np.where(values > 0, values, np.where(np.isnan(values), np.nan, axis.low if floor else np.nan))


def _notes(drawn: int, total: int, hidden: int, thinning: str) -> tuple[Note, ...]:
    notes: list[Note] = []
    if drawn < total:
        notes.append(Counted(f"drawn from {{}} values, {thinning}", total))
    if hidden:
        notes.append(off_log_axis(hidden))
    return tuple(notes)


def off_log_axis(count: int) -> Counted:
    return Counted("{} zero or below, not on the logarithmic axis", count)
