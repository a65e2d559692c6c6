"""facility.toml: names, baselines, and who may see whose jobs.

Raw names become canonical names when they are read, so a correction needs no re-ingest.
"""

from __future__ import annotations

import fnmatch
import hashlib
import ipaddress
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal, Union, cast
from zoneinfo import ZoneInfo

from ioweather.core.clock import parse_time_ns, zone_named
from ioweather.core.errors import FacilityError, IoweatherError
from ioweather.core.safe_files import is_inside
from ioweather.core.units import GIB, MIB, NS, format_seconds, format_time_ns, parse_duration_ns, parse_size
from ioweather.core.words import names_of

FORMS = (
    "whole; a duration such as 7d (the time before each interval); FROM..TO; one of these after q10: (the 10% quantile "
    "in place of the median); or read=12ms,stat=1ms"
)
_QUANTILE = re.compile(r"q([1-9]\d?):(.+)")


@dataclass(frozen=True)
class Baseline:
    """What response times are compared with: at most one of a window before each interval, a period, or given seconds;
    else the whole period. `quantile` of it is the usual time."""

    window_ns: int | None = None
    period_ns: tuple[int, int] | None = None
    seconds: Mapping[str, float] | None = None  # by operation; others are compared with the whole period
    quantile: float = 0.5

    @property
    def statistic(self) -> str:
        return "median" if self.quantile == 0.5 else f"{self.quantile:.0%} quantile"

    def __str__(self) -> str:
        if self.window_ns is not None:
            return f"the {format_seconds(self.window_ns / NS)} before each interval"
        if self.period_ns is not None:
            return " to ".join(format_time_ns(moment) for moment in self.period_ns)
        if self.seconds is not None:
            given = ", ".join(f"{op} {format_seconds(value)}" for op, value in self.seconds.items())
            return f"as given ({given}), for other operations the whole period"
        return "the whole period"


WHOLE = Baseline()


def parse_baseline(text: str, zone: ZoneInfo | None = None) -> Baseline:
    """Parse one of FORMS, as on the command line and in facility.toml. Raises ValueError, or an error about a missing
    zone."""
    stripped = text.strip()
    if found := _QUANTILE.fullmatch(stripped):
        whole = parse_baseline(found[2], zone)
        if whole.seconds is not None:
            raise ValueError(f"{text!r} is not a baseline: values that are given have no quantile")
        return replace(whole, quantile=int(found[1]) / 100)
    if stripped == "whole":
        return WHOLE
    if ".." in stripped:
        first, _, last = stripped.partition("..")
        period = (parse_time_ns(first, zone), parse_time_ns(last, zone))
        if period[1] <= period[0]:
            raise ValueError(f"the baseline {text!r} ends before it begins")
        return Baseline(period_ns=period)
    if "=" in stripped:
        pairs = [entry.partition("=") for entry in stripped.split(",")]
        seconds = {op.strip(): parse_duration_ns(value.strip()) / NS for op, _, value in pairs}
        if not all(value > 0 for value in seconds.values()):
            raise ValueError(f"the baseline {text!r} has an operation that takes no time")
        return Baseline(seconds=seconds)
    try:
        window_ns = parse_duration_ns(stripped)
    except ValueError:
        raise ValueError(f"{text!r} is not a baseline: expected {FORMS}") from None
    if window_ns <= 0:
        raise ValueError(f"a baseline of {text!r} has no length")
    return Baseline(window_ns=window_ns)


Mode = Literal["open", "own"]
Network = Union[ipaddress.IPv4Network, ipaddress.IPv6Network]
_KEYS: Final = {"mode", "user_header", "trusted_proxies", "operators", "uids"}
_HEADER: Final = re.compile(r"[A-Za-z][A-Za-z0-9-]*")
_LOOPBACK: Final = ("127.0.0.1", "::1")
SOCKET: Final = "socket"  # in place of an address: clients that may open the server's socket


@dataclass(frozen=True)
class Owner:
    """The user whose rows may be seen. `uids` are those of facility.toml; the accounting may know more."""

    user: str
    uids: tuple[int, ...] = ()


