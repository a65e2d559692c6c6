"""What the system did during runs, and how it was for them, read from the lake: the same for one run's verdict and for
the score of all.

Of samples and responses only the time windows of the runs are read, in one question each, so that a year of them costs
no more than a week.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ioweather.advice.verdict.group_states import run_slowdowns
from ioweather.core.arrays import Floats, Ints
from ioweather.core.clock import utc_day
from ioweather.core.errors import DataUnavailable
from ioweather.core.frames import Cells, Frame
from ioweather.core.run_outcomes import Unhealthy
from ioweather.core.units import DAY_NS, MINUTE_NS
from ioweather.derive.jobs.file_records import FileRecords, file_records
from ioweather.derive.jobs.groups import group_runs, program_names
from ioweather.derive.jobs.io_spans import SPAN_COLUMNS, io_spans, on_mounts
from ioweather.derive.system.grid import SystemGrid
from ioweather.derive.system.health import EVENT_COLUMNS, unhealthy_of
from ioweather.derive.system.job_system import io_ends, io_steps, job_system
from ioweather.derive.system.run_environment import (
    neighbour_slowdown,
    own_target_bytes,
    probe_means,
    probe_slowdowns,
    sick_during,
    used_targets,
)
from ioweather.derive.system.run_targets import (
    BUSY,
    TargetAmounts,
    found_healthy,
    on_busiest_target,
    on_targets,
    service_slowdown,
    shared_contrast,
    target_amounts,
    target_contrast,
)
from ioweather.stats.series import window_sums
from ioweather.store import grid
from ioweather.store.convert import fetch_frame
from ioweather.store.snapshot import Snapshot
from ioweather.studies.association.data import OPERATIONS, monitored_mounts
from ioweather.studies.shared import choices
from ioweather.studies.shared.rollup_steps import MIN_COVERAGE, steps_of
from ioweather.tables import Quality
from ioweather.tables.schema import specs_of

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
