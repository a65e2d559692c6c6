"""The slowest process of a shared file moves more than its part."""

from __future__ import annotations

from ioweather.advice.advisor.profile import Profile
from ioweather.advice.advisor.rank_shares import lagging, more_bytes, straggler
from ioweather.advice.advisor.rule import Rule, Seen


def _look(profile: Profile) -> Seen | None:
    rows, behind = lagging(profile)
    lines = ("divide the data evenly: total / ranks bytes each", 'MPI_Info_set(info, "romio_cb_write", "enable");')
    return straggler(profile, rows & more_bytes(profile), behind, "; it moved more than its part", lines)


RULE = Rule(
    name="straggler_bytes",
    headline="uneven bytes",
    dimension="imbalance",
    part="ranks",
    trigger="shared files: slowest process over 15% behind the fastest, with over 15% more bytes than the mean",
    model="slowest less mean process, file by file",
    sources=("Drishti (Bez et al. 2022)", "TraceBench RLIM"),
    before="bytes = rank == 0 ? total - (ranks - 1) * small : small;",
    after="bytes = total / ranks + (rank < total % ranks);",
    look=_look,
)
