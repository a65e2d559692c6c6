"""The name map: record ids to paths."""

from __future__ import annotations

import itertools
import re
import struct
from collections.abc import ItemsView, Iterator, Mapping
from functools import cached_property
from typing import Final

from ioweather.core.errors import CorruptInput
from ioweather.sources.darshan.errors import damaged
from ioweather.sources.darshan.layout import ORDER_CHARACTER, ByteOrder
from ioweather.sources.darshan.regions import Buffer

_ID_BYTES: Final = 8
_LENGTH_BYTES: Final = 4
_FREE_NAMES: Final = 1_000_000
_LEAST_BYTES: Final = 4
_ENTRY: Final = re.compile(rb"(.{8})([^\0]*)\0", re.DOTALL)
_ENTRIES: Final = re.compile(rb"(?:.{8}[^\0]*+\0)*+", re.DOTALL)


def text(raw: bytes) -> str:
    """File names are bytes; what is not UTF-8 is kept as \\x escapes, so that it can be shown and stored."""
    return raw.decode("utf-8", "backslashreplace")


class NameMap(Mapping[int, str]):
    """Names by record id, made of the checked bytes when the first is asked for: a quarter of the time of reading a log
    of 100,000 records, and who counts operations asks for none."""

    def __init__(self, entries: bytes, order: ByteOrder) -> None:
        self._entries = entries
        self._order: ByteOrder = order

    def __getitem__(self, record_id: int) -> str:
        return self._names[record_id]

    def __iter__(self) -> Iterator[int]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def items(self) -> ItemsView[int, str]:
        return self._names.items()

    @cached_property
    def _names(self) -> dict[int, str]:
        found = _ENTRY.findall(self._entries)
        joined = b"\0".join([name for _, name in found])
        ids = struct.unpack(
            f"{ORDER_CHARACTER[self._order]}{len(found)}Q", b"".join([record_id for record_id, _ in found])
        )
        listed = text(joined).split("\0")
        names = dict(zip(ids, listed, strict=False))
        if len(names) == len(ids) and "" not in names.values():
            return names
        names = {}
        for record_id, name in zip(ids, listed, strict=False):
            if name and record_id not in names:
                names[record_id] = name
        return names


def parse_names(region: Buffer, order: ByteOrder, *, stored_bytes: int, with_lengths: bool) -> Mapping[int, str]:
    """Every rank writes its own names, so ids repeat: the first non-empty name stands.

    `stored_bytes` is the size of the region in the file. Ids are hashes, which do not compress: what holds many more
    names than it has bytes for was made to exhaust memory.
    """
    most = _FREE_NAMES + stored_bytes // _LEAST_BYTES
    raw = bytes(region)
    return _parse_counted(raw, order, most) if with_lengths else _parse_terminated(raw, order, most)


def _parse_terminated(raw: bytes, order: ByteOrder, most: int) -> NameMap:
    if _ENTRIES.fullmatch(raw) is None:
        raise _broken(len(raw))
    if len(raw) // (_ID_BYTES + 1) > most and _more_than(most, raw):
        raise _too_many()
    return NameMap(raw, order)


def _more_than(most: int, raw: bytes) -> bool:
    return next(itertools.islice(_ENTRY.finditer(raw), most, None), None) is not None


def _parse_counted(raw: bytes, order: ByteOrder, most: int) -> dict[int, str]:
    """Version 3.00 writes the length instead of a terminator."""
    names: dict[int, str] = {}
    position = 0
    while position < len(raw):
        start = position + _ID_BYTES + _LENGTH_BYTES
        end = start + int.from_bytes(raw[position + _ID_BYTES : start], order)
        if end > len(raw) or start > len(raw):
            raise _broken(len(raw))
        record_id = int.from_bytes(raw[position : position + _ID_BYTES], order)
        name = raw[start:end].rstrip(b"\0")
        if name and record_id not in names:
            names[record_id] = text(name)
        position = end
        most -= 1
        if most < 0:
            raise _too_many()
    return names


def _broken(size: int) -> CorruptInput:
    return damaged(f"The name map of the log, {size} bytes, breaks off within a name.")


def _too_many() -> CorruptInput:
    return damaged("The name map of the log holds more names than a region of its size can.")
