"""The terminal renderer: blocks of answers, exhibits and plain listings, at most 80 columns wide.

rich uses colour only on a terminal, and never with NO_COLOR.
"""

from __future__ import annotations

import io
import math
import shutil
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ioweather.core.errors import UsageError
from ioweather.core.results import (
    Answer,
    Block,
    Cell,
    Chart,
    Exhibit,
    FactGroup,
    Finding,
    Items,
    Next,
    ResultTable,
    estimate_table,
    evidence_blocks,
    result_json,
)
from ioweather.core.tabular import as_text, plain
from ioweather.core.units import format_moment, format_span, format_value, one_line, shown_zone, sparkline, unit_of_name
from ioweather.ui.cli.screen import say, say_csv, say_json

_MARKS: Final = {
    "supported": ("✓", "green"),
    "refuted": ("✗", "red"),
    "undecided": ("?", "yellow"),
    "note": ("·", "cyan"),
    "alarm": ("!", "red"),
}
_WIDTH: Final = 80
_MOST_ROWS: Final = 24
_TEXT_WIDTHS: Final = (24, 18, 14)  # longer texts wrap; narrower where more columns fit then


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
        say_csv((columns, listed))
    else:
        headings = [(name, _is_number(listed, index)) for index, name in enumerate(columns)]
        texts = [
            [format_value(as_text(row[index]), unit_of_name(name)) for row in listed]
            for index, name in enumerate(columns)
        ]
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
    """Print the columns that fit beside each other, and name the others below. `headings` have a name, and whether the
    column is of numbers; columns in `whole` do not wrap."""
    width = out.width - indent
    least, count = [0], 1
    for most in _TEXT_WIDTHS:
        least = [
            _least_width(name, column, _WIDTH if number in whole else most)
            for number, ((name, _), column) in enumerate(zip(headings, texts, strict=True))
        ]
        count = max(1, sum(sum(least[: n + 1]) + 2 * n <= width for n in range(len(least))))
        if count == len(least):
            break
    widths = [min(each, width) for each in least[:count]]
    natural = [max(map(cell_len, (headings[i][0], *texts[i]))) for i in range(count)]
    left = width - sum(widths) - 2 * (count - 1)
    for i in sorted(range(count), key=lambda i: natural[i] - widths[i]):  # room for those that need least more
        more = max(0, min(natural[i] - widths[i], left))
        widths[i], left = widths[i] + more, left - more
    table = Table(box=None, pad_edge=False, padding=(0, 1), header_style="bold", show_edge=False)
    for (name, right), room in zip(headings, widths, strict=False):
        table.add_column(shown(name), justify="right" if right else "left", overflow="fold", width=room)
    for row in zip(*texts[:count], strict=True):
        table.add_row(*map(shown, row))
    out.print(Padding(table, (0, 0, 0, indent)))
    if names := [name for name, _ in headings[count:]]:
        text = shown(f"Not shown: {', '.join(names)} (--csv or --json)", style="dim")
        out.print(Padding(text, (0, 0, 0, indent)))


def _least_width(heading: str, texts: Sequence[str], most: int) -> int:
    """The width at which a column wraps at spaces; only very long words are broken."""
    long = [min(cell_len(word), 33) for text in texts for word in text.split()]
    return max([*map(cell_len, heading.split()), *long, *(min(cell_len(text), most) for text in texts)], default=1)


