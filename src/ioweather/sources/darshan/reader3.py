"""Darshan 3.x logs: an uncompressed header that points to regions of compressed streams."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ioweather.core.arrays import Ints
from ioweather.core.errors import CorruptInput, SourceError, UnknownFormat, UnsupportedVersion
from ioweather.sources.darshan.counters import FIXED
from ioweather.sources.darshan.errors import cut_short, damaged
from ioweather.sources.darshan.job import parse_job
from ioweather.sources.darshan.layout import (
    COMPRESSIONS,
    DXT_DTYPE,
    HEATMAP_DTYPE,
    LAYOUTS,
    LUSTRE_COMPONENT_DTYPE,
    LUSTRE_V1_DTYPE,
    LUSTRE_V2_DTYPE,
    MAGIC,
    NATIVE,
    RECORD_BYTES,
    SEGMENT_FIELDS,
    VARIABLE,
    ByteOrder,
    Compression,
    HeaderLayout,
    fixed_dtype,
    header_structs,
)
from ioweather.sources.darshan.model import DarshanLog, Module, Ragged
from ioweather.sources.darshan.names import parse_names
from ioweather.sources.darshan.regions import Budget, Buffer, expand

# Modules whose records vary in length: LUSTRE, HEATMAP and the DXT traces.


@dataclass(frozen=True)
class _Shape:
    """`counts`: (index of a head word, words per counted item), in the order the items stand behind the head."""

    head_words: int
    counts: tuple[tuple[int, int], tuple[int, int]]


_WORD: Final[dict[ByteOrder, np.dtype[np.int64]]] = {"little": np.dtype("<i8"), "big": np.dtype(">i8")}
_COMPONENT_WORDS: Final = 9
_LUSTRE_V1: Final = _Shape(7, ((6, 1), (6, 0)))
_LUSTRE_V2: Final = _Shape(4, ((2, _COMPONENT_WORDS), (3, 1)))
_HEATMAP: Final = _Shape(6, ((3, 1), (3, 1)))
_HEATMAP_HEAD: Final = np.dtype([("words", "i8", 6)])
_DXT_HEAD_WORDS: Final = 13
_FEW_RECORDS: Final = 500


def parse_variable(name: str, version: int, partial: bool, region: Buffer, order: ByteOrder) -> Module:
    if len(region) % 8:
        raise damaged(f"The {name} module has {len(region)} bytes, which is no multiple of 8.")
    stored = np.frombuffer(region, _WORD[order])
    # A region that is not compressed lies anywhere in the file, and words must be aligned to be looked at one by one.
    as_it_is = order == NATIVE and stored.flags.aligned
    words = stored if as_it_is else stored.astype(_WORD[NATIVE])
    if name == "LUSTRE":
        records, ragged = _lustre_v1(words) if version == 1 else _lustre_v2(words, stored)
        return Module(name, version, partial, records, ragged)
    if name == "HEATMAP":
        return Module(name, version, partial, *_heatmap(words))
    records, segments = _dxt(name, words, stored, SEGMENT_FIELDS[name, version])
    return Module(name, version, partial, records, segments=segments)


def _starts(module: str, words: Ints, shape: _Shape) -> array[int]:
    """First word of each record."""
    view = words.data
    size = len(words)
    last_start = size - shape.head_words
    (first, first_words), (second, second_words) = shape.counts
    starts = array("q")  # a list of Python integers would be five times as large as what it describes
    append = starts.append
    position = 0
    while position <= last_start:
        append(position)
        first_count = view[position + first]
        second_count = view[position + second]
        if first_count < 0 or second_count < 0:  # would walk backwards, for ever
            break
        position += shape.head_words + first_count * first_words + second_count * second_words
    if position != size:
        raise damaged(f"Record {max(len(starts) - 1, 0)} of the {module} module does not end where the module does.")
    return starts


def _uniform(words: Ints, shape: _Shape) -> Ints | None:
    """The records as rows where all say that they are as long as the first; for one count that stands for both."""
    (index, first_words), (_, second_words) = shape.counts
    if len(words) <= index or not 0 <= (count := int(words[index])) <= len(words):
        return None
    length = shape.head_words + count * (first_words + second_words)
    if len(words) % length:
        return None
    rows = words.reshape(-1, length)
    return rows if set(rows[:, index].tolist()) == {count} else None


def _split(words: Ints, starts: array[int], head: np.dtype[Any]) -> tuple[NDArray[Any], Ints]:
    """Heads of records, and all that stands between them."""
    size = head.itemsize
    if len(starts) <= _FEW_RECORDS:  # slices of bytes take a tenth of the time of that many array operations
        raw = words.tobytes()
        edges = [8 * start for start in (*starts, len(words))]
        heads = bytearray().join([raw[start : start + size] for start in edges[:-1]])
        rest = bytearray().join([raw[start + size : end] for start, end in pairwise(edges)])
        return np.frombuffer(heads, head), np.frombuffer(rest, words.dtype)
    rows = np.empty((len(starts), size // 8), dtype=words.dtype)
    between = np.ones(len(words), dtype=np.bool_)
    for index in range(size // 8):  # word by word: all positions at once are as large as the heads themselves
        positions = np.frombuffer(starts, np.int64) + index
        rows[:, index] = words[positions]
        between[positions] = False
    return rows.view(head)[:, 0], words[between]


def _offsets(counts: Ints) -> Ints:
    offsets = np.zeros(len(counts) + 1, dtype=np.int64)
    counts.cumsum(out=offsets[1:])
    return offsets


def _alternating(first: Ints, second: Ints) -> Ints:
    """Twice the number of its record for each item, where each record has its first kind, then its second; and one more
    for items of the second kind."""
    return np.arange(2 * len(first)).repeat(np.array([first, second]).T.ravel())


def _lustre_v1(words: Ints) -> tuple[NDArray[Any], dict[str, Ragged]]:
    records, ost_ids = _split(words, _starts("LUSTRE", words, _LUSTRE_V1), LUSTRE_V1_DTYPE)
    return records, {"ost_ids": Ragged(_offsets(records["LUSTRE_STRIPE_WIDTH"]), ost_ids)}


def _lustre_v2(words: Ints, stored: Ints) -> tuple[NDArray[Any], dict[str, Ragged]]:
    starts = _starts("LUSTRE", words, _LUSTRE_V2)
    records, rest = _split(words, starts, LUSTRE_V2_DTYPE)
    is_component = _alternating(records["components"] * _COMPONENT_WORDS, records["stripes"]) & 1 == 0
    component_words = rest[is_component].reshape(-1, _COMPONENT_WORDS)
    # The pool's name is text: it keeps its bytes whatever the byte order of the log.
    as_stored = _split(stored, starts, LUSTRE_V2_DTYPE)[1][is_component].reshape(-1, _COMPONENT_WORDS)
    component_words[:, 7:] = as_stored[:, 7:].view("=i8")
    components = component_words.view(LUSTRE_COMPONENT_DTYPE)[:, 0]
    return records, {
        "components": Ragged(_offsets(records["components"]), components),
        "ost_ids": Ragged(_offsets(records["stripes"]), rest[~is_component]),
    }


def _heatmap(words: Ints) -> tuple[NDArray[Any], dict[str, Ragged]]:
    # The last two words of the head are pointers of the process that wrote the log.
    uniform = _uniform(words, _HEATMAP)
    if uniform is not None:  # as Darshan itself writes them
        bins = (uniform.shape[1] - 6) // 2
        heads, writes, reads = uniform[:, :4], uniform[:, 6 : 6 + bins].ravel(), uniform[:, 6 + bins :].ravel()
        offsets = np.arange(0, (len(heads) + 1) * bins, bins) if bins else np.zeros(len(heads) + 1, dtype=np.int64)
    else:
        split, values = _split(words, _starts("HEATMAP", words, _HEATMAP), _HEATMAP_HEAD)
        heads = split["words"]
        is_write = _alternating(heads[:, 3], heads[:, 3]) & 1 == 0
        writes, reads, offsets = values[is_write], values[~is_write], _offsets(heads[:, 3])
    records = np.ascontiguousarray(heads[:, :4]).view(HEATMAP_DTYPE)[:, 0]
    return records, {"write_bins": Ragged(offsets, writes), "read_bins": Ragged(offsets, reads)}


def _dxt(
    name: str, words: Ints, stored: Ints, fields: tuple[tuple[str, str], ...]
) -> tuple[NDArray[Any], NDArray[Any]]:
    item_words = len(fields)
    starts = _starts(name, words, _Shape(_DXT_HEAD_WORDS, ((11, item_words), (12, item_words))))
    records, rest = _split(words, starts, DXT_DTYPE)
    if words is not stored:  # text keeps its bytes whatever the byte order of the log
        records["hostname"] = _split(stored, starts, DXT_DTYPE)[0]["hostname"]
    items = rest.reshape(-1, item_words)
    dtype = _segment_dtype(fields)
    made = np.zeros((len(items), dtype.itemsize // 8), np.int64)
    segments = made.view(dtype)[:, 0]
    # Each record has its writes, then its reads.
    kinds = _alternating(records["writes"], records["reads"])
    made[:, 0] = kinds >> 1
    segments["write"] = kinds & 1 == 0
    made[:, 2:] = items[:, 2 - made.shape[1] :]
    return records, segments


@cache
def _segment_dtype(fields: tuple[tuple[str, str], ...]) -> np.dtype[Any]:
    """All in words of 8 bytes, so that all numbers can be copied at once. What has no name comes first."""
    return np.dtype([("record", "i8"), ("write", "?"), *(field for field in fields if field[0])], align=True)


_READ: Final = frozenset(name for name, _ in (*FIXED, *VARIABLE))
MAGIC_BYTES: Final[dict[bytes, ByteOrder]] = {MAGIC.to_bytes(8, "little"): "little", MAGIC.to_bytes(8, "big"): "big"}
DIGEST_CHARACTERS: Final = 32


def digest_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:DIGEST_CHARACTERS]


class _Header(NamedTuple):
    layout: HeaderLayout
    order: ByteOrder
    compression: Compression
    partial_flags: int
    job_end: int
    names_offset: int
    names_length: int
    modules: list[tuple[int, int, int, int]]  # number, version, offset, length


def read_version_3(data: bytes, wanted: Collection[str] | None, digest: str | None = None) -> DarshanLog:
    layout, order, compression, partial_flags, job_end, names_offset, names_length, places = _read_header(data)
    view = memoryview(data)
    budget = Budget(len(data))
    job_region = view[layout.bytes : job_end]
    job = parse_job(expand(job_region, compression, budget, "job record"), layout.job_words, order)
    name_region = view[names_offset : names_offset + names_length]
    names = parse_names(
        expand(name_region, compression, budget, "name map"),
        order,
        stored_bytes=names_length,
        with_lengths=layout.name_lengths,
    )
    modules: dict[str, Module] = {}
    unknown: list[str] = []
    skipped: list[str] = []
    longer: list[str] = []
    for number, version, offset, length in places:
        name = layout.module_name(number)
        dtype = fixed_dtype(name, version, order)
        if dtype is None and (name, version) not in VARIABLE:
            unknown.append(f"{name} version {version}" if name in _READ else name)
            continue
        if wanted is not None and name not in wanted:
            skipped.append(name)
            continue
        region = expand(view[offset : offset + length], compression, budget, f"{name} module")
        partial = bool(partial_flags >> number & 1)
        if dtype is None:
            try:
                module = parse_variable(name, version, partial, region, order)
            except SourceError:
                if not longer:  # else a fork made these longer, too, and nothing tells by how much
                    raise
                unknown.append(f"{name} of a fork")
                continue
            check_ranks(module, job.nprocs)
        else:
            records = _fitting(dtype, region, job.nprocs)
            if records is None:
                records = _of_fork(name, dtype, region, names, job.nprocs)
                longer.append(name)
            module = Module(name, version, partial, _native(records, order))
        modules[name] = module
    partial_modules = _flagged(partial_flags, layout) if partial_flags else ()
    read = (order, compression, job, modules, names, partial_modules, tuple(unknown))
    return DarshanLog(layout.version, *read, digest or digest_of(data), tuple(skipped), tuple(longer))


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
            modules.append((number, version, offset, length))
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


def _of_fork(name: str, dtype: np.dtype[Any], region: Buffer, names: Mapping[int, str], nprocs: int) -> NDArray[Any]:
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
            records = _fitting(stretched, region, nprocs)
            if records is not None and set(records["id"].tolist()) <= names.keys():
                if longer in others:
                    break
                return records
    raise _misfit(name, dtype, region, nprocs)


def _fitting(dtype: np.dtype[Any], region: Buffer, nprocs: int) -> NDArray[Any] | None:
    """The records, as they are stored; None where it cannot be these."""
    if len(region) % dtype.itemsize:
        return None
    records = np.frombuffer(region, dtype)
    return records if _ranks_exist(records["rank"], nprocs) else None


def _ranks_exist(column: NDArray[Any], nprocs: int) -> bool:
    # Most modules have few records, where a list is faster than a reduction.
    ranks = column.tolist() if len(column) < 1000 else [column.min(), column.max()]
    return not ranks or (min(ranks) >= -1 and max(ranks) < nprocs)


def _native(records: NDArray[Any], order: ByteOrder) -> NDArray[Any]:
    if order != NATIVE:
        records = records.byteswap().view(records.dtype.newbyteorder(NATIVE))
    base: Any = records.base
    if type(base) is not bytes:  # which nobody can change
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
