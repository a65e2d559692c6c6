"""The same bytes read more than once, by one process or several."""

from __future__ import annotations

from ioweather.advice.advisor.fixes import (
    kept_in_memory,
)
from ioweather.advice.advisor.layouts import (
    repeated,
)
from ioweather.advice.advisor.profile import Profile
from ioweather.advice.advisor.rule import Rule, Seen
from ioweather.core.units import format_bytes


def _look(profile: Profile) -> Seen | None:
    seconds, again, moved = repeated(profile, "read")
    if not again:
        return None
    shared = profile.nprocs > 1 and bool((profile.shared & profile.counted & (profile.ints("read_bytes") > 0)).any())
    lines = kept_in_memory(profile, shared)
    evidence = f"{format_bytes(again)} of {format_bytes(moved)} were read before, by this process or another"
    return Seen(evidence, seconds, lines)


RULE = Rule(
    name="redundant_reads",
    headline="read again",
    dimension="random",
    part="requests",
    trigger="more bytes read than the file's extent: over 10% of it, and 1 MiB in all",
    model="the repeated bytes at the rate at which the file was read",
    sources=("Drishti (Bez et al. 2022)", "TraceBench RDA"),
    before="pread(fd, table, bytes, 0);  /* every process, every step */",
    after=(
        "if (rank == 0)\n"
        "    pread(fd, table, bytes, 0);\n"
        "MPI_Bcast(table, bytes, MPI_BYTE, 0, comm);  /* once, before the loop */"
    ),
    look=_look,
)
