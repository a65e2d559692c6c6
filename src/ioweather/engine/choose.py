"""From what a person asked for (so many processes, a Dask cluster, so many Slurm jobs) to an Executor."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager

from ioweather.core.errors import UsageError
from ioweather.core.progress import Progress, silent
from ioweather.engine.abilities import Stoppable
from ioweather.engine.local import local_executor
from ioweather.engine.settings import ClusterSettings


@contextmanager
def opened(
    *,
    workers: int | None = None,
    dask: str | None = None,
    slurm: int | None = None,
    settings: Callable[[], ClusterSettings] = ClusterSettings,
    progress: Progress = silent,
) -> Iterator[Executor]:
    """The executor, closed at the end: processes end, Slurm jobs are cancelled, a cluster of others is left as it was.

    `settings` is asked only for Slurm.
    """
    if sum(choice is not None for choice in (workers, dask, slurm)) > 1:
        raise UsageError("--workers, --dask and --slurm exclude each other.")
    executor: Executor
    if dask is not None:
        from ioweather.engine.dask_cluster import connected

        executor = connected(dask)
    elif slurm is not None:
        from ioweather.engine.dask_cluster import on_slurm

        executor = on_slurm(slurm, settings(), progress)
    else:
        executor = local_executor(workers)
    try:
        yield executor
    except BaseException:
        if isinstance(executor, Stoppable):
            executor.stop()
        raise
    finally:
        executor.shutdown(wait=True, cancel_futures=True)
