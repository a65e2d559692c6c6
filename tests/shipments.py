"""Waiting for the child that brings files of a spool away."""

from __future__ import annotations

import time

from ioweather.collect.ship import Shipment, Shipper


def outcome(shipper: Shipper, now_ns: int = 0) -> Shipment:
    for _ in range(6000):
        found = shipper.poll(now_ns)
        if found is not None:
            return found
        time.sleep(0.01)
    raise AssertionError("the shipment did not end")
