"""[visibility] of facility.toml: who may see whose jobs through the web server, and by whose word a person is known.

`open`: whoever reaches the server sees everything. `own`: a person sees their own jobs, operators see all. The name of
the person comes in a header that counts only from a trusted proxy.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias, cast

from ioweather.core.errors import FacilityError

Mode: TypeAlias = Literal["open", "own"]
Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network
_KEYS: Final = {"mode", "user_header", "trusted_proxies", "operators", "uids"}
_HEADER: Final = re.compile(r"[A-Za-z][A-Za-z0-9-]*")
_LOOPBACK: Final = ("127.0.0.1", "::1")
SOCKET: Final = "socket"  # instead of an address: whoever the rights of the server's socket let in


@dataclass(frozen=True)
class Owner:
    """Whose rows may be seen. `uids` are those that facility.toml gives; the accounting may know more."""

    user: str
    uids: tuple[int, ...] = ()


@dataclass(frozen=True)
class Visibility:
    """`is_said`: the mode stands in the file. Only then may a server be open to other machines."""

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
