"""Flows, the resources they share, and meters of both: the fluid model of the simulated storage."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np

from ioweather.core.arrays import Floats, Ints
from ioweather.simulate.presets import Preset
from ioweather.simulate.resources import Resources

FlowKind: TypeAlias = Literal["read", "write", "meta"]

# Metadata operations that are told apart, in this order everywhere.
OPERATIONS = ("open", "close", "mknod", "unlink", "getattr", "setattr", "statfs")
_RPC_BYTES = 1 << 20


@dataclass(frozen=True, eq=False)
class Pattern:
    """`demand` per resource at full speed, for `seconds` if nothing is in the way."""

    demand: Floats
    seconds: float


@dataclass(eq=False)
class Flow:
    """`normal` is what the flow would be had its run not changed its own pattern; None where it did not."""

    kind: FlowKind
    pattern: Pattern
    request_bytes: int = _RPC_BYTES
    mix: Floats = field(default_factory=lambda: np.zeros(len(OPERATIONS)))
    normal: Pattern | None = None
    owner: object = None
    # Bytes that move for each that the flow asks of its targets: long sequential ones cost little, small ones much.
    moved_ratio: float = 1.0
    # Filled by the model.
    start: float = 0.0
    end: float = 0.0
    alone_seconds: float = 0.0
    with_incidents_seconds: float = 0.0
    with_others_seconds: float = 0.0
    usual_seconds: float = 0.0

    @property
    def seconds(self) -> float:
        return self.end - self.start

    @property
    def rpc_bytes(self) -> int:
        """What a server sees as one request: clients join small ones up to a page and split large ones."""
        return int(min(_RPC_BYTES, max(4096, self.request_bytes)))


def data_demand(resources: Resources, shares: Floats, bytes_per_s: float) -> Floats:
    """Bytes per second at each target (`shares` add up to 1), its server and the network."""
    demand = np.zeros(resources.count)
    demand[: resources.osts] = shares * bytes_per_s
    demand[resources.osts : resources.mds] = np.bincount(
        resources.server_of, weights=demand[: resources.osts], minlength=resources.servers
    )
    demand[resources.network] = bytes_per_s
    return demand


def meta_demand(resources: Resources, ops_per_s: float) -> Floats:
    demand = np.zeros(resources.count)
    demand[resources.mds] = ops_per_s
    return demand


def operations_mix(**parts: float) -> Floats:
    """Shares of the operations; they add up to 1."""
    mix = np.array([parts.get(name, 0.0) for name in OPERATIONS])
    return np.asarray(mix / mix.sum())


IO500_NAME = "io500"
# phase, kind, share of all targets or of the metadata server that it asks for, seconds at full speed
_PHASES = (
    ("ior-easy-write", "write", 1.6, 300.0),
    ("mdtest-easy-write", "create", 1.8, 240.0),
    ("ior-hard-write", "write", 0.9, 240.0),
    ("mdtest-hard-write", "create", 2.5, 240.0),
    ("ior-easy-read", "read", 1.6, 200.0),
    ("mdtest-easy-stat", "stat", 1.5, 120.0),
    ("ior-hard-read", "read", 1.0, 200.0),
    ("mdtest-hard-stat", "stat", 2.0, 120.0),
    ("mdtest-easy-delete", "delete", 1.5, 120.0),
)
_MIXES = {
    "create": operations_mix(open=0.4, close=0.3, mknod=0.3),
    "stat": operations_mix(getattr=1.0),
    "delete": operations_mix(unlink=0.9, getattr=0.1),
}
PROCESSES = 640


@dataclass(eq=False)
class Benchmark:
    """One run of an IO500-like benchmark in the middle of the period: its phases load the facility, and its output says
    how fast each went."""

    start: float
    flows: list[tuple[str, Flow]] = field(default_factory=list)

    def next_flow(self, resources: Resources) -> Flow | None:
        if len(self.flows) == len(_PHASES):
            return None
        name, kind, share, seconds = _PHASES[len(self.flows)]
        if kind in _MIXES:
            demand = meta_demand(resources, share * float(resources.capacity[resources.mds]))
            flow = Flow("meta", Pattern(demand, seconds), mix=_MIXES[kind], owner=IO500_NAME)
        else:
            even = np.full(resources.osts, 1.0 / resources.osts)
            speed = share * float(resources.capacity[: resources.osts].sum())
            pattern = Pattern(data_demand(resources, even, speed), seconds)
            flow = Flow("read" if kind == "read" else "write", pattern, owner=IO500_NAME)
        self.flows.append((name, flow))
        return flow

    @property
    def done(self) -> bool:
        return len(self.flows) == len(_PHASES) and self.flows[-1][1].end > 0


def make_benchmark(preset: Preset, resources: Resources) -> Benchmark | None:
    """On a morning in the middle; a facility without probes has nobody to watch it."""
    if not preset.probe_hosts:
        return None
    return Benchmark(start=(preset.days // 2) * 86400.0 + 9.5 * 3600.0)


@dataclass(frozen=True, eq=False)
class Readings:
    """One day: amounts in steps of `step_seconds` from `start` on (seconds since the facility's start).

    Arrays are (step, target); `operations` is (step, operation); `stretch` the mean of phi, (step, resource).
    """

    day: int
    start: float
    step_seconds: int
    read_bytes: Floats
    write_bytes: Floats
    read_requests: Floats
    write_requests: Floats
    operations: Floats
    stretch: Floats

    @property
    def steps(self) -> int:
        return len(self.read_bytes)

    @property
    def times(self) -> Floats:
        """Starts of the steps."""
        return self.start + np.arange(self.steps, dtype=np.float64) * self.step_seconds


class Meter:
    """A change of a rate by d at time t adds d x (end of its step - t) to that step, and d x step to all later ones."""

    def __init__(self, resources: Resources) -> None:
        self._osts = resources.osts
        self.operations = len(OPERATIONS)
        self._width = 4 * resources.osts + self.operations
        self._rates = np.zeros(self._width + resources.count)
        self._rates[self._width :] = 1.0
        self._begin = 0.0
        self._step = 60.0
        self._day = 0

    def open_day(self, day: int, begin: float, seconds: int, step_seconds: int) -> None:
        self._day, self._begin, self._step = day, begin, float(step_seconds)
        steps = seconds // step_seconds
        self._partial = np.zeros((steps + 1, len(self._rates)))
        self._onward = np.zeros((steps + 2, len(self._rates)))
        self._onward[0] = self._rates * self._step

    def level(self, now: float, rates: Floats, stretch: Floats) -> None:
        """From `now` on the rates are these."""
        change = np.concatenate([rates, stretch])
        change, self._rates = change - self._rates, change
        index = int((now - self._begin) // self._step)
        rest = self._begin + (index + 1) * self._step - now
        self._partial[index] += change * rest
        self._onward[index + 1] += change * self._step

    def close_day(self) -> Readings:
        amounts = np.cumsum(self._onward[:-2], axis=0)
        amounts += self._partial[:-1]
        osts, width = self._osts, self._width
        # Adding and taking away leaves dust of less than a byte.
        moved = np.maximum(amounts[:, : 4 * osts], 0.0)
        parts = [moved[:, i * osts : (i + 1) * osts] for i in range(4)]
        return Readings(
            self._day, self._begin, round(self._step), parts[0], parts[1], parts[2], parts[3],
            np.maximum(amounts[:, 4 * osts : width], 0.0), np.maximum(amounts[:, width:] / self._step, 1.0),
        )  # fmt: skip


_ROOM = 64
# Sums that are kept by adding and taking away are computed again this often.
_REFRESH_EVENTS = 512
_DONE_SECONDS = 1e-7
# Of what held-up flows ask elsewhere, which depends on who else is held up; settled to within a percent by then.
_ROUNDS = 6
# What would have happened, by column of the arrays below.
_INCIDENTS, _OTHERS, _USUAL = range(3)

Watcher = Callable[[float, float, list[Flow], Floats], None]


class Fluid:
    """All flows that are under way. Times are seconds since the facility's start."""

    def __init__(self, resources: Resources, meter: Meter, *, closed_loop: bool = False) -> None:
        self._closed_loop = closed_loop
        self._resources = resources
        self._meter = meter
        self._mds = resources.mds
        self._capacity = resources.capacity
        self._healthy = resources.capacity
        self._storm = np.zeros(resources.count)
        self._disturbed = False
        self.now = 0.0
        self.flows: list[Flow] = []
        self._events = 0
        self._grow(_ROOM)
        self._total = np.zeros(resources.count)
        # What flows ask of each resource now, and all together.
        self._asked, self._asked_total = np.zeros((0, resources.count)), self._total
        self.watcher: Watcher | None = None
        self._pace = np.zeros(0)
        self._others_pace = np.zeros((0, 3))
        self._stale = True

    def _grow(self, room: int) -> None:
        count = self._resources.count

        def larger(name: str, *shape: int) -> Any:
            fresh = np.zeros((room, *shape))
            old = getattr(self, name, None)
            if old is not None:
                fresh[: len(old)] = old
            setattr(self, name, fresh)
            return fresh

        self._demand: Floats = larger("_demand", count)
        self._usual: Floats = larger("_usual", count)
        self._used: Floats = larger("_used", count)
        self._left: Floats = larger("_left")
        self._other_left: Floats = larger("_other_left", 3)
        self._other_end: Floats = larger("_other_end", 3)
        self._rpc: Floats = larger("_rpc")
        self._direction: Floats = larger("_direction", 3)
        self._mix: Floats = larger("_mix", self._meter.operations)
        self._changed: Floats = larger("_changed")
        self._alone_pace: Floats = larger("_alone_pace")
        self._moved_ratio: Floats = larger("_moved_ratio")

    def add(self, flow: Flow) -> None:
        if len(self.flows) == len(self._left):
            self._grow(2 * len(self._left))
        slot = len(self.flows)
        self.flows.append(flow)
        usual = flow.normal or flow.pattern
        self._demand[slot] = flow.pattern.demand
        self._usual[slot] = usual.demand
        self._used[slot] = (flow.pattern.demand > 0) | (usual.demand > 0)
        self._left[slot] = flow.pattern.seconds
        self._other_left[slot] = usual.seconds
        self._other_end[slot] = np.nan
        self._rpc[slot] = 1.0 / flow.rpc_bytes
        self._direction[slot] = [flow.kind == kind for kind in ("read", "write", "meta")]
        self._mix[slot] = flow.mix
        self._changed[slot] = flow.normal is not None
        alone = self._stretch(usual.demand, self._healthy)
        pace = float(np.max(alone * (usual.demand > 0)))
        self._alone_pace[slot] = 1.0 / pace
        self._moved_ratio[slot] = flow.moved_ratio
        flow.start = self.now
        flow.alone_seconds = usual.seconds * pace
        self._total += flow.pattern.demand
        self._stale = True

    def disturb(self, health: Floats, storm: Floats) -> None:
        """Incidents: the share of each capacity that is left, and demand that nobody's run makes."""
        self._capacity = self._healthy * health
        self._storm = storm
        self._disturbed = bool(np.any(health < 1.0) or np.any(storm > 0))
        self._stale = True

    def next_end(self) -> float:
        """When the next flow ends if nothing else happens."""
        self._settle()
        count = len(self.flows)
        return self.now + float(np.min(self._left[:count] / self._pace)) if count else np.inf

    def advance(self, until: float) -> list[Flow]:
        """Move on; at most to the next end. Returns the flows that are done."""
        self._settle()
        span = until - self.now
        count = len(self.flows)
        if span > 0 and count:
            if self.watcher is not None:
                self.watcher(self.now, until, self.flows, self._pace)
            self._left[:count] -= self._pace * span
            self._advance_others(span)
        self.now = until
        done = np.flatnonzero(self._left[:count] <= _DONE_SECONDS)
        return self._remove(done) if len(done) else []

    def _settle(self) -> None:
        """Paces of all flows after something changed, and what the meters read from here on."""
        if not self._stale:
            return
        self._stale = False
        self._events += 1
        count = len(self.flows)
        demand = self._demand[:count]
        if self._events % _REFRESH_EVENTS == 0:
            self._total = demand.sum(axis=0)
        used = self._used[:count]
        stretch = self._stretch(self._total + self._storm, self._capacity)
        self._pace = 1.0 / np.max(used * stretch, axis=1, initial=1.0)
        self._asked, self._asked_total = demand, self._total
        for _ in range(_ROUNDS if self._closed_loop and count else 0):
            self._asked = demand * np.minimum(1.0, self._pace[:, None] * stretch)
            self._asked_total = self._asked.sum(axis=0)
            stretch = self._stretch(self._asked_total + self._storm, self._capacity)
            self._pace = 1.0 / np.max(used * stretch, axis=1, initial=1.0)
        self._others_pace = self._counterfactual_paces(count, used)
        self._meter.level(self.now, self._levels(count, demand, stretch), stretch)

    def _stretch(self, demand: Floats, capacity: Floats) -> Floats:
        load = demand / capacity
        square = load * load
        stretch: Floats = np.sqrt(np.sqrt(1.0 + square * square))
        stretch[..., self._mds] = np.sqrt(1.0 + square[..., self._mds])
        return stretch

    def _counterfactual_paces(self, count: int, used: Floats) -> Floats:
        """(flow, what would have happened); where nothing differs the pace is the real or the undisturbed one."""
        paces = np.empty((count, 3))
        paces[:, _INCIDENTS] = self._alone_pace[:count]
        paces[:, _OTHERS] = paces[:, _USUAL] = self._pace
        changed = np.flatnonzero(self._changed[:count])
        rest = self._asked_total - self._asked[changed] + self._usual[changed]
        if len(changed):
            usual = self._stretch(rest + self._storm, self._capacity)
            paces[changed, _USUAL] = 1.0 / np.max(used[changed] * usual, axis=1)
            paces[changed, _OTHERS] = paces[changed, _USUAL]
        if self._disturbed and count:
            alone = self._stretch(self._usual[:count] + self._storm, self._capacity)
            paces[:, _INCIDENTS] = 1.0 / np.max(used * alone, axis=1)
            undisturbed = self._stretch(self._asked_total + (self._demand[:count] - self._asked), self._healthy)
            paces[:, _OTHERS] = 1.0 / np.max(used * undisturbed, axis=1)
            if len(changed):
                calm = self._stretch(rest, self._healthy)
                paces[changed, _OTHERS] = 1.0 / np.max(used[changed] * calm, axis=1)
        return paces

    def paces_without_each(self) -> Floats:
        """(flow, other): the pace of each flow if the other were not there; nothing else differs."""
        count = len(self.flows)
        rest = np.maximum(self._asked_total - self._asked, 0.0) + self._storm
        if not self._closed_loop:
            stretch = self._stretch(rest, self._capacity)[None]
        else:  # where the other no longer holds it up, a flow asks for all it wants
            stretch = self._stretch(rest[None] + (self._demand[:count] - self._asked)[:, None], self._capacity)
        return np.asarray(1.0 / np.max(self._used[:count, None, :] * stretch, axis=2, initial=1.0))

    def _advance_others(self, span: float) -> None:
        count = len(self.flows)
        left, pace = self._other_left[:count], self._others_pace
        ends = (left > 0) & (left <= pace * span)
        if ends.any():
            moment = self.now + left / pace
            self._other_end[:count][ends] = moment[ends]
        left -= pace * span

    def _levels(self, count: int, demand: Floats, stretch: Floats) -> Floats:
        """Rates at this moment: bytes read and written, requests, per target; metadata operations."""
        osts = self._resources.osts
        moved = self._direction[:count] * (self._pace * self._moved_ratio[:count])[:, None]
        bytes_moved = moved[:, :2].T @ demand[:, :osts]
        requests = (moved[:, :2] * self._rpc[:count, None]).T @ demand[:, :osts]
        operations = (moved[:, 2] * demand[:, self._mds]) @ self._mix[:count]
        # A storm opens and closes files, and gets through as far as the server can.
        operations[:2] += 0.5 * self._storm[self._mds] / stretch[self._mds]
        return np.concatenate([bytes_moved.ravel(), requests.ravel(), operations])

    def _remove(self, slots: Ints) -> list[Flow]:
        done = []
        for slot in slots[::-1].tolist():
            flow = self.flows[slot]
            self._finish(flow, slot)
            done.append(flow)
            self._total -= flow.pattern.demand
            last = len(self.flows) - 1
            if slot != last:
                self.flows[slot] = self.flows[last]
                for array in (self._demand, self._usual, self._used, self._left, self._other_left, self._other_end,
                              self._rpc, self._direction, self._mix, self._changed, self._alone_pace,
                              self._moved_ratio):  # fmt: skip
                    array[slot] = array[last]
            self.flows.pop()
        self._total = np.maximum(self._total, 0.0)
        self._stale = True
        return done[::-1]

    def _finish(self, flow: Flow, slot: int) -> None:
        flow.end = self.now
        # What was about to end at this very moment ends here.
        ends = np.where(np.isnan(self._other_end[slot]), self.now, self._other_end[slot]) - flow.start
        ends = np.maximum(ends, flow.alone_seconds)
        flow.usual_seconds = float(ends[_USUAL]) if flow.normal is not None else flow.seconds
        flow.with_incidents_seconds = min(float(ends[_INCIDENTS]), flow.usual_seconds)
        flow.with_others_seconds = min(float(ends[_OTHERS]), flow.usual_seconds)
        flow.alone_seconds = min(flow.alone_seconds, flow.with_incidents_seconds, flow.with_others_seconds)
