"""iostat, text or JSON: the source `iostat`.

The text is that of sysstat 9 to 12: with or without -t, -x, -d, -k, -m, -y, -p, --pretty, any order of columns.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from ioweather.core.contracts import ReadContext
from ioweather.core.errors import CorruptInput, UnsupportedVersion
from ioweather.core.frames import Frame
from ioweather.core.units import format_bytes
from ioweather.core.words import names_of
from ioweather.sources.devices import sysstat_json
from ioweather.sources.devices.reports import Report, read_reports
from ioweather.sources.devices.stamps import (
    date_stamp,
    has_ambiguous_date,
    is_day_first,
    is_stamp,
    parse_date,
    plain_stamp,
)
from ioweather.sources.textfiles import beginning, line_blocks, plain_head, text_blocks, whole_lines

# 'Linux 6.1.0 (host) \t11/15/26 \t_x86_64_\t(2 CPU)'; very old ones lack the date, the machine or the CPUs.
_RUN_LINE = re.compile(r"[Ll]inux \S+ \((?P<host>\S+)\)(?P<rest>.*)")
_PREFIXED_RUN = re.compile(r"([^\s:]{1,255}: )\s{0,99}[Ll]inux \S+ \(\S+\)")
_MOST_PREFIXED_BYTES = 256 << 20
_DATE = re.compile(r"\d{1,4}[/.-]\d{1,2}[/.-]\d{1,4}")
_TIME_ONLY = re.compile(r"(?:Time: )(\d{1,2}:\d{2}:\d{2}(?: ?[AaPp][Mm])?)")
_SLASHED_LINE = re.compile(r"\n {0,40}(\d{1,2}/\d{1,2}/\d{2,4}) ")
_HALF_DAY_SECONDS = 43_200


def looks_like_iostat(head: str) -> bool:
    lines = head.split("\n")
    prefix = _prefix_of(lines)
    lines = [line.removeprefix(prefix).strip() for line in lines[:400]]
    has_table = any(_is_device_header(line.split()) or line.startswith("avg-cpu:") for line in lines)
    return has_table and any(_RUN_LINE.match(line) or is_stamp(line) for line in lines[:40])


def _prefix_of(lines: list[str]) -> str:
    """'host: ', where pdsh put it before each line; the header of iostat shows it."""
    for line in lines[:40]:
        match = _PREFIXED_RUN.match(line)
        if match is not None:
            return match[1]
    return ""


def find_day_first(path: Path) -> bool:
    """Whether dates with slashes have the day first; looks into the file only where its first date leaves it open."""
    blocks = text_blocks(path)
    first = next(blocks, "")
    match = _SLASHED_LINE.search("\n" + first)
    if match is None:
        return False
    if not has_ambiguous_date(match[1]):
        return is_day_first([match[1]])
    # A block ends behind a line end; the one put before it lets the pattern begin with a fast literal.
    return is_day_first(date for text in chain([first], blocks) for date in _SLASHED_LINE.findall("\n" + text))


def _is_device_header(words: list[str]) -> bool:
    return len(words) > 1 and (words[0] in ("Device", "Device:") or words[-1] == "Device")


def read_prefixed(path: Path) -> dict[str, list[Report]]:
    """Reports by host, where each line begins with its host, as pdsh prints them; hosts come in any order."""
    if path.stat().st_size > _MOST_PREFIXED_BYTES:
        raise UnsupportedVersion(
            f"{path}: output of several hosts in one file of more than {format_bytes(_MOST_PREFIXED_BYTES)}.",
            hint="Split it by host: grep '^HOST: ' FILE > HOST.txt",
        )
    parsers: dict[str, _Parser] = {}
    reports: dict[str, list[Report]] = {}
    for number, line in whole_lines(path):
        host, colon, rest = line.partition(":")
        if not colon and line.strip():
            raise CorruptInput(f"{path}, line {number}: expected 'host: ' before each line, found {line[:60]!r}.")
        if colon:
            parser = parsers.setdefault(host, _Parser(path))
            finished = parser.feed(rest.removeprefix(" "), number)
            reports.setdefault(host, []).extend([finished] if finished is not None else [])
    for host, parser in parsers.items():
        last = parser.finish()
        reports[host].extend([last] if last is not None else [])
    return reports


def read_text(path: Path) -> Iterator[Report]:
    """All reports in the order of the file; one that is cut mid-line at the end is left for the next time."""
    parser = _Parser(path)
    for block in line_blocks(path):
        lines = block.lines
        if block.torn:
            parser.torn()
            break
        for number, line in enumerate(lines, block.first):
            finished = parser.feed(line, number)
            if finished is not None:
                yield finished
    last = parser.finish()
    if last is not None:
        yield last


class _Parser:
    """Line by line; `feed` gives back a report when the next one begins."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._report: Report | None = None
        self._host: str | None = None
        self._run_date: str | None = None
        self._clock = _DayClock()
        self._table = ""  # which table the next line belongs to: '', cpu, device, other
        self._name_last = False
        self._opens_run = True
        self._since_boot = True
        self._blank_lines: int | None = None  # counted behind a header
        self._after_blank = True
        self._indent = 0  # of the whole text, as somebody pasted it
        self._date_stamp: str | None = None  # what `date` printed before a report

    def feed(self, line: str, number: int) -> Report | None:
        if self._indent and line[: self._indent].isspace():
            line = line[self._indent :]
        name, _, rest = line.partition(" ")
        if self._table == "device" and name and not name[0].isdigit() and name not in _KEYWORDS and not self._name_last:
            report = self._report
            assert report is not None  # a table is open only inside a report
            report.devices.append(name)
            report.rows.append(rest)
            report.lines.append(number)
            self._after_blank = False
            return None
        stripped = line.strip()
        if not stripped:
            self._after_blank = True
            if self._blank_lines is not None:
                self._blank_lines += 1
            return None
        finished = self._special(line, stripped, number)
        self._after_blank = False
        return finished

    def _special(self, line: str, stripped: str, number: int) -> Report | None:
        """Everything but the common line of a device."""
        run = _RUN_LINE.match(stripped)
        if run is not None:
            self._learn_indent(line)
            return self._open_run(run)
        printed = date_stamp(stripped)
        if printed is not None:
            self._date_stamp, self._table = printed, ""
            return None
        if self._table == "cpu":
            self._read_cpu(stripped, number)
            return None
        time_only = _TIME_ONLY.fullmatch(stripped)
        if time_only is not None:
            try:
                stamp = self._clock.stamp(self._run_date, time_only[1])
            except ValueError:
                raise CorruptInput(f"{self._path}, line {number}: {stripped!r} is not a time.") from None
            return self._open_report(number, stamp)
        if is_stamp(stripped):
            self._learn_indent(line)
            return self._open_report(number, stripped)
        words = stripped.split()
        if words[0] == "avg-cpu:":
            self._learn_indent(line)
            finished = self._open_table(number, "cpu")
            self._current().cpu_columns = tuple(words[1:])
            return finished
        if _is_device_header(words):
            finished = self._open_table(number, "device")
            self._name_last = words[-1] == "Device"
            if not self._name_last:
                self._learn_indent(line)
            self._current().columns = tuple(words[:-1] if self._name_last else words[1:])
            return finished
        if words[0] in ("Filesystem", "Filesystem:"):  # iostat -n: NFS mounts as the client sees them
            self._table = "other"
        elif self._table == "device":
            self._read_device(line, words, number)
        elif self._table != "other":
            raise CorruptInput(f"{self._path}, line {number}: {stripped[:60]!r} is not an iostat line.")
        return None

    def _learn_indent(self, line: str) -> None:
        """Of a line that iostat begins at the margin."""
        if self._indent == 0:
            self._indent = len(line) - len(line.lstrip())

    def _open_run(self, run: re.Match[str]) -> Report | None:
        finished, self._report = self._report, None
        self._host = run["host"]
        self._run_date = _date_in(run["rest"])
        self._clock = _DayClock()
        self._table, self._opens_run, self._blank_lines, self._date_stamp = "", True, 0, None
        return finished

    def _open_report(self, number: int, stamp: str | None) -> Report | None:
        finished = self._report
        if self._opens_run:
            # sysstat 12 prints one more empty line where -y leaves out the report since boot; older ones print none,
            # and then the first report is taken for the one since boot: a sample lost rather than a false one planted.
            self._since_boot = self._blank_lines is None or self._blank_lines < 2
        self._report = Report(number, self._host, stamp, self._opens_run, self._opens_run and self._since_boot)
        self._opens_run, self._blank_lines, self._table = False, None, ""
        return finished

    def _open_table(self, number: int, table: str) -> Report | None:
        """Without time stamps a report begins with its first table."""
        report = self._report
        again = report is not None and bool(report.columns or (table == "cpu" and report.cpu_columns))
        if again and report is not None and report.stamp is not None and self._date_stamp is None:
            raise CorruptInput(f"{self._path}, line {number}: the table is there twice under one time stamp.")
        finished = None
        if report is None or again:
            finished = self._open_report(number, self._date_stamp)
            self._date_stamp = None
        self._table = table
        return finished

    def _current(self) -> Report:
        assert self._report is not None
        return self._report

    def _read_cpu(self, stripped: str, number: int) -> None:
        report = self._current()
        self._table = ""
        try:
            report.cpu = [float(word.replace(",", ".").rstrip("%")) for word in stripped.split()]
        except ValueError:
            report.cpu = []
        if len(report.cpu) != len(report.cpu_columns):
            raise CorruptInput(
                f"{self._path}, line {number}: expected {len(report.cpu_columns)} percentages, found {stripped[:60]!r}."
            )

    def _read_device(self, line: str, words: list[str], number: int) -> None:
        report = self._current()
        if self._name_last:
            name, row = words[-1], line.rstrip()[: -len(words[-1])]
        elif line[0].isspace():
            return  # the sum of a group (iostat -g); its members have their own lines
        else:
            name, row = words[0], line[len(words[0]) :]
        report.devices.append(name)
        report.rows.append(row)
        report.lines.append(number)

    def torn(self) -> None:
        """The file ends in the middle of a line."""
        if not self._after_blank:
            self._report = None

    def finish(self) -> Report | None:
        return self._report


