"""Rules of who does the I/O: one process, some of them, all but unevenly, or all without a break from computing."""

from __future__ import annotations

from typing import Final

import numpy as np

from ioweather.advice.advisor.profile import Profile
from ioweather.advice.advisor.rule import Rule, Seen
from ioweather.core.arrays import Bools, Floats
from ioweather.core.units import NS, format_bytes, format_seconds
from ioweather.derive.jobs.signatures import ALMOST_ALL

# Drishti's: slowest against fastest process of a shared file, and imbalance across files.
STRAGGLER: Final = 0.15
UNEVEN: Final = 0.3
MANY: Final = 1000
# Even on one node several processes move more than one.
FEWEST_WRITERS: Final = 4


def _writers(profile: Profile) -> int:
    return max(profile.nodes, min(profile.nprocs, FEWEST_WRITERS))


def _spread(profile: Profile, now: int, then: int) -> float:
    """Seconds saved if `then` processes moved what `now` did, each at its own rate, within what nodes, file system and
    the stripes of the files allow."""
    spent = profile.io_seconds or 0.0
    if then <= now:
        return 0.0
    fastest = min(profile.ceiling_bytes_per_s, profile.layout_bytes_per_s)
    return max(0.0, spent - max(spent * now / then, profile.moved_bytes / fastest))


def _one_rank(profile: Profile) -> bool:
    moved = profile.moved_bytes
    return (
        profile.nprocs > 1
        and moved > 0
        and (int(profile.row["io_rank_count"]) == 1 or int(profile.row["rank0_bytes"]) >= ALMOST_ALL * moved)
    )


def _rank_zero(profile: Profile) -> Seen | None:
    if not _one_rank(profile):
        return None
    who = "rank 0" if int(profile.row["rank0_bytes"]) > 0.5 * profile.moved_bytes else "one process"
    spent = profile.io_seconds
    rate = f" at {format_bytes(profile.moved_bytes / spent)}/s" if spent else ""
    evidence = f"{who} of {profile.nprocs:,} moves all {format_bytes(profile.moved_bytes)}{rate}"
    lines = (
        "MPI_File_write_at_all or _read_at_all on all ranks",
        f'MPI_Info_set(info, "cb_nodes", "{profile.nodes}");',
    )
    return Seen(evidence, _spread(profile, 1, _writers(profile)), lines)


def _subset(profile: Profile) -> Seen | None:
    """car11 V.B, H: an own aggregation. It is no loss where it has a process on every node."""
    ranks = int(profile.row["io_rank_count"])
    if _one_rank(profile) or not 1 < ranks < profile.nprocs or int(profile.row["collective_count"]):
        return None
    evidence = f"{ranks:,} of {profile.nprocs:,} processes move all data without collectives, on {profile.nodes_words}"
    lines = (
        "MPI_File_write_at_all or _read_at_all on all ranks",
        f'MPI_Info_set(info, "cb_nodes", "{profile.nodes}");',
    )
    return Seen(evidence, _spread(profile, ranks, _writers(profile)), lines)


def _lagging(profile: Profile) -> tuple[Bools, Floats]:
    """Shared records whose slowest process is behind the fastest, and by how much it is behind the mean."""
    slowest, fastest = profile.seconds("slowest_rank_seconds"), profile.seconds("fastest_rank_seconds")
    moved = profile.ints("read_bytes") + profile.ints("write_bytes")
    alone = profile.ints("slowest_rank_bytes") == moved
    rows = profile.counted & (profile.records.rank < 0) & (slowest > 0) & (moved > 0) & ~alone
    rows &= profile.shared_seconds > 0
    rows &= slowest - fastest > STRAGGLER * slowest
    return rows, np.where(rows, np.maximum(slowest - profile.spent / profile.nprocs, 0.0), 0.0)


def _more_bytes(profile: Profile) -> Bools:
    """The slowest process moved more than its part."""
    mean = (profile.ints("read_bytes") + profile.ints("write_bytes")) / profile.nprocs
    return np.asarray(profile.ints("slowest_rank_bytes") > (1.0 + STRAGGLER) * mean, np.bool_)


