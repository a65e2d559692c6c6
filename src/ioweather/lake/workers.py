"""Executors: worker processes of this machine, threads that wait for limited processes, or a Dask cluster.

Work is fed to any `concurrent.futures.Executor`, with bounded work in flight and results in the order of the inputs.
The order makes a run on a cluster equal to one in a single process: sums and commits are made in one order.
"""

from __future__ import annotations

import os
import re
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
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
from dataclasses import dataclass, fields
from itertools import islice
from typing import Any, TypeVar

from ioweather.core.errors import FacilityError, IoweatherError, UsageError
from ioweather.core.logs import Progress, silent
from ioweather.lake.limited import CONTEXT, end_with_parent, stop_workers

T = TypeVar("T")
# A task whose worker died once among others, and so often when it was alone, is the cause.
_TRIES_ALONE = 2
# Per worker: a task that runs, one that waits for the worker, one whose result waits for its turn.
_IN_FLIGHT = 3
# How often a cluster is checked for workers while a result is awaited.
_LOOK_SECONDS = 10.0
_FORMS = {
    "walltime": ('as in "02:00:00"', re.compile(r"(\d+-)?\d{1,3}:\d\d(:\d\d)?")),
    "memory": ('as in "4 GiB"', re.compile(r"\d+(\.\d+)? ?[KMGT]i?B")),
}


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
    """For tasks that wait for limited processes (`lake.limited`)."""

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


@dataclass(frozen=True)
class ClusterSettings:
    """One Slurm job: `cores` workers of one thread each, which share `memory`."""

    partition: str | None = None
    account: str | None = None
    walltime: str = "01:00:00"
    cores: int = 1
    memory: str = "2 GiB"
    interface: str | None = None  # the network between login node and compute nodes
    setup: tuple[str, ...] = ()  # shell lines before the workers start: modules, an environment
    directives: tuple[str, ...] = ()  # further options of sbatch

    @property
    def walltime_seconds(self) -> int:
        """`[D-]H:M[:S]`, as sbatch reads it with the hours always there."""
        days, _, clock = self.walltime.rpartition("-")
        hours, minutes, seconds = (*map(int, clock.split(":")), 0)[:3]
        return ((int(days or 0) * 24 + hours) * 60 + minutes) * 60 + seconds


def cluster_settings(section: Mapping[str, Any]) -> ClusterSettings:
    """[engine] of facility.toml, checked; every complaint names the key."""
    known = {field.name for field in fields(ClusterSettings)}
    if unknown := sorted(set(section) - known):
        raise FacilityError(
            f"unknown key {', '.join(unknown)} in [engine].", hint=f"Known: {', '.join(sorted(known))}."
        )
    found: dict[str, Any] = {}
    for key, value in section.items():
        if key in ("setup", "directives"):
            wanted, is_good = "a list of strings", isinstance(value, list) and all(isinstance(v, str) for v in value)
        elif key == "cores":
            wanted, is_good = "a whole number from 1", type(value) is int and value >= 1
        else:
            wanted, form = _FORMS.get(key, ("a string", re.compile(".*", re.DOTALL)))
            is_good = isinstance(value, str) and form.fullmatch(value) is not None
        if not is_good:
            raise FacilityError(f"`{key}` in [engine] must be {wanted}, not {value!r}.")
        found[key] = tuple(value) if isinstance(value, list) else value
    return ClusterSettings(**found)


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
        from ioweather.lake.dask_cluster import connected

        executor = connected(dask)
    elif slurm is not None:
        from ioweather.lake.dask_cluster import on_slurm

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
