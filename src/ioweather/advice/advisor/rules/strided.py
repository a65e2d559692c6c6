"""Small requests that leave gaps, always forward: interleaved processes, columns of a matrix."""

from __future__ import annotations

from typing import Final

import numpy as np

from ioweather.advice.advisor.costs import (
    FEWEST,
    order_share,
)
from ioweather.advice.advisor.fixes import (
    collective_calls,
    in_order,
    interface_of,
    main_verb,
)
from ioweather.advice.advisor.profile import VERBS, Profile
from ioweather.advice.advisor.rule import Rule, Seen
from ioweather.core.units import MIB

STRIDED_SHARE: Final = 0.5


def _look(profile: Profile) -> Seen | None:
    moved = profile.ints("read_bytes") + profile.ints("write_bytes")
    rows = profile.records.posix & (moved < MIB * profile.operations)
    saved = np.zeros(len(rows))
    gaps, total = 0, int(profile.operations[rows].sum())
    for verb in VERBS:
        forward = profile.ints(f"sequential_{verb}_count") - profile.ints(f"consecutive_{verb}_count")
        known = profile.records.known(f"consecutive_{verb}_count")
        # The first request of each process counts as none that followed.
        skipped = np.where(known, np.maximum(forward - profile.first_opens + 1, 0), 0)
        # What MPI-IO made of the program's calls is `mpiio_splits`.
        saved += np.where(profile.below, 0.0, profile.request_overhead(verb) * skipped * order_share(profile, verb))
        gaps += int(skipped[rows].sum())
    if gaps < FEWEST or gaps <= STRIDED_SHARE * total:
        return None
    evidence = f"{gaps:,} of {total:,} requests, under 1 MiB on average, leave a gap to the one before"
    interface = interface_of(profile, rows, profile.operations.astype(np.float64))
    verb = main_verb(profile, rows)
    lines = collective_calls(profile, interface, verb) if profile.parallel else in_order(profile, verb)
    return Seen(evidence, profile.saving(np.where(rows, saved, 0.0)), lines)


RULE = Rule(
    name="strided",
    headline="strided access",
    dimension="random",
    part="requests",
    trigger="100 or more and over half of the small POSIX requests begin beyond the end of the one before",
    model=(
        "a request without a gap saves its time beyond its bytes at the rate of large ones; a write with a sync of "
        "its own 15% of that"
    ),
    sources=("IO500: ior-hard", "Dong et al. 2023 (AIIO), IOR -s", "TraceBench RMA"),
    before=("for (i = 0; i < n; i++)\n    pwrite(fd, row[i], 47008, (i * ranks + rank) * 47008L);"),
    after=(
        "MPI_Type_vector(n, 47008, ranks * 47008, MPI_BYTE, &every_nth);\n"
        'MPI_File_set_view(file, rank * 47008L, MPI_BYTE, every_nth, "native", info);\n'
        "MPI_File_write_all(file, rows, n * 47008, MPI_BYTE, MPI_STATUS_IGNORE);"
    ),
    look=_look,
)
