"""Files of labelled samples: the sources `prometheus` and `telegraf`.

`prometheus` is exposition text as exporters print it: Prometheus's own and OpenMetrics, one scrape or many. It is not
parsed by prometheus_client, which takes one scrape at a time and gives times as floats; that parser is the oracle of
the tests.

`telegraf` writes InfluxDB's line protocol: `diskio,host=oss1,name=sda read_bytes=4096i,writes=3i
1794726355242525983`. A field becomes the sample `measurement_field` with the tags as labels. Times are in
nanoseconds, or in the unit that the writer was set to, which their length tells.

A SELECT could not replace these readers: which samples are taken, and as which metric, follows from the mapping
files, and growth over a gap or a restart from the samples before.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias
from zoneinfo import ZoneInfo

from ioweather.core.contracts import ReadContext
from ioweather.core.errors import CorruptInput, UndatedInput
from ioweather.core.units import NS
from ioweather.readers.prometheus.mapping import Pieces, SampleRows
from ioweather.readers.reader_catalogue import FileReader
from ioweather.readers.text_files import files_of_a_kind, plain_head, time_of_line, whole_lines

_NUMBER: Final = r"[+-]?(?:[0-9]{1,40}(?:\.[0-9]{0,40})?|\.[0-9]{1,40})(?:[eE][+-]?[0-9]{1,5})?"
_LABEL: Final = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]{0,255})[ \t]*=[ \t]*"((?:[^"\\\n]|\\.)*)"[ \t]*(?:,[ \t]*|(?=\}))')
_SAMPLE: Final = re.compile(
    r"(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]{0,255})[ \t]*"
    r'(?:\{(?P<labels>(?:[^"}\\\n]|"(?:[^"\\\n]|\\.)*")*)\}[ \t]*)?'
    rf"(?<=[ \t}}])(?P<value>{_NUMBER}|[+-]?[Ii]nf(?:inity)?|[Nn]a[Nn])"
    rf"(?:[ \t]+(?P<time>{_NUMBER}))?[ \t]*(?:#[ \t]*\{{.*)?"
)
_COMMENT: Final = re.compile(r"# (?:HELP|TYPE|UNIT) [a-zA-Z_:][a-zA-Z0-9_:]{0,255}(?: |$)")
_UTC: Final = ZoneInfo("UTC")
_ESCAPES: Final = {"n": "\n"}
# A time of Prometheus's text is in milliseconds, one of OpenMetrics in seconds: no moment of use is in doubt.
_LEAST_MILLISECONDS: Final = 10**11


class Sample(NamedTuple):
    """One line of exposition text. `key` is name and labels as printed; `time_ns` is None if the line has no time."""

    key: str
    name: str
    labels: dict[str, str]
    value: float
    time_ns: int | None


def is_exposition(text: str) -> float:
    """How likely it is (0 to 1) that a text begins as exposition text."""
    lines = [line for line in text.split("\n")[:200] if line.strip()][:-1] or text.split("\n")[:1]
    commented = any(_COMMENT.match(line) for line in lines)
    samples = [line for line in lines if not line.startswith("#") and time_of_line(line, _UTC) is None]
    good = sum(_SAMPLE.fullmatch(line) is not None for line in samples)
    if commented and (good or not samples):
        return 0.93 if good == len(samples) else 0.6
    labelled = any("{" in line for line in samples)
    return 0.55 if samples and good == len(samples) and labelled else 0.0


def parse(lines: Iterable[str], where: str) -> Iterator[Sample | int]:
    """Samples of exposition text; an integer (UTC nanoseconds) for a line that is only a time, which dates the scrape
    after it. Raises CorruptInput for any other line."""
    known: dict[str, dict[str, str]] = {}
    for number, line in enumerate(lines, start=1):
        text, here = line.strip(), f"{where}, line {number}"
        if not text or line.startswith("#"):
            continue
        if (text[0].isdigit() or text[0] == "@") and (moment := time_of_line(text)) is not None:
            yield moment
            continue
        found = _SAMPLE.fullmatch(text)
        if found is None:
            raise CorruptInput(f"{here}: {text[:80]!r} is not a sample.")
        name, inside, value, time = found.group("name", "labels", "value", "time")
        key = f"{name}{{{inside or ''}}}"
        if key not in known:
            known[key] = _labels(inside or "", here)
        yield Sample(key, name, known[key], float(value), None if time is None else _time_ns(time, here))


def _labels(text: str, where: str) -> dict[str, str]:
    """The labels between the braces of a sample, unescaped."""
    found: dict[str, str] = {}
    end = text.strip(" \t") + "}"
    at = 0
    while end[at] != "}":
        match = _LABEL.match(end, at)
        if match is None:
            raise CorruptInput(f"{where}: {text[:80]!r} are not labels.")
        found[match[1]] = re.sub(r"\\(.)", lambda escaped: _ESCAPES.get(escaped[1], escaped[1]), match[2])
        at = match.end()
    return found


def _time_ns(text: str, where: str) -> int:
    """A printed time (milliseconds, or seconds with a fraction) as nanoseconds, exactly."""
    whole, _, fraction = text.partition(".")
    if "e" in text.lower() or len(whole) > 18:
        value = float(text)
        if not abs(value) < 2**62:
            raise CorruptInput(f"{where}: {text[:40]} is not a time.")
        return int(value * (1_000_000 if abs(value) >= _LEAST_MILLISECONDS else NS))
    number = int(whole or 0)
    if abs(number) >= _LEAST_MILLISECONDS:
        return number * 1_000_000
    return number * NS + int(fraction[:9].ljust(9, "0"))


_HINT: Final = "Record scrapes with: `while sleep 60; do date +%s; curl -s http://HOST:PORT/metrics; done >> FILE`."


def _is_scrape(text: str) -> bool:
    return is_exposition(text) > 0.5


def _detect_prometheus(head: bytes, path: Path) -> float:
    if path.is_dir():
        return 0.5 if files_of_a_kind(path, _is_scrape) else 0.0
    return is_exposition(plain_head(head))


def _read_prometheus(path: Path, context: ReadContext) -> Pieces:
    """Rows of one scrape or many. The time of a sample is its own, that of a time line before it, that of --start and
    --interval, or for a single scrape the modification time of the file."""
    rows = SampleRows(path, context, _HINT)
    files = [path]
    if path.is_dir():
        files = files_of_a_kind(path, _is_scrape)
        files.sort(key=lambda file: (file.stat().st_mtime_ns, file.name))
    scrapes = 0
    for file in files:
        stated_ns: int | None = None
        before, seen = scrapes, set[str]()
        for item in parse((line for _, line in whole_lines(file)), str(file)):
            if isinstance(item, int):
                stated_ns, seen, scrapes = item, set(), scrapes + 1
                continue
            scrapes = max(scrapes, before + 1)
            moment = item.time_ns
            if moment is None:
                if item.key in seen and stated_ns is None:  # the same series again, undated: the next scrape
                    if context.interval_ns is None or context.start_ns is None:
                        raise UndatedInput(
                            f"{file} has several scrapes without times.",
                            hint=f"Use --start and --interval. {_HINT}",
                        )
                    seen, scrapes = set(), scrapes + 1
                seen.add(item.key)
                moment = stated_ns
                if moment is None and context.start_ns is not None:
                    moment = context.start_ns + (scrapes - 1) * (context.interval_ns or 0)
                elif moment is None:
                    moment = file.stat().st_mtime_ns
                    rows.notes = ["time: modification time of the file (change it with --start)"]
            rows.add(item.key, item.name, item.labels, moment, item.value)
            yield from rows.full_frames()
    return (yield from rows.finish(f"{scrapes} scrape(s)"))


PROMETHEUS = FileReader(
    "prometheus",
    "Prometheus: exposition text of exporters, a server's samples (http://...), remote write",
    ("series", "job_operations", "components"),
    _detect_prometheus,
    _read_prometheus,
)


# Blanks, commas and equal signs inside a name follow a backslash; texts of fields are in quotes.
_NAME: Final = r"(?:[^\\, =\n]|\\.)+"
_VALUE: Final = r'(?:"(?:[^"\\\n]|\\.)*"|[^\\", \n]+)'
_LINE: Final = re.compile(
    rf"(?P<measurement>(?:[^\\, \n]|\\.)+)(?P<tags>(?:,{_NAME}={_NAME})*) "
    rf"(?P<fields>{_NAME}={_VALUE}(?:,{_NAME}={_VALUE})*)(?: (?P<time>[0-9]{{1,19}}))?"
)
_TAG: Final = re.compile(rf",({_NAME})=({_NAME})")
_FIELD: Final = re.compile(rf"({_NAME})=({_VALUE})(?:,|$)")
_FIELD_NUMBER: Final = re.compile(
    r"[+-]?(?:[0-9]{1,40}(?:\.[0-9]{0,40})?|\.[0-9]{1,40})(?:[eE][+-]?[0-9]{1,3})?([iu]?)"
)
_LONGEST: Final = 1 << 20  # the pattern remembers every character; InfluxDB itself takes less
_MOST_WAITING: Final = 100_000  # points, of some hundred bytes
_ESCAPED: Final = re.compile(r"\\(.)")
_BY_DIGITS: Final = {10: 10**9, 13: 10**6, 16: 10**3, 19: 1}
_TELEGRAF_HINT: Final = 'Configure telegraf with [[outputs.file]] and data_format = "influx".'


def _detect_telegraf(head: bytes, path: Path) -> float:
    lines = [line for line in plain_head(head).split("\n")[:50] if line.strip() and not line.startswith("#")]
    lines = lines[:-1] or lines
    good = [match for line in lines if (match := _LINE.fullmatch(line.strip())) is not None]
    return 0.8 if good and len(good) == len(lines) and any(match["time"] for match in good) else 0.0


def _read_telegraf(path: Path, context: ReadContext) -> Pieces:
    rows, points = SampleRows(path, context, _TELEGRAF_HINT), _points(path)
    count = 0
    for time_ns, _, match in _sort_points(points):
        count += 1
        labels = {_unescape(name): _unescape(value) for name, value in _TAG.findall(match["tags"])}
        for field, value in _FIELD.findall(match["fields"]):
            if _FIELD_NUMBER.fullmatch(value):
                name = f"{_unescape(match['measurement'])}_{_unescape(field)}"
                rows.add(f"{name}{match['tags']}", name, labels, time_ns, float(value.rstrip("iu")))
        yield from rows.full_frames()
    return (yield from rows.finish(f"{count} point(s)"))


def _sort_points(points: Iterator[_Point]) -> Iterator[_Point]:
    """By time, as far as a bounded number of points in memory allows: several writers may share a file."""
    waiting = list(islice(points, _MOST_WAITING))
    heapq.heapify(waiting)
    yield from (heapq.heappushpop(waiting, point) for point in points)
    yield from sorted(waiting)


TELEGRAF = FileReader(
    "telegraf",
    "line protocol of InfluxDB and telegraf (diskio, disk, lustre2; others by a mapping)",
    ("series", "job_operations"),
    _detect_telegraf,
    _read_telegraf,
)


_Point: TypeAlias = tuple[int, int, re.Match[str]]  # time, number of the line


def _points(path: Path) -> Iterator[_Point]:
    """The lines of the file with their times in nanoseconds; comments are skipped."""
    for number, untrimmed in whole_lines(path):
        line, where = untrimmed.strip(), f"{path}, line {number}"
        if len(line) > _LONGEST:
            raise CorruptInput(f"{where} is longer than {_LONGEST:,} characters.")
        if not line or line.startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            raise CorruptInput(f"{where}: expected line protocol, found {line[:80]!r}.")
        time = match["time"]
        if time is None:
            raise UndatedInput(f"{where}: the line has no time.", hint=_TELEGRAF_HINT)
        if len(time) not in _BY_DIGITS:
            raise CorruptInput(f"{where}: {time} is not a time in seconds, milli-, micro- or nanoseconds.")
        yield int(time) * _BY_DIGITS[len(time)], number, match


def _unescape(text: str) -> str:
    return _ESCAPED.sub(r"\1", text) if "\\" in text else text
