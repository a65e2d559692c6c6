"""Darshan logs of all versions.

3.x has an uncompressed header that points to regions. A region is many compressed streams in a row, one per writing
rank. Regions are expanded within a budget.

1.x and 2.x are one gzip file of a job region and records of one size. They are given in the terms of 3.x, so that
nothing behind the reader needs to know which one wrote a log. There is one record per file for all interfaces. What has
an equal in a 3.x module gets its name; what has none is left out, and `column` says so. Three things to know:
- bytes, sizes and alignment are those of the POSIX layer, stdio included, as in the POSIX module of 3.0;
- the file's bytes are also in MPI-IO, as Darshan 2's own tools count them for files opened by MPI-IO;
- timestamps are of whichever layer came first or last.
1.x has no magic number and no job id. Its records lack the ranks that were fastest and slowest, and more.
"""

from __future__ import annotations

import bz2
import hashlib
import itertools
import re
import struct
import zlib
from array import array
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ioweather.core.errors import CorruptInput, SourceError
from ioweather.core.frames import Ints
from ioweather.core.units import GIB, MIB, NS, format_bytes
from ioweather.readers.darshan.format import (
    COMPRESSIONS,
    CP,
    CP_F,
    CP_MISSING,
    DXT_DTYPE,
    FIXED,
    HEATMAP_DTYPE,
    LAYOUTS,
    LUSTRE_COMPONENT_DTYPE,
    LUSTRE_V1_DTYPE,
    LUSTRE_V2_DTYPE,
    MAGIC,
    METADATA_BYTES,
    NATIVE,
    ORDER_CHARACTER,
    RECORD_BYTES,
    SEGMENT_FIELDS,
    VARIABLE,
    ByteOrder,
    Compression,
    HeaderLayout,
    cp_dtype,
    fixed_dtype,
)
from ioweather.readers.darshan.log import DarshanJob, DarshanLog, Module, Ragged

try:
    from zlib_ng import zlib_ng  # twice as fast as zlib

    _deflate: Any = zlib_ng
except ImportError:  # no wheel for this processor: the same interface and the same bytes
    _deflate = zlib

Buffer: TypeAlias = bytes | bytearray | memoryview

# Handing a whole region to each of 16,384 streams copies the rest of the region 16,384 times (8.4 s against 0.35 s).
# A stream that goes on is given twice as much each time: less than twice the stream is copied.
_WINDOW_BYTES: Final = 16 * 1024
_WIDEST_WINDOW_BYTES: Final = MIB // 4

# Whole real logs expand up to 22 times (records are mostly zeros), single regions 52; zlib can reach 1,032 and bzip2
# far more. What a file may expand to grows with its size, so that a small file cannot fill the memory.
_FREE_BYTES: Final = 64 * MIB
_EXPANSION: Final = 64
_CEILING_BYTES: Final = 4 * GIB

_STARTERS: Final[Mapping[str, Callable[[], Any]]] = {
    "zlib": _deflate.decompressobj,
    "gzip": lambda: _deflate.decompressobj(31),  # the container of Darshan 2.x
    "bzip2": bz2.BZ2Decompressor,
}

_MOUNT: Final = re.compile(r"(\S+)\t(\S+)")
# Seconds whose nanoseconds still fit an int64 with room for sums: until the year 2242.
_LAST_SECOND: Final = 1 << 33
_MOST_PROCESSES: Final = 1 << 31

_ID_BYTES: Final = 8
_LENGTH_BYTES: Final = 4
_FREE_NAMES: Final = 1_000_000
_LEAST_BYTES: Final = 4
_ENTRY: Final = re.compile(rb"(.{8})([^\0]*)\0", re.DOTALL)
_ENTRIES: Final = re.compile(rb"(?:.{8}[^\0]*+\0)*+", re.DOTALL)


def damaged(message: str) -> CorruptInput:
    """An error for bytes that contradict the format."""
    return CorruptInput(message, hint="The file is damaged. Copy it again.")


def cut_short(message: str) -> SourceError:
    """An error for a log that ends too early."""
    return SourceError(message, hint="Copy the complete file and try again.", kind="TruncatedInput")


def decode_text(raw: bytes) -> str:
    """File names are bytes; bytes that are not UTF-8 become \\x escapes, so that the name can be shown and stored."""
    return raw.decode("utf-8", "backslashreplace")


