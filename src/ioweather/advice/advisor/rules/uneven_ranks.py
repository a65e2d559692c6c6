"""Processes with files of their own, and one of them takes far longer."""

from __future__ import annotations

from typing import Final

import numpy as np

from ioweather.advice.advisor.profile import Profile
from ioweather.advice.advisor.rank_shares import STRAGGLER
from ioweather.advice.advisor.rule import Rule, Seen
from ioweather.core.units import format_seconds

UNEVEN: Final = 0.3  # Drishti's


def _look(profile: Profile) -> Seen | None:
    each = profile.rank_sums(profile.spent)
    moved = profile.rank_sums((profile.ints("read_bytes") + profile.ints("write_bytes")).astype(np.float64))[each > 0]
    each = each[each > 0]
    if profile.nprocs < 2 or len(each) < 2 or profile.incomplete or each.max() - each.mean() <= UNEVEN * each.max():
        return None
    evidence = (
        f"on files of their own the slowest of {len(each):,} processes took {format_seconds(float(each.max()))}, "
        f"the mean {format_seconds(float(each.mean()))}"
    )
    line = "give each process the same bytes and files"
    if moved[each.argmax()] <= (1.0 + STRAGGLER) * moved.mean():
        evidence, line = f"{evidence}; it moved no more than others", "lfs getstripe FILE  # is one target slow?"
    return Seen(evidence, float(each.max() - each.mean()), (line,))


RULE = Rule(
    name="uneven_ranks",
    headline="uneven processes",
    dimension="imbalance",
    part="ranks",
    trigger="files not shared: the mean process is over 30% below the slowest, and all records are there",
    model="slowest less mean process",
    sources=("Drishti (Bez et al. 2022)", "TraceBench RLIM"),
    before=("for (i = first[rank]; i < first[rank + 1]; i++)\n    process(file[i]);"),
    after=("for (i = rank; i < files; i += ranks)\n    process(file[i]);  /* files sorted by size */"),
    look=_look,
)
