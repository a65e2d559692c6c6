"""Records to the bytes of a 3.41 log, little-endian: the reverse of `reader3` and `variable`."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ioweather.sources.darshan.layout import (
    HEATMAP_DTYPE,
    LUSTRE_COMPONENT_DTYPE,
    LUSTRE_V1_DTYPE,
    LUSTRE_V2_DTYPE,
    NATIVE,
    fixed_dtype,
)
from ioweather.sources.darshan.model import Module, Ragged

# What is written of each module, where only an array of records is given.
NEWEST: Final = {"POSIX": 4, "MPI-IO": 3, "STDIO": 2}
_VARIABLE_DTYPES: Final = {
    ("LUSTRE", 1): LUSTRE_V1_DTYPE,
    ("LUSTRE", 2): LUSTRE_V2_DTYPE,
    ("HEATMAP", 1): HEATMAP_DTYPE,
}
_LISTS: Final = {
    ("LUSTRE", 1): ("ost_ids",),
    ("LUSTRE", 2): ("components", "ost_ids"),
    ("HEATMAP", 1): ("write_bins", "read_bins"),
}


def new_records(module: str, count: int) -> NDArray[Any]:
    """Zeroed records of the version that is written: POSIX 4, MPI-IO 3, STDIO 2, LUSTRE 1, HEATMAP 1."""
    dtype = _dtype_of(module, NEWEST.get(module, 1))
    return np.zeros(count, dtype)


def encode(module: Module) -> bytes:
    key = (module.name, module.version)
    expected = _dtype_of(*key)
    if module.records.dtype is not expected and module.records.dtype != expected:  # comparing 86 fields takes its time
        raise ValueError(f"records of {module.name} are not those of version {module.version}: use new_records()")
    if key not in _LISTS:
        little = fixed_dtype(module.name, module.version, "little")
        return module.records.astype(little, copy=False).tobytes()
    lists = [_list_of(module, name) for name in _LISTS[key]]
    return _interleave(_heads(module), lists).astype("<i8", copy=False).tobytes()


def _dtype_of(module: str, version: int) -> np.dtype[Any]:
    written = module in NEWEST and version == NEWEST[module]
    dtype = fixed_dtype(module, version, NATIVE) if written else _VARIABLE_DTYPES.get((module, version))
    if dtype is None:
        raise ValueError(f"{module} version {version} is not written; POSIX 4, MPI-IO 3, STDIO 2, LUSTRE, HEATMAP are")
    return dtype


def _heads(module: Module) -> NDArray[np.int64]:
    """The fixed part of each record as words."""
    words = np.ascontiguousarray(module.records).view(np.int64)
    words = words.reshape(len(module.records), module.records.dtype.itemsize // 8)
    if module.name != "HEATMAP":
        return words
    # A heat map has two pointers behind its head, meaningless in a file.
    heads = np.zeros((len(words), 6), dtype=np.int64)
    heads[:, :4] = words
    return heads


_COUNTS: Final = {
    ("LUSTRE", "ost_ids", 1): "LUSTRE_STRIPE_WIDTH",
    ("LUSTRE", "ost_ids", 2): "stripes",
    ("LUSTRE", "components", 2): "components",
    ("HEATMAP", "write_bins", 1): "bins",
    ("HEATMAP", "read_bins", 1): "bins",
}


def _list_of(module: Module, name: str) -> Ragged:
    """The list as words; its lengths must be those that the records announce."""
    column = module.ragged.get(name)
    announced = module.records[_COUNTS[module.name, name, module.version]]
    if column is None or (column.offsets[1:] - column.offsets[:-1]).tolist() != announced.tolist():
        raise ValueError(f"{module.name}: `{name}` has not the lengths that the records give")
    if column.values.dtype == LUSTRE_COMPONENT_DTYPE:
        words_each = LUSTRE_COMPONENT_DTYPE.itemsize // 8
        return Ragged(column.offsets * words_each, np.ascontiguousarray(column.values).view(np.int64))
    return Ragged(column.offsets, column.values.astype(np.int64, copy=False))


def _interleave(heads: NDArray[np.int64], lists: list[Ragged]) -> NDArray[np.int64]:
    """Head, first list, second list of record 0, then of record 1, and so on."""
    count, head_words = heads.shape
    lengths = np.empty((count, 1 + len(lists)), dtype=np.int64)
    lengths[:, 0] = head_words
    for position, column in enumerate(lists, start=1):
        lengths[:, position] = column.offsets[1:] - column.offsets[:-1]
    kinds = np.broadcast_to(np.arange(1 + len(lists)), lengths.shape).ravel().repeat(lengths.ravel())
    words = np.empty(len(kinds), dtype=np.int64)
    words[kinds == 0] = heads.ravel()
    for position, column in enumerate(lists, start=1):
        words[kinds == position] = column.values
    return words
