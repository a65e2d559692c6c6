"""Processes that walk: each gets items from its connection, sends parts and tallies back, ends when nobody is there.

python -m ioweather.sources.scan.worker DESCRIPTOR ...
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from contextlib import suppress
from multiprocessing.connection import Connection

from ioweather.sources.scan.plan import Plan
from ioweather.sources.scan.walker import Walker


def serve(connection: Connection) -> None:
    """First the plan comes, then (items, budget) again and again."""
    plan: Plan = connection.recv()
    walker = Walker(plan)
    while True:
        items, budget = connection.recv()
        connection.send(walker.walk(items, budget, connection.send))


def main() -> None:
    """A copy of this process for each descriptor; it waits for them, so that their time counts where it is waited for.

    Ctrl-C goes to the whole group; the scanner takes it and closes the connections.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Millions of short-lived tuples and no cycles among them: looking for cycles costs a tenth of the time.
    gc.disable()
    descriptors = {int(word) for word in sys.argv[1:]}
    for own in descriptors:
        if os.fork() == 0:
            for other in descriptors - {own}:
                os.close(other)
            with suppress(EOFError, BrokenPipeError, ConnectionResetError):
                serve(Connection(own))
            return
    for descriptor in descriptors:
        os.close(descriptor)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for _ in descriptors:
        os.wait()


if __name__ == "__main__":
    main()
