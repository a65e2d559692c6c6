"""Live sources: the contract, how they report, how they time an operation, and the rows they write.

A live source runs in a child process, so that a hanging operation hangs there and not in the agent.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from ioweather.agent.spool import row_line
from ioweather.core.counters.diskstats import RESET
from ioweather.core.counters.growth import Growth, Target, in_base_unit
from ioweather.core.errors import SourceError
from ioweather.core.units import NS

_PROGRESS_NS = NS // 2


@dataclass(frozen=True)
class Clocks:
    """The two clocks of this machine, in nanoseconds; tests replace them."""

    wall_ns: Callable[[], int] = time.time_ns
    monotonic_ns: Callable[[], int] = time.monotonic_ns


# Arguments: steps done, steps in all (None if unknown), and what is being done.
Progress = Callable[[int, "int | None", str], None]


class Operation(NamedTuple):
    """One operation of a cycle, as `responses` names it."""

    op: str
    request_bytes: int
    mode: str


class Ready(NamedTuple):
    """Result of `LiveSource.prepare`. `access` as in status.json."""

    system: str
    access: str | None = None
    message: str = ""


class Dismissed(Exception):
    """The agent stops while the child is still preparing."""


class Reporter:
    """The child's end of the pipe to the agent: one JSON line per message. A report does not block unless the agent is
    stuck for minutes; without a pipe it is discarded. If the agent is gone, the child runs until its next tick."""

    def __init__(self, fd: int | None = None) -> None:
        self._fd = fd
        self._last_progress_ns = 0
        self.ticks: int | None = None  # while set, `progress` raises Dismissed once this pipe is closed

    def begin(self, op: str, request_bytes: int, scheduled_ns: int | None) -> None:
        """Report an operation that is about to start, so that it is visible while it runs."""
        self.send("begin", op, request_bytes, scheduled_ns, time.time_ns(), time.monotonic_ns())

    def row(self, table: str, values: Mapping[str, object]) -> None:
        """Report a row of a table, without the columns that the lake adds."""
        self._write(row_line(table, values))

    def progress(self, done: int, total: int | None, what: str) -> None:
        """Report progress of making or removing files."""
        # No tick comes before the child is ready: what can be read is the end of the pipe.
        if self.ticks is not None and select.select([self.ticks], [], [], 0)[0]:
            raise Dismissed
        now = time.monotonic_ns()
        if now - self._last_progress_ns > _PROGRESS_NS or done == total:
            self._last_progress_ns = now
            self.send("progress", done, total, what)

    def done(self) -> None:
        """Report that nothing is left to measure."""
        self.send("done")

    def send(self, *message: object) -> None:
        """Send a message other than a row: its kind and its values."""
        self._write(json.dumps(message, separators=(",", ":")))

    def _write(self, line: str) -> None:
        """Write a message to the pipe; if the agent is gone, discard it."""
        data = f"{line}\n".encode() if self._fd is not None else b""
        with suppress(BrokenPipeError):
            while data and self._fd is not None:
                data = data[os.write(self._fd, data) :]


class LiveSource:
    """Base class: prepared once, then called once per tick, never twice at a time.

    Each tick yields one row for each of `operations`, also a tick that is missed. A source that is not periodic takes a
    tick as an opportunity: if it is busy then, no tick is missed. An OSError or IoweatherError from `prepare` ends the
    child, which is started again later; from `cycle` it is a failed run.
    """

    name = ""
    period_ns: int
    operations: tuple[Operation, ...] = ()
    is_periodic = True

    @property
    def label(self) -> str:
        """Name shown to users: the path of a probe, else the name of the source."""
        return self.name

    def prepare(self, reporter: Reporter) -> Ready:
        """Check what the source needs, and make its files."""
        raise NotImplementedError

    def cycle(self, scheduled_ns: int, reporter: Reporter) -> None:
        """Measure once and report the rows."""
        raise NotImplementedError

    def finish(self, reporter: Reporter) -> None:
        """Remove what `prepare` made; sources that only read counters have nothing to remove."""


def run_tool(
    command: Sequence[str],
    seconds: float,
    *,
    what: str = "",
    stdin: str = "",
    cwd: str | None = None,
    environment: Mapping[str, str] | None = None,
) -> str:
    """Return the output of a program of the file system or the scheduler. Raises SourceError if it fails or takes too
    long."""
    what = what or Path(command[0]).name
    try:
        done = subprocess.run(
            command,
            input=stdin,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=seconds,
            check=False,
            cwd=cwd,
            env={**os.environ, **(environment or {})},
        )
    except subprocess.TimeoutExpired:
        raise SourceError(f"{what} timed out after {seconds:g} s.") from None
    except OSError as error:
        raise SourceError(f"Cannot run {what}: {error.strerror}.") from None
    if done.returncode != 0:
        raise SourceError(f"{what} failed: {done.stderr.strip()[:200] or done.returncode}.")
    return done.stdout


class Timing(NamedTuple):
    """Result of one timed call. A failure without an errno is a file that ended early."""

    start_ns: int
    duration_ns: int
    failed: bool = False
    errno: int | None = None


class ShortTransfer(OSError):
    """Fewer bytes were moved than requested: the file ended early."""


def timed(call: Callable[..., object], *arguments: object) -> Timing:
    """Time the call. An OSError is a result; any other exception is a bug and propagates."""
    wall = time.time_ns()
    start = time.monotonic_ns()
    try:
        call(*arguments)
    except OSError as error:
        return Timing(wall, time.monotonic_ns() - start, True, error.errno)
    return Timing(wall, time.monotonic_ns() - start)


def timed_open(opener: Callable[..., int], *arguments: object) -> tuple[Timing, int]:
    """Time a call that returns a file descriptor; after a failure the descriptor is -1."""
    opened: list[int] = []
    timing = timed(lambda: opened.append(opener(*arguments)))
    return timing, opened[0] if opened else -1


class Origin(NamedTuple):
    """Host, target, system and run of a measurement. One target is one series, whichever host and run measured it."""

    host: str
    target: str
    system: str
    run_id: str


def response_row(
    origin: Origin,
    operation: Operation,
    timing: Timing,
    scheduled_ns: int | None,
    cached: bool | None = None,
    component: str | None = None,
) -> dict[str, object]:
    """Return a row of `responses` for an operation that ended, with or without an error."""
    return {
        "start_ns": timing.start_ns,
        "host": origin.host,
        "target": origin.target,
        "op": operation.op,
        "request_bytes": operation.request_bytes,
        "mode": operation.mode,
        "scheduled_ns": scheduled_ns,
        "duration_ns": timing.duration_ns,
        "system": origin.system,
        "component": component,
        "cached": cached,
        "status": "error" if timing.failed else "ok",
        "errno": timing.errno if timing.failed else None,
        "run_id": origin.run_id,
    }


def unfinished_row(
    origin: Origin, operation: Operation, status: str, start_ns: int, scheduled_ns: int | None
) -> dict[str, object]:
    """Return a row for an operation that never began ('missed') or whose end was not seen ('pending')."""
    row = response_row(origin, operation, Timing(start_ns, 0), scheduled_ns)
    return {**row, "duration_ns": None, "status": status}


def event_row(
    event_id: str,
    kind: str,
    label: str,
    start_ns: int,
    end_ns: int | None = None,
    *,
    host: str | None = None,
    system: str | None = None,
    component: str | None = None,
    details: Mapping[str, object] | None = None,
) -> dict[str, object]:
    """Return a row of `events`."""
    return {
        "event_id": event_id,
        "kind": kind,
        "system": system,
        "component": component,
        "host": host,
        "start_ns": start_ns,
        "end_ns": end_ns,
        "label": label,
        "details": json.dumps(details, sort_keys=True) if details else None,
    }


def series_row(
    target: Target, start_ns: int, interval_ns: int, metric: str, value: float, quality: int
) -> dict[str, object]:
    """Return a row of `series`."""
    return {
        "start_ns": start_ns,
        "interval_ns": interval_ns,
        "system": target.system,
        "component_kind": target.kind,
        "component": target.name,
        "metric": metric,
        "value": value,
        "quality": quality,
    }


def report_growth(reporter: Reporter, grown: Growth) -> None:
    """Report the growth of counters as amounts in `series`."""
    quality, length_ns = RESET if grown.restarted else 0, grown.end_ns - grown.start_ns
    for metric, amount in sorted(grown.amounts.items()):
        value = in_base_unit(metric, amount)
        reporter.row("series", series_row(grown.target, grown.start_ns, length_ns, metric, value, quality))
