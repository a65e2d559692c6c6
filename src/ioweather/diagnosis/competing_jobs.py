"""Competing jobs of one run: what each did on the run's targets during its I/O, and what the run waited for.

A run that waits now for one target and then for another waits at each moment for the busiest one. So the cost of a job
is added up over pieces of time; it is not the work on the target that was busiest over all.
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
from ioweather.diagnosis.job_loads import JobLoads, Samples, overlapping_stretches, redistribute
from ioweather.diagnosis.job_records import Records
from ioweather.facts.run_targets import used_targets

# Time is cut where a job begins or ends something, into at most this many pieces. [ours]
MOST_PIECES: Final = 64
# A shared target may do up to so many times less than it ever did before its work no longer explains that a run waits:
# half-broken disks do a fifth. [ours]
MOST_DEGRADED: Final = 5.0
# Time in close() is metadata in a log and waits for data too: for at most so many times what the data take alone.
_LONGEST_CLOSE: Final = 50.0
_MOST_TARGETS: Final = 5


@dataclass(frozen=True, eq=False)
class Pieces:
    """Pieces of time, in order; pieces with the same `group` count as one."""

    first_ns: Ints
    last_ns: Ints
    group: Ints

    @property
    def seconds(self) -> Floats:
        """Length of each group."""
        return np.bincount(self.group, weights=(self.last_ns - self.first_ns) / 1e9).astype(np.float64)


def cut_windows(windows: tuple[Ints, Ints], loads: JobLoads, stretches: Ints) -> Pieces:
    """Cut the windows [first, last), which do not overlap, where one of the stretches begins or ends."""
    order = np.argsort(windows[0], kind="stable")
    first, last = windows[0][order], windows[1][order]
    edges = np.unique(np.concatenate([loads.first_ns[stretches], loads.last_ns[stretches]]))
    inside = np.searchsorted(first, edges, side="right") - 1
    edges = edges[(inside >= 0) & (edges > first[inside]) & (edges < last[inside])]
    most = MOST_PIECES - len(first)
    if len(edges) > most:
        edges = edges[np.unique(np.linspace(0, len(edges) - 1, max(most, 0)).astype(np.int64))]
    begin, end = np.sort(np.concatenate([first, edges])), np.sort(np.concatenate([edges, last]))
    return Pieces(begin, end, np.arange(len(begin)) * min(len(begin), MOST_PIECES) // max(len(begin), 1))


@dataclass(frozen=True, eq=False)
class DividedLoads:
    """Loads during pieces of time: the `stretches` in them, and the `share` (stretch, group of pieces) of each."""

    loads: JobLoads
    stretches: Ints
    share: Floats

    @cached_property
    def jobs(self) -> Ints:
        """Numbers of the jobs, ascending; these are the rows of the sums."""
        return np.unique(self.loads.job[self.stretches]).astype(np.int64)

    @cached_property
    def _entries(self) -> tuple[Ints, Ints, Ints]:
        """(entries of the stretches, index of the stretch, index of the job)."""
        entries = self.loads.entries_of(self.stretches)
        stretch = np.searchsorted(self.stretches, self.loads.stretch[entries]).astype(np.int64)
        job = np.searchsorted(self.jobs, self.loads.job[self.stretches][stretch]).astype(np.int64)
        return entries, stretch, job

    def sums(self, values: Floats, width: int) -> Floats:
        """(job, target) sums of a value of the entries."""
        entries, stretch, job = self._entries
        weights = values[entries] * self.share.sum(axis=1)[stretch]
        index = job * width + self.loads.target[entries]
        found = np.bincount(index, weights=weights, minlength=len(self.jobs) * width)
        return np.asarray(found.reshape(-1, width), np.float64)

    def by_piece(self, values: Floats, targets: Ints, width: int) -> Floats:
        """(group of pieces, job, target) sums of a value of the entries, for some targets."""
        entries, stretch, job = self._entries
        column_of = np.full(width, -1, np.int64)
        column_of[targets] = np.arange(len(targets))
        column = column_of[self.loads.target[entries]]
        chosen = np.flatnonzero(column >= 0)
        index, size = job[chosen] * len(targets) + column[chosen], len(self.jobs) * len(targets)
        amounts, shares = values[entries[chosen]], self.share[stretch[chosen]]
        found = [np.bincount(index, weights=amounts * part, minlength=size) for part in shares.T]
        return np.reshape(found, (self.share.shape[1], len(self.jobs), len(targets)))


def divide_loads(loads: JobLoads, stretches: Ints, pieces: Pieces) -> DividedLoads:
    """Divide stretches among the pieces, evenly over their time."""
    begin = loads.first_ns[stretches]
    end = np.maximum(loads.last_ns[stretches], begin + 1)
    share = np.zeros((len(stretches), int(pieces.group.max(initial=-1)) + 1))
    for low, high, group in zip(pieces.first_ns.tolist(), pieces.last_ns.tolist(), pieces.group.tolist(), strict=True):
        share[:, group] += np.maximum(np.minimum(end, high) - np.maximum(begin, low), 0) / (end - begin)
    inside = share.any(axis=1)
    return DividedLoads(loads, stretches[inside], share[inside])


@dataclass(frozen=True, eq=False)
class Waiting:
    """Work that a run waits for, by piece of time.

    `own` and `rest` (unrecorded) are (piece, target), `others` (piece, job, target); `used` are the targets that the
    run waits for in each piece, of `seconds`.
    """

    own: Floats
    others: Floats
    rest: Floats
    seconds: Floats
    used: Bools

    @cached_property
    def _total(self) -> Floats:
        return np.asarray(self.own + self.rest + self.others.sum(axis=1))

    def _scale(self, most: float) -> Floats:
        """Seconds of waiting per second of work, by piece.

        If the busiest target seems to work longer than the piece, targets can do more than was ever seen; if it seems
        to work less, they could do up to `most` times less.
        """
        busiest = self._busiest(self._total)
        full = np.divide(self.seconds, busiest, out=np.ones(len(busiest)), where=busiest > 0)
        return np.asarray(np.minimum(most, full))

    def _busiest(self, work: Floats) -> Floats:
        """(piece, ...) work on the busiest target."""
        used = self.used.reshape(len(self.used), *(1,) * (work.ndim - 2), -1)
        return np.asarray(np.where(used, work, 0.0).max(axis=-1, initial=0.0))

    @property
    def met_seconds(self) -> float:
        """Seconds that others' work adds to its own on the busiest target."""
        return float((self._busiest(self._total) - self._busiest(self.own)).sum())

    def without_each(self) -> Floats:
        """Seconds that it would wait less without each of the others and, last, without the rest."""
        parts = np.concatenate([self.others, self.rest[:, None, :]], axis=1)
        saved = self._busiest(self._total)[:, None] - self._busiest(self._total[:, None, :] - parts)
        return np.asarray((saved * self._scale(1.0)[:, None]).sum(axis=0))

    def saved_seconds(self, remaining: Floats, *, always_waits: bool) -> float:
        """Seconds that it would wait less with a `remaining` share of each job's work.

        `always_waits`: it is known to have waited for its busiest target all the time, however little that did.
        """
        changed = self._total - (self.others * (1.0 - remaining)[:, None]).sum(axis=1)
        scale = self._scale(MOST_DEGRADED if always_waits else 1.0)
        return -float(((self._busiest(changed) - self._busiest(self._total)) * scale).sum())


