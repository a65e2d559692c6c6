"""Live sources: what one is, how it reports, how it times an operation, and the rows that it writes.

A live source runs in a child process: whatever hangs, hangs there.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol, TypeAlias

from ioweather.core.counters.diskstats import RESET
from ioweather.core.counters.growth import Growth, Target, in_base_unit
from ioweather.core.errors import SourceError

# Done, of how many, doing what.
Progress: TypeAlias = Callable[[int, int | None, str], None]


class Operation(NamedTuple):
    """One operation of a cycle, as `responses` names it."""

    op: str
    request_bytes: int
    mode: str


@dataclass(frozen=True)
class Ready:
    """What a source found out while it prepared. `access` as in status.json."""

    system: str
    access: str | None = None
    message: str = ""


class Reporter:
    """The way back to the agent; this one discards everything. Nothing here waits for the agent, unless it has been
    stuck for minutes."""

    def begin(self, op: str, request_bytes: int, scheduled_ns: int | None) -> None:
        """An operation is about to start: it is visible from now on, however long it takes."""

    def row(self, table: str, values: Mapping[str, object]) -> None:
        """A row of a table, without the columns that the lake adds."""

    def document(self, name: str, text: str) -> None:
        """A file for `ioweather ingest`, for data with a source of its own there."""

    def progress(self, done: int, total: int | None, what: str) -> None:
        """Progress of making or removing files."""

    def done(self) -> None:
        """There is nothing left to measure."""


class LiveSource(Protocol):
    """Prepared once, then called once a tick, never twice at a time.

    `operations` are what every tick yields a row of; for these a missed tick yields rows too. A source that is not
    periodic takes a tick as an opportunity: one that it is too busy for is not missed. An OSError or IoweatherError
    from `prepare` ends the child, which is started again later; from `cycle` it is a failed run.
    """

    @property
    def name(self) -> str: ...
    @property
    def label(self) -> str: ...
    @property
    def period_ns(self) -> int: ...
    @property
    def operations(self) -> tuple[Operation, ...]: ...
    @property
    def is_periodic(self) -> bool: ...
    def prepare(self, reporter: Reporter) -> Ready: ...
    def cycle(self, scheduled_ns: int, reporter: Reporter) -> None: ...
    def finish(self, reporter: Reporter) -> None: ...


class Reading:
    """A live source that only reads counters: it makes nothing, and takes every tick."""

    name = ""
    operations: tuple[Operation, ...] = ()
    is_periodic = True

    @property
    def label(self) -> str:
        return self.name

    def finish(self, reporter: Reporter) -> None:
        """Nothing was made, nothing is left."""


def run_tool(
    command: Sequence[str], seconds: float, *, what: str = "", stdin: str = "", cwd: str | None = None,
    environment: Mapping[str, str] | None = None,
) -> str:  # fmt: skip
    """Output of a program of the file system or the scheduler. Raises SourceError if it fails or takes too long."""
    what = what or Path(command[0]).name
    try:
        done = subprocess.run(
            command, input=stdin, capture_output=True, text=True, errors="replace", timeout=seconds, check=False,
            cwd=cwd, env={**os.environ, **(environment or {})},
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise SourceError(f"{what} did not answer in {seconds:g} s.") from None
    except OSError as error:
        raise SourceError(f"{what} cannot be run: {error.strerror}.") from None
    if done.returncode != 0:
        raise SourceError(f"{what} failed: {done.stderr.strip()[:200] or done.returncode}.")
    return done.stdout


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


@dataclass(frozen=True)
class Origin:
    """Who measures what. One target is one series, whichever host and run measured it."""

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
    """An operation that came to an end, good or bad."""
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
    """An operation that never began ('missed'), or whose end nobody saw ('pending')."""
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


def report_growth(reporter: Reporter, target: Target, grown: Growth) -> None:
    """What counters grew by, as amounts in `series`."""
    flag = RESET if grown.restarted else 0
    for metric, amount in sorted(grown.amounts.items()):
        row = series_row(
            target, grown.start_ns, grown.end_ns - grown.start_ns, metric, in_base_unit(metric, amount), flag
        )
        reporter.row("series", row)
