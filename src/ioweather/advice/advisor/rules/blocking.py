"""MPI-IO that waits for every write, though the run computes between its writes."""

from __future__ import annotations

from typing import Final

import numpy as np

from ioweather.advice.advisor.profile import Profile
from ioweather.advice.advisor.rule import Rule, Seen
from ioweather.core.units import NS

MANY: Final = 1000


def _look(profile: Profile) -> Seen | None:
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


RULE = Rule(
    name="blocking",
    headline="blocking writes",
    dimension="interface",
    part="overlap",
    trigger="more than 1,000 MPI-IO operations, none non-blocking",
    model="writing time, as far as the run did other things between its first and last write",
    sources=("Drishti (Bez et al. 2022)",),
    before=("MPI_File_write_at_all(file, offset, data, bytes, MPI_BYTE, MPI_STATUS_IGNORE);\ncompute_next_step();"),
    after=(
        "MPI_File_iwrite_at_all(file, offset, data, bytes, MPI_BYTE, &request);\n"
        "compute_next_step();\n"
        "MPI_Wait(&request, MPI_STATUS_IGNORE);"
    ),
    look=_look,
)
