"""Reference lines and shaded stretches, with labels that do not cover each other."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from typing import Final

import numpy as np

from ioweather.core.results import Reference
from ioweather.ui.charts import reading
from ioweather.ui.charts.axes import Axis, text_px
from ioweather.ui.charts.theme import BACKGROUND, LABEL_SIZE, REFERENCE, SHADE, Spec

ROW_PX: Final = LABEL_SIZE + 3
_MOST_ROWS: Final = 3


def mark_references(
    references: Sequence[Reference], x: Axis, y: Axis, width: int, height: int
) -> tuple[list[Spec], list[Spec], list[str], int]:
    """Layers below and above the data of a panel of `width` by `height` pixels, notes, and the number of rows of labels
    above the plot."""
    below: list[Spec] = []
    above: list[Spec] = []
    notes: list[str] = []
    top: list[tuple[float, str]] = []
    side: list[tuple[float, str]] = []
    for reference in references:
        is_x = reference.axis == "x"
        axis, length, across = (x, width, height) if is_x else (y, height, width)
        if axis.measure == "names":
            notes.append(f"{reference.label or 'reference'}: {reading.name_of(reference.value, axis.unit)}")
        span = _span_px(reference, axis, length)
        if span is None:
            continue
        along, other = ("x", "y") if is_x else ("y", "x")
        place: Spec = {along: {"value": span[0]}, other: {"value": 0}, f"{other}2": {"value": across}}
        mark: Spec = {"tooltip": reference.label} if reference.label else {}
        if reference.end is None:
            mark |= {"type": "rule", "color": REFERENCE, "strokeWidth": 1.3, "strokeDash": [5, 3]}
            above.append(_once(mark, place))
        else:
            mark |= {"type": "rect", "color": SHADE, "opacity": 0.2}
            below.append(_once(mark, place | {f"{along}2": {"value": span[1]}}))
        if reference.label:
            (top if is_x else side).append((sum(span) / 2, reference.label))
    labels, rows, left_out = _top_labels(top, width)
    above += labels
    for number, (at, text) in enumerate(sorted(side)):  # neighbours at opposite ends of their lines
        centre = width - text_px(text) / 2 - 3 if number % 2 == 0 else text_px(text) / 2 + 3
        layer = _text(centre, at - 4 if at >= ROW_PX else at + ROW_PX - 3, text)
        # The text twice: a stroke in the colour of the background makes it legible over data.
        halo = {"color": BACKGROUND, "stroke": BACKGROUND, "strokeWidth": 4, "strokeJoin": "round", "opacity": 0.85}
        above += [layer | {"mark": layer["mark"] | halo}, layer]
    notes += [f"also marked: {', '.join(left_out)}"] if left_out else []
    return below, above, notes, rows


def _span_px(reference: Reference, axis: Axis, length: int) -> tuple[float, float] | None:
    """First and last pixel of a reference along its axis, from the left or from the top."""
    divisor = 1_000_000 if axis.unit == "time_ns" else 1
    ends = (reference.value, reference.value if reference.end is None else reference.end)
    both = np.array([reading.number(value) for value in ends]) / divisor
    start, end = sorted(axis.fractions(both).tolist())
    if math.isnan(start + end) or end < 0 or start > 1:
        return None
    low, high = (min(max(f, 0.0), 1.0) * length for f in (start, end))
    if reference.axis == "y":
        low, high = length - high, length - low
    if reference.end is not None and high - low < 1.5:  # a window of minutes in a picture of months still shows
        low, high = low - 0.75, high + 0.75
    return round(low, 1), round(high, 1)


def _top_labels(labels: list[tuple[float, str]], width: int) -> tuple[list[Spec], int, list[str]]:
    """Labels above the plot, in up to three rows; a repeated label is dropped where it would collide."""
    ends: list[float] = []
    placed: set[str] = set()
    layers: list[Spec] = []
    for centre, text in sorted(labels):
        # The tooltip of the reference has the whole text.
        shown = textwrap.shorten(text, max(int(width / text_px("x")), 8), placeholder=" …")
        size = text_px(shown)
        left = min(max(centre - size / 2, 0.0), max(width - size, 0.0))
        allowed = 1 if text in placed else _MOST_ROWS
        row = next((i for i in range(allowed) if i >= len(ends) or ends[i] + 8 <= left), None)
        if row is not None:
            ends[row : row + 1] = [left + size]
            placed.add(text)
            layers.append(_text(left + size / 2, -6 - row * ROW_PX, shown))
    return layers, len(ends), [text for text in dict.fromkeys(text for _, text in sorted(labels)) if text not in placed]


def _text(x: float, y: float, text: str) -> Spec:
    mark = {"type": "text", "text": text, "align": "center", "baseline": "alphabetic", "color": REFERENCE}
    return _once(mark, {"x": {"value": round(x, 1)}, "y": {"value": round(y, 1)}})


def _once(mark: Spec, place: Spec) -> Spec:
    """One mark at pixels, independent of the data."""
    return {"data": {"values": [{}]}, "mark": mark, "encoding": place}
