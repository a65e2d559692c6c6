"""File records of many logs at once: sorted by log, file and rank, with the layer that counts chosen for each file.

Bytes and times count once, at the highest layer present (METHODS section 1): if a file has MPI-IO records, its POSIX
records are below them and are not counted again. The choice is made per file, so a job may have both. Also the columns
of `job_io` about files: kinds of use, strategies, interfaces, ranks, access sizes and ratios.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ioweather.core.arrays import Bools, Floats, Indices, Ints
from ioweather.core.frames import Column, Frame, Text
from ioweather.core.tables.schema import INTERFACES, STRATEGIES

NEVER_FIRST = np.iinfo(np.int64).max
NEVER_LAST = np.iinfo(np.int64).min
# Bit i of the place of a set is interface i.
INTERFACE_SETS: Final = tuple(
    ",".join(name for i, name in enumerate(INTERFACES) if bits >> i & 1) for bits in range(1 << len(INTERFACES))
)


@dataclass(frozen=True, eq=False)
class FileRecords:
    """Records of `nprocs.size` logs. `log`, `file` and `rank` are per row; `file_log` is the log of each file.

    `counted` marks the rows of the layer that the application called. Standard streams are left out, as in Darshan 2.x.
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
        """An integer column in this order, null as 0."""
        return self.frame.ints(name)[self.order]

    def known(self, name: str) -> Bools:
        """Whether a nullable integer column has a value."""
        return self.frame.known(name)[self.order]

    def seconds(self, name: str) -> Floats:
        """A float column in this order, null as 0."""
        return np.nan_to_num(np.asarray(self.frame.array(name)[self.order], np.float64), nan=0.0)

    def first(self, name: str) -> Ints:
        """A time in this order, null as NEVER_FIRST, which a minimum ignores."""
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
        """Count the marked files of each log (`which` is per file)."""
        return np.bincount(self.file_log[which], minlength=self.logs).astype(np.int64)


def file_records(applications: Frame, files: Frame) -> FileRecords:
    """Sort, group and choose layers. Records of logs that are not in `applications` are left out."""
    log = rows_of(applications.text("log_digest"), files.text("log_digest"))
    keep = np.flatnonzero((log >= 0) & ~files.bools("standard_stream"))
    rank = files.ints("rank")
    record = files.ints("record_id")
    order = keep[np.lexsort((rank[keep], record[keep], log[keep]))]
    log, rank, record = log[order], rank[order], record[order]
    is_first = first_of_each(log, record)
    file = np.cumsum(is_first) - 1
    module = files.text("module")[order]
    mpiio, posix, stdio = (module.equals(name) for name in ("MPI-IO", "POSIX", "STDIO"))
    kinds = (mpiio, posix, stdio)
    nprocs, places = applications.ints("nprocs"), file.astype(np.int64)
    records = FileRecords(files, order, nprocs, log, places, log[is_first], rank, *kinds, counted=stdio)
    moved = records.ints("read_bytes") + records.ints("write_bytes")
    has_mpiio = records.per_file(mpiio.astype(np.int64)) > 0
    # A file opened by MPI-IO but moved by POSIX calls only has its data, and its time, one layer down. [ours]
    idle_mpiio = (records.per_file(moved, mpiio) == 0) & (records.per_file(moved, posix) > 0)
    by_mpiio = (has_mpiio & ~idle_mpiio)[file]
    return replace(records, counted=stdio | (mpiio & by_mpiio) | (posix & ~by_mpiio))


def first_of_each(*keys: NDArray[Any]) -> Bools:
    """Mark the first row of each combination of keys; the rows are sorted by them."""
    first = np.ones(len(keys[0]), np.bool_)
    first[1:] = np.any([key[1:] != key[:-1] for key in keys], axis=0)
    return first


def sums(values: NDArray[Any], group: Ints, groups: int, where: Bools | None = None) -> NDArray[Any]:
    """Sums of `values` by group; `group` need not be sorted. Integers stay integers: bytes are not rounded."""
    if where is not None:
        values, group = values[where], group[where]
    # Not bincount, which adds integers as floats.
    result = np.zeros(groups, np.float64 if values.dtype.kind == "f" else np.int64)
    np.add.at(result, group, values)
    return result


