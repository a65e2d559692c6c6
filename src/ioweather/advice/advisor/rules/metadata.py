"""Metadata: files opened by many, opened again, or too many of them.

The metadata time of a row is divided by its calls: two for each open (open and close), one for each stat and seek. The
first open of each process and the stats are one part, opening again another, seeks a third: rules share none of it.
close() flushes, and Darshan counts it here: part of the time may be writing.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from ioweather.advice.advisor.costs import FEWEST
from ioweather.advice.advisor.fixes import BROADCAST, interface_of, main_verb, packed, setstripe
from ioweather.advice.advisor.profile import Profile, ratio
from ioweather.advice.advisor.rule import Seen
from ioweather.core.arrays import Floats
from ioweather.core.units import GIB, MIB, format_bytes, format_seconds, format_value
from ioweather.derive.jobs.signatures import METADATA_BOUND, SEEKS_PER_OPERATION

# Drishti's: metadata time on one record.
LONG_SECONDS: Final = 30.0


def metadata_calls(profile: Profile) -> Floats:
    opens = profile.ints("open_count").astype(np.float64)
    return np.asarray(2.0 * opens + profile.ints("stat_count") + profile.ints("seek_count"), np.float64)


def opened_again(profile: Profile) -> Floats:
    """Opens beyond the first of each process."""
    return np.asarray(np.maximum(profile.ints("open_count") - profile.first_opens, 0), np.float64)


def opening_seconds(profile: Profile) -> Floats:
    """Metadata time of first opens and stats. A row without any such call, and with time, is all opening."""
    calls = metadata_calls(profile)
    other = 2.0 * opened_again(profile) + profile.ints("seek_count")
    return profile.seconds("meta_seconds") * np.where(calls > 0, 1.0 - ratio(other, calls), 1.0)


def seeks(profile: Profile) -> Seen | None:
    """A seek with every read or write: one system call more for each."""
    seeks = profile.ints("seek_count")
    # Streams seek in their own buffer.
    rows = profile.counted & ~profile.records.stdio
    done, sought = int(profile.operations[rows].sum()), int(seeks[rows].sum())
    if done < FEWEST or sought < SEEKS_PER_OPERATION * done:
        return None
    share = ratio(seeks.astype(np.float64), metadata_calls(profile))
    saved = np.where(rows, profile.seconds("meta_seconds") * share, 0.0)
    evidence = f"{sought:,} seeks for {done:,} reads and writes"
    lines = ("pread(fd, buffer, bytes, offset);", "pwrite(fd, buffer, bytes, offset);")
    if profile.python:
        lines = ("os.pread(fd, count, offset)", "os.pwrite(fd, data, offset)")
    return Seen(evidence, profile.saving(saved), lines)


STORM_SHARE: Final = 0.3


def metadata_storm(profile: Profile) -> Seen | None:
    """More opens and stats than reads and writes, or most of the time in them."""
    records = profile.records
    rows = profile.counted & ~records.mpiio
    opens, stats = profile.ints("open_count"), profile.ints("stat_count")
    # One open and one stat of each process on a file that all share are no storm.
    free = np.where(profile.shared & (profile.nprocs > 1), 2 * profile.first_opens, 0)
    calls = int(np.maximum(opens + stats - free, 0)[rows].sum())
    requests = int(profile.operations[rows].sum())
    meta, spent = (float(part[rows].sum()) for part in (profile.seconds("meta_seconds"), profile.spent))
    if calls < FEWEST or (calls < requests and meta < STORM_SHARE * spent):
        return None
    files = profile.files_moved(rows)
    time = f"; {format_value(meta / spent, 'ratio')} of the I/O time" if spent > 0 else ""
    least = "at least " if profile.incomplete else ""
    evidence = f"{least}{calls:,} opens and stats for {requests:,} reads and writes on {files:,} files{time}"
    again = np.maximum(stats - profile.first_opens, 0)
    saved = np.where(rows, profile.seconds("meta_seconds") * ratio(again, metadata_calls(profile)), 0.0)
    return Seen(evidence, profile.saving(saved), packed(profile))


MANY_FILES: Final = 1000

FELT_SHARE: Final = 0.1


def file_per_process(profile: Profile) -> Seen | None:
    """At least one file of its own for each process, and making them costs."""
    files = profile.count("unique_file_count")
    if not profile.parallel or files < profile.nprocs:
        return None
    rows = profile.counted & (profile.records.rank >= 0) & ~profile.shared
    meta, spent = (float(part[rows].sum()) for part in (profile.seconds("meta_seconds"), profile.spent))
    if files < MANY_FILES and meta < FELT_SHARE * spent and meta <= LONG_SECONDS:
        return None
    # Each N files become one. It is made once; to be read, every node opens it. Making is what costs: with files made
    # before, the 728 s of car11 VI became 25 s.
    keep = math.ceil(files / profile.nprocs) / files
    written = profile.ints("write_bytes") > 0
    share = np.where(written, keep, min(1.0, keep * min(profile.nodes, profile.nprocs)))
    saved = np.where(rows, opening_seconds(profile) * (1.0 - share), 0.0)
    part = f", {format_value(meta / spent, 'ratio')} of their time in metadata" if spent > 0 else ""
    evidence = f"{files:,} files of single processes, {format_value(files / profile.nprocs)} each{part}"
    verb = main_verb(profile, rows)
    lines = ["MPI_File_open(MPI_COMM_WORLD, one_path, ...);", f"MPI_File_{verb}_at_all(file, rank * bytes, ...);"]
    if int(profile.ints("stripe_count")[rows].max(initial=0)) > 1:
        lines.append(setstripe(profile, rows, 1))
    return Seen(evidence, profile.saving(saved), tuple(lines))


FEWEST_FILES: Final = 8


def many_files(profile: Profile) -> Seen | None:
    """Fewer files than processes, or one process: still several for each that has any."""
    rows = profile.counted & (profile.records.rank >= 0) & ~profile.shared
    files = profile.files_moved(rows)
    holders = len(np.unique(profile.records.rank[rows]))
    per_process = profile.parallel and profile.nprocs <= profile.count("unique_file_count")
    if per_process or files < FEWEST_FILES * holders or not files:
        return None
    meta, spent = float(profile.seconds("meta_seconds")[rows].sum()), float(profile.spent[rows].sum())
    if meta <= 0 or (meta < METADATA_BOUND * spent and meta <= LONG_SECONDS):
        return None
    saved = np.where(rows, opening_seconds(profile) * (1.0 - holders / files), 0.0)
    who = "one process" if holders == 1 else f"{holders:,} processes"
    evidence = f"{files:,} files of {who}, {format_value(meta / spent, 'ratio')} of their time in metadata"
    return Seen(evidence, profile.saving(saved), packed(profile))


FEWEST_SMALL_FILES: Final = 100

SMALL_SHARE: Final = 0.5

SHARD_BYTES: Final = 64 * MIB


def small_files(profile: Profile) -> Seen | None:
    """A file for every sample: opening it takes longer than reading it."""
    records = profile.records
    moved = records.per_file(profile.moved, profile.counted)
    processes = records.per_file(np.where(profile.counted, profile.first_opens, 0))
    # Small by what one process moves: a file that is read again in every epoch stays small.
    ends = np.maximum(profile.ints("read_extent_bytes"), profile.ints("write_extent_bytes"))
    extent = records.per_file(ends, profile.counted)
    size = np.where(extent > 0, ratio(extent, np.maximum(processes, 1)), moved)
    data = moved > 0
    small = data & (size < MIB)
    count = int(small.sum())
    if count < FEWEST_SMALL_FILES or count < SMALL_SHARE * int(data.sum()):
        return None
    shards = math.ceil(float(size[small].sum()) / SHARD_BYTES) * max(1, profile.io_ranks)
    keep = min(1.0, shards / count)
    rows = profile.counted & small[records.file]
    saved = np.where(rows, opening_seconds(profile) * (1.0 - keep), 0.0)
    least = "at least " if profile.incomplete else ""
    evidence = f"{least}{count:,} files under 1 MiB, {format_bytes(float(size[small].mean()))} on average"
    return Seen(evidence, profile.saving(saved), packed(profile))


BROADCAST_BYTES: Final = GIB


def shared_metadata(profile: Profile) -> Seen | None:
    """All processes open the same file, and that takes long."""
    meta = profile.seconds("meta_seconds")
    rows = profile.counted & profile.shared & (meta > 0)
    rows &= (meta > LONG_SECONDS) | (meta >= METADATA_BOUND * profile.spent)
    if not profile.parallel or not rows.any():
        return None
    keep = min(1.0, profile.nodes / profile.nprocs)
    saved = np.where(rows, opening_seconds(profile) * (1.0 - keep), 0.0)
    longest = float(profile.seconds("meta_seconds")[rows].max())
    files = profile.files_moved(rows)
    which = "a shared file" if files == 1 else f"{files:,} shared files"
    evidence = f"all processes open {which}; up to {format_seconds(longest)} of metadata on one, all processes together"
    hint = 'MPI_Info_set(info, "romio_no_indep_rw", "true");'
    opened = "MPI_File_open(MPI_COMM_WORLD, path, ..., info, &f);"
    # What is only read, and fits a process, is best read by one.
    moved = float(profile.ints("read_bytes")[rows].sum(dtype=np.float64)) / profile.nprocs
    read_only = not profile.ints("write_bytes")[rows].any() and moved <= BROADCAST_BYTES
    by_mpiio = bool(profile.records.mpiio[rows].any())
    hdf5 = interface_of(profile, rows, meta) == "HDF5"
    lines = (hint,) if by_mpiio else BROADCAST if read_only else (opened, hint)
    if hdf5:
        lines = ("H5Pset_all_coll_metadata_ops(fapl, true);", "H5Pset_coll_metadata_write(fapl, true);")
    return Seen(evidence, profile.saving(saved), lines)


AGAIN: Final = 2.0

MANY_OPENS: Final = 100


def reopening(profile: Profile) -> Seen | None:
    """Open and close in a loop."""
    again = opened_again(profile)
    rows = profile.counted & (profile.ints("open_count") >= AGAIN * profile.first_opens) & (again > 0)
    repeated_opens = int(again[rows].sum())
    if repeated_opens < MANY_OPENS:
        return None
    share = ratio(2.0 * again, metadata_calls(profile))
    saved = np.where(rows, profile.seconds("meta_seconds") * share, 0.0)
    files = profile.files_moved(rows)
    which = "1 file" if files == 1 else f"{files:,} files"
    evidence = f"{repeated_opens:,} opens of {which} that the process had opened before"
    lines = ("fd = open(path, flags); /* once, before the loop */",)
    if profile.python:
        lines = ("file = open(path, 'rb')  # once, before the loop",)
    return Seen(evidence, profile.saving(saved), lines)
