"""I/O metrics of Darshan logs, for many logs at once.

`job_io` is the table of that name (METHODS section 1); `times` is D and its parts (car11 II-D, mad17 Eq. 1 and 6);
`io_spans` is when each run did I/O, from the first to the last read, and write, of each of its files (mad17 III).
All start from `file_records`: the records of many logs by log, file and rank. Bytes and times count once, at the layer
that the program called: if a file has MPI-IO records, its POSIX records are below them and are not counted again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ioweather.core.frames import Bools, Column, Floats, Frame, Indices, Ints, Text
from ioweather.core.tables import FILE_MODULES, INTERFACES, JOB_IO, READ_BINS, STRATEGIES, WRITE_BINS
from ioweather.core.units import names_of, pairs_of

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
        """Return an integer column in this order, null as 0."""
        return self.frame.ints(name)[self.order]

    def known(self, name: str) -> Bools:
        """Whether a nullable integer column has a value."""
        return self.frame.known(name)[self.order]

    def seconds(self, name: str) -> Floats:
        """Return a float column in this order, null as 0."""
        return np.nan_to_num(np.asarray(self.frame.array(name)[self.order], np.float64), nan=0.0)

    def first(self, name: str) -> Ints:
        """Return a time in this order, null as NEVER_FIRST, which a minimum ignores."""
        return np.where(self.known(name), self.ints(name), NEVER_FIRST)

    def last(self, name: str) -> Ints:
        """Return a time in this order, null as NEVER_LAST, which a maximum ignores."""
        return np.where(self.known(name), self.ints(name), NEVER_LAST)

    def text(self, name: str) -> Text:
        return self.frame.text(name)[self.order]

    def per_log(self, values: NDArray[Any], where: Bools | None = None) -> NDArray[Any]:
        """Sum per log; exact for integers."""
        return sums(values, self.log, self.logs, where)

    def per_file(self, values: NDArray[Any], where: Bools | None = None) -> NDArray[Any]:
        """Sum per file; exact for integers."""
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
    """Return the sums of `values` by group, in any order of rows. Integers stay integers: bytes are not rounded."""
    if where is not None:
        values, group = values[where], group[where]
    # Not bincount, which adds integers as floats.
    result = np.zeros(groups, np.float64 if values.dtype.kind == "f" else np.int64)
    np.add.at(result, group, values)
    return result


def minimum(values: Ints, group: Ints, groups: int, where: Bools | None = None) -> Ints:
    """Return the smallest value by group; NEVER_FIRST for empty groups."""
    if where is not None:
        values, group = values[where], group[where]
    result = np.full(groups, NEVER_FIRST, np.int64)
    np.minimum.at(result, group, values)
    return result


def maximum(values: NDArray[Any], group: Ints, groups: int, where: Bools | None = None) -> NDArray[Any]:
    """Return the largest value by group; NEVER_LAST (integers) or -inf (floats) for empty groups."""
    if where is not None:
        values, group = values[where], group[where]
    result = np.full(groups, -np.inf if values.dtype.kind == "f" else NEVER_LAST, values.dtype)
    np.maximum.at(result, group, values)
    return result


def rows_of_largest(group: Ints, *values: NDArray[Any]) -> Indices:
    """Return the row of the largest value in each group that has rows; of ties the one with the largest next value."""
    order = np.lexsort((*reversed(values), group))
    return order[np.flatnonzero(np.diff(group[order], append=-1))]


def rows_of(known: Text, wanted: Text) -> Ints:
    """Return the row of `known` for each row of `wanted`; -1 if there is none."""
    row_of_category = np.full(len(known.categories) + 1, -1, np.int64)
    row_of_category[known.codes] = np.arange(len(known))
    place = {category: code for code, category in enumerate(known.categories)}
    lookup = np.array([place.get(category, -1) for category in wanted.categories] + [-1], np.int64)
    return row_of_category[lookup[wanted.codes]]


def merge_spans(run: Ints, first: Ints, last: Ints, unit: int = 1000) -> tuple[Ints, Ints, Ints, Ints]:
    """Merge touching spans of each run: (run, begin, end of each stretch, stretch of each span). Times are compared in
    multiples of `unit`."""
    if not len(run):
        nothing = np.zeros(0, np.int64)
        return nothing, nothing, nothing, nothing
    order = np.lexsort((first, run))
    run, first, last = run[order], first[order], last[order]
    # Runs are shifted so that a running maximum does not reach from one into the next; microseconds leave room for
    # 100,000 runs in a year.
    origin = int(first.min())
    low, high = (first - origin) // unit, (last - origin) // unit
    offset = run * (int(high.max()) + 2)
    reached = np.maximum.accumulate(high + offset)
    begins = np.ones(len(run), np.bool_)
    begins[1:] = low[1:] + offset[1:] > reached[:-1]
    at = np.flatnonzero(begins)
    stretch = np.zeros(len(run), np.int64)
    stretch[order] = np.cumsum(begins) - 1
    return run[at], first[at], np.maximum.reduceat(last, at), stretch


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
    """Return counts of files by use and by strategy, and bytes by strategy."""
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
    """Return how many files the job created.

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
    """Return the set of interfaces used directly, and bytes by interface, each byte once.

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


def _library_bits(modules: Text) -> Ints:
    """Return bits of libraries with own records, which show their use even if the file's lower records are missing."""
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


