"""Reading the table of a chart: columns by the channel they are drawn on, as arrays or as names."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from ioweather.core.arrays import Floats
from ioweather.core.foreign_text import marked
from ioweather.core.results import Cell, Chart, ResultColumn
from ioweather.core.units import format_value

NONE = "(none)"
_NS_PER_MS = 1_000_000
TIME_UNITS = ("time_ns", "date")
_BEYOND = 1e30  # no facility measures more; arithmetic near the end of floats would not hold
_LONGEST_NAME = 200
FIRST_MS, LAST_MS = -62_000_000_000_000.0, 253_000_000_000_000.0  # the years 5 and 9987


def column(chart: Chart, channel: str) -> ResultColumn:
    """What is known of the column on a channel."""
    name = chart.encoding[channel]
    return next(c for c in chart.table.columns if c.name == name)


def is_time(chart: Chart, channel: str) -> bool:
    return column(chart, channel).unit in TIME_UNITS


def cells(chart: Chart, channel: str) -> tuple[Cell, ...]:
    return chart.table.column(chart.encoding[channel])


def numbers(chart: Chart, channel: str) -> Floats:
    """The column as floats; missing, text and infinities are NaN. Times become epoch milliseconds."""
    unit = column(chart, channel).unit
    if unit == "time_ns":
        return np.array([_milliseconds(cell) for cell in cells(chart, channel)], dtype=np.float64)
    if unit == "date":
        return np.array([_date_milliseconds(cell) for cell in cells(chart, channel)], dtype=np.float64)
    return _measured(cells(chart, channel))


def _measured(values: Sequence[Cell]) -> Floats:
    """`number` of every cell, at once where no cell is text: a map of targets over a year has a hundred thousand."""
    kinds = set(map(type, values))
    if str in kinds or (int in kinds and any(type(cell) is int and abs(cell) > 1 << 62 for cell in values)):
        return np.array([number(cell) for cell in values], dtype=np.float64)
    found = np.array(values, dtype=np.float64)  # None becomes NaN
    found[np.abs(found) < 1 / _BEYOND] = 0.0
    found[np.abs(found) >= _BEYOND] = np.nan
    return found


def is_numeric(chart: Chart, channel: str) -> bool:
    """Whether the column holds numbers: at least one, and no text."""
    kinds = {type(cell) for cell in cells(chart, channel) if cell is not None}
    return bool(kinds) and all(issubclass(kind, (int, float)) and kind is not bool for kind in kinds)


def names(chart: Chart, channel: str) -> list[str]:
    """The column as what a person reads."""
    unit, every = column(chart, channel).unit, cells(chart, channel)
    # Names repeat. 1 and True are equal, but read otherwise.
    known = {(kind, cell): name_of(cell, unit) for kind, cell in {(type(cell), cell) for cell in every}}
    return [known[type(cell), cell] for cell in every]


def name_of(cell: Cell, unit: str) -> str:
    if cell is None or cell == "":
        return NONE
    try:
        name = legible(format_value(cell, unit))
        # To draw a name of 100,000 characters takes minutes.
        return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 50]}…{name[-49:]}"
    except (OverflowError, ValueError):  # a time that no calendar holds
        return str(cell)


def distinct(values: Iterable[str]) -> tuple[str, ...]:
    """In the order of first appearance."""
    return tuple(dict.fromkeys(values))


def with_rows(chart: Chart, rows: Sequence[tuple[Cell, ...]]) -> Chart:
    return replace(chart, table=replace(chart.table, rows=tuple(rows)))


def drawable(value: float) -> float | int | None:
    """A number as it goes into a specification, without digits that no screen shows. NaN is null.

    From a million on whole numbers are fine enough, and times (1.7e12 ms) need every digit before the point.
    """
    if not math.isfinite(value):
        return None
    whole = round(value)
    if (whole == value or abs(value) >= 1e6) and abs(whole) < 1 << 53:
        return whole
    return float(f"{value:.9g}")


def legible(text: str) -> str:
    """The text without characters that XML forbids, as they abort vl-convert, and with it the process; and without
    those that turn the direction of what is around them."""
    return marked(text)


def number(cell: Cell) -> float:
    """What can be measured: text, infinities and numbers too large to draw are NaN."""
    if cell is None or isinstance(cell, str):
        return math.nan
    value = float(cell)
    if abs(value) < 1 / _BEYOND:
        return 0.0
    return value if abs(value) < _BEYOND else math.nan


def _milliseconds(cell: Cell) -> float:
    """Divided as an integer: 1.7e18 ns has no exact float. A time that no calendar holds is missing."""
    value = float(cell // _NS_PER_MS) if isinstance(cell, int) else number(cell) / _NS_PER_MS
    return value if FIRST_MS <= value <= LAST_MS else math.nan


def _date_milliseconds(cell: Cell) -> float:
    try:
        day = dt.date.fromisoformat(str(cell)[:10])
    except ValueError:
        return math.nan
    return (day - dt.date(1970, 1, 1)).days * 86_400_000.0
