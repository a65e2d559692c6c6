"""Requests of the program: small, scattered, off their blocks, made twice."""

from __future__ import annotations

from typing import Final

import numpy as np

from ioweather.advice.advisor.costs import FEWEST, JOINED_BYTES, find_small, joined, order_share, rate_words
from ioweather.advice.advisor.fixes import (
    aligned,
    collective_calls,
    in_order,
    interface_of,
    kept_in_memory,
    larger_requests,
    main_verb,
)
from ioweather.advice.advisor.profile import VERBS, Profile, Verb, ratio
from ioweather.advice.advisor.rule import Seen
from ioweather.core.arrays import Floats
from ioweather.core.units import GIB, MIB, format_bytes, format_value
from ioweather.derive.jobs.file_records import NEVER_LAST, maximum


def small_requests(profile: Profile) -> Seen | None:
    """Requests under 1 MiB, wherever they are made: by the program, or by MPI-IO below it."""
    rows = profile.at_storage & ~profile.records.stdio
    if (found := find_small(profile, rows)) is None:
        return None
    mine = profile.counted & ~profile.collective & ~profile.records.stdio
    # On a file shared by all a process can itself join only what lies one behind the other.
    behind = profile.ints("consecutive_read_count") + profile.ints("consecutive_write_count")
    own = np.where(profile.shared & (profile.nprocs > 1), np.minimum(ratio(behind, profile.operations), 1.0), 1.0)
    seconds = profile.saving(np.where(mine, joined(profile, JOINED_BYTES) * own, 0.0))
    made = mine & rows if (mine & rows & profile.moved_rows).any() else rows
    interface = interface_of(profile, made, profile.operations)
    verb = main_verb(profile, rows)
    larger = larger_requests if (mine & rows).any() else collective_calls
    lines = larger(profile, interface, verb)
    return Seen(f"{found.words}; {rate_words(profile, rows)}", seconds, lines)


UNALIGNED_SHARE: Final = 0.1


def unaligned_file(profile: Profile) -> Seen | None:
    """Requests that begin off the file system's blocks."""
    rows = profile.records.posix & profile.records.known("file_not_aligned_count") & (profile.operations > 0)
    total, off = int(profile.operations[rows].sum()), int(profile.ints("file_not_aligned_count")[rows].sum())
    if total < FEWEST or off <= UNALIGNED_SHARE * total:
        return None
    moved = profile.moved.astype(np.float64)
    blocks = ratio(ratio(moved, profile.operations), profile.ints("file_alignment_bytes"))
    # Off its blocks a request of s bytes touches 1 + s / A of them on average, else the next whole number of s / A.
    extra = np.maximum(1.0 - np.ceil(blocks) / (1.0 + blocks), 0.0)
    share = np.minimum(ratio(profile.ints("file_not_aligned_count"), profile.operations), 1.0)
    data = profile.data_seconds
    block = int(profile.ints("file_alignment_bytes")[rows].max())
    interface = interface_of(profile, rows, profile.operations)
    part = format_value(min(off / total, 1.0), "ratio")
    evidence = f"{part} of {total:,} requests begin off the blocks of {format_bytes(block)}"
    saved = profile.lifted(np.where(rows, data * share * extra, 0.0))
    return Seen(evidence, profile.saving(saved), aligned(profile, interface, block))


# One more copy in memory.
COPY_BYTES_PER_S: Final = 5.0 * GIB


def unaligned_memory(profile: Profile) -> Seen | None:
    """Buffers that begin off their alignment in memory: the kernel copies them once more."""
    rows = profile.counted & profile.records.posix & (profile.operations > 0)
    total, off = int(profile.operations[rows].sum()), int(profile.ints("memory_not_aligned_count")[rows].sum())
    if total < FEWEST or off <= UNALIGNED_SHARE * total:
        return None
    moved = profile.moved.astype(np.float64)
    share = np.minimum(ratio(profile.ints("memory_not_aligned_count"), profile.operations), 1.0)
    data = profile.data_seconds
    saved = np.where(rows, np.minimum(moved * share / COPY_BYTES_PER_S, data), 0.0)
    part = format_value(min(off / total, 1.0), "ratio")
    evidence = f"{part} of {total:,} buffers begin off their alignment in memory"
    return Seen(evidence, profile.saving(saved), ("posix_memalign(&buffer, 4096, bytes);",))


