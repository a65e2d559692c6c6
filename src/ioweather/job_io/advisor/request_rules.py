"""Rules on requests: small, scattered, unaligned, repeated; and on metadata: many opens, many files.

A rule is one function: it returns None if its pattern is not there, else evidence, seconds and the lines to type. The
thresholds are those that rules.toml gives as `trigger`.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from ioweather.core.frames import Bools, Floats, Ints
from ioweather.core.units import GIB, MIB, NS, format_bytes, format_seconds, format_value
from ioweather.facts.job_metrics import NEVER_LAST, maximum, ratio
from ioweather.facts.runs import METADATA_BOUND, SEEKS_PER_OPERATION
from ioweather.job_io.advisor import fixes
from ioweather.job_io.advisor.fixes import Pattern
from ioweather.job_io.advisor.profile import NOTICEABLE_SHARE, VERBS, Profile, Verb

# Drishti's: metadata time on one record.
_LONG_SECONDS: Final = 30.0
# A seek moves a position in memory; on machines whose nodes forward calls it takes some microseconds.
SEEK_SECONDS: Final = 10e-6
# From this many seeks for each open, close and stat, seeks are nearly all metadata calls of a row. [ours]
_MOSTLY_SEEKS: Final = 10


def find_small_requests(profile: Profile) -> Pattern | None:
    """Find requests under 1 MiB, of the program or of MPI-IO below it."""
    rows = profile.at_storage & ~profile.records.stdio
    if (found := fixes.describe_small(profile, rows)) is None:
        return None
    mine = profile.counted & ~profile.collective & ~profile.records.stdio
    # On a file shared by all, a process itself can only join consecutive requests; those of MPI-IO show below it.
    behind = (profile.ints("consecutive_read_count") + profile.ints("consecutive_write_count")).astype(np.float64)
    in_order = ratio(behind, profile.operations)
    posix = profile.records.posix
    below = ratio(*(profile.records.per_file(count, posix) for count in (behind, profile.operations)))
    in_order = np.where(profile.records.mpiio, below[profile.records.file], in_order)
    own = np.where(profile.shared & (profile.nprocs > 1), np.minimum(in_order, 1.0), 1.0)
    seconds = profile.saving(np.where(mine, fixes.seconds_saved_by_joining(profile, fixes.JOINED_BYTES) * own, 0.0))
    made = mine & rows if (mine & rows & profile.moved_rows).any() else rows
    interface = fixes.interface_of(profile, made, profile.operations)
    lines = fixes.request_lines(profile, "larger" if (mine & rows).any() else "collective", rows, interface)
    return Pattern(f"{found}; {fixes.describe_rate(profile, rows)}", seconds, lines, rows)


def find_unaligned_file(profile: Profile) -> Pattern | None:
    """Find requests that do not begin at a block of the file system."""
    off = profile.ints("file_not_aligned_count")
    rows = profile.records.posix & profile.records.known("file_not_aligned_count") & (profile.operations > 0)
    total, count = int(profile.operations[rows].sum()), int(off[rows].sum())
    if total < fixes.FEWEST or count <= 0.1 * total:
        return None
    blocks = ratio(ratio(profile.moved, profile.operations), profile.ints("file_alignment_bytes"))
    # An unaligned request of s bytes touches 1 + s / A blocks on average, an aligned one ceil(s / A).
    extra = np.maximum(1.0 - np.ceil(blocks) / (1.0 + blocks), 0.0)
    share = np.minimum(ratio(off, profile.operations), 1.0)
    block = int(profile.ints("file_alignment_bytes")[rows].max())
    part = format_value(min(count / total, 1.0), "ratio")
    evidence = f"{part} of {total:,} requests are not aligned to {format_bytes(block)} blocks"
    saved = profile.as_mpiio_savings(np.where(rows, profile.data_seconds * share * extra, 0.0))
    return Pattern(evidence, profile.saving(saved), fixes.alignment_lines(profile, rows, block), rows)


def find_stdio(profile: Profile) -> Pattern | None:
    """Find data through streams: fread and fwrite."""
    rows = profile.counted & profile.records.stdio
    streamed = float(profile.moved[rows].sum(dtype=np.float64))
    if streamed < MIB or streamed <= 0.1 * profile.moved_bytes:
        return None
    saved = sum(profile.overhead[verb] * profile.ints(f"{verb}_count") for verb in VERBS)
    part = format_value(min(streamed / profile.moved_bytes, 1.0), "ratio")
    evidence = f"{part} of the bytes go through streams (fread, fwrite); {fixes.describe_rate(profile, rows)}"
    lines = fixes.request_lines(profile, "larger", rows, "STDIO")
    return Pattern(evidence, profile.saving(np.where(rows, saved, 0.0)), lines, rows)


def find_random_access(profile: Profile) -> Pattern | None:
    """Find requests that begin before the end of the one before."""
    rows = profile.records.posix
    saved = np.zeros(len(rows))
    random, total = 0, int(profile.operations[rows].sum())
    for verb in VERBS:
        count = profile.ints(f"{verb}_count")
        # The first request of a process on a file has no predecessor.
        first = np.minimum(profile.first_opens, count)
        beyond = np.maximum(count - profile.ints(f"sequential_{verb}_count") - first, 0)
        jumps = np.where(profile.records.known(f"sequential_{verb}_count"), beyond, 0)
        saved += profile.overhead[verb] * jumps * fixes.order_share(profile, verb)
        random += int(jumps[rows].sum())
    if random < fixes.FEWEST or random <= 0.2 * total:
        return None
    mean = format_bytes(float(profile.moved[rows].sum()) / max(total, 1))
    evidence = (
        f"{random:,} of {total:,} requests (mean {mean}) start before the end of the previous one; "
        f"{fixes.describe_rate(profile, rows)}"
    )
    seconds = profile.saving(profile.as_mpiio_savings(np.where(rows, saved, 0.0)))
    on_shared = int(profile.operations[rows & profile.shared].sum())
    return Pattern(evidence, seconds, fixes.sorting_lines(profile, rows, 2 * on_shared > total), rows)


def find_strided(profile: Profile) -> Pattern | None:
    """Find small requests with gaps between them, always forward: interleaved processes, columns of a matrix."""
    rows = profile.records.posix & (profile.moved < MIB * profile.operations)
    saved = np.zeros(len(rows))
    gaps, total = 0, int(profile.operations[rows].sum())
    for verb in VERBS:
        forward = profile.ints(f"sequential_{verb}_count") - profile.ints(f"consecutive_{verb}_count")
        known = profile.records.known(f"consecutive_{verb}_count")
        # The first request of each process has no predecessor.
        skipped = np.where(known, np.maximum(forward - profile.first_opens + 1, 0), 0)
        # Requests made by MPI-IO belong to `mpiio_splits`.
        saved += np.where(profile.below, 0.0, profile.overhead[verb] * skipped * fixes.order_share(profile, verb))
        gaps += int(skipped[rows].sum())
    if gaps < fixes.FEWEST or gaps <= 0.5 * total:
        return None
    evidence = f"{gaps:,} of {total:,} requests leave a gap after the previous one; their mean size is under 1 MiB"
    lines = fixes.request_lines(profile, "collective", rows) if profile.parallel else fixes.sorting_lines(profile, rows)
    return Pattern(evidence, profile.saving(np.where(rows, saved, 0.0)), lines, rows)


def _find_repeated(profile: Profile, verb: Verb, words: str, lines: tuple[str, ...]) -> Pattern | None:
    """Return the pattern of bytes that were moved more than once; `words` follow their number."""
    records = profile.records
    moved = records.per_file(profile.ints(f"{verb}_bytes"), profile.counted)
    # An extent that ends at the highest offset of 32-bit programs is not a size.
    known = records.known(f"{verb}_extent_bytes") & (profile.ints(f"{verb}_extent_bytes") != 1 << 31)
    # MPI-IO has no extents: those of the POSIX calls below are used.
    extent = maximum(profile.ints(f"{verb}_extent_bytes"), records.file, records.files, known)
    once = np.maximum(extent, 0).astype(np.float64)
    if verb == "write":
        # Each open may truncate the file and write a new version of it, such as a checkpoint.
        opens = profile.ints("open_count") // np.maximum(profile.first_opens, 1)
        once *= np.maximum(maximum(opens, records.file, records.files), 1)
    again = np.where(extent == NEVER_LAST, 0.0, np.maximum(moved - once, 0.0))
    share = ratio(again, moved)
    # A small file that is read twice is no part of it.
    often = (share > 0.1) & (again >= NOTICEABLE_SHARE * again.max(initial=0.0))
    if again[often].sum() < MIB:
        return None
    saved = profile.seconds(f"{verb}_seconds") * np.where(often, share, 0.0)[records.file]
    evidence = f"{format_bytes(float(again[often].sum()))} of {format_bytes(float(moved[often].sum()))} {words}"
    seconds = profile.saving(saved)
    return Pattern(evidence, seconds, lines, often[records.file], most_seconds=seconds)


def find_redundant_reads(profile: Profile) -> Pattern | None:
    """Find the same bytes read more than once, by one process or several."""
    read = profile.shared & profile.counted & (profile.ints("read_bytes") > 0)
    lines = fixes.BROADCAST if profile.nprocs > 1 and read.any() else ("cache the data in memory after the first read",)
    if profile.python or profile.separate:
        lines = (
            "cp -r DATA $TMPDIR  # once per node, read there",
            "functools.lru_cache on the reader of a sample",
        )
    by = ", by this process or another" if profile.nprocs > 1 or profile.separate else ""
    return _find_repeated(profile, "read", f"were read before{by}", lines)


def find_redundant_writes(profile: Profile) -> Pattern | None:
    """Find bytes that overwrite bytes of the same run."""
    lines = ("change it in memory, write it once",)
    return _find_repeated(profile, "write", "overwrote data from the same run", lines)


def find_read_write_switches(profile: Profile) -> Pattern | None:
    """Find reading and writing in turns."""
    rows = profile.counted & (profile.operations > 0)
    total, switches = int(profile.operations[rows].sum()), int(profile.ints("switch_count")[rows].sum())
    if switches <= 1000 or switches <= 0.1 * total:
        return None
    each: Floats = np.maximum(profile.overhead["read"], profile.overhead["write"])
    saved = np.where(rows, each * np.minimum(profile.ints("switch_count"), profile.operations), 0.0)
    evidence = f"{switches:,} changes between reading and writing in {total:,} requests"
    return Pattern(evidence, profile.saving(saved), ("read all of a block first, then write all of it",), rows)


def find_shared_file(profile: Profile) -> Pattern | None:
    """Find many requests of several processes to one file, which wait for each other's locks."""
    # If collective MPI-IO makes fewer requests than its calls, its aggregators do not share blocks.
    records = profile.records
    asked = records.per_file(profile.operations, profile.counted & profile.collective)
    done = records.per_file(profile.operations, records.posix)
    joined_by_mpiio = (asked > 0) & (done < asked)
    rows = profile.at_storage & profile.shared & ~joined_by_mpiio[records.file]
    count = int(profile.operations[rows].sum())
    if not profile.parallel or count < fixes.FEWEST:
        return None
    which = fixes.describe_count(profile.files_in(rows & (profile.operations > 0)), "one file", "files")
    off = int(profile.ints("file_not_aligned_count")[rows].sum())
    locks = f", {format_value(min(off / count, 1.0), 'ratio')} of them not aligned to file system blocks" if off else ""
    evidence = f"{profile.nprocs:,} processes send {count:,} requests to {which} that all processes share{locks}"
    return Pattern(evidence, 0.0, fixes.request_lines(profile, "collective", rows), rows)


