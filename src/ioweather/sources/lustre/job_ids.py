"""What the job id of a server's statistics tells. Its form is the site's choice (`jobid_var`, `jobid_name`), and the
text does not say which: a form that could be two things tells nothing.

Forms of the Lustre manual, chapter 12.2: the value of a scheduler's variable (SLURM_JOB_ID, PBS_JOBID), `procname_uid`
("%e.%u"), and codes joined by colons, mostly "%e:%u:%h" or "%j:%u:%h".
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

_NUMBER = re.compile(r"[0-9]{1,18}")
_PBS = re.compile(r"([0-9]{1,18})(?:\[[0-9]*\])?\.([A-Za-z][\w.-]*)")
# python3.11 is a program, and may be followed by no user.
_VERSIONED = re.compile(r"\w*[A-Za-z]-?[0-9]+\.[0-9]{1,2}")


@dataclass(frozen=True)
class JobIdentity:
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
