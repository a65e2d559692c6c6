"""Writes of the Delta library without the text that its threads print when they fail.

After an error of the disk (full, quota) the library returns that error; threads of its own then panic, and Rust prints
each panic on standard error. Python can set no hook for that.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

_LOG: Final = logging.getLogger("ioweather.store")
_PANIC: Final = re.compile(rb"thread '[^'\n]*'(?: \(\d+\))? panicked at ")
_LATE_SECONDS: Final = 0.1  # a thread may still be on its way to panic when the error is already here
_lock: Final = threading.Lock()
_inside = 0
_kept: tuple[int, int] = (-1, -1)  # the real standard error, and what stands in its place


@contextmanager
def without_panics() -> Iterator[None]:
    """Standard error is held back meanwhile and follows at the end, without panics; those go to the log. A panic that
    comes as an exception is an OSError here."""
    _enter()
    try:
        yield
    except BaseException as error:
        time.sleep(_LATE_SECONDS)
        if type(error).__name__ == "PanicException":
            raise OSError(f"the Delta library failed: {error}") from None
        raise
    finally:
        _leave()


def _enter() -> None:
    global _inside, _kept
    with _lock:
        _inside += 1
        if _inside == 1:
            with suppress(OSError, ValueError, AttributeError):
                sys.stderr.flush()
            try:
                real, held = os.dup(2), os.memfd_create("stderr")
            except OSError:  # closed, or no descriptor left
                _kept = (-1, -1)
                return
            os.dup2(held, 2)
            _kept = (real, held)


def _leave() -> None:
    global _inside
    with _lock:
        _inside -= 1
        if _inside or _kept[0] < 0:
            return
        with suppress(OSError, ValueError, AttributeError):
            sys.stderr.flush()
        real, held = _kept
        os.dup2(real, 2)
        os.close(real)
        with os.fdopen(held, "rb") as file:
            file.seek(0)
            said = file.read()
    rest, panics = _sorted_out(said)
    if panics:
        _LOG.debug("native code: %s", panics.decode(errors="replace").strip())
    with suppress(OSError):
        while rest:
            rest = rest[os.write(2, rest) :]


def _sorted_out(said: bytes) -> tuple[bytes, bytes]:
    """What is no panic, and what is: the line that names the thread, the message below it, a backtrace, a note; and the
    empty line that Rust begins with."""
    rest: list[bytes] = []
    panics: list[bytes] = []
    message = trace = False
    for line in said.splitlines(keepends=True):
        if _PANIC.match(line):
            if rest and rest[-1] == b"\n":
                rest.pop()
            message = trace = True
        elif message:
            message = False
        elif not (trace and line.startswith((b"stack backtrace:", b"note: ", b" ", b"\t"))):
            trace = False
            rest.append(line)
            continue
        panics.append(line)
    return b"".join(rest), b"".join(panics)
