"""Work of jobs on targets: what each job did on each target, when, and how many seconds of the target that takes.

A busy target serves one request after the other, from any client. While a run waits for a target, the work of others
there is the time it loses; without job k it would lose k's seconds less, down to its own time. A run waits for the
slowest of its targets: without k the next one may hold it up as long.

A log says how much was done between two moments, samples of the targets say when these were busy. So the work of each
log is divided among sampling intervals: evenly at first, then repeatedly in proportion to what its targets did over
what all logs put there, until both agree. Of several targets the one that did least counts most: a job that uses its
targets equally did not work while one of them rested.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np

from ioweather.core.arrays import Bools, Floats, Ints
from ioweather.core.frames import Frame
from ioweather.facts.file_records import NEVER_FIRST, NEVER_LAST, FileRecords, file_records
from ioweather.facts.run_targets import target_number

AMOUNTS: Final = ("read_bytes", "write_bytes", "requests")
_JOINED_BYTES: Final = 1 << 20  # the usual size of a remote request of Lustre


@dataclass(frozen=True, eq=False)
class JobLoads:
    """Amounts of jobs on targets in stretches of time.

    Each stretch has a `job`, `first_ns` and `last_ns`. Entries are amounts of one stretch on one target: `stretch`
    (ascending), `target` (the column after the last is metadata), `amounts` by name; `requests` of metadata are its
    operations.
    """

    job: Ints
    first_ns: Ints
    last_ns: Ints
    stretch: Ints
    target: Ints
    amounts: Mapping[str, Floats]

    @property
    def seconds(self) -> Floats:
        """Length of each stretch."""
        return np.asarray(np.maximum(self.last_ns - self.first_ns, 1) / 1e9)

    @cached_property
    def _begins(self) -> Ints:
        """First entry of each stretch, and the end."""
        return np.searchsorted(self.stretch, np.arange(len(self.job) + 1)).astype(np.int64)

    def entries_of(self, stretches: Ints) -> Ints:
        """Entries of some stretches."""
        first, last = self._begins[stretches], self._begins[stretches + 1]
        count = last - first
        before = np.repeat(first - np.cumsum(count) + count, count)
        return np.asarray(np.arange(int(count.sum())) + before, np.int64)

    def stretches_of(self, job: int) -> Ints:
        """Stretches of one job."""
        return np.flatnonzero(self.job == job)

    def select_jobs(self, wanted: Bools) -> JobLoads:
        """Loads of some jobs; their numbers stay."""
        return self.take(np.flatnonzero(wanted[self.job]))

    def take(self, kept: Ints) -> JobLoads:
        """Loads of some stretches, which are ascending."""
        entries = self.entries_of(kept)
        return JobLoads(
            self.job[kept],
            self.first_ns[kept],
            self.last_ns[kept],
            np.searchsorted(kept, self.stretch[entries]).astype(np.int64),
            self.target[entries],
            {name: values[entries] for name, values in self.amounts.items()},
        )

    def renumber(self, job: Ints) -> JobLoads:
        """Loads with new numbers of the jobs: `job` by old number."""
        return JobLoads(job[self.job], self.first_ns, self.last_ns, self.stretch, self.target, self.amounts)


def concat_loads(parts: Sequence[JobLoads]) -> JobLoads:
    """Loads of all parts."""
    offsets = np.cumsum([0, *(len(part.job) for part in parts)])[: len(parts)]
    return JobLoads(
        np.concatenate([part.job for part in parts]),
        np.concatenate([part.first_ns for part in parts]),
        np.concatenate([part.last_ns for part in parts]),
        np.concatenate([part.stretch + offset for part, offset in zip(parts, offsets, strict=True)]),
        np.concatenate([part.target for part in parts]),
        {name: np.concatenate([part.amounts[name] for part in parts]) for name in AMOUNTS},
    )


def loads_of_logs(runs: Frame, files: Frame, components: Sequence[str]) -> JobLoads:
    """Loads from Darshan logs, with each run as a job.

    Bytes and requests of a file are spread evenly over its targets (all, if not recorded) and over the time in which
    the run used files.
    """
    records = file_records(runs, files)
    first = np.minimum.reduce([records.first(f"first_{verb}_ns") for verb in ("open", "read", "write")])
    last = np.maximum.reduce([records.last(f"last_{verb}_ns") for verb in ("read", "write")])
    last = np.maximum(last, records.last("last_close_ns"))
    there = np.flatnonzero(records.counted & (first != NEVER_FIRST) & (last != NEVER_LAST) & (last >= first))
    run, begin, end, of_record = _merge_spans(records.log[there], first[there], last[there])
    stripes = records.text("osts")[there]
    moved = [records.ints(f"{verb}_bytes")[there].astype(np.float64) for verb in ("read", "write")]
    # Files have few layouts: sum by layout first.
    width = len(stripes.categories) + 1
    kinds, kind = np.unique(of_record * width + stripes.codes + 1, return_inverse=True)
    sums = [
        np.bincount(kind, weights=each, minlength=len(kinds)) for each in (*moved, _requests_at_servers(records)[there])
    ]
    place = {number: column for column, name in enumerate(components) if (number := target_number(name)) is not None}
    layouts = [_columns(text, place, len(components)) for text in ("", *stripes.categories)]
    columns = [layouts[code] for code in (kinds % width).tolist()]
    counts = np.array([len(each) for each in columns], np.int64)
    operations = sum(records.ints(name)[there] for name in ("open_count", "stat_count", "sync_count"))
    metadata = np.bincount(of_record, weights=operations, minlength=len(run))
    stretch = np.concatenate([np.repeat(kinds // width, counts), np.arange(len(run))]).astype(np.int64)
    target = np.concatenate([*columns, np.full(len(run), len(components))]).astype(np.int64)
    order = np.argsort(stretch, kind="stable")
    zero = np.zeros(len(run))
    amounts = {
        name: np.concatenate([np.repeat(each / np.maximum(counts, 1), counts), extra])[order]
        for name, each, extra in zip(AMOUNTS, sums, (zero, zero, metadata), strict=True)
    }
    return JobLoads(run, begin, end, stretch[order], target[order], amounts)


def _requests_at_servers(records: FileRecords) -> Floats:
    """Requests as servers see them: clients merge consecutive requests into large ones."""
    found = np.zeros(len(records.log))
    for verb in ("read", "write"):
        count = records.ints(f"{verb}_count").astype(np.float64)
        joined = np.minimum(records.ints(f"consecutive_{verb}_count"), count)
        found += count - joined + np.minimum(joined, records.ints(f"{verb}_bytes") / _JOINED_BYTES)
    return found


def _merge_spans(run: Ints, first: Ints, last: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    """Merge touching spans of each run: (run, begin, end of each stretch, stretch of each span)."""
    if not len(run):
        nothing = np.zeros(0, np.int64)
        return nothing, nothing, nothing, nothing
    order = np.lexsort((first, run))
    run, first, last = run[order], first[order], last[order]
    # Runs are shifted so that a running maximum does not reach from one into the next; microseconds leave room for
    # 100,000 runs in a year.
    origin = int(first.min())
    low, high = (first - origin) // 1000, (last - origin) // 1000
    offset = run * (int(high.max()) + 2)
    reached = np.maximum.accumulate(high + offset)
    begins = np.ones(len(run), np.bool_)
    begins[1:] = low[1:] + offset[1:] > reached[:-1]
    at = np.flatnonzero(begins)
    stretch = np.zeros(len(run), np.int64)
    stretch[order] = np.cumsum(begins) - 1
    return run[at], first[at], np.maximum.reduceat(last, at), stretch


def _columns(layout: str, place: Mapping[int, int], components: int) -> Ints:
    """Columns of the targets of a layout; all if none is known."""
    known = [place[int(word)] for word in layout.split(",") if word and int(word) in place]
    return np.array(known, np.int64) if known else np.arange(components)


def loads_of_servers(rows: Frame, components: Sequence[str], job: Ints) -> JobLoads:
    """Loads from counts of servers; `job` is the number of each row's job.

    Columns: `start_ns`, `interval_ns`, `component` (null: metadata), `read_bytes`, `write_bytes`, `requests`.
    """
    start = rows.ints("start_ns")
    end = start + rows.ints("interval_ns")
    place = {name: column for column, name in enumerate(components)}
    text = rows.text("component")
    target = np.array([place.get(name, -1) for name in text.categories] + [len(components)], np.int64)[text.codes]
    order = np.lexsort((end, start, job))
    order = order[target[order] >= 0]
    begins = np.ones(len(order), np.bool_)
    keys = [each[order] for each in (job, start, end)]
    begins[1:] = np.any([key[1:] != key[:-1] for key in keys], axis=0) if len(order) else False
    at = np.flatnonzero(begins)
    return JobLoads(
        keys[0][at],
        keys[1][at],
        keys[2][at],
        np.cumsum(begins) - 1,
        target[order],
        {name: np.nan_to_num(rows.floats(name))[order] for name in AMOUNTS},
    )


# Largest slowdown of a job against its usual pace within one interval. [ours]
_SLOWER_PACE: Final = 1.25
# A job that is busy for this share of an interval continues into the next, if that has counts too. [ours]
_FULL: Final = 0.8


def align_to_logs(loads: JobLoads, logs: JobLoads, io_seconds: Floats) -> JobLoads:
    """Move counts of servers to the times that the jobs' logs show, since servers are sampled rarely.

    Counts outside of these times stay. `logs` has the same numbers of jobs, `io_seconds` the I/O time of each. Work
    that takes less than its interval was done at the beginning or end of it if the job began or ended then, or was busy
    throughout the interval before or after.
    """
    job, begin, end, _ = _merge_spans(logs.job, logs.first_ns, np.maximum(logs.last_ns, logs.first_ns + 1))
    if not len(loads.job):
        return loads
    low, high = loads.first_ns, loads.last_ns
    if len(job):
        origin = min(int(begin.min()), int(low.min()))
        longest = (max(int(end.max()), int(high.max())) - origin) // 1000 + 2
        ends, begins = (job * longest + (edge - origin) // 1000 for edge in (end, begin))
        at_low, at_high = (loads.job * longest + (edge - origin) // 1000 for edge in (low, high))
        first, last = np.searchsorted(ends, at_low, side="right"), np.searchsorted(begins, at_high, side="left") - 1
        inside = first <= last
        low = np.where(inside, np.maximum(low, begin[np.minimum(first, len(job) - 1)]), low)
        high = np.where(inside, np.minimum(high, end[np.maximum(last, 0)]), high)
    moved = loads.amounts["read_bytes"] + loads.amounts["write_bytes"]
    counted = np.bincount(loads.stretch, weights=moved, minlength=len(low))
    pace = _pace(loads.job, counted / (np.maximum(high - low, 1) / 1e9), logs, io_seconds)[loads.job]
    busy = np.divide(counted, pace, out=np.zeros(len(low)), where=pace > 0) * 1e9
    full = busy >= _FULL * (high - low)
    joined = (loads.job[1:] == loads.job[:-1]) & (loads.last_ns[:-1] == loads.first_ns[1:])
    begins_here, ends_here = low > loads.first_ns, high < loads.last_ns
    goes_on, went_on = full & ~ends_here, full & ~begins_here
    begins_here[1:] |= joined & goes_on[:-1]
    ends_here[:-1] |= joined & went_on[1:]
    taken = np.where(busy > 0, _SLOWER_PACE * busy, np.inf)
    shorter = np.where(taken < high - low, taken, high - low).astype(np.int64)
    return replace(
        loads,
        first_ns=np.where(ends_here & ~begins_here, high - shorter, low),
        last_ns=np.where(begins_here & ~ends_here, low + shorter, high),
    )


def _pace(job: Ints, rate: Floats, logs: JobLoads, io_seconds: Floats) -> Floats:
    """Bytes per second of each job during I/O: the larger of its logs and of the counts in an interval."""
    found = np.zeros(max(len(io_seconds), int(job.max(initial=-1)) + 1))
    moved = logs.amounts["read_bytes"] + logs.amounts["write_bytes"]
    logged = np.bincount(logs.job[logs.stretch], weights=moved, minlength=len(found))[: len(io_seconds)]
    found[: len(io_seconds)] = np.divide(logged, io_seconds, out=np.zeros(len(logged)), where=io_seconds > 0)
    np.maximum.at(found, job, rate)
    return found


def overlapping_stretches(loads: JobLoads, windows: tuple[Ints, Ints]) -> Ints:
    """Stretches that overlap the time from the first window to the last."""
    first, last = windows
    return np.flatnonzero((loads.first_ns < last.max(initial=0)) & (loads.last_ns >= first.min(initial=2**62)))


def merge_windows(windows: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Merge windows that touch or overlap."""
    found: list[tuple[int, int]] = []
    for low, high in sorted(windows):
        if found and low <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], high)
        else:
            found.append((low, high))
    return found