def _draw(out: Console, block: Block | str) -> None:
    """Print one block; a text is small print."""
    match block:
        case FactGroup():
            # A line per fact: label, bar, value and note.
            _title(out, block.title)
            barred = any(fact.share is not None for fact in block.facts)
            table = Table.grid(padding=(0, 1))
            table.add_column(overflow="fold", max_width=26)
            if barred:
                table.add_column(width=21)
            table.add_column(justify="right", overflow="fold", max_width=38)
            table.add_column()  # a second space before notes
            table.add_column(overflow="fold")
            for fact in block.facts:
                drawn = [shown(bar(fact.share, 20) if fact.share is not None else "", "cyan")] if barred else []
                value = shown("" if fact.value == "" else format_value(fact.value, fact.unit))
                table.add_row(shown(fact.label), *drawn, value, "", shown(fact.note, "dim"))
            _indented(out, table)
        case Items():
            # A line per item: its name, what about it, when; then what it cost or what to type.
            _title(out, block.title)
            table = Table.grid(padding=(0, 2))
            table.add_column(overflow="fold", max_width=26)
            table.add_column(overflow="fold")
            for number, item in enumerate(block.items, 1):
                name = f"{number}. {item.name}".rstrip() if block.numbered else item.name
                when = format_span(item.start_ns, item.end_ns) if item.start_ns is not None else ""
                if when and len(name) + len(item.what) + len(when) + 8 <= out.width:
                    lines = [f"{item.what}  {when}", item.note]
                else:
                    lines = [item.what, "; ".join(filter(None, (when, item.note)))]
                table.add_row(shown(name), shown(lines[0]))
                if lines[1]:
                    table.add_row("", shown(lines[1], "dim"))
            _indented(out, table)
            if block.more:
                _indented(out, shown(block.more, "dim"))
        case ResultTable():
            print_table(block, out)
        case Chart():
            if lines := chart_lines(block, out.width - 2):
                _title(out, block.title)
            for line in lines:
                _indented(out, shown(line, style="cyan"))
        case Finding():
            mark, colour = _MARKS[block.kind]
            line_ = Table.grid(padding=(0, 1))
            line_.add_column(width=1)
            line_.add_column(overflow="fold")
            line_.add_row(shown(mark, style=colour), shown(block.text))
            _indented(out, line_)
        case Next():
            out.print()
            out.print(shown(f"{block.why}: {block.command}"))
        case str():
            _indented(out, shown(block, style="dim"))


def _indented(out: Console, what: RenderableType) -> None:
    out.print(Padding(what, (0, 0, 0, 2)))


def _title(out: Console, title: str) -> None:
    out.print()
    if title:
        out.print(shown(title, style="bold cyan"))


def print_table(table: ResultTable, out: Console | None = None, most: int = _MOST_ROWS) -> None:
    """Print a table of a result: columns with a value, at most 24 rows."""
    if not table.rows:
        return
    out = out or console()
    out.print()
    if table.title:
        _indented(out, shown(table.title, style="italic"))
    rows = table.rows[:most]
    filled = [i for i, c in enumerate(table.columns) if any(value not in (None, "") for value in table.column(c.name))]
    units = [table.columns[i].unit for i in filled]
    headings = [(table.columns[i].heading, _is_number(table.rows, i)) for i in filled]
    texts = [[_cell_text(row[i], unit) for row in rows] for i, unit in zip(filled, units, strict=True)]
    _print_table(out, headings, texts, whole=[place for place, unit in enumerate(units) if unit == "time_ns"])
    if len(table.rows) > len(rows):
        _indented(out, shown(f"... {len(table.rows) - len(rows):,} more rows: --csv or --json", style="dim"))


def _cell_text(value: Cell, unit: str) -> str:
    return format_moment(value) if unit == "time_ns" and isinstance(value, int) else format_value(value, unit)


def _draw_all(out: Console, blocks: Iterable[Block | str]) -> None:
    """The blocks, with an empty line before the first note and the first line of small print."""
    before: type | None = None
    for block in blocks:
        if isinstance(block, (Finding, str)) and type(block) is not before:
            out.print()
        _draw(out, block)
        before = type(block)


def render_text(blocks: Iterable[Block], width: int) -> str:
    """Blocks as plain text, for a mail."""
    out = Console(file=io.StringIO(), width=width, highlight=False, markup=False, emoji=False, color_system=None)
    with out.capture() as drawn:
        _draw_all(out, blocks)
    return "\n".join(line.rstrip() for line in drawn.get().splitlines()) + "\n"


def print_exhibit(exhibit: Exhibit, form: str) -> None:
    """An exhibit on the terminal; as CSV its tables, without tables its estimates."""
    if form == "csv":
        estimates = [(e.name, e.value, e.unit, e.low, e.high, e.level, e.n) for e in exhibit.estimates]
        names = ("estimate", "value", "unit", "low", "high", "level", "n")
        say_csv(*map(_plain, exhibit.tables) if exhibit.tables else [(names, estimates)])
        return
    from ioweather.core.papers.claim_tests import LEGEND, comparison_table

    out = console()
    out.print(shown(f"{exhibit.id}  {exhibit.title}", style="bold"))
    compared = comparison_table(exhibit, places=False)
    legend = [LEGEND] if any(finding.claim for finding in exhibit.findings) else []
    charts = [replace(chart, title="") for chart in exhibit.charts[:1]]
    tables = [*estimate_table(exhibit.estimates), *exhibit.tables, *([compared] if compared else [])]
    _draw_all(out, (*exhibit.findings, *legend, *charts, *tables, *_small_print(exhibit)))
    out.print()