STDIO_SHARE: Final = 0.1

STREAMED_BYTES: Final = MIB


def stdio(profile: Profile) -> Seen | None:
    """Data through streams: fread and fwrite."""
    rows = profile.counted & profile.records.stdio
    moved = profile.moved.astype(np.float64)
    streamed = float(moved[rows].sum())
    if streamed < STREAMED_BYTES or streamed <= STDIO_SHARE * profile.moved_bytes:
        return None
    saved = np.zeros(len(rows))
    for verb in VERBS:
        saved += profile.request_overhead(verb) * profile.ints(f"{verb}_count")
    part = format_value(min(streamed / profile.moved_bytes, 1.0), "ratio")
    evidence = f"{part} of the bytes go through streams (fread, fwrite); {rate_words(profile, rows)}"
    lines = larger_requests(profile, "STDIO", main_verb(profile, rows))
    return Seen(evidence, profile.saving(np.where(rows, saved, 0.0)), lines)


RANDOM_SHARE: Final = 0.2


def random_access(profile: Profile) -> Seen | None:
    """Requests that go back in the file."""
    rows = profile.records.posix
    saved = np.zeros(len(rows))
    random, total = 0, int(profile.operations[rows].sum())
    for verb in VERBS:
        count = profile.ints(f"{verb}_count")
        # The first request of a process on a file follows none.
        first = np.minimum(profile.first_opens, count)
        beyond = np.maximum(count - profile.ints(f"sequential_{verb}_count") - first, 0)
        jumps = np.where(profile.records.known(f"sequential_{verb}_count"), beyond, 0)
        saved += profile.request_overhead(verb) * jumps * order_share(profile, verb)
        random += int(jumps[rows].sum())
    if random < FEWEST or random <= RANDOM_SHARE * total:
        return None
    evidence = f"{random:,} of {total:,} requests go back in the file; {rate_words(profile, rows)}"
    seconds = profile.saving(profile.lifted(np.where(rows, saved, 0.0)))
    return Seen(evidence, seconds, in_order(profile, main_verb(profile, rows)))


STRIDED_SHARE: Final = 0.5


def strided(profile: Profile) -> Seen | None:
    """Small requests that leave gaps, always forward: interleaved processes, columns of a matrix."""
    moved = profile.moved
    rows = profile.records.posix & (moved < MIB * profile.operations)
    saved = np.zeros(len(rows))
    gaps, total = 0, int(profile.operations[rows].sum())
    for verb in VERBS:
        forward = profile.ints(f"sequential_{verb}_count") - profile.ints(f"consecutive_{verb}_count")
        known = profile.records.known(f"consecutive_{verb}_count")
        # The first request of each process counts as none that followed.
        skipped = np.where(known, np.maximum(forward - profile.first_opens + 1, 0), 0)
        # What MPI-IO made of the program's calls is `mpiio_splits`.
        saved += np.where(profile.below, 0.0, profile.request_overhead(verb) * skipped * order_share(profile, verb))
        gaps += int(skipped[rows].sum())
    if gaps < FEWEST or gaps <= STRIDED_SHARE * total:
        return None
    evidence = f"{gaps:,} of {total:,} requests, under 1 MiB on average, leave a gap to the one before"
    interface = interface_of(profile, rows, profile.operations)
    verb = main_verb(profile, rows)
    lines = collective_calls(profile, interface, verb) if profile.parallel else in_order(profile, verb)
    return Seen(evidence, profile.saving(np.where(rows, saved, 0.0)), lines)


REPEATED_SHARE: Final = 0.1
FEWEST_REPEATED_BYTES: Final = MIB
# Programs of 32 bits cannot name a higher byte: an extent that ends there is none.
_LAST_OF_32_BITS: Final = 1 << 31


