"""The source `prometheus`: recordings of what exporters print. A server's own samples come by `labelled.server`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from ioweather.core.clock import parse_time_ns
from ioweather.core.contracts import ReadContext
from ioweather.core.errors import CorruptInput, UndatedInput
from ioweather.core.units import NS
from ioweather.readers.prometheus.exposition_files import Pieces, Taking
from ioweather.readers.text_files import all_of_a_kind, plain_head, whole_lines

# Exposition text, as exporters print it: Prometheus's own and OpenMetrics, a scrape or many below each other.
#
# Not by prometheus_client's parser: it takes one scrape at a time, and gives times as floats. It is the oracle of the
# tests.

_NUMBER: Final = r"[+-]?(?:[0-9]{1,40}(?:\.[0-9]{0,40})?|\.[0-9]{1,40})(?:[eE][+-]?[0-9]{1,5})?"
_LABEL: Final = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]{0,255})[ \t]*=[ \t]*"((?:[^"\\\n]|\\.)*)"[ \t]*(?:,[ \t]*|(?=\}))')
_SAMPLE: Final = re.compile(
    r"(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]{0,255})[ \t]*"
    r'(?:\{(?P<labels>(?:[^"}\\\n]|"(?:[^"\\\n]|\\.)*")*)\}[ \t]*)?'
    rf"(?<=[ \t}}])(?P<value>{_NUMBER}|[+-]?[Ii]nf(?:inity)?|[Nn]a[Nn])"
    rf"(?:[ \t]+(?P<time>{_NUMBER}))?[ \t]*(?:#[ \t]*\{{.*)?"
)
_TIME: Final = re.compile(
    r"@?[0-9]{9,10}(?:\.[0-9]{1,9})?|[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9:.,]{5,18} ?(?:Z|[+-][0-9:]{4,6})"
)
_COMMENT: Final = re.compile(r"# (?:HELP|TYPE|UNIT) [a-zA-Z_:][a-zA-Z0-9_:]{0,255}(?: |$)")
_ESCAPES: Final = {"n": "\n"}
# A time of Prometheus's text is in milliseconds, one of OpenMetrics in seconds: no moment of use is in doubt.
_LEAST_MILLISECONDS: Final = 10**11


class Sample(NamedTuple):
    """`key`: name and labels as they stand there. `time_ns` is None where the text says none."""

    key: str
    name: str
    labels: dict[str, str]
    value: float
    time_ns: int | None


class Moment(NamedTuple):
    """A line that is a time and nothing else: of the scrape behind it."""

    time_ns: int


def is_exposition(text: str) -> float:
    """How sure the beginning of a text is one."""
    lines = [line for line in text.split("\n")[:200] if line.strip()][:-1] or text.split("\n")[:1]
    commented = any(_COMMENT.match(line) for line in lines)
    samples = [line for line in lines if not line.startswith("#") and not _TIME.fullmatch(line.strip())]
    good = sum(_SAMPLE.fullmatch(line) is not None for line in samples)
    if commented and (good or not samples):
        return 0.93 if good == len(samples) else 0.6
    labelled = any("{" in line for line in samples)
    return 0.55 if samples and good == len(samples) and labelled else 0.0


def parse(lines: Iterable[str], where: str) -> Iterator[Sample | Moment]:
    seen: dict[str, dict[str, str]] = {}
    for number, line in enumerate(lines, start=1):
        if not line or line.startswith("#"):
            continue
        text = line.strip()
        if not text:
            continue
        if (text[0].isdigit() or text[0] == "@") and _TIME.fullmatch(text):
            yield Moment(_told_ns(text, f"{where}, line {number}"))
            continue
        found = _SAMPLE.fullmatch(text)
        if found is None:
            raise CorruptInput(f"{where}, line {number}: {text[:80]!r} is no sample.")
        name, inside, value, time = found.group("name", "labels", "value", "time")
        key = f"{name}{{{inside or ''}}}"
        labels = seen.get(key)
        if labels is None:
            labels = seen[key] = _labels(inside or "", f"{where}, line {number}")
        yield Sample(
            key, name, labels, float(value), None if time is None else _time_ns(time, f"{where}, line {number}")
        )


def _told_ns(text: str, where: str) -> int:
    try:
        return parse_time_ns(f"@{text}" if text.replace(".", "").isdigit() else text)
    except ValueError:
        raise CorruptInput(f"{where}: {text[:40]} is no time.") from None


def _labels(text: str, where: str) -> dict[str, str]:
    found: dict[str, str] = {}
    at, end = 0, text.rstrip(" \t") + "}"
    while end[at] in " \t":
        at += 1
    while end[at] != "}":
        match = _LABEL.match(end, at)
        if match is None:
            raise CorruptInput(f"{where}: {text[:80]!r} are no labels.")
        found[match[1]] = _plain(match[2])
        at = match.end()
    return found


def _plain(text: str) -> str:
    if "\\" not in text:
        return text
    return re.sub(r"\\(.)", lambda match: _ESCAPES.get(match[1], match[1]), text)


def _time_ns(text: str, where: str) -> int:
    """Exact, also of a number with a fraction."""
    whole, _, fraction = text.partition(".")
    if "e" in text.lower() or len(whole) > 18:
        value = float(text)
        if not abs(value) < 2**62:
            raise CorruptInput(f"{where}: {text[:40]} is no time.")
        return int(value * (1_000_000 if abs(value) >= _LEAST_MILLISECONDS else NS))
    number = int(whole or 0)
    if abs(number) >= _LEAST_MILLISECONDS:
        return number * 1_000_000
    return number * NS + int(fraction[:9].ljust(9, "0"))


_HEAD_BYTES: Final = 64 << 10
HINT: Final = "Record again and again: `while sleep 60; do date +%s; curl -s http://HOST:PORT/metrics; done >> FILE`."


class PrometheusSource:
    """Exposition text: one scrape, many below each other with their times, or a folder of files of a scrape each."""

    name = "prometheus"
    title = "Prometheus: exposition text of exporters, a server's samples (http://...), remote write"
    tables = ("series", "job_operations")

    def detect(self, head: bytes, path: Path) -> float:
        if path.is_dir():
            return 0.5 if _scrapes(path) else 0.0
        return is_exposition(plain_head(head))

    def read(self, path: Path, context: ReadContext) -> Pieces:
        taking = Taking(path, context, HINT)
        files = [path]
        if path.is_dir():
            files = sorted(_scrapes(path), key=lambda file: (file.stat().st_mtime_ns, file.name))
        scrapes = 0
        for file in files:
            clock = _Clock(file, context, scrapes)
            for item in parse((line for _, line in whole_lines(file)), str(file)):
                if isinstance(item, Moment):
                    clock.tell(item.time_ns)
                else:
                    clock.see(item)
                    taking.add(item.key, item.name, item.labels, clock.moment_of(item), item.value)
                    yield from taking.full()
            scrapes += clock.scrapes
            if clock.by_file_time and not taking.notes:
                taking.notes.append("taken as of the file's own time (say another with --start)")
        return (yield from taking.finish(f"{scrapes} scrape(s)"))


def _scrapes(path: Path) -> list[Path]:
    """The files of a folder that holds exposition text alone."""
    found = all_of_a_kind(path, lambda entry: entry.is_file(follow_symlinks=False) and _is_scrape(Path(entry.path)))
    return found if len(found) > 1 else []


def _is_scrape(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return is_exposition(plain_head(file.read(_HEAD_BYTES))) > 0.5
    except OSError:
        return False


class _Clock:
    """When the samples of a file were taken: as they say themselves, as a line before them says, as --start and
    --interval say, or, of one scrape alone, when the file was written."""

    def __init__(self, path: Path, context: ReadContext, scrapes: int) -> None:
        self._path, self._context, self._first = path, context, scrapes
        self._told: int | None = None
        self._seen: set[str] = set()
        self.scrapes = 0
        self.by_file_time = False

    def tell(self, time_ns: int) -> None:
        self._told = time_ns
        self._seen = set()
        self.scrapes += 1

    def see(self, sample: Sample) -> None:
        """The same series again, undated: the next scrape."""
        if self.scrapes == 0:
            self.scrapes = 1
        if sample.time_ns is None:
            if sample.key in self._seen and self._told is None:
                if self._context.interval_ns is None or self._context.start_ns is None:
                    raise UndatedInput(
                        f"{self._path} holds several scrapes and does not say when they were made.",
                        hint=f"Give --start and --interval. {HINT}",
                    )
                self._seen = set()
                self.scrapes += 1
            self._seen.add(sample.key)

    def moment_of(self, sample: Sample) -> int:
        if sample.time_ns is not None:
            return sample.time_ns
        if self._told is not None:
            return self._told
        if self._context.start_ns is not None:
            number = self._first + self.scrapes - 1
            return self._context.start_ns + number * (self._context.interval_ns or 0)
        self.by_file_time = True
        return self._path.stat().st_mtime_ns


SOURCE = PrometheusSource()
