"""Runs like one run, and what the system did during them: the needs `similar` and `conditions`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ioweather.core import choices
from ioweather.core.arrays import Bools, Floats, Ints
from ioweather.core.clock import day_start_ns, utc_day
from ioweather.core.errors import DataUnavailable
from ioweather.core.facility import Facility
from ioweather.core.frames import Cells, Frame
from ioweather.core.run_outcomes import Unhealthy
from ioweather.core.tables import Quality, concat
from ioweather.core.tables.schema import specs_of
from ioweather.core.units import DAY_NS, MINUTE_NS
from ioweather.core.words import names_of
from ioweather.diagnosis.comparison_pool import (
    MOST_SIMILAR,
    REACH_DAYS,
    compared_rows,
    pool_of,
    run_slowdowns,
    slowdowns,
    sync_counts,
)
from ioweather.diagnosis.shared_work import AMOUNTS, Capacity
from ioweather.diagnosis.verdict_wording import Explained
from ioweather.facts.file_records import FileRecords, file_records, rows_of
from ioweather.facts.incidents import EVENT_COLUMNS, unhealthy_of
from ioweather.facts.job_metrics import SPAN_COLUMNS, io_spans, on_mounts
from ioweather.facts.run_targets import (
    BUSY,
    TargetAmounts,
    found_healthy,
    neighbour_slowdown,
    on_busiest_target,
    on_targets,
    own_target_bytes,
    probe_means,
    probe_slowdowns,
    service_slowdown,
    shared_contrast,
    sick_during,
    target_amounts,
    target_contrast,
    used_targets,
)
from ioweather.facts.runs import find_similar_runs, group_runs, program_names
from ioweather.facts.system_activity import OPERATIONS, io_ends, io_steps, job_system, monitored_mounts
from ioweather.job_io.view import JobView
from ioweather.lake import grid
from ioweather.lake.caches import LakeRecords
from ioweather.lake.database import fetch_frame, literal
from ioweather.lake.inventory import seal_of
from ioweather.lake.snapshot import Snapshot
from ioweather.stats.grid import MIN_COVERAGE, SystemGrid, steps_of
from ioweather.stats.series import window_sums

# What targets and metadata servers can do: the most that they did in a second, on a few days of a calendar month, so
# that all questions about a month know the same. Of sealed days the highest rates are kept among the lake's records.

# Operations that move data; a metadata target does them for small files.
REQUESTS: Final = ("read_ops", "write_ops")
_OF_DATA: Final = {"read_bytes": ("read_bytes",), "write_bytes": ("write_bytes",), "requests": REQUESTS}
_METADATA: Final = ("mds", "mdt")
# What targets can do is seen in so many days; more days say the same. [ours]
_DAYS: Final = 3
_PEAK_QUANTILE: Final = 0.999
_PEER_QUANTILE: Final = 0.9
# A target writes at least this share of what it reads, and reads of what it writes, however little was asked. [ours]
_OTHER_DIRECTION: Final = 0.5
_ALL: Final = "all"
_EXCLUDED: Final = int(Quality.OVER_LIMIT | Quality.RESET)


def capacity_of(snapshot: Snapshot, filesystem: str, moment_ns: int) -> tuple[tuple[str, ...], Capacity | None]:
    """Components of the file system and the most that each did about then; none where nothing was sampled."""
    try:
        kind = choices.traffic_kind(snapshot, {"filesystem": filesystem})
        components, most = _peaks(snapshot, filesystem, kind, _OF_DATA, moment_ns)
    except DataUnavailable:
        return (), None
    # What a target did is the least it can do: one that had less to do can do as much as its peers.
    peers = np.quantile(most, _PEER_QUANTILE, axis=1, keepdims=True) if most.size else np.zeros((len(AMOUNTS), 1))
    most = np.maximum(most, peers)
    most[:2] = np.maximum(most[:2], _OTHER_DIRECTION * most[1::-1])
    metadata = metadata_capacity(snapshot, filesystem, moment_ns)
    per_second = {name: np.append(most[i], metadata if name == "requests" else 0.0) for i, name in enumerate(AMOUNTS)}
    return components, Capacity(per_second)


def metadata_capacity(snapshot: Snapshot, filesystem: str, moment_ns: int) -> float:
    """The most operations in a second that metadata targets did; 0 where they were not sampled."""
    groups = [g for g in snapshot.series() if g.filesystem == filesystem and g.metric == "open_ops"]
    kind = next((kind for kind in _METADATA if any(g.component_kind == kind for g in groups)), None)
    if kind is None:
        return 0.0
    metrics = sorted({g.metric for g in snapshot.series() if g.component_kind == kind and g.metric.endswith("_ops")})
    try:
        _, most = _peaks(snapshot, filesystem, kind, {_ALL: tuple(metrics)}, moment_ns)
    except DataUnavailable:
        return 0.0
    return float(most.max(initial=0.0))


def _peaks(
    snapshot: Snapshot, filesystem: str, kind: str, amounts: Mapping[str, Sequence[str]], moment_ns: int
) -> tuple[tuple[str, ...], Floats]:
    """Components and, by amount and component, the highest rates: those of a few days of the month, or of the nearest
    that was sampled. The amount `all` is of all components together."""
    metrics = {metric for several in amounts.values() for metric in several}
    groups = [
        g for g in snapshot.series() if g.filesystem == filesystem and g.component_kind == kind and g.metric in metrics
    ]
    if not groups:
        raise DataUnavailable(f"no samples of {filesystem}")
    month = utc_day(moment_ns)[:7]
    nearest = min(groups, key=lambda g: (g.day[:7] != month, abs(g.first_ns - moment_ns))).day[:7]
    days = sorted({g.day for g in groups if g.day[:7] == nearest})
    chosen = sorted({days[round(i)] for i in np.linspace(0, len(days) - 1, min(len(days), _DAYS)).tolist()})
    step = max(1, min(group.interval_ns for group in groups if group.interval_ns > 0))
    found = [_highest(snapshot, filesystem, kind, amounts, day, step) for day in chosen]
    components = tuple(sorted({str(name) for each in found for name in each["components"].tolist()}))
    place = {name: column for column, name in enumerate(components)}
    most = np.zeros((len(amounts), len(components)))
    for amount in range(len(amounts)):
        rates: list[list[Any]] = [[] for _ in components]
        count = np.zeros(len(components), np.int64)
        for each in found:
            columns = [place[str(name)] for name in each["components"].tolist()]
            count[columns] += each["counts"][amount]
            for column, highest in zip(columns, each["rates"][amount], strict=True):
                rates[column].append(highest)
        for column, several in enumerate(rates):
            highest = np.sort(np.nan_to_num(np.concatenate(several)))[::-1]
            rank = int(count[column] * (1.0 - _PEAK_QUANTILE))
            most[amount, column] = highest[min(rank, len(highest) - 1)]
    return components, most


def _highest(
    snapshot: Snapshot, filesystem: str, kind: str, amounts: Mapping[str, Sequence[str]], day: str, step_ns: int
) -> Mapping[str, Any]:
    """Of a day: `components`, how many rates there are by amount and component (`counts`), and the highest of them
    (`rates`), as many as the quantile over several such days can ask for."""
    metrics = sorted({metric for several in amounts.values() for metric in several})
    selection = snapshot.selection(filesystem, kind, metrics, step_ns, excluded_quality=_EXCLUDED)
    selection = replace(selection, groups=tuple(group for group in selection.groups if group.day == day))
    most = int(_DAYS * DAY_NS / step_ns * (1.0 - _PEAK_QUANTILE)) + 1
    files = snapshot.pinned["series"].days().get(day, [])
    groups = sorted((g.source, g.system, g.metric, g.selection) for g in selection.groups)
    place = f"peaks-{day}-{_digest([filesystem, kind, list(amounts.items())])[:12]}"
    key = _digest([most, _EXCLUDED, groups, [uri.rsplit("/", 1)[1] for uri in files]])
    records = LakeRecords(snapshot.root)
    kept = records.get(place, key, lambda held: {name: held[name] for name in ("components", "counts", "rates")})
    if kept is not None:
        return kept
    together = _ALL in amounts
    sums = ", ".join(
        f"sum(CASE WHEN metric IN ({', '.join(map(literal, several))}) THEN value * 1e9 / interval_ns END) AS a{number}"
        for number, several in enumerate(amounts.values())
    )
    asked = ", ".join(f"count(a{number}), max(a{number}, {most})" for number in range(len(amounts)))
    rows = snapshot.bare.execute(f"""WITH rates AS (SELECT {"''" if together else "component"} AS component, {sums}
            FROM ({selection.scan(metrics)}) WHERE interval_ns > 0 GROUP BY 1, start_ns)
        SELECT component, {asked} FROM rates GROUP BY component ORDER BY component""").fetchall()
    rates = np.full((len(amounts), len(rows), most), np.nan)
    for column, row in enumerate(rows):
        for amount, highest in enumerate(row[2::2]):
            rates[amount, column, : len(highest or ())] = highest or ()
    counts = np.array([row[1::2] for row in rows], np.int64).reshape(len(rows), len(amounts)).T
    found = {"components": np.array([row[0] for row in rows], np.str_), "counts": counts, "rates": rates}
    if seal_of(snapshot.root, day, files) is not None:
        records.put(place, key, found)
    return found


def _digest(said: Any) -> str:
    return hashlib.sha256(json.dumps(said).encode()).hexdigest()[:32]


# What the system did during runs, and how it was for them, read from the lake: the same for one run's verdict and for
# the score of all.
#
# Of samples and responses only the time windows of the runs are read, in one question each, so that a year of them
# costs no more than a week.

FILE_COLUMNS: Final = (*SPAN_COLUMNS, "osts", "read_seconds", "write_seconds", "meta_seconds", "sync_count")
# Windows that nearly meet are one: a condition costs as much as some hundred steps.
_JOINED_STEPS: Final = 360
_LEFT_OUT: Final = int(Quality.OVER_LIMIT | Quality.RESET)
# Runs of others count that lie within this share of the run's length, or as many sampling intervals. [ours]
_NEAR_SHARE: Final = 0.5
_NEAR_STEPS: Final = 2
_MOST_RESPONSES: Final = 200_000
_HISTORY_DAYS: Final = 7


@dataclass(frozen=True)
class Servers:
    """Whose samples are read, and how finely."""

    filesystem: str
    component_kind: str
    step_ns: int

    def selection(self, snapshot: Snapshot, metrics: Sequence[str], step_ns: int, **within: Any) -> grid.Selection:
        place = self.filesystem, self.component_kind
        return snapshot.selection(*place, metrics, step_ns, excluded_quality=_LEFT_OUT, **within)


@dataclass(frozen=True, eq=False)
class Conditions:
    """`rows` are `job_system` of the runs, and how it was for them. On the targets of each run (all, where they are not
    known), in whole steps with its I/O: `device_bytes`, `device_ops`, and what these could have been at most,
    `peak_bytes`, `peak_ops`; bytes of the busiest of them, `device_busiest`, `own_busiest`, `peak_busiest`, and others'
    there, `target_bytes_per_s`. Logarithms of slowdowns: `service` of requests on its slowest target, `contrast` of
    that target with others, `probe_data`, `probe_targets`, `probe_metadata`, `neighbours`. `neighbour_count`, and
    `sick_count`, components that were unhealthy (of its targets, where these are known). `unhealthy` are those of the
    first run."""

    rows: Frame
    unhealthy: tuple[Unhealthy, ...] = ()


def run_conditions(snapshot: Snapshot, runs: Frame, files: Frame, everybody: Frame, servers: Servers) -> Conditions:
    """Of the first run there must be samples, of the others there may be. `everybody` are runs of all people around
    that time, with what `job_io` says of them."""
    start, end = (runs.ints(name) for name in ("start_ns", "end_ns"))
    windows = merged_windows(start, end, servers.step_ns)
    samples = _samples(snapshot, windows, servers)
    system = _grid(samples, (int(start[0]), int(end[0])))
    mounts = monitored_mounts(files, snapshot.facility, servers.filesystem)
    spans = io_spans(runs, files, mounts)
    found = job_system(system, start, end, spans)
    if mounts is not None:  # targets of another file system have the same numbers
        places = files.text("mount")
        files = files.take(on_mounts(places, mounts) | (places.codes < 0))
    ends = io_ends(spans)
    records = file_records(runs, files)
    stretches = io_steps(system, spans)
    targets = target_amounts(samples, stretches, (system.stamp(stretches.first), system.stamp(stretches.last + 1)))
    own = own_target_bytes(records, targets.components)
    found = found.with_columns(**_on_targets(targets, own, records, found, ends))
    components = targets.components
    means = _probe_means(snapshot, servers.filesystem, *ends)
    slowdowns = probe_slowdowns(means, runs.rows, own, components)
    near, count = _neighbours(runs, ends, everybody, servers.step_ns)
    sick = _sick_components(snapshot, servers.filesystem)
    events = [unhealthy_of(event, servers.filesystem) for event in sick.records()]
    # The device of a server that stalls answers as usual.
    stalled = np.array([event.kind == "stalled" for event in events], np.bool_)
    hit = sick_during(sick, ends, own, components) & (stalled | ~found_healthy(sick, targets))
    rows = found.with_columns(neighbours=near, neighbour_count=count, sick_count=hit.sum(axis=1), **slowdowns)
    return Conditions(rows, tuple(event for event, during in zip(events, hit[0], strict=True) if during))


def week_before(snapshot: Snapshot, servers: Servers, start_ns: int, end_ns: int) -> dict[str, Floats]:
    """Bytes per second of the whole file system in the week before a run, by metric, over stretches as long as the run.
    Empty where nothing was sampled then, or the run is shorter than a minute: in less, rates are bursts."""
    step_ns = max(servers.step_ns, MINUTE_NS)
    width = (end_ns - start_ns) // step_ns
    period = start_ns - _HISTORY_DAYS * DAY_NS, start_ns
    if width < 1:
        return {}
    try:
        samples = servers.selection(snapshot, choices.TRAFFIC, step_ns, period_ns=period)
    except DataUnavailable:
        return {}
    steps = steps_of(grid.rollup(samples, choices.TRAFFIC), choices.TRAFFIC, step_ns, period)
    rates = {
        metric: window_sums(values, width) / (width * steps.step_seconds) for metric, values in steps.values.items()
    }
    return {metric: values[np.isfinite(values)] for metric, values in rates.items()}


def health_events(snapshot: Snapshot) -> Frame:
    """All that was found of components."""
    if "health_events" not in snapshot.memory:
        snapshot.memory["health_events"] = snapshot.frame("events", EVENT_COLUMNS, {"kind": "component_health"})
    found: Frame = snapshot.memory["health_events"]
    return found


def _sick_components(snapshot: Snapshot, filesystem: str) -> Frame:
    events = health_events(snapshot)
    known = [None if name is None else snapshot.facility.filesystem_of(name) for name in events.text("system").tolist()]
    return events.take(np.array([name == filesystem for name in known], np.bool_))


_ON_TARGETS: Final = (*choices.TRAFFIC, *OPERATIONS, *BUSY)


def _samples(snapshot: Snapshot, windows: list[tuple[int, int]], servers: Servers) -> Cells:
    try:
        chosen = servers.selection(snapshot, _ON_TARGETS, servers.step_ns, windows=windows)
    except DataUnavailable:
        raise DataUnavailable("no system data for this period") from None
    return grid.component_cells(chosen, _ON_TARGETS)


def _grid(samples: Cells, asked: tuple[int, int]) -> SystemGrid:
    """All servers together."""
    first = samples.start_ns
    traffic = [samples.values[name] for name in choices.TRAFFIC if name in samples.values]
    there = np.any([np.isfinite(each).any(axis=1) for each in traffic], axis=0) if traffic else np.zeros(0, np.bool_)
    if not (there & (first < asked[1]) & (first + samples.step_ns > asked[0])).any():
        raise DataUnavailable("no system data for this period")
    place = (first - first[0]) // samples.step_ns
    values = {}
    for name in (*choices.TRAFFIC, *(name for name in OPERATIONS if name in samples.values)):
        values[name] = np.full(int(place[-1]) + 1, np.nan)
        if name in samples.values:
            enough = samples.coverage[name] >= MIN_COVERAGE - 1e-9
            values[name][place[enough]] = np.nansum(samples.values[name][enough], axis=1)
    return SystemGrid(int(first[0]), samples.step_ns, values)


def _on_targets(
    targets: TargetAmounts, own: Floats, records: FileRecords, system: Frame, ends: tuple[Ints, Ints]
) -> dict[str, Floats]:
    used, steps = used_targets(own), system.ints("d_d_steps")
    device_bytes, peak_bytes = on_targets(targets, used, choices.TRAFFIC, steps)
    device_ops, peak_ops = on_targets(targets, used, OPERATIONS, steps)
    busiest, own_there, peak_there = on_busiest_target(targets, own, used, choices.TRAFFIC, steps)
    contrast = target_contrast(records, targets.components)
    return {
        "device_busiest": busiest, "own_busiest": own_there, "peak_busiest": peak_there,
        "device_bytes": device_bytes, "peak_bytes": peak_bytes, "device_ops": device_ops, "peak_ops": peak_ops,
        "target_bytes_per_s": np.maximum(busiest - own_there, 0.0) / np.maximum(steps * targets.step_seconds, 1e-9),
        "service": service_slowdown(targets, used),
        "contrast": shared_contrast(contrast, ends, used, targets.step_seconds),
    }  # fmt: skip


_PLACE: Final = "host, target, op, request_bytes, mode, component"
# `place` is a hash of what makes a series.
_PROBED: Final = specs_of("place=int64 start_ns=int64 duration_ns=int64")
_SERIES: Final = specs_of("place=int64 op=text component=text?")


def _probe_means(snapshot: Snapshot, filesystem: str, first: Ints, last: Ints) -> Frame:
    """Means of what probes and samplers of the file system took about each run's I/O, by place and kind."""
    days = {
        utc_day(t)
        for low, high in zip(first.tolist(), last.tolist(), strict=True)
        if high > 0
        for t in (*range(low, high, DAY_NS), high)
    }
    # Of probes every second a part gives the same means: rows are thinned out as their times' hashes fall.
    scan = snapshot.pinned["responses"].scan(days, ("system",))
    counts = dict(snapshot.bare.execute(f"SELECT system, count(*) FROM ({scan}) GROUP BY system").fetchall())
    systems = tuple(name for name in counts if name is not None and snapshot.facility.filesystem_of(name) == filesystem)
    rows = sum(counts.values())
    thinned = f" AND hash(start_ns) % {rows // _MOST_RESPONSES + 1} = 0" if rows > _MOST_RESPONSES else ""
    sql = f"""SELECT *, (hash({_PLACE}) >> 1)::BIGINT AS place
        FROM ({snapshot.rows("responses", {"system": systems, "status": "ok"}, days=days)})
        WHERE duration_ns > 0 AND cached IS NOT TRUE{thinned}"""
    names = f"SELECT place, any_value(op) AS op, any_value(component) AS component FROM ({sql}) GROUP BY place"
    probes = fetch_frame(snapshot.bare, sql, _PROBED, keep="never")
    series = fetch_frame(snapshot.bare, f"{names} ORDER BY place", _SERIES, keep="many")
    return probe_means(probes, series, first, last)


