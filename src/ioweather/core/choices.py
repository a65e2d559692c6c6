"""Parameters that several questions or studies share, with defaults chosen from the lake."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from ioweather.core.contracts import Param, Params, SeriesGroup
from ioweather.core.errors import UsageError
from ioweather.core.facility import is_local_disk
from ioweather.core.units import HOUR_NS, MINUTE_NS, NS, format_seconds

if TYPE_CHECKING:
    from ioweather.core.results import Cell
    from ioweather.lake.lake import Snapshot

JOB: Final = Param("job", "A Darshan log, or the ID of a job in the lake.", required=True, metavar="LOG|JOBID")
_HELP = "Processes per node, if accounting has no node count."
PROCESSES_PER_NODE: Final = Param("processes_per_node", _HELP, "int", least=1, option="ppn", metavar="N")
PATHS: Final = Param(
    "paths", "Keep, hash or drop file paths and the command line.", default="keep", choices=("keep", "hash", "drop")
)
UID: Final = Param("uid", "User ID of the job, if several jobs have this ID.", "int", metavar="N")
CLUSTER: Final = Param("cluster", "Cluster of the job, if several jobs have this ID.")
FILESYSTEM_SAMPLED: Final = Param("filesystem", "File system (default: the one with the most samples).")
MODE: Final = Param("mode", "Use only samples in this mode.", choices=("cache", "nocache"))


TRAFFIC = ("read_bytes", "write_bytes")
# How people name a burst buffer; facility.toml can give a file system one of these names.
_BURST_BUFFER: Final = re.compile(r"burst|datawarp|dwfs|\bbb\b")


def busiest_filesystem(snapshot: Snapshot, _: Params | None = None) -> str | None:
    """The file system that moved most bytes, preferably no burst buffer and no host's disk; None without traffic."""
    totals = _bytes_by_filesystem(snapshot)
    totals = {name: total for name, total in totals.items() if not is_local_disk(name)} or totals
    return _largest({name: total for name, total in totals.items() if not _is_burst_buffer(name)} or totals)


def burst_buffer(snapshot: Snapshot, values: Params) -> str | None:
    """Return the busiest file system named like a burst buffer; None if the chosen one is named so itself."""
    if values["filesystem"] is None or _is_burst_buffer(values["filesystem"]):
        return None
    totals = _bytes_by_filesystem(snapshot)
    return _largest({name: total for name, total in totals.items() if _is_burst_buffer(name)})


def traffic_kind(snapshot: Snapshot, values: Params, of: str = "filesystem") -> str:
    """Kind of component whose traffic is used: ost if sampled, else device, else host."""
    return _first_kind(_traffic(snapshot, values[of]), ("ost", "device", "host"))


def burst_buffer_kind(snapshot: Snapshot, values: Params) -> str:
    """Kind of component whose traffic is used of the burst buffer."""
    return traffic_kind(snapshot, values, of="burst_buffer")


def metadata_kind(snapshot: Snapshot, values: Params) -> str:
    """Kind of component whose metadata operations are used: mds if sampled, else mdt."""
    own = (g for g in snapshot.series() if g.metric == "open_ops" and g.filesystem == values["filesystem"])
    return _first_kind(own, ("mds", "mdt"))


def resolution(snapshot: Snapshot, values: Params) -> int:
    """Grid step in ns: a minute, or the interval of the data if it is longer or all data are under two hours."""
    kind = values["component_kind"]
    groups = [g for g in _traffic(snapshot, values["filesystem"]) if g.component_kind == kind]
    # The finest rows count: 1-minute rows may be stored beside the samples they were made of.
    own = min((group.interval_ns for group in groups if group.interval_ns > 0), default=MINUTE_NS)
    if own < MINUTE_NS and max(g.end_ns for g in groups) - min(g.first_ns for g in groups) >= 2 * HOUR_NS:
        return MINUTE_NS
    return own


def check_resolution(snapshot: Snapshot, values: Params) -> None:
    """Raise UsageError if the steps of a study of traffic are shorter than the samples of its components."""
    kind, step_ns = values.get("component_kind"), values.get("resolution")
    groups = _traffic(snapshot, values["filesystem"]) if kind and step_ns else []
    own = min((g.interval_ns for g in groups if g.component_kind == kind and g.interval_ns > 0), default=0)
    if step_ns is not None and own > step_ns:
        step, finest = format_seconds(step_ns / NS), format_seconds(own / NS)
        text = f"resolution is {step}, but the finest samples of {values['filesystem']} are {finest} apart."
        raise UsageError(text, hint=f"Use {finest} or more. `ioweather ingest --raw` stores finer samples.")


def _traffic(snapshot: Snapshot, filesystem: Cell) -> list[SeriesGroup]:
    return [g for g in snapshot.series() if g.metric in TRAFFIC and g.filesystem == filesystem]


def _bytes_by_filesystem(snapshot: Snapshot) -> dict[str, float]:
    """Bytes moved by file system. Several sources, kinds of components and resolutions may have counted the same bytes:
    the largest of their totals is used, not the sum."""
    readings: dict[tuple[str, ...], float] = defaultdict(float)
    for g in snapshot.series():
        if g.metric in TRAFFIC:
            readings[(g.filesystem, g.source, g.component_kind, g.selection)] += g.total
    totals: dict[str, float] = defaultdict(float)
    for (filesystem, *_), total in readings.items():
        totals[filesystem] = max(totals[filesystem], total)
    return totals


def _largest(totals: dict[str, float]) -> str | None:
    return min(totals, key=lambda name: (-totals[name], name)) if totals else None


def _first_kind(groups: Iterable[SeriesGroup], order: Sequence[str]) -> str:
    """Return the first kind of `order` that is present, else another one.

    Without any it is the first of `order`, so that an error can name it.
    """
    kinds = {group.component_kind for group in groups}
    return next((kind for kind in (*order, *sorted(kinds)) if kind in kinds), order[0])


def _is_burst_buffer(name: str) -> bool:
    return _BURST_BUFFER.search(re.sub(r"[-_]", " ", name.lower())) is not None


# What the studies of a file system's traffic share; each chooser sees the values of those before it.
TRAFFIC_PARAMS = (
    Param("filesystem", "file system; default: the busiest", choose=busiest_filesystem),
    Param("component_kind", "ost or device; default: ost if available", choose=traffic_kind),
    Param("resolution", "interval length; default: 60 s", kind="duration", choose=resolution),
)
