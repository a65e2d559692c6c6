"""Samples on a regular grid to rows of `series`: counters to amounts, late samples flagged, steps joined to minutes.

A sample carries its own step, or, where the samples before it never arrived, their amount too (LMT counters are
cumulative, so the next sample brings the sum). `spans` says how many steps a sample covers. A minute is whole when the
spans of its samples add up to it and none reaches back over its start; else it is flagged PARTIAL, and its amount is a
lower bound or includes a part of its neighbour's. Nothing is dropped: all minutes add up to all samples.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from ioweather.core.arrays import Bools, Floats, Ints
from ioweather.core.contracts import ReadContext
from ioweather.core.frames import Frame, Text
from ioweather.core.tables import METRICS, SERIES, Quality
from ioweather.core.units import HOUR_NS, MINUTE_NS

Flags: TypeAlias = NDArray[np.uint8]
Rows: TypeAlias = Iterator[tuple[str, Frame]]
Number = TypeVar("Number", bound=np.generic)

ABSENT = -1  # a counter without a sample
# A component's limit is learned as this many times the highest amount that any component sustained for two samples in a
# row: a late sum is alone, real load is not. Fewer samples near that height than SUPPORT prove nothing.
LIMIT_MARGIN = 1.5
LIMIT_SUPPORT = 12
# Rows of one frame: bounds the memory of a day of 5 s samples.
FRAME_ROWS = 500_000


@dataclass(frozen=True, eq=False)
class Samples:
    """One metric of many components on a regular grid; NaN where there is no sample.

    `values[i, j]` belongs to [start_ns + i * step_ns, + step_ns) of component j. `spans` (None: all 1) is the number
    of steps whose amount the sample includes; `quality` (None: all OK) its flags.
    """

    start_ns: int
    step_ns: int
    values: Floats
    extensive: bool
    spans: Ints | None = None
    quality: Flags | None = None

    def select(self, first: int = 0, components: Sequence[int] | None = None) -> Samples:
        """The steps from `first` on, of some components."""
        # All columns by their numbers would be another memory layout, and so another rounding of sums.
        columns = slice(None) if components is None or len(components) == self.values.shape[1] else components
        return replace(
            self,
            start_ns=self.start_ns + first * self.step_ns,
            values=self.values[first:][:, columns],
            spans=None if self.spans is None else self.spans[first:][:, columns],
            quality=None if self.quality is None else self.quality[first:][:, columns],
        )


@dataclass(eq=False)
class CounterMemory:
    """The last counters (component, counter) seen of each component, and in which step; ABSENT before the first."""

    counters: Ints
    steps: Ints

    @classmethod
    def empty(cls, components: int, counters: int) -> CounterMemory:
        return cls(np.full((components, counters), ABSENT, np.int64), np.zeros(components, np.int64))


class Amounts(NamedTuple):
    """`values[i, j, k]`: growth of counter k of component j since the previous sample, NaN where there is none.

    `spans[i, j]`: steps since that sample. `restarted[i, j]`: the counters started again in between.
    """

    values: Floats
    spans: Ints
    restarted: Bools


def difference_counters(counters: Ints, first_step: int, memory: CounterMemory) -> Amounts:
    """Differences of `counters` (step, component, counter; ABSENT where there is no sample); updates the memory.

    A server that restarts begins at zero with all its counters at once, so one that dropped means that all started
    again: their values are their amounts since, the least that can have moved.
    """
    steps, components, _ = counters.shape
    known = np.concatenate([memory.counters[None], counters])
    present: Bools = np.all(known >= 0, axis=2)
    latest = np.maximum.accumulate(np.where(present, np.arange(steps + 1)[:, None], -1), axis=0)
    before = np.maximum(latest[:-1], 0)
    valid = present[1:] & (latest[:-1] >= 0)
    growth = counters - np.take_along_axis(known, before[:, :, None], axis=0)
    restarted: Bools = valid & np.any(growth < 0, axis=2)
    values = np.where(restarted[:, :, None], counters, growth).astype(np.float64)
    values[~valid] = np.nan
    own_steps = np.broadcast_to(np.arange(steps)[:, None] + first_step, present[1:].shape)
    at_step = np.concatenate([memory.steps[None], own_steps])
    spans = np.where(valid, at_step[1:] - np.take_along_axis(at_step, before, axis=0), 1)
    last, column = np.maximum(latest[-1], 0), np.arange(components)
    memory.counters = np.where((latest[-1] >= 0)[:, None], known[last, column], ABSENT)
    memory.steps = at_step[last, column]
    return Amounts(values, spans, restarted)


def fill_unused_counters(counters: Ints, memory: CounterMemory) -> Ints:
    """Counters that a sample leaves out: zero until the first use, after that their last value."""
    sampled: Bools = np.any(counters >= 0, axis=2)
    known = np.concatenate([memory.counters[None], counters])
    latest = np.maximum.accumulate(np.where(known >= 0, np.arange(len(known))[:, None, None], -1), axis=0)
    carried = np.where(latest >= 0, np.take_along_axis(known, np.maximum(latest, 0), axis=0), 0)[1:]
    return np.where((counters < 0) & sampled[:, :, None], carried, counters)


def spans_over_gaps(missing: Bools) -> Ints | None:
    """Steps since the component's previous sample; 1 for its first one, which has nothing to make up for."""
    if not missing.any():
        return None
    step = np.arange(len(missing))[:, None]
    latest = np.maximum.accumulate(np.where(missing, -1, step), axis=0)
    spans = np.ones(missing.shape, np.int64)
    spans[1:] = np.where(missing[1:] | (latest[:-1] < 0), 1, step[1:] - latest[:-1])
    return spans


