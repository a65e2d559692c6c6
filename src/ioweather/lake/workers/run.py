"""Feeding an Executor: bounded work in flight, results in the order of the inputs, and tasks whose worker died.

The order makes a run on a cluster equal to one in a single process: sums and commits are made in one order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future, wait
from contextlib import contextmanager
from itertools import islice
from typing import Any, TypeVar

from ioweather.core.errors import IoweatherError, UsageError
from ioweather.core.progress import Progress, silent
from ioweather.lake.workers.local import Serial, local_executor
from ioweather.lake.workers.settings import ClusterSettings

T = TypeVar("T")

# A task whose worker died once among others, and so often when it was alone, is the cause.
_TRIES_ALONE = 2
# Per worker: a task that runs, one that waits for the worker, one whose result waits for its turn.
_IN_FLIGHT = 3
# How often a cluster is checked for workers while a result is awaited.
_LOOK_SECONDS = 10.0


class WorkersDied(IoweatherError):
    """A task killed its worker repeatedly, and no `lost` handler was given."""


class TaskLost(BrokenExecutor):
    """A cluster tried a task on several workers, and each of them died."""


def workers_of(executor: Executor) -> int:
    """How many tasks run at once; one, if the executor does not say. The number of a cluster changes."""
    return max(1, getattr(executor, "workers", 1))


def in_order(
    executor: Executor,
    task: Callable[..., T],
    inputs: Iterable[tuple[Any, ...]],
    *,
    in_flight: int | None = None,
    lost: Callable[..., T] | None = None,
) -> Iterator[T]:
    """task(*input) for each input, in that order; at most `in_flight` at a time, so inputs may be endless.

    When a worker dies, all tasks in flight may be lost with it: those run again, one at a time. A task that kills its
    worker then too gives `lost(*input)`, in this process, or ends the work. Closing the iterator cancels what has not
    begun.
    """
    source = iter(inputs)
    waiting: deque[tuple[tuple[Any, ...], Future[T]]] = deque()
    try:
        while True:
            width = in_flight or (1 if isinstance(executor, Serial) else _IN_FLIGHT * workers_of(executor))
            for arguments in islice(source, max(0, width - len(waiting))):
                waiting.append((arguments, _submit(executor, task, arguments)))
            if not waiting:
                return
            try:
                result = _result(executor, waiting[0][1])
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
    try:
        return executor.submit(task, *arguments)
    except BrokenExecutor as error:
        broken: Future[T] = Future()
        broken.set_exception(error)
        return broken


def _result(executor: Executor, future: Future[T]) -> T:
    while not wait((future,), _LOOK_SECONDS).done:
        workers_of(executor)  # raises, if a cluster has had none for long
    return future.result()


def _run_alone(
    executor: Executor, task: Callable[..., T], arguments: tuple[Any, ...], lost: Callable[..., T] | None
) -> T:
    for _ in range(_TRIES_ALONE):
        try:
            return _result(executor, _submit(executor, task, arguments))
        except (BrokenExecutor, CancelledError):
            continue
    if lost is None:
        raise WorkersDied(
            "A worker died over the same piece of work several times (killed, or out of memory).",
            hint="Give each worker more memory, then run the same command again: it goes on from what is in.",
        ) from None
    return lost(*arguments)


@contextmanager
def opened(
    *,
    workers: int | None = None,
    dask: str | None = None,
    slurm: int | None = None,
    settings: Callable[[], ClusterSettings] = ClusterSettings,
    progress: Progress = silent,
) -> Iterator[Executor]:
    """The executor that options ask for, closed at the end: processes end, Slurm jobs are cancelled, a cluster that
    was there before stays. `settings` is called for Slurm alone."""
    if sum(choice is not None for choice in (workers, dask, slurm)) > 1:
        raise UsageError("--workers, --dask and --slurm exclude each other.")
    executor: Executor
    if dask is not None:
        from ioweather.lake.workers.dask_cluster import connected

        executor = connected(dask)
    elif slurm is not None:
        from ioweather.lake.workers.dask_cluster import on_slurm

        executor = on_slurm(slurm, settings(), progress)
    else:
        executor = local_executor(workers)
    try:
        yield executor
    except BaseException:
        if stop := getattr(executor, "stop", None):
            stop()
        raise
    finally:
        executor.shutdown(wait=True, cancel_futures=True)
