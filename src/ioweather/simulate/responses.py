"""Response times of probes and samplers: a law of head and tail on the quiet system, stretched by what is going on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ioweather.core.arrays import Bools, Floats, Indices, Ints
from ioweather.core.units import KIB, MIB
from ioweather.simulate.meter import Readings
from ioweather.simulate.presets import Preset, ResponseLaw
from ioweather.simulate.resources import Resources, stream

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
    """On a quiet system, of the head."""
    factor = WRITE_FACTOR if op == "write" else 1.0
    return float(law.mean_seconds * factor * (request_bytes / MIB) ** law.size_exponent)


def draw(law: ResponseLaw, mean: float, count: int, rng: np.random.Generator) -> tuple[Floats, Bools]:
    """(seconds, in the tail) of independent operations on a quiet system."""
    sd = law.sd_ratio * mean
    pivot = mean + law.pivot_sds * sd
    tail = rng.random(count) < law.tail_ratio
    # P(T > t) = (t / pivot)^(1 - alpha)
    slow = pivot * (1.0 - rng.random(count)) ** (-1.0 / (law.alpha - 1.0))
    head = rng.normal(mean, sd, count)
    low, fold = mean - 4.0 * sd, 2.0 * mean
    # Beyond the pivot there is only the tail: what falls there is mirrored at the mean.
    head = np.where(head > pivot, fold - head, head)
    head = np.maximum(head, max(low, 1e-6))
    return np.where(tail, slow, head), tail


def window_responses(readings: Readings, preset: Preset, resources: Resources, seed: int) -> Iterator[Responses]:
    """All operations that begin in this window."""
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
                # A transfer on the same target slows a sample like anybody else.
                seconds = quiet[chosen] * _data_stretch(readings, resources, ost, at[chosen])
                where = (f"/{resources.fsname}/.samples", op, size, resources.ost_name(ost))
                yield Responses("sampler1", *where, "sampler", at[chosen], seconds)


def _turns(turn: Ints, resources: Resources) -> Iterator[tuple[int, Indices]]:
    """Targets, each with the places of its turns."""
    for ost in range(resources.osts):
        chosen = np.flatnonzero(turn % resources.osts == ost)
        if len(chosen):
            yield ost, chosen
