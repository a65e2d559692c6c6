"""Reads similar runs from the lake, and the state of the system during them.

The state is the same for the verdict on one run and for the score of all. Of samples and responses only the time
windows of the runs are read, in one query each, so that a year of them costs no more than a week.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ioweather.core import choices
from ioweather.core.contracts import Params
from ioweather.core.errors import DataUnavailable
from ioweather.core.facility import Facility
from ioweather.core.frames import Bools, Cells, Floats, Frame, Ints, Text
from ioweather.core.tables import EVENT_COLUMNS, concat
from ioweather.core.units import DAY_NS, day_start_ns, names_of, utc_day
from ioweather.diagnosis.blame import usual_times
from ioweather.diagnosis.comparison_pool import (
    MOST_SIMILAR,
    REACH_DAYS,
    make_pool,
    select_runs,
    slowdowns,
    sync_counts,
)
from ioweather.diagnosis.verdict import Comparison
from ioweather.facts import run_targets
from ioweather.facts.accounting import match_jobs
from ioweather.facts.job_metrics import SPAN_COLUMNS, FileRecords, file_records, io_spans, job_io, on_mounts, rows_of
from ioweather.facts.runs import JOB_COLUMNS, find_similar_runs, program_names
from ioweather.facts.system_activity import (
    OPERATIONS,
    Servers,
    choose_step,
    io_ends,
    io_steps,
    job_system,
    merged_windows,
    monitored_mounts,
)
from ioweather.facts.system_grid import MIN_COVERAGE, Steps
from ioweather.job_io.outcomes import unhealthy_of
from ioweather.job_io.view import JobView, find_named_log
from ioweather.lake import grid
from ioweather.lake.lake import Snapshot, own_uids
from ioweather.topics.source import DataSource

FILE_COLUMNS: Final = (*SPAN_COLUMNS, "osts", "read_seconds", "write_seconds", "meta_seconds", "sync_count")
# Columns of `job_io` that verdicts use, of a hundred.
_METRICS: Final = names_of("""
    log_digest start_ns end_ns nprocs run_seconds io_seconds bytes_per_s read_bytes write_bytes read_count write_count
    fs_read_count fs_write_count file_count io_rank_count seek_count collective_count independent_count first_read_ns
    last_read_ns first_write_ns last_write_ns metadata_ratio sequential_ratio main_mount
""")
_RUN_COLUMNS: Final = ("log_digest", "job_id", "uid", "exe", "nprocs", "start_ns", "end_ns")
_ON_TARGETS: Final = (*choices.TRAFFIC, *OPERATIONS, *run_targets.BUSY)


@dataclass(frozen=True, eq=False)
class SimilarRuns:
    """A run, similar runs, and runs of other groups.

    `runs` are `job_io` rows with uid, exe and job id, the run first; `group` is the group of each (0: similar), `files`
    their files. `all_runs` are all other runs of that time. `slowdown` is the run's I/O time over the median of the
    similar runs.
    """

    view: JobView
    runs: Frame
    group: Ints
    files: Frame
    all_runs: Frame
    slowdown: float


def similar_runs(view: JobView, snapshot: Snapshot, as_of_ns: int | None = None) -> SimilarRuns:
    """Return the runs to compare the view's main run with; with `as_of_ns` only those that had ended by then."""
    own = view.applications.take([view.main_run])
    start = int(own.array("start_ns")[0])
    digest = str(own.text("log_digest").tolist()[0])
    mine = _join(own, view.job_io.take([view.main_run]).select(_METRICS))
    runs, all_runs = mine, mine.take(slice(0, 0))
    # Days around the run first: if they have enough runs, a year's files need not be opened.
    known = set(snapshot.pinned["job_io"].days())
    for reach in REACH_DAYS:
        days = known if reach is None else {utc_day(start + k * DAY_NS) for k in range(-reach, reach + 1)} & known
        all_runs = read_runs(snapshot, digest, days)
        all_runs = all_runs.take(_on_same_filesystem(mine, all_runs, snapshot.facility))
        if as_of_ns is not None:
            all_runs = all_runs.take(all_runs.ints("end_ns") <= as_of_ns)
        runs = concat([mine, all_runs]) if all_runs.rows else mine
        if len(find_similar_runs(runs, 0)) > MOST_SIMILAR or days == known:
            break
    ((slowdown,), _) = slowdowns(runs, np.zeros(1, np.int64), snapshot.facility)
    rows, group = select_runs(runs, 0)
    runs = runs.take(rows)
    files = _rows_of_logs("files", view.files.select(FILE_COLUMNS), runs, snapshot)
    elsewhere = _is_elsewhere(runs, files, snapshot.facility)
    if elsewhere.any():
        runs = _recount_on_main_filesystem(view, runs, files.text("log_digest")[elsewhere], snapshot)
        files = files.take(~elsewhere)
    runs = runs.with_columns(sync_count=sync_counts(runs, files))
    return SimilarRuns(view, runs, group, files, all_runs, float(slowdown))


