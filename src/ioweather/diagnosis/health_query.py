"""Searches the lake for unhealthy components when rows arrive, and stores them as events of kind `component_health`.

Questions read the stored events, so the answer does not depend on who asked first.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, TypeAlias

import numpy as np
from scipy.stats import rankdata

from ioweather.core.choices import TRAFFIC
from ioweather.core.contracts import SeriesGroup
from ioweather.core.errors import DataUnavailable, IoweatherError
from ioweather.core.frames import Floats, Ints, Matrix, Text
from ioweather.core.results import Cell
from ioweather.core.tables import METRICS, Quality, query_columns
from ioweather.core.units import DAY_NS, MINUTE_NS, NS, format_time_ns, utc_day
from ioweather.diagnosis import health_incidents as incidents
from ioweather.diagnosis.blame import usual_times
from ioweather.diagnosis.events import replace_events
from ioweather.diagnosis.incident_events import to_events
from ioweather.diagnosis.similar_runs import FILE_COLUMNS, io_bounds_ns, read_runs
from ioweather.facts.job_metrics import file_records
from ioweather.facts.loads import servers_of
from ioweather.facts.run_targets import DATA_OPERATIONS, own_target_bytes, target_contrast
from ioweather.lake import grid
from ioweather.lake.database import fetch_frame
from ioweather.lake.lake import Lake, Snapshot

SOURCE: Final = "health"
_TARGETS: Final = ("ost", "device")
_METADATA: Final = ("mdt", "mds")
_CLIENT: Final = "host"
_METADATA_OPERATIONS: Final = ("create", "stat", "delete")
# (seconds, number) of requests at devices, and at clients from sending to answer (NFS).
_DEVICE_TIMES: Final = (("read_busy_seconds", "read_ops"), ("write_busy_seconds", "write_ops"))
_ROUND_TRIPS: Final = (("read_rtt_seconds", "read_ops"), ("write_rtt_seconds", "write_ops"))
# A search needs the week before the first new row to know what is usual, of frequent samples so many, and at least a
# day; long periods are searched in parts.
_HISTORY_NS: Final = 7 * DAY_NS
_HISTORY_SAMPLES: Final = 100_000
_LONGEST_NS: Final = 14 * DAY_NS
_OVERLAP_NS: Final = 2 * DAY_NS
# Samples in a bin, or probes of each target, within the limits of its length.
_SAMPLES_PER_BIN: Final = 3
_PROBES_PER_BIN: Final = 8
_SHORTEST_BIN_NS, _LONGEST_BIN_NS = 3 * NS, 10 * MINUTE_NS
_CLOCK_NS: Final = NS // 10  # samples of every second are some microseconds longer
# Memory: cells of a (bin, component) table; and components, if bins cannot be longer.
_MOST_CELLS: Final = 30_000_000
_MOST_COMPONENTS: Final = 5_000
_MOST_WINDOWS: Final = 200  # six years of one file system
# Overloads are frequent and short: less evidence per bin.
_MOST_OVERLOAD: Final = 2.0
_SLOWER_OVERLOAD: Final = (2.4, 20.0)


@dataclass(frozen=True)
class SearchWindow:
    """One file system in one period; `components` is the largest number of one kind, `interval_ns` between samples."""

    snapshot: Snapshot
    filesystem: str
    system: str
    start_ns: int
    end_ns: int
    bin_ns: int
    components: int = 0
    interval_ns: int = 0

    @property
    def bins(self) -> incidents.Bins:
        """The time bins."""
        return incidents.Bins(self.start_ns, self.bin_ns, -(-(self.end_ns - self.start_ns) // self.bin_ns))

    @cached_property
    def groups(self) -> list[SeriesGroup]:
        """Groups of series of the file system in the window."""
        return [
            g
            for g in self.snapshot.series()
            if g.filesystem == self.filesystem and g.first_ns < self.end_ns and g.end_ns > self.start_ns
        ]

    def kinds(self, metric: str) -> set[str]:
        """Kinds of components with this metric in the window."""
        return {g.component_kind for g in self.groups if g.metric == metric}

    def matrices(self, kind: str, metrics: Sequence[str], step_ns: int) -> dict[str, Matrix]:
        """One matrix per metric on a common grid; metrics without data are left out."""
        found = {}
        for metric in metrics:
            if kind not in self.kinds(metric):
                continue
            try:
                selection = self.snapshot.selection(
                    self.filesystem, kind, (metric,), step_ns, period_ns=(self.start_ns, self.end_ns)
                )
            except DataUnavailable:
                continue
            found[metric] = grid.matrix(selection, metric).load()
        return found

    def bin_means(self, matrix: Matrix, components: Sequence[str]) -> Floats:
        """(bin, component) means over the known steps of each bin."""
        place = (matrix.start_ns + np.arange(matrix.steps) * matrix.step_ns - self.start_ns) // self.bin_ns
        inside = (place >= 0) & (place < self.bins.count)
        columns = [matrix.components.index(name) for name in components]
        values = matrix.values[inside][:, columns]
        known = ~np.isnan(values)
        total, count = (np.zeros((self.bins.count, len(columns))) for _ in range(2))
        np.add.at(total, place[inside], np.where(known, values, 0.0))
        np.add.at(count, place[inside], known.astype(np.float64))
        return np.asarray(np.divide(total, count, out=np.full(total.shape, np.nan), where=count > 0))


def find_sick_components(lake: Lake, since_ns: int = 0, most_seconds: float = math.inf) -> int:
    """Search from the first new row on, the newest time first; return the number of new rows of `events`.

    Raises IoweatherError (SearchIncomplete) if time runs out or a file system has too many components.
    """
    changed = 0
    began = time.monotonic()
    with lake.snapshot() as snapshot:
        windows = sorted(list_windows(snapshot, since_ns), key=lambda window: -window.end_ns)
        left_out, searched_from = [], dict[str, int]()
        if most_seconds < math.inf and len(windows) > _MOST_WINDOWS:
            left_out.append(f"only the newest {_MOST_WINDOWS} of {len(windows)} time windows were searched")
            windows = windows[:_MOST_WINDOWS]
        for number, window in enumerate(windows):
            if time.monotonic() - began > most_seconds:
                left_out.append(
                    f"the search stopped after {most_seconds:.0f} s and skipped {len(windows) - number} of "
                    f"{len(windows)} time windows, until {format_time_ns(window.end_ns)}"
                )
                break
            if window.components > _MOST_COMPONENTS:
                left_out.append(f"{window.filesystem} has {window.components:,} components, more than can be compared")
                continue
            # Windows overlap: the newer one knows more of what begins in both.
            end_ns = min(window.end_ns, searched_from.get(window.filesystem, window.end_ns))
            searched_from[window.filesystem] = window.start_ns
            found = to_events([each for each in search_window(window) if each.start_ns < end_ns], window.system)
            where: dict[str, Cell | Sequence[Cell]] = {
                "kind": "component_health",
                "source": SOURCE,
                "system": window.system,
                "start_ns >=": window.start_ns,
                "start_ns <": end_ns,
            }
            stored = snapshot.frame("events", where=where)
            known = set(found.text("event_id").tolist())
            gone = np.array([each not in known for each in stored.text("event_id").tolist()], np.bool_)
            changed += replace_events(lake, found, stored.take(gone), SOURCE)
    if left_out:
        raise IoweatherError("; ".join(left_out), kind="SearchIncomplete")
    return changed


def list_windows(snapshot: Snapshot, since_ns: int, until_ns: int | None = None) -> Iterator[SearchWindow]:
    """Windows to search if rows are new from `since_ns` on; probes are used where no server is sampled. With `until_ns`
    only probes of the last days before it are read."""
    sampled = set()
    # The local disks of ten thousand hosts are as many file systems, so groups are read once for all of them.
    of_filesystem: dict[str, list[SeriesGroup]] = {}
    for group in snapshot.series():
        if group.interval_ns > 0 and _describes_server(group.component_kind, group.metric):
            of_filesystem.setdefault(group.filesystem, []).append(group)
    for filesystem, timed in sorted(of_filesystem.items()):
        # A single component has no peers: neither has a local disk.
        if len({g.component_kind for g in timed}) == 1 and _count_components(timed) == 1:
            continue
        sampled.add(filesystem)
        first, last = min(g.first_ns for g in timed), max(g.end_ns for g in timed)
        finest = min((g.interval_ns for g in timed if g.end_ns > since_ns), default=None)
        if finest is None:  # the new rows are of another file system or table
            continue
        history = min(max(_HISTORY_SAMPLES * finest, DAY_NS), _HISTORY_NS)
        longest, overlap = 2 * history, min(_OVERLAP_NS, history // 2)
        least = _SAMPLES_PER_BIN * longest * _count_components(timed) // _MOST_CELLS
        wanted = min(max(_SAMPLES_PER_BIN * finest, _SHORTEST_BIN_NS, least), _LONGEST_BIN_NS)
        unit = MINUTE_NS if wanted >= MINUTE_NS else NS
        bin_ns = round(wanted / unit) * unit
        system = max(timed, key=lambda g: g.end_ns).system
        start = max(first, since_ns - history) // bin_ns * bin_ns
        while True:
            end = min(last, start + longest)
            here = [g for g in timed if g.first_ns < end and g.end_ns > start]
            yield SearchWindow(snapshot, filesystem, system, start, end, bin_ns, _count_components(here), finest)
            if end >= last:
                break
            following = min(max(g.first_ns, end) for g in timed if g.end_ns > end)  # skips gaps
            start = (following - overlap) // bin_ns * bin_ns
    yield from (each for each in _probe_windows(snapshot, since_ns, until_ns) if each.filesystem not in sampled)


def _count_components(groups: Sequence[SeriesGroup]) -> int:
    """Most components of one metric on one day."""
    counts: Counter[tuple[str, ...]] = Counter()
    for group in groups:
        counts[group.day, group.metric, group.source, group.selection] += group.components
    return max(counts.values(), default=0)


def _describes_server(kind: str, metric: str) -> bool:
    """Whether a metric shows the load or the latency of a server, a target or an NFS client."""
    if kind == _CLIENT:
        return any(metric == seconds for seconds, _ in _ROUND_TRIPS)
    return kind in (*_TARGETS, *_METADATA) and METRICS[metric].extensive


def _probe_windows(snapshot: Snapshot, since_ns: int, until_ns: int | None) -> Iterator[SearchWindow]:
    """Windows of file systems whose targets are probed, in the last `_LONGEST_NS` of their probes."""
    since_ns = max(0, since_ns - _HISTORY_NS)
    last_day = "9" if until_ns is None else utc_day(until_ns)
    days = sorted(day for day in snapshot.pinned["responses"].days() if utc_day(since_ns) <= day <= last_day)
    if not days:
        return
    near = days if until_ns is None else days[-(_LONGEST_NS // DAY_NS) :]
    rows = snapshot.rows("responses", {"start_ns >=": since_ns}, days=near)
    found = snapshot.bare.execute(
        f"""SELECT system, min(start_ns), max(start_ns), count(*), count(DISTINCT component)
        FROM ({rows}) WHERE component IS NOT NULL AND status = 'ok' GROUP BY system ORDER BY system"""
    ).fetchall()
    for system, first, last, probes, components in found:
        interval = (last - first) * components // max(1, probes)
        bin_ns = min(max(round(_PROBES_PER_BIN * interval / NS) * NS, _SHORTEST_BIN_NS), _LONGEST_BIN_NS)
        start = max(first, last - _LONGEST_NS) // bin_ns * bin_ns
        yield SearchWindow(
            snapshot, snapshot.facility.filesystem_of(system), system, start, last + 1, bin_ns, components, interval
        )


def search_window(window: SearchWindow) -> list[incidents.Incident]:
    """Find the incidents of the window, from all evidence that it has."""
    facility = window.snapshot.facility
    kind = next((kind for kind in _TARGETS if any(kind in window.kinds(name) for name in TRAFFIC)), None)
    metadata = [*_metadata_probes(window), *_metadata_requests(window)]
    if kind is None:
        return incidents.find_incidents(window.bins, [*_probes(window), *_client_requests(window), *metadata], facility)
    traffic = _sum_matrices(list(window.matrices(kind, TRAFFIC, min(MINUTE_NS, window.bin_ns)).values()))
    load = replace(traffic, values=incidents.utilisation(traffic.values))
    servers = servers_of(window.snapshot, traffic.components)
    runs = _read_using_runs(window, traffic.components)
    observations = [*_device_requests(window, kind)] or [*_target_requests(window, load)]
    observations += [*_probes(window, load), *_run_contrasts(runs, load), *metadata]
    return incidents.find_incidents(window.bins, observations, facility, traffic, servers, runs, window.filesystem)


def count_components(window: SearchWindow) -> dict[str, int]:
    """Number of components by kind, of those that were sampled in the window; `probed` are those that probes name."""
    found = {}
    for kind in (*_TARGETS, *_METADATA, _CLIENT, "oss"):
        groups = [g for g in window.groups if g.component_kind == kind]
        if kind != "oss":
            groups = [g for g in groups if _describes_server(kind, g.metric)]
        found[kind] = _count_components(groups)
    if window.snapshot.pinned["responses"].uris:
        where = {"filesystem": window.filesystem, "status": "ok"}
        rows = window.snapshot.rows("responses", where, (max(window.start_ns, window.end_ns - DAY_NS), window.end_ns))
        sql = f"SELECT count(DISTINCT {_probed_name(rows)}) FROM ({rows})"
        found["probed"] = window.snapshot.bare.execute(sql).fetchall()[0][0]
    return {kind: count for kind, count in found.items() if count}


def target_names(window: SearchWindow, kind: str) -> tuple[str, ...]:
    """Names of the targets of a kind on the last day of the window; of servers and clients none."""
    if kind not in ("ost", "mdt", "probed"):
        return ()
    where: dict[str, Cell | Sequence[Cell]] = {"filesystem": window.filesystem}
    table, more = ("responses", {"status": "ok"}) if kind == "probed" else ("series", {"component_kind": kind})
    rows = window.snapshot.rows(table, where | more, days={utc_day(window.end_ns - 1)})
    sql = f"SELECT DISTINCT component FROM ({rows}) WHERE component IS NOT NULL"
    return tuple(name for (name,) in window.snapshot.bare.execute(sql).fetchall())


def evidence_sources(window: SearchWindow) -> set[str]:
    """Sources of evidence of slowness that the window has, by name of `Observations.source`."""
    counted, snapshot = count_components(window), window.snapshot
    kinds = {metric: window.kinds(metric) for metric in METRICS}

    def timed(kind: str, pairs: Sequence[tuple[str, str]]) -> bool:
        return any(all(kind in kinds[name] for name in pair) for pair in pairs)

    targets = next((kind for kind in _TARGETS if kind in counted), _TARGETS[0])
    sources = set()
    if counted.get(targets, 0) >= incidents.LEAST_PEERS and timed(targets, _DEVICE_TIMES):
        sources.add("service")
    if counted.get("probed", 0) >= incidents.LEAST_PEERS:
        sources.add("probe")
    if timed(_CLIENT, _ROUND_TRIPS):
        sources.add("clients")
    if snapshot.pinned["job_operations"].uris:
        rows = snapshot.rows("job_operations", {"filesystem": window.filesystem}, (window.start_ns, window.end_ns))
        sql = f"SELECT DISTINCT component_kind FROM ({rows}) WHERE time_ns IS NOT NULL"
        sources |= {
            "served" if kind == "ost" else "metadata_served" for (kind,) in snapshot.bare.execute(sql).fetchall()
        }
    if any(kind in kinds["open_ops"] for kind in _METADATA) and snapshot.pinned["responses"].uris:
        sources.add("metadata")
    return sources


def _read_using_runs(window: SearchWindow, components: Sequence[str]) -> incidents.UsingRuns:
    """Runs of the window whose targets are known, with their bytes and waits on each component."""
    snapshot = window.snapshot
    known = set(snapshot.pinned["job_io"].days())
    days = {utc_day(t) for t in (*range(window.start_ns, window.end_ns, DAY_NS), window.end_ns)} & known
    if not days:
        return incidents.UsingRuns()
    runs = read_runs(snapshot, "", days)
    records = file_records(runs, snapshot.frame("files", FILE_COLUMNS, days=days))
    own = own_target_bytes(records, components)
    chosen = own.sum(axis=1) > 0
    first, last = io_bounds_ns(runs)
    times = usual_times(runs, np.flatnonzero(chosen))
    return incidents.UsingRuns(
        components=tuple(components),
        first_ns=first[chosen],
        last_ns=last[chosen],
        seconds=times.seconds,
        slowdown=np.log(times.seconds / times.usual),
        own_bytes=own[chosen],
        contrast=target_contrast(records, components)[chosen],
    )


def _run_contrasts(runs: incidents.UsingRuns, load: Matrix) -> Iterator[incidents.Observations]:
    """Waiting of runs for each target against their other targets."""
    run, component = np.nonzero(np.isfinite(runs.contrast))
    if not len(run):
        return
    middle = (runs.first_ns + runs.last_ns)[run] // 2
    yield incidents.Observations(
        source="runs",
        components=runs.components,
        component=component,
        start_ns=middle,
        log_seconds=runs.contrast[run, component],
        load=_load_at(load, middle, component),
        count=np.ones(len(run)),
        has_peers=False,
        slower=incidents.SLOWER_IN_RUN,
        shows=incidents.SHOWS_IN_RUN,
        least_spread=incidents.SPREAD_IN_RUN,
    )


def _sum_matrices(parts: Sequence[Matrix]) -> Matrix:
    """Sum over metrics for the steps and components that all have; missing where one is missing."""
    first, end = max(p.start_ns for p in parts), min(p.end_ns for p in parts)
    step = parts[0].step_ns
    names = tuple(name for name in parts[0].components if all(name in p.components for p in parts))
    total = np.zeros((max(0, end - first) // step, len(names)))
    for part in parts:
        columns = [part.components.index(name) for name in names]
        total = total + part.values[(first - part.start_ns) // step : (end - part.start_ns) // step, columns]
    return _matrix(first, step, names, total)


def _matrix(start_ns: int, step_ns: int, names: tuple[str, ...], values: Floats) -> Matrix:
    return Matrix("sum", start_ns, step_ns, names, values, np.broadcast_to(np.float32(1), values.shape))


# Components, and (bin, component) tables of the seconds and numbers of requests, one for each kind of request.
_RequestTables: TypeAlias = tuple[tuple[str, ...], list[Floats], list[Floats]]


def _counter_tables(
    window: SearchWindow, kind: str, pairs: Sequence[tuple[str, str]], wanted: Sequence[str] | None = None
) -> _RequestTables | None:
    """Requests from counters of components (default: all with the first counter); None if there are none."""
    found = window.matrices(kind, [name for pair in pairs for name in pair], window.bin_ns)
    pairs = [pair for pair in pairs if all(name in found for name in pair)]
    if not pairs:
        return None
    candidates = found[pairs[0][0]].components if wanted is None else wanted
    names = tuple(n for n in candidates if all(n in found[name].components for pair in pairs for name in pair))
    seconds, counts = ([window.bin_means(found[pair[side]], names) for pair in pairs] for side in (0, 1))
    return names, seconds, counts


def _device_requests(window: SearchWindow, kind: str) -> Iterator[incidents.Observations]:
    """Work of devices or targets against their queues, from their own counters."""
    step_ns = max(round(window.interval_ns / _CLOCK_NS), window.bin_ns // _SAMPLES_PER_BIN // _CLOCK_NS, 1) * _CLOCK_NS
    waits, counts = ([pair[side] for pair in _DEVICE_TIMES] for side in (0, 1))
    found = window.matrices(kind, [*waits, *counts, *TRAFFIC, "busy_ratio"], step_ns)
    if not any(name in found for name in waits):
        return
    first, end = max(each.start_ns for each in found.values()), min(each.end_ns for each in found.values())
    waited = [found[name].components for name in waits if name in found]
    names = tuple(name for name in waited[0] if all(name in each for each in waited))
    if len(names) < incidents.LEAST_PEERS:
        return
    values = {}
    for metric, each in found.items():
        rows = slice((first - each.start_ns) // step_ns, (end - each.start_ns) // step_ns)
        columns = [each.components.index(name) if name in each.components else -1 for name in names]
        padded = np.concatenate([each.values[rows], np.full((max(0, end - first) // step_ns, 1), np.nan)], axis=1)
        values[metric] = padded[:, columns]
    queue = np.sum([values[name] for name in waits if name in values], axis=0) / (step_ns / NS)
    yield incidents.work_observations(
        names,
        first + np.arange(len(queue), dtype=np.int64) * step_ns,
        [values[name] for name in (*TRAFFIC, *counts) if name in values],
        queue,
        values.get("busy_ratio", np.full(queue.shape, np.nan)),
    )


def _client_requests(window: SearchWindow) -> Iterator[incidents.Observations]:
    """Round trips that are slow for most clients of a server at once (NFS); one slow client says nothing of it."""
    tables = _counter_tables(window, _CLIENT, _ROUND_TRIPS)
    if tables is None:
        return
    names, seconds, counts = tables
    load = incidents.utilisation(np.nansum(counts, axis=(0, 2))[:, None])
    loads = np.broadcast_to(load, (window.bins.count, len(names)))
    of_clients = incidents.request_observations("clients", names, window.bins, seconds, counts, loads)
    yield replace(
        incidents.shared_observations(of_clients, window.filesystem, window.bins, load[:, 0]), source="clients"
    )


_JOB_TIMES: Final = query_columns("component=text operation=text bin=int64 seconds=float64 requests=float64")


def _job_tables(window: SearchWindow, kind: str) -> _RequestTables:
    """Requests of all jobs at their servers (Lustre job_stats), by operation: another mix is no slowness."""
    if not window.snapshot.pinned["job_operations"].uris:
        return (), [], []
    bins = window.bins
    rows = window.snapshot.rows(
        "job_operations", {"filesystem": window.filesystem, "component_kind": kind}, (window.start_ns, window.end_ns)
    )
    sql = f"""SELECT component, operation, (start_ns + interval_ns // 2 - {bins.start_ns}) // {bins.bin_ns} AS bin,
            sum(time_ns) / 1e9 AS seconds, sum(count)::DOUBLE AS requests
        FROM ({rows}) WHERE time_ns IS NOT NULL AND interval_ns <= {bins.bin_ns}
            AND quality & {int(Quality.WHOLE_LIFE)} = 0
        GROUP BY ALL HAVING bin BETWEEN 0 AND {bins.count - 1} ORDER BY ALL"""
    found = fetch_frame(window.snapshot.bare, sql, _JOB_TIMES)
    names, operations = found.text("component"), found.text("operation")

    def tables(column: str) -> list[Floats]:
        table = np.zeros((len(operations.categories), bins.count, len(names.categories)))
        np.add.at(table, (operations.codes, found.ints("bin"), names.codes), found.floats(column))
        return list(table)

    return tuple(names.categories), tables("seconds"), tables("requests")


def _target_requests(window: SearchWindow, load: Matrix) -> Iterator[incidents.Observations]:
    """Seconds per request of targets, from counts of jobs at their servers."""
    names, seconds, counts = _job_tables(window, "ost")
    known = [column for column, name in enumerate(names) if name in load.components]
    if len(known) < incidents.LEAST_PEERS:
        return
    chosen = [names[column] for column in known]
    yield incidents.request_observations(
        "served",
        chosen,
        window.bins,
        [each[:, known] for each in seconds],
        [each[:, known] for each in counts],
        window.bin_means(load, chosen),
    )


def _metadata_requests(window: SearchWindow) -> Iterator[incidents.Observations]:
    """Seconds per operation of metadata targets, from counts of jobs at their servers."""
    names, seconds, counts = _job_tables(window, "mdt")
    if not names:
        return
    load = incidents.utilisation(np.sum(counts, axis=0))
    found = incidents.request_observations("metadata_served", names, window.bins, seconds, counts, load)
    yield found if found.has_peers else replace(found, slower=incidents.SLOWER_WITHOUT_PEERS)


_PROBE_TIMES: Final = query_columns("component=text? minute=int64 took=float64 looks=int64")


# Components, and by row the component, its minute, the logarithm of the median time of probes over what is usual of
# their series, and their number.
_ProbeTimes: TypeAlias = tuple[tuple[str, ...], Ints, Ints, Floats, Floats]


def _probe_times(window: SearchWindow, operations: Sequence[str], *, by_component: bool = True) -> _ProbeTimes:
    """Probes by component, minute and operation: a stalled server may still take writes into its memory."""
    snapshot = window.snapshot
    rows = snapshot.rows(
        "responses", {"filesystem": window.filesystem, "status": "ok"}, (window.start_ns, window.end_ns)
    )
    step_ns = min(MINUTE_NS, window.bin_ns)
    name = _probed_name(rows) if by_component else "NULL::VARCHAR"
    where = "op IN ({})".format(", ".join(f"'{name}'" for name in operations))
    if by_component:
        where = f"{name} IS NOT NULL AND {where}"
    sql = f"""WITH timed AS (SELECT start_ns, {name} AS component, op,
            ln(duration_ns) AS took,
            host || ' ' || target || ' ' || op || ' ' || request_bytes || ' ' || mode AS series
            FROM ({rows}) WHERE duration_ns > 0 AND cached IS NOT TRUE AND {where}),
        usual AS (SELECT series, median(took) AS middle FROM timed GROUP BY series)
        SELECT component, start_ns // {step_ns} * {step_ns} AS minute, median(took - middle) AS took,
            count(*) AS looks
        FROM timed JOIN usual USING (series) GROUP BY component, minute, op ORDER BY component, minute, op"""
    found = fetch_frame(snapshot.bare, sql, _PROBE_TIMES)
    text = found.text("component")
    codes = text.codes.astype(np.int64)
    return tuple(text.categories), codes, found.ints("minute"), found.floats("took"), found.floats("looks")


def _probed_name(rows: str) -> str:
    """What a probe times: the target that it names, or its folder where probes name no targets."""
    return f"coalesce(component, CASE WHEN (SELECT count(component) FROM ({rows})) = 0 THEN target END)"


def _codes_in(names: Sequence[str], codes: Ints, wanted: Sequence[str]) -> Ints:
    """Codes of the same names in `wanted`; -1 if missing."""
    place = {name: number for number, name in enumerate(wanted)}
    return np.asarray(np.array([place.get(name, -1) for name in names], np.int64)[codes])


def _probes(window: SearchWindow, load: Matrix | None = None) -> Iterator[incidents.Observations]:
    """Probes of targets; without samples of the servers the load is unknown and only peers are compared."""
    names, component, minute, log_ratio, count = _probe_times(window, DATA_OPERATIONS)
    if len(names) < incidents.LEAST_PEERS:
        return
    if load is None:
        yield incidents.Observations("probe", names, component, minute, log_ratio, np.full(len(minute), np.nan), count)
        return
    if not set(names) <= set(load.components):
        names = _place(window, names, component, minute, log_ratio)
    loads = _load_at(load, minute, _codes_in(names, component, load.components))
    yield incidents.Observations("probe", names, component, minute, log_ratio, loads, count)


# A probed folder lies on the target whose queue its times follow: from this rank correlation on, by so many standard
# errors before the next target, and with so many values. [ours]
_LEAST_CORRELATION, _LEAST_LEAD, _LEAST_VALUES = 0.25, 3.0, 30


def _place_probes(
    place: Text, log_ratio: Floats, row: Ints, queues: Floats, components: Sequence[str]
) -> dict[str, str]:
    """The component on which each probed place lies, where that is clear; `queues` are by (row, component)."""
    found: dict[str, str] = {}
    for code, name in enumerate(place.categories):
        mine = np.flatnonzero((place.codes == code) & np.isfinite(queues[row]).all(axis=1))
        if len(mine) < _LEAST_VALUES or len(components) < 2 or name in components:
            continue
        ranks = rankdata(np.column_stack([log_ratio[mine], queues[row[mine]]]), axis=0)
        ranks -= ranks.mean(axis=0)
        size = np.sqrt((ranks**2).sum(axis=0))
        correlation = np.nan_to_num(ranks[:, 1:].T @ ranks[:, 0] / np.maximum(size[1:] * size[0], 1e-9))
        best, following = np.argsort(-correlation)[:2]
        lead = np.arctanh(correlation[best]) - np.arctanh(correlation[following])
        if correlation[best] >= _LEAST_CORRELATION and lead >= _LEAST_LEAD * np.sqrt(2.0 / (len(mine) - 3)):
            found[name] = components[int(best)]
    return found


def _place(
    window: SearchWindow, names: tuple[str, ...], component: Ints, minute: Ints, log_ratio: Floats
) -> tuple[str, ...]:
    """Names of probed folders, or of the components on which they lie, where the queues of these tell it."""
    kind = next((kind for kind in _TARGETS if kind in window.kinds(_DEVICE_TIMES[0][0])), None)
    tables = None if kind is None else _counter_tables(window, kind, _DEVICE_TIMES)
    if tables is None:
        return names
    row = (minute - window.start_ns) // window.bin_ns
    inside = (row >= 0) & (row < window.bins.count)
    places = Text(component[inside].astype(np.int32), names)
    lies_on = _place_probes(places, log_ratio[inside], row[inside], np.sum(tables[1], axis=0), tables[0])
    placed = tuple(lies_on.get(name, name) for name in names)
    return placed if len(set(placed)) == len(placed) else names


def _load_at(load: Matrix, moment: Ints, column: Ints) -> Floats:
    """Highest load within a step of each moment; NaN if unknown (column -1)."""
    row = (moment - load.start_ns) // load.step_ns
    found = np.full(len(row), np.nan)
    for shift in (-1, 0, 1):
        known = (row + shift >= 0) & (row + shift < load.steps) & (column >= 0)
        found[known] = np.fmax(found[known], load.values[(row + shift)[known], column[known]])
    return found


def _metadata_probes(window: SearchWindow) -> Iterator[incidents.Observations]:
    """Metadata probes at a known load, then without it to find overloads.

    Only if the load of the metadata servers is known: otherwise an overload looks like sickness.
    """
    kind = next((kind for kind in _METADATA if kind in window.kinds("open_ops")), None)
    if kind is None:
        return
    counters = [name for name, metric in METRICS.items() if name.endswith("_ops") and metric.extensive]
    total = _sum_matrices(list(window.matrices(kind, counters, MINUTE_NS).values()))
    load = replace(total, values=incidents.utilisation(total.values))
    names, has_peers = total.components, len(total.components) != 1
    # With several servers, only probes in a folder of one server show which one served them.
    probed, codes, minute, log_ratio, count = _probe_times(window, _METADATA_OPERATIONS, by_component=has_peers)
    component = _codes_in(probed, codes, names) if has_peers else np.zeros_like(minute)
    known = component >= 0
    at_load = incidents.Observations(
        source="metadata",
        components=names,
        component=component[known],
        start_ns=minute[known],
        log_seconds=log_ratio[known],
        load=_load_at(load, minute[known], component[known]),
        count=count[known],
        has_peers=has_peers,
        slower=incidents.SLOWER_WITHOUT_PEERS,
    )
    yield at_load
    # A benchmark makes metadata operations twice as slow.
    unknown = np.full(len(at_load.load), np.nan)
    yield replace(at_load, source=incidents.OVERLOAD, load=unknown, most=_MOST_OVERLOAD, slower=_SLOWER_OVERLOAD)