def find_fsync_storm(profile: Profile) -> Pattern | None:
    """Find a sync after nearly every write: each waits for the device."""
    rows = profile.counted & ~profile.records.stdio
    syncs, writes = profile.ints("sync_count"), profile.ints("write_count")
    made, written = int(syncs[rows].sum()), int(writes[rows].sum())
    gone = np.maximum(np.minimum(syncs, writes) - profile.first_opens, 0)
    if int(gone[rows].sum()) < fixes.FEWEST or made < 0.5 * written:
        return None
    # Darshan counts a sync as writing.
    saved = np.where(rows, profile.overhead["write"] * gone, 0.0)
    evidence = f"{made:,} syncs for {written:,} writes"
    line = "os.fsync(fd)  # once, after the loop" if profile.python else "fsync(fd); /* once, after the loop */"
    return Pattern(evidence, profile.saving(saved), (line,), rows)


def _find_often_flushed(profile: Profile) -> Bools:
    """Return records of streams that are flushed often: Darshan counts the time of a flush as metadata."""
    return profile.counted & profile.records.stdio & (profile.ints("sync_count") >= fixes.FEWEST)


def find_flushed_streams(profile: Profile) -> Pattern | None:
    """Find streams that are flushed after each few lines, such as logs and tables of text."""
    flushes = profile.ints("sync_count")
    mean = ratio(profile.ints("write_bytes").astype(np.float64), np.maximum(flushes, 1))
    rows = _find_often_flushed(profile) & (mean < MIB) & (profile.ints("write_count") > 0)
    if not rows.any():
        return None
    # One flush per process stays; what a flush costs is waited for in writes too, where the buffer is full.
    spent = profile.seconds("write_seconds") + profile.seconds("meta_seconds")
    saved = np.where(rows, spent * (1.0 - ratio(profile.first_opens, flushes)), 0.0)
    worst = int(np.argmax(np.where(rows, spent, -1.0)))
    rank = int(profile.records.rank[worst])
    who = f" by rank {rank:,}" if rank >= 0 and profile.nprocs > 1 else ""
    evidence = (
        f"{int(flushes[worst]):,} flushes of {format_bytes(float(mean[worst]))} each{who}: "
        f"{format_seconds(float(spent[worst]))} to write {format_bytes(int(profile.ints('write_bytes')[worst]))}"
    )
    lines = ("setvbuf(file, NULL, _IOFBF, 4 << 20);", "fflush(file); /* rarely: at the end of a phase */")
    if profile.python:
        lines = ("open(path, 'w', buffering=4 << 20)", "file.flush()  # rarely: at the end of a phase")
    return Pattern(evidence, profile.saving(saved), lines, rows)


