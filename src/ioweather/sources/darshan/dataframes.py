"""A module's records for pandas and polars, which are imported only here and only when asked for."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
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
    create = _maker()
    if create and module.segments is None and (runs := _runs(module.records.dtype)):
        return _of_blocks(create, module, runs, paths)
    frame = needed("pandas", _INSTEAD).DataFrame(columns_of(module))
    if paths is not None:
        frame.insert(0, "path", list(paths))
    return frame


@lru_cache
def _maker() -> Any:
    """Of a frame from blocks of memory; None before pandas 3."""
    return getattr(getattr(needed("pandas", _INSTEAD).api, "internals", None), "create_dataframe_from_blocks", None)


@lru_cache
def _runs(dtype: np.dtype[Any]) -> tuple[tuple[np.dtype[Any], int, int], ...]:
    """(type, first field, end) of fields of one type that follow each other, where all are numbers of 8 bytes and
    nothing lies between them; else none."""
    kinds = [kind for kind, *_ in (dtype.fields or {}).values()]
    if 8 * len(kinds) != dtype.itemsize or any(kind.itemsize != 8 or kind.kind not in "iuf" for kind in kinds):
        return ()
    starts = [i for i, kind in enumerate(kinds) if i == 0 or kind != kinds[i - 1]]
    return tuple((kinds[first], first, end) for first, end in zip(starts, [*starts[1:], len(kinds)], strict=True))


def _of_blocks(
    create: Any,
    module: Module,
    runs: tuple[tuple[np.dtype[Any], int, int], ...],
    paths: Sequence[str | None] | None,
) -> Any:
    """A block of memory for each run of fields: 90 columns one by one take twenty times as long."""
    records = module.records
    # A copy: the frame is the caller's to change, and columns lie together in it.
    words = np.array(records.view(np.int64).reshape(len(records), -1).T, order="C")
    blocks = [words[first:end].view(kind) for kind, first, end in runs]
    if module.ragged:
        blocks.append(np.empty((len(module.ragged), len(records)), dtype=object))
        for block, lists in zip(blocks[-1], module.ragged.values(), strict=True):
            block[:] = list(lists)
    places, names = _axes(records.dtype, paths is not None, tuple(module.ragged))
    placed = list(zip(blocks, places, strict=True))
    if paths is not None:
        column = needed("pandas", _INSTEAD).Series(paths).values
        placed.append((column.reshape(1, -1) if isinstance(column, np.ndarray) else column, np.array([0])))
    return create(placed, _rows(len(records)), names)


# What frames of one layout or length share, and cannot change: a third of the time that pandas takes for a small one.
@lru_cache
def _axes(dtype: np.dtype[Any], with_paths: bool, lists: tuple[str, ...]) -> tuple[list[np.ndarray[Any, Any]], Any]:
    """The place of each block's columns, and the names of all."""
    names = (*["path"] * with_paths, *(dtype.names or ()), *lists)
    places = [np.arange(first, end) + with_paths for _, first, end in _runs(dtype)]
    if lists:
        places.append(np.arange(len(names) - len(lists), len(names)))
    return places, needed("pandas", _INSTEAD).Index(names)


@lru_cache
def _rows(count: int) -> Any:
    return needed("pandas", _INSTEAD).RangeIndex(count)


def to_polars(module: Module) -> Any:
    polars = needed("polars", _INSTEAD)
    columns = columns_of(module)
    is_text = {n: getattr(getattr(c, "dtype", None), "kind", "") == "U" for n, c in columns.items()}
    return polars.DataFrame({n: c.tolist() if is_text[n] else c for n, c in columns.items()})
