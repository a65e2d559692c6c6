"""What jobs did while a run did I/O, piece by piece of that time.

A run that waits now for one target and then for another waits for the one that is busiest at each moment: what a job
cost it is added up over pieces of time, and is not the work on the target that was busiest over all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from ioweather.core.arrays import Bools, Floats, Ints
from ioweather.core.errors import DataUnavailable
from ioweather.diagnosis.blame import Party, Suspect, Suspects
from ioweather.diagnosis.job_loads import JobLoads, Samples, near_windows, placed_again
from ioweather.diagnosis.job_records import Records
from ioweather.facts.run_environment import used_targets

# Time is cut where a job begins or ends something; into more pieces than these it is not. [ours]
MOST_PIECES: Final = 64


@dataclass(frozen=True, eq=False)
class Pieces:
    """Pieces of time, in order: those of one number of `group` count as one."""

    first_ns: Ints
    last_ns: Ints
    group: Ints

    @property
    def seconds(self) -> Floats:
        """Of each group."""
        return np.bincount(self.group, weights=(self.last_ns - self.first_ns) / 1e9).astype(np.float64)


def pieces_of(windows: tuple[Ints, Ints], loads: JobLoads, near: Ints) -> Pieces:
    """The windows [first, last), of which none overlap, cut where one of the stretches begins or ends."""
    order = np.argsort(windows[0], kind="stable")
    first, last = windows[0][order], windows[1][order]
    edges = np.unique(np.concatenate([loads.first_ns[near], loads.last_ns[near]]))
    inside = np.searchsorted(first, edges, side="right") - 1
    edges = edges[(inside >= 0) & (edges > first[inside]) & (edges < last[inside])]
    room = MOST_PIECES - len(first)
    if len(edges) > room:
        edges = edges[np.unique(np.linspace(0, len(edges) - 1, max(room, 0)).astype(np.int64))]
    begin, end = np.sort(np.concatenate([first, edges])), np.sort(np.concatenate([edges, last]))
    return Pieces(begin, end, np.arange(len(begin)) * min(len(begin), MOST_PIECES) // max(len(begin), 1))


@dataclass(frozen=True, eq=False)
class During:
    """What of the loads fell into pieces of time: `near` are the stretches that did, `share` (stretch, group of pieces)
    which part of each."""

    loads: JobLoads
    near: Ints
    share: Floats

    @cached_property
    def jobs(self) -> Ints:
        """Numbers of the jobs, ascending; rows of the sums."""
        return np.unique(self.loads.job[self.near]).astype(np.int64)

    @cached_property
    def _entries(self) -> tuple[Ints, Ints, Ints]:
        """Entries of the stretches; which of `near`, and which of `jobs` each is of."""
        entries = self.loads.entries_of(self.near)
        of = np.searchsorted(self.near, self.loads.stretch[entries]).astype(np.int64)
        job = np.searchsorted(self.jobs, self.loads.job[self.near][of]).astype(np.int64)
        return entries, of, job

    def sums(self, values: Floats, width: int) -> Floats:
        """(job, target) sums of a value of entries."""
        entries, of, job = self._entries
        weights = values[entries] * self.share.sum(axis=1)[of]
        place = job * width + self.loads.target[entries]
        found = np.bincount(place, weights=weights, minlength=len(self.jobs) * width)
        return np.asarray(found.reshape(-1, width), np.float64)

    def in_time(self, values: Floats, columns: Ints, width: int) -> Floats:
        """(group of pieces, job, column) sums of a value of entries, on some targets."""
        entries, of, job = self._entries
        column = np.full(width, -1, np.int64)
        column[columns] = np.arange(len(columns))
        at = column[self.loads.target[entries]]
        there = np.flatnonzero(at >= 0)
        place, size = job[there] * len(columns) + at[there], len(self.jobs) * len(columns)
        amounts, shares = values[entries[there]], self.share[of[there]]
        found = [np.bincount(place, weights=amounts * part, minlength=size) for part in shares.T]
        return np.reshape(found, (self.share.shape[1], len(self.jobs), len(columns)))


def during(loads: JobLoads, near: Ints, pieces: Pieces) -> During:
    begin = loads.first_ns[near]
    end = np.maximum(loads.last_ns[near], begin + 1)
    groups = int(pieces.group.max(initial=-1)) + 1
    share = np.zeros((len(near), groups))
    for low, high, group in zip(pieces.first_ns.tolist(), pieces.last_ns.tolist(), pieces.group.tolist(), strict=True):
        share[:, group] += np.maximum(np.minimum(end, high) - np.maximum(begin, low), 0) / (end - begin)
    inside = share.any(axis=1)
    return During(loads, near[inside], share[inside])


# A target that others share may do so many times less than it ever did before the work on it no longer explains that a
# run waits: half-broken disks do a fifth. [ours]
MOST_TIMES_LESS: Final = 5.0


@dataclass(frozen=True, eq=False)
class Waiting:
    """What a run waits for, in pieces of time: `own` work and `rest`, which nobody's record explains, are (piece,
    target), `others` (piece, job, target), `used` the targets that it waits for in each piece, of `seconds`."""

    own: Floats
    others: Floats
    rest: Floats
    seconds: Floats
    used: Bools

    @cached_property
    def _total(self) -> Floats:
        return np.asarray(self.own + self.rest + self.others.sum(axis=1))

    def _scale(self, most: float) -> Floats:
        """By piece: a target does a second of work in a second. Where the busiest seems to do more, targets can do more
        than was ever seen of them; where it seems to do less, they could do up to `most` times less."""
        busiest = self._longest(self._total)
        full = np.divide(self.seconds, busiest, out=np.ones(len(busiest)), where=busiest > 0)
        return np.asarray(np.minimum(most, full))

    def _longest(self, work: Floats) -> Floats:
        """(piece, ...) seconds on the busiest target."""
        used = self.used.reshape(len(self.used), *(1,) * (work.ndim - 2), -1)
        return np.asarray(np.where(used, work, 0.0).max(axis=-1, initial=0.0))

    @property
    def met_seconds(self) -> float:
        """What others' work adds to its own on the busiest target."""
        return float((self._longest(self._total) - self._longest(self.own)).sum())

    def without_each(self) -> Floats:
        """Seconds that it would wait less without each of the others and, last, without the rest."""
        parts = np.concatenate([self.others, self.rest[:, None, :]], axis=1)
        without = self._longest(self._total[:, None, :] - parts)
        return np.asarray(((self._longest(self._total)[:, None] - without) * self._scale(1.0)[:, None]).sum(axis=0))

    def longer_with(self, kept: Floats, more: Floats, *, all_waiting: bool) -> float:
        """Seconds that it would wait longer with `more` work (piece, target), and of each of the others a `kept` share.
        `all_waiting`: it is known to have waited for its busiest target all the time, however little that did."""
        changed = self._total + more - (self.others * (1.0 - kept)[:, None]).sum(axis=1)
        scale = self._scale(MOST_TIMES_LESS if all_waiting else 1.0)
        return float(((self._longest(changed) - self._longest(self._total)) * scale).sum())


