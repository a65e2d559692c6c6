"""Open and close in a loop."""

from __future__ import annotations

from typing import Final

import numpy as np

from ioweather.advice.advisor.metadata_costs import metadata_calls, opened_again
from ioweather.advice.advisor.profile import Profile, ratio
from ioweather.advice.advisor.rule import Rule, Seen

AGAIN: Final = 2.0
MANY_OPENS: Final = 100


def _look(profile: Profile) -> Seen | None:
    again = opened_again(profile)
    rows = profile.counted & (profile.ints("open_count") >= AGAIN * profile.first_opens) & (again > 0)
    repeated_opens = int(again[rows].sum())
    if repeated_opens < MANY_OPENS:
        return None
    share = ratio(2.0 * again, metadata_calls(profile))
    saved = np.where(rows, profile.seconds("meta_seconds") * share, 0.0)
    files = profile.files_moved(rows)
    which = "1 file" if files == 1 else f"{files:,} files"
    evidence = f"{repeated_opens:,} opens of {which} that the process had opened before"
    lines = ("fd = open(path, flags); /* once, before the loop */",)
    if profile.python:
        lines = ("file = open(path, 'rb')  # once, before the loop",)
    return Seen(evidence, profile.saving(saved), lines)


RULE = Rule(
    name="reopening",
    headline="opened again",
    dimension="metadata",
    part="metadata",
    trigger="100 opens or more beyond the first of each process, on files opened twice or more",
    model="metadata time, by the share of its calls that open or close again",
    sources=("Carns et al. 2011, V", "Patel et al. 2019: opens and closes"),
    before=(
        "for (step = 0; step < steps; step++) {\n"
        "    int fd = open(path, O_WRONLY | O_APPEND);\n"
        "    write(fd, line, bytes);\n"
        "    close(fd);\n"
        "}"
    ),
    after=(
        "int fd = open(path, O_WRONLY | O_APPEND);\n"
        "for (step = 0; step < steps; step++)\n"
        "    write(fd, line, bytes);\n"
        "close(fd);"
    ),
    look=_look,
)
