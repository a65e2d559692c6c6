"""Rules on MPI-IO, on striping over storage targets, and on the balance between processes; see request_rules."""

from __future__ import annotations

import math
from typing import Final, Literal

import numpy as np

from ioweather.core.frames import Bools, Floats
from ioweather.core.units import GIB, MIB, format_bytes, format_seconds, format_time_ns, format_value
from ioweather.facts.job_metrics import ratio
from ioweather.facts.runs import ALMOST_ALL
from ioweather.job_io.advisor import fixes
from ioweather.job_io.advisor.fixes import Pattern
from ioweather.job_io.advisor.profile import FILESYSTEMS, PARALLEL, VERBS, Profile

# Drishti's: slowest against fastest process of a shared file.
STRAGGLER: Final = 0.15
# An outlier is so many times as far above the mean of the others as the fastest is below it: in a smooth spread the
# ends are about equally far, whatever the number of processes.
OUTLIER: Final = 2.0
# MPI-IO that takes so many times as long as the requests below it waits for something else than they do.
_FAR_ABOVE: Final = 5.0
# File systems with one server and no parallel writes to one file: MPI-IO locks the file around each write.
_ONE_SERVER: Final = frozenset({"nfs", "nfs4", "cifs", "smb3", "sshfs"})


def find_no_mpiio(profile: Profile) -> Pattern | None:
    """Find several processes of one program without MPI-IO."""
    records = profile.records
    rows = profile.counted & (records.posix | records.stdio)
    if (records.mpiio & profile.moved_rows).any():
        # Some files go through MPI-IO: other files could if all processes share them.
        rows &= profile.shared & profile.moved_rows
    # A file with one request has nothing to join.
    made = sum(int(np.maximum(profile.ints(f"{verb}_count") - 1, 0)[rows].sum()) for verb in VERBS)
    if not profile.parallel or made < fixes.FEWEST or profile.without_mpiio_calls:
        return None
    operations = int(profile.operations[rows].sum())
    plain = f"{profile.nprocs:,} processes make {operations:,} reads and writes without MPI-IO"
    return fixes.joined_by_collectives(profile, rows, plain, "on files shared by all, without MPI-IO")


def find_unjoined_below(profile: Profile) -> Pattern | None:
    """Find requests of several processes to shared files that nothing joined, where MPI-IO calls were not recorded."""
    alone = profile.ints("slowest_rank_bytes") == profile.moved
    rows = profile.counted & profile.records.posix & profile.shared & ~alone
    rows &= profile.moved < fixes.BUFFER_BYTES * profile.operations
    operations = int(profile.operations[rows].sum())
    if not profile.parallel or not profile.without_mpiio_calls or operations < fixes.FEWEST:
        return None
    mean = format_bytes(float(profile.moved[rows].sum()) / operations)
    evidence = (
        f"MPI-IO calls were not recorded; {operations:,} requests of {mean} by several processes reached the file "
        "system; collective buffering would have merged them"
    )
    return Pattern(evidence, 0.0, fixes.request_lines(profile, "collective", rows, "MPI-IO"), rows)


def find_no_collectives(profile: Profile) -> Pattern | None:
    """Find MPI-IO with independent operations."""
    rows = profile.counted & profile.records.mpiio & ~profile.collective
    share = profile.independent_share
    total, operations = int(profile.operations[rows].sum()), int(np.round(profile.operations * share)[rows].sum())
    if not profile.parallel or operations < fixes.FEWEST:
        return None
    plain = f"{operations:,} of {total:,} MPI-IO operations are independent"
    return fixes.joined_by_collectives(profile, rows, plain, "by independent MPI-IO on shared files", share)


def find_mpiio_splits(profile: Profile) -> Pattern | None:
    """Find MPI-IO that turns few large calls into many small POSIX requests: scattered data without collective
    buffering."""
    records = profile.records
    mine = records.mpiio & profile.counted
    asked, done = (records.per_file(profile.operations, rows) for rows in (mine, profile.below))
    wanted, made = (records.per_file(profile.moved, rows).astype(np.float64) for rows in (mine, profile.below))
    call, request = ratio(wanted, asked), ratio(made, done)
    files = (asked > 0) & (done >= 2 * asked) & (done >= fixes.FEWEST) & (request < MIB) & (2 * request <= call)
    rows = profile.below & files[records.file]
    if not rows.any():
        return None
    worst = int(np.argmax(np.where(files, done, -1)))
    evidence = (
        f"{int(asked[worst]):,} MPI-IO calls of {format_bytes(float(call[worst]))} reached the file system as "
        f"{int(done[worst]):,} requests of {format_bytes(float(request[worst]))}"
    )
    saved = profile.as_mpiio_savings(np.where(rows, fixes.seconds_saved_by_joining(profile, fixes.BUFFER_BYTES), 0.0))
    return Pattern(evidence, profile.saving(saved), fixes.buffering_lines(profile, rows), rows)


