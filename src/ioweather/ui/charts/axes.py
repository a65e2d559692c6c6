"""One axis: its domain, its ticks, and its Vega-Lite encoding.

Vega chooses the ticks of decimal numbers and of times. Binary sizes and durations have own tick `values`, because
decimal multiples of bytes and seconds are not round in the units people read (1.86 GiB, 16.7 min).
"""

from __future__ import annotations

import json
import math
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import numpy as np

from ioweather.core.frames import Floats
from ioweather.core.results import Chart, Reference, ResultColumn
from ioweather.core.units import shown_zone
from ioweather.ui.charts import chart_data
from ioweather.ui.charts.theme import BACKGROUND, LABEL_SIZE, REFERENCE, SERIES, SHADE, Spec, text_px, wrapped

Measure: TypeAlias = Literal["number", "time", "names", "bins"]
Side: TypeAlias = Literal["x", "y"]

# These units are in the axis title, not at every tick.
_NAMED_IN_TITLE: Final = {
    "mib_per_s": "MiB/s",
    "mib_per_s_per_node": "MiB/s per compute node",
    "ops_per_s": "operations/s",
}
_SUFFIXES: Final = {
    "mib_per_s": " MiB/s",
    "mib_per_s_per_node": " MiB/s/CN",
    "ops_per_s": "/s",
    "percent": "%",
    "factor": "x",
}
_BYTES: Final = ("bytes", "bytes_per_s")
_DURATIONS: Final = ("seconds", "ns")
# The least value that a unit of time is used for, its length in seconds, its suffix.
_SECONDS: Final = (
    (172800.0, 86400.0, " d"),
    (7200.0, 3600.0, " h"),
    (120.0, 60.0, " min"),
    (1.0, 1.0, " s"),
    (1e-3, 1e-3, " ms"),
)
# Round durations, in seconds; the coarse ones are for logarithmic axes of many decades.
_DAYS: Final = tuple(86400.0 * m * 10.0**k for k in range(6) for m in (1, 2, 5))
_ROUND: Final = (
    *(float(f"{m}e{k}") for k in range(-12, 0) for m in (1, 2, 5)),
    *(1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1800.0, 3600.0, 7200.0, 10800.0, 21600.0),
    *(43200.0, *_DAYS),
)
_COARSE: Final = (*(10.0**k for k in range(-12, 2)), 60.0, 600.0, 3600.0, *_DAYS[::3])
_DECADES: Final = tuple(float(f"1e{k}") for k in range(-30, 31))
_HALF_DECADES: Final = tuple(m * decade for decade in _DECADES for m in (1, 2, 5))
_TIME_FORMAT: Final = {
    "milliseconds": "%H:%M:%S.%L",
    "seconds": "%H:%M:%S",
    "minutes": "%H:%M",
    "hours": "%H:%M",
    "day": "%-d %b",
    "date": "%-d %b",
    "week": "%-d %b",
    "month": "%b",
    "quarter": "%b",
    "year": "%Y",
}
_NAME_LIMIT_PX: Final = 220
# Room for the labels of a vertical axis; loads and slowdown are below each other and begin at the same place.
_NUMBER_PX: Final = {"bytes_per_s": 66, "bytes": 54, "factor": 66, "ops_per_s": 66}