_KEYWORDS = frozenset(
    names_of("""
    Device Device: avg-cpu: Linux linux Time: Filesystem Filesystem: Mon Tue Wed Thu Fri Sat Sun
""")
)


def _date_in(rest: str) -> str | None:
    """The date in what follows the host in the first line."""
    date = _DATE.search(plain_stamp(rest))
    return date[0] if date else None


class _DayClock:
    """Stamps that are a time of day alone ('Time: 11:58:03 PM', sysstat 8 and 9): the date stands in the first line
    and goes on at midnight."""

    def __init__(self) -> None:
        self._date: dt.date | None = None
        self._seconds = -1

    def stamp(self, run_date: str | None, time: str) -> str | None:
        if run_date is None:
            return None
        parts = dt.datetime.strptime(time.replace(" ", "").upper(), "%I:%M:%S%p" if time[-1] in "mM" else "%H:%M:%S")
        seconds = parts.hour * 3600 + parts.minute * 60 + parts.second
        if self._date is None:
            self._date = parse_date(run_date, day_first=is_day_first([run_date]))
        elif seconds < self._seconds - _HALF_DAY_SECONDS:
            self._date += dt.timedelta(days=1)
        self._seconds = seconds
        return f"{self._date.isoformat()} {parts:%H:%M:%S}"


