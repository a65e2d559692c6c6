"""The terminal renderer: blocks of answers, exhibits, plain listings and agent status, at most 80 columns wide.

rich uses colour only on a terminal, and never with NO_COLOR.
"""

from __future__ import annotations

import errno
import io
import math
import shutil
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import singledispatch
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ioweather.core.errors import UsageError
from ioweather.core.foreign_text import one_line
from ioweather.core.results import (
    Answer,
    Block,
    Cell,
    Chart,
    Coverage,
    Exhibit,
    FactGroup,
    Finding,
    Items,
    Next,
    ResultTable,
    estimate_table,
    evidence,
    result_json,
)
from ioweather.core.sparkline import sparkline
from ioweather.core.tabular import as_text, plain
from ioweather.core.units import format_bytes, format_moment, format_span, format_value, shown_zone
from ioweather.ui.cli.screen import say, say_csv, say_json, to_csv

if TYPE_CHECKING:
    from ioweather.agent.status import OperationStatus, Status, TargetStatus


_MARKS: Final = {
    "supported": ("✓", "green"),
    "refuted": ("✗", "red"),
    "undecided": ("?", "yellow"),
    "note": ("·", "cyan"),
    "alarm": ("!", "red"),
}
_WIDTH: Final = 80
_MOST_ROWS: Final = 24
_TEXT_WIDTHS: Final = (24, 18, 14)


def console() -> Console:
    """A console that draws text without interpreting it, at most 80 columns wide."""
    seen = sys.stdout.isatty()
    width = max(40, min(shutil.get_terminal_size((_WIDTH, 24)).columns, _WIDTH)) if seen else _WIDTH
    file = None if seen else _Trimmed()
    return Console(file=file, width=width, highlight=False, soft_wrap=False, markup=False, emoji=False)


class _Trimmed(io.StringIO):
    """Standard output without the blanks to which rich fills its lines; it writes whole ones."""

    def write(self, text: str) -> int:
        return sys.stdout.write("\n".join(line.rstrip(" ") for line in text.split("\n")))

    def flush(self) -> None:
        sys.stdout.flush()


def shown(text: str, style: str = "") -> Text:
    """The text as one safe line; all text drawn here passes this function."""
    return Text(one_line(text), style=style)


def print_rows(columns: Sequence[str], rows: Iterable[Sequence[Any]], form: str) -> None:
    """A plain listing as text, CSV or JSON."""
    listed = [tuple(row) for row in rows]
    if form == "json":
        say_json([dict(zip(columns, map(plain, row), strict=True)) for row in listed])
    elif form == "csv":
        say_csv(to_csv(columns, listed))
    else:
        headings = [(name, _is_number(listed, index)) for index, name in enumerate(columns)]
        texts = [[format_value(as_text(row[index])) for row in listed] for index in range(len(columns))]
        _print_table(console(), headings, texts, indent=0)


def _is_number(rows: Sequence[Sequence[Any]], index: int) -> bool:
    values = [row[index] for row in rows if row[index] is not None]
    return bool(values) and all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in values)


def _print_table(
    out: Console,
    headings: Sequence[tuple[str, bool]],
    texts: Sequence[Sequence[str]],
    indent: int = 2,
    whole: Collection[int] = (),
) -> None:
    """One table of the columns that fit beside each other; the names of the others are said below it. Columns in
    `whole` do not wrap."""
    width = out.width - indent
    least, count = fitting_columns([name for name, _ in headings], texts, width, whole)
    table = Table(box=None, pad_edge=False, padding=(0, 1), header_style="bold", show_edge=False)
    natural = [max([cell_len(headings[i][0]), *map(cell_len, texts[i])]) for i in range(count)]
    for (name, right), room in zip(headings, shared_widths(least[:count], natural, width), strict=False):
        table.add_column(shown(name), justify="right" if right else "left", overflow="fold", width=room)
    for row in zip(*texts[:count], strict=True):
        table.add_row(*map(shown, row))
    out.print(Padding(table, (0, 0, 0, indent)))
    if left := [name for name, _ in headings[count:]]:
        names = shown(f"Not shown: {', '.join(left)} (--csv or --json)", style="dim")
        out.print(Padding(names, (0, 0, 0, indent)))


