"""Exposition text as exporters print it: the source `prometheus`.

Prometheus's own form and OpenMetrics are read, one scrape or many. telegraf writes this form with
`data_format = "prometheus"`. It is not parsed by prometheus_client, which takes one scrape at a time and gives times as
floats; that parser is the oracle of the tests.

A SELECT could not replace this reader: which samples are taken, and as which metric, follows from the mapping files,
and growth over a gap or a restart from the samples before.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

from ioweather.core.contracts import ReadContext
from ioweather.core.errors import CorruptInput, SourceError
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
    """Rows of one scrape or many. The time of a sample is its own, or that of a time line before it. For a single
    scrape it may be that of --start, or the modification time of the file."""
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
                if item.key in seen and stated_ns is None:
                    raise SourceError(f"{file} has several scrapes without times.", hint=_HINT, kind="UndatedInput")
                seen.add(item.key)
                moment = stated_ns if stated_ns is not None or len(files) > 1 else context.start_ns
                if moment is None:
                    moment = file.stat().st_mtime_ns
                    rows.notes = ["time: modification time of the file (change it with --start)"]
            rows.add(item.key, item.name, item.labels, moment, item.value)
            yield from rows.full_frames()
    return (yield from rows.finish(f"{scrapes} scrape(s)"))


PROMETHEUS = FileReader(
    "prometheus",
    "Prometheus: exporter text, server samples (http://...)",
    ("series", "job_operations", "components"),
    _detect_prometheus,
    _read_prometheus,
)
