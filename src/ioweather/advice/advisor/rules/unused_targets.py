"""The run's data on fewer storage targets than there are and than it has processes to feed."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from ioweather.advice.advisor.fixes import (
    setstripe,
)
from ioweather.advice.advisor.layouts import (
    FEWEST_STRIPES,
    mounted_as,
    targets_used,
)
from ioweather.advice.advisor.profile import Profile
from ioweather.advice.advisor.rule import Rule, Seen
from ioweather.core.units import MIB, format_bytes

FEWEST_BYTES: Final = 64 * MIB


def _look(profile: Profile) -> Seen | None:
    rows = profile.counted & profile.moved_rows
    moved = float((profile.ints("read_bytes") + profile.ints("write_bytes"))[rows].sum(dtype=np.float64))
    if not profile.parallel or moved < FEWEST_BYTES:
        return None
    stripes = profile.ints("stripe_count")
    laid_out = rows & (stripes > 0)
    if laid_out.any():
        used, known = targets_used(profile, laid_out), profile.known_targets
        if used >= min(known, profile.nprocs) or (profile.incomplete and not profile.shared[laid_out].any()):
            return None
        there = f" of {int(known):,}" if math.isfinite(known) else ""
        evidence = f"{format_bytes(moved)} of {profile.nprocs:,} processes on {used:,}{there} storage targets"
    else:
        rows &= profile.shared & mounted_as(profile, "lustre")
        if not rows.any() or profile.files_moved(rows) > 1:
            return None
        used = 1
        evidence = f"{format_bytes(moved)} in one file on Lustre, its layout not recorded: the default is one target"
    width = int(min(profile.known_targets, max(profile.nodes, FEWEST_STRIPES)))
    return Seen(evidence, 0.0, (setstripe(profile, rows & profile.shared, width),))


RULE = Rule(
    name="unused_targets",
    headline="unused targets",
    dimension="imbalance",
    part="layout",
    trigger=(
        "64 MiB or more on fewer Lustre targets than there are and than processes; one shared file without a "
        "recorded layout counts as one target"
    ),
    model="no seconds of its own: few stripes, where they cost, are a rule of their own",
    sources=("Lustre manual: lfs setstripe", "TraceBench SLIM"),
    before="lfs getstripe -c results/   # 1, on a file system of 40 targets",
    after="lfs setstripe -c 8 results/   # before the file is made",
    look=_look,
)
