"""Responses with a planted truth: mixtures of head and tail whose times grow with the request size."""

from __future__ import annotations

from typing import Any

import numpy as np

from ioweather.core.facility import Facility, _FileSystem
from ioweather.core.frames import Frame
from ioweather.core.tables import RESPONSES, concat
from ioweather.core.units import MIB, NS
from ioweather.stats.families import Law, Mixture
from planted_source import PlantedSource

START_NS = 1_700_000_000 * NS
FACILITY = Facility(filesystems=(_FileSystem("scratch", lustre=("snx11025",), mounts=("/scratch",)),))
SIZES = (MIB, 4 * MIB, 16 * MIB, 64 * MIB)
TAIL_SHARE, ALPHA = 0.15, 3.0


def law_of(request_bytes: int, mode: str = "nocache", alpha: float = ALPHA) -> Mixture:
    """10 ms and 100 MiB/s uncached, ten times as fast cached; the pivot lies 2.5 sd above the mean."""
    mean = 0.01 + request_bytes / (100 * MIB)
    if mode == "cache":
        mean /= 10
    sd = 0.12 * mean
    pivot = mean + 2.5 * sd
    return Mixture(Law("truncated_normal", mean, sd, pivot), Law("power_law", pivot, alpha), TAIL_SHARE)


def rows(
    request_bytes: int, n: int, *, op: str = "read", mode: str = "nocache", targets: int = 1, seed: int = 0,
    shared: float = 0.0, alpha: float = ALPHA,
) -> Frame:  # fmt: skip
    """`n` rounds over `targets` targets; `shared` makes all targets of a round slow together."""
    rng = np.random.default_rng([seed, request_bytes, len(op), len(mode)])
    seconds = law_of(request_bytes, mode, alpha).sample(n * targets, rng).reshape(n, targets)
    seconds = seconds * np.exp(shared * rng.standard_normal((n, 1)))
    start = START_NS + np.arange(n)[:, None] * 60 * NS + np.arange(targets) * NS
    return RESPONSES.frame(
        start_ns=start.ravel(),
        host="nid00001",
        target=[f"/scratch/sampler/{request_bytes}.{target}" for _ in range(n) for target in range(targets)],
        op=op,
        request_bytes=request_bytes,
        mode=mode,
        duration_ns=np.round(seconds.ravel() * NS).astype(np.int64),
        system="snx11025",
        component=[f"OST{target:04x}" for _ in range(n) for target in range(targets)],
        status="ok",
        run_id=[f"run{i // 50}" for i in range(n) for _ in range(targets)],
        rows=n * targets,
    )


def data_of(*frames: Frame) -> PlantedSource:
    return PlantedSource({"responses": concat(frames)})


def params_of(study: Any, **given: Any) -> dict[str, Any]:
    """Defaults of the study, without a lake to choose from."""
    defaults = {param.name: 0 if param.name == "overhead" else param.default for param in study.params}
    return {**defaults, **given}
