"""Some processes move everything, by an aggregation of the program's own (car11 V.B, H)."""

from __future__ import annotations

from ioweather.advice.advisor.fixes import (
    by_all,
)
from ioweather.advice.advisor.profile import Profile
from ioweather.advice.advisor.rank_shares import one_rank, spread, writers
from ioweather.advice.advisor.rule import Rule, Seen


def _look(profile: Profile) -> Seen | None:
    ranks = profile.count("io_rank_count")
    if profile.incomplete or not profile.parallel or one_rank(profile):
        return None
    if not 1 < ranks < profile.nprocs or profile.count("collective_count"):
        return None
    evidence = f"{ranks:,} of {profile.nprocs:,} processes move all data without collectives, on {profile.nodes_words}"
    return Seen(evidence, spread(profile, ranks, writers(profile)), by_all(profile))


RULE = Rule(
    name="subset",
    headline="some do all I/O",
    dimension="imbalance",
    part="ranks",
    trigger="a part of the processes moves all bytes, without collectives, and all records are there",
    model=("the same bytes by one process per node, each at the rate of those that did it, within ceiling and stripes"),
    sources=("Carns et al. 2011, V.B and V.H", "TraceBench RLIM"),
    before=("if (rank % 16 == 0)\n    write(fd, gathered, 16 * bytes);"),
    after=(
        'MPI_Info_set(info, "cb_nodes", "8");  /* the nodes of the run */\n'
        "MPI_File_write_at_all(file, rank * bytes, part, bytes, MPI_BYTE, MPI_STATUS_IGNORE);"
    ),
    look=_look,
)
