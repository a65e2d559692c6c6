"""Write results to files, by their ending."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
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

# Result tables as text: LaTeX and CSV.

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
    "<": r"\textless{}",
    ">": r"\textgreater{}",
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
_MOST_ROWS: Final = 25  # of a table that floats; longer ones break across pages
# Wider tables shrink to the width of the text.
_FIT: Final = r"\resizebox{\ifdim\width>\textwidth\textwidth\else\width\fi}{!}{%"
_LONG_TEXT: Final = 40  # characters; a column with longer cells wraps


def to_latex(tables: Sequence[ResultTable], origin: str, label: str = "") -> str:
    """Return each table with booktabs rules, a label, and units in the head; `origin` ends its caption."""
    names = [f"tab:{label}" + (f"-{table.name}" if number else "") for number, table in enumerate(tables)]
    body = "\n".join(_latex_table(table, origin, name) for table, name in zip(tables, names, strict=True))
    return f"% \\usepackage{{array,booktabs,graphicx,longtable}}\n{body}"


def _latex_table(table: ResultTable, origin: str, label: str) -> str:
    """Return a `table`, or a `longtable` where it has more than a page of rows."""
    columns = [_print_column(table, place) for place in range(len(table.columns))]
    sides = [_choose_alignment(table, place, cells) for place, (_, cells) in enumerate(columns)]
    caption = _escape_latex(". ".join(filter(None, [table.title, f"Data: {origin}" if origin else ""])))
    named = rf"\caption{{{caption}.}}\label{{{label}}}"
    heads = (_escape_latex(head) for head, _ in columns)
    head = [r"\toprule", " & ".join(heads) + r" \\", r"\midrule"]
    rows = zip(*(cells for _, cells in columns), strict=True)
    lines = [" & ".join(map(_escape_latex, row)) + r" \\" for row in rows]
    if len(lines) > _MOST_ROWS:
        parts = [rf"{{\footnotesize\begin{{longtable}}{{{''.join(sides)}}}", rf"{named} \\", *head, r"\endhead"]
        return "\n".join([*parts, *lines, r"\bottomrule", r"\end{longtable}}", ""])
    parts = [r"\begin{table}", r"\centering\footnotesize", named, _FIT]
    parts += [rf"\begin{{tabular}}{{{''.join(sides)}}}", *head, *lines, r"\bottomrule", r"\end{tabular}"]
    return "\n".join([*parts, "}", r"\end{table}", ""])


def _choose_alignment(table: ResultTable, place: int, cells: Sequence[str]) -> str:
    """Return the alignment of a column: right for numbers, wrapped for long texts."""
    if _is_number(table, place):
        return "r"
    return r">{\raggedright\arraybackslash}p{0.25\linewidth}" if max(map(len, cells), default=0) > _LONG_TEXT else "l"


def _print_column(table: ResultTable, place: int) -> tuple[str, list[str]]:
    """Return head and cells of a column as they are printed: numbers in one unit, which is in the head."""
    column, values = table.columns[place], [row[place] for row in table.rows]
    units = _PRINTED_UNITS.get(column.unit) if _is_number(table, place) else None
    if units is None:
        return column.heading, [format_value(value, column.unit) for value in values]
    sizes = sorted(abs(float(value)) for value in values if isinstance(value, (int, float)) and value)
    middle = sizes[len(sizes) // 2] if sizes else 0.0
    unit, factor = next((each for each in reversed(units) if middle >= each[1]), units[0])
    cells = ["--" if value is None else _format_three_digits(float(cast(float, value)) / factor) for value in values]
    return f"{column.heading} ({unit})", cells


def _format_three_digits(value: float) -> str:
    """Three significant digits, without an exponent."""
    return "--" if not math.isfinite(value) else f"{float(f'{value:.3g}'):,.10f}".rstrip("0").rstrip(".")


def _escape_latex(text: str) -> str:
    """Return the text in LaTeX."""
    return "".join(_TEX.get(letter, letter) for letter in text)


def to_csv_text(tables: Sequence[ResultTable]) -> str:
    """Plain numbers, one table after the other, each under its own header."""
    return "\n".join(
        csv_text([column.name for column in table.columns], table.rows, for_spreadsheets=True) for table in tables
    )


def _is_number(table: ResultTable, place: int) -> bool:
    return table.columns[place].unit != "text" and not any(isinstance(row[place], (str, bool)) for row in table.rows)


ENDINGS = (".svg", ".png", ".pdf", ".html", ".json", ".tex", ".csv")


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


def tables_of(exhibit: Exhibit) -> list[ResultTable]:
    """The tables of an exhibit, or its estimates; then the comparison with the paper."""
    compared = comparison_table(exhibit)
    own = [table for table in exhibit.tables if table.rows]
    own = own or list(estimate_table(exhibit.estimates, len(exhibit.estimates)))
    return [*own, *([compared] if compared else [])]


def write_exhibit(exhibit: Exhibit, out: Path, *, origin: str = "", column: Column | None = None) -> None:
    """Write an exhibit as its ending says; `origin` is printed with figures and tables. `column`: the width of a figure
    in a printed paper."""
    ending = out.suffix.lower()
    if ending not in ENDINGS:
        raise UsageError(f"--out {out}: the extension must be one of {', '.join(ENDINGS)}.")
    if ending == ".json":
        data = json.dumps(result_json(exhibit), indent=2).encode()
    elif ending == ".html":
        data = exhibit_html(exhibit).encode()
    elif ending in (".tex", ".csv"):
        tables = tables_of(exhibit)
        if not tables:
            raise UsageError(f"{exhibit.id} has no table.", hint="Write it as .svg, .png or .pdf.")
        paper = PAPERS.get(exhibit.id.partition(".")[0])
        after = f", after {paper.authors[0].split()[-1]} et al., {paper.year}, doi:{paper.doi}" if paper else ""
        titled = [replace(table, title=f"{table.title or exhibit.title}{after}") for table in tables]
        text = to_latex(titled, origin, exhibit.id) if ending == ".tex" else to_csv_text(tables)
        data = text.encode()
    else:
        if not exhibit.charts:
            raise UsageError(
                f"{exhibit.id} is a table and has no figure.", hint="Write it as .tex, .csv, .html or .json."
            )
        form = cast(Literal["svg", "png", "pdf"], ending[1:])
        data = exhibit_figure(exhibit, form, origin=origin, column=column)
    try:
        write_whole(out, data)
    except OSError as error:
        raise UsageError(f"--out {out}: {error.strerror}.") from None
