"""Rules on MPI-IO, on striping over storage targets, and on the balance between processes."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from ioweather.core.arrays import Bools, Floats
from ioweather.core.units import GIB, MIB, NS, format_bytes, format_seconds, format_time_ns, format_value
from ioweather.facts.file_records import ratio
from ioweather.facts.runs import ALMOST_ALL
from ioweather.job_io.advisor.fixes import (
    BUFFER_BYTES,
    FEWEST,
    FEWEST_STRIPES,
    balanced,
    buffering,
    by_all,
    collective_calls,
    find_small,
    hint,
    hints,
    interface_of,
    joined,
    joined_by_collectives,
    layout_lines,
    main_verb,
    rate_words,
)
from ioweather.job_io.advisor.profile import FELT_SHARE, VERBS, Profile, Seen


def no_mpiio(profile: Profile) -> Seen | None:
    """Several processes of one program without MPI-IO."""
    records = profile.records
    used = bool((records.mpiio & profile.moved_rows).any())
    rows = profile.counted & (records.posix | records.stdio)
    if used:
        # Some files go through MPI-IO: other files could if all processes share them.
        rows &= profile.shared & profile.moved_rows
    # A file with one request has nothing to join.
    made = sum(int(np.maximum(profile.ints(f"{verb}_count") - 1, 0)[rows].sum()) for verb in VERBS)
    if not profile.parallel or made < FEWEST or profile.without_mpiio_calls:
        return None
    operations = int(profile.operations[rows].sum())
    plain = f"{profile.nprocs:,} processes, {operations:,} reads and writes, none of them by MPI-IO"
    return joined_by_collectives(profile, rows, plain, "on files shared by all, without MPI-IO")


def unjoined_below(profile: Profile) -> Seen | None:
    """Requests of several processes to shared files that nothing joined, where MPI-IO calls were not recorded."""
    records, moved = profile.records, profile.moved
    alone = profile.ints("slowest_rank_bytes") == moved
    rows = profile.counted & records.posix & profile.shared & ~alone & (moved < BUFFER_BYTES * profile.operations)
    operations = int(profile.operations[rows].sum())
    if not profile.parallel or not profile.without_mpiio_calls or operations < FEWEST:
        return None
    mean = format_bytes(float(moved[rows].sum()) / operations)
    evidence = (
        f"MPI-IO calls were not recorded; {operations:,} requests of {mean} by several processes reached the file "
        "system, which collective buffering would have joined"
    )
    return Seen(evidence, 0.0, collective_calls(profile, "MPI-IO", main_verb(profile, rows)), rows)


def no_collectives(profile: Profile) -> Seen | None:
    """MPI-IO with independent operations."""
    rows = profile.counted & profile.records.mpiio & ~profile.collective
    share = profile.independent_share()
    total, operations = int(profile.operations[rows].sum()), int(np.round(profile.operations * share)[rows].sum())
    if not profile.parallel or operations < FEWEST:
        return None
    plain = f"{operations:,} of {total:,} MPI-IO operations independent"
    return joined_by_collectives(profile, rows, plain, "by independent MPI-IO on shared files", share)


MORE: Final = 2.0


def mpiio_splits(profile: Profile) -> Seen | None:
    """MPI-IO that turns few large calls into many small POSIX requests: scattered data without collective buffering."""
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
    return Seen(evidence, profile.saving(saved), buffering(profile, interface, verb, BUFFER_BYTES), rows)


# MPI-IO that joins requests makes fewer than its calls; if it splits them, `mpiio_splits` finds it.
SAME_COUNT: Final = 0.8

SPLIT_COUNT: Final = 2.0


def unbuffered(profile: Profile) -> Seen | None:
    """Collective calls that reach the file system unchanged: their aggregators join nothing."""
    records = profile.records
    rows = profile.counted & profile.collective
    below = records.per_file(profile.operations, records.posix)[records.file]
    asked = np.maximum(records.per_file(profile.operations, rows)[records.file], 1)
    rows &= (below >= SAME_COUNT * asked) & (below < SPLIT_COUNT * asked)
    if (found := find_small(profile, rows)) is None:
        return None
    seconds = profile.saving(np.where(rows, joined(profile, BUFFER_BYTES), 0.0))
    evidence = f"{found.words}, collective, but not merged before the file system; {rate_words(profile, rows)}"
    interface = interface_of(profile, rows, profile.operations)
    return Seen(evidence, seconds, buffering(profile, interface, main_verb(profile, rows), BUFFER_BYTES), rows)


# Collective calls are slow if less than this part of their time is that of the requests below them.
SLOW_EXCHANGE: Final = 0.7


def exchange(profile: Profile) -> Seen | None:
    """Large collective calls that take far longer than the requests below them: processes exchange data for nothing."""
    records = profile.records
    rows = profile.counted & profile.collective & (records.rank < 0) & (profile.moved >= MIB * profile.operations)
    slowest = profile.seconds("slowest_rank_seconds")
    below = records.per_file(slowest, records.posix & (records.rank < 0))[records.file]
    rows &= (slowest > 0) & (below > 0) & (below < SLOW_EXCHANGE * slowest)
    if not rows.any():
        return None
    worst = int(np.argmax(np.where(rows, slowest - below, -1.0)))
    size = float(ratio(profile.moved, profile.operations)[worst])
    evidence = (
        f"collective calls of {format_bytes(size)} took {format_seconds(float(slowest[worst]))}, the requests below "
        f"them {format_seconds(float(below[worst]))}: such large requests need no exchange between processes"
    )
    seconds = float(np.where(rows, profile.shared_seconds * (1.0 - ratio(below, slowest)), 0.0).sum())
    return Seen(evidence, seconds, (hint(profile, f"romio_cb_{main_verb(profile, rows)}", "disable"),), rows)


# Of what MPI-IO wrote: files have a few bytes of headers that are read.
SIEVED_SHARE: Final = 0.01


def data_sieving(profile: Profile) -> Seen | None:
    """More bytes read below MPI-IO than it read, and no fewer written than it wrote: ROMIO fills the holes of strided
    writes."""
    records = profile.records
    asked, wrote = (records.per_file(profile.ints(f"{verb}_bytes"), records.mpiio) for verb in VERBS)
    done, written = (records.per_file(profile.ints(f"{verb}_bytes"), records.posix) for verb in VERBS)
    done = np.maximum(done - asked, 0)
    files = (wrote > 0) & (written >= wrote) & (done > SIEVED_SHARE * wrote)
    if not files.any():
        return None
    reading, writing = (records.per_file(profile.seconds(f"{v}_seconds"), records.posix) for v in ("read", "write"))
    share = np.where(files, ratio(reading, reading + writing), 0.0)
    saved = np.where(records.mpiio, profile.seconds("write_seconds") * share[records.file], 0.0)
    amount = float(done[files].sum())
    part = format_value(amount / float(wrote[files].sum()), "ratio")
    below = format_bytes(float(written[files].sum()))
    evidence = (
        f"read-modify-write: {format_bytes(amount)} read and written back, {part} of the bytes that MPI-IO wrote; "
        f"{below} reached the file system"
    )
    line = hint(profile, "romio_ds_write", "disable")
    return Seen(evidence, profile.saving(saved), (line, hint(profile, "romio_cb_write", "enable")), files[records.file])


MANY: Final = 1000


def blocking(profile: Profile) -> Seen | None:
    """MPI-IO that waits for every write, although the run computes between its writes."""
    rows = profile.records.mpiio
    operations, nonblocking = int(profile.operations[rows].sum()), int(profile.ints("nonblocking_count")[rows].sum())
    if operations <= MANY or nonblocking:
        return None
    first, last = profile.row["first_write_ns"], profile.row["last_write_ns"]
    # Time without I/O between the first and the last write: non-blocking writes would overlap with it.
    between = (last - first) / NS - (profile.io_seconds or 0.0) if first is not None and last is not None else 0.0
    seconds = min(profile.saving(np.where(rows, profile.seconds("write_seconds"), 0.0)), max(0.0, between))
    lines = ("MPI_File_iwrite_at_all(); compute; MPI_Wait();",)
    evidence = f"{operations:,} MPI-IO operations, none non-blocking (gains only if the MPI progresses meanwhile)"
    return Seen(evidence, seconds, lines, rows)


def aggregators(profile: Profile) -> Seen | None:
    """Collective MPI-IO with fewer aggregators than nodes."""
    records, rows = profile.records, profile.counted & profile.collective
    # A trace, or records of single processes, show the callers of POSIX below collective MPI-IO.
    mine = np.isin(records.file, np.unique(records.file[profile.collective]))
    callers = np.unique(records.rank[mine & records.posix & profile.moved_rows])
    if not len(callers) or callers[0] < 0:
        trace = profile.log.records("DXT_POSIX") if profile.log else None
        if trace is None:
            return None
        active = trace["rank"][(trace["reads"] + trace["writes"]) > 0]
        callers = np.unique(active[active >= 0])
    if profile.node_count is None or not len(callers) or not rows.any() or len(callers) >= profile.nodes:
        return None
    saved = np.where(rows, profile.data_seconds * (1.0 - len(callers) / profile.nodes), 0.0)
    least = profile.moved_bytes / profile.ceiling[0]
    seconds = min(profile.saving(saved), max(0.0, (profile.io_seconds or 0.0) - least))
    evidence = f"{len(callers):,} aggregators for {profile.nodes:,} nodes"
    lines = hints(profile, {"cb_nodes": str(profile.nodes), "cb_config_list": "*:1"})
    return Seen(evidence, seconds, lines, rows)


# A file wants a target for each of so many bytes, as far as the run has nodes to feed them.
STRIPE_BYTES: Final = GIB


def target_load(profile: Profile, rows: Bools) -> tuple[tuple[str, ...], Floats, Floats]:
    """Return targets, bytes on each (a file's are divided evenly over its targets), and the share of each row on each
    target."""
    osts = profile.records.text("osts")
    lists = [tuple(filter(None, category.split(","))) for category in osts.categories]
    targets = tuple(sorted({target for code in np.unique(osts.codes[rows]) if code >= 0 for target in lists[code]}))
    place = {target: number for number, target in enumerate(targets)}
    weight = np.zeros((len(targets), len(lists) + 1))
    for code, names in enumerate(lists):
        for name in names:
            if name in place:
                weight[place[name], code] = 1.0 / len(names)
    share = weight[:, osts.codes]
    moved = profile.moved.astype(np.float64)
    return targets, np.asarray((share * np.where(rows, moved, 0.0)).sum(axis=1), np.float64), share


def striping(profile: Profile) -> Seen | None:
    """A large shared file on few targets."""
    stripes = profile.ints("stripe_count").astype(np.float64)
    size = np.asarray(profile.records.per_file(profile.moved, profile.counted)[profile.records.file], np.float64)
    # One per GiB of the file, at most as many as nodes (but 4), and as targets.
    most = min(float(max(profile.nodes, FEWEST_STRIPES)), profile.known_targets)
    wanted = np.minimum(np.ceil(size / STRIPE_BYTES), most)
    rows = profile.counted & (profile.records.rank < 0) & (stripes > 0) & (wanted > stripes)
    rows &= profile.shared_seconds > 0
    if profile.nprocs < 2 or not rows.any():
        return None
    spent = profile.shared_seconds * ratio(profile.data_seconds, profile.spent)
    # A target's rate is at least the one observed here. With large requests, which collective MPI-IO makes too, it is
    # that one; else the rest of the time has other causes. The wider stripe still needs its part.
    observed = ratio(size, spent * stripes)
    large = profile.collective | (profile.moved >= MIB * profile.operations)
    rate = np.where(large & (observed > 0), observed, np.maximum(profile.target_bytes_per_s, observed))
    seconds = float(np.where(rows, ratio(size, stripes) / rate * (1.0 - ratio(stripes, wanted)), 0.0).sum())
    largest = int(np.argmax(np.where(rows, size, -1.0)))
    count, width = int(stripes[largest]), int(wanted[largest])
    evidence = (
        f"{format_bytes(size[largest])} of a shared file on {count} target{'s' if count != 1 else ''}, "
        f"{'moved' if large[largest] else 'assumed'} at {format_bytes(float(rate[largest]))}/s each"
    )
    return Seen(evidence, seconds, layout_lines(profile, rows, width), rows)


FEWEST_BYTES: Final = 64 * MIB


def unused_targets(profile: Profile) -> Seen | None:
    """Data on fewer storage targets than exist, and than the run has processes."""
    rows = profile.counted & profile.moved_rows
    moved = float(profile.moved[rows].sum(dtype=np.float64))
    if not profile.parallel or moved < FEWEST_BYTES:
        return None
    stripes = profile.ints("stripe_count")
    laid_out = rows & (stripes > 0)
    if laid_out.any():
        known = profile.known_targets
        used = len(target_load(profile, laid_out)[0])
        if not used:  # their numbers are not recorded: at most the sum of stripes
            most = np.zeros(profile.records.files, np.int64)
            np.maximum.at(most, profile.records.file[laid_out], stripes[laid_out])
            used = int(most.sum())
        # A file for each process needs no target of its own; half of the targets idle is no accident.
        wanted = min(known, profile.nprocs) / (1.0 if profile.shared[laid_out].any() else 2.0)
        if used >= wanted or (profile.incomplete and not profile.shared[laid_out].any()):
            return None
        there = f" of {int(known):,}" if math.isfinite(known) else ""
        evidence = f"{format_bytes(moved)} of {profile.nprocs:,} processes on {used:,}{there} storage targets"
    else:
        mount = profile.records.text("mount")
        lustre = [place for place, name in enumerate(mount.categories) if profile.mounts.get(name) == "lustre"]
        rows &= profile.shared & np.isin(mount.codes, lustre)
        if not rows.any() or profile.files_moved(rows) > 1:
            return None
        used = 1
        evidence = f"{format_bytes(moved)} in one file on Lustre, its layout not recorded: the default is one target"
    width = int(min(profile.known_targets, max(profile.nodes, FEWEST_STRIPES)))
    return Seen(evidence, 0.0, layout_lines(profile, rows & profile.shared, width), rows)


LOPSIDED: Final = 1.5


def uneven_targets(profile: Profile) -> Seen | None:
    """Files whose stripes share some targets more than others."""
    rows = profile.counted & profile.moved_rows & (profile.ints("stripe_count") > 0)
    targets, load, share = target_load(profile, rows)
    if profile.incomplete or len(targets) < 2 or load.sum() < FEWEST_BYTES or load.max() <= LOPSIDED * load.mean():
        return None
    busiest, even = int(np.argmax(load)), float(load.mean() / load.max())
    seconds = profile.saving(np.where(rows, profile.data_seconds * share[busiest] * (1.0 - even), 0.0))
    if seconds < FELT_SHARE * (profile.io_seconds or 0.0):
        return None
    evidence = (
        f"target {targets[busiest]} has {format_bytes(float(load[busiest]))} of the run's data; the mean of "
        f"{len(targets):,} targets is {format_bytes(float(load.mean()))}"
    )
    return Seen(evidence, seconds, balanced(profile, rows), rows)


# A target is slow if its files took five times as long per byte as those elsewhere, and each of its files longer than
# nine of ten elsewhere; three files on it, and four other targets, are the fewest.
SLOW_FACTOR: Final = 5.0
FEWEST_FILES: Final = 3
FEWEST_OTHERS: Final = 4


def slow_target(profile: Profile) -> Seen | None:
    """One storage target far slower than the others, for files of the same kind."""
    rows = profile.counted & profile.moved_rows & (profile.ints("stripe_count") == 1) & ~profile.collective
    rows &= profile.moved >= MIB
    targets, _, share = target_load(profile, rows)
    if len(targets) <= FEWEST_OTHERS:
        return None
    place = np.where(rows, share.argmax(axis=0), -1)
    spent = profile.data_seconds
    each = ratio(spent, profile.moved)
    usual = np.array([np.median(each[place == number]) for number in range(len(targets))])
    worst = int(usual.argmax())
    mine, others = each[place == worst], each[rows & (place != worst)]
    slow = place == worst
    clearly = mine.min() > np.quantile(others, 0.9) and usual[worst] >= SLOW_FACTOR * np.median(np.delete(usual, worst))
    # Its files must not be smaller requests in disguise.
    sizes = [float(np.median(ratio(profile.moved[which], profile.operations[which]))) for which in (slow, rows & ~slow)]
    if len(mine) < FEWEST_FILES or not clearly or sizes[0] < sizes[1] / 2:
        return None
    saved = np.where(slow, np.maximum(spent - profile.moved * np.median(others), 0.0), 0.0)
    name = f"OST {targets[worst]}" if targets[worst].isdigit() else targets[worst]
    mount = profile.records.text("mount")
    mounts = {mount.categories[code] for code in np.unique(mount.codes[slow]) if code >= 0}
    full_name = f"{name} of {mounts.pop()}" if len(mounts) == 1 else name
    when = f" on {format_time_ns(profile.row['start_ns'])[:10]}" if profile.row.get("start_ns") else ""
    here, elsewhere = (format_seconds(float(np.median(spent[which]))) for which in (slow, rows & ~slow))
    evidence = (
        f"not your fault, storage target {name} was slow{when}: a file took {here} "
        f"({len(mine):,} files), {elsewhere} on the {len(targets) - 1:,} others"
    )
    lines = (f"report {full_name} to your site", "no change of the program helps")
    return Seen(evidence, profile.saving(saved), lines, slow)


# Drishti's: slowest against fastest process of a shared file.
STRAGGLER: Final = 0.15
# Several processes move more than one, even on one node.
FEWEST_WRITERS: Final = 4


def writers(profile: Profile) -> int:
    """Number of processes that should do the I/O: one per node, at least four if there are so many."""
    return max(profile.nodes, min(profile.nprocs, FEWEST_WRITERS))


def spread(profile: Profile, now: int, then: int) -> float:
    """Return the seconds saved if `then` processes did the I/O of `now`, each at its own rate, within the limits of
    nodes, file system and stripes."""
    spent = profile.io_seconds or 0.0
    if then <= now:
        return 0.0
    fastest = min(profile.ceiling[0], profile.layout_bytes_per_s)
    return max(0.0, spent - max(spent * now / then, profile.moved_bytes / fastest))


def one_rank(profile: Profile) -> bool:
    """Whether one process moves all bytes. Unknown if some files have no record."""
    moved = profile.moved_bytes
    return (
        profile.parallel
        and not profile.incomplete
        and moved > 0
        and (profile.count("io_rank_count") == 1 or profile.count("rank0_bytes") >= ALMOST_ALL * moved)
    )


def lagging(profile: Profile) -> tuple[Bools, Floats]:
    """Return shared records with a slow process, and its seconds beyond the mean."""
    slowest, fastest = profile.seconds("slowest_rank_seconds"), profile.seconds("fastest_rank_seconds")
    moved = profile.moved
    alone = profile.ints("slowest_rank_bytes") == moved
    rows = profile.counted & (profile.records.rank < 0) & (slowest > 0) & (moved > 0) & ~alone
    rows &= profile.shared_seconds > 0
    rows &= slowest - fastest > STRAGGLER * slowest
    return rows, np.where(rows, np.maximum(slowest - profile.spent / profile.nprocs, 0.0), 0.0)


def more_bytes(profile: Profile) -> Bools:
    """Records whose slowest process moved more than its part."""
    mean = profile.moved / profile.nprocs
    return np.asarray(profile.ints("slowest_rank_bytes") > (1.0 + STRAGGLER) * mean, np.bool_)


def straggler(profile: Profile, rows: Bools, behind: Floats, why: str, lines: tuple[str, ...]) -> Seen | None:
    """Return the pattern of a slow process on shared files; `behind` are its seconds beyond the mean."""
    if profile.nprocs < 2 or not rows.any():
        return None
    worst = int(np.argmax(np.where(rows, behind, -1.0)))
    slowest, fastest = (float(profile.seconds(f"{name}_rank_seconds")[worst]) for name in ("slowest", "fastest"))
    rank = int(profile.ints("slowest_rank")[worst])
    who = f"rank {rank:,}" if 0 <= rank < profile.nprocs else "the slowest process"
    evidence = f"{who} took {format_seconds(slowest)} on a shared file, the fastest {format_seconds(fastest)}{why}"
    return Seen(evidence, float(behind[rows].sum()), lines, rows)


def rank_zero(profile: Profile) -> Seen | None:
    """One process moves all bytes."""
    if not one_rank(profile):
        return None
    who = "rank 0" if profile.count("rank0_bytes") > 0.5 * profile.moved_bytes else "one process"
    spent = profile.io_seconds
    rate = f" at {format_bytes(profile.moved_bytes / spent)}/s" if spent else ""
    evidence = f"{who} of {profile.nprocs:,} moves all {format_bytes(profile.moved_bytes)}{rate}"
    return Seen(evidence, spread(profile, 1, writers(profile)), by_all(profile), profile.counted)


def subset(profile: Profile) -> Seen | None:
    """Some processes move all bytes: the program aggregates by itself (car11 V.B, H)."""
    ranks = profile.count("io_rank_count")
    if profile.incomplete or not profile.parallel or one_rank(profile):
        return None
    if not 1 < ranks < profile.nprocs or profile.count("collective_count"):
        return None
    evidence = f"{ranks:,} of {profile.nprocs:,} processes move all data without collectives, on {profile.nodes_words}"
    return Seen(evidence, spread(profile, ranks, writers(profile)), by_all(profile), profile.counted)


def straggler_bytes(profile: Profile) -> Seen | None:
    """The slowest process of a shared file moves more than its part."""
    rows, behind = lagging(profile)
    lines = ("divide the data evenly: total / ranks bytes each", hint(profile, "romio_cb_write", "enable"))
    return straggler(profile, rows & more_bytes(profile), behind, "; it moved more than its part", lines)


# The cause of a slow process that moves no more than the others is outside the program.
_REPORT: Final = "report to your site: one node or target is slow"


def straggler_time(profile: Profile) -> Seen | None:
    """The slowest process of a shared file moves no more than others: a node or target is slow."""
    rows, behind = lagging(profile)
    # Large requests gain nothing by going through aggregators.
    small = rows & (profile.moved < MIB * profile.operations)
    lines = (hint(profile, "romio_cb_write", "enable"), _REPORT) if small.any() else (_REPORT,)
    return straggler(profile, rows & ~more_bytes(profile), behind, "; it moved no more than others", lines)


UNEVEN: Final = 0.3  # Drishti's


def uneven_ranks(profile: Profile) -> Seen | None:
    """Processes with files of their own, and one of them takes far longer."""
    each = profile.rank_sums(profile.spent)
    moved = profile.rank_sums(profile.moved.astype(np.float64))[each > 0]
    each = each[each > 0]
    if profile.nprocs < 2 or len(each) < 2 or profile.incomplete or each.max() - each.mean() <= UNEVEN * each.max():
        return None
    evidence = (
        f"on files of their own the slowest of {len(each):,} processes took {format_seconds(float(each.max()))}, "
        f"the mean {format_seconds(float(each.mean()))}"
    )
    line = "give each process the same bytes and files"
    if moved[each.argmax()] <= (1.0 + STRAGGLER) * moved.mean():
        evidence, line = f"{evidence}; it moved no more than others", _REPORT
    return Seen(evidence, float(each.max() - each.mean()), (line,), profile.counted & (profile.records.rank >= 0))
