"""Write Darshan logs of version 3.41, little-endian, as simulated facilities need them. The same input gives the same
bytes. The input is not checked: the reader does that."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ioweather.core.units import NS
from ioweather.readers.darshan.format import (
    COMPRESSIONS,
    HEATMAP_DTYPE,
    LAYOUTS,
    LUSTRE_V1_DTYPE,
    MAGIC,
    METADATA_BYTES,
    NATIVE,
    fixed_dtype,
)
from ioweather.readers.darshan.log import DarshanJob, Module

__all__ = ["log_bytes", "new_records", "write_log"]

_LAYOUT: Final = LAYOUTS[b"3.41"]
# The version of each module that is written, and its lists.
_VERSIONS: Final = {"POSIX": 4, "MPI-IO": 3, "STDIO": 2, "H5F": 3, "LUSTRE": 1, "HEATMAP": 1}
_LISTS: Final = {"LUSTRE": ("ost_ids",), "HEATMAP": ("write_bins", "read_bins")}
_HEATMAP_POINTERS: Final = bytes(16)  # behind the head of a heat map, meaningless in a file


def new_records(module: str, count: int) -> NDArray[Any]:
    """Zeroed records of the version that is written: POSIX 4, MPI-IO 3, STDIO 2, H5F 3, LUSTRE 1, HEATMAP 1."""
    lists = {"LUSTRE": LUSTRE_V1_DTYPE, "HEATMAP": HEATMAP_DTYPE}
    return np.zeros(count, lists.get(module) or fixed_dtype(module, _VERSIONS[module], NATIVE))


def write_log(
    path: Path | str, job: DarshanJob, modules: Mapping[str, NDArray[Any] | Module], names: Mapping[int, str]
) -> None:
    """Write a log. A module is an array made by `new_records`, or a `Module` (needed for LUSTRE and HEATMAP lists).

    `job.run_seconds` is not stored: it follows from the times.
    """
    Path(path).write_bytes(log_bytes(job, modules, names))


def log_bytes(job: DarshanJob, modules: Mapping[str, NDArray[Any] | Module], names: Mapping[int, str]) -> bytes:
    """The bytes of the log that `write_log` writes."""
    encoded: dict[int, bytes] = {0: _encode_names(names)}
    versions = [0] * _LAYOUT.module_count
    flags = 0
    for name, given in modules.items():
        module = given if isinstance(given, Module) else Module(name, _VERSIONS.get(name, 0), False, given)
        number = _LAYOUT.modules.index(name)
        versions[number] = module.version
        flags |= module.partial << number
        encoded[number + 1] = _encode_module(module)
    regions = [zlib.compress(_encode_job(job))]
    # In the map the name region is first, then the modules by number; absent ones stay 0, 0.
    places = [0] * (2 * (_LAYOUT.module_count + 1))
    position = _LAYOUT.bytes + len(regions[0])
    for index, raw in sorted(encoded.items()):
        if raw:
            regions.append(zlib.compress(raw))
            places[2 * index : 2 * index + 2] = position, len(regions[-1])
            position += len(regions[-1])
    start = struct.pack("<8sqB7xQ", _LAYOUT.version.encode(), MAGIC, COMPRESSIONS.index("zlib"), flags)
    numbers = struct.pack(f"<{len(places)}Q{len(versions)}I", *places, *versions)
    return b"".join((start, numbers, *regions))


def _encode_module(module: Module) -> bytes:
    """The bytes of the records of a module, each with its lists."""
    records = module.records
    heads = records.astype(records.dtype.newbyteorder("<"), copy=False)
    if module.name not in _LISTS:
        return heads.tobytes()
    lists = [module.ragged[name] for name in _LISTS[module.name]]
    pointers = _HEATMAP_POINTERS if module.name == "HEATMAP" else b""
    return b"".join(
        part
        for place in range(len(records))
        for part in (heads[place].tobytes(), pointers, *(column[place].astype("<i8").tobytes() for column in lists))
    )


def _encode_job(job: DarshanJob) -> bytes:
    """The bytes of the job record, with metadata, command and mounts."""
    start, start_part_ns = divmod(job.start_ns, NS)
    end, end_part_ns = divmod(job.end_ns, NS)
    words = struct.pack("<7q", job.uid, start, start_part_ns, end, end_part_ns, job.nprocs, job.job_id)
    metadata = "".join(f"{key}={value}\n" for key, value in job.metadata.items()).encode()
    command = "\n".join([job.exe, *(f"{kind}\t{path}" for path, kind in job.mounts)]).encode()
    return b"".join((words, metadata.ljust(METADATA_BYTES, b"\0"), command, b"\0"))


def _encode_names(names: Mapping[int, str]) -> bytes:
    """The bytes of the name map: ids and names with a terminator."""
    return b"".join(record_id.to_bytes(8, "little") + name.encode() + b"\0" for record_id, name in names.items())
