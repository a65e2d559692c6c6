"""I/O metrics of Darshan logs, for many logs at once.

`job_io` is the table of that name (METHODS section 1); `times` is D and its parts (car11 II-D, mad17 Eq. 1 and 6);
`io_spans` is when each run did I/O, from the first to the last read, and write, of each of its files (mad17 III).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from ioweather.core.arrays import Bools, Floats, Ints
from ioweather.core.frames import Column, Frame, Text
from ioweather.core.tables import FILE_MODULES, JOB_IO, READ_BINS, STRATEGIES, WRITE_BINS
from ioweather.core.words import names_of
from ioweather.facts.file_records import (
    NEVER_FIRST,
    NEVER_LAST,
    FileRecords,
    common_access_columns,
    file_columns,
    file_records,
    interface_columns,
    main_mount_column,
    maximum,
    minimum,
    rank_columns,
    ratio,
    ratio_columns,
    sums,
)

_NS = 1e-9
# Unknown where only sums over all files were read (`form` totals), and where only a trace was.
_OF_SINGLE_FILES: Final = names_of(f"""
    d_u_m_seconds d_u_rw_seconds d_s_seconds d_s_definition d_s_span_seconds d_s_per_file_seconds d_s_slowest_seconds
    posix_io_seconds d_f_r_seconds d_f_w_seconds file_count read_only_file_count write_only_file_count
    read_write_file_count {" ".join(f"{name}_file_count {name}_read_bytes {name}_write_bytes" for name in STRATEGIES)}
    create_count create_rule size_known_file_count new_or_empty_file_count io_rank_count rank0_bytes main_mount
""")
_NOT_TRACED: Final = names_of("""
    meta_seconds seek_count stat_count collective_count independent_count sequential_count consecutive_count
    alignment_tested_count not_aligned_count
