"""Matrices of all targets and servers of a period (pat19), reduced to the small arrays that exhibits need.

A year of 248 targets is 260 million numbers. They are read in stretches of a few days; each is reduced on its own,
perhaps by another worker, and the results are joined in time order. Memory does not grow with the period.

A way is reads or writes. A unit is the length of time that is resampled for intervals: a day, or an hour where days are
few. Windows are 1, 5 and 25 steps, as the paper's minutes.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, starmap
from typing import Any

import numpy as np

from ioweather.core.choices import TRAFFIC
from ioweather.core.contracts import Spread
from ioweather.core.facility import Facility
from ioweather.core.frames import BlockwiseMatrix, Bools, Floats, Ints
from ioweather.core.results import Coverage, Finding
from ioweather.core.units import DAY_NS, HOUR_NS, NS, format_seconds
from ioweather.facts.system_grid import FEWEST_COMPONENTS, MIN_COVERAGE, SHUTDOWN_SECONDS, Steps, shutdown_steps
from ioweather.stats.estimates import Intervals, sums_by_unit, unit_steps
from ioweather.stats.series import correlation, lagged_column_sums, window_sums, with_squares
from ioweather.studies.pat19.parallelism import TOLERANCE, ParallelismCounts, count_clusters, join_counts, sort_activity

WAYS = ("read", "write")
READ, WRITE = TRAFFIC
LAGS = 5
WINDOWS = (1, 5, 25)  # steps; pat19 uses minutes
WIDE_TOLERANCE = 0.10
# Which pairs are correlated: reads with reads, writes with writes, reads with the writes that follow.
PAIRS: Mapping[str, tuple[str, str]] = {"read": (READ, READ), "write": (WRITE, WRITE), "cross": (READ, WRITE)}
# The lag that says most: a series with its next step, reads with writes of the same step.
NEAREST_LAG: Mapping[str, int] = {"read": 1, "write": 1, "cross": 0}
# [ours] The paper speaks of weak and high correlation without a number.
HIGH_CORRELATION = 0.5
_STRETCH_DAYS = 5
_LEAD = LAGS * WINDOWS[-1]  # steps before a stretch that its first steps are correlated with
_SHIFT_SEED = 20191117
_SHUTDOWN = f"no data moved for {format_seconds(SHUTDOWN_SECONDS)}"


def steps_per_unit(matrix: BlockwiseMatrix) -> int:
    """Steps of a unit of time that intervals are resampled by."""
    return unit_steps(matrix.steps, HOUR_NS / matrix.step_ns)


def stretches_of(matrix: BlockwiseMatrix) -> list[tuple[int, int]]:
    """Return steps [first, last) of a few days each. None but the last cuts a window or a unit."""
    multiple = math.lcm(WINDOWS[-1], steps_per_unit(matrix))
    length = max(1, round(_STRETCH_DAYS * DAY_NS / matrix.step_ns / multiple)) * multiple
    return [(first, min(first + length, matrix.steps)) for first in range(0, matrix.steps, length)]


def covered_rows(matrix: BlockwiseMatrix, first: int, last: int) -> Floats:
    """Return the values of steps [first, last), a new array; cells below MIN_COVERAGE are missing."""
    part = matrix.stretch(first, last)
    return np.where(part.coverage >= MIN_COVERAGE - 1e-6, part.values, np.nan)


@dataclass(frozen=True)
class Limits:
    """Largest possible amounts per step, and excluded times. None: not known, nothing is excluded."""

    component: float | None = None
    system: float | None = None
    windows: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(cls, facility: Facility, filesystem: str, step_ns: int) -> Limits:
        """Return the limits of a file system."""
        known, seconds = facility.filesystem(filesystem), step_ns / 1e9
        rates = (known.component_limit_bytes_per_s, known.peak_bytes_per_s) if known else (None, None)
        component, system = (rate * seconds if rate else None for rate in rates)
        return cls(component, system, tuple((window.start_ns, window.end_ns) for window in facility.maintenance))


@dataclass(frozen=True, eq=False)
class Targets:
    """The reduced matrices of all targets. `system` has the sums over targets; `lags` and `degrees` are empty unless an
    exhibit needs them."""

    components: tuple[str, ...]
    unit: int
    system: Steps
    over_limit_cells: int
    totals: Mapping[str, Floats]  # metric -> (units, targets)
    degrees: Mapping[tuple[str, float, int], ParallelismCounts]  # (metric, tolerance, window)
    chance: Mapping[str, ParallelismCounts]  # by metric: each target shifted in time on its own
    lags: Mapping[tuple[str, int], Floats]  # (pair, window) -> (lags + 1, targets)
    nearest: Mapping[str, Floats]  # pair -> (units, targets, 6): at NEAREST_LAG, window of one step


def reduce_targets(
    matrices: Mapping[str, BlockwiseMatrix],
    limits: Limits,
    parts: Collection[str] = ("degrees", "lags"),
    spread: Spread = starmap,
) -> Targets:
    """Read and reduce every stretch; `spread` may do so in other processes. `parts` names the costly parts to make.

    The matrices have the same steps and components.
    """
    ordered = [matrices[metric] for metric in TRAFFIC]
    grid = ordered[0]
    done = list(spread(_reduce_stretch, [(ordered, limits, tuple(parts), *ends) for ends in stretches_of(grid)]))

    def joined(kind: str, join: Callable[[list[Any]], Any]) -> dict[Any, Any]:
        return {key: join([part[kind][key] for part in done]) for key in done[0][kind]}

    system = joined("system", np.concatenate)
    reasons: dict[str, int] = {}
    for part in done:
        for reason, steps in part["reasons"].items():
            reasons[reason] = reasons.get(reason, 0) + steps
    if len(grid.components) >= FEWEST_COMPONENTS:
        # A shutdown over the border of two units is too short in each; correlations keep these few steps.
        silent = shutdown_steps(np.concatenate([part["silent"] for part in done]), grid.step_ns / NS)
        rest = silent & ~np.isnan(np.sum(list(system.values()), axis=0))
        for values in system.values():
            values[rest] = np.nan
        if rest.any():
            reasons[_SHUTDOWN] = reasons.get(_SHUTDOWN, 0) + int(rest.sum())
    return Targets(
        grid.components,
        steps_per_unit(grid),
        Steps(grid.start_ns, grid.step_ns, system, reasons),
        sum(part["over_limit_cells"] for part in done),
        joined("totals", np.concatenate),
        joined("degrees", join_counts),
        joined("chance", join_counts),
        joined("lags", lambda sums: correlation(np.moveaxis(np.sum(sums, axis=0), 1, -1))),
        joined("nearest", lambda sums: np.moveaxis(np.concatenate(sums), 1, -1)),
    )


def _reduce_stretch(
    matrices: Sequence[BlockwiseMatrix], limits: Limits, parts: Collection[str], first: int, last: int
) -> dict[str, Any]:
    """Reduce one stretch; see `Targets`. `reasons` counts excluded steps, `silent` are steps without traffic."""
    grid, unit = matrices[0], steps_per_unit(matrices[0])
    lead = min(first, _LEAD)
    rows = {m: covered_rows(matrix, first - lead, last) for m, matrix in zip(TRAFFIC, matrices, strict=True)}
    sums: dict[str, list[Floats]] = {metric: [] for metric in TRAFFIC}
    silent: list[Bools] = []
    reasons: dict[str, int] = {}
    over_limit_cells = 0
    for start, stop in pairwise(sorted({0, *range(lead, len(rows[READ]), unit), len(rows[READ])})):
        blocks = [rows[metric][start:stop] for metric in TRAFFIC]
        times = grid.start_ns + np.arange(first - lead + start, first - lead + stop, dtype=np.int64) * grid.step_ns
        totals, idle, excluded, above = _clean(blocks, times, grid.step_ns, limits)
        if start >= lead:
            over_limit_cells += above
            silent.append(idle)
            for reason, steps in excluded.items():
                reasons[reason] = reasons.get(reason, 0) + steps
            for metric, total in zip(TRAFFIC, totals, strict=True):
                sums[metric].append(total)
    own = {metric: values[lead:] for metric, values in rows.items()}
    out: dict[str, Any] = {kind: {} for kind in ("degrees", "chance", "lags", "nearest")}
    if "degrees" in parts:
        for metric, values in own.items():
            for window in WINDOWS:
                activity = sort_activity(window_sums(values, window))
                for tolerance in (TOLERANCE, WIDE_TOLERANCE) if window == 1 else (TOLERANCE,):
                    out["degrees"][metric, tolerance, window] = count_clusters(activity, tolerance)
            # Each target keeps its own course; what targets have in common goes.
            shift = np.random.default_rng([_SHIFT_SEED, first]).integers(0, len(values), values.shape[1])
            shifted = (np.arange(len(values))[:, None] + shift) % len(values)
            moved = sort_activity(np.take_along_axis(values, shifted, axis=0))
            out["chance"][metric] = count_clusters(moved, TOLERANCE)
    squared = {(m, window): with_squares(window_sums(rows[m], window)) for m in TRAFFIC for window in WINDOWS}
    for pair, (x, y) in PAIRS.items():
        out["nearest"][pair] = _lagged_sums_by_unit(squared[x, 1], squared[y, 1], NEAREST_LAG[pair], lead, unit)
        for window in WINDOWS if "lags" in parts else ():
            sides = squared[x, window], squared[y, window]
            out["lags"][pair, window] = lagged_column_sums(*sides, range(LAGS + 1), lead // window)
    return {
        **out,
        "system": {metric: np.concatenate(parts) for metric, parts in sums.items()},
        "silent": np.concatenate(silent),
        "reasons": reasons,
        "over_limit_cells": over_limit_cells,
        "totals": {m: sums_by_unit(np.nan_to_num(values, nan=0.0), unit) for m, values in own.items()},
    }


def _clean(
    blocks: list[Floats], times: Ints, step_ns: int, limits: Limits
) -> tuple[list[Floats], Bools, dict[str, int], int]:
    """Set impossible and incomplete cells and steps of one unit to NaN, in place. Return the sums over targets, the
    steps without traffic, the number of excluded steps by reason and that of impossible cells."""
    over_limit_cells = 0
    if limits.component is not None:
        for block in blocks:
            above = block > limits.component
            over_limit_cells += int(above.sum())
            block[above] = np.nan
    sums = [np.nansum(block, axis=1) for block in blocks]
    # Only targets with a sample in this unit are expected: one that came or went on another day is not a gap.
    there = [~np.isnan(block) for block in blocks]
    present = [each.sum(axis=1) / max(1, int(each.any(axis=0).sum())) for each in there]
    silent = np.sum(sums, axis=0) == 0
    marks = {
        "not recorded": np.max(present, axis=0) == 0,
        f"less than {MIN_COVERAGE:.0%} recorded": np.min(present, axis=0) < MIN_COVERAGE - 1e-9,
    }
    if blocks[0].shape[1] >= FEWEST_COMPONENTS:
        marks[_SHUTDOWN] = shutdown_steps(silent, step_ns / NS)
    if limits.windows:
        marks["maintenance"] = np.any([(times >= begin) & (times < end) for begin, end in limits.windows], axis=0)
    if limits.system is not None:
        marks["above the system peak"] = np.max(sums, axis=0) > limits.system
    excluded, reasons = np.zeros(len(silent), np.bool_), {}
    for reason, marked in marks.items():
        reasons[reason] = int((marked & ~excluded).sum())
        excluded |= marked
    for block in blocks:
        block[excluded] = np.nan
    counted = {reason: steps for reason, steps in reasons.items() if steps}
    return [np.where(excluded, np.nan, total) for total in sums], silent, counted, over_limit_cells


def _lagged_sums_by_unit(x: Sequence[Floats], y: Sequence[Floats], lag: int, lead: int, unit: int) -> Floats:
    """Return the six sums at one lag, by the unit of the second member: (units, 6, columns)."""
    out = []
    for start in range(lead, len(y[0]), unit):
        part = slice(max(0, start - lag), start + unit)
        earlier, later = ([each[part] for each in side] for side in (x, y))
        out.append(lagged_column_sums(earlier, later, (lag,), start - part.start)[0])
    return np.stack(out)


@dataclass(frozen=True, eq=False)
class ServerLoad:
    """CPU load of each server: sums per unit, largest step, lagged correlations per window."""

    matrix: BlockwiseMatrix
    count: Floats  # (units, servers): steps that were there
    total: Floats  # (units, servers): sum of load over them
    largest: Floats
    lags: dict[int, Floats]  # window -> (lags + 1, servers)
    lag_one: Floats  # (units, servers, 6)
    over_limit: int


def reduce_servers(matrix: BlockwiseMatrix, spread: Spread = starmap) -> ServerLoad:
    """Read and reduce the load of all servers; `spread` may use other processes."""
    parts = list(spread(_reduce_server_stretch, [(matrix, *ends) for ends in stretches_of(matrix)]))
    count, total, largest, lags, lag_one, over_limit = zip(*parts, strict=True)
    summed = {window: np.sum([each[window] for each in lags], axis=0) for window in WINDOWS}
    return ServerLoad(
        matrix,
        np.concatenate(count),
        np.concatenate(total),
        np.fmax.reduce(largest),
        {window: correlation(np.moveaxis(sums, 1, -1)) for window, sums in summed.items()},
        np.moveaxis(np.concatenate(lag_one), 1, -1),
        sum(over_limit),
    )


def _reduce_server_stretch(
    matrix: BlockwiseMatrix, first: int, last: int
) -> tuple[Floats, Floats, Floats, dict[int, Floats], Floats, int]:
    """Return count, total, largest, lagged sums, sums at lag 1 and cells above 100% of one stretch.

    A load above 1 is not real; it is left out and counted. Windows are means.
    """
    unit, lead = steps_per_unit(matrix), min(first, _LEAD)
    rows = covered_rows(matrix, first - lead, last)
    above = rows > 1.0
    rows[above] = np.nan
    own, there = rows[lead:], (~np.isnan(rows[lead:])).astype(np.float64)
    wide = {window: with_squares(window_sums(rows, window, mean=True)) for window in WINDOWS}
    return (
        sums_by_unit(there, unit),
        sums_by_unit(np.nan_to_num(own, nan=0.0), unit),
        np.fmax.reduce(own, axis=0),
        {window: lagged_column_sums(w, w, range(LAGS + 1), lead // window) for window, w in wide.items()},
        _lagged_sums_by_unit(wide[1], wide[1], 1, lead, unit),
        int(above[lead:].sum()),
    )


@dataclass(frozen=True, eq=False)
class Climate:
    """The reduced data of one file system, and how estimates are made of them. Exhibits add to `advice`."""

    targets: Targets
    intervals: Intervals
    component_kind: str
    zone: dt.tzinfo
    zone_name: str
    burst_buffer: Steps | None = None
    caveats: tuple[str, ...] = ()
    advice: list[Finding] = field(default_factory=list)

    @property
    def system(self) -> Steps:
        """Sums over all targets, by step."""
        return self.targets.system

    @property
    def n(self) -> int:
        """Number of usable steps."""
        return int(self.system.usable.sum())

    def way(self, name: str) -> Floats:
        """Bytes per step of the whole system, 'read' or 'write'."""
        return self.system.values[TRAFFIC[WAYS.index(name)]]

    def coverage(self) -> Iterator[Coverage]:
        """Yield the used steps, and cells above a component limit."""
        yield self.system.coverage("steps")
        over = self.targets.over_limit_cells
        if over:
            cells = self.system.count * len(self.targets.components) * len(TRAFFIC)
            excluded = {"above a component limit": over}
            yield Coverage(cells, cells - over, "values", excluded, "per component and step")

    def span(self, steps: int) -> str:
        """Return a window in words, as '5 min'."""
        return span(steps, self.system.step_ns)


def span(steps: int, step_ns: int) -> str:
    """'5 min', '1 min': a window in the words of the paper."""
    seconds = steps * step_ns / 1e9
    return f"{seconds / 60:g} min" if seconds % 60 == 0 and seconds < 7200 else format_seconds(seconds)


def high_share(correlations: Floats) -> Floats:
    """Return the share of high correlations among the known ones; NaN without any."""
    there = np.sum(~np.isnan(correlations), axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.sum(correlations >= HIGH_CORRELATION, axis=-1) / there)
