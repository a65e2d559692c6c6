"""Sick components: found in the series of the last weeks, and stored as events of kind `component_health`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from ioweather.core.frames import Matrix
from ioweather.core.units import DAY_NS, MINUTE_NS
from ioweather.derive.system.capped_targets import STEP_NS, capped_events, capped_targets
from ioweather.derive.system.health import ComponentHealth, component_health, health_events
from ioweather.store import grid
from ioweather.store.lake import Lake
from ioweather.store.snapshot import Snapshot
from ioweather.studies.shared.choices import TRAFFIC
from ioweather.tables import concat
from ioweather.workflows.events import overtaken, settle

SOURCE: Final = "health"
TARGETS: Final = ("ost", "device")
_JUDGED: Final = {"ost": TRAFFIC, "device": TRAFFIC, "oss": ("cpu_ratio",)}
_PEERS_STEP_NS: Final = 10 * MINUTE_NS
# What was found in earlier weeks is in the lake already.
_LOOKED_BACK_NS: Final = 60 * DAY_NS


def find_sick_components(lake: Lake) -> int:
    """Targets that are capped, components that fell silent, servers whose processors stand apart from their peers';
    returns how many rows are new."""
    changed = 0
    with lake.snapshot() as snapshot:
        held = {(g.filesystem, g.component_kind, g.metric): g.system for g in snapshot.series()}
        for filesystem, kind in sorted({(filesystem, kind) for filesystem, kind, _ in held}):
            metrics = [m for m in _JUDGED.get(kind, ()) if (filesystem, kind, m) in held]
            if not metrics:
                continue
            system = held[filesystem, kind, metrics[0]]
            found = health_events(_apart(snapshot, filesystem, kind, metrics[0]), system)
            if kind in TARGETS:
                moved = bytes_moved(snapshot, filesystem, kind, metrics)
                found = concat([found, capped_events(capped_targets(moved, servers_of(snapshot)), system)])
            stored = snapshot.frame("events", where={"kind": "component_health", "source": SOURCE, "system": system})
            changed += settle(lake, found, stored.take(overtaken(stored, found, _series_of)), SOURCE)
    return changed


def _series_of(event: Mapping[str, Any]) -> str:
    """The id without its last part, which is the start."""
    return str(event["event_id"]).rpartition(":")[0]


def bytes_moved(snapshot: Snapshot, filesystem: str, kind: str, metrics: Sequence[str] = TRAFFIC) -> Matrix:
    """Read and written together, of the last weeks; missing where one of the two is."""
    last = max(g.end_ns for g in snapshot.series() if (g.filesystem, g.component_kind) == (filesystem, kind))
    selection = snapshot.selection(
        filesystem=filesystem, component_kind=kind, metrics=metrics, step_ns=STEP_NS,
        period_ns=(last - _LOOKED_BACK_NS, last),
    )  # fmt: skip
    parts = [grid.matrix(selection, metric).load() for metric in metrics]
    first, end = max(p.start_ns for p in parts), min(p.end_ns for p in parts)
    names = [name for name in parts[0].components if all(name in p.components for p in parts)]
    total = sum(
        (p.values[(first - p.start_ns) // STEP_NS : (end - p.start_ns) // STEP_NS,
                  [p.components.index(name) for name in names]] for p in parts),
        start=np.zeros((max(0, end - first) // STEP_NS, len(names))),
    )  # fmt: skip
    return Matrix("bytes_moved", first, STEP_NS, tuple(names), total, np.broadcast_to(np.float32(1), total.shape))


def servers_of(snapshot: Snapshot) -> dict[str, str]:
    rows = snapshot.frame("components", ("component", "server")).records()
    return {row["component"]: row["server"] for row in rows if row["server"]}


def _apart(snapshot: Snapshot, filesystem: str, kind: str, metric: str) -> list[ComponentHealth]:
    """Bytes above or below the peers' are only somebody's work: of targets, silence alone counts."""
    selection = snapshot.selection(
        filesystem=filesystem, component_kind=kind, metrics=(metric,), step_ns=_PEERS_STEP_NS
    )
    found = component_health(grid.matrix(selection, metric))
    return [kept for health in found if (kept := health.only("absent") if kind in TARGETS else health).episodes]
