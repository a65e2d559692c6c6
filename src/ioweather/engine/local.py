"""Executors of this machine: worker processes, or none."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from typing import Any


class Serial(Executor):
    """Runs at once in this process: for small work, where starting processes would cost more than it saves."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except BaseException as error:
            future.set_exception(error)
            if not isinstance(error, Exception):
                raise
        return future


def usable_cores() -> int:
    """Cores this process may run on; under a batch system fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def local_executor(workers: int | None = None) -> Executor:
    """Processes by spawn: a forked child of a process that has used the lake hangs."""
    count = workers or usable_cores()
    if count == 1:
        return Serial()
    return ProcessPoolExecutor(max_workers=count, mp_context=multiprocessing.get_context("spawn"))
