"""A process that walks: gets items from its connection, sends parts and tallies back, ends when nobody is there.

python -m ioweather.sources.scan.worker DESCRIPTOR
"""

from __future__ import annotations

import gc
import signal
import sys
from multiprocessing.connection import Connection

from ioweather.sources.scan.plan import Part, Plan
from ioweather.sources.scan.walker import Walker


def serve(connection: Connection) -> None:
    """First the plan comes and the answer is None: ready. Then (items, budget) come again and again."""
    plan: Plan = connection.recv()
    walker = Walker(plan)
    connection.send(None)

    def emit(part: Part) -> None:
        connection.send(part)

    while True:
        items, budget = connection.recv()
        connection.send(walker.walk(items, budget, emit))


def main() -> None:
    # Ctrl-C goes to the whole group; the scanner takes it and closes the connection.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Millions of short-lived tuples and no cycles among them: looking for cycles costs a tenth of the time.
    gc.disable()
    try:
        serve(Connection(int(sys.argv[1])))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return


if __name__ == "__main__":
    main()
