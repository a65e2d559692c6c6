"""Settings of the agent: [collect] and [watch] of facility.toml, and the live sources that follow from them."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from ioweather.agent import counters
from ioweather.agent.delivery import Server, check_url
from ioweather.agent.probe import Probe, ProbeSettings, TargetProbe
from ioweather.agent.sensor import LiveSource
from ioweather.core.counters.lustre_snapshot import is_tree
from ioweather.core.errors import IoweatherError, SourceError, UsageError
from ioweather.core.facility import Facility
from ioweather.core.safe_files import is_inside
from ioweather.core.units import GIB, MINUTE_NS, NS, parse_duration_ns, parse_size


def _duration(value: Any) -> int:
    return parse_duration_ns(str(value))


def _size(value: Any) -> int:
    return parse_size(str(value))


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{value!r} is neither true nor false")
    return value


def _whole(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"{value!r} is not a whole number")
    return value


def _absolute(value: Any) -> Path:
    if not (isinstance(value, str) and Path(value).is_absolute()):
        raise ValueError(f"{value!r} is not an absolute path")
    return Path(value)


def _directories(value: Any) -> tuple[Path, ...]:
    if not isinstance(value, list):
        raise ValueError("expected a list of paths")
    return tuple(map(_absolute, value))


_TYPES: Mapping[str, Callable[[Any], Any]] = {
    "bool": _flag,
    "str": str,
    "Path": _absolute,
    "Path | None": _absolute,
    "tuple[Path, ...]": _directories,
}
# Key of [collect]: the field of ProbeSettings that it sets, and the parser of its value.
_PROBE_KEYS: Mapping[str, tuple[str, Callable[[Any], Any]]] = {
    "probe_period": ("period_ns", _duration),
    "probe_request": ("block_bytes", _size),
    "probe_file": ("file_bytes", _size),
    "probe_pool": ("pool_files", _whole),
    "probe_fill_rate": ("fill_bytes_per_s", _size),
}
# An agent that pushes is one of many: all of them together must not load the file system that they measure.
_PUSHING_PERIOD_NS = 10 * NS


@dataclass(frozen=True)
class CollectSettings:
    """[collect]: what the agent measures, how often, and where the rows go. The keys are the fields, without units."""

    probe: ProbeSettings = field(default_factory=lambda: ProbeSettings(keep_files=True))
    probe_name: str = ""
    probe_targets: bool = False
    block_period_ns: int = 10 * NS
    lustre_period_ns: int = 10 * NS
    gpfs_period_ns: int = 10 * NS
    nfs_period_ns: int = 10 * NS
    root: Path = Path("/")
    ship_every_ns: int = 5 * MINUTE_NS
    spool_limit_bytes: int = GIB
    push_url: str = ""
    push_token_file: Path | None = None

    @property
    def server(self) -> Server | None:
        """The server that rows are pushed to, if this machine cannot write the lake itself."""
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


def settings_from(section: Mapping[str, Any]) -> CollectSettings:
    """Return the settings in the section [collect]; every key has a default."""
    values = _parsed("collect", section, {**_PROBE_KEYS, **_keys_of(CollectSettings)})
    given = {name: values.pop(name) for name, _ in _PROBE_KEYS.values() if name in values}
    if "push_url" in values:
        given.setdefault("period_ns", _PUSHING_PERIOD_NS)
    probe = ProbeSettings(keep_files=True, **given)
    try:
        probe.check()
    except SourceError as error:
        raise IoweatherError(f"[collect]: {error.message}", kind="FacilityError") from None
    settings = CollectSettings(probe=probe, **values)
    if bool(settings.push_url) != (settings.push_token_file is not None):
        raise IoweatherError("[collect] needs both push_url and push_token_file, or neither.", kind="FacilityError")
    return settings


def watch_settings_from(section: Mapping[str, Any]) -> WatchSettings:
    """Return the settings in the section [watch]; every key has a default."""
    return WatchSettings(**_parsed("watch", section, _keys_of(WatchSettings)))


def _keys_of(kind: type) -> dict[str, tuple[str, Callable[[Any], Any]]]:
    """Return by key the field that it sets and the parser of its value, which follow from the fields of a class."""
    found = {}
    for each in fields(kind):
        key = each.name.removesuffix("_ns").removesuffix("_bytes")
        parse = _duration if each.name.endswith("_ns") else _size if key != each.name else _TYPES.get(str(each.type))
        if each.name == "push_url":
            parse = check_url
        if parse is not None:
            found[key] = (each.name, parse)
    return found


def _parsed(
    name: str, section: Mapping[str, Any], keys: Mapping[str, tuple[str, Callable[[Any], Any]]]
) -> dict[str, Any]:
    """Return the fields that a section sets. Raises IoweatherError for an unknown key or a wrong value."""
    unknown = sorted(section.keys() - keys.keys())
    if unknown == ["slurm_period"]:
        raise IoweatherError(
            f"slurm_period in [{name}] was removed.",
            hint="Remove the line: `ioweather ingest --watch` reads Slurm's accounting.",
            kind="FacilityError",
        )
    if unknown:
        raise IoweatherError(
            f"unknown key {', '.join(unknown)} in [{name}].", hint=f"Keys: {', '.join(keys)}.", kind="FacilityError"
        )
    found = {}
    for key, value in section.items():
        setting, parse = keys[key]
        try:
            found[setting] = parse(value)
        except ValueError as error:
            raise IoweatherError(f"[{name}] {key}: {error}.", kind="FacilityError") from None
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
                "facility.toml sets no path to probe.", hint='Add `probes = ["/path"]` to a [filesystem.NAME].'
            )
    cluster = facility.clusters[0] if len(facility.clusters) == 1 else None
    offered: list[tuple[bool, LiveSource]] = [
        (
            (root / "proc/diskstats").exists(),
            counters.BlockDevices(settings.block_period_ns, root, host),
        ),
        (is_tree(root), counters.LustreServer(settings.lustre_period_ns, root, host, cluster)),
        (counters.mmpmon() is not None, counters.GpfsNode(settings.gpfs_period_ns, host=host)),
        (counters.has_nfs(root), counters.NfsClient(settings.nfs_period_ns, root, host)),
    ]
    made += [source for is_here, source in offered if (source.name in kinds if kinds else is_here)]
    if not made:
        raise UsageError("No source to collect from on this host.", hint="Set paths to probe in facility.toml.")
    return made


def _probes(facility: Facility, settings: CollectSettings, run_id: str, host: str) -> Iterator[LiveSource]:
    """Yield a probe for each path in the facility, and one for its storage targets if the settings ask for it."""
    mounts = [mount for filesystem in facility.filesystems for mount in filesystem.mounts]
    for path in dict.fromkeys(path for filesystem in facility.filesystems for path in filesystem.probes):
        # The declared mount that the path is on: without it the path is a directory of the disk below.
        mount = max((mount for mount in mounts if is_inside(path, mount)), key=len, default=None)
        kinds = (Probe, TargetProbe) if settings.probe_targets else (Probe,)
        for kind in kinds:
            yield kind(path, settings.probe, run_id, settings.probe_name, host=host, required_mount=mount)
