"""A large shared file on few targets."""

from __future__ import annotations

import numpy as np

from ioweather.advice.advisor.fixes import (
    setstripe,
)
from ioweather.advice.advisor.layouts import (
    moved_per_file,
    wanted_stripes,
)
from ioweather.advice.advisor.profile import Profile, ratio
from ioweather.advice.advisor.rule import Rule, Seen
from ioweather.core.units import format_bytes


def _look(profile: Profile) -> Seen | None:
    stripes, wanted = profile.ints("stripe_count").astype(np.float64), wanted_stripes(profile)
    rows = profile.counted & (profile.records.rank < 0) & (stripes > 0) & (wanted > stripes)
    rows &= profile.shared_seconds > 0
    if profile.nprocs < 2 or not rows.any():
        return None
    moved = moved_per_file(profile)[profile.records.file].astype(np.float64)
    data = profile.seconds("read_seconds") + profile.seconds("write_seconds")
    spent = profile.shared_seconds * ratio(data, profile.spent)
    # What a target can do is at least what it did here. The rest of the time has other causes, and the wider stripe
    # still needs its part.
    rate = np.maximum(profile.target_bytes_per_s, ratio(moved, spent * stripes))
    seconds = float(np.where(rows, ratio(moved, stripes) / rate * (1.0 - ratio(stripes, wanted)), 0.0).sum())
    largest = int(np.argmax(np.where(rows, moved, -1.0)))
    count, width = int(stripes[largest]), int(wanted[largest])
    evidence = (
        f"{format_bytes(moved[largest])} of a file shared by all on {count} target{'s' if count != 1 else ''}, "
        f"taken at {format_bytes(float(rate[largest]))}/s each"
    )
    return Seen(evidence, seconds, (setstripe(profile, rows, width),))


RULE = Rule(
    name="striping",
    headline="few stripes",
    dimension="imbalance",
    part="layout",
    trigger="a shared file of more GiB than its Lustre stripes, where nodes and targets allow more",
    model=(
        "the bytes at 500 MiB/s per target (or as facility.toml says, or as this run did, if more): with "
        "these stripes, less with those"
    ),
    sources=("Lustre manual: lfs setstripe", "TraceBench SLIM"),
    before="lfs getstripe -c results/   # 1",
    after="lfs setstripe -c 8 -S 4M results/   # before the file is made; old files: lfs migrate -c 8 FILE",
    look=_look,
)
