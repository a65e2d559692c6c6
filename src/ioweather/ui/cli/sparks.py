"""Small pictures in text (bars, sparklines, heat maps), from the same charts that figures are drawn from."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from ioweather.core.results import Cell, Chart
from ioweather.core.sparkline import sparkline
from ioweather.core.units import format_value

_EIGHTHS = " ▏▎▍▌▋▊▉█"
_SHADES = " ░▒▓█"
_MOST_BARS = 16


def bar(share: float, width: int) -> str:
    """A horizontal bar to eighths of a character, on a track, so that an empty one shows too. What is below nothing or
    unknown has no length."""
    share = 0.0 if math.isnan(share) else share
    full, part = divmod(round(min(max(share, 0.0), 1.0) * width * 8), 8)
    drawn = "█" * full + (_EIGHTHS[part] if part else "")
    return drawn + "·" * (width - len(drawn))


def chart_lines(chart: Chart, width: int) -> list[str]:
    """A chart as lines of text, where its kind has such a form; of several panels, the first."""
    if not chart.table.rows:
        return []
    if chart.facet is not None:
        panel = chart.table.column(chart.facet)[0]
        rows = tuple(
            row for row, value in zip(chart.table.rows, chart.table.column(chart.facet), strict=True) if value == panel
        )
        one = replace(chart, facet=None, table=replace(chart.table, rows=rows))
        lines = chart_lines(one, width)
        return [f"{format_value(panel)}:", *lines] if lines else []
    match chart.kind:
        case "timeline" | "band":
            return _timeline(chart, width)
        case "cdf":
            return _cdf(chart, width)
        case "histogram" | "bars":
            return _bars(chart, width)
        case "heatmap":
            return _heatmap(chart, width)
        case "umami":
            return _umami(chart, width)
    return []


def _column(chart: Chart, role: str) -> list[Cell]:
    return list(chart.table.column(chart.encoding[role]))


def _unit(chart: Chart, role: str) -> str:
    name = chart.encoding[role]
    return next(column.unit for column in chart.table.columns if column.name == name)


def _series(chart: Chart) -> dict[str, list[int]]:
    """Row numbers by series."""
    if "series" not in chart.encoding:
        return {"": list(range(len(chart.table.rows)))}
    found: dict[str, list[int]] = {}
    for index, name in enumerate(_column(chart, "series")):
        found.setdefault(format_value(name), []).append(index)
    return found


def _number(value: Cell) -> float | None:
    """What is a number; NaN is none."""
    known = isinstance(value, (int, float)) and not isinstance(value, bool) and value == value
    return float(value) if known and value is not None else None


def _share(value: float, top: float) -> float:
    """Of the greatest; infinity is all of it."""
    return 1.0 if value == math.inf else value / top if 0 < top < math.inf else 0.0


def _timeline(chart: Chart, width: int) -> list[str]:
    y = [_number(v) for v in _column(chart, "y")]
    x = _column(chart, "x")
    unit = _unit(chart, "y")
    series = dict(list(_series(chart).items())[:6])
    margin = min(18, max(len(name) for name in series)) + 1
    space = max(10, width - margin - 18)
    lines = []
    for name, rows in series.items():
        values = [y[i] for i in rows]
        peak = max((v for v in values if v is not None), default=None)
        lines.append(f"{name[: margin - 1]:{margin}}{sparkline(values, space):{space}} peak {format_value(peak, unit)}")
    first, last = format_value(x[0], _unit(chart, "x"))[:16], format_value(x[-1], _unit(chart, "x"))[:16]
    if space > len(first) + len(last):
        lines.append(" " * margin + first + " " * (space - len(first) - len(last)) + last)
    return lines


def _umami(chart: Chart, width: int) -> list[str]:
    """A line per metric: its history, this run's value, and where that lies among the quartiles."""
    y, this = [_number(v) for v in _column(chart, "y")], _column(chart, "this")
    low, high = ([_number(v) for v in _column(chart, role)] for role in ("q25", "q75"))
    rows: dict[str, list[int]] = {}
    for index, name in enumerate(_column(chart, "metric")):
        rows.setdefault(format_value(name), []).append(index)
    margin = min(28, max(len(name) for name in rows)) + 1
    space = max(10, width - margin - 27)
    lines = []
    for name, own in rows.items():
        here = next((i for i in own if this[i] is True), own[-1])
        value, below, above = y[here], low[here], high[here]
        place = ""
        if value is not None and below is not None and above is not None:
            place = "lowest quarter" if value < below else "highest quarter" if value > above else "middle half"
        drawn = sparkline([y[i] for i in own], space)
        lines.append(f"{name[: margin - 1]:{margin}}{drawn:{space}} {format_value(value):>9} {place}")
    return lines


