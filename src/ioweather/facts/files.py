"""What kinds of files a job used, how, and through which interface; for many logs at once."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ioweather.core.arrays import Bools, Ints
from ioweather.core.frames import Column, Text
from ioweather.core.tables.applications import INTERFACES, STRATEGIES
from ioweather.facts.file_records import NEVER_FIRST, FileRecords, maximum, minimum, sums


def strategy_of_files(records: FileRecords) -> Ints:
    """Index into STRATEGIES per file (car11 III-A): one rank, a strict subset of the ranks, or all of them. With a
    single process every file is unique. [ours]"""
    ranks, nprocs = processes_of_files(records), records.nprocs[records.file_log]
    return np.where((ranks >= nprocs) & (nprocs > 1), 2, np.where(ranks > 1, 1, 0)).astype(np.int64)


def processes_of_files(records: FileRecords) -> Ints:
    """How many processes used each file. All did, where Darshan has one record of rank -1."""
    counted = records.counted
    file, rank = records.file[counted], records.rank[counted]
    # Rows are in order of file and rank, so a new pair is a new rank of that file.
    new = np.ones(len(file), np.bool_)
    new[1:] = (file[1:] != file[:-1]) | (rank[1:] != rank[:-1])
    ranks = np.bincount(file[new & (rank >= 0)], minlength=records.files)
    by_all = np.bincount(file[rank < 0], minlength=records.files) > 0
    nprocs = records.nprocs[records.file_log]
    return np.where(by_all, nprocs, ranks).astype(np.int64)


def file_columns(records: FileRecords) -> dict[str, Column]:
    """Counts of files by use and by strategy, and bytes by strategy."""
    read_bytes, write_bytes = records.ints("read_bytes"), records.ints("write_bytes")
    read = records.per_file(records.ints("read_count") + read_bytes, records.counted) > 0
    written = records.per_file(records.ints("write_count") + write_bytes, records.counted) > 0
    # A record that was only stat-ed is no file the job accessed; an open at any layer makes it one.
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
    """Files that the job wrote and created.

    `size_at_open` (Darshan 2.x): written, and empty when first opened; a file that was there and empty cannot be told
    from a new one. Darshan 3.x has no such counter; the proxy `written_whole` takes a file as created when the job
    wrote before it read and wrote every byte up to the highest it touched. A file overwritten whole passes for new, a
    new file with holes does not. [ours]
    """
    known_rows = records.known("size_at_open_bytes")
    smallest = minimum(records.ints("size_at_open_bytes"), records.file, records.files, known_rows)
    known = written & (smallest != NEVER_FIRST)
    empty = known & (smallest == 0)

    everywhere = np.ones(len(records.file), np.bool_)
    first_read = minimum(records.first("first_read_ns"), records.file, records.files, everywhere)
    first_write = minimum(records.first("first_write_ns"), records.file, records.files, everywhere)
    # Extents are counted by POSIX and STDIO alone: below MPI-IO too, where the file system sees the writes.
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

    A file opened through HDF5 or PnetCDF belongs to that library, whatever layer its bytes were counted at. Streams
    that POSIX records count (Darshan 2.x, 3.0) are STDIO where the file had no other open.
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
    sets = tuple(_interface_set(bit) for bit in range(1 << len(INTERFACES)))
    columns["interfaces"] = Text(bits.astype(np.int32), sets)
    return columns


def rank_columns(records: FileRecords) -> dict[str, Column]:
    """How many ranks moved data, and what rank 0 moved alone.

    A record shared by all does not say which ranks moved its data, but where the slowest rank's bytes are all of the
    file's bytes, that rank alone did. Otherwise all ranks are taken to have taken part.
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
    """The most common access size of a job, from the four most common of each of its records; of ties the larger."""
    rows = records.counted & (records.mpiio | records.posix)
    log = np.tile(records.log[rows], 4)
    size = np.concatenate([records.ints(f"access{i}_bytes")[rows] for i in range(1, 5)])
    count = np.concatenate([records.ints(f"access{i}_count")[rows] for i in range(1, 5)])
    there = count > 0
    log, size, count = log[there], size[there], count[there]
    order = np.lexsort((size, log))
    log, size, count = log[order], size[order], count[order]
    new = np.ones(len(log), np.bool_)
    new[1:] = (log[1:] != log[:-1]) | (size[1:] != size[:-1])
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
    """A library's own records show its use even where the file's lower records are missing."""
    marks: Mapping[str, int] = {"H5F": 1, "H5D": 1, "PNETCDF_FILE": 2, "PNETCDF_VAR": 2}
    bits = [0] * len(modules.categories)
    for i, category in enumerate(modules.categories):
        for name in category.split(","):
            bits[i] |= marks.get(name, 0)
    return np.array([*bits, 0], np.int64)[modules.codes]


def _interface_set(bits: int) -> str:
    return ",".join(interface for code, interface in enumerate(INTERFACES) if bits >> code & 1)
