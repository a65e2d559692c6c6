"""Reading and writing in turns."""

from __future__ import annotations

from typing import Final

import numpy as np

from ioweather.advice.advisor.profile import Profile
from ioweather.advice.advisor.rule import Rule, Seen
from ioweather.core.arrays import Floats

SWITCH_SHARE: Final = 0.1
MANY: Final = 1000


def _look(profile: Profile) -> Seen | None:
    rows = profile.counted & (profile.operations > 0)
    total, switches = int(profile.operations[rows].sum()), int(profile.ints("switch_count")[rows].sum())
    if switches <= MANY or switches <= SWITCH_SHARE * total:
        return None
    each: Floats = np.maximum(profile.request_overhead("read"), profile.request_overhead("write"))
    saved = np.where(rows, each * np.minimum(profile.ints("switch_count"), profile.operations), 0.0)
    evidence = f"{switches:,} changes between reading and writing in {total:,} requests"
    return Seen(evidence, profile.saving(saved), ("read all of a block first, then write all of it",))


RULE = Rule(
    name="read_write_switches",
    headline="mixed directions",
    dimension="random",
    part="requests",
    trigger="more than 1,000 changes of direction, in 10% of the requests",
    model="a change of direction costs a request's time beyond its bytes",
    sources=("Drishti (Bez et al. 2022)",),
    before=(
        "for (i = 0; i < n; i++) {\n"
        "    pread(fd, item, size, i * size);\n"
        "    change(item);\n"
        "    pwrite(fd, item, size, i * size);\n"
        "}"
    ),
    after=(
        "pread(fd, items, n * size, 0);\n"
        "for (i = 0; i < n; i++)\n"
        "    change(items + i * size);\n"
        "pwrite(fd, items, n * size, 0);"
    ),
    look=_look,
)
