"""Reads records of jobs from the lake: counts of servers, Darshan logs, owners of jobs; and capacity of targets."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from ioweather.core import choices
from ioweather.core.errors import DataUnavailable
from ioweather.core.facility import Facility
from ioweather.core.frames import Bools, Floats, Frame, Ints
from ioweather.core.tables import Quality, query_columns
from ioweather.core.units import DAY_NS, day_start_ns, names_of, utc_day
from ioweather.diagnosis.blame import Evidence, Party, Volume
from ioweather.diagnosis.job_loads import (
    AMOUNTS,
    Capacity,
    Degraded,
    JobLoads,
    concat_loads,
    estimate_capacity,
    intersect_spans,
    loads_of_logs,
    loads_of_servers,
)
from ioweather.diagnosis.similar_runs import read_health_events
from ioweather.facts.job_metrics import on_mounts
from ioweather.facts.runs import program_of
from ioweather.facts.system_activity import monitored_mounts
from ioweather.job_io.outcomes import Storm
from ioweather.lake.caches import read_record, write_record
from ioweather.lake.database import fetch_frame, literal
from ioweather.lake.lake import Snapshot, own_uids

FILES: Final = names_of("""
    log_digest record_id rank module standard_stream mount read_bytes write_bytes read_count write_count open_count
    stat_count sync_count first_open_ns last_close_ns first_read_ns last_read_ns first_write_ns last_write_ns
    consecutive_read_count consecutive_write_count osts
""")
# Least share of the metadata capacity, and least number of operations, of a storm. [ours]
_STORM_RATIO: Final = 0.3
_STORM_OPERATIONS: Final = 1000


@dataclass(frozen=True, eq=False)
class Records:
    """Jobs on one file system in some period.

    `evidence` is how each job is known, `work` the seconds of a target for each row of `loads`. `runs` are the logs
    (`job_io` with uid, exe and job id), `run_job` the job of each, `by_run` their loads by row of `runs`.
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

    def windows(self, row: int) -> tuple[Ints, Ints]:
        """[first, last) windows of a run's I/O in ns: times in its log, and in counts of servers if there are any.

        A log has only the first and last write of a file, which may be written rarely between.
        """
        mine = np.flatnonzero((self.by_run.job == row) & (self.by_run.target == len(self.components)))
        first = self.by_run.first_ns[mine]
        logged = first, np.maximum(self.by_run.last_ns[mine], first + 1)
        job = int(self.run_job[row])
        if self.evidence[job] != "servers":
            return logged
        own = np.flatnonzero(self.loads.job == job)
        both = intersect_spans(logged, (self.loads.first_ns[own], self.loads.last_ns[own]))
        return both if len(both[0]) else logged


def read_records(
    snapshot: Snapshot, filesystem: str, runs: Frame, files: Frame, windows: Sequence[tuple[int, int]]
) -> Records:
    """Return the records of `runs` with their `files`, and of counts of servers within the windows.

    The windows begin in one month. Names of other users are masked for the owner of the snapshot.
    """
    period = min(low for low, _ in windows), max(high for _, high in windows)
    whole = snapshot.whole
    components, capacity = read_capacity(whole, filesystem, period[0])
    files = _on_filesystem(files, whole, filesystem)
    rows = _server_rows(whole, filesystem, windows)
    components = components or rows.text("component").categories or ("all targets",)
    keys: dict[str, int] = {}
    run_job = np.array([keys.setdefault(str(i), len(keys)) for i in runs.ints("job_id").tolist()], np.int64)
    row_keys = _keys_of(rows)
    row_job = np.array([keys.setdefault(key, len(keys)) for key in row_keys], np.int64)
    counted = np.zeros(len(keys), np.bool_)
    counted[row_job] = True
    by_run = loads_of_logs(runs, files, components)
    logged = replace(by_run, job=run_job[by_run.job])
    loads = concat_loads([logged.take(~counted[logged.job]), loads_of_servers(rows, components, row_job)])
    if capacity is None:
        capacity = estimate_capacity(concat_loads([by_run, loads]), len(components))
    if not capacity.per_second["requests"][-1]:
        # The highest rate of files opened or inspected by a run.
        operations = runs.floats("file_count") / np.maximum(runs.floats("io_seconds"), 1.0)
        capacity.per_second["requests"][-1] = np.nanmax(operations, initial=0.0)
    capacity = replace(capacity, sick=tuple(_degraded_targets(whole, filesystem, components, period)))
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
    )


