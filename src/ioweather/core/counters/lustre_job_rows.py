"""Rows of `job_operations`, as the source and the live collector write them. Standard library only."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from ioweather.core.counters.growth import Target
from ioweather.core.counters.lustre_job_stats import JobAmounts, size_bins

_NUMBER = re.compile(r"[0-9]{1,18}")
_PBS = re.compile(r"([0-9]{1,18})(?:\[[0-9]*\])?\.([A-Za-z][\w.-]*)")
# python3.11 is a program, and may be followed by no user.
_VERSIONED = re.compile(r"\w*[A-Za-z]-?[0-9]+\.[0-9]{1,2}")


@dataclass(frozen=True)
class JobIdentity:
    """What the job id of a server's statistics tells. Its form is the site's choice (`jobid_var`, `jobid_name`), and
    the text does not say which: a form that could be two things tells nothing. Forms of the Lustre manual, chapter
    12.2: the value of a scheduler's variable (SLURM_JOB_ID, PBS_JOBID), `procname_uid` ("%e.%u"), and codes joined by
    colons, mostly "%e:%u:%h" or "%j:%u:%h"."""

    job_id: int | None = None
    uid: int | None = None
    exe: str | None = None
    host: str | None = None


_NOTHING = JobIdentity()


@lru_cache(maxsize=1 << 14)  # the same jobs are looked at again and again
def identity_of(key: str) -> JobIdentity:
    if _NUMBER.fullmatch(key):
        return JobIdentity(job_id=int(key))
    if ":" in key:
        return _by_colons(key.split(":"))
    if match := _PBS.fullmatch(key):
        return JobIdentity(job_id=int(match[1]))
    exe, _, uid = key.rpartition(".")
    if not exe or exe.isdigit() or not _NUMBER.fullmatch(uid) or _VERSIONED.fullmatch(key):
        return _NOTHING
    return JobIdentity(uid=int(uid), exe=exe)


def _by_colons(parts: list[str]) -> JobIdentity:
    """A job or a program, its user, and perhaps the client; a number and another one alone may be anything."""
    first, uid, *rest = parts
    if not first or not _NUMBER.fullmatch(uid) or len(rest) > 1:
        return _NOTHING
    host = rest[0] if rest else None
    if _NUMBER.fullmatch(first):
        return JobIdentity(job_id=int(first), uid=int(uid), host=host) if host else _NOTHING
    return JobIdentity(uid=int(uid), exe=first, host=host or None)


def job_rows(target: Target, amounts: JobAmounts, quality: int, cluster: str | None) -> Iterator[dict[str, object]]:
    """One per operation."""
    job_key, start_ns, end_ns, operations, _ = amounts
    who = identity_of(job_key)
    of_all = {
        "start_ns": start_ns,
        "interval_ns": end_ns - start_ns,
        "system": target.system,
        "component_kind": target.kind,
        "component": target.name,
        "job_key": job_key,
        "job_id": who.job_id,
        "cluster": cluster if who.job_id is not None else None,
        "uid": who.uid,
        "exe": who.exe,
        "host": who.host,
    }
    for name, (samples, moved, time_us, sizes) in sorted(operations.items()):
        yield {
            **of_all,
            "operation": name,
            "count": samples,
            "bytes": moved,
            "time_ns": None if time_us is None else time_us * 1000,
            "histogram": _histogram(sizes) if sizes else None,
            "quality": quality,
        }


@lru_cache(maxsize=1 << 12)  # a few requests of one size, mostly
def _histogram(sizes: str) -> str | None:
    """JSON, which numbers alone need no encoder for."""
    bins = size_bins(sizes)
    return "{" + ",".join(f'"{size}":{count}' for size, count in bins.items()) + "}" if bins else None
