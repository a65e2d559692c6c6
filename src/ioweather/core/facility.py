"""facility.toml: names, baselines, and who may see whose jobs.

The lake stores raw names. They become canonical names when rows are read, so a correction needs no new ingest.
"""

from __future__ import annotations

import fnmatch
import hashlib
import ipaddress
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final, Literal, TypeVar, Union
from zoneinfo import ZoneInfo

from ioweather.core.errors import IoweatherError
from ioweather.core.safe_files import is_inside
from ioweather.core.units import (
    GIB,
    MIB,
    NS,
    format_seconds,
    parse_duration_ns,
    parse_size,
    parse_time_ns,
    zone_named,
)

Network = Union[ipaddress.IPv4Network, ipaddress.IPv6Network]
T = TypeVar("T")
_HEADER: Final = re.compile(r"[A-Za-z][A-Za-z0-9-]*")
_LOOPBACK: Final = ["127.0.0.1", "::1"]
SOCKET: Final = "socket"  # in place of an address: clients that may open the server's socket
_RETENTION: Final = {"raw_series": "30d", "versions": "30d", "responses": "400d"}


@dataclass(frozen=True)
class Owner:
    """The user whose rows may be shown, with the uids of facility.toml; accounting may have more."""

    user: str
    uids: tuple[int, ...] = ()


@dataclass(frozen=True)
class Visibility:
    """Who may see whose jobs through the web server: all users all jobs (`open`), or users their own and operators all
    (`own`). A header has the user's name; it is accepted only from a trusted proxy. `is_said`: facility.toml has
    this section. Only then may a server be open to other machines."""

    mode: Literal["open", "own"] = "open"
    user_header: str = "X-Remote-User"
    trusted_proxies: tuple[Network, ...] = tuple(ipaddress.ip_network(name) for name in _LOOPBACK)
    trusts_socket: bool = False
    operators: frozenset[str] = frozenset()
    uids: Mapping[str, int] = field(default_factory=dict)
    is_said: bool = False

    def trusts(self, peer: str) -> bool:
        """Whether a client (an address, or SOCKET) is a trusted proxy."""
        if peer == SOCKET:
            return self.trusts_socket
        try:
            address = ipaddress.ip_address(peer)
        except ValueError:
            return False
        mapped = getattr(address, "ipv4_mapped", None)  # an IPv4 peer of a socket that listens at ::
        return any((mapped or address) in network for network in self.trusted_proxies)

    def owner(self, user: str) -> Owner:
        """The user with the uid that facility.toml gives."""
        return Owner(user, (self.uids[user],) if user in self.uids else ())


@dataclass(frozen=True)
class _FileSystem:
    """One [filesystem.NAME]. `probes` are paths that agents probe. `peak_bytes_per_s` is its limit."""

    name: str
    kind: str | None = None
    lustre: tuple[str, ...] = ()
    mounts: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    probes: tuple[str, ...] = ()
    peak_bytes_per_s: float | None = None
    component_limit_bytes_per_s: float | None = None
    servers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def server_of(self, component: str) -> str | None:
        """The server of a target, if facility.toml has it."""
        return next(
            (name for name, targets in self.servers.items() if any(fnmatch.fnmatchcase(component, t) for t in targets)),
            None,
        )


@dataclass(frozen=True)
class ProjectRule:
    """Jobs and files that belong to a project: all given patterns (account, exe, path) and the uid must match."""

    name: str
    account: str | None = None
    uid: int | None = None
    exe: str | None = None
    path: str | None = None

    def matches(self, *, account: str | None, uid: int | None, exe: str | None, path: str | None) -> bool:
        """Whether a job or a file belongs to the project. Patterns are those of the shell (fnmatch)."""
        texts = ((self.account, account), (self.exe, exe), (self.path, path))
        return self.uid in (None, uid) and all(
            pattern is None or (text is not None and fnmatch.fnmatchcase(text, pattern)) for pattern, text in texts
        )


@dataclass(frozen=True)
class _Window:
    """A maintenance window."""

    start_ns: int
    end_ns: int
    label: str = ""


