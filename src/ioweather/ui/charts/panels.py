"""From one chart to one specification: panels, shared axes, title, legend, notes.

A chart kind that is made of panels gives three things (`PanelKind`): its channels, its axes, and how one panel is
drawn. The rest is the same for all kinds and is here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from ioweather.core.results import Cell, Chart, ResultColumn
from ioweather.core.units import shown_zone
from ioweather.ui.charts import chart_data
from ioweather.ui.charts.axes import ROW_PX, Axis, mark_references, write_value_expression
from ioweather.ui.charts.chart_data import MAX_POINTS, Series, series_of
from ioweather.ui.charts.theme import CELL_PAPER, INK, LABEL_SIZE, SECONDARY, TITLE_SIZE, Spec, wrapped

_SPACING: Final = 18
_PADDING: Final = 8
_PANEL_PX: Final = 290  # least width of one of several panels beside each other
_TITLE_PX: Final = 22  # a rotated axis title
_MOST_PANELS: Final = 24
SIDE_LEGEND_PX: Final = 96  # a legend of colours or sizes next to the plot
_SIDED: Final = 480  # on a narrower picture it is below the plot
HOVER: Final = "hover"  # layers of this name are left out of printed pictures
_DASHES: Final = ([1, 0], [6, 3], [2, 3], [8, 3, 2, 3])  # of lines over the data
OFF_LOG_AXIS: Final = "not on the logarithmic axis: {} at or below zero"
NO_VALUE: Final = "{} without a value"


@dataclass(frozen=True)
class Axes:
    """`colour` is the axis of a value shown as a colour. `flipped`: names run down the side, values to the right."""

    x: Axis
    y: Axis
    colour: Axis | None = None
    flipped: bool = False

    @property
    def value(self) -> Axis:
        """The axis that values are measured on."""
        return self.x if self.flipped else self.y


@dataclass(frozen=True)
class View:
    """One panel to be drawn: its part of the whole chart, its axes, its size in pixels, its maximum number of rows."""

    chart: Chart
    whole: Chart
    axes: Axes
    series: Series
    legend: Spec | None
    width: int
    height: int
    points: int
    x_title: bool = True
    y_title: bool = True
    legend_beside: bool = True

    def x(self, name: str) -> Spec:
        return self.axes.x.channel(name, "x", self.width, titled=self.x_title)

    def y(self, name: str) -> Spec:
        return self.axes.y.channel(name, "y", self.height, titled=self.y_title)

    def tooltip(self, fields: Mapping[str, ResultColumn | str]) -> tuple[list[Spec], list[Spec]]:
        """The tooltip channel for fields of a layer, and the transforms that make its texts; the series comes first."""
        return tooltip({"s": self.series.heading, **fields} if self.series.names else fields)


@dataclass(frozen=True)
class Drawing:
    """Layers in drawing order, the rows of the layers without data of their own, and notes for the reader. A note is a
    text and a count, which replaces {} in it: the counts of panels are added up."""

    layers: list[Spec]
    rows: list[Spec]
    notes: dict[str, int]


def tooltip(fields: Mapping[str, ResultColumn | str]) -> tuple[list[Spec], list[Spec]]:
    """A field is described by its column, or by its heading where it is a text already."""
    channel: list[Spec] = []
    transforms: list[Spec] = []
    for name, column in fields.items():
        if isinstance(column, str) or column.unit == "text":
            title = column if isinstance(column, str) else column.heading
            channel.append({"field": name, "type": "nominal", "title": title})
            continue
        text = write_value_expression(f"datum.{name}", column.unit)
        if column.unit in chart_data.TIME_UNITS:
            form = "%Y-%m-%d" if column.unit == "date" else f"%Y-%m-%d %H:%M:%S {shown_zone()}"
            text = f"utcFormat(datum.{name},'{form}')"
        transforms.append({"calculate": text, "as": f"{name}_text"})
        channel.append({"field": f"{name}_text", "type": "nominal", "title": column.heading})
    return channel, transforms


def choose_standard_size(axes: Axes, series: Series, width: int, panels: int) -> tuple[int, int]:
    height = min(max(width * 0.42, 180), 290) if panels == 1 else min(max(width * 0.5, 120), 170)
    return width, round(height)


@dataclass(frozen=True)
class PanelKind:
    """A chart kind made of one panel per facet. `size` gives the size of a plot from the available width. A
    chart without any value on the `shown` channels has no data."""

    required: tuple[str, ...]
    axes: Callable[[Chart, int], Axes]
    draw: Callable[[View], Drawing]
    optional: tuple[str, ...] = ()
    size: Callable[[Axes, Series, int, int], tuple[int, int]] = choose_standard_size
    shown: tuple[str, ...] = ("y",)

    def build(self, chart: Chart, width: int) -> Spec:
        """The specification of a whole chart, about `width` pixels wide: panels with shared axes, title and notes."""
        panels = _split_panels(chart)
        left_out, panels = len(panels) - _MOST_PANELS, panels[:_MOST_PANELS]
        if not any(self._has_values(part) for _, part in panels):
            return draw_no_data(chart, width)
        columns = max(1, min(len(panels), width // _PANEL_PX))
        if len(panels) == columns + 1:  # rather below each other than one alone in the second row
            columns = 1
        inner = width - 2 * _PADDING - _SPACING * (columns - 1)
        each, notes = self._choose_panel_axes(chart, [part for _, part in panels], inner // columns)
        series = series_of(chart)
        titles = _TITLE_PX if any(axes.y.title for axes in each) else 0
        sided = width >= _SIDED and (each[0].colour is not None or "size" in chart.encoding)
        room = inner - columns * max(axes.y.label_px() for axes in each) - titles - (SIDE_LEGEND_PX if sided else 0)
        plot, height = self.size(each[0], series, max(room // columns, 60), len(panels))
        drawn: list[Spec] = []
        for index, ((name, part), axes) in enumerate(zip(panels, each, strict=True)):
            view = View(
                part,
                chart,
                axes,
                series,
                series.legend(width - 60),
                plot,
                height,
                MAX_POINTS // len(panels),
                x_title=index + columns >= len(panels),
                y_title=index % columns == 0,
                legend_beside=sided,
            )
            drawn.append(self._build_panel(view, name, notes))
        if left_out > 0:
            notes["{} more panels are not shown"] = left_out
        if len(drawn) == 1:
            return drawn[0] | make_title(chart.title, notes, width)
        # A legend per panel would repeat itself.
        shared = {"scale": dict.fromkeys(("color", "strokeDash", "shape", "size"), "shared")}
        body: Spec = {"concat": drawn, "columns": columns, "spacing": _SPACING, "resolve": shared}
        return body | make_title(chart.title, notes, width)

    def _build_panel(self, view: View, name: str, notes: dict[str, int]) -> Spec:
        """A panel with its references. Their labels above the plot push its legend up."""
        marks = view.chart.references
        if view.axes.flipped:
            marks = tuple(replace(r, axis="y" if r.axis == "x" else "x") for r in marks)
        on_colours = view.axes.colour is not None
        below, above, said, rows = mark_references(
            marks, view.axes.x, view.axes.y, view.width, view.height, outlined=on_colours
        )
        if view.legend is not None and not name:
            view = replace(view, legend=view.legend | {"offset": view.legend["offset"] + rows * ROW_PX})
        if "curve" in view.chart.encoding:
            data, curves = chart_data.split_curves(view.chart)
            view = replace(view, chart=data, whole=chart_data.split_curves(view.whole)[0])
            lines = _draw_curve_lines(view, curves)
            below, above = ([*below, *lines], above) if view.axes.colour is None else (below, [*lines, *above])
        drawing = self.draw(view)
        for text, count in (*drawing.notes.items(), *((text, 0) for text in said)):
            notes[text] = notes.get(text, 0) + count
        panel: Spec = {"width": view.width, "height": view.height, "data": {"values": drawing.rows}}
        panel["layer"] = below + drawing.layers + above
        if name:
            title = wrapped(name, view.width, LABEL_SIZE + 1, bold=True, most=2)
            panel["title"] = {"text": title, "fontSize": LABEL_SIZE + 1, "offset": 6}
        return panel

    def _has_values(self, chart: Chart) -> bool:
        return any(np.isfinite(chart_data.numbers(chart, channel)).any() for channel in self.shown)

    def _choose_panel_axes(self, chart: Chart, parts: list[Chart], slot: int) -> tuple[list[Axes], dict[str, int]]:
        """Panels share their axes, so that they can be compared, unless one would fill less than a tenth of them."""
        whole = self.axes(chart, slot)
        if len(parts) == 1:
            return [whole], {}
        own = []
        for part in parts:
            axes = self.axes(part, slot) if self._has_values(part) else whole
            if axes.flipped != whole.flipped:  # names may fit side by side in one panel and not in another
                axes = replace(axes, x=axes.y, y=axes.x, flipped=whole.flipped)
            own.append(axes)
        if all(_is_filled_by(axes.x, whole.x) and _is_filled_by(axes.y, whole.y) for axes in own):
            return [whole] * len(parts), {}
        return own, {"the axes differ between panels": 0}


def _draw_curve_lines(view: View, curves: Mapping[str, list[tuple[float, float]]]) -> list[Spec]:
    """The lines over the data of a panel, each with its own dashes: dark on white, and white on colours."""
    on_colours = view.axes.colour is not None
    points = sum(map(len, curves.values()))
    rows = [
        {"x": chart_data.drawable(x), "y": chart_data.drawable(y), "s": name}
        for name, line in curves.items()
        for x, y in line
    ]
    legend = (view.legend or {"title": None, "orient": "top", "direction": "horizontal", "offset": 6}) | {
        "symbolType": "stroke",
        "symbolStrokeColor": INK,
        "symbolSize": 144,
    }
    scale = {"domain": list(curves), "range": [_DASHES[i % len(_DASHES)] for i in range(len(curves))]}
    encoding: Spec = {"x": view.x("x"), "y": view.y("y")}
    encoding["strokeDash"] = {"field": "s", "type": "nominal", "scale": scale, "legend": legend}
    line: Spec = {"type": "line", "order": False, "clip": True, "color": CELL_PAPER if on_colours else INK}
    line |= {"strokeWidth": 1.8 if on_colours else 0.6 if points > 3 * view.height else 1.3}
    return [{"data": {"values": rows}, "mark": line, "encoding": encoding}]


def _is_filled_by(own: Axis, whole: Axis) -> bool:
    """Whether a panel's own axis covers enough of the shared one: a quarter of the names, a tenth of the length."""
    if whole.measure == "names":
        return len(own.names) * 4 >= len(whole.names)
    if whole.measure == "bins":
        return True
    ends = whole.fractions(np.array([own.low, own.high]))
    return bool(ends[1] - ends[0] >= 0.1)


