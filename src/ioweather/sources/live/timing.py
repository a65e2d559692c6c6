"""Taking the time of one operation: the monotonic clock around the call, the wall clock for when it began."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple


class Timing(NamedTuple):
    """What happened. A failure without an errno is a file that ended early."""

    start_ns: int
    duration_ns: int
    failed: bool = False
    errno: int | None = None

    def failed_with(self, errno: int | None) -> Timing:
        return Timing(self.start_ns, self.duration_ns, True, errno)


class ShortTransfer(OSError):
    """Fewer bytes moved than were asked for: the file ended early."""


def timed(call: Callable[..., object], *arguments: object) -> Timing:
    """Run the call. Errors of the operating system are results; anything else is a mistake and goes on up."""
    wall = time.time_ns()
    start = time.monotonic_ns()
    try:
        call(*arguments)
    except OSError as error:
        return Timing(wall, time.monotonic_ns() - start, True, error.errno)
    return Timing(wall, time.monotonic_ns() - start)


def timed_open(opener: Callable[..., int], *arguments: object) -> tuple[Timing, int]:
    """`timed` for a call that returns a descriptor, which is -1 after a failure."""
    opened: list[int] = []
    timing = timed(lambda: opened.append(opener(*arguments)))
    return timing, opened[0] if opened else -1