def learned_limit(amounts: Floats) -> float:
    """The amount in a step that nothing in the file makes believable; infinite where the file is too quiet to tell."""
    sustained = np.minimum(amounts[1:], amounts[:-1])
    top = np.fmax.reduce(sustained, axis=None, initial=0.0)
    if top <= 0 or np.count_nonzero(sustained >= top / 2) < LIMIT_SUPPORT:
        return np.inf
    return float(LIMIT_MARGIN * top)


def late_spikes(amounts: Floats, others: Collection[Floats], limit: float, window: int) -> Ints:
    """Where, counted by rows, spikes (amounts above the limit) make up for silence: within `window` steps none of the
    counters of the component had a sample or moved, and the mean amount of the window is within the limit."""
    spikes = np.flatnonzero(amounts > limit)
    rows, columns = np.divmod(spikes, amounts.shape[1])
    back = rows[:, None] - np.arange(window)[None, :]
    inside, column = back >= 0, columns[:, None]
    around = [other[back, column] for other in others]
    silent = np.logical_and.reduce([np.isnan(each) | (each == 0) for each in around])
    made_up = (silent & inside)[:, 1:].any(axis=1)
    believable = np.nansum(np.where(inside, amounts[back, column], 0.0), axis=1) / window <= limit
    late: Ints = spikes[made_up & believable]
    return late


