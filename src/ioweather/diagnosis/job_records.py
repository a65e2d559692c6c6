"""Reads records of jobs from the lake: counts of servers, Darshan logs, owners of jobs; and capacity of targets."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

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
from ioweather.diagnosis.blame import Evidence, MetadataStorm, Party, Volume
from ioweather.diagnosis.job_loads import (
    AMOUNTS,
    Capacity,
    Degraded,
    JobLoads,
    Samples,
    align_to_logs,
    capacity_of_loads,
    concat_loads,
    intersect_spans,
    loads_of_logs,
    loads_of_servers,
    merge_windows,
    overlapping_stretches,
    place_in_samples,
)
from ioweather.diagnosis.similar_runs import health_events
from ioweather.facts.job_metrics import on_mounts
from ioweather.facts.runs import program_of
from ioweather.facts.system_activity import monitored_mounts
from ioweather.lake.caches import LakeRecords
from ioweather.lake.database import fetch_frame, literal
from ioweather.lake.inventory import seal_of
from ioweather.lake.snapshot import Snapshot

FILES: Final = names_of("""
    log_digest record_id rank module standard_stream mount read_bytes write_bytes read_count write_count open_count
    stat_count sync_count first_open_ns last_close_ns first_read_ns last_read_ns first_write_ns last_write_ns
    consecutive_read_count consecutive_write_count osts
