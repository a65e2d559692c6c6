"""InfluxDB's line protocol, as telegraf writes it: the source `telegraf`.

    diskio,host=oss1,name=sda read_bytes=4096i,writes=3i 1794726355242525983

A field becomes the sample `measurement_field` with the tags as labels. Times are in nanoseconds, or in what the
writer was told: their length tells.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Final, TypeAlias

from ioweather.core.contracts import ReadContext
from ioweather.core.errors import CorruptInput, UndatedInput
from ioweather.sources.labelled.taking import Pieces, Taking
from ioweather.sources.textfiles import plain_head, whole_lines

# Blanks, commas and equal signs inside a name stand behind a backslash; texts of fields stand in quotes.
_NAME: Final = r"(?:[^\\, =\n]|\\.)+"
_VALUE: Final = r'(?:"(?:[^"\\\n]|\\.)*"|[^\\", \n]+)'
_LINE: Final = re.compile(
    rf"(?P<measurement>(?:[^\\, \n]|\\.)+)(?P<tags>(?:,{_NAME}={_NAME})*) "
    rf"(?P<fields>{_NAME}={_VALUE}(?:,{_NAME}={_VALUE})*)(?: (?P<time>[0-9]{{1,19}}))?"
)
_TAG: Final = re.compile(rf",({_NAME})=({_NAME})")
_FIELD: Final = re.compile(rf"({_NAME})=({_VALUE})(?:,|$)")
_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]{1,40}(?:\.[0-9]{0,40})?|\.[0-9]{1,40})(?:[eE][+-]?[0-9]{1,3})?([iu]?)")
_LONGEST: Final = 1 << 20  # the pattern remembers every character; InfluxDB itself takes less
_MOST_WAITING: Final = 100_000  # points, of some hundred bytes
_ESCAPED: Final = re.compile(r"\\(.)")
_BY_DIGITS: Final = {10: 10**9, 13: 10**6, 16: 10**3, 19: 1}
_HINT: Final = 'telegraf writes them with [[outputs.file]], data_format = "influx".'


class TelegrafSource:
    name = "telegraf"
    title = "line protocol of InfluxDB and telegraf (diskio, disk, lustre2; others by a mapping)"
    tables = ("series", "job_operations")

    def detect(self, head: bytes, path: Path) -> float:
        lines = [line for line in plain_head(head).split("\n")[:50] if line.strip() and not line.startswith("#")]
        lines = lines[:-1] or lines
        good = [match for line in lines if (match := _LINE.fullmatch(line.strip())) is not None]
        return 0.8 if good and len(good) == len(lines) and any(match["time"] for match in good) else 0.0

    def read(self, path: Path, context: ReadContext) -> Pieces:
        taking, points = Taking(path, context, _HINT), 0
        for time_ns, _, match in _in_order(_points(path)):
            points += 1
            labels = dict(_tags(match["tags"]))
            for field, value in _fields(match["fields"]):
                if _NUMBER.fullmatch(value):
                    name = f"{_plain(match['measurement'])}_{field}"
                    taking.add(f"{name}{match['tags']}", name, labels, time_ns, float(value.rstrip("iu")))
            yield from taking.full()
        return (yield from taking.finish(f"{points} point(s)"))


_Point: TypeAlias = tuple[int, int, re.Match[str]]  # time, number of the line


def _points(path: Path) -> Iterator[_Point]:
    for number, line in _lines(path):
        match, where = _LINE.fullmatch(line), f"{path}, line {number}"
        if match is None:
            raise CorruptInput(f"{where}: expected the line protocol, found {line[:80]!r}.")
        if match["time"] is None:
            raise UndatedInput(f"{where}: the line has no time.", hint=_HINT)
        yield _time_ns(match["time"], where), number, match


def _in_order(points: Iterator[_Point]) -> Iterator[_Point]:
    """By time, as far as a bounded number of points in memory allows: several writers may share a file."""
    waiting = list(islice(points, _MOST_WAITING))
    heapq.heapify(waiting)
    for point in points:
        yield heapq.heappushpop(waiting, point)
    yield from sorted(waiting)


def _tags(text: str) -> Iterator[tuple[str, str]]:
    """One behind the other: the whole line fitted already."""
    at = 0
    while (match := _TAG.match(text, at)) is not None:
        yield _plain(match[1]), _plain(match[2])
        at = match.end()


def _fields(text: str) -> Iterator[tuple[str, str]]:
    at = 0
    while (match := _FIELD.match(text, at)) is not None:
        yield _plain(match[1]), match[2]
        at = match.end()


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    for number, line in whole_lines(path):
        text = line.strip()
        if len(text) > _LONGEST:
            raise CorruptInput(f"{path}, line {number} is longer than {_LONGEST:,} characters.")
        if text and not text.startswith("#"):
            yield number, text


def _time_ns(text: str, where: str) -> int:
    unit = _BY_DIGITS.get(len(text))
    if unit is None:
        raise CorruptInput(f"{where}: {text} is no time in seconds, or thousandths, millionths or billionths of them.")
    return int(text) * unit


def _plain(text: str) -> str:
    return _ESCAPED.sub(r"\1", text) if "\\" in text else text


SOURCE = TelegrafSource()