@dataclass(frozen=True)
class Axis:
    """`low` and `high` bound numbers and times (epoch milliseconds).

    On an axis of `names` the first name is between 0 and 1, the second between 1 and 2, and so on. On one of `bins`
    all bins have the same width, and their `edges` are at 0, 1, 2, ... An axis of `whole` numbers has no ticks between
    them.
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
        """Largest value on the axis; for names and bins, their number."""
        if self.measure == "names":
            return float(len(self.names))
        return float(len(self.edges) - 1) if self.measure == "bins" else self.high

    @property
    def reach(self) -> float:
        return self.end - (self.low if self.measure in ("number", "time") else 0.0)

    def fractions(self, values: Floats) -> Floats:
        """Positions of values, 0 at the low end and 1 at the high end; NaN for values that are not on the axis."""
        if self.measure == "names":
            return np.full(values.shape, np.nan)
        if self.measure == "bins":
            edges = np.array(self.edges)
            known = np.isfinite(edges)
            if not known.any():
                return np.full(values.shape, np.nan)
            places: Floats = np.interp(values, edges[known], np.flatnonzero(known), left=np.nan, right=np.nan)
            return places / (len(edges) - 1)
        if not self.log:
            return (values - self.low) / (self.high - self.low)
        logs: Floats = np.log(np.where(values > 0, values, np.nan) / self.low)
        return logs / math.log(self.high / self.low)

    def label_px(self) -> int:
        """Width of the labels of a vertical axis."""
        if self.measure != "names":
            return _NUMBER_PX.get(self.unit, 48)
        return round(min(max(map(text_px, self.names), default=0), _NAME_LIMIT_PX)) + 8

    def scale(self, side: Side) -> Spec:
        """The Vega-Lite scale of this axis."""
        if self.measure in ("names", "bins"):
            down = {"reverse": True} if self.measure == "names" and side == "y" else {}
            return {"type": "linear", "domain": [0, self.end], "nice": False, "zero": False, **down}
        if self.measure == "time":
            # A `domain` would be compiled to datetime(ms), which Vega's interpreter (needed where a page forbids eval)
            # takes for a year.
            ends = {"domainMin": {"expr": f"{self.low:.0f}"}, "domainMax": {"expr": f"{self.high:.0f}"}}
            return {"type": "utc", "nice": False, **ends}
        scale: Spec = {"type": "log" if self.log else "linear", "domain": [self.low, self.high], "nice": False}
        if self.log:
            return scale | ({"base": 2} if self.unit in _BYTES else {})
        return scale | {"zero": False}

    def channel(self, field: str, side: Side, length: int, *, titled: bool = True) -> Spec:
        """The position channel of `field` along this axis, `length` pixels long."""
        title = wrapped(self.title, length + 30, LABEL_SIZE + 1) if titled and self.title else None
        axis: Spec = {"title": title, "labelFlush": False}
        if self.measure == "names":
            axis |= self._name_labels(length, side)
        elif self.measure == "bins":
            labels = ["" if math.isinf(edge) else chart_data.name_of(edge, self.unit) for edge in self.edges]
            every = math.ceil((max(map(text_px, labels), default=0) + 8) * (len(labels) - 1) / max(length, 1))
            axis |= {"values": list(range(0, len(labels), every)), "labelExpr": _make_label_expression(labels)}
            axis |= {"grid": side == "y", "labelAngle": 0}
        else:
            axis |= self.number_labels(max(length // (26 if side == "y" else 72), 2))
            plain = {"domain": False, "ticks": False, "labelPadding": 6, "minExtent": self.label_px() - 8}
            axis |= plain | {"grid": True} if side == "y" else {"grid": self.measure == "number", "labelAngle": 0}
        kind = "temporal" if self.measure == "time" else "quantitative"
        return {"field": field, "type": kind, "scale": self.scale(side), "axis": axis}

    def number_labels(self, most: int) -> Spec:
        """Ticks and labels of numbers or times, about `most`, for an axis or a legend."""
        if self.measure == "time":
            # Where ticks are days, the first of a month has its day too.
            days = dict.fromkeys(("month", "quarter"), "%-d %b") if self.reach < 90 * 86_400_000 else {}
            return {"format": _TIME_FORMAT | days, "tickCount": most, "labelOverlap": "greedy", "labelSeparation": 8}
        unit = "" if self.unit in _NAMED_IN_TITLE else self.unit
        labels: Spec = {"labelExpr": write_value_expression("datum.value", unit), "tickCount": most}
        if unit in ("", "count") and max(-self.low, self.high) >= 1e6:
            labels["labelExpr"] = "format(datum.value,'~s')"  # 500k, 2M
        if self.whole or self.unit == "count":
            labels["tickMinStep"] = 1
        if self.log:
            labels |= {"labelOverlap": "greedy", "labelSeparation": 8}
        if self.log and self.unit not in _BYTES:
            one = 1e9 if self.unit == "ns" else 1.0
            ladders = [
                [v * one for v in steps if self.low <= v * one * 1.001 <= self.high * 1.002]
                for steps in ((_ROUND, _COARSE) if self.unit in _DURATIONS else (_HALF_DECADES, _DECADES))
            ]
            ticks = next((found for found in ladders if len(found) <= most), ladders[1])
            if len(ticks) > 1:
                labels["values"] = ticks[:: math.ceil(len(ticks) / most)]
        elif self.unit in (*_BYTES, *_DURATIONS) and not self.log:
            step = tick_step(self.low, self.high, self.unit, most)
            first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
            labels["values"] = [index * step for index in range(first, last + 1)]
        return labels

    def _name_labels(self, length: int, side: Side) -> Spec:
        """Each name at its place: broken into lines or slanted where it is too wide, thinned where there are many."""
        fit, widest = names_fit(self.names, length), max(map(text_px, self.names), default=0)
        slanted = side == "x" and not fit and widest > 26 and len(self.names) * (LABEL_SIZE + 5) <= length
        room = LABEL_SIZE + 3 if side == "y" or slanted else min(widest, _NAME_LIMIT_PX) + 12
        every = 1 if side == "x" and fit else math.ceil(len(self.names) * room / length) or 1
        labels: list[str | list[str]] = list(self.names)
        if side == "x" and every == 1 and not slanted:
            labels = [_break_label(name, length / len(self.names) - 6) or name for name in self.names]
        axis: Spec = {
            "values": [i + 0.5 for i in range(0, len(labels), every)],
            "labelExpr": _make_label_expression(labels),
        }
        axis |= {"grid": False, "ticks": False, "labelPadding": 5, "labelLimit": _NAME_LIMIT_PX}
        if side == "y":
            return axis | {"domain": False}
        if not slanted:
            return axis | {"labelAngle": 0}
        return axis | {"labelAngle": -40, "labelAlign": "right", "labelBaseline": "middle", "labelLimit": 110}


def _make_label_expression(labels: Sequence[str | list[str]]) -> str:
    """Vega expression for the label of a tick at 0, 1, 2, ..., or between them; a list is a label of several lines."""
    return f"{json.dumps(labels, ensure_ascii=False)}[floor(datum.value)]"


def write_value_expression(value: str, unit: str) -> str:
    """core.units.format_value in Vega's expression language; `value` is an expression."""
    if unit in _BYTES:
        text = f"format({value},'.3~r')+' B'"
        for power, letter in enumerate("KMGTP", 1):
            size = 1 << 10 * power
            text = f"abs({value})>={size}?format({value}/{size},'.4~r')+' {letter}iB':{text}"
        text = f"({text})+'/s'" if unit == "bytes_per_s" else text
    elif unit in _DURATIONS:
        number = f"({value}/1e9)" if unit == "ns" else value
        text = f"abs({number})<5e-10?'0 s':format({number}*1e6,'.3~r')+' µs'"
        for least, length, suffix in reversed(_SECONDS):
            text = f"abs({number})>={least!r}?format({number}/{length!r},'.3~r')+'{suffix}':{text}"
    else:
        form = ".3~p" if unit == "ratio" else ",.6~r"
        text = f"format({value},'{form}')+'{_SUFFIXES.get(unit, '')}'"
    return f"isValid({value})?({text}):'–'"