def _degraded_targets(
    snapshot: Snapshot, filesystem: str, components: Sequence[str], period_ns: tuple[int, int]
) -> Iterator[Degraded]:
    """Incidents of the period in which targets had less capacity."""
    events = read_health_events(snapshot, filesystem)
    for event in events.take(events.ints("start_ns") < period_ns[1]).records():
        details = json.loads(event["details"] or "{}")
        names = {event["component"], *details.get("through", [])}
        columns = np.array([column for column, name in enumerate(components) if name in names], np.int64)
        factor, end = event["strength_ratio"], event["end_ns"] or np.iinfo(np.int64).max
        if details.get("direction") in _DOES_LESS and len(columns) and end > period_ns[0] and factor is not None:
            yield Degraded(columns, event["start_ns"], end, max(1.0, float(factor)))


def read_files(snapshot: Snapshot, runs: Frame) -> Frame:
    """Files of the runs."""
    digests = tuple(str(digest) for digest in runs.text("log_digest").tolist())
    days = {utc_day(start) for start in runs.ints("start_ns").tolist()}
    return snapshot.frame("files", FILES, {"log_digest": digests}, days=days)


def _on_filesystem(files: Frame, snapshot: Snapshot, filesystem: str) -> Frame:
    """Files on the mounts of a file system, and files whose mount is not recorded."""
    mounts = monitored_mounts(files, snapshot.facility, filesystem)
    if mounts is None:
        return files
    places = files.text("mount")
    return files.take(on_mounts(places, mounts) | (places.codes < 0))  # logs may lack names


_JOB: Final = "job_key=text job_id=int64? uid=int64? exe=text?"
_COUNTED: Final = query_columns(f"""{_JOB} start_ns=int64 interval_ns=int64 component=text?
    read_bytes=float64? write_bytes=float64? requests=float64?""")
_VOLUMES: Final = query_columns(f"{_JOB} read_bytes=float64? write_bytes=float64? metadata_operations=float64?")
_STORMS: Final = query_columns(f"{_JOB} start_ns=int64 interval_ns=int64 requests=float64?")
_OWNER: Final = "job_key, any_value(job_id) AS job_id, any_value(uid) AS uid, any_value(exe) AS exe"


def _counts(snapshot: Snapshot, filesystem: str, windows: Sequence[tuple[int, int]]) -> str:
    """SQL of the counts of servers that overlap the windows.

    Counts over the whole life of a job are used only if there is nothing finer.
    """
    days = {utc_day(t) for low, high in windows for t in (max(low - DAY_NS, 0), *range(low, high, DAY_NS), high)}
    known = days & set(snapshot.pinned["job_operations"].days())
    rows = snapshot.rows("job_operations", {"filesystem": filesystem}, days=known)
    life = int(Quality.WHOLE_LIFE)
    return f"""WITH asked(low, high) AS (VALUES {", ".join(map(str, windows))}),
        every AS (SELECT * FROM ({rows}) j WHERE EXISTS (
            FROM asked WHERE j.start_ns < high AND j.start_ns + j.interval_ns > low)),
        fine AS (SELECT DISTINCT job_key FROM every WHERE quality & {life} = 0),
        counted AS (SELECT * FROM every WHERE quality & {life} = 0 OR job_key NOT IN (FROM fine))"""


