"""Many requests of several processes to one file: they wait for each other's locks."""

from __future__ import annotations

import numpy as np

from ioweather.advice.advisor.costs import (
    FEWEST,
)
from ioweather.advice.advisor.fixes import (
    collective_calls,
    interface_of,
    main_verb,
)
from ioweather.advice.advisor.profile import Profile
from ioweather.advice.advisor.rule import Rule, Seen
from ioweather.core.units import format_value


# Where collective MPI-IO sends no more on than it got, its aggregators do not meet.
def _look(profile: Profile) -> Seen | None:
    records = profile.records
    asked = records.per_file(profile.operations, profile.counted & profile.collective)
    done = records.per_file(profile.operations, records.posix)
    joined_by_mpiio = (asked > 0) & (done < asked)
    rows = profile.at_storage & profile.shared & ~joined_by_mpiio[records.file]
    count = int(profile.operations[rows].sum())
    if not profile.parallel or count < FEWEST:
        return None
    files = profile.files_moved(rows & (profile.operations > 0))
    which = "one file" if files == 1 else f"{files:,} files"
    off = int(profile.ints("file_not_aligned_count")[rows].sum())
    locks = f", {format_value(min(off / count, 1.0), 'ratio')} of them off its blocks" if off else ""
    evidence = f"{count:,} requests of {profile.nprocs:,} processes to {which} that all share{locks}"
    interface = interface_of(profile, rows, profile.operations.astype(np.float64))
    return Seen(evidence, 0.0, collective_calls(profile, interface, main_verb(profile, rows)))


RULE = Rule(
    name="shared_file",
    headline="shared file",
    dimension="shared_file",
    part="requests",
    trigger="100 or more requests at the file system to files shared by all, unless collective MPI-IO joined them",
    model="no seconds of its own: what sharing costs shows in small, strided, unaligned and unjoined requests",
    sources=("Carns et al. 2011, IV", "Lustre manual: extent locks", "TraceBench SHF"),
    before=('int fd = open("all.dat", O_WRONLY);\npwrite(fd, part, bytes, offset);'),
    after=(
        'MPI_Info_set(info, "romio_cb_write", "enable");  /* one process per node writes, in blocks of its '
        "own */\n"
        "MPI_File_write_at_all(file, offset, part, bytes, MPI_BYTE, MPI_STATUS_IGNORE);"
    ),
    look=_look,
)
