"""Where work runs: a standard Executor, so that nothing else knows whether it is this machine or a cluster."""

from ioweather.engine.local import Serial, local_executor
from ioweather.engine.run import in_order_of_completion

__all__ = ["Serial", "in_order_of_completion", "local_executor"]
