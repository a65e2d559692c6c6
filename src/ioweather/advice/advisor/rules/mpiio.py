"""MPI-IO: not used, used by each process for itself, or with hints that do not fit."""

from __future__ import annotations

from typing import Final

import numpy as np

from ioweather.advice.advisor.costs import BUFFER_BYTES, FEWEST, find_small, joined, joined_by_collectives, rate_words
from ioweather.advice.advisor.fixes import buffering, interface_of, main_verb
from ioweather.advice.advisor.profile import VERBS, Profile, ratio
from ioweather.advice.advisor.rule import Seen
from ioweather.core.units import MIB, NS, format_bytes, format_value


def no_mpiio(profile: Profile) -> Seen | None:
    """Several processes of one program, and MPI-IO has no part in it."""
    records = profile.records
    used = bool((records.mpiio & profile.moved_rows).any())
    rows = profile.counted & (records.posix | records.stdio)
    if used:
        # Some files go through MPI-IO: of the others those that all processes share could.
        rows &= profile.shared & profile.moved_rows
    # A file that is written or read in one request has nothing to join.
    made = sum(int(np.maximum(profile.ints(f"{verb}_count") - 1, 0)[rows].sum()) for verb in VERBS)
    if not profile.parallel or made < FEWEST:
        return None
    operations = int(profile.operations[rows].sum())
    plain = f"{profile.nprocs:,} processes, {operations:,} reads and writes, none of them by MPI-IO"
    return joined_by_collectives(profile, rows, plain, "on files shared by all, without MPI-IO")


def no_collectives(profile: Profile) -> Seen | None:
    """MPI-IO, and every process for itself."""
    rows = profile.counted & profile.records.mpiio & ~profile.collective
    operations = int(profile.operations[rows].sum())
    if not profile.parallel or operations < FEWEST:
        return None
    plain = f"{operations:,} MPI-IO operations, most of them independent"
    return joined_by_collectives(profile, rows, plain, "by independent MPI-IO on shared files")


MORE: Final = 2.0


def mpiio_splits(profile: Profile) -> Seen | None:
    """MPI-IO that makes many small POSIX requests of few large calls: scattered data, and collective buffering off."""
    records = profile.records
    mine = records.mpiio & profile.counted
    asked, done = (records.per_file(profile.operations, rows) for rows in (mine, profile.below))
    wanted, made = (records.per_file(profile.moved, rows).astype(np.float64) for rows in (mine, profile.below))
    sizes = ratio(wanted, asked), ratio(made, done)
    files = (asked > 0) & (done >= MORE * asked) & (done >= FEWEST) & (sizes[1] < MIB) & (MORE * sizes[1] <= sizes[0])
    rows = profile.below & files[records.file]
    if not rows.any():
        return None
    worst = int(np.argmax(np.where(files, done, -1)))
    evidence = (
        f"{int(asked[worst]):,} MPI-IO calls of {format_bytes(float(sizes[0][worst]))} reached the file system as "
        f"{int(done[worst]):,} requests of {format_bytes(float(sizes[1][worst]))}"
    )
    saved = profile.lifted(np.where(rows, joined(profile, BUFFER_BYTES), 0.0))
    verb = main_verb(profile, rows)
    interface = interface_of(profile, rows, profile.operations)
    return Seen(evidence, profile.saving(saved), buffering(profile, interface, verb, BUFFER_BYTES))


# MPI-IO that joins requests sends fewer on than it got; one that splits them is `mpiio_splits`.
SAME_COUNT: Final = 0.8

SPLIT_COUNT: Final = 2.0


def unbuffered(profile: Profile) -> Seen | None:
    """Collective calls that reach the file system as they were made: their aggregators join nothing."""
    records = profile.records
    rows = profile.counted & profile.collective
    below = records.per_file(profile.operations, records.posix)[records.file]
    asked = np.maximum(records.per_file(profile.operations, rows)[records.file], 1)
    rows &= (below >= SAME_COUNT * asked) & (below < SPLIT_COUNT * asked)
    if (found := find_small(profile, rows)) is None:
        return None
    seconds = profile.saving(np.where(rows, joined(profile, BUFFER_BYTES), 0.0))
    evidence = f"{found.words}, collective, and as many at the file system; {rate_words(profile, rows)}"
    interface = interface_of(profile, rows, profile.operations)
    return Seen(evidence, seconds, buffering(profile, interface, main_verb(profile, rows), BUFFER_BYTES))


