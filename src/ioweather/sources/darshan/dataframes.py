"""A module's records for pandas and polars, which are imported only here and only when asked for."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

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
    plan = _plan(module.records.dtype, paths is not None, tuple(module.ragged)) if module.segments is None else None
    if plan is not None:
        return _of_blocks(plan, module, paths)
    frame = needed("pandas", _INSTEAD).DataFrame(columns_of(module))
    if paths is not None:
        frame.insert(0, "path", list(paths))
    return frame


class _Plan(NamedTuple):
    """What frames of one layout share, and cannot change: a third of the time that pandas takes for a small one."""

    create: Any  # a frame from blocks of memory
    # (type, first field, end, places) of fields of one type that follow each other.
    runs: tuple[tuple[np.dtype[Any], int, int, np.ndarray[Any, Any]], ...]
    lists: np.ndarray[Any, Any]  # places
    names: Any


@lru_cache
def _plan(dtype: np.dtype[Any], with_paths: bool, lists: tuple[str, ...]) -> _Plan | None:
    """Where all fields are numbers of 8 bytes and nothing lies between them; not before pandas 3."""
    pandas = needed("pandas", _INSTEAD)
    create = getattr(getattr(pandas.api, "internals", None), "create_dataframe_from_blocks", None)
    kinds = [kind for kind, *_ in (dtype.fields or {}).values()]
    is_plain = 8 * len(kinds) == dtype.itemsize and all(kind.itemsize == 8 and kind.kind in "iuf" for kind in kinds)
    if create is None or not is_plain or not kinds:
        return None
    starts = [i for i, kind in enumerate(kinds) if i == 0 or kind != kinds[i - 1]]
    ends = [*starts[1:], len(kinds)]
    names = (*["path"] * with_paths, *(dtype.names or ()), *lists)
    runs = tuple(
        (kinds[first], first, end, np.arange(first, end) + with_paths) for first, end in zip(starts, ends, strict=True)
    )
    return _Plan(create, runs, np.arange(len(names) - len(lists), len(names)), pandas.Index(names))


def _of_blocks(plan: _Plan, module: Module, paths: Sequence[str | None] | None) -> Any:
    """A block of memory for each run of fields: 90 columns one by one take twenty times as long."""
    records = module.records
    # A copy: the frame is the caller's to change, and columns lie together in it.
    words = records.view(np.int64).reshape(len(records), -1).T.copy()
    blocks: list[Any] = [(words[first:end].view(kind), places) for kind, first, end, places in plan.runs]
    if module.ragged:
        lists = np.empty((len(module.ragged), len(records)), dtype=object)
        for row, of_records in zip(lists, module.ragged.values(), strict=True):
            row[:] = list(of_records)
        blocks.append((lists, plan.lists))
    if paths is not None:
        column = needed("pandas", _INSTEAD).Series(paths).values
        blocks.append((column.reshape(1, -1) if isinstance(column, np.ndarray) else column, np.array([0])))
    return plan.create(blocks, _rows(len(records)), plan.names)


@lru_cache
def _rows(count: int) -> Any:
    return needed("pandas", _INSTEAD).RangeIndex(count)


def to_polars(module: Module) -> Any:
    polars = needed("polars", _INSTEAD)
    columns = columns_of(module)
    is_text = {n: getattr(getattr(c, "dtype", None), "kind", "") == "U" for n, c in columns.items()}
    return polars.DataFrame({n: c.tolist() if is_text[n] else c for n, c in columns.items()})
