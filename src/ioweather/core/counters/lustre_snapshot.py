"""Snapshots of a Lustre server: the target of each parameter, its counters, and their growth.

Standard library only: the live collector uses it too.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from ioweather.core.counters.growth import Sample, Target
from ioweather.core.counters.lustre_text import (
    OPERATIONS,
    Line,
    metadata_metric,
    parse_number,
    parse_stats,
    parse_time,
    target_metric,
)
from ioweather.core.errors import CorruptInput, SourceError

_BUCKET = re.compile(
    r"([0-9]{1,18})([KMGT]?):\s+([0-9]{1,18})\s+[0-9]{1,18}\s+[0-9]{1,18}\s+\|\s+([0-9]{1,18})\s+[0-9]{1,18}\s+[0-9]{1,18}\s*"
)
_SCALE = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_SMALL_PAGES = 128
_SLOW_MS = 128


def _request_counts(text: str, where: str) -> tuple[dict[str, int], dict[str, int]]:
    """Return times, and counters that follow exactly from the histograms of requests in `brw_stats`.

        pages per bulk r/w     rpcs  % cum % |  rpcs        % cum %
        1:                      13  56  56   |  153   0   0
        1K:                      0   0 100   | 4059303  94 100

    A line counts what is larger than the line before and at most as large as it says (`lprocfs_oh_tally_log2`).
    """
    sections: dict[str, list[tuple[int, int, int]]] = {}  # (most, reads, writes)
    times: dict[str, int] = {}
    section: list[tuple[int, int, int]] = []
    for line in text.splitlines():
        if match := _BUCKET.fullmatch(line):
            section.append((int(match[1]) * _SCALE[match[2]], int(match[3]), int(match[4])))
        elif "% cum %" in line:
            section = sections.setdefault(line.strip().partition("  ")[0], [])
        elif (found := parse_time(line.strip(), where)) is not None:
            times.setdefault(*found)
    if "snapshot_time" not in times:
        raise CorruptInput(f"{where} has no snapshot_time.")
    bulk = sections.get("pages per bulk r/w")
    kinds = {
        "bulk": bulk,
        "small_bulk": bulk and [bucket for bucket in bulk if bucket[0] <= _SMALL_PAGES],
        "disk": sections.get("disk I/O size"),
        "slow_disk": sections.get("I/O time (1/1000s)"),
    }
    if kinds["slow_disk"] is not None:
        kinds["slow_disk"] = [bucket for bucket in kinds["slow_disk"] if bucket[0] > _SLOW_MS]
    counters: dict[str, int] = {}
    for kind, buckets in kinds.items():
        if buckets is not None:
            counters[f"{kind}_read_ops"] = sum(reads for _, reads, _ in buckets)
            counters[f"{kind}_write_ops"] = sum(writes for _, _, writes in buckets)
    return times, counters


JOB_STATS = "job_stats"
_TARGET = re.compile(r"(.+)-(OST|MDT)[0-9a-fA-F]{4,}")
_TARGET_STATS = {("obdfilter", "stats"), ("mdt", "md_stats"), ("mds", "stats")}
# 1.8 shows the services of a metadata server below `mdt`. `ldlm` and `mgs` serve locks and settings, no data.
_SERVICE = re.compile(r"(?:mds|mdt)\.(MDS)\.(\w+)\.stats|ost\.(OSS)\.(\w+)\.stats")
_CLIENT = re.compile(r"llite\.(.+)-([0-9a-f]{8,16})\.stats")
# The server that a client is connected to: a parameter of its own, or a line of `import`; and as `lctl dl -t` shows it.
_CONNECTION = re.compile(r"(?:osc|mdc)\.(.+)-((?:OST|MDT)[0-9a-fA-F]{4,})-(?:osc|mdc)-.*\.(?:\w+_conn_uuid|import)")
_CURRENT = re.compile(r"current_connection: *\"?([^\s\"]+)")
_DEVICE = re.compile(
    r"\s*\d+ UP (?:osc|mdc) (.+)-((?:OST|MDT)[0-9a-fA-F]{4,})-(?:osc|mdc)-[0-9a-f]{8,16} \S+ \d+ (\S+@\S+)\s*"
)
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
    "host": ("read_bytes", "write_bytes", "read_ops", "write_ops"),
}
_BUSY = {"read": "read_busy_seconds", "write": "write_busy_seconds"}


@dataclass
class Snapshot:
    """One reading of a server: all its targets at about the same moment. `damaged`: why parameters were left out; the
    rest of the reading does not depend on them."""

    host: str | None = None
    samples: dict[tuple[Target, str], Sample] = field(default_factory=dict)
    # Of services: the other parameters say which file system a server serves.
    services: dict[Target, Sample] = field(default_factory=dict)
    jobs: dict[Target, str] = field(default_factory=dict)  # the text of `job_stats`
    gauges: dict[Target, dict[str, int]] = field(default_factory=dict)
    damaged: list[str] = field(default_factory=list)
    # The network address of a target's server, as a client sees it.
    connections: dict[Target, str] = field(default_factory=dict)

    def add_sample(self, target: Target, source: str, times: Mapping[str, int], counters: dict[str, int]) -> None:
        """Add counters with the times that their text names."""
        sample = Sample(target, source, times["snapshot_time"], times.get("start_time"), counters)
        self.samples[target, source] = sample

    def add_connection(self, system: str, name: str, address: str) -> None:
        """Note the server of a target that a client is connected to."""
        self.connections[Target(system, name[:3].lower(), f"{system}-{name}")] = address

    @property
    def targets(self) -> set[Target]:
        """All objects that were read here, in contrast to those that a client is connected to."""
        return {*(target for target, _ in self.samples), *self.gauges, *self.jobs}

    def servers(self) -> dict[Target, str]:
        """Return the server of each target: this host, where its counters are read, else what a client is connected
        to."""
        own = {target: self.host for target in self.targets if self.host is not None and target.kind in ("ost", "mdt")}
        return {**self.connections, **own}

    def time_ns(self, target: Target) -> int | None:
        """When the target was read; its states carry no time of their own."""
        own = [sample.time_ns for sample in self.samples.values() if sample.target == target]
        return max(own, default=None) or self.latest_ns()

    def latest_ns(self) -> int | None:
        """Latest time of any counter. An entry of a job has the time of its last operation, which may be long ago."""
        return max((sample.time_ns for sample in (*self.samples.values(), *self.services.values())), default=None)

    def placed(self) -> list[Sample]:
        """All samples with their targets; those of services if host and file system are known."""
        systems = {target.system for target in self.targets}
        found = [*self.samples.values()]
        if self.host is not None and len(systems) == 1:
            (system,) = systems
            for service, sample in self.services.items():
                found.append(sample._replace(target=Target(system, service.kind, f"{self.host}:{service.name}")))
        return found


def target_of(parameter: str) -> tuple[Target, str] | None:
    """'obdfilter.fs1-OST0000.stats' -> the target and 'stats'; None for what speaks of no target of its own (exports,
    the MDT's view of OSTs, the MGS, services, clients)."""
    parts = parameter.split(".")
    match = _TARGET.fullmatch(parts[1]) if len(parts) == 3 else None
    device = parts[0]
    if match is None or not (device in ("obdfilter", "mdt", "mds") or device.startswith("osd-")):
        return None
    return Target(match[1], match[2].lower(), parts[1]), parts[2]


def _add_parameter(snapshot: Snapshot, parameter: str, text: str, where: str) -> bool:
    """Take one parameter into the snapshot; False of a parameter of no interest. What cannot be read is noted."""
    try:
        found, where = target_of(parameter), f"{where}, {parameter}"
        if found is None:
            return _add_of_no_target(snapshot, parameter, text, where)
        return _add_of_target(snapshot, *found, parameter.partition(".")[0], text, where)
    except CorruptInput as error:
        snapshot.damaged.append(error.message)
        return True


def _add_of_target(snapshot: Snapshot, target: Target, leaf: str, device: str, text: str, where: str) -> bool:
    """Take a parameter of a storage or metadata target; False if it is of no interest."""
    if (device, leaf) in _TARGET_STATS:
        times, lines = parse_stats(text, where)
        snapshot.add_sample(target, "stats", times, _counters_by_metric(target.kind, lines))
    elif leaf == "brw_stats":
        snapshot.add_sample(target, "requests", *_request_counts(text, where))
    elif leaf == JOB_STATS:
        snapshot.jobs[target] = text
    elif leaf in _GAUGES:
        metric, factor = _GAUGES[leaf]
        # obdfilter and osd-* say the same; whichever comes first.
        snapshot.gauges.setdefault(target, {}).setdefault(metric, parse_number(text, where) * factor)
    else:
        return False
    return True


def _add_of_no_target(snapshot: Snapshot, parameter: str, text: str, where: str) -> bool:
    """Targets for services of a server and for clients: the host if known, else the name of the mount."""
    if match := _SERVICE.fullmatch(parameter):
        times, lines = parse_stats(text, where)
        counters = {"request_ops": 0}
        if "req_waittime" in lines:  # requests, and how long they waited for a thread
            requests, _, waited_us = lines["req_waittime"]
            counters = {"request_ops": requests, "request_wait_seconds": waited_us or 0}
        service = Target("", (match[1] or match[3]).lower(), match[2] or match[4])
        sample = Sample(service, "requests", times["snapshot_time"], times.get("start_time"), counters)
        snapshot.services[service] = sample
    elif match := _CLIENT.fullmatch(parameter):
        target = Target(match[1], "host", snapshot.host or f"{match[1]}-{match[2]}")
        times, lines = parse_stats(text, where)
        snapshot.add_sample(target, parameter, times, _counters_by_metric("host", lines))
    elif match := _CONNECTION.fullmatch(parameter):
        current = _CURRENT.search(text)
        address = current[1] if current else text.strip()
        if "@" not in address:
            return False
        snapshot.add_connection(match[1], match[2], address)
    else:
        return False
    return True


def parse_device_list(lines: Iterable[str | None]) -> Snapshot:
    """Parse `lctl dl -t` of a client: the address of each target's server."""
    snapshot = Snapshot()
    for line in lines:
        if line is not None and (match := _DEVICE.fullmatch(line)):
            snapshot.add_connection(*match.groups())
    return snapshot


def _counters_by_metric(kind: str, lines: Mapping[str, Line]) -> dict[str, int]:
    """Counters of a target, or of a client, by metric. On a metadata target what has no metric of its own goes to
    other_ops; elsewhere it is no work (pings, connects), or, of clients, counted by another line."""
    metric_of = metadata_metric if kind == "mdt" else target_metric
    result = dict.fromkeys(_ALWAYS[kind], 0)
    for name, (samples, unit, total) in lines.items():
        if name in ("read_bytes", "write_bytes") and total is not None:
            result[name] = result.get(name, 0) + total
        metric = metric_of(name)
        if metric is not None:
            result[metric] = result.get(metric, 0) + samples
        busy = _BUSY.get(name) or ("metadata_busy_seconds" if kind != "ost" and metric is not None else None)
        if busy is not None and unit.startswith("usec") and total is not None:
            result[busy] = result.get(busy, 0) + total
    return result


def snapshots(parameters: Iterable[tuple[str, str]], where: str, host: str | None = None) -> Iterator[Snapshot]:
    """Output of many `lctl get_param` runs, one after another: a parameter that is read here and comes again begins a
    new snapshot. One run may show others (uuids of exports) several times."""
    current, seen = Snapshot(host=host), set[str]()
    for parameter, text in parameters:
        if parameter in seen:
            yield current
            current, seen = Snapshot(host=host), set()
        if _add_parameter(current, parameter, text, where):
            seen.add(parameter)
    if seen:
        yield current


# Where servers show their parameters: /proc alone in 1.8, then more and more in sysfs and debugfs.
ROOTS = ("proc/fs/lustre", "sys/fs/lustre", "sys/kernel/debug/lustre")
_LEAVES = {
    **dict.fromkeys(("obdfilter", "mdt", "mds", "osd-*"), ("stats", "md_stats", "brw_stats", "job_stats", *_GAUGES)),
    **dict.fromkeys(("mds/MDS", "mdt/MDS", "ost/OSS", "llite"), ("stats",)),
}


def _open_places(root: Path) -> list[Path]:
    """Directories that exist and can be entered; only root can enter debugfs."""
    found = []
    for place in ROOTS:
        # Asked by doing: access(2) knows nothing of a service's capabilities.
        with suppress(OSError), os.scandir(root / place):
            found.append(root / place)
    return found


def tree_files(root: Path) -> Iterator[tuple[str, Path]]:
    """The parameters of a server (root '/') or of a copy of its /proc and /sys, as `lctl get_param` names them."""
    for base in _open_places(root):
        for device, leaves in _LEAVES.items():
            for folder in sorted(base.glob(f"{device}/*")):
                for leaf in leaves:
                    if (folder / leaf).is_file():
                        yield ".".join((*folder.relative_to(base).parts, leaf)), folder / leaf


def read_tree(root: Path, host: str | None = None, *, with_jobs: bool = True) -> Snapshot:
    """One snapshot of a server or of a copied tree."""
    snapshot = Snapshot(host=host)
    for parameter, path in tree_files(root):
        if with_jobs or path.name != JOB_STATS:
            try:
                text = path.read_text(encoding="utf-8", errors="replace").rstrip("\0")
            except OSError as error:
                hint = "Run as root: parts of debugfs require it."
                raise SourceError(f"Cannot read {path}: {error.strerror}.", hint=hint) from None
            _add_parameter(snapshot, parameter, text, str(root))
    return snapshot


def job_stats_files(root: Path) -> Iterator[tuple[Target, Path]]:
    """Lists of jobs of a server, as files: they are too long to be read whole."""
    for parameter, path in tree_files(root):
        found = target_of(parameter) if path.name == JOB_STATS else None
        if found is not None:
            yield found[0], path


def is_tree(path: Path) -> bool:
    """Whether the folder is a copied /proc or /sys tree of Lustre."""
    return bool(_open_places(path))
