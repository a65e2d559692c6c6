"""Reads the suspects of runs and the activity of a period from the lake, and masks other users.

The answer does not depend on the asker or on the period: similar runs are those of ten days before and after, capacity
of targets and slowness are those of the calendar month.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from ioweather.core import choices
from ioweather.core.arrays import Bools, Floats, Ints
from ioweather.core.clock import day_start_ns, utc_day
from ioweather.core.contracts import ALL_TIME, Params, Period
from ioweather.core.errors import DataUnavailable, SearchIncomplete, UsageError
from ioweather.core.frames import Frame
from ioweather.core.tables import concat
from ioweather.core.units import DAY_NS, HOUR_NS
from ioweather.diagnosis.blame import (
    NAMED_FROM,
    REACH_DAYS,
    Activity,
    Affected,
    Party,
    Slowed,
    Slowness,
    Supposed,
    UsualTimes,
    blame,
    fit_slowness,
    usual_times,
)
from ioweather.diagnosis.competing_jobs import CompetingJobs, find_competing_jobs, suspects_of
from ioweather.diagnosis.job_loads import merge_windows
from ioweather.diagnosis.job_records import (
    FILES,
    Records,
    find_storms,
    read_files,
    read_records,
    read_samples,
    read_volumes,
)
from ioweather.diagnosis.similar_runs import SimilarRuns, conditions, judged_on, runs_in, similar_runs
from ioweather.diagnosis.verdict import Explained
from ioweather.job_io.job_query import JOB_ID, find_job
from ioweather.job_io.view import JobView
from ioweather.lake.caches import LakeRecords
from ioweather.lake.lake import Lake
from ioweather.lake.snapshot import Snapshot, own_uids
from ioweather.topics.source import DataSource

# Above this many samples, the unrecorded work on targets is not read. [ours]
MOST_SAMPLES: Final = 3_000_000
# Maximum slowed runs of a period: those that lost most. [ours]
_MOST_SLOWED: Final = 400
# Maximum runs of a month that `Slowness` is fitted to. It is fitted again when the month has `_GROWN` times the runs.
# [ours]
_MOST_COMPARED: Final = 200
_MOST_CANDIDATES: Final = 10 * _MOST_COMPARED
_GROWN: Final = 1.5
# A longer period is not listed day by day.
_MOST_DAYS: Final = 4000


# Visibility: every answer is made from all rows; names of other users are masked.


def hide(parties: Sequence[Party], snapshot: Snapshot) -> tuple[Party, ...]:
    """Mask the parties of other users: only that there is another job."""
    owner = snapshot.owner
    if owner is None:
        return tuple(parties)
    own = own_uids(snapshot.bare)
    return tuple(
        party
        if party.user == owner.user or (party.user is None and party.uid in own)
        else Party(f"hidden {number}", hidden=True)
        for number, party in enumerate(parties)
    )


# Slowed runs and their suspects.


def slowed_runs(snapshot: Snapshot, filesystem: str, all_runs: Frame, period: Period) -> dict[int, Slowed]:
    """Runs of the period that took longer than similar ones, with their suspects, by row of `all_runs`.

    The run that lost most comes first.
    """
    start, end = all_runs.ints("start_ns"), all_runs.ints("end_ns")
    rows = np.flatnonzero((start < period[1]) & (end > period[0]))
    times = usual_times(all_runs, rows)
    slow = np.flatnonzero(times.slow)
    slow = slow[np.argsort((times.usual - times.seconds)[slow], kind="stable")[:_MOST_SLOWED]]
    found = find_suspects(snapshot, filesystem, all_runs, rows[slow], times.take(slow))
    return {row: found[row] for row in rows[slow].tolist() if row in found}


def find_suspects(
    snapshot: Snapshot, filesystem: str, runs: Frame, rows: Ints, times: UsualTimes, *, here: Slowness | None = None
) -> dict[int, Slowed]:
    """The runs in `rows` with their suspects among all `runs`; runs without known I/O times are left out."""
    found: dict[int, Slowed] = {}
    months = [utc_day(start)[:7] for start in runs.ints("start_ns")[rows].tolist()]
    sampled = any(g.filesystem == filesystem and g.metric in choices.TRAFFIC for g in snapshot.series())
    for month in sorted(set(months)):
        at = np.array([index for index, each in enumerate(months) if each == month], np.int64)
        asked = rows[at]
        start, end = runs.ints("start_ns")[asked], runs.ints("end_ns")[asked]
        windows = merge_windows(zip(start.tolist(), np.maximum(end, start + 1).tolist(), strict=True))
        # Without samples all logs say what targets can do.
        near = np.flatnonzero(_relevant_runs(snapshot, runs, windows)) if sampled else np.arange(runs.rows)
        chosen = runs.take(near)
        files = read_files(snapshot.whole, chosen)
        slowed = _slowed_of_month(
            snapshot, filesystem, chosen, files, windows, np.searchsorted(near, asked), times.take(at), here
        )
        found |= {int(asked[number]): each for number, each in slowed.items()}
    return found


def _slowed_of_month(
    snapshot: Snapshot,
    filesystem: str,
    runs: Frame,
    files: Frame,
    windows: Sequence[tuple[int, int]],
    rows: Ints,
    times: UsualTimes,
    here: Slowness | None = None,
    most_samples: int | None = MOST_SAMPLES,
) -> dict[int, Slowed]:
    """The runs in `rows` of one month with their suspects, by index in `rows`."""
    whole = snapshot.whole
    records = read_records(whole, filesystem, runs, files, windows)
    parties = hide(records.parties, snapshot)
    samples = read_samples(whole, records, rows, most_rows=most_samples)
    here = slowness_about(whole, filesystem, windows[0][0]) if here is None else here
    start, metadata = runs.ints("start_ns"), np.nan_to_num(runs.floats("metadata_ratio"))
    found = {}
    for number, row in enumerate(rows.tolist()):
        usual = times.amount(number)
        with suppress(DataUnavailable):
            beside = find_competing_jobs(records, row, samples, np.inf if usual.value is None else usual.value)
            found[number] = Slowed(
                party=parties[int(records.run_job[row])],
                io_seconds=float(times.seconds[number]),
                usual=usual,
                own=None,
                harm_seconds=float(times.harm[number]),
                suspects=suspects_of(beside, parties, float(metadata[row])),
                start_ns=int(start[row]),
                here=here,
            )
    return found


def slowed_run(snapshot: Snapshot, similar: SimilarRuns, filesystem: str) -> Slowed:
    """The run of `similar` with its suspects."""
    if not filesystem:
        raise DataUnavailable("no system data")
    whole = snapshot.whole
    run = similar.runs.take([0]).select(tuple(similar.all_runs))
    times = usual_times(concat([run, similar.all_runs]), np.zeros(1, np.int64))
    low, high = (int(run.ints(name)[0]) for name in ("start_ns", "end_ns"))
    window = [(low, max(high, low + 1))]
    others = runs_in(whole, str(run.text("log_digest").tolist()[0]), days_about(whole, low, high, 3))
    others = others.take(_relevant_runs(whole, others, window))
    files = concat([similar.view.files.select(FILES), read_files(whole, others)])
    rows = np.zeros(1, np.int64)
    found = _slowed_of_month(snapshot, filesystem, concat([run, others]), files, window, rows, times, most_samples=None)
    if not found:
        raise DataUnavailable("the log does not say when it did I/O")
    return found[0]


# How far work explains slowness, by month: fitted when rows arrive, and stored among the lake's records.


def slowness_about(snapshot: Snapshot, filesystem: str, moment_ns: int) -> Slowness:
    """The slowness of the month of that time."""
    month = utc_day(moment_ns)[:7]
    record = _read_record(snapshot, filesystem, month) or _compare_runs(snapshot, filesystem, month)
    return fit_slowness(record["work"], record["slow"])


def learn_slowness(lake: Lake, since_ns: int, most_seconds: float = math.inf) -> None:
    """Compare the runs of months that have new rows, if they have grown by half since they were last compared.

    Only of the facility's file systems and the busiest: if none is described, each disk counts as a file system, and a
    question about it compares its runs then.
    """
    end = time.monotonic() + most_seconds
    with lake.snapshot() as snapshot:
        sampled = {group.filesystem for group in snapshot.series() if group.metric in choices.TRAFFIC}
        sampled &= {each.name for each in snapshot.facility.filesystems} | {choices.busiest_filesystem(snapshot)}
        days = snapshot.pinned["job_io"].days()
        for month in sorted({day[:7] for day in days if day[:7] >= utc_day(max(since_ns, 0))[:7]}):
            rows = snapshot.rows("job_io", days={day for day in days if day[:7] == month})
            ((count,),) = snapshot.bare.execute(f"SELECT count(*) FROM ({rows})").fetchall()
            for filesystem in sorted(sampled):
                if time.monotonic() > end:
                    raise SearchIncomplete(f"stopped after {most_seconds:.0f} s: months from {month} on are missing")
                record = _read_record(snapshot, filesystem, month)
                if record is None or count > _GROWN * int(record["runs"]):
                    _compare_runs(snapshot, filesystem, month)


def _read_record(snapshot: Snapshot, filesystem: str, month: str) -> Mapping[str, Any] | None:
    names = ("work", "slow", "runs")
    return LakeRecords(snapshot.root).get(
        *_record_key(snapshot, filesystem, month), lambda stored: {name: stored[name] for name in names}
    )


def _record_key(snapshot: Snapshot, filesystem: str, month: str) -> tuple[str, str]:
    name = hashlib.sha256(filesystem.encode()).hexdigest()[:12]
    return f"slowness-{month}-{name}", "servers" if snapshot.pinned["job_operations"].uris else "logs"


def _compare_runs(snapshot: Snapshot, filesystem: str, month: str) -> Mapping[str, Any]:
    """Store and return the work that runs of the month met and whether they were slow.

    Runs are spread evenly over the month. Runs on an unhealthy target are left out, since they were slow for a reason.
    """
    inside = [day_start_ns(day) for day in snapshot.pinned["job_io"].days() if day[:7] == month] or [0]
    all_runs = runs_in(snapshot, "", days_about(snapshot, min(inside), max(inside), REACH_DAYS))
    rows = np.flatnonzero([utc_day(start)[:7] == month for start in all_runs.ints("start_ns").tolist()])
    count = len(rows)
    rows = _spread_evenly(rows, _MOST_CANDIDATES)
    times = usual_times(all_runs, rows)
    known = _spread_evenly(np.flatnonzero(np.isfinite(times.usual)), _MOST_COMPARED)
    found = find_suspects(snapshot, filesystem, all_runs, rows[known], times.take(known), here=Slowness())
    compared = [run for run in found.values() if not run.suspects.on_sick]
    record = {
        "work": np.array([run.met_work for run in compared], np.float64),
        "slow": np.array([run.is_slow for run in compared], np.bool_),
        "runs": np.array(count),
    }
    LakeRecords(snapshot.root).put(*_record_key(snapshot, filesystem, month), record)
    return record


def _spread_evenly(rows: Ints, most: int) -> Ints:
    return rows[np.unique(np.linspace(0, len(rows) - 1, min(len(rows), most)).astype(np.int64))]


def days_about(snapshot: Snapshot, low: int, high: int, reach: int) -> set[str]:
    """Days with runs in [low, high] and `reach` days on either side."""
    known = set(snapshot.pinned["job_io"].days())
    begin, end = max(low - reach * DAY_NS, 0), high + reach * DAY_NS
    if end - begin > _MOST_DAYS * DAY_NS:
        return known
    return {utc_day(moment) for moment in (*range(begin, end, DAY_NS), end)} & known


def _relevant_runs(snapshot: Snapshot, runs: Frame, windows: Sequence[tuple[int, int]]) -> Bools:
    """All runs of jobs at work in the windows.

    If no server counted jobs, also of the jobs at the same time as these: samples of targets show when each job was at
    work only if all others are known.
    """
    if not snapshot.pinned["job_operations"].uris:
        start, end = runs.ints("start_ns"), runs.ints("end_ns")
        beside = [touching(runs, [window]) for window in windows]
        spans = ((int(start[each].min()), int(end[each].max())) for each in beside if each.any())
        windows = merge_windows(spans) or windows
    job = runs.ints("job_id")
    return np.asarray(np.isin(job, job[touching(runs, windows)]))


def touching(runs: Frame, windows: Sequence[tuple[int, int]]) -> Bools:
    """Runs that overlap one of the windows, which are sorted and disjoint."""
    first, last = (np.array(edge, np.int64) for edge in zip(*windows, strict=True))
    following = np.searchsorted(last, runs.ints("start_ns"), side="right")
    return np.asarray(
        (following < len(last)) & (first[np.minimum(following, len(last) - 1)] < runs.ints("end_ns")), np.bool_
    )


# Activity of a run, an event, a moment or a period.


@dataclass(frozen=True, eq=False)
class RunAsked:
    """One run; `found` and `run` are None where the lake does not say, and `lacking` tells why."""

    view: JobView
    found: Explained | None
    run: Slowed | None
    lacking: str = ""


def activity(source: DataSource, params: Params) -> Activity | RunAsked | Supposed:
    """Who did what, of the run, event, moment or period that the parameters name."""
    snapshot, period = source.snapshot, source.period_ns
    if params.get("without") is not None or "job" not in params:
        return suppose_without(snapshot, params, period)
    target = params["job"]
    if target is not None and ((source.reads_files and Path(target).is_file()) or JOB_ID.fullmatch(target)):
        return _of_run(source, params)
    filesystem = params["filesystem"]
    if target is not None:
        event = _event(snapshot, target)
        start, end = event["start_ns"], event["end_ns"]
        period = start, max(_newest(snapshot) if end is None else end, start + 1)
        filesystem = filesystem or (snapshot.facility.filesystem_of(event["system"]) if event["system"] else None)
    elif params["at"] is not None:
        half = params["window"] // 2
        period = params["at"] - half, params["at"] + half
    low, high = period
    if period == ALL_TIME:
        # The last hour with jobs: samples of servers go on while no job runs.
        high = max(_ends_of_jobs(snapshot), default=_newest(snapshot)) + 1
        low = high - HOUR_NS
    return replace(of_period(snapshot, filesystem, (low, high)), is_last_hour=period == ALL_TIME)


def activity_since(snapshot: Snapshot, duration_ns: int) -> Activity:
    """On the busiest file system, so long before the newest."""
    newest = _newest(snapshot)
    return of_period(snapshot, None, (newest - duration_ns, newest))


def _event(snapshot: Snapshot, name: str) -> dict[str, Any]:
    """By its id, or a beginning of it that only one has."""
    events = [
        row
        for row in snapshot.frame("events", ("event_id", "system", "start_ns", "end_ns")).records()
        if str(row["event_id"]).startswith(name)
    ]
    exact = [row for row in events if row["event_id"] == name] or events
    if len(exact) != 1:
        how = "There is no event" if not exact else f"{len(exact)} events have ids that begin with"
        raise UsageError(f"{how} {name!r}, and it is not a job id.", hint="`ioweather events --json` lists their ids.")
    return exact[0]


def _newest(snapshot: Snapshot) -> int:
    ends = [*(group.end_ns for group in snapshot.series()), *_ends_of_jobs(snapshot)]
    if not ends:
        raise DataUnavailable("The lake has no samples, logs or counts of jobs.", hint="`ioweather ingest` reads them.")
    return max(ends)


def _ends_of_jobs(snapshot: Snapshot) -> list[int]:
    operations = _extremes(snapshot, "max(start_ns + interval_ns)", "job_operations")
    return _extremes(snapshot, "max(end_ns)", "applications") + operations


def _oldest(snapshot: Snapshot) -> int:
    starts = [group.first_ns for group in snapshot.series()]
    starts += _extremes(snapshot, "min(start_ns)", "applications") + _extremes(
        snapshot, "min(start_ns)", "job_operations"
    )
    return min(starts, default=0)


def _extremes(snapshot: Snapshot, what: str, table: str) -> list[int]:
    """Extreme of a column, from the newest or oldest days only: a year has many files."""
    days = sorted(snapshot.pinned[table].days())
    near = {*days[:3]} if what.startswith("min") else {*days[-3:]}
    if not near:
        return []
    ((found,),) = snapshot.bare.execute(f"SELECT {what} FROM ({snapshot.whole.rows(table, days=near)})").fetchall()
    return [] if found is None else [int(found)]


def _of_run(source: DataSource, params: Params) -> RunAsked:
    snapshot = source.snapshot
    view = find_job(source, params, params["job"])
    found: Explained | None = None
    run: Slowed | None = None
    reason = ""
    try:
        rows = judged_on(snapshot, view)
        similar = similar_runs(view, rows)
        found = conditions(similar, rows, filesystem=params["filesystem"])
        run = slowed_run(snapshot, similar, found.filesystem)
    except DataUnavailable as error:
        reason = error.message
    return RunAsked(view, found, run, reason)


def of_period(snapshot: Snapshot, filesystem: str | None, period: Period) -> Activity:
    """Who did what on a file system (default: the busiest) in a period, and whom it slowed."""
    sampled_from = min((group.first_ns for group in snapshot.series()), default=None)
    if sampled_from is None or period[0] < sampled_from:  # other tables may begin earlier
        period = max(period[0], _oldest(snapshot)), period[1]
    low, high = period = period[0], min(period[1], _newest(snapshot) + 1)
    if high <= low:
        raise DataUnavailable("The lake has no records in this period.", hint="`ioweather lake` shows what there is.")
    whole = snapshot.whole
    filesystem = filesystem or choices.busiest_filesystem(whole) or _only_system(whole)
    all_runs = runs_in(whole, "", days_about(whole, low, high, REACH_DAYS))
    inside = all_runs.take((all_runs.ints("start_ns") < high) & (all_runs.ints("end_ns") > low))
    volumes, known_ratio = read_volumes(whole, filesystem, period, inside)
    storms = find_storms(whole, filesystem, period, inside)
    parties = hide([volume.party for volume in volumes], snapshot)
    storm_parties = hide([storm.party for storm in storms], snapshot)
    return Activity(
        filesystem=filesystem,
        start_ns=low,
        end_ns=high,
        slowed=tuple(slowed_runs(snapshot, filesystem, all_runs, (low, high)).values()),
        volumes=tuple(replace(volume, party=party) for party, volume in zip(parties, volumes, strict=True)),
        storms=tuple(replace(storm, party=party) for party, storm in zip(storm_parties, storms, strict=True)),
        runs=inside.rows,
        known_ratio=known_ratio,
    )


def _only_system(snapshot: Snapshot) -> str:
    """File system without samples: of the servers that count jobs, or of the facility file."""
    if snapshot.filled(["job_operations"]):
        found = snapshot.bare.execute(f"SELECT mode(system) FROM ({snapshot.rows('job_operations')})").fetchall()[0][0]
        return snapshot.facility.filesystem_of(str(found))
    systems = snapshot.facility.filesystems
    return systems[0].name if systems else ""


# Without one job.

# Rounds of updating the runs that end sooner. [ours]
_ROUNDS: Final = 3


def suppose_without(snapshot: Snapshot, params: Params, period: Period) -> Supposed:
    """The other runs of the period (default: an hour around the job) as they would be without the job `without`."""
    job = params["without"]
    if job is None:
        raise UsageError("Say which job: --without JOB.")
    whole = snapshot.whole
    mine = snapshot.frame("applications", ("job_id", "start_ns", "end_ns"), {"job_id": job})
    counted = snapshot.frame("job_operations", ("start_ns", "interval_ns"), {"job_id": job})
    starts = [*mine.ints("start_ns").tolist(), *counted.ints("start_ns").tolist()]
    ends = [*mine.ints("end_ns").tolist(), *(counted.ints("start_ns") + counted.ints("interval_ns")).tolist()]
    if not starts:
        raise DataUnavailable(f"The lake shows no I/O of job {job}.")
    low, high = (min(starts) - HOUR_NS, max(ends) + HOUR_NS) if period == ALL_TIME else period
    filesystem = params["filesystem"] or choices.busiest_filesystem(whole)
    if filesystem is None:
        raise DataUnavailable("no system data")
    all_runs = runs_in(whole, "", days_about(whole, low, high, REACH_DAYS))
    is_inside = np.flatnonzero((all_runs.ints("start_ns") < high) & (all_runs.ints("end_ns") > low))
    inside = all_runs.take(is_inside)
    records = read_records(whole, filesystem, inside, read_files(whole, inside), [(low, high)])
    number = next((i for i, party in enumerate(records.parties) if party.job_id == job), None)
    parties = hide(records.parties, snapshot)
    if number is None or parties[number].hidden:
        raise DataUnavailable(f"The lake shows no I/O of job {job} on {filesystem} in this period.")
    usual = usual_times(all_runs, is_inside).usual
    seconds = records.runs.floats("io_seconds")
    # With too few similar runs, it may have lost all but its own work.
    lost = np.where(np.isfinite(usual), np.maximum(0.0, seconds - usual), seconds)
    others = np.flatnonzero((seconds > 0) & (records.run_job != number))
    saved = _saved_seconds(whole, records, others, usual, lost, number)
    # Runs that the job is named for gain what `who` states.
    blamed = {
        row: each
        for row, run in slowed_runs(snapshot, filesystem, all_runs, (low, high)).items()
        for each in blame(run)
        if each.suspect.party == parties[number] and each.probability >= NAMED_FROM
    }
    runs = [
        Affected(
            party=parties[int(records.run_job[row])],
            io_seconds=float(seconds[row]),
            lost_seconds=float(lost[row]),
            saved_seconds=float(saved[row]),
            blamed=blamed.get(int(is_inside[row])),
        )
        for row in others.tolist()
    ]
    return Supposed(parties[number], records.evidence[number], filesystem, low, high, tuple(runs))


def _saved_seconds(snapshot: Snapshot, records: Records, others: Ints, usual: Floats, lost: Floats, job: int) -> Floats:
    """Seconds by run that `others` would wait less without the job.

    For metadata servers at most as long as the run used these. A run that took longer than usual waited for its
    targets, however little they did. A run that ends sooner competes less, so the gains of one round change the work
    that others meet in the next.
    """
    samples = read_samples(snapshot, records, others, most_rows=MOST_SAMPLES)
    seconds, known = records.runs.floats("io_seconds"), np.isfinite(usual)
    in_metadata = np.nan_to_num(records.runs.floats("metadata_ratio") * seconds)
    competing: dict[int, CompetingJobs] = {}
    for row in others.tolist():
        with suppress(DataUnavailable):
            usual_seconds = float(usual[row]) if known[row] else np.inf
            competing[row] = find_competing_jobs(records, row, samples, usual_seconds)
    ends = np.full((len(seconds), 2), np.nan)
    for row, run in competing.items():
        ends[row] = run.pieces.first_ns.min(), run.pieces.last_ns.max()
    saved = np.zeros(len(seconds))
    for _ in range(_ROUNDS):
        left = 1.0 - np.clip(saved, 0.0, lost) / np.where(seconds > 0, seconds, 1.0)
        sooner = np.stack([ends[:, 0], ends[:, 0] + left * (ends[:, 1] - ends[:, 0])], axis=1)
        for row, run in competing.items():
            before, now = (
                met_jobs(each, records.run_job, len(records.parties), row)[run.jobs] for each in (ends, sooner)
            )
            remaining = np.minimum(1.0, np.divide(now, before, out=np.ones(len(before)), where=before > 0))
            data, metadata = run.saved_seconds(job, remaining, always_waits=bool(known[row]))
            saved[row] = data + float(np.clip(metadata, -in_metadata[row], in_metadata[row]))
    return saved


def met_jobs(ends: Floats, run_job: Ints, jobs: int, row: int) -> Floats:
    """How much of each job one run meets: number of the job's runs, by the share of their time in common with it."""
    first, last = np.nan_to_num(ends).T
    both = np.maximum(np.minimum(last, last[row]) - np.maximum(first, first[row]), 0.0)
    return np.bincount(run_job, weights=both / np.maximum(last - first, 1.0), minlength=jobs).astype(np.float64)
