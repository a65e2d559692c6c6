"""Darshan 3.x logs: an uncompressed header that points to regions of compressed streams."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ioweather.core.errors import CorruptInput, SourceError, UnknownFormat, UnsupportedVersion
from ioweather.sources.darshan.counters import FIXED
from ioweather.sources.darshan.errors import cut_short, damaged
from ioweather.sources.darshan.job import parse_job
from ioweather.sources.darshan.layout import (
    COMPRESSIONS,
    LAYOUTS,
    MAGIC,
    NATIVE,
    RECORD_BYTES,
    VARIABLE,
    ByteOrder,
    Compression,
    HeaderLayout,
    fixed_dtype,
    header_structs,
)
from ioweather.sources.darshan.model import DarshanLog, Module
from ioweather.sources.darshan.names import parse_names
from ioweather.sources.darshan.regions import Budget, Buffer, expand
from ioweather.sources.darshan.variable import parse_variable

_READ: Final = frozenset(name for name, _ in (*FIXED, *VARIABLE))
MAGIC_BYTES: Final[dict[bytes, ByteOrder]] = {MAGIC.to_bytes(8, "little"): "little", MAGIC.to_bytes(8, "big"): "big"}
DIGEST_CHARACTERS: Final = 32


def digest_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:DIGEST_CHARACTERS]


class _Place(NamedTuple):
    """One module in the file."""

    number: int
    version: int
    offset: int
    length: int


class _Header(NamedTuple):
    layout: HeaderLayout
    order: ByteOrder
    compression: Compression
    partial_flags: int
    job_end: int
    names_offset: int
    names_length: int
    modules: list[_Place]


def read_version_3(data: bytes, wanted: Collection[str] | None, digest: str | None = None) -> DarshanLog:
    header = _read_header(data)
    layout, order, compression = header.layout, header.order, header.compression
    view = memoryview(data)
    budget = Budget(len(data))
    job = parse_job(
        expand(view[layout.bytes : header.job_end], compression, budget, "job record"), layout.job_words, order
    )
    name_region = view[header.names_offset : header.names_offset + header.names_length]
    names = parse_names(
        expand(name_region, compression, budget, "name map"),
        order,
        stored_bytes=header.names_length,
        with_lengths=layout.name_lengths,
    )
    modules: dict[str, Module] = {}
    unknown: list[str] = []
    skipped: list[str] = []
    longer: list[str] = []
    for place in header.modules:
        name = layout.module_name(place.number)
        dtype = fixed_dtype(name, place.version, order)
        if dtype is None and (name, place.version) not in VARIABLE:
            unknown.append(f"{name} version {place.version}" if name in _READ else name)
            continue
        if wanted is not None and name not in wanted:
            skipped.append(name)
            continue
        region = expand(view[place.offset : place.offset + place.length], compression, budget, f"{name} module")
        partial = bool(header.partial_flags >> place.number & 1)
        if dtype is None:
            try:
                module = parse_variable(name, place.version, partial, region, order)
            except SourceError:
                if not longer:  # else a fork made these longer, too, and nothing tells by how much
                    raise
                unknown.append(f"{name} of a fork")
                continue
            check_ranks(module, job.nprocs)
        else:
            if len(region) % dtype.itemsize or not _fits(region, dtype, job.nprocs):
                stretched = _fork_dtype(name, dtype, region, names, job.nprocs)
                if stretched is None:
                    raise _misfit(name, dtype, region, job.nprocs)
                longer.append(name)
                dtype = stretched
            module = Module(name, place.version, partial, _fixed(dtype, region, order))
        modules[name] = module
    partial_modules = _flagged(header.partial_flags, layout) if header.partial_flags else ()
    return DarshanLog(
        layout.version, order, compression, job, modules, names, partial_modules, tuple(unknown),
        digest or digest_of(data), tuple(skipped), tuple(longer),
    )  # fmt: skip


def _identify(data: bytes) -> tuple[HeaderLayout, ByteOrder]:
    order = MAGIC_BYTES.get(data[8:16])
    version = data[:8].rstrip(b"\0")
    if order is None:
        if version in LAYOUTS:
            if len(data) < 16:
                raise cut_short(f"The log ends after {len(data)} bytes, within its header.")
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


def _read_header(data: bytes) -> _Header:
    layout, order = _identify(data)
    if data[16] >= len(COMPRESSIONS):
        raise damaged(f"The header names compression {data[16]}; 0, 1 or 2 was expected.")
    # Most modules are absent, and the last ones of the map always are: only what stands before zeros is looked at.
    used = len(data[layout.map_offset : layout.map_offset + 16 * (layout.module_count + 1)].rstrip(b"\0"))
    structs = header_structs(layout, order, max(1, -(-used // 16)))
    places = structs.map.unpack_from(data, layout.map_offset)
    names_offset, names_length = places[:2]
    regions = [(names_offset, names_length)] if names_length else []
    modules = []
    # The name map stands before the modules.
    for number, (offset, length) in enumerate(zip(places[2::2], places[3::2], strict=True)):
        if length:
            version = structs.version.unpack_from(data, layout.versions_offset + 4 * number)[0]
            modules.append(_Place(number, version, offset, length))
            regions.append((offset, length))
    regions.sort()
    job_end = _check_tiling(regions, layout.bytes, len(data))
    flags = structs.flags.unpack_from(data, layout.partial_offset)[0]
    return _Header(layout, order, COMPRESSIONS[data[16]], flags, job_end, names_offset, names_length, modules)


def _check_tiling(regions: list[tuple[int, int]], header_bytes: int, file_bytes: int) -> int:
    """End of the job region. Regions follow each other without gap or overlap to the end of the file in every log that
    Darshan writes; anything else is a damaged header, and would be read as another log without a word."""
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


def _fork_dtype(
    name: str, dtype: np.dtype[Any], region: Buffer, names: Mapping[int, str], nprocs: int
) -> np.dtype[Any] | None:
    """The records of a fork of Darshan that put counters of its own behind the known ones. The shortest length at which
    every record has the id of a name and a rank that the job has is theirs, unless another version of the module has
    it: then the version in the header, which nothing protects, is wrong."""
    size, others = len(region), {RECORD_BYTES[key] for key in RECORD_BYTES if key[0] == name}
    fields = {field: dtype.fields[field] for field in dtype.names or ()} if dtype.fields else {}
    for longer in range(dtype.itemsize + 8, min(size, 2 * dtype.itemsize) + 1, 8):
        if size % longer == 0:
            stretched = np.dtype(
                {
                    "names": list(fields),
                    "formats": [kind[0] for kind in fields.values()],
                    "offsets": [kind[1] for kind in fields.values()],
                    "itemsize": longer,
                }
            )
            ids = np.frombuffer(region, stretched)["id"].tolist()
            if _fits(region, stretched, nprocs) and set(ids) <= names.keys():
                return None if longer in others else stretched
    return None


def _fits(region: Buffer, dtype: np.dtype[Any], nprocs: int) -> bool:
    return _ranks_exist(np.frombuffer(region, dtype)["rank"], nprocs)


def _ranks_exist(column: NDArray[Any], nprocs: int) -> bool:
    # Most modules have few records, where a list is faster than a reduction.
    ranks = column.tolist() if len(column) < 1000 else [column.min(), column.max()]
    return not ranks or (min(ranks) >= -1 and max(ranks) < nprocs)


def _fixed(dtype: np.dtype[Any], region: Buffer, order: ByteOrder) -> NDArray[Any]:
    records = np.frombuffer(region, dtype)
    if order != NATIVE:
        records = records.byteswap().view(records.dtype.newbyteorder(NATIVE))
    records.flags.writeable = False
    return records


def check_ranks(module: Module, nprocs: int) -> None:
    """The header is not protected by a checksum; a module read with another's layout shows here."""
    if not _ranks_exist(module.records["rank"], nprocs):
        raise _without_ranks(module.name, nprocs)


def _without_ranks(name: str, nprocs: int) -> CorruptInput:
    return damaged(f"The {name} module has records of ranks that the {nprocs} processes do not have.")


def _misfit(name: str, dtype: np.dtype[Any], region: Buffer, nprocs: int) -> CorruptInput:
    if len(region) % dtype.itemsize == 0:
        return _without_ranks(name, nprocs)
    return damaged(
        f"The {name} module has {len(region)} bytes, which is no multiple of its record of {dtype.itemsize}."
    )


def _flagged(flags: int, layout: HeaderLayout) -> tuple[str, ...]:
    return tuple(layout.module_name(number) for number in range(layout.module_count) if flags >> number & 1)
