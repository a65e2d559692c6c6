"""Executors: worker processes of this machine, or a Dask cluster.

Work is fed to any `concurrent.futures.Executor`, with bounded work in flight and results in the order of the inputs.
The order makes a run on a cluster equal to one in a single process: sums and commits are made in one order.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import (
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
    wait,
)
from contextlib import contextmanager
from itertools import islice
from typing import Any, TypeVar

from ioweather.core.errors import UsageError
from ioweather.lake.limited import CONTEXT, WorkerDied, end_with_parent

T = TypeVar("T")
# A task whose worker died once among others, and so often when it was alone, is the cause.
_TRIES_ALONE = 2
# Per worker: a task that runs, one that waits for the worker, one whose result waits for its turn.
_IN_FLIGHT = 3
# How often a cluster is checked for workers while a result is awaited.
_LOOK_SECONDS = 10.0


class Processes(Executor):
    """Worker processes (default: one per usable core), started with the first task. A pool that lost a process fails
    all its tasks; the next task starts another pool."""

    def __init__(self, workers: int | None = None) -> None:
        self.workers = workers or usable_cores()
        self._pool: ProcessPoolExecutor | None = None

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run fn(*args, **kwargs) in a worker process."""
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
        """End the processes; the next task starts new ones."""
        if self._pool is not None:
            self._pool.shutdown(wait=wait, cancel_futures=cancel_futures)
            self._pool = None


def usable_cores() -> int:
    """Cores this process may run on; under a batch system fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def workers_of(executor: Executor) -> int:
    """How many tasks run at once; one, if the executor does not say. The number of a cluster changes."""
    if isinstance(executor, ThreadPoolExecutor):
        return executor._max_workers
    return max(1, getattr(executor, "workers", 1))


def in_order(
    executor: Executor | None,
    task: Callable[..., T],
    inputs: Iterable[tuple[Any, ...]],
    *,
    lost: Callable[..., T] | None = None,
) -> Iterator[T]:
    """task(*input) for each input, in that order; without an executor, in this process. Inputs may be endless: only a
    few tasks per worker are in flight.

    When a worker dies, all tasks in flight may be lost with it: those run again, one at a time. A task that kills its
    worker then too gives `lost(*input)`, in this process, or raises WorkerDied. Closing the iterator cancels what has
    not begun.
    """
    if executor is None:
        yield from (task(*arguments) for arguments in inputs)
        return
    source = iter(inputs)
    waiting: deque[tuple[tuple[Any, ...], Future[T]]] = deque()
    try:
        while True:
            for arguments in islice(source, max(0, _IN_FLIGHT * workers_of(executor) - len(waiting))):
                waiting.append((arguments, _submit(executor, task, arguments)))
            if not waiting:
                return
            try:
                result = _await_result(executor, waiting[0][1])
            except BrokenExecutor:
                wait([future for _, future in waiting])
                while waiting:
                    arguments, future = waiting.popleft()
                    is_lost = future.cancelled() or isinstance(future.exception(), BrokenExecutor)
                    yield _run_alone(executor, task, arguments, lost) if is_lost else future.result()
            else:
                waiting.popleft()
                yield result
    finally:
        for _, future in waiting:
            future.cancel()


def _submit(executor: Executor, task: Callable[..., T], arguments: tuple[Any, ...]) -> Future[T]:
    """Submit the task; a broken executor gives a future with its error."""
    try:
        return executor.submit(task, *arguments)
    except BrokenExecutor as error:
        broken: Future[T] = Future()
        broken.set_exception(error)
        return broken


def _await_result(executor: Executor, future: Future[T]) -> T:
    """The result of the task; raises IoweatherError where a cluster has no workers for minutes."""
    while not wait((future,), _LOOK_SECONDS).done:
        workers_of(executor)  # raises, if a cluster has had none for long
    return future.result()


def _run_alone(
    executor: Executor, task: Callable[..., T], arguments: tuple[Any, ...], lost: Callable[..., T] | None
) -> T:
    """Run a task while no other is in flight, twice at most; then `lost` gives its result."""
    for _ in range(_TRIES_ALONE):
        try:
            return _await_result(executor, _submit(executor, task, arguments))
        except (BrokenExecutor, CancelledError):
            continue
    if lost is None:
        raise WorkerDied(
            "A task crashed its worker several times (killed, or out of memory).",
            hint="Give each worker more memory and run the same command again. It resumes.",
        ) from None
    return lost(*arguments)


@contextmanager
def open_executor(*, workers: int | None = None, dask: str | None = None) -> Iterator[Executor]:
    """The executor that options ask for, closed at the end: processes end, a Dask cluster stays."""
    if workers is not None and dask is not None:
        raise UsageError("Use only one of --workers and --dask.")
    if dask is not None:
        from ioweather.lake.dask_cluster import connect_dask

        with connect_dask(dask) as cluster:
            yield cluster
        return
    processes = Processes(workers)
    try:
        yield processes
    except BaseException:
        processes.stop()
        raise
    finally:
        processes.shutdown(cancel_futures=True)
