"""Processes: who moves the data, and who is behind."""

from __future__ import annotations

from typing import Final

import numpy as np

from ioweather.advice.advisor.fixes import by_all
from ioweather.advice.advisor.profile import Profile
from ioweather.advice.advisor.rule import Seen
from ioweather.core.arrays import Bools, Floats
from ioweather.core.units import format_bytes, format_seconds
from ioweather.derive.jobs.signatures import ALMOST_ALL

# Drishti's: slowest against fastest process of a shared file.
STRAGGLER: Final = 0.15
# Even on one node several processes move more than one.
FEWEST_WRITERS: Final = 4


def writers(profile: Profile) -> int:
    return max(profile.nodes, min(profile.nprocs, FEWEST_WRITERS))


def spread(profile: Profile, now: int, then: int) -> float:
    """Seconds saved if `then` processes moved what `now` did, each at its own rate, within what nodes, file system and
    the stripes of the files allow."""
    spent = profile.io_seconds or 0.0
    if then <= now:
        return 0.0
    fastest = min(profile.ceiling_bytes_per_s, profile.layout_bytes_per_s)
    return max(0.0, spent - max(spent * now / then, profile.moved_bytes / fastest))


def one_rank(profile: Profile) -> bool:
    """Files without a record may be those of the others."""
    moved = profile.moved_bytes
    return (
        profile.parallel
        and not profile.incomplete
        and moved > 0
        and (profile.count("io_rank_count") == 1 or profile.count("rank0_bytes") >= ALMOST_ALL * moved)
    )


def lagging(profile: Profile) -> tuple[Bools, Floats]:
    """Shared records whose slowest process is behind the fastest, and by how much it is behind the mean."""
    slowest, fastest = profile.seconds("slowest_rank_seconds"), profile.seconds("fastest_rank_seconds")
    moved = profile.moved
    alone = profile.ints("slowest_rank_bytes") == moved
    rows = profile.counted & (profile.records.rank < 0) & (slowest > 0) & (moved > 0) & ~alone
    rows &= profile.shared_seconds > 0
    rows &= slowest - fastest > STRAGGLER * slowest
    return rows, np.where(rows, np.maximum(slowest - profile.spent / profile.nprocs, 0.0), 0.0)


def more_bytes(profile: Profile) -> Bools:
    """The slowest process moved more than its part."""
    mean = profile.moved / profile.nprocs
    return np.asarray(profile.ints("slowest_rank_bytes") > (1.0 + STRAGGLER) * mean, np.bool_)


def straggler(profile: Profile, rows: Bools, behind: Floats, why: str, lines: tuple[str, ...]) -> Seen | None:
    if profile.nprocs < 2 or not rows.any():
        return None
    worst = int(np.argmax(np.where(rows, behind, -1.0)))
    slowest, fastest = (float(profile.seconds(f"{name}_rank_seconds")[worst]) for name in ("slowest", "fastest"))
    rank = int(profile.ints("slowest_rank")[worst])
    who = f"rank {rank:,}" if 0 <= rank < profile.nprocs else "the slowest process"
    evidence = f"{who} took {format_seconds(slowest)} on a shared file, the fastest {format_seconds(fastest)}{why}"
    return Seen(evidence, float(behind[rows].sum()), lines)


def rank_zero(profile: Profile) -> Seen | None:
    """One process moves everything."""
    if not one_rank(profile):
        return None
    who = "rank 0" if profile.count("rank0_bytes") > 0.5 * profile.moved_bytes else "one process"
    spent = profile.io_seconds
    rate = f" at {format_bytes(profile.moved_bytes / spent)}/s" if spent else ""
    evidence = f"{who} of {profile.nprocs:,} moves all {format_bytes(profile.moved_bytes)}{rate}"
    return Seen(evidence, spread(profile, 1, writers(profile)), by_all(profile))


def subset(profile: Profile) -> Seen | None:
    """Some processes move everything, by an aggregation of the program's own (car11 V.B, H)."""
    ranks = profile.count("io_rank_count")
    if profile.incomplete or not profile.parallel or one_rank(profile):
        return None
    if not 1 < ranks < profile.nprocs or profile.count("collective_count"):
        return None
    evidence = f"{ranks:,} of {profile.nprocs:,} processes move all data without collectives, on {profile.nodes_words}"
    return Seen(evidence, spread(profile, ranks, writers(profile)), by_all(profile))


def straggler_bytes(profile: Profile) -> Seen | None:
    """The slowest process of a shared file moves more than its part."""
    rows, behind = lagging(profile)
    lines = ("divide the data evenly: total / ranks bytes each", 'MPI_Info_set(info, "romio_cb_write", "enable");')
    return straggler(profile, rows & more_bytes(profile), behind, "; it moved more than its part", lines)


# Nothing in the program makes a process slow that moves no more than the others.
_REPORT: Final = "report to your site: one node or target is slow"


def straggler_time(profile: Profile) -> Seen | None:
    """The slowest process of a shared file moves no more than others: something on its way is slow."""
    rows, behind = lagging(profile)
    lines = ('MPI_Info_set(info, "romio_cb_write", "enable");', _REPORT)
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
    return Seen(evidence, float(each.max() - each.mean()), (line,))
