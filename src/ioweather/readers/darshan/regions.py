"""Regions of a binary log: compressed streams expanded within a budget, the job record, and the name map.

A region is many compressed streams in a row, one per writing rank.
"""

from __future__ import annotations

import bz2
import itertools
import re
import struct
import zlib
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from ioweather.core.errors import CorruptInput, TruncatedInput
from ioweather.core.units import GIB, MIB, NS, format_bytes
from ioweather.readers.darshan.log import DarshanJob
from ioweather.readers.darshan.record_layout import METADATA_BYTES, ORDER_CHARACTER, ByteOrder

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
    return CorruptInput(message, hint="The file is damaged; get another copy.")


def cut_short(message: str) -> TruncatedInput:
    return TruncatedInput(message, hint="Get the whole file and try again.")


def decode_text(raw: bytes) -> str:
    """File names are bytes; bytes that are not UTF-8 become \\x escapes, so that the name can be shown and stored."""
    return raw.decode("utf-8", "backslashreplace")


class Budget:
    """How many bytes one file may still expand to."""

    def __init__(self, file_bytes: int) -> None:
        self.limit_bytes = min(max(_FREE_BYTES, _EXPANSION * file_bytes), _CEILING_BYTES)
        self.left_bytes = self.limit_bytes


def expand(region: Buffer, compression: str, budget: Budget, what: str) -> Buffer:
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
                    f"The {what} expands beyond {format_bytes(budget.limit_bytes)}, more than a log of this size can "
                    "hold.",
                    hint="The file is damaged or made to exhaust memory; it was not read further.",
                )
            position += len(window) - len(stream.unused_data)
            window_bytes = min(2 * window_bytes, _WIDEST_WINDOW_BYTES)
    except (_deflate.error, OSError, ValueError, EOFError) as error:
        raise damaged(f"The {what} cannot be decompressed ({compression}): {error}.") from error
    if not stream.eof:
        raise cut_short(f"The {what} ends in the middle of a compressed stream.")
    budget.left_bytes -= len(output)
    return output


def parse_job(region: Buffer, words: int, order: ByteOrder) -> DarshanJob:
    """The job record of 3.x: user, times and processes, metadata, then the command and the mounts."""
    raw = bytes(region)
    head_bytes = 8 * words + METADATA_BYTES
    if len(raw) < head_bytes:
        raise cut_short(f"The job record has {len(raw)} bytes; {head_bytes} were expected.")
    values = struct.unpack_from(f"{ORDER_CHARACTER[order]}{words}q", raw)
    if words == 7:
        uid, start, start_part_ns, end, end_part_ns, nprocs, job_id = values
    else:
        uid, start, end, nprocs, job_id = values
        start_part_ns = end_part_ns = 0
    command, _, rest = raw[head_bytes:].partition(b"\0")
    if rest.strip(b"\0"):
        # A header that has lost the place of the next region makes it look like the end of this one.
        raise damaged(f"The job record is followed by {len(rest)} bytes that do not belong to it.")
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
        raise damaged(f"The job record gives times that cannot be: start {start} s, end {end} s since 1970.")
    if not 0 < nprocs < _MOST_PROCESSES:
        raise damaged(f"The job record gives {nprocs} processes.")


def parse_metadata(raw: bytes) -> dict[str, str]:
    """Settings of Darshan and of MPI-IO: lines KEY=VALUE."""
    pairs = [line.partition("=") for line in decode_text(raw.partition(b"\0")[0]).split("\n")]
    return {key: value for key, separator, value in pairs if separator}


def parse_command(command_and_mounts: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    """The command line may contain newlines itself, so a mount is known by its form: type, tab, path."""
    first, *rest = command_and_mounts.rstrip("\n").split("\n")
    found = [(line, _MOUNT.fullmatch(line)) for line in rest]
    command = [first, *(line for line, mount in found if mount is None)]
    return "\n".join(command), sort_mounts([(mount[2], mount[1]) for _, mount in found if mount is not None])


def sort_mounts(mounts: list[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """The longest path first."""
    return tuple(sorted(mounts, key=lambda mount: len(mount[0]), reverse=True))


def parse_names(region: Buffer, order: ByteOrder, *, stored_bytes: int, with_lengths: bool) -> dict[int, str]:
    """Record ids to paths. Every rank writes its own names, so ids repeat: the first non-empty name counts.

    `stored_bytes` is the size of the region in the file. Ids are hashes, which do not compress: a region with many more
    names than it has bytes for was made to exhaust memory.
    """
    most = _FREE_NAMES + stored_bytes // _LEAST_BYTES
    raw = bytes(region)
    entries: list[Any] = []  # (id, name)
    whole, position = True, 0
    if with_lengths:  # version 3.00 writes the length instead of a terminator
        while position < len(raw) and len(entries) <= most:
            start = position + _ID_BYTES + _LENGTH_BYTES
            end = start + int.from_bytes(raw[position + _ID_BYTES : start], order)
            whole = start <= len(raw) and end <= len(raw)
            if not whole:
                break
            entries.append((raw[position : position + _ID_BYTES], raw[start:end].rstrip(b"\0")))
            position = end
    else:
        whole = _ENTRIES.fullmatch(raw) is not None
        if whole and len(raw) // (_ID_BYTES + 1) <= most:
            entries = _ENTRY.findall(raw)
        elif whole:
            entries = [match.groups() for match in itertools.islice(_ENTRY.finditer(raw), most + 1)]
    if not whole:
        raise damaged(f"The name map of the log, {len(raw)} bytes, breaks off within a name.")
    if len(entries) > most:
        raise damaged("The name map of the log holds more names than a region of its size can.")
    ids = struct.unpack(f"{ORDER_CHARACTER[order]}{len(entries)}Q", b"".join([record_id for record_id, _ in entries]))
    names: dict[int, str] = {}
    for record_id, (_, name) in zip(ids, entries, strict=True):
        if name and record_id not in names:
            names[record_id] = name.decode("utf-8", "backslashreplace")
    return names