def fitting_columns(
    headings: Sequence[str], texts: Sequence[Sequence[str]], width: int, whole: Collection[int] = ()
) -> tuple[list[int], int]:
    """The least width of every column, and how many of the first columns fit; long texts wrap as far as that helps."""
    ways = []
    for most in _TEXT_WIDTHS:
        least = [
            least_width(heading, column, _WIDTH if number in whole else most)
            for number, (heading, column) in enumerate(zip(headings, texts, strict=True))
        ]
        used = [sum(least[: n + 1]) + 2 * n for n in range(len(least))]
        ways.append((least, max(1, sum(each <= width for each in used))))
    return max(ways, key=lambda way: way[1])


def least_width(heading: str, texts: Sequence[str], most: int) -> int:
    """Headings and texts wrap at spaces; only very long words are broken."""
    long = [min(cell_len(word), 33) for text in texts for word in text.split()]
    return max([*map(cell_len, heading.split()), *long, *(min(cell_len(text), most) for text in texts)], default=1)


def shared_widths(least: Sequence[int], natural: Sequence[int], width: int) -> list[int]:
    """Widths of columns: the least width of each, and the remaining room for those that need least more."""
    widths = [min(each, width) for each in least]
    left = width - sum(widths) - 2 * (len(widths) - 1)
    for index in sorted(range(len(widths)), key=lambda i: natural[i] - widths[i]):
        more = max(0, min(natural[index] - widths[index], left))
        widths[index] += more
        left -= more
    return widths


@singledispatch
def draw(block: Any, out: Console) -> None:
    """Print one block; each kind of block has its function."""
    raise TypeError(f"{type(block).__name__} is no block")


def _title(out: Console, title: str) -> None:
    out.print()
    if title:
        out.print(shown(title, style="bold cyan"))


@draw.register
def _facts(group: FactGroup, out: Console) -> None:
    """A line per fact: label, bar, value and note."""
    _title(out, group.title)
    barred = any(fact.share is not None for fact in group.facts)
    table = Table.grid(padding=(0, 1))
    table.add_column(overflow="fold", max_width=26)
    if barred:
        table.add_column(width=21)
    table.add_column(justify="right", overflow="fold", max_width=38)
    table.add_column()  # a second space before notes
    table.add_column(overflow="fold")
    for fact in group.facts:
        drawn = [shown(bar(fact.share, 20) if fact.share is not None else "", "cyan")] if barred else []
        value = shown("" if fact.value == "" else format_value(fact.value, fact.unit))
        table.add_row(shown(fact.label), *drawn, value, "", shown(fact.note, "dim"))
    out.print(Padding(table, (0, 0, 0, 2)))


@draw.register
def _items(found: Items, out: Console) -> None:
    """A line per item: its name, what about it, when; then what it cost or what to type."""
    _title(out, found.title)
    table = Table.grid(padding=(0, 2))
    table.add_column(overflow="fold", max_width=26)
    table.add_column(overflow="fold")
    for number, item in enumerate(found.items, 1):
        name = f"{number}. {item.name}".rstrip() if found.numbered else item.name
        when = format_span(item.start_ns, item.end_ns) if item.start_ns is not None else ""
        if when and len(name) + len(item.what) + len(when) + 8 <= out.width:
            lines = [f"{item.what}  {when}", item.note]
        else:
            lines = [item.what, "; ".join(filter(None, (when, item.note)))]
        table.add_row(shown(name), shown(lines[0]))
        if lines[1]:
            table.add_row("", shown(lines[1], "dim"))
    out.print(Padding(table, (0, 0, 0, 2)))
    if found.more:
        out.print(Padding(shown(found.more, "dim"), (0, 0, 0, 2)))


@draw.register
def _table(table: ResultTable, out: Console) -> None:
    if not table.rows:
        return
    out.print()
    if table.title:
        out.print(Padding(shown(table.title, style="italic"), (0, 0, 0, 2)))
    rows = table.rows[:_MOST_ROWS]
    filled = [i for i, c in enumerate(table.columns) if any(value not in (None, "") for value in table.column(c.name))]
    columns = [table.columns[i] for i in filled]
    headings = [(column.heading, _is_number(table.rows, i)) for i, column in zip(filled, columns, strict=True)]
    texts = [[_cell_text(row[i], c.unit) for row in rows] for i, c in zip(filled, columns, strict=True)]
    _print_table(out, headings, texts, whole=[i for i, c in enumerate(columns) if c.unit == "time_ns"])
    if len(table.rows) > len(rows):
        out.print(shown(f"  ... {len(table.rows) - len(rows):,} more rows: --csv or --json", style="dim"))