class _Budget:
    """How many bytes the regions of one file may still expand to: `limit_bytes` in all, `left_bytes` from here on."""

    def __init__(self, file_bytes: int) -> None:
        self.limit_bytes = min(max(_FREE_BYTES, _EXPANSION * file_bytes), _CEILING_BYTES)
        self.left_bytes = self.limit_bytes


def expand(region: Buffer, compression: str, budget: _Budget, what: str) -> Buffer:
    """The bytes of a region. Every stream must end, check and be followed by another or by the end of the region."""
    if compression == "none" or not region:
        return region
    start, size = _STARTERS[compression], len(region)
    output = bytearray()  # grows in place: joining pieces would need the memory twice
    position, window_bytes = 0, _WINDOW_BYTES
    try:
        stream = start()
        while position < size:
            if stream.eof:
                stream, window_bytes = start(), _WINDOW_BYTES
            window = region[position : position + window_bytes]
            # One more than is allowed, so that a bomb is seen; 0 would mean without limit.
            output += stream.decompress(window, budget.left_bytes - len(output) + 1)
            if len(output) > budget.left_bytes:
                raise CorruptInput(
                    f"The {what} expands beyond {format_bytes(budget.limit_bytes)}, which is too large for this log.",
                    hint="The file is damaged or designed to exhaust memory.",
                )
            position += len(window) - len(stream.unused_data)
            window_bytes = min(2 * window_bytes, _WIDEST_WINDOW_BYTES)
    except (_deflate.error, OSError, ValueError, EOFError) as error:
        raise damaged(f"Cannot decompress the {what} ({compression}): {error}.") from error
    if not stream.eof:
        raise cut_short(f"The {what} ends in the middle of a compressed stream.")
    budget.left_bytes -= len(output)
    return output


def parse_job(region: Buffer, words: int, order: ByteOrder) -> DarshanJob:
    """The job record of 3.x: user, times and processes, metadata, then the command and the mounts."""
    raw = bytes(region)
    head_bytes = 8 * words + METADATA_BYTES
    if len(raw) < head_bytes:
        raise cut_short(f"The job record has {len(raw)} bytes; expected {head_bytes}.")
    values = struct.unpack_from(f"{ORDER_CHARACTER[order]}{words}q", raw)
    if words == 7:
        uid, start, start_part_ns, end, end_part_ns, nprocs, job_id = values
    else:
        uid, start, end, nprocs, job_id = values
        start_part_ns = end_part_ns = 0
    command, _, rest = raw[head_bytes:].partition(b"\0")
    if rest.strip(b"\0"):
        # A header that has lost the place of the next region makes it look like the end of this one.
        raise damaged(f"The job record is followed by {len(rest)} unexpected bytes.")
    exe, mounts = parse_command(decode_text(command))
    check_job(start, end, nprocs, start_part_ns, end_part_ns)
    start_ns = start * NS + start_part_ns
    end_ns = end * NS + end_part_ns
    # Before 3.41 both times are cut to whole seconds; Darshan counts the second that both are in.
    run_seconds = (end_ns - start_ns) / NS + (1 if words == 5 else 0)
    metadata = parse_metadata(raw[8 * words : head_bytes])
    return DarshanJob(uid, job_id, nprocs, start_ns, end_ns, run_seconds, metadata, exe, mounts)


def check_job(start: int, end: int, nprocs: int, start_part_ns: int = 0, end_part_ns: int = 0) -> None:
    """Raise CorruptInput for numbers that no run can have: the bytes are not a job record."""
    seconds_fit = 0 <= start < _LAST_SECOND and 0 <= end < _LAST_SECOND
    if not (seconds_fit and 0 <= start_part_ns < NS and 0 <= end_part_ns < NS):
        raise damaged(f"The job record has invalid times: start {start} s, end {end} s since 1970.")
    if not 0 < nprocs < _MOST_PROCESSES:
        raise damaged(f"The job record has {nprocs} processes.")


def parse_metadata(raw: bytes) -> dict[str, str]:
    """Settings of Darshan and of MPI-IO: lines KEY=VALUE."""
    pairs = [line.partition("=") for line in decode_text(raw.partition(b"\0")[0]).split("\n")]
    return {key: value for key, separator, value in pairs if separator}


