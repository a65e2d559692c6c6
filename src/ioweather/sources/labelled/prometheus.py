"""The source `prometheus`: recordings of what exporters print. A server's own samples come by `labelled.server`."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from ioweather.core.contracts import ReadContext
from ioweather.core.errors import EmptyInput, SourceError, UndatedInput
from ioweather.core.frames import Frame
from ioweather.sources.labelled.amounts import Amounts
from ioweather.sources.labelled.exposition import Moment, Sample, is_exposition, parse
from ioweather.sources.labelled.mapping import Mapped, Mappings, mappings_of
from ioweather.sources.textfiles import line_blocks, plain_head

_HEAD_BYTES: Final = 64 << 10
_FRAME_ROWS: Final = 50_000
HINT: Final = "Record again and again: `while sleep 60; do date +%s; curl -s http://HOST:PORT/metrics; done >> FILE`."
Pieces = Generator[tuple[str, Frame], None, str | None]


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
        taking = Taking(path, context)
        if path.is_dir():
            for file in sorted(_scrapes(path), key=lambda file: (file.stat().st_mtime_ns, file.name)):
                yield from taking.file(file)
        else:
            yield from taking.file(path)
        return (yield from taking.finish())


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


class Taking:
    """The rows of one reading, and what was left out of it."""

    def __init__(self, path: Path, context: ReadContext) -> None:
        self.path, self.context = path, context
        self.amounts = Amounts(cluster=context.cluster)
        self.known = Known(mappings_of(context.mapping), context)
        self.scrapes = self.made = 0
        self.by_file_time = False

    def file(self, path: Path) -> Iterator[tuple[str, Frame]]:
        clock = _Clock(path, self.context, self.scrapes)
        for item in parse(_lines(path), str(path)):
            if isinstance(item, Moment):
                clock.tell(item.time_ns)
                continue
            clock.see(item)
            mapped = self.known.of(item.key, item.name, item.labels)
            if mapped is not None:
                self.amounts.add(item.key, mapped, clock.moment_of(item), item.value)
            if self.amounts.waiting >= _FRAME_ROWS:
                yield from self._rows()
        self.scrapes += clock.scrapes
        self.by_file_time |= clock.by_file_time

    def _rows(self) -> Iterator[tuple[str, Frame]]:
        for table, frame in self.amounts.rows():
            self.made += frame.rows
            yield table, frame

    def finish(self) -> Pieces:
        yield from self._rows()
        once = len(self.amounts.shown_once)
        left = Counter({"counter(s) shown once, where two scrapes give amounts": once, **self.known.left()})
        said = "; ".join(f"{count} {what}" for what, count in left.items() if count)
        if not self.made:
            if self.known.without_host and not once:
                raise SourceError(f"{self.path} does not say which host it is of.", hint="Give --host.")
            raise EmptyInput(
                f"{self.path} holds {self.scrapes} scrape(s) and nothing to take{f' ({said})' if said else ''}.",
                hint=HINT if once else "A mapping of your own says what they are: docs/how-to/prometheus-in.md.",
            )
        dated = "taken as of the file's own time (say another with --start)" if self.by_file_time else ""
        parts = [part for part in (dated, f"left out: {said}" if said else "") if part]
        return f"{self.path}: {'; '.join(parts)}." if parts else None


class Known:
    """What each series is, asked once; and how many are nobody's."""

    def __init__(self, mappings: Mappings, context: ReadContext) -> None:
        self._mappings, self._context = mappings, context
        self._mapped: dict[str, Mapped | None] = {}
        self.without_host = 0

    def of(self, key: str, name: str, labels: dict[str, str]) -> Mapped | None:
        if key in self._mapped:
            return self._mapped[key]
        mapped = self._mappings.of(name, labels, self._context.host)
        if mapped is None and self._context.host is None and self._mappings.needs_host(name, labels):
            self.without_host += 1
        if mapped is not None and self._context.system is not None and mapped.target.kind == "host":
            mapped = mapped._replace(target=mapped.target._replace(system=self._context.system))
        self._mapped[key] = mapped
        return mapped

    def left(self) -> dict[str, int]:
        unknown = sum(mapped is None for mapped in self._mapped.values()) - self.without_host
        return {"series that no mapping names": unknown, "series of an unknown host (give --host)": self.without_host}


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