def _server_rows(snapshot: Snapshot, filesystem: str, windows: Sequence[tuple[int, int]]) -> Frame:
    """Counts of servers by job, time and target; metadata targets together, with their operations as requests."""
    sql = f"""{_counts(snapshot, filesystem, windows)}
        SELECT {_OWNER}, start_ns, interval_ns, CASE WHEN component_kind = 'ost' THEN component END AS component,
            sum(bytes) FILTER (operation = 'read' AND component_kind = 'ost')::DOUBLE AS read_bytes,
            sum(bytes) FILTER (operation = 'write' AND component_kind = 'ost')::DOUBLE AS write_bytes,
            sum(count) FILTER (component_kind <> 'ost' OR operation IN ('read', 'write'))::DOUBLE AS requests
        FROM counted GROUP BY job_key, start_ns, interval_ns, CASE WHEN component_kind = 'ost' THEN component END
        ORDER BY ALL"""
    return fetch_frame(snapshot.bare, sql, _COUNTED)


# Kinds of incidents with reduced capacity.
_DOES_LESS: Final = ("slow", "capped")


def _parties(
    snapshot: Snapshot, keys: Sequence[str], runs: Frame, rows: Frame, row_keys: Sequence[str | None]
) -> tuple[Party, ...]:
    """Owners of the jobs `keys`: uid from logs and servers, user name and account from accounting.

    `row_keys` are the jobs of `rows`, which are counts of servers. If the snapshot has an owner, jobs of other users
    have no names.
    """
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
    jobs = snapshot.whole.frame("jobs", ("raw_job_id", "uid", "user", "account", "name"), {"raw_job_id": numbers})
    accounts = {str(row["raw_job_id"]): row for row in jobs.records()}
    owner = snapshot.owner
    own = own_uids(snapshot.bare) if owner is not None else set()
    found: list[Party] = []
    for key in keys:
        row = accounts.get(key, {})
        number = row.get("uid") if row.get("uid") is not None else uid.get(key)
        name = program.get(key) or row.get("name") or ""
        project = snapshot.facility.project_of(account=row.get("account"), uid=number, exe=name or None)
        job, whose = int(key) if key.isdigit() else None, project if row or number is not None else None
        party = Party(key, job, number, row.get("user"), whose, name or None)
        is_own = owner is None or party.user == owner.user or (party.user is None and party.uid in own)
        found.append(party if is_own else Party(f"hidden {len(found)}", hidden=True))
    return tuple(found)


def read_volumes(
    snapshot: Snapshot, filesystem: str, period_ns: tuple[int, int], runs: Frame
) -> tuple[tuple[Volume, ...], float | None]:
    """(volume of each job in the period, share of the file system's traffic that jobs explain, or None).

    From counts of servers, else from logs (`runs`, all on this file system), spread evenly over their time.
    """
    low, high = period_ns
    names = ("read_bytes", "write_bytes", "metadata_operations")
    inside = f"(least(start_ns + interval_ns, {high}) - greatest(start_ns, {low})) / nullif(interval_ns, 0)"
    sql = f"""{_counts(snapshot.whole, filesystem, [period_ns])},
        shared AS (SELECT *, coalesce({inside}, 1.0) AS share FROM counted)
        SELECT {_OWNER}, sum(bytes * share) FILTER (operation = 'read' AND component_kind = 'ost') AS read_bytes,
            sum(bytes * share) FILTER (operation = 'write' AND component_kind = 'ost') AS write_bytes,
            sum(count * share) FILTER (component_kind <> 'ost') AS metadata_operations
        FROM shared GROUP BY job_key ORDER BY job_key"""
    rows = fetch_frame(snapshot.bare, sql, _VOLUMES)
    start, end = runs.ints("start_ns"), np.maximum(runs.ints("end_ns"), runs.ints("start_ns") + 1)
    share = np.clip((np.minimum(end, high) - np.maximum(start, low)) / (end - start), 0.0, 1.0)
    row_keys, run_keys = _keys_of(rows), [str(job) for job in runs.ints("job_id").tolist()]
    counted = set(row_keys)
    amounts_of: dict[str, Floats] = {}
    by_row = np.stack([np.nan_to_num(rows.floats(name)) for name in names], axis=1)
    logged = ("read_bytes", "write_bytes", "file_count")
    by_run = np.stack([np.nan_to_num(runs.floats(name) * share) for name in logged], axis=1)
    only_logged = ((key, amounts) for key, amounts in zip(run_keys, by_run, strict=True) if key not in counted)
    for key, amounts in (*zip(row_keys, by_row, strict=True), *only_logged):
        amounts_of[key] = amounts_of.get(key, 0.0) + amounts
    volumes = []
    for key, party in zip(amounts_of, _parties(snapshot, list(amounts_of), runs, rows, row_keys), strict=True):
        read, written, operations = amounts_of[key].tolist()
        volumes.append(Volume(party, read, written, operations, "servers" if key in counted else "log"))
    moved = _moved_bytes(snapshot.whole, filesystem, period_ns)
    is_logged = ~np.array([key in counted for key in run_keys], np.bool_)
    known = float(by_row[:, :2].sum() + by_run[is_logged, :2].sum())
    return tuple(volumes), min(1.0, known / moved) if moved else None


