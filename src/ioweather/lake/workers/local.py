"""Executors of this machine: worker processes, threads that wait for processes of their own, or none."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from typing import Any

from ioweather.lake.workers.limited import CONTEXT, end_with_parent, stop_workers


class Serial(Executor):
    """Runs at once in this process: for small work, where starting processes would cost more than it saves."""

    workers = 1

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
    """For tasks that wait for limited processes (`engine.limited`)."""

    def __init__(self, workers: int) -> None:
        super().__init__(workers)
        self.workers = workers

    def stop(self) -> None:
        """End at once: the processes that threads wait for are killed."""
        self.shutdown(wait=False, cancel_futures=True)
        while any(thread.is_alive() for thread in self._threads):
            stop_workers()
            time.sleep(0.05)


class Processes(Executor):
    """Worker processes, started with the first task. A pool that lost a process fails all its tasks; the next task
    starts another pool."""

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self._pool: ProcessPoolExecutor | None = None

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        if self._pool is not None:
            try:
                return self._pool.submit(fn, *args, **kwargs)
            except BrokenExecutor:
                self.shutdown()
        self._pool = ProcessPoolExecutor(self.workers, mp_context=CONTEXT, initializer=end_with_parent)
        return self._pool.submit(fn, *args, **kwargs)

    def stop(self) -> None:
        """End without waiting for running tasks; a study may take minutes."""
        # ProcessPoolExecutor.kill_workers() does this from Python 3.14 on.
        for process in list((getattr(self._pool, "_processes", None) or {}).values()):
            process.kill()
        self.shutdown(wait=True, cancel_futures=True)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=wait, cancel_futures=cancel_futures)
            self._pool = None


def usable_cores() -> int:
    """Cores this process may run on; under a batch system fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def local_executor(workers: int | None = None) -> Serial | Processes:
    count = workers or usable_cores()
    return Serial() if count == 1 else Processes(count)