def intersect_spans(one: tuple[Ints, Ints], other: tuple[Ints, Ints]) -> tuple[Ints, Ints]:
    """(first, last) of the times in spans of both; spans of one side may overlap."""
    low, high = (
        np.concatenate([limit(other[side], edge) for edge in one[side].tolist()] or [other[side][:0]])
        for side, limit in ((0, np.maximum), (1, np.minimum))
    )
    inside = low < high
    _, first, last, _ = _merge_spans(np.zeros(int(inside.sum()), np.int64), low[inside], high[inside])
    return first, last


@dataclass(frozen=True, eq=False)
class Degraded:
    """Targets (columns) with `factor` times less capacity than usual in [start, end)."""

    targets: Ints
    start_ns: int
    end_ns: int
    factor: float


@dataclass(frozen=True, eq=False)
class Capacity:
    """Highest rates of each target by name of AMOUNTS, 0 if unknown; the last column is metadata."""

    per_second: Mapping[str, Floats]
    sick: tuple[Degraded, ...] = ()

    def work(self, loads: JobLoads, entries: Ints | None = None, *, of_bytes: bool = False) -> Floats:
        """Seconds that targets need for the entries (default: all), or for their bytes alone."""
        chosen = np.arange(len(loads.target)) if entries is None else entries
        amounts = {name: values[chosen] for name, values in loads.amounts.items()}
        if of_bytes:
            is_data = loads.target[chosen] < len(self.per_second["requests"]) - 1
            amounts["requests"] = np.where(is_data, 0.0, amounts["requests"])
        of = loads.stretch[chosen]
        return self.work_of_amounts(loads.target[chosen], amounts, loads.first_ns[of], loads.last_ns[of])

    def work_of_amounts(self, target: Ints, amounts: Mapping[str, Floats], first_ns: Ints, last_ns: Ints) -> Floats:
        """Seconds for the bytes or for the requests, whichever take longer; more on a degraded target."""
        parts = {}
        for name in AMOUNTS:
            most = self.per_second[name][target]
            parts[name] = np.divide(amounts[name], most, out=np.zeros(len(target)), where=most > 0)
        work = np.maximum(parts["read_bytes"] + parts["write_bytes"], parts["requests"])
        span = np.maximum(last_ns - first_ns, 1)
        slower = np.ones(len(target))
        for each in self.sick:
            during = np.minimum(last_ns, each.end_ns) - np.maximum(first_ns, each.start_ns)
            share = np.where(np.isin(target, each.targets), np.clip(during / span, 0.0, 1.0), 0.0)
            slower = np.maximum(slower, 1.0 + (each.factor - 1.0) * share)
        return np.asarray(work * slower)

    def with_metadata(self, most: float) -> Capacity:
        """Capacity with at least this rate of metadata operations."""
        requests = self.per_second["requests"].copy()
        requests[-1] = max(most, float(requests[-1]))
        return replace(self, per_second={**self.per_second, "requests": requests})


