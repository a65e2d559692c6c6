"""Conditions of each run: load and slowness of its targets, probe times, and slowness of other runs at that time.

A run is as slow as the slowest of its targets. A slow device shows in its seconds per request, but a stalled server
only looks idle: then runs on several targets wait longer for the files on that one than for their other files.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ioweather.core.frames import Bools, Cells, Floats, Frame, Ints, Text
from ioweather.core.tables import query_columns
from ioweather.core.units import DAY_NS, utc_day
from ioweather.facts.job_metrics import FileRecords
from ioweather.facts.system_activity import Stretches
from ioweather.lake.database import fetch_frame
from ioweather.lake.lake import Snapshot

# A target with less than this share of an even spread of the run's bytes does not count as used.
_LEAST_SHARE: Final = 0.01
# Minimum overlap of a run's I/O and an event, relative to the shorter one.
_LEAST_OVERLAP: Final = 0.25
_STILL_GOING_NS: Final = 2**62
_OST: Final = re.compile(r"OST([0-9a-fA-F]{4})(?:_UUID)?$")
# Maximum distance of a probe from a run's I/O, in intervals of the series. [ours]
_PROBE_INTERVALS: Final = 2
_STRIPES_AT_ONCE: Final = 1_000_000
DATA_OPERATIONS: Final = ("read", "write", "write_sync")


def target_number(component: str) -> int | None:
    """Return the index of an OST; its name has it in hexadecimal: scratch-OST000a is 10."""
    found = _OST.search(component)
    return int(found.group(1), 16) if found else None


def own_target_bytes(records: FileRecords, components: Sequence[str]) -> Floats:
    """Return bytes by (run, component), each file's spread evenly over its recorded stripes; 0 without a layout."""
    moved = records.ints("read_bytes") + records.ints("write_bytes")
    (found,) = spread_over_targets(records, records.counted & (moved > 0), components, moved)
    return found


def spread_over_targets(
    records: FileRecords, chosen: Bools, components: Sequence[str], *amounts: NDArray[Any]
) -> list[Floats]:
    """Return each amount by (run, component): chosen rows, spread evenly over the recorded stripes of their files."""
    place = {target_number(name): column for column, name in enumerate(components)}
    stripes = records.text("osts")
    rows = np.flatnonzero(chosen & (stripes.codes >= 0))
    # Few layouts are distinct, so amounts are first added up by log and layout.
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


# Without a record, a run is placed by the traffic of targets during its I/O beyond that before and after, if its bytes
# are at least this share of that; a target with less than this share of it was not used. [ours]
_LEAST_OF_TRAFFIC: Final = 0.33
_LEAST_ON_TARGET: Final = 0.08
_LEAST_MISSING: Final = 0.2
# Steps before and after a run that show the traffic of others.
_STEPS_ASIDE: Final = 4


def place_by_traffic(
    moved: Mapping[str, Floats], cells: Cells, stretches: Stretches, step_starts: tuple[Ints, Ints]
) -> Floats:
    """Return bytes by (run, component) where the traffic of targets rose with the run; 0 where that does not tell.

    `moved` are bytes of the runs by metric. What others moved before and after is taken to go on, where it did both.
    """
    low, high = (np.searchsorted(cells.start_ns, each) for each in step_starts)
    first, last = np.full(stretches.runs, len(cells.start_ns)), np.zeros(stretches.runs, np.int64)
    np.minimum.at(first, stretches.run, low)
    np.maximum.at(last, stretches.run, high)
    placed = np.zeros((stretches.runs, len(cells.components)))
    for name, own_bytes in moved.items():
        if name not in cells.values:
            continue
        amounts = np.where(np.isnan(cells.values[name]), 0.0, cells.values[name])
        sums = np.concatenate([np.zeros((1, amounts.shape[1])), np.cumsum(amounts, axis=0)])
        for run in np.unique(stretches.run[own_bytes[stretches.run] > 0]).tolist():
            begin, end = int(first[run]), int(last[run])
            before, after = max(begin - _STEPS_ASIDE, 0), min(end + _STEPS_ASIDE, len(amounts))
            if not before < begin < end < after:
                continue
            rates = (sums[begin] - sums[before]) / (begin - before), (sums[after] - sums[end]) / (after - end)
            aside = np.minimum(*rates)
            during = sums[end] - sums[begin]
            risen = np.maximum(during - aside * (end - begin), 0.0)
            # What is missing lies where others were as busy before and after.
            missing, busy = own_bytes[run] - risen.sum(), during - risen
            if missing > _LEAST_MISSING * own_bytes[run] and busy.sum() > 0:
                risen += busy * min(1.0, missing / busy.sum())
            risen[risen < _LEAST_ON_TARGET * risen.sum()] = 0.0
            if _LEAST_OF_TRAFFIC * risen.sum() <= own_bytes[run] <= risen.sum() / _LEAST_OF_TRAFFIC:
                placed[run] += own_bytes[run] * risen / risen.sum()
    return placed


