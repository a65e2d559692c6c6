"""collectl -P: one line a sample, columns named [DSK:sda]Reads, [DSK]ReadTot, [CPU]Idle%: the source `collectl`.

collectl prints differences from the start, so its first line is a sample; how long it took, the second line tells.
Rates are per second unless collectl ran with -on, which the preamble of its files says.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from ioweather.core.arrays import Floats
from ioweather.core.contracts import ReadContext
from ioweather.core.errors import CorruptInput, EmptyInput, SourceError
from ioweather.core.frames import Frame
from ioweather.sources.devices.layout import COLLECTL, Layout, cpu_ratio
from ioweather.sources.devices.rows import BATCH_SAMPLES, Spans, Values, device_rows, host_rows, is_number, with_rows
from ioweather.sources.devices.stamps import StampReader
from ioweather.sources.textfiles import plain_head, whole_lines

_COLUMN = re.compile(r"\[(?P<subsystem>[A-Z]+)(?::(?P<name>[^\]]+))?\](?P<column>.+)")
_HOST = re.compile(r"# Host:\s+(\S+)")
_OPTIONS = re.compile(r"# SubSys:.* Options: (\S*) Interval:")
_DATE = re.compile(r"(\d{4})(\d{2})(\d{2})")


@dataclass(frozen=True)
class Collectl:
    name: str = "collectl"
    title: str = "collectl -P: disks and CPUs"
    tables: tuple[str, ...] = ("series",)

    def detect(self, head: bytes, path: Path) -> float:
        lines = plain_head(head).split("\n")[:60]
        header = next((line for line in lines if line.startswith(("#Date", "#UTC"))), "")
        return 0.9 if "[DSK" in header or "[CPU]" in header else 0.0

    def read(self, path: Path, context: ReadContext) -> Iterator[tuple[str, Frame]]:
        frames = (frame for batch in _batches(path, context) for frame in batch.frames(path, context))
        empty = f"{path} holds no two samples of disks or CPUs yet."
        return with_rows(frames, EmptyInput(empty, hint="Record them with: collectl -scdD -P -f DIR"))


@dataclass(frozen=True)
class _Header:
    """What the lines before the samples say."""

    host: str | None = None
    has_amounts: bool = False
    separator: str = " "
    columns: tuple[str, ...] = ()

    @cached_property
    def parts(self) -> dict[tuple[str, str], dict[str, int]]:
        """(subsystem, name) to its columns and their places; name is '' for the whole host."""
        found: dict[tuple[str, str], dict[str, int]] = {}
        for place, title in enumerate(self.columns):
            match = _COLUMN.fullmatch(title)
            if match is not None and match["column"] != "Name":
                found.setdefault((match["subsystem"], match["name"] or ""), {})[match["column"]] = place
        return found

    @property
    def text_columns(self) -> frozenset[int]:
        return frozenset(place for place, title in enumerate(self.columns) if title.endswith("]Name"))


@dataclass
class _Batch:
    header: _Header
    spans: list[tuple[int, int]] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)

    def frames(self, path: Path, context: ReadContext) -> Iterator[Frame]:
        if not self.rows:
            return
        host = context.host or self.header.host
        if host is None:
            raise SourceError(f"{path} does not name its host.", hint="Give --host.")
        numbers = self._numbers(path)
        spans = Spans.of(self.spans)
        for (subsystem, name), places in self.header.parts.items():
            columns = tuple(places)
            printed = numbers[:, list(places.values())]
            if subsystem == "DSK":
                values = self._disk_values(columns, printed, spans)
                if name and values:
                    yield device_rows(host, [name] * len(self.rows), spans, values)
                elif values:
                    yield host_rows(host, spans, values)
            elif subsystem == "CPU" and not name:
                ratio = cpu_ratio(columns, printed)
                if ratio is not None:
                    yield host_rows(host, spans, {"cpu_ratio": (ratio, None)})

    def _disk_values(self, columns: tuple[str, ...], printed: Floats, spans: Spans) -> Values:
        seconds = np.ones(len(self.rows)) if self.header.has_amounts else spans.seconds
        values = Layout(columns, COLLECTL).metrics(printed, seconds)
        # Whole milliseconds: a 0 is no request, or any time below one, so it says nothing.
        return {
            metric: (np.where(numbers == 0, np.nan, numbers), present)
            if metric.endswith("await_seconds")
            else (numbers, present)
            for metric, (numbers, present) in values.items()
        }

    def _numbers(self, path: Path) -> Floats:
        unnamed = {place for place, title in enumerate(self.header.columns) if not title.startswith("[")}
        skipped = self.header.text_columns | unnamed
        numbers = np.full((len(self.rows), len(self.header.columns)), np.nan)
        for place in range(len(self.header.columns)):
            if place in skipped:
                continue
            try:
                numbers[:, place] = [float(row[place]) for row in self.rows]
            except ValueError:
                wrong = next(index for index, row in enumerate(self.rows) if not is_number(row[place]))
                raise CorruptInput(
                    f"{path}, line {self.lines[wrong]}: {self.rows[wrong][place]!r} in "
                    f"{self.header.columns[place]} is not a number."
                ) from None
        return numbers


def _batches(path: Path, context: ReadContext) -> Iterator[_Batch]:
    header = _Header()
    batch = _Batch(header)
    stamps = StampReader(str(path), context.zone)
    previous_ns: int | None = None
    held: tuple[list[str], int] | None = None  # the first sample, until the second tells how long it was
    for number, line in whole_lines(path):
        if not line:
            continue
        if line.startswith("#"):
            # Names of columns begin a new run: its first sample knows nothing of the last one before.
            yield batch
            header = _read_header(header, line)
            batch, previous_ns, held = _Batch(header), None, None
            continue
        if not header.columns or line.startswith("waiting for"):  # 1 second sample...
            continue
        row = line.split(header.separator)
        if len(row) != len(header.columns):
            raise CorruptInput(f"{path}, line {number}: expected {len(header.columns)} fields, found {len(row)}.")
        end_ns = stamps.read(_stamp(header, row), number)
        if previous_ns is None:
            held = (row, number)
        elif end_ns > previous_ns:
            interval_ns = end_ns - previous_ns
            if held is not None:
                _add(batch, held, previous_ns - interval_ns, interval_ns)
            _add(batch, (row, number), previous_ns, interval_ns)
            held = None
        else:
            held = None
        previous_ns = end_ns
        if len(batch.rows) * max(1, len(header.parts)) >= BATCH_SAMPLES:
            yield batch
            batch = _Batch(header)
    yield batch


def _read_header(header: _Header, line: str) -> _Header:
    if line.startswith(("#Date", "#UTC")):
        titles = line[1:]
        separator = re.sub(r"^(?:Date|UTC)", "", titles)[:1] or " "
        return replace(header, separator=separator, columns=tuple(titles.split(separator)))
    host = _HOST.match(line)
    if host is not None:
        return replace(header, host=host[1])
    options = _OPTIONS.match(line)
    if options is not None:
        return replace(header, has_amounts="n" in options[1])
    return header


def _stamp(header: _Header, row: list[str]) -> str:
    if header.columns[0] == "UTC":
        return row[0]
    date = _DATE.fullmatch(row[0])
    return f"{date[1]}-{date[2]}-{date[3]} {row[1]}" if date else f"{row[0]} {row[1]}"


def _add(batch: _Batch, sample: tuple[list[str], int], start_ns: int, interval_ns: int) -> None:
    batch.spans.append((start_ns, interval_ns))
    batch.rows.append(sample[0])
    batch.lines.append(sample[1])


SOURCE = Collectl()
