"""What monitoring of a simulated facility records: server samples, probe responses, job counts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ioweather.core.arrays import Bools, Floats, Indices, Ints
from ioweather.core.units import KIB, MIB
from ioweather.simulate.fluid import (
    OF_TARGETS,
    OPERATIONS,
    Calendar,
    Flow,
    Fluid,
    Incident,
    Readings,
    Resources,
    stream,
)
from ioweather.simulate.presets import Preset, ResponseLaw
from ioweather.simulate.world import Run

# Background traffic is a gamma process: steps of any length sum to minutes of this shape.
_HUM_SHAPE_PER_MINUTE = 2.0
_HUM_REQUEST_BYTES = 65_536
# open, close, mknod, unlink, getattr, setattr, statfs, per open
_HUM_OPERATIONS = np.array([1.0, 0.75, 0.1, 0.05, 0.8, 0.05, 0.05])


@dataclass(frozen=True, eq=False)
class Observed:
    """Whole amounts per step. `missing` marks samples (step, target) that did not arrive."""

    readings: Readings
    read_bytes: Floats
    write_bytes: Floats
    read_requests: Floats
    write_requests: Floats
    operations: Floats
    oss_cpu_percent: Floats
    mds_cpu_percent: Floats
    missing: Bools


def observe(
    readings: Readings, preset: Preset, resources: Resources, incidents: Sequence[Incident], seed: int
) -> Observed:
    """Return what the monitoring of the servers records in a window."""
    rng = stream(seed, "observe", round(readings.start))
    shape = readings.read_bytes.shape
    times = readings.times
    health = _target_health(times, shape, incidents)
    mean = preset.background_bytes_per_s * readings.step_seconds / 2
    form = _HUM_SHAPE_PER_MINUTE * readings.step_seconds / 60
    hum = [np.rint(rng.gamma(form, mean / form, shape) * health) for _ in range(2)]
    read, write = np.rint(readings.read_bytes) + hum[0], np.rint(readings.write_bytes) + hum[1]
    capacity = resources.capacity[: resources.osts] * readings.step_seconds
    busy = np.clip((read + write) / capacity, 0.0, 1.0)
    counts = np.bincount(resources.server_of, minlength=resources.servers)
    by_server = np.zeros((readings.steps, resources.servers))
    np.add.at(by_server.T, resources.server_of, busy.T)
    oss = np.clip(1.0 + 60.0 * (by_server / counts) ** 1.5 + rng.exponential(0.3, by_server.shape), 0.0, 100.0)
    hum_ops = preset.background_ops_per_s * readings.step_seconds * _HUM_OPERATIONS
    operations = np.rint(readings.operations + rng.poisson(hum_ops, readings.operations.shape))
    load = operations.sum(axis=1) / (preset.mds_ops_per_s * readings.step_seconds)
    mds = np.clip(2.0 + 80.0 * np.minimum(load, 1.0) + rng.exponential(0.5, readings.steps), 0.0, 100.0)
    missing = rng.random(shape) < preset.missing_ratio
    for incident in incidents:
        if incident.kind == "failed_oss":
            gone = (times >= incident.start) & (times < incident.taken_over)
            of_server = np.flatnonzero(resources.server_of == resources.oss_names.index(incident.component))
            missing[np.ix_(np.flatnonzero(gone), of_server)] = True
    return Observed(
        readings,
        read,
        write,
        np.rint(readings.read_requests + hum[0] / _HUM_REQUEST_BYTES),
        np.rint(readings.write_requests + hum[1] / _HUM_REQUEST_BYTES),
        operations,
        oss,
        mds[:, None],
        missing,
    )


def _target_health(times: Floats, shape: tuple[int, ...], incidents: Sequence[Incident]) -> Floats:
    """Background traffic gets less from a sick target too."""
    health = np.ones(shape)
    for incident in incidents:
        if incident.kind in OF_TARGETS:
            during = (times >= incident.start) & (times < incident.end)
            health[np.ix_(np.flatnonzero(during), np.array(incident.columns))] *= incident.strength
    return health


def as_served(readings: Readings, resources: Resources, incidents: Sequence[Incident]) -> Readings:
    """Return readings with the stretch as requests meet it: a sick target serves each one slower, even without load."""
    health = _target_health(readings.times, (readings.steps, resources.osts), incidents)
    stretch = readings.stretch.copy()
    stretch[:, : resources.osts] /= health
    return replace(readings, stretch=stretch)


def coarser(observed: Observed, step_seconds: int) -> Observed:
    """Return the same in longer steps: amounts are added, states averaged."""
    factor = step_seconds // observed.readings.step_seconds
    if factor <= 1:
        return observed
    steps = observed.readings.steps // factor

    def blocks(values: NDArray[Any]) -> NDArray[Any]:
        return values[: steps * factor].reshape(steps, factor, -1)

    amounts: dict[str, Any] = {
        name: blocks(getattr(observed, name)).sum(axis=1)
        for name in ("read_bytes", "write_bytes", "read_requests", "write_requests", "operations")
    }
    states: dict[str, Any] = {
        name: blocks(getattr(observed, name)).mean(axis=1) for name in ("oss_cpu_percent", "mds_cpu_percent")
    }
    # The collector asks again within a step: only what is silent for most of it is missing.
    missing = blocks(observed.missing).mean(axis=1) > 0.5
    # Of the readings, files need the steps alone.
    readings = replace(observed.readings, step_seconds=step_seconds, read_bytes=amounts["read_bytes"])
    return replace(observed, readings=readings, missing=missing, **amounts, **states)


SIZES = tuple(512 * KIB << power for power in range(12))
PROBE_BYTES = 1_000_000
SMALL_FILE_BYTES = 3901
# One small file on each target, which a probe reads and writes in turn: one target at a tick.
TARGET_BYTES = 61_440
# Metadata operations of the probe, with their means on a quiet system in seconds.
_METADATA = {"create": 0.0012, "stat": 0.0004, "file_read": 0.0009, "delete": 0.001}
_CACHED_MEAN = 0.0001
_CACHED_RATIO = 0.3
WRITE_FACTOR = 1.2


@dataclass(frozen=True, eq=False)
class Responses:
    """A batch of timed operations of one host, operation and size."""

    host: str
    target: str
    op: str
    request_bytes: int
    component: str | None
    run_id: str
    start: Floats
    seconds: Floats
    cached: Bools | None = None


def mean_seconds(law: ResponseLaw, request_bytes: int, op: str) -> float:
    """Return the mean of the head on a quiet system."""
    factor = WRITE_FACTOR if op == "write" else 1.0
    return float(law.mean_seconds * factor * (request_bytes / MIB) ** law.size_exponent)


def draw(law: ResponseLaw, mean: float, count: int, rng: np.random.Generator) -> tuple[Floats, Bools]:
    """Return (seconds, in the tail) of independent operations on a quiet system."""
    sd = law.sd_ratio * mean
    pivot = mean + law.pivot_sds * sd
    tail = rng.random(count) < law.tail_ratio
    # P(T > t) = (t / pivot)^(1 - alpha)
    slow = pivot * (1.0 - rng.random(count)) ** (-1.0 / (law.alpha - 1.0))
    head = rng.normal(mean, sd, count)
    low, fold = mean - 4.0 * sd, 2.0 * mean
    # Only the tail is beyond the pivot: head values there are mirrored at the mean.
    head = np.where(head > pivot, fold - head, head)
    head = np.maximum(head, max(low, 1e-6))
    return np.where(tail, slow, head), tail


def window_responses(readings: Readings, preset: Preset, resources: Resources, seed: int) -> Iterator[Responses]:
    """Yield all operations that begin in this window."""
    yield from _probes(readings, preset, resources, seed)
    if preset.sampler_seconds:
        yield from _samples(readings, preset, resources, seed)


def _ticks(readings: Readings, every: int, offset: float) -> Floats:
    begin, end = readings.start, readings.start + readings.steps * readings.step_seconds
    first = -(-(begin - offset) // every)
    return np.arange(first * every + offset, end, every)


def _stretch(readings: Readings, column: int, moments: Floats) -> Floats:
    place = ((moments - readings.start) // readings.step_seconds).astype(np.int64)
    return np.asarray(readings.stretch[np.clip(place, 0, readings.steps - 1), column])


def _data_stretch(readings: Readings, resources: Resources, ost: int, moments: Floats) -> Floats:
    """A request passes network, server and target, and waits for the slowest of them."""
    way = (ost, resources.osts + int(resources.server_of[ost]), resources.network)
    return np.asarray(np.max([_stretch(readings, column, moments) for column in way], axis=0))


def _probes(readings: Readings, preset: Preset, resources: Resources, seed: int) -> Iterator[Responses]:
    target = f"/{resources.fsname}/.ioweather"
    for host in range(preset.probe_hosts):
        rng = stream(seed, "probe", host, round(readings.start))
        moments = _ticks(readings, preset.probe_seconds, float(host))
        name, ost = f"login{host + 1}", host % resources.osts
        for number, op in enumerate(("read", "write")):
            quiet, _ = draw(preset.law, mean_seconds(preset.law, PROBE_BYTES, op), len(moments), rng)
            seconds = quiet * _data_stretch(readings, resources, ost, moments)
            yield Responses(
                name, target, op, PROBE_BYTES, resources.ost_name(ost), f"probe-{host}", moments + 0.1 * number, seconds
            )
        yield from _each_target(readings, preset, resources, host, seed)
        stretched = _stretch(readings, resources.mds, moments)
        for number, (op, mean) in enumerate(_METADATA.items()):
            quiet, _ = draw(preset.law, mean, len(moments), rng)
            cached = None
            if op == "file_read":
                cached = rng.random(len(moments)) < _CACHED_RATIO
                quiet = np.where(cached, rng.normal(_CACHED_MEAN, 0.1 * _CACHED_MEAN, len(moments)), quiet)
            seconds = quiet * (stretched if cached is None else np.where(cached, 1.0, stretched))
            at, took = moments + 0.3 + 0.1 * number, np.maximum(seconds, 1e-6)
            yield Responses(name, target, op, SMALL_FILE_BYTES, None, f"probe-{host}", at, took, cached)


def _each_target(readings: Readings, preset: Preset, resources: Resources, host: int, seed: int) -> Iterator[Responses]:
    rng = stream(seed, "targets", host, round(readings.start))
    moments = _ticks(readings, preset.probe_seconds, float(host)) + 0.8
    turn = (moments // preset.probe_seconds).astype(np.int64) * preset.probe_hosts + host
    for number, op in enumerate(("read", "write")):
        quiet, _ = draw(preset.law, mean_seconds(preset.law, TARGET_BYTES, op), len(moments), rng)
        at = moments + 0.05 * number
        for ost, chosen in _turns(turn, resources):
            seconds = quiet[chosen] * _data_stretch(readings, resources, ost, at[chosen])
            target, name = f"/{resources.fsname}/.ioweather", resources.ost_name(ost)
            probe = (f"login{host + 1}", target, op, TARGET_BYTES, name, f"probe-{host}")
            yield Responses(*probe, at[chosen], seconds)


def _samples(readings: Readings, preset: Preset, resources: Resources, seed: int) -> Iterator[Responses]:
    """don15's sampler: every size read and written, on another target in each round, so that neither is taken for the
    other."""
    rng = stream(seed, "sampler", round(readings.start))
    ticks = _ticks(readings, preset.sampler_seconds, 30.0)
    rounds = (ticks // preset.sampler_seconds).astype(np.int64)
    moments = ticks + rng.uniform(0.0, 0.5 * preset.sampler_seconds, len(ticks))
    for number, size in enumerate(SIZES):
        for place, op in enumerate(("read", "write")):
            quiet, _ = draw(preset.law, mean_seconds(preset.law, size, op), len(moments), rng)
            at = moments + 2.0 * number + place
            for ost, chosen in _turns(number * 5 + rounds, resources):
                # A transfer on the same target slows a sample too.
                seconds = quiet[chosen] * _data_stretch(readings, resources, ost, at[chosen])
                where = (f"/{resources.fsname}/.samples", op, size, resources.ost_name(ost))
                yield Responses("sampler1", *where, "sampler", at[chosen], seconds)


def _turns(turn: Ints, resources: Resources) -> Iterator[tuple[int, Indices]]:
    """Targets, each with the places of its turns."""
    for ost in range(resources.osts):
        chosen = np.flatnonzero(turn % resources.osts == ost)
        if len(chosen):
            yield ost, chosen


_KINDS = ("read", "write")


def job_key(flow: Flow) -> str:
    """Return the key in job_stats: the scheduler's id, or program and user of other work."""
    if isinstance(flow.owner, Run):
        return str(flow.owner.job.number)
    name = str(flow.owner or "service")
    return name if "." in name else f"{name}.0"