def find_unbuffered(profile: Profile) -> Pattern | None:
    """Find collective calls that reach the file system unchanged: their aggregators join nothing."""
    records = profile.records
    rows = profile.counted & profile.collective
    below = records.per_file(profile.operations, records.posix)[records.file]
    asked = np.maximum(records.per_file(profile.operations, rows)[records.file], 1)
    # MPI-IO that joins requests makes fewer than its calls; if it splits them, `mpiio_splits` finds it.
    rows &= (below >= 0.8 * asked) & (below < 2 * asked)
    if (found := fixes.describe_small(profile, rows)) is None:
        return None
    seconds = profile.saving(np.where(rows, fixes.seconds_saved_by_joining(profile, fixes.BUFFER_BYTES), 0.0))
    evidence = f"{found}; these collective calls are not merged; {fixes.describe_rate(profile, rows)}"
    return Pattern(evidence, seconds, fixes.buffering_lines(profile, rows), rows)


def find_exchange(profile: Profile) -> Pattern | None:
    """Find large collective calls that take far longer than the requests below them: processes exchange data for
    nothing."""
    records = profile.records
    rows = profile.counted & profile.collective & (records.rank < 0) & (profile.moved >= MIB * profile.operations)
    slowest, below = profile.seconds("slowest_rank_seconds"), _find_slowest_below(profile)
    rows &= (slowest > 0) & (below > 0) & (below < 0.7 * slowest)
    if not rows.any():
        return None
    worst = int(np.argmax(np.where(rows, slowest - below, -1.0)))
    size = float(ratio(profile.moved, profile.operations)[worst])
    evidence = (
        f"collective calls of {format_bytes(size)} took {format_seconds(float(slowest[worst]))}, but their POSIX "
        f"requests only {format_seconds(float(below[worst]))}; such large requests need no data exchange"
    )
    seconds = float(np.where(rows, profile.shared_seconds * (1.0 - ratio(below, slowest)), 0.0).sum())
    line = fixes.hint_line(profile, f"romio_cb_{fixes.main_verb(profile, rows)}", "disable")
    return Pattern(evidence, seconds, (line,), rows)


def _find_slowest_below(profile: Profile) -> Floats:
    """Return, for each row, the seconds of the slowest process in POSIX requests to a file shared by all; 0 if not
    recorded."""
    records = profile.records
    slowest = profile.seconds("slowest_rank_seconds")
    return np.asarray(records.per_file(slowest, records.posix & (records.rank < 0))[records.file], np.float64)


def find_one_at_a_time(profile: Profile) -> Pattern | None:
    """Find large independent writes of many processes to a shared file, which wait for each other above the file
    system: MPI-IO takes far longer than the requests below it, which are as many and, in a trace, do not overlap."""
    records, count, each = profile.records, profile.ints("write_count"), profile.seconds("write_seconds")
    rows = profile.counted & records.mpiio & profile.shared & ~profile.collective & (count > 0)
    rows &= (profile.ints("write_bytes") >= MIB * count) & (profile.ints("slowest_rank_bytes") != profile.moved)
    above, below = records.per_file(each, rows), records.per_file(each, profile.below)
    asked, done = records.per_file(count, rows), records.per_file(count, profile.below)
    far = (below > 0) & (above >= _FAR_ABOVE * below) & (done >= 0.8 * asked) & (done <= 1.25 * asked)
    rows &= far[records.file]
    if profile.nprocs <= 2 or not rows.any():
        return None
    worst = int(np.argmax(np.where(rows, above[records.file], -1.0)))
    overlap, file = _measure_overlap(profile, int(profile.ints("record_id")[worst])), records.file[worst]
    if (overlap or 0.0) > 0.1:
        return None
    write = f"{'seem to ' if overlap is None else ''}write one after another"
    evidence = (
        f"{profile.nprocs:,} processes {write}{' on ' if profile.kind else ''}{profile.kind}: "
        f"{format_seconds(float(above[file]))} in MPI-IO, {format_seconds(float(below[file]))} in its POSIX requests"
    )
    lines = (*_list_alignment_lines(profile, rows), fixes.hint_line(profile, "romio_cb_write", "enable"))
    if profile.filesystem in _ONE_SERVER:
        parallel = sorted(
            f"{mount} ({FILESYSTEMS[kind]})" for mount, kind in profile.mounts.items() if kind in PARALLEL
        )
        lines = (*(f"write to {each}" for each in parallel[:1] if len(each) < 40), "one file for each process")
    seconds = profile.saving(np.where(rows, each * (1.0 - ratio(below, above))[records.file], 0.0))
    return Pattern(evidence, seconds, lines, rows)