@dataclass(frozen=True)
class Facility:
    """The parsed facility.toml. An empty Facility maps every name to itself."""

    name: str = "this facility"
    zone: str | None = None
    clusters: tuple[str, ...] = ()
    source_order: tuple[str, ...] = ("tts", "h5lmt", "lmt", "lustre", "iostat")
    filesystems: tuple[_FileSystem, ...] = ()
    projects: tuple[ProjectRule, ...] = ()
    maintenance: tuple[_Window, ...] = ()
    retention_ns: Mapping[str, int] = field(
        default_factory=lambda: {key: parse_duration_ns(text) for key, text in _RETENTION.items()}
    )
    node_limit_bytes_per_s: float | None = None
    node_cores: int | None = None
    simulated: bool = False
    # Usual response times are medians of so long before; None: of the whole period.
    baseline_ns: int | None = None
    visibility: Visibility = field(default_factory=Visibility)
    # Limits of reading one file, besides a part that grows with its size.
    stuck_after_ns: int = 30 * NS
    most_memory_bytes: int = 2 * GIB
    most_rows: int = 20_000_000
    sections: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    # Addresses and other labels of hosts, with their names: of [hosts], and of the lake.
    hosts: Mapping[str, str] = field(default_factory=dict)
    digest: str = ""

    @property
    def baseline_text(self) -> str:
        """The time that usual response times are of, in words."""
        if self.baseline_ns is None:
            return "the whole period"
        return f"the {format_seconds(self.baseline_ns / NS)} before each interval"

    def filesystem_of(self, system: str) -> str:
        """Canonical file system of a raw `system` (an fsname, 'mount:/path' or 'host:device'); itself if unmapped.

        An unmapped disk is named by its host without the domain, also where a collector writes an address that `hosts`
        names.
        """
        found = self._lookup(system)
        return found.name if found else self.disk_of(system)

    def disk_of(self, system: str) -> str:
        """The one name of a disk that collectors name by an address, a host or a host with its domain."""
        host, _, device = system.partition(":")
        named = self.hosts.get(host)
        return without_domain(f"{named}:{device}" if named is not None and is_local_disk(system) else system)

    def is_mapped(self, system: str) -> bool:
        """Whether a file system of facility.toml has this raw name."""
        return self._lookup(system) is not None

    def filesystem(self, name: str) -> _FileSystem | None:
        return next((fs for fs in self.filesystems if fs.name == name), None)

    def filesystem_of_path(self, path: str) -> _FileSystem | None:
        """The file system of a path: the one with the longest matching mount."""
        mounts = [(len(mount), fs) for fs in self.filesystems for mount in fs.mounts if is_inside(path, mount)]
        return max(mounts, key=lambda found: found[0])[1] if mounts else None

    def project_of(
        self, *, account: str | None = None, uid: int | None = None, exe: str | None = None, path: str | None = None
    ) -> str:
        """First matching rule, else the account, else the uid: a job always has a project."""
        for rule in self.projects:
            if rule.matches(account=account, uid=uid, exe=exe, path=path):
                return rule.name
        return account or (f"uid {uid}" if uid is not None else "unknown")

    def _lookup(self, system: str) -> _FileSystem | None:
        """The file system that a raw `system` belongs to."""
        if system.startswith("mount:"):
            mount = system[len("mount:") :]
            if (mounted := self.filesystem_of_path(mount)) is not None or mount == "/":
                return mounted
            # The only file system that has a path to probe on this mount and declares no mount of its own.
            probed = [fs for fs in self.filesystems if not fs.mounts and any(is_inside(p, mount) for p in fs.probes)]
            return probed[0] if len(probed) == 1 else None
        host, _, device = system.partition(":")
        raw = [system, f"{self.hosts[host]}:{device}"] if host in self.hosts else [system]
        for fs in self.filesystems:
            named = system == fs.name or system in fs.lustre
            if named or any(fnmatch.fnmatchcase(name, pattern) for name in raw for pattern in fs.devices):
                return fs
        return None


def load_facility(path: Path) -> Facility:
    """Read facility.toml; a missing file is an empty facility. Raises IoweatherError (kind FacilityError), which names
    the file and the key."""
    if not path.exists():
        return Facility()
    try:
        return parse_facility(facility_data(path))
    except IoweatherError as error:
        raise error.reworded(f"{path}: {error.message}") from None


def facility_data(path: Path) -> dict[str, Any]:
    """The content of facility.toml, unchecked; or of facility.json with the same keys, for a Python without TOML."""
    text = path.read_text(encoding="utf-8")
    try:
        if path.suffix == ".json":
            return dict(json.loads(text))
        import tomllib
    except (ValueError, TypeError) as error:
        raise IoweatherError(f"{path} is not valid JSON: {error}.", kind="FacilityError") from None
    except ModuleNotFoundError:
        raise IoweatherError(
            f"{path}: this Python cannot read TOML.",
            hint="Use Python 3.11, or `ioweather agent bundle`.",
            kind="FacilityError",
        ) from None
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise IoweatherError(f"{path} is not valid TOML: {error}.", kind="FacilityError") from None


