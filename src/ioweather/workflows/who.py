"""The jobs beside a run, and who did what in a period: the needs `suspects` and `activity`.

All of the lake is looked at, whoever asks: what is shown of others' jobs to a person who may not see them is that there
was another job.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from ioweather.advice.culprits.activity import Activity, RunAsked
from ioweather.advice.culprits.blame import Party, Slowed, Suspects, attributable_share
from ioweather.advice.verdict.explain import Explained
from ioweather.advice.verdict.group_states import run_slowdowns
from ioweather.advice.verdict.posterior import HARM_MADS, HARM_SHARE
from ioweather.core.arrays import Bools, Floats
from ioweather.core.clock import utc_day
from ioweather.core.contracts import ALL_TIME, Period
from ioweather.core.errors import DataUnavailable, UsageError
from ioweather.core.frames import Frame
from ioweather.core.run_outcomes import Amount
from ioweather.core.units import DAY_NS, HOUR_NS
from ioweather.derive.jobs.groups import group_runs
from ioweather.store.snapshot import Snapshot
from ioweather.studies.job.view import JobView
from ioweather.studies.shared import choices
from ioweather.tables import concat
from ioweather.workflows.beside import run_beside, suspects_of
from ioweather.workflows.hiding import hide, judged_on
from ioweather.workflows.job import JOB_ID, find_job
from ioweather.workflows.job_records import (
    FILES,
    Measured,
    Records,
    files_of,
    measured_work,
    records_of,
    storms_between,
    volumes_between,
)
from ioweather.workflows.place import Place
from ioweather.workflows.similar_runs import conditions, runs_in, similar_runs

# Similar runs are looked for so many days before and after.
_REACH_DAYS: Final = 10
# Of more slowed runs than these, those that lost most. [ours]
_MOST_SLOWED: Final = 400
# Where a period has more samples than these, what targets did beyond all records is not looked up. [ours]
MOST_SAMPLES: Final = 3_000_000
# With so many runs that were not slow they are compared. [ours]
_MOST_COMPARED: Final = 100
_TIMES: Final = ("io_seconds", "usual", "spread", "harm")
_MAD_TO_SD: Final = 1.4826
# With fewer similar runs nothing is usual.
_LEAST_SIMILAR: Final = 4
_CHANCE_SPREAD: Final = 0.4
_TO_90: Final = 1.645


def suspects_beside(snapshot: Snapshot, view: JobView, found: Explained) -> Suspects:
    """The jobs beside the run that `found` explains."""
    if not found.filesystem:
        raise DataUnavailable("no system data")
    run = found.runs.take([found.this])
    whole = snapshot.whole
    low, high = (int(run.ints(name)[0]) for name in ("start_ns", "end_ns"))
    others = active(runs_in(whole, str(run.text("log_digest").tolist()[0]), days_about(whole, low, high, 3)), low, high)
    runs = concat([run.select(tuple(others)), others])
    files = concat([view.files.select(FILES), files_of(whole, others)])
    records = records_of(whole, found.filesystem, runs, files, [(low, max(high, low + 1))])
    measured = measured_work(whole, records, np.zeros(1, np.int64))
    similar = np.delete(found.runs.floats("io_seconds"), found.this)
    usual = float(np.nanmedian(similar)) if np.isfinite(similar).any() else np.inf
    return _suspects(records, hide(records.parties, snapshot), 0, measured.get(0), usual)


def _suspects(
    records: Records, parties: Sequence[Party], row: int, measured: Measured | None, usual: float
) -> Suspects:
    ratio = float(np.nan_to_num(records.runs.floats("metadata_ratio")[row]))
    return suspects_of(run_beside(records, row, measured, usual), parties, ratio)


def days_about(snapshot: Snapshot, low: int, high: int, reach: int) -> set[str]:
    known = set(snapshot.pinned["job_io"].days())
    begin, end = max(low - reach * DAY_NS, 0), high + reach * DAY_NS
    if end - begin > 4000 * DAY_NS:
        return known
    return {utc_day(moment) for moment in (*range(begin, end, DAY_NS), end)} & known


def active(runs: Frame, low: int, high: int) -> Frame:
    return runs.take((runs.ints("start_ns") < high) & (runs.ints("end_ns") > low))


# What is asked: a run, an event, a moment, a period.


def activity(place: Place, values: Mapping[str, Any], period: Period, files: bool) -> Activity | RunAsked:
    target = values["job"]
    snapshot = place.snapshot
    if target is not None and ((files and Path(target).is_file()) or JOB_ID.fullmatch(target)):
        return _of_run(place, values, period, files)
    filesystem = values["filesystem"]
    if target is not None:
        event = _event(snapshot, target)
        start, end = event["start_ns"], event["end_ns"]
        period = start, max(_newest(snapshot) if end is None else end, start + 1)
        filesystem = filesystem or (snapshot.facility.filesystem_of(event["system"]) if event["system"] else None)
    elif values["at"] is not None:
        half = values["window"] // 2
        period = values["at"] - half, values["at"] + half
    low, high = period
    if period == ALL_TIME:
        # Servers' samples may go on while nobody works: of such an hour there is nothing to say.
        high = max(_ends_of_jobs(snapshot), default=_newest(snapshot)) + 1
        low = high - HOUR_NS
    return of_period(snapshot, filesystem, (low, high))


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
    ((found,),) = snapshot.bare.sql(f"SELECT {what} FROM ({snapshot.whole.rows(table, days=near)})").fetchall()
    return [] if found is None else [int(found)]


def _of_run(place: Place, values: Mapping[str, Any], period: Period, files: bool) -> RunAsked:
    snapshot = place.snapshot
    view = find_job(values["job"], place, values, period, files)
    found: Explained | None = None
    suspects: Suspects | None = None
    reason = ""
    try:
        rows = judged_on(snapshot, view)
        found = conditions(similar_runs(view, rows), rows, filesystem=values["filesystem"])
        suspects = suspects_beside(snapshot, view, found)
    except DataUnavailable as error:
        reason = error.message
    return RunAsked(view, found, suspects, reason)


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
    everybody = runs_in(whole, "", days_about(whole, low, high, _REACH_DAYS))
    inside = active(everybody, low, high)
    found = _slowed_runs(snapshot, filesystem, everybody, (low, high))
    volumes, known = volumes_between(whole, filesystem, period, inside)
    hidden = hide([volume.party for volume in volumes], snapshot)
    shown = tuple(replace(volume, party=party) for party, volume in zip(hidden, volumes, strict=True))
    storms = storms_between(whole, filesystem, period, inside)
    storming = hide([storm.party for storm in storms], snapshot)
    storms = tuple(replace(storm, party=party) for party, storm in zip(storming, storms, strict=True))
    return Activity(filesystem, low, high, found, shown, storms, inside.rows, known)


def _slowed_runs(snapshot: Snapshot, filesystem: str, everybody: Frame, period: Period) -> tuple[Slowed, ...]:
    """Runs of the period that took longer than similar ones, with the jobs beside them. How often others met as much
    work at the same time, and were not slow, says how far work explains slowness at all."""
    times, whole = _beside_usual(everybody), snapshot.whole
    late = times["io_seconds"] - times["usual"]
    start, end = everybody.ints("start_ns"), everybody.ints("end_ns")
    with np.errstate(invalid="ignore"):
        slow = np.flatnonzero((start < period[1]) & (end > period[0]) & (late >= times["harm"]))
    slow = slow[np.argsort(-late[slow], kind="stable")[:_MOST_SLOWED]]
    if not len(slow):
        return ()
    windows = _united([(int(start[row]), max(int(end[row]), int(start[row]) + 1)) for row in slow.tolist()])
    others = np.flatnonzero(np.isfinite(late) & (late < times["harm"]) & _within(everybody, windows))
    others = others[np.unique(np.linspace(0, len(others) - 1, min(len(others), _MOST_COMPARED)).astype(np.int64))]
    runs = active(everybody, windows[0][0], windows[-1][1])
    if any(group.filesystem == filesystem and group.metric in choices.TRAFFIC for group in whole.series()):
        runs = runs.take(_touching(runs, windows))  # without samples all logs say what targets can do
    place = {digest: row for row, digest in enumerate(runs.text("log_digest").tolist())}
    records = records_of(whole, filesystem, runs, files_of(whole, runs), windows)
    parties = hide(records.parties, snapshot)
    digests = everybody.text("log_digest").tolist()
    asked = {row: place[digests[row]] for row in (*slow.tolist(), *others.tolist())}
    measured = measured_work(whole, records, np.array(list(asked.values()), np.int64), most_rows=MOST_SAMPLES)
    found: dict[int, Slowed] = {}
    for row, at in asked.items():
        seconds, usual, spread, harm = (float(times[name][row]) for name in _TIMES)
        usually = Amount(usual, usual * float(np.exp(-_TO_90 * spread)), usual * float(np.exp(_TO_90 * spread)))
        with suppress(DataUnavailable):
            suspects = _suspects(records, parties, at, measured.get(at), usual)
            party = parties[int(records.run_job[at])]
            found[row] = Slowed(party, seconds, usually, None, harm, suspects, int(start[row]))
    slowed = [found[row] for row in slow.tolist() if row in found]
    calm = [found[row].met_work for row in others.tolist() if row in found]
    share = attributable_share([each.met_work for each in slowed], calm)
    return tuple(replace(each, attributable=share) for each in slowed)


def _only_system(snapshot: Snapshot) -> str:
    """Without samples: the file system whose servers count jobs, or that logs name."""
    if snapshot.filled(["job_operations"]):
        found = snapshot.bare.sql(f"SELECT mode(system) FROM ({snapshot.rows('job_operations')})").fetchall()[0][0]
        return snapshot.facility.filesystem_of(str(found))
    systems = snapshot.facility.filesystems
    return systems[0].name if systems else ""


def _touching(runs: Frame, windows: Sequence[tuple[int, int]]) -> Bools:
    """Runs that reach into one of the windows, which are in order and apart."""
    first, last = (np.array(edge, np.int64) for edge in zip(*windows, strict=True))
    following = np.searchsorted(last, runs.ints("start_ns"), side="right")
    return np.asarray(
        (following < len(last)) & (first[np.minimum(following, len(last) - 1)] < runs.ints("end_ns")), np.bool_
    )


def _within(runs: Frame, windows: Sequence[tuple[int, int]]) -> Bools:
    """Runs that lie in one of the windows."""
    first, last = (np.array(edge, np.int64) for edge in zip(*windows, strict=True))
    before = np.searchsorted(first, runs.ints("start_ns"), side="right") - 1
    return np.asarray((before >= 0) & (runs.ints("end_ns") <= last[np.maximum(before, 0)]), np.bool_)


def _united(windows: list[tuple[int, int]]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for low, high in sorted(windows):
        if found and low <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], high)
        else:
            found.append((low, high))
    return found


def usual_times(runs: Frame) -> Floats:
    """Seconds of I/O that are usual for each run, by similar ones; NaN where there are too few."""
    return np.asarray(
        runs.floats("io_seconds") / np.exp(run_slowdowns(runs, group_runs(runs, "similar"), _LEAST_SIMILAR))
    )


def _beside_usual(runs: Frame) -> dict[str, Floats]:
    """Of each run its time, what is usual by similar runs, the spread of the logarithm of their times, and the least
    that counts as slower; NaN where too few are similar."""
    groups = group_runs(runs, "similar")
    late, seconds = run_slowdowns(runs, groups, _LEAST_SIMILAR), runs.floats("io_seconds")
    spread = np.full(runs.rows, np.nan)
    for group in np.flatnonzero(groups.sizes >= _LEAST_SIMILAR).tolist():
        rows = groups.members(group)
        known = rows[np.isfinite(late[rows])]
        if len(known):
            # Few runs may agree by chance.
            least = _CHANCE_SPREAD / len(known)
            spread[rows] = max(_MAD_TO_SD * float(np.median(np.abs(late[known]))), least)
    usual = seconds / np.exp(late)
    harm = np.maximum(HARM_SHARE * usual, HARM_MADS / _MAD_TO_SD * spread * usual)
    return dict(zip(_TIMES, (seconds, usual, spread, harm), strict=True))