def _measure_overlap(profile: Profile, file: int) -> float | None:
    """Return the share of the traced writes of a file that begin before the end of an earlier one; None without any."""
    trace = profile.log.modules.get("DXT_POSIX") if profile.log else None
    if trace is None or trace.segments is None:
        return None
    of_file = trace.records["id"].astype(np.int64)[trace.segments["record"]] == file
    writes = np.sort(trace.segments[of_file & trace.segments["write"]], order="start_seconds")
    last = np.maximum.accumulate(writes["end_seconds"])[:-1]
    return float((writes["start_seconds"][1:] < last).mean()) if len(last) else None


def _list_alignment_lines(profile: Profile, rows: Bools) -> tuple[str, ...]:
    """Return lines that align the requests below these rows, if more than a tenth of them are not."""
    mine = profile.records.posix & np.isin(profile.records.file, profile.records.file[rows])
    block = int(profile.ints("file_alignment_bytes")[mine].max(initial=0))
    off = profile.ints("file_not_aligned_count")[mine].sum() > 0.1 * profile.operations[mine].sum()
    return fixes.alignment_lines(profile, mine, block) if block and off else ()


def find_data_sieving(profile: Profile) -> Pattern | None:
    """Find more bytes read below MPI-IO than it read, and no fewer written than it wrote: ROMIO fills the holes of
    strided writes."""
    records = profile.records
    asked, wrote = (records.per_file(profile.ints(f"{verb}_bytes"), records.mpiio) for verb in VERBS)
    done, written = (records.per_file(profile.ints(f"{verb}_bytes"), records.posix) for verb in VERBS)
    done = np.maximum(done - asked, 0)
    # Files have a few bytes of headers that are read.
    files = (wrote > 0) & (written >= wrote) & (done > 0.01 * wrote)
    if not files.any():
        return None
    reading, writing = (records.per_file(profile.seconds(f"{v}_seconds"), records.posix) for v in VERBS)
    share = np.where(files, ratio(reading, reading + writing), 0.0)[records.file]
    # Independent writes lock the range that they read and write back: all time beyond that of the writes below goes.
    asking = records.per_file(profile.seconds("write_seconds"), records.mpiio)
    share = np.where(profile.collective, share, np.maximum(share, 1.0 - ratio(writing, asking)[records.file]))
    saved = np.where(records.mpiio & files[records.file], profile.seconds("write_seconds") * share, 0.0)
    amount = float(done[files].sum())
    part = format_value(amount / float(wrote[files].sum()), "ratio")
    evidence = (
        f"read-modify-write: {format_bytes(amount)} read and written back, {part} of the bytes that MPI-IO wrote; "
        f"{format_bytes(float(written[files].sum()))} reached the file system"
    )
    lines = (
        fixes.hint_line(profile, "romio_ds_write", "disable"),
        fixes.hint_line(profile, "romio_cb_write", "enable"),
    )
    return Pattern(evidence, profile.saving(saved), lines, files[records.file])


def find_blocking(profile: Profile) -> Pattern | None:
    """Find MPI-IO of the program itself, no library's, that waits for every write, although time passes between
    them."""
    named_so = fixes.with_endings(profile, fixes.HDF5_NAMES + fixes.NETCDF_NAMES)
    by_library = (profile.records.text("library").codes >= 0) | named_so
    rows = profile.records.mpiio & ~by_library
    operations, nonblocking = int(profile.operations[rows].sum()), int(profile.ints("nonblocking_count")[rows].sum())
    if operations <= 1000 or nonblocking:
        return None
    seconds = profile.saving(np.where(rows, profile.seconds("write_seconds"), 0.0))
    evidence = f"{operations:,} MPI-IO operations, all blocking (a change helps if the run computes between them)"
    lines = ("MPI_File_iwrite_at_all(); compute; MPI_Wait();",)
    return Pattern(evidence, min(seconds, profile.seconds_between_writes()), lines, rows)


