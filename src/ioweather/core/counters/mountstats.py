"""The text of /proc/self/mountstats: what an NFS client has counted of each mount since it was mounted.

Standard library only: the live collector uses it too. Of the lines of a mount these are read (`nfs_show_stats` and
`rpc_clnt_show_stats` of the kernel; statvers 1.0 and 1.1):

    age: seconds since it was mounted
    bytes: read, written (each buffered), the same direct, the same from and to the server, pages read and written
    READ: requests, transmissions, timeouts, bytes sent, received, milliseconds queued, on the way and at the server,
          in all; since 5.3 also errors

Traps: a time may have fallen below zero, and is then shown as a number near 2^64. A mount is listed also while its
server does not answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from ioweather.core.counters.growth import Growth
from ioweather.core.errors import CorruptInput
from ioweather.core.words import names_of, pairs_of

_DEVICE = re.compile(r"device (\S+) mounted on (\S+) with fstype (\S+)(?: statvers=(\S+))?\s*")
_OPERATION = re.compile(r"\s+([A-Z][A-Z0-9_]{1,40}):((?: [0-9]{1,20}){8,9})\s*")
_ESCAPE = re.compile(r"\\([0-7]{3})")
_NEGATIVE = 1 << 63
# Requests that keep the connection, and do nothing for anybody.
_UPKEEP = frozenset(
    names_of("""
    NULL SETCLIENTID SETCLIENTID_CONFIRM RENEW EXCHANGE_ID CREATE_SESSION DESTROY_SESSION DESTROY_CLIENTID SEQUENCE
    GET_LEASE_TIME RECLAIM_COMPLETE BIND_CONN_TO_SESSION SERVER_CAPS FSINFO PATHCONF FSID_PRESENT SECINFO
    SECINFO_NO_NAME
""")
)
_METRICS = pairs_of("""
    READ=read_ops WRITE=write_ops OPEN=open_ops OPEN_NOATTR=open_ops CLOSE=close_ops GETATTR=getattr_ops
    SETATTR=setattr_ops CREATE=mknod_ops MKNOD=mknod_ops MKDIR=mkdir_ops RMDIR=rmdir_ops REMOVE=unlink_ops
    RENAME=rename_ops LINK=link_ops FSSTAT=statfs_ops STATFS=statfs_ops COMMIT=sync_ops
""")
_KINDS = {"READ": "read", "WRITE": "write"}


@dataclass(slots=True)
class Mount:
    """What one mount has counted. Times are in microseconds; `None` where the kernel's own sum went wrong."""

    path: str
    age_seconds: int | None = None
    counters: dict[str, int] = field(default_factory=dict)
    times_us: dict[str, int | None] = field(default_factory=dict)


def parse_mountstats(lines: Iterable[str], where: str) -> list[Mount]:
    """All NFS mounts, in the order in which they stand there. One without the blank line that ends it was cut off, and
    is left out: lines that are missing would look as if it had been mounted again."""
    found: list[Mount] = []
    current: Mount | None = None
    for line in lines:
        if current is not None and (not line.strip() or line.startswith("device ")):
            found.append(current)
            current = None
        if line.startswith("device "):
            match = _DEVICE.fullmatch(line)
            # Other file systems have no statistics.
            if match is not None and match[3] in ("nfs", "nfs4") and match[4] is not None:
                current = Mount(_unescaped(match[2]))
        elif current is not None:
            _add(current, line, where)
    return found


def _unescaped(path: str) -> str:
    """The kernel writes blanks of a path as \\040."""
    return _ESCAPE.sub(lambda match: chr(int(match[1], 8)), path)


def _add(mount: Mount, line: str, where: str) -> None:
    if match := _OPERATION.fullmatch(line):
        _add_operation(mount, match[1], [int(number) for number in match[2].split()])
        return
    name, _, rest = line.strip().partition(":")
    words = rest.split()
    if name == "age" and words:
        mount.age_seconds = _number(words[0], line, where)
    elif name == "bytes":
        numbers = [_number(word, line, where) for word in words[:6]]
        if len(numbers) < 6:
            raise CorruptInput(f"{where}: {line.strip()[:80]!r} has less than six numbers.")
        mount.counters["read_bytes"], mount.counters["write_bytes"] = numbers[4], numbers[5]


def _number(word: str, line: str, where: str) -> int:
    if not (word.isascii() and word.isdigit() and len(word) <= 20):
        raise CorruptInput(f"{where}: {line.strip()[:80]!r} is not a line of mountstats.")
    return int(word)


def _add_operation(mount: Mount, name: str, numbers: list[int]) -> None:
    if name in _UPKEEP:
        return
    kind = _KINDS.get(name, "metadata")
    requests, queued, on_the_way, in_all = numbers[0], *numbers[5:8]
    for metric in (_METRICS.get(name, "other_ops"), "request_ops"):
        mount.counters[metric] = mount.counters.get(metric, 0) + requests
    for metric, milliseconds in (
        ("request_wait_seconds", queued),
        (f"{kind}_rtt_seconds", on_the_way),
        (f"{kind}_busy_seconds", in_all),
    ):
        total = mount.times_us.get(metric, 0)
        known = total is not None and milliseconds < _NEGATIVE
        mount.times_us[metric] = (total or 0) + milliseconds * 1000 if known else None


def growth_of(before: Mount, after: Mount, start_ns: int, end_ns: int) -> Growth:
    """Mounted again: all began at zero, as a younger age or a count that fell tells. Times that went wrong are left
    out."""
    names = before.counters.keys() | after.counters.keys()
    amounts = {name: after.counters.get(name, 0) - before.counters.get(name, 0) for name in names}
    younger = None not in (before.age_seconds, after.age_seconds) and (after.age_seconds or 0) < (
        before.age_seconds or 0
    )
    restarted = younger or any(amount < 0 for amount in amounts.values())
    if restarted:
        amounts = {name: after.counters.get(name, 0) for name in names}
    for name, total in after.times_us.items():
        old = 0 if restarted else before.times_us.get(name, 0)
        if total is not None and old is not None and total >= old:
            amounts[name] = total - old
    return Growth(start_ns, end_ns, amounts, restarted)
