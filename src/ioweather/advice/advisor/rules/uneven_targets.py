"""Files whose stripes meet on the same targets."""

from __future__ import annotations

from typing import Final

import numpy as np

from ioweather.advice.advisor.fixes import (
    setstripe,
)
from ioweather.advice.advisor.layouts import (
    target_load,
)
from ioweather.advice.advisor.profile import Profile
from ioweather.advice.advisor.rule import Rule, Seen
from ioweather.core.units import MIB, format_bytes

FEWEST_BYTES: Final = 64 * MIB
UNEVEN: Final = 1.5


def _look(profile: Profile) -> Seen | None:
    rows = profile.counted & profile.moved_rows & (profile.ints("stripe_count") > 0)
    targets, load, share = target_load(profile, rows)
    if profile.incomplete or len(targets) < 2 or load.sum() < FEWEST_BYTES or load.max() <= UNEVEN * load.mean():
        return None
    busiest = int(np.argmax(load))
    data = profile.seconds("read_seconds") + profile.seconds("write_seconds")
    even = float(load.mean() / load.max())
    saved = np.where(rows, data * share[busiest] * (1.0 - even), 0.0)
    evidence = (
        f"target {targets[busiest]} has {format_bytes(float(load[busiest]))} of the run's files, "
        f"{len(targets):,} targets {format_bytes(float(load.mean()))} on average"
    )
    return Seen(evidence, profile.saving(saved), (setstripe(profile, rows, -1),))


RULE = Rule(
    name="uneven_targets",
    headline="uneven targets",
    dimension="imbalance",
    part="layout",
    trigger="one Lustre target holds over 1.5 times the mean of those used, of 64 MiB or more, all records there",
    model="the data time of the files on that target, less what the mean target needs",
    sources=("Patel et al. 2019: OST imbalance", "TraceBench SLIM"),
    before="lfs setstripe -c 1 -i 0 results/   # every file on target 0",
    after="lfs setstripe -c 1 -i -1 results/   # each file where the file system chooses",
    look=_look,
)