""")
_SPANS = ("first_open_ns", "last_close_ns", "first_read_ns", "last_read_ns", "first_write_ns", "last_write_ns")


def job_io(applications: Frame, files: Frame) -> Frame:
    """Return one row per application, in their order.

    A log without file records has zero files and bytes, and no times. Null is what the text form of a log lacks.
    """
    records = file_records(applications, files)
    totals, trace = (applications.text("form").equals(form) for form in ("totals", "trace"))
    start_ns, end_ns = applications.ints("start_ns"), applications.ints("end_ns")
    partial = applications.text("partial_modules")
    flags = [bool(set(category.split(",")) & set(FILE_MODULES)) for category in partial.categories]
    columns: dict[str, Column] = {
        "log_digest": applications.text("log_digest"),
        "start_ns": start_ns,
        "end_ns": end_ns,
        "nprocs": records.nprocs,
        "run_seconds": (end_ns - start_ns) * _NS,
        "partial": np.array([*flags, False], np.bool_)[partial.codes] | totals | trace,
        **_time_columns(records, totals),
        **_amount_columns(records),
        **_operation_columns(records),
        **file_columns(records),
        **interface_columns(records, applications.text("modules")),
        **rank_columns(records),
        **common_access_columns(records),
        "main_mount": main_mount_column(records),
        **_span_columns(records),
    }
    for names, unknown in ((_OF_SINGLE_FILES, totals), (_NOT_TRACED, trace)):
        if unknown.any():
            columns |= {name: _without(columns[name], unknown) for name in names}
    if totals.any():
        columns |= _printed_counts(columns, applications.text("file_counts"))
    return JOB_IO.frame(columns | ratio_columns(Frame(columns)), rows=records.logs)


def _without(column: Column, unknown: Bools) -> Column:
    """Return the column with nulls where `unknown`."""
    if isinstance(column, Text):
        return Text(np.where(unknown, -1, column.codes).astype(np.int32), column.categories)
    if column.dtype.kind == "f":
        return np.where(unknown, np.nan, column)
    return np.ma.MaskedArray(column, mask=np.ma.getmaskarray(column) | unknown)


def _printed_counts(columns: Mapping[str, Column], printed: Text) -> dict[str, Column]:
    """Return the files of the layer that the program called, as darshan-parser --file counted them.

    It has one number for files of several ranks and of all.
    """
    filled = {name: np.ma.MaskedArray(columns[name]) for name in _OF_SINGLE_FILES if name.endswith("_file_count")}
    filled |= {"file_count": np.ma.MaskedArray(columns["file_count"])}
    for row, text in enumerate(printed.tolist()):
        by_module = json.loads(text) if text else {}
        layers = ["MPI-IO" if "MPI-IO" in by_module else "POSIX", "STDIO"]
        counts = [by_module[layer] for layer in layers if layer in by_module]
        for kind in ("total", "read_only", "write_only", "read_write", "unique") if counts else ():
            name = "file_count" if kind == "total" else f"{kind}_file_count"
            filled[name][row] = sum(count[kind] for count in counts)
    return dict(filled)


def _time_columns(records: FileRecords, totals: Bools) -> dict[str, Column]:
    # Of sums over all files only the slowest process's seconds are I/O time: first to last is not.
    timed = ~totals[records.log] | (records.seconds("slowest_rank_seconds") > 0)
    result = times(records, records.counted & timed)
    with_mpiio = np.bincount(records.log[records.mpiio], minlength=records.logs) > 0
    below = times(records, records.posix & with_mpiio[records.log])
    there = np.isfinite(result.d_s)
    definition = np.where(there, np.where(result.by_slowest, 0, 1), -1)
    return {
        "d_u_m_seconds": result.d_u_m,
        "d_u_rw_seconds": result.d_u_rw,
        "d_s_seconds": result.d_s,
        "d_s_definition": Text(definition.astype(np.int32), ("slowest", "per_file")),
        "d_s_span_seconds": result.d_s_span,
        "d_s_per_file_seconds": result.d_s_per_file,
        "d_s_slowest_seconds": result.d_s_slowest,
        "io_seconds": result.total,
        "posix_io_seconds": below.total,
        "d_read_seconds": result.d_read,
        "d_write_seconds": result.d_write,
        "d_f_r_seconds": file_spans(records, "read"),
        "d_f_w_seconds": file_spans(records, "write"),
    }


def _amount_columns(records: FileRecords) -> dict[str, Column]:
    there = np.bincount(records.log[records.counted], minlength=records.logs) > 0
    columns: dict[str, Column] = {
        name: records.per_log(records.ints(name), records.counted)
        for name in ("read_bytes", "write_bytes", "read_count", "write_count", *READ_BINS, *WRITE_BINS)
    }
    for part in ("meta", "read", "write"):
        total = records.per_log(records.seconds(f"{part}_seconds"), records.counted)
        columns[f"{part}_seconds"] = np.where(there, total, np.nan)
    return columns


def _operation_columns(records: FileRecords) -> dict[str, Column]:
    """Operations as the file system saw them: only POSIX counts sequence and alignment, below MPI-IO too."""
    posix, mpiio = records.posix, records.mpiio
    operations = records.ints("read_count") + records.ints("write_count")
    collective = records.ints("collective_read_count") + records.ints("collective_write_count")
    sequential = records.ints("sequential_read_count") + records.ints("sequential_write_count")
    consecutive = records.ints("consecutive_read_count") + records.ints("consecutive_write_count")
    return {
        "fs_read_count": records.per_log(records.ints("read_count"), posix),
        "fs_write_count": records.per_log(records.ints("write_count"), posix),
        "fs_read_bytes": records.per_log(records.ints("read_bytes"), posix),
        "fs_write_bytes": records.per_log(records.ints("write_bytes"), posix),
        "seek_count": records.per_log(records.ints("seek_count")),
        "stat_count": records.per_log(records.ints("stat_count")),
        "collective_count": records.per_log(collective, mpiio),
        "independent_count": records.per_log(operations - collective, mpiio),
        "sequential_count": records.per_log(sequential, posix),
        "consecutive_count": records.per_log(consecutive, posix),
        "alignment_tested_count": records.per_log(operations, posix & records.known("file_not_aligned_count")),
        "not_aligned_count": records.per_log(records.ints("file_not_aligned_count"), posix),
    }


def _span_columns(records: FileRecords) -> dict[str, Column]:
    columns: dict[str, Column] = {}
    for name in _SPANS:
        if name.startswith("first"):
            values = minimum(records.first(name), records.log, records.logs, records.counted)
        else:
            values = maximum(records.last(name), records.log, records.logs, records.counted)
        missing = (values == NEVER_FIRST) | (values == NEVER_LAST)
        columns[name] = np.ma.MaskedArray(np.where(missing, 0, values), mask=missing)
    return columns


@dataclass(frozen=True, eq=False)
class Times:
    """Seconds per log; NaN where a part does not exist."""

    d_u_m: Floats
    d_u_rw: Floats
    d_s_span: Floats
    d_s_per_file: Floats
    d_s_slowest: Floats
    d_read: Floats
    d_write: Floats

    @property
    def by_slowest(self) -> Bools:
        """Logs whose D_S is the time of slowest ranks: it is recorded for all of their shared files."""
        return np.isfinite(self.d_s_slowest)

    @property
    def d_s(self) -> Floats:
        return np.where(self.by_slowest, self.d_s_slowest, self.d_s_per_file)

    @property
    def total(self) -> Floats:
        """D = D_U_M + D_U_RW + D_S (mad17 Eq. 1); a part that does not exist adds nothing."""
        parts = np.stack([self.d_u_m, self.d_u_rw, self.d_s])
        return np.where(np.isnan(parts).all(axis=0), np.nan, np.nansum(parts, axis=0))


def times(records: FileRecords, rows: Bools) -> Times:
    """Return D's parts from the given rows (normally `records.counted`)."""
    meta, read, write = (records.seconds(f"{part}_seconds") for part in ("meta", "read", "write"))
    reads, writes = records.ints("read_count"), records.ints("write_count")
    # Metadata time has no direction of its own. Seeks and opens come with operations, so it is divided as these are:
    # on a log of 2,048 processes with 40% metadata time this gives both of IOR's figures within 1%. [ours]
    operations = reads + writes
    reading = read + meta * ratio(reads, operations)
    writing = write + meta * ratio(writes, operations)
    d_u_m, d_u_rw, u_read, u_write = _unshared(
        records, rows & (records.rank >= 0), meta, read + write, reading, writing
    )
    moved = records.ints("read_bytes") + records.ints("write_bytes")
    # Only shared files with I/O have a D_S.
    shared = rows & (records.rank < 0) & ((operations > 0) | (moved > 0))
    spent = meta + read + write
    span, per_file, slowest, s_read, s_write = _shared(
        records, shared, ratio(reading, spent)[shared], ratio(writing, spent)[shared]
    )
    d_read, d_write = (np.where(part > 0, part, np.nan) for part in (u_read + s_read, u_write + s_write))
    return Times(d_u_m, d_u_rw, span, per_file, slowest, d_read, d_write)