def names_fit(labels: Iterable[str], length: int) -> bool:
    """Whether the labels fit side by side, each below its place, in at most three lines."""
    every = list(labels)
    slot = length / max(len(every), 1) - 6
    return slot > text_px("x") and all(_break_label(label, slot) is not None for label in every)


def _break_label(label: str, slot: float) -> list[str] | None:
    """A label broken at its spaces to fit a slot; None where it cannot be."""
    if text_px(label) <= slot:
        return [label]
    lines = textwrap.wrap(label, max(int(slot / text_px("x")), 1), break_long_words=False, break_on_hyphens=False)
    return lines if len(lines) <= 3 and all(text_px(line) <= slot for line in lines) else None


def format_axis_title(column: ResultColumn) -> str:
    """The heading, with the unit in words where the ticks do not show it."""
    words = _NAMED_IN_TITLE.get(column.unit, "")
    heading = capitalised(column.heading)
    return f"{heading} ({words})" if words and "(" not in heading else heading


def capitalised(text: str) -> str:
    """Words begin with a capital; symbols (n, p-value, mHz) stay as they are."""
    return text[:1].upper() + text[1:] if len(text) > 2 and text[:3].isalpha() and text[:3].islower() else text


def make_number_axis(
    column: ResultColumn, values: Iterable[Floats], *, log: bool = False, zero: bool = False, tight: bool = False
) -> Axis:
    """An axis for all `values`. `zero` makes a linear one begin at zero; `tight` ends it with the data."""
    if column.unit in chart_data.TIME_UNITS:
        return make_time_axis(column, values)
    known = np.concatenate([np.ravel(v) for v in values] or [np.zeros(0)])
    known = known[np.isfinite(known) & ((known > 0) | (not log))]
    if len(known) == 0:
        low, high = (1.0, 10.0) if log else (0.0, 1.0)
    else:
        low, high = float(known.min()), float(known.max())
    title, unit = format_axis_title(column), column.unit
    if log:
        low, high = (low, high) if tight and high > low else _round_log_bounds(low, high, unit)
        return Axis(title, "number", low, high, unit, log=True)
    if zero or 0 <= low < 0.4 * high:
        low = min(low, 0.0)
    high = max(high, 0.0) if zero else high
    if high <= low:
        low, high = (low - 1, high + 1) if low == 0 else (min(low, 0.0), max(high, 0.0))
    if not tight:
        step = tick_step(low, high, unit, 6)
        low, high = math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step
    whole = unit in ("", "count") and len(known) > 0 and bool(np.all(known == np.rint(known)))
    if not high > low:  # so small that a step rounds to nothing
        low, high = -1.0, 1.0
    return Axis(title, "number", low, high, unit, whole=whole)


