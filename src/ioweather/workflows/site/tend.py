"""What a lake needs once a day: closed days are sealed, and searched again as a whole."""

from __future__ import annotations

from collections.abc import Sequence

from ioweather.core.clock import day_start_ns
from ioweather.core.progress import Progress, silent
from ioweather.store.lake import Lake
from ioweather.store.seal import Sealed, compact
from ioweather.workflows.ingest.what_follows import SEARCHED, follow_arrival


def tend(lake: Lake, *, everything: bool = False, progress: Progress = silent) -> tuple[Sequence[Sealed], int]:
    """The table-days that were sealed, and how many events changed. With `everything`, all rows are searched: those of
    a lake that an earlier version filled too."""
    sealed = compact(lake, everything=everything, progress=progress)
    days = [day_start_ns(item.day) for item in sealed if item.table in SEARCHED]
    if not (everything or days):
        return sealed, 0
    progress(0, None, "searching for episodes and unhealthy components")
    first = 0 if everything else min(days)
    return sealed, sum(follow_arrival(lake, dict.fromkeys(SEARCHED, first)).values())