def is_local_disk(system: str) -> bool:
    """Whether a name is that of an unmapped disk of a host, such as 'n0001:sda'."""
    host, colon, device = system.partition(":")
    return bool(colon) and host != "mount" and not device.startswith("/")


def without_domain(system: str) -> str:
    """'n0001:sda' for 'n0001.site.example:sda'; other names and addresses are not changed."""
    host, _, device = system.partition(":")
    if not is_local_disk(system) or "." not in host or host.replace(".", "").isdigit():
        return system
    return f"{host.partition('.')[0]}:{device}"


class _Section:
    """A table of facility.toml. `finish` refuses the keys that were not read."""

    def __init__(self, body: Any, where: str) -> None:
        if not isinstance(body, Mapping):
            raise IoweatherError(f"{where} must be a table.", kind="FacilityError")
        self.body, self.where, self.known = body, where, set[str]()

    def read(self, key: str, convert: Callable[[Any], T], default: Any = None) -> T:
        """The converted value of a key; of an absent key the converted default, or None. Raises IoweatherError."""
        self.known.add(key)
        value = self.body.get(key, default)
        if value is None:
            return default  # type: ignore[no-any-return]
        try:
            return convert(value)
        except (ValueError, TypeError, IoweatherError) as error:
            if isinstance(error, IoweatherError) and error.kind == "FacilityError":
                raise
            raise IoweatherError(f"`{key}` in {self.where}: {str(error).rstrip('.')}.", kind="FacilityError") from None

    def fill(self, made: type[T], **given: Any) -> T:
        """A dataclass whose fields are read from the keys of their names, except those given. Raises IoweatherError for
        other keys."""
        for each in fields(made):  # type: ignore[arg-type]
            if each.name not in given:
                self.known.add(each.name)
                if each.name in self.body:
                    given[each.name] = self.read(each.name, _CONVERTERS[each.type])
        self.finish()
        return made(**given)

    def finish(self) -> None:
        """Raise IoweatherError if the table has an unknown key."""
        if unknown := ", ".join(sorted(set(self.body) - self.known)):
            hint = f"Keys: {', '.join(sorted(self.known))}."
            raise IoweatherError(f"unknown key {unknown} in {self.where}.", hint=hint, kind="FacilityError")


def _kind(kind: type[T], name: str) -> Callable[[Any], T]:
    """A converter that accepts only values of this type."""

    def accept(value: Any) -> T:
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise ValueError(f"it must be {name}, not {value!r}")
        return value

    return accept


_text, _whole, _table = _kind(str, "text"), _kind(int, "a number"), _kind(dict, "a table")


def _texts(value: Any) -> tuple[str, ...]:
    """A converter: a list of strings that are not empty."""
    if not isinstance(value, list) or not all(isinstance(item, str) and item for item in value):
        raise ValueError(f"it must be a list of strings, not {value!r}")
    return tuple(value)