def io_in_time(own: Floats, beside: Floats, seconds: Floats, io_seconds: float, usual_seconds: float) -> Floats:
    """Seconds of I/O of a run in each piece of its time, which is `seconds` long: the usual ones as its own work is
    (piece), the rest where it met others' work (`beside`, seconds in each piece)."""
    whole = float(seconds.sum())
    io_seconds = min(io_seconds, whole)
    own_share = own / own.sum() if own.sum() > 0 else seconds / whole
    met = own_share * np.divide(beside, seconds, out=np.zeros(len(seconds)), where=seconds > 0)
    lost = max(0.0, io_seconds - usual_seconds)
    met_share = met / met.sum() if met.sum() > 0 else own_share
    found = np.minimum((io_seconds - lost) * own_share + lost * met_share, seconds)
    room = seconds - found
    left = io_seconds - float(found.sum())
    return np.asarray(found + room * min(1.0, left / room.sum()) if room.sum() > 0 else found)


_MOST_TARGETS: Final = 5


@dataclass(frozen=True, eq=False)
class Beside:
    """A run among others. `others` is work and `amounts` what was done, by job (rows are `jobs`) and target; `own` is
    the run's own work, `rest` what nobody's record explains, `used` the targets that it moved bytes on. `data` and
    `metadata` are what it waited for in pieces of its time; of each piece it did I/O in a `share`. `met` is others'
    work (data, metadata) that it meets in its usual time."""

    records: Records
    job: int
    jobs: Ints
    amounts: dict[str, Floats]
    others: Floats
    own: Floats
    rest: Floats
    used: Bools
    known_ratio: float | None
    pieces: Pieces
    share: Floats
    data: Waiting
    metadata: Waiting
    met: tuple[float, float]

    @property
    def columns(self) -> Ints:
        """Targets that `data` and then `metadata` are about."""
        return np.append(np.flatnonzero(self.used), len(self.rest) - 1).astype(np.int64)

    @property
    def on_sick(self) -> bool:
        """One of its targets was found sick meanwhile."""
        first, last = int(self.pieces.first_ns.min()), int(self.pieces.last_ns.max())
        sick = self.records.capacity.sick
        return any(each.start_ns < last and each.end_ns > first and self.used[each.targets].any() for each in sick)

    def longer_with(
        self, job: int, instead: JobLoads, work: Floats, kept: Floats, *, all_waiting: bool
    ) -> tuple[float, float]:
        """Seconds more of data and of metadata, had `job` done something else (`instead`, with its work)."""
        near = near_windows(instead, (self.pieces.first_ns, self.pieces.last_ns))
        found = during(instead, near, self.pieces).in_time(work, self.columns, len(self.rest)).sum(axis=1)
        more, kept = found * self.share[:, None], np.where(self.jobs == job, 0.0, kept)
        return (
            self.data.longer_with(kept, more[:, :-1], all_waiting=all_waiting),
            self.metadata.longer_with(kept, more[:, -1:], all_waiting=False),
        )