def _plain(table: ResultTable) -> tuple[Sequence[str], Iterable[Sequence[Any]]]:
    return [column.name for column in table.columns], table.rows


def _small_print(result: Answer | Exhibit) -> tuple[str, ...]:
    return (*(f"Coverage: {item.sentence}" for item in result.coverage), *result.caveats)


def print_answer(answer: Answer, *, full: bool = False) -> None:
    """The headline and the blocks of the first screen; `full` (or without blocks): the evidence too."""
    out = console()
    out.print(shown(answer.headline, style="bold"))
    has_times = any(
        any(item.start_ns is not None for item in block.items)
        if isinstance(block, Items)
        else isinstance(block, ResultTable) and any(column.unit == "time_ns" for column in block.columns)
        for block in answer.blocks
    )
    zone = [f"Times are in {shown_zone()}."] if has_times else []
    if answer.blocks and not full:
        _draw_all(out, answer.blocks)
        _draw_all(out, [" ".join((*answer.caveats[:1], *zone, "--full shows the evidence."))])
    else:
        _draw_all(out, evidence_blocks(answer))
        _draw_all(out, (*_small_print(answer), *zone))


def show_answer(
    answer: Answer, form: str, html_file: Path | None = None, *, csv_table: str = "", full: bool = False
) -> None:
    """Print the answer as `form`; with a file, write its page there instead of the screen. CSV has the facts, or the
    table of this name where the answer is a table."""
    if html_file is not None:
        file = html_file
        if not file.parent.is_dir():  # said before the drawing, which takes a second or two
            raise UsageError(f"--html {file}: there is no directory {file.parent}.")
        from ioweather.ui.charts.page import answer_html  # most answers are no pages

        try:
            file.write_text(answer_html(answer), encoding="utf-8")
        except OSError as error:
            raise UsageError(f"--html {file}: {error.strerror}.") from None
        say(f"Wrote {html_file}.", err=True)
    if form == "json":
        say_json(result_json(answer))
    elif form == "csv":
        tables = [each for exhibit in answer.exhibits for each in exhibit.tables if each.name == csv_table]
        columns = ("group", "fact", "value", "unit", "share", "note", "group_name", "fact_name")
        # Scripts match on the names: words change.
        rows = [
            (group.title, fact.label, fact.value, fact.unit, fact.share, fact.note, group.name, fact.name)
            for group in answer.facts
            for fact in group.facts
        ]
        say_csv(_plain(tables[0]) if tables else (columns, rows))
    elif html_file is None:
        print_answer(answer, full=full)


_EIGHTHS = " ▏▎▍▌▋▊▉█"
_MOST_BARS = 16
_MOST_LINES = 6
_QUANTILES = (0.25, 0.5, 0.75, 0.9, 0.99)


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
        panels = chart.table.column(chart.facet)
        rows = tuple(row for row, panel in zip(chart.table.rows, panels, strict=True) if panel == panels[0])
        lines = chart_lines(replace(chart, facet=None, table=replace(chart.table, rows=rows)), width)
        return [f"{format_value(panels[0])}:", *lines] if lines else []
    draw = _LINES.get(chart.kind)
    return draw(chart, width) if draw else []


def _column(chart: Chart, role: str) -> tuple[list[Cell], str]:
    """The cells of a channel, and their unit."""
    name = chart.encoding[role]
    unit = next(column.unit for column in chart.table.columns if column.name == name)
    return list(chart.table.column(name)), unit


def _numbers(chart: Chart, role: str) -> list[float | None]:
    """The cells of a channel as floats; None for text, truth values and NaN."""
    return [_number(value) for value in _column(chart, role)[0]]


def _number(value: Cell) -> float | None:
    known = isinstance(value, (int, float)) and not isinstance(value, bool) and value == value
    return float(value) if known and value is not None else None


