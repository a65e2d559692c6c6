"""How it was for a run, beyond what all servers did together: the load on the targets it used, how slow probes were,
and how slow the runs of others were at that time.

A run is as slow as the slowest of its targets, and a sick target moves fewer bytes, not more: load alone does not tell.
What probes and other people's runs took does, on whatever part of the system they happened to use.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ioweather.core.arrays import Bools, Floats, Ints
from ioweather.core.frames import Frame, Text
from ioweather.core.units import DAY_NS
from ioweather.facts.file_records import FileRecords

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
    order = np.argsort(group, kind="stable")
    group = group[order]
    table = np.full((groups, int(count.max(initial=1))), np.nan)  # which are sorted last
    table[group, np.arange(len(group)) - (np.cumsum(count) - count)[group]] = values[order]
    table.sort(axis=1)
    low, high = (table[np.arange(groups), np.maximum(at, 0)] for at in ((count - 1) // 2, count // 2))
    return np.asarray(0.5 * (low + high))