def file_spans(records: FileRecords, verb: str) -> Floats:
    """D_F_R or D_F_W: d_f is last end - first start of a file, its ranks merged first; the longest of a job's files
    (mad17 Eq. 6)."""
    first = minimum(records.first(f"first_{verb}_ns"), records.file, records.files, records.counted)
    last = maximum(records.last(f"last_{verb}_ns"), records.file, records.files, records.counted)
    known = (first != NEVER_FIRST) & (last != NEVER_LAST)
    longest = maximum(np.where(known, last - np.where(known, first, 0), 0) * _NS, records.file_log, records.logs, known)
    return np.where(np.isfinite(longest), np.maximum(longest, 0.0), np.nan)


def _unshared(
    records: FileRecords, rows: Bools, meta: Floats, moving: Floats, reading: Floats, writing: Floats
) -> tuple[Floats, Floats, Floats, Floats]:
    """Return metadata time and read and write time of the slowest rank on files not shared by all, r* = argmax (t_meta
    + t_read + t_write); and the largest reading and writing time of a rank."""
    log, rank = records.log[rows], records.rank[rows]
    key, place = np.unique(log << 32 | rank, return_inverse=True)
    pairs = len(key)
    pair_log = (key >> 32).astype(np.int64)
    pair_meta, pair_moving, pair_reading, pair_writing = (
        sums(values[rows], place, pairs) for values in (meta, moving, reading, writing)
    )
    # Within a log ascending in time; of equally slow ranks the lowest comes last and is taken.
    order = np.lexsort((-key, pair_meta + pair_moving, pair_log))
    slowest = order[np.flatnonzero(np.diff(pair_log[order], append=-1))]
    d_u_m, d_u_rw = np.full(records.logs, np.nan), np.full(records.logs, np.nan)
    d_u_m[pair_log[slowest]] = pair_meta[slowest]
    d_u_rw[pair_log[slowest]] = pair_moving[slowest]
    u_read, u_write = (
        np.maximum(maximum(values, pair_log, records.logs), 0.0) for values in (pair_reading, pair_writing)
    )
    return d_u_m, d_u_rw, u_read, u_write