def find_placed(facility: Facility, filesystem: str, runs: Frame) -> tuple[Bools, Bools]:
    """(whether each run counts on the file system, whether it does although its log names no mount with data).

    A run counts where it moved most bytes; beside other file systems, without I/O nowhere. Declared mounts are all.
    """
    others, known = {each.name for each in facility.filesystems} - {filesystem}, facility.filesystem(filesystem)
    mounts = runs.text("main_mount")
    found = [facility.filesystem_of(f"mount:{mount}") for mount in mounts.categories]
    here = [name == filesystem if known and known.mounts else name not in others for name in found]
    active = (runs.ints("file_count", missing=1) > 0) | (runs.floats("io_seconds") > 0)
    unplaced = (mounts.codes < 0) & active & bool(others)
    return np.array([*here, not others], np.bool_)[mounts.codes] | unplaced, unplaced


def find_storms(
    snapshot: Snapshot, filesystem: str, period_ns: tuple[int, int], runs: Frame
) -> list[tuple[Party, Storm]]:
    """Strongest interval of each job that used a large part of the metadata capacity, the strongest first.

    From counts of servers, else from logs (`runs`). Empty without samples of the metadata servers.
    """
    capacity = read_metadata_capacity(snapshot.whole, filesystem, period_ns[0])
    if capacity <= 0:
        return []
    sql = f"""{_counts(snapshot.whole, filesystem, [period_ns])}
        SELECT {_OWNER}, start_ns, interval_ns, sum(count)::DOUBLE AS requests
        FROM counted WHERE component_kind <> 'ost' AND interval_ns > 0 AND quality & {int(Quality.WHOLE_LIFE)} = 0
        GROUP BY job_key, start_ns, interval_ns
        HAVING requests >= {_STORM_OPERATIONS} AND requests * 1e9 / interval_ns >= {_STORM_RATIO * capacity}
        ORDER BY ALL"""
    rows = fetch_frame(snapshot.bare, sql, _STORMS)
    row_keys = _keys_of(rows)
    rates = rows.floats("requests") * 1e9 / np.maximum(rows.ints("interval_ns"), 1)
    ends = rows.ints("start_ns") + rows.ints("interval_ns")
    found = list(zip(row_keys, rates.tolist(), rows.ints("start_ns").tolist(), ends.tolist(), strict=True))
    if not found:
        opened = runs.floats("file_count")
        rates = opened / np.maximum(runs.floats("io_seconds"), 1.0)
        with np.errstate(invalid="ignore"):
            strong = np.flatnonzero((rates >= _STORM_RATIO * capacity) & (opened >= _STORM_OPERATIONS))
        columns = (runs.ints(name)[strong].tolist() for name in ("start_ns", "end_ns"))
        jobs = [str(job) for job in runs.ints("job_id")[strong].tolist()]
        found = list(zip(jobs, rates[strong].tolist(), *columns, strict=True))
    best: dict[str, tuple[float, int, int]] = {}
    for key, *interval in found:
        best[key] = max(best.get(key, (0.0, 0, 0)), tuple(interval))
    storms = []
    keys = sorted(best, key=lambda key: -best[key][0])
    for key, party in zip(keys, _parties(snapshot, keys, runs, rows, row_keys), strict=True):
        rate, start, end = best[key]
        storms.append((party, Storm(*party.names, start, end, rate, rate / capacity)))
    return storms