def _count_aggregators(profile: Profile) -> int:
    """Return how many processes make the requests below collective MPI-IO; 0 if unknown."""
    records = profile.records
    mine = np.isin(records.file, np.unique(records.file[profile.collective])) & records.posix & profile.moved_rows
    # A trace, or records of single processes, show them.
    callers = np.unique(records.rank[mine])
    trace = profile.log.records("DXT_POSIX") if profile.log else None
    if trace is not None and (not len(callers) or callers[0] < 0):
        callers = np.unique(trace["rank"][(trace["reads"] + trace["writes"]) > 0])
    if (callers >= 0).any() or not mine.any():
        return int((callers >= 0).sum())
    # A record of all processes has the bytes of the slowest and their variance: n processes with equal parts of b bytes
    # have a sum of squares of b^2 / n. Unequal parts give a lower number.
    worst = int(np.argmax(np.where(mine, profile.moved, -1)))
    moved = float(profile.moved[worst])
    if profile.ints("slowest_rank_bytes")[worst] >= ALMOST_ALL * moved:
        return 1
    raw = profile.log.records("POSIX") if profile.log else None
    if raw is None or "POSIX_F_VARIANCE_RANK_BYTES" not in (raw.dtype.names or ()):
        return 0
    of_file = (raw["id"].astype(np.int64) == profile.ints("record_id")[worst]) & (raw["rank"] < 0)
    variance = float(raw["POSIX_F_VARIANCE_RANK_BYTES"][of_file].max(initial=0.0))
    squares = profile.nprocs * (variance + (moved / profile.nprocs) ** 2)
    return math.ceil(moved**2 / squares - 1e-6) if variance > 0 else 0


def find_aggregators(profile: Profile) -> Pattern | None:
    """Find collective MPI-IO with far fewer aggregators than nodes: one process writes for many."""
    rows = profile.counted & profile.collective
    count = _count_aggregators(profile) if rows.any() else 0
    if not 0 < 2 * count <= profile.nodes:
        return None
    spent = profile.saving(np.where(rows, profile.data_seconds, 0.0))
    verb = "writes" if fixes.main_verb(profile, rows) == "write" else "reads"
    who = f"one process {verb}" if count == 1 else f"{count:,} processes {verb.removesuffix('s')}"
    nodes = f"{profile.nodes:,} nodes{'' if profile.node_count else ' (assuming 32 processes per node)'}"
    evidence = f"{who} for all {profile.nprocs:,} on {nodes}; collective calls take {format_seconds(spent)}"
    width = float(profile.nodes)
    lines: tuple[str, ...] = ()
    on = np.isin(profile.records.file, np.unique(profile.records.file[rows]))
    stripes = int(profile.ints("stripe_count")[on].max(initial=0))
    if profile.filesystem == "lustre" and stripes:
        # MPI-IO on Lustre takes no more aggregators than targets.
        size = float(profile.moved[rows].max())
        width = max(min(math.ceil(size / GIB), fixes.most_stripes(profile)), 1.0)
        if stripes < width:
            lines = fixes.layout_lines(profile, rows, int(width))[:1]
            evidence += f" and write to {fixes.describe_count(stripes, 'one stripe', 'stripes')}"
    hints = {"cb_nodes": f"{int(width)}", "cb_config_list": "*:1"}
    most = max(0.0, (profile.io_seconds or 0.0) - profile.moved_bytes / profile.ceiling[0])
    seconds = min(spent * (1.0 - min(count / width, 1.0)), most)
    return Pattern(evidence, seconds, (*lines, *fixes.hint_lines(profile, hints)), rows)


