"""From samples to minutes, on arrays alone: what is missing, what came late, what a minute adds up to.

A sample carries its own step, or, where the samples before it never arrived, their amount too (LMT counters are
cumulative, so the next sample brings the sum). `spans` says how many steps a sample stands for. A minute is whole
when the spans of its samples add up to it and none reaches back over its start; else it is flagged PARTIAL, and its
amount is a lower bound or holds a part of its neighbour's. Nothing is dropped: all minutes add up to all samples.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from ioweather.core.arrays import Bools, Floats
from ioweather.core.units import DAY_NS, MINUTE_NS
from ioweather.tables.series import Quality

Flags: TypeAlias = NDArray[np.uint8]
Number = TypeVar("Number", bound=np.generic)
Spans: TypeAlias = NDArray[np.signedinteger[Any]]

# A component's limit is learned as this many times the highest amount that any component held for two samples in a
# row: a late sum stands alone, real load does not. Fewer samples near that height than SUPPORT prove nothing.
LIMIT_MARGIN = 1.5
LIMIT_SUPPORT = 12


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
    rows, columns = np.divmod(flat, missing.shape[1])
    order = np.argsort(columns, kind="stable")  # by component, in time
    rows, columns = rows[order], columns[order]
    begins = np.nonzero((np.diff(columns, prepend=-1) != 0) | (np.diff(rows, prepend=-2) != 1))[0]
    ends = np.append(begins[1:], len(rows)) - 1
    first, after, column = rows[begins], rows[ends] + 1, columns[begins]
    spans = np.ones(missing.shape, np.int32)
    closed = (first > 0) & (after < len(missing))
    spans[after[closed], column[closed]] = (after - first + 1)[closed]
    return spans


def learned_limit(amounts: Floats) -> float:
    """The amount in a step that nothing in the file makes believable; infinite where the file is too quiet to tell."""
    held = np.minimum(amounts[1:], amounts[:-1])
    top = np.nanmax(held, initial=0.0)
    if top <= 0 or np.count_nonzero(held >= top / 2) < LIMIT_SUPPORT:
        return np.inf
    return float(LIMIT_MARGIN * top)


def late_spikes(spikes: Bools, amounts: Floats, silent: Bools, limit: float, window: int) -> Bools:
    """Which spikes (amounts above the limit) make up for silence: within `window` steps the component was `silent` (no
    sample, or a counter that stood still), and over the window as a whole the amount is within the limit."""
    rows, columns = np.nonzero(spikes)
    back = rows[:, None] - np.arange(window)[None, :]
    inside, column = back >= 0, columns[:, None]
    made_up = (silent[back, column] & inside)[:, 1:].any(axis=1)
    believable = np.nansum(np.where(inside, amounts[back, column], 0.0), axis=1) / window <= limit
    late = np.zeros(amounts.shape, np.bool_)
    late[rows, columns] = made_up & believable
    return late


def flag_late(
    amounts: Mapping[str, Floats], spans: Mapping[str, Spans | None], step_ns: int
) -> dict[str, Flags | None]:
    """LATE flags of the byte counters of one kind of component (all of one shape): what follows a gap whose amount it
    holds, and what breaks the limit after the counters stood still."""
    window = max(2, MINUTE_NS // step_ns)
    flags: dict[str, Flags | None] = {}
    for metric, values in amounts.items():
        late = np.zeros(values.shape, np.bool_)
        limit = learned_limit(values)
        spikes = values > limit
        if spikes.any():
            still = np.logical_and.reduce([np.isnan(other) | (other == 0) for other in amounts.values()])
            late |= late_spikes(spikes, values, still, limit, window)
        covered = spans.get(metric)
        if covered is not None:
            late |= (covered > 1) & (values > 0)
        flags[metric] = late.view(np.uint8) * np.uint8(Quality.LATE) if late.any() else None
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
