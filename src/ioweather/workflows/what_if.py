"""What other runs would have waited for had one job not run, run at another time, or been striped otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ioweather.advice.culprits.what_if import Affected, Kind, Supposed
from ioweather.core.arrays import Floats
from ioweather.core.contracts import ALL_TIME, Period
from ioweather.core.errors import DataUnavailable, UsageError
from ioweather.core.units import HOUR_NS
from ioweather.derive.system.run_environment import used_targets
from ioweather.derive.system.shared_work import JobLoads, shares_during, sums_during
from ioweather.store.snapshot import Snapshot
from ioweather.studies.shared import choices
from ioweather.workflows.hiding import hide
from ioweather.workflows.job_records import Records, files_of, records_of
from ioweather.workflows.similar_runs import runs_in
from ioweather.workflows.who import active, days_about, own_work, usual_times


def supposed(snapshot: Snapshot, values: Mapping[str, Any], period: Period) -> Supposed:
    kind, job = _asked(values)
    whole = snapshot.whole
    mine = snapshot.frame("applications", ("job_id", "start_ns", "end_ns"), {"job_id": job})
    counted = snapshot.frame("job_operations", ("start_ns", "interval_ns"), {"job_id": job})
    starts = [*mine.ints("start_ns").tolist(), *counted.ints("start_ns").tolist()]
    ends = [*mine.ints("end_ns").tolist(), *(counted.ints("start_ns") + counted.ints("interval_ns")).tolist()]
    if not starts:
        raise DataUnavailable(f"The lake shows no I/O of job {job}.")
    begin, end = min(starts), max(ends)
    shift = values["begin"] - begin if kind == "move" else 0
    low, high = period
    if period == ALL_TIME:
        low, high = min(begin, begin + shift) - HOUR_NS, max(end, end + shift) + HOUR_NS
    filesystem = values["filesystem"] or choices.busiest_filesystem(whole)
    if filesystem is None:
        raise DataUnavailable("no system data")
    everybody = runs_in(whole, "", days_about(whole, low, high, 10))
    inside = active(everybody, low, high)
    records = records_of(whole, filesystem, inside, files_of(whole, inside), [(low, high)])
    number = next((i for i, party in enumerate(records.parties) if party.job_id == job), None)
    parties = hide(records.parties, snapshot)
    if number is None or parties[number].hidden:
        raise DataUnavailable(f"The lake shows no I/O of job {job} on {filesystem} in this period.")
    usual = usual_times(everybody)
    usual_of = dict(zip(everybody.text("log_digest").tolist(), usual.tolist(), strict=True))
    changed, work = _changed(records, number, kind, shift, values["over"])
    runs = [
        Affected(
            parties[int(records.run_job[row])], seconds, max(0.0, seconds - known) if known == known else 0.0,
            _change(records, row, number, changed, work),
        )
        for row, (seconds, known) in enumerate(
            zip(records.runs.floats("io_seconds").tolist(),
                [usual_of[d] for d in records.runs.text("log_digest").tolist()], strict=True)
        )
        if seconds > 0 and int(records.run_job[row]) != number
    ]  # fmt: skip
    return Supposed(kind, parties[number], records.evidence[number], filesystem, low, high, tuple(runs))


def _asked(values: Mapping[str, Any]) -> tuple[Kind, int]:
    asked: list[tuple[Kind, int]] = [
        (kind, values[kind]) for kind in ("without", "move", "stripe") if values[kind] is not None
    ]
    if len(asked) != 1:
        raise UsageError("Say one of --without JOB, --move JOB --start TIME, --stripe JOB --over N.")
    kind, job = asked[0]
    if (kind == "move") != (values["begin"] is not None) or (kind == "stripe") != (values["over"] is not None):
        raise UsageError("--move goes with --start TIME, --stripe with --over N.")
    return kind, job


def _changed(records: Records, job: int, kind: Kind, shift: int, over: int | None) -> tuple[JobLoads, Floats]:
    """The job's loads as supposed, and their work."""
    only = np.zeros(len(records.parties), np.bool_)
    only[job] = kind != "without"
    loads = records.loads.of_jobs(only)
    if kind == "move":
        loads = JobLoads(
            loads.job, loads.first_ns + shift, loads.last_ns + shift, loads.stretch, loads.target, loads.amounts
        )
    if kind == "stripe" and over is not None:
        loads = _striped(records, loads, job, over)
    return loads, records.capacity.work(loads)


def _striped(records: Records, loads: JobLoads, job: int, over: int) -> JobLoads:
    """Its bytes evenly on so many targets, those with least work of others meanwhile."""
    width = len(records.components)
    shares = shares_during(records.loads, (loads.first_ns, np.maximum(loads.last_ns, loads.first_ns + 1)))
    others = sums_during(records.loads, records.work, shares, records.shape)
    others[job] = 0.0
    chosen = np.sort(np.argsort(others[:, :width].sum(axis=0), kind="stable")[: min(over, width)])
    count, data = len(loads.job), loads.target < width
    totals = {name: np.bincount(loads.stretch[data], weights=values[data], minlength=count)
              for name, values in loads.amounts.items()}  # fmt: skip
    stretch = np.concatenate([np.repeat(np.arange(count), len(chosen)), loads.stretch[~data]])
    target = np.concatenate([np.tile(chosen, count), loads.target[~data]])
    order = np.argsort(stretch, kind="stable")
    amounts = {
        name: np.concatenate([np.repeat(totals[name] / len(chosen), len(chosen)), values[~data]])[order]
        for name, values in loads.amounts.items()
    }
    return JobLoads(loads.job, loads.first_ns, loads.last_ns, stretch[order], target[order], amounts)


def _change(records: Records, row: int, job: int, changed: JobLoads, work: Floats) -> float:
    """Seconds of work more on the busiest of the run's targets, and on metadata servers as far as it used these."""
    mine = records.by_run.stretches_of(row)
    if not len(mine):
        return 0.0
    windows = records.windows(row)
    io_seconds = float(records.runs.floats("io_seconds")[row])
    busy = min(1.0, io_seconds * 1e9 / float((windows[1] - windows[0]).sum()))
    others = busy * sums_during(records.loads, records.work, shares_during(records.loads, windows), records.shape)
    others[int(records.run_job[row])] = 0.0
    instead = busy * sums_during(changed, work, shares_during(changed, windows), records.shape)[job]
    own, own_bytes = own_work(records, mine)
    used = used_targets(own_bytes[None, :])[0]
    before = own + others.sum(axis=0)
    after = before - others[job] + instead
    metadata = float(np.nan_to_num(records.runs.floats("metadata_ratio")[row])) * io_seconds
    limit = float(np.clip(after[-1] - before[-1], -metadata, metadata))
    return float(after[:-1][used].max(initial=0.0) - before[:-1][used].max(initial=0.0)) + limit
