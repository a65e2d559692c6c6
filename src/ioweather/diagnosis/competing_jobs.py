"""Competing jobs of one run: what each did on the run's targets during its I/O, and what the run waited for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from ioweather.core.arrays import Bools, Floats, Ints
from ioweather.core.errors import DataUnavailable
from ioweather.diagnosis.blame import Party, Suspect, Suspects
from ioweather.diagnosis.job_loads import share_inside
from ioweather.diagnosis.job_records import Records
from ioweather.facts.run_targets import used_targets

# A shared target may do up to so many times less than it ever did before its work no longer explains that a run waits:
# half-broken disks do a fifth. [ours]
MOST_DEGRADED: Final = 5.0
# Time in close() is metadata in a log and waits for data too: for at most so many times what the data take alone.
_LONGEST_CLOSE: Final = 50.0
_MOST_TARGETS: Final = 5


def busiest(work: Floats, used: Bools) -> Floats:
    """(..., target) work on the busiest of the used targets."""
    return np.asarray(np.where(used, work, 0.0).max(axis=-1, initial=0.0))


@dataclass(frozen=True, eq=False)
class CompetingJobs:
    """A run among other jobs.

    `others` is the work and `amounts` what was done, by job (rows are `jobs`) and target, during its I/O of `seconds`;
    the last target is metadata. `own` is the run's own work, `used` the targets it moved bytes on. `met` is the
    work of others (data, metadata) that it meets in its usual time. Its I/O lies in the `windows`.
    """

    records: Records
    windows: tuple[Ints, Ints]
    seconds: float
    jobs: Ints
    amounts: Mapping[str, Floats]
    others: Floats
    own: Floats
    used: Bools
    met: tuple[float, float]

    def saved_seconds(self, left: Floats, *, always_waits: bool = False) -> tuple[Floats, Floats]:
        """Seconds less of (data, metadata), with work `left` (..., target) of all others.

        If the busiest target seems to work longer than the run, targets can do more than was ever seen.
        `always_waits`: the run is known to have waited for its busiest target all the time, however little that did.
        """
        saved = []
        metadata = np.arange(len(self.own)) == len(self.own) - 1
        for used, most in ((self.used, MOST_DEGRADED if always_waits else 1.0), (metadata, 1.0)):
            whole = float(busiest(self.own + self.others.sum(axis=0), used))
            scale = min(most, self.seconds / whole) if whole > 0 else 1.0
            saved.append(np.asarray((whole - busiest(self.own + left, used)) * scale))
        return saved[0], saved[1]


def find_competing_jobs(records: Records, row: int, usual_seconds: float) -> CompetingJobs:
    """The jobs that competed with run `row` of the records, whose I/O usually takes `usual_seconds`."""
    mine = records.by_run.take(records.by_run.job == row)
    if not len(mine.job):
        raise DataUnavailable("the log does not say when it did I/O")
    width, me = len(records.components) + 1, int(records.run_job[row])
    windows = records.windows(row)
    seconds = float((windows[1] - windows[0]).sum()) / 1e9
    io_seconds = min(seconds, float(np.nan_to_num(records.runs.floats("io_seconds")[row])))
    near = np.flatnonzero((records.loads.first_ns < windows[1][-1]) & (records.loads.last_ns >= windows[0][0]))
    loads = records.loads.take(near)
    share = share_inside(loads, windows)
    jobs, at = np.unique(loads.job[share > 0], return_inverse=True)
    loads, work, share = loads.take(share > 0), records.work[near][share > 0], share[share > 0]

    def by_job(values: Floats) -> Floats:
        sums = np.bincount(at * width + loads.target, weights=values * share, minlength=len(jobs) * width)
        return np.asarray(sums.reshape(-1, width), np.float64)

    others, amounts = by_job(work), {name: by_job(values) for name, values in loads.amounts.items()}
    own = mine.by_target(records.capacity.work(mine), width)
    own_bytes = mine.by_target(mine.amounts["read_bytes"] + mine.amounts["write_bytes"], width)
    counted = (jobs == me) & amounts["requests"][:, :-1].any(axis=1)
    if counted.any() and records.evidence[me] == "servers":
        own = others[counted][0]
        own_bytes = (amounts["read_bytes"] + amounts["write_bytes"])[counted][0]
    others[jobs == me] = 0.0
    used = np.append(used_targets(own_bytes[None, :-1])[0], False)
    # Alone it takes its usual time, and no target works longer for it.
    own = np.minimum(own, usual_seconds)
    # Between its first and last access of a file a run also does other things.
    in_usual_time = own + others.sum(axis=0) * min(usual_seconds, io_seconds) / seconds
    met = float(busiest(in_usual_time, used) - busiest(own, used)), float(in_usual_time[-1] - own[-1])
    busy = io_seconds / seconds
    amounts = {name: busy * values for name, values in amounts.items()}
    return CompetingJobs(records, windows, io_seconds, jobs, amounts, busy * others, own, used, met)


def suspects_of(run: CompetingJobs, parties: Sequence[Party], metadata_ratio: float) -> Suspects:
    """The suspects of a run; `parties` are masked for the asker, `metadata_ratio` is its share of metadata time."""
    records, others = run.records, run.others
    data, metadata = run.saved_seconds(others.sum(axis=0) - others)
    in_close = min(metadata_ratio, _LONGEST_CLOSE * float(run.own[:-1].max(initial=0.0)) / max(run.seconds, 1e-9))
    data_ratio = 1.0 - metadata_ratio + in_close
    read, write, requests = (run.amounts[name] for name in ("read_bytes", "write_bytes", "requests"))
    moved, operations = (read + write)[:, run.used].sum(axis=1), requests.sum(axis=1)
    total = others.sum(axis=0) + run.own
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
                bytes_ratio=float(moved[row] / moved.sum()) if moved.sum() > 0 else None,
                operations_ratio=float(operations[row] / operations.sum()) if operations.sum() > 0 else None,
                targets=tuple(
                    (records.components[i], float(others[row, i] / total[i])) for i in order if others[row, i] > 0
                ),
            )
        )
    return Suspects(
        found=tuple(found),
        metadata_ratio=metadata_ratio,
        data_ratio=data_ratio,
        filesystem=records.filesystem,
        has_servers=records.has_servers,
        met_seconds=min(run.met[0], data_ratio * run.seconds) + min(run.met[1], metadata_ratio * run.seconds),
    )
