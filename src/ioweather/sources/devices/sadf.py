"""sadf: what sar collected, as JSON (-j), semicolons (-d) or tabs (-p): the source `sadf`.

Every record says how long its interval was, and ends at its time stamp. Records of no length (the collector was
restarted within the second) and notes (restarts, comments) make no rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ioweather.core.contracts import ReadContext
from ioweather.core.errors import CorruptInput, EmptyInput, UnsupportedVersion
from ioweather.core.frames import Frame
from ioweather.core.units import NS
from ioweather.sources.devices.layout import SAR, Layout, cpu_ratio
from ioweather.sources.devices.rows import (
    BATCH_SAMPLES,
    Spans,
    Values,
    device_rows,
    host_rows,
    is_number,
    printed_numbers,
    with_rows,
)
from ioweather.sources.devices.stamps import StampReader
from ioweather.sources.devices.sysstat_json import Record, entries, numbers_of, read_records
from ioweather.sources.plain_values import whole_number
from ioweather.sources.textfiles import beginning, plain_head, whole_lines

_HEADER = "# hostname;interval;timestamp"
_OF_CPUS = frozenset(
    ("%user", "%usr", "%nice", "%system", "%sys", "%iowait", "%steal", "%irq", "%soft", "%guest", "%gnice", "%idle")
)
# What sadf -p calls the numbers that are wanted; it gives one a line, and those of other activities are not looked at.
_WANTED = frozenset((*SAR, *_OF_CPUS, "tps"))
_ALL_CPUS = ("-1", "all")
_LONGEST_INTERVAL = 10 * 366 * 86_400


@dataclass(frozen=True)
class Sadf:
    name: str = "sadf"
    title: str = "sar data through sadf: -j, -d or -p"
    tables: tuple[str, ...] = ("series",)

    def detect(self, head: bytes, path: Path) -> float:
        text = plain_head(head)
        if text.lstrip().startswith("{"):
            return 0.9 if '"sysstat"' in text and '"file-date"' in text else 0.0
        if text.startswith(_HEADER):
            return 0.9
        return 0.8 if _is_tabbed(text) else 0.0

    def read(self, path: Path, context: ReadContext) -> Iterator[tuple[str, Frame]]:
        frames = (frame for table in _tables(path, context) for frame in table.frames(path))
        empty = f"{path} holds no interval of devices, of all devices together, or of CPUs."
        return with_rows(frames, EmptyInput(empty, hint="Export them with: sadf -j FILE -- -d -b -u"))


def _is_tabbed(text: str) -> bool:
    lines = text.split("\n")[:-1]
    fields = [line.split("\t") for line in lines[:50]]
    return bool(fields) and all(
        len(parts) >= 5 and parts[1].lstrip("-").isdigit() and parts[2][:4].isdigit() for parts in fields
    )


@dataclass
class _SampleTable:
    """Samples of one activity with the same columns. `kind` is what a sample is of: device, host or cpu."""

    kind: str
    columns: tuple[str, ...]
    hosts: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    spans: list[tuple[int, int]] = field(default_factory=list)
    rows: list[Any] = field(default_factory=list)  # text between semicolons, or lists of numbers
    lines: list[int] = field(default_factory=list)

    def add(self, span: tuple[int, int], host: str, name: str, row: str | list[float], line: int) -> None:
        self.spans.append(span)
        self.hosts.append(host)
        self.names.append(name)
        self.rows.append(row)
        self.lines.append(line)

    def frames(self, path: Path) -> Iterator[Frame]:
        if not self.spans:
            return
        printed = printed_numbers(path, self.rows, self.lines, self.columns, ";")
        spans = Spans.of(self.spans)
        if self.kind == "cpu":
            ratio = cpu_ratio(self.columns, printed)
            if ratio is not None:
                yield host_rows(self.hosts, spans, {"cpu_ratio": (ratio, np.isfinite(ratio))})
            return
        values: Values = Layout(self.columns, SAR).metrics(printed, spans.seconds)
        if self.kind == "device":
            yield device_rows(self.hosts, self.names, spans, values)
        elif values:
            yield host_rows(self.hosts, spans, values)


def _tables(path: Path, context: ReadContext) -> Iterator[_SampleTable]:
    head = beginning(path)
    if head.startswith("{"):
        return _json_tables(path, context)
    if head.startswith("#"):
        return _semicolon_tables(path, context)
    return _tabbed_tables(path, context)


def _span(path: Path, line: int, end_ns: int, interval: int) -> tuple[int, int]:
    if interval > _LONGEST_INTERVAL:
        raise CorruptInput(f"{path}, line {line}: an interval of {interval} seconds.")
    return end_ns - interval * NS, interval * NS


def _semicolon_tables(path: Path, context: ReadContext) -> Iterator[_SampleTable]:
    """sadf -d: a header per activity, then its records in the order of time."""
    stamps = StampReader(str(path), context.zone)
    table: _SampleTable | None = None
    for number, line in whole_lines(path):
        if line.startswith("#"):
            if table is not None:
                yield table
            table = _open_table(path, line, number)
            stamps.restart()
            continue
        if not line:
            continue
        if table is None:
            raise CorruptInput(f"{path}, line {number}: a record before the line that names its columns.")
        _add_record(path, table, stamps, line, number, context.host)
        if len(table.spans) >= BATCH_SAMPLES:
            yield table
            table = _SampleTable(table.kind, table.columns)
    if table is not None:
        yield table


def _open_table(path: Path, line: str, number: int) -> _SampleTable:
    columns = line[2:].split(";")
    if columns[:3] != ["hostname", "interval", "timestamp"]:
        raise CorruptInput(f"{path}, line {number}: expected {_HEADER!r}, found {line[:60]!r}.")
    names = tuple(columns[3:])
    several = len(set(names)) < len(names) or any("[...]" in name for name in names)
    if several and names[:1] != ("CPU",) and "DEV" not in names:
        return _SampleTable("other", names)
    if several:
        raise UnsupportedVersion(
            f"{path}, line {number}: several devices or activities in one line (sadf -h).", hint="Run sadf without -h."
        )
    if names[:1] == ("DEV",):
        return _SampleTable("device", names[1:])
    if names[:1] == ("CPU",) and not set(names).isdisjoint(_OF_CPUS):
        return _SampleTable("cpu", names[1:])
    return _SampleTable("other" if set(names).isdisjoint(SAR) else "host", names)


def _add_record(path: Path, table: _SampleTable, stamps: StampReader, line: str, number: int, host: str | None) -> None:
    if table.kind == "other":
        return  # sar -A: memory, network, interrupts, batteries
    named = table.kind != "host"
    parts = line.split(";", 4 if named else 3)
    if len(parts) > 1 and parts[1] == "-1":
        return  # LINUX-RESTART, or a comment
    interval = whole_number(parts[1]) if len(parts) >= (5 if named else 4) else None
    if interval is None:
        raise CorruptInput(f"{path}, line {number}: expected host;interval;time;..., found {line[:60]!r}.")
    if interval == 0 or (table.kind == "cpu" and parts[3] not in _ALL_CPUS):
        return
    span = _span(path, number, stamps.read(parts[2], number), interval)
    table.add(span, host or parts[0], parts[3] if named else "", parts[-1], number)


@dataclass
class _Sample:
    """Consecutive lines of sadf -p about one thing at one time."""

    key: list[str]  # host, interval, time, device
    line: int
    values: dict[str, float] = field(default_factory=dict)


def _tabbed_tables(path: Path, context: ReadContext) -> Iterator[_SampleTable]:
    """sadf -p: one number a line; lines of one sample stand together, each with its name."""
    stamps = StampReader(str(path), context.zone)
    samples: list[_Sample] = []
    for number, line in whole_lines(path):
        parts = line.split("\t")
        if not line or (len(parts) > 1 and parts[1] == "-1"):
            continue  # a restart, or a comment
        if len(parts) >= 5 and whole_number(parts[1]) is not None and parts[4] not in _WANTED:
            continue
        value = parts[5].replace(",", ".") if len(parts) == 6 else ""
        if not is_number(value) or whole_number(parts[1]) is None:
            raise CorruptInput(
                f"{path}, line {number}: expected host, interval, time, device, name and number between tabs, "
                f"found {line[:60]!r}."
            )
        # In the doubled hour of autumn a local time comes twice: then a name comes again.
        if not samples or samples[-1].key != parts[:4] or parts[4] in samples[-1].values:
            if len(samples) >= BATCH_SAMPLES:
                yield from _pivot(path, samples, stamps, context.host)
                samples = []
            samples.append(_Sample(parts[:4], number))
        samples[-1].values[parts[4]] = float(value)
    yield from _pivot(path, samples, stamps, context.host)


def _pivot(path: Path, samples: list[_Sample], stamps: StampReader, host: str | None) -> Iterator[_SampleTable]:
    tables: dict[tuple[str, tuple[str, ...]], _SampleTable] = {}
    activity = ""
    for sample in samples:
        name, interval, stamp, device = sample.key
        columns = tuple(sample.values)
        if columns[0] != activity:
            activity = columns[0]
            stamps.restart()  # each activity begins at the first time again
        kind = "cpu" if "%user" in columns or "%usr" in columns else "host" if device == "-" else "device"
        if interval == "0" or (kind == "cpu" and device not in _ALL_CPUS):
            continue
        table = tables.setdefault((kind, columns), _SampleTable(kind, columns))
        span = _span(path, sample.line, stamps.read(stamp, sample.line), int(interval))
        table.add(span, host or name, device, list(sample.values.values()), sample.line)
    yield from tables.values()


def _json_tables(path: Path, context: ReadContext) -> Iterator[_SampleTable]:
    tables: dict[tuple[str, tuple[str, ...]], _SampleTable] = {}
    stamps = StampReader(str(path), context.zone)
    for record in read_records(path):
        if record.opens_run:
            stamps.restart()
        stamp = record.body.get("timestamp")
        if not isinstance(stamp, dict):
            continue
        text, interval = _json_time(path, record, stamp)
        if interval <= 0:
            continue
        host = context.host or record.host
        if host is None:
            raise CorruptInput(f"{path}, line {record.line}: no nodename before the statistics.", hint="Give --host.")
        span = _span(path, record.line, stamps.read(text, record.line), interval)
        for kind, name, columns, values in _activities(path, record):
            table = tables.setdefault((kind, columns), _SampleTable(kind, columns))
            table.add(span, host, name, values, record.line)
        if sum(len(table.spans) for table in tables.values()) >= BATCH_SAMPLES:
            yield from tables.values()
            tables = {}
    yield from tables.values()


def _json_time(path: Path, record: Record, stamp: dict[str, object]) -> tuple[str, int]:
    date, time, interval = stamp.get("date"), stamp.get("time"), stamp.get("interval")
    if not isinstance(date, str) or not isinstance(time, str) or not isinstance(interval, int):
        raise CorruptInput(f"{path}, line {record.line}: expected date, time and interval, found {stamp}.")
    is_utc = stamp.get("utc") == 1 or stamp.get("tz") == "UTC"
    return f"{date} {time} UTC" if is_utc else f"{date} {time}", interval


def _activities(path: Path, record: Record) -> Iterator[tuple[str, str, tuple[str, ...], list[float]]]:
    """Kind, name, columns and numbers of what a record holds of devices, of the host's I/O and of its CPUs."""
    for entry in entries(path, record, "disk"):
        yield ("device", *numbers_of(path, record.line, entry, "disk-device"))
    totals = record.body.get("io")
    if isinstance(totals, dict):
        flat = {name: value for part in totals.values() if isinstance(part, dict) for name, value in part.items()}
        yield ("host", *numbers_of(path, record.line, {"host": "", **flat}, "host"))
    for entry in entries(path, record, "cpu-load"):
        name, columns, values = numbers_of(path, record.line, entry, "cpu")
        if name in _ALL_CPUS:
            yield "cpu", name, columns, values


SOURCE = Sadf()
