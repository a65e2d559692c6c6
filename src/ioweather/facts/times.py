"""I/O time of jobs: D and its parts (METHODS section 1; car11 II-D, mad17 Eq. 1 and 6), for many logs at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ioweather.core.arrays import Bools, Floats, Ints
from ioweather.facts.file_records import NEVER_FIRST, NEVER_LAST, FileRecords, maximum, minimum, sums

_NS = 1e-9


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
        """Logs whose D_S is the slowest rank's: all of their shared files have it recorded."""
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
    """D's parts from the given rows (normally `records.counted`)."""
    meta, read, write = (records.seconds(f"{part}_seconds") for part in ("meta", "read", "write"))
    reads, writes = records.ints("read_count"), records.ints("write_count")
    # Metadata time has no direction of its own. Seeks and opens come with operations, so it is divided as these are:
    # on a log of 2,048 processes with 40% metadata time this gives both of IOR's figures within 1%. [ours]
    operations = reads + writes
    reading = read + meta * _ratio(reads, operations)
    writing = write + meta * _ratio(writes, operations)
    d_u_m, d_u_rw, u_read, u_write = _unshared(
        records, rows & (records.rank >= 0), meta, read + write, reading, writing
    )
    moved = records.ints("read_bytes") + records.ints("write_bytes")
    # A shared file without I/O has no D_S.
    shared = rows & (records.rank < 0) & ((operations > 0) | (moved > 0))
    spent = meta + read + write
    span, per_file, slowest, s_read, s_write = _shared(
        records, shared, _ratio(reading, spent)[shared], _ratio(writing, spent)[shared]
    )
    return Times(d_u_m, d_u_rw, span, per_file, slowest, _plus(u_read, s_read), _plus(u_write, s_write))


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
    """Slowest rank r* = argmax (t_meta + t_read + t_write) on files not shared by all: its metadata time, its read and
    write time; and the slowest rank's time of reading alone and of writing alone."""
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
    everywhere = np.ones(pairs, np.bool_)
    u_read, u_write = (
        np.maximum(maximum(values, pair_log, records.logs, everywhere), 0.0) for values in (pair_reading, pair_writing)
    )
    return d_u_m, d_u_rw, u_read, u_write


def _shared(
    records: FileRecords, rows: Bools, read_share: Floats, write_share: Floats
) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    """D_S by its three definitions, and the parts of it that belong to reading and to writing."""
    log, logs = records.log[rows], records.logs
    there = np.bincount(log, minlength=logs) > 0
    opened, first_read, first_write = (records.first(f"first_{what}_ns")[rows] for what in ("open", "read", "write"))
    last_read, last_write = records.last("last_read_ns")[rows], records.last("last_write_ns")[rows]
    # A file that was open before the job's first call (inherited) begins with its first I/O.
    begin = np.where(opened != NEVER_FIRST, opened, np.minimum(first_read, first_write))
    end = np.maximum(last_read, last_write)
    per_file = _span(begin, end)
    everywhere = np.ones(len(log), np.bool_)
    span = _span(minimum(begin, log, logs, everywhere), maximum(end, log, logs, everywhere))
    slowest = records.seconds("slowest_rank_seconds")[rows]
    recorded = slowest > 0
    sum_per_file = np.where(there, sums(per_file, log, logs), np.nan)
    sum_slowest = np.where(there & ~_any(~recorded, log, logs), sums(slowest, log, logs), np.nan)
    by_slowest = np.isfinite(sum_slowest)[log]
    # Where a file was read and written, the spans of each; else the whole span belongs to the one.
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


def _ratio(part: NDArray[Any], whole: NDArray[Any]) -> Floats:
    result = np.zeros(len(part))
    np.divide(part, whole, out=result, where=whole > 0)
    return result


def _any(flags: Bools, group: Ints, groups: int) -> Bools:
    return np.bincount(group[flags], minlength=groups) > 0


def _plus(unshared: Floats, shared: Floats) -> Floats:
    total = unshared + shared
    return np.where(total > 0, total, np.nan)
