"""Writes Darshan logs of version 3.41 that Darshan's own tools read. The same input gives the same bytes.

Little-endian: the reverse of `reader3` and `variable`.
"""

from __future__ import annotations

import bz2
import struct
import zlib
from collections.abc import Mapping
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ioweather.core.arrays import Ints
from ioweather.core.units import NS
from ioweather.sources.darshan.layout import (
    COMPRESSIONS,
    HEATMAP_DTYPE,
    LAYOUTS,
    LUSTRE_COMPONENT_DTYPE,
    LUSTRE_V1_DTYPE,
    LUSTRE_V2_DTYPE,
    MAGIC,
    METADATA_BYTES,
    NATIVE,
    Compression,
    fixed_dtype,
)
from ioweather.sources.darshan.model import DarshanJob, Module, Ragged
from ioweather.sources.darshan.regions import check_job, parse_command, parse_metadata, sort_mounts

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


def _heads(module: Module) -> Ints:
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


def _interleave(heads: Ints, lists: list[Ragged]) -> Ints:
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


__all__ = ["log_bytes", "new_records", "write_log"]

_LAYOUT: Final = LAYOUTS[b"3.41"]
# Darshan reads job record, command and mounts into a buffer of 4 KiB with a terminator.
_COMMAND_BYTES: Final = 4096 - _LAYOUT.job_bytes - 1
_HEADER_START: Final = struct.Struct("<8sqB7xQ")
_MAP: Final = struct.Struct(f"<{2 * (_LAYOUT.module_count + 1)}Q")
_VERSIONS: Final = struct.Struct(f"<{_LAYOUT.module_count}I")


def write_log(
    path: Path | str,
    job: DarshanJob,
    modules: Mapping[str, NDArray[Any] | Module],
    names: Mapping[int, str],
    *,
    compress: Compression = "zlib",
) -> None:
    """Write a log. A module is an array made by `new_records`, or a `Module` (needed for LUSTRE and HEATMAP lists).

    `job.run_seconds` is not stored: it follows from the times. Raises ValueError for what the format cannot hold.
    """
    Path(path).write_bytes(log_bytes(job, modules, names, compress=compress))


def log_bytes(
    job: DarshanJob,
    modules: Mapping[str, NDArray[Any] | Module],
    names: Mapping[int, str],
    *,
    compress: Compression = "zlib",
) -> bytes:
    """The bytes of the log that `write_log` writes."""
    numbered = sorted(
        ((_number(name), _as_module(name, module)) for name, module in modules.items()), key=itemgetter(0)
    )
    # In the map the name region is first, then the modules by number; absent ones stay 0, 0.
    places = [0] * (2 * (_LAYOUT.module_count + 1))
    versions = [0] * _LAYOUT.module_count
    flags = 0
    regions = [_pack(_job_region(job), compress)]
    position = _LAYOUT.bytes + len(regions[0])
    encoded = [(0, _name_region(names))]
    for number, module in numbered:
        versions[number] = module.version
        flags |= module.partial << number
        encoded.append((number + 1, _module_region(module, job.nprocs)))
    for index, raw in encoded:
        region = _pack(raw, compress)
        if region:
            places[2 * index : 2 * index + 2] = position, len(region)
            position += len(region)
            regions.append(region)
    start = _HEADER_START.pack(_LAYOUT.version.encode(), MAGIC, COMPRESSIONS.index(compress), flags)
    return b"".join((start, _MAP.pack(*places), _VERSIONS.pack(*versions), *regions))


def _number(name: str) -> int:
    if name not in _LAYOUT.modules:
        raise ValueError(f"there is no Darshan module {name!r}")
    return _LAYOUT.modules.index(name)


def _as_module(name: str, given: NDArray[Any] | Module) -> Module:
    if isinstance(given, Module):
        return given
    return Module(name, NEWEST.get(name, 1), False, given)


def _module_region(module: Module, nprocs: int) -> bytes:
    ranks = module.records["rank"].tolist()
    if ranks and not (min(ranks) >= -1 and max(ranks) < nprocs):
        raise ValueError(f"{module.name} has records of ranks that {nprocs} processes do not have")
    return encode(module)


def _job_region(job: DarshanJob) -> bytes:
    start, start_part_ns = divmod(job.start_ns, NS)
    end, end_part_ns = divmod(job.end_ns, NS)
    check_job(start, end, job.nprocs)
    words = struct.pack("<7q", job.uid, start, start_part_ns, end, end_part_ns, job.nprocs, job.job_id)
    metadata = "".join(f"{key}={value}\n" for key, value in job.metadata.items()).encode()
    lines = [job.exe, *(f"{kind}\t{path}" for path, kind in job.mounts)]
    command = "\n".join(lines).encode()
    if len(metadata) >= METADATA_BYTES or len(command) > _COMMAND_BYTES:
        raise ValueError(f"the job's metadata or its command and mounts are longer than {_COMMAND_BYTES} bytes")
    if parse_metadata(metadata) != dict(job.metadata) or not _reads_back(command, job):
        raise ValueError("the job's metadata, command or mounts hold characters that the format cannot keep")
    return b"".join((words, metadata.ljust(METADATA_BYTES, b"\0"), command, b"\0"))


def _reads_back(command: bytes, job: DarshanJob) -> bool:
    exe, mounts = parse_command(command.decode())
    return b"\0" not in command and exe == job.exe and mounts == sort_mounts(list(job.mounts))


def _name_region(names: Mapping[int, str]) -> bytes:
    pieces = []
    for record_id, name in names.items():
        if "\0" in name or not name:
            raise ValueError(f"the name of record {record_id} is empty or holds a NUL")
        pieces.append(record_id.to_bytes(8, "little"))
        pieces.append(name.encode() + b"\0")
    return b"".join(pieces)


def _pack(region: bytes, compress: Compression) -> bytes:
    if not region or compress == "none":
        return region
    return zlib.compress(region) if compress == "zlib" else bz2.compress(region)