def _cell_text(value: Cell, unit: str) -> str:
    if unit == "time_ns" and isinstance(value, int):
        return format_moment(value)
    return format_value(value, unit)


@draw.register
def _figure(chart: Chart, out: Console) -> None:
    _title(out, chart.title)
    for line in chart_lines(chart, out.width - 2):
        out.print(Padding(shown(line, style="cyan"), (0, 0, 0, 2)))


@draw.register
def _note(finding: Finding, out: Console) -> None:
    mark, colour = _MARKS[finding.kind]
    line = Table.grid(padding=(0, 1))
    line.add_column(width=1)
    line.add_column(overflow="fold")
    line.add_row(shown(mark, style=colour), shown(finding.text))
    out.print(Padding(line, (0, 0, 0, 2)))


@draw.register
def _next(step: Next, out: Console) -> None:
    out.print()
    out.print(shown(f"{step.why}: {step.command}"))


@draw.register
def _said(text: str, out: Console) -> None:
    out.print(Padding(shown(text, style="dim"), (0, 0, 0, 2)))


def _draw_all(out: Console, blocks: Iterable[Block | str]) -> None:
    """The blocks, with an empty line before the first note and the first line of small print."""
    before: type | None = None
    for block in blocks:
        if isinstance(block, (Finding, str)) and type(block) is not before:
            out.print()
        draw(block, out)
        before = type(block)


def print_exhibit(exhibit: Exhibit, form: str) -> None:
    if form == "csv":
        say_csv(exhibit_csv(exhibit))
        return
    from ioweather.core.papers.claims import LEGEND, comparison_table  # answers need no papers

    out = console()
    out.print(shown(f"{exhibit.id}  {exhibit.title}", style="bold"))
    compared = comparison_table(exhibit, places=False)
    legend = [LEGEND] if any(finding.claim for finding in exhibit.findings) else []
    charts = [replace(chart, title="") for chart in exhibit.charts[:1]]
    tables = [*estimate_table(exhibit.estimates), *exhibit.tables, *([compared] if compared else [])]
    _draw_all(out, (*exhibit.findings, *legend, *charts, *tables, *_small_print(exhibit.coverage, exhibit.caveats)))
    out.print()


def exhibit_csv(exhibit: Exhibit) -> str:
    """Tables one after the other, each under its own header; without tables, the estimates."""
    if not exhibit.tables:
        rows = [(e.name, e.value, e.unit, e.low, e.high, e.level, e.n) for e in exhibit.estimates]
        return to_csv(("estimate", "value", "unit", "low", "high", "level", "n"), rows)
    return "\n".join(to_csv([column.name for column in table.columns], table.rows) for table in exhibit.tables)


def _small_print(coverage: Sequence[Coverage], caveats: Sequence[str]) -> Iterator[str]:
    yield from (f"Coverage: {item.sentence}" for item in coverage)
    yield from caveats


def print_answer(answer: Answer, *, full: bool = False) -> None:
    """The headline and the blocks of the first screen; `full` (or without blocks): the evidence too."""
    out = console()
    out.print(shown(answer.headline, style="bold"))
    is_short = bool(answer.blocks) and not full
    _draw_all(out, answer.blocks if is_short else evidence(answer))
    zone = [f"Times are in {shown_zone()}."] if any(map(_has_times, answer.blocks)) else []
    if is_short:
        _draw_all(out, [" ".join((*answer.caveats[:1], *zone, "--full shows the evidence."))])
    else:
        _draw_all(out, (*_small_print(answer.coverage, answer.caveats), *zone))


def _has_times(block: Block) -> bool:
    if isinstance(block, Items):
        return any(item.start_ns is not None for item in block.items)
    return isinstance(block, ResultTable) and any(column.unit == "time_ns" for column in block.columns)


def show_answer(
    answer: Answer, form: str, html_file: Path | None = None, *, csv_table: str = "", full: bool = False
) -> None:
    """Print the answer as `form`; with a file, write its page there instead of the screen. CSV has the facts, or the
    table of this name where the answer is a table."""
    if html_file is not None:
        write_page(answer, html_file)
        say(f"Wrote {html_file}.", err=True)
    if form == "json":
        say_json(result_json(answer))
    elif form == "csv":
        say_csv(answer_csv(answer, csv_table))
    elif html_file is None:
        print_answer(answer, full=full)