def capacity_of_loads(loads: JobLoads, components: int) -> Capacity:
    """Capacity without samples: the highest rates in the records of jobs."""
    found = {}
    for name in AMOUNTS:
        most = np.zeros(components + 1)
        np.maximum.at(most, loads.target, loads.amounts[name] / np.maximum(loads.seconds[loads.stretch], 1.0))
        most[:components] = most[:components].max(initial=0.0)
        found[name] = most
    return Capacity(found)


def redistribute(others: Floats, own: Floats, measured: Floats, movable: Bools) -> tuple[Floats, Floats]:
    """Move work between targets to match what was measured: ((job, target) work, unrecorded rest by target).

    Work that a log places on a target that did less was done elsewhere (files move, layouts are out of date): it goes
    to the targets that did more than all records say. `movable` are the jobs whose targets are known from logs.
    """
    known = own + others.sum(axis=0)
    rest = np.maximum(measured - known, 0.0)
    by_others = others.sum(axis=0)
    share = np.divide(np.maximum(known - measured, 0.0), by_others, out=np.zeros(len(own)), where=by_others > 0)
    missing = others * np.minimum(share, 1.0) * movable[:, None]
    total = float(missing.sum())
    moved = min(total, float(rest.sum()))
    if moved <= 0:
        return others, rest
    gained = missing.sum(axis=1)[:, None] * (rest / rest.sum())[None, :] * (moved / total)
    return np.asarray(others - missing * (moved / total) + gained), np.asarray(rest * (1.0 - moved / rest.sum()))