def spread_io_time(own: Floats, beside: Floats, seconds: Floats, io_seconds: float, usual_seconds: float) -> Floats:
    """Seconds of I/O of a run in each piece of `seconds`.

    The usual seconds are divided as its `own` work, the others by where it met others' work (`beside`, in seconds).
    """
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


@dataclass(frozen=True, eq=False)
class CompetingJobs:
    """A run among other jobs.

    `others` is the work and `amounts` what was done, by job (rows are `jobs`) and target. `own` is the run's own work,
    `rest` unrecorded work, `used` the targets it moved bytes on. `data` and `metadata` are what it waited for by piece;
    of each piece it did I/O in a `share`. `met` is others' work (data, metadata) that it meets in its usual time.
    """

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
    def on_sick(self) -> bool:
        """Whether one of its targets was unhealthy."""
        first, last = int(self.pieces.first_ns.min()), int(self.pieces.last_ns.max())
        sick = self.records.capacity.sick
        return any(each.start_ns < last and each.end_ns > first and self.used[each.targets].any() for each in sick)

    def saved_seconds(self, job: int, remaining: Floats, *, always_waits: bool) -> tuple[float, float]:
        """Seconds less of (data, metadata) without `job` and with a `remaining` share of each other job."""
        remaining = np.where(self.jobs == job, 0.0, remaining)
        return (
            self.data.saved_seconds(remaining, always_waits=always_waits),
            self.metadata.saved_seconds(remaining, always_waits=False),
        )