@dataclass(eq=False)
class JobCounts:
    """What servers count by job. `costs` are seconds by (run, key of the other job)."""

    fluid: Fluid
    resources: Resources
    step_seconds: int
    costs: dict[tuple[str, str], float] = field(default_factory=dict)
    _amounts: dict[tuple[int, str], Floats] = field(default_factory=dict)

    def watch(self, now: float, until: float, flows: list[Flow], pace: Floats) -> None:
        """Count an interval with constant paces."""
        self._count(now, until, flows, pace)
        without = self.fluid.paces_without_each()
        keys = [job_key(flow) for flow in flows]
        for row, flow in enumerate(flows):
            if not isinstance(flow.owner, Run):
                continue
            lost = (until - now) * (1.0 - pace[row] / without[row])
            for column in np.flatnonzero(lost > 0).tolist():
                if keys[column] != keys[row]:
                    pair = (flow.owner.id, keys[column])
                    self.costs[pair] = self.costs.get(pair, 0.0) + float(lost[column])

    def _count(self, now: float, until: float, flows: list[Flow], pace: Floats) -> None:
        osts, width = self.resources.osts, self.step_seconds
        for flow, speed in zip(flows, pace.tolist(), strict=True):
            rate = np.zeros(4 * osts + len(OPERATIONS))
            if flow.kind == "meta":
                rate[4 * osts :] = speed * flow.pattern.demand[self.resources.mds] * flow.mix
            else:
                side = _KINDS.index(flow.kind)
                moved = speed * flow.pattern.demand[:osts]
                rate[side * osts : (side + 1) * osts] = moved
                rate[(2 + side) * osts : (3 + side) * osts] = moved / flow.rpc_bytes
            for step in range(int(now // width), int(-(-until // width))):
                span = min(until, (step + 1) * width) - max(now, step * width)
                place = (step, job_key(flow))
                if place not in self._amounts:
                    self._amounts[place] = np.zeros(len(rate))
                self._amounts[place] += span * rate

    def costs_of(self, run: str) -> dict[str, float]:
        """Return what each other job cost a run, in seconds."""
        return {key: seconds for (name, key), seconds in self.costs.items() if name == run}

    def taken(self, until: float) -> list[tuple[int, str, Floats]]:
        """Return and drop the whole steps up to a moment."""
        ready = sorted(place for place in self._amounts if (place[0] + 1) * self.step_seconds <= until)
        return [(step, key, self._amounts.pop((step, key))) for step, key in ready]


def write_segment(path: Path, host: str, run_id: str, opened_ns: int, lines: Iterable[str]) -> None:
    """Write a segment as the agent does."""
    path.parent.mkdir(parents=True, exist_ok=True)
    header = {"ioweather_spool": 1, "host": host, "boot_id": "simulated", "run_id": run_id, "opened_ns": opened_ns}
    with path.open("w", encoding="utf-8") as file:
        file.write(json.dumps(header) + "\n")
        file.writelines(lines)


def write_job_stats(
    folder: Path, rows: list[tuple[int, str, Floats]], step_seconds: int, resources: Resources, calendar: Calendar
) -> None:
    """Write the job counts of some steps as a segment of an agent on a server."""
    moments = [calendar.epoch_ns(step * step_seconds) for step, _, _ in rows]
    lines = (
        line
        for start_ns, (_, key, amounts) in zip(moments, rows, strict=True)
        for line in _lines(start_ns, step_seconds, key, amounts, resources)
    )
    if rows:
        write_segment(folder / f"seg-mds1-{moments[0]}.ndjson", "mds1", "r", moments[0], lines)


def _lines(start_ns: int, step_seconds: int, key: str, amounts: Floats, resources: Resources) -> Iterator[str]:
    osts = resources.osts
    program, dot, uid = key.rpartition(".")
    common = {
        "table": "job_operations",
        "start_ns": start_ns,
        "interval_ns": step_seconds * 10**9,
        "system": resources.fsname,
        "job_key": key,
        "job_id": None if dot else int(key),
        "cluster": None,
        "uid": int(uid) if dot else None,
        "exe": program or None,
        "host": None,
        "time_ns": None,
        "histogram": None,
        "quality": 0,
    }
    for side, operation in enumerate(_KINDS):
        for ost in np.flatnonzero(amounts[side * osts : (side + 1) * osts] >= 1.0).tolist():
            count = max(1, round(float(amounts[(2 + side) * osts + ost])))
            yield _line(
                common, "ost", resources.ost_name(ost), operation, count, round(float(amounts[side * osts + ost]))
            )
    for number, operation in enumerate(OPERATIONS):
        count = round(float(amounts[4 * osts + number]))
        if count:
            yield _line(common, "mdt", resources.mdt_name, operation, count, None)


def _line(common: dict[str, object], kind: str, component: str, operation: str, count: int, moved: int | None) -> str:
    row = {**common, "component_kind": kind, "component": component, "operation": operation, "count": count}
    return json.dumps({**row, "bytes": moved}) + "\n"
