"""The jobs beside a run, and who did what in a period: the needs `suspects` and `activity`.

All of the lake is looked at, whoever asks: what is shown of others' jobs to a person who may not see them is that there
was another job.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from ioweather.advice.culprits.activity import Activity, RunAsked
from ioweather.advice.culprits.blame import Party, Slowed, Suspect, Suspects
from ioweather.advice.verdict.explain import Explained
from ioweather.advice.verdict.group_states import run_slowdowns
from ioweather.advice.verdict.posterior import HARM_MADS, HARM_SHARE
from ioweather.core.arrays import Bools, Floats, Ints
from ioweather.core.clock import utc_day
from ioweather.core.contracts import ALL_TIME, Period
from ioweather.core.errors import DataUnavailable, UsageError
from ioweather.core.frames import Frame
from ioweather.core.outcomes import Amount
from ioweather.core.units import DAY_NS, HOUR_NS
from ioweather.derive.jobs.groups import group_runs
from ioweather.derive.system.run_environment import used_targets
from ioweather.derive.system.shared_work import placed_again
from ioweather.derive.system.work_in_time import (
    During,
    Pieces,
    cost_of_each,
    during,
    io_in_time,
    near_windows,
    pieces_of,
)
from ioweather.store.snapshot import Snapshot
from ioweather.studies.job.view import JobView
from ioweather.studies.shared import choices
from ioweather.tables import concat
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

_MOST_TARGETS: Final = 5
# Similar runs are looked for so many days before and after.
_REACH_DAYS: Final = 10
# Of more slowed runs than these, those that lost most. [ours]
_MOST_SLOWED: Final = 400
# Where a period has more samples than these, what targets did beyond all records is not looked up. [ours]
_MOST_SAMPLES: Final = 3_000_000
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
    return beside(records, hide(records.parties, snapshot), 0, measured.get(0), usual)


def days_about(snapshot: Snapshot, low: int, high: int, reach: int) -> set[str]:
    known = set(snapshot.pinned["job_io"].days())
    begin, end = max(low - reach * DAY_NS, 0), high + reach * DAY_NS
    if end - begin > 4000 * DAY_NS:
        return known
    return {utc_day(moment) for moment in (*range(begin, end, DAY_NS), end)} & known


def active(runs: Frame, low: int, high: int) -> Frame:
    return runs.take((runs.ints("start_ns") < high) & (runs.ints("end_ns") > low))


def beside(
    records: Records, parties: Sequence[Party], row: int, measured: Measured | None, usual_seconds: float
) -> Suspects:
    """The jobs beside run `row` of the records, whose I/O usually takes so long; `parties` as they may be seen.
    `measured` is what the targets did meanwhile, None where it is not known."""
    mine = records.by_run.stretches_of(row)
    if not len(mine):
        raise DataUnavailable("the log does not say when it did I/O")
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
    rest, total = np.zeros(width), None
    if measured is not None:
        light = np.where(by_log[:, None] & (jobs != me)[:, None], busy * found.sums(records.light_work, width), others)
        own_light = own if counted.any() else own_work(records, mine, of_bytes=True)[0]
        # The run's own work was all done while it did I/O; of a sampling interval that may be a part.
        meanwhile = own_light[:-1] + busy * measured.share * np.maximum(measured.work - own_light[:-1], 0.0)
        extra = _fitting((own - own_light)[:-1] + (others - light)[:, :-1].sum(axis=0),
                         meanwhile - own_light[:-1] - light[:, :-1].sum(axis=0))  # fmt: skip
        others[:, :-1] = light[:, :-1] + extra * (others - light)[:, :-1]
        own[:-1] = own_light[:-1] + extra * (own - own_light)[:-1]
        others[:, :-1], rest[:-1] = placed_again(others[:, :-1], own[:-1], meanwhile, by_log)
        total = float(meanwhile[used].sum())
    # Alone it takes its usual time, and no target works longer for it.
    own = np.minimum(own, usual_seconds)
    waits = _Waits(records, pieces, found, during(records.by_run, mine, pieces), used)
    cost = waits.costs(
        (own_before, own), (before, others), rest, counted, (busy, io_seconds, min(usual_seconds, io_seconds))
    )
    load = np.where(used, others[:, :-1].sum(axis=0) + rest[:-1], -1.0)
    return Suspects(
        _found(records, parties, jobs, (others, own + rest), cost, used, amounts, me),
        1.0 - float(rest[:-1][used].sum()) / total if total else None,
        records.components[int(load.argmax())] if load.max(initial=0.0) > 0 else None,
        float(np.nan_to_num(records.runs.floats("metadata_ratio")[row])), records.filesystem, records.has_servers,
    )  # fmt: skip


def _fitting(more: Floats, room: Floats) -> Floats:
    """The share of `more` that there is room for."""
    return np.clip(np.divide(room, more, out=np.ones(len(more)), where=more > 0), 0.0, 1.0)


@dataclass(frozen=True, eq=False)
class _Waits:
    """A run's I/O time in pieces, and what was done in each; `used` are the targets that it moved bytes on."""

    records: Records
    pieces: Pieces
    everybody: During
    logged: During
    used: Bools

    def costs(
        self, own: tuple[Floats, Floats], others: tuple[Floats, Floats], rest: Floats, counted: Bools,
        times: tuple[float, float, float],
    ) -> tuple[Floats, Floats]:  # fmt: skip
        """Of each job, seconds that the run waited for data and for metadata. `own` and `others` are sums over the
        time, by the records and as they fit what was measured; `counted` is the run's own row of servers' counts;
        `times` are the share of the time with I/O, seconds of I/O, and the usual ones."""
        busy, io_seconds, usual = times
        width, seconds = len(rest), self.pieces.seconds
        columns = np.append(np.flatnonzero(self.used), width - 1).astype(np.int64)
        work = self.everybody.in_time(self.records.work, columns, width)
        by_run = self.records.by_run
        mine = work[:, counted][:, 0] if counted.any() else (
            self.logged.in_time(self.records.capacity.work(by_run), columns, width).sum(axis=1)
        )  # fmt: skip
        mine = mine * _ratio(own[1][columns], own[0][columns])
        was, now = others[0][:, columns], others[1][:, columns]
        # Work that was placed where the job's own record shows none is spread as its other work.
        profile = work.sum(axis=2) / busy
        profile = np.divide(profile, profile.sum(axis=0), out=np.zeros(profile.shape), where=profile.sum(axis=0) > 0)
        work = work * _ratio(now, was) + profile[:, :, None] * np.where(was > 0, 0.0, now) / busy
        nobody = rest[columns] / busy * (seconds / seconds.sum())[:, None]
        used = used_targets(mine[:, :-1]) if len(columns) > 1 else np.zeros((len(seconds), 0), np.bool_)
        met = np.where(used, (work.sum(axis=1) + nobody)[:, :-1], 0.0).max(axis=1, initial=0.0)
        time = io_in_time(mine[:, :-1].max(axis=1, initial=0.0), met, seconds, io_seconds, usual)
        share = np.divide(time, seconds, out=np.zeros(len(seconds)), where=seconds > 0)[:, None]
        work, nobody = work * share[:, :, None], nobody * share
        every = np.ones((len(seconds), 1), np.bool_)
        return (
            cost_of_each(mine[:, :-1], work[:, :, :-1], nobody[:, :-1], time, used),
            cost_of_each(mine[:, -1:], work[:, :, -1:], nobody[:, -1:], time, every),
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


def _found(
    records: Records, parties: Sequence[Party], jobs: Ints, work: tuple[Floats, Floats], cost: tuple[Floats, Floats],
    used: Bools, amounts: Mapping[str, Floats], me: int,
) -> tuple[Suspect, ...]:  # fmt: skip
    """`work` is that of others by job and target, and that of the run and of nobody by target; `cost` seconds of data
    and of metadata, by job."""
    others, besides = work
    moved = amounts["read_bytes"][:, :-1] + amounts["write_bytes"][:, :-1]
    all_bytes, operations = float(moved[:, used].sum()), amounts["requests"].sum(axis=1)
    total = others[:, :-1].sum(axis=0) + besides[:-1]
    found = []
    for row in np.flatnonzero(others.sum(axis=1) > 0).tolist():
        job = int(jobs[row])
        if job == me:
            continue
        order = np.argsort(-others[row, :-1], kind="stable")[:_MOST_TARGETS].tolist()
        found.append(Suspect(
            parties[job], records.evidence[job], float(cost[0][row]), float(cost[1][row]),
            float(amounts["read_bytes"][row].sum()), float(amounts["write_bytes"][row].sum()),
            float(amounts["requests"][row, :-1].sum()), float(amounts["requests"][row, -1]),
            float(moved[row, used].sum()) / all_bytes if all_bytes > 0 else None,
            float(operations[row] / operations.sum()) if operations.sum() > 0 else None,
            tuple((records.components[i], float(others[row, i] / total[i])) for i in order if others[row, i] > 0),
        ))  # fmt: skip
    return tuple(found)


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
        high = _newest(snapshot) + 1
        low = high - HOUR_NS
    return of_period(snapshot, filesystem, (low, high))


def activity_since(snapshot: Snapshot, duration_ns: int) -> Activity:
    """On the busiest file system, so long before the newest."""
    newest = _newest(snapshot)
    return of_period(snapshot, None, (newest - duration_ns, newest))


def _event(snapshot: Snapshot, name: str) -> dict[str, Any]:
    """By its id, or a beginning of it that only one has."""
    events = [row for row in snapshot.frame("events", ("event_id", "system", "start_ns", "end_ns")).records()
              if str(row["event_id"]).startswith(name)]  # fmt: skip
    exact = [row for row in events if row["event_id"] == name] or events
    if len(exact) != 1:
        how = "There is no event" if not exact else f"{len(exact)} events have ids that begin with"
        raise UsageError(f"{how} {name!r}, and it is not a job id.", hint="`ioweather events --json` lists their ids.")
    return exact[0]


def _newest(snapshot: Snapshot) -> int:
    ends = [group.end_ns for group in snapshot.series()]
    ends += _extremes(snapshot, "max(end_ns)", "applications")
    ends += _extremes(snapshot, "max(start_ns + interval_ns)", "job_operations")
    if not ends:
        raise DataUnavailable("The lake has no samples, logs or counts of jobs.", hint="`ioweather ingest` reads them.")
    return max(ends)


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
    slowed = _slowed(everybody, low, high)
    parties: tuple[Party, ...] = ()
    found: list[Slowed] = []
    if len(slowed["row"]):
        rows = slowed["row"].astype(np.int64)
        start, end = everybody.ints("start_ns"), everybody.ints("end_ns")
        windows = _united([(int(start[row]), max(int(end[row]), int(start[row]) + 1)) for row in rows.tolist()])
        runs = active(everybody, windows[0][0], windows[-1][1])
        if any(group.filesystem == filesystem and group.metric in choices.TRAFFIC for group in whole.series()):
            runs = runs.take(_touching(runs, windows))  # without samples all logs say what targets can do
        place = {digest: row for row, digest in enumerate(runs.text("log_digest").tolist())}
        records = records_of(whole, filesystem, runs, files_of(whole, runs), windows)
        parties = hide(records.parties, snapshot)
        digests = everybody.text("log_digest").tolist()
        asked = np.array([place[digests[row]] for row in rows.tolist()], np.int64)
        measured = measured_work(whole, records, asked, most_rows=_MOST_SAMPLES)
        for number, row in enumerate(rows.tolist()):
            at = place[digests[row]]
            usual, spread = float(slowed["usual"][number]), float(slowed["spread"][number])
            try:
                suspects = beside(records, parties, at, measured.get(at), usual)
            except DataUnavailable:
                continue
            found.append(Slowed(
                parties[int(records.run_job[at])], float(slowed["io_seconds"][number]),
                Amount(usual, usual * float(np.exp(-_TO_90 * spread)), usual * float(np.exp(_TO_90 * spread))), None,
                float(slowed["harm"][number]), suspects, int(start[row]),
            ))  # fmt: skip
    volumes, known = volumes_between(whole, filesystem, period, inside)
    hidden = hide([volume.party for volume in volumes], snapshot)
    shown = tuple(replace(volume, party=party) for party, volume in zip(hidden, volumes, strict=True))
    storms = storms_between(whole, filesystem, period, inside)
    storming = hide([storm.party for storm in storms], snapshot)
    storms = tuple(replace(storm, party=party) for party, storm in zip(storming, storms, strict=True))
    return Activity(filesystem, low, high, tuple(found), shown, storms, inside.rows, known)


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


def _slowed(runs: Frame, low: int, high: int) -> dict[str, Floats]:
    """Runs in the period that took longer than similar runs: row, time, usual time, spread of the logarithm of similar
    runs' times, and the least that counts as slower."""
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
    inside = (runs.ints("start_ns") < high) & (runs.ints("end_ns") > low)
    with np.errstate(invalid="ignore"):
        rows = np.flatnonzero(inside & (seconds - usual >= harm))
    rows = rows[np.argsort(-(seconds - usual)[rows], kind="stable")[:_MOST_SLOWED]]
    columns = {"io_seconds": seconds, "usual": usual, "spread": spread, "harm": harm}
    return {"row": rows.astype(np.float64), **{name: values[rows] for name, values in columns.items()}}