_ROUNDS: Final = 20
_FILLING: Final = 3
# Largest speed of a log in an interval, against all of its I/O time. [ours]
_FASTEST: Final = 2.0
# Work that takes a smaller share of an interval is noise. [ours]
_LEAST_BUSY: Final = 0.02
# Background work of targets per second. [ours]
_IDLE_WORK: Final = 1e-3
# Logs with a smaller sampled share are not moved. [ours]
_LEAST_SAMPLED: Final = 0.8


@dataclass(frozen=True, eq=False)
class Samples:
    """Seconds of work of each target (column) in sampling intervals (rows, in order); NaN if not sampled."""

    start_ns: Ints
    end_ns: Ints
    work: Floats

    @property
    def length_ns(self) -> Ints:
        return np.asarray(self.end_ns - self.start_ns)

    @property
    def seconds(self) -> Floats:
        return np.asarray(self.length_ns / 1e9)

    def touching(self, first_ns: Ints, last_ns: Ints) -> Samples:
        """Samples that overlap one of the times [first, last)."""
        order = np.argsort(last_ns)
        following = np.searchsorted(last_ns[order], self.start_ns, side="right")
        never = np.iinfo(np.int64).max
        begins = np.append(np.minimum.accumulate(first_ns[order][::-1])[::-1], never)
        rows = np.flatnonzero(begins[following] < self.end_ns)
        return Samples(self.start_ns[rows], self.end_ns[rows], self.work[rows])


