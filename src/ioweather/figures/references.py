"""Reference lines and shaded stretches, and where their labels go without covering the data or each other."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from ioweather.core.arrays import Floats
from ioweather.core.results import Reference
from ioweather.figures import reading
from ioweather.figures.axes import Axis, Side, text_px
from ioweather.figures.theme import BACKGROUND, LABEL_SIZE, REFERENCE, SHADE, Spec

ROW_PX: Final = LABEL_SIZE + 3
_NS_PER_MS: Final = 1_000_000
_MOST_ROWS: Final = 3


@dataclass(frozen=True)
class Marked:
    """What the references of one panel add to it: layers below and above the data."""

    below: list[Spec]
    above: list[Spec]
    notes: tuple[str, ...] = ()


def limits(references: Sequence[Reference], axis: Side, *, is_time: bool) -> Floats:
    """The values an axis must reach for its lines to be seen. A time line is cut at the data instead: a window of
    maintenance a year ago must not push the data together."""
    if is_time:
        return np.zeros(0)
    lines = [r.value for r in references if r.axis == axis and r.end is None]
    return np.array([reading.number(value) for value in lines], dtype=np.float64)


def mark(references: Sequence[Reference], x: Axis, y: Axis, width: int, height: int, points: Floats) -> Marked:
    """Layers for one panel of `width` by `height` pixels; `points` (rows of x and y in pixels) say where data are."""
    below: list[Spec] = []
    above: list[Spec] = []
    notes: list[str] = []
    labels: list[tuple[float, str]] = []
    lines: list[tuple[float, str]] = []
    for reference in references:
        axis = x if reference.axis == "x" else y
        span = _pixels(reference, axis, width if reference.axis == "x" else height)
        if axis.measure == "names":
            notes.append(f"{reference.label or 'reference'}: {reading.name_of(reference.value, axis.unit)}")
        if span is None:
            continue
        start, end = span
        across = height if reference.axis == "x" else width
        (below if reference.end is not None else above).append(_shape(reference, start, end, across))
        if reference.label and reference.axis == "x":
            labels.append(((start + end) / 2, reference.label))
        elif reference.label:
            lines.append(((start + end) / 2 if reference.end is not None else start, reference.label))
    top, _, left_out = _top_labels(labels, width)
    above += top + _side_labels(lines, width, height, points)
    notes += [f"also marked: {', '.join(left_out)}"] if left_out else []
    return Marked(below, above, tuple(notes))


def label_rows(references: Sequence[Reference], x: Axis, width: int) -> int:
    """How many rows of labels stand above the plot."""
    spans = ((_pixels(r, x, width), r.label) for r in references if r.axis == "x" and r.label)
    return _top_labels([((span[0] + span[1]) / 2, label) for span, label in spans if span], width)[1]


def flipped(references: Sequence[Reference]) -> tuple[Reference, ...]:
    """The same references on a chart whose axes changed places."""
    return tuple(replace(r, axis="y" if r.axis == "x" else "x") for r in references)


def _pixels(reference: Reference, axis: Axis, length: int) -> tuple[float, float] | None:
    """Where a reference begins and ends along its axis, in pixels from the left or from the top."""
    divisor = _NS_PER_MS if axis.unit == "time_ns" else 1
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


def _shape(reference: Reference, start: float, end: float, across: int) -> Spec:
    """A dashed line or a shaded stretch, `across` pixels long."""
    side, other = ("x", "y") if reference.axis == "x" else ("y", "x")
    place: Spec = {side: {"value": start}, other: {"value": 0}, f"{other}2": {"value": across}}
    if reference.end is None:
        mark: Spec = {"type": "rule", "color": REFERENCE, "strokeWidth": 1.3, "strokeDash": [5, 3]}
    else:
        mark = {"type": "rect", "color": SHADE, "opacity": 0.2}
        place[f"{side}2"] = {"value": end}
    return _fixed(mark | ({"tooltip": reference.label} if reference.label else {}), place)


def _fixed(mark: Spec, place: Spec) -> Spec:
    """A mark at pixels, once, whatever the data."""
    return {"data": {"values": [{}]}, "mark": mark, "encoding": place}


def _top_labels(labels: list[tuple[float, str]], width: int) -> tuple[list[Spec], int, list[str]]:
    """Labels above the plot, in as many rows as they need; one already there is not repeated where it would collide."""
    ends: list[float] = []
    placed: dict[str, int] = {}
    left_out: list[str] = []
    layers: list[Spec] = []
    for centre, text in sorted(labels):
        # The whole text is the tooltip of what it marks.
        shown = textwrap.shorten(text, max(int(width / text_px("x")), 8), placeholder=" …")
        size = text_px(shown)
        left = min(max(centre - size / 2, 0.0), max(width - size, 0.0))
        allowed = 1 if text in placed else _MOST_ROWS
        row = next((i for i in range(allowed) if i >= len(ends) or ends[i] + 8 <= left), None)
        if row is None:
            if text not in placed:
                left_out.append(text)
            continue
        ends[row : row + 1] = [left + size]
        placed[text] = row
        layers.append(_text(left + size / 2, -6 - row * ROW_PX, shown))
    return layers, len(ends), list(dict.fromkeys(t for t in left_out if t not in placed))


def _side_labels(lines: list[tuple[float, str]], width: int, height: int, points: Floats) -> list[Spec]:
    """Labels of horizontal lines: above or below the line, at its left or right end, wherever fewest data lie."""
    taken: list[tuple[float, float, float, float]] = []
    layers: list[Spec] = []
    for place, text in sorted(lines):
        size = text_px(text)
        choices = []
        for order, (right, up) in enumerate(((True, True), (False, True), (True, False), (False, False))):
            left = width - size - 3 if right else 3.0
            top = place - ROW_PX if up else place + 1
            if top < -2 or top + ROW_PX > height + 2:
                continue
            box = (left, left + size, top, top + ROW_PX)
            clash = sum(box[0] < b[1] and b[0] < box[1] and box[2] < b[3] and b[2] < box[3] for b in taken)
            choices.append((clash, _inside(points, box), order, box))
        if choices:
            box = min(choices)[-1]
            taken.append(box)
            layers += _haloed(_text((box[0] + box[1]) / 2, box[3] - 4, text))
    return layers


def _inside(points: Floats, box: tuple[float, float, float, float]) -> int:
    x, y = points[:, 0], points[:, 1]
    return int(np.count_nonzero((x > box[0]) & (x < box[1]) & (y > box[2]) & (y < box[3])))


def _text(x: float, y: float, text: str) -> Spec:
    mark = {"type": "text", "text": text, "align": "center", "baseline": "alphabetic", "color": REFERENCE}
    return _fixed(mark, {"x": {"value": round(x, 1)}, "y": {"value": round(y, 1)}})


def _haloed(layer: Spec) -> list[Spec]:
    """The text twice: a stroke in the colour of the paper below it keeps it legible over data."""
    paper = {"color": BACKGROUND, "stroke": BACKGROUND, "strokeWidth": 4, "strokeJoin": "round", "opacity": 0.85}
    return [layer | {"mark": layer["mark"] | paper}, layer]