def minimum(values: Ints, group: Ints, groups: int, where: Bools | None = None) -> Ints:
    """Smallest value by group; NEVER_FIRST for empty groups."""
    if where is not None:
        values, group = values[where], group[where]
    result = np.full(groups, NEVER_FIRST, np.int64)
    np.minimum.at(result, group, values)
    return result


def maximum(values: NDArray[Any], group: Ints, groups: int, where: Bools | None = None) -> NDArray[Any]:
    """Largest value by group; NEVER_LAST (integers) or -inf (floats) for empty groups."""
    if where is not None:
        values, group = values[where], group[where]
    result = np.full(groups, -np.inf if values.dtype.kind == "f" else NEVER_LAST, values.dtype)
    np.maximum.at(result, group, values)
    return result


def rows_of(known: Text, wanted: Text) -> Ints:
    """Return the row of `known` for each row of `wanted`; -1 if there is none."""
    row_of_category = np.full(len(known.categories) + 1, -1, np.int64)
    row_of_category[known.codes] = np.arange(len(known))
    place = {category: code for code, category in enumerate(known.categories)}
    lookup = np.array([place.get(category, -1) for category in wanted.categories] + [-1], np.int64)
    return row_of_category[lookup[wanted.codes]]


def strategy_of_files(records: FileRecords) -> Ints:
    """Return an index into STRATEGIES per file (car11 III-A): one rank, a strict subset of the ranks, or all of them.
    With a single process every file is unique. [ours]"""
    ranks, nprocs = processes_of_files(records), records.nprocs[records.file_log]
    return np.where((ranks >= nprocs) & (nprocs > 1), 2, np.where(ranks > 1, 1, 0)).astype(np.int64)


def processes_of_files(records: FileRecords) -> Ints:
    """Return the number of processes that used each file: all of them if Darshan has one record of rank -1."""
    counted = records.counted
    file, rank = records.file[counted], records.rank[counted]
    # Rows are in order of file and rank, so a new pair is a new rank of that file.
    new = first_of_each(file, rank)
    ranks = np.bincount(file[new & (rank >= 0)], minlength=records.files)
    by_all = np.bincount(file[rank < 0], minlength=records.files) > 0
    nprocs = records.nprocs[records.file_log]
    return np.where(by_all, nprocs, ranks).astype(np.int64)


def file_columns(records: FileRecords) -> dict[str, Column]:
    """Counts of files by use and by strategy, and bytes by strategy."""
    read_bytes, write_bytes = records.ints("read_bytes"), records.ints("write_bytes")
    read = records.per_file(records.ints("read_count") + read_bytes, records.counted) > 0
    written = records.per_file(records.ints("write_count") + write_bytes, records.counted) > 0
    # A file with stat calls only was not accessed; an open at any layer is an access.
    accessed = (records.per_file(records.ints("open_count")) > 0) | read | written
    strategy = strategy_of_files(records)
    columns: dict[str, Column] = {
        "file_count": records.files_per_log(accessed),
        "read_only_file_count": records.files_per_log(read & ~written),
        "write_only_file_count": records.files_per_log(written & ~read),
        "read_write_file_count": records.files_per_log(read & written),
    }
    row_strategy = strategy[records.file]
    for code, name in enumerate(STRATEGIES):
        columns[f"{name}_file_count"] = records.files_per_log(accessed & (strategy == code))
        rows = records.counted & (row_strategy == code)
        columns[f"{name}_read_bytes"] = records.per_log(read_bytes, rows)
        columns[f"{name}_write_bytes"] = records.per_log(write_bytes, rows)
    return columns | creation_columns(records, written)