""")
# A run with a larger share of metadata time is also at work while targets are idle. [ours]
_IN_METADATA: Final = 0.5
# Competing jobs are placed by samples within this time of the run. [ours]
_PLACED_WITHIN_NS: Final = 3 * HOUR_NS
# Counts in intervals longer than so many samples are coarse. [ours]
_COARSE: Final = 3
# Least share of the metadata capacity, and least number of operations, of a storm. [ours]
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
    """Jobs on one file system in some period.

    `evidence` is how each job is known, `work` the seconds of a target for each entry of `loads`. `runs` are the logs
    (`job_io` with uid, exe and job id), `run_job` the job of each, `by_run` their loads by row of `runs`. `spans` are
    loads in the whole intervals of the counts: a slowed job was busy in them for longer than at its usual pace.
    """

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
        """`work` of the bytes alone."""
        return self.capacity.work(self.loads, of_bytes=True)

    @property
    def shape(self) -> tuple[int, int]:
        """(jobs, targets with metadata)."""
        return len(self.parties), len(self.components) + 1

    def windows(self, row: int) -> tuple[Ints, Ints]:
        """[first, last) of a run's I/O: times in its log, and in counts of servers if there are any.

        A log has only the first and last write of a file, which may be written rarely between.
        """
        mine = self.by_run.stretches_of(row)
        logged = self.by_run.first_ns[mine], np.maximum(self.by_run.last_ns[mine], self.by_run.first_ns[mine] + 1)
        job = int(self.run_job[row])
        if not self.tells_when(row) or not len(mine):
            return logged
        own = self.spans.stretches_of(job)
        both = intersect_spans(logged, (self.spans.first_ns[own], self.spans.last_ns[own]))
        return both if len(both[0]) else logged

    @cached_property
    def _in_data(self) -> Bools:
        """Runs with most of their I/O time in data; targets do not show when others are at work."""
        return np.asarray(np.nan_to_num(self.runs.floats("metadata_ratio")) <= _IN_METADATA)

    def tells_when(self, row: int) -> bool:
        """Whether `loads` show when a run did I/O better than its log: from counts of servers or from its targets."""
        by_servers = self.evidence[int(self.run_job[row])] == "servers"
        return by_servers or (self.is_placed and bool(self._in_data[row]))

    def is_coarse(self, step_ns: int) -> bool:
        """Whether jobs are known only from logs, or from counts in much longer steps."""
        counted = np.array([each == "servers" for each in self.evidence], np.bool_)[self.loads.job]
        lengths = (self.loads.last_ns - self.loads.first_ns)[counted]
        return not len(lengths) or bool(np.median(lengths) > _COARSE * step_ns)

    def reached(self, low: int, high: int) -> tuple[int, int]:
        """Time of all jobs at work in [low, high), within the limit of placement."""
        near = overlapping_stretches(self.loads, (np.array([low]), np.array([high])))
        first, last = self.loads.first_ns[near].min(initial=low), self.loads.last_ns[near].max(initial=high)
        return max(int(first), low - _PLACED_WITHIN_NS), min(int(last) + 1, high + _PLACED_WITHIN_NS)

    def placed(self, row: int, samples: Samples | None) -> Records:
        """Records with the loads of competing jobs at the times that samples of the targets show."""
        if samples is None or not len(samples.start_ns) or not self.is_coarse(int(np.median(samples.length_ns))):
            return self
        # Logs separate the runs of one job.
        number = self.run_job if self.has_servers else np.arange(self.runs.rows)
        loads, logs = self.loads if self.has_servers else self.by_run, self.by_run.renumber(number)
        first, last = windows = self.windows(row)
        low, high = self.reached(int(first.min()), int(last.max()))
        samples = samples.touching(np.array([low]), np.array([high]))
        near = overlapping_stretches(loads, windows)
        near = overlapping_stretches(loads, (loads.first_ns[near], loads.last_ns[near]))
        count = int(loads.job.max(initial=-1)) + 1
        moving = np.bincount(number, weights=~self._in_data, minlength=count)[loads.job[near]] == 0
        seconds = _io_seconds(self.runs, number, count)
        found = place_in_samples(loads, near[moving], samples, self.capacity, seconds)
        loads = concat_loads([align_to_logs(found, logs, seconds), loads.take(near[~moving])])
        loads = loads if self.has_servers else loads.renumber(self.run_job)
        return replace(self, loads=loads, work=self.capacity.work(loads), spans=loads, is_placed=True)


def _io_seconds(runs: Frame, number: Ints, count: int) -> Floats:
    """I/O seconds by number."""
    return np.bincount(number, weights=np.nan_to_num(runs.floats("io_seconds")), minlength=count).astype(np.float64)


def read_records(
    snapshot: Snapshot, filesystem: str, runs: Frame, files: Frame, windows: Sequence[tuple[int, int]]
) -> Records:
    """Return the records of `runs` with their `files`, and of counts of servers within the windows.

    The windows begin in one month.
    """
    period = min(low for low, _ in windows), max(high for _, high in windows)
    components, capacity = read_capacity(snapshot, filesystem, period[0])
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
    by_log = by_run.select_jobs(~counted[run_job]) if len(run_job) else by_run
    counts = loads_of_servers(rows, components, row_job)
    by_servers = align_to_logs(counts, by_run.renumber(run_job), _io_seconds(runs, run_job, len(keys)))
    loads, spans = (concat_loads([by_log.renumber(run_job), each]) for each in (by_servers, counts))
    is_sampled = capacity is not None
    if capacity is None:
        capacity = capacity_of_loads(concat_loads([by_run, loads]), len(components))
    if not is_sampled or not capacity.per_second["requests"][-1]:
        capacity = capacity.with_metadata(_metadata_by_logs(snapshot, period[0]))
    capacity = replace(capacity, sick=_sick_targets(snapshot, filesystem, components, period))
    return Records(
        filesystem,
        components,
        capacity,
        _parties(snapshot, list(keys), runs, rows, row_keys),
        tuple("servers" if known else "log" for known in counted.tolist()),
        loads,
        capacity.work(loads),
        runs,
        run_job,
        by_run,
        bool(rows.rows),
        is_sampled,
        spans,
    )


_SAMPLED: Final = specs_of("""
    start_ns=int64 interval_ns=int64 component=text read_bytes=float64? write_bytes=float64? requests=float64?
