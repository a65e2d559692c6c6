"""From samples to minutes, on arrays alone: what is missing, what came late, what a minute adds up to.

A sample carries its own step, or, where the samples before it never arrived, their amount too (LMT counters are
cumulative, so the next sample brings the sum). `spans` says how many steps a sample stands for. A minute is whole
when the spans of its samples add up to it and none reaches back over its start; else it is flagged PARTIAL, and its
amount is a lower bound or holds a part of its neighbour's. Nothing is dropped: all minutes add up to all samples.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from ioweather.core.arrays import Bools, Floats, Ints
from ioweather.core.units import DAY_NS, MINUTE_NS
from ioweather.tables.series import Quality

Flags: TypeAlias = NDArray[np.uint8]
Number = TypeVar("Number", bound=np.generic)
Spans: TypeAlias = NDArray[np.integer[Any]]

# A component's limit is learned as this many times the highest amount that any component held for two samples in a
# row: a late sum stands alone, real load does not. Fewer samples near that height than SUPPORT prove nothing.
LIMIT_MARGIN = 1.5
LIMIT_SUPPORT = 12
# A day is looked at by blocks of so many rows, which stay in the processor's cache: a copy of it takes longer to make.
_BLOCK_ROWS = 512


@dataclass(frozen=True, eq=False)
class Samples:
    """One metric of many components on a regular grid; NaN where there is no sample.

    `values[i, j]` belongs to [start_ns + i * step_ns, + step_ns) of component j. `spans` (None: all 1) is the number
    of steps whose amount the sample holds; `quality` (None: all OK) its flags.
    """

    start_ns: int
    step_ns: int
    values: Floats
    extensive: bool
    spans: Spans | None = None
    quality: Flags | None = None

    def after(self, rows: int) -> Samples:
        """Without the first `rows` steps."""
        return replace(
            self,
            start_ns=self.start_ns + rows * self.step_ns,
            values=self.values[rows:],
            spans=None if self.spans is None else self.spans[rows:],
            quality=None if self.quality is None else self.quality[rows:],
        )

    def of(self, components: list[int]) -> Samples:
        """Of some components only."""
        if len(components) == self.values.shape[1]:
            return self
        return replace(
            self,
            values=self.values[:, components],
            spans=None if self.spans is None else self.spans[:, components],
            quality=None if self.quality is None else self.quality[:, components],
        )


def spans_over_gaps(missing: Bools) -> Spans | None:
    """Steps since the component's sample before; 1 for its first one, which has nothing to make up for."""
    flat = np.flatnonzero(missing)
    if len(flat) == 0:
        return None
    rows, columns = np.divmod(flat, missing.shape[1])  # np.nonzero takes many times as long
    order = np.argsort(columns, kind="stable")  # by component, in time
    rows, columns = rows[order], columns[order]
    begins = np.nonzero((np.diff(columns, prepend=-1) != 0) | (np.diff(rows, prepend=-2) != 1))[0]
    ends = np.append(begins[1:], len(rows)) - 1
    first, after, column = rows[begins], rows[ends] + 1, columns[begins]
    lengths = after - first + 1
    spans = np.ones(missing.shape, np.min_scalar_type(lengths.max()))
    closed = (first > 0) & (after < len(missing))
    spans[after[closed], column[closed]] = lengths[closed]
    return spans


def learned_limit(amounts: Floats) -> float:
    """The amount in a step that nothing in the file makes believable; infinite where the file is too quiet to tell."""
    top = max((np.fmax.reduce(held, axis=None, initial=0.0) for held in _held(amounts)), default=0.0)
    if top <= 0 or sum(np.count_nonzero(held >= top / 2) for held in _held(amounts)) < LIMIT_SUPPORT:
        return np.inf
    return float(LIMIT_MARGIN * top)


def _held(amounts: Floats) -> Iterator[Floats]:
    """The lower of each two amounts in a row, always in the same place."""
    lower = np.empty((_BLOCK_ROWS, amounts.shape[1]))
    for first in range(0, len(amounts) - 1, _BLOCK_ROWS):
        block = amounts[first : first + _BLOCK_ROWS + 1]
        yield np.minimum(block[1:], block[:-1], out=lower[: len(block) - 1])