def _split_panels(chart: Chart) -> list[tuple[str, Chart]]:
    """The parts of a chart by the value of its facet, in the order of the table, with their titles."""
    index = next((i for i, c in enumerate(chart.table.columns) if c.name == chart.facet), None)
    if index is None:
        return [("", chart)]
    facet = chart.table.columns[index]
    parts: dict[str, list[tuple[Cell, ...]]] = {}
    for row in chart.table.rows:
        parts.setdefault(chart_data.name_of(row[index], facet.unit), []).append(row)
    if len(parts) < 2:  # the title of the chart is enough
        return [("", chart)]
    numeric = any(isinstance(row[index], (int, float)) for row in chart.table.rows)
    return [
        (f"{facet.heading} {name}" if numeric else name, chart_data.with_rows(chart, rows))
        for name, rows in parts.items()
    ]


def make_title(title: str, notes: dict[str, int], width: int) -> Spec:
    """The title of a whole picture, with the notes below it."""
    if not title and not notes:
        return {}
    room = width - 2 * _PADDING
    head: Spec = {"anchor": "start", "frame": "bounds"}
    note = "; ".join(text.replace("{}", f"{count:,}", 1) for text, count in notes.items())
    subtitle = wrapped(note[:1].upper() + note[1:], room, LABEL_SIZE, most=4)
    if not title:  # without a text Vega draws no subtitle either
        return {"title": head | {"text": subtitle, "fontSize": LABEL_SIZE, "fontWeight": "normal", "color": SECONDARY}}
    head["text"] = wrapped(title, room, TITLE_SIZE, bold=True)
    return {"title": head | {"subtitle": subtitle} if notes else head}


def draw_no_data(chart: Chart, width: int) -> Spec:
    """A picture with the words "no data"."""
    inner = width - 2 * _PADDING
    mark = {"type": "text", "text": "no data", "fontSize": 16, "color": SECONDARY}
    body: Spec = {"width": inner, "height": 90, "data": {"values": [{}]}, "mark": mark, "encoding": {}}
    return body | make_title(chart.title, {}, width)
