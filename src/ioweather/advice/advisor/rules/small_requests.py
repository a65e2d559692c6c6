"""Requests under 1 MiB, wherever they are made: by the program, or by MPI-IO below it."""

from __future__ import annotations

import numpy as np

from ioweather.advice.advisor.costs import (
    JOINED_BYTES,
    joined,
    rate_words,
    small_requests,
)
from ioweather.advice.advisor.fixes import (
    collective_calls,
    interface_of,
    larger_requests,
    main_verb,
)
from ioweather.advice.advisor.profile import Profile, ratio
from ioweather.advice.advisor.rule import Rule, Seen


def _look(profile: Profile) -> Seen | None:
    rows = profile.at_storage & ~profile.records.stdio
    if (found := small_requests(profile, rows)) is None:
        return None
    mine = profile.counted & ~profile.collective & ~profile.records.stdio
    # On a file shared by all a process can itself join only what lies one behind the other.
    behind = profile.ints("consecutive_read_count") + profile.ints("consecutive_write_count")
    own = np.where(profile.shared & (profile.nprocs > 1), np.minimum(ratio(behind, profile.operations), 1.0), 1.0)
    seconds = profile.saving(np.where(mine, joined(profile, JOINED_BYTES) * own, 0.0))
    made = mine & rows if (mine & rows & profile.moved_rows).any() else rows
    interface = interface_of(profile, made, profile.operations.astype(np.float64))
    verb = main_verb(profile, rows)
    larger = larger_requests if (mine & rows).any() else collective_calls
    lines = larger(profile, interface, verb)
    return Seen(f"{found.words}; {rate_words(profile, rows)}", seconds, lines)


RULE = Rule(
    name="small_requests",
    headline="small requests",
    dimension="small_or_misaligned",
    part="requests",
    trigger="requests under 1 MiB at the file system, those of MPI-IO too: 100 or more and over 10%",
    model=(
        "joined to 4 MiB, each saves its time beyond its bytes at the rate of large ones; on a file shared by"
        " all only those that follow the one before"
    ),
    sources=("Drishti (Bez et al. 2022)", "Carns et al. 2011, V.D", "TraceBench SML"),
    before=("for (i = 0; i < n; i++)\n    write(fd, piece[i], 1024);"),
    after=(
        "for (i = 0; i < n; i++)\n"
        "    memcpy(buffer + 1024 * i, piece[i], 1024);\n"
        "write(fd, buffer, 1024 * n);  /* 4 MiB or more at once */"
    ),
    look=_look,
)
