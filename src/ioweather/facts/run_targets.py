"""What happened on the targets of each run, at the samples' own resolution: amounts, the service time of requests, and
which of them was slow for the runs that used it.

A device that is slow shows in its seconds per request. A server that stalls does not: its device only looks idle. But
runs that use several targets wait longer for the files on that one than for their other files, and so do other runs at
about the same time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from ioweather.core.arrays import Bools, Floats, Ints
from ioweather.core.frames import Cells, Frame
from ioweather.facts.file_records import FileRecords
from ioweather.facts.run_environment import spread_over_targets
from ioweather.facts.system_activity import Stretches

BUSY: Final = {"read_busy_seconds": "read_ops", "write_busy_seconds": "write_ops"}
# Fewer requests than these say little about the time of one; they also keep ratios of next to nothing near 1. [ours]
_LEAST_REQUESTS: Final = 16
# So many requests that took less than 1.5 times as long as usual come from a healthy component. [ours]
_MANY_REQUESTS: Final = 64
_SLOW: Final = float(np.log(1.5))
# The highest rate seen, without single wild samples.
_PEAK_QUANTILE: Final = 0.999
# What other runs found at a target fades over this many lengths of the run, or sampling intervals. [ours]
_MEMORY: Final = 8.0
_LONGEST_MEMORY_SECONDS: Final = 1800.0
# Weight of the belief, before any run is seen, that a target is as the others.
_PRIOR_RUNS: Final = 0.5


@dataclass(frozen=True, eq=False)
class TargetAmounts:
    """`amounts` are sums over whole steps with the run's I/O, (run, component) by metric; `peaks` the highest amounts
    of one step, by metric: of each component, and last of all together."""

    components: tuple[str, ...]
    amounts: Mapping[str, Floats]
    peaks: Mapping[str, Floats]
    step_seconds: float


def target_amounts(cells: Cells, stretches: Stretches, stamps: tuple[Ints, Ints]) -> TargetAmounts:
    """`stamps` are the starts of each stretch's first step and of the step after its last."""
    low, high = (np.searchsorted(cells.start_ns, each) for each in stamps)
    amounts, peaks = {}, {}
    for name, values in cells.values.items():
        total = np.zeros((stretches.runs, len(cells.components)))
        known = np.where(np.isnan(values), 0.0, values)
        for run, first, last in zip(stretches.run, low, high, strict=True):
            total[run] += known[first:last].sum(axis=0)
        amounts[name], peaks[name] = total, _peaks(values)
    return TargetAmounts(cells.components, amounts, peaks, cells.step_ns / 1e9)


def _peaks(values: Floats) -> Floats:
    together = np.nansum(values, axis=1)[np.isfinite(values).any(axis=1)]
    columns = [column[np.isfinite(column)] for column in values.T]
    return np.array([float(np.quantile(each, _PEAK_QUANTILE)) if len(each) else 0.0 for each in (*columns, together)])


def on_targets(found: TargetAmounts, used: Bools, metrics: Sequence[str], steps: Ints) -> tuple[Floats, Floats]:
    """Amounts of all metrics together on the targets that each run used, and what these could have moved in that time
    at the highest rate seen; NaN where nothing of it was sampled."""
    names = [name for name in metrics if name in found.amounts]
    if not names:
        nothing = np.full(len(used), np.nan)
        return nothing, nothing
    amount = np.sum([np.where(used, found.amounts[name], 0.0).sum(axis=1) for name in names], axis=0)
    peak = np.max([np.minimum(used @ found.peaks[name][:-1], found.peaks[name][-1]) for name in names], axis=0)
    return np.where(steps > 0, amount, np.nan), np.where(steps > 0, peak * steps, np.nan)


