"""Several processes of one program, and MPI-IO has no part in it."""

from __future__ import annotations

import numpy as np

from ioweather.advice.advisor.costs import FEWEST, joined_by_collectives
from ioweather.advice.advisor.profile import VERBS, Profile
from ioweather.advice.advisor.rule import Rule, Seen


def _look(profile: Profile) -> Seen | None:
    records = profile.records
    used = bool((records.mpiio & profile.moved_rows).any())
    rows = profile.counted & (records.posix | records.stdio)
    if used:
        # Some files go through MPI-IO: of the others those that all processes share could.
        rows &= profile.shared & profile.moved_rows
    # A file that is written or read in one request has nothing to join.
    made = sum(int(np.maximum(profile.ints(f"{verb}_count") - 1, 0)[rows].sum()) for verb in VERBS)
    if not profile.parallel or made < FEWEST:
        return None
    operations = int(profile.operations[rows].sum())
    plain = f"{profile.nprocs:,} processes, {operations:,} reads and writes, none of them by MPI-IO"
    return joined_by_collectives(profile, rows, plain, "on files shared by all, without MPI-IO")


RULE = Rule(
    name="no_mpiio",
    headline="no MPI-IO",
    dimension="interface",
    part="requests",
    trigger=(
        "several processes, no data by MPI-IO, and 100 or more POSIX or stream requests beyond the first of each "
        "file; or as many on files shared by all"
    ),
    model=(
        "MPI-IO joins small requests on shared files to 16 MiB: each saves its time beyond its bytes at the "
        "rate of large ones"
    ),
    sources=("Drishti (Bez et al. 2022)", "Thakur, Gropp, Lusk 1999", "TraceBench MPNM"),
    before=("int fd = open(path, O_WRONLY | O_CREAT, 0644);\npwrite(fd, part, bytes, rank * bytes);"),
    after=(
        "MPI_File file;\n"
        "MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_WRONLY | MPI_MODE_CREATE, info, &file);\n"
        "MPI_File_write_at_all(file, rank * bytes, part, bytes, MPI_BYTE, MPI_STATUS_IGNORE);"
    ),
    look=_look,
)
