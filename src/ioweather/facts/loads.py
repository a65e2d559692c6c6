"""Load of a facility, a file system or one component in a period, on one grid of time, and how slow probes found it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any, Final, NamedTuple

import numpy as np

from ioweather.core.choices import TRAFFIC, traffic_kind
from ioweather.core.contracts import Period, SeriesGroup
from ioweather.core.errors import DataUnavailable
from ioweather.core.facility import Facility, is_local_disk
from ioweather.core.frames import Floats, Frame, Ints
from ioweather.core.tables import METRICS
from ioweather.core.units import DAY_NS, HOUR_NS, MINUTE_NS, NS, names_of
from ioweather.facts.slowdown import ROLLUP_COLUMNS, OperationSeries, operation_series, usual_requests
from ioweather.lake import grid
from ioweather.lake.database import literal
from ioweather.lake.lake import Snapshot

_STEPS_NS = (
    *(n * MINUTE_NS for n in (1, 2, 5, 10, 15, 30)),
    *(n * HOUR_NS for n in (1, 2, 3, 6, 12)),
    *(n * DAY_NS for n in (1, 2, 7)),
)
_MOST_STEPS = 400
# Disks of hosts on the page of the facility, where there is no file system.
_MOST_DISKS = 8
# Capacity is sampled once a day or more often.
_FILL_REACH_NS: Final = 2 * DAY_NS


@dataclass(frozen=True, eq=False)
class Traffic:
    """Rates of one file system in bytes per second; NaN is a gap. `parts_*`, of each component, are optional: (step,
    component)."""

    filesystem: str
    component_kind: str
    start_ns: Ints
    read: Floats
    write: Floats
    coverage: float
    components: tuple[str, ...] = ()
    parts_read: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    parts_write: Floats = field(default_factory=lambda: np.zeros((0, 0)))

    @property
    def total(self) -> Floats:
        """Reads and writes together; where one is missing, the other."""
        return np.where(np.isnan(self.read), self.write, self.read + np.nan_to_num(self.write))


@dataclass(frozen=True, eq=False)
class Slowness:
    """The ratio of the slowest operation of each interval to its usual time."""

    filesystem: str
    start_ns: Ints
    ratio: Floats


@dataclass(frozen=True)
class LastHour:
    """State of a file system at the end of a period, whatever its length: mean rates in the last hour with samples, in
    bytes per second, and the slowest operation in the last hour with probes, as the ratio to its usual time."""

    filesystem: str
    read: float | None = None
    write: float | None = None
    slowdown: float | None = None
    op: str | None = None


@dataclass(frozen=True, eq=False)
class Measured:
    """One metric of one component, and the median and the highest of the others of its kind; amounts are per second.
    `peer_mean` is the median of the others' means: bursty work has lower medians than means."""

    metric: str
    per_second: bool
    start_ns: Ints
    own: Floats
    others: Floats
    peer_mean: float
    highest: Floats


@dataclass(frozen=True, eq=False)
class Loads:
    """`kind` is facility, filesystem, or the kind of the component `where`."""

    where: str
    kind: str
    filesystem: str | None
    start_ns: int
    end_ns: int
    step_ns: int
    traffic: tuple[Traffic, ...] = ()
    slowness: tuple[Slowness, ...] = ()
    last_hours: tuple[LastHour, ...] = ()
    measured: tuple[Measured, ...] = ()
    peers: int = 0
    servers: Mapping[str, str] = field(default_factory=dict)


