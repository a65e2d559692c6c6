"""Rules of single requests: how large, in what order, where they begin, through which interface.

All of them rest on one cost model. A row of a log moved B bytes in n requests in T seconds; at R bytes per second, the
rate of large requests, B alone takes B / R, so that a request costs (T - B / R) / n beyond its bytes. A request that is
joined with others saves that.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ioweather.advice.advisor.fixes import collective_calls, interface_of, larger_requests, main_verb
from ioweather.advice.advisor.profile import VERBS, Profile, ratio
from ioweather.advice.advisor.rule import Rule, Seen
from ioweather.core.arrays import Bools, Floats
from ioweather.core.units import GIB, KIB, MIB, format_bytes, format_value
from ioweather.derive.jobs.signatures import FEWEST_OPERATIONS

# Drishti's thresholds, for a pattern to be seen at all; whether it is said, its seconds decide.
SMALL_SHARE: Final = 0.1
MANY: Final = 1000
RANDOM_SHARE: Final = 0.2
UNALIGNED_SHARE: Final = 0.1
SWITCH_SHARE: Final = 0.1
STDIO_SHARE: Final = 0.1
IMBALANCE: Final = 0.3
# MPI-IO that joins requests sends fewer on than it got.
SAME_COUNT: Final = 0.8

# What small requests are joined to: by hand, and by MPI-IO's aggregators (ROMIO's default buffer).
JOINED_BYTES: Final = 4 * MIB
BUFFER_BYTES: Final = 16 * MIB
# One more copy in memory.
COPY_BYTES_PER_S: Final = 5.0 * GIB
_LARGE_BLOCK: Final = 64 * KIB


def _small(profile: Profile, rows: Bools, joined_bytes: int) -> tuple[float, str] | None:
    """Seconds that joining the small requests of these rows saves, and the evidence."""
    total = int(profile.operations[rows].sum())
    small = sum(int(profile.small_count(verb)[rows].sum()) for verb in VERBS)
    if small <= MANY or small <= SMALL_SHARE * total:
        return None
    saved = np.zeros(len(rows))
    moved = 0.0
    for verb in VERBS:
        count, size = profile.small_count(verb), profile.small_bytes(verb)
        gone = np.maximum(count - np.ceil(size / joined_bytes), 0.0)
        saved += profile.request_overhead(verb) * gone
        moved += float(size[rows].sum())
    evidence = (
        f"{small:,} of {total:,} requests under 1 MiB, {format_bytes(moved / small)} on average{_block(profile, rows)}"
    )
    return profile.saving(np.where(rows, saved, 0.0)), evidence


def _rate_words(profile: Profile, rows: Bools) -> str:
    rate, origin = profile.process_rate(main_verb(profile, rows))
    return f"large ones taken at {format_bytes(rate)}/s ({origin})"


def _block(profile: Profile, rows: Bools) -> str:
    """car11 V.D: 64 KiB writes against a block of 4 MiB."""
    block = int(profile.ints("file_alignment_bytes")[rows].max(initial=0))
    return f"; the file system's block is {format_bytes(block)}" if _LARGE_BLOCK <= block <= GIB else ""


def _small_requests(profile: Profile) -> Seen | None:
    rows = profile.counted & ~profile.shared & ~profile.collective & ~profile.records.stdio
    found = _small(profile, rows, JOINED_BYTES)
    if found is None:
        return None
    interface = interface_of(profile, rows, profile.operations.astype(np.float64))
    evidence = f"{found[1]}; {_rate_words(profile, rows)}"
    return Seen(evidence, found[0], larger_requests(interface, main_verb(profile, rows)))


def _each_for_itself(profile: Profile, rows: Bools, all_of_them: str, small_ones: str) -> Seen | None:
    """Many requests of single processes on files that all share: together they could be few and large."""
    operations = int(profile.operations[rows].sum())
    if profile.nprocs < 2 or operations <= MANY:
        return None
    evidence, seconds = f"{operations:,} {all_of_them}", 0.0
    if (found := _small(profile, rows, BUFFER_BYTES)) is not None:
        seconds = found[0]
        evidence = f"{found[1]}, {small_ones}; {_rate_words(profile, rows)}"
    interface = interface_of(profile, rows, profile.operations.astype(np.float64))
    return Seen(evidence, seconds, collective_calls(interface, main_verb(profile, rows)))


def _no_mpiio(profile: Profile) -> Seen | None:
    rows = profile.counted & profile.shared & (profile.records.posix | profile.records.stdio)
    if not profile.moved_rows[rows].any():
        return None
    return _each_for_itself(profile, rows, "requests of all processes on shared files, without MPI-IO",
                            "on files shared by all, without MPI-IO")  # fmt: skip


def _no_collectives(profile: Profile) -> Seen | None:
    rows = profile.counted & profile.records.mpiio & ~profile.collective & profile.shared
    return _each_for_itself(profile, rows, "independent MPI-IO operations on shared files",
                            "by independent MPI-IO on shared files")  # fmt: skip


def _unbuffered(profile: Profile) -> Seen | None:
    """Collective calls that reach the file system as they were made: their aggregators join nothing."""
    rows = profile.counted & profile.collective
    below = profile.records.per_file(profile.operations, profile.records.posix)[profile.records.file]
    rows &= below >= SAME_COUNT * np.maximum(
        profile.records.per_file(profile.operations, rows)[profile.records.file], 1
    )
    if (found := _small(profile, rows, BUFFER_BYTES)) is None:
        return None
    verb = main_verb(profile, rows)
    lines = (
        f'MPI_Info_set(info, "romio_cb_{verb}", "enable");',
        f'MPI_Info_set(info, "cb_buffer_size", "{BUFFER_BYTES}");',
    )
    evidence = f"{found[1]}, collective, and as many at the file system; {_rate_words(profile, rows)}"
    return Seen(evidence, found[0], lines)


def _random(profile: Profile) -> Seen | None:
    rows = profile.counted & profile.records.posix
    saved = np.zeros(len(rows))
    random, total = 0, int(profile.operations[rows].sum())
    for verb in VERBS:
        count = profile.ints(f"{verb}_count")
        # The first request of a process on a file follows none.
        first = np.minimum(profile.first_opens, count)
        jumps = np.where(profile.records.known(f"sequential_{verb}_count"),
                         np.maximum(count - profile.ints(f"sequential_{verb}_count") - first, 0), 0)  # fmt: skip
        saved += profile.request_overhead(verb) * jumps
        random += int(jumps[rows].sum())
    if random <= MANY or random <= RANDOM_SHARE * total:
        return None
    verb = main_verb(profile, rows)
    lines = (f"sort by offset, then {verb} in that order", f'MPI_Info_set(info, "romio_cb_{verb}", "enable");')
    return Seen(
        f"{random:,} of {total:,} requests go back in the file; {_rate_words(profile, rows)}",
        profile.saving(np.where(rows, saved, 0.0)),
        lines,
    )


def _unaligned_file(profile: Profile) -> Seen | None:
    rows = profile.counted & profile.records.posix & profile.records.known("file_not_aligned_count")
    rows &= profile.operations > 0
    total, off = int(profile.operations[rows].sum()), int(profile.ints("file_not_aligned_count")[rows].sum())
    if total < FEWEST_OPERATIONS or off <= UNALIGNED_SHARE * total:
        return None
    moved = (profile.ints("read_bytes") + profile.ints("write_bytes")).astype(np.float64)
    blocks = ratio(ratio(moved, profile.operations), profile.ints("file_alignment_bytes"))
    # Off its blocks a request of s bytes touches 1 + s / A of them on average, else the next whole number of s / A.
    extra = np.maximum(1.0 - np.ceil(blocks) / (1.0 + blocks), 0.0)
    share = np.minimum(ratio(profile.ints("file_not_aligned_count"), profile.operations), 1.0)
    data = profile.seconds("read_seconds") + profile.seconds("write_seconds")
    block = int(profile.ints("file_alignment_bytes")[rows].max())
    interface = interface_of(profile, rows, profile.operations.astype(np.float64))
    lines = {
        "HDF5": (f"H5Pset_alignment(fapl, 1 << 20, {block});",),
        "PnetCDF": (f'MPI_Info_set(info, "nc_var_align_size", "{block}");',),
    }.get(interface, (f"begin each request at a multiple of {block} bytes",))
    part = format_value(off / total, "ratio")
    evidence = f"{part} of {total:,} requests begin off the blocks of {format_bytes(block)}"
    return Seen(evidence, profile.saving(np.where(rows, data * share * extra, 0.0)), lines)


def _unaligned_memory(profile: Profile) -> Seen | None:
    rows = profile.counted & profile.records.posix & (profile.operations > 0)
    total, off = int(profile.operations[rows].sum()), int(profile.ints("memory_not_aligned_count")[rows].sum())
    if total < FEWEST_OPERATIONS or off <= UNALIGNED_SHARE * total:
        return None
    moved = (profile.ints("read_bytes") + profile.ints("write_bytes")).astype(np.float64)
    share = np.minimum(ratio(profile.ints("memory_not_aligned_count"), profile.operations), 1.0)
    data = profile.seconds("read_seconds") + profile.seconds("write_seconds")
    saved = np.where(rows, np.minimum(moved * share / COPY_BYTES_PER_S, data), 0.0)
    evidence = f"{format_value(off / total, 'ratio')} of {total:,} buffers begin off their alignment in memory"
    return Seen(evidence, profile.saving(saved), ("posix_memalign(&buffer, 4096, bytes);",))


def _switches(profile: Profile) -> Seen | None:
    rows = profile.counted & (profile.operations > 0)
    total, switches = int(profile.operations[rows].sum()), int(profile.ints("switch_count")[rows].sum())
    if switches <= MANY or switches <= SWITCH_SHARE * total:
        return None
    each: Floats = np.maximum(profile.request_overhead("read"), profile.request_overhead("write"))
    saved = np.where(rows, each * np.minimum(profile.ints("switch_count"), profile.operations), 0.0)
    evidence = f"{switches:,} changes between reading and writing in {total:,} requests"
    return Seen(evidence, profile.saving(saved), ("read all of a block first, then write all of it",))


def _stdio(profile: Profile) -> Seen | None:
    rows = profile.counted & profile.records.stdio
    moved = (profile.ints("read_bytes") + profile.ints("write_bytes")).astype(np.float64)
    streamed = float(moved[rows].sum())
    if not streamed or streamed <= STDIO_SHARE * profile.moved_bytes:
        return None
    saved = np.zeros(len(rows))
    for verb in VERBS:
        saved += profile.request_overhead(verb) * profile.ints(f"{verb}_count")
    part = format_value(min(streamed / profile.moved_bytes, 1.0), "ratio")
    evidence = f"{part} of the bytes go through streams (fread, fwrite); {_rate_words(profile, rows)}"
    return Seen(
        evidence, profile.saving(np.where(rows, saved, 0.0)), larger_requests("STDIO", main_verb(profile, rows))
    )


def _direction(profile: Profile) -> Seen | None:
    read, written = int(profile.row["read_bytes"]), int(profile.row["write_bytes"])
    if not profile.moved_bytes or abs(read - written) <= IMBALANCE * profile.moved_bytes:
        return None
    more = "read" if read > written else "written"
    evidence = f"{format_value(max(read, written) / profile.moved_bytes, 'ratio')} of the bytes are {more}"
    return Seen(evidence, 0.0, ())


REQUEST_RULES: Final = (
    Rule("small_requests", "small requests", "requests",
         "requests under 1 MiB on files not shared by all: more than 1,000 and 10%",
         "joined to 4 MiB, each saves its time beyond its bytes at the rate of large ones",
         _small_requests),
    Rule("no_mpiio", "no MPI-IO", "requests",
         "more than 1,000 POSIX or stream requests on files shared by all",
         "MPI-IO joins small requests to 16 MiB: each saves its time beyond its bytes at the rate of large ones",
         _no_mpiio),
    Rule("no_collectives", "no collectives", "requests",
         "more than 1,000 independent MPI-IO operations on files shared by all",
         "aggregators join small requests to 16 MiB: each saves its time beyond its bytes at the rate of large ones",
         _no_collectives),
    Rule("unbuffered", "unjoined", "requests",
         "small collective requests, more than 1,000 and 10%, and 80% as many requests at the file system",
         "aggregators join small requests to 16 MiB: each saves its time beyond its bytes at the rate of large ones",
         _unbuffered),
    Rule("random_access", "random access", "requests",
         "more than 1,000 and 20% of the requests begin below the one before",
         "a request in order saves its time beyond moving its bytes at the rate of large requests", _random),
    Rule("unaligned_file", "file alignment", "requests",
         "more than 10% of 100 or more requests off the file system's blocks",
         "time follows blocks touched: 1 + size/block off the blocks, the next whole size/block on them",
         _unaligned_file),
    Rule("unaligned_memory", "memory alignment", "requests",
         "more than 10% of 100 or more buffers off their alignment", "one copy less at 5 GiB/s", _unaligned_memory),
    Rule("read_write_switches", "mixed directions", "requests",
         "more than 1,000 changes of direction, in 10% of the requests",
         "a change of direction costs a request's time beyond its bytes", _switches),
    Rule("stdio", "streams", "requests", "more than 10% of the bytes through STDIO",
         "the same bytes at the rate of large requests", _stdio),
    Rule("one_direction", "one direction", "requests",
         "bytes read and written differ by more than 30%", "costs nothing by itself", _direction),
)  # fmt: skip
