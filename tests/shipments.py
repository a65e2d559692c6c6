"""Waiting for the child that brings files of a spool away, and for what was pushed to be in the lake."""

from __future__ import annotations

import time
from pathlib import Path

from ioweather.agent.delivery import Shipment, Shipper
from ioweather.ingestion.drain import drain
from ioweather.ingestion.queue import waiting, writer_file
from ioweather.lake.lake import open_lake
from ioweather.lake.layout import locked


def outcome(shipper: Shipper, now_ns: int = 0) -> Shipment:
    for _ in range(30_000):
        found = shipper.poll(now_ns)
        if found is not None:
            return found
        time.sleep(0.01)
    raise AssertionError("the shipment did not end")


def finish_queue(root: Path) -> None:
    """Until the lake holds all that was pushed. Where no server's writer does it, it is done here."""
    for _ in range(30_000):
        if not waiting(root).files:
            return
        with locked(writer_file(root)) as lock:
            if lock is not None:
                drain(open_lake(root))
        time.sleep(0.01)
    raise AssertionError("the queue was not written")