@dataclass(frozen=True)
class Visibility:
    """Who may see whose jobs through the web server. `open`: everybody who reaches it sees everything. `own`: users see
    their own jobs, operators see all. The user's name comes in a header that counts only from a trusted proxy.
    `is_said`: the file sets the mode. Only then may a server be open to other machines."""

    mode: Mode = "open"
    user_header: str = "X-Remote-User"
    trusted_proxies: tuple[Network, ...] = tuple(ipaddress.ip_network(name) for name in _LOOPBACK)
    trusts_socket: bool = False
    operators: frozenset[str] = frozenset()
    uids: Mapping[str, int] = field(default_factory=dict)
    is_said: bool = False

    def trusts(self, peer: str) -> bool:
        if peer == SOCKET:
            return self.trusts_socket
        try:
            address = ipaddress.ip_address(peer)
        except ValueError:
            return False
        mapped = getattr(address, "ipv4_mapped", None)  # an IPv4 peer of a socket that listens at ::
        return any((mapped or address) in network for network in self.trusted_proxies)

    def owner(self, user: str) -> Owner:
        return Owner(user, (self.uids[user],) if user in self.uids else ())


def parse_visibility(section: Any) -> Visibility:
    """The section [visibility] of facility.toml. Raises FacilityError."""
    where = "[visibility]"
    if not isinstance(section, Mapping):
        raise FacilityError(f"{where} must be a table.")
    unknown = sorted(set(section) - _KEYS)
    if unknown:
        raise FacilityError(f"unknown key {', '.join(unknown)} in {where}.", hint=f"Known: {', '.join(sorted(_KEYS))}.")
    mode = section.get("mode", "own" if section else "open")  # who writes the section wants something of it
    if mode not in ("open", "own"):
        raise FacilityError(f'{where} mode must be "open" or "own", not {mode!r}.')
    header = section.get("user_header", "X-Remote-User")
    if not isinstance(header, str) or _HEADER.fullmatch(header) is None:
        raise FacilityError(f"{where} user_header must be the name of an HTTP header, not {header!r}.")
    proxies = _names(section, "trusted_proxies", list(_LOOPBACK))
    return Visibility(
        mode=cast(Mode, mode),
        user_header=header,
        trusted_proxies=tuple(_network(text) for text in proxies if text != SOCKET),
        trusts_socket=SOCKET in proxies,
        operators=frozenset(_names(section, "operators", [])),
        uids=_uids(section.get("uids", {})),
        is_said=bool(section),
    )


def _names(section: Mapping[str, Any], key: str, default: list[str]) -> list[str]:
    value = section.get(key, default)
    if not isinstance(value, list) or not all(isinstance(item, str) and item for item in value):
        raise FacilityError(f"`{key}` in [visibility] must be a list of names.")
    return value


def _network(text: str) -> Network:
    try:
        return ipaddress.ip_network(text)
    except ValueError:
        raise FacilityError(
            f"trusted_proxies in [visibility]: {text!r} is neither an address nor a network.",
            hint='For example "10.1.2.3" or "10.1.2.0/24".',
        ) from None


def _uids(value: Any) -> dict[str, int]:
    if not isinstance(value, Mapping) or not all(type(uid) is int and uid >= 0 for uid in value.values()):
        raise FacilityError("`uids` in [visibility] must be a table of names and numbers, as { anna = 1001 }.")
    return {str(name): int(uid) for name, uid in value.items()}


_TOP_KEYS = set(
    names_of("""
    name zone clusters source_order filesystem project maintenance retention visibility collect watch engine ingest
    simulated node_limit_bytes_per_s node_cores baseline
""")
)
_FILESYSTEM_KEYS = set(
    names_of("""
    kind lustre mounts devices probes peak_bytes_per_s highest_bytes_per_s component_limit_bytes_per_s servers
""")
)
_PROJECT_KEYS = {"account", "uid", "exe", "path", "name"}
_DEFAULT_RETENTION = {"raw_series": "30d", "versions": "30d", "responses": "400d"}
_LEAST_MEMORY_BYTES = 64 * MIB


@dataclass(frozen=True)
class FileSystem:
    """One [filesystem.NAME]. `probes` are paths that agents probe. `peak_bytes_per_s` is what it can do;
    `highest_bytes_per_s`, the highest hour that was seen, is no limit and only sets scales."""

    name: str
    kind: str | None = None
    lustre: tuple[str, ...] = ()
    mounts: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    probes: tuple[str, ...] = ()
    peak_bytes_per_s: float | None = None
    highest_bytes_per_s: float | None = None
    component_limit_bytes_per_s: float | None = None
    servers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def server_of(self, component: str) -> str | None:
        """The server of this target, if the file says so."""
        return next(
            (name for name, targets in self.servers.items() if any(fnmatch.fnmatchcase(component, t) for t in targets)),
            None,
        )


