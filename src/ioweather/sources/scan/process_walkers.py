"""The processes of a scan and who walks what: each gets directories as it runs out of them.

A fresh interpreter starts and makes a copy of itself for each walker, in a fiftieth of the time that it took to start.
Nobody waits for a process at the end: one that hangs in a dead file system cannot be waited for.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, Pipe, wait
from typing import Final

from ioweather.core.errors import SourceError
from ioweather.sources.scan.plan import Item, Part, Plan
from ioweather.sources.scan.tally import Tally

_MODULE: Final = "ioweather.sources.scan.worker"
_DEATHS_BORNE: Final = 5


@dataclass
class Member:
    """One walker. `task` is what it is at, `ids` the rows of the state that it has taken."""

    connection: Connection
    task: int = 0
    ids: list[int] = field(default_factory=list)

    @property
    def idle(self) -> bool:
        return self.task == 0

    def give(self, task: int, ids: list[int], items: list[Item], budget: int) -> None:
        self.task, self.ids = task, ids
        self.tell((items, budget))

    def tell(self, message: object) -> None:
        """To a process that has died nothing can be said; listening to it will show that."""
        with suppress(BrokenPipeError, ConnectionResetError):
            self.connection.send(message)


class Crew:
    cpu_seconds = 0.0  # none but what the system counts as ours

    def __init__(self, plan: Plan, size: int) -> None:
        self._plan = plan
        self._deaths = 0
        self.processes: list[subprocess.Popen[bytes]] = []  # each has walkers as children, and is a group with them
        self.members: list[Member] = []
        self._start(size)

    def _start(self, size: int) -> None:
        pairs = [Pipe() for _ in range(size)]
        theirs = [there.fileno() for _, there in pairs]
        self.processes.append(
            subprocess.Popen(
                [sys.executable, "-m", _MODULE, *map(str, theirs)],
                pass_fds=theirs,
                stdin=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                process_group=0,
            )
        )
        for here, there in pairs:
            there.close()
            self.members.append(Member(here))
            self.members[-1].tell(self._plan)

    def messages(self, timeout_seconds: float) -> Iterator[tuple[Member, Part | Tally | None]]:
        """What came within the time. None: the process died; another one is in its place, and its task is undone."""
        by_connection = {member.connection: member for member in self.members}
        for ready in wait(list(by_connection), timeout_seconds):
            member = by_connection[ready]  # type: ignore[index]
            try:
                message = member.connection.recv()
            except (EOFError, ConnectionResetError):
                yield member, None
                self._replace(member)
                continue
            yield member, message

    def _replace(self, member: Member) -> None:
        self._deaths += 1
        member.connection.close()
        self.members.remove(member)
        if self._deaths > _DEATHS_BORNE:
            raise SourceError(
                f"Processes that scan {self._plan.root} keep dying.",
                hint="Look for a lack of memory; --resume goes on from the last checkpoint.",
            )
        self._start(1)

    def close(self) -> None:
        for member in self.members:
            member.connection.close()
        for process in self.processes:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
        for process in self.processes:
            try:
                process.wait(timeout=2)
            except subprocess.TimeoutExpired:
                # In the kernel, waiting for a server. It ends when that answers; ours to forget, not to wait for.
                process.returncode = -9
        self.members.clear()
