"""The source `prometheus`: recordings of what exporters print. A server's own samples come by `labelled.server`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from ioweather.core.contracts import ReadContext
from ioweather.core.errors import UndatedInput
from ioweather.sources.labelled.exposition import Moment, Sample, is_exposition, parse
from ioweather.sources.labelled.taking import Pieces, Taking
from ioweather.sources.textfiles import line_blocks, plain_head

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
            for item in parse(_lines(file), str(file)):
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
    found = []
    with suppress(OSError), os.scandir(path) as entries:
        for entry in entries:
            if not entry.name.startswith("."):
                if not (entry.is_file(follow_symlinks=False) and _is_scrape(Path(entry.path))):
                    return []
                found.append(Path(entry.path))
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


def _lines(path: Path) -> Iterator[str]:
    """Whole lines: the last of a text that is being written may be cut in its number."""
    for block in line_blocks(path):
        if not block.torn:
            yield from block.lines


SOURCE = PrometheusSource()
