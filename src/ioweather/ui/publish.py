"""Writing results to files, by the file's ending."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, Literal, cast

from ioweather._version import __version__
from ioweather.core.cells import csv_text
from ioweather.core.contracts import ALL_TIME, Period
from ioweather.core.errors import UsageError
from ioweather.core.papers.comparison import comparison_table
from ioweather.core.results import Exhibit, ResultTable, result_json
from ioweather.core.units import format_time_ns, format_value
from ioweather.core.whole_files import write_whole
from ioweather.lake.lake import Lake

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


def to_latex(tables: Sequence[ResultTable], origin: str) -> str:
    """Each table a `table` with a `tabular`, which no package is needed for; `origin` is its caption."""
    return "\n".join(_latex_table(table, origin) for table in tables)


def _latex_table(table: ResultTable, origin: str) -> str:
    sides = "".join("r" if _is_number(table, i) else "l" for i in range(len(table.columns)))
    lines = [" & ".join(_tex(cell) for cell in row) + r" \\" for row in _shown(table)]
    caption = _tex(". ".join(filter(None, [table.title, origin])))
    return "\n".join(
        [
            r"\begin{table}",
            rf"\caption{{{caption}}}",
            rf"\begin{{tabular}}{{{sides}}}",
            r"\hline",
            lines[0],
            r"\hline",
            *lines[1:],
            r"\hline",
            r"\end{tabular}",
            r"\end{table}",
            "",
        ]
    )


def _tex(text: str) -> str:
    return "".join(_TEX.get(letter, letter) for letter in text)


def to_markdown(tables: Sequence[ResultTable], origin: str) -> str:
    parts = [f"{origin}\n" if origin else ""]
    for table in tables:
        head, *rows = _shown(table)
        sides = ["---:" if _is_number(table, i) else "---" for i in range(len(head))]
        lines = [f"| {' | '.join(map(_pipe, cells))} |" for cells in (head, sides, *rows)]
        parts.append("\n".join(filter(None, [f"**{table.title}**\n" if table.title else "", *lines])) + "\n")
    return "\n".join(filter(None, parts))


def _pipe(text: str) -> str:
    return re.sub(r"([|*_`<\\])", r"\\\1", text) if set(text) - set("-: ") else text


def to_csv_text(tables: Sequence[ResultTable], origin: str) -> str:
    """Plain numbers, one table after the other, each under its own header; a program has no use for the origin."""
    return "\n".join(
        csv_text([column.name for column in table.columns], table.rows, for_spreadsheets=True) for table in tables
    )


def _shown(table: ResultTable) -> list[list[str]]:
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
        times = [(group.first_ns, group.end_ns) for group in snapshot.series()]
        for table in ("applications", "responses"):
            if snapshot.pinned[table].uris:
                first, last = (snapshot.scalar(f"SELECT {which}(start_ns) FROM {table}") for which in ("min", "max"))
                times += [(first, last)] if isinstance(first, int) and isinstance(last, int) else []
    when = ""
    if times:
        start, end = max(period_ns[0], min(a for a, _ in times)), min(period_ns[1], max(b for _, b in times))
        when = f", {format_time_ns(start)[:10]} to {format_time_ns(end)[:10]}"
    return f"{facility.name}{simulated}, {exhibit.id}{when}, ioweather {__version__}"


def write_exhibit(
    exhibit: Exhibit,
    out: Path,
    *,
    theme: Literal["light", "dark"] = "light",
    origin: str = "",
    column: Literal["single", "double"] | None = None,
) -> None:
    ending = out.suffix.lower()
    if ending not in ENDINGS:
        raise UsageError(f"--out {out}: the ending must be one of {', '.join(ENDINGS)}.")
    if ending == ".json":
        data = json.dumps(result_json(exhibit), indent=2).encode()
    elif ending == ".html":
        from ioweather.ui.charts.page import exhibit_html

        data = exhibit_html(exhibit).encode()
    elif ending in FORMS:
        compared = comparison_table(exhibit)
        tables = [table for table in (*exhibit.tables, *([compared] if compared else [])) if table.rows]
        if not tables:
            raise UsageError(f"{exhibit.id} has no table.", hint="Write it as .svg, .png or .pdf.")
        data = FORMS[ending](tables, origin).encode()
    else:
        if not exhibit.charts:
            raise UsageError(
                f"{exhibit.id} is a table and has no figure.", hint="Write it as .tex, .md, .csv, .html or .json."
            )
        from ioweather.ui.charts.render import exhibit_figure

        form = cast(Literal["svg", "png", "pdf"], ending[1:])
        data = exhibit_figure(exhibit, form, theme, origin=origin, column=column)
    try:
        write_whole(out, data)
    except OSError as error:
        raise UsageError(f"--out {out}: {error.strerror}.") from None
