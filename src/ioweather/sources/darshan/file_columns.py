"""Which Darshan counters make which column of `files`.

A column is a sum of counters; a counter that a record version lacks adds nothing, and a column of which no counter is
there is null. Darshan marks what it did not measure with a negative number: that is null too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ioweather.tables.applications import READ_BINS, SIZE_BINS, WRITE_BINS

# (module, its records), end to end.
Pieces: TypeAlias = Sequence[tuple[str, NDArray[Any]]]
_PREFIX: Final = {"MPI-IO": "MPIIO_", "POSIX": "POSIX_", "STDIO": "STDIO_"}
_NS: Final = 1e9
# No run lasts longer (30 years): what a damaged timestamp would say.
_LONGEST_SECONDS: Final = 1e9

# Counters without their module's prefix; a mapping where modules differ.
COUNTS: Final[dict[str, str | Mapping[str, str]]] = {
    "open_count": {"POSIX": "OPENS FOPENS", "MPI-IO": "INDEP_OPENS COLL_OPENS", "STDIO": "OPENS FDOPENS"},
    "stream_open_count": "FOPENS",
    "read_count": {
        "POSIX": "READS FREADS", "MPI-IO": "INDEP_READS COLL_READS SPLIT_READS NB_READS", "STDIO": "READS",
    },
    "write_count": {
        "POSIX": "WRITES FWRITES", "MPI-IO": "INDEP_WRITES COLL_WRITES SPLIT_WRITES NB_WRITES", "STDIO": "WRITES",
    },
    "seek_count": "SEEKS FSEEKS",
    "stat_count": "STATS",
    "sync_count": "FSYNCS FDSYNCS SYNCS FLUSHES",
    "read_bytes": "BYTES_READ",
    "write_bytes": "BYTES_WRITTEN",
    "sequential_read_count": "SEQ_READS",
    "sequential_write_count": "SEQ_WRITES",
    "consecutive_read_count": "CONSEC_READS",
    "consecutive_write_count": "CONSEC_WRITES",
    "switch_count": "RW_SWITCHES",
    "file_not_aligned_count": "FILE_NOT_ALIGNED",
    "memory_not_aligned_count": "MEM_NOT_ALIGNED",
    "file_alignment_bytes": "FILE_ALIGNMENT",
    "collective_open_count": "COLL_OPENS",
    "collective_read_count": "COLL_READS SPLIT_READS",
    "collective_write_count": "COLL_WRITES SPLIT_WRITES",
    "nonblocking_count": "NB_READS NB_WRITES",
    **{
        column: {"POSIX": f"SIZE_{verb}_{size.upper()}", "MPI-IO": f"SIZE_{verb}_AGG_{size.upper()}"}
        for verb, columns in (("READ", READ_BINS), ("WRITE", WRITE_BINS))
        for column, size in zip(columns, SIZE_BINS, strict=True)
    },
    **{f"access{i}_bytes": f"ACCESS{i}_ACCESS" for i in range(1, 5)},
    **{f"access{i}_count": f"ACCESS{i}_COUNT" for i in range(1, 5)},
    "fastest_rank": "FASTEST_RANK",
    "fastest_rank_bytes": "FASTEST_RANK_BYTES",
    "slowest_rank": "SLOWEST_RANK",
    "slowest_rank_bytes": "SLOWEST_RANK_BYTES",
    "read_extent_bytes": "MAX_BYTE_READ",
    "write_extent_bytes": "MAX_BYTE_WRITTEN",
}  # fmt: skip
_REQUIRED: Final = frozenset({"open_count", "read_count", "write_count", "read_bytes", "write_bytes"})
_EXTENT_BYTES: Final = {"read_extent_bytes": "read_bytes", "write_extent_bytes": "write_bytes"}
_TESTED_BY: Final = {"file_not_aligned_count": "FILE_ALIGNMENT", "file_alignment_bytes": "FILE_ALIGNMENT"}

TIMES: Final = {
    "meta_seconds": "F_META_TIME",
    "read_seconds": "F_READ_TIME",
    "write_seconds": "F_WRITE_TIME",
    "max_read_seconds": "F_MAX_READ_TIME",
    "max_write_seconds": "F_MAX_WRITE_TIME",
    "fastest_rank_seconds": "F_FASTEST_RANK_TIME",
    "slowest_rank_seconds": "F_SLOWEST_RANK_TIME",
}
SPANS: Final = {
    "first_open_ns": "F_OPEN_START_TIMESTAMP",
    "last_close_ns": "F_CLOSE_END_TIMESTAMP",
    "first_read_ns": "F_READ_START_TIMESTAMP",
    "last_read_ns": "F_READ_END_TIMESTAMP",
    "first_write_ns": "F_WRITE_START_TIMESTAMP",
    "last_write_ns": "F_WRITE_END_TIMESTAMP",
}


def count_column(name: str, pieces: Pieces) -> NDArray[np.int64]:
    """A count or a size; masked where it was not measured."""
    spec = COUNTS[name]
    parts = [_sum_of(module, records, _words(spec, module)) for module, records in pieces]
    values = np.concatenate([part for part, _ in parts])
    missing = np.concatenate([absent for _, absent in parts])
    if name in _EXTENT_BYTES:
        # The counter is the offset of the last byte, and 0 where there was none: the bytes moved tell which.
        missing |= np.ma.getmaskarray(moved := count_column(_EXTENT_BYTES[name], pieces)) | (moved == 0)
        values = values + 1
    if name in _TESTED_BY:
        missing |= np.concatenate([_sum_of(module, records, _TESTED_BY[name])[0] <= 0 for module, records in pieces])
    if name in _REQUIRED:
        return np.where(missing, 0, values)
    return np.ma.MaskedArray(np.where(missing, 0, values), mask=missing) if missing.any() else values


def time_column(name: str, pieces: Pieces) -> NDArray[np.float64]:
    """Seconds; NaN where the record version does not have them."""
    return np.concatenate([_float(module, records, TIMES[name]) for module, records in pieces])


def span_column(name: str, pieces: Pieces, start_ns: NDArray[np.int64]) -> NDArray[np.int64]:
    """UTC nanoseconds: the run's start plus Darshan's seconds since then. 0 there means that it did not happen."""
    seconds = np.concatenate([_float(module, records, SPANS[name]) for module, records in pieces])
    there = (seconds > 0) & (seconds < _LONGEST_SECONDS)
    since = np.rint(np.where(there, seconds, 0.0) * _NS).astype(np.int64)
    return np.ma.MaskedArray(np.where(there, start_ns + since, 0), mask=~there)


def _words(spec: str | Mapping[str, str], module: str) -> str:
    return spec if isinstance(spec, str) else spec.get(module, "")


def _sum_of(module: str, records: NDArray[Any], words: str) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    present = [_PREFIX[module] + word for word in words.split()]
    names = [name for name in present if name in (records.dtype.names or ())]
    if not names:
        return np.zeros(len(records), np.int64), np.ones(len(records), np.bool_)
    total = np.array(records[names[0]], np.int64)
    negative = total < 0
    for name in names[1:]:
        values = records[name]
        negative |= values < 0
        total += values
    return total, negative


def _float(module: str, records: NDArray[Any], word: str) -> NDArray[np.float64]:
    name = _PREFIX[module] + word
    if name not in (records.dtype.names or ()):
        return np.full(len(records), np.nan)
    values = np.array(records[name], np.float64)
    return np.where(np.isfinite(values) & (values >= 0), values, np.nan)
