"""What a lake needs once a day: closed days are sealed."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ioweather.core.errors import SearchIncomplete
from ioweather.core.progress import Progress, silent
from ioweather.ingestion.derivations import SEARCHED, follow_arrival
from ioweather.lake.lake import Lake
from ioweather.lake.maintenance import Sealed, compact


def tend(lake: Lake, *, everything: bool = False, progress: Progress = silent) -> tuple[Sequence[Sealed], int]:
    """The table-days that were sealed, and how many events changed. New rows were searched when they came, with the
    week before them; with `everything` all are searched: those of a lake that an earlier version filled too."""
    sealed = compact(lake, everything=everything, progress=progress)
    if not everything:
        return sealed, 0
    progress(0, None, "searching for episodes and unhealthy components")
    missing: list[str] = []
    changed = sum(follow_arrival(lake, dict.fromkeys(SEARCHED, 0), missing, math.inf).values())
    if missing:
        raise SearchIncomplete(" ".join(missing))
    return sealed, changed
