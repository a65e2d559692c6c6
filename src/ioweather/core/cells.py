"""Cells of a table as data for others: as JSON has them, and as lines of CSV."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterable, Sequence
from types import SimpleNamespace
from typing import Any, Final

_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")


def plain(value: Any) -> Any:
    """A cell as JSON: what has no form there is text, and what is no number is null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    return value.hex() if isinstance(value, bytes) else str(value)


def as_text(value: Any) -> Any:
    """A cell that is neither text nor a number as text: lists and structures as JSON."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    made = plain(value)
    return made if isinstance(made, str) else json.dumps(made, ensure_ascii=False)


def inert(cell: Any) -> Any:
    """A spreadsheet takes such a text for a formula, and it may come from the name of somebody's file."""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA) else cell


def csv_text(columns: Sequence[str], rows: Iterable[Sequence[Any]], *, for_spreadsheets: bool) -> str:
    """A header and a line per row, numbers in full. `for_spreadsheets`: no cell is taken for a formula."""
    lines: list[str] = []
    writer = csv.writer(SimpleNamespace(write=lines.append))  # with \r\n: else a cell with a \r alone is not quoted
    last = inert if for_spreadsheets else lambda cell: cell
    # Missing is an empty cell, also where it is NaN.
    writer.writerows(["" if cell != cell else last(as_text(cell)) for cell in row] for row in (columns, *rows))
    return "".join(f"{line[:-2]}\n" for line in lines)
