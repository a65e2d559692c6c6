"""The one terminal renderer: rows, exhibits and answers, within the width of the terminal (80 where there is none).

Colour only on a terminal, and never with NO_COLOR: rich sees to both.
"""

from __future__ import annotations

import io
import shutil
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ioweather.cli.screen import say_csv, say_json, to_csv
from ioweather.cli.sparks import bar, chart_lines
from ioweather.core.cells import as_text, plain
from ioweather.core.printable import one_line
from ioweather.core.results import Answer, Coverage, Estimate, Exhibit, ResultTable, quantity_label
from ioweather.core.units import format_value

_MARKS = {
    "supported": ("✓", "green"),
    "refuted": ("✗", "red"),
    "undecided": ("?", "yellow"),
    "note": ("·", "cyan"),
    "alarm": ("!", "red"),
}
_MOST_ROWS, _MOST_ROWS_OF_PARTS = 40, 24
_TEXT_WIDTHS = (24, 18, 14)


def console() -> Console:
    """Whatever it draws is text as it stands."""
    seen = sys.stdout.isatty()
    width = max(40, min(shutil.get_terminal_size((80, 24)).columns, 120)) if seen else 80
    file = None if seen else _Trimmed()
    return Console(file=file, width=width, highlight=False, soft_wrap=False, markup=False, emoji=False)


class _Trimmed(io.StringIO):
    """Standard output without the blanks to which rich fills its lines; it writes whole ones."""

    def write(self, text: str) -> int:
        return sys.stdout.write("\n".join(line.rstrip(" ") for line in text.split("\n")))

    def flush(self) -> None:
        sys.stdout.flush()


def shown(text: str, style: str = "") -> Text:
    """Whatever is drawn here passes this."""
    return Text(one_line(text), style=style)


def print_rows(columns: Sequence[str], rows: Iterable[Sequence[Any]], form: str) -> None:
    """A plain listing as text, CSV or JSON."""
    listed = [tuple(row) for row in rows]
    if form == "json":
        objects = [dict(zip(columns, map(plain, row), strict=True)) for row in listed]
        say_json(objects)
    elif form == "csv":
        say_csv(to_csv(columns, listed))
    else:
        out = console()
        headings = [(name, _is_number(listed, index)) for index, name in enumerate(columns)]
        cells = [[format_value(as_text(row[index])) for row in listed] for index in range(len(columns))]
        least, parts = table_parts(columns, cells, out.width)
        if len(parts) > 1:
            _in_parts(out, headings, cells, least, parts)
            return
        table = _table(headings)
        for texts in zip(*cells, strict=True):
            table.add_row(*map(shown, texts))
        out.print(table)


def _is_number(rows: Sequence[Sequence[Any]], index: int) -> bool:
    values = [row[index] for row in rows if row[index] is not None]
    return bool(values) and all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in values)


def _table(columns: Sequence[tuple[str, bool]], widths: Sequence[int] | None = None) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1), header_style="bold", show_edge=False)
    for index, (name, right) in enumerate(columns):
        table.add_column(
            shown(name), justify="right" if right else "left", overflow="fold", width=widths[index] if widths else None
        )
    return table


def _cell(value: Any, unit: str = "") -> Text:
    return shown(format_value(value, unit))


def print_exhibit(exhibit: Exhibit, form: str) -> None:
    if form == "csv":
        say_csv(exhibit_csv(exhibit))
        return
    from ioweather.core.papers.claims import LEGEND  # answers need no papers
    from ioweather.core.papers.comparison import comparison_table

    out = console()
    out.print(shown(f"{exhibit.id}  {exhibit.title}", style="bold"))
    _findings(out, exhibit)
    if any(finding.claim for finding in exhibit.findings):
        out.print(Padding(shown(LEGEND, style="dim"), (0, 0, 0, 2)))
    for chart in exhibit.charts[:1]:
        for line in chart_lines(chart, out.width - 2):
            out.print(Padding(shown(line, style="cyan"), (0, 0, 0, 2)))
    _estimates(out, exhibit.estimates)
    for table in exhibit.tables:
        _result_table(out, table)
    compared = comparison_table(exhibit, places=False)
    if compared is not None:
        _result_table(out, compared)
    _foot(out, exhibit.coverage, exhibit.caveats)
    out.print()


