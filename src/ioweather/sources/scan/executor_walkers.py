"""Walkers on a cluster: tasks of an Executor in the place of the processes of a `Crew`.

A worker elsewhere must see the same tree. It may know the device by another number; records carry that of the machine
where the scan was begun.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from ioweather.core.errors import SourceError, UsageError
from ioweather.sources.scan.plan import Item, Part, Plan
from ioweather.sources.scan.tally import Tally
from ioweather.sources.scan.walker import Walker

_DEATHS_BORNE: Final = 5
Found: TypeAlias = tuple[list[Part], Tally, float]


def walk_there(plan: Plan, items: list[Item], budget: int) -> Found:
    """In the worker: parts, tally and processor seconds of one task."""
    spent = time.process_time()
    try:
        walker = Walker(plan._replace(device_here=os.stat(plan.root).st_dev))  # noqa: PTH116
    except OSError as error:
        raise _not_the_same(plan, error.strerror or str(error)) from None
    parts: list[Part] = []
    try:
        if not walker.same_root:
            raise _not_the_same(plan, "it is another directory")
        tally = walker.walk(items, budget, parts.append)
    finally:
        walker.close()
    return parts, tally, time.process_time() - spent


def _not_the_same(plan: Plan, why: str) -> UsageError:
    return UsageError(
        f"A worker on {socket.gethostname()} does not see {plan.root} as this machine does: {why}.",
        hint="Scan a file system that is mounted at the same place on all workers.",
    )


@dataclass
class HiredMember:
    """A task at a time; `task` and `ids` as a `Member` has them."""

    crew: HiredCrew
    task: int = 0
    ids: list[int] = field(default_factory=list)
    future: Future[Found] | None = None

    @property
    def idle(self) -> bool:
        return self.task == 0

    def give(self, task: int, ids: list[int], items: list[Item], budget: int) -> None:
        self.task, self.ids = task, ids
        self.future = self.crew.submit(items, budget)


class HiredCrew:
    def __init__(self, plan: Plan, executor: Executor, size: int) -> None:
        self._plan, self._executor = plan, executor
        self._deaths = 0
        self.cpu_seconds = 0.0  # of others: the system does not count it as ours
        self.members = [HiredMember(self) for _ in range(size)]

    def submit(self, items: list[Item], budget: int) -> Future[Found]:
        return self._executor.submit(walk_there, self._plan, items, budget)

    def messages(self, timeout_seconds: float) -> Iterator[tuple[HiredMember, Part | Tally | None]]:
        """What came within the time. None: the worker died, and its task is undone."""
        by_future = {member.future: member for member in self.members if member.future is not None}
        if not by_future:
            return
        for future in wait(by_future, timeout_seconds, return_when=FIRST_COMPLETED).done:
            member = by_future[future]
            member.future = None
            try:
                parts, tally, spent = future.result()
            except BrokenExecutor:
                self._bear()
                yield member, None
                member.task, member.ids = 0, []
                continue
            self.cpu_seconds += spent
            for part in parts:
                yield member, part
            yield member, tally

    def _bear(self) -> None:
        self._deaths += 1
        if self._deaths > _DEATHS_BORNE:
            raise SourceError(
                f"Workers that scan {self._plan.root} keep dying.",
                hint="Look for a lack of memory; --resume goes on from the last checkpoint.",
            )

    def close(self) -> None:
        for member in self.members:
            if member.future is not None:
                member.future.cancel()
        self.members.clear()