@dataclass(frozen=True)
class ProjectRule:
    name: str
    account: str | None = None
    uid: int | None = None
    exe: str | None = None
    path: str | None = None

    def matches(self, *, account: str | None, uid: int | None, exe: str | None, path: str | None) -> bool:
        return (
            (self.account is None or (account is not None and fnmatch.fnmatchcase(account, self.account)))
            and (self.uid is None or self.uid == uid)
            and (self.exe is None or (exe is not None and fnmatch.fnmatchcase(exe, self.exe)))
            and (self.path is None or (path is not None and fnmatch.fnmatchcase(path, self.path)))
        )


@dataclass(frozen=True)
class Window:
    start_ns: int
    end_ns: int
    label: str = ""


@dataclass(frozen=True)
class Facility:
    """The parsed file. An empty Facility maps every name to itself."""

    name: str = "this facility"
    zone: str | None = None
    clusters: tuple[str, ...] = ()
    source_order: tuple[str, ...] = ("tts", "h5lmt", "lmt", "lustre", "iostat")
    filesystems: tuple[FileSystem, ...] = ()
    projects: tuple[ProjectRule, ...] = ()
    maintenance: tuple[Window, ...] = ()
    retention_ns: Mapping[str, int] = field(
        default_factory=lambda: {key: parse_duration_ns(text) for key, text in _DEFAULT_RETENTION.items()}
    )
    node_limit_bytes_per_s: float | None = None
    node_cores: int | None = None
    simulated: bool = False
    baseline: Baseline = WHOLE  # what response times are compared with
    visibility: Visibility = field(default_factory=Visibility)
    # What reading one file may take, beside a part that grows with its size.
    stuck_after_ns: int = 30 * NS
    most_memory_bytes: int = 2 * GIB
    most_rows: int = 20_000_000
    sections: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    digest: str = ""

    def filesystem_of(self, system: str) -> str:
        """Canonical file system of a raw `system` (an fsname, 'mount:/path' or 'host:device'); itself if unmapped.

        An unmapped disk is named by its host without the domain: collectors write either.
        """
        found = self._lookup(system)
        return found.name if found else without_domain(system)

    def is_mapped(self, system: str) -> bool:
        return self._lookup(system) is not None

    def filesystem(self, name: str) -> FileSystem | None:
        return next((fs for fs in self.filesystems if fs.name == name), None)

    def filesystem_of_path(self, path: str) -> FileSystem | None:
        """The file system of a path: the one with the longest matching mount."""
        best: tuple[int, FileSystem] | None = None
        for fs in self.filesystems:
            for mount in fs.mounts:
                inside = path == mount or path.startswith(mount.rstrip("/") + "/")
                if inside and (best is None or len(mount) > best[0]):
                    best = (len(mount), fs)
        return best[1] if best else None

    def project_of(
        self, *, account: str | None = None, uid: int | None = None, exe: str | None = None, path: str | None = None
    ) -> str:
        """First matching rule, else the account, else the uid: a job always has a project."""
        for rule in self.projects:
            if rule.matches(account=account, uid=uid, exe=exe, path=path):
                return rule.name
        return account or (f"uid {uid}" if uid is not None else "unknown")

    def _lookup(self, system: str) -> FileSystem | None:
        if system.startswith("mount:"):
            mount = system.removeprefix("mount:")
            return self.filesystem_of_path(mount) or self._probed_at(mount)
        for fs in self.filesystems:
            if system == fs.name or system in fs.lustre:
                return fs
            if any(fnmatch.fnmatchcase(system, pattern) for pattern in fs.devices):
                return fs
        return None

    def _probed_at(self, mount: str) -> FileSystem | None:
        """The only file system that has a path to probe on this mount and declares no mount of its own."""
        found = [fs for fs in self.filesystems if not fs.mounts and any(is_inside(path, mount) for path in fs.probes)]
        return found[0] if len(found) == 1 and mount != "/" else None