def exhibit_csv(exhibit: Exhibit) -> str:
    """Tables one after the other, each under its own header; without tables, the estimates."""
    if not exhibit.tables:
        rows = [(e.name, e.value, e.unit, e.low, e.high, e.level, e.n) for e in exhibit.estimates]
        return to_csv(("estimate", "value", "unit", "low", "high", "level", "n"), rows)
    return "\n".join(to_csv([column.name for column in table.columns], table.rows) for table in exhibit.tables)


def _findings(out: Console, result: Exhibit | Answer) -> None:
    for finding in result.findings:
        mark, colour = _MARKS[finding.kind]
        line = Table.grid(padding=(0, 1))
        line.add_column(width=1)
        line.add_column(overflow="fold")
        line.add_row(shown(mark, style=colour), shown(finding.text))
        out.print(Padding(line, (0, 0, 0, 2)))


def _estimates(out: Console, every: Sequence[Estimate], most: int = 16) -> None:
    if not every:
        return
    out.print()
    estimates = every[:most]
    level = next((e.level for e in estimates if e.level), None)
    # Columns that would be empty are left out: the room is needed.
    columns = [("quantity", False), ("here", True)]
    columns += [(f"{level:.0%} interval" if level < 1 else "at least – at most", False)] if level else []
    columns += [("n", True)] if any(e.n is not None for e in estimates) else []
    table = _table(columns)
    for estimate in estimates:
        cells: dict[str, Text | str] = {
            "quantity": shown(quantity_label(estimate.name, estimate.unit)),
            "here": _cell(estimate.value, estimate.unit),
            "n": _cell(estimate.n) if estimate.n is not None else "",
        }
        table.add_row(*(cells.get(name, _interval(estimate)) for name, _ in columns))
    out.print(Padding(table, (0, 0, 0, 2)))
    if len(every) > most:
        out.print(shown(f"  ... {len(every) - most} more: --json", style="dim"))


def _interval(estimate: Estimate) -> str:
    if estimate.low is None or estimate.high is None:
        return ""
    return f"{format_value(estimate.low, estimate.unit)} – {format_value(estimate.high, estimate.unit)}"


def _result_table(out: Console, table: ResultTable) -> None:
    if not table.rows:
        return
    out.print()
    if table.title:
        out.print(Padding(shown(table.title, style="italic"), (0, 0, 0, 2)))
    rows = table.rows[:_MOST_ROWS]
    cells = [[format_value(row[i], column.unit) for row in rows] for i, column in enumerate(table.columns)]
    least, parts = table_parts([column.heading for column in table.columns], cells, out.width - 2)
    if len(parts) > 1:
        rows = rows[:_MOST_ROWS_OF_PARTS]
    headings = [(column.heading, _is_number(table.rows, i)) for i, column in enumerate(table.columns)]
    _in_parts(out, headings, [texts[: len(rows)] for texts in cells], least, parts, indent=2)
    if len(table.rows) > len(rows):
        out.print(shown(f"  ... {len(table.rows) - len(rows):,} more rows: --csv or --json", style="dim"))


def _in_parts(
    out: Console,
    headings: Sequence[tuple[str, bool]],
    cells: Sequence[Sequence[str]],
    least: Sequence[int],
    parts: Sequence[Sequence[int]],
    indent: int = 0,
) -> None:
    for number, chosen in enumerate(parts):
        if number:
            out.print()
        natural = [max([len(headings[i][0]), *map(len, cells[i])]) for i in chosen]
        drawn = _table(
            [headings[i] for i in chosen], shared_widths([least[i] for i in chosen], natural, out.width - indent)
        )
        for row in range(len(cells[0])):
            drawn.add_row(*(shown(cells[i][row]) for i in chosen))
        out.print(Padding(drawn, (0, 0, 0, indent)))


