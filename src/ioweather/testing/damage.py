"""Files made worse, in ways that happen: cut, doubled, out of order, a counter that restarts, sizes without bound."""

from __future__ import annotations

import re
from collections.abc import Iterator
from random import Random
from typing import Final

_CUTS: Final = 16
_FLIPS: Final = 8
_LONG_BYTES: Final = 4 << 20
_NUMBER: Final = re.compile(rb"\d+")
_TOKEN: Final = re.compile(rb"[^\s,;|]+")


def damaged(data: bytes) -> Iterator[tuple[str, bytes]]:
    """(what was done, the file): for each a reader may give rows or a SourceError, and nothing else."""
    yield "empty", b""
    for part in range(1, _CUTS):
        yield f"cut after {part}/{_CUTS}", data[: len(data) * part // _CUTS]
    yield "without its last byte", data[:-1]
    yield "doubled", data + data
    rng = Random(len(data))
    for number in range(_FLIPS):
        changed = bytearray(data)
        for place in rng.sample(range(len(data)), min(4, len(data))):
            changed[place] = rng.randrange(256)
        yield f"bytes changed ({number})", bytes(changed)
    yield "zeros behind it", data + bytes(4096)
    if not is_text(data):
        return
    lines = data.splitlines(keepends=True)
    yield "lines in reverse", b"".join(reversed(lines))
    yield "lines shuffled", b"".join(rng.sample(lines, len(lines)))
    yield "every line doubled", b"".join(line + line for line in lines)
    yield "a byte that is no UTF-8", data[: len(data) // 2] + b"\xff" + data[len(data) // 2 :]
    yield "a very long line", data + b"9" * _LONG_BYTES + b"\n"
    yield "numbers of 40 digits", _NUMBER.sub(lambda found: b"9" * 40, data)
    yield "numbers below zero", _NUMBER.sub(lambda found: b"-" + found[0], data)


def restarted(data: bytes) -> Iterator[tuple[str, bytes]]:
    """Of a text, each column that only grows begins again in the middle: a counter after a restart (or a clock that was
    set back)."""
    if not is_text(data):
        return
    lines = data.splitlines(keepends=True)
    for column in range(max((len(_TOKEN.findall(line)) for line in lines), default=0)):
        places = [(row, token) for row, line in enumerate(lines) if (token := _number_at(line, column)) is not None]
        values = [int(token[0]) for _, token in places]
        if len(values) < 3 or values != sorted(values) or values[0] == values[-1]:
            continue
        changed = list(lines)
        for row, token in places[len(places) // 2 :]:
            smaller = str(int(token[0]) - values[len(values) // 2]).encode()
            changed[row] = lines[row][: token.start()] + smaller + lines[row][token.end() :]
        yield f"column {column + 1} restarts", b"".join(changed)


def _number_at(line: bytes, column: int) -> re.Match[bytes] | None:
    for number, token in enumerate(_TOKEN.finditer(line)):
        if number == column:
            return token if token[0].isdigit() and len(token[0]) < 19 else None
    return None


def is_text(data: bytes) -> bool:
    if b"\0" in data:
        return False
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
