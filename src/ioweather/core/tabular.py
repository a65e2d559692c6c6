"""Export of tables: cells as JSON and CSV; pandas, polars, Arrow and notebooks by the base class Tabular."""

from __future__ import annotations

import csv
import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from importlib import import_module
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any, Final

_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")
# "-0.5", "+3 points", "-1 – 0.3": an operator, a parenthesis or a name that a formula needs is not among these.
_NUMBERS: Final = re.compile(r"([-+][\d.,]+ ?(%|[a-zA-Zµ]+)|-[\d.,]+)( (–|to) [-+]?[\d.,]+ ?(%|[a-zA-Zµ]+)?)?")


def plain(value: Any) -> Any:
    """A cell as a JSON value: NaN and infinity become null, types that JSON lacks become text."""
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
    """The cell, with lists and other structures as JSON text."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    made = plain(value)
    return made if isinstance(made, str) else json.dumps(made, ensure_ascii=False)


def inert(cell: Any) -> Any:
    """The cell, quoted if a spreadsheet would run it as a formula: text may come from names of files."""
    if not isinstance(cell, str) or not cell.startswith(_FORMULA) or _NUMBERS.fullmatch(cell):
        return cell
    return f"'{cell}"


def csv_text(columns: Sequence[str], rows: Iterable[Sequence[Any]], *, for_spreadsheets: bool) -> str:
    """CSV with a header, numbers in full, null and NaN as empty cells. `for_spreadsheets`: cells that look like
    formulas are quoted."""
    lines: list[str] = []
    writer = csv.writer(SimpleNamespace(write=lines.append))  # with \r\n: else a cell with a \r alone is not quoted
    last = inert if for_spreadsheets else lambda cell: cell
    writer.writerows(["" if cell != cell else last(as_text(cell)) for cell in row] for row in (columns, *rows))
    return "".join(f"{line[:-2]}\n" for line in lines)


class Tabular:
    """Base of tables that export to pandas, polars and Arrow. The libraries are optional and imported on use."""

    __slots__ = ()

    def _table(self) -> Any:
        """The table as a Frame."""
        raise NotImplementedError

    def _times(self) -> Sequence[str]:
        """Columns of nanoseconds since 1970."""
        return ()

    def to_pandas(self) -> Any:
        """A pandas.DataFrame; times are datetimes in UTC, null is NaN, NaT, or NA. pandas must be installed."""
        frame = _dataframes().to_pandas(self._table())
        for name in self._times():
            frame[name] = _dataframes().import_optional("pandas").to_datetime(frame[name], unit="ns", utc=True)
        return frame

    def to_polars(self) -> Any:
        """A polars.DataFrame; null is null. polars must be installed."""
        return _dataframes().import_optional("polars").DataFrame(self.to_arrow())

    def to_arrow(self) -> Any:
        """An arro3.core.Table, which pyarrow, polars and DuckDB accept."""
        return _dataframes().to_arrow(self._table())

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def __array__(self, *_: Any, **__: Any) -> Any:
        # Without this, pandas.DataFrame(table) would make rows of the column names.
        raise TypeError(f"{type(self).__name__} is not an array: use .to_pandas(), .to_polars() or .to_arrow()")

    def _repr_html_(self) -> str | None:
        """The table as pandas shows it in notebooks; None, for plain text, without pandas."""
        return str(_dataframes().to_html(self._table())) if find_spec("pandas") else None


def frame_of_rows(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> Any:
    """A Frame of rows of cells; repeated column names get _2, _3, ..."""
    seen: Counter[str] = Counter()
    columns: dict[str, Sequence[Any]] = {}
    for place, name in enumerate(names):
        seen[name] += 1
        columns[name if seen[name] == 1 else f"{name}_{seen[name]}"] = [row[place] for row in rows]
    return _dataframes().frame_of(columns)


def _dataframes() -> Any:
    """The module core.frames, imported on use: results are also made where numpy is not loaded."""
    return import_module("ioweather.core.frames")
