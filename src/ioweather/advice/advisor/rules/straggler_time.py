"""The slowest process of a shared file moves no more than others: something on its way is slow."""

from __future__ import annotations

from ioweather.advice.advisor.profile import Profile
from ioweather.advice.advisor.rank_shares import lagging, more_bytes, straggler
from ioweather.advice.advisor.rule import Rule, Seen


def _look(profile: Profile) -> Seen | None:
    rows, behind = lagging(profile)
    lines = ("lfs getstripe FILE  # is one target slow?", 'MPI_Info_set(info, "romio_cb_write", "enable");')
    return straggler(profile, rows & ~more_bytes(profile), behind, "; it moved no more than others", lines)


RULE = Rule(
    name="straggler_time",
    headline="slow process",
    dimension="imbalance",
    part="ranks",
    trigger="shared files: slowest process over 15% behind the fastest, with no more bytes than others",
    model="slowest less mean process, file by file",
    sources=("Drishti (Bez et al. 2022)", "TraceBench RLIM"),
    before="MPI_File_write_at(file, offset, part, bytes, MPI_BYTE, MPI_STATUS_IGNORE);",
    after=(
        'MPI_Info_set(info, "romio_cb_write", "enable");\n'
        "MPI_File_write_at_all(file, offset, part, bytes, MPI_BYTE, MPI_STATUS_IGNORE);"
    ),
    look=_look,
)
