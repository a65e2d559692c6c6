"""Default parameters that several studies share: found in what the lake holds, never asked for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from ioweather.core.contracts import Inventory, Need, Param, SeriesGroup
from ioweather.core.results import Cell
from ioweather.core.units import HOUR_NS, MINUTE_NS

TRAFFIC = ("read_bytes", "write_bytes")
_TARGET_KINDS = ("ost", "device", "host")
_METADATA_KINDS = ("mds", "mdt")
# How people name a burst buffer; facility.toml can give a file system one of these names.
_BURST_BUFFER_NAMES = ("burst", "datawarp", "dwfs", "bb")


def busiest_filesystem(inventory: Inventory) -> Cell:
    """The file system that moved most bytes, burst buffers aside where there is another; None without traffic."""
    totals = _bytes_by_filesystem(inventory)
    main = {name: total for name, total in totals.items() if not _is_burst_buffer(name)}
    return _largest(main or totals)


def burst_buffer(inventory: Inventory) -> Cell:
    """The busiest file system that is named like a burst buffer, beside another one; None where there is none."""
    totals = _bytes_by_filesystem(inventory)
    named = {name: total for name, total in totals.items() if _is_burst_buffer(name)}
    return _largest(named) if len(named) < len(totals) else None


def traffic_kind(inventory: Inventory) -> Cell:
    """ost where the busiest file system has it, else device, else host."""
    return _first_kind(_traffic(inventory, busiest_filesystem(inventory)), _TARGET_KINDS)


def burst_buffer_kind(inventory: Inventory) -> Cell:
    return _first_kind(_traffic(inventory, burst_buffer(inventory)), _TARGET_KINDS)


def metadata_kind(inventory: Inventory) -> Cell:
    """mds where the busiest file system's opens are counted there, else mdt."""
    filesystem = busiest_filesystem(inventory)
    groups = [g for g in inventory.series() if g.metric == "open_ops"]
    own = [g for g in groups if g.filesystem == filesystem]
    return _first_kind(own or groups, _METADATA_KINDS)


def resolution(inventory: Inventory) -> Cell:
    """Nanoseconds: a minute, or the data's own interval where it is longer or where all of it is under two hours."""
    groups = _traffic(inventory, busiest_filesystem(inventory)) or list(inventory.series())
    return _resolution(groups)


def resolution_of(*metrics: str) -> Callable[[Inventory], Cell]:
    """The same chooser for a study of other metrics."""

    def choose(inventory: Inventory) -> Cell:
        return _resolution([group for group in inventory.series() if group.metric in metrics])

    return choose


def _resolution(groups: Sequence[SeriesGroup]) -> int:
    intervals = [group.interval_ns for group in groups if group.interval_ns > 0]
    if not intervals:
        return MINUTE_NS
    # The finest rows of each kind decide: 1-minute rows may lie beside the samples they were made of.
    own = min(intervals)
    short = max(group.end_ns for group in groups) - min(group.first_ns for group in groups) < 2 * HOUR_NS
    return own if own > MINUTE_NS or short else MINUTE_NS


def _traffic(inventory: Inventory, filesystem: Cell) -> list[SeriesGroup]:
    return [g for g in inventory.series() if g.metric in TRAFFIC and g.filesystem == filesystem]


def _bytes_by_filesystem(inventory: Inventory) -> dict[str, float]:
    """Bytes moved by file system. The same bytes may be there from several sources, kinds and resolutions: of these
    the largest counts, not their sum."""
    readings: dict[tuple[str, ...], float] = defaultdict(float)
    for g in inventory.series():
        if g.metric in TRAFFIC:
            readings[(g.filesystem, g.source, g.component_kind, g.selection)] += g.total
    totals: dict[str, float] = defaultdict(float)
    for (filesystem, *_), total in readings.items():
        totals[filesystem] = max(totals[filesystem], total)
    return totals


def _largest(totals: dict[str, float]) -> str | None:
    return min(totals, key=lambda name: (-totals[name], name)) if totals else None


def _first_kind(groups: Iterable[SeriesGroup], order: Sequence[str]) -> Cell:
    """The first kind of `order` that is there; the first of all where none is, so that the need names what it wants."""
    kinds = {group.component_kind for group in groups}
    return next((kind for kind in order if kind in kinds), order[0])


def _is_burst_buffer(name: str) -> bool:
    words = name.lower().replace("-", " ").replace("_", " ").split()
    return any(word == mark or (len(mark) > 3 and mark in word) for word in words for mark in _BURST_BUFFER_NAMES)


# What the studies of a file system's traffic share.
TRAFFIC_PARAMS = (
    Param("filesystem", "file system; default: the busiest", choose=busiest_filesystem),
    Param("component_kind", "ost or device; default: ost where it is there", choose=traffic_kind),
    Param("resolution", "length of an interval; default: 60 s", kind="duration", choose=resolution),
)
TRAFFIC_NEED = Need(
    "traffic",
    "series",
    metrics=TRAFFIC,
    shape="rollup",
    where={"component_kind": "$component_kind", "filesystem": "$filesystem"},
    exclude_flags=("over_limit", "reset"),
)
