"""Catching up: a short-lived child of the agent reads new files of watched directories and judges finished runs.

The child is `ioweather ingest --watch --once`; the agent never imports the lake. A stopped child loses nothing.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from ioweather.collect.ship import in_memory, start_quietly
from ioweather.collect.status import SourceStatus, State
from ioweather.core.units import HOUR_NS, MINUTE_NS

# It rests four times as long as it worked: a directory that takes long to list is listed less often.
_REST = 4
NAME = "catch-up"


@dataclass
class CatchUp:
    """At most one child at a time; after a failure the next try waits twice as long, up to an hour."""

    lake: Path
    every_ns: int = MINUTE_NS
    accounting: bool = True
    command: Sequence[str] = (sys.executable, "-m", "ioweather", "ingest", "--watch", "--once")
    _child: subprocess.Popen[bytes] | None = None
    _output: IO[bytes] | None = None
    _began_ns: int = 0
    _next_ns: int = 0
    _wait_ns: int = 0
    _runs: int = 0
    _failed: int = 0
    _rows: int = 0
    _last: tuple[int, int, bool] | None = None  # wall time of its start, duration, whether it went well
    _began_wall_ns: int = 0
    _message: str = field(default="")

    def step(self, now_ns: int, wall_ns: int) -> None:
        """Hear a child that ended; start the next one when it is time."""
        if self._child is not None:
            self._hear(now_ns)
        elif now_ns >= self._next_ns:
            self._start(now_ns, wall_ns)

    def _start(self, now_ns: int, wall_ns: int) -> None:
        more = () if self.accounting else ("--no-accounting",)
        self._output = in_memory()
        self._began_ns, self._began_wall_ns = now_ns, wall_ns
        command = [*self.command, "--json", "--lake", str(self.lake.absolute()), *more]
        self._child = start_quietly(command, subprocess.DEVNULL, self._output)

    def _hear(self, now_ns: int) -> None:
        assert self._child is not None
        assert self._output is not None
        if self._child.poll() is None:
            return
        code, self._child = self._child.returncode, None
        self._output.seek(0)
        text = self._output.read().decode(errors="replace").strip()
        self._output.close()
        took = now_ns - self._began_ns
        ok, self._message, rows = _told(code, text)
        self._runs, self._failed, self._rows = self._runs + 1, self._failed + (not ok), self._rows + rows
        self._last = (self._began_wall_ns, took, ok)
        self._wait_ns = 0 if ok else min(max(2 * self._wait_ns, self.every_ns), HOUR_NS)
        self._next_ns = now_ns + max(self._wait_ns, self.every_ns - took, _REST * took)

    def stop(self) -> None:
        """Without waiting: what it has not done is done next time."""
        if self._child is not None:
            with suppress(ProcessLookupError):
                os.kill(self._child.pid, 15)
            with suppress(subprocess.TimeoutExpired):
                self._child.wait(1.0)
            self._child = None
        if self._output is not None:
            self._output.close()

    def status(self) -> SourceStatus:
        start, took, ok = self._last or (None, None, None)
        pid = self._child.pid if self._child is not None else None
        done = (self._runs, self._failed, 0, self._rows)
        state: State = "waiting" if pid is None else "running"
        return SourceStatus(NAME, state, self.every_ns, pid, *done, start, took, ok, self._message)


def _told(code: int, text: str) -> tuple[bool, str, int]:
    """Whether it went well, what is to be said, and how many rows and verdicts are new."""
    if code not in (0, 1):
        last = text.splitlines()[-1:] or [f"exit code {code}"]
        return False, last[0][:300], 0
    try:
        body = json.loads(text)
        said = [*body["troubles"], *body["refused"].values()]
        return True, "; ".join(said[:2])[:300], sum(body["rows_added"].values()) + body["verdicts"]
    except (ValueError, KeyError, TypeError, AttributeError):
        return False, f"the child said what is not JSON: {text[:200]!r}", 0