def run_beside(records: Records, row: int, samples: Samples | None, usual_seconds: float) -> Beside:
    """Run `row` of the records, whose I/O usually takes so long. `samples` are of the targets at that time, None where
    these are not known."""
    mine = records.by_run.stretches_of(row)
    if not len(mine):
        raise DataUnavailable("the log does not say when it did I/O")
    records = records.placed(row, samples)
    loads, width, me = records.loads, records.shape[1], int(records.run_job[row])
    windows = records.windows(row)
    near = near_windows(loads, windows)
    pieces = pieces_of(windows, loads, near)
    found = during(loads, near, pieces)
    # Between its first and last access of a file a run also does other things.
    io_seconds = float(np.nan_to_num(records.runs.floats("io_seconds")[row]))
    busy = min(1.0, io_seconds / float(pieces.seconds.sum()))
    jobs = found.jobs
    by_log = np.array([records.evidence[job] == "log" for job in jobs.tolist()], np.bool_)
    amounts = {name: busy * found.sums(values, width) for name, values in loads.amounts.items()}
    others = busy * found.sums(records.work, width)
    own, own_bytes = own_work(records, mine)
    counted = (jobs == me) & ~by_log & amounts["requests"][:, :-1].any(axis=1)
    if counted.any():
        own = others[counted][0] / busy
        own_bytes = (amounts["read_bytes"] + amounts["write_bytes"])[counted][0, :-1]
    others[jobs == me] = 0.0
    used = used_targets(own_bytes[None, :])[0]
    before, own_before = others.copy(), own.copy()
    rest, known_ratio = np.zeros(width), None
    touched = samples.touching(*windows) if samples is not None else None
    if touched is not None and len(touched.start_ns):
        light = np.where(by_log[:, None] & (jobs != me)[:, None], busy * found.sums(records.light_work, width), others)
        own_light = own if counted.any() else own_work(records, mine, of_bytes=True)[0]
        # The run's own work was all done while it did I/O; of a sampling interval that may be a part.
        meanwhile = own_light[:-1] + busy * _share_of(touched, windows) * np.maximum(
            np.nansum(touched.work, axis=0) - own_light[:-1], 0.0
        )
        extra = _fitting((own - own_light)[:-1] + (others - light)[:, :-1].sum(axis=0),
                         meanwhile - own_light[:-1] - light[:, :-1].sum(axis=0))  # fmt: skip
        others[:, :-1] = light[:, :-1] + extra * (others - light)[:, :-1]
        own[:-1] = own_light[:-1] + extra * (own - own_light)[:-1]
        others[:, :-1], rest[:-1] = placed_again(others[:, :-1], own[:-1], meanwhile, by_log | records.is_placed)
        total = float(meanwhile[used].sum())
        known_ratio = 1.0 - float(rest[:-1][used].sum()) / total if total else None
    # Alone it takes its usual time, and no target works longer for it.
    own = np.minimum(own, usual_seconds)
    columns = np.append(np.flatnonzero(used), width - 1).astype(np.int64)
    work = found.in_time(records.work, columns, width)
    mine_in_time = records.spans.taken(records.spans.stretches_of(me)) if records.tells_when(row) else None
    if mine_in_time is None or not len(near_windows(mine_in_time, windows)):
        mine_in_time = records.by_run.taken(mine)
    timed = during(mine_in_time, np.arange(len(mine_in_time.job)), pieces)
    in_pieces = timed.in_time(records.capacity.work(mine_in_time), columns, width).sum(axis=1)
    usual = min(usual_seconds, io_seconds)
    waiting = (
        pieces.seconds, in_pieces * _ratio(own[columns], own_before[columns]),
        _fitted(work, before[:, columns], others[:, columns], busy), rest[columns] / busy,
    )  # fmt: skip
    share, data, metadata = _waiting(*waiting, (io_seconds, usual))
    _, *usually = _waiting(*waiting, (usual, usual))
    met = usually[0].met_seconds, usually[1].met_seconds
    return Beside(records, me, jobs, amounts, others, own, rest, used, known_ratio, pieces, share, data, metadata, met)