def tick_step(low: float, high: float, unit: str, most: int) -> float:
    """A round distance between ticks: a power of two for sizes, a round duration, else 1, 2 or 5 times 10^n."""
    least = (high - low) / max(most - 1, 1) * 0.85  # a few ticks too many are better than half as many
    if not least > 0 or not math.isfinite(least):
        return 1.0
    if unit in _BYTES:
        return 2.0 ** math.ceil(math.log2(least))
    one = 1e9 if unit == "ns" else 1.0
    if unit in _DURATIONS and _ROUND[0] <= least / one <= _ROUND[-1]:
        return next(step for step in _ROUND if step >= least / one) * one
    base = 10.0 ** math.floor(math.log10(least) + 1e-9)
    step = next(m * base for m in (1.0, 2.0, 5.0, 10.0) if m * base >= least)
    return max(step, 1.0) if unit == "count" else step


def _round_log_bounds(low: float, high: float, unit: str) -> tuple[float, float]:
    """Positive bounds moved outwards to a power of two (sizes) or to 1, 2 or 5 times a power of ten."""
    if unit in _BYTES:
        least, greatest = 2.0 ** math.floor(math.log2(low) + 1e-9), 2.0 ** math.ceil(math.log2(high) - 1e-9)
    else:
        below, above = 10.0 ** math.floor(math.log10(low) + 1e-9), 10.0 ** math.floor(math.log10(high) - 1e-9)
        least = max(m * below for m in (1, 2, 5) if m * below <= low * (1 + 1e-6))
        greatest = min(m * above for m in (1, 2, 5, 10) if m * above >= high * (1 - 1e-6))
    return (least, greatest) if greatest > least else (least / 2, greatest * 2)