def place_in_samples(loads: JobLoads, near: Ints, samples: Samples, capacity: Capacity, io_seconds: Floats) -> JobLoads:
    """Cut the stretches `near` at the samples, as if servers had counted them; `io_seconds` is the I/O time by job."""
    begin, end = loads.first_ns[near], np.maximum(loads.last_ns[near], loads.first_ns[near] + 1)
    samples = samples.touching(begin, end)
    overlap = np.minimum(end[:, None], samples.end_ns) - np.maximum(begin[:, None], samples.start_ns)
    overlap = np.maximum(overlap, 0) / 1e9
    sampled = overlap.sum(axis=1) >= _LEAST_SAMPLED * (end - begin) / 1e9
    left = loads.take(near[~sampled])
    if not sampled.any():
        return left
    near, overlap = near[sampled], overlap[sampled]
    entries = loads.entries_of(near)
    of = np.searchsorted(near, loads.stretch[entries]).astype(np.int64)
    width = samples.work.shape[1]
    data = loads.target[entries] < width
    place, seconds = of[data] * width + loads.target[entries][data], capacity.work(loads, entries[data], of_bytes=True)
    work = np.bincount(place, weights=seconds, minlength=len(near) * width).astype(np.float64)
    spans = np.bincount(loads.job, weights=loads.seconds, minlength=len(io_seconds))[loads.job[near]]
    busy = np.minimum(io_seconds[loads.job[near]] * loads.seconds[near] / spans, overlap.sum(axis=1))
    share = _divide(work.reshape(-1, width), overlap, samples, busy)
    return concat_loads([_cut(loads, near, entries, of, share, samples), left])


