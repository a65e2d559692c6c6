"""Reads the suspects of runs and the activity of a period from the lake.

The answer does not depend on the asker or on the period: similar runs are those of ten days before and after, capacity
of targets and slowness are those of the calendar month.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from ioweather.core import choices
from ioweather.core.contracts import ALL_TIME, Params, Period
from ioweather.core.errors import DataUnavailable, UsageError
from ioweather.core.frames import Bools, Floats, Frame, Ints
from ioweather.core.tables import concat
from ioweather.core.units import DAY_NS, HOUR_NS, utc_day
from ioweather.diagnosis.blame import (
    NAMED_FROM,
    REACH_DAYS,
    Activity,
    Slowed,
    Suspect,
    UsualTimes,
    WithoutJob,
    blame,
    total_saved,
    usual_times,
)
from ioweather.diagnosis.job_loads import share_inside
from ioweather.diagnosis.job_records import (
    FILES,
    Records,
    find_placed,
    find_storms,
    read_files,
    read_records,
    read_volumes,
)
from ioweather.diagnosis.similar_runs import SimilarRuns, read_runs
from ioweather.facts.run_targets import used_targets
from ioweather.facts.system_activity import merge_windows
from ioweather.lake.lake import Snapshot

# A shared target may do up to so many times less than it ever did before its work no longer explains that a run waits:
# half-broken disks do a fifth. [ours]
MOST_DEGRADED: Final = 5.0
# Time in close() is metadata in a log and waits for data too: for at most so many times what the data take alone.
_LONGEST_CLOSE: Final = 50.0
_MOST_TARGETS: Final = 5


def busiest_work(work: Floats, used: Bools) -> Floats:
    """Seconds of work on the busiest of the used targets; the last axis of `work` are targets."""
    return np.asarray(np.where(used, work, 0.0).max(axis=-1, initial=0.0))


@dataclass(frozen=True, eq=False)
class CompetingJobs:
    """A run among other jobs, and the work of targets for each of them during its I/O of `seconds`.

    `others` are (job, target) seconds of work, `amounts` what was done for them; rows are `jobs`, and the last target
    is metadata. `own` are the seconds by target for the run itself, `used` the targets it moved bytes on. `met` are
    seconds of work (data, metadata) of others that it meets in its usual time. Its I/O is in [first, last) `windows`.
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
        """Seconds that the run would wait less for (data, metadata) if others' work were `left` (..., target) seconds.

        If the busiest target seems to work longer than the run, targets can do more than was ever seen.
        `always_waits`: the run is known to have waited for its busiest target all the time, however little that did.
        """
        saved = []
        metadata = np.arange(len(self.own)) == len(self.own) - 1
        for used, most in ((self.used, MOST_DEGRADED if always_waits else 1.0), (metadata, 1.0)):
            whole = float(busiest_work(self.own + self.others.sum(axis=0), used))
            scale = min(most, self.seconds / whole) if whole > 0 else 1.0
            saved.append(np.asarray((whole - busiest_work(self.own + left, used)) * scale))
        return saved[0], saved[1]


def find_competing_jobs(records: Records, row: int, usual_seconds: float) -> CompetingJobs:
    """The jobs that competed with run `row` of the records, whose I/O usually takes `usual_seconds`."""
    mine = records.by_run.take(records.by_run.job == row)
    if not len(mine.job):
        raise DataUnavailable("the log has no I/O times")
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
    met = float(busiest_work(in_usual_time, used) - busiest_work(own, used)), float(in_usual_time[-1] - own[-1])
    busy = io_seconds / seconds
    amounts = {name: busy * values for name, values in amounts.items()}
    return CompetingJobs(records, windows, io_seconds, jobs, amounts, busy * others, own, used, met)