def used_targets(own_bytes: Floats) -> Bools:
    """Return the targets that each run used, as (run, component); all if they are not known."""
    spread = np.sum(own_bytes > 0, axis=1)
    used = own_bytes > _LEAST_SHARE * (own_bytes.sum(axis=1) / np.maximum(spread, 1))[:, None]
    return np.asarray(used | (spread == 0)[:, None])


def probe_means(probes: Frame, series: Frame, first: Ints, last: Ints) -> Frame:
    """Return mean logarithms of probe times near each run's I/O: `run`, `series`, `op`, `component`, `place` (that or
    the path), `log_seconds`, `operations` (their number).

    `probes` has `number` (of the series), `start_ns`, `duration_ns`; `series` has `number` ascending, `op`,
    `component`, `place`. The probes of a series are sequential, and the interval limits their distance from it.
    """
    probes = probes.take(np.lexsort([probes.ints(name) for name in ("duration_ns", "start_ns", "number")]))
    start, place, took = (probes.ints(name) for name in ("start_ns", "number", "duration_ns"))
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
    names = {name: series.text(name)[row] for name in ("op", "component", "place")}
    counts, means = count[row, run], total[row, run] / count[row, run]
    return Frame({"run": runs[run], "series": row, "log_seconds": means, "operations": counts, **names})


