"""Tables for others: cells as JSON and CSV, Frames for pandas, polars, Arrow and notebooks."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterable, Sequence
from importlib import import_module
from types import SimpleNamespace
from typing import Any, Final

from ioweather.core.foreign_text import joined

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


_MOST_ROWS: Final = 10
_MOST_COLUMNS: Final = 12


class Tabular:
    """Something with columns of one length. The libraries are loaded only when asked for, and need not be installed."""

    __slots__ = ()

    def _table(self) -> Any:
        """As a Frame."""
        raise NotImplementedError

    def to_pandas(self) -> Any:
        """A pandas.DataFrame; null is NaN, or NA in whole numbers. pandas must be installed."""
        return _dataframes().to_pandas(self._table())

    def to_polars(self) -> Any:
        """A polars.DataFrame; null is null. polars must be installed."""
        return _dataframes().to_polars(self._table())

    def to_arrow(self) -> Any:
        """An arro3.core.Table, which pyarrow, polars and DuckDB take as it is."""
        return _dataframes().to_arrow(self._table())

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def __array__(self, *_: Any, **__: Any) -> Any:
        # Without this, pandas.DataFrame(table) would take the names of the columns for its rows.
        raise TypeError(f"a {type(self).__name__} is no array: use .to_pandas(), .to_polars() or .to_arrow()")

    def _repr_html_(self) -> str:
        return html_table(self._table())


def frame_of_rows(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> Any:
    """A Frame of rows of cells. A name that is there again gets a number."""
    seen: dict[str, int] = {}
    columns: dict[str, Sequence[Any]] = {}
    for place, name in enumerate(names):
        seen[name] = again = seen.get(name, 0) + 1
        columns[name if again == 1 else f"{name}_{again}"] = [row[place] for row in rows]
    return _dataframes().frame_of(columns)


def html_table(frame: Any) -> str:
    """The first rows and columns, and how many there are."""
    from html import escape  # notebooks alone ask for it

    names = list(frame)[:_MOST_COLUMNS]
    head = "".join(f"<th>{escape(joined(name))}</th>" for name in names)
    rows = frame.select(names).take(slice(_MOST_ROWS)).records()
    body = "".join("<tr>" + "".join(f"<td>{escape(_shown(v))}</td>" for v in row.values()) + "</tr>" for row in rows)
    size = f"{frame.rows:,} rows, {len(frame):,} columns"
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table><p>{size}</p>"


def _shown(value: Any) -> str:
    text = "" if value is None else f"{value:,.6g}" if isinstance(value, float) else str(value)
    return joined(text if len(text) <= 80 else text[:77] + "...")


def _dataframes() -> Any:
    # By name: results are also made where numpy is not loaded, which the import contracts see to.
    return import_module("ioweather.core.frames")
