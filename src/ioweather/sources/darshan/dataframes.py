"""A module's records for pandas and polars, which are imported only here and only when asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ioweather.core.dataframes import needed

if TYPE_CHECKING:
    from ioweather.sources.darshan.model import Module

_INSTEAD = "`.records`, a NumPy array"


def columns_of(module: Module) -> dict[str, Any]:
    """Name to column. Lists (OST ids, heat map bins) become lists of arrays; a DXT module becomes one row per traced
    operation, with the id, rank and hostname of its record."""
    records = module.records
    if module.segments is not None:
        of_segment = module.segments["record"]
        columns = {name: _plain(records[name])[of_segment] for name in ("id", "rank", "hostname")}
        names = module.segments.dtype.names or ()
        return columns | {name: module.segments[name].copy() for name in names if name != "record"}
    columns = {name: _plain(records[name]) for name in records.dtype.names or ()}
    return columns | {name: list(lists) for name, lists in module.ragged.items()}


def row_ids(module: Module) -> list[int]:
    """The record id of each row of the frame."""
    ids = module.records["id"]
    rows: list[int] = (ids if module.segments is None else ids[module.segments["record"]]).tolist()
    return rows


def _plain(column: np.ndarray[Any, Any]) -> Any:
    """Contiguous, and text or hexadecimal instead of raw bytes."""
    if column.dtype.kind == "S":
        return np.array([raw.decode("utf-8", "backslashreplace") for raw in column.tolist()], dtype=np.str_)
    if column.dtype.kind == "V":
        return np.array([raw.hex() for raw in column.tolist()], dtype=np.str_)
    return column.copy()


def to_pandas(module: Module, paths: Sequence[str | None] | None = None) -> Any:
    """With `paths`, one per row, they are the first column."""
    frame = needed("pandas", _INSTEAD).DataFrame(columns_of(module))
    if paths is not None:
        frame.insert(0, "path", list(paths))
    return frame


def to_polars(module: Module) -> Any:
    polars = needed("polars", _INSTEAD)
    columns = columns_of(module)
    is_text = {n: getattr(getattr(c, "dtype", None), "kind", "") == "U" for n, c in columns.items()}
    return polars.DataFrame({n: c.tolist() if is_text[n] else c for n, c in columns.items()})