def _shared(
    records: FileRecords, rows: Bools, read_share: Floats, write_share: Floats
) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    """Return D_S by its three definitions, and its parts for reading and for writing."""
    log, logs = records.log[rows], records.logs
    there = np.bincount(log, minlength=logs) > 0
    opened, first_read, first_write = (records.first(f"first_{what}_ns")[rows] for what in ("open", "read", "write"))
    last_read, last_write = records.last("last_read_ns")[rows], records.last("last_write_ns")[rows]
    # A file that was open before the job's first call (inherited) begins with its first I/O.
    begin = np.where(opened != NEVER_FIRST, opened, np.minimum(first_read, first_write))
    end = np.maximum(last_read, last_write)
    per_file = _span(begin, end)
    span = _span(minimum(begin, log, logs), maximum(end, log, logs))
    slowest = records.seconds("slowest_rank_seconds")[rows]
    unrecorded = np.bincount(log[slowest <= 0], minlength=logs) > 0
    sum_per_file = np.where(there, sums(per_file, log, logs), np.nan)
    sum_slowest = np.where(there & ~unrecorded, sums(slowest, log, logs), np.nan)
    by_slowest = np.isfinite(sum_slowest)[log]
    # The spans of reading and of writing, if a file was read and written; otherwise the whole span.
    both = (first_read != NEVER_FIRST) & (first_write != NEVER_FIRST)
    read_part = np.where(by_slowest, slowest * read_share, _span(np.where(both, first_read, begin), last_read))
    write_part = np.where(by_slowest, slowest * write_share, _span(np.where(both, first_write, begin), last_write))
    s_read, s_write = (sums(np.nan_to_num(part), log, logs) for part in (read_part, write_part))
    return span, sum_per_file, sum_slowest, s_read, s_write


def _span(first: Ints, last: Ints) -> Floats:
    known = (first != NEVER_FIRST) & (last != NEVER_LAST)
    # int64 until the difference: nanoseconds since 1970 do not fit a float.
    length = np.where(known, last, 0) - np.where(known, first, 0)
    return np.where(known, np.maximum(length, 0) * _NS, np.nan)


# The columns of `files` that io_spans needs.
SPAN_COLUMNS: Final = names_of("""
    log_digest record_id rank module mount standard_stream read_bytes write_bytes first_read_ns last_read_ns
    first_write_ns last_write_ns
""")


