"""Which functions of ioweather a piece of work enters, in their order: for tests of what the documentation says."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def entered() -> Iterator[list[str]]:
    """Dotted names, without `ioweather.`; of calls in a row only the first. Threads too; not other processes."""
    found: list[str] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        module = frame.f_globals.get("__name__", "")
        if event == "call" and module.startswith("ioweather."):
            name = f"{module.removeprefix('ioweather.')}.{frame.f_code.co_qualname}"
            if not found or found[-1] != name:
                found.append(name)

    before = sys.getprofile()
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield found
    finally:
        sys.setprofile(before)
        threading.setprofile(None)  # type: ignore[arg-type]


def in_this_order(hops: list[str], found: list[str]) -> str | None:
    """The first hop that does not occur behind the one before it."""
    rest = iter(found)
    return next((hop for hop in hops if hop not in rest), None)
