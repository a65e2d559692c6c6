"""Write results to files, by their ending."""

from __future__ import annotations

import json
import math
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Final, Literal, cast

from ioweather._version import __version__
from ioweather.core.contracts import ALL_TIME, Period
from ioweather.core.errors import UsageError
from ioweather.core.papers import PAPERS
from ioweather.core.papers.claim_tests import comparison_table
from ioweather.core.results import Exhibit, ResultTable, estimate_table, result_json
from ioweather.core.safe_files import write_whole
from ioweather.core.tabular import csv_text
from ioweather.core.units import GIB, KIB, MIB, PIB, TIB, format_time_ns, format_value
from ioweather.lake.lake import Lake
from ioweather.ui.charts.page import exhibit_html
from ioweather.ui.charts.render import Column, exhibit_figure

# Result tables as text for papers and wikis: LaTeX, Markdown and CSV.

_TEX: Final = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "–": "--",
    "≥": r"$\geq$",
    "≤": r"$\leq$",
    "µ": r"$\mu$",
    "✓": "yes",
    "✗": "no",
    "∞": r"$\infty$",
}


# A column of a printed table has one unit, in its head: the units to choose from, the smallest first.
_PRINTED_UNITS: Final[Mapping[str, tuple[tuple[str, float], ...]]] = {
    "bytes": (("B", 1), ("KiB", KIB), ("MiB", MIB), ("GiB", GIB), ("TiB", TIB), ("PiB", PIB)),
    "bytes_per_s": (("B/s", 1), ("KiB/s", KIB), ("MiB/s", MIB), ("GiB/s", GIB), ("TiB/s", TIB)),
    "seconds": (("µs", 1e-6), ("ms", 1e-3), ("s", 1), ("min", 60), ("h", 3600), ("d", 86_400)),
    "ns": (("µs", 1e3), ("ms", 1e6), ("s", 1e9), ("min", 6e10), ("h", 3.6e12), ("d", 8.64e13)),
    "ratio": (("%", 0.01),),
    "mib_per_s_per_node": (("MiB/s/node", 1),),
    "ops_per_s": (("1/s", 1),),
}
# TeX points, for letters of 8 points: the text of a page of 174 mm, one of its two columns of 84 mm.
_PAGE_PT: Final = 495.0
_COLUMN_PT: Final = 239.0
_MOST_LINES: Final = 58  # of a table
_GAP_PT: Final = 6.0  # between columns
_LEAST_TEXT_PT: Final = 80.0
_LONG_TEXT_PT: Final = 110.0  # longer cells are set in lines


@dataclass(frozen=True)
class _PrintedColumn:
    """A column of a printed table: the lines of its head and its cells, not yet escaped, its alignment and its width in
    points; a `wraps` column can be narrower."""

    head: Sequence[str]
    cells: Sequence[str]
    side: Literal["l", "r"]
    points: float
    wraps: bool = False


def to_latex(tables: Sequence[ResultTable], origin: str, label: str = "") -> str:
    """Return each table as a `table` with booktabs rules, a label, and units in the head; `origin` ends its caption.

    Letters have 8 points. What is wider than a page of 174 mm, or longer than it, is divided into several tables.
    """
    labels = [f"tab:{label}" + (f"-{table.name}" if number else "") for number, table in enumerate(tables)]
    body = "\n".join(_latex_table(table, origin, name) for table, name in zip(tables, labels, strict=True))
    return f"% \\usepackage{{array,booktabs}}\n{body}"


def _latex_table(table: ResultTable, origin: str, label: str) -> str:
    """The parts of one table that each fit a page, with captions."""
    columns = [_printed_column(table, i) for i in range(len(table.columns))]
    parts = []
    for fitting in _columns_that_fit(columns):
        widths = _column_widths(fitting)
        lines = [
            max(
                (math.ceil(_text_pt(c.cells[row]) / w) for c, w in zip(fitting, widths, strict=True) if c.wraps),
                default=1,
            )
            for row in range(len(table.rows))
        ]
        ends = [0]
        while ends[-1] < len(lines):
            height, end = 0, ends[-1]
            while end < len(lines) and (height + lines[end] <= _MOST_LINES or end == ends[-1]):
                height, end = height + lines[end], end + 1
            ends.append(end)
        parts += [(fitting, widths, slice(*rows)) for rows in pairwise(ends)]
    texts = []
    for number, (fitting, widths, rows) in enumerate(parts, 1):
        title = f"{table.title}, part {number} of {len(parts)}" if len(parts) > 1 else table.title
        caption = ". ".join(filter(None, [title, f"Data: {origin}" if origin else ""]))
        name = label if number == 1 else f"{label}-{number}"
        texts.append(_latex_part(fitting, widths, rows, caption, name))
    return "\n".join(texts)


