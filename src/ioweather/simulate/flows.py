"""What moves: a flow is one I/O phase of a run, or of a system job, with what it asks of each resource."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np

from ioweather.core.arrays import Floats
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
