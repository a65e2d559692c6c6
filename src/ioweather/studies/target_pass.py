"""One pass over the matrices of all storage targets: everything of pat19 that needs more than the system's sum.

A year of 248 targets is 260 million numbers; they are read once, block by block, and what is kept is small: sums per
step, totals per day and target, counts of clusters per step, and the sums that correlations are made of.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ioweather.core.facility import Facility
from ioweather.core.frames import BlockwiseMatrix
from ioweather.stats.parallelism import TOLERANCE, ParallelismCounts, sorted_activity
from ioweather.stats.resampling import unit_steps
from ioweather.stats.series import LagBlock, LaggedCorrelation, LagStream, WindowReducer
from ioweather.studies.aligned_blocks import CommonGrid, aligned_blocks, common_grid
from ioweather.studies.choices import TRAFFIC
from ioweather.studies.steps import MIN_COVERAGE, Steps

Floats: TypeAlias = NDArray[np.float64]

LAGS = 5
WINDOWS = (1, 5, 25)  # steps; pat19 uses minutes
WIDE_TOLERANCE = 0.10
READ, WRITE = TRAFFIC
# Which pairs are correlated: reads with reads, writes with writes, reads with the writes that follow.
PAIRS: Mapping[str, tuple[str, str]] = {"read": (READ, READ), "write": (WRITE, WRITE), "cross": (READ, WRITE)}
_BLOCK_DAYS = 16


@dataclass(frozen=True, eq=False)
class Targets:
    """What the pass leaves: see the fields of `_Collector`. `system` holds the sums over all targets."""

    components: tuple[str, ...]
    unit: int
    system: Steps
    totals: Mapping[str, Floats]  # metric -> (units, targets)
    degrees: Mapping[tuple[str, float, int], ParallelismCounts]  # (metric, tolerance, window)
    lags: Mapping[tuple[str, int], Floats]  # (pair, window) -> (lags + 1, targets)
    lag_one: Mapping[str, Floats]  # pair -> (units, targets, 6), window of one step
    over_limit_cells: int


@dataclass(frozen=True)
class Limits:
    """Amounts per step that cannot be real, and steps that do not count. None: not known, nothing excluded."""

    component: float | None = None
    system: float | None = None
    windows: tuple[tuple[int, int], ...] = ()


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


def pass_over_targets(matrices: Mapping[str, BlockwiseMatrix], limits: Limits) -> Targets:
    ordered = [matrices[metric] for metric in TRAFFIC]
    grid = common_grid(ordered)
    collector = _Collector(grid, limits)
    for read, write in aligned_blocks(ordered, _BLOCK_DAYS):
        collector.update(read, write)
    return collector.finish()


class _Collector:
    """Accumulators of the pass, fed with consecutive rows of reads and writes."""

    def __init__(self, grid: CommonGrid, limits: Limits) -> None:
        self.grid, self.limits = grid, limits
        targets = len(grid.components)
        self.unit = unit_steps(grid.steps, 3.6e12 / grid.step_ns)
        units = -(-grid.steps // self.unit)
        self.row = 0
        self.system = {metric: np.full(grid.steps, np.nan) for metric in TRAFFIC}
        self.reasons: dict[str, int] = {}
        self.over_limit_cells = 0
        self.totals = {metric: np.zeros((units, targets)) for metric in TRAFFIC}
        self.lags = {(pair, window): LaggedCorrelation(targets, LAGS) for pair in PAIRS for window in WINDOWS}
        self.lag_one = {pair: np.zeros((units, 6, targets)) for pair in PAIRS}
        keys = ((TOLERANCE, 1), (WIDE_TOLERANCE, 1), *((TOLERANCE, window) for window in WINDOWS[1:]))
        self.degrees = {(metric, *key): ParallelismCounts(targets, key[0]) for metric in TRAFFIC for key in keys}
        self.streams = {(metric, window): LagStream(LAGS) for metric in TRAFFIC for window in WINDOWS}
        # Each window is made of whole windows of the size before it.
        self.windows = {
            (metric, window): WindowReducer(window // narrower)
            for metric in TRAFFIC
            for narrower, window in pairwise(WINDOWS)
        }

    def update(self, read: Floats, write: Floats) -> None:
        """The next rows. One unit of time is done with entirely before the next: it then stays near the processor."""
        wide: list[dict[str, Floats]] = []
        first = 0
        while first < len(read):
            last = min(len(read), first + self.unit - self.row % self.unit)
            rows = self._cleaned({READ: read[first:last], WRITE: write[first:last]})
            self._unit(rows)
            wide.append({metric: self.windows[metric, WINDOWS[1]].update(values) for metric, values in rows.items()})
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
        unit = self.row // self.unit
        ready = self._ready(rows, 1)
        for metric, block in ready.items():
            self.totals[metric][unit] += block.total
        for pair, part in self._correlate(ready, 1).items():
            self.lag_one[pair][unit] += part[1]
        self._count_degrees(rows, 1, (TOLERANCE, WIDE_TOLERANCE))

    def _ready(self, rows: Mapping[str, Floats], window: int) -> dict[str, LagBlock]:
        return {metric: self.streams[metric, window].next(values) for metric, values in rows.items()}

    def _correlate(self, ready: Mapping[str, LagBlock], window: int) -> dict[str, Floats]:
        return {pair: self.lags[pair, window].update(ready[x], ready[y]) for pair, (x, y) in PAIRS.items()}

    def _count_degrees(self, rows: Mapping[str, Floats], window: int, tolerances: tuple[float, ...]) -> None:
        for metric, values in rows.items():
            ordered = sorted_activity(values)
            for tolerance in tolerances:
                self.degrees[metric, tolerance, window].update(ordered)

    def _cleaned(self, blocks: Mapping[str, Floats]) -> dict[str, Floats]:
        """Without cells and steps that are not real or not whole; sums per step are noted on the way."""
        if self.limits.component is not None:
            blocks = {metric: self._without_excess(values, self.limits.component) for metric, values in blocks.items()}
        sums, present = zip(*(_row_sums(values) for values in blocks.values()), strict=True)
        rows = len(sums[0])
        excluded = np.zeros(rows, np.bool_)
        for reason, marked in self._marks(sums, present, rows):
            fresh = marked & ~excluded
            if fresh.any():
                self.reasons[reason] = self.reasons.get(reason, 0) + int(fresh.sum())
            excluded |= marked
        for metric, total in zip(blocks, sums, strict=True):
            self.system[metric][self.row : self.row + rows] = np.where(excluded, np.nan, total)
        if not excluded.any():
            return dict(blocks)
        return {metric: np.where(excluded[:, None], np.nan, values) for metric, values in blocks.items()}

    def _marks(
        self, sums: tuple[Floats, ...], present: tuple[Floats, ...], rows: int
    ) -> list[tuple[str, NDArray[np.bool_]]]:
        least = np.min(present, axis=0)
        marks = [
            ("not recorded", np.max(present, axis=0) == 0),
            (f"less than {MIN_COVERAGE:.0%} recorded", least < MIN_COVERAGE - 1e-9),
        ]
        if self.limits.windows:
            times = self.grid.start_ns + np.arange(self.row, self.row + rows, dtype=np.int64) * self.grid.step_ns
            closed = [(times >= first) & (times < last) for first, last in self.limits.windows]
            marks.append(("maintenance", np.any(closed, axis=0)))
        if self.limits.system is not None:
            marks.append(("above the peak of the system", np.max(sums, axis=0) > self.limits.system))
        return marks

    def _without_excess(self, values: Floats, limit: float) -> Floats:
        # A missing value makes the maximum NaN, which is not within the limit either.
        if values.max(initial=0.0) <= limit:
            return values
        rows = np.flatnonzero(np.fmax.reduce(values, axis=1) > limit)
        if not len(rows):
            return values
        # The block is not ours to change.
        kept = values.copy()
        above = kept[rows] > limit
        self.over_limit_cells += int(above.sum())
        kept[rows] = np.where(above, np.nan, kept[rows])
        return kept

    def finish(self) -> Targets:
        return Targets(
            self.grid.components, self.unit,
            Steps(self.grid.start_ns, self.grid.step_ns, self.system, self.reasons),
            self.totals, self.degrees,
            {key: accumulator.result() for key, accumulator in self.lags.items()},
            {pair: np.moveaxis(parts, 1, -1) for pair, parts in self.lag_one.items()},
            self.over_limit_cells,
        )  # fmt: skip


def _row_sums(values: Floats) -> tuple[Floats, Floats]:
    """Sum over targets and share of targets present, per row."""
    total = values.sum(axis=1)
    broken = np.isnan(total)
    present = np.ones(len(values))
    if broken.any():
        there = ~np.isnan(values[broken])
        present[broken] = there.mean(axis=1)
        total[broken] = np.where(there, values[broken], 0.0).sum(axis=1)
    return total, present
