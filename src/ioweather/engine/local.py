"""Executors of this machine: worker processes, or none."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing.process import BaseProcess
from typing import Any

from ioweather.engine.abilities import Place


class Serial(Executor):
    """Runs at once in this process: for small work, where starting processes would cost more than it saves."""

    workers = 1
    place: Place = "process"

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except BaseException as error:
            future.set_exception(error)
            if not isinstance(error, Exception):
                raise
        return future


class Threads(ThreadPoolExecutor):
    """For tasks that wait for children of their own."""

    place: Place = "threads"

    def __init__(self, workers: int) -> None:
        super().__init__(workers)
        self.workers = workers


class Processes(Executor):
    """Processes by spawn (a forked child of a process that has used the lake hangs), started with the first task.

    A pool that lost a process is of no more use; `renew` leaves it, and the next task starts another.
    """

    place: Place = "processes"

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self._pool: ProcessPoolExecutor | None = None

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        if self._pool is None:
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(self.workers, mp_context=context, initializer=_leave_interrupts)
        return self._pool.submit(fn, *args, **kwargs)

    def renew(self) -> None:
        self.shutdown(wait=True, cancel_futures=True)

    def stop(self) -> None:
        """Without waiting for what is being done; a study may take minutes."""
        # ProcessPoolExecutor.kill_workers() does this from Python 3.14 on.
        for process in self._started():
            process.kill()
        self.shutdown(wait=True, cancel_futures=True)

    def _started(self) -> list[BaseProcess]:
        return list((getattr(self._pool, "_processes", None) or {}).values())

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=wait, cancel_futures=cancel_futures)
            self._pool = None


def _leave_interrupts() -> None:
    """Ctrl-C goes to the whole group; the parent takes it and ends its workers, without a traceback of each."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def usable_cores() -> int:
    """Cores this process may run on; under a batch system fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def local_executor(workers: int | None = None) -> Executor:
    count = workers or usable_cores()
    return Serial() if count == 1 else Processes(count)
