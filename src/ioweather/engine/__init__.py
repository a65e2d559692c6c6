"""Where work runs: a standard Executor, so that nothing else knows whether it is this machine or a cluster."""

from ioweather.engine.allowance import allow, allow_anew
from ioweather.engine.choose import opened
from ioweather.engine.local import Processes, Serial, local_executor
from ioweather.engine.run import WorkersDied, in_order, workers_of
from ioweather.engine.settings import ClusterSettings, cluster_settings

__all__ = [
    "ClusterSettings",
    "Processes",
    "Serial",
    "WorkersDied",
    "allow",
    "allow_anew",
    "cluster_settings",
    "in_order",
    "local_executor",
    "opened",
    "workers_of",
]
