"""Stored incidents of components: rows of `events` as programs read them, and responses measured during incidents."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from ioweather.core.arrays import Bools
from ioweather.core.facility import Facility
from ioweather.core.frames import Frame
from ioweather.core.outcomes import Unhealthy

EVENT_COLUMNS: Final = ("system", "component", "label", "start_ns", "end_ns", "strength_ratio", "details")


def unhealthy_of(event: Mapping[str, Any], filesystem: str | None = None) -> Unhealthy:
    """A row of `events`, as programs read it; also one of an earlier version, which had no probability."""
    details = json.loads(event["details"] or "{}")
    return Unhealthy(
        component=event["component"],
        kind=details.get("direction"),
        cause=details.get("cause") or event["label"],
        start_ns=event["start_ns"],
        end_ns=event["end_ns"],
        probability=details.get("probability"),
        filesystem=filesystem,
        factor=event["strength_ratio"],
        runs=details.get("runs"),
        lost_seconds=details.get("lost_seconds"),
    )


def without_incidents(responses: Frame, events: Frame | None, facility: Facility) -> tuple[Frame, tuple[str, ...]]:
    """Response times without those of components that were unhealthy at the time, and a caveat where any were: an
    incident of one target is no law."""
    hit = in_incidents(responses, events, facility) if events is not None else np.zeros(responses.rows, np.bool_)
    if not hit.any():
        return responses, ()
    return responses.take(~hit), (f"{int(hit.sum()):,} response times of unhealthy components were left out.",)


def in_incidents(responses: Frame, events: Frame, facility: Facility) -> Bools:
    """Operations of probes and samplers on components that were unhealthy at that time; of what all targets share, and
    of metadata servers, all of that file system."""
    start = responses.ints("start_ns")
    component, system = responses.text("component"), responses.text("system")
    homes = [facility.filesystem_of(name) for name in system.categories]
    hit = np.zeros(responses.rows, np.bool_)
    for event in events.records():
        names = {event["component"], *json.loads(event["details"] or "{}").get("through", [])}
        known = [code for code, name in enumerate(component.categories) if name in names]
        home = facility.filesystem_of(event["system"]) if event["system"] else None
        here = np.isin(system.codes, [code for code, name in enumerate(homes) if home in (None, name)])
        end = np.iinfo(np.int64).max if event["end_ns"] is None else event["end_ns"]
        during = here & (start >= event["start_ns"]) & (start < end)
        hit |= during & np.isin(component.codes, known) if known else during
    return hit
