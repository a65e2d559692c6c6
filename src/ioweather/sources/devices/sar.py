"""What `sar` itself prints (-d, -b, -u), and the daily files it keeps (saDD): the source `sar`.

A line of sar says the time of day at which its sample ended. The line with the names of the columns says when the one
before it ended, so the first sample has a length too. The date stands in the first line and goes on at midnight.
The daily files are private to the version of sysstat that wrote them: `sadf` reads them, where it is installed.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ioweather.core.contracts import ReadContext
from ioweather.core.errors import CorruptInput, SourceError, UnsupportedVersion
from ioweather.core.frames import Frame
from ioweather.core.units import NS
from ioweather.sources.devices.iostat import RUN_LINE, DayClock, date_in
from ioweather.sources.devices.layout import SAR
from ioweather.sources.devices.rows import BATCH_SAMPLES, is_number
from ioweather.sources.devices.sadf import ALL_CPUS, OF_CPUS, SampleTable, series_of
from ioweather.sources.devices.sadf import SOURCE as SADF
from ioweather.sources.devices.stamps import StampReader
from ioweather.sources.textfiles import plain_head, whole_lines

_ROW = re.compile(r"\s{0,99}(\d{1,2}:\d{2}:\d{2}(?: [AP]M)?)\s+(\S.*)")
# The first two bytes of a daily file, in either byte order (sa.h: SYSSTAT_MAGIC).
_MAGICS = (b"\x96\xd5", b"\xd5\x96")
_COMMAND = "sadf -j {} -- -d -b -u"
_SADF_SECONDS = 600.0


@dataclass(frozen=True)
class Sar:
    name: str = "sar"
    title: str = "sar -d, -b, -u as printed; daily files saDD through sadf, where it is installed"
    tables: tuple[str, ...] = ("series",)

    def detect(self, head: bytes, path: Path) -> float:
        if head[:2] in _MAGICS:
            return 0.7
        lines = [line.strip() for line in plain_head(head).split("\n")[:60]]
        has_run = any(RUN_LINE.match(line) for line in lines)
        return 0.85 if has_run and any(_columns(line) for line in lines) else 0.0

    def read(self, path: Path, context: ReadContext) -> Iterator[tuple[str, Frame]]:
        with path.open("rb") as file:
            is_daily = file.read(2) in _MAGICS
        if is_daily:
            yield from _through_sadf(path, context)
            return
        yield from series_of(path, _tables(path, context), "Print them with: LC_ALL=C sar -d -b -u -f FILE")


def _through_sadf(path: Path, context: ReadContext) -> Iterator[tuple[str, Frame]]:
    if shutil.which("sadf") is None:
        raise UnsupportedVersion(
            f"{path} is a daily file of sar, and sadf, which reads it, is not installed here.",
            hint=f"Where it was written, run: {_COMMAND.format(path.name)} > {path.name}.json",
        )
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "sadf.json"
        with made.open("wb") as output:
            command = ["sadf", "-j", str(path), "--", "-d", "-b", "-u"]
            done = subprocess.run(command, stdout=output, stderr=subprocess.PIPE, timeout=_SADF_SECONDS, check=False)
        if done.returncode != 0 or not made.stat().st_size:
            said = done.stderr.decode("utf-8", "replace").strip()[:200]
            raise UnsupportedVersion(
                f"{path}: sadf cannot read it: {said or done.returncode}.",
                hint="A file of another version of sysstat: run sadf where it was written, or sadf -c FILE first.",
            )
        yield from SADF.read(made, context)


def _columns(line: str) -> tuple[str, list[str]] | None:
    """(time, names of columns) of a line that names them, where they are of devices, of all devices, or of CPUs."""
    match = _ROW.fullmatch(line)
    words = match[2].split() if match else []
    named = len(words) > 2 and not any(map(is_number, words[1:]))
    wanted = named and (words[0] == "DEV" or not set(words).isdisjoint(OF_CPUS) or not set(words).isdisjoint(SAR))
    return (match[1], words) if match is not None and wanted else None


def _tables(path: Path, context: ReadContext) -> Iterator[SampleTable]:
    reader = _Reader(path, context)
    for number, line in whole_lines(path):
        reader.feed(line, number)
        if reader.samples >= BATCH_SAMPLES:
            yield from reader.take()
    yield from reader.take()


class _Reader:
    def __init__(self, path: Path, context: ReadContext) -> None:
        self._path, self._context = path, context
        self._stamps = StampReader(str(path), context.zone)
        self._clock = DayClock()
        self._date: str | None = None
        self._host = context.host
        self._words: list[str] = []
        self._before_ns = self._now_ns = 0
        self._tables: dict[tuple[str, tuple[str, ...]], SampleTable] = {}
        self.samples = 0

    def take(self) -> Iterator[SampleTable]:
        tables, self._tables, self.samples = self._tables, {}, 0
        yield from tables.values()

    def feed(self, line: str, number: int) -> None:
        stripped = line.strip()
        run = RUN_LINE.match(stripped)
        if run is not None:
            self._host = self._context.host or run["host"]
            self._date, self._clock, self._words = date_in(run["rest"]), DayClock(), []
            self._stamps.restart()
            return
        match = _ROW.fullmatch(stripped)
        if match is None or "LINUX RESTART" in stripped:  # blank, an average, or a restart
            self._words = [] if not stripped or "RESTART" in stripped else self._words
            return
        words = match[2].split()
        found = _columns(stripped)
        if found is not None:
            self._words = words
            # A new activity begins at the first time again.
            self._clock, self._before_ns = DayClock(), 0
            self._stamps.restart()
            self._before_ns = self._now_ns = self._moment(found[0], number)
        elif self._words and any(map(is_number, words)):
            self._sample(match[1], words, number)
        else:
            self._words = []  # an activity that nobody needs

    def _moment(self, time: str, number: int) -> int:
        try:
            stamp = self._clock.stamp(self._date, time)
        except ValueError:
            stamp = None
        if stamp is None:
            raise CorruptInput(
                f"{self._path}, line {number}: {time!r} has no date: the first line is missing or not understood.",
                hint="Run sar with LC_ALL=C, or use sadf -j.",
            )
        return self._stamps.read(stamp, number)

    def _sample(self, time: str, words: list[str], number: int) -> None:
        end_ns = self._moment(time, number)
        if end_ns != self._now_ns:
            self._before_ns, self._now_ns = self._now_ns, end_ns
        interval_ns = self._now_ns - self._before_ns
        if self._host is None:
            raise SourceError(f"{self._path} does not name its host.", hint="Give --host.")
        kind = "device" if self._words[0] == "DEV" else "cpu" if self._words[0] == "CPU" else "host"
        names = self._words if kind == "host" else self._words[1:]
        values = words if kind == "host" else words[1:]
        if len(values) != len(names) or not all(is_number(value.replace(",", ".")) for value in values):
            raise CorruptInput(
                f"{self._path}, line {number}: expected the numbers {' '.join(names)}, found {' '.join(words)[:60]!r}."
            )
        if interval_ns < NS or (kind == "cpu" and words[0] not in ALL_CPUS):
            return
        table = self._tables.setdefault((kind, tuple(names)), SampleTable(kind, tuple(names)))
        row = [float(value.replace(",", ".")) for value in values]
        table.add((self._before_ns, interval_ns), self._host, "" if kind == "host" else words[0], row, number)
        self.samples += 1


SOURCE = Sar()
