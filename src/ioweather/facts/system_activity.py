"""Activity of the system during a run (mad17 Eq. 2 to 5): volumes and operations over the whole run, over the steps
with its I/O, and over those with its I/O on monitored mounts.

Psi is the activity of all, eta the run's own bytes, nu = Psi - eta that of others. nu is signed, because caches and the
even spread of amounts over a step can make it negative. The first and the last step include time outside the run; the
ends of an interval show the effect.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ioweather.core import choices
from ioweather.core.facility import Facility
from ioweather.core.frames import Bools, Column, Floats, Frame, Ints, Text
from ioweather.core.tables import Quality
from ioweather.core.units import MINUTE_NS, pairs_of
from ioweather.facts.job_metrics import IoSpans, merge_spans, own_bytes, runs_with_io, sums
from ioweather.facts.system_grid import Steps
from ioweather.lake import grid
from ioweather.lake.lake import Snapshot

OPERATIONS: Final = ("read_ops", "write_ops")
# All steps of the run have samples; some have none; the run extends beyond the monitored period.
STATES: Final = ("complete", "gap", "outside")
# Metric of `series` to the end of its columns' names.
VOLUMES: Final = pairs_of(
    "read_bytes=read_bytes write_bytes=write_bytes read_ops=read_ops_count write_ops=write_ops_count"
)
_COMPLETE, _GAP, _OUTSIDE = range(3)


@dataclass(frozen=True, eq=False)
class Stretches:
    """Disjoint runs of steps, first .. last, that belong to runs of applications; sorted by run and step."""

    run: Ints
    first: Ints
    last: Ints
    runs: int

    def per_run(self, values: Floats) -> Floats:
        """Sum values of stretches by run."""
        return np.asarray(sums(values, self.run, self.runs), np.float64)

    @property
    def ends(self) -> tuple[Ints, Ints]:
        """First and last step of each run; 0 where it has none."""
        first, last = np.zeros(self.runs, np.int64), np.zeros(self.runs, np.int64)
        # Stretches are in order of run and step: assignment in reverse leaves the first, forwards the last.
        first[self.run[::-1]], last[self.run] = self.first[::-1], self.last
        return first, last

    @property
    def steps(self) -> Ints:
        """m: steps per run."""
        return np.asarray(sums(self.last + 1 - self.first, self.run, self.runs), np.int64)


def job_system(grid: Steps, run_start_ns: Ints, run_end_ns: Ints, spans: IoSpans) -> Frame:
    """Return one row per run, in order; null if its steps include a gap or are outside the period (see `state`).

    psi_*: all amounts during the run; psid_*, d_d_*: in steps with its I/O; psii_*, d_i_*: in steps with its I/O on
    monitored mounts; own_*: eta, on monitored mounts if known; others_*: nu during the run; others_io_*: nu in steps
    with its I/O, with limits _low and _high; inside_seconds: the part of D_D between the first and the last I/O.
    """
    start, end = np.asarray(run_start_ns, np.int64), np.asarray(run_end_ns, np.int64)
    first, last = grid.opened(start), np.maximum(grid.closed(end), grid.opened(start))
    whole = Stretches(np.arange(len(start), dtype=np.int64), first, last, len(start))
    gap = grid.missing(first, last) > 0
    state = np.where(~grid.inside(first, last), _OUTSIDE, np.where(gap, _GAP, _COMPLETE)).astype(np.int64)
    columns: dict[str, Column] = {
        "state": Text(state.astype(np.int32), STATES),
        "coverage_ratio": coverage(grid, start, end),
    }
    for metric, name in VOLUMES.items():
        columns[f"psi_{name}"] = volume(grid, metric, whole, start, end, state == _COMPLETE)[0]
    with_mounts = spans.monitored is not None
    for prefix, chosen, name in (("psid", spans, "d_d"), ("psii", spans.only_monitored(), "d_i")):
        columns |= _during_io(grid, chosen, prefix, name, with_mounts, own=prefix == "psid")
    columns["file_count"] = spans.file_count
    known = np.full(spans.runs, not with_mounts)
    columns["monitored_file_count"] = np.ma.MaskedArray(spans.monitored_file_count, mask=known)
    for verb, own in zip(("read", "write"), own_bytes(spans, monitored=with_mounts), strict=True):
        columns[f"own_{verb}_bytes"] = own
        columns[f"others_{verb}_bytes"] = np.asarray(columns[f"psi_{verb}_bytes"]) - own
    return Frame(columns)


def _during_io(
    grid: Steps, spans: IoSpans, prefix: str, name: str, with_mounts: bool, *, own: bool
) -> dict[str, Column]:
    """Return PsiD and D_D, or PsiI and D_I: over only the steps with any I/O of the run."""
    stretches = io_steps(grid, spans)
    first_ns, last_ns = io_ends(spans)
    steps = stretches.steps
    usable = (steps > 0) & (stretches.per_run(grid.missing(stretches.first, stretches.last).astype(np.float64)) == 0)
    found: dict[str, Column] = {
        f"{name}_seconds": np.where(steps > 0, steps * grid.step_seconds, np.nan),  # Eq. 5
        f"{name}_steps": np.ma.MaskedArray(steps, mask=steps == 0),
    }
    if own:
        first, last = stretches.ends
        # The parts of the first step before the first I/O, and of the last step after the last I/O.
        before, after = (first_ns - grid.stamp(first)) / 1e9, (grid.stamp(last + 1) - last_ns) / 1e9
        found["inside_seconds"] = np.where(steps > 0, steps * grid.step_seconds - before - after, np.nan)
    eta = dict(zip(("read_bytes", "write_bytes"), own_bytes(spans, monitored=with_mounts), strict=True))
    for metric, ending in VOLUMES.items():
        amount, low, high = volume(grid, metric, stretches, first_ns, last_ns, usable)
        found[f"{prefix}_{ending}"] = amount
        if own and metric in eta:
            found[f"others_io_{metric}"] = amount - eta[metric]
            found[f"others_io_low_{metric}"] = low - eta[metric]
            found[f"others_io_high_{metric}"] = high - eta[metric]
    return found


def io_ends(spans: IoSpans) -> tuple[Ints, Ints]:
    """Return TD_start and TD_end: first and last I/O operation of each run; 0 where it has none."""
    first = np.full(spans.runs, np.iinfo(np.int64).max)
    last = np.full(spans.runs, np.iinfo(np.int64).min)
    np.minimum.at(first, spans.run, spans.first_ns)
    np.maximum.at(last, spans.run, spans.last_ns)
    there = runs_with_io(spans)
    return np.where(there, first, 0), np.where(there, last, 0)


def io_steps(grid: Steps, spans: IoSpans) -> Stretches:
    """Return the m steps of each run: the union of those that spans of its files touch. I/O on a stamp ends its
    step."""
    first, last = grid.closed(spans.first_ns), grid.closed(spans.last_ns)
    run, first, last, _ = merge_spans(spans.run, first, last, unit=1)
    return Stretches(run, first, last, spans.runs)


def volume(
    grid: Steps, metric: str, stretches: Stretches, start_ns: Ints, end_ns: Ints, usable: Bools
) -> tuple[Floats, Floats, Floats]:
    """Return the amount of each run (Eq. 2 to 4), and its limits for any course within the end steps: whole steps,
    minus the parts of the first before the start and of the last after the end.

    Gaps between stretches are not trimmed. NaN where not `usable`, and without samples of the metric.
    """
    nothing = np.full(stretches.runs, np.nan)
    if metric not in grid.values:
        return nothing, nothing, nothing
    inside = grid.inside(stretches.first, stretches.last)
    low, high = np.where(inside, stretches.first, 0), np.where(inside, stretches.last, -1)
    lost = stretches.per_run(grid.missing(stretches.first, stretches.last, metric).astype(np.float64)) > 0
    total = stretches.per_run(grid.total(metric, low, high))
    there = np.flatnonzero(usable & ~lost)
    first, last = stretches.ends
    before = (start_ns - grid.stamp(first))[there] / grid.step_ns
    after = (grid.stamp(last + 1) - end_ns)[there] / grid.step_ns
    at_first, at_last = (grid.values[metric][each[there]] for each in (first, last))
    one = first[there] == last[there]
    value, least = nothing.copy(), nothing.copy()
    value[there] = total[there] - before * at_first - after * at_last
    # All of an end step may have happened inside the run, or none of it.
    least[there] = total[there] - at_first - np.where(one, 0.0, at_last)
    most = np.where(np.isnan(value), np.nan, total)
    return value, np.minimum(least, value), most


def coverage(grid: Steps, start_ns: Ints, end_ns: Ints) -> Floats:
    """Return the share of the run's time that was monitored; 0 or 1 for a run without length."""
    first, last = grid.opened(start_ns), np.maximum(grid.closed(end_ns), grid.opened(start_ns))
    present = (last + 1 - first - grid.missing(first, last)).astype(np.float64)
    length = (end_ns - start_ns) / grid.step_ns
    for steps, cut in ((first, start_ns - grid.stamp(first)), (last, grid.stamp(last + 1) - end_ns)):
        there = (steps >= 0) & (steps < grid.count)
        monitored = np.zeros(len(steps), np.bool_)
        monitored[there] = grid.usable[steps[there]]
        present -= np.where(monitored, cut / grid.step_ns, 0.0)
    instant = length <= 0
    ratio = np.divide(present, length, out=np.zeros(len(length)), where=~instant)
    moment = grid.missing(first, last) == 0
    return np.asarray(np.where(instant, moment, np.clip(ratio, 0.0, 1.0)), np.float64)


