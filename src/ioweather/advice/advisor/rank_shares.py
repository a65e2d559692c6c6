"""What rules of processes share: who moves the data, and who is behind."""

from __future__ import annotations

from typing import Final

import numpy as np

from ioweather.advice.advisor.profile import Profile
from ioweather.advice.advisor.rule import Seen
from ioweather.core.arrays import Bools, Floats
from ioweather.core.units import format_seconds
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
    moved = profile.ints("read_bytes") + profile.ints("write_bytes")
    alone = profile.ints("slowest_rank_bytes") == moved
    rows = profile.counted & (profile.records.rank < 0) & (slowest > 0) & (moved > 0) & ~alone
    rows &= profile.shared_seconds > 0
    rows &= slowest - fastest > STRAGGLER * slowest
    return rows, np.where(rows, np.maximum(slowest - profile.spent / profile.nprocs, 0.0), 0.0)


def more_bytes(profile: Profile) -> Bools:
    """The slowest process moved more than its part."""
    mean = (profile.ints("read_bytes") + profile.ints("write_bytes")) / profile.nprocs
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
