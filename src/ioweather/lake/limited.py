"""Tasks that may never end, take all memory or crash: each runs in a process of its own, within limits.

The processes are copies of a server that has loaded the readers (`forkserver`): a copy of the calling process could
inherit a held lock of DuckDB or Delta. Processor time is counted by the kernel (ITIMER_PROF), because no Python runs
while a library loops; waiting for slow storage costs none. Memory is bounded by RLIMIT_DATA: an allocation beyond it
fails. Both are set by the task itself, for each file (`limit_seconds`, `limit_memory`).
"""

from __future__ import annotations

import fcntl
import gc
import logging
import multiprocessing
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from importlib.machinery import ModuleSpec
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path
from typing import Any, Final, TypeVar

from ioweather.core.errors import IoweatherError
from ioweather.core.logs import set_up as set_up_logs

T = TypeVar("T")
_JOIN_SECONDS: Final = 5.0
_starting = threading.Lock()
_is_limited = False


class WorkerDied(IoweatherError):
    """The process of a task ended before the task: because of its time limit (kind TooMuchTime), or for another
    reason."""


class _Worker(ForkServerProcess):
    """A process that does not import the script of its parent, which need not guard itself by `__name__`."""

    @staticmethod
    def _Popen(process_obj: Any) -> Any:
        """Start the process as if `ioweather` were the main module; the script's name is hidden for that moment."""
        main = sys.modules["__main__"]
        with _starting:
            spec, main.__spec__ = main.__spec__, ModuleSpec("ioweather.__main__", None)
            safe = os.environ.get("PYTHONSAFEPATH")
            os.environ["PYTHONSAFEPATH"] = "1"  # the server must not load modules of the current directory
            try:
                return ForkServerProcess._Popen(process_obj)
            finally:
                main.__spec__ = spec
                del os.environ["PYTHONSAFEPATH"]
                if safe is not None:
                    os.environ["PYTHONSAFEPATH"] = safe


class _Context(ForkServerContext):
    Process = _Worker


CONTEXT: Final = _Context()
# Readers of files are most of the tasks, and Darshan logs most of the files.
CONTEXT.set_forkserver_preload(
    ["ioweather.ingestion.reading", "ioweather.readers.darshan.darshan_reader", "ioweather.facts.job_metrics"]
)


def run_limited(task: Callable[..., T], *args: Any, wall_seconds: float) -> T:
    """task(*args) in a process of its own, for a task that returns its result."""
    results: list[T] = [*stream_limited(_call_once, task, args, wall_seconds=wall_seconds)]
    return results[0]


def _call_once(task: Callable[..., T], args: tuple[Any, ...]) -> list[T]:
    return [task(*args)]


def stream_limited(task: Callable[..., Iterable[T]], *args: Any, wall_seconds: float) -> Iterator[T]:
    """The items of task(*args), made in a process of its own. The task waits while the caller handles an item; this
    time does not count. Raises WorkerDied, or the exception of the task."""
    ours, theirs = CONTEXT.Pipe(duplex=False)
    worker = CONTEXT.Process(target=_run_in_worker, args=(theirs, task, args), daemon=True)
    worker.start()
    theirs.close()
    left = wall_seconds
    try:
        while True:
            asked = time.monotonic()
            if not ours.poll(max(0.0, left)):
                raise _make_overrun_error()
            try:
                is_last, value = ours.recv()
            except (EOFError, OSError):
                worker.join(_JOIN_SECONDS)
                is_overrun = worker.exitcode == -signal.SIGPROF
                raise (_make_overrun_error() if is_overrun else WorkerDied("The process of a task crashed.")) from None
            left -= time.monotonic() - asked
            if not is_last:
                yield value
            else:
                worker.join(_JOIN_SECONDS)  # it ends by itself, so that its exit handlers run
                if value is None:
                    return
                raise value
    finally:
        worker.kill()
        worker.join(_JOIN_SECONDS)  # one that waits for dead storage is left to the kernel
        ours.close()


def _make_overrun_error() -> WorkerDied:
    return WorkerDied("A task exceeded its time limit.", kind="TooMuchTime")


def stop_workers(threads: Iterable[threading.Thread]) -> None:
    """Kill the processes of all tasks of this process, until the threads that wait for them have ended."""
    while any(thread.is_alive() for thread in threads):
        for child in multiprocessing.active_children():
            if isinstance(child, _Worker):
                child.kill()
        time.sleep(0.05)


def end_with_parent() -> None:
    """End this worker when its parent dies (SIGIO at the end of their pipe), also by SIGKILL; ignore Ctrl-C, which goes
    to the parent too."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None and sys.platform == "linux":
        fcntl.fcntl(parent.sentinel, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(parent.sentinel, fcntl.F_SETFL, os.O_ASYNC)


def _run_in_worker(connection: Connection, task: Callable[..., Iterable[Any]], args: tuple[Any, ...]) -> None:
    """Run the task in this new process and send its items, then (True, its exception or None)."""
    global _is_limited
    end_with_parent()
    _is_limited = True
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    set_up_logs()
    logging.getLogger("ioweather.plugins").setLevel(logging.ERROR)  # the parent warned of broken plug-ins
    gc.set_threshold(200_000)  # rows of thousands of logs are millions of objects without cycles
    failure = None
    try:
        for item in task(*args):
            connection.send((False, item))
    except BrokenPipeError:
        return
    except Exception as error:
        failure = error
    limit_seconds(0.0)
    limit_memory(None)
    try:
        connection.send((True, failure))
    except BrokenPipeError:
        return
    except Exception:  # an error that cannot be pickled
        connection.send((True, RuntimeError(f"{type(failure).__name__}: {failure}")))


def limit_seconds(seconds: float) -> None:
    """Kill this worker after so much processor time from now; 0: never. Does nothing outside a worker."""
    if _is_limited:
        signal.setitimer(signal.ITIMER_PROF, seconds)


def limit_memory(more_bytes: int | None) -> None:
    """Let this worker allocate so much more than it has; None: without limit. Does nothing outside a worker."""
    if not _is_limited or sys.platform != "linux":
        return
    most, hard = resource.RLIM_INFINITY, resource.getrlimit(resource.RLIMIT_DATA)[1]
    if more_bytes is not None:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[5])  # proc(5): data + stack
        most = pages * os.sysconf("SC_PAGE_SIZE") + more_bytes
    if hard != resource.RLIM_INFINITY:
        most = hard if most == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (most, hard))
