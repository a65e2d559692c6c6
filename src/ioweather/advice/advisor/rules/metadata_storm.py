"""More opens and stats than reads and writes, or most of the time in them."""

from __future__ import annotations

from typing import Final

import numpy as np

from ioweather.advice.advisor.costs import (
    FEWEST,
)
from ioweather.advice.advisor.fixes import (
    packed,
)
from ioweather.advice.advisor.metadata_costs import metadata_calls
from ioweather.advice.advisor.profile import Profile, ratio
from ioweather.advice.advisor.rule import Rule, Seen
from ioweather.core.units import format_value

STORM_SHARE: Final = 0.3


def _look(profile: Profile) -> Seen | None:
    records = profile.records
    rows = profile.counted & ~records.mpiio
    opens, stats = profile.ints("open_count"), profile.ints("stat_count")
    # One open and one stat of each process on a file that all share are no storm.
    free = np.where(profile.shared & (profile.nprocs > 1), 2 * profile.first_opens, 0)
    calls = int(np.maximum(opens + stats - free, 0)[rows].sum())
    requests = int(profile.operations[rows].sum())
    meta, spent = (float(part[rows].sum()) for part in (profile.seconds("meta_seconds"), profile.spent))
    if calls < FEWEST or (calls < requests and meta < STORM_SHARE * spent):
        return None
    files = profile.files_moved(rows)
    time = f"; {format_value(meta / spent, 'ratio')} of the I/O time" if spent > 0 else ""
    least = "at least " if profile.incomplete else ""
    evidence = f"{least}{calls:,} opens and stats for {requests:,} reads and writes on {files:,} files{time}"
    again = np.maximum(stats - profile.first_opens, 0)
    saved = np.where(rows, profile.seconds("meta_seconds") * ratio(again, metadata_calls(profile)), 0.0)
    return Seen(evidence, profile.saving(saved), packed(profile))


RULE = Rule(
    name="metadata_storm",
    headline="metadata storm",
    dimension="metadata",
    part="metadata",
    trigger=(
        "100 or more opens and stats beyond one each per process of a shared file, as many as reads and "
        "writes or with 30% of the time"
    ),
    model="metadata time of stats beyond the first of each file and process; opens are in the rules of files",
    sources=("Carns et al. 2011, VI", "IO500: mdtest", "TraceBench HMD"),
    before=("while (stat(path, &state) != 0 || state.st_size < wanted)\n    ;  /* every process asks the server */"),
    after=(
        "if (rank == 0)\n"
        "    while (stat(path, &state) != 0 || state.st_size < wanted)\n"
        "        usleep(100000);\n"
        "MPI_Barrier(comm);"
    ),
    look=_look,
)