_NS = 1e-9
# Columns of `job_io` that are sums of columns of `files`, by the records that are added. Only POSIX counts sequence and
# alignment: operations as the file system saw them, below MPI-IO too.
_SUMS: Final = {
    "counted": {
        each: each for each in ("read_bytes", "write_bytes", "read_count", "write_count", *READ_BINS, *WRITE_BINS)
    },
    "posix": pairs_of("""
        fs_read_count=read_count fs_write_count=write_count fs_read_bytes=read_bytes fs_write_bytes=write_bytes
        sequential_count=sequential_read_count+sequential_write_count not_aligned_count=file_not_aligned_count
        consecutive_count=consecutive_read_count+consecutive_write_count
    """),
    "mpiio": {"collective_count": "collective_read_count+collective_write_count"},
    "all": {"seek_count": "seek_count", "stat_count": "stat_count"},
}
_SPANS = ("first_open_ns", "last_close_ns", "first_read_ns", "last_read_ns", "first_write_ns", "last_write_ns")


def job_io(applications: Frame, files: Frame) -> Frame:
    """Return one row per application, in their order. A log without file records has zero files and bytes, and no
    times."""
    records = file_records(applications, files)
    start_ns, end_ns = applications.ints("start_ns"), applications.ints("end_ns")
    partial = applications.text("partial_modules")
    flags = [bool(set(category.split(",")) & set(FILE_MODULES)) for category in partial.categories]
    columns: dict[str, Column] = {
        "log_digest": applications.text("log_digest"),
        "start_ns": start_ns,
        "end_ns": end_ns,
        "nprocs": records.nprocs,
        "run_seconds": (end_ns - start_ns) * _NS,
        "partial": np.array([*flags, False], np.bool_)[partial.codes],
        **_time_columns(records),
        **_sum_columns(records),
        **file_columns(records),
        **interface_columns(records, applications.text("modules")),
        **rank_columns(records),
        **_most_common_access(records),
        "main_mount": _main_mount(records),
        **_span_columns(records),
    }
    return JOB_IO.frame(columns | ratio_columns(Frame(columns)), rows=records.logs)


def _most_common_access(records: FileRecords) -> dict[str, Column]:
    """Return size and count of the most common access of each log, from the four of each record; of ties the larger."""
    rows = records.counted & (records.mpiio | records.posix)
    size, count = (
        np.concatenate([records.ints(f"access{i}_{part}")[rows] for i in range(1, 5)]) for part in ("bytes", "count")
    )
    order = np.lexsort((size, log := np.tile(records.log[rows], 4)))
    order = order[count[order] > 0]
    log, size, count = log[order], size[order], count[order]
    new = first_of_each(log, size)
    total, log, size = sums(count, np.cumsum(new) - 1, int(new.sum())), log[new], size[new]
    best = rows_of_largest(log, total, size)
    found = {}
    for name, values in (("common_access_bytes", size), ("common_access_count", total)):
        found[name] = np.ma.MaskedArray(np.zeros(records.logs, np.int64), mask=True)
        found[name][log[best]] = values[best]
    return dict(found)


def _main_mount(records: FileRecords) -> Text:
    """Return the mount point with most of the bytes of each log; of ties the first in alphabetical order."""
    mount = records.text("mount")
    alphabetical = np.array(sorted(range(len(mount.categories)), key=mount.categories.__getitem__), np.int64)
    place = np.empty(len(alphabetical), np.int64)
    place[alphabetical] = np.arange(len(alphabetical))
    moved = records.ints("read_bytes") + records.ints("write_bytes")
    rows = records.counted & (mount.codes >= 0) & (moved > 0)
    key, group = np.unique(records.log[rows] << 32 | place[mount.codes[rows]], return_inverse=True)
    best = rows_of_largest(key >> 32, sums(moved[rows], group, len(key)), -key)
    codes = np.full(records.logs, -1, np.int32)
    codes[key[best] >> 32] = alphabetical[key[best] & 0xFFFFFFFF]
    return Text(codes, mount.categories)


def _time_columns(records: FileRecords) -> dict[str, Column]:
    """Return D and its parts, also of the POSIX calls below MPI-IO, and the longest file spans."""
    with_mpiio = np.bincount(records.log[records.mpiio], minlength=records.logs) > 0
    return {
        **times(records, records.counted),
        "posix_io_seconds": times(records, records.posix & with_mpiio[records.log])["io_seconds"],
        "d_f_r_seconds": file_spans(records, "read"),
        "d_f_w_seconds": file_spans(records, "write"),
    }


