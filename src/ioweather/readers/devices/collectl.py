"""collectl -P: one line per sample, columns named [DSK:sda]Reads, [DSK]ReadTot, [CPU]Idle%: the source `collectl`.

collectl prints differences from the start, so its first line is a sample; the second line gives its length. Rates are
per second unless collectl ran with -on, which the preamble of its files says.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from ioweather.core.contracts import ReadContext
from ioweather.core.errors import CorruptInput, EmptyInput, SourceError
from ioweather.core.frames import Frame
from ioweather.core.units import KIB
from ioweather.readers.devices.device_rows import BATCH_SAMPLES, Reading, SampleTables, check_rows
from ioweather.readers.devices.stamps import StampReader
from ioweather.readers.text_files import plain_head, whole_lines

_COLUMN = re.compile(r"\[(?P<subsystem>[A-Z]+)(?::(?P<name>[^\]]+))?\](?P<column>.+)")
_HOST = re.compile(r"# Host:\s+(\S+)")
_OPTIONS = re.compile(r"# SubSys:.* Options: (\S*) Interval:")
_DATE = re.compile(r"^(\d{4})(\d{2})(\d{2})$")
# Per device ([DSK:sda]Reads) and all together ([DSK]ReadTot). QueLen is the mean while the device was busy, not over
# the interval, and therefore another quantity than `queue_length`. Waits are whole milliseconds: a 0 is no request, or
# any time below one.
_RATES = {
    "Reads": Reading("read_ops", is_rate=True),
    "ReadTot": Reading("read_ops", is_rate=True),
    "Writes": Reading("write_ops", is_rate=True),
    "WriteTot": Reading("write_ops", is_rate=True),
    "RKBytes": Reading("read_bytes", KIB, is_rate=True),
    "ReadKBTot": Reading("read_bytes", KIB, is_rate=True),
    "WKBytes": Reading("write_bytes", KIB, is_rate=True),
    "WriteKBTot": Reading("write_bytes", KIB, is_rate=True),
    "Wait": Reading("await_seconds", 1e-3, zero_is_unknown=True),
    "WaitR": Reading("read_await_seconds", 1e-3, zero_is_unknown=True),
    "WaitW": Reading("write_await_seconds", 1e-3, zero_is_unknown=True),
    "Util": Reading("busy_ratio", 1e-2),
}
_AMOUNTS = {name: replace(reading, is_rate=False) for name, reading in _RATES.items()}


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
        empty = f"{path} holds no two samples of disks or CPUs yet."
        return check_rows(_read(path, context), EmptyInput(empty, hint="Record them with: collectl -scdD -P -f DIR"))


def _read(path: Path, context: ReadContext) -> Iterator[Frame]:
    host, separator, titles = context.host, " ", list[str]()
    parts: dict[tuple[str, str], dict[str, int]] = {}
    tables = SampleTables(path, _RATES)
    stamps = StampReader(str(path), context.zone)
    previous_ns: int | None = None
    first: tuple[list[str], int] | None = None  # waits for the second sample, which gives its length
    for number, line in whole_lines(path):
        if line.startswith("#"):
            # Column names begin a new run: its first sample has no predecessor.
            yield from tables.frames()
            previous_ns = first = None
            if line.startswith(("#Date", "#UTC")):
                separator = re.sub(r"^#(?:Date|UTC)", "", line)[:1] or " "
                titles = line[1:].split(separator)
                parts = _find_parts(titles)
            elif found := _HOST.match(line):
                host = context.host or found[1]
            elif found := _OPTIONS.match(line):
                tables = SampleTables(path, _AMOUNTS if "n" in found[1] else _RATES)
            continue
        if not line or not titles or line.startswith("waiting for"):  # 1 second sample...
            continue
        row = line.split(separator)
        if len(row) != len(titles):
            raise CorruptInput(f"{path}, line {number}: expected {len(titles)} fields, found {len(row)}.")
        date = _DATE.sub(r"\1-\2-\3", row[0])
        end_ns = stamps.read(row[0] if titles[0] == "UTC" else f"{date} {row[1]}", number)
        if previous_ns is not None and end_ns > previous_ns:
            if host is None:
                raise SourceError(f"{path} does not name its host.", hint="Give --host.")
            length_ns = end_ns - previous_ns
            for start_ns, sample in ((previous_ns - length_ns, first), (previous_ns, (row, number))):
                if sample is None:
                    continue
                numbers = _parse_row(path, titles, *sample)
                for (kind, name), places in parts.items():
                    values = [numbers[place] for place in places.values()]
                    tables.add(kind, tuple(places), host, name, (start_ns, length_ns), values, sample[1])
        first = (row, number) if previous_ns is None else None
        previous_ns = end_ns
        yield from tables.frames(least=BATCH_SAMPLES)
    yield from tables.frames()


def _find_parts(titles: list[str]) -> dict[tuple[str, str], dict[str, int]]:
    """(kind, device) to its columns and their positions."""
    parts: dict[tuple[str, str], dict[str, int]] = {}
    for place, title in enumerate(titles):
        match = _COLUMN.fullmatch(title)
        if match is None or match["column"] == "Name":
            continue
        subsystem, name = match["subsystem"], match["name"] or ""
        if subsystem == "DSK":
            parts.setdefault(("device" if name else "host", name), {})[match["column"]] = place
        elif subsystem == "CPU" and not name:
            parts.setdefault(("cpu", name), {})[match["column"]] = place
    return parts


def _parse_row(path: Path, titles: list[str], row: list[str], number: int) -> dict[int, float]:
    """Numbers by position; dates, times and names are left out."""
    numbers: dict[int, float] = {}
    for place, (title, text) in enumerate(zip(titles, row, strict=True)):
        if title.startswith("[") and not title.endswith("]Name"):
            try:
                numbers[place] = float(text)
            except ValueError:
                raise CorruptInput(f"{path}, line {number}: {text!r} in {title} is not a number.") from None
    return numbers


SOURCE = Collectl()
