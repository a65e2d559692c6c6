"""MPI-IO, and every process for itself."""

from __future__ import annotations

from ioweather.advice.advisor.costs import FEWEST, joined_by_collectives
from ioweather.advice.advisor.profile import Profile
from ioweather.advice.advisor.rule import Rule, Seen


def _look(profile: Profile) -> Seen | None:
    rows = profile.counted & profile.records.mpiio & ~profile.collective
    operations = int(profile.operations[rows].sum())
    if not profile.parallel or operations < FEWEST:
        return None
    plain = f"{operations:,} MPI-IO operations, most of them independent"
    return joined_by_collectives(profile, rows, plain, "by independent MPI-IO on shared files")


RULE = Rule(
    name="no_collectives",
    headline="no collectives",
    dimension="interface",
    part="requests",
    trigger="100 or more MPI-IO operations on files where fewer than half are collective",
    model=(
        "aggregators join small requests on shared files to 16 MiB: each saves its time beyond its bytes at "
        "the rate of large ones"
    ),
    sources=(
        "Drishti (Bez et al. 2022)",
        "Thakur, Gropp, Lusk 1999",
        "ROMIO user's guide: romio_cb_write",
        "TraceBench NC",
    ),
    before="MPI_File_write_at(file, offset, part, bytes, MPI_BYTE, MPI_STATUS_IGNORE);",
    after=(
        'MPI_Info_set(info, "romio_cb_write", "enable");\n'
        "MPI_File_write_at_all(file, offset, part, bytes, MPI_BYTE, MPI_STATUS_IGNORE);"
    ),
    look=_look,
)
