"""sysstat: iostat as text or JSON (source `iostat`), and sar data through sadf -j, -d or -p (source `sadf`).

The JSON of both is read record by record: it has no end while iostat is running or after it was killed.

The text of iostat is that of sysstat 9 to 12 with -t: with or without -x, -d, -k, -m, -y, -p, --pretty, any order of
columns. A report gives the time of its end, so it covers the time since the report before it. The first one of a run
is the average since boot, unless iostat ran with -y; it covers no interval and makes no rows. The interval of a
report depends on it and the one before alone (for a first report under -y: the one after), so a log that grows yields
the same rows for its old part.

Every record of sadf gives the length of its interval and ends at its time stamp. Records of no length (the collector
was restarted within the second) and notes (restarts, comments) make no rows.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

from ioweather.core.contracts import ReadContext
from ioweather.core.errors import CorruptInput, SourceError
from ioweather.core.frames import Frame
from ioweather.core.units import NS, names_of, parse_json, whole_number
from ioweather.readers.device_logs import (
    IOSTAT_READINGS,
    SAR_READINGS,
    DeviceSample,
    StampReader,
    date_stamp,
    find_day_first,
    is_number,
    is_stamp,
    parse_numbers,
    sample_frames,
)
from ioweather.readers.reader_catalogue import FileReader
from ioweather.readers.text_files import (
    beginning,
    hosts_before,
    lines_of_host,
    note_cut,
    plain_head,
    text_blocks,
    whole_lines,
)

_STATISTICS = re.compile(r'"statistics"\s*:\s*\[')
_NODENAME = re.compile(r'"nodename"\s*:\s*("(?:[^"\\]|\\.)*")')
_BETWEEN = re.compile(r"[\s,]*")
_DECODER = json.JSONDecoder()
_Numbers: TypeAlias = tuple[str, tuple[str, ...], list[float]]


@dataclass(frozen=True)
class _Record:
    """One element of `statistics`. `lead` is the text between it and the element before."""

    line: int
    host: str | None
    lead: str
    opens_run: bool
    body: dict[str, Any]


def _read_records(path: Path) -> Iterator[_Record]:
    """All whole records of all hosts and runs in the file."""
    text = "".join(text_blocks(path))
    line, position = 1, 0
    while start := _STATISTICS.search(text, position):
        names, host = _NODENAME.findall(text, position, start.start()), None
        with suppress(ValueError, IndexError):
            host = str(parse_json(names[-1]))
        line += text.count("\n", position, start.end())
        position, opens_run = start.end(), True
        while True:
            begin = _BETWEEN.match(text, position).end()  # type: ignore[union-attr]
            line += text.count("\n", position, begin)
            if text[begin : begin + 1] == "]":
                position = begin + 1
                break
            try:
                body, behind = _DECODER.raw_decode(text, begin)
            except (RecursionError, ValueError):  # cut, damaged, nested without end, or a number of thousands of digits
                body = None
            if not isinstance(body, dict):
                note_cut(f"{path}, line {line}: this record is incomplete or damaged; the rest was skipped.")
                return
            yield _Record(line, host, text[position:begin], opens_run, body)
            line += text.count("\n", begin, behind)
            position, opens_run = behind, False


def _read_numbers(path: Path, line: int, entry: object, name_key: str) -> _Numbers:
    """Name, columns and values of one device of a record."""
    if isinstance(entry, dict) and isinstance(entry.get(name_key), str) and entry[name_key].isprintable():
        values = {key: value for key, value in entry.items() if key != name_key}
        with suppress(OverflowError):  # of an integer of hundreds of digits
            if all(isinstance(value, int | float) for value in values.values()):
                return entry[name_key], tuple(values), list(map(float, values.values()))
    raise CorruptInput(f"{path}, line {line}: expected {name_key!r} and numbers, found {str(entry)[:60]}.")


def _read_devices(path: Path, record: _Record, key: str, name_key: str) -> Iterator[_Numbers]:
    """Name, columns and values of each device in a list of a record."""
    found = record.body.get(key, [])
    if not isinstance(found, list):
        raise CorruptInput(f"{path}, line {record.line}: {key!r} must be a list.")
    return (_read_numbers(path, record.line, entry, name_key) for entry in found)


# 'Linux 6.1.0 (host) \t11/15/26 \t_x86_64_\t(2 CPU)'; very old ones lack the date, the machine or the CPUs.
_RUN_LINE = re.compile(r"[Ll]inux \S+ \((?P<host>\S+)\)")
# pdsh puts the host before each line.
_PREFIXED_RUN = re.compile(r"^([^\s:]{1,255}): {1,99}[Ll]inux \S+ \(\S+\)", re.MULTILINE)
# First words of lines that are no rows of a table.
_KEYWORDS = frozenset(
    names_of("Device Device: avg-cpu: Linux linux Time: Filesystem Filesystem: Mon Tue Wed Thu Fri Sat Sun")
)


@dataclass(slots=True)
class _Report:
    """One report as printed. `rows` has a device, its line of numbers (text) or list of numbers (JSON), and a line.
    `opens_run`: the first behind a header, or of the file."""

    line: int
    host: str | None
    stamp: str | None = None
    opens_run: bool = False
    since_boot: bool = False
    cpu_columns: tuple[str, ...] = ()
    cpu: list[float] = field(default_factory=list)
    columns: tuple[str, ...] = ()
    rows: list[tuple[str, Any, int]] = field(default_factory=list)


def _detect_iostat(head: bytes, path: Path) -> float:
    """JSON of sysstat with disks, or text with a table of devices or CPUs behind a header or a time stamp."""
    text = plain_head(head)
    if text.lstrip().startswith("{"):
        # sadf's JSON names the date of its data file; mpstat's has no disks.
        has_tables = '"disk"' in text or '"avg-cpu"' in text
        return 0.9 if '"sysstat"' in text and has_tables and '"file-date"' not in text else 0.0
    prefix = f"{match[1]}:" if (match := _PREFIXED_RUN.search(text)) else ""
    lines = [line.removeprefix(prefix).strip() for line in text.split("\n")[:400]]
    has_tables = any(_is_device_header(line.split()) or line.startswith("avg-cpu:") for line in lines)
    return 0.9 if has_tables and any(_RUN_LINE.match(line) or is_stamp(line) for line in lines[:40]) else 0.0


def _read_iostat(path: Path, context: ReadContext) -> Iterator[tuple[str, Frame]]:
    """Rows of JSON or text; text of several hosts (pdsh) is read once for each host."""
    empty = f"{path} has no interval report: the first report of iostat is the average since boot."
    hint = "Run iostat with an interval, such as: S_TIME_FORMAT=ISO iostat -xtky 60"
    if beginning(path).startswith("{"):
        samples = _iostat_samples(path, _read_iostat_json(path), context)
    else:
        samples = chain.from_iterable(
            _iostat_samples(path, _read_iostat_text(path, host), replace(context, host=host or context.host))
            for host in hosts_before(path, _PREFIXED_RUN) or ("",)
        )
    return sample_frames(samples, IOSTAT_READINGS, SourceError(empty, hint=hint, kind="EmptyInput"))


IOSTAT = FileReader("iostat", "iostat from sysstat 9 to 12, text or JSON", ("series",), _detect_iostat, _read_iostat)


def _is_device_header(words: list[str]) -> bool:
    return len(words) > 1 and (words[0] in ("Device", "Device:") or words[-1] == "Device")


def _iostat_samples(path: Path, reports: Iterator[_Report], context: ReadContext) -> Iterator[DeviceSample]:
    """Samples of all reports that cover an interval."""
    stamps = StampReader(str(path), context.zone, day_first=find_day_first(path))
    for report, *span in _with_intervals(path, reports, stamps):
        host = context.host or report.host
        if host is None:
            raise SourceError(f"{path} contains no host name: the first line of iostat is missing.", hint="Use --host.")
        if report.cpu:
            yield DeviceSample("cpu", report.cpu_columns, host, "", span[0], span[1], report.cpu)
        for device, row, line in report.rows:
            is_text = isinstance(row, str)
            numbers = parse_numbers(row.split(), report.columns, f"{path}, line {line}") if is_text else row
            yield DeviceSample("device", report.columns, host, device, span[0], span[1], numbers)


def _with_intervals(path: Path, reports: Iterable[_Report], stamps: StampReader) -> Iterator[tuple[_Report, int, int]]:
    """Each report with the start and the length of its interval."""
    previous_ns = 0
    waiting: _Report | None = None  # the first report under -y: the next one gives its length
    for report in reports:
        if report.stamp is None and report.since_boot:
            continue
        if report.stamp is None:
            where = f"{path}, line {report.line}"
            raise SourceError(f"{where}: the report has no timestamp.", hint="Run iostat with -t.", kind="UndatedInput")
        end_ns = stamps.read(report.stamp, report.line)
        interval_ns = end_ns - previous_ns
        # A negative or zero interval is the same second twice, or a clock set back: its length is unknown.
        if not report.opens_run and interval_ns > 0:
            if waiting is not None:
                yield waiting, previous_ns - interval_ns, interval_ns
            yield report, previous_ns, interval_ns
        waiting = report if report.opens_run and not report.since_boot else None
        previous_ns = end_ns


def _read_iostat_json(path: Path) -> Iterator[_Report]:
    """The reports of iostat -o JSON."""
    for record in _read_records(path):
        # Where -y leaves out the report since boot, sysstat 12 has an empty line, and 11 a stray comma, in its place.
        since_boot = record.opens_run and record.lead.count("\n") < 2 and "," not in record.lead
        stamp = record.body.get("timestamp")
        report = _Report(
            record.line, record.host, stamp if isinstance(stamp, str) else None, record.opens_run, since_boot
        )
        cpu = record.body.get("avg-cpu")
        if isinstance(cpu, dict):
            _, report.cpu_columns, report.cpu = _read_numbers(path, record.line, {"cpu": "all", **cpu}, "cpu")
        for name, columns, values in _read_devices(path, record, "disk", "disk_device"):
            if report.columns and columns != report.columns:
                raise CorruptInput(f"{path}, line {record.line}: devices of one report have different columns.")
            report.columns = columns
            report.rows.append((name, values, record.line))
        yield report


def _read_iostat_text(path: Path, prefix: str) -> Iterator[_Report]:
    """All reports in the order of the file, of the lines behind `prefix:` if it is given; one that is cut inside a line
    at the end is left for the next time."""
    report: _Report | None = None
    host: str | None = None
    printed: str | None = None  # by `date`, before a report
    table = ""  # of the next line: '', cpu, device, other
    name_last, opens_run, after_blank = False, True, True
    blank_lines: int | None = None  # counted behind a header
    indent = 0  # of the whole text, where it was pasted

    def opened(number: int, stamp: str | None) -> _Report:
        """A new report, which may be the first of its run."""
        nonlocal opens_run, blank_lines
        # sysstat 12 prints one more empty line where -y leaves out the report since boot; older ones print none, and
        # then the first report counts as the one since boot: a sample lost rather than a false one planted.
        made = _Report(number, host, stamp, opens_run, opens_run and (blank_lines is None or blank_lines < 2))
        opens_run, blank_lines = False, None
        return made

    for number, whole_line, torn in lines_of_host(path, prefix):
        if torn:
            if not after_blank:
                return
            break
        line = whole_line[indent:] if whole_line[:indent].isspace() else whole_line
        words = line.split()
        after_blank = not words
        if not words:
            blank_lines = None if blank_lines is None else blank_lines + 1
            continue
        stripped, where = line.strip(), f"{path}, line {number}"
        margin = len(line) - len(line.lstrip())
        if table == "device" and not name_last and margin == 0 and not line[0].isdigit() and words[0] not in _KEYWORDS:
            assert report is not None
            report.rows.append((words[0], line[len(words[0]) :], number))
        elif run := _RUN_LINE.match(stripped):
            if report is not None:
                yield report
            report, host, printed, table = None, run["host"], None, ""
            opens_run, blank_lines, indent = True, 0, indent or margin
        elif dated := date_stamp(stripped):
            printed, table = dated, ""
        elif table == "cpu":
            assert report is not None
            with suppress(ValueError):
                report.cpu = [float(word.replace(",", ".").rstrip("%")) for word in words]
            if len(report.cpu) != len(report.cpu_columns):
                expected = f"expected {len(report.cpu_columns)} percentages, found {stripped[:60]!r}"
                raise CorruptInput(f"{where}: {expected}.")
            table = ""
        elif is_stamp(stripped):
            if report is not None:
                yield report
            report, table, indent = opened(number, stripped), "", indent or margin
        elif words[0] == "avg-cpu:" or _is_device_header(words):
            is_cpu = words[0] == "avg-cpu:"
            name_last = not is_cpu and words[-1] == "Device"
            indent = indent if name_last else indent or margin
            # Without time stamps a report begins with its first table.
            again = report is not None and bool(report.columns or (is_cpu and report.cpu_columns))
            if report is not None and again:
                if report.stamp is not None and printed is None:
                    raise CorruptInput(f"{where}: the table occurs twice under one timestamp.")
                yield report
            if report is None or again:
                report, printed = opened(number, printed), None
            if is_cpu:
                table, report.cpu_columns = "cpu", tuple(words[1:])
            else:
                table, report.columns = "device", tuple(words[:-1] if name_last else words[1:])
        elif words[0] in ("Filesystem", "Filesystem:"):  # iostat -n: NFS mounts as the client sees them
            table = "other"
        elif table == "device" and (name_last or margin == 0):
            assert report is not None
            row = (words[-1], line.rstrip()[: -len(words[-1])]) if name_last else (words[0], line[len(words[0]) :])
            report.rows.append((*row, number))
        elif not table:
            raise CorruptInput(f"{where}: {stripped[:60]!r} is not an iostat line.")
        # What is left is an indented line of a table: the sum of a group (iostat -g), whose members have own lines.
    if report is not None:
        yield report


_SADF_HEADER = "# hostname;interval;timestamp"
_CPU_COLUMNS = frozenset(names_of("%user %usr %nice %system %sys %iowait %steal %irq %soft %guest %gnice %idle"))
# Names of sadf -p that are read; it prints one number per line, and those of other activities are ignored.
_WANTED = frozenset((*SAR_READINGS, *_CPU_COLUMNS, "tps"))
_ALL_CPUS = ("-1", "all")
_LONGEST_INTERVAL = 10 * 366 * 86_400


def _detect_sadf(head: bytes, path: Path) -> float:
    """JSON with the date of a data file (-j), a header with semicolons (-d), or lines of tabs (-p)."""
    text = plain_head(head)
    if text.lstrip().startswith("{"):
        return 0.9 if '"sysstat"' in text and '"file-date"' in text else 0.0
    if text.startswith(_SADF_HEADER):
        return 0.9
    fields = [line.split("\t") for line in text.split("\n")[:-1][:50]]
    is_tabbed = bool(fields) and all(
        len(parts) >= 5 and parts[1].lstrip("-").isdigit() and parts[2][:4].isdigit() for parts in fields
    )
    return 0.8 if is_tabbed else 0.0


def _read_sadf(path: Path, context: ReadContext) -> Iterator[tuple[str, Frame]]:
    """Frames of `series` from JSON (-j), semicolons (-d) or tabs (-p)."""
    head = beginning(path)
    read = _read_sadf_json if head.startswith("{") else _read_semicolons if head.startswith("#") else _read_tabs
    empty = f"{path} has no interval of devices or CPUs."
    hint = "Export them with: sadf -j FILE -- -d -b -u"
    return sample_frames(read(path, context), SAR_READINGS, SourceError(empty, hint=hint, kind="EmptyInput"))


SADF = FileReader("sadf", "sar data through sadf: -j, -d or -p", ("series",), _detect_sadf, _read_sadf)


def _interval_of(path: Path, line: int, end_ns: int, interval: int) -> tuple[int, int]:
    """Start and length in nanoseconds of an interval of so many seconds. Raises CorruptInput beyond ten years."""
    if interval > _LONGEST_INTERVAL:
        raise CorruptInput(f"{path}, line {line}: the interval is {interval} seconds, which is too long.")
    return end_ns - interval * NS, interval * NS


def _read_semicolons(path: Path, context: ReadContext) -> Iterator[DeviceSample]:
    """sadf -d: a header per activity, then its records in the order of time."""
    stamps = StampReader(str(path), context.zone)
    kind, columns = "", tuple[str, ...]()
    for number, line in whole_lines(path):
        where = f"{path}, line {number}"
        if line.startswith("#"):
            kind, columns = _read_header(path, line, number)
            stamps.restart()
            continue
        if not line or kind == "other":  # sar -A: memory, network, interrupts, batteries
            continue
        if not kind:
            raise CorruptInput(f"{where}: a record precedes the header line.")
        host, *parts = line.split(";")
        if parts and parts[0] == "-1":
            continue  # LINUX-RESTART, or a comment
        first = 2 if kind == "host" else 3
        interval = whole_number(parts[0]) if len(parts) > first else None
        if interval is None:
            raise CorruptInput(f"{where}: expected host;interval;time;..., found {line[:60]!r}.")
        if interval == 0 or (kind == "cpu" and parts[2] not in _ALL_CPUS):
            continue
        span = _interval_of(path, number, stamps.read(parts[1], number), interval)
        device = "" if kind == "host" else parts[2]
        yield DeviceSample(
            kind, columns, context.host or host, device, *span, parse_numbers(parts[first:], columns, where)
        )


def _read_header(path: Path, line: str, number: int) -> tuple[str, tuple[str, ...]]:
    """Kind of sample (device, cpu, host, other) and columns."""
    columns = line[2:].split(";")
    if columns[:3] != ["hostname", "interval", "timestamp"]:
        raise CorruptInput(f"{path}, line {number}: expected {_SADF_HEADER!r}, found {line[:60]!r}.")
    names = tuple(columns[3:])
    if len(set(names)) < len(names) or any("[...]" in name for name in names):
        if names[:1] != ("CPU",) and "DEV" not in names:
            return "other", names
        raise SourceError(
            f"{path}, line {number}: the line contains several devices or activities (sadf -h).",
            hint="Run sadf without -h.",
            kind="UnsupportedVersion",
        )
    if names[:1] == ("DEV",):
        return "device", names[1:]
    if names[:1] == ("CPU",) and not _CPU_COLUMNS.isdisjoint(names):
        return "cpu", names[1:]
    return "other" if set(names).isdisjoint(SAR_READINGS) else "host", names


def _read_tabs(path: Path, context: ReadContext) -> Iterator[DeviceSample]:
    """sadf -p: one number per line; lines of one sample follow each other."""
    stamps = StampReader(str(path), context.zone)
    activity = ""
    for number, (host, interval, stamp, device), values in _group_by_sample(path):
        columns = tuple(values)
        if columns[0] != activity:
            activity = columns[0]
            stamps.restart()  # each activity begins at the first time again
        kind = "cpu" if "%user" in columns or "%usr" in columns else "host" if device == "-" else "device"
        if interval != "0" and (kind != "cpu" or device in _ALL_CPUS):
            span = _interval_of(path, number, stamps.read(stamp, number), int(interval))
            yield DeviceSample(kind, columns, context.host or host, device, *span, list(values.values()))


def _group_by_sample(path: Path) -> Iterator[tuple[int, list[str], dict[str, float]]]:
    """The first line of each sample, its host, interval, time and device, and its numbers by their names."""
    key, values, first_line = list[str](), dict[str, float](), 0
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
                yield first_line, key, values
            key, values, first_line = parts[:4], {}, number
        values[parts[4]] = float(value)
    if values:
        yield first_line, key, values


def _read_sadf_json(path: Path, context: ReadContext) -> Iterator[DeviceSample]:
    """sadf -j: devices, all devices together and CPUs of each record."""
    stamps = StampReader(str(path), context.zone)
    for record in _read_records(path):
        if record.opens_run:
            stamps.restart()
        stamp = record.body.get("timestamp")
        if not isinstance(stamp, dict):
            continue
        where = f"{path}, line {record.line}"
        date, time, interval = stamp.get("date"), stamp.get("time"), stamp.get("interval")
        if not isinstance(date, str) or not isinstance(time, str) or not isinstance(interval, int):
            raise CorruptInput(f"{where}: expected date, time and interval, found {stamp}.")
        if interval <= 0:
            continue
        host = context.host or record.host
        if host is None:
            raise CorruptInput(f"{where}: nodename is missing before the statistics.", hint="Use --host.")
        is_utc = stamp.get("utc") == 1 or stamp.get("tz") == "UTC"
        end_ns = stamps.read(f"{date} {time} UTC" if is_utc else f"{date} {time}", record.line)
        span = _interval_of(path, record.line, end_ns, interval)
        found = [("device", numbers) for numbers in _read_devices(path, record, "disk", "disk-device")]
        if isinstance(totals := record.body.get("io"), dict):
            flat = {name: value for part in totals.values() if isinstance(part, dict) for name, value in part.items()}
            found.append(("host", _read_numbers(path, record.line, {"host": "", **flat}, "host")))
        found += [("cpu", cpu) for cpu in _read_devices(path, record, "cpu-load", "cpu") if cpu[0] in _ALL_CPUS]
        for kind, (device, columns, numbers) in found:
            yield DeviceSample(kind, columns, host, device, *span, numbers)