def find_striping(profile: Profile) -> Pattern | None:
    """Find a large shared file on few targets."""
    stripes = profile.ints("stripe_count").astype(np.float64)
    size = np.asarray(profile.records.per_file(profile.moved, profile.counted)[profile.records.file], np.float64)
    # One per GiB of the file, as far as the run has nodes to feed them.
    wanted = np.minimum(np.ceil(size / GIB), fixes.most_stripes(profile))
    rows = profile.counted & (profile.records.rank < 0) & (stripes > 0) & (wanted > stripes)
    rows &= profile.shared_seconds > 0
    if profile.nprocs < 2 or not rows.any():
        return None
    spent = profile.shared_seconds * ratio(profile.data_seconds, profile.spent)
    # Targets wait while processes of a collective call exchange data: only requests below it count.
    below = _find_slowest_below(profile)
    spent = np.where(profile.collective & (below > 0), np.minimum(spent, below), spent)
    # A target's rate is at least the one observed here. With large requests, which collective MPI-IO makes too, it is
    # that one; else the rest of the time has other causes. The wider stripe still needs its part.
    observed = ratio(size, spent * stripes)
    large = profile.collective | (profile.moved >= MIB * profile.operations)
    rate = np.where(large & (observed > 0), observed, np.maximum(profile.target_bytes_per_s, observed))
    seconds = float(np.where(rows, ratio(size, stripes) / rate * (1.0 - ratio(stripes, wanted)), 0.0).sum())
    largest = int(np.argmax(np.where(rows, size, -1.0)))
    count = int(stripes[largest])
    evidence = (
        f"{format_bytes(size[largest])} of a shared file on {count} target{'s' if count != 1 else ''}, "
        f"{'moved' if large[largest] else 'assumed'} at {format_bytes(float(rate[largest]))}/s each"
    )
    return Pattern(evidence, seconds, fixes.layout_lines(profile, rows, int(wanted[largest])), rows)


def find_unused_targets(profile: Profile) -> Pattern | None:
    """Find data on fewer storage targets than exist, and than the run has processes."""
    records = profile.records
    rows = profile.counted & profile.moved_rows
    moved = float(profile.moved[rows].sum(dtype=np.float64))
    if not profile.parallel or moved < 64 * MIB:
        return None
    stripes = profile.ints("stripe_count")
    laid_out = rows & (stripes > 0)
    if laid_out.any():
        osts = records.text("osts")
        layouts = [osts.categories[code] for code in np.unique(osts.codes[laid_out]) if code >= 0]
        used = len({target for layout in layouts for target in layout.split(",") if target})
        if not used:  # their numbers are not recorded: at most the sum of stripes
            most = np.zeros(records.files, np.int64)
            np.maximum.at(most, records.file[laid_out], stripes[laid_out])
            used = int(most.sum())
        # A file for each process needs no target of its own; half of the targets idle is no accident.
        known, has_shared = profile.known_targets, bool(profile.shared[laid_out].any())
        wanted = min(known, profile.nprocs) / (1.0 if has_shared else 2.0)
        if used >= wanted or (profile.incomplete and not has_shared):
            return None
        there = f" of {int(known):,}" if math.isfinite(known) else ""
        evidence = f"{format_bytes(moved)} from {profile.nprocs:,} processes on {used:,}{there} storage targets"
    else:
        mount = records.text("mount")
        lustre = [place for place, name in enumerate(mount.categories) if profile.mounts.get(name) == "lustre"]
        rows &= profile.shared & np.isin(mount.codes, lustre)
        if profile.files_in(rows) != 1:
            return None
        evidence = f"{format_bytes(moved)} in one file on Lustre without a recorded layout (default: one target)"
    lines = fixes.layout_lines(profile, rows & profile.shared, int(fixes.most_stripes(profile)))
    return Pattern(evidence, 0.0, lines, rows)


