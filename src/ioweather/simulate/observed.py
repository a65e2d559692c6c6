"""From what happened at the servers to what their monitoring got: the hum of services, whole bytes, lost samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ioweather.core.arrays import Bools, Floats
from ioweather.simulate.incidents import OF_TARGETS, Incident, failed_targets
from ioweather.simulate.meter import Readings
from ioweather.simulate.presets import Preset
from ioweather.simulate.resources import Resources, stream

# The hum is a gamma process: steps of any length add up to minutes of this shape.
_HUM_SHAPE_PER_MINUTE = 2.0
_HUM_REQUEST_BYTES = 65_536
# open, close, mknod, unlink, getattr, setattr, statfs, per open
_HUM_OPERATIONS = np.array([1.0, 0.75, 0.1, 0.05, 0.8, 0.05, 0.05])


@dataclass(frozen=True, eq=False)
class Observed:
    """Amounts per step; whole numbers. `missing` marks samples of targets (step, target) that never arrived."""

    readings: Readings
    read_bytes: Floats
    write_bytes: Floats
    read_requests: Floats
    write_requests: Floats
    operations: Floats
    oss_cpu_percent: Floats
    mds_cpu_percent: Floats
    missing: Bools
    hum_bytes: float


def observe(
    readings: Readings, preset: Preset, resources: Resources, incidents: Sequence[Incident], seed: int
) -> Observed:
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
        silent = incident.silent()
        if silent is not None:
            gone = (times >= silent[0]) & (times < silent[1])
            missing[np.ix_(np.flatnonzero(gone), np.array(failed_targets(incident, resources), np.int64))] = True
    return Observed(
        readings, read, write,
        np.rint(readings.read_requests + hum[0] / _HUM_REQUEST_BYTES),
        np.rint(readings.write_requests + hum[1] / _HUM_REQUEST_BYTES),
        operations, oss, mds[:, None], missing, float(hum[0].sum() + hum[1].sum()),
    )  # fmt: skip


def _target_health(times: Floats, shape: tuple[int, ...], incidents: Sequence[Incident]) -> Floats:
    """Services get less out of a sick target too."""
    health = np.ones(shape)
    for incident in incidents:
        if incident.kind in OF_TARGETS:
            during = (times >= incident.start) & (times < incident.end)
            health[np.ix_(np.flatnonzero(during), np.array(incident.columns))] *= incident.strength
    return health


def as_served(readings: Readings, resources: Resources, incidents: Sequence[Incident]) -> Readings:
    """As requests meet it: a sick target serves each one slower, also where nobody asks for more than it can give."""
    health = _target_health(readings.times, (readings.steps, resources.osts), incidents)
    stretch = readings.stretch.copy()
    stretch[:, : resources.osts] /= health
    return replace(readings, stretch=stretch)


_AMOUNTS = ("read_bytes", "write_bytes", "read_requests", "write_requests", "operations")
_STATES = ("oss_cpu_percent", "mds_cpu_percent")


def slim(observed: Observed) -> Observed:
    """Without what only the model knows: its readings become those that were recorded."""
    recorded: dict[str, Any] = {name: getattr(observed, name) for name in _AMOUNTS}
    readings = replace(observed.readings, stretch=np.ones((observed.readings.steps, 1)), **recorded)
    return replace(observed, readings=readings)


def joined(parts: Sequence[Observed]) -> Observed:
    """Windows of one day as one, slim."""
    if len(parts) == 1:
        return parts[0]
    arrays: dict[str, Any] = {
        name: np.concatenate([getattr(part, name) for part in parts]) for name in (*_AMOUNTS, *_STATES, "missing")
    }
    steps: dict[str, Any] = {name: arrays[name] for name in _AMOUNTS}
    readings = replace(parts[0].readings, stretch=np.ones((len(arrays["missing"]), 1)), **steps)
    return replace(parts[0], readings=readings, hum_bytes=sum(part.hum_bytes for part in parts), **arrays)


def coarser(observed: Observed, step_seconds: int) -> Observed:
    """The same in longer steps: amounts add up, states average."""
    factor = step_seconds // observed.readings.step_seconds
    if factor <= 1:
        return observed
    steps = observed.readings.steps // factor

    def blocks(values: NDArray[Any]) -> NDArray[Any]:
        return values[: steps * factor].reshape(steps, factor, -1)

    def summed(item: Any) -> dict[str, Any]:
        return {name: blocks(getattr(item, name)).sum(axis=1) for name in _AMOUNTS}

    stretch = blocks(observed.readings.stretch).mean(axis=1)
    readings = replace(observed.readings, step_seconds=step_seconds, stretch=stretch, **summed(observed.readings))
    states: dict[str, Any] = {name: blocks(getattr(observed, name)).mean(axis=1) for name in _STATES}
    # The collector asks again within a step: only what is silent for most of it is missing.
    missing = blocks(observed.missing).mean(axis=1) > 0.5
    return replace(observed, readings=readings, missing=missing, **summed(observed), **states)
