"""Unhealthy components: searched for when rows have come, and stored as events of kind `component_health`.

Who looks reads what is stored. So everybody gets the same answer, whoever looked first.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from ioweather.core.arrays import Bools, Floats, Ints
from ioweather.core.choices import TRAFFIC
from ioweather.core.clock import utc_day
from ioweather.core.contracts import SeriesGroup
from ioweather.core.errors import DataUnavailable, SearchIncomplete
from ioweather.core.facility import Facility
from ioweather.core.frames import Matrix
from ioweather.core.tables import METRICS, Quality
from ioweather.core.tables.schema import specs_of
from ioweather.core.units import DAY_NS, MINUTE_NS, NS, format_time_ns
from ioweather.diagnosis.capped_targets import STEP_NS, capped_targets
from ioweather.diagnosis.health_evidence import (
    MUCH_SLOWER,
    SHOWS_IN_RUN,
    SLIGHTLY_SLOWER,
    WITHIN_RUN,
    Evidence,
    Observations,
    evidence_of,
    processor_observations,
    service_observations,
    shared_observations,
    shares_of,
)
from ioweather.diagnosis.slow_episodes import settle
from ioweather.diagnosis.unhealthy_components import (
    Incident,
    answered_as_usual,
    capped_stretches,
    fewest_causes,
    health_events,
    sick_stretches,
    silent_stretches,
    stalled_stretches,
)
from ioweather.facts.file_records import file_records
from ioweather.facts.loads import servers_of
from ioweather.facts.run_targets import DATA_OPERATIONS, own_target_bytes, target_contrast
from ioweather.lake import grid
from ioweather.lake.database import fetch_frame
from ioweather.lake.lake import Lake
from ioweather.lake.snapshot import Snapshot

SOURCE: Final = "health"
TARGETS: Final = ("ost", "device")
METADATA: Final = ("mdt", "mds")
# Seconds of requests with how many there were.
_TIMED: Final = (("read_busy_seconds", "read_ops"), ("write_busy_seconds", "write_ops"))
# The same at clients, from sending a request to its answer: what a server of NFS shows.
_ROUND_TRIPS: Final = (("read_rtt_seconds", "read_ops"), ("write_rtt_seconds", "write_ops"))
CLIENT: Final = "host"
# One look at the weeks before the first new row tells what is usual; no search is longer at a time.
_HISTORY_NS: Final = 7 * DAY_NS
_LONGEST_NS: Final = 14 * DAY_NS
_OVERLAP_NS: Final = 2 * DAY_NS
# A bin holds so many samples, or looks of probes at each target.
_SAMPLES: Final = 12
_LOOKS_IN_BIN: Final = 8
_SHORTEST_BIN_NS, _LONGEST_BIN_NS = 5 * NS, 10 * MINUTE_NS
# A search holds some tables of bins and components: so many cells each, or components where bins cannot be longer.
_MOST_CELLS: Final = 30_000_000
_MOST_COMPONENTS: Final = 5_000
_MOST_STRETCHES: Final = 200  # six years of one file system
_METADATA_OPERATIONS: Final = ("create", "stat", "delete")
# A run lost time where it took 15% longer than usual, the least that counts as a slowdown.
_HARMED: Final = float(np.log(1.15))
# What one bin says at most of an overload: many are short.
STORM: Final = 2.0


@dataclass(frozen=True)
class _Search:
    """One file system in one stretch of time."""

    snapshot: Snapshot
    filesystem: str
    system: str
    start_ns: int
    end_ns: int
    bin_ns: int
    components: int = 0

    @property
    def bins(self) -> int:
        return -(-(self.end_ns - self.start_ns) // self.bin_ns)

    @property
    def bin_starts(self) -> Ints:
        return self.start_ns + np.arange(self.bins, dtype=np.int64) * self.bin_ns

    def evidence(self, observations: Observations) -> Evidence:
        return evidence_of(observations, self.start_ns, self.bin_ns, self.bins)

    def kinds(self, metric: str) -> list[str]:
        return sorted({
            g.component_kind for g in self.snapshot.series()
            if (g.filesystem, g.metric) == (self.filesystem, metric)
            and g.first_ns < self.end_ns and g.end_ns > self.start_ns
        })  # fmt: skip

    def matrices(self, kind: str, metrics: Sequence[str], step_ns: int) -> dict[str, Matrix]:
        """On one grid; metrics that are not there are left out."""
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


def find_sick_components(lake: Lake, since_ns: int = 0, most_seconds: float = math.inf) -> int:
    """Search from the first new row on; returns how many rows of `events` are new. Raises SearchIncomplete where the
    time is over before all is searched, or a file system has too many components."""
    changed = 0
    began = time.monotonic()
    with lake.snapshot() as snapshot:
        searches = sorted(_searches(snapshot, since_ns), key=lambda search: search.end_ns)
        left_out = []
        if most_seconds < math.inf and len(searches) > _MOST_STRETCHES:
            searches, all_of_them = searches[len(searches) - _MOST_STRETCHES :], len(searches)
            left_out.append(f"only the newest {len(searches)} of {all_of_them} stretches of time were searched")
        for number, search in enumerate(searches):
            if time.monotonic() - began > most_seconds:
                left_out.append(
                    f"{len(searches) - number} of {len(searches)} stretches of time, from "
                    f"{format_time_ns(search.start_ns)} on, were left out after {most_seconds:.0f} s"
                )
                break
            if search.components > _MOST_COMPONENTS:
                left_out.append(f"{search.filesystem} has {search.components:,} components, more than can be compared")
                continue
            found = health_events(incidents_of(search), search.system)
            stored = snapshot.frame("events", where={
                "kind": "component_health", "source": SOURCE, "system": search.system,
                "start_ns >=": search.start_ns, "start_ns <": search.end_ns,
            })  # fmt: skip
            known = set(found.text("event_id").tolist())
            gone = np.array([each not in known for each in stored.text("event_id").tolist()], np.bool_)
            changed += settle(lake, found, stored.take(gone), SOURCE)
    if left_out:
        raise SearchIncomplete("; ".join(left_out))
    return changed


def _searches(snapshot: Snapshot, since_ns: int) -> Iterator[_Search]:
    sampled = set()
    for filesystem in snapshot.filesystems():
        groups = [g for g in snapshot.series() if g.filesystem == filesystem and g.interval_ns > 0]
        timed = [g for g in groups if _tells_of_servers(g.component_kind, g.metric)]
        # One alone has no peers to be told apart from: the local disks of a thousand nodes are a thousand of these.
        if not timed or (len({g.component_kind for g in timed}) == 1 and max(g.components for g in timed) == 1):
            continue
        sampled.add(filesystem)
        first, last = min(g.first_ns for g in timed), max(g.end_ns for g in timed)
        finest = min((g.interval_ns for g in timed if g.end_ns > since_ns), default=None)
        if finest is None:  # what came is of another file system, or of other tables
            continue
        least = _LONGEST_NS * _most_at_once(timed) // _MOST_CELLS
        wanted = min(max(_SAMPLES * finest, _SHORTEST_BIN_NS, least), _LONGEST_BIN_NS)
        unit = MINUTE_NS if wanted >= MINUTE_NS else NS
        bin_ns = round(wanted / unit) * unit
        system = max(timed, key=lambda g: g.end_ns).system
        start = max(first, since_ns - _HISTORY_NS) // bin_ns * bin_ns
        while True:
            end = min(last, start + _LONGEST_NS)
            here = [g for g in timed if g.first_ns < end and g.end_ns > start]
            yield _Search(snapshot, filesystem, system, start, end, bin_ns, _most_at_once(here))
            if end >= last:
                break
            following = min(max(g.first_ns, end) for g in timed if g.end_ns > end)  # a gap is not searched
            start = (following - _OVERLAP_NS) // bin_ns * bin_ns
    yield from (each for each in _of_probes(snapshot, since_ns) if each.filesystem not in sampled)


def _most_at_once(groups: Sequence[SeriesGroup]) -> int:
    """Components of one metric on one day."""
    counts: Counter[tuple[str, str, str]] = Counter()
    for group in groups:
        counts[group.day, group.metric, group.source] += group.components
    return max(counts.values(), default=0)


def _tells_of_servers(kind: str, metric: str) -> bool:
    if kind == CLIENT:
        return any(metric == seconds for seconds, _ in _ROUND_TRIPS)
    return kind in (*TARGETS, *METADATA) and METRICS[metric].extensive


def _of_probes(snapshot: Snapshot, since_ns: int) -> Iterator[_Search]:
    """File systems of which only probes tell. A bin holds some looks at each target."""
    if not snapshot.pinned["responses"].uris:
        return
    rows = snapshot.rows("responses", {"start_ns >=": max(0, since_ns - _HISTORY_NS)})
    found = snapshot.bare.execute(
        f"""SELECT system, min(start_ns), max(start_ns), count(*), count(DISTINCT component)
        FROM ({rows}) WHERE component IS NOT NULL AND status = 'ok' GROUP BY system ORDER BY system"""
    ).fetchall()
    for system, first, last, looks, components in found:
        gap = (last - first) * components // max(1, looks)
        bin_ns = min(max(round(_LOOKS_IN_BIN * gap / NS) * NS, _SHORTEST_BIN_NS), _LONGEST_BIN_NS)
        start = max(first, last - _LONGEST_NS) // bin_ns * bin_ns
        yield _Search(snapshot, snapshot.facility.filesystem_of(system), system, start, last + 1, bin_ns)


def incidents_of(search: _Search) -> tuple[Incident, ...]:
    servers: dict[str, str] = {}
    runs = _Runs()
    silent: list[Incident] = []
    capped: list[Incident] = []
    seen: list[str] = []
    looks: list[Observations] = []
    kind = next((kind for kind in TARGETS if any(kind in search.kinds(name) for name in TRAFFIC)), None)
    if kind is not None:
        moved = _together(list(search.matrices(kind, TRAFFIC, min(MINUTE_NS, search.bin_ns)).values()))
        seen += moved.components
        servers = servers_of(search.snapshot, seen)
        silent = silent_stretches(moved, servers)
        capped = capped_stretches(capped_targets(_coarser(moved, STEP_NS), servers))
        runs = _runs(search, moved.components)
        # Only its collector was silent.
        silent = [each for each in silent if not runs.were_served(each, servers)]
        looks += (*_observed(search, kind, moved, servers), *runs.observations(load_of(moved)))
    else:
        looks += (*_probes(search), *_clients(search))
    looks += (*_metadata(search), *_metadata_served(search))
    parts = [search.evidence(each) for each in looks]
    sick = [each for each in sick_stretches([part for part in parts if part.name != "storm"]) if each.is_named]
    sick += stalled_stretches(looks, sick, search.evidence)
    storms = sick_stretches([part for part in parts if part.name == "storm"])
    storms = [each for each in storms if not any(each.meets(other) for other in sick if other.is_named)]
    capped = [each for each in capped if not answered_as_usual(each, parts)]
    found = fewest_causes([*sick, *storms, *capped], silent, seen, servers)
    return tuple(runs.with_cost(each, servers) for each in found if not _is_maintained(each, search.snapshot.facility))


def _is_maintained(incident: Incident, facility: Facility) -> bool:
    return any(window.start_ns <= incident.start_ns < window.end_ns for window in facility.maintenance)


def _observed(search: _Search, kind: str, moved: Matrix, servers: dict[str, str]) -> Iterator[Observations]:
    """All looks at targets and their servers; `moved` are bytes."""
    load = load_of(moved)
    served = [*_service(search, kind, load)] or [*_served(search, "ost", load)]
    yield from served
    yield from _probes(search, load)
    if "oss" in search.kinds("cpu_ratio") and servers:
        yield _processors(search, load, servers)


def load_of(moved: Matrix) -> Matrix:
    return replace(moved, values=shares_of(moved.values))


@dataclass(frozen=True, eq=False)
class _Runs:
    """Runs whose targets are known: when they did I/O, their bytes on each target, how much longer than usual they took
    (logarithm), and how much longer they waited for each target than for their others."""

    components: tuple[str, ...] = ()
    first_ns: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    last_ns: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    seconds: Floats = field(default_factory=lambda: np.zeros(0))
    slowdown: Floats = field(default_factory=lambda: np.zeros(0))
    own: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    contrast: Floats = field(default_factory=lambda: np.zeros((0, 0)))

    def observations(self, load: Matrix) -> Iterator[Observations]:
        run, column = np.nonzero(np.isfinite(self.contrast))
        if not len(run):
            return
        middle = (self.first_ns + self.last_ns)[run] // 2
        loads = _at(load, middle, column)
        yield Observations(
            "runs",
            self.components,
            column,
            middle,
            self.contrast[run, column],
            loads,
            np.ones(len(run)),
            alone=True,
            slower=SLIGHTLY_SLOWER,
            shows=SHOWS_IN_RUN,
            least_spread=WITHIN_RUN,
        )

    def _using(self, incident: Incident, servers: dict[str, str]) -> Bools:
        names = set(incident.through) or {incident.component}
        columns = [i for i, n in enumerate(self.components) if n in names or servers.get(n) in names]
        return np.asarray((self.own[:, columns] > 0).any(axis=1), np.bool_)

    def were_served(self, incident: Incident, servers: dict[str, str]) -> bool:
        """One did all of its I/O on the component meanwhile, in its usual time."""
        inside = (self.first_ns >= incident.start_ns) & (self.last_ns <= incident.end_ns)
        return bool((inside & self._using(incident, servers) & (self.slowdown <= _HARMED)).any())

    def with_cost(self, incident: Incident, servers: dict[str, str]) -> Incident:
        """How many runs used the component meanwhile, and what they lost against their usual time."""
        everything = incident.kind == "overloaded" or "shared" in incident.shown_by
        used = np.ones(len(self.seconds), np.bool_) if everything else self._using(incident, servers)
        hit = used & (self.first_ns < incident.end_ns) & (self.last_ns > incident.start_ns)
        if not len(hit):
            return incident
        lost = self.seconds[hit] * (1.0 - np.exp(-np.maximum(self.slowdown[hit], 0.0)))
        counted = np.nan_to_num(lost)[self.slowdown[hit] > _HARMED]
        return replace(incident, runs=int(hit.sum()), lost_seconds=float(counted.sum()))


def _runs(search: _Search, components: Sequence[str]) -> _Runs:
    snapshot = search.snapshot
    known = set(snapshot.pinned["job_io"].days())
    days = {utc_day(t) for t in (*range(search.start_ns, search.end_ns, DAY_NS), search.end_ns)} & known
    if not days:
        return _Runs()
    # What judges runs is most of what an ingest of servers' samples alone would load.
    from ioweather.diagnosis.comparison_pool import run_slowdowns
    from ioweather.diagnosis.similar_runs import FILE_COLUMNS, io_times, runs_in
    from ioweather.facts.runs import group_runs

    runs = runs_in(snapshot, "", days)
    records = file_records(runs, snapshot.frame("files", FILE_COLUMNS, days=days))
    own = own_target_bytes(records, components)
    chosen = own.sum(axis=1) > 0
    slow = run_slowdowns(runs, group_runs(runs, "similar"))
    first, last = io_times(runs)
    contrast = target_contrast(records, components)
    return _Runs(
        tuple(components), first[chosen], last[chosen], runs.floats("io_seconds")[chosen], slow[chosen], own[chosen],
        contrast[chosen],
    )  # fmt: skip


def _coarser(matrix: Matrix, step_ns: int) -> Matrix:
    """Amounts in longer steps, missing where one of the parts is."""
    factor = max(1, step_ns // matrix.step_ns)
    steps = matrix.steps // factor
    values = matrix.values[: steps * factor].reshape(steps, factor, len(matrix.components)).sum(axis=1)
    return Matrix(
        matrix.metric, matrix.start_ns, matrix.step_ns * factor, matrix.components, values,
        np.ones(values.shape, np.float32),
    )  # fmt: skip


def _together(parts: Sequence[Matrix]) -> Matrix:
    """Amounts of several metrics added up; missing where one of them is."""
    first, end = max(p.start_ns for p in parts), min(p.end_ns for p in parts)
    step = parts[0].step_ns
    names = [name for name in parts[0].components if all(name in p.components for p in parts)]
    total = sum(
        (
            p.values[(first - p.start_ns) // step : (end - p.start_ns) // step, [p.components.index(n) for n in names]]
            for p in parts
        ),
        start=np.zeros((max(0, end - first) // step, len(names))),
    )
    return Matrix("together", first, step, tuple(names), total, np.broadcast_to(np.float32(1), total.shape))


def _in_bins(search: _Search, matrix: Matrix, components: Sequence[str]) -> Floats:
    """Means over what is there of each bin, (bin, component)."""
    place = (matrix.start_ns + np.arange(matrix.steps) * matrix.step_ns - search.start_ns) // search.bin_ns
    inside = (place >= 0) & (place < search.bins)
    columns = [matrix.components.index(name) for name in components]
    values = matrix.values[inside][:, columns]
    there = ~np.isnan(values)
    total, count = (np.zeros((search.bins, len(columns))) for _ in range(2))
    np.add.at(total, place[inside], np.where(there, values, 0.0))
    np.add.at(count, place[inside], there.astype(np.float64))
    return np.asarray(np.divide(total, count, out=np.full(total.shape, np.nan), where=count > 0))


def _service(search: _Search, kind: str, load: Matrix) -> Iterator[Observations]:
    wanted = [name for pair in _TIMED for name in pair]
    found = search.matrices(kind, wanted, search.bin_ns)
    pairs = [pair for pair in _TIMED if all(name in found for name in pair)]
    if not pairs:
        return
    names = [n for n in load.components if all(n in found[name].components for pair in pairs for name in pair)]
    if len(names) < 3:  # nobody to be compared with
        return
    tables = {name: _in_bins(search, found[name], names) for pair in pairs for name in pair}
    yield service_observations(
        "service", names, search.bin_starts, [tables[a] for a, _ in pairs], [tables[b] for _, b in pairs],
        _in_bins(search, load, names),
    )  # fmt: skip


_TIMES: Final = specs_of("component=text operation=text bin=int64 seconds=float64 requests=float64")


def _job_times(search: _Search, kind: str) -> tuple[tuple[str, ...], list[Floats], list[Floats]]:
    """Targets, and (bin, target) tables of each kind of operation: seconds at the server, and how many, of all jobs."""
    rows = search.snapshot.rows(
        "job_operations", {"filesystem": search.filesystem, "component_kind": kind}, (search.start_ns, search.end_ns)
    )
    sql = f"""SELECT component, operation, (start_ns + interval_ns // 2 - {search.start_ns}) // {search.bin_ns} AS bin,
            sum(time_ns) / 1e9 AS seconds, sum(count)::DOUBLE AS requests
        FROM ({rows}) WHERE time_ns IS NOT NULL AND interval_ns <= {search.bin_ns}
            AND quality & {int(Quality.WHOLE_LIFE)} = 0
        GROUP BY ALL HAVING bin BETWEEN 0 AND {search.bins - 1} ORDER BY ALL"""
    if not search.snapshot.pinned["job_operations"].uris:
        return (), [], []
    found = fetch_frame(search.snapshot.bare, sql, _TIMES)
    names, operations = found.text("component"), found.text("operation")
    tables = {
        name: np.zeros((len(operations.categories), search.bins, len(names.categories)))
        for name in ("seconds", "requests")
    }
    for name, table in tables.items():
        np.add.at(table, (operations.codes, found.ints("bin"), names.codes), found.floats(name))
    return names.categories, list(tables["seconds"]), list(tables["requests"])


def _served(search: _Search, kind: str, load: Matrix) -> Iterator[Observations]:
    """Where no device is sampled, the time that servers took for the jobs' requests (Lustre job_stats)."""
    names, seconds, requests = _job_times(search, kind)
    known = [column for column, name in enumerate(names) if name in load.components]
    if len(known) < 3:  # nobody to be compared with
        return
    chosen = [names[column] for column in known]
    yield service_observations(
        "served", chosen, search.bin_starts, [each[:, known] for each in seconds],
        [each[:, known] for each in requests], _in_bins(search, load, chosen),
    )  # fmt: skip


def _metadata_served(search: _Search) -> Iterator[Observations]:
    """The same of metadata servers: each operation against its own usual time, so that another mix is no slowness."""
    names, seconds, requests = _job_times(search, "mdt")
    if not names:
        return
    found = service_observations(
        "metadata_served", names, search.bin_starts, seconds, requests, shares_of(np.sum(requests, axis=0))
    )
    yield replace(found, slower=MUCH_SLOWER) if found.alone else found


def _clients(search: _Search) -> Iterator[Observations]:
    """What most clients of a server show at the same time (NFS): how long their requests are on the way and there. A
    single slow client says nothing of the server."""
    found = search.matrices(CLIENT, [name for pair in _ROUND_TRIPS for name in pair], search.bin_ns)
    pairs = [pair for pair in _ROUND_TRIPS if all(name in found for name in pair)]
    if not pairs:
        return
    names = [n for n in found[pairs[0][0]].components if all(n in found[m].components for pair in pairs for m in pair)]
    tables = {name: _in_bins(search, found[name], names) for pair in pairs for name in pair}
    total = np.nansum([tables[count] for _, count in pairs], axis=(0, 2))[:, None]
    of_each = service_observations(
        "clients", names, search.bin_starts, [tables[a] for a, _ in pairs], [tables[b] for _, b in pairs],
        np.broadcast_to(shares_of(total), (search.bins, len(names))),
    )  # fmt: skip
    shared = shared_observations(of_each, search.filesystem, search.bin_starts, shares_of(total)[:, 0])
    yield replace(shared, name="clients")


# The median logarithm of what operations of a minute took, and how many.
_LOOKS: Final = specs_of("component=text? minute=int64 took=float64 looks=int64")


def _responses(search: _Search, where: str, component: str) -> tuple[tuple[str, ...], Ints, Ints, Floats, Floats]:
    """Operations of probes and samplers over what is usual of their series, by component, minute and kind of operation:
    a server that stands still may take writes all the same, which are then in its memory."""
    rows = search.snapshot.rows(
        "responses", {"filesystem": search.filesystem, "status": "ok"}, (search.start_ns, search.end_ns)
    )
    step_ns = min(MINUTE_NS, search.bin_ns)
    sql = f"""WITH timed AS (SELECT start_ns, {component} AS component, op, ln(duration_ns) AS took,
            host || ' ' || target || ' ' || op || ' ' || request_bytes || ' ' || mode AS series
            FROM ({rows}) WHERE duration_ns > 0 AND cached IS NOT TRUE AND {where}),
        usual AS (SELECT series, median(took) AS middle FROM timed GROUP BY series)
        SELECT component, start_ns // {step_ns} * {step_ns} AS minute, median(took - middle) AS took,
            count(*) AS looks
        FROM timed JOIN usual USING (series) GROUP BY component, minute, op ORDER BY component, minute, op"""
    found = fetch_frame(search.snapshot.bare, sql, _LOOKS)
    text = found.text("component")
    return (
        text.categories,
        text.codes.astype(np.int64),
        found.ints("minute"),
        found.floats("took"),
        found.floats("looks"),
    )


def _probes(search: _Search, load: Matrix | None = None) -> Iterator[Observations]:
    """Without samples of the servers there is no load to explain anything, and only peers are compared."""
    operations = ", ".join(f"'{name}'" for name in DATA_OPERATIONS)
    names, column, minute, took, looks = _responses(
        search, f"component IS NOT NULL AND op IN ({operations})", "component"
    )
    if len(names) < 3:
        return
    if load is None:
        yield Observations("probe", names, column, minute, took, np.full(len(minute), np.nan), looks)
        return
    place = {name: number for number, name in enumerate(load.components)}
    of_load = np.array([place.get(name, -1) for name in names], np.int64)[column]
    found = Observations("probe", names, column, minute, took, _at(load, minute, of_load), looks)
    yield found
    together = load.values.sum(axis=1, keepdims=True)
    everything = Matrix(
        "load", load.start_ns, load.step_ns, ("all",), shares_of(together), np.ones(together.shape, np.float32)
    )
    in_bins = _in_bins(search, everything, ("all",))[:, 0]
    yield shared_observations(found, search.filesystem, search.bin_starts, in_bins)


def _at(load: Matrix, moment: Ints, column: Ints) -> Floats:
    """The highest load in the minute and those beside it; NaN where it is not known."""
    row = (moment - load.start_ns) // load.step_ns
    width = max(1, MINUTE_NS // load.step_ns)
    found = np.full(len(row), np.nan)
    for shift in range(-width, width + 1):
        there = (row + shift >= 0) & (row + shift < load.steps) & (column >= 0)
        found[there] = np.fmax(found[there], load.values[(row + shift)[there], column[there]])
    return found


def _processors(search: _Search, load: Matrix, servers: dict[str, str]) -> Observations:
    busy = search.matrices("oss", ("cpu_ratio",), search.bin_ns)["cpu_ratio"]
    names = [name for name in busy.components if any(servers.get(target) == name for target in load.components)]
    moved = np.full((load.steps, len(names)), np.nan)
    for column, name in enumerate(names):
        own = [i for i, target in enumerate(load.components) if servers.get(target) == name]
        moved[:, column] = load.values[:, own].mean(axis=1)
    shares = Matrix("load", load.start_ns, load.step_ns, tuple(names), moved, np.ones(moved.shape, np.float32))
    return processor_observations(
        names, search.bin_starts, _in_bins(search, busy, names), _in_bins(search, shares, names)
    )


def _metadata(search: _Search) -> Iterator[Observations]:
    """Metadata operations of probes, where the load of the metadata servers is known: without it, a storm of somebody's
    requests and a sick server look alike."""
    counted = [name for name, metric in METRICS.items() if name.endswith("_ops") and metric.extensive]
    kind = next((kind for kind in METADATA if kind in search.kinds("open_ops")), None)
    if kind is None:
        return
    amounts = [matrix for name, matrix in search.matrices(kind, counted, MINUTE_NS).items()]
    total = _together(amounts)
    load = replace(total, values=shares_of(total.values))
    operations = ", ".join(f"'{name}'" for name in _METADATA_OPERATIONS)
    names, alone = total.components, len(total.components) == 1
    if alone:
        _, _, minute, took, looks = _responses(search, f"op IN ({operations})", "NULL::VARCHAR")
        column = np.zeros(len(minute), np.int64)
    else:  # which of several served an operation is known where each is probed by a folder of its own
        found_names, column, minute, took, looks = _responses(
            search, f"component IS NOT NULL AND op IN ({operations})", "component"
        )
        place = {name: number for number, name in enumerate(names)}
        column = np.array([place.get(name, -1) for name in found_names], np.int64)[column]
        known = column >= 0
        column, minute, took, looks = column[known], minute[known], took[known], looks[known]
    found = Observations(
        "metadata", names, column, minute, took, _at(load, minute, column), looks, alone=alone, slower=MUCH_SLOWER
    )
    yield found
    # Asked for too much, it is not sick; but that is what people want to know. A benchmark makes it twice as slow.
    yield replace(found, name="storm", load=np.full(len(minute), np.nan), most=STORM, slower=(2.4, 20.0))