# The metadata time of a row is divided by its calls: two for each open (open and close), one for each stat and seek.
# A seek sends nothing to a server: what it does not need is time of the other calls. First opens and stats, repeated
# opens, and seeks are separate parts, so that rules do not overlap. close() flushes, and Darshan counts it as metadata:
# part of the time may be writing.


def _estimate_seek_seconds(profile: Profile) -> Floats:
    """Return the time of the seeks of a row: the mean of its metadata calls each, at most `SEEK_SECONDS`."""
    seeks = profile.ints("seek_count").astype(np.float64)
    calls = 2 * profile.ints("open_count") + profile.ints("stat_count") + seeks
    each = ratio(profile.seconds("meta_seconds"), calls)
    # A seek in a stream may write its buffer.
    return seeks * np.where(profile.records.stdio, each, np.minimum(each, SEEK_SECONDS))


def _estimate_call_seconds(profile: Profile) -> Floats:
    """Return the time of an open, close or stat of a row: its metadata time without seeks, over these calls.

    If nearly all of its metadata calls are seeks, the log does not show which of them took long. Then opens and closes
    have at most the time before, between and after its reads and writes.
    """
    calls = 2 * profile.ints("open_count") + profile.ints("stat_count")
    seconds = profile.seconds("meta_seconds") - _estimate_seek_seconds(profile)
    mostly_seeks = profile.ints("seek_count") >= _MOSTLY_SEEKS * np.maximum(calls, 1)
    limit = profile.first_opens * _measure_seconds_outside_data(profile)
    seconds = np.where(mostly_seeks, np.fmin(seconds, limit), seconds)
    return ratio(seconds, calls.astype(np.float64))