def _neighbours(runs: Frame, ends: tuple[Ints, Ints], everybody: Frame, step_ns: int) -> tuple[Floats, Ints]:
    if not everybody.rows:
        return np.full(runs.rows, np.nan), np.zeros(runs.rows, np.int64)
    _, number = np.unique(np.array([*program_names(runs), *program_names(everybody)]), return_inverse=True)
    program = np.asarray(number, np.int64)
    first, last = io_times(everybody)
    slow = run_slowdowns(everybody, group_runs(everybody, "similar"))
    near_ns = np.maximum(((ends[1] - ends[0]) * _NEAR_SHARE).astype(np.int64), _NEAR_STEPS * step_ns)
    return neighbour_slowdown((*ends, program[: runs.rows]), (first, last, program[runs.rows :], slow), near_ns)


def io_times(runs: Frame) -> tuple[Ints, Ints]:
    """First and last moment of each run's I/O, by what `job_io` says."""
    return (
        _io_time(runs, ("first_read_ns", "first_write_ns"), "start_ns", earliest=True),
        _io_time(runs, ("last_read_ns", "last_write_ns"), "end_ns", earliest=False),
    )


def _io_time(frame: Frame, names: tuple[str, ...], without: str, *, earliest: bool) -> Ints:
    """First or last moment of I/O; the run's own start or end where the log has none."""
    columns = np.ma.stack([np.ma.masked_array(frame.array(name)) for name in names])
    found = columns.min(axis=0) if earliest else columns.max(axis=0)
    return np.asarray(np.where(np.ma.getmaskarray(found), frame.array(without), np.ma.getdata(found)), np.int64)


def merged_windows(start: NDArray[Any], end: NDArray[Any], step: int) -> list[tuple[int, int]]:
    """Times of the runs with a step on either side, on the grid; those that nearly meet are one."""
    low, high = (start // step - 1) * step, (end // step + 2) * step
    order = np.argsort(low, kind="stable")
    windows: list[tuple[int, int]] = []
    for first, last in zip(low[order].tolist(), high[order].tolist(), strict=True):
        if windows and first <= windows[-1][1] + _JOINED_STEPS * step:
            windows[-1] = (windows[-1][0], max(windows[-1][1], last))
        else:
            windows.append((first, last))
    return windows


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