def find_slow_target(profile: Profile) -> Pattern | None:
    """Find one storage target far slower than the others, for files of the same kind: three files or more on it, and
    four other targets; five times as long per byte, and each of its files longer than nine of ten elsewhere."""
    spent, moved, target = profile.data_seconds, profile.moved, profile.records.text("osts")
    rows = profile.counted & (moved >= MIB) & (profile.ints("stripe_count") == 1) & ~profile.collective
    rows &= target.codes >= 0
    used, place = np.unique(target.codes[rows], return_inverse=True)
    if len(used) <= 4:
        return None
    each = ratio(spent, moved)
    usual = np.array([np.median(each[rows][place == number]) for number in range(len(used))])
    worst = int(usual.argmax())
    slow = rows & (target.codes == used[worst])
    rest = rows & ~slow
    clearly = each[slow].min() > np.quantile(each[rest], 0.9) and usual[worst] >= 5 * np.median(np.delete(usual, worst))
    # Its files must not be smaller requests in disguise.
    here, elsewhere = (np.median(ratio(moved[which], profile.operations[which])) for which in (slow, rest))
    if slow.sum() < 3 or not clearly or here < elsewhere / 2:
        return None
    name = target.categories[used[worst]]
    name = f"OST {name}" if name.isdigit() else name
    when = f" on {format_time_ns(profile.row['start_ns'])[:10]}" if profile.row.get("start_ns") else ""
    took, others = (format_seconds(float(np.median(spent[which]))) for which in (slow, rest))
    evidence = (
        f"storage target {name} was slow{when}, not your program: a file there took {took} "
        f"({int(slow.sum()):,} files), a file on the {len(used) - 1:,} other targets {others}"
    )
    saved = np.where(slow, np.maximum(spent - moved * np.median(each[rest]), 0.0), 0.0)
    mount = profile.records.text("mount")[slow].tolist()[0]
    lines = (f"report {name}{f' of {mount}' if mount else ''} to your site", "changing the program does not help")
    return Pattern(evidence, profile.saving(saved), lines, slow)


def _has_one_rank(profile: Profile) -> bool:
    """Whether one process moves all bytes. Unknown if some files have no record."""
    row, moved = profile.row, profile.moved_bytes
    if not profile.parallel or profile.incomplete or moved <= 0:
        return False
    # Of a file that all processes open, the bytes of the slowest are known at the file system.
    mine = profile.moved_by_one & ~profile.collective_file
    who, place = np.unique(profile.ints("slowest_rank")[mine], return_inverse=True)
    most = np.bincount(place, profile.moved[mine], len(who)).max(initial=0.0)
    return bool(row["io_rank_count"] == 1 or max(row["rank0_bytes"] or 0, most) >= ALMOST_ALL * moved)


def _make_few_ranks_pattern(profile: Profile, evidence: str, ranks: int) -> Pattern:
    """Return the pattern of few processes that do the I/O: what one per node would save, each at its own rate, within
    the limits of nodes, file system and stripes. Even on one node several move more than one."""
    writers, spent, seconds = max(profile.nodes, min(profile.nprocs, 4)), profile.io_seconds or 0.0, 0.0
    if writers > ranks:
        fastest = min(profile.ceiling[0], profile.layout_bytes_per_s)
        seconds = max(0.0, spent - max(spent * ranks / writers, profile.moved_bytes / fastest))
    return Pattern(evidence, seconds, fixes.distribution_lines(profile), profile.counted)


def find_rank_zero(profile: Profile) -> Pattern | None:
    """Find a process that moves all bytes."""
    if not _has_one_rank(profile):
        return None
    who = "rank 0" if (profile.row["rank0_bytes"] or 0) > 0.5 * profile.moved_bytes else "one process"
    rate = f" at {format_bytes(profile.moved_bytes / profile.io_seconds)}/s" if profile.io_seconds else ""
    evidence = f"{who} of {profile.nprocs:,} moves all {format_bytes(profile.moved_bytes)}{rate}"
    return _make_few_ranks_pattern(profile, evidence, 1)


def find_subset(profile: Profile) -> Pattern | None:
    """Find a few processes that move all bytes: the program aggregates by itself (car11 V.B, H)."""
    ranks = int(profile.row["io_rank_count"] or 0)
    if profile.incomplete or not profile.parallel or _has_one_rank(profile):
        return None
    if not 1 < ranks < profile.nprocs or profile.row["collective_count"]:
        return None
    nodes = f"{profile.nodes:,} node{'s' if profile.nodes > 1 else ''}"
    if not profile.node_count:
        nodes += " (assuming 32 processes per node)"
    evidence = f"{ranks:,} of {profile.nprocs:,} processes move all data without collectives, on {nodes}"
    return _make_few_ranks_pattern(profile, evidence, ranks)