def on_busiest_target(
    found: TargetAmounts, own: Floats, used: Bools, metrics: Sequence[str], steps: Ints
) -> tuple[Floats, Floats, Floats]:
    """Amounts on that of each run's targets on which others did most, the run's own there, and what the target could
    have moved at most; NaN where the targets are not known. A run is as slow as the slowest of its targets."""
    names = [name for name in metrics if name in found.amounts]
    known = (own.sum(axis=1) > 0) & (steps > 0)
    if not names or not known.any():
        nothing = np.full(len(own), np.nan)
        return nothing, nothing, nothing
    total = np.sum([found.amounts[name] for name in names], axis=0)
    peak = np.max([found.peaks[name][:-1] for name in names], axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        others = np.where(used, (total - own) / peak[None, :], -np.inf)
    target = np.nan_to_num(others, nan=-np.inf).argmax(axis=1)
    rows = np.arange(len(own))
    amount, mine, most = (
        np.where(known, each, np.nan) for each in (total[rows, target], own[rows, target], peak[target] * steps)
    )
    return amount, mine, most


def service_slowdown(found: TargetAmounts, used: Bools) -> Floats:
    """Logarithm of the seconds that requests took on the slowest of each run's targets over what so many requests
    usually take; NaN where no service times were sampled."""
    slow = np.where(used, _service_slowdowns(found, used.shape)[0], -np.inf).max(axis=1, initial=-np.inf)
    return np.where(np.isfinite(slow), slow, np.nan)


def found_healthy(events: Frame, found: TargetAmounts) -> Bools:
    """(run, event): the component of the event answered this run's and others' requests as usual all the same. The ends
    of an event are less sharp than the samples of a short run."""
    shape = next(iter(found.amounts.values())).shape
    slow, requests = _service_slowdowns(found, shape)
    as_usual = (slow < _SLOW) & (requests >= _MANY_REQUESTS)
    place = {name: column for column, name in enumerate(found.components)}
    columns = np.array([place.get(name, -1) for name in map(str, events.text("component").tolist())], np.int64)
    return np.where(columns >= 0, as_usual[:, columns], False)


def _service_slowdowns(found: TargetAmounts, shape: tuple[int, ...]) -> tuple[Floats, Floats]:
    """(run, component): the logarithm, -inf where nothing was sampled, and how many requests that is of."""
    spent, expected, counted, least = np.zeros(shape), np.zeros(shape), np.zeros(shape), 0.0
    for busy, count in BUSY.items():
        if busy not in found.amounts or count not in found.amounts:
            continue
        seconds, requests = found.amounts[busy], found.amounts[count]
        enough = requests >= _LEAST_REQUESTS
        if not enough.any():
            continue
        usual = float(np.median(seconds[enough] / requests[enough]))
        spent, expected, least = spent + seconds, expected + requests * usual, least + usual
        counted += requests
    if least <= 0:
        return np.full(shape, -np.inf), counted
    pad = _LEAST_REQUESTS * least
    return np.log((spent + pad) / (expected + pad)), counted


def target_contrast(records: FileRecords, components: Sequence[str]) -> Floats:
    """(run, component): logarithm of the time per byte of the run's files on that target over the median of its
    targets; NaN for runs whose files lie on one target, or all alike over the same ones.

    Only differences within a run count, so a run that is slow for reasons of its own says nothing of its targets.
    """
    moved = (records.ints("read_bytes") + records.ints("write_bytes")).astype(np.float64)
    spent = records.seconds("read_seconds") + records.seconds("write_seconds") + records.seconds("meta_seconds")
    chosen = records.counted & (moved > 0) & (spent > 0)
    bytes_on, seconds_on = spread_over_targets(records, chosen, components, moved, spent)
    # Of a thousand targets a run uses few: only these are looked at.
    run, target = np.nonzero(bytes_on)
    pace = np.log(seconds_on[run, target] / bytes_on[run, target])
    ordered = pace[np.lexsort((pace, run))]
    count = np.bincount(run, minlength=len(bytes_on))
    several, first = count > 1, np.cumsum(count) - count
    middle = np.full(len(bytes_on), np.nan)
    low, high = (ordered[(first + half)[several]] for half in ((count - 1) // 2, count // 2))
    middle[several] = (low + high) / 2
    away = pace - middle[run]
    contrast, widest = np.full(bytes_on.shape, np.nan), np.zeros(len(bytes_on))
    contrast[run, target] = away
    np.fmax.at(widest, run, np.abs(away))
    contrast[several & (widest < 1e-9)] = np.nan
    return contrast


def shared_contrast(contrast: Floats, ends: tuple[Ints, Ints], used: Bools, step_seconds: float) -> Floats:
    """How slow the slowest of each run's targets was, by what runs that used it about then found: the mean of
    `contrast`, weighted by nearness in time; NaN where nobody knows."""
    first, last = (each.astype(np.float64) / 1e9 for each in ends)
    span = last - first
    memory = np.maximum(np.maximum(span, _MEMORY * step_seconds), np.minimum(_MEMORY * span, _LONGEST_MEMORY_SECONDS))
    gap = np.maximum(np.maximum(first[None, :] - last[:, None], first[:, None] - last[None, :]), 0.0)
    weight = np.exp(-gap / memory[:, None]) * (gap < 4.0 * memory[:, None])
    known = np.isfinite(contrast)
    total = weight @ known
    mean = (weight @ np.where(known, contrast, 0.0)) / (total + _PRIOR_RUNS)
    # Of no run at all nothing is known, which is not the same as being as usual.
    seen = used & (total > 0.05)
    slowest = np.where(seen, mean, -np.inf).max(axis=1, initial=-np.inf)
    return np.where(np.isfinite(slowest), np.maximum(slowest, 0.0), np.nan)
