"""Write Darshan logs of version 3.41, little-endian, for Darshan's own tools. The same input gives the same bytes."""

from __future__ import annotations

import bz2
import struct
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ioweather.core.units import NS
from ioweather.readers.darshan.binary import check_job, parse_command, parse_metadata, sort_mounts
from ioweather.readers.darshan.format import (
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
from ioweather.readers.darshan.log import DarshanJob, Module, Ragged

# The version of each module that is written where only an array of records is given.
_NEWEST: Final = {"POSIX": 4, "MPI-IO": 3, "STDIO": 2}
# Records of variable length: their dtype, and each list with the field that counts its items.
_LISTS: Final[dict[tuple[str, int], tuple[np.dtype[Any], dict[str, str]]]] = {
    ("LUSTRE", 1): (LUSTRE_V1_DTYPE, {"ost_ids": "LUSTRE_STRIPE_WIDTH"}),
    ("LUSTRE", 2): (LUSTRE_V2_DTYPE, {"components": "components", "ost_ids": "stripes"}),
    ("HEATMAP", 1): (HEATMAP_DTYPE, {"write_bins": "bins", "read_bins": "bins"}),
}
_HEATMAP_POINTERS: Final = bytes(16)  # behind the head of a heat map, meaningless in a file


def new_records(module: str, count: int) -> NDArray[Any]:
    """Zeroed records of the version that is written: POSIX 4, MPI-IO 3, STDIO 2, LUSTRE 1, HEATMAP 1."""
    return np.zeros(count, _dtype_of(module, _NEWEST.get(module, 1)))


def _dtype_of(module: str, version: int) -> np.dtype[Any]:
    dtype = _LISTS[module, version][0] if (module, version) in _LISTS else None
    if _NEWEST.get(module) == version:
        dtype = fixed_dtype(module, version, NATIVE)
    if dtype is None:
        raise ValueError(f"{module} version {version} is not written; POSIX 4, MPI-IO 3, STDIO 2, LUSTRE, HEATMAP are")
    return dtype


def _encode_module(module: Module, nprocs: int) -> bytes:
    records = module.records
    ranks = records["rank"].tolist()
    if ranks and not (min(ranks) >= -1 and max(ranks) < nprocs):
        raise ValueError(f"{module.name} has records of ranks that {nprocs} processes do not have")
    if records.dtype != _dtype_of(module.name, module.version):
        raise ValueError(f"records of {module.name} are not those of version {module.version}: use new_records()")
    heads = records.astype(records.dtype.newbyteorder("<"), copy=False)
    if (module.name, module.version) not in _LISTS:
        return heads.tobytes()
    lists = []
    for name, counted_by in _LISTS[module.name, module.version][1].items():
        column = module.ragged.get(name)
        if column is None or np.diff(column.offsets).tolist() != records[counted_by].tolist():
            raise ValueError(f"{module.name}: `{name}` has not the lengths that the records give")
        kind = LUSTRE_COMPONENT_DTYPE if name == "components" else np.dtype(np.int64)
        lists.append(Ragged(column.offsets, column.values.astype(kind.newbyteorder("<"), copy=False)))
    pointers = _HEATMAP_POINTERS if module.name == "HEATMAP" else b""
    return b"".join(
        part
        for place in range(len(records))
        for part in (heads[place].tobytes(), pointers, *(column[place].tobytes() for column in lists))
    )


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
    encoded: dict[int, bytes] = {0: _encode_names(names)}
    versions = [0] * _LAYOUT.module_count
    flags = 0
    for name, given in modules.items():
        if name not in _LAYOUT.modules:
            raise ValueError(f"there is no Darshan module {name!r}")
        module = given if isinstance(given, Module) else Module(name, _NEWEST.get(name, 1), False, given)
        number = _LAYOUT.modules.index(name)
        versions[number] = module.version
        flags |= module.partial << number
        encoded[number + 1] = _encode_module(module, job.nprocs)
    packers: dict[str, Callable[[bytes], bytes]] = {"zlib": zlib.compress, "bzip2": bz2.compress, "none": bytes}
    pack = packers[compress]
    regions = [pack(_encode_job(job))]
    # In the map the name region is first, then the modules by number; absent ones stay 0, 0.
    places = [0] * (2 * (_LAYOUT.module_count + 1))
    position = _LAYOUT.bytes + len(regions[0])
    for index, raw in sorted(encoded.items()):
        if raw:
            regions.append(pack(raw))
            places[2 * index : 2 * index + 2] = position, len(regions[-1])
            position += len(regions[-1])
    start = _HEADER_START.pack(_LAYOUT.version.encode(), MAGIC, COMPRESSIONS.index(compress), flags)
    return b"".join((start, _MAP.pack(*places), _VERSIONS.pack(*versions), *regions))


def _encode_job(job: DarshanJob) -> bytes:
    start, start_part_ns = divmod(job.start_ns, NS)
    end, end_part_ns = divmod(job.end_ns, NS)
    check_job(start, end, job.nprocs)
    words = struct.pack("<7q", job.uid, start, start_part_ns, end, end_part_ns, job.nprocs, job.job_id)
    metadata = "".join(f"{key}={value}\n" for key, value in job.metadata.items()).encode()
    command = "\n".join([job.exe, *(f"{kind}\t{path}" for path, kind in job.mounts)]).encode()
    if len(metadata) >= METADATA_BYTES or len(command) > _COMMAND_BYTES:
        raise ValueError(f"the job's metadata or its command and mounts are longer than {_COMMAND_BYTES} bytes")
    reads_back = parse_command(command.decode()) == (job.exe, sort_mounts(list(job.mounts)))
    if parse_metadata(metadata) != dict(job.metadata) or b"\0" in command or not reads_back:
        raise ValueError("the job's metadata, command or mounts hold characters that the format cannot keep")
    return b"".join((words, metadata.ljust(METADATA_BYTES, b"\0"), command, b"\0"))


def _encode_names(names: Mapping[int, str]) -> bytes:
    for record_id, name in names.items():
        if "\0" in name or not name:
            raise ValueError(f"the name of record {record_id} is empty or holds a NUL")
    return b"".join(record_id.to_bytes(8, "little") + name.encode() + b"\0" for record_id, name in names.items())