def probe_slowdowns(means: Frame, runs: int, own_bytes: Floats, components: Sequence[str]) -> dict[str, Floats]:
    """Return log ratios of probe times during each run to the median of all runs; NaN without probes.

    They are of data operations, of data operations on the slowest of the run's own targets, of metadata operations, and
    of the time to start a cycle.
    `means` is the result of `probe_means`. Over kinds of operations the mean is used: the median would hide one of few
    that hangs.
    """
    run, series = (means.ints(name) for name in ("run", "series"))
    seconds, op = means.floats("log_seconds"), means.text("op")
    usual = _group_medians(seconds, series, int(series.max(initial=-1)) + 1)
    ratio = seconds - usual[series]
    data = np.any([op.equals(name) for name in DATA_OPERATIONS], axis=0) if means.rows else np.zeros(0, np.bool_)
    start = op.equals("start") if means.rows else np.zeros(0, np.bool_)
    target = _columns_of_components(means.text("component"), components)
    mine = data & (target >= 0)
    mine[mine] &= own_bytes[run[mine], target[mine]] > 0
    # Of places on unknown targets the run may use any.
    place = means.text("place")
    somewhere = data & (target < 0)
    if len(np.unique(place.codes[somewhere])) > 1:
        target, mine = np.where(target < 0, len(components) + place.codes, target), mine | somewhere
    # The median for each target, then the slowest target of the run.
    width = max(1, len(components) + len(place.categories))
    pairs, pair = np.unique(run[mine] * width + target[mine], return_inverse=True)
    slowest = np.full(runs, np.nan)
    np.fmax.at(slowest, pairs // width, _group_medians(ratio[mine], pair, len(pairs)))
    return {
        "probe_data": _group_means(ratio[data], run[data], runs),
        "probe_targets": slowest,
        "probe_metadata": _group_means(ratio[~data & ~start], run[~data & ~start], runs),
        "probe_start": _group_means(ratio[start], run[start], runs),
    }


def sick_during(events: Frame, io_ends_ns: tuple[Ints, Ints], own_bytes: Floats, components: Sequence[str]) -> Bools:
    """Return by (run, event) whether the component was unhealthy during the run's I/O.

    Targets count only if the run used them, if its targets are known; servers and devices always do. The ends of events
    are as coarse as the bins of the search, so the overlap must be long enough.
    """
    first, last = (each.astype(np.float64)[:, None] for each in io_ends_ns)
    start = events.ints("start_ns").astype(np.float64)[None, :]
    end = events.ints("end_ns", missing=_STILL_GOING_NS).astype(np.float64)[None, :]
    shared = np.minimum(last, end) - np.maximum(first, start)
    overlap = (shared >= _LEAST_OVERLAP * np.minimum(last - first, end - start)) & (shared >= 0) & (last > 0)
    target = _columns_of_components(events.text("component"), components)
    known = own_bytes.sum(axis=1) > 0
    for event in np.flatnonzero(target >= 0):
        overlap[:, event] &= ~known | (own_bytes[:, target[event]] > 0)
    return np.asarray(overlap)


def _columns_of_components(component: Text, components: Sequence[str]) -> Ints:
    """Return the position in `components` of each row; -1 for others."""
    place = {name: column for column, name in enumerate(components)}
    lookup = np.array([place.get(name, -1) for name in component.categories] + [-1], np.int64)
    return np.asarray(lookup[component.codes])


def _group_means(values: Floats, group: Ints, groups: int) -> Floats:
    """Return the mean by group; NaN where a group is empty."""
    count = np.bincount(group, minlength=groups)
    total = np.bincount(group, weights=values, minlength=groups)
    return np.asarray(np.divide(total, count, out=np.full(groups, np.nan), where=count > 0))


def _group_medians(values: Floats, group: Ints, groups: int) -> Floats:
    """Return the median by group; NaN where a group is empty."""
    count = np.bincount(group, minlength=groups)
    ordered, first = values[np.lexsort((values, group))], np.cumsum(count) - count
    found, known = np.full(groups, np.nan), count > 0
    low, high = (ordered[(first + half)[known]] for half in ((count - 1) // 2, count // 2))
    found[known] = 0.5 * (low + high)
    return found


BUSY: Final = {"read_busy_seconds": "read_ops", "write_busy_seconds": "write_ops"}
# Minimum requests for a service time; also added to both sides of ratios, which keeps those of few requests near 1.
# [ours]
_LEAST_REQUESTS: Final = 16
# A component with so many requests, less than 1.5 times as slow as usual, is healthy. [ours]
_MANY_REQUESTS: Final = 64
_SLOW: Final = float(np.log(1.5))
# The highest rate, without single outliers.
_PEAK_QUANTILE: Final = 0.999
# Decay of other runs' findings at a target, in lengths of the run or sampling intervals. [ours]
_MEMORY: Final = 8.0
_LONGEST_MEMORY_SECONDS: Final = 1800.0
# Weight of the prior that a target is like the others, in runs.
_PRIOR_RUNS: Final = 0.5


@dataclass(frozen=True, eq=False)
class TargetAmounts:
    """Amounts on targets. `amounts` are sums over whole steps with the run's I/O, (run, component) by metric; `peaks`
    the highest amounts of one step, by metric: of each component, and last of all together."""

    components: tuple[str, ...]
    amounts: Mapping[str, Floats]
    peaks: Mapping[str, Floats]
    step_seconds: float


def target_amounts(cells: Cells, stretches: Stretches, step_starts: tuple[Ints, Ints]) -> TargetAmounts:
    """Add up samples for each run. `step_starts` are the starts of each stretch's first step and of the step after its
    last."""
    low, high = (np.searchsorted(cells.start_ns, each) for each in step_starts)
    amounts, peaks = {}, {}
    for name, values in cells.values.items():
        total = np.zeros((stretches.runs, len(cells.components)))
        known = np.where(np.isnan(values), 0.0, values)
        for run, first, last in zip(stretches.run, low, high, strict=True):
            total[run] += known[first:last].sum(axis=0)
        together = np.nansum(values, axis=1)[np.isfinite(values).any(axis=1)]
        columns = [*(column[np.isfinite(column)] for column in values.T), together]
        peaks[name] = np.array([float(np.quantile(each, _PEAK_QUANTILE)) if len(each) else 0.0 for each in columns])
        amounts[name] = total
    return TargetAmounts(cells.components, amounts, peaks, cells.step_ns / 1e9)


def activity_on_targets(
    sampled: TargetAmounts, used: Bools, metrics: Sequence[str], steps: Ints
) -> tuple[Floats, Floats]:
    """Return the amounts of all metrics on the targets that each run used, and the maximum at their highest rate; NaN
    without samples."""
    names = [name for name in metrics if name in sampled.amounts]
    if not names:
        nothing = np.full(len(used), np.nan)
        return nothing, nothing
    amount = np.sum([np.where(used, sampled.amounts[name], 0.0).sum(axis=1) for name in names], axis=0)
    peak = np.max([np.minimum(used @ sampled.peaks[name][:-1], sampled.peaks[name][-1]) for name in names], axis=0)
    return np.where(steps > 0, amount, np.nan), np.where(steps > 0, peak * steps, np.nan)


def activity_on_busiest_target(
    sampled: TargetAmounts, own_bytes: Floats, used: Bools, metrics: Sequence[str], steps: Ints
) -> tuple[Floats, Floats, Floats]:
    """Return amounts on the target of each run with most work of others: all, the run's own, and the target's maximum.

    NaN if the targets are not known. A run is as slow as the slowest of its targets.
    """
    names = [name for name in metrics if name in sampled.amounts]
    known = (own_bytes.sum(axis=1) > 0) & (steps > 0)
    if not names or not known.any():
        nothing = np.full(len(own_bytes), np.nan)
        return nothing, nothing, nothing
    total = np.sum([sampled.amounts[name] for name in names], axis=0)
    peak = np.max([sampled.peaks[name][:-1] for name in names], axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        others = np.where(used, (total - own_bytes) / peak[None, :], -np.inf)
    target = np.nan_to_num(others, nan=-np.inf).argmax(axis=1)
    rows = np.arange(len(own_bytes))
    amount, mine, most = (
        np.where(known, each, np.nan) for each in (total[rows, target], own_bytes[rows, target], peak[target] * steps)
    )
    return amount, mine, most


def service_slowdown(sampled: TargetAmounts, used: Bools) -> Floats:
    """Return the log ratio of service time to the usual one on the slowest of each run's targets; NaN without
    samples."""
    slow = np.where(used, _service_slowdowns(sampled, used.shape)[0], -np.inf).max(axis=1, initial=-np.inf)
    return np.where(np.isfinite(slow), slow, np.nan)


def target_queues(sampled: TargetAmounts, steps: Ints) -> Floats:
    """Return the mean number of requests at each target during each run's I/O, (run, component); NaN if unknown."""
    known = [sampled.amounts[name] for name in BUSY if name in sampled.amounts]
    if not known:
        return np.full((len(steps), len(sampled.components)), np.nan)
    return np.asarray(np.sum(known, axis=0) / np.where(steps > 0, steps * sampled.step_seconds, np.nan)[:, None])


@dataclass(frozen=True)
class StandsOut:
    """A component or place that stood out during a run: `value`, that of the next, and the most of similar runs."""

    name: str
    value: float
    next_value: float
    usual: float
    shown: bool = True  # false: only a single operation was extreme, which is no evidence


# A queue stands out from this many times that of similar runs and of the next target; a probe from this many times its
# usual time, and that of the next place. [ours]
_LEAST_USUAL: Final = 4
_MOST_USUAL: Final = 0.75
_LONGER_QUEUE: Final = 1.5
_SLOWER_PROBE: Final = 3.0
_NEXT: Final = 2.0
# Only the median of a place is evidence: from so many operations on, and this many times the usual. [ours]
_LEAST_PROBED: Final = 5
_SLOW_PROBES: Final = 1.5
# Requests of one target take so many times as long as those of another with this many at most. [ours]
_LONGER_WAIT: Final = 4.0
_ABOUT_AS_MANY: Final = 2.0
_HALF_A_REQUEST: Final = 0.5


def longest_queue(queues: Floats, used: Bools) -> Floats:
    """Return the logarithm of the longest queue of each run's targets, with half a request added."""
    longest = np.where(used & np.isfinite(queues), queues, -np.inf).max(axis=1, initial=-np.inf)
    return np.where(np.isfinite(longest), np.log(np.maximum(longest, 0.0) + _HALF_A_REQUEST), np.nan)


def queue_that_stands_out(queues: Floats, used: Bools, similar: Bools, components: Sequence[str]) -> StandsOut | None:
    """Return the target with the longest queue during run 0, if that is longer than in similar runs and elsewhere."""
    usual = longest_queue(queues[similar], used[similar])
    usual, known = usual[np.isfinite(usual)], np.isfinite(queues[0])
    if len(usual) < _LEAST_USUAL or known.sum() < 2:
        return None
    order = np.argsort(np.where(known, queues[0], -np.inf))
    longest, following = (float(queues[0, order[-k]]) for k in (1, 2))
    most = float(np.exp(np.quantile(usual, _MOST_USUAL))) - _HALF_A_REQUEST
    is_longer = longest + _HALF_A_REQUEST > _LONGER_QUEUE * (most + _HALF_A_REQUEST)
    if not is_longer or longest + _HALF_A_REQUEST < _NEXT * (following + _HALF_A_REQUEST):
        return None
    return StandsOut(components[int(order[-1])], longest, following, max(most, 0.0))


def wait_that_stands_out(sampled: TargetAmounts, used: Bools) -> StandsOut | None:
    """Return the target of run 0 whose requests took far longer than those of another one with about as many.

    Both served about as much. `value` and `next_value` are seconds per request.
    """
    shape = used.shape
    requests, seconds = (
        np.sum([sampled.amounts.get(name, np.zeros(shape))[0] for name in names], axis=0)
        for names in (BUSY.values(), BUSY)
    )
    found: StandsOut | None = None
    chosen = np.flatnonzero(used[0] & (requests >= _MANY_REQUESTS))
    took = seconds / np.maximum(requests, 1.0)
    for slow, other in itertools.permutations(chosen.tolist(), 2):
        is_comparable = max(requests[slow], requests[other]) <= _ABOUT_AS_MANY * min(requests[slow], requests[other])
        if (
            is_comparable
            and took[slow] >= _LONGER_WAIT * took[other] > 0
            and (found is None or took[slow] > found.value)
        ):
            found = StandsOut(sampled.components[slow], float(took[slow]), float(took[other]), float(took[other]))
    return found


def probe_that_stands_out(means: Frame) -> StandsOut | None:
    """Return the probed place where one data operation was far slower than usual during run 0, and than elsewhere.

    `value` is the median of all data operations at the place, `next_value` the highest such median elsewhere.
    """
    series, seconds = means.ints("series"), means.floats("log_seconds")
    usual = _group_medians(seconds, series, int(series.max(initial=-1)) + 1)[series]
    is_data = np.any([means.text("op").equals(op) for op in DATA_OPERATIONS], axis=0)
    here = means.with_columns(times=np.exp(seconds - usual)).take((means.ints("run") == 0) & is_data).records()
    places: dict[str, list[dict[str, Any]]] = {}
    for row in here:
        places.setdefault(row["place"] or "", []).append(row)
    medians = {place: float(np.median([row["times"] for row in rows])) for place, rows in places.items()}
    found, most = None, _SLOWER_PROBE
    for op in DATA_OPERATIONS:
        slowest = sorted(
            (max((r["times"] for r in rows if r["op"] == op), default=-1.0), p) for p, rows in places.items()
        )
        (following, _), (value, name) = ((-1.0, ""), (-1.0, ""), *slowest)[-2:]
        if following > 0 and value >= max(most, _NEXT * following):
            most, elsewhere = value, max(times for place, times in medians.items() if place != name)
            operations = sum(row["operations"] for row in places[name])
            is_shown = operations >= _LEAST_PROBED and medians[name] >= max(_SLOW_PROBES, elsewhere)
            found = StandsOut(name, medians[name], elsewhere, 1.0, is_shown)
    return found


def served_as_usual(events: Frame, sampled: TargetAmounts) -> Bools:
    """Return by (run, event) whether the event's component served requests at the usual speed during the run.

    The ends of an event are coarser than the samples of a short run.
    """
    shape = next(iter(sampled.amounts.values())).shape
    slow, requests = _service_slowdowns(sampled, shape)
    as_usual = (slow < _SLOW) & (requests >= _MANY_REQUESTS)
    columns = _columns_of_components(events.text("component"), sampled.components)
    return np.where(columns >= 0, as_usual[:, columns], False)


def _service_slowdowns(sampled: TargetAmounts, shape: tuple[int, ...]) -> tuple[Floats, Floats]:
    """Return by (run, component) the log ratio of service time to the usual one, -inf without samples; and requests."""
    spent, expected, counted, least = np.zeros(shape), np.zeros(shape), np.zeros(shape), 0.0
    for busy, count in BUSY.items():
        if busy not in sampled.amounts or count not in sampled.amounts:
            continue
        seconds, requests = sampled.amounts[busy], sampled.amounts[count]
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
    """Return log time per byte of the run's files on each target, relative to the median of its targets, by (run,
    component); NaN for runs with one target, or with the same layout for all files.

    Differences within a run cancel slowness that affects all of its targets.
    """
    moved = (records.ints("read_bytes") + records.ints("write_bytes")).astype(np.float64)
    spent = records.seconds("read_seconds") + records.seconds("write_seconds") + records.seconds("meta_seconds")
    chosen = records.counted & (moved > 0) & (spent > 0)
    bytes_on, seconds_on = spread_over_targets(records, chosen, components, moved, spent)
    # A run uses few of a thousand targets.
    run, target = np.nonzero(bytes_on)
    pace = np.log(seconds_on[run, target] / bytes_on[run, target])
    several = np.bincount(run, minlength=len(bytes_on)) > 1
    middle = np.where(several, _group_medians(pace, run, len(bytes_on)), np.nan)
    away = pace - middle[run]
    contrast, widest = np.full(bytes_on.shape, np.nan), np.zeros(len(bytes_on))
    contrast[run, target] = away
    np.fmax.at(widest, run, np.abs(away))
    contrast[several & (widest < 1e-9)] = np.nan
    return contrast


def shared_contrast(contrast: Floats, io_ends_ns: tuple[Ints, Ints], used: Bools, step_seconds: float) -> Floats:
    """Return the slowness of the slowest of each run's targets: the mean `contrast` of runs that used it, weighted by
    distance in time; NaN without any."""
    first, last = (each.astype(np.float64) / 1e9 for each in io_ends_ns)
    span = last - first
    memory = np.maximum(np.maximum(span, _MEMORY * step_seconds), np.minimum(_MEMORY * span, _LONGEST_MEMORY_SECONDS))
    gap = np.maximum(np.maximum(first[None, :] - last[:, None], first[:, None] - last[None, :]), 0.0)
    weight = np.exp(-gap / memory[:, None]) * (gap < 4.0 * memory[:, None])
    known = np.isfinite(contrast)
    total = weight @ known
    mean = (weight @ np.where(known, contrast, 0.0)) / (total + _PRIOR_RUNS)
    # Without any run the slowness is unknown, not zero.
    seen = used & (total > 0.05)
    slowest = np.where(seen, mean, -np.inf).max(axis=1, initial=-np.inf)
    return np.where(np.isfinite(slowest), np.maximum(slowest, 0.0), np.nan)


_MOST_RESPONSES: Final = 200_000
_SERIES_KEY: Final = "host, target, op, request_bytes, mode, component"
# `number` is a hash of the key of a series.
_PROBED: Final = query_columns("number=int64 start_ns=int64 duration_ns=int64")
_SERIES: Final = query_columns("number=int64 op=text component=text? place=text")


def probe_times(snapshot: Snapshot, filesystem: str, first: Ints, last: Ints) -> Frame:
    """Mean durations of probes and samplers of the file system around each run's I/O, by series.

    The operation `start` is the time from the tick of a cycle to its first read: opening the probe's directory and file
    waits for a mount that stands still, before any operation is timed.
    """
    days = {
        utc_day(t)
        for low, high in zip(first.tolist(), last.tolist(), strict=True)
        if high > 0
        for t in (*range(low, high, DAY_NS), high)
    }
    rows = snapshot.rows("responses", {"filesystem": filesystem, "status": "ok"}, days=days)
    ((count,),) = snapshot.bare.execute(f"SELECT count(*) FROM ({rows})").fetchall()
    rows = f"""{rows} UNION ALL BY NAME SELECT * REPLACE ('start' AS op, start_ns - scheduled_ns AS duration_ns,
        scheduled_ns AS start_ns) FROM ({rows}) WHERE op = 'read' AND scheduled_ns < start_ns"""
    # A part of frequent probes gives the same means: rows are sampled by a hash of their time.
    sql = f"""SELECT *, (hash({_SERIES_KEY}) >> 1)::BIGINT AS number FROM ({rows})
        WHERE duration_ns > 0 AND cached IS NOT TRUE AND hash(start_ns) % {count // _MOST_RESPONSES + 1} = 0"""
    names = f"""SELECT number, any_value(op) AS op, any_value(component) AS component,
        any_value(coalesce(component, target)) AS place FROM ({sql}) GROUP BY number"""
    probes = fetch_frame(snapshot.bare, sql, _PROBED, copy=False)
    series = fetch_frame(snapshot.bare, f"{names} ORDER BY number", _SERIES)
    return probe_means(probes, series, first, last)
