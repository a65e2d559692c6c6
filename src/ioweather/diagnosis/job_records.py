"""What jobs did to storage, read from the lake: servers' counts of jobs, Darshan logs, and who the jobs are of."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np

from ioweather.core import choices
from ioweather.core.arrays import Bools, Floats, Ints
from ioweather.core.clock import utc_day
from ioweather.core.errors import DataUnavailable
from ioweather.core.frames import Frame
from ioweather.core.tables import ColumnSpec, Quality
from ioweather.core.tables.schema import build_column, specs_of
from ioweather.core.units import DAY_NS, HOUR_NS
from ioweather.core.words import names_of
from ioweather.diagnosis.blame import Evidence, Party
from ioweather.diagnosis.job_activity_in_period import MetadataStorm, Volume
from ioweather.diagnosis.placement_in_samples import Samples, placed_in_samples
from ioweather.diagnosis.shared_work import (
    AMOUNTS,
    Capacity,
    JobLoads,
    Sick,
    capacity_of_loads,
    common_times,
    joined_loads,
    loads_of_logs,
    loads_of_servers,
    within_logs,
)
from ioweather.diagnosis.similar_runs import REQUESTS, capacity_of, health_events, metadata_capacity
from ioweather.diagnosis.work_in_time import near_windows, united
from ioweather.facts.job_metrics import on_mounts
from ioweather.facts.runs import program_of
from ioweather.facts.system_activity import monitored_mounts
from ioweather.lake.database import fetch_frame
from ioweather.lake.snapshot import Snapshot

FILES: Final = names_of("""
    log_digest record_id rank module standard_stream mount read_bytes write_bytes read_count write_count open_count
    stat_count sync_count first_open_ns last_close_ns first_read_ns last_read_ns first_write_ns last_write_ns
    consecutive_read_count consecutive_write_count osts
""")
# A run that spends more of its time in metadata is at work also while targets are not busy. [ours]
_IN_METADATA: Final = 0.5
# Jobs beside a run are placed by what was sampled so long before and after it. [ours]
_PLACED_WITHIN_NS: Final = 3 * HOUR_NS
# Who is counted in intervals of so many samples is not counted finely. [ours]
_COARSE: Final = 3
# A storm is so much of the most that metadata servers did, and so many operations. [ours]
_STORM_RATIO: Final = 0.3
_STORM_OPERATIONS: Final = 1000


# Bytes and requests of data; operations of metadata targets are `requests` of no target.
SERVER_SUMS: Final = """
            sum(CASE WHEN operation = 'read' AND component_kind = 'ost' THEN bytes END)::DOUBLE AS read_bytes,
            sum(CASE WHEN operation = 'write' AND component_kind = 'ost' THEN bytes END)::DOUBLE AS write_bytes,
            sum(CASE WHEN component_kind <> 'ost' OR operation IN ('read', 'write') THEN count END)::DOUBLE AS requests