def _find_straggler(profile: Profile, kind: Literal["bytes", "alone", "spread"]) -> tuple[Bools, Floats, str]:
    """Return shared records with a slow process that moved more than its part, or no more than others, alone or as the
    end of a smooth spread; its seconds beyond the mean; and the evidence, empty without such a process."""
    slowest, fastest = profile.seconds("slowest_rank_seconds"), profile.seconds("fastest_rank_seconds")
    moved, by_slowest = profile.moved, profile.ints("slowest_rank_bytes")
    rows = profile.counted & (profile.records.rank < 0) & (slowest > 0) & (moved > 0) & (by_slowest != moved)
    rows &= (profile.shared_seconds > 0) & (slowest - fastest > STRAGGLER * slowest)
    rows &= (by_slowest > (1.0 + STRAGGLER) * (moved / profile.nprocs)) == (kind == "bytes")
    if kind != "bytes":
        others = (profile.spent - slowest) / max(profile.nprocs - 1, 1)
        rows &= (slowest - others > OUTLIER * (others - fastest)) == (kind == "alone")
    behind = np.where(rows, np.maximum(slowest - profile.spent / profile.nprocs, 0.0), 0.0)
    if profile.nprocs < 2 or not rows.any():
        return rows, behind, ""
    worst = int(np.argmax(np.where(rows, behind, -1.0)))
    rank = int(profile.ints("slowest_rank")[worst])
    who = f"rank {rank:,}" if 0 <= rank < profile.nprocs else "the slowest process"
    times = f"{format_seconds(float(slowest[worst]))} on a shared file, the fastest"
    return rows, behind, f"{who} took {times} {format_seconds(float(fastest[worst]))}"


def find_straggler_bytes(profile: Profile) -> Pattern | None:
    """Find a shared file whose slowest process moves more than its part."""
    rows, behind, evidence = _find_straggler(profile, "bytes")
    lines = ("divide the data evenly: total / ranks bytes each", fixes.hint_line(profile, "romio_cb_write", "enable"))
    return Pattern(f"{evidence}; it moved more than its share", float(behind.sum()), lines, rows) if evidence else None


def find_straggler_time(profile: Profile) -> Pattern | None:
    """Find a shared file with one process that is far slower and moves no more: a node or target is slow."""
    rows, behind, evidence = _find_straggler(profile, "alone")
    # Large requests gain nothing by going through aggregators.
    small = (rows & (profile.moved < MIB * profile.operations)).any()
    lines = (
        *([fixes.hint_line(profile, "romio_cb_write", "enable")] if small else []),
        _choose_report_line(profile, rows),
    )
    return Pattern(f"{evidence}, but moved no more data", float(behind.sum()), lines, rows) if evidence else None


def _choose_report_line(profile: Profile, rows: Bools) -> str:
    """Return the line for a cause outside the program. Where each file spans all targets, a slow one slows all."""
    spans_all = (profile.ints("stripe_count")[rows] >= profile.known_targets).all()
    return f"report to your site: one node {'' if spans_all else 'or target '}is slow"


def find_contention(profile: Profile) -> Pattern | None:
    """Find shared files whose processes move the same but wait for each other: their times spread smoothly."""
    rows, behind, evidence = _find_straggler(profile, "spread")
    if not evidence:
        return None
    hint = fixes.hint_line(profile, f"romio_cb_{fixes.main_verb(profile, rows)}", "enable")
    lines = (*_list_alignment_lines(profile, rows), hint)
    evidence += "; times vary smoothly, so processes seem to wait for each other"
    return Pattern(evidence, float(behind.sum()), lines, rows)


def find_uneven_ranks(profile: Profile) -> Pattern | None:
    """Find a process that takes far longer on its own files than others on theirs."""
    each = profile.sums_by_rank(profile.spent)
    moved = profile.sums_by_rank(profile.moved.astype(np.float64))[each > 0]
    each = each[each > 0]
    rows = profile.counted & (profile.records.rank >= 0)
    # Drishti's threshold.
    if profile.nprocs < 2 or len(each) < 2 or profile.incomplete or each.max() - each.mean() <= 0.3 * each.max():
        return None
    evidence = (
        f"on unshared files, the slowest of {len(each):,} processes took {format_seconds(float(each.max()))}; the "
        f"mean is {format_seconds(float(each.mean()))}"
    )
    line = "give each process the same amount of data and number of files"
    if moved[each.argmax()] <= (1.0 + STRAGGLER) * moved.mean():
        others = np.delete(each, each.argmax()).mean()
        evidence, line = f"{evidence}, although the slowest moved no more data", "let fewer processes do I/O at a time"
        if each.max() - others > OUTLIER * (others - each.min()):
            line = _choose_report_line(profile, rows)
    return Pattern(evidence, float(each.max() - each.mean()), (line,), rows)