def _measure_seconds_outside_data(profile: Profile) -> Floats:
    """Return the seconds from first open to last close of a row without the spans of its reads and writes; NaN where
    these times are not known."""
    names = ("last_close_ns", "first_read_ns", "last_read_ns", "first_write_ns", "last_write_ns")
    opened, is_known = profile.ints("first_open_ns"), profile.records.known("first_open_ns")
    closed, read, read_end, write, write_end = (
        np.where(is_known & profile.records.known(name), (profile.ints(name) - opened) / NS, np.nan) for name in names
    )
    both = np.fmax(np.minimum(read_end, write_end) - np.maximum(read, write), 0.0)
    data = np.nan_to_num(read_end - read) + np.nan_to_num(write_end - write) - both
    outside: Floats = np.maximum(closed - data, 0.0)
    return outside


def _count_opened_again(profile: Profile) -> Floats:
    """Return opens beyond the first of each process."""
    again: Ints = np.maximum(profile.ints("open_count") - profile.first_opens, 0)
    return again.astype(np.float64)


def _estimate_opening_seconds(profile: Profile) -> Floats:
    """Return the metadata time of first opens and stats; all of it for rows without recorded calls."""
    calls = 2 * profile.ints("open_count") + profile.ints("stat_count") - 2.0 * _count_opened_again(profile)
    unknown = (profile.ints("open_count") + profile.ints("stat_count") + profile.ints("seek_count")) == 0
    return np.where(unknown, profile.seconds("meta_seconds"), calls * _estimate_call_seconds(profile))