def table_parts(
    headings: Sequence[str], cells: Sequence[Sequence[str]], width: int
) -> tuple[list[int], list[list[int]]]:
    """The least width of every column, and the columns in groups that fit side by side.

    Long texts wrap as far as that gives fewer parts. A table that stays too wide is shown in parts rather than a word
    per line, each part led by the columns that tell its rows apart.
    """
    ways = []
    for most in _TEXT_WIDTHS:
        least = [least_width(heading, texts, most) for heading, texts in zip(headings, cells, strict=True)]
        whole = sum(least) + 2 * (len(least) - 1) <= width
        leading = len(least) if whole else _telling(cells, least, width)
        ways.append((least, fitting_columns(least, leading, width)))
    return min(ways, key=lambda way: len(way[1]))


def least_width(heading: str, texts: Sequence[str], most: int) -> int:
    """Headings and texts wrap at spaces; only very long words are broken."""
    words = [len(word) for word in heading.split()] + [min(len(word), 33) for text in texts for word in text.split()]
    return max(words + [min(len(text), most) for text in texts], default=1)


def _telling(cells: Sequence[Sequence[str]], least: Sequence[int], width: int) -> int:
    """How many leading columns it takes to tell the rows apart; the first alone where those leave little room."""
    rows = len(cells[0])
    for count in range(1, len(cells)):
        if sum(least[:count]) + 2 * count > 0.7 * width:
            break
        if len(set(zip(*cells[:count], strict=True))) == rows:
            return count
    return 1


def fitting_columns(least: Sequence[int], leading: int, width: int) -> list[list[int]]:
    """The columns in groups that fit side by side, each after the `leading` ones."""
    lead = list(range(leading))
    start = sum(least[:leading]) + 2 * (leading - 1)
    groups, used = [list(lead)], start
    for index in range(leading, len(least)):
        if used + 2 + least[index] > width and len(groups[-1]) > leading:
            groups.append(list(lead))
            used = start
        groups[-1].append(index)
        used += 2 + least[index]
    return groups


def shared_widths(least: Sequence[int], natural: Sequence[int], width: int) -> list[int]:
    """Every column its least width; what is left goes to those that want more, the modest ones first."""
    widths = list(least)
    left = width - sum(least) - 2 * (len(least) - 1)
    for index in sorted(range(len(least)), key=lambda i: natural[i] - least[i]):
        more = max(0, min(natural[index] - least[index], left))
        widths[index] += more
        left -= more
    return widths


def _foot(out: Console, coverage: Sequence[Coverage], caveats: Sequence[str]) -> None:
    lines = [f"Coverage: {item.sentence}" for item in coverage] + list(caveats)
    if lines:
        out.print()
    for line in lines:
        out.print(Padding(shown(line, style="dim"), (0, 0, 0, 2)))


def print_answer(answer: Answer, *, is_short: bool = False) -> None:
    """One screen: headline, facts with bars, findings, coverage."""
    out = console()
    out.print(shown(answer.headline, style="bold"))
    for group in answer.facts:
        out.print()
        out.print(shown(group.title, style="bold cyan"))
        table = Table.grid(padding=(0, 1))
        table.add_column(overflow="fold", max_width=26)
        table.add_column(justify="right", overflow="fold", max_width=38)
        table.add_column()  # a second space before bars and notes
        table.add_column(overflow="fold")
        for fact in group.facts:
            drawn = shown(f"{bar(fact.share, 20)} ", style="cyan") if fact.share is not None else shown("")
            table.add_row(shown(fact.label), _cell(fact.value, fact.unit), "", drawn + shown(fact.note, style="dim"))
        out.print(Padding(table, (0, 0, 0, 2)))
    for exhibit in answer.exhibits:
        if not exhibit.charts:  # a table that is the answer; one beside a chart is on its page
            for result in exhibit.tables:
                _result_table(out, result)
        for chart in exhibit.charts:
            out.print()
            out.print(shown(chart.title or exhibit.title, style="bold cyan"))
            for line in chart_lines(chart, out.width - 2):
                out.print(Padding(shown(line, style="cyan"), (0, 0, 0, 2)))
    if answer.findings:
        out.print()
        _findings(out, answer)
    more = ("--full shows the evidence, coverage and caveats.",) if is_short else ()
    _foot(out, answer.coverage, (" ".join((*answer.caveats, *more)),) if is_short else answer.caveats)