def late_spikes(amounts: Floats, beside: Collection[Floats], limit: float, window: int) -> Ints:
    """Where, counted by rows, spikes (amounts above the limit) make up for silence: within `window` steps none of the
    counters `beside` had a sample or moved, and over the window as a whole the amount is within the limit."""
    spikes = np.flatnonzero(amounts > limit)
    rows, columns = np.divmod(spikes, amounts.shape[1])
    back = rows[:, None] - np.arange(window)[None, :]
    inside, column = back >= 0, columns[:, None]
    around = [other[back, column] for other in beside]
    silent = np.logical_and.reduce([np.isnan(each) | (each == 0) for each in around])
    made_up = (silent & inside)[:, 1:].any(axis=1)
    believable = np.nansum(np.where(inside, amounts[back, column], 0.0), axis=1) / window <= limit
    late: Ints = spikes[made_up & believable]
    return late


def flag_late(
    amounts: Mapping[str, Floats], spans: Mapping[str, Spans | None], step_ns: int
) -> dict[str, Flags | None]:
    """LATE flags of the byte counters of one kind of component (all of one shape): what follows a gap whose amount it
    holds, and what breaks the limit after the counters stood still."""
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
    (a minute or longer, 7 s, begun at odd seconds) stay as they are: the lake splits them by overlap when it reads."""
    step_ns = samples.step_ns
    if step_ns >= MINUTE_NS or MINUTE_NS % step_ns or samples.start_ns % step_ns or len(samples.values) == 0:
        return samples
    per_minute = MINUTE_NS // samples.step_ns
    lead = samples.start_ns % MINUTE_NS // samples.step_ns
    tail = -(lead + len(samples.values)) % per_minute
    values = _blocks(samples.values, lead, tail, per_minute, np.nan)
    total = values.sum(axis=1)
    count = np.full(total.shape, per_minute)
    holed = np.nonzero(np.isnan(total))  # only minutes with a hole are looked at sample by sample
    count[holed] = (~np.isnan(values[holed[0], :, holed[1]])).sum(axis=1)
    total[holed] = np.nansum(values[holed[0], :, holed[1]], axis=1)
    total[count == 0] = np.nan
    quality = np.zeros(total.shape, np.uint8)
    if samples.quality is not None:
        quality |= np.bitwise_or.reduce(_blocks(samples.quality, lead, tail, per_minute, 0), axis=1)
    whole = count == per_minute
    if samples.spans is not None:
        _count_carried(whole, values, _blocks(samples.spans, lead, tail, per_minute, 1))
    quality[~whole & (count > 0)] |= np.uint8(Quality.PARTIAL)
    reduced = total if samples.extensive else total / np.maximum(count, 1)
    return Samples(samples.start_ns - lead * samples.step_ns, MINUTE_NS, reduced, samples.extensive, quality=quality)


def _count_carried(whole: Bools, values: Floats, spans: Spans) -> None:
    """Correct, in place, which minutes are whole: holes that a later sample of the minute makes up for are none, and
    a sample that reaches back over the minute's start brings what is not its own."""
    minute, component = np.nonzero(~whole | (spans.max(axis=1) > 1))
    covered = np.where(np.isnan(values[minute, :, component]), 0, spans[minute, :, component])
    position = np.arange(1, covered.shape[1] + 1)
    whole[minute, component] = (covered.sum(axis=1) == covered.shape[1]) & ~(covered > position).any(axis=1)


def _blocks(array: NDArray[Number], lead: int, tail: int, per_minute: int, fill: float) -> NDArray[Number]:
    """(minute, sample, component), padded to whole minutes."""
    if lead or tail:
        array = np.pad(array, ((lead, tail), (0, 0)), constant_values=fill)
    return array.reshape(-1, per_minute, array.shape[1])


def pieces(start_ns: int, step_ns: int, steps: int, lookback: int) -> Iterator[tuple[int, int, int]]:
    """(from, first, end): pieces of one to two days, cut at midnight UTC, to bound memory, each read from up to
    `lookback` steps before its first so that what came late is still recognised. A local day is one piece."""
    first = 0
    while first < steps:
        midnight = (start_ns + first * step_ns) // DAY_NS * DAY_NS + 2 * DAY_NS
        end = min(steps, -(-(midnight - start_ns) // step_ns))
        yield max(0, first - lookback), first, end
        first = end