def _cdf(chart: Chart, width: int) -> list[str]:
    """Quantiles as a row of numbers: what one reads off the curve."""
    x, y = [_number(v) for v in _column(chart, "x")], [_number(v) for v in _column(chart, "y")]
    unit = _unit(chart, "x")
    lines = []
    for name, rows in list(_series(chart).items())[:6]:
        prefix = f"{name}: " if name else ""
        for shares in ((0.25, 0.5, 0.75, 0.9, 0.99), (0.25, 0.5, 0.9, 0.99), (0.5, 0.9, 0.99), (0.5,)):
            found = ((p, next((x[i] for i in rows if (y[i] or 0.0) >= p), None)) for p in shares)
            line = prefix + ", ".join(f"{p:.0%} ≤ {format_value(at, unit)}" for p, at in found)
            if len(line) <= width:
                break
        lines.append(line if len(line) <= width else line[: width - 1] + "…")
    return lines


def _bars(chart: Chart, width: int) -> list[str]:
    y = [_number(v) or 0.0 for v in _column(chart, "y")]
    top = max((v for v in y if v < math.inf), default=0.0)
    if chart.kind == "histogram":
        edges = zip(_column(chart, "low"), _column(chart, "high"), strict=True)
        unit = _unit(chart, "low")
        labels = [f"{format_value(low, unit)} to {format_value(high, unit)}" for low, high in edges]
    else:
        labels = [format_value(v, _unit(chart, "x")) for v in _column(chart, "x")]
    # Bars of nothing say little, and the room is needed.
    shown = [i for i in range(len(y)) if y[i] != 0]
    if len(shown) > _MOST_BARS:
        return _columns(chart, labels, y, width)
    if "series" in chart.encoding:
        labels = [f"{label} {format_value(name)}" for label, name in zip(labels, _column(chart, "series"), strict=True)]
    values = [format_value(value, _unit(chart, "y")) for value in y]
    margin = min(36, max((len(labels[i]) for i in shown), default=0))
    space = max(8, width - margin - 2 - max((len(values[i]) for i in shown), default=0))
    return [f"{labels[i][:margin]:>{margin}} {bar(_share(y[i], top), space)} {values[i]}" for i in shown]


def _columns(chart: Chart, labels: list[str], y: list[float], width: int) -> list[str]:
    """Too many bars for a line each: one line per series, a character per bar, and where the highest stands."""
    series = _series(chart)
    margin = min(18, max(map(len, series))) + 1
    lines = []
    for name, rows in series.items():
        highest = max(rows, key=lambda i: y[i])
        peak = f"peak {format_value(y[highest], _unit(chart, 'y'))} at {labels[highest]}"
        space = max(10, min(width - margin - len(peak) - 1, 48))
        wide = max(1, space // len(rows))
        drawn = "".join(character * wide for character in sparkline([y[i] for i in rows], space))
        lines.append(f"{name[: margin - 1]:{margin}}{drawn} {peak}")
    return lines


def _heatmap(chart: Chart, width: int) -> list[str]:
    """Rows of y, columns of x, darker for more; a dot is zero, a blank no data. Few columns are drawn wider."""
    xs, ys = _places(_column(chart, "x")), _places(_column(chart, "y"))
    labels = {v: format_value(v, _unit(chart, "y"))[:24] for v in ys}
    margin = max((len(label) for label in labels.values()), default=0) + 1
    columns, rows = min(len(xs), width - margin), min(len(ys), 16)
    if columns <= 0 or rows <= 0:
        return []
    x_place = {v: i * columns // len(xs) for i, v in enumerate(xs)}
    y_place = {v: i * rows // len(ys) for i, v in enumerate(ys)}
    cells: list[list[float | None]] = [[None] * columns for _ in range(rows)]
    triples = zip(_column(chart, "x"), _column(chart, "y"), _column(chart, "value"), strict=True)
    for x, y, value in triples:
        number = _number(value)
        if number is not None and x in x_place and y in y_place:
            cells[y_place[y]][x_place[x]] = (cells[y_place[y]][x_place[x]] or 0.0) + number
    top = max((c for row in cells for c in row if c is not None and c < math.inf), default=0.0)
    first = {place: v for v, place in reversed(y_place.items())}
    wide = (width - margin) // columns
    drawn = ["".join(_shade(c, top) * wide for c in row) for row in cells]
    lines = [f"{labels[first[r]]:>{margin - 1}} {drawn[r]}" for r in range(rows)]
    ends = [format_value(x, _unit(chart, "x")) for x in (xs[0], xs[-1])]
    room = columns * wide - len(ends[0]) - len(ends[1])
    return [*lines, " " * margin + ends[0] + " " * room + ends[1]] if room > 0 and len(xs) > 1 else lines


def _shade(value: float | None, top: float) -> str:
    if value is None:
        return " "
    return _SHADES[min(4, math.ceil(_share(value, top) * 4))] if value > 0 else "·"


def _places(values: Sequence[Cell]) -> list[Cell]:
    """Each once: numbers in their order, names in that of the table, which knows the days of the week."""
    return sorted(dict.fromkeys(v for v in values if v is not None and v == v), key=_order)


def _order(value: Cell) -> float:
    number = _number(value)
    return math.inf if number is None else number