def _texts(chart: Chart, role: str) -> list[str]:
    cells, unit = _column(chart, role)
    return [format_value(cell, unit) for cell in cells]


def _rows_by(chart: Chart, role: str) -> dict[str, list[int]]:
    """Row numbers by series or metric."""
    found: dict[str, list[int]] = {}
    for index, name in enumerate(_texts(chart, role) if role in chart.encoding else [""] * len(chart.table.rows)):
        found.setdefault(name, []).append(index)
    return found


def _share(value: float, top: float) -> float:
    """The value as a share of the largest; infinity is 1."""
    return 1.0 if value == math.inf else value / top if 0 < top < math.inf else 0.0


def _timeline(chart: Chart, width: int) -> list[str]:
    """A sparkline per series with its peak, above the first and last time."""
    y, unit = _numbers(chart, "y"), _column(chart, "y")[1]
    series = dict(list(_rows_by(chart, "series").items())[:_MOST_LINES])
    margin = min(18, max(len(name) for name in series)) + 1
    space = max(10, width - margin - 18)
    lines = []
    for name, rows in series.items():
        values = [y[i] for i in rows]
        peak = max((v for v in values if v is not None), default=None)
        lines.append(f"{name[: margin - 1]:{margin}}{sparkline(values, space):{space}} peak {format_value(peak, unit)}")
    first, *_, last = (text[:16] for text in [*_texts(chart, "x")[:1], *_texts(chart, "x")[-1:]])
    if space > len(first) + len(last):
        lines.append(" " * margin + first + " " * (space - len(first) - len(last)) + last)
    return lines


def _cdf(chart: Chart, width: int) -> list[str]:
    """Quantiles as a row of numbers: what one reads off the curve."""
    x, y, unit = _numbers(chart, "x"), _numbers(chart, "y"), _column(chart, "x")[1]
    lines = []
    for name, rows in list(_rows_by(chart, "series").items())[:_MOST_LINES]:
        quantiles = [(share, next((x[i] for i in rows if (y[i] or 0.0) >= share), None)) for share in _QUANTILES]
        parts = [f"{share:.0%} ≤ {format_value(value, unit)}" for share, value in quantiles]
        while len(parts) > 1 and len(f"{name}: {', '.join(parts)}") > width:
            parts.pop(0)
        lines.append((f"{name}: " if name else "") + ", ".join(parts))
    return [line if len(line) <= width else line[: width - 1] + "…" for line in lines]


def _bars(chart: Chart, width: int) -> list[str]:
    """A line per bar; of too many a line per series, a character per bar, and the place of the highest."""
    y = [value or 0.0 for value in _numbers(chart, "y")]
    top = max((v for v in y if v < math.inf), default=0.0)
    if chart.kind == "histogram":
        edges = zip(_texts(chart, "low"), _texts(chart, "high"), strict=True)
        labels = [f"{low} to {high}" for low, high in edges]
    else:
        labels = _texts(chart, "x")
    values, series = _texts(chart, "y"), _rows_by(chart, "series")
    # Bars of nothing say little, and the room is needed.
    shown = [i for i in range(len(y)) if y[i] != 0]
    lines = []
    if len(shown) > _MOST_BARS:
        margin = min(18, max(map(len, series))) + 1
        for name, rows in series.items():
            highest = max(rows, key=lambda i: y[i])
            peak = f"peak {values[highest]} at {labels[highest]}"
            space = max(10, min(width - margin - len(peak) - 1, 48))
            drawn = "".join(each * max(1, space // len(rows)) for each in sparkline([y[i] for i in rows], space))
            lines.append(f"{name[: margin - 1]:{margin}}{drawn} {peak}")
        return lines
    if "series" in chart.encoding:
        labels = [f"{label} {name}" for label, name in zip(labels, _texts(chart, "series"), strict=True)]
    margin = min(36, max((len(labels[i]) for i in shown), default=0))
    space = max(8, width - margin - 2 - max((len(values[i]) for i in shown), default=0))
    return [f"{labels[i][:margin]:>{margin}} {bar(_share(y[i], top), space)} {values[i]}" for i in shown]


_LINES: Final[dict[str, Callable[[Chart, int], list[str]]]] = {
    "timeline": _timeline,
    "band": _timeline,
    "cdf": _cdf,
    "histogram": _bars,
    "bars": _bars,
}