"""


@dataclass(frozen=True, eq=False)
class Records:
    """Jobs on one file system in some stretch of time, and what they did: `evidence` is how each is known, `work` the
    seconds of a target that each entry of `loads` takes. `runs` are the logs (`job_io` with uid, exe and job id),
    `run_job` the job of each, `by_run` what the logs say, by row of `runs`. `spans` are the loads in all of the
    intervals in which they were counted: who was slowed was busy in them for longer than at its usual pace."""

    filesystem: str
    components: tuple[str, ...]
    capacity: Capacity
    parties: tuple[Party, ...]
    evidence: tuple[Evidence, ...]
    loads: JobLoads
    work: Floats
    runs: Frame
    run_job: Ints
    by_run: JobLoads
    has_servers: bool
    is_sampled: bool
    spans: JobLoads
    is_placed: bool = False

    @cached_property
    def light_work(self) -> Floats:
        """What `work` would be by bytes alone."""
        return self.capacity.work(self.loads, of_bytes=True)

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.parties), len(self.components) + 1

    def windows(self, row: int) -> tuple[Ints, Ints]:
        """[first, last) in which a run did I/O: as its log says, and only while servers counted it where they did. A
        file that is written now and then stays open between, and a log tells its first and last write alone."""
        mine = self.by_run.stretches_of(row)
        logged = self.by_run.first_ns[mine], np.maximum(self.by_run.last_ns[mine], self.by_run.first_ns[mine] + 1)
        job = int(self.run_job[row])
        if not self.tells_when(row) or not len(mine):
            return logged
        own = self.spans.stretches_of(job)
        both = common_times(logged, (self.spans.first_ns[own], self.spans.last_ns[own]))
        return both if len(both[0]) else logged

    @cached_property
    def _in_data(self) -> Bools:
        """Runs that spend most of their I/O time in data; when others are at work, targets do not tell."""
        return np.asarray(np.nan_to_num(self.runs.floats("metadata_ratio")) <= _IN_METADATA)

    def tells_when(self, row: int) -> bool:
        """Whether `loads` say when a run did I/O better than its log: as servers counted it, or as its targets did."""
        by_servers = self.evidence[int(self.run_job[row])] == "servers"
        return by_servers or (self.is_placed and bool(self._in_data[row]))

    def is_coarse(self, step_ns: int) -> bool:
        """What jobs did is known by their logs alone, or servers were asked for it much less often than so."""
        counted = np.array([each == "servers" for each in self.evidence], np.bool_)[self.loads.job]
        lengths = (self.loads.last_ns - self.loads.first_ns)[counted]
        return not len(lengths) or bool(np.median(lengths) > _COARSE * step_ns)

    def reached(self, low: int, high: int) -> tuple[int, int]:
        """The time of the jobs at work in [low, high), as far as these are placed."""
        near = near_windows(self.loads, (np.array([low]), np.array([high])))
        first, last = self.loads.first_ns[near].min(initial=low), self.loads.last_ns[near].max(initial=high)
        return max(int(first), low - _PLACED_WITHIN_NS), min(int(last) + 1, high + _PLACED_WITHIN_NS)

    def placed(self, row: int, samples: Samples | None) -> Records:
        """What the jobs beside a run did, at the times that samples of the targets show."""
        if samples is None or not len(samples.start_ns) or not self.is_coarse(int(np.median(samples.length_ns))):
            return self
        # By their logs, runs of one job are told apart.
        number = self.run_job if self.has_servers else np.arange(self.runs.rows)
        loads, logs = self.loads if self.has_servers else self.by_run, self.by_run.numbered(number)
        first, last = windows = self.windows(row)
        low, high = self.reached(int(first.min()), int(last.max()))
        samples = samples.touching(np.array([low]), np.array([high]))
        near = near_windows(loads, windows)
        near = near_windows(loads, (loads.first_ns[near], loads.last_ns[near]))  # what others did beside these
        count = int(loads.job.max(initial=-1)) + 1
        moving = np.bincount(number, weights=~self._in_data, minlength=count)[loads.job[near]] == 0
        seconds = _io_seconds(self.runs, number, count)
        found = placed_in_samples(loads, near[moving], samples, self.capacity, seconds)
        loads = joined_loads([within_logs(found, logs, seconds), loads.taken(near[~moving])])
        loads = loads if self.has_servers else loads.numbered(self.run_job)
        return replace(self, loads=loads, work=self.capacity.work(loads), spans=loads, is_placed=True)


def _io_seconds(runs: Frame, number: Ints, count: int) -> Floats:
    """Of all runs of one number."""
    return np.bincount(number, weights=np.nan_to_num(runs.floats("io_seconds")), minlength=count).astype(np.float64)


def records_of(
    snapshot: Snapshot, filesystem: str, runs: Frame, files: Frame, windows: Sequence[tuple[int, int]]
) -> Records:
    """`runs` and their `files` are the logs that count; what servers counted is read within the windows, which begin in
    one month."""
    period = min(low for low, _ in windows), max(high for _, high in windows)
    components, capacity = capacity_of(snapshot, filesystem, period[0])
    files = _on_filesystem(files, snapshot, filesystem)
    rows = _server_rows(snapshot, filesystem, windows)
    components = components or rows.text("component").categories or ("all targets",)
    keys: dict[str, int] = {}
    run_job = np.array([keys.setdefault(str(i), len(keys)) for i in runs.ints("job_id").tolist()], np.int64)
    row_keys = _keys_of(rows)
    row_job = np.array([keys.setdefault(key, len(keys)) for key in row_keys], np.int64)
    counted = np.zeros(len(keys), np.bool_)
    counted[row_job] = True
    by_run = loads_of_logs(runs, files, components)
    by_log = by_run.of_jobs(~counted[run_job]) if len(run_job) else by_run
    counts = loads_of_servers(rows, components, row_job)
    by_servers = within_logs(counts, by_run.numbered(run_job), _io_seconds(runs, run_job, len(keys)))
    loads, spans = (joined_loads([by_log.numbered(run_job), each]) for each in (by_servers, counts))
    is_sampled = capacity is not None
    if capacity is None:
        capacity = capacity_of_loads(joined_loads([by_run, loads]), len(components))
    if not is_sampled or not capacity.per_second["requests"][-1]:
        capacity = capacity.with_metadata(_metadata_by_logs(snapshot, period[0]))
    capacity = replace(capacity, sick=_sick_targets(snapshot, filesystem, components, period))
    return Records(
        filesystem, components, capacity, _parties(snapshot, list(keys), runs, rows, row_keys),
        tuple("servers" if known else "log" for known in counted.tolist()), loads,
        capacity.work(loads), runs, run_job, by_run, bool(rows.rows), is_sampled, spans,
    )  # fmt: skip


_SAMPLED: Final = specs_of("""
    start_ns=int64 interval_ns=int64 component=text read_bytes=float64? write_bytes=float64? requests=float64?