def make_time_axis(column: ResultColumn, values: Iterable[Floats]) -> Axis:
    """A time axis in the zone of people; its title gives the day or the years, which the ticks leave out."""
    known = np.concatenate([np.ravel(v) for v in values] or [np.zeros(0)])
    known = known[(known >= chart_data.FIRST_MS) & (known <= chart_data.LAST_MS)]
    low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 86_400_000.0)
    if high <= low:
        low, high = low - 1_800_000, high + 1_800_000
    first, last = (np.datetime64(int(ms), "ms").item() for ms in (low, high))
    if first.date() == last.date():
        context = f"{first.day} {first:%b %Y}"
    else:
        context = f"{first:%Y}" if first.year == last.year else f"{first:%Y} to {last:%Y}"
    # The zone of a day is that of its source.
    context = context if column.unit == "date" else f"{shown_zone()}, {context}"
    return Axis(f"{capitalised(column.heading)} ({context})", "time", low, high, column.unit)


def make_position_axis(chart: Chart, channel: Side) -> Axis:
    """The axis of a channel of numbers or times, long enough for its reference lines. Times end with the data: a window
    of maintenance a year ago must not push the data together."""
    column = chart_data.column(chart, channel)
    if chart_data.is_time(chart, channel):
        return make_time_axis(column, [chart_data.numbers(chart, channel)])
    return make_value_axis(chart, channel, (channel,))