def _positive(value: Any) -> float:
    """A converter: a number above 0."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value <= 0:
        raise ValueError(f"it must be a positive number, not {value!r}")
    return float(value)


# How a key is read, by the type of its field.
_CONVERTERS: Final[Mapping[Any, Callable[[Any], Any]]] = {
    "str": _text,
    "str | None": _text,
    "int | None": _whole,
    "bool": _kind(bool, "true or false"),
    "float | None": _positive,
    "tuple[str, ...]": _texts,
}


def _from(least: int, convert: Callable[[Any], int]) -> Callable[[Any], int]:
    """The converter, with an error for results below `least`."""

    def accept(value: Any) -> int:
        if (found := convert(value)) < least:
            raise ValueError(f"{value!r} is too small")
        return found

    return accept


def _duration(value: Any) -> int:
    return parse_duration_ns(str(value))


def _baseline(value: Any) -> int | None:
    """A converter: a duration, or 'whole'."""
    return None if value == "whole" else _from(1, _duration)(value)


def parse_facility(data: Mapping[str, Any]) -> Facility:
    """The facility of a parsed facility.toml. Raises IoweatherError."""
    top = _Section(data, "the top level")
    zone = top.read("zone", lambda name: zone_named(str(name)))
    retention = _Section(top.read("retention", _table, {}), "[retention]")
    ingest = _Section(top.read("ingest", _table, {}), "[ingest]")
    lists = {key: top.body.get(key, []) for key in ("project", "maintenance")}
    sections = {key: top.read(key, _table) for key in ("collect", "engine", "watch")}
    # The digest covers what results depend on, and no section on where the work is done.
    relevant = {key: value for key, value in data.items() if key not in ("collect", "engine", "ingest", "visibility")}
    given = {
        "filesystems": tuple(_filesystem(*each) for each in top.read("filesystem", _table, {}).items()),
        "projects": tuple(map(_project, lists["project"])),
        "maintenance": tuple(_window(body, zone) for body in lists["maintenance"]),
        "retention_ns": {key: retention.read(key, _duration, usual) for key, usual in _RETENTION.items()},
        "baseline_ns": top.read("baseline", _baseline, "whole"),
        "visibility": top.read("visibility", parse_visibility, {}),
        "hosts": {label: _text(name) for label, name in top.read("hosts", _table, {}).items()},
        "stuck_after_ns": ingest.read("stuck_after", _from(1, _duration), "30s"),
        "most_memory_bytes": ingest.read("most_memory", _from(64 * MIB, lambda text: parse_size(str(text))), "2GiB"),
        "most_rows": ingest.read("most_rows", _from(1, _whole), Facility.most_rows),
        "sections": {key: body for key, body in sections.items() if body is not None},
        "digest": hashlib.sha256(json.dumps(relevant, sort_keys=True, default=str).encode()).hexdigest()[:16],
    }
    retention.finish()
    ingest.finish()
    top.known.update(lists)
    return top.fill(Facility, **given)


def _filesystem(name: str, body: Any) -> _FileSystem:
    """The section [filesystem.NAME]."""
    section = _Section(body, f"[filesystem.{name}]")
    servers = _Section(section.read("servers", _table, {}), f"[filesystem.{name}.servers]")
    return section.fill(_FileSystem, name=name, servers={key: servers.read(key, _texts) for key in servers.body})


def _project(body: Any) -> ProjectRule:
    """An entry of [[project]]."""
    if not isinstance(body, Mapping) or "name" not in body or len(body) < 2:
        raise IoweatherError(
            "[[project]] needs `name` and at least one of account, uid, exe, path.", kind="FacilityError"
        )
    return _Section(body, "[[project]]").fill(ProjectRule)


def _window(body: Any, zone: ZoneInfo | None) -> _Window:
    """An entry of [[maintenance]]."""
    section = _Section(body, "[[maintenance]]")
    start, end = (section.read(key, lambda text: parse_time_ns(str(text), zone)) for key in ("start", "end"))
    label = section.read("label", _text, "")
    section.finish()
    if start is None or end is None or end <= start:
        raise IoweatherError("[[maintenance]] needs `start` and a later `end`.", kind="FacilityError")
    return _Window(start, end, label)


def parse_visibility(body: Any) -> Visibility:
    """The section [visibility] of facility.toml. Raises IoweatherError."""
    section = _Section(body, "[visibility]")
    proxies = section.read("trusted_proxies", _texts, _LOOPBACK)
    found = Visibility(
        mode=section.read("mode", _mode, "own" if body else "open"),  # with the section, the safer mode
        user_header=section.read("user_header", _header, "X-Remote-User"),
        trusted_proxies=tuple(_network(text) for text in proxies if text != SOCKET),
        trusts_socket=SOCKET in proxies,
        operators=frozenset(section.read("operators", _texts, [])),
        uids=section.read("uids", _uids, {}),
        is_said=bool(body),
    )
    section.finish()
    return found


def _mode(value: Any) -> Literal["open", "own"]:
    """A converter: 'open' or 'own'."""
    if value not in ("open", "own"):
        raise ValueError(f'it must be "open" or "own", not {value!r}')
    return value  # type: ignore[no-any-return]


def _header(value: Any) -> str:
    """A converter: the name of an HTTP header."""
    if _HEADER.fullmatch(_text(value)) is None:
        raise ValueError(f"it must be the name of an HTTP header, not {value!r}")
    return _text(value)


def _network(text: str) -> Network:
    """An IP address or network. Raises IoweatherError."""
    try:
        return ipaddress.ip_network(text)
    except ValueError:
        raise IoweatherError(
            f"trusted_proxies in [visibility]: {text!r} is neither an address nor a network.",
            hint='For example "10.1.2.3" or "10.1.2.0/24".',
            kind="FacilityError",
        ) from None


def _uids(value: Any) -> dict[str, int]:
    """A converter: a table of user names and uids."""
    if not isinstance(value, Mapping) or not all(type(uid) is int and uid >= 0 for uid in value.values()):
        raise ValueError("it must be a table of names and numbers, such as { anna = 1001 }")
    return {str(name): int(uid) for name, uid in value.items()}
