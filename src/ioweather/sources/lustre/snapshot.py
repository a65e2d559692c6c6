"""Snapshots of a Lustre server: which target a parameter speaks of, what it counted, what it grew by since.

Standard library only: the live collector uses it too. Counters are whole numbers in the metric's base unit, except
that busy times stay in microseconds until they are written (`in_base_unit`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from ioweather.core.errors import SourceError
from ioweather.sources.lustre.operations import OPERATIONS, metadata_metric, target_metric
from ioweather.sources.lustre.parse import Stats, parse_number, parse_stats, parse_version

_TARGET = re.compile(r"(.+)-(OST|MDT)[0-9a-fA-F]{4,}")
_STATS = {("obdfilter", "stats"), ("mdt", "md_stats"), ("mds", "stats")}
_GAUGES = {
    "kbytestotal": ("capacity_bytes", 1024),
    "kbytesfree": ("free_bytes", 1024),
    "filestotal": ("capacity_files", 1),
    "filesfree": ("free_files", 1),
    "num_exports": ("client_count", 1),
}
# Zero where the server has no line: absent until first used.
_ALWAYS = {
    "ost": ("read_bytes", "write_bytes", "read_ops", "write_ops"),
    "mdt": tuple(f"{name}_ops" for name in OPERATIONS if name not in ("punch", "create", "destroy")),
}
_BUSY = {"read": "read_busy_seconds", "write": "write_busy_seconds"}


class Target(NamedTuple):
    system: str
    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class Sample:
    """What a target has counted at a moment; `since_ns`: from when on, where the server says it."""

    time_ns: int
    since_ns: int | None
    counters: dict[str, int]


@dataclass(slots=True)
class Snapshot:
    """One reading of a server: all its targets at about the same moment."""

    samples: dict[Target, Sample] = field(default_factory=dict)
    gauges: dict[Target, dict[str, int]] = field(default_factory=dict)
    version: str | None = None

    def time_ns(self, target: Target) -> int | None:
        """When the target was read; its states carry no time of their own."""
        if target in self.samples:
            return self.samples[target].time_ns
        return max((sample.time_ns for sample in self.samples.values()), default=None)


@dataclass(frozen=True, slots=True)
class Growth:
    """What a target did in [start_ns, end_ns). After a restart it is what the counters show: the least it can be."""

    start_ns: int
    end_ns: int
    amounts: dict[str, int]
    restarted: bool


def in_base_unit(metric: str, amount: int) -> float:
    """Busy times are counted in microseconds."""
    return amount / 1e6 if metric.endswith("_seconds") else float(amount)


def target_of(parameter: str) -> tuple[Target, str] | None:
    """'obdfilter.fs1-OST0000.stats' -> the target and 'stats'; None for what speaks of no target of its own (exports,
    the MDT's view of OSTs, the MGS)."""
    parts = parameter.split(".")
    match = _TARGET.fullmatch(parts[1]) if len(parts) == 3 else None
    device = parts[0]
    if match is None or not (device in ("obdfilter", "mdt", "mds") or device.startswith("osd-")):
        return None
    return Target(match[1], match[2].lower(), parts[1]), parts[2]


def add_parameter(snapshot: Snapshot, parameter: str, text: str, where: str) -> None:
    """Take one parameter into the snapshot; parameters of no interest are passed over."""
    if parameter == "version":
        snapshot.version = parse_version(text)
        return
    found = target_of(parameter)
    if found is None:
        return
    target, leaf = found
    if (parameter.partition(".")[0], leaf) in _STATS:
        stats = parse_stats(text, f"{where}, {parameter}")
        snapshot.samples[target] = Sample(stats.snapshot_ns, stats.start_ns, counted(target.kind, stats))
    elif leaf in _GAUGES:
        metric, factor = _GAUGES[leaf]
        # obdfilter and osd-* say the same; whichever comes first.
        value = parse_number(text, f"{where}, {parameter}") * factor
        snapshot.gauges.setdefault(target, {}).setdefault(metric, value)


def counted(kind: str, stats: Stats) -> dict[str, int]:
    """Counters by metric. On a storage target only work counts; on a metadata target the rest goes to other_ops."""
    metric_of = target_metric if kind == "ost" else metadata_metric
    result = dict.fromkeys(_ALWAYS[kind], 0)
    for name, counter in stats.counters.items():
        if name in ("read_bytes", "write_bytes") and counter.total is not None:
            result[name] = result.get(name, 0) + counter.total
        if name in _BUSY and counter.unit.startswith("usec") and counter.total is not None:
            result[_BUSY[name]] = counter.total
        metric = metric_of(name)
        if metric is not None:
            result[metric] = result.get(metric, 0) + counter.samples
    return result


def growth(before: Sample, after: Sample) -> Growth:
    """A counter that fell, or a server that counts from another moment on, began anew: with all its counters."""
    names = before.counters.keys() | after.counters.keys()
    amounts = {name: after.counters.get(name, 0) - before.counters.get(name, 0) for name in names}
    restarted = before.since_ns != after.since_ns or any(amount < 0 for amount in amounts.values())
    if restarted:
        amounts = {name: after.counters.get(name, 0) for name in names}
    return Growth(before.time_ns, after.time_ns, amounts, restarted)


def cut_short(before: Sample, after: Sample) -> bool:
    """A line once shown does not vanish, unless all counters began anew, and then those still shown have fallen. Lines
    that vanish while none has fallen are missing from the text, which was cut. Nothing is lost by passing it over."""
    pairs = [(count, after.counters.get(name, 0)) for name, count in before.counters.items()]
    vanished = any(old > 0 and new == 0 for old, new in pairs)
    return vanished and before.since_ns == after.since_ns and not any(0 < new < old for old, new in pairs)


def snapshots(parameters: Iterable[tuple[str, str]], where: str) -> Iterator[Snapshot]:
    """Output of many `lctl get_param` runs, one after another: a parameter that comes again begins a new snapshot."""
    current, seen = Snapshot(), set[str]()
    for parameter, text in parameters:
        if parameter in seen:
            yield current
            current, seen = Snapshot(version=current.version), set()
        seen.add(parameter)
        add_parameter(current, parameter, text, where)
    if seen:
        yield current


# Where servers show their parameters: /proc alone in 1.8, then more and more in sysfs and debugfs.
ROOTS = ("proc/fs/lustre", "sys/fs/lustre", "sys/kernel/debug/lustre")
_DEVICES = ("obdfilter", "mdt", "mds", "osd-*")
_LEAVES = ("stats", "md_stats", *_GAUGES)


def _open_places(root: Path) -> list[Path]:
    """Those that are there and may be entered: debugfs is root's alone, with Lustre in it or without."""
    found = []
    for place in ROOTS:
        # Asked by doing: access(2) knows nothing of a service's capabilities.
        with suppress(OSError), os.scandir(root / place):
            found.append(root / place)
    return found


def tree_parameters(root: Path) -> Iterator[tuple[str, str]]:
    """The parameters of a server (root '/') or of a copy of its /proc and /sys, as `lctl get_param` names them."""
    for base in _open_places(root):
        if (base / "version").is_file():
            yield "version", _text(base / "version")
        for device in _DEVICES:
            for folder in sorted(base.glob(f"{device}/*")):
                for leaf in _LEAVES:
                    if (folder / leaf).is_file():
                        yield f"{folder.parent.name}.{folder.name}.{leaf}", _text(folder / leaf)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise SourceError(f"{path} cannot be read: {error.strerror}.", hint="Some of debugfs needs root.") from None


def read_tree(root: Path) -> Snapshot:
    """One snapshot of a server or of a copied tree."""
    snapshot = Snapshot()
    for parameter, text in tree_parameters(root):
        add_parameter(snapshot, parameter, text, str(root))
    return snapshot


def is_tree(path: Path) -> bool:
    return bool(_open_places(path))


class Differ:
    """Remembers the last sample of each target and tells what it did since."""

    def __init__(self) -> None:
        self._last: dict[Target, Sample] = {}

    def update(self, samples: Mapping[Target, Sample]) -> Iterator[tuple[Target, Growth]]:
        """A sample of the same moment is a repetition; an earlier one begins anew (files joined out of order)."""
        for target, sample in samples.items():
            before = self._last.get(target)
            later = before is not None and before.time_ns < sample.time_ns
            if before is not None and later and cut_short(before, sample):
                continue
            self._last[target] = sample
            if before is not None and later:
                yield target, growth(before, sample)