def make_value_axis(chart: Chart, side: Side, channels: Iterable[str], *, zero: bool = False) -> Axis:
    """The axis of the values on some channels and of the reference lines on this side."""
    every = [channel for channel in channels if channel in chart.encoding]
    lines = [chart_data.number(r.value) for r in chart.references if r.axis == side and r.end is None]
    values = [*(chart_data.numbers(chart, channel) for channel in every), np.array(lines, dtype=np.float64)]
    log = chart.scales.get(side) == "log"
    column = chart_data.column(chart, side if side in chart.encoding else every[len(every) // 2])
    return make_number_axis(column, values, log=log, zero=zero and not log)


def make_names_axis(chart: Chart, channel: str) -> Axis:
    """The axis of a column of names, in the order of the table."""
    column = chart_data.column(chart, channel)
    return Axis(
        format_axis_title(column),
        "names",
        names=chart_data.distinct(chart_data.names(chart, channel)),
        unit=column.unit,
    )


ROW_PX: Final = LABEL_SIZE + 3
_MOST_ROWS: Final = 6


# By role of a shaded reference: its colour, opacity and the colour of its label.
_SHADES: Final = {"": (SHADE, 0.2, REFERENCE), "this": (SERIES[4], 0.3, SERIES[4]), "bad": (SERIES[5], 0.14, SERIES[5])}


def mark_references(
    references: Sequence[Reference], x: Axis, y: Axis, width: int, height: int, *, outlined: bool = False
) -> tuple[list[Spec], list[Spec], list[str], int]:
    """Layers below and above the data of a panel of `width` by `height` pixels, notes, and the number of rows of labels
    above the plot. `outlined` lines can be seen on colours."""
    below: list[Spec] = []
    above: list[Spec] = []
    notes: list[str] = []
    labels: dict[Side, list[tuple[float, str, str]]] = {"x": [], "y": []}
    for reference in references:
        is_x, (shade, opacity, ink) = reference.axis == "x", _SHADES[reference.role]
        axis, length, across = (x, width, height) if is_x else (y, height, width)
        if axis.measure == "names":
            notes.append(f"{reference.label or 'reference'}: {chart_data.name_of(reference.value, axis.unit)}")
        span = _find_span_px(reference, axis, length)
        if span is None:
            continue
        along, other = ("x", "y") if is_x else ("y", "x")
        place: Spec = {along: {"value": span[0]}, other: {"value": 0}, f"{other}2": {"value": across}}
        mark: Spec = {"tooltip": reference.label} if reference.label else {}
        if reference.end is not None:
            mark |= {"type": "rect", "color": shade, "opacity": opacity}
            below.append(_make_layer(mark, place | {f"{along}2": {"value": span[1]}}))
        elif reference.label or span[0] != (0 if is_x else height):  # else it only makes the axis begin there
            if outlined:
                above.append(
                    _make_layer({"type": "rule", "color": BACKGROUND, "strokeWidth": 3, "opacity": 0.8}, place)
                )
            mark |= {"type": "rule", "color": REFERENCE, "strokeWidth": 1.3, "strokeDash": [5, 3]}
            above.append(_make_layer(mark, place))
        if reference.label and not is_x and reference.end is not None:
            notes.append(f"shaded: {reference.label}")
        elif reference.label:
            labels["x" if is_x else "y"].append((sum(span) / 2, reference.label, ink))
    ends: list[float] = []  # of the rows of labels above the plot
    placed: set[str] = set()
    for centre, text, colour in sorted(labels["x"]):
        # The tooltip of the reference has the whole text.
        shown = textwrap.shorten(text, max(int(width / text_px("x")), 8), placeholder=" …")
        size = text_px(shown)
        left = min(max(centre - size / 2, 0.0), max(width - size, 0.0))
        # A label that is there already is not repeated where it would need another row.
        rows = range(1 if text in placed else _MOST_ROWS)
        row = next((i for i in rows if i >= len(ends) or ends[i] + 8 <= left), None)
        if row is not None:
            ends[row : row + 1] = [left + size]
            placed.add(text)
            above.append(draw_text(left + size / 2, -6 - row * ROW_PX, shown, colour))
    left_out = [text for text in dict.fromkeys(text for _, text, _ in sorted(labels["x"])) if text not in placed]
    notes += [f"also marked: {', '.join(left_out)}"] if left_out else []
    for number, (at, text, _) in enumerate(sorted(labels["y"])):  # neighbours at opposite ends of their lines
        half, base = text_px(text) / 2, at - 4 if at >= ROW_PX else at + ROW_PX - 3
        centre = width - half - 3 if number % 2 == 0 else half + 3
        edges = {"x": centre - half - 1, "x2": centre + half + 1, "y": base - LABEL_SIZE + 1, "y2": base + 3}
        # A background makes it legible over data.
        box = {"type": "rect", "color": BACKGROUND, "opacity": 0.85}
        above.append(_make_layer(box, {edge: {"value": round(value, 1)} for edge, value in edges.items()}))
        above.append(draw_text(centre, base, text))
    return below, above, notes, len(ends)


def _find_span_px(reference: Reference, axis: Axis, length: int) -> tuple[float, float] | None:
    """First and last pixel of a reference along its axis, from the left or from the top."""
    is_time = axis.unit == "time_ns"
    places = [chart_data.number(each) for each in (reference.value, reference.end) if each is not None]
    both = np.array([chart_data.local_ms(place / 1_000_000) if is_time else place for place in places])
    start, *_, end = sorted(axis.fractions(both).tolist() * 2)
    if math.isnan(start + end) or end < 0 or start > 1:
        return None
    low, high = (min(max(f, 0.0), 1.0) * length for f in (start, end))
    if reference.axis == "y":
        low, high = length - high, length - low
    if reference.end is not None and high - low < 1.5:  # a window of minutes in a picture of months still shows
        low, high = low - 0.75, high + 0.75
    return round(low, 1), round(high, 1)


def draw_text(x: float, y: float, text: str, colour: str = REFERENCE, align: str = "center") -> Spec:
    """A layer with a text at pixels."""
    mark = {"type": "text", "text": text, "align": align, "baseline": "alphabetic", "color": colour}
    return _make_layer(mark, {"x": {"value": round(x, 1)}, "y": {"value": round(y, 1)}})


def _make_layer(mark: Spec, place: Spec) -> Spec:
    """A layer with one mark at pixels, independent of the data."""
    return {"data": {"values": [{}]}, "mark": mark, "encoding": place}
