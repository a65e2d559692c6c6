"""The terminal renderer: rows, exhibits, answers and agent status within the width of the terminal (80 without one).

rich uses colour only on a terminal, and never with NO_COLOR.
"""

from __future__ import annotations

import errno
import io
import math
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ioweather.core.errors import UsageError
from ioweather.core.foreign_text import one_line
from ioweather.core.results import (
    Answer,
    Cell,
    Chart,
    Coverage,
    Estimate,
    Exhibit,
    Fact,
    ResultTable,
    quantity_label,
    result_json,
)
from ioweather.core.sparkline import sparkline
from ioweather.core.tabular import as_text, plain
from ioweather.core.units import format_bytes, format_value
from ioweather.ui.cli.screen import say, say_csv, say_json, to_csv

if TYPE_CHECKING:
    from ioweather.agent.status import OperationStatus, Status, TargetStatus


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
    """A console that draws text without interpreting it."""
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
    """The text as one safe line; all text drawn here passes this function."""
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
    from ioweather.core.papers.claims import (
        LEGEND,  # answers need no papers
        comparison_table,
    )

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
    """The number of leading columns that identify a row; the first alone if those leave little room."""
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
    """Widths of columns: the least width of each, and the remaining room for those that need least more."""
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


def show_answer(
    answer: Answer,
    form: str,
    html_file: Path | None = None,
    *,
    csv_table: str = "",
    brief: Mapping[str, int] | None = None,
) -> None:
    """Print the answer as `form`; with a file, write its page there instead of the screen. CSV has the facts, or the
    table of this name where the answer is a table. `brief`: on the screen only so many facts of these groups."""
    if html_file is not None:
        write_page(answer, html_file)
        say(f"Wrote {html_file}.", err=True)
    if form == "json":
        say_json(result_json(answer))
    elif form == "csv":
        say_csv(answer_csv(answer, csv_table))
    elif html_file is None:
        print_answer(shortened(answer, brief) if brief else answer, is_short=bool(brief))


_EVIDENCE = ("_interval", "_model", "_how")  # lines about the one above them
_ALWAYS = ("reading", "writing", "read", "write", "sequential")  # rows that are never cut


def shortened(answer: Answer, brief: Mapping[str, int]) -> Answer:
    """The answer cut to one screen: the largest facts of some groups, and the findings that matter."""
    groups = {group.name: group for group in answer.facts if group.name in brief}
    if not groups:  # an answer of another kind, such as that of servers alone
        return answer
    facts = {name: _largest(groups[name].facts, most) for name, most in brief.items() if name in groups}
    return replace(
        answer,
        facts=tuple(replace(groups[name], facts=rows) for name, rows in facts.items() if rows),
        exhibits=(),
        # A finding with the name of a group that is shown says more about it.
        findings=tuple(f for f in answer.findings if f.name not in groups and (f.kind != "note" or f.name in brief)),
        coverage=(),
        caveats=answer.caveats[:1],
    )


def _largest(facts: Sequence[Fact], most: int) -> tuple[Fact, ...]:
    """The largest `most` rows in their order, and how many were cut; the first ones where not all have shares."""
    rows = [fact for fact in facts if not fact.name.endswith(_EVIDENCE) and fact.share != 0]
    if any(fact.share is None for fact in rows):
        return tuple(rows[:most])
    ranked = sorted(rows, key=lambda fact: (fact.name not in _ALWAYS, -(fact.share or 0.0)))
    shown = tuple(fact for fact in rows if fact in ranked[:most])
    cut = len(rows) - len(shown)
    more = Fact("more_rows", f"+{cut} smaller row{'s' if cut > 1 else ''}", "")
    return (*shown, more) if cut else shown


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
