"""Rows of `series` from growing counters, and rows of `jobs` from any accounting."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

from ioweather.core.counters.growth import Growth, Target, in_base_unit
from ioweather.core.errors import CorruptInput, SourceError, TruncatedInput
from ioweather.core.foreign_text import whole_number
from ioweather.core.frames import Frame
from ioweather.core.tables import JOBS, SERIES, Quality
from ioweather.core.units import NS
from ioweather.readers.text_files import line_blocks

_FRAME_ROWS = 50_000
_COLUMNS = ("start_ns", "interval_ns", "system", "component_kind", "component", "metric", "value", "quality")


def series_frame(rows: Iterable[tuple[Any, ...]]) -> Frame:
    """A frame of `series` from rows of start, interval, system, kind, component, metric, value and quality."""
    columns = zip(*rows, strict=True)
    return SERIES.frame({name: list(column) for name, column in zip(_COLUMNS, columns, strict=True)})


class SeriesRows:
    """Collects rows of `series` until a frame is worth making; `made` counts those of the frames."""

    def __init__(self) -> None:
        self._rows: list[tuple[int, int, str, str, str, str, float, int]] = []
        self.made = 0

    def amounts(self, target: Target, grown: Growth) -> None:
        flag = int(Quality.RESET) if grown.restarted else 0
        length = grown.end_ns - grown.start_ns
        for metric, amount in sorted(grown.amounts.items()):
            self._rows.append((grown.start_ns, length, *target, metric, in_base_unit(metric, amount), flag))

    def value(self, target: Target, start_ns: int, interval_ns: int, metric: str, value: float) -> None:
        self._rows.append((start_ns, interval_ns, *target, metric, value, 0))

    def full(self) -> Iterator[tuple[str, Frame]]:
        """A frame, where there are rows enough."""
        if len(self._rows) >= _FRAME_ROWS:
            yield from self.rest()

    def rest(self) -> Iterator[tuple[str, Frame]]:
        if self._rows:
            yield "series", series_frame(self._rows)
        self.made += len(self._rows)
        self._rows = []


# A row of `jobs` by its columns; what is not known may be left out.
Job: TypeAlias = dict[str, Any]
_BATCH = 100_000
END_NS: Final = 1 << 63  # beyond the int64 of the tables


def _jobs_frame(jobs: Sequence[Job]) -> Frame:
    return JOBS.frame({name: [job.get(name) for job in jobs] for name in JOBS.names}, rows=len(jobs))


def job_frames(records: Iterable[Job]) -> Iterator[tuple[str, Frame]]:
    """Frames of `jobs`, a batch at a time. What came before a trouble is good, and comes before it."""
    batch: list[Job] = []
    trouble: SourceError | None = None
    try:
        for record in records:
            batch.append(record)
            if len(batch) >= _BATCH:
                yield "jobs", _jobs_frame(batch)
                batch = []
    except SourceError as error:
        trouble = error
    if batch:
        yield "jobs", _jobs_frame(batch)
    if trouble is not None:
        raise trouble


def numbered_lines(path: Path) -> Iterator[tuple[str, str]]:
    """(where, line) of lines that say something. A last line without its end is not trusted: accounting is appended to
    while it is read, and half a number is a number too."""
    for block in line_blocks(path):
        if block.torn and not block.lines[0].isspace():
            raise TruncatedInput(
                f"{path}, line {block.first}: the last line has no line end and was left out.",
                hint="Ingest the file again when it is whole.",
            )
        for number, line in enumerate(block.lines, block.first):
            if line and not line.startswith("#") and not line.isspace():
                yield f"{path}, line {number}", line


def moment_ns(text: str, where: str, name: str, *, per_second: int = 1) -> int | None:
    """An epoch; 0, and nothing at all, is never."""
    if text in ("", "0"):
        return None
    count = whole_number(text)
    if count is None or count * (NS // per_second) >= END_NS:
        raise CorruptInput(f"{where}: {name} is {text[:40]!r}, not seconds since 1970.")
    return count * (NS // per_second)


def state_of(exit_status: str | None) -> str:
    """In the words of Slurm, which the table has."""
    if not exit_status:
        return "UNKNOWN"
    return "COMPLETED" if exit_status == "0" else "FAILED"
