"""Buffers that begin off their alignment in memory: the kernel copies them once more."""

from __future__ import annotations

from typing import Final

import numpy as np

from ioweather.advice.advisor.costs import (
    FEWEST,
)
from ioweather.advice.advisor.profile import Profile, ratio
from ioweather.advice.advisor.rule import Rule, Seen
from ioweather.core.units import GIB, format_value

UNALIGNED_SHARE: Final = 0.1
# One more copy in memory.
COPY_BYTES_PER_S: Final = 5.0 * GIB


def _look(profile: Profile) -> Seen | None:
    rows = profile.counted & profile.records.posix & (profile.operations > 0)
    total, off = int(profile.operations[rows].sum()), int(profile.ints("memory_not_aligned_count")[rows].sum())
    if total < FEWEST or off <= UNALIGNED_SHARE * total:
        return None
    moved = (profile.ints("read_bytes") + profile.ints("write_bytes")).astype(np.float64)
    share = np.minimum(ratio(profile.ints("memory_not_aligned_count"), profile.operations), 1.0)
    data = profile.seconds("read_seconds") + profile.seconds("write_seconds")
    saved = np.where(rows, np.minimum(moved * share / COPY_BYTES_PER_S, data), 0.0)
    part = format_value(min(off / total, 1.0), "ratio")
    evidence = f"{part} of {total:,} buffers begin off their alignment in memory"
    return Seen(evidence, profile.saving(saved), ("posix_memalign(&buffer, 4096, bytes);",))


RULE = Rule(
    name="unaligned_memory",
    headline="memory alignment",
    dimension="small_or_misaligned",
    part="requests",
    trigger="more than 10% of 100 or more buffers off their alignment",
    model="one copy less at 5 GiB/s",
    sources=("Drishti (Bez et al. 2022)",),
    before="char *buffer = malloc(bytes);",
    after=("void *buffer;\nposix_memalign(&buffer, 4096, bytes);"),
    look=_look,
)
