"""Modules whose records vary in length: LUSTRE, HEATMAP and the DXT traces.

All of them are runs of 8-byte words: a head of fixed size, then as many words as counts in the head say.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ioweather.core.arrays import Bools, Ints
from ioweather.sources.darshan.errors import damaged
from ioweather.sources.darshan.layout import (
    DXT_DTYPE,
    HEATMAP_DTYPE,
    LUSTRE_COMPONENT_DTYPE,
    LUSTRE_V1_DTYPE,
    LUSTRE_V2_DTYPE,
    NATIVE,
    SEGMENT_FIELDS,
    ByteOrder,
)
from ioweather.sources.darshan.model import Module, Ragged
from ioweather.sources.darshan.regions import Buffer


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
_DXT_HEAD_WORDS: Final = 13
_FEW_RECORDS: Final = 500
_HOSTNAME_WORDS: Final = slice(3, 11)


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


def _starts(module: str, words: Ints, shape: _Shape) -> Ints:
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
    return np.frombuffer(starts, dtype=np.int64) if starts else np.empty(0, dtype=np.int64)


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


def _split(words: Ints, starts: Ints, head_words: int) -> tuple[Ints, Ints]:
    """Heads as rows, and all that stands between them."""
    heads = np.empty((len(starts), head_words), dtype=words.dtype)
    between = np.ones(len(words), dtype=np.bool_)
    for index in range(head_words):  # word by word: all positions at once are as large as the heads themselves
        positions = starts + index
        heads[:, index] = words[positions]
        between[positions] = False
    return heads, words[between]


def _offsets(counts: Ints) -> Ints:
    offsets = np.zeros(len(counts) + 1, dtype=np.int64)
    counts.cumsum(out=offsets[1:])
    return offsets


def _alternating(first: Ints, second: Ints) -> Bools:
    """True for the items of the first kind, where each record has its first kind, then its second."""
    lengths = np.empty((len(first), 2), dtype=np.int64)
    lengths[:, 0] = first
    lengths[:, 1] = second
    kinds = np.zeros((len(first), 2), dtype=np.bool_)
    kinds[:, 0] = True
    return kinds.ravel().repeat(lengths.ravel())


def _lustre_v1(words: Ints) -> tuple[NDArray[Any], dict[str, Ragged]]:
    starts = _starts("LUSTRE", words, _LUSTRE_V1)
    if len(starts) <= _FEW_RECORDS:  # slices of bytes take a tenth of the time of that many array operations
        raw, edges = words.tobytes(), [*starts.tolist(), len(words)]
        heads = np.frombuffer(b"".join([raw[8 * at : 8 * at + 56] for at in edges[:-1]]), LUSTRE_V1_DTYPE)
        lists = b"".join([raw[8 * at + 56 : 8 * end] for at, end in pairwise(edges)])
        offsets = np.array([at - 7 * place for place, at in enumerate(edges)])
        return heads, {"ost_ids": Ragged(offsets, np.frombuffer(lists, np.int64))}
    split, ost_ids = _split(words, starts, 7)
    records = split.view(LUSTRE_V1_DTYPE)[:, 0]
    return records, {"ost_ids": Ragged(_offsets(records["LUSTRE_STRIPE_WIDTH"]), ost_ids)}


def _lustre_v2(words: Ints, stored: Ints) -> tuple[NDArray[Any], dict[str, Ragged]]:
    starts = _starts("LUSTRE", words, _LUSTRE_V2)
    heads, rest = _split(words, starts, 4)
    records = heads.view(LUSTRE_V2_DTYPE)[:, 0]
    is_component = _alternating(records["components"] * _COMPONENT_WORDS, records["stripes"])
    component_words = rest[is_component].reshape(-1, _COMPONENT_WORDS)
    # The pool's name is text: it keeps its bytes whatever the byte order of the log.
    component_words[:, 7:] = _split(stored, starts, 4)[1][is_component].reshape(-1, _COMPONENT_WORDS)[:, 7:].view("=i8")
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
        heads, values = _split(words, _starts("HEATMAP", words, _HEATMAP), 6)
        is_write = _alternating(heads[:, 3], heads[:, 3])
        writes, reads, offsets = values[is_write], values[~is_write], _offsets(heads[:, 3])
    records = np.ascontiguousarray(heads[:, :4]).view(HEATMAP_DTYPE)[:, 0]
    return records, {"write_bins": Ragged(offsets, writes), "read_bins": Ragged(offsets, reads)}


def _dxt(
    name: str, words: Ints, stored: Ints, fields: tuple[tuple[str, str], ...]
) -> tuple[NDArray[Any], NDArray[Any]]:
    item_words = len(fields)
    starts = _starts(name, words, _Shape(_DXT_HEAD_WORDS, ((11, item_words), (12, item_words))))
    heads, rest = _split(words, starts, _DXT_HEAD_WORDS)
    # Text keeps its bytes whatever the byte order of the log.
    heads[:, _HOSTNAME_WORDS] = stored[starts[:, None] + np.arange(_DXT_HEAD_WORDS)[_HOSTNAME_WORDS]].view("=i8")
    records = heads.view(DXT_DTYPE)[:, 0]
    items = rest.reshape(-1, item_words)
    kept = [(position, field, kind) for position, (field, kind) in enumerate(fields) if field]
    segments = np.empty(len(items), [("record", "i8"), ("write", "?"), *((field, kind) for _, field, kind in kept)])
    segments["record"] = np.repeat(np.arange(len(records)), records["writes"] + records["reads"])
    segments["write"] = _alternating(records["writes"], records["reads"])
    for position, field, kind in kept:
        segments[field] = items[:, position].view(kind)
    return records, segments
