"""Time that other runs would have waited, had one job not run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

import numpy as np

from ioweather.core import choices
from ioweather.core.arrays import Floats, Ints
from ioweather.core.contracts import ALL_TIME, Period
from ioweather.core.errors import DataUnavailable, UsageError
from ioweather.core.frames import Frame
from ioweather.core.units import HOUR_NS
from ioweather.diagnosis.blame import NAMED_FROM, Blame, Party, blame
from ioweather.diagnosis.competing_jobs import Beside, run_beside
from ioweather.diagnosis.job_records import Records, files_of, records_of, samples_beside
from ioweather.diagnosis.masking import hide
from ioweather.diagnosis.similar_runs import runs_in
from ioweather.diagnosis.slowed_runs import MOST_SAMPLES, REACH_DAYS, days_about, slowed_runs, usual_times
from ioweather.diagnosis.without_job import Affected, Supposed
from ioweather.lake.snapshot import Snapshot

# How often what everybody gained is looked at again. [ours]
_ROUNDS: Final = 3


def supposed(snapshot: Snapshot, values: Mapping[str, Any], period: Period) -> Supposed:
    job = values["without"]
    if job is None:
        raise UsageError("Say which job: --without JOB.")
    whole = snapshot.whole
    mine = snapshot.frame("applications", ("job_id", "start_ns", "end_ns"), {"job_id": job})
    counted = snapshot.frame("job_operations", ("start_ns", "interval_ns"), {"job_id": job})
    starts = [*mine.ints("start_ns").tolist(), *counted.ints("start_ns").tolist()]
    ends = [*mine.ints("end_ns").tolist(), *(counted.ints("start_ns") + counted.ints("interval_ns")).tolist()]
    if not starts:
        raise DataUnavailable(f"The lake shows no I/O of job {job}.")
    begin, end = min(starts), max(ends)
    low, high = period
    if period == ALL_TIME:
        low, high = begin - HOUR_NS, end + HOUR_NS
    filesystem = values["filesystem"] or choices.busiest_filesystem(whole)
    if filesystem is None:
        raise DataUnavailable("no system data")
    everybody = runs_in(whole, "", days_about(whole, low, high, REACH_DAYS))
    is_inside = np.flatnonzero((everybody.ints("start_ns") < high) & (everybody.ints("end_ns") > low))
    inside = everybody.take(is_inside)
    records = records_of(whole, filesystem, inside, files_of(whole, inside), [(low, high)])
    number = next((i for i, party in enumerate(records.parties) if party.job_id == job), None)
    parties = hide(records.parties, snapshot)
    if number is None or parties[number].hidden:
        raise DataUnavailable(f"The lake shows no I/O of job {job} on {filesystem} in this period.")
    usual = usual_times(everybody, is_inside).usual
    seconds = records.runs.floats("io_seconds")
    # Where too few runs are similar, it may have lost all but its own work.
    lost = np.where(np.isfinite(usual), np.maximum(0.0, seconds - usual), seconds)
    others = np.flatnonzero((seconds > 0) & (records.run_job != number))
    longer = _longer(whole, records, others, usual, lost, number)
    blamed = _blamed(snapshot, filesystem, everybody, (low, high), parties[number])
    blames = [blamed.get(row) for row in is_inside[others].tolist()]
    columns = (records.run_job[others].tolist(), seconds[others].tolist(), lost[others].tolist(), longer, blames)
    runs = [Affected(parties[job], *each) for job, *each in zip(*columns, strict=True)]
    return Supposed(parties[number], records.evidence[number], filesystem, low, high, tuple(runs))


def _blamed(snapshot: Snapshot, filesystem: str, everybody: Frame, period: Period, party: Party) -> dict[int, Blame]:
    """What `who` says that the job cost the runs that it names the job for, by row of `everybody`."""
    slowed = slowed_runs(snapshot, filesystem, everybody, period)
    found = {row: next((b for b in blame(run) if b.suspect.party == party), None) for row, run in slowed.items()}
    return {row: each for row, each in found.items() if each is not None and each.probability >= NAMED_FROM}


def _longer(snapshot: Snapshot, records: Records, others: Ints, usual: Floats, lost: Floats, job: int) -> list[float]:
    """Seconds that each of the runs `others` would wait longer for data, and for metadata servers as far as it used
    these. A run that took longer than usual waited for its targets, however little they did. Who ends sooner gets out
    of others' way: what each gained in one round changes what the others meet in the next."""
    samples = samples_beside(snapshot, records, others, most_rows=MOST_SAMPLES)
    seconds, known = records.runs.floats("io_seconds"), np.isfinite(usual)
    in_metadata = np.nan_to_num(records.runs.floats("metadata_ratio") * seconds)
    changed = records.loads.of_jobs(np.zeros(len(records.parties), np.bool_))
    work = records.capacity.work(changed)
    beside: dict[int, Beside] = {}
    for row in others.tolist():
        with suppress(DataUnavailable):
            beside[row] = run_beside(records, row, samples, float(usual[row]) if known[row] else np.inf)
    ends = np.full((len(seconds), 2), np.nan)
    for row, run in beside.items():
        ends[row] = run.pieces.first_ns.min(), run.pieces.last_ns.max()
    longer = np.zeros(len(seconds))
    for _ in range(_ROUNDS):
        left = 1.0 - np.clip(-longer, 0.0, lost) / np.where(seconds > 0, seconds, 1.0)
        sooner = np.stack([ends[:, 0], ends[:, 0] + left * (ends[:, 1] - ends[:, 0])], axis=1)
        met = [_met(each, records.run_job, len(records.parties)) for each in (ends, sooner)]
        for row, run in beside.items():
            was, now = (each(row)[run.jobs] for each in met)
            kept = np.minimum(1.0, np.divide(now, was, out=np.ones(len(was)), where=was > 0))
            data, metadata = run.longer_with(job, changed, work, kept, all_waiting=bool(known[row]))
            longer[row] = data + float(np.clip(metadata, -in_metadata[row], in_metadata[row]))
    return [float(each) for each in longer[others]]


def _met(ends: Floats, run_job: Ints, jobs: int) -> Callable[[int], Floats]:
    """What a run meets of each job: runs of it, by the share of their time, from first to last, in which both go on."""
    first, last = np.nan_to_num(ends).T

    def of(row: int) -> Floats:
        both = np.maximum(np.minimum(last, last[row]) - np.maximum(first, first[row]), 0.0)
        return np.bincount(run_job, weights=both / np.maximum(last - first, 1.0), minlength=jobs).astype(np.float64)

    return of