def _sum_columns(records: FileRecords) -> dict[str, Column]:
    """Return bytes, operations and seconds per log; of time NaN for a log without counted records."""
    there = np.bincount(records.log[records.counted], minlength=records.logs) > 0
    layers = {"counted": records.counted, "posix": records.posix, "mpiio": records.mpiio, "all": None}
    columns: dict[str, Column] = {
        name: records.per_log(np.sum([records.ints(part) for part in parts.split("+")], axis=0), layers[layer])
        for layer, sums_of in _SUMS.items()
        for name, parts in sums_of.items()
    }
    operations = records.ints("read_count") + records.ints("write_count")
    columns["independent_count"] = records.per_log(operations, records.mpiio) - columns["collective_count"]
    tested = records.posix & records.known("file_not_aligned_count")
    columns["alignment_tested_count"] = records.per_log(operations, tested)
    for part in ("meta", "read", "write"):
        total = records.per_log(records.seconds(f"{part}_seconds"), records.counted)
        columns[f"{part}_seconds"] = np.where(there, total, np.nan)
    return columns


def _span_columns(records: FileRecords) -> dict[str, Column]:
    """Return the times of first and last open, read, write and close of each log; null where nothing is recorded."""
    columns: dict[str, Column] = {}
    for name in _SPANS:
        if name.startswith("first"):
            values = minimum(records.first(name), records.log, records.logs, records.counted)
        else:
            values = maximum(records.last(name), records.log, records.logs, records.counted)
        missing = (values == NEVER_FIRST) | (values == NEVER_LAST)
        columns[name] = np.ma.MaskedArray(np.where(missing, 0, values), mask=missing)
    return columns


def times(records: FileRecords, rows: Bools) -> dict[str, Column]:
    """Return D = D_U_M + D_U_RW + D_S (mad17 Eq. 1) and its parts, seconds per log, from the given rows (normally
    `records.counted`). A part that does not exist is NaN, and adds nothing to D, which is `io_seconds`."""
    meta, read, write = (records.seconds(f"{part}_seconds") for part in ("meta", "read", "write"))
    reads, writes = records.ints("read_count"), records.ints("write_count")
    # Metadata time has no direction of its own. Seeks and opens come with operations, so it is divided as these are:
    # on a log of 2,048 processes with 40% metadata time this gives both of IOR's figures within 1%. [ours]
    operations = reads + writes
    reading = read + meta * ratio(reads, operations)
    writing = write + meta * ratio(writes, operations)
    d_u_m, d_u_rw, u_read, u_write = _times_on_own_files(
        records, rows & (records.rank >= 0), meta, read + write, reading, writing
    )
    moved = records.ints("read_bytes") + records.ints("write_bytes")
    # Only shared files with I/O have a D_S.
    shared = rows & (records.rank < 0) & ((operations > 0) | (moved > 0))
    spent = meta + read + write
    span, per_file, slowest, s_read, s_write = _times_on_shared_files(
        records, shared, ratio(reading, spent)[shared], ratio(writing, spent)[shared]
    )
    d_read, d_write = (np.where(part > 0, part, np.nan) for part in (u_read + s_read, u_write + s_write))
    # D_S is the time of slowest ranks if that is recorded for all shared files of a log.
    d_s = np.where(np.isfinite(slowest), slowest, per_file)
    definition = np.where(np.isfinite(d_s), np.where(np.isfinite(slowest), 0, 1), -1)
    parts = np.stack([d_u_m, d_u_rw, d_s])
    return {
        "d_u_m_seconds": d_u_m,
        "d_u_rw_seconds": d_u_rw,
        "d_s_seconds": d_s,
        "d_s_definition": Text(definition.astype(np.int32), ("slowest", "per_file")),
        "d_s_span_seconds": span,
        "d_s_per_file_seconds": per_file,
        "d_s_slowest_seconds": slowest,
        "io_seconds": np.where(np.isnan(parts).all(axis=0), np.nan, np.nansum(parts, axis=0)),
        "d_read_seconds": d_read,
        "d_write_seconds": d_write,
    }


def file_spans(records: FileRecords, verb: str) -> Floats:
    """D_F_R or D_F_W: d_f is last end - first start of a file, its ranks merged first; the longest of a job's files
    (mad17 Eq. 6)."""
    first = minimum(records.first(f"first_{verb}_ns"), records.file, records.files, records.counted)
    last = maximum(records.last(f"last_{verb}_ns"), records.file, records.files, records.counted)
    known = (first != NEVER_FIRST) & (last != NEVER_LAST)
    longest = maximum(np.where(known, last - np.where(known, first, 0), 0) * _NS, records.file_log, records.logs, known)
    return np.where(np.isfinite(longest), np.maximum(longest, 0.0), np.nan)


def _times_on_own_files(
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
    # Of equally slow ranks the lowest.
    slowest = rows_of_largest(pair_log, pair_meta + pair_moving, -key)
    d_u_m, d_u_rw = np.full(records.logs, np.nan), np.full(records.logs, np.nan)
    d_u_m[pair_log[slowest]] = pair_meta[slowest]
    d_u_rw[pair_log[slowest]] = pair_moving[slowest]
    u_read, u_write = (
        np.maximum(maximum(values, pair_log, records.logs), 0.0) for values in (pair_reading, pair_writing)
    )
    return d_u_m, d_u_rw, u_read, u_write


def _times_on_shared_files(
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
    """Return last - first in seconds; NaN where one of them is missing."""
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
        """Return the spans in these rows."""
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
