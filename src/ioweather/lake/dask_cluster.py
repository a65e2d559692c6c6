"""A Dask cluster that runs already, as an Executor.

Dask runs the tasks of a lost worker again on another one. Its warnings are not shown on the terminal.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from ioweather._version import __version__
from ioweather.core.errors import IoweatherError, UsageError

if TYPE_CHECKING:
    from distributed import Client
    from distributed import Future as RemoteFuture

_CONNECT_SECONDS = 10
# The number of workers is asked for over the network.
_COUNT_SECONDS = 2.0
# Workers that were killed come back within seconds, if anybody starts them again.
_EMPTY_SECONDS = 300.0


@contextmanager
def connect_dask(address: str) -> Iterator[Executor]:
    """The cluster whose scheduler listens at `address` (tcp://host:port, tls://host:port, or a scheduler file)."""
    try:
        from distributed import Client
    except ModuleNotFoundError:
        raise UsageError(
            "--dask needs distributed, which is not installed.", hint="Run: pip install 'ioweather[dask]'"
        ) from None

    _silence_dask()
    place = {"scheduler_file": address} if address.endswith(".json") else {"address": address}
    try:
        client = Client(**place, timeout=_CONNECT_SECONDS, set_as_default=False, name="ioweather")
    except (OSError, ValueError, RuntimeError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UsageError(
            f"No response from a Dask scheduler at {address} ({reason}).",
            hint="Start `dask scheduler` and `dask worker ADDRESS`, and use an address such as tcp://host:8786.",
        ) from None
    try:
        yield _DaskExecutor(client)
    finally:
        with suppress(Exception):  # errors of a closing connection have no consequence
            client.close(timeout=5)


class _DaskExecutor(Executor):
    """An executor whose tasks run on the cluster, one at a time (a task is a batch already)."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self._known, self._counted = 1, -1e9
        self._worked = time.monotonic()  # when there was a worker last

    @property
    def workers(self) -> int:
        """Tasks that the workers of this moment can run at once. Raises IoweatherError after minutes without any."""
        now = time.monotonic()
        if now - self._counted > _COUNT_SECONDS:
            try:
                self._known = sum(self.client.nthreads().values())
            except OSError:
                raise _make_lost_error() from None
            self._counted = now
            if self._known:
                self._worked = now
        if now - self._worked > _EMPTY_SECONDS:
            raise IoweatherError(
                f"The Dask cluster had no worker for {_EMPTY_SECONDS / 60:.0f} minutes.",
                hint="Start workers (`dask worker ADDRESS`) and run the same command again. It resumes.",
            )
        return max(self._known, 1)

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run fn(*args, **kwargs) on a worker of the cluster."""
        # Not pure: equal calls are different tasks, and no result is cached.
        remote = self.client.submit(_run_task, __version__, fn, args, kwargs, pure=False)
        here: Future[Any] = Future()
        here.add_done_callback(lambda future: remote.cancel() if future.cancelled() else None)
        remote.add_done_callback(lambda future: self._deliver(future, here))
        return here

    def _deliver(self, remote: RemoteFuture, here: Future[Any]) -> None:
        """Pass on the result or the error of a task; runs in a thread of Dask."""
        from distributed import KilledWorker
        from distributed.comm import CommClosedError

        if not here.set_running_or_notify_cancel():
            return
        try:
            here.set_result(remote.result())
        except KilledWorker:
            here.set_exception(BrokenExecutor("the task crashed every worker that ran it"))
        except (CancelledError, CommClosedError):
            here.set_exception(_make_lost_error())
        except ModuleNotFoundError as error:
            here.set_exception(
                IoweatherError(
                    f"A module is missing on a Dask worker: {error}.",
                    hint="Install ioweather with the same extras on all workers.",
                )
            )
        except Exception as error:
            here.set_exception(error)
        finally:
            remote.release()  # the worker may now forget it


def _run_task(version: str, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run a task in the worker. Another version of ioweather is refused: it could read other rows."""
    if version != __version__:
        raise UsageError(
            f"A worker runs ioweather {__version__}, but this process runs {version}.",
            hint="Install the same version on all Dask workers.",
        )
    # Files are read in child processes, which multiprocessing forbids to a worker that a nanny has started.
    multiprocessing.current_process().daemon = False
    return fn(*args, **kwargs)


def _make_lost_error() -> IoweatherError:
    return IoweatherError("Lost the connection to the Dask scheduler.", hint="Run the same command again. It resumes.")


def _silence_dask() -> None:
    """Silence Dask's warnings of lost workers and closing connections, which would break the progress bar."""
    os.environ.setdefault("DASK_LOGGING__DISTRIBUTED", "critical")
    for name in ("distributed", "distributed.client", "distributed.scheduler", "distributed.worker", "tornado"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