def _columns_that_fit(columns: Sequence[_PrintedColumn]) -> list[list[_PrintedColumn]]:
    """The columns in parts that each fit the page; every part begins with the first column."""
    parts = [[columns[0]]] if columns else []
    for column in columns[1:]:
        least = [min(c.points, _LEAST_TEXT_PT) if c.wraps else c.points for c in (*parts[-1], column)]
        if sum(least) + _GAP_PT * len(least) > _PAGE_PT and len(parts[-1]) > 1:
            parts.append([columns[0]])
        parts[-1].append(column)
    return parts


def _column_widths(columns: Sequence[_PrintedColumn]) -> list[float]:
    """Widths in points: columns that wrap share what the others leave, each no wider than its longest cell."""
    widths = [column.points for column in columns]
    wrapping = [i for i, column in enumerate(columns) if column.wraps]
    spare = _PAGE_PT - _GAP_PT * len(columns) - sum(c.points for c in columns if not c.wraps)
    for left, i in enumerate(sorted(wrapping, key=lambda i: columns[i].points)):
        widths[i] = min(columns[i].points, max(spare / (len(wrapping) - left), 1.0))
        spare -= widths[i]
    return widths


def _latex_part(
    columns: Sequence[_PrintedColumn], widths: Sequence[float], rows: slice, caption: str, label: str
) -> str:
    """One `table`, or a `table*` across both columns of a page where one is too narrow."""
    kind = "table" if sum(widths) + _GAP_PT * len(widths) <= _COLUMN_PT else "table*"
    sides = "".join(
        rf">{{\raggedright\arraybackslash}}p{{{width:.0f}pt}}" if column.wraps else column.side
        for column, width in zip(columns, widths, strict=True)
    )
    heads = [
        rf"\shortstack[{c.side}]{{" + r"\\".join(map(_escape_latex, c.head)) + "}"
        if len(c.head) > 1
        else _escape_latex(c.head[0])
        for c in columns
    ]
    cells = zip(*([_escape_latex(cell, breaks=c.wraps) for cell in c.cells[rows]] for c in columns), strict=True)
    return "\n".join(
        [
            rf"\begin{{{kind}}}",
            r"\centering",
            rf"\caption{{{_escape_latex(caption)}.}}",
            rf"\label{{{label}}}",
            rf"\fontsize{{8}}{{9.5}}\selectfont\setlength{{\tabcolsep}}{{{_GAP_PT / 2:.0f}pt}}",
            rf"\begin{{tabular}}{{{sides}}}",
            r"\toprule\addlinespace[2pt]",
            " & ".join(heads) + r" \\",
            r"\midrule",
            *(" & ".join(line) + r" \\" for line in cells),
            r"\bottomrule",
            r"\end{tabular}",
            rf"\end{{{kind}}}",
            "",
        ]
    )


def _text_pt(text: str) -> float:
    """An upper guess of the width of a text in TeX points, in Computer Modern of 8 points."""
    return sum(2.6 if c in "ijltf.,:;'()|![] " else 6.9 if c in "mwMW@%" or c.isupper() else 4.6 for c in text)


