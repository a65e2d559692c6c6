"""The fluid model of the simulated storage: targets, servers and network, incidents that reduce their capacities, flows
that share them, and meters."""

from __future__ import annotations

import datetime as dt
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np

from ioweather.core.frames import Bools, Floats, Ints
from ioweather.simulate.presets import Preset

# A server passes somewhat more than its targets can, the network somewhat less than all of them.
_SERVER_MARGIN = 1.2
_NETWORK_SHARE = 0.9
# pat19.fig10: the busiest target reads 2.5 times what the idlest does, but writes only 15% more.
_POPULARITY_SHAPE, _PLACEMENT_SHAPE = 20.0, 800.0


def stream(seed: int, *names: str | int) -> np.random.Generator:
    """Return a generator for one purpose: the draws of one part do not affect another."""
    words = [seed, *(n if isinstance(n, int) else zlib.crc32(n.encode()) for n in names)]
    return np.random.default_rng(np.random.SeedSequence(words))


@dataclass(frozen=True, eq=False)
class Resources:
    """Columns of the model: the targets, then their servers, the metadata server, the network.

    `capacity` is bytes per second, of the metadata server operations per second.
    """

    osts: int
    servers: int
    server_of: Ints
    capacity: Floats
    fsname: str
    # The chance of each target to be chosen: new files are placed almost evenly, popular old ones are not.
    popularity: Floats
    placement: Floats
    first_server: int = 0

    @property
    def mds(self) -> int:
        """Column of the metadata server."""
        return self.osts + self.servers

    @property
    def network(self) -> int:
        """Column of the network."""
        return self.osts + self.servers + 1

    @property
    def count(self) -> int:
        """Number of columns."""
        return self.osts + self.servers + 2

    def ost_name(self, ost: int) -> str:
        """Return the name of a target."""
        return f"{self.fsname}-OST{ost:04x}"

    @property
    def ost_names(self) -> tuple[str, ...]:
        return tuple(self.ost_name(i) for i in range(self.osts))

    @property
    def oss_names(self) -> tuple[str, ...]:
        return tuple(f"oss{self.first_server + i + 1:03d}" for i in range(self.servers))

    @property
    def mdt_name(self) -> str:
        return f"{self.fsname}-MDT0000"


def make_resources(preset: Preset, seed: int) -> Resources:
    """Return the targets, servers and network of a preset."""
    rng = stream(seed, "resources")
    servers = preset.oss_count
    server_of = np.arange(preset.osts) // preset.osts_per_oss
    per_server = np.bincount(server_of, minlength=servers) * preset.ost_bytes_per_s * _SERVER_MARGIN
    others = [preset.mds_ops_per_s, preset.osts * preset.ost_bytes_per_s * _NETWORK_SHARE]
    capacity = np.concatenate([np.full(preset.osts, preset.ost_bytes_per_s), per_server, others])
    read, new = (rng.gamma(shape, 1.0, preset.osts) for shape in (_POPULARITY_SHAPE, _PLACEMENT_SHAPE))
    chances = read / read.sum(), new / new.sum()
    return Resources(preset.osts, servers, server_of, capacity, preset.fsname, *chances, preset.first_server)


@dataclass(frozen=True)
class Calendar:
    """Time of the facility in seconds since `start`, which is midnight UTC."""

    start: int

    def weekday(self, day: int) -> int:
        """Return the day of the week of a day since the start; 0 is Monday."""
        return self.local(day * 86400.0).weekday()

    def local(self, seconds: float) -> dt.datetime:
        """Return a time as UTC, which is the zone of the facility."""
        return dt.datetime.fromtimestamp(self.start + seconds, dt.UTC)

    def epoch_ns(self, seconds: float) -> int:
        """Return a time as UTC nanoseconds."""
        whole = int(seconds)
        return (self.start + whole) * 10**9 + round((seconds - whole) * 1e9)


def make_calendar(preset: Preset) -> Calendar:
    """Return the calendar of a preset."""
    return Calendar(round(dt.datetime.fromisoformat(f"{preset.first_day}T00:00:00+00:00").timestamp()))