def _straggler(profile: Profile, rows: Bools, behind: Floats, why: str, lines: tuple[str, ...]) -> Seen | None:
    if profile.nprocs < 2 or not rows.any():
        return None
    worst = int(np.argmax(np.where(rows, behind, -1.0)))
    slowest, fastest = (float(profile.seconds(f"{name}_rank_seconds")[worst]) for name in ("slowest", "fastest"))
    rank = int(profile.ints("slowest_rank")[worst])
    who = f"rank {rank:,}" if 0 <= rank < profile.nprocs else "the slowest process"
    evidence = f"{who} took {format_seconds(slowest)} on a shared file, the fastest {format_seconds(fastest)}{why}"
    return Seen(evidence, float(behind[rows].sum()), lines)


def _straggler_bytes(profile: Profile) -> Seen | None:
    rows, behind = _lagging(profile)
    lines = ("divide the data evenly: total / ranks bytes each", 'MPI_Info_set(info, "romio_cb_write", "enable");')
    return _straggler(profile, rows & _more_bytes(profile), behind, "; it moved more than its part", lines)


def _straggler_time(profile: Profile) -> Seen | None:
    rows, behind = _lagging(profile)
    rows &= ~_more_bytes(profile)
    lines = ("lfs getstripe FILE  # is one target slow?", 'MPI_Info_set(info, "romio_cb_write", "enable");')
    return _straggler(profile, rows, behind, "; it moved no more than others", lines)


def _uneven(profile: Profile) -> Seen | None:
    each = profile.rank_seconds()
    each = each[each > 0]
    if profile.nprocs < 2 or len(each) < 2 or each.max() - each.mean() <= UNEVEN * each.max():
        return None
    evidence = (
        f"on files of their own the slowest of {len(each):,} processes took {format_seconds(float(each.max()))}, "
        f"the mean {format_seconds(float(each.mean()))}"
    )
    return Seen(evidence, float(each.max() - each.mean()), ("give each process the same bytes and files",))


def _blocking(profile: Profile) -> Seen | None:
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


def _aggregators(profile: Profile) -> Seen | None:
    """Known where a trace or records of single processes show who called POSIX below collective MPI-IO."""
    below = _callers(profile)
    rows = profile.counted & profile.collective
    if profile.node_count is None or not below or not rows.any() or below >= profile.nodes:
        return None
    data = profile.seconds("read_seconds") + profile.seconds("write_seconds")
    saved = np.where(rows, data * (1.0 - below / profile.nodes), 0.0)
    least = profile.moved_bytes / profile.ceiling_bytes_per_s
    seconds = min(profile.saving(saved), max(0.0, (profile.io_seconds or 0.0) - least))
    evidence = f"{below:,} aggregators for {profile.nodes:,} nodes"
    lines = (f'MPI_Info_set(info, "cb_nodes", "{profile.nodes}");', 'MPI_Info_set(info, "cb_config_list", "*:1");')
    return Seen(evidence, seconds, lines)


def _callers(profile: Profile) -> int:
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


RANK_RULES: Final = (
    Rule("rank_zero", "single-rank I/O", "ranks", "one process moves 99% of the bytes of a parallel run",
         "the same bytes by one process per node (at least 4 processes), each at its rate, within ceiling and stripes",
         _rank_zero),
    Rule("subset", "some do all I/O", "ranks", "a part of the processes moves all bytes, without collectives",
         "the same bytes by one process per node, each at the rate of those that did it, within ceiling and stripes",
         _subset),
    Rule("straggler_bytes", "uneven bytes", "ranks",
         "shared files: slowest process over 15% behind the fastest, with over 15% more bytes than the mean",
         "slowest less mean process, file by file", _straggler_bytes),
    Rule("straggler_time", "slow process", "ranks",
         "shared files: slowest process over 15% behind the fastest, with no more bytes than others",
         "slowest less mean process, file by file", _straggler_time),
    Rule("uneven_ranks", "uneven processes", "ranks",
         "files not shared: the mean process is over 30% below the slowest", "slowest less mean process", _uneven),
    Rule("blocking", "blocking writes", "overlap", "more than 1,000 MPI-IO operations, none non-blocking",
         "writing time, as far as the run did other things between its first and last write", _blocking),
    Rule("aggregators", "few aggregators", "ranks",
         "collective MPI-IO with fewer aggregators than nodes, both known",
         "the data by one aggregator per node, each at its rate, within the ceiling", _aggregators),
)  # fmt: skip
