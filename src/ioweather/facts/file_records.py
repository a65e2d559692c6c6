"""File records of many logs at once, in one order, with the layer that counts chosen for each file.

Bytes and times count once, at the highest layer present (METHODS section 1): where a file has MPI-IO records, its
POSIX records lie below them and are not counted again. The choice is made per file, so a job may have both.
Rows are sorted by log, file and rank; everything after that is a sum, a minimum or a maximum over stretches of rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ioweather.core.arrays import Bools, Floats, Indices, Ints
from ioweather.core.frames import Frame, Text

NEVER_FIRST = np.iinfo(np.int64).max
NEVER_LAST = np.iinfo(np.int64).min


@dataclass(frozen=True, eq=False)
class FileRecords:
    """Records of `nprocs.size` logs. `log`, `file` and `rank` are per row; `file_log` is the log of each file.

    `counted` marks the rows of the layer the application called. Standard streams are left out altogether: Darshan
    2.x never recorded them, and they are no files of the job's.
    """

    frame: Frame
    order: Indices
    nprocs: Ints
    log: Ints
    file: Ints
    file_log: Ints
    rank: Ints
    mpiio: Bools
    posix: Bools
    stdio: Bools
    counted: Bools

    @property
    def logs(self) -> int:
        return len(self.nprocs)

    @property
    def files(self) -> int:
        return len(self.file_log)

    def ints(self, name: str) -> Ints:
        """An integer column in this order, null as 0: for sums, where a counter a module lacks adds nothing."""
        return self.frame.ints(name)[self.order]

    def known(self, name: str) -> Bools:
        """Where a nullable integer column has a value."""
        return self.frame.known(name)[self.order]

    def seconds(self, name: str) -> Floats:
        """A float column in this order, null as 0."""
        return np.nan_to_num(np.asarray(self.frame.array(name)[self.order], np.float64), nan=0.0)

    def first(self, name: str) -> Ints:
        """A time in this order, null as NEVER_FIRST, so that a minimum passes over it."""
        return np.where(self.known(name), self.ints(name), NEVER_FIRST)

    def last(self, name: str) -> Ints:
        return np.where(self.known(name), self.ints(name), NEVER_LAST)

    def text(self, name: str) -> Text:
        return self.frame.text(name)[self.order]

    def per_log(self, values: NDArray[Any], where: Bools | None = None) -> NDArray[Any]:
        """Sum per log; exact for integers."""
        return sums(values, self.log, self.logs, where)

    def per_file(self, values: NDArray[Any], where: Bools | None = None) -> NDArray[Any]:
        return sums(values, self.file, self.files, where)

    def files_per_log(self, which: Bools) -> Ints:
        """How many of a log's files are marked (`which` is per file)."""
        return np.bincount(self.file_log[which], minlength=self.logs).astype(np.int64)


def file_records(applications: Frame, files: Frame) -> FileRecords:
    """Sort, group and choose layers. Records of logs that `applications` lacks are left out."""
    log = rows_of(applications.text("log_digest"), files.text("log_digest"))
    keep = np.flatnonzero((log >= 0) & ~files.bools("standard_stream"))
    rank = files.ints("rank")
    record = files.ints("record_id")
    order = keep[np.lexsort((rank[keep], record[keep], log[keep]))]
    log, rank, record = log[order], rank[order], record[order]
    begins = np.ones(len(order), np.bool_)
    begins[1:] = (log[1:] != log[:-1]) | (record[1:] != record[:-1])
    file = np.cumsum(begins) - 1
    module = files.text("module")[order]
    mpiio, posix, stdio = (module.equals(name) for name in ("MPI-IO", "POSIX", "STDIO"))
    kinds = (mpiio, posix, stdio)
    nprocs, places = applications.ints("nprocs"), file.astype(np.int64)
    records = FileRecords(files, order, nprocs, log, places, log[begins], rank, *kinds, counted=stdio)
    moved = records.ints("read_bytes") + records.ints("write_bytes")
    has_mpiio = records.per_file(mpiio.astype(np.int64)) > 0
    # A file opened by MPI-IO but moved by POSIX calls alone has its data, and its time, one layer down. [ours]
    idle_mpiio = (records.per_file(moved, mpiio) == 0) & (records.per_file(moved, posix) > 0)
    by_mpiio = (has_mpiio & ~idle_mpiio)[file]
    return FileRecords(**{**records.__dict__, "counted": stdio | (mpiio & by_mpiio) | (posix & ~by_mpiio)})


def sums(values: NDArray[Any], group: Ints, groups: int, where: Bools | None = None) -> NDArray[Any]:
    """Sums of `values` by group; `group` need not be sorted. Integers stay integers: bytes are not rounded."""
    if where is not None:
        values, group = values[where], group[where]
    if values.dtype.kind == "f":
        return np.bincount(group, weights=values, minlength=groups)
    # bincount adds in float64, which is exact below 2^53; halves of 32 bits keep every sum of up to 2^21 rows exact.
    low = np.bincount(group, weights=values & 0xFFFFFFFF, minlength=groups)
    high = np.bincount(group, weights=values >> 32, minlength=groups)
    return low.astype(np.int64) + (high.astype(np.int64) << 32)


def minimum(values: Ints, group: Ints, groups: int, where: Bools) -> Ints:
    """Least value by group; NEVER_FIRST where a group has none."""
    result = np.full(groups, NEVER_FIRST, np.int64)
    np.minimum.at(result, group[where], values[where])
    return result


def maximum(values: NDArray[Any], group: Ints, groups: int, where: Bools) -> NDArray[Any]:
    """Greatest value by group; NEVER_LAST (integers) or -inf (floats) where a group has none."""
    start = -np.inf if values.dtype.kind == "f" else NEVER_LAST
    result = np.full(groups, start, values.dtype)
    np.maximum.at(result, group[where], values[where])
    return result


def rows_of(known: Text, wanted: Text) -> Ints:
    """Row of `known` for each row of `wanted`; -1 where there is none."""
    row_of_category = np.full(len(known.categories) + 1, -1, np.int64)
    row_of_category[known.codes] = np.arange(len(known))
    place = {category: code for code, category in enumerate(known.categories)}
    lookup = np.array([place.get(category, -1) for category in wanted.categories] + [-1], np.int64)
    return row_of_category[lookup[wanted.codes]]