""")


def files_of(snapshot: Snapshot, runs: Frame) -> Frame:
    digests = tuple(str(digest) for digest in runs.text("log_digest").tolist())
    days = {utc_day(start) for start in runs.ints("start_ns").tolist()}
    return snapshot.frame("files", FILES, {"log_digest": digests}, days=days)


def _on_filesystem(files: Frame, snapshot: Snapshot, filesystem: str) -> Frame:
    mounts = monitored_mounts(files, snapshot.facility, filesystem)
    if mounts is None:
        return files
    places = files.text("mount")
    return files.take(on_mounts(places, mounts) | (places.codes < 0))  # logs may lack names


_COUNTED: Final = specs_of("""
    job_key=text job_id=int64? uid=int64? exe=text? start_ns=int64 interval_ns=int64 component=text?
    read_bytes=float64? write_bytes=float64? requests=float64?
""")


def _server_rows(snapshot: Snapshot, filesystem: str, windows: Sequence[tuple[int, int]]) -> Frame:
    """What servers counted, by job, time and target; metadata targets together. Counts of a whole life only of jobs
    of which there is nothing finer."""
    spanned = {utc_day(t) for low, high in windows for t in (max(low - DAY_NS, 0), *range(low, high, DAY_NS), high)}
    days = spanned & set(snapshot.pinned["job_operations"].days())
    if not days:
        return Frame({spec.name: build_column(spec, (), 0) for spec in _COUNTED})
    listed = ", ".join(str(window) for window in windows)
    life = int(Quality.WHOLE_LIFE)
    rows = snapshot.rows("job_operations", {"filesystem": filesystem}, days=days)
    sql = f"""WITH asked(low, high) AS (VALUES {listed}),
        counted AS (SELECT * FROM ({rows}) j WHERE EXISTS (
            FROM asked WHERE j.start_ns < high AND j.start_ns + j.interval_ns > low)),
        fine AS (SELECT DISTINCT job_key FROM counted WHERE quality & {life} = 0)
        SELECT job_key, any_value(job_id) AS job_id, any_value(uid) AS uid, any_value(exe) AS exe, start_ns,
            interval_ns, CASE WHEN component_kind = 'ost' THEN component END AS component,
            {SERVER_SUMS}
        FROM counted WHERE quality & {life} = 0 OR job_key NOT IN (FROM fine)
        GROUP BY job_key, start_ns, interval_ns, CASE WHEN component_kind = 'ost' THEN component END
        ORDER BY ALL"""
    return fetch_frame(snapshot.bare, sql, _COUNTED)


# Ways to be sick that leave a target able to do less; a busy processor or too many requests are not.
_DOES_LESS: Final = ("slow", "capped")


def _sick_targets(
    snapshot: Snapshot, filesystem: str, components: Sequence[str], period_ns: tuple[int, int]
) -> tuple[Sick, ...]:
    """Incidents of targets and servers that were found in the period."""
    events = health_events(snapshot)
    found = []
    for event in events.take(events.ints("start_ns") < period_ns[1]).records():
        details = json.loads(event["details"] or "{}")
        if details.get("direction") not in _DOES_LESS or snapshot.facility.filesystem_of(event["system"]) != filesystem:
            continue
        names = {event["component"], *details.get("through", [])}
        columns = np.array([column for column, name in enumerate(components) if name in names], np.int64)
        factor, end = event["strength_ratio"], event["end_ns"] or np.iinfo(np.int64).max
        if len(columns) and end > period_ns[0] and factor is not None:
            found.append(Sick(columns, event["start_ns"], end, max(1.0, float(factor))))
    return tuple(found)


def _metadata_by_logs(snapshot: Snapshot, moment_ns: int) -> float:
    """The most files in a second that a run opened or looked at, of the runs of that month."""
    days = {day for day in snapshot.pinned["job_io"].days() if day[:7] == utc_day(moment_ns)[:7]}
    rows = snapshot.rows("job_io", {"io_seconds >": 0.0}, days=days)
    ((most,),) = snapshot.bare.execute(f"SELECT max((file_count + stat_count) / io_seconds) FROM ({rows})").fetchall()
    return float(most or 0.0)


def _parties(
    snapshot: Snapshot, keys: list[str], runs: Frame, rows: Frame, row_keys: Sequence[str | None]
) -> tuple[Party, ...]:
    """Who the jobs are of: logs and servers say the user's number, accounting the name and the account."""
    uid: dict[str, int] = {}
    program: dict[str, str] = {}
    for job, number, exe in zip(
        runs.ints("job_id").tolist(), runs.ints("uid").tolist(), runs.text("exe").tolist(), strict=True
    ):
        uid[str(job)], program[str(job)] = number, program_of(exe or "")
    for key, number, exe in zip(row_keys, rows.array("uid").tolist(), rows.text("exe").tolist(), strict=True):
        if number is not None:
            uid.setdefault(str(key), number)
        if exe:
            program.setdefault(str(key), exe)
    numbers = tuple(int(key) for key in keys if key.isdigit())
    jobs = snapshot.frame("jobs", ("raw_job_id", "uid", "user", "account", "name"), {"raw_job_id": numbers})
    accounts = {str(row["raw_job_id"]): row for row in jobs.records()}
    found = []
    for key in keys:
        row = accounts.get(key, {})
        number = row.get("uid") if row.get("uid") is not None else uid.get(key)
        name = program.get(key) or row.get("name") or ""
        project = snapshot.facility.project_of(account=row.get("account"), uid=number, exe=name or None)
        job, whose = int(key) if key.isdigit() else None, project if row or number is not None else None
        found.append(Party(key, job, number, row.get("user"), whose, name or None))
    return tuple(found)


