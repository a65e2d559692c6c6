"""What a live source is, and how it reports. It runs in a child process: whatever hangs, hangs there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias

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
