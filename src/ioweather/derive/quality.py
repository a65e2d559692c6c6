"""Flags that need more than a file to be told, and what an answer leaves out because of flags. Arrays in, arrays out.

Readers flag what they see in one file (LATE, RESET, PARTIAL, SPREAD). Over a period: OVER_LIMIT is an amount that the
component, or all of them together, cannot have moved (limits from the facility file, else learned); SHUTDOWN is a time
in which no component moved anything, or none was recorded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ioweather.tables.series import Quality

Floats: TypeAlias = NDArray[np.float64]
Flags: TypeAlias = NDArray[np.uint8]
Mask: TypeAlias = NDArray[np.bool_]

# pat19 leaves these out and counts them; a late sum is right as soon as its minute is complete, and stays.
EXCLUDED = Quality.OVER_LIMIT | Quality.SHUTDOWN | Quality.RESET | Quality.PARTIAL
# [ours] A broken counter stands alone; what a storage system can do it does more than once. The height that SUPPORT
# cells reach is believable, and MARGIN times it is the limit. (Within a minute, where a late sum comes on all
# components at once, readers ask instead what was held for two samples in a row.)
SUPPORT = 12
MARGIN = 1.5
# [ours] Quieter than any storage system in use: even an idle one writes a few bytes a minute.
SHUTDOWN_SECONDS = 600


@dataclass(frozen=True, eq=False)
class Kept:
    """Values without what was left out (NaN), and how many cells went for which reason (each counted once)."""

    values: Floats
    excluded: dict[str, int]


class LimitLearner:
    """The limit of a component, learned from amounts (step, component) block by block; NaN is no sample.

    Leave out what is flagged PARTIAL first: it may hold another step's amount.
    """

    def __init__(self) -> None:
        self._highest = np.zeros(SUPPORT)

    def update(self, amounts: Floats) -> None:
        higher = amounts[amounts > self._highest[0]]
        if len(higher) > SUPPORT:
            higher = np.partition(higher, -SUPPORT)[-SUPPORT:]
        self._highest = np.sort(np.concatenate([self._highest, higher]))[-SUPPORT:]

    @property
    def limit(self) -> float:
        """The amount in a step above which nothing is believable; infinite where too little was seen to tell."""
        return float(MARGIN * self._highest[0]) if self._highest[0] > 0 else np.inf


def learned_limit(amounts: Floats) -> float:
    learner = LimitLearner()
    learner.update(amounts)
    return learner.limit


def flag_over_limit(amounts: Floats, *, component: float = np.inf, system: float = np.inf) -> Flags:
    """OVER_LIMIT for cells (step, component) above the component's limit, and for whole steps above the system's.

    Both limits are amounts per step. A late sum of one component does not condemn the others: the system's limit is
    tested without the cells that are impossible already.
    """
    above = amounts > component
    together = np.where(above | np.isnan(amounts), 0.0, amounts).sum(axis=1)
    above |= (together > system)[:, None] & ~np.isnan(amounts)
    return above.astype(np.uint8) * np.uint8(Quality.OVER_LIMIT)


def quiet_steps(*amounts: Floats) -> Mask:
    """Steps in which no component moved anything in any of the metrics (all zero or not recorded)."""
    quiet = np.ones(len(amounts[0]), np.bool_)
    for values in amounts:
        quiet &= ~(values > 0).any(axis=1)
    return quiet


def shutdown_steps(quiet: Mask, step_seconds: float, *, at_least_seconds: float = SHUTDOWN_SECONDS) -> Mask:
    """Runs of quiet steps that last long enough to be a shutdown. `quiet` may be a year: one flag per step."""
    bounds = np.flatnonzero(np.diff(np.concatenate([[False], quiet, [False]]).astype(np.int8)))
    begins, ends = bounds[::2], bounds[1::2]
    long = (ends - begins) * step_seconds >= at_least_seconds
    change = np.zeros(len(quiet) + 1, np.int64)
    change[begins[long]] += 1
    change[ends[long]] -= 1
    return np.cumsum(change[:-1]) > 0


def flag_shutdown(quiet: Mask, components: int, step_seconds: float) -> Flags:
    """SHUTDOWN for every component in the steps of a shutdown."""
    closed = shutdown_steps(quiet, step_seconds).astype(np.uint8) * np.uint8(Quality.SHUTDOWN)
    return np.repeat(closed[:, None], components, axis=1)


def leave_out(values: Floats, flags: Flags, excluded: Quality = EXCLUDED) -> Kept:
    """Values whose flags do not exclude them. A cell with several flags counts for the first of them."""
    present = ~np.isnan(values)
    remaining = present.copy()
    counts: dict[str, int] = {}
    for flag in Quality:
        if flag & excluded:
            hit = remaining & ((flags & np.uint8(flag)) != 0)
            if hit.any():
                counts[str(flag.name).lower()] = int(hit.sum())
                remaining &= ~hit
    return Kept(np.where(remaining, values, np.nan), counts)
