"""What moves: a flow is one I/O phase of a run, or of a system job, with what it asks of each resource."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np

from ioweather.core.arrays import Floats
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