def _printed_column(table: ResultTable, place: int) -> _PrintedColumn:
    """A column as it is printed: numbers in one unit, which is in the head."""
    column, values = table.columns[place], [row[place] for row in table.rows]
    is_number, head = _is_number(table, place), column.heading
    units = _PRINTED_UNITS.get(column.unit) if is_number else None
    if units is None:
        cells = [format_value(value, column.unit) for value in values]
    else:
        sizes = sorted(abs(float(value)) for value in values if isinstance(value, (int, float)) and value)
        middle = sizes[len(sizes) // 2] if sizes else 0.0
        unit, factor = next((each for each in reversed(units) if middle >= each[1]), units[0])
        cells = ["--" if value is None else _three_digits(float(cast(float, value)) / factor) for value in values]
        head = f"{head} ({unit})"
    widest = max(map(_text_pt, cells), default=0.0)
    wraps = not is_number and widest > _LONG_TEXT_PT
    # As many letters as the cells have, so that the head breaks and the column is no wider than they are.
    room = max(int(min(widest, _LEAST_TEXT_PT) / 4.6), *map(len, head.split()), 1)
    lines = textwrap.wrap(head, room, break_long_words=False, break_on_hyphens=False) or [""]
    return _PrintedColumn(lines, cells, "r" if is_number else "l", max(widest, *map(_text_pt, lines)), wraps)


def _three_digits(value: float) -> str:
    """Three significant digits, without an exponent."""
    return "--" if not math.isfinite(value) else f"{float(f'{value:.3g}'):,.10f}".rstrip("0").rstrip(".")


def _escape_latex(text: str, *, breaks: bool = False) -> str:
    """The text in LaTeX; with `breaks`, a line may end within a name or a path."""
    escaped = (_TEX.get(letter, letter) + (r"\allowbreak{}" if breaks and letter in "_/,=" else "") for letter in text)
    return "".join(escaped)


def to_markdown(tables: Sequence[ResultTable], origin: str) -> str:
    """Each table as Markdown below its title; numbers are right-aligned."""
    parts = [f"{origin}\n" if origin else ""]
    for table in tables:
        head, *rows = _formatted_rows(table)
        sides = ["---:" if _is_number(table, i) else "---" for i in range(len(head))]
        lines = [f"| {' | '.join(map(_escape_markdown, cells))} |" for cells in (head, sides, *rows)]
        parts.append("\n".join(filter(None, [f"**{table.title}**\n" if table.title else "", *lines])) + "\n")
    return "\n".join(filter(None, parts))


def _escape_markdown(text: str) -> str:
    return re.sub(r"([|*_`<\\])", r"\\\1", text) if set(text) - set("-: ") else text


def to_csv_text(tables: Sequence[ResultTable], origin: str) -> str:
    """Plain numbers, one table after the other, each under its own header; a program has no use for the origin."""
    return "\n".join(
        csv_text([column.name for column in table.columns], table.rows, for_spreadsheets=True) for table in tables
    )


def _formatted_rows(table: ResultTable) -> list[list[str]]:
    units = [column.unit for column in table.columns]
    rows = [[format_value(cell, unit) for cell, unit in zip(row, units, strict=True)] for row in table.rows]
    return [[column.heading for column in table.columns], *rows]


def _is_number(table: ResultTable, place: int) -> bool:
    return table.columns[place].unit != "text" and not any(isinstance(row[place], (str, bool)) for row in table.rows)


FORMS: Final[Mapping[str, Callable[[Sequence[ResultTable], str], str]]] = {
    ".tex": to_latex,
    ".md": to_markdown,
    ".csv": to_csv_text,
}


ENDINGS = (".svg", ".png", ".pdf", ".html", ".json", *FORMS)


def origin_of(lake: Lake, exhibit: Exhibit, period_ns: Period = ALL_TIME) -> str:
    """What a figure or table says wherever it is printed: whose it is, which exhibit, when, and whether it is real."""
    facility = lake.facility
    simulated = "" if not facility.simulated or "simulated" in facility.name else " (simulated)"
    with lake.snapshot() as snapshot:
        span = snapshot.time_span()
    when = ""
    if span:
        start, end = max(period_ns[0], span[0]), min(period_ns[1], span[1])
        when = f", {format_time_ns(start)[:10]} to {format_time_ns(end)[:10]}"
    return f"{facility.name}{simulated}, {exhibit.id}{when}, ioweather {__version__}"


def write_exhibit(exhibit: Exhibit, out: Path, *, origin: str = "", column: Column | None = None) -> None:
    """Write an exhibit as its ending says; `origin` is printed with figures and tables. `column`: the width of a figure
    in a printed paper."""
    ending = out.suffix.lower()
    if ending not in ENDINGS:
        raise UsageError(f"--out {out}: the ending must be one of {', '.join(ENDINGS)}.")
    if ending == ".json":
        data = json.dumps(result_json(exhibit), indent=2).encode()
    elif ending == ".html":
        data = exhibit_html(exhibit).encode()
    elif ending in FORMS:
        compared = comparison_table(exhibit)
        own = [table for table in exhibit.tables if table.rows]
        own = own or list(estimate_table(exhibit.estimates, len(exhibit.estimates)))
        tables = [*own, *([compared] if compared else [])]
        if not tables:
            raise UsageError(f"{exhibit.id} has no table.", hint="Write it as .svg, .png or .pdf.")
        paper = PAPERS.get(exhibit.id.partition(".")[0])
        after = f", after {paper.authors[0].split()[-1]} et al., {paper.year}, doi:{paper.doi}" if paper else ""
        titled = [replace(table, title=f"{table.title or exhibit.title}{after}") for table in tables]
        text = to_latex(titled, origin, exhibit.id) if ending == ".tex" else FORMS[ending](tables, origin)
        data = text.encode()
    else:
        if not exhibit.charts:
            raise UsageError(
                f"{exhibit.id} is a table and has no figure.", hint="Write it as .tex, .md, .csv, .html or .json."
            )
        form = cast(Literal["svg", "png", "pdf"], ending[1:])
        data = exhibit_figure(exhibit, form, origin=origin, column=column)
    try:
        write_whole(out, data)
    except OSError as error:
        raise UsageError(f"--out {out}: {error.strerror}.") from None
