"""iostat, text or JSON: the source `iostat`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ioweather.core.contracts import ReadContext
from ioweather.core.frames import Frame
from ioweather.sources.devices import iostat_text, sysstat_json
from ioweather.sources.devices.reports import read_reports
from ioweather.sources.textfiles import plain_head, text_blocks


@dataclass(frozen=True)
class Iostat:
    name: str = "iostat"
    title: str = "iostat of sysstat 9 to 12, text or JSON"
    tables: tuple[str, ...] = ("series",)

    def detect(self, head: bytes, path: Path) -> float:
        text = plain_head(head)
        if text.lstrip().startswith("{"):
            return 0.9 if is_iostat_json(text) else 0.0
        return 0.9 if iostat_text.looks_like_iostat(text) else 0.0

    def read(self, path: Path, context: ReadContext) -> Iterator[tuple[str, Frame]]:
        if next(text_blocks(path), "").lstrip().startswith("{"):
            reports, day_first = sysstat_json.read_iostat_json(path), sysstat_json.find_day_first(path)
        else:
            reports, day_first = iostat_text.read_text(path), iostat_text.find_day_first(path)
        for frame in read_reports(path, reports, context, day_first=day_first):
            yield "series", frame


def is_iostat_json(text: str) -> bool:
    """sysstat's JSON writers begin alike; sadf says the date of its data file, mpstat has no disks."""
    has_tables = '"disk"' in text or '"avg-cpu"' in text
    return '"sysstat"' in text and has_tables and '"file-date"' not in text


SOURCE = Iostat()
