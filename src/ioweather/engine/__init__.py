"""Where work runs: a standard Executor, so that nothing else knows whether it is this machine or a cluster."""

from ioweather.engine.abilities import place_of, workers_of
from ioweather.engine.allowance import allow, allow_all
from ioweather.engine.apart import ChildDied, Children, children
from ioweather.engine.choose import opened
from ioweather.engine.local import Processes, Serial, Threads, local_executor
from ioweather.engine.run import WorkersDied, in_order
from ioweather.engine.settings import ClusterSettings, cluster_settings

__all__ = [
    "ChildDied",
    "Children",
    "ClusterSettings",
    "Processes",
    "Serial",
    "Threads",
    "WorkersDied",
    "allow",
    "allow_all",
    "children",
    "cluster_settings",
    "in_order",
    "local_executor",
    "opened",
    "place_of",
    "workers_of",
]