def _repeated(profile: Profile, verb: Verb) -> tuple[float, float, float]:
    """(seconds, bytes moved more than once, bytes of these files)."""
    records = profile.records
    moved = records.per_file(profile.ints(f"{verb}_bytes"), profile.counted)
    known = records.known(f"{verb}_extent_bytes") & (profile.ints(f"{verb}_extent_bytes") != _LAST_OF_32_BITS)
    # MPI-IO has no extents: those of the POSIX calls below stand for it.
    extent = maximum(profile.ints(f"{verb}_extent_bytes"), records.file, records.files, known)
    again = np.where(extent == NEVER_LAST, 0.0, np.maximum(moved - np.maximum(extent, 0).astype(np.float64), 0.0))
    share = ratio(again, moved)
    often = share > REPEATED_SHARE
    if again[often].sum() < FEWEST_REPEATED_BYTES:
        return 0.0, 0.0, 0.0
    saved = profile.seconds(f"{verb}_seconds") * np.where(often, share, 0.0)[records.file]
    return profile.saving(saved), float(again[often].sum()), float(moved[often].sum())


def redundant_reads(profile: Profile) -> Seen | None:
    """The same bytes read more than once, by one process or several."""
    seconds, again, moved = _repeated(profile, "read")
    if not again:
        return None
    shared = profile.nprocs > 1 and bool((profile.shared & profile.counted & (profile.ints("read_bytes") > 0)).any())
    lines = kept_in_memory(profile, shared)
    evidence = f"{format_bytes(again)} of {format_bytes(moved)} were read before, by this process or another"
    return Seen(evidence, seconds, lines)


def redundant_writes(profile: Profile) -> Seen | None:
    """Bytes written over what was just written."""
    seconds, again, moved = _repeated(profile, "write")
    if not again:
        return None
    evidence = f"{format_bytes(again)} of {format_bytes(moved)} were written over what was written"
    return Seen(evidence, seconds, ("change it in memory, write it once",))


SWITCH_SHARE: Final = 0.1

MANY: Final = 1000


def read_write_switches(profile: Profile) -> Seen | None:
    """Reading and writing in turns."""
    rows = profile.counted & (profile.operations > 0)
    total, switches = int(profile.operations[rows].sum()), int(profile.ints("switch_count")[rows].sum())
    if switches <= MANY or switches <= SWITCH_SHARE * total:
        return None
    each: Floats = np.maximum(profile.request_overhead("read"), profile.request_overhead("write"))
    saved = np.where(rows, each * np.minimum(profile.ints("switch_count"), profile.operations), 0.0)
    evidence = f"{switches:,} changes between reading and writing in {total:,} requests"
    return Seen(evidence, profile.saving(saved), ("read all of a block first, then write all of it",))


def shared_file(profile: Profile) -> Seen | None:
    """Many requests of several processes to one file: they wait for each other's locks."""
    # Where collective MPI-IO sends no more on than it got, its aggregators do not meet.
    records = profile.records
    asked = records.per_file(profile.operations, profile.counted & profile.collective)
    done = records.per_file(profile.operations, records.posix)
    joined_by_mpiio = (asked > 0) & (done < asked)
    rows = profile.at_storage & profile.shared & ~joined_by_mpiio[records.file]
    count = int(profile.operations[rows].sum())
    if not profile.parallel or count < FEWEST:
        return None
    files = profile.files_moved(rows & (profile.operations > 0))
    which = "one file" if files == 1 else f"{files:,} files"
    off = int(profile.ints("file_not_aligned_count")[rows].sum())
    locks = f", {format_value(min(off / count, 1.0), 'ratio')} of them off its blocks" if off else ""
    evidence = f"{count:,} requests of {profile.nprocs:,} processes to {which} that all share{locks}"
    interface = interface_of(profile, rows, profile.operations)
    return Seen(evidence, 0.0, collective_calls(profile, interface, main_verb(profile, rows)))


SYNCS_PER_WRITE: Final = 0.5


def fsync_storm(profile: Profile) -> Seen | None:
    """A sync after nearly every write: each waits for the device."""
    rows = profile.counted & ~profile.records.stdio
    syncs, writes = profile.ints("sync_count"), profile.ints("write_count")
    made, written = int(syncs[rows].sum()), int(writes[rows].sum())
    gone = np.maximum(np.minimum(syncs, writes) - profile.first_opens, 0)
    if int(gone[rows].sum()) < FEWEST or made < SYNCS_PER_WRITE * written:
        return None
    # Darshan counts a sync as writing.
    saved = np.where(rows, profile.request_overhead("write") * gone, 0.0)
    evidence = f"{made:,} syncs for {written:,} writes"
    line = "os.fsync(fd)  # once, after the loop" if profile.python else "fsync(fd); /* once, after the loop */"
    return Seen(evidence, profile.saving(saved), (line,))