def find_competing_jobs(records: Records, row: int, samples: Samples | None, usual_seconds: float) -> CompetingJobs:
    """The jobs that competed with run `row` of the records, whose I/O usually takes `usual_seconds`.

    `samples` are of the targets at that time, None if unknown.
    """
    mine = records.by_run.stretches_of(row)
    if not len(mine):
        raise DataUnavailable("the log does not say when it did I/O")
    records = records.placed(row, samples)
    loads, width, me = records.loads, records.shape[1], int(records.run_job[row])
    windows = records.windows(row)
    near = overlapping_stretches(loads, windows)
    pieces = cut_windows(windows, loads, near)
    divided = divide_loads(loads, near, pieces)
    # Between its first and last access of a file a run also does other things.
    io_seconds = float(np.nan_to_num(records.runs.floats("io_seconds")[row]))
    busy = min(1.0, io_seconds / float(pieces.seconds.sum()))
    jobs = divided.jobs
    by_log = np.array([records.evidence[job] == "log" for job in jobs.tolist()], np.bool_)
    amounts = {name: busy * divided.sums(values, width) for name, values in loads.amounts.items()}
    others = busy * divided.sums(records.work, width)
    own, own_bytes = own_work(records, mine)
    counted = (jobs == me) & ~by_log & amounts["requests"][:, :-1].any(axis=1)
    if counted.any():
        own = others[counted][0] / busy
        own_bytes = (amounts["read_bytes"] + amounts["write_bytes"])[counted][0, :-1]
    others[jobs == me] = 0.0
    used = used_targets(own_bytes[None, :])[0]
    others_before, own_before = others.copy(), own.copy()
    rest, known_ratio = np.zeros(width), None
    overlapping = samples.touching(*windows) if samples is not None else None
    if overlapping is not None and len(overlapping.start_ns):
        light = np.where(
            by_log[:, None] & (jobs != me)[:, None], busy * divided.sums(records.light_work, width), others
        )
        own_light = own if counted.any() else own_work(records, mine, of_bytes=True)[0]
        # All of the run's own work was done during its I/O, which may be a part of a sampling interval.
        sampled_others = np.maximum(np.nansum(overlapping.work, axis=0) - own_light[:-1], 0.0)
        measured = own_light[:-1] + busy * _share_of_samples(overlapping, windows) * sampled_others
        # Work of requests beyond that of bytes, as far as the samples have room for it.
        extra = (own - own_light)[:-1] + (others - light)[:, :-1].sum(axis=0)
        room = measured - own_light[:-1] - light[:, :-1].sum(axis=0)
        fits = np.clip(np.divide(room, extra, out=np.ones(len(extra)), where=extra > 0), 0.0, 1.0)
        others[:, :-1] = light[:, :-1] + fits * (others - light)[:, :-1]
        own[:-1] = own_light[:-1] + fits * (own - own_light)[:-1]
        others[:, :-1], rest[:-1] = redistribute(others[:, :-1], own[:-1], measured, by_log | records.is_placed)
        total = float(measured[used].sum())
        known_ratio = 1.0 - float(rest[:-1][used].sum()) / total if total else None
    # Alone it takes its usual time, and no target works longer for it.
    own = np.minimum(own, usual_seconds)
    targets = np.append(np.flatnonzero(used), width - 1).astype(np.int64)
    own_loads = records.spans.take(records.spans.stretches_of(me)) if records.tells_when(row) else None
    if own_loads is None or not len(overlapping_stretches(own_loads, windows)):
        own_loads = records.by_run.take(mine)
    own_divided = divide_loads(own_loads, np.arange(len(own_loads.job)), pieces)
    own_by_piece = own_divided.by_piece(records.capacity.work(own_loads), targets, width).sum(axis=1)
    work = divided.by_piece(records.work, targets, width)
    usual = min(usual_seconds, io_seconds)
    arguments = (
        pieces.seconds,
        own_by_piece * _ratio(own[targets], own_before[targets]),
        _rescale(work, others_before[:, targets], others[:, targets], busy),
        rest[targets] / busy,
    )
    share, data, metadata = _waiting(*arguments, io_seconds, usual)
    _, usual_data, usual_metadata = _waiting(*arguments, usual, usual)
    return CompetingJobs(
        records=records,
        job=me,
        jobs=jobs,
        amounts=amounts,
        others=others,
        own=own,
        rest=rest,
        used=used,
        known_ratio=known_ratio,
        pieces=pieces,
        share=share,
        data=data,
        metadata=metadata,
        met=(usual_data.met_seconds, usual_metadata.met_seconds),
    )


def own_work(records: Records, mine: Ints, *, of_bytes: bool = False) -> tuple[Floats, Floats]:
    """(the run's own work, its bytes) by target."""
    loads, width = records.by_run, records.shape[1]
    entries = loads.entries_of(mine)
    target, amounts = loads.target[entries], {name: values[entries] for name, values in loads.amounts.items()}
    work = np.bincount(target, weights=records.capacity.work(loads, entries, of_bytes=of_bytes), minlength=width)
    moved = np.bincount(target, weights=amounts["read_bytes"] + amounts["write_bytes"], minlength=width)[:-1]
    return np.asarray(work, np.float64), np.asarray(moved, np.float64)


