"""Processes that walk: children of this one, or tasks of an executor on a cluster. Idle ones get directories.

A fresh interpreter starts and forks once for each walker, in a fiftieth of the time that it took to start. Children are
not waited for at the end: one that hangs in a dead file system never ends. A worker elsewhere must see the same tree;
it may have another number for the device, and records carry that of the machine where the scan began.

python -m ioweather.readers.scan.walkers DESCRIPTOR ...
"""

from __future__ import annotations

import gc
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future
from concurrent.futures import wait as wait_for_futures
from contextlib import suppress
from multiprocessing.connection import Connection, Pipe, wait
from typing import Final, TypeAlias

from ioweather.core.errors import SourceError, UsageError
from ioweather.readers.scan.tally import Tally
from ioweather.readers.scan.walker import Item, Part, Plan, Walker

_MODULE: Final = "ioweather.readers.scan.walkers"
_MOST_DEATHS: Final = 5
Found: TypeAlias = tuple[list[Part], Tally, float]


class Member:
    """One walker. `task` is the number of its task (0: idle), `ids` are the rows of the state that it has taken."""

    def __init__(self, connection: Connection | None = None) -> None:
        self.connection = connection
        self.future: Future[Found] | None = None
        self.task = 0
        self.ids: list[int] = []


class Crew:
    """Walkers in processes of this machine."""

    def __init__(self, plan: Plan, size: int) -> None:
        self._plan = plan
        self._deaths = 0
        self.cpu_seconds = 0.0  # of tasks elsewhere: the system counts that of children as ours
        self.processes: list[subprocess.Popen[bytes]] = []  # each leads a process group of walkers
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
            _send(here, self._plan)

    def give(self, member: Member, items: list[Item], budget: int) -> None:
        assert member.connection is not None
        _send(member.connection, (items, budget))

    def messages(self, timeout_seconds: float) -> Iterator[tuple[Member, Part | Tally | None]]:
        """Messages that arrive in time. None: the walker died, and its task is undone."""
        by_connection = {member.connection: member for member in self.members if member.connection is not None}
        for ready in wait(list(by_connection), timeout_seconds):
            assert isinstance(ready, Connection)
            member = by_connection[ready]
            try:
                message = ready.recv()
            except (EOFError, ConnectionResetError):
                yield member, None
                ready.close()
                self.members.remove(member)
                self._count_death()
                self._start(1)
                continue
            yield member, message

    def _count_death(self) -> None:
        self._deaths += 1
        if self._deaths > _MOST_DEATHS:
            raise SourceError(
                f"Processes that scan {self._plan.root} keep dying.",
                hint="Look for a lack of memory; --resume goes on from the last checkpoint.",
            )

    def close(self) -> None:
        for member in self.members:
            if member.connection is not None:
                member.connection.close()
        for process in self.processes:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
        for process in self.processes:
            try:
                process.wait(timeout=2)
            except subprocess.TimeoutExpired:
                # In the kernel, waiting for a server. It ends when that answers; do not wait for it.
                process.returncode = -9
        self.members.clear()


def _send(connection: Connection, message: object) -> None:
    """A dead process cannot be told anything; receiving from it shows that."""
    with suppress(BrokenPipeError, ConnectionResetError):
        connection.send(message)


class ExecutorCrew(Crew):
    """Walkers that are tasks of an executor, one task at a time each."""

    def __init__(self, plan: Plan, executor: Executor, size: int) -> None:
        self._executor = executor
        super().__init__(plan, size)

    def _start(self, size: int) -> None:
        self.members += [Member() for _ in range(size)]

    def give(self, member: Member, items: list[Item], budget: int) -> None:
        member.future = self._executor.submit(walk_there, self._plan, items, budget)

    def messages(self, timeout_seconds: float) -> Iterator[tuple[Member, Part | Tally | None]]:
        by_future = {member.future: member for member in self.members if member.future is not None}
        for future in wait_for_futures(by_future, timeout_seconds, return_when=FIRST_COMPLETED).done:
            member = by_future[future]
            member.future = None
            try:
                parts, tally, spent = future.result()
            except BrokenExecutor:
                self._count_death()
                yield member, None
                continue
            self.cpu_seconds += spent
            yield from ((member, part) for part in parts)
            yield member, tally

    def close(self) -> None:
        for member in self.members:
            if member.future is not None:
                member.future.cancel()
        super().close()


def walk_there(plan: Plan, items: list[Item], budget: int) -> Found:
    """In a worker of an executor: parts, tally and processor seconds of one task."""
    spent = time.process_time()
    parts: list[Part] = []
    try:
        walker = Walker(plan._replace(device_here=os.stat(plan.root).st_dev))  # noqa: PTH116
    except OSError as error:
        raise _other_tree(plan, error.strerror or str(error)) from None
    try:
        if not walker.same_root:
            raise _other_tree(plan, "it is another directory")
        tally = walker.walk(items, budget, parts.append)
    finally:
        walker.close()
    return parts, tally, time.process_time() - spent


def _other_tree(plan: Plan, why: str) -> UsageError:
    return UsageError(
        f"A worker on {socket.gethostname()} does not see {plan.root} as this machine does: {why}.",
        hint="Scan a file system that is mounted at the same place on all workers.",
    )


def serve(connection: Connection) -> None:
    """In a child: the plan comes first, then (items, budget) again and again."""
    walker = Walker(connection.recv())
    while True:
        items, budget = connection.recv()
        connection.send(walker.walk(items, budget, connection.send))


def main() -> None:
    """Fork for each descriptor, and wait for the children, so that their processor time counts as the scanner's.

    Ctrl-C goes to the whole group; the scanner takes it and closes the connections.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Millions of short-lived tuples and no cycles among them: looking for cycles costs a tenth of the time.
    gc.disable()
    descriptors = {int(word) for word in sys.argv[1:]}
    for own in descriptors:
        if os.fork() == 0:
            for other in descriptors - {own}:
                os.close(other)
            with suppress(EOFError, BrokenPipeError, ConnectionResetError):
                serve(Connection(own))
            return
    for descriptor in descriptors:
        os.close(descriptor)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for _ in descriptors:
        os.wait()


if __name__ == "__main__":
    main()