def _is_elsewhere(runs: Frame, files: Frame, facility: Facility) -> Bools:
    """Whether each file is on another file system than most bytes of its run.

    A Python program imports hundreds of files from a local disk: these say nothing of the file system it works on.
    """
    numbers: dict[str, int] = {}

    def systems(mounts: Text) -> Ints:
        known = ((facility.filesystem_of_path(mount), mount) for mount in mounts.categories)
        found = [mount if system is None else system.name for system, mount in known]
        return np.array([*(numbers.setdefault(each, len(numbers)) for each in found), -1], np.int64)[mounts.codes]

    main, run = systems(runs.text("main_mount")), rows_of(runs.text("log_digest"), files.text("log_digest"))
    return np.asarray((run >= 0) & (main[run] >= 0) & (systems(files.text("mount")) != main[run]))


def _recount_on_main_filesystem(view: JobView, runs: Frame, mixed: Text, snapshot: Snapshot) -> Frame:
    """Compute the metrics of runs with logs in `mixed` again, from files on the main file system alone."""
    chosen = runs.take(np.isin(np.arange(runs.rows), rows_of(runs.text("log_digest"), mixed)))
    applications, files = (
        _rows_of_logs(table, own, chosen, snapshot)
        for table, own in (("applications", view.applications), ("files", view.files))
    )
    files = files.take(~_is_elsewhere(chosen, files, snapshot.facility))
    again, rows = job_io(applications, files), rows_of(runs.text("log_digest"), applications.text("log_digest"))
    columns: dict[str, NDArray[Any]] = {}
    for name in _METRICS:
        if not isinstance(runs[name], Text):
            columns[name] = np.ma.array(runs.array(name))
            columns[name][rows] = again.array(name)
    return runs.with_columns(**columns)