def flag_late(amounts: Mapping[str, Floats], spans: Mapping[str, Ints | None], step_ns: int) -> dict[str, Flags | None]:
    """LATE flags of the byte counters of one kind of component (all of one shape): samples after a gap whose amount
    they include, and those above the limit after the counters stood still."""
    window = max(2, MINUTE_NS // step_ns)
    flags: dict[str, Flags | None] = {}
    for metric, values in amounts.items():
        late = np.zeros(values.shape, np.uint8)
        late.reshape(-1)[late_spikes(values, amounts.values(), learned_limit(values), window)] = Quality.LATE
        covered = spans.get(metric)
        if covered is not None:
            late[(covered > 1) & (values > 0)] = Quality.LATE
        flags[metric] = late if late.any() else None
    return flags


def to_minutes(samples: Samples) -> Samples:
    """Amounts sum, states average; a minute without any sample is NaN. Samples whose steps are no part of a minute
    (a minute or longer, 7 s, begun at odd seconds) are returned unchanged: the lake splits them by overlap."""
    step_ns = samples.step_ns
    if step_ns >= MINUTE_NS or MINUTE_NS % step_ns or samples.start_ns % step_ns or len(samples.values) == 0:
        return samples
    per_minute = MINUTE_NS // step_ns
    lead = samples.start_ns % MINUTE_NS // step_ns
    tail = -(lead + len(samples.values)) % per_minute

    def split(array: NDArray[Number], fill: float) -> NDArray[Number]:
        """(minute, sample, component), padded to whole minutes."""
        padded = np.pad(array, ((lead, tail), (0, 0)), constant_values=fill) if lead or tail else array
        return padded.reshape(-1, per_minute, array.shape[1])

    values = split(samples.values, np.nan)
    total = values.sum(axis=1)
    count = np.full(total.shape, per_minute)
    holed = np.nonzero(np.isnan(total))
    count[holed] = (~np.isnan(values[holed[0], :, holed[1]])).sum(axis=1)
    total[holed] = np.nansum(values[holed[0], :, holed[1]], axis=1)
    total[count == 0] = np.nan
    quality = np.zeros(total.shape, np.uint8)
    if samples.quality is not None:
        quality |= np.bitwise_or.reduce(split(samples.quality, 0), axis=1)
    whole = count == per_minute
    if samples.spans is not None:
        # Holes that a later sample of the minute makes up for are none, and a sample that reaches back over the
        # minute's start brings the amount of its neighbour.
        spans = split(samples.spans, 1)
        minute, component = np.nonzero(~whole | (spans.max(axis=1) > 1))
        covered = np.where(np.isnan(values[minute, :, component]), 0, spans[minute, :, component])
        reaches_back = (covered > np.arange(1, per_minute + 1)).any(axis=1)
        whole[minute, component] = (covered.sum(axis=1) == per_minute) & ~reaches_back
    quality[~whole & (count > 0)] |= np.uint8(Quality.PARTIAL)
    reduced = total if samples.extensive else total / np.maximum(count, 1)
    return Samples(samples.start_ns - lead * step_ns, MINUTE_NS, reduced, samples.extensive, quality=quality)


def series_rows(
    system: str, kind: str, components: Sequence[str], metric: str, samples: Samples, context: ReadContext
) -> Rows:
    """The minutes of one metric; before them its raw samples, where the context asks for them."""
    if samples.extensive != METRICS[metric].extensive:
        raise ValueError(f"{metric} is {'' if METRICS[metric].extensive else 'not '}an amount")
    minutes = to_minutes(samples)
    if context.keep_raw and minutes is not samples:
        yield from _sample_rows(system, kind, components, metric, samples)
    yield from _sample_rows(system, kind, components, metric, minutes)


def fullness_rows(system: str, kind: str, components: Sequence[str], metric: str, samples: Samples) -> Rows:
    """How full a target is changes slowly: only the first minute of each hour."""
    minutes = to_minutes(samples)
    starts = minutes.start_ns + np.arange(len(minutes.values)) * minutes.step_ns
    values = np.where((starts % HOUR_NS < minutes.step_ns)[:, None], minutes.values, np.nan)
    yield from _sample_rows(system, kind, components, metric, replace(minutes, values=values))


def _sample_rows(system: str, kind: str, components: Sequence[str], metric: str, samples: Samples) -> Rows:
    """One row per step and component. A missing sample has no row."""
    count = len(components)
    block = max(1, FRAME_ROWS // max(1, count))
    for first in range(0, len(samples.values), block):
        values = samples.values[first : first + block]
        steps = len(values)
        quality: Any = 0 if samples.quality is None else samples.quality[first : first + block].astype(np.int64).ravel()
        frame = SERIES.frame(
            start_ns=np.repeat(samples.start_ns + (first + np.arange(steps)) * samples.step_ns, count),
            interval_ns=samples.step_ns,
            system=system,
            component_kind=kind,
            component=Text(np.tile(np.arange(count, dtype=np.int32), steps), tuple(components)),
            metric=metric,
            value=np.ascontiguousarray(values).ravel(),
            quality=quality,
            rows=steps * count,
        ).take(~np.isnan(values).ravel())
        if frame.rows:
            yield "series", frame