@dataclass(frozen=True)
class Iostat:
    name: str = "iostat"
    title: str = "iostat of sysstat 9 to 12, text or JSON"
    tables: tuple[str, ...] = ("series",)

    def detect(self, head: bytes, path: Path) -> float:
        text = plain_head(head)
        if text.lstrip().startswith("{"):
            return 0.9 if is_iostat_json(text) else 0.0
        return 0.9 if looks_like_iostat(text) else 0.0

    def read(self, path: Path, context: ReadContext) -> Iterator[tuple[str, Frame]]:
        start = beginning(path)
        if _prefix_of(start.split("\n")):
            day_first = find_day_first(path)
            for host, found in read_prefixed(path).items():
                yield from read_reports(path, iter(found), replace(context, host=host), day_first=day_first)
            return
        if start.startswith("{"):
            reports, day_first = sysstat_json.read_iostat_json(path), sysstat_json.find_day_first(path)
        else:
            reports, day_first = read_text(path), find_day_first(path)
        yield from read_reports(path, reports, context, day_first=day_first)


def is_iostat_json(text: str) -> bool:
    """sysstat's JSON writers begin alike; sadf says the date of its data file, mpstat has no disks."""
    has_tables = '"disk"' in text or '"avg-cpu"' in text
    return '"sysstat"' in text and has_tables and '"file-date"' not in text


SOURCE = Iostat()