def samples_beside(snapshot: Snapshot, records: Records, runs: Ints, *, most_rows: int | None = None) -> Samples | None:
    """What was sampled of each target while the runs (rows of the records) did I/O; where it is to tell when jobs did
    theirs, while any of these did. None where nothing was sampled, or more than `most_rows` would have to be read."""
    steps = [g.interval_ns for g in snapshot.series() if g.filesystem == records.filesystem and g.interval_ns > 0]
    logged = records.by_run
    mine = np.flatnonzero(np.isin(logged.job, runs))
    if not records.is_sampled or not len(mine):
        return None
    windows = list(zip(logged.first_ns[mine].tolist(), (logged.last_ns[mine] + 1).tolist(), strict=True))
    if steps and records.is_coarse(min(steps)):
        windows = [records.reached(*window) for window in windows]
    windows, metrics = united(windows), (*choices.TRAFFIC, *REQUESTS)
    excluded = int(Quality.OVER_LIMIT | Quality.RESET)
    try:
        kind = choices.traffic_kind(snapshot, {"filesystem": records.filesystem})
        selection = snapshot.selection(
            records.filesystem, kind, metrics, 10**9, windows=windows, excluded_quality=excluded
        )
    except DataUnavailable:
        return None
    if most_rows is not None and sum(group.rows for group in selection.groups) > most_rows:
        return None
    rows = fetch_frame(snapshot.bare, f"""WITH asked(low, high) AS (VALUES {", ".join(map(str, windows))})
        SELECT start_ns, max(interval_ns) AS interval_ns, component,
            sum(value) FILTER (metric = 'read_bytes') AS read_bytes,
            sum(value) FILTER (metric = 'write_bytes') AS write_bytes,
            sum(value) FILTER (metric IN ('read_ops', 'write_ops')) AS requests
        FROM ({selection.scan(metrics)}) s WHERE interval_ns > 0 AND EXISTS (
            FROM asked WHERE s.start_ns < high AND s.start_ns + s.interval_ns > low)
        GROUP BY start_ns, component ORDER BY start_ns""", _SAMPLED)  # fmt: skip
    place = {name: column for column, name in enumerate(records.components)}
    text = rows.text("component")
    column = np.array([place.get(name, -1) for name in text.categories], np.int64)[text.codes]
    rows, column = rows.take(column >= 0), column[column >= 0]
    start, row = np.unique(rows.ints("start_ns"), return_inverse=True)
    end = rows.ints("start_ns") + rows.ints("interval_ns")
    amounts = {name: np.nan_to_num(rows.floats(name)) for name in AMOUNTS}
    work = np.full((len(start), len(place)), np.nan)
    work[row, column] = records.capacity.work_of(column, amounts, rows.ints("start_ns"), end)
    last = np.zeros(len(start), np.int64)
    np.maximum.at(last, row, end)
    return Samples(start, last, work)


