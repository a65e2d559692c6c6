"""Regions of a log: many compressed streams in a row, one per writing rank, read within a budget of output bytes."""

from __future__ import annotations

import bz2
from collections.abc import Callable, Mapping
from typing import Final, Protocol, TypeAlias

from ioweather.core.errors import CorruptInput, TruncatedInput
from ioweather.core.units import GIB, MIB, format_bytes
from ioweather.sources.darshan.errors import cut_short, damaged
from ioweather.sources.inflate import InflateError, decompressobj

Buffer: TypeAlias = bytes | bytearray | memoryview

# Handing a whole region to each of 16,384 streams copies the rest of the region 16,384 times (8.4 s against 0.35 s).
# A stream that goes on is given twice as much each time: what is copied stays below twice the stream.
_WINDOW_BYTES: Final = 16 * 1024
_WIDEST_WINDOW_BYTES: Final = MIB // 4

# Whole real logs expand up to 22 times (records are mostly zeros), single regions 52; zlib can reach 1,032 and bzip2
# far more. What a file may expand to grows with its size, so that a small file cannot fill the memory.
_FREE_BYTES: Final = 64 * MIB
_EXPANSION: Final = 64
_CEILING_BYTES: Final = 4 * GIB


class _Decompressor(Protocol):
    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: Buffer, max_length: int, /) -> bytes: ...


_STARTERS: Final[Mapping[str, Callable[[], _Decompressor]]] = {
    "zlib": decompressobj,
    "gzip": lambda: decompressobj(31),  # the container of Darshan 2.x
    "bzip2": bz2.BZ2Decompressor,
}


class Budget:
    """How many bytes one file may still expand to."""

    def __init__(self, file_bytes: int) -> None:
        self.limit_bytes = min(max(_FREE_BYTES, _EXPANSION * file_bytes), _CEILING_BYTES)
        self.left_bytes = self.limit_bytes

    def exceeded(self, what: str) -> CorruptInput:
        return CorruptInput(
            f"The {what} expands beyond {format_bytes(self.limit_bytes)}, more than a log of this size can hold.",
            hint="The file is damaged or made to exhaust memory; it was not read further.",
        )


def expand(region: Buffer, compression: str, budget: Budget, what: str) -> Buffer:
    """The bytes of a region. Every stream must end, check and be followed by another or by the end of the region."""
    if compression == "none":
        return region
    start, rest, pieces, left = _STARTERS[compression], region, [], budget.left_bytes
    try:
        if len(region) > _WINDOW_BYTES:
            return _expand_large(region, start, budget, what)
        while rest:
            stream = start()
            # One more than is allowed, so that a bomb is seen; 0 would mean without limit.
            piece = stream.decompress(rest, left + 1)
            left -= len(piece)
            if left < 0:
                raise budget.exceeded(what)
            if not stream.eof:
                raise _unfinished(what)
            pieces.append(piece)
            rest = stream.unused_data
    except (InflateError, OSError, ValueError, EOFError) as error:
        raise damaged(f"The {what} cannot be decompressed ({compression}): {error}.") from error
    budget.left_bytes = left
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _expand_large(region: Buffer, start: Callable[[], _Decompressor], budget: Budget, what: str) -> bytearray:
    output = bytearray()  # grows in place: joining pieces would hold everything twice
    position, window_bytes = 0, _WINDOW_BYTES
    stream = start()
    while position < len(region):
        if stream.eof:
            stream, window_bytes = start(), _WINDOW_BYTES
        window = region[position : position + window_bytes]
        piece = stream.decompress(window, budget.left_bytes + 1)
        budget.left_bytes -= len(piece)
        if budget.left_bytes < 0:
            raise budget.exceeded(what)
        output += piece
        position += len(window) - len(stream.unused_data)
        window_bytes = min(2 * window_bytes, _WIDEST_WINDOW_BYTES)
    if not stream.eof:
        raise _unfinished(what)
    return output


def _unfinished(what: str) -> TruncatedInput:
    return cut_short(f"The {what} ends in the middle of a compressed stream.")