# Range of hours, and of the share of the capacity that is left; of an overload, of the demand in capacities.
_RANGES = {
    "slow_ost": ((6, 14), (0.08, 0.25)),
    "raid_rebuild": ((10, 24), (0.4, 0.6)),
    "mds_overload": ((1, 4), (2.0, 6.0)),
    "failed_oss": ((3, 10), (0.45, 0.55)),
    "full_ost": ((8, 20), (0.25, 0.5)),
    "network_cap": ((2, 6), (0.15, 0.35)),
}
# Until the partner has taken over, no request is served.
_FAILOVER_SECONDS = 240.0
_FAILOVER_HEALTH = 0.01
# A full target has no room for new files: login nodes and services use others too.
OF_TARGETS = ("slow_ost", "raid_rebuild", "full_ost")


@dataclass(frozen=True)
class Incident:
    """`strength` is the share of the capacity that is left, or, of an overload, the extra demand in capacities."""

    id: str
    kind: str
    start: float
    end: float
    strength: float
    columns: tuple[int, ...]
    component: str

    @property
    def taken_over(self) -> float:
        """When the partner of a failed server has taken over: until then its targets serve and report nothing."""
        return self.start + _FAILOVER_SECONDS if self.kind == "failed_oss" else self.start


def make_incidents(preset: Preset, resources: Resources, calendar: Calendar, seed: int) -> tuple[Incident, ...]:
    """Return about `incidents_per_week`, one of each kind in turn, with quiet first and last hours."""
    rng = stream(seed, "incidents")
    length = preset.days * 86400.0
    count = max(1 if preset.incidents_per_week else 0, round(preset.incidents_per_week * preset.days / 7))
    order = [list(_RANGES)[i % len(_RANGES)] for i in range(count)]
    rng.shuffle(order)
    found = []
    for number, kind in enumerate(order):
        hour_range, strengths = _RANGES[kind]
        # Early in its own slice of the period, so that runs meet it.
        slot = length / count
        hours = min(float(rng.uniform(*hour_range)), 0.8 * slot / 3600)
        start = number * slot + float(rng.uniform(0.02, 0.18)) * slot
        component, columns = _choose_component(kind, resources, rng)
        strength = float(rng.uniform(*strengths))
        # Whole minutes: what is planted on the grid of the servers can be found on it.
        start, end = (float(round(moment / 60) * 60) for moment in (start, start + hours * 3600))
        beside = f"{preset.fsname}-" if preset.first_server else ""
        found.append(Incident(f"{beside}incident-{number + 1:03d}", kind, start, end, strength, columns, component))
    return tuple(found)