def creation_columns(records: FileRecords, written: Bools) -> dict[str, Column]:
    """Files that the job created.

    `size_at_open` (Darshan 2.x): written, and empty when first opened, so existing empty files count. Darshan 3.x has
    no such counter; the proxy `written_whole` is a file that the job wrote before it read, with every byte up to the
    highest. It includes existing files that are overwritten, and excludes new files with holes. [ours]
    """
    known_rows = records.known("size_at_open_bytes")
    smallest = minimum(records.ints("size_at_open_bytes"), records.file, records.files, known_rows)
    known = written & (smallest != NEVER_FIRST)
    empty = known & (smallest == 0)

    first_read = minimum(records.first("first_read_ns"), records.file, records.files)
    first_write = minimum(records.first("first_write_ns"), records.file, records.files)
    # Only POSIX and STDIO count extents, also below MPI-IO.
    below = records.posix | records.stdio
    extent_rows = below & records.known("write_extent_bytes")
    extent = maximum(records.ints("write_extent_bytes"), records.file, records.files, extent_rows)
    whole = records.per_file(records.ints("write_bytes"), below) >= extent
    proxy = written & (first_write <= first_read) & whole

    with_sizes = records.files_per_log(known) > 0
    created = np.where(with_sizes, records.files_per_log(empty), records.files_per_log(proxy))
    rule = np.where(with_sizes, 0, 1)
    rule[records.files_per_log(written) == 0] = -1
    return {
        "create_count": created,
        "create_rule": Text(rule.astype(np.int32), ("size_at_open", "written_whole")),
        "size_known_file_count": np.ma.MaskedArray(records.files_per_log(known), mask=~with_sizes),
        "new_or_empty_file_count": np.ma.MaskedArray(records.files_per_log(empty), mask=~with_sizes),
    }


def interface_columns(records: FileRecords, modules: Text) -> dict[str, Column]:
    """The set of interfaces used directly, and bytes by interface, each byte once.

    A file opened through HDF5 or PnetCDF belongs to that library, whatever layer counted its bytes. Streams counted in
    POSIX records (Darshan 2.x, 3.0) are STDIO if the file had no other open.
    """
    library = records.text("library")
    streams, opens = records.ints("stream_open_count"), records.ints("open_count")
    only_streams = records.posix & (streams > 0) & (opens <= streams)
    kinds = (library.equals("HDF5"), library.equals("PnetCDF"), records.mpiio, records.posix & ~only_streams)
    codes = np.select(kinds, range(len(kinds)), len(kinds))
    read_bytes, write_bytes = records.ints("read_bytes"), records.ints("write_bytes")
    operations = records.ints("read_count") + records.ints("write_count") + read_bytes + write_bytes
    used = records.counted & ((opens > 0) | (operations > 0))
    columns: dict[str, Column] = {}
    bits = _library_bits(modules)
    for code, interface in enumerate(INTERFACES):
        rows = records.counted & (codes == code)
        name = interface.lower().replace("-", "")
        columns[f"{name}_read_bytes"] = records.per_log(read_bytes, rows)
        columns[f"{name}_write_bytes"] = records.per_log(write_bytes, rows)
        bits |= (np.bincount(records.log[used & (codes == code)], minlength=records.logs) > 0).astype(np.int64) << code
    # A file with both kinds of opens used both.
    mixed = used & records.posix & (codes == 3) & (streams > 0)
    bits |= (np.bincount(records.log[mixed], minlength=records.logs) > 0).astype(np.int64) << 4
    columns["interfaces"] = Text(bits.astype(np.int32), INTERFACE_SETS)
    return columns


def rank_columns(records: FileRecords) -> dict[str, Column]:
    """Number of ranks that moved data, and bytes that only rank 0 moved.

    A record shared by all does not have the ranks that moved its data. If the slowest rank's bytes are all of the
    file's bytes, only that rank did; otherwise all ranks count.
    """
    moved = records.ints("read_bytes") + records.ints("write_bytes")
    rows = records.counted & (moved > 0)
    slowest = records.ints("slowest_rank")
    alone = (records.rank < 0) & records.known("slowest_rank_bytes") & (records.ints("slowest_rank_bytes") == moved)
    alone &= (slowest >= 0) & (slowest < records.nprocs[records.log])  # a damaged log may name any rank
    rank = np.where(alone, slowest, records.rank)
    by_one = rows & (rank >= 0)
    pairs = np.unique(records.log[by_one] << 32 | rank[by_one])
    distinct = np.bincount(pairs >> 32, minlength=records.logs)
    by_all = np.bincount(records.log[rows & (rank < 0)], minlength=records.logs) > 0
    return {
        "io_rank_count": np.where(by_all, records.nprocs, distinct).astype(np.int64),
        "rank0_bytes": records.per_log(moved, by_one & (rank == 0)),
    }


