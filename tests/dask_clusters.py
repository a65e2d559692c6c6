"""A Dask cluster of this machine, on loopback, for tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest


@contextmanager
def loopback_cluster(workers: int = 2) -> Iterator[Any]:
    distributed = pytest.importorskip("distributed", reason="needs the extra `dask`")
    import dask

    # Copies of a process that has loaded everything: a worker that is killed comes back in a tenth of the time.
    # On a busy machine who does not answer is slow, not gone.
    patient = {f"distributed.comm.timeouts.{name}": "120s" for name in ("connect", "tcp")}
    with (
        dask.config.set({"distributed.worker.multiprocessing-method": "forkserver", **patient}),
        distributed.LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=True,
            dashboard_address="127.0.0.1:0",
            host="127.0.0.1",
            silence_logs=50,
        ) as made,
    ):
        yield made
