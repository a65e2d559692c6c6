"""From one chart to one specification: panels, shared axes, title, legend, notes.

A chart kind that is made of panels says three things (`PanelKind`): which channels it has, which axes they need, and
how one panel is drawn. Everything else is the same for all of them and lives here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final, Protocol, TypeAlias

import numpy as np

from ioweather.core.arrays import Floats
from ioweather.core.results import Cell, Chart
from ioweather.figures import reading, references
from ioweather.figures.axes import Axis, wrapped
from ioweather.figures.decimate import MAX_POINTS
from ioweather.figures.series import Series, series_of
from ioweather.figures.theme import LABEL_SIZE, SECONDARY, TITLE_SIZE, Spec

_SPACING: Final = 18
_PADDING: Final = 8
_TITLE_PX: Final = 22  # a rotated axis title
_MOST_PANELS: Final = 24
SIDE_LEGEND_PX: Final = 96  # a legend of colours or sizes beside the plot
_SIDED: Final = 480  # on a narrower picture it stands below


class Kind(Protocol):
    """What a catalogue entry is: it knows its channels and draws a chart `width` pixels wide."""

    @property
    def required(self) -> tuple[str, ...]: ...

    @property
    def optional(self) -> tuple[str, ...]: ...

    def build(self, chart: Chart, width: int) -> Spec: ...


@dataclass(frozen=True)
class Axes:
    """`colour` is the axis of a value shown as a colour. `flipped`: names run down the side, values to the right."""

    x: Axis
    y: Axis
    colour: Axis | None = None
    flipped: bool = False


@dataclass(frozen=True)
class View:
    """One panel to be drawn: its part of the whole chart, its axes, its size in pixels, the points it may carry."""

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


@dataclass(frozen=True)
class Counted:
    """A note with a number in the place of {}: panels add theirs up."""

    text: str
    count: int


Note: TypeAlias = str | Counted


@dataclass(frozen=True)
class Drawing:
    """Layers in drawing order and the rows that those without data of their own draw; where the data lie (in units of
    the axes); and sentences the reader must know."""

    layers: list[Spec]
    rows: list[Spec]
    at: tuple[Floats, Floats] = (np.zeros(0), np.zeros(0))
    notes: tuple[Note, ...] = ()


def standard_size(axes: Axes, series: Series, width: int, panels: int) -> tuple[int, int]:
    height = min(max(width * 0.42, 180), 290) if panels == 1 else min(max(width * 0.5, 120), 170)
    return width, round(height)


@dataclass(frozen=True)
class PanelKind:
    """A chart kind made of one panel per facet."""

    required: tuple[str, ...]
    axes: Callable[[Chart, int], Axes]
    draw: Callable[[View], Drawing]
    optional: tuple[str, ...] = ()
    size: Callable[[Axes, Series, int, int], tuple[int, int]] = standard_size  # of the plot, from the width there is
    panel_px: int = 290
    shown: tuple[str, ...] = field(default=("y",))  # channels of which at least one value must be there

    def build(self, chart: Chart, width: int) -> Spec:
        panels, left_out = _panels(chart)
        if not any(_has_values(part, self.shown) for _, part in panels):
            return no_data(chart, width)
        columns = max(1, min(len(panels), width // self.panel_px))
        if len(panels) == columns + 1:  # rather below each other than one alone in the second row
            columns = 1
        slot = (width - 2 * _PADDING - _SPACING * (columns - 1)) // columns
        whole = self.axes(chart, slot)
        each = _panel_axes(self, chart, [part for _, part in panels], whole, slot)
        drawn = self._draw(chart, panels, each, width, columns)
        notes: list[Note] = [note for _, panel_notes in drawn for note in panel_notes]
        notes += [note for note in [_differing(each)] if note]
        notes += [f"{left_out:,} more panels are not shown"] if left_out else []
        body: Spec
        if len(drawn) == 1:
            body = drawn[0][0]
        else:
            body = {"concat": [panel for panel, _ in drawn], "columns": columns, "spacing": _SPACING}
            # A legend per panel would repeat itself.
            body["resolve"] = {"scale": dict.fromkeys(("color", "strokeDash", "shape", "size"), "shared")}
        return body | titled(chart.title, _added_up(notes), width)

    def _draw(
        self, chart: Chart, panels: list[tuple[str, Chart]], each: list[Axes], width: int, columns: int
    ) -> list[tuple[Spec, tuple[Note, ...]]]:
        series = series_of(chart)
        labels = max(axes.y.label_px(160) for axes in each)
        titles = _TITLE_PX if any(axes.y.title for axes in each) else 0
        sided = width >= _SIDED and (each[0].colour is not None or "size" in chart.encoding)
        beside = SIDE_LEGEND_PX if sided else 0
        room = width - 2 * _PADDING - _SPACING * (columns - 1) - columns * labels - titles - beside
        plot, height = self.size(each[0], series, max(room // columns, 60), len(panels))
        drawn = []
        for index, ((name, part), axes) in enumerate(zip(panels, each, strict=True)):
            view = View(
                part, chart, axes, series, series.legend(width - 60), plot, height, MAX_POINTS // len(panels),
                x_title=index + columns >= len(panels), y_title=index % columns == 0, legend_beside=sided,
            )  # fmt: skip
            drawn.append(_panel(view, self.draw, name))
        return drawn


def _panel(view: View, draw: Callable[[View], Drawing], name: str) -> tuple[Spec, tuple[Note, ...]]:
    """A panel with its references. Their labels above the plot push the legend and the title of the panel up."""
    axes, chart = view.axes, view.chart
    marks = references.flipped(chart.references) if axes.flipped else chart.references
    rows = references.label_rows(marks, axes.x, view.width)
    if view.legend is not None and not name:
        view = replace(view, legend=view.legend | {"offset": view.legend["offset"] + rows * references.ROW_PX})
    drawing = draw(view)
    x, y = axes.x.fractions(drawing.at[0]) * view.width, (1 - axes.y.fractions(drawing.at[1])) * view.height
    marked = references.mark(marks, axes.x, axes.y, view.width, view.height, np.column_stack([x, y]))
    panel: Spec = {"width": view.width, "height": view.height, "data": {"values": drawing.rows}}
    panel["layer"] = marked.below + drawing.layers + marked.above
    if name:
        title = wrapped(name, view.width, LABEL_SIZE + 1, bold=True, most=1)
        text = title[0] if isinstance(title, list) else title
        panel["title"] = {"text": text, "fontSize": LABEL_SIZE + 1, "offset": 6}
    return panel, drawing.notes + marked.notes


def _panels(chart: Chart) -> tuple[list[tuple[str, Chart]], int]:
    """The parts of a chart by the value of its facet column, in the order of the table, and how many were left out."""
    if chart.facet is None:
        return [("", chart)], 0
    index = next(i for i, c in enumerate(chart.table.columns) if c.name == chart.facet)
    facet = chart.table.columns[index]
    parts: dict[str, list[tuple[Cell, ...]]] = {}
    for row in chart.table.rows:
        parts.setdefault(reading.name_of(row[index], facet.unit), []).append(row)
    numeric = any(isinstance(row[index], (int, float)) for row in chart.table.rows)
    titles = {name: f"{facet.heading} {name}" if numeric else name for name in parts}
    panels = [(titles[name], reading.with_rows(chart, rows)) for name, rows in parts.items()]
    if len(panels) < 2:  # the title of the whole stands where its own would
        return [("", chart)], 0
    return panels[:_MOST_PANELS], max(len(panels) - _MOST_PANELS, 0)


def _added_up(notes: list[Note]) -> list[str]:
    counts: dict[str, int] = {}
    for note in notes:
        text, count = (note.text, note.count) if isinstance(note, Counted) else (note, 0)
        counts[text] = counts.get(text, 0) + count
    return [text.replace("{}", f"{count:,}", 1) if count else text for text, count in counts.items()]


def _has_values(chart: Chart, channels: tuple[str, ...]) -> bool:
    return any(np.isfinite(reading.numbers(chart, channel)).any() for channel in channels)


def _panel_axes(kind: PanelKind, chart: Chart, parts: list[Chart], whole: Axes, slot: int) -> list[Axes]:
    """Panels share their axes, so that they can be compared, unless one would fill less than a tenth of them."""
    if len(parts) == 1:
        return [whole]
    own = [_turned(kind.axes(part, slot), whole) if _has_values(part, kind.shown) else whole for part in parts]
    share_x = all(_fills(axes.x, whole.x) for axes in own)
    share_y = all(_fills(axes.y, whole.y) for axes in own)
    return [replace(whole, x=whole.x if share_x else axes.x, y=whole.y if share_y else axes.y) for axes in own]


def _turned(axes: Axes, like: Axes) -> Axes:
    """Names may fit side by side in one panel and not in another: all lie or all stand."""
    return axes if axes.flipped == like.flipped else replace(axes, x=axes.y, y=axes.x, flipped=like.flipped)


def _differing(each: list[Axes]) -> str:
    sides = [
        word for word, axes in (("horizontal", {a.x for a in each}), ("vertical", {a.y for a in each})) if len(axes) > 1
    ]
    return f"the {' and '.join(sides)} axes differ between panels" if sides else ""


def _fills(own: Axis, whole: Axis) -> bool:
    if whole.measure == "names":
        return len(own.names) * 4 >= len(whole.names)
    if whole.measure == "bins":
        return True
    ends = whole.fractions(np.array([own.low, own.high]))
    return bool(ends[1] - ends[0] >= 0.1)


def titled(title: str, notes: list[str], width: int) -> Spec:
    """The title of a whole picture; what was left out or thinned stands below it."""
    if not title and not notes:
        return {}
    room = width - 2 * _PADDING
    head: Spec = {"anchor": "start", "frame": "bounds"}
    note = "; ".join(notes)
    subtitle = wrapped(note[:1].upper() + note[1:], room, LABEL_SIZE, most=4)
    if not title:  # without a text Vega draws no subtitle either
        return {"title": head | {"text": subtitle, "fontSize": LABEL_SIZE, "fontWeight": "normal", "color": SECONDARY}}
    head["text"] = wrapped(title, room, TITLE_SIZE, bold=True)
    return {"title": head | {"subtitle": subtitle} if notes else head}


def no_data(chart: Chart, width: int) -> Spec:
    """A picture that says that there is nothing to draw: not an error, and not an empty frame."""
    inner = width - 2 * _PADDING
    mark = {"type": "text", "text": "no data", "fontSize": 16, "color": SECONDARY}
    body: Spec = {"width": inner, "height": 90, "data": {"values": [{}]}, "mark": mark, "encoding": {}}
    return body | titled(chart.title, [], width)