def _sum_metadata_and_all_seconds(profile: Profile, rows: Bools) -> tuple[float, float]:
    """Return the metadata time and all time of these rows."""
    return float(profile.seconds("meta_seconds")[rows].sum()), float(profile.spent[rows].sum())


def find_seeks(profile: Profile) -> Pattern | None:
    """Find a seek with every read or write: an additional system call for each."""
    sought = profile.ints("seek_count")
    # Streams seek in their buffers.
    rows = profile.counted & ~profile.records.stdio
    done, count = int(profile.operations[rows].sum()), int(sought[rows].sum())
    if done < fixes.FEWEST or count < SEEKS_PER_OPERATION * done:
        return None
    # No seek costs more than where it is cheapest: opens of other files cost what they cost.
    each = ratio(_estimate_seek_seconds(profile), sought.astype(np.float64))
    saved = np.where(rows, sought * each[rows & (sought > 0)].min(initial=np.inf), 0.0)
    lines = ("pread(fd, buffer, bytes, offset);", "pwrite(fd, buffer, bytes, offset);")
    if profile.python:
        lines = ("os.pread(fd, count, offset)", "os.pwrite(fd, data, offset)")
    return Pattern(f"{count:,} seeks for {done:,} reads and writes", profile.saving(saved), lines, rows)


