"""When each run did I/O: the spans from the first to the last read, and write, of each of its files (mad17 III)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

import numpy as np

from ioweather.core.arrays import Bools, Floats, Ints
from ioweather.core.frames import Frame, Text
from ioweather.core.words import names_of
from ioweather.facts.file_records import (
    NEVER_FIRST,
    NEVER_LAST,
    FileRecords,
    file_records,
    maximum,
    minimum,
    sums,
)

# What must be read of `files`; a year of file records has a hundred columns more.
SPAN_COLUMNS: Final = names_of("""
    log_digest record_id rank module mount standard_stream read_bytes write_bytes first_read_ns last_read_ns
    first_write_ns last_write_ns
""")


@dataclass(frozen=True, eq=False)
class IoSpans:
    """One row per file and direction with I/O: `run` is the row of its application; `read` tells the direction, `moved`
    how many bytes.

    `monitored` marks files on mounts whose servers are sampled, None where it is not known which those are. Per run:
    bytes of its own (eta) and files, all and on monitored mounts.
    """

    run: Ints
    first_ns: Ints
    last_ns: Ints
    read: Bools
    moved: Ints
    file: Ints
    monitored: Bools | None
    own_read_bytes: Ints
    own_write_bytes: Ints
    file_count: Ints
    monitored_read_bytes: Ints
    monitored_write_bytes: Ints
    monitored_file_count: Ints

    @property
    def runs(self) -> int:
        return len(self.file_count)

    def of_runs(self, rows: Ints) -> IoSpans:
        """Spans of some runs, which become 0, 1, ... in the given order."""
        place = np.full(self.runs, -1, np.int64)
        place[rows] = np.arange(len(rows))
        keep = place[self.run] >= 0
        return IoSpans(
            place[self.run[keep]], self.first_ns[keep], self.last_ns[keep], self.read[keep], self.moved[keep],
            self.file[keep],
            None if self.monitored is None else self.monitored[keep], self.own_read_bytes[rows],
            self.own_write_bytes[rows], self.file_count[rows], self.monitored_read_bytes[rows],
            self.monitored_write_bytes[rows], self.monitored_file_count[rows],
        )  # fmt: skip

    def only_monitored(self) -> IoSpans:
        """Spans of files on monitored mounts alone."""
        keep = np.zeros(len(self.run), np.bool_) if self.monitored is None else self.monitored
        return IoSpans(
            self.run[keep], self.first_ns[keep], self.last_ns[keep], self.read[keep], self.moved[keep], self.file[keep],
            self.monitored if self.monitored is None else self.monitored[keep], self.own_read_bytes,
            self.own_write_bytes, self.file_count, self.monitored_read_bytes, self.monitored_write_bytes,
            self.monitored_file_count,
        )  # fmt: skip

    def median_span_seconds(self, rows: Bools | None = None) -> float:
        """Spans much longer than the sampling interval make D_D uninformative; NaN without spans."""
        lengths = (self.last_ns - self.first_ns) / 1e9
        chosen = lengths if rows is None else lengths[rows[self.run]]
        return float(np.median(chosen)) if len(chosen) else float("nan")


def io_spans(applications: Frame, files: Frame, monitored_mounts: Collection[str] | None = None) -> IoSpans:
    """Spans of all runs. Rank records of a file are merged first: least start, greatest end."""
    records = file_records(applications, files)
    on_monitored = on_mounts(records.text("mount"), monitored_mounts)
    file_monitored = records.per_file(on_monitored.astype(np.int64)) > 0
    parts = [_direction(records, verb) for verb in ("read", "write")]
    file = np.concatenate([part[0] for part in parts])
    counted = records.counted
    read, write = records.ints("read_bytes"), records.ints("write_bytes")
    touched = records.per_file(read + write, counted) > 0
    moved = [records.per_file(amount, counted)[part[0]] for amount, part in zip((read, write), parts, strict=True)]
    return IoSpans(
        run=records.file_log[file],
        first_ns=np.concatenate([part[1] for part in parts]),
        last_ns=np.concatenate([part[2] for part in parts]),
        read=np.repeat([True, False], [len(part[0]) for part in parts]),
        moved=np.concatenate(moved),
        file=file,
        monitored=file_monitored[file] if monitored_mounts is not None else None,
        own_read_bytes=records.per_log(read, counted),
        own_write_bytes=records.per_log(write, counted),
        file_count=records.files_per_log(touched),
        monitored_read_bytes=records.per_log(read, counted & on_monitored),
        monitored_write_bytes=records.per_log(write, counted & on_monitored),
        monitored_file_count=records.files_per_log(touched & file_monitored),
    )


def _direction(records: FileRecords, verb: str) -> tuple[Ints, Ints, Ints]:
    """Files with that direction, first start and last end."""
    first = minimum(records.first(f"first_{verb}_ns"), records.file, records.files, records.counted)
    last = maximum(records.last(f"last_{verb}_ns"), records.file, records.files, records.counted)
    there = np.flatnonzero((first != NEVER_FIRST) & (last != NEVER_LAST) & (last >= first))
    return there, first[there], last[there]


def on_mounts(mounts: Text, monitored: Collection[str] | None) -> Bools:
    if monitored is None:
        return np.zeros(len(mounts), np.bool_)
    lookup = np.array([mount in monitored for mount in mounts.categories] + [False], np.bool_)
    return np.asarray(lookup[mounts.codes])


def own_bytes(spans: IoSpans, *, monitored: bool) -> tuple[Ints, Ints]:
    """eta, read and written: on monitored mounts, or altogether."""
    if monitored:
        return spans.monitored_read_bytes, spans.monitored_write_bytes
    return spans.own_read_bytes, spans.own_write_bytes


def runs_with_io(spans: IoSpans) -> Bools:
    return sums(np.ones(len(spans.run), np.int64), spans.run, spans.runs) > 0


def spread_over_steps(
    first_ns: Ints, last_ns: Ints, amount: Floats | Ints, *, start_ns: int, step_ns: int, count: int
) -> Floats:
    """Amounts per step of a grid, each spread evenly from its first to its last moment; what lies outside is left out.

    Whole steps within a span go in by their differences, so that a long span costs no more than a short one."""
    last_ns = np.maximum(last_ns, first_ns + 1)
    low, high = ((t - start_ns) // step_ns for t in (first_ns, last_ns - 1))
    rate = np.asarray(amount, np.float64) / (last_ns - first_ns)
    out, whole = np.zeros(count), np.zeros(count + 1)
    for edge, inside in ((low, high >= low), (high, high > low)):  # the first step, and the last if it is another
        begin = start_ns + edge * step_ns
        part = rate * (np.minimum(last_ns, begin + step_ns) - np.maximum(first_ns, begin))
        here = inside & (edge >= 0) & (edge < count)
        out += np.bincount(edge[here], part[here], minlength=count)
    long = high > low + 1
    begin, end = (np.clip(edge[long], 0, count) for edge in (low + 1, high))
    whole += np.bincount(begin, rate[long] * step_ns, minlength=count + 1)
    whole -= np.bincount(end, rate[long] * step_ns, minlength=count + 1)
    # Differences of large sums leave crumbs of rounding, of either sign.
    between = np.cumsum(whole[:-1])
    crumb = 1e-9 * float(between.max(initial=0.0))
    return out + np.where(between > crumb, between, 0.0)
