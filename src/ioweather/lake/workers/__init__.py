"""Where work runs: a standard Executor, so that nothing else knows whether it is this machine or a cluster."""

from ioweather.lake.workers.limited import WorkerDied, limit_memory, limit_seconds, run_limited, stream_limited
from ioweather.lake.workers.local import Processes, Serial, Threads, local_executor
from ioweather.lake.workers.run import WorkersDied, in_order, opened, workers_of
from ioweather.lake.workers.settings import ClusterSettings, cluster_settings

__all__ = [
    "ClusterSettings",
    "Processes",
    "Serial",
    "Threads",
    "WorkerDied",
    "WorkersDied",
    "cluster_settings",
    "in_order",
    "limit_memory",
    "limit_seconds",
    "local_executor",
    "opened",
    "run_limited",
    "stream_limited",
    "workers_of",
]
