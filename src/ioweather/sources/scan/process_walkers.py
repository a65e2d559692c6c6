"""The processes of a scan and who walks what: each gets directories as it runs out of them.

Started by spawn (a fresh interpreter). Nobody waits for a process at the end: one that hangs in a dead file system
cannot be waited for.
"""

from __future__ import annotations

import os
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
    """One process. `task` is what it is at, `ids` the rows of the state that it has taken. `ready`: it has said that
    it has started."""

    process: subprocess.Popen[bytes]
    connection: Connection
    ready: bool = False
    task: int = 0
    ids: list[int] = field(default_factory=list)

    @property
    def idle(self) -> bool:
        return self.task == 0

    def give(self, task: int, ids: list[int], items: list[Item], budget: int) -> None:
        self.task, self.ids = task, ids
        self._send((items, budget))

    def tell(self, plan: Plan) -> None:
        self._send(plan)

    def _send(self, message: object) -> None:
        """To a process that has died nothing can be said; listening to it will show that."""
        with suppress(BrokenPipeError, ConnectionResetError):
            self.connection.send(message)


class Crew:
    def __init__(self, plan: Plan, size: int) -> None:
        self._plan = plan
        self._deaths = 0
        self.members: list[Member] = []
        try:
            for _ in range(size):
                self.members.append(self._start())
        except BaseException:
            self.close()
            raise

    def _start(self) -> Member:
        ours, theirs = Pipe()
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        process = subprocess.Popen(
            [sys.executable, "-m", _MODULE, str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            env=environment,
        )
        theirs.close()
        member = Member(process, ours)
        member.tell(self._plan)
        return member

    @property
    def ready(self) -> bool:
        return all(member.ready for member in self.members)

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
            if message is None:
                member.ready = True
            else:
                yield member, message

    def _replace(self, member: Member) -> None:
        self._deaths += 1
        code = member.process.wait()
        member.connection.close()
        self.members.remove(member)
        if self._deaths > _DEATHS_BORNE:
            raise SourceError(
                f"Processes that scan {self._plan.root} keep dying (the last one with status {code}).",
                hint="Look for a lack of memory; --resume goes on from the last checkpoint.",
            )
        self.members.append(self._start())

    def close(self) -> None:
        for member in self.members:
            member.connection.close()
            member.process.kill()
        for member in self.members:
            try:
                member.process.wait(timeout=2)
            except subprocess.TimeoutExpired:
                # In the kernel, waiting for a server. It ends when that answers; ours to forget, not to wait for.
                member.process.returncode = -9
        self.members.clear()
