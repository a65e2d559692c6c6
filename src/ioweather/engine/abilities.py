"""What an executor can do beyond `concurrent.futures`. Each ability is optional: anybody's Executor will do."""

from __future__ import annotations

from concurrent.futures import Executor
from typing import Literal, Protocol, TypeAlias, runtime_checkable

# Where tasks run. "process": in this one, each before `submit` returns.
Place: TypeAlias = Literal["process", "threads", "processes", "cluster"]


@runtime_checkable
class Placed(Protocol):
    """Says where tasks run, and how many at once; a cluster's number changes while it works."""

    @property
    def place(self) -> Place: ...

    @property
    def workers(self) -> int: ...


@runtime_checkable
class Renewable(Protocol):
    """Can go on after a worker died: `renew` leaves what is broken, and the next task starts another."""

    def renew(self) -> None: ...


@runtime_checkable
class Stoppable(Protocol):
    """Can end without waiting for what is being done."""

    def stop(self) -> None: ...


def workers_of(executor: Executor) -> int:
    """How many tasks run at once; one of an executor that does not say."""
    return max(1, executor.workers) if isinstance(executor, Placed) else 1


def place_of(executor: Executor) -> Place:
    """An executor that does not say is treated as a cluster: it is used as it was given."""
    return executor.place if isinstance(executor, Placed) else "cluster"