def load_facility(path: Path) -> Facility:
    """Parse and check; a missing file is an empty facility. Every complaint names the file and the key."""
    if not path.exists():
        return Facility()
    try:
        return parse_facility(facility_data(path))
    except FacilityError as error:
        raise FacilityError(f"{path}: {error.message}", hint=error.hint) from None


def facility_data(path: Path) -> dict[str, Any]:
    """Return what the file says, unchecked. A file that ends in .json has the same keys, for a Python without TOML."""
    text = path.read_text(encoding="utf-8")
    try:
        if path.suffix == ".json":
            return dict(json.loads(text))
        import tomllib
    except (ValueError, TypeError) as error:
        raise FacilityError(f"{path} is not valid JSON: {error}.") from None
    except ModuleNotFoundError:
        raise FacilityError(
            f"{path}: this Python reads no TOML.", hint="Take Python 3.11, or put it in by `ioweather agent bundle`."
        ) from None
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise FacilityError(f"{path} is not valid TOML: {error}.") from None


def is_local_disk(system: str) -> bool:
    """Whether a name is that of an unmapped disk of a host, such as 'n0001:sda'."""
    host, colon, device = system.partition(":")
    return bool(colon) and host != "mount" and not device.startswith("/")


def without_domain(system: str) -> str:
    """'n0001.site.example:sda' as 'n0001:sda'; addresses stay as they are."""
    host, _, device = system.partition(":")
    if not is_local_disk(system) or "." not in host or host.replace(".", "").isdigit():
        return system
    return f"{host.partition('.')[0]}:{device}"


def parse_facility(data: Mapping[str, Any]) -> Facility:
    """The facility of a parsed facility.toml. Raises FacilityError."""
    _known(data, _TOP_KEYS, "the top level")
    zone = data.get("zone")
    if zone is not None:
        _zone(zone)
    filesystems = data.get("filesystem", {})
    if not isinstance(filesystems, dict):
        raise FacilityError("`filesystem` is no table.", hint="Write [filesystem.NAME] for each file system.")
    retention = {**_DEFAULT_RETENTION, **data.get("retention", {})}
    _known(retention, set(_DEFAULT_RETENTION), "[retention]")
    return Facility(
        name=_typed(data, "name", str, "this facility"),
        zone=zone,
        clusters=_strings(data, "clusters"),
        source_order=_strings(data, "source_order") or Facility().source_order,
        filesystems=tuple(_filesystem(name, body) for name, body in filesystems.items()),
        projects=tuple(_project(body) for body in data.get("project", [])),
        maintenance=tuple(_window(body, zone) for body in data.get("maintenance", [])),
        retention_ns={key: _duration(f"[retention] {key}", text) for key, text in retention.items()},
        node_limit_bytes_per_s=_number(data, "node_limit_bytes_per_s", "the top level"),
        node_cores=_typed(data, "node_cores", int, None),
        simulated=_typed(data, "simulated", bool, False),
        baseline=_baseline(_typed(data, "baseline", str, "whole"), zone),
        visibility=parse_visibility(data.get("visibility", {})),
        **_reading_limits(data.get("ingest", {})),
        sections={key: data[key] for key in ("collect", "engine", "watch") if key in data},
        digest=_digest(data),
    )


def _reading_limits(ingest: Mapping[str, Any]) -> dict[str, int]:
    _known(ingest, {"stuck_after", "most_memory", "most_rows"}, "[ingest]")
    found: dict[str, int] = {}
    if "stuck_after" in ingest:
        found["stuck_after_ns"] = _duration("[ingest] stuck_after", ingest["stuck_after"])
        if not found["stuck_after_ns"]:
            text = "[ingest] stuck_after: no reader is done in no time."
            raise FacilityError(text, hint='Write "10min" for a long one.')
    if "most_memory" in ingest:
        try:
            found["most_memory_bytes"] = parse_size(str(ingest["most_memory"]))
        except ValueError as error:
            raise FacilityError(f"[ingest] most_memory: {error}.") from None
        if found["most_memory_bytes"] < _LEAST_MEMORY_BYTES:
            raise FacilityError("[ingest] most_memory: no reader comes along with less than 64MiB.")
    if "most_rows" in ingest:
        rows = ingest["most_rows"]
        if not isinstance(rows, int) or isinstance(rows, bool) or rows < 1:
            raise FacilityError(f"[ingest] most_rows must be a whole number from 1, not {rows!r}.")
        found["most_rows"] = rows
    return found


