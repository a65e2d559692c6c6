"""A value as a colour over two axes: rank by time, hour by day. A cell without a value stays blank."""

from __future__ import annotations

import numpy as np

from ioweather.core.arrays import Floats
from ioweather.core.results import Chart
from ioweather.figures import reading
from ioweather.figures.cells import colour_axis, colour_channel, grid, grid_on, shown_values
from ioweather.figures.compose import Axes, Drawing, PanelKind, View, standard_size
from ioweather.figures.decimate import bin_cells
from ioweather.figures.series import Series
from ioweather.figures.theme import Spec
from ioweather.figures.tooltips import text_column, tooltip

_SEAM_PX = 0.7
_MOST_CELLS = 3600  # a printed cell takes 100 bytes


def _axes(chart: Chart, width: int) -> Axes:
    return Axes(grid(chart, "x").axis, grid(chart, "y").axis, colour_axis(chart))


def _size(axes: Axes, series: Series, width: int, panels: int) -> tuple[int, int]:
    _, height = standard_size(axes, series, width, panels)
    return width, min(height, max(len(axes.y.names) * 26, 60)) if axes.y.names else height


def _draw(view: View) -> Drawing:
    chart, axes = view.chart, view.axes
    across, up = grid_on(view, "x", axes.x), grid_on(view, "y", axes.y)
    value, notes = shown_values(view)
    limit = min(view.points, _MOST_CELLS)
    column, row, mean, wide, high = bin_cells(across.index(chart, "x"), up.index(chart, "y"), value, limit)
    left: Floats = across.start + column.astype(np.float64) * across.step
    bottom: Floats = up.start + row.astype(np.float64) * up.step
    # Cells reach a little below their neighbours: edges between pixels would show as a pale grid.
    right = np.minimum(left + wide * across.step + _SEAM_PX * axes.x.reach / view.width, axes.x.end)
    top = np.minimum(bottom + high * up.step + _SEAM_PX * axes.y.reach / view.height, axes.y.end)
    rows: list[Spec] = [
        {k: reading.drawable(v) for k, v in zip("abcdv", cell, strict=True)}
        for cell in zip(left.tolist(), right.tolist(), bottom.tolist(), top.tolist(), mean.tolist(), strict=True)
    ]
    for name, axis, places in (("n", axes.x, column), ("m", axes.y, row)):
        if axis.measure == "names":
            for cell, place in zip(rows, places.tolist(), strict=True):
                cell[name] = axis.names[place]
    notes += [f"each cell is the mean of up to {wide * high:,} values"] if wide * high > 1 else []
    notes += ["blank: no data"] if not np.isfinite(value).all() else []
    return Drawing([_cells(view)], rows, (left, bottom), tuple(notes))


def _cells(view: View) -> Spec:
    chart, axes = view.chart, view.axes
    x, y = reading.column(chart, "x"), reading.column(chart, "y")
    fields = {"n": text_column(x.heading)} if axes.x.measure == "names" else {"a": x}
    fields |= {"m": text_column(y.heading)} if axes.y.measure == "names" else {"c": y}
    tips, transforms = tooltip(fields | {"v": reading.column(chart, "value")})
    encoding: Spec = {"x": view.x("a"), "x2": {"field": "b"}, "y": view.y("c"), "y2": {"field": "d"}}
    for side in ("x", "y"):
        encoding[side]["axis"] = encoding[side]["axis"] | {"grid": False}
    mark = {"type": "rect", "clip": True}
    encoding |= {"color": colour_channel(view), "tooltip": tips}
    return {"transform": transforms, "mark": mark, "encoding": encoding}


KIND = PanelKind(("x", "y", "value"), _axes, _draw, size=_size, shown=("value",))
