"""The JSON of sysstat (iostat -o JSON, sadf -j), read record by record: it may be larger than memory, and while iostat
is running, or after it was killed, it has no end."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from ioweather.core.errors import CorruptInput
from ioweather.core.foreign_text import parse_json
from ioweather.readers.text_files import note_cut, text_blocks

_STATISTICS = re.compile(r'"statistics"\s*:\s*\[')
_NODENAME = re.compile(r'"nodename"\s*:\s*("(?:[^"\\]|\\.)*")')
_BETWEEN = re.compile(r"[\s,]*")
_DECODER = json.JSONDecoder()
_HEADER_LENGTH = 64 << 10
_LONGEST_WORD = 4 << 10


@dataclass(frozen=True)
class Record:
    """One element of `statistics`. `lead` is the text between it and the element before."""

    line: int
    host: str | None
    lead: str
    opens_run: bool
    body: dict[str, Any]


def read_records(path: Path) -> Iterator[Record]:
    """All whole records of all hosts and runs in the file."""
    text, line, host = "", 1, None
    inside = opens_run = False
    for piece in chain(text_blocks(path), [""]):
        text, position = text + piece, 0
        while True:
            if not inside:
                start = _STATISTICS.search(text, position)
                if start is None:  # a header is short: drop text that cannot be part of one
                    end = max(position, len(text) - _HEADER_LENGTH)
                    break
                names = _NODENAME.findall(text, position, start.start())
                host = None
                with suppress(ValueError, IndexError):
                    host = str(parse_json(names[-1]))
                line += text.count("\n", position, start.end())
                position, inside, opens_run = start.end(), True, True
            begin = _BETWEEN.match(text, position).end()  # type: ignore[union-attr]
            if text[begin : begin + 1] == "]":
                position, inside = begin + 1, False
                continue
            end = position
            if begin == len(text):
                break
            body, behind = _decode(path, text, begin, line + text.count("\n", position, begin))
            if body is None:
                break
            line += text.count("\n", position, begin)
            yield Record(line, host, text[position:begin], opens_run, body)
            line += text.count("\n", begin, behind)
            position, opens_run = behind, False
        line += text.count("\n", position, end)
        text = text[end:]
    if inside:
        note_cut(f"{path} ends inside the list of its records.")


def _decode(path: Path, text: str, begin: int, line: int) -> tuple[dict[str, Any] | None, int]:
    """The record at `begin` and where it ends; None where the text ends inside it."""
    wrong = begin
    if text[begin] == "{":
        try:
            return _DECODER.raw_decode(text, begin)
        except json.JSONDecodeError as error:
            # A cut record fails at its last word; a damaged one has more lines behind the failure.
            rest = text[error.pos :]
            if len(rest) < _LONGEST_WORD and "\n" not in rest.strip():
                return None, begin
            wrong = error.pos
        except (RecursionError, ValueError):  # nested without end; an integer of thousands of digits
            pass
    line += text.count("\n", begin, wrong)
    raise CorruptInput(f"{path}, line {line}: {text[wrong : wrong + 40]!r} is not the JSON of sysstat.")


def numbers_of(path: Path, line: int, entry: object, name_key: str) -> tuple[str, tuple[str, ...], list[float]]:
    """Name, columns and values of one device of a record."""
    if isinstance(entry, dict) and isinstance(entry.get(name_key), str) and entry[name_key].isprintable():
        values = {key: value for key, value in entry.items() if key != name_key}
        with suppress(OverflowError):  # of an integer of hundreds of digits
            if all(isinstance(value, int | float) for value in values.values()):
                return entry[name_key], tuple(values), list(map(float, values.values()))
    raise CorruptInput(f"{path}, line {line}: expected {name_key!r} and numbers, found {str(entry)[:60]}.")


def entries(path: Path, record: Record, key: str) -> list[Any]:
    found = record.body.get(key, [])
    if not isinstance(found, list):
        raise CorruptInput(f"{path}, line {record.line}: {key!r} should be a list.")
    return found