def data_sieving(profile: Profile) -> Seen | None:
    """Below MPI-IO that only writes, POSIX reads: ROMIO fills the holes of strided writes."""
    records = profile.records
    asked = records.per_file(profile.ints("read_count"), records.mpiio)
    done = records.per_file(profile.ints("read_bytes"), records.posix)
    wrote = records.per_file(profile.ints("write_bytes"), records.mpiio)
    files = (wrote > 0) & (asked == 0) & (done > 0)
    if not files.any():
        return None
    reading, writing = (records.per_file(profile.seconds(f"{v}_seconds"), records.posix) for v in ("read", "write"))
    share = np.where(files, ratio(reading, reading + writing), 0.0)
    saved = np.where(records.mpiio, profile.seconds("write_seconds") * share[records.file], 0.0)
    amount = float(done[files].sum())
    part = format_value(amount / float(wrote[files].sum()), "ratio")
    evidence = f"{format_bytes(amount)} read to be written again: {part} of what MPI-IO wrote"
    line = 'MPI_Info_set(info, "romio_ds_write", "disable");'
    return Seen(evidence, profile.saving(saved), (line, 'MPI_Info_set(info, "romio_cb_write", "enable");'))


MANY: Final = 1000


def blocking(profile: Profile) -> Seen | None:
    """MPI-IO that waits for every write, though the run computes between its writes."""
    rows = profile.records.mpiio
    operations, waiting = int(profile.operations[rows].sum()), int(profile.ints("nonblocking_count")[rows].sum())
    if operations <= MANY or waiting:
        return None
    first, last = profile.row["first_write_ns"], profile.row["last_write_ns"]
    # Between first and last write the run did something else for so long: writing could go on meanwhile.
    between = (last - first) / NS - (profile.io_seconds or 0.0) if first is not None and last is not None else 0.0
    seconds = min(profile.saving(np.where(rows, profile.seconds("write_seconds"), 0.0)), max(0.0, between))
    lines = ("MPI_File_iwrite_at_all(); compute; MPI_Wait();",)
    return Seen(f"{operations:,} MPI-IO operations, none of them non-blocking", seconds, lines)


def aggregators(profile: Profile) -> Seen | None:
    """Collective MPI-IO with fewer aggregators than nodes."""
    below = _callers(profile)
    rows = profile.counted & profile.collective
    if profile.node_count is None or not below or not rows.any() or below >= profile.nodes:
        return None
    data = profile.data_seconds
    saved = np.where(rows, data * (1.0 - below / profile.nodes), 0.0)
    least = profile.moved_bytes / profile.ceiling_bytes_per_s
    seconds = min(profile.saving(saved), max(0.0, (profile.io_seconds or 0.0) - least))
    evidence = f"{below:,} aggregators for {profile.nodes:,} nodes"
    lines = (f'MPI_Info_set(info, "cb_nodes", "{profile.nodes}");', 'MPI_Info_set(info, "cb_config_list", "*:1");')
    return Seen(evidence, seconds, lines)


def _callers(profile: Profile) -> int:
    """Known where a trace or records of single processes show who called POSIX below collective MPI-IO."""
    records = profile.records
    mine = np.isin(records.file, np.unique(records.file[profile.collective]))
    ranks = set(records.rank[mine & records.posix & profile.moved_rows].tolist())
    if ranks and min(ranks) >= 0:
        return len(ranks)
    trace = profile.log.records("DXT_POSIX") if profile.log else None
    if trace is None or not len(trace):
        return 0
    active = trace["rank"][(trace["reads"] + trace["writes"]) > 0]
    return len(np.unique(active[active >= 0]))