def find_suspects(run: CompetingJobs) -> tuple[Suspect, ...]:
    """The jobs for which targets worked during the I/O of the run."""
    records, others = run.records, run.others
    data, metadata = run.saved_seconds(others.sum(axis=0) - others)
    read, write, requests = (run.amounts[name] for name in ("read_bytes", "write_bytes", "requests"))
    moved, operations = (read + write)[:, run.used].sum(axis=1), requests.sum(axis=1)
    total = others.sum(axis=0) + run.own
    found = []
    for row in np.flatnonzero(others.sum(axis=1) > 0).tolist():
        job = int(run.jobs[row])
        order = np.argsort(-others[row, :-1], kind="stable")[:_MOST_TARGETS].tolist()
        found.append(
            Suspect(
                party=records.parties[job],
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
    return tuple(found)


# Slowed runs and their suspects.

# Maximum slowed runs of a period: those that lost most. [ours]
_MOST_SLOWED: Final = 400
# A longer period is not listed day by day.
_MOST_DAYS: Final = 4000


def read_slowed_runs(snapshot: Snapshot, filesystem: str, all_runs: Frame, period: Period) -> dict[int, Slowed]:
    """Read the runs on the file system that took longer than similar ones, and their suspects, by row of `all_runs`.

    The run that lost most comes first.
    """
    start, end = all_runs.ints("start_ns"), all_runs.ints("end_ns")
    here = find_placed(snapshot.facility, filesystem, all_runs)[0]
    rows = np.flatnonzero((start < period[1]) & (end > period[0]) & here)
    times = usual_times(all_runs, rows)
    slow = np.flatnonzero(times.slow)
    slow = slow[np.argsort((times.usual - times.seconds)[slow], kind="stable")[:_MOST_SLOWED]]
    found = read_suspects(snapshot, filesystem, all_runs, rows[slow], times.take(slow))
    return {row: found[row] for row in rows[slow].tolist() if row in found}


def read_slowed_run(snapshot: Snapshot, similar: SimilarRuns, filesystem: str) -> Slowed:
    """Read the suspects of the run that `similar` is about, whether it was slowed or not."""
    if not filesystem:
        raise DataUnavailable("no system data")
    run = similar.runs.take([0]).select(tuple(similar.all_runs))
    times = usual_times(concat([run, similar.all_runs]), np.zeros(1, np.int64))
    low, high = (int(run.ints(name)[0]) for name in ("start_ns", "end_ns"))
    days = days_around(snapshot, low, high, 3)
    others = read_runs(snapshot.whole, str(run.text("log_digest").tolist()[0]), days)
    rows, files = np.zeros(1, np.int64), similar.view.files.select(FILES)
    found = read_suspects(snapshot, filesystem, concat([run, others]), rows, times, files)
    if not found:
        raise DataUnavailable("the log has no I/O times")
    return found[0]


def read_suspects(
    snapshot: Snapshot, filesystem: str, runs: Frame, rows: Ints, times: UsualTimes, own_files: Frame | None = None
) -> dict[int, Slowed]:
    """Read the suspects of the runs in `rows`, by row of `runs`; runs without known I/O times are left out.

    `own_files` are those of run 0, if its log may be outside the lake.
    """
    found: dict[int, Slowed] = {}
    months = np.array([utc_day(start)[:7] for start in runs.ints("start_ns")[rows].tolist()], np.str_)
    sampled = any(g.filesystem == filesystem and g.metric in choices.TRAFFIC for g in snapshot.series())
    for month in np.unique(months):
        at = np.flatnonzero(months == month)
        start, end = runs.ints("start_ns")[rows[at]], runs.ints("end_ns")[rows[at]]
        windows = merge_windows(zip(start.tolist(), np.maximum(end, start + 1).tolist(), strict=True))
        # All runs of jobs at work then; without samples all logs say what targets can do.
        job = runs.ints("job_id")
        near = np.flatnonzero(np.isin(job, job[select_overlapping(runs, windows)])) if sampled else np.arange(runs.rows)
        chosen = runs.take(near)
        if own_files is None:
            files = read_files(snapshot.whole, chosen)
        else:
            files = concat([own_files, read_files(snapshot.whole, chosen.take(near > 0))])
        records = read_records(snapshot, filesystem, chosen, files, windows)
        for number, row in zip(at.tolist(), np.searchsorted(near, rows[at]).tolist(), strict=True):
            usual = times.amount(number)
            with suppress(DataUnavailable):
                competing = find_competing_jobs(records, row, np.inf if usual.value is None else usual.value)
                metadata = float(np.nan_to_num(chosen.floats("metadata_ratio")[row]))
                own_data = float(competing.own[:-1].max(initial=0.0)) / max(competing.seconds, 1e-9)
                data = 1.0 - metadata + min(metadata, _LONGEST_CLOSE * own_data)
                (met_data, met_metadata), took = competing.met, competing.seconds
                found[int(rows[number])] = Slowed(
                    party=records.parties[int(records.run_job[row])],
                    io_seconds=float(times.seconds[number]),
                    usual=usual,
                    own=None,
                    harm_seconds=float(times.harm[number]),
                    suspects=find_suspects(competing),
                    met_seconds=min(met_data, data * took) + min(met_metadata, metadata * took),
                    metadata_ratio=metadata,
                    data_ratio=data,
                    has_servers=records.has_servers,
                    start_ns=int(chosen.ints("start_ns")[row]),
                )
    return found


def days_around(snapshot: Snapshot, low: int, high: int, reach: int) -> set[str]:
    """Days with runs in [low, high] (ns) and `reach` days on either side."""
    known = set(snapshot.pinned["job_io"].days())
    begin, end = max(low - reach * DAY_NS, 0), high + reach * DAY_NS
    if end - begin > _MOST_DAYS * DAY_NS:
        return known
    return {utc_day(moment) for moment in (*range(begin, end, DAY_NS), end)} & known


def select_overlapping(runs: Frame, windows: Sequence[tuple[int, int]]) -> Bools:
    """Whether each run overlaps one of the windows, which are sorted and disjoint."""
    first, last = (np.array(edge, np.int64) for edge in zip(*windows, strict=True))
    following = np.searchsorted(last, runs.ints("start_ns"), side="right")
    return np.asarray(
        (following < len(last)) & (first[np.minimum(following, len(last) - 1)] < runs.ints("end_ns")), np.bool_
    )


# Activity of a period.


def known_ratio_around(snapshot: Snapshot, filesystem: str, start_ns: int, end_ns: int) -> float | None:
    """Share of the storage's traffic in the hours around a run that jobs' records explain.

    Bytes of logs are spread evenly over their time: in the minutes of a short run these would say little.
    """
    period = start_ns - HOUR_NS, end_ns + HOUR_NS
    inside = read_runs(snapshot.whole, "", days_around(snapshot, *period, 1))
    inside = inside.take(select_overlapping(inside, [period]) & find_placed(snapshot.facility, filesystem, inside)[0])
    _, known_ratio = read_volumes(snapshot, filesystem, period, inside)
    return known_ratio


def find_activity(snapshot: Snapshot, params: Params, period: Period) -> Activity:
    """Read who did what during the event or around the moment that the parameters name, else in the period."""
    filesystem = params["filesystem"]
    if params["job"] is not None:
        event = _event(snapshot, params["job"])
        start, end = event["start_ns"], event["end_ns"]
        period = start, max(_recorded_period(snapshot)[1] if end is None else end, start + 1)
        filesystem = filesystem or (snapshot.facility.filesystem_of(event["system"]) if event["system"] else None)
    elif params["at"] is not None:
        half = params["window"] // 2
        period = params["at"] - half, params["at"] + half
    is_last_hour = period == ALL_TIME
    if is_last_hour:
        # The last hour with jobs: samples of servers go on while no job runs.
        high = _recorded_period(snapshot, of_jobs=True)[1] + 1
        period = high - HOUR_NS, high
    return replace(read_activity(snapshot, filesystem, period), is_last_hour=is_last_hour)


def activity_since(snapshot: Snapshot, duration_ns: int) -> Activity:
    """Read who did what on the busiest file system in the last `duration_ns` of the lake."""
    _, newest = _recorded_period(snapshot)
    return read_activity(snapshot, None, (newest - duration_ns, newest))


def _event(snapshot: Snapshot, name: str) -> dict[str, Any]:
    """The event with this id, or the only one whose id begins with it."""
    events = [
        row
        for row in snapshot.frame("events", ("event_id", "system", "start_ns", "end_ns")).records()
        if str(row["event_id"]).startswith(name)
    ]
    exact = [row for row in events if row["event_id"] == name] or events
    if len(exact) != 1:
        how = "No event has the ID" if not exact else f"{len(exact)} events have IDs that begin with"
        raise UsageError(f"{how} {name!r}; it is not a job ID.", hint="List event IDs with `ioweather events --json`.")
    return exact[0]


def _recorded_period(snapshot: Snapshot, *, of_jobs: bool = False) -> Period:
    """First and last moment of samples, logs and counts of jobs; with `of_jobs` of jobs alone, if there are any."""
    times = list[tuple[int, int]]()
    for table, end in (("applications", "end_ns"), ("job_operations", "start_ns + interval_ns")):
        days = sorted(snapshot.pinned[table].days())
        near = {*days[:3], *days[-3:]}  # a year has many files
        if near:
            rows = snapshot.whole.rows(table, days=near)
            times += snapshot.bare.execute(
                f"SELECT min(start_ns), max({end}) FROM ({rows}) HAVING count(*) > 0"
            ).fetchall()
    if not (of_jobs and times):
        times += [(group.first_ns, group.end_ns) for group in snapshot.series()]
    if not times:
        raise DataUnavailable(
            "The lake has no samples, logs or job counters.", hint="Ingest some with `ioweather ingest`."
        )
    return min(first for first, _ in times), max(last for _, last in times)


def read_activity(snapshot: Snapshot, filesystem: str | None, period: Period) -> Activity:
    """Read who did what on a file system (default: the busiest) in a period, and whom it slowed."""
    oldest, newest = _recorded_period(snapshot)
    low, high = period = max(period[0], oldest), min(period[1], newest + 1)
    if high <= low:
        raise DataUnavailable(
            "The lake has no data in this period.", hint="`ioweather lake` lists the periods with data."
        )
    whole = snapshot.whole
    filesystem = filesystem or choices.busiest_filesystem(whole) or _filesystem_without_samples(whole)
    all_runs = read_runs(whole, "", days_around(whole, low, high, REACH_DAYS))
    here, unplaced = find_placed(whole.facility, filesystem, all_runs)
    here &= (all_runs.ints("start_ns") < high) & (all_runs.ints("end_ns") > low)
    inside = all_runs.take(here)
    volumes, known_ratio = read_volumes(snapshot, filesystem, period, inside)
    return Activity(
        filesystem=filesystem,
        start_ns=low,
        end_ns=high,
        slowed=tuple(read_slowed_runs(snapshot, filesystem, all_runs, (low, high)).values()),
        volumes=volumes,
        storms=tuple(find_storms(snapshot, filesystem, period, inside)),
        runs=inside.rows,
        unplaced=int((unplaced & here).sum()),
        known_ratio=known_ratio,
    )


def _filesystem_without_samples(snapshot: Snapshot) -> str:
    """File system without samples: of the servers that count jobs, or of the facility file."""
    if snapshot.filled(["job_operations"]):
        found = snapshot.bare.execute(f"SELECT mode(system) FROM ({snapshot.rows('job_operations')})").fetchall()[0][0]
        return snapshot.facility.filesystem_of(str(found))
    systems = snapshot.facility.filesystems
    return systems[0].name if systems else ""


# Without one job.

# Rounds of updating the runs that end sooner. [ours]
_ROUNDS: Final = 3


def estimate_without(snapshot: Snapshot, params: Params, period: Period) -> WithoutJob:
    """Estimate the other runs of the period (default: an hour around the job) without the job `without`."""
    job = params["without"]
    if job is None:
        raise UsageError("Specify the job to leave out: --without JOB.")
    whole = snapshot.whole
    mine = snapshot.frame("applications", ("job_id", "start_ns", "end_ns"), {"job_id": job})
    counted = snapshot.frame("job_operations", ("start_ns", "interval_ns"), {"job_id": job})
    starts = [*mine.ints("start_ns").tolist(), *counted.ints("start_ns").tolist()]
    ends = [*mine.ints("end_ns").tolist(), *(counted.ints("start_ns") + counted.ints("interval_ns")).tolist()]
    if not starts:
        raise DataUnavailable(f"The lake has no I/O from job {job}.")
    low, high = (min(starts) - HOUR_NS, max(ends) + HOUR_NS) if period == ALL_TIME else period
    filesystem = params["filesystem"] or choices.busiest_filesystem(whole)
    if filesystem is None:
        raise DataUnavailable("no system data")
    all_runs = read_runs(whole, "", days_around(whole, low, high, REACH_DAYS))
    is_inside = np.flatnonzero((all_runs.ints("start_ns") < high) & (all_runs.ints("end_ns") > low))
    inside = all_runs.take(is_inside)
    records = read_records(snapshot, filesystem, inside, read_files(whole, inside), [(low, high)])
    parties = records.parties
    number = next((i for i, party in enumerate(parties) if party.job_id == job), None)
    if number is None:
        raise DataUnavailable(f"The lake has no I/O from job {job} on {filesystem} in this period.")
    usual = usual_times(all_runs, is_inside).usual
    seconds = records.runs.floats("io_seconds")
    # With too few similar runs, it may have lost all but its own work.
    lost = np.where(np.isfinite(usual), np.maximum(0.0, seconds - usual), seconds)
    others = np.flatnonzero((seconds > 0) & (records.run_job != number))
    saved = _saved_seconds(records, others, usual, lost, number)
    # Runs that the job is named for gain what `who` states.
    blamed = {
        row: each
        for row, run in read_slowed_runs(snapshot, filesystem, all_runs, (low, high)).items()
        for each in blame(run)
        if each.suspect.party == parties[number] and each.probability >= NAMED_FROM
    }
    blames = [blamed.get(row) for row in is_inside[others].tolist()]
    gains, total = total_saved(lost[others], saved[others], blames, records.evidence[number])
    whose = (parties[job] for job in records.run_job[others].tolist())
    runs = tuple(zip(whose, seconds[others].tolist(), gains.tolist(), strict=True))
    return WithoutJob(parties[number], filesystem, low, high, total, runs)


def _saved_seconds(records: Records, others: Ints, usual: Floats, lost: Floats, job: int) -> Floats:
    """Seconds by run that `others` would wait less without the job.

    For metadata servers at most as long as the run used these. A run that took longer than usual waited for its
    targets, however little they did. A run that ends sooner competes less, so the gains of one round change the work
    that others meet in the next.
    """
    seconds, known = records.runs.floats("io_seconds"), np.isfinite(usual)
    in_metadata = np.nan_to_num(records.runs.floats("metadata_ratio") * seconds)
    competing: dict[int, CompetingJobs] = {}
    ends = np.full((len(seconds), 2), np.nan)
    for row in others.tolist():
        with suppress(DataUnavailable):
            run = find_competing_jobs(records, row, float(usual[row]) if known[row] else np.inf)
            competing[row], ends[row] = run, (run.windows[0][0], run.windows[1][-1])
    saved = np.zeros(len(seconds))
    for _ in range(_ROUNDS):
        left = 1.0 - np.clip(saved, 0.0, lost) / np.where(seconds > 0, seconds, 1.0)
        sooner = np.stack([ends[:, 0], ends[:, 0] + left * (ends[:, 1] - ends[:, 0])], axis=1)
        for row, run in competing.items():
            before, now = (
                job_overlaps(each, records.run_job, len(records.parties), row)[run.jobs] for each in (ends, sooner)
            )
            remaining = np.minimum(1.0, np.divide(now, before, out=np.ones(len(before)), where=before > 0))
            remaining[run.jobs == job] = 0.0
            data, metadata = run.saved_seconds(remaining @ run.others, always_waits=bool(known[row]))
            saved[row] = float(data) + float(np.clip(metadata, -in_metadata[row], in_metadata[row]))
    return saved


def job_overlaps(ends: Floats, run_job: Ints, jobs: int, row: int) -> Floats:
    """How much of each job overlaps with run `row`: number of the job's runs, by the share of their time in common.

    `ends` are (start, end) of each run, `run_job` the job of each.
    """
    first, last = np.nan_to_num(ends).T
    both = np.maximum(np.minimum(last, last[row]) - np.maximum(first, first[row]), 0.0)
    return np.bincount(run_job, weights=both / np.maximum(last - first, 1.0), minlength=jobs).astype(np.float64)
