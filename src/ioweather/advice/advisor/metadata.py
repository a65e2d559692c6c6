"""Rules of metadata: opens, creates, stats and seeks.

The metadata time of a row is divided by its calls: two for each open (open and close), one for each stat and seek. The
first open of each process and the stats are one part, opening again another, seeks a third: rules share none of it.
close() flushes, and Darshan counts it here: part of the time may be writing.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from ioweather.advice.advisor.fixes import BROADCAST, main_verb, setstripe
from ioweather.advice.advisor.profile import Profile, ratio
from ioweather.advice.advisor.rule import Rule, Seen
from ioweather.core.arrays import Bools, Floats
from ioweather.core.units import GIB, format_seconds, format_value
from ioweather.derive.jobs.signatures import FEWEST_OPERATIONS, METADATA_BOUND, SEEKS_PER_OPERATION

# Drishti's: metadata time on one record.
LONG_SECONDS: Final = 30.0
AGAIN: Final = 2.0
MANY_OPENS: Final = 100
FEWEST_FILES: Final = 8
BROADCAST_BYTES: Final = GIB


def _calls(profile: Profile) -> Floats:
    opens = profile.ints("open_count").astype(np.float64)
    return np.asarray(2.0 * opens + profile.ints("stat_count") + profile.ints("seek_count"), np.float64)


def _again(profile: Profile) -> Floats:
    """Opens beyond the first of each process."""
    return np.asarray(np.maximum(profile.ints("open_count") - profile.first_opens, 0), np.float64)


def _opening_seconds(profile: Profile) -> Floats:
    """Metadata time of first opens and stats. A row without any such call, and with time, is all opening."""
    calls = _calls(profile)
    other = 2.0 * _again(profile) + profile.ints("seek_count")
    return profile.seconds("meta_seconds") * np.where(calls > 0, 1.0 - ratio(other, calls), 1.0)


def _file_per_process(profile: Profile) -> Seen | None:
    files = int(profile.row["unique_file_count"])
    if profile.nprocs < 2 or files < profile.nprocs:
        return None
    rows = profile.counted & (profile.records.rank >= 0) & ~profile.shared
    # Each N files become one. It is made once; to be read, every node opens it. Making is what costs: with files made
    # before, the 728 s of car11 VI became 25 s.
    keep = math.ceil(files / profile.nprocs) / files
    written = profile.ints("write_bytes") > 0
    share = np.where(written, keep, min(1.0, keep * min(profile.nodes, profile.nprocs)))
    saved = np.where(rows, _opening_seconds(profile) * (1.0 - share), 0.0)
    meta = float(profile.seconds("meta_seconds")[rows].sum())
    spent = float(profile.spent[rows].sum())
    part = f", {format_value(meta / spent, 'ratio')} of their time in metadata" if spent > 0 else ""
    evidence = f"{files:,} files of single processes, {format_value(files / profile.nprocs)} each{part}"
    verb = main_verb(profile, rows)
    lines = ["MPI_File_open(MPI_COMM_WORLD, one_path, ...);", f"MPI_File_{verb}_at_all(file, rank * bytes, ...);"]
    if int(profile.ints("stripe_count")[rows].max(initial=0)) > 1:
        lines.append(setstripe(profile, rows, 1))
    return Seen(evidence, profile.saving(saved), tuple(lines))


def _many_files(profile: Profile) -> Seen | None:
    """Fewer files than processes, or one process: still several for each that has any."""
    rows = profile.counted & (profile.records.rank >= 0) & ~profile.shared
    files = len(np.unique(profile.records.file[rows]))
    holders = len(np.unique(profile.records.rank[rows]))
    if 1 < profile.nprocs <= int(profile.row["unique_file_count"]) or files < FEWEST_FILES * holders or not files:
        return None
    meta, spent = float(profile.seconds("meta_seconds")[rows].sum()), float(profile.spent[rows].sum())
    if meta <= 0 or (meta < METADATA_BOUND * spent and meta <= LONG_SECONDS):
        return None
    saved = np.where(rows, _opening_seconds(profile) * (1.0 - holders / files), 0.0)
    who = "one process" if holders == 1 else f"{holders:,} processes"
    evidence = f"{files:,} files of {who}, {format_value(meta / spent, 'ratio')} of their time in metadata"
    return Seen(
        evidence,
        profile.saving(saved),
        ("H5Dcreate2 in one HDF5 file instead of a new file", "tar cf all.tar DIRECTORY  # and read from it"),
    )


def _long(profile: Profile, rows: Bools) -> Bools:
    meta = profile.seconds("meta_seconds")
    return rows & (meta > 0) & ((meta > LONG_SECONDS) | (meta >= METADATA_BOUND * profile.spent))


def _shared_metadata(profile: Profile) -> Seen | None:
    rows = _long(profile, profile.counted & profile.shared)
    if profile.nprocs < 2 or not rows.any():
        return None
    keep = min(1.0, profile.nodes / profile.nprocs)
    saved = np.where(rows, _opening_seconds(profile) * (1.0 - keep), 0.0)
    longest = float(profile.seconds("meta_seconds")[rows].max())
    files = len(np.unique(profile.records.file[rows]))
    which = "a shared file" if files == 1 else f"{files:,} shared files"
    evidence = f"all processes open {which}; up to {format_seconds(longest)} of metadata on one, all processes together"
    hint = 'MPI_Info_set(info, "romio_no_indep_rw", "true");'
    opened = "MPI_File_open(MPI_COMM_WORLD, path, ..., info, &f);"
    # What is only read, and fits a process, is best read by one.
    moved = float(profile.ints("read_bytes")[rows].sum(dtype=np.float64)) / profile.nprocs
    read_only = not profile.ints("write_bytes")[rows].any() and moved <= BROADCAST_BYTES
    by_mpiio = bool(profile.records.mpiio[rows].any())
    lines = (hint,) if by_mpiio else BROADCAST if read_only else (opened, hint)
    return Seen(evidence, profile.saving(saved), lines)


def _reopened(profile: Profile) -> Seen | None:
    again = _again(profile)
    rows = profile.counted & (profile.ints("open_count") >= AGAIN * profile.first_opens) & (again > 0)
    repeated = int(again[rows].sum())
    if repeated <= MANY_OPENS:
        return None
    saved = np.where(rows, profile.seconds("meta_seconds") * ratio(2.0 * again, _calls(profile)), 0.0)
    files = len(np.unique(profile.records.file[rows]))
    evidence = f"{repeated:,} opens of {files:,} file{'s' if files != 1 else ''} that the process had opened before"
    return Seen(evidence, profile.saving(saved), ("fd = open(path, flags); /* once, before the loop */",))


def _seeks(profile: Profile) -> Seen | None:
    calls = profile.operations
    seeks = profile.ints("seek_count")
    # Streams seek in their own buffer.
    rows = profile.counted & ~profile.records.stdio
    done, sought = int(calls[rows].sum()), int(seeks[rows].sum())
    if done < FEWEST_OPERATIONS or sought < SEEKS_PER_OPERATION * done:
        return None
    saved = np.where(rows, profile.seconds("meta_seconds") * ratio(seeks.astype(np.float64), _calls(profile)), 0.0)
    evidence = f"{sought:,} seeks for {done:,} reads and writes"
    lines = ("pread(fd, buffer, bytes, offset);", "pwrite(fd, buffer, bytes, offset);")
    return Seen(evidence, profile.saving(saved), lines)


METADATA_RULES: Final = (
    Rule("file_per_process", "file per process", "metadata", "at least one file of its own per process",
         "metadata time of first opens, less what one shared file needs: made once, opened by each node to read",
         _file_per_process),
    Rule("many_files", "many files", "metadata",
         "8 files or more for each process with any, few of many processes; metadata over 30 s or half the time",
         "metadata time of first opens, if each of these processes had one file", _many_files),
    Rule("shared_metadata", "opened by all", "metadata",
         "metadata over 30 s, or half of the time, on a file shared by all",
         "metadata time of first opens, if one process per node opened instead of all", _shared_metadata),
    Rule("reopening", "opened again", "metadata",
         "more than 100 opens beyond the first of each process, on files opened twice or more",
         "metadata time, by the share of its calls that open or close again", _reopened),
    Rule("seeks", "seek per request", "metadata", "0.9 seeks or more per read and write, of 100 or more",
         "metadata time, by the share of its calls that seek", _seeks),
)  # fmt: skip
