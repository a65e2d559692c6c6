"""One pass over the matrices of all storage targets: everything of pat19 that needs more than the system's sum.

A year of 248 targets is 260 million numbers; they are read once, block by block, and what is kept is small: sums per
step, totals per day and target, counts of clusters per step, and the sums that correlations are made of.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, Final

import numpy as np

from ioweather.core.arrays import Bools, Floats
from ioweather.core.facility import Facility
from ioweather.core.frames import BlockwiseMatrix
from ioweather.core.units import DAY_NS, NS, format_seconds
from ioweather.derive.system.shutdown import FEWEST_COMPONENTS, SHUTDOWN_SECONDS, shutdown_steps
from ioweather.stats.parallelism import TOLERANCE, ParallelismCounts, sorted_activity
from ioweather.stats.resampling import unit_steps
from ioweather.stats.series import LagBlock, LaggedCorrelation, LagStream, WindowReducer
from ioweather.studies.climate.stretches import (
    ALONE,
    CommonGrid,
    Walk,
    Work,
    aligned_blocks,
    aligned_rows,
    common_grid,
    walked,
)
from ioweather.studies.shared.choices import TRAFFIC
from ioweather.studies.shared.rollup_steps import MIN_COVERAGE, Steps

LAGS = 5
WINDOWS = (1, 5, 25)  # steps; pat19 uses minutes
WIDE_TOLERANCE = 0.10
_SHUTDOWN = f"nothing moved for {format_seconds(SHUTDOWN_SECONDS)}"
READ, WRITE = TRAFFIC
# Which pairs are correlated: reads with reads, writes with writes, reads with the writes that follow.
PAIRS: Mapping[str, tuple[str, str]] = {"read": (READ, READ), "write": (WRITE, WRITE), "cross": (READ, WRITE)}
# The lag that says most: a series with its next step, reads with writes of the same step.
NEAREST_LAG: Mapping[str, int] = {"read": 1, "write": 1, "cross": 0}


@dataclass(frozen=True, eq=False)
class Targets:
    """What the pass leaves: see the fields of `_Collected`. `system` holds the sums over all targets."""

    components: tuple[str, ...]
    unit: int
    system: Steps
    totals: Mapping[str, Floats]  # metric -> (units, targets)
    degrees: Mapping[tuple[str, float, int], ParallelismCounts]  # (metric, tolerance, window)
    lags: Mapping[tuple[str, int], Floats]  # (pair, window) -> (lags + 1, targets)
    nearest: Mapping[str, Floats]  # pair -> (units, targets, 6): at NEAREST_LAG, window of one step
    over_limit_cells: int


# What of it is asked for by some exhibits alone.
PARTS: Final = ("totals", "degrees", "lags", "nearest")


@dataclass(frozen=True)
class Limits:
    """Amounts per step that cannot be real, and steps that do not count. None: not known, nothing excluded."""

    component: float | None = None
    system: float | None = None
    windows: tuple[tuple[int, int], ...] = ()

    def between(self, start_ns: int, end_ns: int) -> list[Any]:
        """What of it matters from one time to another; also to a few steps before."""
        near = [window for window in self.windows if window[0] < end_ns and window[1] > start_ns - DAY_NS]
        return [self.component, self.system, near]


def limits_of(facility: Facility, filesystem: str, step_ns: int) -> Limits:
    known = facility.filesystem(filesystem)
    seconds = step_ns / 1e9
    component = known.component_limit_bytes_per_s if known else None
    system = known.peak_bytes_per_s if known else None
    return Limits(
        component * seconds if component else None,
        system * seconds if system else None,
        tuple((window.start_ns, window.end_ns) for window in facility.maintenance),
    )


def pass_over_targets(
    matrices: Mapping[str, BlockwiseMatrix], limits: Limits, work: Work = ALONE, parts: Collection[str] = PARTS
) -> Targets:
    """Stretches of time are passed over one by one, and added up in their order. Beside `system` there are these parts
    alone: of what was kept, no others are read."""
    ordered = [matrices[metric] for metric in TRAFFIC]
    grid = common_grid(ordered)
    collected = partial(_Collected, grid, parts)
    whole = collected(0, grid.steps)
    walk = Walk("targets1", ordered, grid, whole.unit, WINDOWS[-1], LAGS * WINDOWS[-1], limits.between)
    for part in walked(walk, work, _pass_over, (ordered, limits), collected):
        whole.add(part)
    return whole.finish()


def _pass_over(matrices: Sequence[BlockwiseMatrix], limits: Limits, first: int, last: int) -> _Collected:
    grid = common_grid(matrices)
    collector = _Collector(grid, limits, first, last)
    collector.look_back(*aligned_rows(matrices, grid, max(0, first - LAGS * WINDOWS[-1]), first))
    for read, write in aligned_blocks(matrices, grid, first, last):
        collector.update(read, write)
    return collector.collected


class _Collected:
    """What the steps [first, last) of the grid leave: little, and sums of it are what more steps leave."""

    def __init__(self, grid: CommonGrid, parts: Collection[str], first: int, last: int) -> None:
        self.grid = grid
        self.rows = slice(first, last)
        self.unit = unit_steps(grid.steps, 3.6e12 / grid.step_ns)
        # The outer units of time may be shared with the steps before and after.
        self.units = slice(first // self.unit, -(-last // self.unit))
        units, targets = self.units.stop - self.units.start, len(grid.components)
        self.system = {metric: np.full(last - first, np.nan) for metric in TRAFFIC}
        self.silent = np.zeros(last - first, np.bool_)  # steps in which nothing was seen to move
        self.reasons: dict[str, int] = {}
        self.over_limit_cells = 0
        pairs = PAIRS if "lags" in parts else ()
        self.totals = {metric: np.zeros((units, targets)) for metric in TRAFFIC if "totals" in parts}
        self.lags = {(pair, window): LaggedCorrelation(targets, LAGS) for pair in pairs for window in WINDOWS}
        self.nearest = {pair: np.zeros((units, 6, targets)) for pair in PAIRS if "nearest" in parts}
        keys = ((TOLERANCE, 1), (WIDE_TOLERANCE, 1), *((TOLERANCE, window) for window in WINDOWS[1:]))
        kinds = [(metric, *key) for metric in TRAFFIC for key in keys] if "degrees" in parts else []
        self.degrees = {kind: ParallelismCounts(targets, kind[1]) for kind in kinds}

    def add(self, part: _Collected) -> None:
        """What steps within these leave; the parts come in time order."""
        self.silent[part.rows] = part.silent
        for metric in TRAFFIC:
            self.system[metric][part.rows] = part.system[metric]
        for metric, total in self.totals.items():
            total[part.units] += part.totals[metric]
        for reason, steps in part.reasons.items():
            self.reasons[reason] = self.reasons.get(reason, 0) + steps
        self.over_limit_cells += part.over_limit_cells
        for key, lags in self.lags.items():
            lags.sums += part.lags[key].sums
        for pair, sums in self.nearest.items():
            sums[part.units] += part.nearest[pair]
        for name, counts in self.degrees.items():
            counts.merge(part.degrees[name])

    def record(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "silent": self.silent,
            "over_limit_cells": np.array([self.over_limit_cells]),
            "reasons": np.array(list(self.reasons), np.str_),
            "reason_steps": np.array(list(self.reasons.values()), np.int64),
        }
        found |= {_name("degree", *key, "sizes"): counts.histogram for key, counts in self.degrees.items()}
        # Most counts fit into a byte.
        rows = {_name("degree", *key, "rows"): counts.per_interval() for key, counts in self.degrees.items()}
        found |= {name: counts.astype(np.min_scalar_type(int(counts.max(initial=0)))) for name, counts in rows.items()}
        return found | self._sums()

    def _sums(self) -> dict[str, Floats]:
        """All that is as long in every record of these steps."""
        found: dict[str, Floats] = {_name("system", metric): values for metric, values in self.system.items()}
        found |= {_name("total", metric): values for metric, values in self.totals.items()}
        found |= {_name("lag", *key): lags.sums for key, lags in self.lags.items()}
        return found | {_name("nearest", pair): values for pair, values in self.nearest.items()}

    def restore(self, record: Mapping[str, Any]) -> None:
        for name, values in (self._sums() | {"silent": self.silent}).items():
            if record[name].shape != values.shape:
                raise ValueError(f"{name} is of other steps")
            values[:] = record[name]
        self.over_limit_cells = int(record["over_limit_cells"][0])
        self.reasons = dict(zip(record["reasons"].tolist(), record["reason_steps"].tolist(), strict=True))
        for key, counts in self.degrees.items():
            counts.restore(record[_name("degree", *key, "sizes")], record[_name("degree", *key, "rows")])

    def finish(self) -> Targets:
        self._leave_out_shutdowns()
        return Targets(
            self.grid.components,
            self.unit,
            Steps(self.grid.start_ns, self.grid.step_ns, self.system, self.reasons),
            self.totals,
            self.degrees,
            {key: accumulator.result() for key, accumulator in self.lags.items()},
            {pair: np.moveaxis(parts, 1, -1) for pair, parts in self.nearest.items()},
            self.over_limit_cells,
        )

    def _leave_out_shutdowns(self) -> None:
        """What of them lay on either side of a border, too short there to be told. The correlations of targets keep
        these few steps."""
        if len(self.grid.components) < FEWEST_COMPONENTS:
            return
        counted = ~np.isnan(np.sum(list(self.system.values()), axis=0))
        rest = shutdown_steps(self.silent, self.grid.step_ns / NS) & counted
        for values in self.system.values():
            values[rest] = np.nan
        if rest.any():
            self.reasons[_SHUTDOWN] = self.reasons.get(_SHUTDOWN, 0) + int(rest.sum())


def _name(*parts: object) -> str:
    return "_".join(map(str, parts))


class _Collector:
    """Fills a `_Collected` from consecutive rows of reads and writes."""

    def __init__(self, grid: CommonGrid, limits: Limits, first: int, last: int) -> None:
        self.grid, self.limits = grid, limits
        self.collected = _Collected(grid, PARTS, first, last)
        self.unit = self.collected.unit
        self.row = first
        self.streams = {(metric, window): LagStream(LAGS) for metric in TRAFFIC for window in WINDOWS}
        # Each window is made of whole windows of the size before it.
        self.windows = {
            (metric, window): WindowReducer(window // narrower)
            for metric in TRAFFIC
            for narrower, window in pairwise(WINDOWS)
        }

    def look_back(self, read: Floats, write: Floats) -> None:
        """The rows just before the first, which are not counted here: later ones are correlated with them."""
        if not len(read):
            return
        rows = self._clean({READ: read, WRITE: write}, self.row - len(read)).rows
        for window in WINDOWS:
            if window > 1:
                rows = {metric: self.windows[metric, window].update(values) for metric, values in rows.items()}
            self._ready(rows, window)

    def update(self, read: Floats, write: Floats) -> None:
        """The next rows. One unit of time is done with entirely before the next: it then stays near the processor."""
        wide: list[dict[str, Floats]] = []
        first = 0
        while first < len(read):
            last = min(len(read), first + self.unit - self.row % self.unit)
            cleaned = self._clean({READ: read[first:last], WRITE: write[first:last]}, self.row)
            self._note(cleaned)
            self._unit(cleaned.rows)
            wide.append(
                {metric: self.windows[metric, WINDOWS[1]].update(values) for metric, values in cleaned.rows.items()}
            )
            self.row += last - first
            first = last
        joined = {metric: np.concatenate([part[metric] for part in wide]) for metric in TRAFFIC}
        for window in WINDOWS[1:]:
            if window != WINDOWS[1]:
                joined = {metric: self.windows[metric, window].update(values) for metric, values in joined.items()}
            if len(joined[READ]):
                self._correlate(self._ready(joined, window), window)
                self._count_degrees(joined, window, (TOLERANCE,))

    def _unit(self, rows: Mapping[str, Floats]) -> None:
        """Rows of one unit of time: totals, correlations at one step, clusters."""
        unit = self.row // self.unit - self.collected.units.start
        ready = self._ready(rows, 1)
        for metric, block in ready.items():
            self.collected.totals[metric][unit] += block.total
        for pair, part in self._correlate(ready, 1).items():
            self.collected.nearest[pair][unit] += part[NEAREST_LAG[pair]]
        self._count_degrees(rows, 1, (TOLERANCE, WIDE_TOLERANCE))

    def _ready(self, rows: Mapping[str, Floats], window: int) -> dict[str, LagBlock]:
        return {metric: self.streams[metric, window].next(values) for metric, values in rows.items()}

    def _correlate(self, ready: Mapping[str, LagBlock], window: int) -> dict[str, Floats]:
        return {pair: self.collected.lags[pair, window].update(ready[x], ready[y]) for pair, (x, y) in PAIRS.items()}

    def _count_degrees(self, rows: Mapping[str, Floats], window: int, tolerances: tuple[float, ...]) -> None:
        for metric, values in rows.items():
            ordered = sorted_activity(values)
            for tolerance in tolerances:
                self.collected.degrees[metric, tolerance, window].update(ordered)

    def _note(self, cleaned: _Cleaned) -> None:
        collected = self.collected
        first = self.row - collected.rows.start
        for metric, total in cleaned.system.items():
            collected.system[metric][first : first + len(total)] = total
        collected.silent[first : first + len(cleaned.silent)] = cleaned.silent
        for reason, steps in cleaned.reasons.items():
            collected.reasons[reason] = collected.reasons.get(reason, 0) + steps
        collected.over_limit_cells += cleaned.over_limit_cells

    def _clean(self, blocks: Mapping[str, Floats], row: int) -> _Cleaned:
        """Without cells and steps that are not real or not whole."""
        over_limit_cells = 0
        if self.limits.component is not None:
            kept = {metric: _without_excess(values, self.limits.component) for metric, values in blocks.items()}
            over_limit_cells = sum(count for _, count in kept.values())
            blocks = {metric: values for metric, (values, _) in kept.items()}
        sums, present = zip(*(_row_sums(values) for values in blocks.values()), strict=True)
        reasons: dict[str, int] = {}
        excluded = np.zeros(len(sums[0]), np.bool_)
        for reason, marked in self._marks(sums, present, row):
            fresh = marked & ~excluded
            if fresh.any():
                reasons[reason] = int(fresh.sum())
            excluded |= marked
        system = {metric: np.where(excluded, np.nan, total) for metric, total in zip(blocks, sums, strict=True)}
        if excluded.any():
            blocks = {metric: np.where(excluded[:, None], np.nan, values) for metric, values in blocks.items()}
        return _Cleaned(blocks, system, np.sum(sums, axis=0) == 0, reasons, over_limit_cells)

    def _marks(self, sums: tuple[Floats, ...], present: tuple[Floats, ...], row: int) -> list[tuple[str, Bools]]:
        least = np.min(present, axis=0)
        marks = [
            ("not recorded", np.max(present, axis=0) == 0),
            (f"less than {MIN_COVERAGE:.0%} recorded", least < MIN_COVERAGE - 1e-9),
        ]
        if len(self.grid.components) >= FEWEST_COMPONENTS:
            silent = shutdown_steps(np.sum(sums, axis=0) == 0, self.grid.step_ns / NS)
            marks.append((_SHUTDOWN, silent))
        if self.limits.windows:
            times = self.grid.start_ns + np.arange(row, row + len(least), dtype=np.int64) * self.grid.step_ns
            closed = [(times >= first) & (times < last) for first, last in self.limits.windows]
            marks.append(("maintenance", np.any(closed, axis=0)))
        if self.limits.system is not None:
            marks.append(("above the peak of the system", np.max(sums, axis=0) > self.limits.system))
        return marks


@dataclass(frozen=True, eq=False)
class _Cleaned:
    """Rows with what does not count as missing; sums over targets, and where they are nothing; steps that do not
    count, by reason."""

    rows: Mapping[str, Floats]
    system: Mapping[str, Floats]
    silent: Bools
    reasons: Mapping[str, int]
    over_limit_cells: int


def _without_excess(values: Floats, limit: float) -> tuple[Floats, int]:
    """Values above the limit as missing, and how many there were."""
    # A missing value makes the maximum NaN, which is not within the limit either.
    if values.max(initial=0.0) <= limit:
        return values, 0
    rows = np.flatnonzero(np.fmax.reduce(values, axis=1) > limit)
    if not len(rows):
        return values, 0
    # The block is not ours to change.
    kept = values.copy()
    above = kept[rows] > limit
    kept[rows] = np.where(above, np.nan, kept[rows])
    return kept, int(above.sum())


def _row_sums(values: Floats) -> tuple[Floats, Floats]:
    """Sum over targets, and share of targets present, per row. Expected are those that some row has: a target that came
    or went on another day is no gap (roll-ups of the lake count in the same way)."""
    total = values.sum(axis=1)
    broken = np.isnan(total)
    present = np.ones(len(values))
    if broken.any():
        there = ~np.isnan(values)
        expected = max(1, int(there.any(axis=0).sum()))
        present[broken] = there[broken].sum(axis=1) / expected
        total[broken] = np.where(there[broken], values[broken], 0.0).sum(axis=1)
    return total, present