_PER_SPAN: Final = names_of("run first_ns last_ns read moved file")
_PER_RUN: Final = names_of("""
    own_read_bytes own_write_bytes file_count monitored_read_bytes monitored_write_bytes monitored_file_count
""")


@dataclass(frozen=True, eq=False)
class IoSpans:
    """One row per file and direction with I/O: `run` is the row of its application, `moved` the bytes.

    `monitored` marks files on mounts whose servers are sampled, None where these are not known. Per run there are its
    own bytes (eta) and files, all of them and those on monitored mounts.
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
        """Return the spans of some runs, which become 0, 1, ... in the given order."""
        place = np.full(self.runs, -1, np.int64)
        place[rows] = np.arange(len(rows))
        spans = self._where(place[self.run] >= 0)
        return replace(spans, run=place[spans.run], **{name: getattr(self, name)[rows] for name in _PER_RUN})

    def only_monitored(self) -> IoSpans:
        """Return the spans of files on monitored mounts."""
        return self._where(np.zeros(len(self.run), np.bool_) if self.monitored is None else self.monitored)

    def _where(self, rows: Bools) -> IoSpans:
        monitored = None if self.monitored is None else self.monitored[rows]
        return replace(self, monitored=monitored, **{name: getattr(self, name)[rows] for name in _PER_SPAN})

    def median_span_seconds(self, rows: Bools | None = None) -> float:
        """Return the median length of spans; NaN without spans. If it is much longer than the sampling interval, D_D
        is uninformative."""
        lengths = (self.last_ns - self.first_ns) / 1e9
        chosen = lengths if rows is None else lengths[rows[self.run]]
        return float(np.median(chosen)) if len(chosen) else float("nan")


def io_spans(applications: Frame, files: Frame, monitored_mounts: Collection[str] | None = None) -> IoSpans:
    """Return the spans of all runs. Rank records of a file are merged: least start, greatest end."""
    records = file_records(applications, files)
    on_monitored = on_mounts(records.text("mount"), monitored_mounts)
    file_monitored = records.per_file(on_monitored.astype(np.int64)) > 0
    parts = []
    for verb in ("read", "write"):
        # Files with I/O in this direction, its first start and its last end.
        first = minimum(records.first(f"first_{verb}_ns"), records.file, records.files, records.counted)
        last = maximum(records.last(f"last_{verb}_ns"), records.file, records.files, records.counted)
        there = np.flatnonzero((first != NEVER_FIRST) & (last != NEVER_LAST) & (last >= first))
        parts.append((there, first[there], last[there]))
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


def on_mounts(mounts: Text, monitored: Collection[str] | None) -> Bools:
    """Whether each mount is monitored."""
    if monitored is None:
        return np.zeros(len(mounts), np.bool_)
    lookup = np.array([mount in monitored for mount in mounts.categories] + [False], np.bool_)
    return np.asarray(lookup[mounts.codes])


def own_bytes(spans: IoSpans, *, monitored: bool) -> tuple[Ints, Ints]:
    """Return eta, read and written: on monitored mounts, or in all."""
    if monitored:
        return spans.monitored_read_bytes, spans.monitored_write_bytes
    return spans.own_read_bytes, spans.own_write_bytes


def runs_with_io(spans: IoSpans) -> Bools:
    """Whether each run has spans."""
    return sums(np.ones(len(spans.run), np.int64), spans.run, spans.runs) > 0


def spread_over_steps(
    first_ns: Ints, last_ns: Ints, amount: Floats | Ints, *, start_ns: int, step_ns: int, count: int
) -> Floats:
    """Return amounts per step of a grid, each spread evenly from its first to its last moment; parts outside are left
    out.

    Whole steps within a span are added as differences of a cumulative sum, so that long spans cost no more.
    """
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
    # Differences of large sums leave rounding errors of either sign.
    between = np.cumsum(whole[:-1])
    noise = 1e-9 * float(between.max(initial=0.0))
    return out + np.where(between > noise, between, 0.0)