def _share_of(samples: Samples, windows: tuple[Ints, Ints]) -> Floats:
    """Of the time in which each target was sampled, the share that the windows take."""
    sampled = np.where(np.isfinite(samples.work), samples.seconds[:, None], 0.0).sum(axis=0)
    return np.asarray(np.minimum(1.0, (windows[1] - windows[0]).sum() / 1e9 / np.maximum(sampled, 1e-9)))


def _fitting(more: Floats, room: Floats) -> Floats:
    """The share of `more` that there is room for."""
    return np.clip(np.divide(room, more, out=np.ones(len(more)), where=more > 0), 0.0, 1.0)


def _fitted(work: Floats, was: Floats, now: Floats, busy: float) -> Floats:
    """(piece, job, target) work whose sums over the time, `was`, are to be `now`. Work that was placed where the job's
    own record shows none is spread as its other work."""
    profile = work.sum(axis=2) / busy
    profile = np.divide(profile, profile.sum(axis=0), out=np.zeros(profile.shape), where=profile.sum(axis=0) > 0)
    return np.asarray(work * _ratio(now, was) + profile[:, :, None] * np.where(was > 0, 0.0, now) / busy)


def _waiting(
    seconds: Floats, mine: Floats, work: Floats, rest: Floats, io: tuple[float, float]
) -> tuple[Floats, Waiting, Waiting]:
    """The share of each piece of time with I/O, and what the run waited for in it: data, and metadata (the last
    target). `io` are the run's seconds of I/O, and the usual ones."""
    nobody = rest * (seconds / seconds.sum())[:, None]
    used = used_targets(mine[:, :-1]) if len(rest) > 1 else np.zeros((len(seconds), 0), np.bool_)
    met = np.where(used, (work.sum(axis=1) + nobody)[:, :-1], 0.0).max(axis=1, initial=0.0)
    time = io_in_time(mine[:, :-1].max(axis=1, initial=0.0), met, seconds, *io)
    share = np.divide(time, seconds, out=np.zeros(len(seconds)), where=seconds > 0)
    work, nobody = work * share[:, None, None], nobody * share[:, None]
    every = np.ones((len(seconds), 1), np.bool_)
    return (
        share,
        Waiting(mine[:, :-1], work[:, :, :-1], nobody[:, :-1], time, used),
        Waiting(mine[:, -1:], work[:, :, -1:], nobody[:, -1:], time, every),
    )


