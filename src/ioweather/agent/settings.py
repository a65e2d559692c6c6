"""Settings of the agent: [collect] and [watch] of facility.toml, and the live sources that follow from them."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ioweather.agent import counters
from ioweather.agent.delivery import Server, check_url
from ioweather.agent.probe import Probe, ProbeSettings
from ioweather.agent.sensor import LiveSource
from ioweather.agent.spool import Keep
from ioweather.agent.target_probe import TargetProbe
from ioweather.core.counters.lustre_snapshot import is_tree
from ioweather.core.errors import FacilityError, SourceError, UsageError
from ioweather.core.facility import Facility
from ioweather.core.mounts import is_inside
from ioweather.core.units import GIB, MINUTE_NS, NS, parse_duration_ns, parse_size


@dataclass(frozen=True)
class CollectSettings:
    """[collect]: what the agent measures, how often, and where the rows go."""

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
        """The server that rows are pushed to, if there is no lake that this machine can write."""
        return Server(self.push_url, self.push_token_file) if self.push_url and self.push_token_file else None


@dataclass(frozen=True)
class WatchSettings:
    """[watch]: what `ioweather ingest --watch` reads, and how often the agent runs it.

    `accounting`: also query `sacct`, if it is installed. `tell`: a program that is run for each new verdict, with the
    job id and the line (deploy/slurm/tell-slurm). `check_owner`: files of other users count for their own runs only.
    """

    directories: tuple[Path, ...] = ()
    every_ns: int = MINUTE_NS
    accounting: bool = True
    tell: Path | None = None
    check_owner: bool = True


def _duration(value: Any) -> int:
    return parse_duration_ns(str(value))


def _size(value: Any) -> int:
    return parse_size(str(value))


def _path(value: Any) -> Path:
    return Path(str(value))


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


def _directories(value: Any) -> tuple[Path, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) and item for item in value):
        raise FacilityError("[watch] directories must be a list of paths.")
    for item in value:
        if not Path(item).is_absolute():
            raise ValueError(f"{item!r} is not an absolute path")
    return tuple(map(Path, value))


def _program(value: Any) -> Path:
    if not (isinstance(value, str) and Path(value).is_absolute()):
        raise ValueError(f"{value!r} is not the absolute path of a program")
    return Path(value)


# Key of the section -> field of the settings, and the parser of its value.
_Keys = Mapping[str, "tuple[str, Callable[[Any], Any]]"]
_PROBE_KEYS: _Keys = {
    "probe_period": ("period_ns", _duration),
    "probe_request": ("block_bytes", _size),
    "probe_file": ("file_bytes", _size),
    "probe_pool": ("pool_files", _whole),
    "probe_fill_rate": ("fill_bytes_per_s", _size),
}
_COLLECT_KEYS: _Keys = {
    "probe_name": ("probe_name", str),
    "probe_targets": ("probe_targets", _flag),
    "block_period": ("block_period_ns", _duration),
    "block_stacked": ("block_stacked", _flag),
    "lustre_period": ("lustre_period_ns", _duration),
    "gpfs_period": ("gpfs_period_ns", _duration),
    "nfs_period": ("nfs_period_ns", _duration),
    "root": ("root", _path),
    "slurm_period": ("slurm_period_ns", _duration),
    "ship_every": ("ship_period_ns", _duration),
    "spool_limit": ("spool_limit_bytes", _size),
    "spool_keep": ("spool_keep", _which_end),
    "push_url": ("push_url", lambda value: check_url(str(value))),
    "push_token_file": ("push_token_file", _path),
}
_WATCH_KEYS: _Keys = {
    "directories": ("directories", _directories),
    "every": ("every_ns", _duration),
    "accounting": ("accounting", _flag),
    "tell": ("tell", _program),
    "check_owner": ("check_owner", _flag),
}


def settings_from(section: Mapping[str, Any]) -> CollectSettings:
    """Return the settings in the section [collect]; every key has a default."""
    _check_names("collect", section, {**_PROBE_KEYS, **_COLLECT_KEYS})
    probe = ProbeSettings(keep_files=True, **_parsed("collect", section, _PROBE_KEYS))
    try:
        probe.check()
    except SourceError as error:
        raise FacilityError(f"[collect]: {error.message}") from None
    settings = CollectSettings(probe=probe, **_parsed("collect", section, _COLLECT_KEYS))
    if bool(settings.push_url) != (settings.push_token_file is not None):
        raise FacilityError("[collect] push_url and push_token_file go together.")
    return settings


def watch_settings_from(section: Mapping[str, Any]) -> WatchSettings:
    """Return the settings in the section [watch]; every key has a default."""
    _check_names("watch", section, _WATCH_KEYS)
    return WatchSettings(**_parsed("watch", section, _WATCH_KEYS))


def _check_names(name: str, section: Mapping[str, Any], keys: _Keys) -> None:
    unknown = sorted(section.keys() - keys.keys())
    if unknown:
        raise FacilityError(f"unknown key {', '.join(unknown)} in [{name}].", hint=f"Known: {', '.join(keys)}.")


def _parsed(name: str, section: Mapping[str, Any], keys: _Keys) -> dict[str, Any]:
    found = {}
    for key, (setting, parse) in keys.items():
        if key in section:
            try:
                found[setting] = parse(section[key])
            except ValueError as error:
                raise FacilityError(f"[{name}] {key}: {error}.") from None
    return found


def sources_for(
    kinds: Sequence[str], facility: Facility, settings: CollectSettings, run_id: str, host: str | None = None
) -> list[LiveSource]:
    """Return the live sources of the named kinds; without names, all that this machine and the facility offer."""
    host, root = host or socket.gethostname(), settings.root
    made: list[LiveSource] = []
    if "probe" in kinds or not kinds:
        made += _probes(facility, settings, run_id, host)
        if "probe" in kinds and not made:
            raise UsageError(
                "facility.toml names no path to probe.", hint='Add `probes = ["/path"]` to a [filesystem.NAME].'
            )
    cluster = facility.clusters[0] if len(facility.clusters) == 1 else None
    offered: list[tuple[bool, LiveSource]] = [
        (
            (root / "proc/diskstats").exists(),
            counters.BlockDevices(settings.block_period_ns, root, host, stacked=settings.block_stacked),
        ),
        (is_tree(root), counters.LustreServer(settings.lustre_period_ns, root, host, cluster)),
        (counters.mmpmon() is not None, counters.GpfsNode(settings.gpfs_period_ns, host=host)),
        (counters.has_nfs(root), counters.NfsClient(settings.nfs_period_ns, root, host)),
        (counters.has_sacct(), counters.SlurmAccounting(settings.slurm_period_ns, host=host)),
    ]
    made += [source for is_here, source in offered if (source.name in kinds if kinds else is_here)]
    if not made:
        raise UsageError("There is nothing to collect here.", hint="Name paths to probe in facility.toml.")
    return made


def _probes(facility: Facility, settings: CollectSettings, run_id: str, host: str) -> Iterator[LiveSource]:
    mounts = [mount for filesystem in facility.filesystems for mount in filesystem.mounts]
    for path in dict.fromkeys(path for filesystem in facility.filesystems for path in filesystem.probes):
        # The declared mount that the path is on: without it the path is a directory of the disk below.
        mount = max((mount for mount in mounts if is_inside(path, mount)), key=len, default=None)
        kinds = (Probe, TargetProbe) if settings.probe_targets else (Probe,)
        for kind in kinds:
            yield kind(path, settings.probe, run_id, settings.probe_name, host=host, required_mount=mount)
