"""Cumulative counters to amounts, on arrays: over gaps, over restarts, and from one block of time to the next."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ioweather.core.arrays import Bools, Floats, Ints

ABSENT = -1


@dataclass(eq=False)
class CounterMemory:
    """The last counters (component, counter) seen of each component, and in which step; ABSENT before the first."""

    counters: Ints
    steps: Ints

    @classmethod
    def empty(cls, components: int, counters: int) -> CounterMemory:
        return cls(np.full((components, counters), ABSENT, np.int64), np.zeros(components, np.int64))


@dataclass(frozen=True, eq=False)
class Amounts:
    """`values[i, j, k]` is what counter k of component j grew by since the sample before, NaN where there is none.

    `spans[i, j]`: steps since that sample. `restarted[i, j]`: the counters started again in between.
    """

    values: Floats
    spans: Ints
    restarted: Bools


def amounts(counters: Ints, first_step: int, memory: CounterMemory) -> Amounts:
    """Differences of `counters` (step, component, counter; ABSENT where there is no sample); updates the memory.

    A server that restarts begins at zero with all its counters at once, so one that dropped means that all started
    again: what they show is their amount since, the least that can have moved.
    """
    steps, components, _ = counters.shape
    known = np.concatenate([memory.counters[None], counters])
    present: Bools = np.all(known >= 0, axis=2)
    index = np.where(present, np.arange(steps + 1)[:, None], -1)
    latest = np.maximum.accumulate(index, axis=0)
    before = latest[:-1]
    valid = present[1:] & (before >= 0)
    previous = np.take_along_axis(known, np.maximum(before, 0)[:, :, None], axis=0)
    growth = counters - previous
    restarted: Bools = valid & np.any(growth < 0, axis=2)
    values = np.where(restarted[:, :, None], counters, growth).astype(np.float64)
    values[~valid] = np.nan
    at_step = np.concatenate(
        [memory.steps[None], np.broadcast_to(np.arange(steps)[:, None] + first_step, present[1:].shape)]
    )
    spans = np.where(valid, at_step[1:] - np.take_along_axis(at_step, np.maximum(before, 0), axis=0), 1)
    last = latest[-1]
    column = np.arange(components)
    memory.counters = np.where((last >= 0)[:, None], known[np.maximum(last, 0), column], ABSENT)
    memory.steps = at_step[np.maximum(last, 0), column]
    return Amounts(values, spans, restarted)


def unused_is_zero(counters: Ints, memory: CounterMemory) -> Ints:
    """Counters that a sample leaves out: zero until the first use, after that what they were."""
    sampled: Bools = np.any(counters >= 0, axis=2)
    known = np.concatenate([memory.counters[None], counters])
    index = np.where(known >= 0, np.arange(len(known))[:, None, None], -1)
    latest = np.maximum.accumulate(index, axis=0)
    carried = np.where(latest >= 0, np.take_along_axis(known, np.maximum(latest, 0), axis=0), 0)[1:]
    return np.where((counters < 0) & sampled[:, :, None], carried, counters)