def find_metadata_storm(profile: Profile) -> Pattern | None:
    """Find more opens and stats than reads and writes, or most of the time in them."""
    rows = profile.counted & ~profile.records.mpiio & ~_find_often_flushed(profile)
    opens, stats = profile.ints("open_count"), profile.ints("stat_count")
    # One open and one stat of each process on a shared file do not count.
    free = np.where(profile.shared & (profile.nprocs > 1), 2 * profile.first_opens, 0)
    calls = int(np.maximum(opens + stats - free, 0)[rows].sum())
    requests = int(profile.operations[rows].sum())
    meta, spent = _sum_metadata_and_all_seconds(profile, rows)
    if calls < fixes.FEWEST or (calls < requests and meta < 0.3 * spent):
        return None
    time = f"; {format_value(meta / spent, 'ratio')} of the I/O time" if spent > 0 else ""
    least, files = "at least " if profile.incomplete else "", profile.files_in(rows)
    evidence = f"{least}{calls:,} opens and stats for {requests:,} reads and writes on {files:,} files{time}"
    again = np.maximum(stats - profile.first_opens, 0)
    saved = np.where(rows, again * _estimate_call_seconds(profile), 0.0)
    return Pattern(evidence, profile.saving(saved), fixes.packing_lines(profile), rows)


def find_file_per_process(profile: Profile) -> Pattern | None:
    """Find at least one own file for each process, with costly creation."""
    files = int(profile.row["unique_file_count"] or 0)
    if not profile.parallel or files < profile.nprocs:
        return None
    rows = profile.opened & (profile.records.rank >= 0) & ~profile.shared
    meta, spent = _sum_metadata_and_all_seconds(profile, rows)
    if files < 1000 and meta < 0.1 * spent and meta <= _LONG_SECONDS:
        return None
    # Each N files become one, which is created once and opened by every node that reads it. Creation is the cost: with
    # existing files the 728 s of car11 VI became 25 s.
    keep = math.ceil(files / profile.nprocs) / files
    written = profile.ints("write_bytes") > 0
    share = np.where(written, keep, min(1.0, keep * min(profile.nodes, profile.nprocs)))
    saved = np.where(rows, _estimate_opening_seconds(profile) * (1.0 - share), 0.0)
    part = f"; metadata takes {format_value(meta / spent, 'ratio')} of their time" if spent > 0 else ""
    holders = len(np.unique(profile.records.rank[rows]))
    whose = f"used by one process each, {format_value(files / profile.nprocs)} per process"
    if profile.incomplete and holders < profile.nprocs:
        whose = f"of {holders:,} of {profile.nprocs:,} processes; the other processes' files are not recorded"
    verb = fixes.main_verb(profile, rows)
    lines = ("MPI_File_open(MPI_COMM_WORLD, one_path, ...);", f"MPI_File_{verb}_at_all(file, rank * bytes, ...);")
    return Pattern(f"{files:,} files {whose}{part}", profile.saving(saved), lines, rows)


def find_many_files(profile: Profile) -> Pattern | None:
    """Find several files for each process that has any, although fewer files than processes."""
    # A stream that is flushed has a rule of its own.
    rows = profile.opened & (profile.records.rank >= 0) & ~profile.shared & ~_find_often_flushed(profile)
    files, holders = profile.files_in(rows), len(np.unique(profile.records.rank[rows]))
    per_process = profile.parallel and profile.nprocs <= (profile.row["unique_file_count"] or 0)
    if per_process or files < 8 * holders or not files:
        return None
    meta, spent = _sum_metadata_and_all_seconds(profile, rows)
    if meta <= 0 or (meta < METADATA_BOUND * spent and meta <= _LONG_SECONDS):
        return None
    saved = np.where(rows, _estimate_opening_seconds(profile) * (1.0 - holders / files), 0.0)
    who = fixes.describe_count(holders, "one process", "processes")
    evidence = f"{files:,} files of {who}; metadata takes {format_value(meta / spent, 'ratio')} of their time"
    return Pattern(evidence, profile.saving(saved), fixes.packing_lines(profile), rows)


