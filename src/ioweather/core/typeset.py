"""Result tables as text for papers and wikis: LaTeX, Markdown and CSV."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from ioweather.core.cells import csv_text
from ioweather.core.results import ResultTable
from ioweather.core.units import format_value

_TEX: Final = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "–": "--", "≥": r"$\geq$", "≤": r"$\leq$", "µ": r"$\mu$",
    "✓": "yes", "✗": "no", "∞": r"$\infty$",
}  # fmt: skip


def to_latex(tables: Sequence[ResultTable], origin: str) -> str:
    """Each table a `table` with a `tabular`, which no package is needed for; `origin` is its caption."""
    return "\n".join(_latex_table(table, origin) for table in tables)


def _latex_table(table: ResultTable, origin: str) -> str:
    sides = "".join("r" if _is_number(table, i) else "l" for i in range(len(table.columns)))
    lines = [" & ".join(_tex(cell) for cell in row) + r" \\" for row in _shown(table)]
    caption = _tex(". ".join(filter(None, [table.title, origin])))
    return "\n".join(
        [r"\begin{table}", rf"\caption{{{caption}}}", rf"\begin{{tabular}}{{{sides}}}", r"\hline", lines[0], r"\hline",
         *lines[1:], r"\hline", r"\end{tabular}", r"\end{table}", ""]
    )  # fmt: skip


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
    ".tex": to_latex, ".md": to_markdown, ".csv": to_csv_text,
}  # fmt: skip
