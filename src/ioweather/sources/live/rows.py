"""Rows of `responses`, `series` and `events` as live sources and the agent write them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from ioweather.sources.counter_samples import Growth, Target, in_base_unit
from ioweather.sources.disk_counters import RESET
from ioweather.sources.live.contract import Operation, Reporter
from ioweather.sources.live.timing import Timing


@dataclass(frozen=True)
class Origin:
    """Who measures what. One target is one series, whichever host and run measured it."""

    host: str
    target: str
    system: str
    run_id: str


def response_row(
    origin: Origin,
    operation: Operation,
    timing: Timing,
    scheduled_ns: int | None,
    cached: bool | None = None,
    component: str | None = None,
) -> dict[str, object]:
    """An operation that came to an end, good or bad."""
    return {
        "start_ns": timing.start_ns,
        "host": origin.host,
        "target": origin.target,
        "op": operation.op,
        "request_bytes": operation.request_bytes,
        "mode": operation.mode,
        "scheduled_ns": scheduled_ns,
        "duration_ns": timing.duration_ns,
        "system": origin.system,
        "component": component,
        "cached": cached,
        "status": "error" if timing.failed else "ok",
        "errno": timing.errno if timing.failed else None,
        "run_id": origin.run_id,
    }


def unfinished_row(
    origin: Origin, operation: Operation, status: str, start_ns: int, scheduled_ns: int | None
) -> dict[str, object]:
    """An operation that never began ('missed'), or whose end nobody saw ('pending')."""
    row = response_row(origin, operation, Timing(start_ns, 0), scheduled_ns)
    return {**row, "duration_ns": None, "status": status}


def event_row(
    event_id: str,
    kind: str,
    label: str,
    start_ns: int,
    end_ns: int | None = None,
    *,
    host: str | None = None,
    system: str | None = None,
    component: str | None = None,
    details: Mapping[str, object] | None = None,
) -> dict[str, object]:
    return {
        "event_id": event_id,
        "kind": kind,
        "system": system,
        "component": component,
        "host": host,
        "start_ns": start_ns,
        "end_ns": end_ns,
        "label": label,
        "details": json.dumps(details, sort_keys=True) if details else None,
    }


def series_row(
    target: Target, start_ns: int, interval_ns: int, metric: str, value: float, quality: int
) -> dict[str, object]:
    return {
        "start_ns": start_ns,
        "interval_ns": interval_ns,
        "system": target.system,
        "component_kind": target.kind,
        "component": target.name,
        "metric": metric,
        "value": value,
        "quality": quality,
    }


def report_growth(reporter: Reporter, target: Target, grown: Growth) -> None:
    """What counters grew by, as amounts in `series`."""
    flag = RESET if grown.restarted else 0
    for metric, amount in sorted(grown.amounts.items()):
        row = series_row(
            target, grown.start_ns, grown.end_ns - grown.start_ns, metric, in_base_unit(metric, amount), flag
        )
        reporter.row("series", row)