def _choose_component(kind: str, resources: Resources, rng: np.random.Generator) -> tuple[str, tuple[int, ...]]:
    """Return the component and the columns that it concerns."""
    if kind == "mds_overload":
        return resources.mdt_name, (resources.mds,)
    if kind == "network_cap":
        return "network", (resources.network,)
    if kind == "failed_oss":
        server = int(rng.integers(resources.servers))
        # The other server of the pair serves both, so all their targets get half; the last of an odd number has none.
        return resources.oss_names[server], tuple(np.flatnonzero(resources.server_of // 2 == server // 2).tolist())
    ost = int(rng.integers(resources.osts))
    return resources.ost_name(ost), (ost,)


def state_at(incidents: Sequence[Incident], now: float, resources: Resources) -> tuple[Floats, Floats]:
    """Return (health, storm) of all resources at a moment."""
    health, storm = np.ones(resources.count), np.zeros(resources.count)
    for incident in incidents:
        columns = list(incident.columns)
        if not incident.start <= now < incident.end:
            continue
        if incident.kind == "mds_overload":
            storm[columns] += incident.strength * resources.capacity[columns]
        else:
            health[columns] *= _FAILOVER_HEALTH if now < incident.taken_over else incident.strength
    return health, storm


def divide_loss(
    seconds: float, start: float, end: float, used: Floats, incidents: Sequence[Incident]
) -> dict[str, float]:
    """Divide a loss among the incidents that affected the flow, by overlap and severity."""
    weights = {}
    for incident in incidents:
        overlap = min(end, incident.end) - max(start, incident.start)
        if overlap > 0 and any(used[column] > 0 for column in incident.columns):
            severity = incident.strength if incident.kind == "mds_overload" else 1.0 / incident.strength - 1.0
            weights[incident.id] = overlap * max(severity, 1e-6)
    total = sum(weights.values())
    return {name: seconds * weight / total for name, weight in weights.items()} if total > 0 else {}


FlowKind: TypeAlias = Literal["read", "write", "meta"]

# Kinds of metadata operations, in this order everywhere.
OPERATIONS = ("open", "close", "mknod", "unlink", "getattr", "setattr", "statfs")
_RPC_BYTES = 1 << 20


@dataclass(frozen=True, eq=False)
class Pattern:
    """`demand` per resource at full speed, for `seconds` if nothing is in the way."""

    demand: Floats
    seconds: float


@dataclass(eq=False)
class Flow:
    """One phase of I/O. `normal` is the usual pattern if the run changed its own, else None."""

    kind: FlowKind
    pattern: Pattern
    request_bytes: int = _RPC_BYTES
    mix: Floats = field(default_factory=lambda: np.zeros(len(OPERATIONS)))
    normal: Pattern | None = None
    owner: object = None
    # Bytes moved per byte of demand: long sequential requests cost little, small ones much.
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
        """Size of a request at the server: clients merge small ones up to a page and split large ones."""
        return int(min(_RPC_BYTES, max(4096, self.request_bytes)))


def data_demand(resources: Resources, shares: Floats | float, bytes_per_s: float) -> Floats:
    """Return bytes per second at each target (`shares` sum to 1), its server and the network."""
    demand = np.zeros(resources.count)
    demand[: resources.osts] = shares * bytes_per_s
    demand[resources.osts : resources.mds] = np.bincount(
        resources.server_of, weights=demand[: resources.osts], minlength=resources.servers
    )
    demand[resources.network] = bytes_per_s
    return demand


def meta_demand(resources: Resources, ops_per_s: float) -> Floats:
    """Return operations per second at the metadata server."""
    demand = np.zeros(resources.count)
    demand[resources.mds] = ops_per_s
    return demand


def operations_mix(**parts: float) -> Floats:
    """Return the shares of the operations; they sum to 1."""
    mix = np.array([parts.get(name, 0.0) for name in OPERATIONS])
    return np.asarray(mix / mix.sum())


@dataclass(frozen=True, eq=False)
class Readings:
    """One day: amounts in steps of `step_seconds` from `start` on (seconds since the facility's start).

    Arrays are (step, target); `operations` is (step, operation); `stretch` the mean of phi, (step, resource). The last
    three belong to what monitoring recorded: load of the servers, (step, server), and samples that did not arrive.
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
    oss_cpu_percent: Floats = field(default_factory=lambda: np.zeros(0))
    mds_cpu_percent: Floats = field(default_factory=lambda: np.zeros(0))
    missing: Bools = field(default_factory=lambda: np.zeros(0, np.bool_))

    @property
    def steps(self) -> int:
        return len(self.read_bytes)

    @property
    def times(self) -> Floats:
        """Starts of the steps."""
        return self.start + np.arange(self.steps, dtype=np.float64) * self.step_seconds


class Meter:
    """Sums rates over time steps: a change of a rate by d at time t adds d x (end of its step - t) to that step, and
    d x step to all later ones."""

    def __init__(self, resources: Resources) -> None:
        self._osts = resources.osts
        self._width = 4 * resources.osts + len(OPERATIONS)
        self._rates = np.zeros(self._width + resources.count)
        self._rates[self._width :] = 1.0

    def open_day(self, day: int, begin: float, seconds: int, step_seconds: int) -> None:
        """Start a window of a day."""
        self._day, self._begin, self._step = day, begin, float(step_seconds)
        steps = seconds // step_seconds
        self._partial = np.zeros((steps + 1, len(self._rates)))
        self._onward = np.zeros((steps + 2, len(self._rates)))
        self._onward[0] = self._rates * self._step

    def level(self, now: float, rates: Floats, stretch: Floats) -> None:
        """Set the rates from `now` on."""
        before, self._rates = self._rates, np.concatenate([rates, stretch])
        change = self._rates - before
        index = int((now - self._begin) // self._step)
        rest = self._begin + (index + 1) * self._step - now
        self._partial[index] += change * rest
        self._onward[index + 1] += change * self._step

    def close_day(self) -> Readings:
        """Return the readings of the window."""
        amounts = np.cumsum(self._onward[:-2], axis=0) + self._partial[:-1]
        osts, width = self._osts, self._width
        # Sums of differences leave errors of less than a byte.
        moved = np.maximum(amounts[:, : 4 * osts], 0.0)
        read, write, reads, writes = (moved[:, i * osts : (i + 1) * osts] for i in range(4))
        operations = np.maximum(amounts[:, 4 * osts : width], 0.0)
        stretch = np.maximum(amounts[:, width:] / self._step, 1.0)
        return Readings(self._day, self._begin, round(self._step), read, write, reads, writes, operations, stretch)


_ROOM = 64
# Sums that are updated by addition and subtraction are recomputed this often.
_REFRESH_EVENTS = 512
_DONE_SECONDS = 1e-7
# Iterations for what held-up flows demand elsewhere, which depends on the others; it settles to within a percent.
_ROUNDS = 6
# Counterfactuals, by column of the arrays below: incidents only, others only, the usual pattern.
_INCIDENTS, _OTHERS, _USUAL = range(3)


class Fluid:
    """All flows in progress. Times are seconds since the facility's start."""

    def __init__(self, resources: Resources, meter: Meter, *, closed_loop: bool = False) -> None:
        self._resources, self._meter, self._closed_loop = resources, meter, closed_loop
        self._mds = resources.mds
        self._capacity = self._healthy = resources.capacity
        self._storm = np.zeros(resources.count)
        self._disturbed = False
        self.now = 0.0
        self.flows: list[Flow] = []
        self._events = 0
        each = {"demand": resources.count, "usual": resources.count, "used": resources.count}
        each |= {"other_left": 3, "other_end": 3, "direction": 3, "mix": len(OPERATIONS)}
        # By flow, with room for more; removed flows are replaced by the last one.
        self._of: dict[str, Floats] = {name: np.zeros((_ROOM, width)) for name, width in each.items()}
        self._of |= {name: np.zeros(_ROOM) for name in ("left", "rpc", "changed", "alone_pace", "moved_ratio")}
        self._total = np.zeros(resources.count)
        # What each flow demands of each resource now, and the sum.
        self._asked, self._asked_total = np.zeros((0, resources.count)), self._total
        self._pace = np.zeros(0)
        self._others_pace = np.zeros((0, 3))
        self._stale = True

    def _now_of(self, name: str) -> Floats:
        """Return the part of an array that belongs to the present flows."""
        return self._of[name][: len(self.flows)]

    def add(self, flow: Flow) -> None:
        """Start a flow now."""
        slot = len(self.flows)
        if slot == len(self._of["left"]):
            self._of = {name: np.concatenate([array, np.zeros_like(array)]) for name, array in self._of.items()}
        self.flows.append(flow)
        usual = flow.normal or flow.pattern
        pace = float(np.max(self._slowdown_at(usual.demand, self._healthy) * (usual.demand > 0)))
        values: dict[str, Any] = {
            "demand": flow.pattern.demand,
            "usual": usual.demand,
            "used": (flow.pattern.demand > 0) | (usual.demand > 0),
            "left": flow.pattern.seconds,
            "other_left": usual.seconds,
            "other_end": np.nan,
            "rpc": 1.0 / flow.rpc_bytes,
            "direction": [flow.kind == kind for kind in ("read", "write", "meta")],
            "mix": flow.mix,
            "changed": flow.normal is not None,
            "alone_pace": 1.0 / pace,
            "moved_ratio": flow.moved_ratio,
        }
        for name, value in values.items():
            self._of[name][slot] = value
        flow.start = self.now
        flow.alone_seconds = usual.seconds * pace
        self._total += flow.pattern.demand
        self._stale = True

    def disturb(self, health: Floats, storm: Floats) -> None:
        """Set the state by incidents: the remaining share of each capacity, and demand that no run causes."""
        self._capacity = self._healthy * health
        self._storm = storm
        self._disturbed = bool(np.any(health < 1.0) or np.any(storm > 0))
        self._stale = True

    def next_end(self) -> float:
        """Return when the next flow ends if nothing else happens."""
        self._settle()
        return self.now + float(np.min(self._now_of("left") / self._pace)) if self.flows else np.inf

    def advance(self, until: float) -> list[Flow]:
        """Move all flows and their counterfactual runs on, at most to the next end. Returns the flows that are done."""
        self._settle()
        span = until - self.now
        left = self._now_of("left")
        if span > 0 and self.flows:
            left -= self._pace * span
            others, pace = self._now_of("other_left"), self._others_pace
            ends = (others > 0) & (others <= pace * span)
            if ends.any():
                self._now_of("other_end")[ends] = (self.now + others / pace)[ends]
            others -= pace * span
        self.now = until
        done = np.flatnonzero(left <= _DONE_SECONDS)
        return self._remove(done) if len(done) else []

    def _settle(self) -> None:
        """Compute the paces of all flows after something changed, and what the meters read from here on."""
        if not self._stale:
            return
        self._stale = False
        self._events += 1
        demand, used = self._now_of("demand"), self._now_of("used")
        if self._events % _REFRESH_EVENTS == 0:
            self._total = demand.sum(axis=0)
        stretch = self._slowdown_at(self._total + self._storm, self._capacity)
        self._pace = 1.0 / np.max(used * stretch, axis=1, initial=1.0)
        self._asked, self._asked_total = demand, self._total
        for _ in range(_ROUNDS if self._closed_loop and self.flows else 0):
            self._asked = demand * np.minimum(1.0, self._pace[:, None] * stretch)
            self._asked_total = self._asked.sum(axis=0)
            stretch = self._slowdown_at(self._asked_total + self._storm, self._capacity)
            self._pace = 1.0 / np.max(used * stretch, axis=1, initial=1.0)
        self._others_pace = self._counterfactual_paces()
        self._meter.level(self.now, self._levels(stretch), stretch)

    def _slowdown_at(self, demand: Floats, capacity: Floats) -> Floats:
        """Return how many times as long work takes at each resource: 1 when idle, demand over capacity when overloaded.
        The knee between them is rounder at metadata servers."""
        load = demand / capacity
        square = load * load
        stretch: Floats = np.sqrt(np.sqrt(1.0 + square * square))
        stretch[..., self._mds] = np.sqrt(1.0 + square[..., self._mds])
        return stretch

    def _counterfactual_paces(self) -> Floats:
        """Return the pace of each flow in each counterfactual; without a difference, the real or undisturbed pace."""
        demand, usual, used = (self._now_of(name) for name in ("demand", "usual", "used"))
        paces = np.empty((len(self.flows), 3))
        paces[:, _INCIDENTS] = self._now_of("alone_pace")
        paces[:, _OTHERS] = paces[:, _USUAL] = self._pace
        changed = np.flatnonzero(self._now_of("changed"))
        rest = self._asked_total - self._asked[changed] + usual[changed]

        def pace(rows: Ints | slice, demanded: Floats, capacity: Floats) -> Floats:
            return np.asarray(1.0 / np.max(used[rows] * self._slowdown_at(demanded, capacity), axis=1))

        if len(changed):
            paces[changed, _USUAL] = paces[changed, _OTHERS] = pace(changed, rest + self._storm, self._capacity)
        if self._disturbed and self.flows:
            paces[:, _INCIDENTS] = pace(slice(None), usual + self._storm, self._capacity)
            paces[:, _OTHERS] = pace(slice(None), self._asked_total + (demand - self._asked), self._healthy)
            if len(changed):
                paces[changed, _OTHERS] = pace(changed, rest, self._healthy)
        return paces

    def _levels(self, stretch: Floats) -> Floats:
        """Return the current rates: bytes read and written and requests per target, then metadata operations."""
        demand, osts = self._now_of("demand"), self._resources.osts
        moved = self._now_of("direction") * (self._pace * self._now_of("moved_ratio"))[:, None]
        bytes_moved = moved[:, :2].T @ demand[:, :osts]
        requests = (moved[:, :2] * self._now_of("rpc")[:, None]).T @ demand[:, :osts]
        operations = (moved[:, 2] * demand[:, self._mds]) @ self._now_of("mix")
        # A storm opens and closes files, as many as the server can serve.
        operations[:2] += 0.5 * self._storm[self._mds] / stretch[self._mds]
        return np.concatenate([bytes_moved.ravel(), requests.ravel(), operations])

    def _remove(self, slots: Ints) -> list[Flow]:
        """Take flows out of the model; return them with their times and those of each counterfactual."""
        done = []
        for slot in slots[::-1].tolist():
            flow = self.flows[slot]
            flow.end = self.now
            # A counterfactual without an end was about to end at this moment.
            other_end = self._of["other_end"][slot]
            ends = np.maximum(np.where(np.isnan(other_end), self.now, other_end) - flow.start, flow.alone_seconds)
            flow.usual_seconds = float(ends[_USUAL]) if flow.normal is not None else flow.seconds
            flow.with_incidents_seconds = min(float(ends[_INCIDENTS]), flow.usual_seconds)
            flow.with_others_seconds = min(float(ends[_OTHERS]), flow.usual_seconds)
            flow.alone_seconds = min(flow.alone_seconds, flow.with_incidents_seconds, flow.with_others_seconds)
            done.append(flow)
            self._total -= flow.pattern.demand
            last = len(self.flows) - 1
            if slot != last:
                self.flows[slot] = self.flows[last]
                for array in self._of.values():
                    array[slot] = array[last]
            self.flows.pop()
        self._total = np.maximum(self._total, 0.0)
        self._stale = True
        return done[::-1]
