"""Darshan 3.x logs: an uncompressed header that points to regions of compressed streams."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ioweather.core.errors import UnknownFormat, UnsupportedVersion
from ioweather.sources.darshan.counters import FIXED
from ioweather.sources.darshan.job import parse_job
from ioweather.sources.darshan.layout import (
    COMPRESSIONS,
    LAYOUTS,
    MAGIC,
    NATIVE,
    VARIABLE,
    ByteOrder,
    HeaderLayout,
    fixed_dtype,
    header_structs,
)
from ioweather.sources.darshan.model import DarshanLog, Module
from ioweather.sources.darshan.names import parse_names
from ioweather.sources.darshan.refusals import cut_short, damaged
from ioweather.sources.darshan.regions import Budget, Buffer, expand
from ioweather.sources.darshan.variable import parse_variable

_READ: Final = frozenset(name for name, _ in (*FIXED, *VARIABLE))
_MAGIC_BYTES: Final[dict[bytes, ByteOrder]] = {MAGIC.to_bytes(8, "little"): "little", MAGIC.to_bytes(8, "big"): "big"}
DIGEST_CHARACTERS: Final = 32


def digest_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:DIGEST_CHARACTERS]


def read_version_3(data: bytes, wanted: Collection[str] | None) -> DarshanLog:
    layout, order = _identify(data)
    if data[16] >= len(COMPRESSIONS):
        raise damaged(f"The header names compression {data[16]}; 0, 1 or 2 was expected.")
    compression = COMPRESSIONS[data[16]]
    partial_struct, map_struct, versions_struct = header_structs(layout.version.encode(), order)
    flags: int = partial_struct.unpack_from(data, layout.partial_offset)[0]
    places = map_struct.unpack_from(data, layout.map_offset)
    versions = versions_struct.unpack_from(data, layout.versions_offset)
    job_end = _check_tiling(places, layout.bytes, len(data))

    view = memoryview(data)
    budget = Budget(len(data))
    job = parse_job(expand(view[layout.bytes : job_end], compression, budget, "job record"), layout.job_words, order)
    name_region = expand(view[places[0] : places[0] + places[1]], compression, budget, "name map") if places[1] else b""
    names = parse_names(name_region, order, with_lengths=layout.name_lengths)

    modules: dict[str, Module] = {}
    unknown: list[str] = []
    for number, (version, length) in enumerate(zip(versions, places[3::2], strict=True)):
        if not length:
            continue
        name = layout.module_name(number)
        dtype = fixed_dtype(name, version, order)
        if dtype is None and (name, version) not in VARIABLE:
            unknown.append(name if name not in _READ else f"{name} version {version}")
            continue
        if wanted is not None and name not in wanted:
            continue
        offset = places[2 + 2 * number]
        region = expand(view[offset : offset + length], compression, budget, f"{name} module")
        partial = bool(flags >> number & 1)
        if dtype is None:
            module = parse_variable(name, version, partial, region, order)
        else:
            module = Module(name, version, partial, _fixed(name, dtype, region, order))
        _check_ranks(module, job.nprocs)
        modules[name] = module
    partial_modules = _flagged(flags, layout)
    return DarshanLog(
        layout.version, order, compression, job, modules, names, partial_modules, tuple(unknown), digest_of(data)
    )


def _identify(data: bytes) -> tuple[HeaderLayout, ByteOrder]:
    order = _MAGIC_BYTES.get(data[8:16])
    version = data[:8].rstrip(b"\0")
    if order is None:
        if version in LAYOUTS and len(data) >= 16:
            raise damaged(f"The header says version {version.decode()} but its magic number is wrong.")
        raise UnknownFormat(
            "This is not a Darshan log.", hint="A log starts with its version, such as 3.41, and a magic number."
        )
    layout = LAYOUTS.get(version)
    if layout is None:
        raise UnsupportedVersion(
            f"The log has version {version.decode('ascii', 'backslashreplace')}; "
            f"versions {', '.join(v.version for v in LAYOUTS.values())} are read.",
            hint="A newer ioweather may read it.",
        )
    if len(data) < layout.bytes:
        raise cut_short(f"The log ends after {len(data)} bytes; its header alone has {layout.bytes}.")
    return layout, order


def _check_tiling(places: tuple[int, ...], header_bytes: int, file_bytes: int) -> int:
    """End of the job region. Regions follow each other without gap or overlap to the end of the file in every log that
    Darshan writes; anything else is a damaged header, and would be read as another log without a word."""
    regions = sorted((offset, length) for offset, length in zip(places[::2], places[1::2], strict=True) if length)
    first = position = regions[0][0] if regions else file_bytes
    for offset, length in regions:
        if offset != position:
            raise damaged(f"The header places a region at byte {offset}; {position} was expected.")
        position = offset + length
    if position > file_bytes:
        raise cut_short(f"The log ends after {file_bytes} bytes; its header says that it has {position}.")
    if position < file_bytes:
        raise damaged(f"{file_bytes - position} bytes of the log belong to no region.")
    if first <= header_bytes:
        raise damaged("The header leaves no room for the job record.")
    return first


def _fixed(name: str, dtype: np.dtype[Any], region: Buffer, order: ByteOrder) -> NDArray[Any]:
    if len(region) % dtype.itemsize:
        raise damaged(
            f"The {name} module has {len(region)} bytes, which is no multiple of its record of {dtype.itemsize}."
        )
    records = np.frombuffer(region, dtype)
    records.flags.writeable = False
    return records if order == NATIVE else records.byteswap().view(records.dtype.newbyteorder(NATIVE))


def _check_ranks(module: Module, nprocs: int) -> None:
    """The header is not protected by a checksum; a module read with another's layout shows here."""
    ranks = module.records["rank"]
    if len(ranks) and not (ranks.min() >= -1 and ranks.max() < nprocs):
        raise damaged(f"The {module.name} module has records of ranks that the {nprocs} processes do not have.")


def _flagged(flags: int, layout: HeaderLayout) -> tuple[str, ...]:
    if not flags:
        return ()
    return tuple(layout.module_name(number) for number in range(layout.module_count) if flags >> number & 1)
