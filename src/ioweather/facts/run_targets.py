"""How it was for a run, beyond what all servers did together: the load on the targets it used, how slow probes were,
and how slow the runs of others were at that time.

A run is as slow as the slowest of its targets, and a sick target moves fewer bytes, not more: load alone does not tell.
What probes and other people's runs took does, on whatever part of the system they happened to use.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ioweather.core.arrays import Bools, Floats, Ints
from ioweather.core.frames import Cells, Frame, Text
from ioweather.core.units import DAY_NS
from ioweather.facts.file_records import FileRecords
from ioweather.facts.system_activity import Stretches

# A target counts as used from this share of an even spread of the run's bytes on.
_LEAST_SHARE: Final = 0.01
# Share of the run's I/O, or of the event where that is shorter, in which both went on.
_LEAST_OVERLAP: Final = 0.25
_STILL_GOING_NS: Final = 2**62
_OST: Final = re.compile(r"OST([0-9a-fA-F]{4})(?:_UUID)?$")
# Probes count that lie within so many of their own intervals of a run's I/O. [ours]
_PROBE_INTERVALS: Final = 2
_STRIPES_AT_ONCE: Final = 1_000_000
DATA_OPERATIONS: Final = ("read", "write", "write_sync")


def target_number(component: str) -> int | None:
    """Index of an OST, which its name has in hexadecimal and Darshan in decimal: scratch-OST000a is 10."""
    found = _OST.search(component)
    return int(found.group(1), 16) if found else None


def own_target_bytes(records: FileRecords, components: Sequence[str]) -> Floats:
    """(run, component): each file's bytes spread evenly over its recorded stripes; 0 where nothing is recorded."""
    moved = records.ints("read_bytes") + records.ints("write_bytes")
    (found,) = spread_over_targets(records, records.counted & (moved > 0), components, moved)
    return found


