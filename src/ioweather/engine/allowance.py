"""How long a worker may compute before it says something: a library that loops over a damaged file never would.

Counted is processor time (ITIMER_PROF), not time: waiting for slow storage costs none, and a loop nothing else. The
kernel keeps the count and ends the process, for while a library runs no Python does that could. Some loops also take
memory with every turn, so that is bounded too: what is asked for beyond is an error, as if there were no more.
"""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
import sys
from pathlib import Path
from typing import Final

from ioweather.core.units import GIB

# Of a process that went beyond its time.
OVERRUN_CODE: Final = -signal.SIGPROF
_LEAST_MEMORY_BYTES: Final = 2 * GIB
_MEMORY_SHARE: Final = 4  # one part of so many of the machine's
_limits_before: Final[list[tuple[int, int]]] = []


def allow(seconds: float | None) -> None:
    """This process may compute for so long from now on, and take a quarter of the machine's memory (2 GiB at least);
    None: without limit. Only one that another process started is limited, never the one that a person did."""
    if multiprocessing.parent_process() is None:
        return
    signal.setitimer(signal.ITIMER_PROF, seconds or 0.0, seconds or 0.0)
    while _limits_before:
        resource.setrlimit(resource.RLIMIT_AS, _limits_before.pop())
    if seconds is not None and sys.platform == "linux":
        soft, hard = resource.getrlimit(resource.RLIMIT_AS)
        most = _mapped_bytes() + _more_bytes()
        if soft == resource.RLIM_INFINITY or soft > most:
            _limits_before.append((soft, hard))
            resource.setrlimit(resource.RLIMIT_AS, (most, hard))


def allow_anew() -> None:
    """As long again, where there is a limit: something came."""
    seconds = signal.getitimer(signal.ITIMER_PROF)[1]
    if seconds:
        allow(seconds)


def _mapped_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])  # proc(5): total program size
    return pages * os.sysconf("SC_PAGE_SIZE")


def _more_bytes() -> int:
    return max(_LEAST_MEMORY_BYTES, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // _MEMORY_SHARE)