def _divide(work: Floats, overlap: Floats, samples: Samples, busy: Floats) -> Floats:
    """(stretch, interval) shares of the work of each stretch, whose I/O takes `busy` seconds.

    Only the intervals that a stretch overlaps, and the targets in use, are computed.
    """
    used = work.any(axis=0)
    work, sampled = work[:, used], samples.work[:, used]
    shares = np.zeros(overlap.shape)
    place = np.nonzero(overlap)
    stretch = place[0]
    first = np.flatnonzero(np.diff(stretch, prepend=-1))
    inside = overlap[place]
    share = inside / np.add.reduceat(inside, first)[stretch]
    busy = np.where(busy > 0, busy, overlap.sum(axis=1))[stretch]
    most = np.minimum(1.0, _FASTEST * inside / busy)
    background = _IDLE_WORK * samples.seconds[:, None]
    known = np.isfinite(sampled)
    measured = np.where(known, sampled, 0.0) + background
    # Logs may name wrong targets (files move): a target that did less than they say has less weight.
    weighted = work * np.minimum(1.0, measured.sum(axis=0) / np.maximum(work.sum(axis=0), 1e-9)) ** 2
    total = weighted.sum(axis=1)
    part = weighted / np.where(total > 0, total, 1.0)[:, None]
    moves = total[stretch] > 0
    for _ in range(_ROUNDS):
        shares[place] = share
        over = np.where(known, (shares.T @ work + background) / measured, 1.0)
        fitting = share / np.sqrt(np.maximum((part @ over.T)[place], 1e-9))
        share = np.where(moves, _fill_up(fitting, most, stretch, first), share)
    noise = (share * busy < _LEAST_BUSY * inside) & (share < np.maximum.reduceat(share, first)[stretch])
    share = np.where(noise, 0.0, share)
    shares[place] = share / np.add.reduceat(share, first)[stretch]
    return shares


def _fill_up(share: Floats, most: Floats, stretch: Ints, first: Ints) -> Floats:
    """Shares in proportion, up to `most` in each interval; they add up to 1 in each stretch."""
    share = share / np.add.reduceat(share, first)[stretch]
    for _ in range(_FILLING):
        is_full = share >= most
        room = 1.0 - np.add.reduceat(np.where(is_full, most, 0.0), first)
        rest = np.add.reduceat(np.where(is_full, 0.0, share), first)
        share = np.where(is_full, most, share * (room / np.maximum(rest, 1e-30))[stretch])
    return np.asarray(share / np.add.reduceat(share, first)[stretch])


def _cut(loads: JobLoads, near: Ints, entries: Ints, of: Ints, share: Floats, samples: Samples) -> JobLoads:
    stretch, row = np.nonzero(share > 0)
    number = np.full(share.shape, -1, np.int64)
    number[stretch, row] = np.arange(len(stretch))
    which, column = np.nonzero(number[of] >= 0)
    new = number[of[which], column]
    order = np.argsort(new, kind="stable")
    which, column, new = which[order], column[order], new[order]
    factor = share[of[which], column]
    return JobLoads(
        loads.job[near][stretch],
        samples.start_ns[row],
        samples.end_ns[row],
        new,
        loads.target[entries[which]],
        {name: values[entries[which]] * factor for name, values in loads.amounts.items()},
    )
