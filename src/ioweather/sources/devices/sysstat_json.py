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
from typing import Any, Literal

from ioweather.core.errors import CorruptInput
from ioweather.sources.devices.reports import Report
from ioweather.sources.devices.stamps import has_ambiguous_date, is_day_first
from ioweather.sources.plain_values import parse_json
from ioweather.sources.textfiles import note_cut, text_blocks

_STATISTICS = re.compile(r'"statistics"\s*:\s*\[')
_NODENAME = re.compile(r'"nodename"\s*:\s*("(?:[^"\\]|\\.)*")')
_SLASHED_STAMP = re.compile(r'"timestamp"\s*:\s*"(\d{1,2}/\d{1,2}/\d{2,4}) ')
_BETWEEN = re.compile(r"[\s,]*")
_DECODER = json.JSONDecoder()
_HEADER_LENGTH = 64 << 10
_LONGEST_WORD = 4 << 10


@dataclass(frozen=True)
class Record:
    """One element of `statistics`. `lead` is what stood between it and the one before."""

    line: int
    host: str | None
    lead: str
    opens_run: bool
    body: dict[str, Any]


def read_records(path: Path) -> Iterator[Record]:
    """All whole records of all hosts and runs in the file."""
    pieces = text_blocks(path)
    text = next(pieces, "")
    line = 1
    host: str | None = None
    position, inside, opens_run, exhausted = 0, False, False, False
    while True:
        if not inside:
            start = _STATISTICS.search(text, position)
            if start is not None:
                names = _NODENAME.findall(text, position, start.start())
                host = _unquoted(names[-1]) if names else None
                line += text.count("\n", position, start.end())
                position, inside, opens_run = start.end(), True, True
        if inside:
            begin = _skip(text, position)
            step, end, body = _decode(text, begin)
            if step == "record":
                line += text.count("\n", position, begin)
                yield Record(line, host, text[position:begin], opens_run, _object(path, line, body))
                line += text.count("\n", begin, end)
                position, opens_run = end, False
                continue
            if step == "end":
                position, inside = begin + 1, False
                continue
            if step == "wrong":
                line += text.count("\n", position, end)
                raise CorruptInput(f"{path}, line {line}: {text[end : end + 40]!r} is not the JSON of sysstat.")
        if exhausted:
            if inside:
                note_cut(f"{path} ends inside the list of its records.")
            return
        piece = next(pieces, None)
        exhausted = piece is None
        if not inside:  # a header is short: no need to keep what cannot be one
            line += text.count("\n", position, max(position, len(text) - _HEADER_LENGTH))
            position = max(position, len(text) - _HEADER_LENGTH)
        text, position = text[position:] + (piece or ""), 0


def _unquoted(text: str) -> str | None:
    try:
        return str(parse_json(text))
    except ValueError:
        return None


def _skip(text: str, position: int) -> int:
    between = _BETWEEN.match(text, position)
    return between.end() if between else position


def _decode(text: str, begin: int) -> tuple[Literal["record", "end", "wrong", "more"], int, object]:
    """What stands at `begin`, and where that ends: a record, the end of the list, something wrong, or a part."""
    if begin >= len(text):
        return "more", begin, None
    if text[begin] == "]":
        return "end", begin, None
    if text[begin] != "{":
        return "wrong", begin, None
    try:
        body, end = _DECODER.raw_decode(text, begin)
    except json.JSONDecodeError as error:
        # A cut record fails at its last word; a damaged one has more lines behind the failure.
        rest = text[error.pos :]
        cut = len(rest) < _LONGEST_WORD and "\n" not in rest.strip()
        return ("more" if cut else "wrong"), error.pos, None
    except (RecursionError, ValueError):  # nested without end; an integer of thousands of digits
        return "wrong", begin, None
    return "record", end, body


def _object(path: Path, line: int, body: object) -> dict[str, Any]:
    if not isinstance(body, dict):
        raise CorruptInput(f"{path}, line {line}: expected a record of sysstat in braces.")
    return body


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


def find_day_first(path: Path) -> bool:
    """Whether dates with slashes have the day first; looks into the file only where its first date leaves it open."""
    blocks = text_blocks(path)
    first = _SLASHED_STAMP.findall(next(blocks, ""))
    if not first or not has_ambiguous_date(first[0]):
        return is_day_first(first)
    return is_day_first(chain(first, (date for text in blocks for date in _SLASHED_STAMP.findall(text))))


def read_iostat_json(path: Path) -> Iterator[Report]:
    for record in read_records(path):
        # Where -y leaves out the report since boot, sysstat 12 has an empty line, and 11 a stray comma, in its place.
        since_boot = record.opens_run and record.lead.count("\n") < 2 and "," not in record.lead
        stamp = record.body.get("timestamp")
        report = Report(
            record.line, record.host, stamp if isinstance(stamp, str) else None, record.opens_run, since_boot
        )
        cpu = record.body.get("avg-cpu")
        if isinstance(cpu, dict):
            _, report.cpu_columns, report.cpu = numbers_of(path, record.line, {"cpu": "all", **cpu}, "cpu")
        for entry in entries(path, record, "disk"):
            name, columns, values = numbers_of(path, record.line, entry, "disk_device")
            if report.columns and columns != report.columns:
                raise CorruptInput(f"{path}, line {record.line}: devices of one report have different columns.")
            report.columns = columns
            report.devices.append(name)
            report.rows.append(values)
            report.lines.append(record.line)
        yield report