def volumes_between(
    snapshot: Snapshot, filesystem: str, period_ns: tuple[int, int], runs: Frame
) -> tuple[tuple[Volume, ...], float | None]:
    """What each job did in the period, by servers where they counted it, else by its logs (`runs`), whose amounts are
    spread evenly over their time; and which share of what storage moved that is."""
    low, high = period_ns
    rows = _server_totals(snapshot, filesystem, period_ns)
    keys: dict[str, list[float]] = {}
    row_keys = _keys_of(rows)
    for key, *amounts in zip(
        row_keys, *(np.nan_to_num(rows.floats(n)).tolist() for n in (*AMOUNTS[:2], "metadata")), strict=True
    ):
        keys[key] = [a + b for a, b in zip(keys.get(key, [0.0] * 3), amounts, strict=True)]
    counted = set(keys)
    start, end = runs.ints("start_ns"), np.maximum(runs.ints("end_ns"), runs.ints("start_ns") + 1)
    share = np.clip((np.minimum(end, high) - np.maximum(start, low)) / (end - start), 0.0, 1.0)
    opened = runs.floats("file_count")
    opens = (runs.floats("read_bytes"), runs.floats("write_bytes"), opened)
    columns = (np.nan_to_num(each * share).tolist() for each in opens)
    for key, *amounts in zip(map(str, runs.ints("job_id").tolist()), *columns, strict=True):
        if key not in counted:
            keys[key] = [a + b for a, b in zip(keys.get(key, [0.0] * 3), amounts, strict=True)]
    parties = _parties(snapshot, list(keys), runs, rows, row_keys)
    found = tuple(
        Volume(party, read, written, opened_count, "servers" if party.key in counted else "log")
        for party in parties
        for read, written, opened_count in (keys[party.key],)
    )
    moved = _moved_bytes(snapshot, filesystem, period_ns)
    known = sum(volume.read_bytes + volume.write_bytes for volume in found)
    return found, min(1.0, known / moved) if moved else None


def storms_between(
    snapshot: Snapshot, filesystem: str, period_ns: tuple[int, int], runs: Frame
) -> tuple[MetadataStorm, ...]:
    """Jobs that asked the metadata servers for a large part of the most that they did, by servers' counts, else by
    logs (`runs`); the strongest stretch of each. Without samples of these servers nobody knows what is much."""
    capacity = metadata_capacity(snapshot, filesystem, period_ns[0])
    if capacity <= 0:
        return ()
    rows = _metadata_rows(snapshot, filesystem, period_ns, capacity)
    row_keys = _keys_of(rows)
    best: dict[str, tuple[float, int, int]] = {}
    numbers = (rows.ints("start_ns"), rows.ints("interval_ns"), rows.floats("requests"))
    for key, start, length, count in zip(row_keys, *(column.tolist() for column in numbers), strict=True):
        best[key] = max(best.get(key, (0.0, 0, 0)), (count * 1e9 / length, start, start + length))
    opened = runs.floats("file_count")
    rate = opened / np.maximum(runs.floats("io_seconds"), 1.0)
    with np.errstate(invalid="ignore"):
        strong = np.flatnonzero((rate >= _STORM_RATIO * capacity) & (opened >= _STORM_OPERATIONS))
    for row in strong.tolist() if not rows.rows else ():
        key = str(int(runs.ints("job_id")[row]))
        found = float(rate[row]), int(runs.ints("start_ns")[row]), int(runs.ints("end_ns")[row])
        best[key] = max(best.get(key, (0.0, 0, 0)), found)
    parties = _parties(snapshot, list(best), runs, rows, row_keys)
    storms = [
        MetadataStorm(party, *best[party.key][1:], best[party.key][0], best[party.key][0] / capacity)
        for party in parties
    ]
    return tuple(sorted(storms, key=lambda storm: -storm.operations_per_s))


