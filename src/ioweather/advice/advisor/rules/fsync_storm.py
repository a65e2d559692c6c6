"""A sync after nearly every write: each waits for the device."""

from __future__ import annotations

from typing import Final

import numpy as np

from ioweather.advice.advisor.costs import (
    FEWEST,
)
from ioweather.advice.advisor.profile import Profile
from ioweather.advice.advisor.rule import Rule, Seen

SYNCS_PER_WRITE: Final = 0.5


def _look(profile: Profile) -> Seen | None:
    rows = profile.counted & ~profile.records.stdio
    syncs, writes = profile.ints("sync_count"), profile.ints("write_count")
    made, written = int(syncs[rows].sum()), int(writes[rows].sum())
    gone = np.maximum(np.minimum(syncs, writes) - profile.first_opens, 0)
    if int(gone[rows].sum()) < FEWEST or made < SYNCS_PER_WRITE * written:
        return None
    # Darshan counts a sync as writing.
    saved = np.where(rows, profile.request_overhead("write") * gone, 0.0)
    evidence = f"{made:,} syncs for {written:,} writes"
    line = "os.fsync(fd)  # once, after the loop" if profile.python else "fsync(fd); /* once, after the loop */"
    return Seen(evidence, profile.saving(saved), (line,))


RULE = Rule(
    name="fsync_storm",
    headline="sync per write",
    dimension="metadata",
    part="requests",
    trigger="a sync for every second write or more: 100 or more beyond one per process and file",
    model="a write without a sync saves its time beyond its bytes; one sync per process and file stays",
    sources=("IOR manual: -Y, -e", "fsync(2)"),
    before=("for (i = 0; i < n; i++) {\n    write(fd, line[i], bytes);\n    fsync(fd);\n}"),
    after=("for (i = 0; i < n; i++)\n    write(fd, line[i], bytes);\nfsync(fd);"),
    look=_look,
)