""")


def read_files(snapshot: Snapshot, runs: Frame) -> Frame:
    """Files of the runs."""
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
    """Counts of servers by job, time and target; metadata targets together.

    Counts over the whole life of a job are used only if there is nothing finer.
    """
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


# Kinds of incidents with reduced capacity.
_DOES_LESS: Final = ("slow", "capped")


def _sick_targets(
    snapshot: Snapshot, filesystem: str, components: Sequence[str], period_ns: tuple[int, int]
) -> tuple[Degraded, ...]:
    """Degraded targets in the period."""
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
            found.append(Degraded(columns, event["start_ns"], end, max(1.0, float(factor))))
    return tuple(found)


def _metadata_by_logs(snapshot: Snapshot, moment_ns: int) -> float:
    """Highest rate of files opened or inspected by a run of that month."""
    days = {day for day in snapshot.pinned["job_io"].days() if day[:7] == utc_day(moment_ns)[:7]}
    rows = snapshot.rows("job_io", {"io_seconds >": 0.0}, days=days)
    ((most,),) = snapshot.bare.execute(f"SELECT max((file_count + stat_count) / io_seconds) FROM ({rows})").fetchall()
    return float(most or 0.0)


def _parties(
    snapshot: Snapshot, keys: list[str], runs: Frame, rows: Frame, row_keys: Sequence[str | None]
) -> tuple[Party, ...]:
    """Owners of jobs: uid from logs and servers, user name and account from accounting."""
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


def read_samples(snapshot: Snapshot, records: Records, runs: Ints, *, most_rows: int | None = None) -> Samples | None:
    """Samples of each target during the I/O of the runs (rows of the records), or of all competing jobs to place them.

    None if nothing was sampled or more than `most_rows` would be read.
    """
    steps = [g.interval_ns for g in snapshot.series() if g.filesystem == records.filesystem and g.interval_ns > 0]
    logged = records.by_run
    mine = np.flatnonzero(np.isin(logged.job, runs))
    if not records.is_sampled or not len(mine):
        return None
    windows = list(zip(logged.first_ns[mine].tolist(), (logged.last_ns[mine] + 1).tolist(), strict=True))
    if steps and records.is_coarse(min(steps)):
        windows = [records.reached(*window) for window in windows]
    windows, metrics = merge_windows(windows), (*choices.TRAFFIC, *REQUESTS)
    try:
        kind = choices.traffic_kind(snapshot, {"filesystem": records.filesystem})
        selection = snapshot.selection(
            records.filesystem, kind, metrics, 10**9, windows=windows, excluded_quality=_EXCLUDED
        )
    except DataUnavailable:
        return None
    if most_rows is not None and sum(group.rows for group in selection.groups) > most_rows:
        return None
    rows = fetch_frame(
        snapshot.bare,
        f"""WITH asked(low, high) AS (VALUES {", ".join(map(str, windows))})
        SELECT start_ns, max(interval_ns) AS interval_ns, component,
            sum(value) FILTER (metric = 'read_bytes') AS read_bytes,
            sum(value) FILTER (metric = 'write_bytes') AS write_bytes,
            sum(value) FILTER (metric IN ('read_ops', 'write_ops')) AS requests
        FROM ({selection.scan(metrics)}) s WHERE interval_ns > 0 AND EXISTS (
            FROM asked WHERE s.start_ns < high AND s.start_ns + s.interval_ns > low)
        GROUP BY start_ns, component ORDER BY start_ns""",
        _SAMPLED,
    )
    place = {name: column for column, name in enumerate(records.components)}
    text = rows.text("component")
    column = np.array([place.get(name, -1) for name in text.categories], np.int64)[text.codes]
    rows, column = rows.take(column >= 0), column[column >= 0]
    start, row = np.unique(rows.ints("start_ns"), return_inverse=True)
    end = rows.ints("start_ns") + rows.ints("interval_ns")
    amounts = {name: np.nan_to_num(rows.floats(name)) for name in AMOUNTS}
    work = np.full((len(start), len(place)), np.nan)
    work[row, column] = records.capacity.work_of_amounts(column, amounts, rows.ints("start_ns"), end)
    last = np.zeros(len(start), np.int64)
    np.maximum.at(last, row, end)
    return Samples(start, last, work)


def read_volumes(
    snapshot: Snapshot, filesystem: str, period_ns: tuple[int, int], runs: Frame
) -> tuple[tuple[Volume, ...], float | None]:
    """(volume of each job in the period, its share of the storage's traffic or None).

    From counts of servers, else from logs (`runs`), spread evenly over their time.
    """
    low, high = period_ns
    rows = _server_totals(snapshot, filesystem, period_ns)
    amounts_of: dict[str, list[float]] = {}
    row_keys = _keys_of(rows)
    for key, *amounts in zip(
        row_keys, *(np.nan_to_num(rows.floats(n)).tolist() for n in (*AMOUNTS[:2], "metadata")), strict=True
    ):
        amounts_of[key] = [a + b for a, b in zip(amounts_of.get(key, [0.0] * 3), amounts, strict=True)]
    counted = set(amounts_of)
    start, end = runs.ints("start_ns"), np.maximum(runs.ints("end_ns"), runs.ints("start_ns") + 1)
    share = np.clip((np.minimum(end, high) - np.maximum(start, low)) / (end - start), 0.0, 1.0)
    names = ("read_bytes", "write_bytes", "file_count")
    columns = (np.nan_to_num(runs.floats(name) * share).tolist() for name in names)
    for key, *amounts in zip(map(str, runs.ints("job_id").tolist()), *columns, strict=True):
        if key not in counted:
            amounts_of[key] = [a + b for a, b in zip(amounts_of.get(key, [0.0] * 3), amounts, strict=True)]
    parties = _parties(snapshot, list(amounts_of), runs, rows, row_keys)
    volumes = []
    for party in parties:
        read_bytes, write_bytes, metadata_operations = amounts_of[party.key]
        known_by = "servers" if party.key in counted else "log"
        volumes.append(Volume(party, read_bytes, write_bytes, metadata_operations, known_by))
    found = tuple(volumes)
    moved = _moved_bytes(snapshot, filesystem, period_ns)
    known = sum(volume.read_bytes + volume.write_bytes for volume in found)
    return found, min(1.0, known / moved) if moved else None


def find_storms(
    snapshot: Snapshot, filesystem: str, period_ns: tuple[int, int], runs: Frame
) -> tuple[MetadataStorm, ...]:
    """Strongest interval of each job that used a large part of the metadata capacity.

    From counts of servers, else from logs (`runs`). Empty without samples of the metadata servers.
    """
    capacity = read_metadata_capacity(snapshot, filesystem, period_ns[0])
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
    """Key of each row's job: its number, else its name at the servers."""
    jobs, keys = rows.array("job_id").tolist(), rows.text("job_key").tolist()
    return [str(key if job is None else job) for job, key in zip(jobs, keys, strict=True)]


def _rows_until(snapshot: Snapshot, filesystem: str, period_ns: tuple[int, int]) -> str:
    """SQL of the counts of servers on the days of the period and the day before."""
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
    """Sampled bytes in the period; whole days from the inventory of the lake."""
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


# Capacity: the highest rates of a few days of a calendar month, so that all questions about a month use the same. The
# highest rates of sealed days are stored among the lake's records.

# Operations that move data; a metadata target does them for small files.
REQUESTS: Final = ("read_ops", "write_ops")
_DATA_METRICS: Final = {"read_bytes": ("read_bytes",), "write_bytes": ("write_bytes",), "requests": REQUESTS}
_METADATA_KINDS: Final = ("mds", "mdt")
# More days show the same capacity. [ours]
_CAPACITY_DAYS: Final = 3
_PEAK_QUANTILE: Final = 0.999
_PEER_QUANTILE: Final = 0.9
# Capacity in one direction is at least this share of the other, however little was requested. [ours]
_OTHER_DIRECTION: Final = 0.5
_ALL: Final = "all"
_EXCLUDED: Final = int(Quality.OVER_LIMIT | Quality.RESET)


def read_capacity(snapshot: Snapshot, filesystem: str, moment_ns: int) -> tuple[tuple[str, ...], Capacity | None]:
    """(components of the file system, their capacity at that time); None if nothing was sampled."""
    try:
        kind = choices.traffic_kind(snapshot, {"filesystem": filesystem})
        components, peaks = _find_peaks(snapshot, filesystem, kind, _DATA_METRICS, moment_ns)
    except DataUnavailable:
        return (), None
    # A target with less to do than its peers can do as much as they.
    peers = np.quantile(peaks, _PEER_QUANTILE, axis=1, keepdims=True) if peaks.size else np.zeros((len(AMOUNTS), 1))
    peaks = np.maximum(peaks, peers)
    peaks[:2] = np.maximum(peaks[:2], _OTHER_DIRECTION * peaks[1::-1])
    metadata = read_metadata_capacity(snapshot, filesystem, moment_ns)
    per_second = {name: np.append(peaks[i], metadata if name == "requests" else 0.0) for i, name in enumerate(AMOUNTS)}
    return components, Capacity(per_second)


def read_metadata_capacity(snapshot: Snapshot, filesystem: str, moment_ns: int) -> float:
    """Most operations per second of the metadata targets; 0 if not sampled."""
    groups = [g for g in snapshot.series() if g.filesystem == filesystem and g.metric == "open_ops"]
    kind = next((kind for kind in _METADATA_KINDS if any(kind == g.component_kind for g in groups)), None)
    if kind is None:
        return 0.0
    metrics = sorted({g.metric for g in snapshot.series() if g.component_kind == kind and g.metric.endswith("_ops")})
    try:
        _, peaks = _find_peaks(snapshot, filesystem, kind, {_ALL: tuple(metrics)}, moment_ns)
    except DataUnavailable:
        return 0.0
    return float(peaks.max(initial=0.0))


def _find_peaks(
    snapshot: Snapshot, filesystem: str, kind: str, amounts: Mapping[str, Sequence[str]], moment_ns: int
) -> tuple[tuple[str, ...], Floats]:
    """(components, highest rates by amount and component) in the month, or in the nearest sampled month.

    The amount `all` is the sum over components.
    """
    metrics = {metric for several in amounts.values() for metric in several}
    groups = [
        g for g in snapshot.series() if g.filesystem == filesystem and g.component_kind == kind and g.metric in metrics
    ]
    if not groups:
        raise DataUnavailable(f"no samples of {filesystem}")
    month = utc_day(moment_ns)[:7]
    nearest = min(groups, key=lambda g: (g.day[:7] != month, abs(g.first_ns - moment_ns))).day[:7]
    days = sorted({g.day for g in groups if g.day[:7] == nearest})
    positions = np.linspace(0, len(days) - 1, min(len(days), _CAPACITY_DAYS)).tolist()
    chosen = sorted({days[round(i)] for i in positions})
    step = max(1, min(group.interval_ns for group in groups if group.interval_ns > 0))
    found = [_highest_rates(snapshot, filesystem, kind, amounts, day, step) for day in chosen]
    components = tuple(sorted({str(name) for each in found for name in each["components"].tolist()}))
    peaks = np.zeros((len(amounts), len(components)))
    for amount in range(len(amounts)):
        for column, name in enumerate(components):
            days_of = [(each, place) for each in found for place in np.flatnonzero(each["components"] == name).tolist()]
            count = sum(int(each["counts"][amount, place]) for each, place in days_of)
            highest = np.sort(np.nan_to_num(np.concatenate([each["rates"][amount, place] for each, place in days_of])))
            rank = int(count * (1.0 - _PEAK_QUANTILE))
            peaks[amount, column] = highest[::-1][min(rank, len(highest) - 1)]
    return components, peaks


def _highest_rates(
    snapshot: Snapshot, filesystem: str, kind: str, amounts: Mapping[str, Sequence[str]], day: str, step_ns: int
) -> Mapping[str, Any]:
    """`components` of a day, and by amount and component the number of rates (`counts`) and the highest (`rates`).

    As many rates as the quantile over `_CAPACITY_DAYS` days may need.
    """
    metrics = sorted({metric for several in amounts.values() for metric in several})
    selection = snapshot.selection(filesystem, kind, metrics, step_ns, excluded_quality=_EXCLUDED)
    selection = replace(selection, groups=tuple(group for group in selection.groups if group.day == day))
    most = int(_CAPACITY_DAYS * DAY_NS / step_ns * (1.0 - _PEAK_QUANTILE)) + 1
    files = snapshot.pinned["series"].days().get(day, [])
    groups = sorted((g.source, g.system, g.metric, g.selection) for g in selection.groups)
    place = f"peaks-{day}-{_digest([filesystem, kind, list(amounts.items())])[:12]}"
    key = _digest([most, _EXCLUDED, groups, [uri.rsplit("/", 1)[1] for uri in files]])
    records = LakeRecords(snapshot.root)
    names = ("components", "counts", "rates")
    cached = records.get(place, key, lambda stored: {name: stored[name] for name in names})
    if cached is not None:
        return cached
    sums = ", ".join(
        f"sum(CASE WHEN metric IN ({', '.join(map(literal, several))}) THEN value * 1e9 / interval_ns END) AS a{number}"
        for number, several in enumerate(amounts.values())
    )
    columns = ", ".join(f"count(a{number}), max(a{number}, {most})" for number in range(len(amounts)))
    component = "''" if _ALL in amounts else "component"
    rows = snapshot.bare.execute(f"""WITH rates AS (SELECT {component} AS component, {sums}
            FROM ({selection.scan(metrics)}) WHERE interval_ns > 0 GROUP BY 1, start_ns)
        SELECT component, {columns} FROM rates GROUP BY component ORDER BY component""").fetchall()
    rates = np.full((len(amounts), len(rows), most), np.nan)
    for column, row in enumerate(rows):
        for amount, highest in enumerate(row[2::2]):
            rates[amount, column, : len(highest or ())] = highest or ()
    counts = np.array([row[1::2] for row in rows], np.int64).reshape(len(rows), len(amounts)).T
    found = {"components": np.array([row[0] for row in rows], np.str_), "counts": counts, "rates": rates}
    if seal_of(snapshot.root, day, files) is not None:
        records.put(place, key, found)
    return found


def _digest(key: Any) -> str:
    return hashlib.sha256(json.dumps(key).encode()).hexdigest()[:32]