def _ratio(now: Floats, was: Floats) -> Floats:
    return np.divide(now, was, out=np.zeros(now.shape), where=was > 0)


def own_work(records: Records, mine: Ints, *, of_bytes: bool = False) -> tuple[Floats, Floats]:
    """The run's own work, and its bytes by target."""
    loads, width = records.by_run, records.shape[1]
    entries = loads.entries_of(mine)
    target, amounts = loads.target[entries], {name: values[entries] for name, values in loads.amounts.items()}
    work = np.bincount(target, weights=records.capacity.work(loads, entries, of_bytes=of_bytes), minlength=width)
    moved = np.bincount(target, weights=amounts["read_bytes"] + amounts["write_bytes"], minlength=width)[:-1]
    return np.asarray(work, np.float64), np.asarray(moved, np.float64)


# Time in close() is metadata in a log, and waits for data too: for at most so many times what the data take alone.
_LONGEST_CLOSE: Final = 50.0


def suspects_of(run: Beside, parties: Sequence[Party], metadata_ratio: float) -> Suspects:
    """`parties` as they may be seen; `metadata_ratio` is the run's share of time in metadata."""
    records = run.records
    load = np.where(run.used, run.others[:, :-1].sum(axis=0) + run.rest[:-1], -1.0)
    data, metadata = run.data.without_each(), run.metadata.without_each()
    seconds = float(run.data.seconds.sum())
    in_close = min(metadata_ratio, _LONGEST_CLOSE * float(run.own[:-1].max(initial=0.0)) / seconds)
    data_ratio = 1.0 - metadata_ratio + in_close
    return Suspects(
        _found(run, parties, data, metadata), run.known_ratio,
        records.components[int(load.argmax())] if load.max(initial=0.0) > 0 else None,
        metadata_ratio, data_ratio, records.filesystem, records.has_servers, float(data[-1]),
        min(run.met[0], data_ratio * seconds) + min(run.met[1], metadata_ratio * seconds), run.on_sick,
    )  # fmt: skip


def _found(run: Beside, parties: Sequence[Party], data: Floats, metadata: Floats) -> tuple[Suspect, ...]:
    """`data`, `metadata`: seconds that it would wait less without each."""
    records, others, amounts = run.records, run.others, run.amounts
    moved = amounts["read_bytes"][:, :-1] + amounts["write_bytes"][:, :-1]
    all_bytes, operations = float(moved[:, run.used].sum()), amounts["requests"].sum(axis=1)
    total = others[:, :-1].sum(axis=0) + (run.own + run.rest)[:-1]
    found = []
    for row in np.flatnonzero(others.sum(axis=1) > 0).tolist():
        job = int(run.jobs[row])
        order = np.argsort(-others[row, :-1], kind="stable")[:_MOST_TARGETS].tolist()
        found.append(Suspect(
            parties[job], records.evidence[job], float(data[row]), float(metadata[row]),
            float(amounts["read_bytes"][row].sum()), float(amounts["write_bytes"][row].sum()),
            float(amounts["requests"][row, :-1].sum()), float(amounts["requests"][row, -1]),
            float(moved[row, run.used].sum()) / all_bytes if all_bytes > 0 else None,
            float(operations[row] / operations.sum()) if operations.sum() > 0 else None,
            tuple((records.components[i], float(others[row, i] / total[i])) for i in order if others[row, i] > 0),
        ))  # fmt: skip
    return tuple(found)
