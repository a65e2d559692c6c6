"""Shutdowns that nobody declared, told from silence: times in which no component of a storage system moves anything."""

from __future__ import annotations

import numpy as np

from ioweather.core.arrays import Bools

# [ours] Quieter than any storage system in use: even an idle one writes a few bytes a minute.
SHUTDOWN_SECONDS = 600
# A few disks may all be idle together; so many targets are not.
FEWEST_COMPONENTS = 8


def shutdown_steps(quiet: Bools, step_seconds: float, *, at_least_seconds: float = SHUTDOWN_SECONDS) -> Bools:
    """Runs of quiet steps that last long enough to be a shutdown. `quiet` may be a year: one flag per step."""
    bounds = np.flatnonzero(np.diff(np.concatenate([[False], quiet, [False]]).astype(np.int8)))
    begins, ends = bounds[::2], bounds[1::2]
    long = (ends - begins) * step_seconds >= at_least_seconds
    change = np.zeros(len(quiet) + 1, np.int64)
    change[begins[long]] += 1
    change[ends[long]] -= 1
    return np.cumsum(change[:-1]) > 0
