"""Collective calls that reach the file system as they were made: their aggregators join nothing."""

from __future__ import annotations

from typing import Final

import numpy as np

from ioweather.advice.advisor.costs import (
    BUFFER_BYTES,
    joined,
    rate_words,
    small_requests,
)
from ioweather.advice.advisor.fixes import (
    buffering,
    interface_of,
    main_verb,
)
from ioweather.advice.advisor.profile import Profile
from ioweather.advice.advisor.rule import Rule, Seen

# MPI-IO that joins requests sends fewer on than it got; one that splits them is `mpiio_splits`.
SAME_COUNT: Final = 0.8
SPLIT_COUNT: Final = 2.0


def _look(profile: Profile) -> Seen | None:
    records = profile.records
    rows = profile.counted & profile.collective
    below = records.per_file(profile.operations, records.posix)[records.file]
    asked = np.maximum(records.per_file(profile.operations, rows)[records.file], 1)
    rows &= (below >= SAME_COUNT * asked) & (below < SPLIT_COUNT * asked)
    if (found := small_requests(profile, rows)) is None:
        return None
    seconds = profile.saving(np.where(rows, joined(profile, BUFFER_BYTES), 0.0))
    evidence = f"{found.words}, collective, and as many at the file system; {rate_words(profile, rows)}"
    interface = interface_of(profile, rows, profile.operations.astype(np.float64))
    return Seen(evidence, seconds, buffering(profile, interface, main_verb(profile, rows), BUFFER_BYTES))


RULE = Rule(
    name="unbuffered",
    headline="unjoined",
    dimension="interface",
    part="requests",
    trigger=(
        "small collective requests, 100 or more and over 10%, and 80% to 200% as many requests at the file system"
    ),
    model=("aggregators join small requests to 16 MiB: each saves its time beyond its bytes at the rate of large ones"),
    sources=("ROMIO user's guide: cb_buffer_size", "Thakur, Gropp, Lusk 1999"),
    before="MPI_File_open(comm, path, mode, MPI_INFO_NULL, &file);",
    after=(
        'MPI_Info_set(info, "romio_cb_write", "enable");\n'
        'MPI_Info_set(info, "cb_buffer_size", "16777216");\n'
        "MPI_File_open(comm, path, mode, info, &file);"
    ),
    look=_look,
)