def _keys_of(rows: Frame) -> list[str]:
    """What each row's job is called: its number, else the servers' name for it."""
    jobs, keys = rows.array("job_id").tolist(), rows.text("job_key").tolist()
    return [str(key if job is None else job) for job, key in zip(jobs, keys, strict=True)]


def _rows_until(snapshot: Snapshot, filesystem: str, period_ns: tuple[int, int]) -> str:
    """SQL of what servers counted on the days of the period, and the day before."""
    low, high = period_ns
    days = {utc_day(t) for t in (max(low - DAY_NS, 0), *range(low, high, DAY_NS), high)}
    known = days & set(snapshot.pinned["job_operations"].days())
    return snapshot.rows("job_operations", {"filesystem": filesystem, "start_ns <": high}, days=known)


def _metadata_rows(snapshot: Snapshot, filesystem: str, period_ns: tuple[int, int], capacity: float) -> Frame:
    low = period_ns[0]
    rows = _rows_until(snapshot, filesystem, period_ns)
    sql = f"""SELECT job_key, any_value(job_id) AS job_id, any_value(uid) AS uid, any_value(exe) AS exe, start_ns,
            interval_ns, sum(count)::DOUBLE AS requests
        FROM ({rows}) WHERE component_kind <> 'ost' AND start_ns + interval_ns > {low} AND interval_ns > 0
            AND quality & {int(Quality.WHOLE_LIFE)} = 0
        GROUP BY job_key, start_ns, interval_ns
        HAVING sum(count) >= {_STORM_OPERATIONS} AND sum(count) * 1e9 / interval_ns >= {_STORM_RATIO * capacity}
        ORDER BY ALL"""
    return fetch_frame(snapshot.bare, sql, (*_COUNTED[:6], _COUNTED[9]))


_TOTALS: Final = (*_COUNTED[:4], *_COUNTED[7:9], ColumnSpec("metadata", "float64", "", nullable=True))


def _server_totals(snapshot: Snapshot, filesystem: str, period_ns: tuple[int, int]) -> Frame:
    low, high = period_ns
    rows = _rows_until(snapshot, filesystem, period_ns)
    life = int(Quality.WHOLE_LIFE)
    share = f"(least(start_ns + interval_ns, {high}) - greatest(start_ns, {low})) / interval_ns"
    sql = f"""WITH counted AS (SELECT *, CASE WHEN interval_ns > 0 THEN {share} ELSE 1.0 END AS share
            FROM ({rows}) WHERE start_ns + interval_ns > {low}),
        fine AS (SELECT DISTINCT job_key FROM counted WHERE quality & {life} = 0)
        SELECT job_key, any_value(job_id) AS job_id, any_value(uid) AS uid, any_value(exe) AS exe,
            sum(CASE WHEN operation = 'read' AND component_kind = 'ost' THEN bytes * share END) AS read_bytes,
            sum(CASE WHEN operation = 'write' AND component_kind = 'ost' THEN bytes * share END) AS write_bytes,
            sum(CASE WHEN component_kind <> 'ost' THEN count * share END) AS metadata
        FROM counted WHERE quality & {life} = 0 OR job_key NOT IN (FROM fine) GROUP BY job_key ORDER BY job_key"""
    return fetch_frame(snapshot.bare, sql, _TOTALS)


def _moved_bytes(snapshot: Snapshot, filesystem: str, period_ns: tuple[int, int]) -> float:
    """All bytes that were sampled in the period; of days that lie in it whole, by the lake's inventory."""
    low, high = period_ns
    try:
        kind = choices.traffic_kind(snapshot, {"filesystem": filesystem})
        selection = snapshot.selection(filesystem, kind, choices.TRAFFIC, 10**9, period_ns=period_ns)
    except DataUnavailable:
        return 0.0
    total = 0.0
    for group in selection.groups:
        if low <= group.first_ns and group.end_ns <= high:
            total += group.total
            continue
        inside = f"(least(start_ns + interval_ns, {high}) - greatest(start_ns, {low})) / interval_ns"
        ((part,),) = snapshot.bare.execute(
            f"SELECT sum(value * {inside}) FROM ({selection.scan((group.metric,), (group,))}) WHERE interval_ns > 0"
        ).fetchall()
        total += float(part or 0.0)
    return total