def step_for(span_ns: int, interval_ns: int) -> int:
    """Return the finest step with at most as many points as a screen, of whole intervals of the data, or of several
    short ones. Live samples are some milliseconds off."""
    interval_ns = max(round(interval_ns / NS), 1) * NS
    for step in _STEPS_NS:
        whole = step % interval_ns == 0 or interval_ns <= MINUTE_NS // 2
        if step >= interval_ns and whole and span_ns <= step * _MOST_STEPS:
            return step
    weeks = -(-span_ns // (_STEPS_NS[-1] * _MOST_STEPS))
    return max(weeks * _STEPS_NS[-1], interval_ns)


_HOURS_FROM_NS = 4 * DAY_NS
_PROBED_NS = 10 * MINUTE_NS
# Metrics of one component in order of preference.
_PREFERRED = names_of("""
    read_bytes write_bytes cpu_ratio busy_ratio await_seconds read_ops write_ops open_ops close_ops getattr_ops
    unlink_ops mknod_ops
""")
_MOST_METRICS = 4


def loads(snapshot: Snapshot, where: str | None, period: Period) -> Loads:
    """Return the load of a file system or component, of all file systems if `where` is None.

    Raises DataUnavailable if it is not known in the period.
    """
    groups = [g for g in snapshot.series() if g.first_ns < period[1] and g.end_ns > period[0]]
    known = sorted({g.filesystem for g in groups})
    if where is None:
        # Disks of hosts are shown only where nothing else is known, and then the busiest.
        names = [name for name in known if not is_local_disk(name)] or _busiest(groups, known)
        return _of_filesystems(snapshot, groups, names, where, period)
    if where in known:
        return _of_filesystems(snapshot, groups, [where], where, period)
    if disks := [name for name in known if is_local_disk(name) and name.startswith(f"{where}:")]:
        return replace(_of_filesystems(snapshot, groups, disks, None, period), where=where, kind="host")
    components = _components(snapshot, groups)
    if where not in components:
        homes = servers_of(snapshot, [*components])
        if targets := [name for name in components if homes.get(name) == where]:
            return _of_component(snapshot, groups, where, *components[targets[0]], period, homes)
        if _probed_period(snapshot, period) is not None:
            probed = _of_filesystems(snapshot, groups, [], where, period)
            if probed.slowness:  # only probes know it
                return probed
        near = get_close_matches(where, sorted({*known, *components, *homes.values()}), n=3, cutoff=0.5)
        raise DataUnavailable(
            f"There is no file system, server or target {where!r} in this period.",
            hint=f"Did you mean {' or '.join(near)}?" if near else f"File systems: {', '.join(known) or 'none'}.",
        )
    return _of_component(snapshot, groups, where, *components[where], period)


def _busiest(groups: Sequence[SeriesGroup], disks: Sequence[str]) -> list[str]:
    """Return the names of the `_MOST_DISKS` disks with most traffic, in order."""
    traffic = {name: sum(g.total for g in groups if g.filesystem == name and g.metric in TRAFFIC) for name in disks}
    return sorted(sorted(disks, key=lambda name: -traffic[name])[:_MOST_DISKS])


def _of_filesystems(
    snapshot: Snapshot, groups: Sequence[SeriesGroup], names: Sequence[str], where: str | None, period: Period
) -> Loads:
    """Return traffic, slowness and the last hour of file systems; with parts by component if `where` names one."""
    moving = [g for g in groups if g.metric in TRAFFIC and g.filesystem in names]
    probed = _probed_period(snapshot, period)
    if not moving and not probed:
        raise DataUnavailable(
            "No server, device or probe data for this period.",
            hint="Ingest LMT or Lustre data, start a probe, or choose another period.",
        )
    low, high, step = _grid_of_data(moving, period, probed)
    kinds = {name: traffic_kind(snapshot, {"filesystem": name}) for name in names}
    of_names = [name for name in names if any(g.filesystem == name for g in moving)]
    traffic = tuple(_traffic(snapshot, name, kinds[name], (low, high), step, where is not None) for name in of_names)
    slowness = tuple(s for s in _slowness(snapshot, low, high) if where is None or s.filesystem == where)
    kind = "facility" if where is None else "filesystem"
    title = where or snapshot.facility.name
    servers = servers_of(snapshot, [name for of in traffic for name in of.components])
    last_hours = tuple(_last_hours(snapshot, moving, kinds, period[1]))
    return Loads(title, kind, where, low, high, step, traffic, slowness, last_hours, servers=servers)


def _last_hours(
    snapshot: Snapshot, moving: Sequence[SeriesGroup], kinds: Mapping[str, str], until_ns: int
) -> Iterator[LastHour]:
    """The state of each file system at the end of the period. It does not depend on where the period starts, nor on the
    step of its charts."""
    slow = _slowdown_of_last_hour(snapshot, until_ns)
    for name in dict.fromkeys([*kinds, *slow]):
        mine = [g for g in moving if g.filesystem == name]
        slowdown, op = slow.get(name, (None, None))
        if not mine:
            yield LastHour(name, slowdown=slowdown, op=op)
            continue
        step = step_for(HOUR_NS, min((g.interval_ns for g in mine if g.interval_ns > 0), default=MINUTE_NS))
        last = min(until_ns, max(g.end_ns for g in mine))
        high = max(last // step, 1) * step
        if high <= min(g.first_ns for g in mine):
            high += step  # all samples are in a step that has just begun
        hour = _traffic(snapshot, name, kinds[name], (max(high - max(HOUR_NS, step), 0), high), step, False)
        read, write = (float(np.nanmean(line)) if np.isfinite(line).any() else None for line in (hour.read, hour.write))
        yield LastHour(name, read, write, slowdown, op)


def _slowdown_of_last_hour(snapshot: Snapshot, until_ns: int) -> dict[str, tuple[float, str]]:
    """Return by file system the slowest operation in the hour that ends with the last probe: its median over the
    usual."""
    probed = _probed_period(snapshot, (0, until_ns))
    if probed is None:
        return {}
    end = min(until_ns, probed[1])
    rows = snapshot.frame("response_rollups", ROLLUP_COLUMNS, {"interval_ns": _PROBED_NS}, (end - 2 * HOUR_NS, end))
    start = rows.ints("start_ns")
    rows = rows.take(start >= start.max(initial=0) + _PROBED_NS - HOUR_NS)
    found: dict[str, tuple[float, str]] = {}
    for filesystem, op, _, (ratio,) in _slowdown_ratios(snapshot, rows, end):  # an interval that long holds all rows
        found[filesystem] = max(found.get(filesystem, (0.0, "")), (float(ratio), op))
    return found


def _probed_period(snapshot: Snapshot, period: Period) -> Period | None:
    """Return the part of the lake with probes, in whole hours; None if none are in the period."""
    if not snapshot.pinned["response_rollups"].uris:
        return None
    rows = snapshot.rows("response_rollups", {"interval_ns": HOUR_NS})
    low, high = snapshot.bare.execute(f"SELECT min(start_ns), max(start_ns) FROM ({rows})").fetchall()[0]
    if low is None or low >= period[1] or high + HOUR_NS <= period[0]:
        return None
    return low, high + HOUR_NS


def _grid_of_data(groups: Sequence[SeriesGroup], period: Period, probed: Period | None) -> tuple[int, int, int]:
    """Return the part of the period that there are data of, in whole steps."""
    spans = [(g.first_ns, g.end_ns) for g in groups] or ([probed] if probed else [])
    low = max(period[0], min(first for first, _ in spans))
    high = min(period[1], max(last for _, last in spans))
    step = step_for(high - low, min((g.interval_ns for g in groups if g.interval_ns > 0), default=MINUTE_NS))
    low = low // step * step
    return low, max(high // step * step, low + step), step


def _traffic(snapshot: Snapshot, name: str, kind: str, period: Period, step: int, with_parts: bool) -> Traffic:
    """Return the rates of a file system on a grid of steps, `with_parts` also by component."""
    selection = snapshot.selection(name, kind, TRAFFIC, step, period_ns=period)
    starts = np.arange(*period, step, dtype=np.int64)
    rolled = grid.rollup(selection, TRAFFIC)
    lines = {metric: _on_grid(rolled, metric, starts, step) / (step / NS) for metric in TRAFFIC}
    covered = float(np.nansum(rolled.floats("coverage"))) / max(len(starts) * len(TRAFFIC), 1)
    whole = Traffic(name, kind, starts, lines["read_bytes"], lines["write_bytes"], min(covered, 1.0))
    if not with_parts:
        return whole
    parts = grid.sums_by_component(selection, TRAFFIC)
    components = tuple(_components_in(parts))
    read, write = (_on_grid(parts, metric, starts, step, components) / (step / NS) for metric in TRAFFIC)
    return Traffic(name, kind, starts, whole.read, whole.write, whole.coverage, components, read, write)


def _components_in(rows: Frame) -> list[str]:
    """Return the names of the components in these rows, in order."""
    text = rows.text("component")
    return sorted({text.categories[code] for code in np.unique(text.codes).tolist() if code >= 0})


def _on_grid(rows: Frame, metric: str, starts: Ints, step: int, components: Sequence[str] | None = None) -> Floats:
    """Return amounts by step, or by step and component; NaN is a gap."""
    mine = rows.text("metric").equals(metric)
    step_number = (rows.ints("start_ns")[mine] - int(starts[0])) // step
    inside = (step_number >= 0) & (step_number < len(starts))
    values = np.full((len(starts), 1 if components is None else len(components)), np.nan)
    column = np.zeros(len(step_number), np.int64)
    if components is not None:
        text, place = rows.text("component"), {name: i for i, name in enumerate(components)}
        column = np.array([place.get(name, -1) for name in text.categories] or [0], np.int64)[text.codes[mine]]
    values[step_number[inside], column[inside]] = rows.floats("value")[mine][inside]
    return values[:, 0] if components is None else values


def _slowness(snapshot: Snapshot, low: int, high: int) -> Iterator[Slowness]:
    """Yield slowness against the usual times of the whole lake, as in `now` and in events."""
    if not snapshot.pinned["response_rollups"].uris:
        return
    interval = HOUR_NS if high - low > _HOURS_FROM_NS else _PROBED_NS
    whole = (low // interval * interval, high)  # of a new lake the first interval is all there is
    rows = snapshot.frame("response_rollups", ROLLUP_COLUMNS, {"interval_ns": interval}, whole)
    found: dict[str, list[tuple[Ints, Floats]]] = {}
    for filesystem, _, start_ns, ratio in _slowdown_ratios(snapshot, rows, interval):
        found.setdefault(filesystem, []).append((start_ns, ratio))
    for filesystem, lines in sorted(found.items()):
        starts, place = np.unique(np.concatenate([when for when, _ in lines]), return_inverse=True)
        slowest = np.full(len(starts), np.nan)
        np.fmax.at(slowest, place, np.concatenate([ratio for _, ratio in lines]))
        yield Slowness(filesystem, starts, slowest)


def _slowdown_ratios(snapshot: Snapshot, rows: Frame, interval: int) -> Iterator[tuple[str, str, Ints, Floats]]:
    """Yield file system, operation, starts of intervals, and the ratio of its time to the usual one in each."""
    usual = _usual_seconds(snapshot)
    for series in operation_series(rows, _filesystems(rows, snapshot.facility), interval):
        expected = usual.get(_request_kind(series))
        if expected:
            name = series.filesystem.removeprefix("mount:")
            yield name, series.op, series.start_ns, series.statistics["median"] / expected


def _usual_seconds(snapshot: Snapshot) -> dict[tuple[Any, ...], float | None]:
    """Return the usual time of each kind of request, over all hours of the lake."""
    hours = snapshot.frame("response_rollups", ROLLUP_COLUMNS, {"interval_ns": HOUR_NS})
    series = operation_series(hours, _filesystems(hours, snapshot.facility), HOUR_NS)
    return {_request_kind(each): each.expected(snapshot.facility.baseline_ns)[0] for each in usual_requests(series)}


def _request_kind(series: OperationSeries) -> tuple[Any, ...]:
    """Return what makes requests comparable: file system, operation, size and mode."""
    return series.filesystem, series.op, series.request_bytes, series.mode


def _filesystems(rows: Frame, facility: Facility) -> dict[str, str]:
    """Return the file system of each system name in these rows."""
    return {name: facility.filesystem_of(name) for name in rows.text("system").categories}


def _components(snapshot: Snapshot, groups: Sequence[SeriesGroup]) -> dict[str, tuple[str, str]]:
    """Return the file system and kind of each component.

    Only the last day of each kind is read: components rarely come and go, and a year of rows takes long to search.
    """
    last: dict[tuple[str, str], str] = {}
    for g in groups:
        key = (g.filesystem, g.component_kind)
        last[key] = max(last.get(key, ""), g.day)
    if not last:
        return {}
    rows = snapshot.rows("series", days=set(last.values()))
    sql = f"SELECT DISTINCT component, system, component_kind FROM ({rows}) ORDER BY ALL DESC"
    found = snapshot.bare.execute(sql).fetchall()  # the first of several in alphabetical order comes last
    return {name: (snapshot.facility.filesystem_of(system), kind) for name, system, kind in found}


def _of_component(
    snapshot: Snapshot,
    groups: Sequence[SeriesGroup],
    where: str,
    filesystem: str,
    kind: str,
    period: Period,
    homes: Mapping[str, str] | None = None,
) -> Loads:
    """Return the load of a component; with `homes`, of a server that has no samples of its own: the sum over its
    targets, which are of this kind."""
    mine = [g for g in groups if (g.filesystem, g.component_kind) == (filesystem, kind)]
    if homes is not None:
        mine = [g for g in mine if METRICS[g.metric].extensive]
    has = {g.metric for g in mine}
    metrics = [metric for metric in _PREFERRED if metric in has][:_MOST_METRICS]
    if not metrics:
        raise DataUnavailable(f"No data for {where} in this period.")
    low, high, step = _grid_of_data([g for g in mine if g.metric in metrics], period, None)
    measured, traffic, targets = [], list[Traffic](), [where]
    starts = np.arange(low, high, step, dtype=np.int64)
    for metric in metrics:
        selection = snapshot.selection(filesystem, kind, (metric,), step, period_ns=(low, high))
        rows = grid.sums_by_component(selection, (metric,))
        names = _components_in(rows)
        per_second = METRICS[metric].extensive
        values = _on_grid(rows, metric, starts, step, names) / (step / NS if per_second else 1.0)
        if homes is not None:
            # Add up the columns of each server's targets; a gap of one target is a gap of its server.
            servers = sorted({homes[name] for name in names if name in homes})
            columns = [[i for i, name in enumerate(names) if homes.get(name) == server] for server in servers]
            names, values = servers, np.stack([values[:, own].sum(axis=1) for own in columns], axis=1)
        others = [i for i, name in enumerate(names) if name != where]
        own = values[:, names.index(where)] if where in names else np.full(len(starts), np.nan)
        known = np.ma.masked_invalid(values[:, others])
        median: Callable[..., Any] = np.ma.median  # without annotations in numpy
        of_peers = np.ma.filled(median(known, axis=1), np.nan), float(np.ma.filled(median(known.mean(axis=0)), np.nan))
        highest = np.fmax.reduce(values[:, others], axis=1, initial=np.nan)
        measured.append(Measured(metric, per_second, starts, own, *of_peers, highest))
    if (kind == "oss" or homes is not None) and any(g.metric in TRAFFIC and g.filesystem == filesystem for g in groups):
        of_targets = traffic_kind(snapshot, {"filesystem": filesystem})
        traffic.append(_traffic(snapshot, filesystem, of_targets, (low, high), step, True))
        targets += traffic[0].components
    return Loads(
        where,
        kind if homes is None else {"ost": "oss", "mdt": "mds"}.get(kind, kind),
        filesystem,
        low,
        high,
        step,
        tuple(traffic),
        measured=tuple(measured),
        peers=len(others),
        servers=servers_of(snapshot, targets),
    )


def servers_of(snapshot: Snapshot, components: Sequence[str]) -> dict[str, str]:
    """Return the server of each target: the last one in the lake, else that of the facility file."""
    homes = [(name, fs.server_of(name)) for fs in snapshot.facility.filesystems for name in components]
    known = {name: home for name, home in homes if home is not None}
    if not snapshot.pinned["components"].uris:
        return known
    rows = snapshot.bare.execute(
        f"SELECT component, arg_max(server, valid_from_ns) FROM ({snapshot.rows('components')}) "
        f"WHERE server IS NOT NULL AND server <> {literal('')} GROUP BY component"
    ).fetchall()
    return known | dict(rows)


class FillLevel(NamedTuple):
    """Used share of the capacity of a target or device, and its free bytes, at `end_ns`."""

    filesystem: str
    component: str
    full_ratio: float
    free_bytes: float
    end_ns: int


def fill_levels(snapshot: Snapshot, filesystems: Sequence[str], until_ns: int) -> list[FillLevel]:
    """Return the newest fill level before a time of each target, the fullest first; metadata targets are left out."""
    found = list[FillLevel]()
    for name in filesystems:
        groups = [g for g in snapshot.series() if g.filesystem == name and g.metric == "free_bytes"]
        end = min(max((g.end_ns for g in groups), default=0), until_ns)
        if not any(g.first_ns < end for g in groups):
            continue
        rows = snapshot.rows(
            "series", {"filesystem": name, "metric": ("capacity_bytes", "free_bytes")}, (end - _FILL_REACH_NS, end)
        )
        sql = f"""SELECT component, 1 - free / capacity, free, at_ns FROM (SELECT component, max(start_ns) AS at_ns,
            arg_max(value, start_ns) FILTER (metric = 'capacity_bytes') AS capacity,
            arg_max(value, start_ns) FILTER (metric = 'free_bytes') AS free
            FROM ({rows}) WHERE component_kind <> 'mdt' AND isfinite(value)
            GROUP BY component) WHERE capacity > 0 AND free IS NOT NULL"""
        found += (FillLevel(name, *row) for row in snapshot.bare.execute(sql).fetchall())
    return sorted(found, key=lambda each: (-each.full_ratio, each.component))
