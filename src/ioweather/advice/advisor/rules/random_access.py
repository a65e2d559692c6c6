"""Requests that go back in the file."""

from __future__ import annotations

from typing import Final

import numpy as np

from ioweather.advice.advisor.costs import (
    FEWEST,
    order_share,
    rate_words,
)
from ioweather.advice.advisor.fixes import (
    in_order,
    main_verb,
)
from ioweather.advice.advisor.profile import VERBS, Profile
from ioweather.advice.advisor.rule import Rule, Seen

RANDOM_SHARE: Final = 0.2


def _look(profile: Profile) -> Seen | None:
    rows = profile.records.posix
    saved = np.zeros(len(rows))
    random, total = 0, int(profile.operations[rows].sum())
    for verb in VERBS:
        count = profile.ints(f"{verb}_count")
        # The first request of a process on a file follows none.
        first = np.minimum(profile.first_opens, count)
        jumps = np.where(profile.records.known(f"sequential_{verb}_count"),
                         np.maximum(count - profile.ints(f"sequential_{verb}_count") - first, 0), 0)  # fmt: skip
        saved += profile.request_overhead(verb) * jumps * order_share(profile, verb)
        random += int(jumps[rows].sum())
    if random < FEWEST or random <= RANDOM_SHARE * total:
        return None
    evidence = f"{random:,} of {total:,} requests go back in the file; {rate_words(profile, rows)}"
    seconds = profile.saving(profile.lifted(np.where(rows, saved, 0.0)))
    return Seen(evidence, seconds, in_order(profile, main_verb(profile, rows)))


RULE = Rule(
    name="random_access",
    headline="random access",
    dimension="random",
    part="requests",
    trigger="100 or more and over 20% of the POSIX requests, those below MPI-IO too, begin below the one before",
    model=(
        "a request in order saves its time beyond moving its bytes at the rate of large requests; a write with a "
        "sync of its own 15% of that"
    ),
    sources=("Drishti (Bez et al. 2022)", "TraceBench RMA"),
    before=("for (i = 0; i < n; i++)\n    pread(fd, item[i], size, offset[i]);"),
    after=(
        "qsort(order, n, sizeof *order, by_offset);\n"
        "for (i = 0; i < n; i++)\n"
        "    pread(fd, item[order[i]], size, offset[order[i]]);"
    ),
    look=_look,
)