def _share_of_samples(samples: Samples, windows: tuple[Ints, Ints]) -> Floats:
    """Share of each target's sampled time that the windows take."""
    sampled = np.where(np.isfinite(samples.work), samples.seconds[:, None], 0.0).sum(axis=0)
    return np.asarray(np.minimum(1.0, (windows[1] - windows[0]).sum() / 1e9 / np.maximum(sampled, 1e-9)))


def _ratio(now: Floats, before: Floats) -> Floats:
    return np.divide(now, before, out=np.zeros(now.shape), where=before > 0)


def _rescale(work: Floats, before: Floats, now: Floats, busy: float) -> Floats:
    """(piece, job, target) work, rescaled from the sums `before` to the sums `now`.

    Work that was moved to a target where the job had none is spread over time as its other work.
    """
    profile = work.sum(axis=2) / busy
    profile = np.divide(profile, profile.sum(axis=0), out=np.zeros(profile.shape), where=profile.sum(axis=0) > 0)
    return np.asarray(work * _ratio(now, before) + profile[:, :, None] * np.where(before > 0, 0.0, now) / busy)


def _waiting(
    seconds: Floats, own: Floats, work: Floats, rest: Floats, io_seconds: float, usual_seconds: float
) -> tuple[Floats, Waiting, Waiting]:
    """(share of each piece with I/O, waiting for data, waiting for metadata); metadata is the last target."""
    unrecorded = rest * (seconds / seconds.sum())[:, None]
    used = used_targets(own[:, :-1]) if len(rest) > 1 else np.zeros((len(seconds), 0), np.bool_)
    met = np.where(used, (work.sum(axis=1) + unrecorded)[:, :-1], 0.0).max(axis=1, initial=0.0)
    time = spread_io_time(own[:, :-1].max(axis=1, initial=0.0), met, seconds, io_seconds, usual_seconds)
    share = np.divide(time, seconds, out=np.zeros(len(seconds)), where=seconds > 0)
    work, unrecorded = work * share[:, None, None], unrecorded * share[:, None]
    always = np.ones((len(seconds), 1), np.bool_)
    return (
        share,
        Waiting(own[:, :-1], work[:, :, :-1], unrecorded[:, :-1], time, used),
        Waiting(own[:, -1:], work[:, :, -1:], unrecorded[:, -1:], time, always),
    )


def suspects_of(run: CompetingJobs, parties: Sequence[Party], metadata_ratio: float) -> Suspects:
    """The suspects of a run; `parties` are masked for the asker, `metadata_ratio` is its share of metadata time."""
    records, others = run.records, run.others
    data, metadata = run.data.without_each(), run.metadata.without_each()
    seconds = float(run.data.seconds.sum())
    in_close = min(metadata_ratio, _LONGEST_CLOSE * float(run.own[:-1].max(initial=0.0)) / seconds)
    data_ratio = 1.0 - metadata_ratio + in_close
    load = np.where(run.used, others[:, :-1].sum(axis=0) + run.rest[:-1], -1.0)
    read, write, requests = (run.amounts[name] for name in ("read_bytes", "write_bytes", "requests"))
    moved = read[:, :-1] + write[:, :-1]
    all_bytes, operations = float(moved[:, run.used].sum()), requests.sum(axis=1)
    total = others[:, :-1].sum(axis=0) + (run.own + run.rest)[:-1]
    found = []
    for row in np.flatnonzero(others.sum(axis=1) > 0).tolist():
        job = int(run.jobs[row])
        order = np.argsort(-others[row, :-1], kind="stable")[:_MOST_TARGETS].tolist()
        found.append(
            Suspect(
                party=parties[job],
                evidence=records.evidence[job],
                data_seconds=float(data[row]),
                metadata_seconds=float(metadata[row]),
                read_bytes=float(read[row].sum()),
                write_bytes=float(write[row].sum()),
                requests=float(requests[row, :-1].sum()),
                metadata_operations=float(requests[row, -1]),
                bytes_ratio=float(moved[row, run.used].sum()) / all_bytes if all_bytes > 0 else None,
                operations_ratio=float(operations[row] / operations.sum()) if operations.sum() > 0 else None,
                targets=tuple(
                    (records.components[i], float(others[row, i] / total[i])) for i in order if others[row, i] > 0
                ),
            )
        )
    return Suspects(
        found=tuple(found),
        known_ratio=run.known_ratio,
        busiest=records.components[int(load.argmax())] if load.max(initial=0.0) > 0 else None,
        metadata_ratio=metadata_ratio,
        data_ratio=data_ratio,
        filesystem=records.filesystem,
        has_servers=records.has_servers,
        unrecorded_seconds=float(data[-1]),
        met_seconds=min(run.met[0], data_ratio * seconds) + min(run.met[1], metadata_ratio * seconds),
        on_sick=run.on_sick,
    )
