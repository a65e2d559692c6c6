"""Frame: columns of one length. Matrix: one metric, time x component. Immutable; numpy arrays inside.

Null is NaN in floats, the mask of a masked array in integers, code -1 in text. pandas, polars and Arrow are imported
only when asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from importlib import import_module
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ioweather.core.errors import UsageError
from ioweather.core.tabular import Tabular
from ioweather.core.units import marked

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]
Indices: TypeAlias = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Text:
    """A text column: small integer codes into distinct categories; -1 is null."""

    codes: NDArray[np.int32]
    categories: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, index: Any) -> Text:
        return Text(self.codes[index], self.categories)

    def tolist(self) -> list[str | None]:
        """The texts of all rows, None for null."""
        categories = self.categories  # of a part of a column there may be many more than rows
        return [None if code < 0 else categories[code] for code in self.codes.tolist()]

    def __arrow_c_array__(self, requested_schema: object = None) -> object:
        # polars reads a Frame as a mapping, column by column.
        return _arrow_column(self).__arrow_c_array__(requested_schema)

    def equals(self, value: str) -> Bools:
        """Mask of the rows with this value."""
        code = self.categories.index(value) if value in self.categories else -2
        return np.equal(self.codes, code)


Column: TypeAlias = NDArray[Any] | Text


def _used(text: Text) -> Text:
    found, codes = np.unique(text.codes, return_inverse=True)
    nulls = int((found < 0).any())
    return Text((codes - nulls).astype(np.int32), tuple(text.categories[code] for code in found[nulls:].tolist()))


_MOST_NAMED = 20


class Frame(Tabular, Mapping[str, Column]):
    """An immutable mapping name -> column; all columns have one length."""

    __slots__ = ("_columns", "_rows")

    def __init__(self, columns: Mapping[str, Column]) -> None:
        lengths = {name: len(column) for name, column in columns.items()}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"columns differ in length: {lengths}")
        self._columns = dict(columns)
        self._rows = next(iter(lengths.values()), 0)

    @property
    def rows(self) -> int:
        return self._rows

    def _table(self) -> Frame:
        return self

    def __getitem__(self, name: str) -> Column:
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def array(self, name: str) -> NDArray[Any]:
        """A column of numbers or booleans. Raises TypeError for text."""
        column = self._columns[name]
        if isinstance(column, Text):
            raise TypeError(f"column {name!r} is text")
        return column

    def floats(self, name: str) -> Floats:
        """A numeric column as floats, NaN for null."""
        return np.asarray(np.ma.filled(np.ma.masked_array(self.array(name), dtype=np.float64), np.nan), np.float64)

    def ints(self, name: str, *, missing: int = 0) -> Ints:
        """An integer column with `missing` for null: 0 for sums, else a number that is no value of the column."""
        return np.asarray(np.ma.filled(self.array(name), missing), np.int64)

    def bools(self, name: str) -> Bools:
        """A column of booleans, False for null."""
        return np.asarray(np.ma.filled(self.array(name), False), np.bool_)

    def known(self, name: str) -> Bools:
        """Mask of the rows that are not null."""
        column = self._columns[name]
        if isinstance(column, Text):
            return column.codes >= 0
        return ~np.isnan(column) if column.dtype.kind == "f" else ~np.ma.getmaskarray(column)

    def text(self, name: str) -> Text:
        """A column of text. Raises TypeError for numbers."""
        column = self._columns[name]
        if not isinstance(column, Text):
            raise TypeError(f"column {name!r} is not text")
        return column

    def take(self, index: Any) -> Frame:
        """The rows of a boolean mask, a slice or positions."""
        return Frame({name: column[index] for name, column in self._columns.items()})

    def without_unused_texts(self) -> Frame:
        """The frame with only those categories that its rows have: rows that were taken keep all of theirs."""
        return Frame({name: _used(c) if isinstance(c, Text) else c for name, c in self._columns.items()})

    def select(self, names: Sequence[str]) -> Frame:
        """The frame with these columns only."""
        return Frame({name: self._columns[name] for name in names})

    def with_columns(self, **columns: Column) -> Frame:
        """The frame with columns added or replaced."""
        return Frame({**self._columns, **columns})

    def records(self) -> list[dict[str, Any]]:
        """Rows as dictionaries, null as None; for small frames."""
        lists = {name: _plain_list(column) for name, column in self._columns.items()}
        return [dict(zip(lists, values, strict=True)) for values in zip(*lists.values(), strict=True)]

    def __repr__(self) -> str:
        names = list(self._columns)
        rest = f", ... ({len(names)} columns)" if len(names) > _MOST_NAMED else ""
        listed = ", ".join(names[:_MOST_NAMED]) + rest
        return f"Frame({self._rows} rows: {listed})"


def _plain_list(column: Column) -> list[Any]:
    """The cells as Python values, None for null."""
    values = column.tolist()
    if isinstance(column, Text) or column.dtype.kind != "f":
        return values
    return [None if value != value else value for value in values]


class BlockwiseMatrix(Protocol):
    """A matrix that is read in stretches of steps, since it may not fit into memory. `Matrix` is one; so is the lake's
    LazyMatrix, which reads each stretch on request and can be sent to another process."""

    @property
    def metric(self) -> str: ...
    @property
    def start_ns(self) -> int: ...
    @property
    def step_ns(self) -> int: ...
    @property
    def steps(self) -> int: ...
    @property
    def components(self) -> tuple[str, ...]: ...
    def stretch(self, first: int, last: int) -> Matrix: ...


@dataclass(frozen=True, eq=False)
class Matrix:
    """One metric of many components on a regular grid.

    `values[i, j]` belongs to [start_ns + i*step_ns, + step_ns) of `components[j]`, NaN where nothing was recorded.
    `coverage` (0-1, same shape, possibly a broadcast view) is the share of the cell's time that was recorded.
    """

    metric: str
    start_ns: int
    step_ns: int
    components: tuple[str, ...]
    values: Floats
    coverage: NDArray[np.float32]

    def __post_init__(self) -> None:
        if self.values.shape != self.coverage.shape or self.values.shape[1:] != (len(self.components),):
            raise ValueError(
                f"matrix of {len(self.components)} components has values {self.values.shape}, "
                f"coverage {self.coverage.shape}"
            )

    @property
    def steps(self) -> int:
        return int(self.values.shape[0])

    @property
    def end_ns(self) -> int:
        return self.start_ns + self.steps * self.step_ns

    def stretch(self, first: int, last: int) -> Matrix:
        """The steps [first, last), as views."""
        start_ns = self.start_ns + first * self.step_ns
        part = (self.values[first:last], self.coverage[first:last])
        return Matrix(self.metric, start_ns, self.step_ns, self.components, *part)


@dataclass(frozen=True, eq=False)
class Cells:
    """Amounts of several metrics of many components, in steps that need not be adjacent.

    `values[metric][i, j]` belongs to [start_ns[i], + step_ns) of `components[j]`, NaN where nothing was recorded;
    `start_ns` ascends. `coverage[metric][i]` (0-1) is the share of all components' time in the step that was recorded.
    """

    start_ns: Ints
    step_ns: int
    components: tuple[str, ...]
    values: Mapping[str, Floats]
    coverage: Mapping[str, Floats]


def import_optional(package: str, instead: str = "`.records()`") -> Any:
    """Import an optional library. Raises UsageError, which names an alternative."""
    try:
        return import_module(package)
    except ImportError as error:
        hint = f"Install it (`pip install {package}`), or use {instead}."
        raise UsageError(f"{package} is not installed.", hint=hint) from error


def to_pandas(frame: Frame) -> Any:
    """A pandas.DataFrame: null is NaN or None, or NA in integers and booleans."""
    pandas = import_optional("pandas")
    kinds = {"i": pandas.arrays.IntegerArray, "b": pandas.arrays.BooleanArray}

    def column(values: Column) -> Any:
        """A column as pandas takes it: objects for text, masked arrays for integers and booleans with nulls."""
        if isinstance(values, Text):
            return np.array([*values.categories, None], dtype=object)[values.codes]
        if np.ma.is_masked(values) and values.dtype.kind in kinds:
            return kinds[values.dtype.kind](np.ma.getdata(values).copy(), np.ma.getmaskarray(values).copy())
        return np.array(np.ma.getdata(values))

    # With an index, a frame without columns keeps its number of rows.
    return pandas.DataFrame({name: column(values) for name, values in frame.items()}, index=range(frame.rows))


def to_html(frame: Frame) -> str:
    """The HTML table that pandas makes of it, without control characters."""
    return marked(to_pandas(frame).to_html(max_rows=10, max_cols=12, show_dimensions=True))


def to_arrow(frame: Frame) -> Any:
    """An arro3.core.Table of the frame."""
    return import_optional("arro3.core").Table({name: _arrow_column(values) for name, values in frame.items()})


def _arrow_column(values: Column) -> Any:
    """A column as an arro3 array."""
    arro = import_optional("arro3.core")
    kind = "t" if isinstance(values, Text) else values.dtype.kind
    if not isinstance(values, (Text, np.ma.MaskedArray)) and kind != "f":
        return arro.Array.from_numpy(np.ascontiguousarray(values))
    kinds = {"t": arro.DataType.utf8, "f": arro.DataType.float64, "b": arro.DataType.bool}
    return arro.Array(_plain_list(values), type=kinds.get(kind, arro.DataType.int64)())


def frame_of(columns: Mapping[str, Sequence[Any]]) -> Frame:
    """A Frame of Python values: a column of integers, booleans or floats if all its cells are, else of text."""
    return Frame({name: _column(cells) for name, cells in columns.items()})


def _column(cells: Sequence[Any]) -> Column:
    """A column of Python values: integers, booleans, floats or text."""
    known = [cell for cell in cells if cell is not None]
    missing = [cell is None for cell in cells]
    are_flags = all(isinstance(cell, bool) for cell in known)
    are_whole = all(isinstance(cell, int) and not isinstance(cell, bool) and abs(cell) < 2**63 for cell in known)
    if known and (are_flags or are_whole):
        data = np.array([cell or 0 for cell in cells], dtype=np.bool_ if are_flags else np.int64)
        return np.ma.MaskedArray(data, mask=missing) if any(missing) else data
    if all(isinstance(cell, (int, float, Decimal)) and not isinstance(cell, bool) for cell in known):
        return np.array([np.nan if cell is None else float(cell) for cell in cells], dtype=np.float64)
    texts = {text: code for code, text in enumerate(dict.fromkeys(map(str, known)))}
    codes = [-1 if cell is None else texts[str(cell)] for cell in cells]
    return Text(np.array(codes, dtype=np.int32), tuple(texts))
