"""Reports of iostat, from text or JSON alike: when each took place, and its rows of `series`.

A report says the time of its end, so it covers the time since the report before it. The first one of a run is the
average since boot, unless iostat ran with -y; it is no sample of an interval and makes no rows. What a report covers
depends on it and the one before alone (for a first report under -y: the one after), so a log that grows yields the
same rows for its old part.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from ioweather.core.contracts import ReadContext
from ioweather.core.errors import CorruptInput, EmptyInput, SourceError, UndatedInput
from ioweather.core.frames import Frame
from ioweather.sources.devices.layout import IOSTAT, Layout, cpu_ratio
from ioweather.sources.devices.rows import BATCH_SAMPLES, Spans, device_rows, host_rows, printed_numbers, with_rows
from ioweather.sources.devices.stamps import StampReader


@dataclass(slots=True)
class Report:
    """One report as printed. `rows` are lines of numbers (text) or lists of numbers (JSON), one per device."""

    line: int
    host: str | None
    stamp: str | None = None
    opens_run: bool = False  # the first behind a header, or of the file
    since_boot: bool = False
    cpu_columns: tuple[str, ...] = ()
    cpu: list[float] = field(default_factory=list)
    columns: tuple[str, ...] = ()
    devices: list[str] = field(default_factory=list)
    rows: list[Any] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Placed:
    """A report and the time it covers."""

    report: Report
    start_ns: int
    interval_ns: int


def read_reports(
    path: Path, reports: Iterator[Report], context: ReadContext, *, day_first: bool
) -> Iterator[tuple[str, Frame]]:
    """Frames of `series` of all reports that cover an interval."""
    empty = f"{path} holds no report over an interval: the first report of iostat is the average since boot."
    hint = "Run iostat with an interval, such as: S_TIME_FORMAT=ISO iostat -xtky 60"
    return with_rows(_all_frames(path, reports, context, day_first=day_first), EmptyInput(empty, hint=hint))


def _all_frames(path: Path, reports: Iterator[Report], context: ReadContext, *, day_first: bool) -> Iterator[Frame]:
    first = next(reports, None)
    if first is None:
        raise EmptyInput(f"{path} holds no report of iostat yet.")
    chained = chain([first], reports)
    if first.stamp is None:
        placed = _place_undated(path, chained, context)
    else:
        placed = _place(path, chained, StampReader(str(path), context.zone, day_first=day_first))
    for batch in _batches(placed):
        host = context.host or batch[0].report.host
        if host is None:
            raise SourceError(f"{path} does not name its host: iostat's first line is missing.", hint="Give --host.")
        yield from _frames(path, host, batch)


def _place(path: Path, reports: Iterator[Report], stamps: StampReader) -> Iterator[Placed]:
    previous_ns = 0
    held: Report | None = None
    for report in reports:
        if report.stamp is None:
            raise CorruptInput(f"{path}, line {report.line}: a report without a time stamp among reports with one.")
        end_ns = stamps.read(report.stamp, report.line)
        if report.opens_run:
            held = None if report.since_boot else report
            previous_ns = end_ns
            continue
        interval_ns = end_ns - previous_ns
        if interval_ns > 0:  # else the same second twice, or the clock was set back: the length is not known
            if held is not None:
                yield Placed(held, previous_ns - interval_ns, interval_ns)
            yield Placed(report, previous_ns, interval_ns)
        held = None
        previous_ns = end_ns


def _place_undated(path: Path, reports: Iterator[Report], context: ReadContext) -> Iterator[Placed]:
    """Reports one interval apart from the start that the person gives. The average since boot is no sample, whatever
    they give."""
    runs = count = 0
    for report in reports:
        if report.stamp is not None:
            raise CorruptInput(f"{path}, line {report.line}: a report with a time stamp among reports without one.")
        runs += report.opens_run
        if report.opens_run and report.since_boot:
            continue
        if context.start_ns is None or context.interval_ns is None:
            raise UndatedInput(
                f"{path} has no time stamps (iostat ran without -t).",
                hint="Give --start and --interval: when the first interval began, and how long each was.",
            )
        if runs > 1:
            raise UndatedInput(
                f"{path}, line {report.line}: a report of a second run of iostat, and no time stamps to say when it "
                "began.",
                hint="Split the file before that run, and give each part its own --start.",
            )
        yield Placed(report, context.start_ns + count * context.interval_ns, context.interval_ns)
        count += 1


def _batches(placed: Iterator[Placed]) -> Iterator[list[Placed]]:
    """Consecutive reports of one host and one layout."""
    batch: list[Placed] = []
    samples = 0
    for item in placed:
        if batch and (samples >= BATCH_SAMPLES or not _alike(batch[-1].report, item.report)):
            yield batch
            batch, samples = [], 0
        batch.append(item)
        samples += max(1, len(item.report.devices))
    if batch:
        yield batch


def _alike(a: Report, b: Report) -> bool:
    return a.columns == b.columns and a.cpu_columns == b.cpu_columns and a.host == b.host


def _frames(path: Path, host: str, batch: list[Placed]) -> Iterator[Frame]:
    first = batch[0].report
    with_cpu = [item for item in batch if item.report.cpu]
    if with_cpu:
        spans = Spans.of([(item.start_ns, item.interval_ns) for item in with_cpu])
        ratio = cpu_ratio(first.cpu_columns, np.array([item.report.cpu for item in with_cpu]))
        if ratio is not None:
            yield host_rows(host, spans, {"cpu_ratio": (ratio, None)})
    devices = [device for item in batch for device in item.report.devices]
    if devices:
        spans = Spans.of([(item.start_ns, item.interval_ns) for item in batch])
        spans = spans.repeat([len(item.report.devices) for item in batch])
        rows = [row for item in batch for row in item.report.rows]
        lines = [line for item in batch for line in item.report.lines]
        printed = printed_numbers(path, rows, lines, first.columns)
        values = Layout(first.columns, IOSTAT).metrics(printed, spans.seconds)
        yield device_rows(host, devices, spans, values)
