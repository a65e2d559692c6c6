"""MPI-IO that makes many small POSIX requests of few large calls: scattered data, and collective buffering off."""

from __future__ import annotations

from typing import Final

import numpy as np

from ioweather.advice.advisor.costs import (
    BUFFER_BYTES,
    FEWEST,
    joined,
)
from ioweather.advice.advisor.fixes import (
    buffering,
    interface_of,
    main_verb,
)
from ioweather.advice.advisor.profile import Profile, ratio
from ioweather.advice.advisor.rule import Rule, Seen
from ioweather.core.units import MIB, format_bytes

MORE: Final = 2.0


def _look(profile: Profile) -> Seen | None:
    records = profile.records
    mine = records.mpiio & profile.counted
    asked, done = (records.per_file(profile.operations, rows) for rows in (mine, profile.below))
    moved = profile.ints("read_bytes") + profile.ints("write_bytes")
    wanted, made = (records.per_file(moved, rows).astype(np.float64) for rows in (mine, profile.below))
    sizes = ratio(wanted, asked), ratio(made, done)
    files = (asked > 0) & (done >= MORE * asked) & (done >= FEWEST) & (sizes[1] < MIB) & (MORE * sizes[1] <= sizes[0])
    rows = profile.below & files[records.file]
    if not rows.any():
        return None
    worst = int(np.argmax(np.where(files, done, -1)))
    evidence = (
        f"{int(asked[worst]):,} MPI-IO calls of {format_bytes(float(sizes[0][worst]))} reached the file system as "
        f"{int(done[worst]):,} requests of {format_bytes(float(sizes[1][worst]))}"
    )
    saved = profile.lifted(np.where(rows, joined(profile, BUFFER_BYTES), 0.0))
    verb = main_verb(profile, rows)
    interface = interface_of(profile, rows, profile.operations.astype(np.float64))
    return Seen(evidence, profile.saving(saved), buffering(profile, interface, verb, BUFFER_BYTES))


RULE = Rule(
    name="mpiio_splits",
    headline="MPI-IO splits",
    dimension="interface",
    part="requests",
    trigger=(
        "twice as many POSIX requests as MPI-IO calls on a file, 100 or more, under 1 MiB and at most half as large"
    ),
    model=("buffered to 16 MiB, a POSIX request saves its time beyond its bytes; MPI-IO gets faster by the same share"),
    sources=("Dong et al. 2023 (AIIO), E2E", "ROMIO user's guide: collective buffering, data sieving"),
    before=(
        "/* each process writes many short pieces; MPI-IO passes them on one by one */\n"
        "MPI_File_write_all(file, data, 1, scattered_type, MPI_STATUS_IGNORE);"
    ),
    after=(
        'MPI_Info_set(info, "romio_cb_write", "enable");\n'
        'MPI_Info_set(info, "cb_buffer_size", "16777216");\n'
        "MPI_File_open(comm, path, mode, info, &file);\n"
        "MPI_File_write_all(file, data, 1, scattered_type, MPI_STATUS_IGNORE);"
    ),
    look=_look,
)