def read_runs(snapshot: Snapshot, except_digest: str, days: set[str]) -> Frame:
    """All runs of these days except one log; cached, since a verdict reads many days and then some of them."""
    read, runs = snapshot.memory.get("runs", (set(), Frame({})))
    if not read or not days <= read:
        applications = snapshot.frame("applications", _RUN_COLUMNS, days=days)
        metrics = snapshot.frame("job_io", _METRICS, days=days)
        place = rows_of(applications.text("log_digest"), metrics.text("log_digest"))
        runs = _join(applications.take(place[place >= 0]), metrics.take(place >= 0))
        snapshot.memory["runs"] = days, runs
    wanted = np.array([day_start_ns(day) // DAY_NS for day in days], np.int64)
    is_wanted = np.isin(runs.ints("start_ns") // DAY_NS, wanted) & ~runs.text("log_digest").equals(except_digest)
    found: Frame = runs.take(is_wanted)
    return found


def _join(applications: Frame, job_io: Frame) -> Frame:
    """`job_io` with the job id, user and program of each run; rows are in the same order."""
    return job_io.with_columns(**{name: applications[name] for name in ("job_id", "uid", "exe")})


def _on_same_filesystem(mine: Frame, runs: Frame, facility: Facility) -> Bools:
    """Whether each run is on the file system of `mine`, or on none: slowness elsewhere is no evidence."""
    mounts = runs.text("main_mount")
    own = mine.text("main_mount").tolist()[0]
    here = facility.filesystem_of_path(own) if own else None
    same = [here is None or facility.filesystem_of_path(mount) == here for mount in mounts.categories]
    return np.array([*same, True], np.bool_)[mounts.codes]


def _rows_of_logs(table: str, own: Frame, runs: Frame, snapshot: Snapshot) -> Frame:
    """Read the rows of the runs' logs in `table`; `own` are those of a log that may be outside the lake."""
    digests = tuple(str(d) for d in runs.text("log_digest").tolist())
    days = {utc_day(int(start)) for start in runs.array("start_ns")}
    stored = snapshot.frame(table, tuple(own), {"log_digest": digests}, days=days)
    is_new = rows_of(stored.text("log_digest"), own.text("log_digest")) < 0
    return concat([stored, own.take(is_new)]) if is_new.any() else stored


def io_bounds_ns(runs: Frame) -> tuple[Ints, Ints]:
    """First and last moment of each run's I/O; the run's own start or end where the log has none."""
    first, last = (
        np.ma.stack([np.ma.masked_array(runs.array(f"{end}_{verb}_ns")) for verb in ("read", "write")])
        for end in ("first", "last")
    )
    start, end = first.min(axis=0).filled(runs.array("start_ns")), last.max(axis=0).filled(runs.array("end_ns"))
    return np.asarray(start, np.int64), np.asarray(end, np.int64)


def read_conditions(similar: SimilarRuns, snapshot: Snapshot, *, filesystem: str | None = None) -> Comparison:
    """Return the runs with the state of the system (default: of the file system with most of the run's bytes)."""
    runs, group = similar.runs, similar.group
    rows = np.flatnonzero(group == 0)
    try:
        servers = _select_servers(similar.view, similar.view.main_run, snapshot, filesystem)
        state, found = read_system_states(snapshot, runs, similar.files, servers, group == 0)
    except DataUnavailable:
        if filesystem is not None:
            raise
        return Comparison(runs.take(rows), None, make_pool(runs, None, group), "", 0.0, similar.slowdown)
    return Comparison(
        runs=runs.take(rows),
        system=state.take(rows),
        pool=make_pool(runs, state, group),
        filesystem=servers.filesystem,
        step_seconds=servers.step_ns / 1e9,
        slowdown=similar.slowdown,
        **found,
        node_slowdown=slowdown_on_nodes(snapshot, similar),
    )


def _select_servers(view: JobView, row: int, snapshot: Snapshot, filesystem: str | None) -> Servers:
    """Choose the file system with most bytes of run `row` if its servers were sampled, else the busiest."""
    sampled = {group.filesystem for group in snapshot.series() if group.metric in choices.TRAFFIC}
    name = filesystem
    if name is None:
        mount = view.job_io.text("main_mount").tolist()[row]
        found = snapshot.facility.filesystem_of_path(mount) if mount else None
        name = found.name if found is not None and found.name in sampled else choices.busiest_filesystem(snapshot)
    if name is None or name not in sampled:
        raise DataUnavailable("no system data" if name is None else f"no system data for {name}")
    kind = choices.traffic_kind(snapshot, {"filesystem": name})
    start, end = (int(view.job_io.array(column)[row]) for column in ("start_ns", "end_ns"))
    return Servers(name, kind, choose_step(snapshot, name, kind, start, end))


def read_system_states(
    snapshot: Snapshot, runs: Frame, files: Frame, servers: Servers, similar: Bools | None = None
) -> tuple[Frame, dict[str, Any]]:
    """Return the state of the system during each run, and fields of Comparison on the first one.

    `similar` are the runs to compare the first with (default: all).

    The state has the columns of `job_system`, and on the targets of each run (all, if unknown), in whole steps with its
    I/O: `device_bytes`, `device_ops` and their maxima `peak_bytes`, `peak_ops`; bytes on the busiest target
    `device_busiest`, `own_busiest`, `peak_busiest`, and of others there `target_bytes_per_s`. Logarithms of slowdowns:
    `service` of requests on the slowest target, `contrast` of that target with others, `probe_data`, `probe_targets`,
    `probe_metadata`, and `probe_start` of the time until a probe's first operation. `sick_count`: unhealthy components.
    There must be samples during the first run.
    """
    start, end = (runs.ints(name) for name in ("start_ns", "end_ns"))
    windows = merged_windows(start, end, servers.step_ns)
    try:
        chosen = servers.selection(snapshot, _ON_TARGETS, servers.step_ns, windows=windows)
    except DataUnavailable:
        raise DataUnavailable("no system data for this period") from None
    samples = grid.component_cells(chosen, _ON_TARGETS)
    system = _sum_servers(samples, (int(start[0]), int(end[0])))
    mounts = monitored_mounts(files, snapshot.facility, servers.filesystem)
    spans = io_spans(runs, files, mounts)
    state = job_system(system, start, end, spans)
    if mounts is not None:  # targets of another file system have the same numbers
        places = files.text("mount")
        files = files.take(on_mounts(places, mounts) | (places.codes < 0))
    ends = io_ends(spans)
    records = file_records(runs, files)
    steps = io_steps(system, spans)
    stamps = system.stamp(steps.first), system.stamp(steps.last + 1)
    targets = run_targets.target_amounts(samples, steps, stamps)
    components = targets.components
    own = run_targets.own_target_bytes(records, components)
    without_layout = own.sum(axis=1) == 0
    if without_layout.any():
        counted = _bytes_counted_by_servers(snapshot, runs, servers.filesystem, components)
        own = np.where(without_layout[:, None], counted, own)
        unplaced = own.sum(axis=1) == 0
        moved = {name: np.where(unplaced, runs.floats(name), 0.0) for name in choices.TRAFFIC}
        own = own + run_targets.place_by_traffic(moved, samples, steps, stamps)
    on_own_targets = _target_columns(targets, own, records, state.ints("d_d_steps"), ends)
    probed = run_targets.probe_times(snapshot, servers.filesystem, *ends)
    slowdowns_of_probes = run_targets.probe_slowdowns(probed, runs.rows, own, components)
    sick = read_health_events(snapshot, servers.filesystem)
    events = [unhealthy_of(event, servers.filesystem) for event in sick.records()]
    # The device of a stalled server answers as usual.
    stalled = np.array([event.kind == "stalled" for event in events], np.bool_)
    hit = run_targets.sick_during(sick, ends, own, components) & (stalled | ~run_targets.served_as_usual(sick, targets))
    state = state.with_columns(**on_own_targets, sick_count=hit.sum(axis=1), **slowdowns_of_probes)
    if similar is None:
        similar = np.ones(runs.rows, np.bool_)
    similar = similar & (np.arange(runs.rows) > 0)
    queues = run_targets.target_queues(targets, state.ints("d_d_steps"))
    return state, {
        "unhealthy": tuple(event for event, during in zip(events, hit[0], strict=True) if during),
        "wait": run_targets.wait_that_stands_out(targets, run_targets.used_targets(own)),
        "queue": run_targets.queue_that_stands_out(queues, run_targets.used_targets(own), similar, components),
        "probe": run_targets.probe_that_stands_out(probed),
    }


def _bytes_counted_by_servers(snapshot: Snapshot, runs: Frame, filesystem: str, components: Sequence[str]) -> Floats:
    """Bytes by (run, component) as servers counted them for its job; those of a job with several runs are divided."""
    found = np.zeros((runs.rows, len(components)))
    if not snapshot.pinned["job_operations"].uris:
        return found
    jobs, moved = runs.ints("job_id"), runs.floats("read_bytes") + runs.floats("write_bytes")
    days = {utc_day(moment) for name in ("start_ns", "end_ns") for moment in runs.ints(name).tolist()}
    where = {"job_id": tuple(np.unique(jobs).tolist()), "filesystem": filesystem, "component_kind": "ost"}
    rows = snapshot.rows("job_operations", where, days=days)
    place = {name: column for column, name in enumerate(components)}
    run_of: dict[int, list[int]] = {}
    for row, job in enumerate(jobs.tolist()):
        run_of.setdefault(job, []).append(row)
    sql = f"SELECT job_id, component, sum(bytes) FROM ({rows}) WHERE bytes > 0 GROUP BY ALL"
    for job, component, counted in snapshot.bare.execute(sql).fetchall():
        if component in place:
            mine = np.array(run_of[job])
            found[mine, place[component]] = float(counted) * moved[mine] / max(moved[mine].sum(), 1.0)
    return found


def _sum_servers(samples: Cells, during: tuple[int, int]) -> Steps:
    """Add up traffic and operations of all servers; raises DataUnavailable without traffic in `during` (ns)."""
    first = samples.start_ns
    traffic = [samples.values[name] for name in choices.TRAFFIC if name in samples.values]
    known = np.any([np.isfinite(each).any(axis=1) for each in traffic], axis=0) if traffic else np.zeros(0, np.bool_)
    if not (known & (first < during[1]) & (first + samples.step_ns > during[0])).any():
        raise DataUnavailable("no system data for this period")
    place = (first - first[0]) // samples.step_ns
    values = {}
    for name in (*choices.TRAFFIC, *(name for name in OPERATIONS if name in samples.values)):
        values[name] = np.full(int(place[-1]) + 1, np.nan)
        if name in samples.values:
            enough = samples.coverage[name] >= MIN_COVERAGE - 1e-9
            values[name][place[enough]] = np.nansum(samples.values[name][enough], axis=1)
    return Steps(int(first[0]), samples.step_ns, values, needed=choices.TRAFFIC)


def _target_columns(
    targets: run_targets.TargetAmounts, own: Floats, records: FileRecords, steps: Ints, ends: tuple[Ints, Ints]
) -> dict[str, Floats]:
    """Load and slowness of the targets of each run (see `read_system_states`); `own` are its bytes on each."""
    used = run_targets.used_targets(own)
    device_bytes, peak_bytes = run_targets.activity_on_targets(targets, used, choices.TRAFFIC, steps)
    device_ops, peak_ops = run_targets.activity_on_targets(targets, used, OPERATIONS, steps)
    busiest, own_busiest, peak_busiest = run_targets.activity_on_busiest_target(
        targets, own, used, choices.TRAFFIC, steps
    )
    contrast = run_targets.target_contrast(records, targets.components)
    return {
        "device_busiest": busiest,
        "own_busiest": own_busiest,
        "peak_busiest": peak_busiest,
        "device_bytes": device_bytes,
        "peak_bytes": peak_bytes,
        "device_ops": device_ops,
        "peak_ops": peak_ops,
        "target_bytes_per_s": np.maximum(busiest - own_busiest, 0.0) / np.maximum(steps * targets.step_seconds, 1e-9),
        "service": run_targets.service_slowdown(targets, used),
        "queue": run_targets.longest_queue(run_targets.target_queues(targets, steps), used),
        "contrast": run_targets.shared_contrast(contrast, ends, used, targets.step_seconds),
    }


# Least slowdown of a slow node.
_SLOW_NODE: Final = 1.15


def slowdown_on_nodes(snapshot: Snapshot, similar: SimilarRuns) -> float | None:
    """Slowdown of runs of other programs on the run's nodes at the same time.

    None if they were as fast as usual, or accounting has no node lists.
    """
    run, others = similar.runs.take([0]), similar.all_runs
    if not others.rows or not snapshot.pinned["jobs"].uris:
        return None
    concurrent = (others.ints("start_ns") < run.ints("end_ns")[0]) & (others.ints("end_ns") > run.ints("start_ns")[0])
    concurrent &= np.array(program_names(others)) != program_names(run)[0]
    times = usual_times(others, np.flatnonzero(concurrent))
    slow = (times.seconds / times.usual)[np.isfinite(times.usual)]
    others = others.take(np.flatnonzero(concurrent)[np.isfinite(times.usual)])
    asked = concat([run.select(_RUN_COLUMNS), others.select(_RUN_COLUMNS)])
    jobs = {"raw_job_id": tuple(np.unique(asked.ints("job_id")).tolist())}
    accounting = snapshot.whole.frame("jobs", (*JOB_COLUMNS, "nodes"), jobs)
    names = accounting.text("nodes").tolist()
    rows = np.ma.masked_array(match_jobs(asked, accounting)["job_row"]).tolist()
    own, *nodes = ({*filter(None, ((names[row] if row is not None else "") or "").split(","))} for row in rows)
    here = slow[[not own.isdisjoint(each) for each in nodes]] if nodes else slow
    factor = float(np.median(here)) if len(here) else 0.0
    return factor if factor >= _SLOW_NODE else None


def read_health_events(snapshot: Snapshot, filesystem: str) -> Frame:
    """Stored events on unhealthy components of a file system."""
    return snapshot.frame("events", EVENT_COLUMNS, {"kind": "component_health", "filesystem": filesystem})


# The job of a question. `job` and `why` share both.


def snapshot_to_judge_on(snapshot: Snapshot, view: JobView) -> Snapshot:
    """The snapshot to judge a run on: all rows, or only the user's own if the log claims to be of another user.

    Similar runs are listed by user, and a person may send a log under any name.
    """
    if snapshot.owner is None:
        return snapshot
    users = set(view.applications.ints("uid").tolist())
    return snapshot.whole if users <= own_uids(snapshot.bare) else snapshot


COMPARED_TABLES: Final = frozenset({"applications", "events", "files", "job_io", "responses", "series"})


def similar_to_job(source: DataSource, params: Params) -> SimilarRuns:
    """Runs similar to the job of the parameter `job`. Raises DataUnavailable without a lake."""
    similar = source.shared(_find_similar, params)
    source.own_rows |= snapshot_to_judge_on(source.snapshot, similar.view).owner is not None
    source.is_compared = True
    return similar


def conditions_of_job(source: DataSource, params: Params) -> Comparison:
    """What the system did during the job and runs similar to it."""
    return source.shared(_find_conditions, params)


def _find_similar(source: DataSource, params: Params) -> SimilarRuns:
    """Read the runs similar to the named log."""
    snapshot = source.snapshot_if_there()
    if snapshot is None:
        raise DataUnavailable("there is no lake")
    view = source.shared(find_named_log, params)
    return similar_runs(view, snapshot_to_judge_on(snapshot, view), params.get("as_of"))


def _find_conditions(source: DataSource, params: Params) -> Comparison:
    """Read what the system did during the named log and similar runs."""
    similar = source.shared(_find_similar, params)
    rows = snapshot_to_judge_on(source.snapshot, similar.view)
    return read_conditions(similar, rows, filesystem=params.get("filesystem"))
