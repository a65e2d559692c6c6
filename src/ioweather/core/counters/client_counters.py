"""Counters of clients: NFS from /proc/self/mountstats, GPFS from mmpmon. Standard library only."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from ioweather.core.counters.growth import Growth, Sample, Target
from ioweather.core.errors import CorruptInput
from ioweather.core.safe_files import unescape_octal
from ioweather.core.units import NS, names_of, pairs_of

_DEVICE = re.compile(r"device (\S+) mounted on (\S+) with fstype (\S+)(?: statvers=(\S+))?\s*")
_OPERATION = re.compile(r"\s+([A-Z][A-Z0-9_]{1,40}):((?: [0-9]{1,20}){8,9})\s*")
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


@dataclass
class Mount:
    """Counters of one mount. Times are in microseconds; `None` if the kernel's own sum went wrong."""

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
                current = Mount(unescape_octal(match[2]))
        elif current is not None:
            _add_line(current, line, where)
    return found


def _add_line(mount: Mount, line: str, where: str) -> None:
    """Take a line of a mount's statistics."""
    if match := _OPERATION.fullmatch(line):
        name, (requests, *rest) = match[1], [int(number) for number in match[2].split()]
        if name in _UPKEEP:
            return
        kind = _KINDS.get(name, "metadata")
        for metric in (_METRICS.get(name, "other_ops"), "request_ops"):
            mount.counters[metric] = mount.counters.get(metric, 0) + requests
        # Milliseconds queued, on the way, and in all; one that is negative is unknown from then on.
        metrics = ("request_wait_seconds", f"{kind}_rtt_seconds", f"{kind}_busy_seconds")
        for metric, milliseconds in zip(metrics, rest[4:7]):
            total = mount.times_us.get(metric, 0)
            known = total is not None and milliseconds < _NEGATIVE
            mount.times_us[metric] = (total or 0) + milliseconds * 1000 if known else None
        return
    name, _, words = line.strip().partition(":")
    if name == "age" and words.split():
        mount.age_seconds = _number(words.split()[0], line, where)
    elif name == "bytes":
        numbers = [_number(word, line, where) for word in words.split()[:6]]
        if len(numbers) < 6:
            raise CorruptInput(f"{where}: {line.strip()[:80]!r} has fewer than six numbers.")
        mount.counters["read_bytes"], mount.counters["write_bytes"] = numbers[4], numbers[5]


def _number(word: str, line: str, where: str) -> int:
    """Return a counter. Raises CorruptInput if the word is none."""
    if not (word.isascii() and word.isdigit() and len(word) <= 20):
        raise CorruptInput(f"{where}: {line.strip()[:80]!r} is not a mountstats line.")
    return int(word)


def mount_growth(target: Target, before: Mount, after: Mount, start_ns: int, end_ns: int) -> Growth:
    """Return the increase of each counter between two readings.

    A lower age or a lower count means that the mount was renewed: its counters then started at zero. Times that are
    unknown (None: the kernel's sum was negative) or decreased are left out.
    """
    names = before.counters.keys() | after.counters.keys()
    increases = {name: after.counters.get(name, 0) - before.counters.get(name, 0) for name in names}
    ages = (before.age_seconds, after.age_seconds)
    restarted = None not in ages and (ages[1] or 0) < (ages[0] or 0)
    restarted = restarted or any(increase < 0 for increase in increases.values())
    if restarted:
        increases = {name: after.counters.get(name, 0) for name in names}
    for name, total in after.times_us.items():
        old = 0 if restarted else before.times_us.get(name, 0)
        if total is not None and old is not None and total >= old:
            increases[name] = total - old
    return Growth(target, "mountstats", start_ns, end_ns, increases, restarted)


_REQUEST = re.compile(r"_(fs_io_s|io_s|rhist|ver|reset|nlist|once|fs_reset)_ ")
_PAIR = re.compile(r"_([A-Za-z]{1,8})_ (\S+)")
_WHOLE = re.compile(r"[0-9]{1,19}")
_RESPONSE_METRICS = pairs_of("""
    br=read_bytes bw=write_bytes oc=open_ops cc=close_ops rdc=read_ops wc=write_ops dir=other_ops iu=setattr_ops
""")
# A node's sums over its file systems have no name of their own.
ALL = "gpfs"


def is_mmpmon(text: str) -> bool:
    """Whether the text begins as recordings of `mmpmon -p` do."""
    return any(_REQUEST.match(line) and " _n_ " in line for line in text.splitlines()[:50])


def parse_mmpmon(lines: Iterable[str]) -> Iterator[Sample | str]:
    """Yield what each answer to `fs_io_s` or `io_s` counts, or why it is left out.

    Answers of one request to many nodes, and of many requests one after another, follow each other."""
    for line in lines:
        if (match := _REQUEST.match(line)) and match[1] in ("fs_io_s", "io_s"):
            yield _io_sample(match[1], dict(_PAIR.findall(line)))


def _io_sample(request: str, fields: dict[str, str]) -> Sample | str:
    """Return the counters of an answer, or why it is left out."""
    time_ns = _time_ns(fields)
    counters = {
        metric: int(fields[key]) for key, metric in _RESPONSE_METRICS.items() if _WHOLE.fullmatch(fields.get(key, ""))
    }
    if fields.get("rc", "0") != "0":
        return f"{request} returned status {fields['rc'][:10]}"
    if time_ns is None or len(counters) < len(_RESPONSE_METRICS):
        return f"{request} lacks counters"
    target = Target(fields.get("fs", ALL), "host", fields.get("nn") or fields.get("n", "?"))
    return Sample(target, request, time_ns, None, counters)


def _time_ns(fields: dict[str, str]) -> int | None:
    """Return the time of an answer in UTC ns, if it has one."""
    seconds, micros = fields.get("t", ""), fields.get("tu", "0")
    if not re.fullmatch(r"[0-9]{1,10}", seconds) or not re.fullmatch(r"[0-9]{1,6}", micros):
        return None
    return int(seconds) * NS + int(micros) * 1000