def find_small_files(profile: Profile) -> Pattern | None:
    """Find many small files: opening takes longer than reading."""
    records = profile.records
    moved = records.per_file(profile.moved, profile.counted)
    processes = records.per_file(np.where(profile.counted, profile.first_opens, 0))
    # The size is the extent, not the bytes moved: a file that is read in every epoch is still small.
    ends = np.maximum(profile.ints("read_extent_bytes"), profile.ints("write_extent_bytes"))
    extent = records.per_file(ends, profile.counted)
    size = np.where(extent > 0, ratio(extent, np.maximum(processes, 1)), moved)
    small = (moved > 0) & (size < MIB)
    count = int(small.sum())
    if count < fixes.FEWEST or count < 0.5 * int((moved > 0).sum()):
        return None
    # The files become shards of 64 MiB for each process.
    shards = math.ceil(float(size[small].sum()) / (64 * MIB)) * max(1, int(profile.row["io_rank_count"] or 0))
    rows = profile.counted & small[records.file]
    saved = np.where(rows, _estimate_opening_seconds(profile) * (1.0 - min(1.0, shards / count)), 0.0)
    least = "at least " if profile.incomplete else ""
    evidence = f"{least}{count:,} files under 1 MiB, {format_bytes(float(size[small].mean()))} on average"
    return Pattern(evidence, profile.saving(saved), fixes.packing_lines(profile), rows)


def find_shared_metadata(profile: Profile) -> Pattern | None:
    """Find a file that all processes open, at high cost."""
    meta = profile.seconds("meta_seconds")
    rows = profile.counted & profile.shared & (meta > 0)
    rows &= (meta > _LONG_SECONDS) | (meta >= METADATA_BOUND * profile.spent)
    # If one process moves the data, the others wait for it in MPI_File_close.
    by_one = profile.records.per_file(profile.moved_by_one.astype(np.int64))[profile.records.file] > 0
    rows &= ~(profile.records.mpiio & by_one)
    if not profile.parallel or not rows.any():
        return None
    keep = min(1.0, profile.nodes / profile.nprocs)
    saved = np.where(rows, _estimate_opening_seconds(profile) * (1.0 - keep), 0.0)
    which = fixes.describe_count(profile.files_in(rows), "a shared file", "shared files")
    part = format_value(float(meta[rows].sum() / profile.spent[rows].sum()), "ratio")
    longest = format_seconds(float(meta[rows].max()))
    evidence = (
        f"all {profile.nprocs:,} processes open {which}: metadata takes {part} of their time there, up to {longest} "
        "per file, summed over processes"
    )
    lines: tuple[str, ...] = (fixes.hint_line(profile, "romio_no_indep_rw", "true"),)
    if fixes.interface_of(profile, rows, meta) == "HDF5":
        lines = ("H5Pset_all_coll_metadata_ops(fapl, true);", "H5Pset_coll_metadata_write(fapl, true);")
    elif not profile.records.mpiio[rows].any():
        # A file that is only read, and fits into a process, is best read by one.
        read = float(profile.ints("read_bytes")[rows].sum(dtype=np.float64)) / profile.nprocs
        read_only = not profile.ints("write_bytes")[rows].any() and read <= GIB
        lines = fixes.BROADCAST if read_only else ("MPI_File_open(MPI_COMM_WORLD, path, ..., info, &f);", *lines)
    return Pattern(evidence, profile.saving(saved), lines, rows)


def find_reopening(profile: Profile) -> Pattern | None:
    """Find files that are opened and closed in a loop."""
    again = _count_opened_again(profile)
    rows = profile.counted & (profile.ints("open_count") >= 2 * profile.first_opens) & (again > 0)
    count = int(again[rows].sum())
    if count < fixes.FEWEST:
        return None
    saved = np.where(rows, 2.0 * again * _estimate_call_seconds(profile), 0.0)
    which = fixes.describe_count(profile.files_in(rows), "1 file", "files")
    line = "fd = open(path, flags); /* once, before the loop */"
    if profile.python:
        line = "file = open(path, 'rb')  # once, before the loop"
    evidence = f"{count:,} repeated opens of {which} by the same process"
    return Pattern(evidence, profile.saving(saved), (line,), rows)
