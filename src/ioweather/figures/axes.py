"""One axis: what it measures, how far it reaches, where its marks are, and how Vega-Lite is told."""

from __future__ import annotations

import json
import math
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from ioweather.core.arrays import Floats
from ioweather.core.results import Chart, ResultColumn
from ioweather.figures import reading
from ioweather.figures.theme import LABEL_SIZE, Spec
from ioweather.figures.ticks import (
    NAMED_IN_TITLE,
    Ticks,
    linear_ticks,
    log_bounds,
    log_ticks,
    nice_bounds,
    tick_label,
    time_context,
    time_ticks,
)

Measure: TypeAlias = Literal["number", "time", "names", "bins"]
Side: TypeAlias = Literal["x", "y"]

_NAME_LIMIT_PX = 220


@dataclass(frozen=True)
class Axis:
    """`low` and `high` bound numbers and times (epoch milliseconds).

    On an axis of `names` the places lie from 0 to 1, 1 to 2 and so on, each with its name in the middle. On one of
    `bins` every bin is as wide as the next, whatever its `edges`, which stand at the borders. An axis of `whole`
    numbers has no marks between them.
    """

    title: str
    measure: Measure
    low: float = 0.0
    high: float = 1.0
    unit: str = ""
    log: bool = False
    whole: bool = False
    names: tuple[str, ...] = ()
    edges: tuple[float, ...] = ()

    @property
    def end(self) -> float:
        """The greatest value on the axis; places are counted."""
        if self.measure == "names":
            return float(len(self.names))
        return float(len(self.edges) - 1) if self.measure == "bins" else self.high

    @property
    def reach(self) -> float:
        return self.end - (self.low if self.measure in ("number", "time") else 0.0)

    def ticks(self, length: int, side: Side) -> Ticks:
        """As many marks as fit into `length` pixels."""
        if self.measure == "time":
            return time_ticks(self.low, self.high, max(length // 62, 2))
        if self.measure == "names":
            return self._name_ticks(length, side)
        if self.measure == "bins":
            return self._edge_ticks(length)
        if side == "y":
            most = max(length // 26, 3)
        else:
            # Long labels need room: try the number that short ones allow, then what they turn out to need.
            widest = max((text_px(label) for _, label in self._numbers(max(length // 60, 3))), default=30)
            most = max(int(length // (widest + 16)), 3)
        return self._numbers(most)

    def _name_ticks(self, length: int, side: Side) -> Ticks:
        upright = side == "y" or self._slanted(length)
        room = LABEL_SIZE + 3 if upright else min(max(map(text_px, self.names), default=0), _NAME_LIMIT_PX) + 12
        every = 1 if side == "x" and names_fit(self.names, length) else math.ceil(len(self.names) * room / length)
        slot = length / max(len(self.names), 1) - 6
        broken = side == "x" and every == 1 and not upright
        return [
            (i + 0.5, "\n".join(_lines(name, slot) or [name]) if broken else name)
            for i, name in enumerate(self.names)
            if i % every == 0
        ]

    def _slanted(self, length: int) -> bool:
        widest = max(map(text_px, self.names), default=0)
        return not names_fit(self.names, length) and widest > 26 and len(self.names) * (LABEL_SIZE + 5) <= length

    def _edge_ticks(self, length: int) -> Ticks:
        labels = ["" if math.isinf(edge) else "0" if edge == 0 else tick_label(edge, self.unit) for edge in self.edges]
        every = math.ceil((max(map(text_px, labels), default=0) + 8) * (len(labels) - 1) / max(length, 1))
        return [(float(i), label) for i, label in enumerate(labels) if i % every == 0]

    def _numbers(self, most: int) -> Ticks:
        if self.log:
            return log_ticks(self.low, self.high, self.unit, most)
        return linear_ticks(self.low, self.high, self.unit, most, whole=self.whole)

    def fractions(self, values: Floats) -> Floats:
        """Where values lie, 0 at the low end and 1 at the high end; NaN for what is not on the axis."""
        if self.measure == "names":
            return np.full(values.shape, np.nan)
        if self.measure == "bins":
            finite = np.array(self.edges)
            known = np.isfinite(finite)
            if not known.any():
                return np.full(values.shape, np.nan)
            places = np.arange(len(finite))[known]
            found: Floats = np.interp(values, finite[known], places, left=np.nan, right=np.nan)
            return found / (len(finite) - 1)
        if not self.log:
            return (values - self.low) / (self.high - self.low)
        positive = np.where(values > 0, values, np.nan)
        logs: Floats = np.log(positive / self.low)
        return logs / math.log(self.high / self.low)

    def label_px(self, length: int) -> int:
        """How far the labels of a vertical axis reach."""
        labels = self.names if self.measure == "names" else [label for _, label in self.ticks(length, "y")]
        return round(min(max(map(text_px, labels), default=0), _NAME_LIMIT_PX)) + 8

    def scale(self, side: Side) -> Spec:
        if self.measure == "names":
            return {"type": "linear", "domain": [0, self.end], "nice": False, "zero": False, "reverse": side == "y"}
        if self.measure == "bins":
            return {"type": "linear", "domain": [0, self.end], "nice": False, "zero": False}
        # Times are milliseconds on a linear scale, with marks made here: a scale of dates is written with datetime(ms),
        # which Vega's interpreter (needed where a page forbids eval) takes for a year.
        scale: Spec = {"type": "log" if self.log else "linear", "domain": [self.low, self.high], "nice": False}
        return scale if self.log else scale | {"zero": False}

    def channel(self, field: str, side: Side, length: int, *, titled: bool = True) -> Spec:
        """The position channel of `field` along this axis, `length` pixels long."""
        ticks = self.ticks(length, side)
        axis: Spec = {
            "values": [value for value, _ in ticks],
            "labelExpr": label_expression(ticks),
            "labelFlush": False,
            "title": wrapped(self.title, length + 30, LABEL_SIZE + 1) if titled and self.title else None,
        }
        if self.measure == "names":
            axis |= {"grid": False, "ticks": False, "labelPadding": 5, "labelLimit": _NAME_LIMIT_PX}
            axis |= {"domain": False} if side == "y" else self._angle(length)
        elif side == "x":
            axis |= {"grid": self.measure == "number", "labelAngle": 0}
        else:
            axis |= {"grid": True, "domain": False, "ticks": False, "labelPadding": 6}
        return {"field": field, "type": "quantitative", "scale": self.scale(side), "axis": axis}

    def _angle(self, length: int) -> Spec:
        if not self._slanted(length):
            return {"labelAngle": 0}
        return {"labelAngle": -40, "labelAlign": "right", "labelBaseline": "middle", "labelLimit": 110}


def names_fit(labels: Iterable[str], length: int) -> bool:
    """Whether the labels stand side by side, each below its place, in at most three lines."""
    every = list(labels)
    slot = length / max(len(every), 1) - 6
    return slot > text_px("x") and all(text_px(label) <= slot or _lines(label, slot) is not None for label in every)


def _lines(label: str, slot: float) -> list[str] | None:
    """A label broken at its spaces to fit a slot; None where it cannot be."""
    lines = textwrap.wrap(label, max(int(slot / text_px("x")), 1), break_long_words=False, break_on_hyphens=False)
    return lines if len(lines) <= 3 and all(text_px(line) <= slot for line in lines) else None


def text_px(text: str, size: float = LABEL_SIZE, *, bold: bool = False) -> float:
    """A safe guess of a text's width: wider than Arial and Liberation Sans, narrower than DejaVu Sans."""
    return len(text) * size * (0.6 if bold else 0.56)


def wrapped(text: str, width: float, size: float, *, bold: bool = False, most: int = 3) -> str | list[str]:
    """Lines that fit into `width` pixels; what passes `most` lines ends in an ellipsis."""
    characters = max(int(width / text_px("x", size, bold=bold)), 8)
    lines = textwrap.wrap(text, characters, max_lines=most, placeholder=" …")
    return lines if len(lines) > 1 else text


def axis_title(column: ResultColumn) -> str:
    """The heading, with the unit in words where the marks do not show it."""
    words = NAMED_IN_TITLE.get(column.unit, "")
    heading = capitalised(column.heading)
    return f"{heading} ({words})" if words and "(" not in heading else heading


def capitalised(text: str) -> str:
    """Words begin with a capital; symbols (n, p-value, mHz) stay as they are."""
    return text[:1].upper() + text[1:] if len(text) > 2 and text[:3].isalpha() and text[:3].islower() else text


def number_axis(
    column: ResultColumn, values: Iterable[Floats], *, log: bool = False, zero: bool = False, tight: bool = False
) -> Axis:
    """An axis that holds all `values`. `zero` makes a linear one begin at zero; `tight` ends it with the data."""
    if column.unit in reading.TIME_UNITS:
        return time_axis(column, values)
    known = np.concatenate([np.ravel(v) for v in values] or [np.zeros(0)])
    known = known[np.isfinite(known) & ((known > 0) | (not log))]
    if len(known) == 0:
        low, high = (1.0, 10.0) if log else (0.0, 1.0)
    else:
        low, high = float(known.min()), float(known.max())
    title = axis_title(column)
    if log:
        low, high = (low, high) if tight and high > low else log_bounds(low, high, column.unit)
        return Axis(title, "number", low, high, column.unit, log=True)
    if zero or 0 <= low < 0.4 * high:
        low = min(low, 0.0)
    high = max(high, 0.0) if zero else high
    if high <= low:
        low, high = (low - 1, high + 1) if low == 0 else (min(low, 0.0), max(high, 0.0))
    if not tight:
        low, high = nice_bounds(low, high, column.unit, 6)
    whole = column.unit in ("", "count") and len(known) > 0 and bool(np.all(known == np.rint(known)))
    if not high > low:  # so small that a step rounds to nothing
        low, high = -1.0, 1.0
    return Axis(title, "number", low, high, column.unit, whole=whole)


def time_axis(column: ResultColumn, values: Iterable[Floats]) -> Axis:
    known = np.concatenate([np.ravel(v) for v in values] or [np.zeros(0)])
    known = known[(known >= reading.FIRST_MS) & (known <= reading.LAST_MS)]
    low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 86_400_000.0)
    if high <= low:
        low, high = low - 1_800_000, high + 1_800_000
    context = time_context(low, high)
    # Days are those of whoever counted them; moments are UTC.
    context = context if column.unit == "date" else f"UTC, {context}"
    return Axis(f"{capitalised(column.heading)} ({context})", "time", low, high, column.unit)


def position_axis(chart: Chart, channel: str, *, extra: Iterable[Floats] = ()) -> Axis:
    """The axis of a channel that may hold numbers or times."""
    column = reading.column(chart, channel)
    values = [reading.numbers(chart, channel), *extra]
    if reading.is_time(chart, channel):
        return time_axis(column, values)
    return number_axis(column, values, log=chart.scales.get(channel) == "log")


def names_axis(column: ResultColumn, labels: Iterable[str]) -> Axis:
    return Axis(axis_title(column), "names", names=reading.distinct(labels), unit=column.unit)


def label_expression(ticks: Ticks) -> str:
    """The labels made here, in Vega's language: a value that is not a mark has none. A line break makes two lines."""
    expression = "''"
    for value, label in reversed(ticks):
        lines = [json.dumps(line, ensure_ascii=False) for line in label.split("\n")]
        text = lines[0] if len(lines) == 1 else f"[{','.join(lines)}]"
        expression = f"datum.value==={value!r}?{text}:{expression}"
    return expression
