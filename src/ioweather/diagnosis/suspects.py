"""Who did what beside a run or in a period, and whom it slowed.

All of the lake is looked at, whoever asks: what is shown of others' jobs to a person who may not see them is that there
was another job.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from ioweather.core import choices
from ioweather.core.contracts import ALL_TIME, Params, Period
from ioweather.core.errors import DataUnavailable, UsageError
from ioweather.core.units import HOUR_NS
from ioweather.diagnosis.blame import Slowed
from ioweather.diagnosis.job_activity_in_period import Activity, RunAsked
from ioweather.diagnosis.job_records import storms_between, volumes_between
from ioweather.diagnosis.masking import hide, judged_on
from ioweather.diagnosis.similar_runs import conditions, runs_in, similar_runs
from ioweather.diagnosis.slowed_runs import REACH_DAYS, active, days_about, slowed_run, slowed_runs
from ioweather.diagnosis.verdict_wording import Explained
from ioweather.diagnosis.without_job import Supposed
from ioweather.diagnosis.without_job_query import supposed
from ioweather.job_io.job_source import JOB_ID, find_job
from ioweather.lake.snapshot import Snapshot
from ioweather.topics.source import DataSource

# What is asked: a run, an event, a moment, a period.


def activity(source: DataSource, params: Params) -> Activity | RunAsked | Supposed:
    """Who did what, of the run, event, moment or period that the parameters name."""
    snapshot, period = source.snapshot, source.period_ns
    if params.get("without") is not None or "job" not in params:
        return supposed(snapshot, params, period)
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
        # Servers' samples may go on while nobody works: of such an hour there is nothing to say.
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
    """Of the table's newest or oldest days, for a year has many files."""
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
    if sampled_from is None or period[0] < sampled_from:  # else the lake has something older
        period = max(period[0], _oldest(snapshot)), period[1]
    low, high = period = period[0], min(period[1], _newest(snapshot) + 1)
    if high <= low:
        raise DataUnavailable("The lake has no records in this period.", hint="`ioweather lake` shows what there is.")
    whole = snapshot.whole
    filesystem = filesystem or choices.busiest_filesystem(whole) or _only_system(whole)
    everybody = runs_in(whole, "", days_about(whole, low, high, REACH_DAYS))
    inside = active(everybody, low, high)
    found = tuple(slowed_runs(snapshot, filesystem, everybody, (low, high)).values())
    volumes, known = volumes_between(whole, filesystem, period, inside)
    hidden = hide([volume.party for volume in volumes], snapshot)
    shown = tuple(replace(volume, party=party) for party, volume in zip(hidden, volumes, strict=True))
    storms = storms_between(whole, filesystem, period, inside)
    storming = hide([storm.party for storm in storms], snapshot)
    storms = tuple(replace(storm, party=party) for party, storm in zip(storming, storms, strict=True))
    return Activity(filesystem, low, high, found, shown, storms, inside.rows, known)


def _only_system(snapshot: Snapshot) -> str:
    """Without samples: the file system whose servers count jobs, or that logs name."""
    if snapshot.filled(["job_operations"]):
        found = snapshot.bare.execute(f"SELECT mode(system) FROM ({snapshot.rows('job_operations')})").fetchall()[0][0]
        return snapshot.facility.filesystem_of(str(found))
    systems = snapshot.facility.filesystems
    return systems[0].name if systems else ""
