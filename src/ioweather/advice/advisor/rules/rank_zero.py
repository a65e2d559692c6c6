"""One process moves everything."""

from __future__ import annotations

from ioweather.advice.advisor.fixes import (
    by_all,
)
from ioweather.advice.advisor.profile import Profile
from ioweather.advice.advisor.rank_shares import one_rank, spread, writers
from ioweather.advice.advisor.rule import Rule, Seen
from ioweather.core.units import format_bytes


def _look(profile: Profile) -> Seen | None:
    if not one_rank(profile):
        return None
    who = "rank 0" if profile.count("rank0_bytes") > 0.5 * profile.moved_bytes else "one process"
    spent = profile.io_seconds
    rate = f" at {format_bytes(profile.moved_bytes / spent)}/s" if spent else ""
    evidence = f"{who} of {profile.nprocs:,} moves all {format_bytes(profile.moved_bytes)}{rate}"
    return Seen(evidence, spread(profile, 1, writers(profile)), by_all(profile))


RULE = Rule(
    name="rank_zero",
    headline="single-rank I/O",
    dimension="imbalance",
    part="ranks",
    trigger="one process moves 99% of the bytes of a parallel run, all of whose records are there",
    model=(
        "the same bytes by one process per node (at least 4 processes), each at its rate, within ceiling and stripes"
    ),
    sources=("Carns et al. 2011, V.B", "TraceBench RLIM"),
    before=(
        "MPI_Gather(part, bytes, MPI_BYTE, all, bytes, MPI_BYTE, 0, comm);\n"
        "if (rank == 0)\n"
        "    write(fd, all, ranks * bytes);"
    ),
    after="MPI_File_write_at_all(file, rank * bytes, part, bytes, MPI_BYTE, MPI_STATUS_IGNORE);",
    look=_look,
)
