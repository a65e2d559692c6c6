"""Incidents as rows of `events`, with the sentence that describes each."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from ioweather.core.frames import Frame
from ioweather.core.tables import TABLES
from ioweather.core.units import NS, format_seconds
from ioweather.diagnosis.health_incidents import OVERLOAD, TOGETHER, Incident

_SHOWN: Final = {
    "service": "device throughput at its queue length",
    "served": "server time per request",
    "probe": "its probes",
    "metadata": "metadata probes",
    "runs": "jobs that used several targets",
    "metadata_served": "server time per operation",
    "clients": "most of its clients",
    OVERLOAD: "metadata probes",
}


def describe_cause(incident: Incident) -> str:
    """The cause as a sentence without a full stop."""
    name, shown = incident.component, [_SHOWN[each] for each in incident.shown_by if each in _SHOWN]
    by = " and ".join(filter(None, [", ".join(shown[:-1]), *shown[-1:]]))
    times = f"{incident.factor or 1:.2g} times as long"
    what = "operations" if {"metadata", "metadata_served"} & {*incident.shown_by} else "requests"
    if incident.kind == "absent":
        later = f", and its targets were slow afterwards (evidence: {by})" if by else ""
        return f"{name} stopped reporting while others continued: down or unreachable{later}"
    if TOGETHER in incident.shown_by:
        limit = f"{1 / (incident.factor or 1):.0%} of their highest total rate"
        return f"all targets of {name} together were stuck at {limit}: a shared limit, such as the network"
    if incident.kind == "capped":
        return f"{name} was stuck at {1 / (incident.factor or 1):.0%} of its normal maximum while its peers were not"
    if incident.kind == "stalled":
        slow = f"{what} on {name} took {times} as on its peers (evidence: {by})"
        return f"{slow}, but its device was not slow: the server stalled"
    if incident.kind == "overloaded":
        return f"{name} was overloaded: metadata operations took {times} as usual"
    if "clients" in incident.shown_by:
        return f"{what} from most clients to {name} took {times} as expected: its server or the network is slow"
    return f"{what} on {name} took {times} as expected under its load (evidence: {by})"


def to_events(found: Sequence[Incident], system: str) -> Frame:
    """Rows of `events`. The id of an incident is stable, so that a later search revises it."""
    causes = [describe_cause(each) for each in found]
    details = [
        {
            "direction": each.kind,
            "cause": cause,
            "probability": round(each.probability, 3),
            "shown_by": list(each.shown_by),
            "through": list(each.through),
            "runs": each.runs,
            "lost_seconds": None if each.lost_seconds is None else round(each.lost_seconds, 1),
        }
        for each, cause in zip(found, causes, strict=True)
    ]
    return TABLES["events"].frame(
        rows=len(found),
        event_id=[f"component_health:{system}:{each.component}:{each.kind}:{each.start_ns}" for each in found],
        kind="component_health",
        system=system,
        component=[each.component for each in found],
        start_ns=[each.start_ns for each in found],
        end_ns=[each.end_ns for each in found],
        label=[
            f"{cause}, for {format_seconds((each.end_ns - each.start_ns) / NS)}"
            for each, cause in zip(found, causes, strict=True)
        ],
        strength_ratio=[each.factor for each in found],
        details=[json.dumps(each) for each in details],
    )