def monitored_mounts(files: Frame, facility: Facility, filesystem: str) -> set[str] | None:
    """Return the mount points of the file system in logs; None if facility.toml has none."""
    known = facility.filesystem(filesystem)
    if known is None or not known.mounts:
        return None
    return {
        mount
        for mount in files.text("mount").categories
        if (found := facility.filesystem_of_path(mount)) is not None and found.name == filesystem
    }


def merge_windows(windows: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Merge windows that touch or overlap."""
    first, last = np.array(list(windows), np.int64).reshape(-1, 2).T
    _, first, last, _ = merge_spans(np.zeros(len(first), np.int64), first, last)
    return list(zip(first.tolist(), last.tolist(), strict=True))


# Windows closer than this are merged: a condition of a query costs as much as some hundred steps.
_MERGED_STEPS: Final = 360
_STEPS_ASIDE: Final = 4
# Runs longer than this are sampled every minute.
_LONG_RUN_NS: Final = 60 * MINUTE_NS
_LEAST_STEP_NS: Final = 10**8
_EXCLUDED_QUALITY: Final = int(Quality.OVER_LIMIT | Quality.RESET)


@dataclass(frozen=True)
class Servers:
    """The servers whose samples describe the runs, and the length of a sampling step."""

    filesystem: str
    component_kind: str
    step_ns: int

    def selection(self, snapshot: Snapshot, metrics: Sequence[str], step_ns: int, **within: Any) -> grid.Selection:
        """Select samples of these servers, without those over the limit and resets."""
        place = self.filesystem, self.component_kind
        return snapshot.selection(*place, metrics, step_ns, excluded_quality=_EXCLUDED_QUALITY, **within)


def choose_step(snapshot: Snapshot, filesystem: str, kind: str, start: int, end: int) -> int:
    """Choose the sampling step in ns: a minute, or the sampling interval around a short run if it is finer."""
    intervals = [
        g.interval_ns
        for g in snapshot.series()
        if (g.filesystem, g.component_kind) == (filesystem, kind)
        and g.metric in choices.TRAFFIC
        and g.interval_ns > 0
        and g.first_ns < end
        and g.end_ns > start
    ]
    finest = min(intervals, default=MINUTE_NS)
    if finest >= MINUTE_NS or end - start > _LONG_RUN_NS:
        return max(finest, MINUTE_NS)
    # Late and early samples have an odd mean interval; a round one serves them all.
    return max(_LEAST_STEP_NS, round(finest / _LEAST_STEP_NS) * _LEAST_STEP_NS)


def merged_windows(start: NDArray[Any], end: NDArray[Any], step: int) -> list[tuple[int, int]]:
    """[first, last) windows of the runs with some steps on either side, on the grid; close windows are merged."""
    low, high = (start // step - _STEPS_ASIDE) * step, (end // step + 1 + _STEPS_ASIDE) * step
    gap = _MERGED_STEPS * step
    return [(first, last - gap) for first, last in merge_windows(zip(low.tolist(), (high + gap).tolist(), strict=True))]
