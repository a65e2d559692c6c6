"""What a piece of work may cost: the kernel keeps the count, for while a library runs no Python does that could.

Counted is processor time (ITIMER_PROF), not time: waiting for slow storage costs none, and a loop nothing else. Who
goes beyond is ended. Memory is bounded too (RLIMIT_DATA: what was asked for, not what is shared or mapped from files):
what is asked for beyond is an error, as if there were no more.
"""

from __future__ import annotations

import mmap
import os
import resource
import signal
import struct
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

# Of a process that went beyond its time.
OVERRUN_CODE: Final = -signal.SIGPROF
BOARD_BYTES: Final = 8
NOWHERE: Final = -1


@dataclass
class _Here:
    """Of this process, once it is a child that may be limited. `board` shows its parent which piece it is at."""

    board: mmap.mmap
    memory_bytes: int | None = None


_here: _Here | None = None


def limit_here(board: mmap.mmap) -> None:
    """From now on `allow` limits this process; never the one that a person started."""
    global _here
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _here = _Here(board)


def allow(seconds: float, memory_bytes: int, position: int = NOWHERE) -> None:
    """From now on the piece at `position` may compute for so long, and take so much more memory than was taken when
    this limit was set."""
    if _here is None:
        return
    struct.pack_into("q", _here.board, 0, position)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    if memory_bytes != _here.memory_bytes and sys.platform == "linux":
        _limit_memory(data_bytes() + memory_bytes)
        _here.memory_bytes = memory_bytes


def allow_all() -> None:
    """Without limit again."""
    if _here is None:
        return
    struct.pack_into("q", _here.board, 0, NOWHERE)
    signal.setitimer(signal.ITIMER_PROF, 0.0)
    if _here.memory_bytes is not None:
        _limit_memory(resource.RLIM_INFINITY)
        _here.memory_bytes = None


def _limit_memory(most: int) -> None:
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    resource.setrlimit(resource.RLIMIT_DATA, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def data_bytes() -> int:
    """Memory of this process that is its own."""
    if sys.platform != "linux":
        return 0
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[5])  # proc(5): data + stack
    return pages * os.sysconf("SC_PAGE_SIZE")