def _digest(data: Mapping[str, Any]) -> str:
    """Hash of what results depend on, without sections on where the work is done."""
    relevant = {key: value for key, value in data.items() if key not in ("collect", "engine", "ingest", "visibility")}
    return hashlib.sha256(json.dumps(relevant, sort_keys=True, default=str).encode()).hexdigest()[:16]


def _filesystem(name: str, body: Any) -> FileSystem:
    where = f"[filesystem.{name}]"
    if not isinstance(body, Mapping):
        raise FacilityError(f"{where} must be a table.")
    _known(body, _FILESYSTEM_KEYS, where)
    return FileSystem(
        name=name,
        kind=_typed(body, "kind", str, None),
        lustre=_strings(body, "lustre", where),
        mounts=_strings(body, "mounts", where),
        devices=_strings(body, "devices", where),
        probes=_strings(body, "probes", where),
        peak_bytes_per_s=_number(body, "peak_bytes_per_s", where),
        highest_bytes_per_s=_number(body, "highest_bytes_per_s", where),
        component_limit_bytes_per_s=_number(body, "component_limit_bytes_per_s", where),
        servers=_servers(body.get("servers", {}), f"[filesystem.{name}.servers]"),
    )


def _servers(body: Any, where: str) -> dict[str, tuple[str, ...]]:
    if not isinstance(body, Mapping):
        raise FacilityError(f"{where} must be a table.")
    return {str(server): _strings(body, server, where) for server in body}


def _project(body: Mapping[str, Any]) -> ProjectRule:
    _known(body, _PROJECT_KEYS, "[[project]]")
    if not isinstance(body.get("name"), str) or len(body) < 2:
        raise FacilityError("[[project]] needs `name` and at least one of account, uid, exe, path.")
    return ProjectRule(**body)


def _window(body: Mapping[str, Any], zone: str | None) -> Window:
    _known(body, {"start", "end", "label"}, "[[maintenance]]")
    try:
        start, end = (parse_time_ns(str(body[key]), zone_named(zone) if zone else None) for key in ("start", "end"))
    except KeyError as error:
        raise FacilityError(f"[[maintenance]] needs {error}.") from None
    except (ValueError, IoweatherError) as error:
        raise FacilityError(f"[[maintenance]]: {error}") from None
    if end <= start:
        raise FacilityError(f"[[maintenance]] ends ({body['end']}) before it starts ({body['start']}).")
    return Window(start, end, str(body.get("label", "")))


def _known(body: Mapping[str, Any], keys: set[str], where: str) -> None:
    unknown = sorted(set(body) - keys)
    if unknown:
        raise FacilityError(f"unknown key {', '.join(unknown)} in {where}.", hint=f"Known: {', '.join(sorted(keys))}.")


def _strings(body: Mapping[str, Any], key: str, where: str = "the top level") -> tuple[str, ...]:
    value = body.get(key, [])
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise FacilityError(f"`{key}` in {where} must be a list of strings.")
    return tuple(value)


def _typed(body: Mapping[str, Any], key: str, kind: type, default: Any) -> Any:
    value = body.get(key, default)
    if value is not default and not isinstance(value, kind):
        raise FacilityError(f"`{key}` must be {kind.__name__}, not {value!r}.")
    return value


def _number(body: Mapping[str, Any], key: str, where: str) -> float | None:
    value = body.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value <= 0:
        raise FacilityError(f"`{key}` in {where} must be a positive number, not {value!r}.")
    return float(value)


def _zone(zone: Any) -> None:
    try:
        zone_named(str(zone))
    except IoweatherError as error:
        raise FacilityError(f"`zone`: {error}") from None


def _baseline(text: str, zone: str | None) -> Baseline:
    try:
        return parse_baseline(text, zone_named(zone) if zone else None)
    except (ValueError, IoweatherError) as error:
        raise FacilityError(f"`baseline`: {error}") from None


def _duration(where: str, text: Any) -> int:
    try:
        return parse_duration_ns(str(text))
    except ValueError as error:
        raise FacilityError(f"{where}: {error}.") from None