def answer_csv(answer: Answer, table: str = "") -> str:
    """One line per fact, or the named table, in plain numbers. Scripts match on the names: words change."""
    for found in (each for exhibit in answer.exhibits for each in exhibit.tables if each.name == table):
        return to_csv([column.name for column in found.columns], found.rows)
    rows = [
        (group.title, fact.label, fact.value, fact.unit, fact.share, fact.note, group.name, fact.name)
        for group in answer.facts
        for fact in group.facts
    ]
    columns = ("group", "fact", "value", "unit", "share", "note", "group_name", "fact_name")
    return to_csv(columns, rows)


def write_page(answer: Answer, file: Path) -> None:
    if not file.parent.is_dir():  # said before the drawing, which takes a second or two
        raise UsageError(f"--html {file}: there is no directory {file.parent}.")
    from ioweather.ui.charts.page import answer_html

    try:
        file.write_text(answer_html(answer), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--html {file}: {error.strerror}.") from None


_STATUS_COLUMNS = ("operation", "last", "median", "q90", "max", "usual", "slow", "done", "bad")
_SLOW, _VERY_SLOW = 2.0, 10.0


def status_table(status: Status) -> RenderableType:
    parts: list[RenderableType] = []
    for target in status.targets:
        parts += [_target_heading(target), _target_table(target)]
    for source in status.sources:
        if source.name not in ("probe", "sample"):  # these are the targets above
            parts.append(shown(f"{source.name}: {source.state}, {source.rows:,} rows. {source.message}", style="dim"))
    return Group(*parts)


def _target_heading(target: TargetStatus) -> Text:
    text = shown(target.target, style="bold")
    text.append(shown(f"  {target.state}", "red" if target.state in ("hung", "failed") else "default"))
    if target.in_flight is not None and target.state != "stopped":
        text.append(shown(f", {target.in_flight.op} for {format_value(target.in_flight.age_ns, 'ns')}"))
    if target.message:
        text.append(shown(f"  {target.message}", "dim"))
    return text


def _target_table(target: TargetStatus) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim", collapse_padding=True)
    for place, name in enumerate(_STATUS_COLUMNS):
        table.add_column(name, justify="left" if place == 0 else "right", no_wrap=True)
    with_mode = len({(entry.op, entry.mode) for entry in target.operations}) > len({e.op for e in target.operations})
    for operation in target.operations:
        table.add_row(*_operation_cells(operation, with_mode))
    return table


def _operation_cells(operation: OperationStatus, with_mode: bool) -> list[Text]:
    last = operation.last
    recent = operation.recent
    failure = errno.errorcode.get(last.errno or 0, "failed") if last is not None and last.status == "error" else ""
    times = [
        failure or format_value(last.duration_ns if last else None, "ns"),
        *(format_value(value, "ns") for value in (recent.median_ns, recent.q90_ns, recent.max_ns)),
        format_value(operation.expected_ns, "ns"),
    ]
    counts = (operation.ok_count, operation.error_count + operation.missed_count)
    size = f" {format_bytes(operation.request_bytes)}" if operation.request_bytes else ""
    mode = f" {operation.mode}" if with_mode else ""
    return [
        shown(f"{operation.op}{size}{mode}"),
        *(shown(cell) for cell in times),
        _slowdown(operation.slowdown_ratio),
        *(shown(f"{count:,}" if count else "–") for count in counts),
    ]


def _slowdown(ratio: float | None) -> Text:
    style = "default" if ratio is None or ratio < _SLOW else "yellow" if ratio < _VERY_SLOW else "red"
    return shown(format_value(ratio, "factor"), style=style)


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
    """The value as a float; None for text, truth values and NaN."""
    known = isinstance(value, (int, float)) and not isinstance(value, bool) and value == value
    return float(value) if known and value is not None else None


def _share(value: float, top: float) -> float:
    """The value as a share of the largest; infinity is 1."""
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
    """A line per metric: its history, this run's value, and its place among the quartiles."""
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
    """Too many bars for a line each: one line per series, a character per bar, and the place of the highest."""
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