def parse_command(command_and_mounts: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    """The command, and the mounts behind it as (path, type). The command may contain newlines, so a mount is known by
    its form: type, tab, path."""
    first, *rest = command_and_mounts.rstrip("\n").split("\n")
    found = [(line, _MOUNT.fullmatch(line)) for line in rest]
    command = [first, *(line for line, mount in found if mount is None)]
    return "\n".join(command), sort_mounts([(mount[2], mount[1]) for _, mount in found if mount is not None])


def sort_mounts(mounts: list[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """The mounts with the longest path first, so that the first that fits a file is its mount."""
    return tuple(sorted(mounts, key=lambda mount: len(mount[0]), reverse=True))


def parse_names(region: Buffer, order: ByteOrder, *, stored_bytes: int, with_lengths: bool) -> dict[int, str]:
    """Record ids to paths. Every rank writes its own names, so ids repeat: the first non-empty name counts.

    `stored_bytes` is the size of the region in the file. Ids are hashes, which do not compress: a region with many more
    names than it has bytes for was made to exhaust memory.
    """
    most = _FREE_NAMES + stored_bytes // _LEAST_BYTES
    raw = bytes(region)
    entries = list(itertools.islice(_split_names(raw, order, with_lengths), most + 1))
    if len(entries) > most:
        raise damaged("The name map of the log has more names than fit in its region.")
    ids = struct.unpack(f"{ORDER_CHARACTER[order]}{len(entries)}Q", b"".join([record_id for record_id, _ in entries]))
    names: dict[int, str] = {}
    for record_id, (_, name) in zip(ids, entries, strict=True):
        if name and record_id not in names:
            names[record_id] = decode_text(name)
    return names


def _split_names(raw: bytes, order: ByteOrder, with_lengths: bool) -> Iterator[tuple[bytes, bytes]]:
    """The stored pairs of id and name. Version 3.00 writes the length of a name, later ones a terminator."""
    breaks_off = f"The name map of the log ({len(raw)} bytes) ends within a name."
    if not with_lengths:
        if _ENTRIES.fullmatch(raw) is None:
            raise damaged(breaks_off)
        yield from ((match[1], match[2]) for match in _ENTRY.finditer(raw))
        return
    position = 0
    while position < len(raw):
        start = position + _ID_BYTES + _LENGTH_BYTES
        end = start + int.from_bytes(raw[position + _ID_BYTES : start], order)
        if start > len(raw) or end > len(raw):
            raise damaged(breaks_off)
        yield raw[position : position + _ID_BYTES], raw[start:end].rstrip(b"\0")
        position = end


MAGIC_BYTES: Final[dict[bytes, ByteOrder]] = {MAGIC.to_bytes(8, "little"): "little", MAGIC.to_bytes(8, "big"): "big"}
DIGEST_CHARACTERS: Final = 32
_READ: Final = frozenset(name for name, _ in (*FIXED, *VARIABLE))
_COMPONENT_WORDS: Final = LUSTRE_COMPONENT_DTYPE.itemsize // 8
_HEATMAP_HEAD_WORDS: Final = 6  # the last two are pointers of the process that wrote the log


def digest_of(data: bytes) -> str:
    """The digest of a log: the first characters of its SHA-256."""
    return hashlib.sha256(data).hexdigest()[:DIGEST_CHARACTERS]


def read_version_3(data: bytes, wanted: Collection[str] | None, digest: str | None = None) -> DarshanLog:
    """The log of version 3.x, with the `wanted` modules (None: all)."""
    layout, order = _identify(data)
    if data[16] >= len(COMPRESSIONS):
        raise damaged(f"The header has compression {data[16]}; expected 0, 1 or 2.")
    compression = COMPRESSIONS[data[16]]
    mark, count = ORDER_CHARACTER[order], layout.module_count
    # The name map is before the modules.
    places = struct.unpack_from(f"{mark}{2 * (count + 1)}Q", data, layout.map_offset)
    versions = struct.unpack_from(f"{mark}{count}I", data, layout.versions_offset)
    (partial_flags,) = struct.unpack_from(mark + layout.partial_format, data, layout.partial_offset)
    used = [number for number, length in enumerate(places[1::2]) if length]
    job_end = _check_tiling(sorted(places[2 * i : 2 * i + 2] for i in used), layout.bytes, len(data))

    view = memoryview(data)
    budget = _Budget(len(data))
    job = parse_job(expand(view[layout.bytes : job_end], compression, budget, "job record"), layout.job_words, order)
    names_offset, names_length = places[:2]
    names = parse_names(
        expand(view[names_offset : names_offset + names_length], compression, budget, "name map"),
        order,
        stored_bytes=names_length,
        with_lengths=layout.name_lengths,
    )
    modules: dict[str, Module] = {}
    unknown: list[str] = []
    skipped: list[str] = []
    longer: list[str] = []
    for place in used:
        if place == 0:
            continue
        number = place - 1
        name, version = layout.module_name(number), versions[number]
        offset, length = places[2 * place : 2 * place + 2]
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
                modules[name] = _parse_variable_length(name, version, partial, region, order)
            except SourceError:
                if not longer:  # else a fork made these longer, too, by an unknown length
                    raise
                unknown.append(f"{name} (Darshan fork)")
                continue
            check_ranks(modules[name], job.nprocs)
            continue
        records = _fit_records(dtype, region, job.nprocs)
        if records is None:
            records = _fit_longer_records(name, dtype, region, names, job.nprocs)
            longer.append(name)
        modules[name] = Module(name, version, partial, _to_native_order(records, order))
    flagged = [number for number in range(partial_flags.bit_length()) if partial_flags >> number & 1]
    partial_modules = tuple(layout.module_name(number) for number in flagged if number < count)
    return DarshanLog(
        layout.version,
        order,
        compression,
        job,
        modules,
        names,
        partial_modules,
        tuple(unknown),
        digest or digest_of(data),
        tuple(skipped),
        tuple(longer),
    )


def _identify(data: bytes) -> tuple[HeaderLayout, ByteOrder]:
    """The header layout and byte order of a log of 3.x. Raises SourceError for other or cut files."""
    order = MAGIC_BYTES.get(data[8:16])
    version = data[:8].rstrip(b"\0")
    if order is None:
        if version in LAYOUTS:
            if len(data) < 16:
                raise cut_short(f"The log ends after {len(data)} bytes, within its header.")
            raise damaged(f"The header has version {version.decode()}, but its magic number is wrong.")
        raise SourceError(
            "This is not a Darshan log.",
            hint="A log starts with its version, such as 3.41, and a magic number.",
            kind="UnknownFormat",
        )
    layout = LAYOUTS.get(version)
    if layout is None:
        raise SourceError(
            f"The log has version {version.decode('ascii', 'backslashreplace')}; "
            f"supported versions: {', '.join(v.version for v in LAYOUTS.values())}.",
            hint="A newer ioweather may support it.",
            kind="UnsupportedVersion",
        )
    if len(data) < layout.bytes:
        raise cut_short(f"The log ends after {len(data)} bytes, within its header of {layout.bytes} bytes.")
    return layout, order


def _check_tiling(regions: list[tuple[int, ...]], header_bytes: int, file_bytes: int) -> int:
    """End of the job region. Regions follow each other without gap or overlap to the end of the file in every log that
    Darshan writes; anything else is a damaged header, which would silently read as another log."""
    first = position = regions[0][0] if regions else file_bytes
    for offset, length in regions:
        if offset != position:
            raise damaged(f"The header has a region at byte {offset}; expected {position}.")
        position = offset + length
    if position > file_bytes:
        raise cut_short(f"The log ends after {file_bytes} bytes; its header expects {position}.")
    if position < file_bytes:
        raise damaged(f"{file_bytes - position} bytes of the log are outside all regions.")
    if first <= header_bytes:
        raise damaged("The header leaves no room for the job record.")
    return first


# Records of fixed size


def _to_native_order(records: NDArray[Any], order: ByteOrder) -> NDArray[Any]:
    """The records in the byte order of this machine, not to be written to."""
    if order != NATIVE:
        records = records.byteswap().view(records.dtype.newbyteorder(NATIVE))
    records.flags.writeable = False
    return records


def _fit_records(dtype: np.dtype[Any], region: Buffer, nprocs: int) -> NDArray[Any] | None:
    """The records in stored byte order; None where the region cannot have this layout."""
    if len(region) % dtype.itemsize:
        return None
    records = np.frombuffer(region, dtype)
    return records if _ranks_exist(records["rank"], nprocs) else None


def _ranks_exist(column: NDArray[Any], nprocs: int) -> bool:
    """Whether all ranks of a column are of the job, or -1 (shared by all ranks)."""
    # Most modules have few records, where a list is faster than a reduction.
    ranks = column.tolist() if len(column) < 1000 else [column.min(), column.max()]
    return not ranks or (min(ranks) >= -1 and max(ranks) < nprocs)


def check_ranks(module: Module, nprocs: int) -> None:
    """Raise CorruptInput for ranks that the job does not have: the records have another layout than the header says,
    which no checksum protects."""
    if not _ranks_exist(module.records["rank"], nprocs):
        raise _wrong_ranks(module.name, nprocs)


def _wrong_ranks(name: str, nprocs: int) -> CorruptInput:
    """The error for records of ranks that the job does not have."""
    return damaged(f"The {name} module has records of ranks beyond the {nprocs} processes.")


def _fit_longer_records(
    name: str, dtype: np.dtype[Any], region: Buffer, names: Mapping[int, str], nprocs: int
) -> NDArray[Any]:
    """The records of a fork of Darshan that put counters of its own behind the known ones. The shortest length at which
    every record has the id of a name and a rank that the job has is theirs, unless another version of the module has
    it: then the version in the header, which nothing protects, is wrong."""
    size, others = len(region), {RECORD_BYTES[key] for key in RECORD_BYTES if key[0] == name}
    places = [dtype.fields[field][:2] for field in dtype.names or ()] if dtype.fields else []
    formats, offsets = [kind for kind, _ in places], [offset for _, offset in places]
    for longer in range(dtype.itemsize + 8, min(size, 2 * dtype.itemsize) + 1, 8):
        if size % longer == 0:
            stretched = {"names": dtype.names, "formats": formats, "offsets": offsets, "itemsize": longer}
            records = _fit_records(np.dtype(stretched), region, nprocs)  # type: ignore[call-overload]
            if records is not None and set(records["id"].tolist()) <= names.keys():
                if longer in others:
                    break
                return records
    if size % dtype.itemsize == 0:
        raise _wrong_ranks(name, nprocs)
    raise damaged(f"The {name} module has {size} bytes, not a multiple of its record size of {dtype.itemsize}.")


# Records of variable length: LUSTRE, HEATMAP and the DXT traces. A head of words tells how many items follow it.


def _parse_variable_length(name: str, version: int, partial: bool, region: Buffer, order: ByteOrder) -> Module:
    """Parse a module whose records vary in length: LUSTRE, HEATMAP or a DXT trace."""
    if len(region) % 8:
        raise damaged(f"The {name} module has {len(region)} bytes, not a multiple of 8.")
    words = np.require(np.frombuffer(region, ORDER_CHARACTER[order] + "i8"), np.int64, "A")
    swapped = order != NATIVE
    if name == "LUSTRE" and version == 1:
        heads, ost_ids = _split_records(name, words, 7, (6, 1), (6, 0))
        records = heads.view(LUSTRE_V1_DTYPE)[:, 0]
        return Module(name, version, partial, records, {"ost_ids": Ragged(_offsets(heads[:, 6]), ost_ids)})
    if name == "LUSTRE":
        heads, rest = _split_records(name, words, 4, (2, _COMPONENT_WORDS), (3, 1))
        is_component = (_item_codes(heads[:, 2] * _COMPONENT_WORDS, heads[:, 3]) & 1) == 0
        components = rest[is_component].reshape(-1, _COMPONENT_WORDS)
        if swapped:  # text keeps its bytes whatever the byte order of the log
            components[:, 7:] = components[:, 7:].byteswap()
        ragged = {
            "components": Ragged(_offsets(heads[:, 2]), components.view(LUSTRE_COMPONENT_DTYPE)[:, 0]),
            "ost_ids": Ragged(_offsets(heads[:, 3]), rest[~is_component]),
        }
        return Module(name, version, partial, heads.view(LUSTRE_V2_DTYPE)[:, 0], ragged)
    if name == "HEATMAP":
        heads, values = _split_records(name, words, _HEATMAP_HEAD_WORDS, (3, 1), (3, 1))
        is_write = (_item_codes(heads[:, 3], heads[:, 3]) & 1) == 0
        offsets = _offsets(heads[:, 3])
        ragged = {"write_bins": Ragged(offsets, values[is_write]), "read_bins": Ragged(offsets, values[~is_write])}
        records = np.ascontiguousarray(heads[:, :4]).view(HEATMAP_DTYPE)[:, 0]
        return Module(name, version, partial, records, ragged)
    fields = SEGMENT_FIELDS[name, version]
    heads, rest = _split_records(name, words, DXT_DTYPE.itemsize // 8, (11, len(fields)), (12, len(fields)))
    if swapped:
        heads[:, 3:11] = heads[:, 3:11].byteswap()
    # In words of 8 bytes, so that all numbers can be copied at once. The fields without a name come first.
    dtype = np.dtype([("record", "i8"), ("write", "?"), *(field for field in fields if field[0])], align=True)
    items = rest.reshape(-1, len(fields))
    made = np.zeros((len(items), dtype.itemsize // 8), np.int64)
    segments = made.view(dtype)[:, 0]
    codes = _item_codes(heads[:, 11], heads[:, 12])  # each record has its writes, then its reads
    made[:, 0] = codes >> 1
    segments["write"] = (codes & 1) == 0
    made[:, 2:] = items[:, 2 - made.shape[1] :]
    return Module(name, version, partial, heads.view(DXT_DTYPE)[:, 0], segments=segments)


def _split_records(
    module: str, words: Ints, head_words: int, first: tuple[int, int], second: tuple[int, int]
) -> tuple[Ints, Ints]:
    """The heads of records, and the words of all items between them. A record has two kinds of items: `first` and
    `second` are (index of the head word with their number, words per item)."""
    view, size = words.data, len(words)
    starts = array("q")  # a list of Python integers would be five times as large as what it describes
    position = 0
    while position <= size - head_words:
        starts.append(position)
        first_count, second_count = view[position + first[0]], view[position + second[0]]
        if first_count < 0 or second_count < 0:  # would walk backwards, for ever
            break
        position += head_words + first_count * first[1] + second_count * second[1]
    if position != size:
        raise damaged(f"Record {max(len(starts) - 1, 0)} of the {module} module does not end at the end of the module.")
    positions = np.frombuffer(starts, np.int64)[:, None] + np.arange(head_words)
    between = np.ones(size, np.bool_)
    between[positions] = False
    return words[positions], words[between]


def _offsets(counts: Ints) -> Ints:
    """Where the items of each record begin, and the end of the last."""
    return np.concatenate([[0], np.cumsum(counts)])


def _item_codes(first: Ints, second: Ints) -> Ints:
    """Return 2 * record + kind (0 or 1) for each item; a record stores its items of kind 0, then those of kind 1."""
    return np.arange(2 * len(first)).repeat(np.array([first, second]).T.ravel())


# Logs of 1.x and 2.x

# Version number of modules that are made from 2.x records.
DERIVED_VERSION: Final = 0
# From 2.05 the fastest and slowest rank are judged by MPI-IO time where there is any; before by POSIX time alone.
FIRST_WITH_MPI_RANK_TIMES: Final = "2.05"
# Up to 2.02 timestamps are MPI_Wtime as it comes: seconds since 1970 on some systems, since the start on others.
LAST_WITH_RAW_CLOCK: Final = "2.02"

# The job record of 1.x has no id; Darshan put it into the name of the file alone.
NO_JOB_ID: Final = 0

# No machine that ran Darshan 2 had been up for three years.
_EPOCH_LIKE_SECONDS: Final = 100_000_000

_RENAMED: Final = {"F_OPEN_START_TIMESTAMP": "F_OPEN_TIMESTAMP", "F_CLOSE_END_TIMESTAMP": "F_CLOSE_TIMESTAMP"}
_MPI_ONLY_POSIX: Final = (
    "MODE",
    "RW_SWITCHES",
    "MAX_READ_TIME_SIZE",
    "MAX_WRITE_TIME_SIZE",
    "ACCESS",
    "F_MAX_",
    "F_VARIANCE",
)
_MPI_RANKS: Final = ("FASTEST_RANK", "SLOWEST_RANK", "F_FASTEST_RANK", "F_SLOWEST_RANK")
_STDIO: Final = {f"STDIO_{name}": f"CP_POSIX_F{name}" for name in ("OPENS", "READS", "WRITES", "SEEKS")}
_MPI_OPERATIONS: Final = tuple(
    f"CP_{layer}_{what}" for layer in ("INDEP", "COLL") for what in ("OPENS", "READS", "WRITES")
)


def _derived_modules(records: NDArray[Any], version: str, job: DarshanJob) -> dict[str, Module]:
    """POSIX of every record, MPI-IO and STDIO of those that used them."""
    raw_clock = version <= LAST_WITH_RAW_CLOCK
    relative = _rebase_timestamps(records, job.start_ns // NS, job.run_seconds) if raw_clock else records
    used_mpi, used_stdio = (
        np.any([records[name] > 0 for name in names], axis=0) for names in (_MPI_OPERATIONS, _STDIO.values())
    )
    tables = {
        "POSIX": _rename_counters(relative, _old_counter_names("POSIX", "POSIX_", version)),
        "MPI-IO": _rename_counters(relative[used_mpi], _old_counter_names("MPI-IO", "MPIIO_", version)),
        "STDIO": _rename_counters(relative[used_stdio], _STDIO),
    }
    return {name: Module(name, DERIVED_VERSION, False, table) for name, table in tables.items() if len(table)}


def _old_counter_names(module: str, prefix: str, version: str) -> dict[str, str]:
    """Counters of a module of 3.x to those of Darshan 2 that count the same."""
    known = {*CP, *CP_F}
    layer = "POSIX" if module == "POSIX" else "MPI"
    no_ranks = _MPI_RANKS if version < FIRST_WITH_MPI_RANK_TIMES else ()
    pairs = {}
    for name in (*FIXED[module, 1].counters, *FIXED[module, 1].fcounters):
        stem = name.removeprefix(prefix)
        if module == "MPI-IO" and stem.startswith((*_MPI_ONLY_POSIX, *no_ranks)):
            continue
        old = _RENAMED.get(stem, stem)
        own = f"CP_F_{layer}_{old.removeprefix('F_')}" if old.startswith("F_") else f"CP_{layer}_{old}"
        pairs[name] = own if own in known else f"CP_{old}"
    return pairs


def _rename_counters(records: NDArray[Any], names: Mapping[str, str]) -> NDArray[Any]:
    """Id, rank and those counters that the records have, under their new names."""
    names = {new: old for new, old in names.items() if old in (records.dtype.names or ())}
    fields = [("id", "u8"), ("rank", "i8"), *((new, records.dtype[old]) for new, old in names.items())]
    table = np.empty(len(records), dtype=fields)
    for new, old in (("id", "id"), ("rank", "rank"), *names.items()):
        table[new] = records[old]
    table.flags.writeable = False
    return table


def _rebase_timestamps(records: NDArray[Any], start_seconds: int, run_seconds: float) -> NDArray[Any]:
    """Timestamps since the start of the job, as in 3.x.

    Seconds since 1970 lose the start. Any other clock began at an unknown moment, often the boot of the partition:
    where it runs beyond the end of the job, it is set back to end with it. Distances stay what they were.
    """
    names = [name for name in CP_F if name.endswith("_TIMESTAMP")]
    latest = max((float(records[name].max()) for name in names), default=0.0) if len(records) else 0.0
    since_1970 = latest > _EPOCH_LIKE_SECONDS
    shift = float(start_seconds) if since_1970 else max(0.0, latest - run_seconds)
    relative = records.copy()
    for name in names:
        stamps = relative[name]
        relative[name] = np.where(stamps > 0, stamps - shift, stamps)  # 0: never happened
    return relative


GZIP_MAGIC: Final = b"\x1f\x8b"
BZIP2_MAGIC: Final = b"BZh"
_HEAD_BYTES: Final = 56
_OLD_MOUNT: Final = re.compile(r"^(-?\d+)\t(\S+)\t(\S+)$", re.MULTILINE)


_FIRST_HEAD: Final = {"big": struct.Struct(">qiii"), "little": struct.Struct("<qiii")}
FIRST_VERSION: Final = re.compile(rb"1\.[0-9]{1,2}\0{4,5}")
# The device of ranks above 0 is unreliable there (Darshan's own notes).
_UNRELIABLE_DEVICES: Final = "1.23"
_MOST_OLD_PROCESSES: Final = 1 << 24
# Bytes of the job region and of the metadata in it. In 1.x: uid, then start, end and processes of four bytes, then the
# command.
_JOB_LAYOUTS: Final = {
    **dict.fromkeys((*CP_MISSING, "2.00"), (1024, 0)),
    **dict.fromkeys(("2.01", "2.02", "2.03"), (1024, 64)),
    **dict.fromkeys(("2.04", "2.05", "2.06"), (4096, 1024)),
}


def read_version_2(data: bytes, wanted: Collection[str] | None) -> DarshanLog:
    """The log of version 1.x or 2.x, with the `wanted` modules (None: all)."""
    compression: Compression = "zlib" if data.startswith(GZIP_MAGIC) else "bzip2"
    raw = bytes(expand(memoryview(data), "gzip" if compression == "zlib" else "bzip2", _Budget(len(data)), "file"))
    version, order = _identify_old(raw)
    region_bytes, metadata_bytes = _JOB_LAYOUTS[version]
    job, devices = _parse_old_job(raw[:region_bytes], version, metadata_bytes, order)
    dtype, region = cp_dtype(version, order), raw[region_bytes:]
    if len(region) % dtype.itemsize:
        raise damaged(f"The records have {len(region)} bytes, not a multiple of their size of {dtype.itemsize}.")
    records = _to_native_order(np.frombuffer(region, dtype), order)
    check_ranks(Module("CP", DERIVED_VERSION, False, records), job.nprocs)
    modules = {"CP": Module("CP", DERIVED_VERSION, False, records)} if len(records) else {}
    modules |= _derived_modules(records, version, job)
    if wanted is not None:
        modules = {name: module for name, module in modules.items() if name in wanted}
    return DarshanLog(
        version, order, compression, job, modules, _old_record_names(records, version, devices), (), (), digest_of(data)
    )


def _identify_old(raw: bytes) -> tuple[str, ByteOrder]:
    """The version and byte order of an expanded log of 1.x or 2.x. Raises SourceError for other or cut files."""
    order = _guess_byte_order(raw) if FIRST_VERSION.fullmatch(raw[:8]) else MAGIC_BYTES.get(raw[8:16])
    version = raw[:8].rstrip(b"\0").decode("ascii", "backslashreplace")
    if order is None:
        raise SourceError(
            "This compressed file is not a Darshan log.",
            hint="Only Darshan 1 and 2 logs are compressed as a whole.",
            kind="UnknownFormat",
        )
    layout = _JOB_LAYOUTS.get(version)
    if layout is None:
        raise SourceError(
            f"Compressed logs of version {version} are not supported; supported: {', '.join(_JOB_LAYOUTS)}.",
            hint="Decompress logs of version 3 first. Versions before 1.21 were never published.",
            kind="UnsupportedVersion",
        )
    if len(raw) < layout[0]:
        raise cut_short(f"The log has {len(raw)} bytes, but its job region has {layout[0]}.")
    return version, order


def _guess_byte_order(raw: bytes) -> ByteOrder:
    """The byte order of a log of 1.x, which has no magic number: the one in which times and processes are plausible."""
    if len(raw) < 28:
        raise cut_short(f"The log has {len(raw)} bytes, less than its job record.")
    fits: list[ByteOrder] = []
    for order, head in _FIRST_HEAD.items():
        uid, start, end, nprocs = head.unpack_from(raw, 8)
        if 0 < nprocs < _MOST_OLD_PROCESSES and 0 <= start <= end and -(1 << 31) <= uid < 1 << 32:
            fits.append(order)  # type: ignore[arg-type]
    return fits[0] if len(fits) == 1 else "big"  # the machines that it was made for


def _parse_old_job(
    region: bytes, version: str, metadata_bytes: int, order: ByteOrder
) -> tuple[DarshanJob, dict[int, str]]:
    """The job record of 1.x or 2.x, and the mounts by device number."""
    if version in CP_MISSING:
        uid, start, end, nprocs = _FIRST_HEAD[order].unpack_from(region, 8)
        job_id, head_bytes = NO_JOB_ID, 8 + _FIRST_HEAD[order].size
    else:
        uid, start, end, nprocs, job_id = struct.unpack_from(f"{ORDER_CHARACTER[order]}5q", region, 16)
        head_bytes = _HEAD_BYTES
    check_job(start, end, nprocs)
    text_start = head_bytes + metadata_bytes
    exe, _, mount_lines = decode_text(region[text_start:].partition(b"\0")[0]).partition("\n")
    mounts = _OLD_MOUNT.findall(mount_lines)
    job = DarshanJob(
        uid=uid,
        job_id=job_id,
        nprocs=nprocs,
        start_ns=start * NS,
        end_ns=end * NS,
        run_seconds=float(end - start + 1),
        metadata=parse_metadata(region[head_bytes:text_start]),
        exe=exe,
        mounts=sort_mounts([(path, kind) for _, kind, path in mounts]),
    )
    return job, {int(device): path for device, _, path in mounts}


def _old_record_names(records: NDArray[Any], version: str, devices: dict[int, str]) -> dict[int, str]:
    """Names by record id, as `/mount/…end/of/path`: a log has the last 15 characters of a path (1.x: 11)."""
    names: dict[int, str] = {}
    known = records["CP_DEVICE"] if "CP_DEVICE" in (records.dtype.names or ()) else np.full(len(records), -1)
    if version == _UNRELIABLE_DEVICES:
        known = np.where(records["rank"] > 0, -1, known)
    for record_id, suffix, device in zip(
        records["id"].tolist(), records["name_suffix"].tolist(), known.tolist(), strict=True
    ):
        mount = devices.get(device, "")
        names.setdefault(
            record_id, f"{mount.rstrip('/')}/…{decode_text(suffix)}" if mount else f"…{decode_text(suffix)}"
        )
    return names