def spread_over_targets(
    records: FileRecords, chosen: Bools, components: Sequence[str], *amounts: NDArray[Any]
) -> list[Floats]:
    """(run, component) of each of the amounts: those of the chosen files, spread evenly over their recorded stripes."""
    place = {target_number(name): column for column, name in enumerate(components)}
    stripes = records.text("osts")
    rows = np.flatnonzero(chosen & (stripes.codes >= 0))
    # Files laid out alike are few kinds: their amounts are added up first.
    kinds, kind = np.unique(records.log[rows] * len(stripes.categories) + stripes.codes[rows], return_inverse=True)
    log, layout = np.divmod(kinds, max(1, len(stripes.categories)))
    layouts, layout = np.unique(layout, return_inverse=True)
    listed = [[place.get(int(w), -1) for w in stripes.categories[code].split(",") if w] for code in layouts.tolist()]
    columns = np.array([*itertools.chain.from_iterable(listed)], np.int64)
    width = np.array([len(each) for each in listed], np.int64)
    begin, many = (np.cumsum(width) - width)[layout], width[layout]
    found = [np.zeros((records.logs, len(components))) for _ in amounts]
    totals = [np.bincount(kind, weights=each[rows], minlength=len(kinds)) for each in amounts]
    for part in np.split(np.arange(len(kinds)), np.flatnonzero(np.diff(np.cumsum(many) // _STRIPES_AT_ONCE)) + 1):
        one = np.repeat(part, many[part])
        within = np.arange(len(one)) - np.repeat(np.cumsum(many[part]) - many[part], many[part])
        column = columns[begin[one] + within]
        known = column >= 0
        for spread, total in zip(found, totals, strict=True):
            np.add.at(spread, (log[one[known]], column[known]), (total / many)[one[known]])
    return found


def used_targets(own: Floats) -> Bools:
    """(run, component): where the run moved more than next to nothing; all of a run whose targets are not known."""
    spread = np.sum(own > 0, axis=1)
    used = own > _LEAST_SHARE * (own.sum(axis=1) / np.maximum(spread, 1))[:, None]
    return np.asarray(used | (spread == 0)[:, None])


def probe_means(probes: Frame, series: Frame, first: Ints, last: Ints) -> Frame:
    """Mean logarithm of the time of each series of probes about each run's I/O: `run`, `series`, `op`, `component`,
    `log_seconds`. `probes`: `place` (a number of the series), `start_ns`, `duration_ns`; `series`: `place` ascending,
    `op`, `component`.

    How far from the run a probe may lie follows the series' own interval. Probes of a series follow one another.
    """
    probes = probes.take(np.lexsort([probes.ints(name) for name in ("duration_ns", "start_ns", "place")]))
    start, place, took = (probes.ints(name) for name in ("start_ns", "place", "duration_ns"))
    end, log_seconds = start + took, np.log(took / 1e9)
    bounds = np.flatnonzero(np.diff(place, prepend=-1, append=-1))
    # Steps from one probe to the next, of its series and day.
    same_day = (np.diff(place, append=-1) == 0) & (np.diff(start // DAY_NS, append=-1) == 0)
    steps = np.where(same_day, np.diff(start, append=0), 0)
    counted, passed = (np.add.reduceat(each, bounds[:-1]) for each in (same_day.astype(np.int64), steps))
    near = _PROBE_INTERVALS * passed // np.maximum(counted, 1)
    runs = np.flatnonzero(last > 0)
    first, last = first[runs], last[runs]
    shape = len(near), len(runs)
    count, total = np.zeros(shape, np.int64), np.zeros(shape)
    for number, (low, high) in enumerate(itertools.pairwise(bounds.tolist())):
        before = np.maximum.accumulate(end[low:high]).searchsorted(first - near[number])
        after = start[low:high].searchsorted(last + near[number], side="right")
        sums = np.zeros(high - low + 1)
        np.cumsum(log_seconds[low:high], out=sums[1:])
        count[number], total[number] = after - before, sums[after] - sums[before]
    row, run = np.nonzero(count > 0)
    names = {name: series.text(name)[row] for name in ("op", "component")}
    return Frame({"run": runs[run], "series": row, "log_seconds": total[row, run] / count[row, run], **names})


def probe_slowdowns(means: Frame, runs: int, own: Floats, components: Sequence[str]) -> dict[str, Floats]:
    """Logarithms of how much longer probes took during each run than in the median of all runs: operations on data,
    on data of the run's own targets (the slowest of them), and on metadata. NaN without probes.

    `means` has one row per run and series of probes: `run`, `series`, `op`, `component`, `log_seconds`. Of operations
    of different kinds the mean counts: where one of few hangs, the median would hide it.
    """
    run, series = (means.ints(name) for name in ("run", "series"))
    seconds, op = means.floats("log_seconds"), means.text("op")
    usual = _medians(seconds, series, int(series.max(initial=-1)) + 1)
    ratio = seconds - usual[series]
    data = np.any([op.equals(name) for name in DATA_OPERATIONS], axis=0) if means.rows else np.zeros(0, np.bool_)
    target = _columns(means.text("component"), components)
    mine = data & (target >= 0)
    mine[mine] &= own[run[mine], target[mine]] > 0
    # Of one target the median, of the run's targets the slowest.
    width = max(1, len(components))
    pairs, pair = np.unique(run[mine] * width + target[mine], return_inverse=True)
    slowest = np.full(runs, np.nan)
    np.fmax.at(slowest, pairs // width, _medians(ratio[mine], pair, len(pairs)))
    return {
        "probe_data": _means(ratio[data], run[data], runs),
        "probe_targets": slowest,
        "probe_metadata": _means(ratio[~data], run[~data], runs),
    }


def neighbour_slowdown(
    asked: tuple[Ints, Ints, Ints], others: tuple[Ints, Ints, Ints, Floats], near_ns: Ints
) -> tuple[Floats, Ints]:
    """Median logarithm of how much longer than usual runs of other programs took that did I/O within `near_ns` (one
    for each run) of each run's, and how many. `asked` is (first, last, program), `others` the same with the slowdown.
    """
    first, last, program = asked
    other_first, other_last, other_program, slowdown = others
    known = np.isfinite(slowdown)
    order = np.flatnonzero(known)[np.argsort(other_first[known], kind="stable")]
    starts, ends, slow, names = other_first[order], other_last[order], slowdown[order], other_program[order]
    found, count = np.full(len(first), np.nan), np.zeros(len(first), np.int64)
    for row, (begin, end) in enumerate(zip((first - near_ns).tolist(), (last + near_ns).tolist(), strict=True)):
        until = int(np.searchsorted(starts, end, side="right"))
        near = np.flatnonzero((ends[:until] >= begin) & (names[:until] != program[row]))
        count[row] = len(near)
        if len(near):
            found[row] = float(np.median(slow[near]))
    return found, count


def sick_during(events: Frame, ends: tuple[Ints, Ints], own: Floats, components: Sequence[str]) -> Bools:
    """(run, event): which components were unhealthy while the run did I/O. Of targets only those that it used, where
    its targets are known; a server or a device may have been behind any of them.

    An event's ends are as sharp as the bins of the search: a run that only touches one does not count."""
    first, last = (each.astype(np.float64)[:, None] for each in ends)
    start = events.ints("start_ns").astype(np.float64)[None, :]
    end = events.ints("end_ns", missing=_STILL_GOING_NS).astype(np.float64)[None, :]
    shared = np.minimum(last, end) - np.maximum(first, start)
    overlap = (shared >= _LEAST_OVERLAP * np.minimum(last - first, end - start)) & (shared >= 0) & (last > 0)
    target = _columns(events.text("component"), components)
    known = own.sum(axis=1) > 0
    for event in np.flatnonzero(target >= 0):
        overlap[:, event] &= ~known | (own[:, target[event]] > 0)
    return np.asarray(overlap)


def _columns(component: Text, components: Sequence[str]) -> Ints:
    place = {name: column for column, name in enumerate(components)}
    lookup = np.array([place.get(name, -1) for name in component.categories] + [-1], np.int64)
    return np.asarray(lookup[component.codes])


def _means(values: Floats, group: Ints, groups: int) -> Floats:
    """Mean by group; NaN where a group is empty."""
    count = np.bincount(group, minlength=groups)
    total = np.bincount(group, weights=values, minlength=groups)
    return np.asarray(np.divide(total, count, out=np.full(groups, np.nan), where=count > 0))


def _medians(values: Floats, group: Ints, groups: int) -> Floats:
    """Median by group; NaN where a group is empty."""
    count = np.bincount(group, minlength=groups)
    ordered, first = values[np.lexsort((values, group))], np.cumsum(count) - count
    found, known = np.full(groups, np.nan), count > 0
    low, high = (ordered[(first + half)[known]] for half in ((count - 1) // 2, count // 2))
    found[known] = 0.5 * (low + high)
    return found


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
    # A run uses few of a thousand targets.
    run, target = np.nonzero(bytes_on)
    pace = np.log(seconds_on[run, target] / bytes_on[run, target])
    several = np.bincount(run, minlength=len(bytes_on)) > 1
    middle = np.where(several, _medians(pace, run, len(bytes_on)), np.nan)
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