def common_access_columns(records: FileRecords) -> dict[str, Column]:
    """The most common access size of a job, from the four of each of its records; of ties the larger."""
    rows = records.counted & (records.mpiio | records.posix)
    log = np.tile(records.log[rows], 4)
    size = np.concatenate([records.ints(f"access{i}_bytes")[rows] for i in range(1, 5)])
    count = np.concatenate([records.ints(f"access{i}_count")[rows] for i in range(1, 5)])
    there = count > 0
    log, size, count = log[there], size[there], count[there]
    order = np.lexsort((size, log))
    log, size, count = log[order], size[order], count[order]
    new = first_of_each(log, size)
    total = sums(count, np.cumsum(new) - 1, int(new.sum()))
    log, size = log[new], size[new]
    best = np.lexsort((size, total, log))
    best = best[np.flatnonzero(np.diff(log[best], append=-1))]
    result = {name: np.ma.MaskedArray(np.zeros(records.logs, np.int64), mask=True) for name in ("bytes", "count")}
    result["bytes"][log[best]] = size[best]
    result["count"][log[best]] = total[best]
    return {f"common_access_{name}": values for name, values in result.items()}


def main_mount_column(records: FileRecords) -> Text:
    """The mount point with most of a job's bytes; of ties the first in alphabetical order."""
    mount = records.text("mount")
    alphabetical = np.array(sorted(range(len(mount.categories)), key=mount.categories.__getitem__), np.int64)
    place = np.empty(len(alphabetical), np.int64)
    place[alphabetical] = np.arange(len(alphabetical))
    moved = records.ints("read_bytes") + records.ints("write_bytes")
    rows = records.counted & (mount.codes >= 0) & (moved > 0)
    key, group = np.unique(records.log[rows] << 32 | place[mount.codes[rows]], return_inverse=True)
    total = sums(moved[rows], group, len(key))
    order = np.lexsort((-key, total, key >> 32))
    best = order[np.flatnonzero(np.diff(key[order] >> 32, append=-1))]
    codes = np.full(records.logs, -1, np.int32)
    codes[key[best] >> 32] = alphabetical[key[best] & 0xFFFFFFFF]
    return Text(codes, mount.categories)


def _library_bits(modules: Text) -> Ints:
    """Bits of libraries with own records, which show their use even if the file's lower records are missing."""
    marks: Mapping[str, int] = {"H5F": 1, "H5D": 1, "PNETCDF_FILE": 2, "PNETCDF_VAR": 2}
    bits = [0] * len(modules.categories)
    for i, category in enumerate(modules.categories):
        for name in category.split(","):
            bits[i] |= marks.get(name, 0)
    return np.array([*bits, 0], np.int64)[modules.codes]


def ratio_columns(jobs: Frame) -> dict[str, Column]:
    """Return every column of `job_io` that is a quotient of others; null if the divisor is 0 or null."""
    read_bytes, write_bytes = jobs.floats("read_bytes"), jobs.floats("write_bytes")
    moved = read_bytes + write_bytes
    meta, nprocs = jobs.floats("meta_seconds"), jobs.floats("nprocs")
    accesses = jobs.floats("fs_read_count") + jobs.floats("fs_write_count")
    return {
        "bytes_per_s": quotient(moved, jobs.floats("io_seconds")),
        "read_bytes_per_s": quotient(read_bytes, jobs.floats("d_read_seconds")),
        "write_bytes_per_s": quotient(write_bytes, jobs.floats("d_write_seconds")),
        "metadata_ratio": quotient(meta, meta + jobs.floats("read_seconds") + jobs.floats("write_seconds")),
        "files_per_process": quotient(jobs.floats("file_count"), nprocs),
        "creates_per_process": quotient(jobs.floats("create_count"), nprocs),
        "bytes_per_process": quotient(moved, nprocs),
        "sequential_ratio": quotient(jobs.floats("sequential_count"), accesses),
        "aligned_ratio": 1 - quotient(jobs.floats("not_aligned_count"), jobs.floats("alignment_tested_count")),
    }


def ratio(part: NDArray[Any], whole: NDArray[Any]) -> Floats:
    """Return part / whole, 0 where `whole` is 0."""
    result = np.zeros(len(part))
    np.divide(part, whole, out=result, where=whole > 0)
    return result


def quotient(numerator: NDArray[Any], denominator: NDArray[Any]) -> Floats:
    """Return numerator / denominator, NaN where the denominator is 0 or NaN."""
    result = np.full(len(numerator), np.nan)
    with np.errstate(over="ignore"):  # infinite, where a damaged log has absurd times
        np.divide(numerator, denominator, out=result, where=denominator > 0)
    return result
