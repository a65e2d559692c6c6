"""Runs like one run, and what the system did during them: the needs `similar` and `conditions`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from ioweather.advice.verdict.explain import Explained
from ioweather.advice.verdict.patterns import sync_counts
from ioweather.advice.verdict.pool import MOST_SIMILAR, REACH_DAYS, compared_rows, pool_of, slowdowns
from ioweather.core.arrays import Bools, Ints
from ioweather.core.clock import day_start_ns, utc_day
from ioweather.core.errors import DataUnavailable
from ioweather.core.facility import Facility
from ioweather.core.frames import Frame
from ioweather.core.units import DAY_NS, MINUTE_NS
from ioweather.core.words import names_of
from ioweather.derive.jobs.file_records import rows_of
from ioweather.derive.jobs.groups import find_similar_runs
from ioweather.store.snapshot import Snapshot
from ioweather.studies.job.view import JobView
from ioweather.studies.shared import choices
from ioweather.tables import concat
from ioweather.workflows.system_during_runs import FILE_COLUMNS, Servers, run_conditions, week_before

# What the verdict and its words look at, of a hundred columns.
_METRICS: Final = names_of("""
    log_digest start_ns end_ns nprocs run_seconds io_seconds bytes_per_s read_bytes write_bytes read_count write_count
    fs_read_count fs_write_count file_count io_rank_count seek_count collective_count independent_count first_read_ns
    last_read_ns first_write_ns last_write_ns metadata_ratio sequential_ratio main_mount
""")
_RUN_COLUMNS: Final = ("log_digest", "job_id", "uid", "exe", "nprocs", "start_ns", "end_ns")


@dataclass(frozen=True, eq=False)
class SimilarRuns:
    """`job_io` with uid, exe and job id: the run, the first, those similar to it and runs of other groups, with the
    group of each; `files` of these; everybody's runs about then; and the run's I/O time over the median of the similar
    runs."""

    view: JobView
    runs: Frame
    group: Ints
    files: Frame
    everybody: Frame
    slowdown: float


def conditions(
    similar: SimilarRuns, snapshot: Snapshot, *, filesystem: str | None = None, step_ns: int | None = None
) -> Explained:
    """What the system did during the runs; file system and sampling interval are the lake's own choice if not given."""
    runs, group = similar.runs, similar.group
    rows = np.flatnonzero(group == 0)
    try:
        servers = _servers(similar.view, similar.view.main_run, snapshot, filesystem, step_ns)
        found = run_conditions(snapshot, runs, similar.files, similar.everybody, servers)
    except DataUnavailable:
        if filesystem is not None:
            raise
        return Explained(runs.take(rows), None, 0, pool_of(runs, None, group), "", 0.0, similar.slowdown)
    before = week_before(snapshot, servers, *(int(runs.array(name)[0]) for name in ("start_ns", "end_ns")))
    return Explained(
        runs.take(rows), found.rows.take(rows), 0, pool_of(runs, found.rows, group), servers.filesystem,
        servers.step_ns / 1e9, similar.slowdown, found.unhealthy, before,
    )  # fmt: skip


def similar_runs(view: JobView, snapshot: Snapshot, as_of_ns: int | None = None) -> SimilarRuns:
    """`as_of_ns`: only runs that had ended by then count."""
    row = view.main_run
    own = view.applications.take([row])
    here = int(own.array("start_ns")[0])
    mine = _joined(own, view.job_io.take([row]).select(_METRICS))
    runs, everybody = mine, mine.take(slice(0, 0))
    # Days around the run first: where they hold runs enough, a year's files need not be opened.
    known = set(snapshot.pinned["job_io"].days())
    for reach in REACH_DAYS:
        days = known if reach is None else {utc_day(here + k * DAY_NS) for k in range(-reach, reach + 1)} & known
        everybody = runs_in(snapshot, str(own.text("log_digest").tolist()[0]), days)
        everybody = everybody.take(_on_filesystem_of(mine, everybody, snapshot.facility))
        if as_of_ns is not None:
            everybody = everybody.take(everybody.ints("end_ns") <= as_of_ns)
        runs = concat([mine, everybody]) if everybody.rows else mine
        if len(find_similar_runs(runs, 0)) > MOST_SIMILAR or days == known:
            break
    ((slowdown,), _) = slowdowns(runs, np.zeros(1, np.int64), snapshot.facility)
    rows, group = compared_rows(runs, 0)
    runs = runs.take(rows)
    files = _files(view, runs, snapshot)
    runs = runs.with_columns(sync_count=sync_counts(runs, files))
    return SimilarRuns(view, runs, group, files, everybody, float(slowdown))


