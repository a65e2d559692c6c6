"""What the agent runs: facility.toml's [collect] and the probes of its file systems, as live sources."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ioweather.agent import counters
from ioweather.agent.counters import BlockDevices, GpfsNode, NfsClient, SlurmAccounting
from ioweather.agent.lustre_counters import LustreServer
from ioweather.agent.probe import Probe, ProbeSettings
from ioweather.agent.push import check_url
from ioweather.agent.sensor import LiveSource
from ioweather.agent.ship import Server
from ioweather.agent.spool import Keep
from ioweather.agent.target_probe import TargetProbe
from ioweather.core.counters.lustre_snapshot import is_tree
from ioweather.core.errors import FacilityError, SourceError, UsageError
from ioweather.core.facility import Facility
from ioweather.core.safe_files import is_inside
from ioweather.core.units import GIB, MINUTE_NS, NS, parse_duration_ns, parse_size

KINDS = ("probe", "block", "lustre", "gpfs", "nfs", "slurm")


@dataclass(frozen=True)
class CollectSettings:
    probe: ProbeSettings = field(default_factory=lambda: ProbeSettings(keep_files=True))
    probe_name: str = ""
    probe_targets: bool = False
    block_period_ns: int = 10 * NS
    block_stacked: bool = False
    lustre_period_ns: int = 10 * NS
    gpfs_period_ns: int = 10 * NS
    nfs_period_ns: int = 10 * NS
    root: Path = Path("/")
    slurm_period_ns: int = 5 * MINUTE_NS
    ship_period_ns: int = 5 * MINUTE_NS
    spool_limit_bytes: int = GIB
    spool_keep: Keep = "newest"
    push_url: str = ""
    push_token_file: Path | None = None

    @property
    def server(self) -> Server | None:
        """Where rows are pushed to, instead of a lake that this machine can write."""
        return Server(self.push_url, self.push_token_file) if self.push_url and self.push_token_file else None


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{value!r} is neither true nor false")
    return value


def _whole(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"{value!r} is not a whole number")
    return value


def _which_end(value: Any) -> str:
    if value not in ("newest", "oldest"):
        raise ValueError(f"{value!r} is neither 'newest' nor 'oldest'")
    return str(value)


# Key of [collect] -> field, and how its text is read. Those of the probe come first.
_PROBE_KEYS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "probe_period": ("period_ns", lambda value: parse_duration_ns(str(value))),
    "probe_request": ("block_bytes", lambda value: parse_size(str(value))),
    "probe_file": ("file_bytes", lambda value: parse_size(str(value))),
    "probe_pool": ("pool_files", _whole),
    "probe_fill_rate": ("fill_bytes_per_s", lambda value: parse_size(str(value))),
}
_KEYS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "probe_name": ("probe_name", str),
    "probe_targets": ("probe_targets", _flag),
    "block_period": ("block_period_ns", lambda value: parse_duration_ns(str(value))),
    "block_stacked": ("block_stacked", _flag),
    "lustre_period": ("lustre_period_ns", lambda value: parse_duration_ns(str(value))),
    "gpfs_period": ("gpfs_period_ns", lambda value: parse_duration_ns(str(value))),
    "nfs_period": ("nfs_period_ns", lambda value: parse_duration_ns(str(value))),
    "root": ("root", lambda value: Path(str(value))),
    "slurm_period": ("slurm_period_ns", lambda value: parse_duration_ns(str(value))),
    "ship_every": ("ship_period_ns", lambda value: parse_duration_ns(str(value))),
    "spool_limit": ("spool_limit_bytes", lambda value: parse_size(str(value))),
    "spool_keep": ("spool_keep", _which_end),
    "push_url": ("push_url", lambda value: check_url(str(value))),
    "push_token_file": ("push_token_file", lambda value: Path(str(value))),
}


def settings_from(section: Mapping[str, Any]) -> CollectSettings:
    """The section [collect] of facility.toml; every key has a default."""
    unknown = sorted(section.keys() - _KEYS.keys() - _PROBE_KEYS.keys())
    if unknown:
        known = ", ".join([*_PROBE_KEYS, *_KEYS])
        raise FacilityError(f"unknown key {', '.join(unknown)} in [collect].", hint=f"Known: {known}.")
    probe = ProbeSettings(keep_files=True, **_read(section, _PROBE_KEYS))
    try:
        probe.check()
    except SourceError as error:
        raise FacilityError(f"[collect]: {error.message}") from None
    settings = CollectSettings(probe=probe, **_read(section, _KEYS))
    if bool(settings.push_url) != (settings.push_token_file is not None):
        raise FacilityError("[collect] push_url and push_token_file go together.")
    return settings


def _read(section: Mapping[str, Any], keys: Mapping[str, tuple[str, Callable[[Any], Any]]]) -> dict[str, Any]:
    found = {}
    for key, (name, parse) in keys.items():
        if key in section:
            try:
                found[name] = parse(section[key])
            except ValueError as error:
                raise FacilityError(f"[collect] {key}: {error}.") from None
    return found


def sources_for(
    kinds: Sequence[str], facility: Facility, settings: CollectSettings, run_id: str, host: str | None = None
) -> list[LiveSource]:
    """The kinds that were named; without any, all that this machine and the facility file offer."""
    host = host or socket.gethostname()
    made: list[LiveSource] = []
    if "probe" in kinds or not kinds:
        made += _probes(facility, settings, run_id, host)
        if "probe" in kinds and not made:
            raise UsageError(
                "facility.toml names no path to probe.", hint='Add `probes = ["/path"]` to a [filesystem.NAME].'
            )
    if "block" in kinds or (not kinds and (settings.root / "proc/diskstats").exists()):
        made.append(BlockDevices(settings.block_period_ns, settings.root, host, stacked=settings.block_stacked))
    if "lustre" in kinds or (not kinds and is_tree(settings.root)):
        cluster = facility.clusters[0] if len(facility.clusters) == 1 else None
        made.append(LustreServer(settings.lustre_period_ns, settings.root, host, cluster))
    if "gpfs" in kinds or (not kinds and counters.mmpmon() is not None):
        made.append(GpfsNode(settings.gpfs_period_ns, host=host))
    if "nfs" in kinds or (not kinds and counters.has_nfs(settings.root)):
        made.append(NfsClient(settings.nfs_period_ns, settings.root, host))
    if "slurm" in kinds or (not kinds and counters.has_sacct()):
        made.append(SlurmAccounting(settings.slurm_period_ns, host=host))
    if not made:
        raise UsageError("There is nothing to collect here.", hint="Name paths to probe in facility.toml.")
    return made


def _probes(facility: Facility, settings: CollectSettings, run_id: str, host: str) -> Iterator[LiveSource]:
    paths = dict.fromkeys(path for filesystem in facility.filesystems for path in filesystem.probes)
    mounts = [mount for filesystem in facility.filesystems for mount in filesystem.mounts]
    for path in paths:
        mount = _mount_of(path, mounts)
        yield Probe(path, settings.probe, run_id, settings.probe_name, host=host, required_mount=mount)
        if settings.probe_targets:
            period, name = settings.probe.period_ns, settings.probe_name
            yield TargetProbe(path, period, run_id, name, host=host, required_mount=mount, keep_files=True)


def _mount_of(path: str, mounts: Sequence[str]) -> str | None:
    """The declared mount that a path lies on: without it the path is a directory of the disk below."""
    return max((mount for mount in mounts if is_inside(path, mount)), key=len, default=None)
