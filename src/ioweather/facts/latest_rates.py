"""Rates of storage targets from their newest samples, in the lake and in the spool of an agent on this machine."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

from ioweather.core.choices import busiest_filesystem, traffic_kind
from ioweather.core.errors import DataUnavailable
from ioweather.core.facility import is_local_disk
from ioweather.core.units import HOUR_NS, MINUTE_NS, NS
from ioweather.facts.loads import servers_of
from ioweather.lake.lake import Snapshot

_OPERATIONS: Final = ("read_ops", "write_ops")
_METADATA: Final = (
    *("open_ops", "close_ops", "mknod_ops", "link_ops", "unlink_ops", "mkdir_ops", "rmdir_ops", "rename_ops"),
    *("getattr_ops", "setattr_ops", "getxattr_ops", "setxattr_ops", "statfs_ops", "sync_ops"),
)
_ROOM: Final = ("capacity_bytes", "free_bytes")
_METRICS: Final = ("read_bytes", "write_bytes", *_OPERATIONS, *_METADATA, *_ROOM)
_REACH_NS: Final = HOUR_NS
# A target is silent if it misses this many samples, and a minute, while others have newer ones. [ours]
_MISSED_SAMPLES: Final = 3
# Of each segment only the end is read.
_TAIL_BYTES: Final = 4 << 20


class _Sample(NamedTuple):
    """The newest value of a metric: end of its interval, length of the interval, value."""

    end_ns: int
    interval_ns: int
    value: float


@dataclass(frozen=True)
class TargetRates:
    """Rates of a target per second, from the sample that ended at `end_ns`; None where it is silent or has none.

    `full_ratio` is the used share of its capacity.
    """

    target: str
    kind: str
    filesystem: str
    server: str | None
    end_ns: int
    is_silent: bool
    read_bytes_per_s: float | None
    write_bytes_per_s: float | None
    ops_per_s: float | None
    full_ratio: float | None


@dataclass(frozen=True)
class LatestRates:
    """The targets of `where`, and the end of the newest sample."""

    where: str
    end_ns: int
    targets: tuple[TargetRates, ...]

    def total(self, name: str) -> float | None:
        """Sum of a rate over the targets that are not silent; None if none has it."""
        known = [value for each in self.targets if (value := getattr(each, name)) is not None]
        return sum(known) if known else None


# The newest sample of each metric, by (file system, kind, component).
_Newest: TypeAlias = dict[tuple[str, str, str], dict[str, _Sample]]


def _add(newest: _Newest, key: tuple[str, str, str], metric: str, sample: _Sample) -> None:
    samples = newest.setdefault(key, {})
    samples[metric] = max(samples.get(metric, sample), sample)


def latest_rates(snapshot: Snapshot, where: str | None, spool: Path | None = None) -> LatestRates:
    """Return the rates of the targets of a file system or server; by default of the busiest file system.

    `spool` is the directory of an agent on this machine, whose rows are newer than those of the lake.
    Raises DataUnavailable if nothing has such samples.
    """
    groups = [g for g in snapshot.series() if g.metric in _METRICS]
    known = sorted({g.filesystem for g in groups})
    where = where or busiest_filesystem(snapshot)
    names = [where] if where is not None and where in known else [name for name in known if not is_local_disk(name)]
    newest: _Newest = {}
    for name in names:
        _add_samples_of_lake(snapshot, name, newest)
    if spool is not None:
        _add_samples_of_spool(spool, snapshot, names if where in known else None, newest)
    servers = servers_of(snapshot, [component for _, _, component in newest])
    targets = tuple(_rates(newest, servers))
    if where not in {filesystem for filesystem, _, _ in newest}:
        targets = tuple(each for each in targets if each.server == where)
    if where is None or not targets:
        near = get_close_matches(str(where), sorted({*known, *servers.values()}), n=3, cutoff=0.5)
        raise DataUnavailable(
            f"There are no samples from a file system or server {where!r}." if where else "The lake has no samples.",
            hint=f"Did you mean {' or '.join(near)}?" if near else "Start an agent, or ingest server counters.",
        )
    return LatestRates(where, max(each.end_ns for each in targets), targets)


def _add_samples_of_lake(snapshot: Snapshot, filesystem: str, newest: _Newest) -> None:
    """Add the samples of the last hour with any."""
    mine = [g for g in snapshot.series() if g.filesystem == filesystem and g.metric in _METRICS]
    if not mine:
        return
    kinds = (traffic_kind(snapshot, {"filesystem": filesystem}), "mdt")
    end = max(g.end_ns for g in mine)
    where = {"filesystem": filesystem, "component_kind": kinds, "metric": _METRICS}
    rows = snapshot.rows("series", where, (end - _REACH_NS, end + 1))
    sql = f"""SELECT component_kind, component, metric, arg_max((start_ns + interval_ns, interval_ns, value), start_ns)
        FROM ({rows}) WHERE isfinite(value) AND interval_ns > 0 GROUP BY ALL"""
    for kind, component, metric, sample in snapshot.bare.execute(sql).fetchall():
        _add(newest, (filesystem, kind, component), metric, _Sample(*sample))


def _add_samples_of_spool(spool: Path, snapshot: Snapshot, names: Sequence[str] | None, newest: _Newest) -> None:
    """Add the rows that an agent has written and not yet delivered."""
    for row in _rows_of_spool(spool):
        with suppress(KeyError, TypeError):
            filesystem = snapshot.facility.filesystem_of(row["system"])
            wanted = names is None or filesystem in names
            if wanted and row["metric"] in _METRICS and row["interval_ns"] > 0 and row["value"] is not None:
                sample = _Sample(row["start_ns"] + row["interval_ns"], row["interval_ns"], float(row["value"]))
                _add(newest, (filesystem, row["component_kind"], row["component"]), row["metric"], sample)


def _rows_of_spool(spool: Path) -> Iterator[Mapping[str, Any]]:
    """Yield the rows of `series` at the end of each segment."""
    for path in sorted((spool / "segments").glob("*")):
        with suppress(OSError), path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
            for line in file.read(_TAIL_BYTES).splitlines():
                if b'"series"' in line:
                    with suppress(ValueError):  # cut at one end, or being written
                        row = json.loads(line)
                        if isinstance(row, dict) and row.get("table") == "series":
                            yield row


def _rates(newest: _Newest, servers: Mapping[str, str]) -> Iterator[TargetRates]:
    """Yield the rates of each target, in order of name."""
    last = max((sample.end_ns for samples in newest.values() for sample in samples.values()), default=0)
    for (filesystem, kind, component), samples in sorted(newest.items()):
        moving = {name: sample for name, sample in samples.items() if name not in _ROOM}
        if not moving:
            continue
        end = max(sample.end_ns for sample in moving.values())
        interval = max(sample.interval_ns for sample in moving.values())
        silent = last - end > max(_MISSED_SAMPLES * interval, MINUTE_NS)

        current = {} if silent else {name: s for name, s in moving.items() if s.end_ns > end - 2 * s.interval_ns}
        capacity, free = samples.get("capacity_bytes"), samples.get("free_bytes")
        full = 1 - free.value / capacity.value if capacity and free and capacity.value > 0 else None
        operations = _METADATA if kind == "mdt" else _OPERATIONS
        read, write, done = (_sum_of_rates(current, names) for names in (("read_bytes",), ("write_bytes",), operations))
        server = servers.get(component)
        yield TargetRates(component, kind, filesystem, server, end, silent, read, write, done, full)


def _sum_of_rates(samples: Mapping[str, _Sample], metrics: Sequence[str]) -> float | None:
    """Sum of the rates of these metrics per second; None without a sample."""
    known = [samples[name] for name in metrics if name in samples]
    return sum(each.value / (each.interval_ns / NS) for each in known) if known else None