def _keys_of(rows: Frame) -> list[str]:
    """Key of each row's job: its number, else its name at the servers."""
    jobs, keys = rows.array("job_id").tolist(), rows.text("job_key").tolist()
    return [str(key if job is None else job) for job, key in zip(jobs, keys, strict=True)]


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


# Capacity: the highest rates of a few days of a calendar month, so that all questions about a month use the same. They
# are stored among the lake's records.

# Operations that move data; a metadata target does them for small files.
_DATA_METRICS: Final = {
    "read_bytes": ("read_bytes",),
    "write_bytes": ("write_bytes",),
    "requests": ("read_ops", "write_ops"),
}
_METADATA_KINDS: Final = ("mds", "mdt")
# More days show the same capacity. [ours]
_CAPACITY_DAYS: Final = 3
_PEAK_QUANTILE: Final = 0.999
_PEER_QUANTILE: Final = 0.9
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
        _, peaks = _find_peaks(snapshot, filesystem, kind, {"all": metrics}, moment_ns, together=True)
    except DataUnavailable:
        return 0.0
    return float(peaks.max(initial=0.0))


def _find_peaks(
    snapshot: Snapshot,
    filesystem: str,
    kind: str,
    amounts: Mapping[str, Sequence[str]],
    moment_ns: int,
    *,
    together: bool = False,
) -> tuple[tuple[str, ...], Floats]:
    """(components, highest rates by amount and component) in the month, or in the nearest sampled month.

    `together`: of all components in sum.
    """
    metrics = sorted({metric for several in amounts.values() for metric in several})
    groups = [
        g for g in snapshot.series() if (g.filesystem, g.component_kind) == (filesystem, kind) and g.metric in metrics
    ]
    if not groups:
        raise DataUnavailable(f"no samples of {filesystem}")
    month = utc_day(moment_ns)[:7]
    nearest = min(groups, key=lambda g: (g.day[:7] != month, abs(g.first_ns - moment_ns))).day[:7]
    days = sorted({g.day for g in groups if g.day[:7] == nearest})
    chosen = {days[round(i)] for i in np.linspace(0, len(days) - 1, min(len(days), _CAPACITY_DAYS)).tolist()}
    step = max(1, min(group.interval_ns for group in groups if group.interval_ns > 0))
    near = [(start, start + DAY_NS) for start in map(day_start_ns, chosen)]
    selection = snapshot.selection(filesystem, kind, metrics, step, excluded_quality=_EXCLUDED, windows=near)
    selected = tuple(group for group in selection.groups if group.day in chosen)
    selection = replace(selection, groups=selected, windows=())
    stored = snapshot.pinned["series"].days()
    files = sorted(uri.rsplit("/", 1)[1] for day in chosen for uri in stored.get(day, []))
    place = f"peaks-{nearest}-{_digest([filesystem, kind, sorted(amounts)])[:12]}"
    key = _digest([metrics, files])
    found = read_record(snapshot.root, place, key)
    if found is None:
        sums = ", ".join(
            f"sum(value * 1e9 / interval_ns) FILTER (metric IN ({', '.join(map(literal, several))})) AS a{number}"
            for number, several in enumerate(amounts.values())
        )
        peaks = ", ".join(f"quantile_disc(a{number}, {_PEAK_QUANTILE})" for number in range(len(amounts)))
        rows = snapshot.bare.execute(f"""WITH rates AS (SELECT {"''" if together else "component"} AS component, {sums}
                FROM ({selection.scan(metrics)}) WHERE interval_ns > 0 GROUP BY 1, start_ns)
            SELECT component, {peaks} FROM rates GROUP BY component ORDER BY component""").fetchall()
        table = np.array([row[1:] for row in rows], np.float64).reshape(len(rows), len(amounts)).T
        found = {"components": [row[0] for row in rows], "peaks": np.nan_to_num(table).tolist()}
        write_record(snapshot.root, place, key, found)
    names = tuple(map(str, found["components"]))
    return names, np.asarray(found["peaks"], np.float64).reshape(len(amounts), len(names))


def _digest(key: Any) -> str:
    return hashlib.sha256(json.dumps(key).encode()).hexdigest()[:32]
