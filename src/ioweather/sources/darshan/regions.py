"""Regions of a log: many compressed streams in a row, one per writing rank, read within a budget of output bytes."""

from __future__ import annotations

import bz2
import zlib
from typing import Final, Protocol, TypeAlias

from ioweather.core.errors import CorruptInput
from ioweather.core.units import GIB, MIB, format_bytes
from ioweather.sources.darshan.refusals import cut_short, damaged

Buffer: TypeAlias = bytes | bytearray | memoryview

# Handing a whole region to each of 16,384 streams copies the rest of the region 16,384 times (8.4 s against 0.35 s).
_WINDOW_BYTES: Final = 16 * 1024

# Real regions expand up to ~100 times (records are mostly zeros), zlib can reach 1,032 and bzip2 far more.
# What a file may expand to grows with its size, so that a small file cannot fill the memory.
_FREE_BYTES: Final = 64 * MIB
_EXPANSION: Final = 100
_CEILING_BYTES: Final = 4 * GIB


class _Decompressor(Protocol):
    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: Buffer, max_length: int, /) -> bytes: ...


class Budget:
    """How many bytes one file may still expand to."""

    def __init__(self, file_bytes: int) -> None:
        self.limit_bytes = min(_FREE_BYTES + _EXPANSION * file_bytes, _CEILING_BYTES)
        self.left_bytes = self.limit_bytes

    def spend(self, count: int, what: str) -> None:
        self.left_bytes -= count
        if self.left_bytes < 0:
            raise self.exceeded(what)

    def exceeded(self, what: str) -> CorruptInput:
        return CorruptInput(
            f"The {what} expands beyond {format_bytes(self.limit_bytes)}, more than a log of this size can hold.",
            hint="The file is damaged or made to exhaust memory; it was not read further.",
        )


def expand(region: memoryview, compression: str, budget: Budget, what: str) -> Buffer:
    """The bytes of a region. Every stream must end, check and be followed by another or by the end of the region."""
    if compression == "none":
        return region
    try:
        return _expand(region, compression, budget, what)
    except (zlib.error, OSError, ValueError, EOFError) as error:
        raise damaged(f"The {what} cannot be decompressed ({compression}): {error}.") from error


def _expand(region: memoryview, compression: str, budget: Budget, what: str) -> Buffer:
    stream = _start(compression)
    first = stream.decompress(region[:_WINDOW_BYTES], budget.left_bytes + 1)
    budget.spend(len(first), what)
    if stream.eof and not stream.unused_data and len(region) <= _WINDOW_BYTES:
        return first  # one stream in one window: most regions of most logs, without a copy
    return _expand_rest(region, compression, budget, what, stream, first)


def _expand_rest(
    region: memoryview, compression: str, budget: Budget, what: str, stream: _Decompressor, first: bytes
) -> bytearray:
    output = bytearray(first)
    position = min(_WINDOW_BYTES, len(region)) - len(stream.unused_data)
    while position < len(region):
        if stream.eof:
            stream = _start(compression)
        window = region[position : position + _WINDOW_BYTES]
        piece = stream.decompress(window, budget.left_bytes + 1)
        budget.spend(len(piece), what)
        output += piece
        position += len(window) - len(stream.unused_data)
    if not stream.eof:
        raise cut_short(f"The {what} ends in the middle of a compressed stream.")
    return output


def _start(compression: str) -> _Decompressor:
    if compression == "bzip2":
        return bz2.BZ2Decompressor()
    # 31: the gzip container of Darshan 2.x.
    return zlib.decompressobj(31 if compression == "gzip" else 15)
