"""Frames for pandas, polars and Arrow, which are imported only here and only when asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ioweather.core.errors import UsageError
from ioweather.core.frames import Column, Frame, Text


def needed(package: str, instead: str) -> Any:
    """The library, or an error that says what to do without it."""
    try:
        return import_module(package)
    except ImportError as error:
        raise UsageError(
            f"{package} is not installed.", hint=f"Install it (`pip install {package}`), or use {instead}."
        ) from error


def to_pandas(frame: Frame) -> Any:
    pandas = needed("pandas", "`.records()`")
    kinds = {"i": pandas.arrays.IntegerArray, "b": pandas.arrays.BooleanArray}

    def column(values: Column) -> Any:
        if isinstance(values, Text):
            return np.array([*values.categories, None], dtype=object)[values.codes]
        if np.ma.is_masked(values) and values.dtype.kind in kinds:
            return kinds[values.dtype.kind](np.ma.getdata(values).copy(), np.ma.getmaskarray(values).copy())
        return np.array(np.ma.getdata(values))

    # An index of its own keeps the rows of a frame without columns.
    return pandas.DataFrame({name: column(values) for name, values in frame.items()}, index=range(frame.rows))


def to_polars(frame: Frame) -> Any:
    return needed("polars", "`.records()`").DataFrame(to_arrow(frame))


def to_arrow(frame: Frame) -> Any:
    arro = needed("arro3.core", "`.records()`")
    types = {"f": arro.DataType.float64(), "b": arro.DataType.bool()}

    def column(values: Column) -> Any:
        if isinstance(values, Text):
            return text_to_arrow(values)
        kind = values.dtype.kind
        if np.ma.is_masked(values) or (kind == "f" and np.isnan(values).any()):
            cells = [None if cell != cell else cell for cell in values.tolist()]
            return arro.Array(cells, type=types.get(kind, arro.DataType.int64()))
        return arro.Array.from_numpy(np.ascontiguousarray(np.ma.getdata(values)))

    return arro.Table({name: column(values) for name, values in frame.items()})


def text_to_arrow(text: Text) -> Any:
    arro = needed("arro3.core", "`.tolist()`")
    return arro.Array(text.tolist(), type=arro.DataType.utf8())


def frame_of(columns: Mapping[str, Sequence[Any]]) -> Frame:
    """Cells of Python as a Frame: whole numbers, numbers or truth values where all cells are, else their text."""
    return Frame({name: _column(cells) for name, cells in columns.items()})


def _column(cells: Sequence[Any]) -> Column:
    known = [cell for cell in cells if cell is not None]
    missing = [cell is None for cell in cells]
    if known and all(isinstance(cell, bool) for cell in known):
        return _masked([bool(cell) for cell in cells], missing, np.bool_)
    if known and all(isinstance(cell, int) and not isinstance(cell, bool) and abs(cell) < 2**63 for cell in known):
        return _masked([cell or 0 for cell in cells], missing, np.int64)
    if all(isinstance(cell, (int, float, Decimal)) and not isinstance(cell, bool) for cell in known):
        return np.array([np.nan if cell is None else float(cell) for cell in cells], dtype=np.float64)
    texts = {text: code for code, text in enumerate(dict.fromkeys(map(str, known)))}
    codes = [-1 if cell is None else texts[str(cell)] for cell in cells]
    return Text(np.array(codes, dtype=np.int32), tuple(texts))


def _masked(values: list[Any], missing: list[bool], dtype: Any) -> Column:
    data: NDArray[Any] = np.array(values, dtype=dtype)
    return np.ma.MaskedArray(data, mask=missing) if any(missing) else data
