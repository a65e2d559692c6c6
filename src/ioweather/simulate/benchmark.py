"""One run of an IO500-like benchmark in the middle of the period: its phases load the facility, and its output says how
fast each went."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ioweather.simulate.flows import Flow, Pattern, data_demand, meta_demand, operations_mix
from ioweather.simulate.presets import Preset
from ioweather.simulate.resources import Resources

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
            flow = Flow("read" if kind == "read" else "write", Pattern(data_demand(resources, even, speed), seconds),
                        owner=IO500_NAME)  # fmt: skip
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
