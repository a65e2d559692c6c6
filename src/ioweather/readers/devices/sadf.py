"""sadf: the data that sar collected, as JSON (-j), semicolons (-d) or tabs (-p): the source `sadf`.

Every record gives the length of its interval, and ends at its time stamp. Records of no length (the collector was
restarted within the second) and notes (restarts, comments) make no rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ioweather.core.contracts import ReadContext
from ioweather.core.errors import CorruptInput, EmptyInput, UnsupportedVersion
from ioweather.core.foreign_text import whole_number
from ioweather.core.frames import Frame
from ioweather.core.units import NS
from ioweather.core.words import names_of
from ioweather.readers.devices.device_rows import BATCH_SAMPLES, SAR, SampleTables, check_rows, is_number
from ioweather.readers.devices.stamps import StampReader
from ioweather.readers.devices.sysstat_json import Record, entries, numbers_of, read_records
from ioweather.readers.text_files import beginning, plain_head, whole_lines

_HEADER = "# hostname;interval;timestamp"
_CPU_COLUMNS = frozenset(names_of("%user %usr %nice %system %sys %iowait %steal %irq %soft %guest %gnice %idle"))
# Names of sadf -p that are read; it prints one number per line, and those of other activities are ignored.
_WANTED = frozenset((*SAR, *_CPU_COLUMNS, "tps"))
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
        fields = [line.split("\t") for line in text.split("\n")[:-1][:50]]
        is_tabbed = bool(fields) and all(
            len(parts) >= 5 and parts[1].lstrip("-").isdigit() and parts[2][:4].isdigit() for parts in fields
        )
        return 0.8 if is_tabbed else 0.0

    def read(self, path: Path, context: ReadContext) -> Iterator[tuple[str, Frame]]:
        head = beginning(path)
        read = _read_json if head.startswith("{") else _read_semicolons if head.startswith("#") else _read_tabs
        empty = f"{path} holds no interval of devices, of all devices together, or of CPUs."
        hint = "Export them with: sadf -j FILE -- -d -b -u"
        return check_rows(read(path, context), EmptyInput(empty, hint=hint))


def _span(path: Path, line: int, end_ns: int, interval: int) -> tuple[int, int]:
    if interval > _LONGEST_INTERVAL:
        raise CorruptInput(f"{path}, line {line}: an interval of {interval} seconds.")
    return end_ns - interval * NS, interval * NS


def _read_semicolons(path: Path, context: ReadContext) -> Iterator[Frame]:
    """sadf -d: a header per activity, then its records in the order of time."""
    stamps = StampReader(str(path), context.zone)
    tables = SampleTables(path, SAR, ";")
    kind, columns = "", tuple[str, ...]()
    for number, line in whole_lines(path):
        if line.startswith("#"):
            yield from tables.frames()
            kind, columns = _read_header(path, line, number)
            stamps.restart()
            continue
        if not line or kind == "other":  # sar -A: memory, network, interrupts, batteries
            continue
        if not kind:
            raise CorruptInput(f"{path}, line {number}: a record before the line that names its columns.")
        named = kind != "host"
        parts = line.split(";", 4 if named else 3)
        if len(parts) > 1 and parts[1] == "-1":
            continue  # LINUX-RESTART, or a comment
        interval = whole_number(parts[1]) if len(parts) >= (5 if named else 4) else None
        if interval is None:
            raise CorruptInput(f"{path}, line {number}: expected host;interval;time;..., found {line[:60]!r}.")
        if interval == 0 or (kind == "cpu" and parts[3] not in _ALL_CPUS):
            continue
        span = _span(path, number, stamps.read(parts[2], number), interval)
        tables.add(kind, columns, context.host or parts[0], parts[3] if named else "", span, parts[-1], number)
        yield from tables.frames(least=BATCH_SAMPLES)
    yield from tables.frames()


def _read_header(path: Path, line: str, number: int) -> tuple[str, tuple[str, ...]]:
    """Kind of sample (device, cpu, host, other) and columns."""
    columns = line[2:].split(";")
    if columns[:3] != ["hostname", "interval", "timestamp"]:
        raise CorruptInput(f"{path}, line {number}: expected {_HEADER!r}, found {line[:60]!r}.")
    names = tuple(columns[3:])
    if len(set(names)) < len(names) or any("[...]" in name for name in names):
        if names[:1] != ("CPU",) and "DEV" not in names:
            return "other", names
        raise UnsupportedVersion(
            f"{path}, line {number}: several devices or activities in one line (sadf -h).", hint="Run sadf without -h."
        )
    if names[:1] == ("DEV",):
        return "device", names[1:]
    if names[:1] == ("CPU",) and not _CPU_COLUMNS.isdisjoint(names):
        return "cpu", names[1:]
    return "other" if set(names).isdisjoint(SAR) else "host", names


def _read_tabs(path: Path, context: ReadContext) -> Iterator[Frame]:
    """sadf -p: one number per line; lines of one sample follow each other."""
    stamps = StampReader(str(path), context.zone)
    tables = SampleTables(path, SAR)
    key: list[str] = []  # host, interval, time, device
    values: dict[str, float] = {}
    first_line, activity = 0, ""

    def add_sample() -> None:
        nonlocal activity
        host, interval, stamp, device = key
        columns = tuple(values)
        if columns[0] != activity:
            activity = columns[0]
            stamps.restart()  # each activity begins at the first time again
        kind = "cpu" if "%user" in columns or "%usr" in columns else "host" if device == "-" else "device"
        if interval != "0" and (kind != "cpu" or device in _ALL_CPUS):
            span = _span(path, first_line, stamps.read(stamp, first_line), int(interval))
            tables.add(kind, columns, context.host or host, device, span, list(values.values()), first_line)

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
        if key != parts[:4] or parts[4] in values:
            if values:
                add_sample()
            yield from tables.frames(least=BATCH_SAMPLES)
            key, values, first_line = parts[:4], {}, number
        values[parts[4]] = float(value)
    if values:
        add_sample()
    yield from tables.frames()


def _read_json(path: Path, context: ReadContext) -> Iterator[Frame]:
    stamps = StampReader(str(path), context.zone)
    tables = SampleTables(path, SAR)
    for record in read_records(path):
        if record.opens_run:
            stamps.restart()
        stamp = record.body.get("timestamp")
        if not isinstance(stamp, dict):
            continue
        date, time, interval = stamp.get("date"), stamp.get("time"), stamp.get("interval")
        if not isinstance(date, str) or not isinstance(time, str) or not isinstance(interval, int):
            raise CorruptInput(f"{path}, line {record.line}: expected date, time and interval, found {stamp}.")
        if interval <= 0:
            continue
        host = context.host or record.host
        if host is None:
            raise CorruptInput(f"{path}, line {record.line}: no nodename before the statistics.", hint="Give --host.")
        is_utc = stamp.get("utc") == 1 or stamp.get("tz") == "UTC"
        end_ns = stamps.read(f"{date} {time} UTC" if is_utc else f"{date} {time}", record.line)
        span = _span(path, record.line, end_ns, interval)
        for kind, (name, columns, values) in _find_activities(path, record):
            tables.add(kind, columns, host, name, span, values, record.line)
        yield from tables.frames(least=BATCH_SAMPLES)
    yield from tables.frames()


def _find_activities(path: Path, record: Record) -> Iterator[tuple[str, tuple[str, tuple[str, ...], list[float]]]]:
    """Kind, and (name, columns, numbers), of the devices of a record, of the host's I/O and of all its CPUs."""
    for entry in entries(path, record, "disk"):
        yield "device", numbers_of(path, record.line, entry, "disk-device")
    totals = record.body.get("io")
    if isinstance(totals, dict):
        flat = {name: value for part in totals.values() if isinstance(part, dict) for name, value in part.items()}
        yield "host", numbers_of(path, record.line, {"host": "", **flat}, "host")
    for entry in entries(path, record, "cpu-load"):
        numbers = numbers_of(path, record.line, entry, "cpu")
        if numbers[0] in _ALL_CPUS:
            yield "cpu", numbers


SOURCE = Sadf()