def runs_in(snapshot: Snapshot, but: str, days: set[str]) -> Frame:
    """All runs in these days of the lake but one. A verdict asks for many days, and then for some of them."""
    read, runs = snapshot.memory.get("runs", (set(), Frame({})))
    if not read or not days <= read:
        applications = snapshot.frame("applications", _RUN_COLUMNS, days=days)
        metrics = snapshot.frame("job_io", _METRICS, days=days)
        place = rows_of(applications.text("log_digest"), metrics.text("log_digest"))
        runs = _joined(applications.take(place[place >= 0]), metrics.take(place >= 0))
        snapshot.memory["runs"] = days, runs
    wanted = np.array([day_start_ns(day) // DAY_NS for day in days], np.int64)
    kept: Frame = runs.take(np.isin(runs.ints("start_ns") // DAY_NS, wanted) & ~runs.text("log_digest").equals(but))
    return kept


def _on_filesystem_of(mine: Frame, runs: Frame, facility: Facility) -> Bools:
    """Runs on the file system of the first: a storm elsewhere is no evidence. Where no file lay is not elsewhere."""
    mounts = runs.text("main_mount")
    own = mine.text("main_mount").tolist()[0]
    here = facility.filesystem_of_path(own) if own else None
    same = [here is None or facility.filesystem_of_path(mount) == here for mount in mounts.categories]
    return np.array([*same, True], np.bool_)[mounts.codes]


def _joined(applications: Frame, job_io: Frame) -> Frame:
    return job_io.with_columns(**{name: applications[name] for name in ("job_id", "uid", "exe")})


def _files(view: JobView, runs: Frame, snapshot: Snapshot) -> Frame:
    digests = tuple(str(d) for d in runs.text("log_digest").tolist())
    days = {utc_day(int(start)) for start in runs.array("start_ns")}
    known = snapshot.frame("files", FILE_COLUMNS, {"log_digest": digests}, days=days)
    here = view.files.select(FILE_COLUMNS)
    # A log that lies outside the lake brings its own; one inside has them twice.
    fresh = rows_of(known.text("log_digest"), here.text("log_digest")) < 0
    return concat([known, here.take(fresh)]) if fresh.any() else known


def _servers(view: JobView, row: int, snapshot: Snapshot, name: str | None, step_ns: int | None) -> Servers:
    """The file system that holds most of the run's bytes, where its servers were sampled; else the busiest."""
    sampled = {group.filesystem for group in snapshot.series() if group.metric in choices.TRAFFIC}
    if name is None:
        mount = view.job_io.text("main_mount").tolist()[row]
        found = snapshot.facility.filesystem_of_path(mount) if mount else None
        name = found.name if found is not None and found.name in sampled else choices.busiest_filesystem(snapshot)
    if name is None or name not in sampled:
        raise DataUnavailable("no system data" if name is None else f"no system data of {name}")
    kind = choices.traffic_kind(snapshot, {"filesystem": name})
    start, end = (int(view.job_io.array(column)[row]) for column in ("start_ns", "end_ns"))
    return Servers(name, kind, step_ns or _resolution(snapshot, name, kind, start, end))


def _resolution(snapshot: Snapshot, filesystem: str, kind: str, start: int, end: int) -> int:
    """The data's own interval around the run where it is finer than a minute and the run is short; else a minute."""
    intervals = [
        g.interval_ns
        for g in snapshot.series()
        if g.filesystem == filesystem
        and g.component_kind == kind
        and g.metric in choices.TRAFFIC
        and g.interval_ns > 0
        and g.first_ns < end
        and g.end_ns > start
    ]
    finest = min(intervals, default=MINUTE_NS)
    if finest >= MINUTE_NS or end - start > 60 * MINUTE_NS:
        return max(finest, MINUTE_NS)
    # Samples that come a little late or early have an odd mean interval: a round one serves them all.
    return max(10**8, round(finest / 10**8) * 10**8)
