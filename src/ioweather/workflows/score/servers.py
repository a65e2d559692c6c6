"""Questions about the servers: volumes, phases, correlations, parallelism, the night's spike, sick components."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ioweather.core.units import HOUR_NS
from ioweather.workflows.score.items import Evidence, Item

_VERBS = ("read", "write")
# Of targets, servers and the metadata server; the network is none of them.
_OF_COMPONENTS = ("slow_ost", "raid_rebuild", "full_ost", "failed_oss", "mds_overload")


def volumes(evidence: Evidence) -> Iterator[Item]:
    rates, planted = evidence.estimates("pat19.fig4"), evidence.planted
    for verb in _VERBS:
        rate = rates[f"mean_rate_{verb}"]
        per_minute = None if rate is None else rate * 60
        yield Item(f"{verb} per minute", planted[f"{verb}_bytes_per_minute"], per_minute, 0.02, unit="bytes")
        variation = rates[f"variation_{verb}"]
        yield Item(f"variation of {verb}", planted[f"{verb}_cov_percent"] / 100, variation, 0.05, unit="ratio")
    totals = evidence.estimates("pat19.fig10")
    for verb in _VERBS:
        there = (planted[f"{verb}_target_max_over_min"], totals[f"max_over_min_{verb}"])
        yield Item(f"busiest over idlest target, {verb}", *there, 0.05, unit="factor")


def phases(evidence: Evidence) -> Iterator[Item]:
    found, planted = evidence.estimates("pat19.fig7"), evidence.planted
    for verb in _VERBS:
        for name, key in (("length", "high_phase_minutes"), ("interarrival", "high_phase_distance_minutes")):
            value = found[f"mean_{name}_{verb}"]
            yield Item(f"{verb} high phases, mean {name}", planted[f"{verb}_{key}"] * 60, value, 0.1, unit="seconds")


def correlations(evidence: Evidence) -> Iterator[Item]:
    found, planted = evidence.estimates("pat19.fig9"), evidence.planted
    for verb in _VERBS:
        for window in (1, 5, 25):
            there = planted[f"{verb}_autocorrelation_{window}min"], found.get(f"auto_{verb}[{window} min]")
            yield Item(f"{verb} with itself a window later, {window} min", *there, 0.05, "difference")


def parallelism(evidence: Evidence) -> Iterator[Item]:
    found, planted = evidence.estimates("pat19.fig11"), evidence.planted
    for verb in _VERBS:
        yield Item(f"mean degree, {verb}", planted.get(f"{verb}_parallelism_mean"), found[f"mean_{verb}"], 0.1)


def metadata(evidence: Evidence) -> Iterator[Item]:
    found, planted = evidence.estimates("pat19.fig13"), evidence.planted
    yield Item("opens", planted["open_ops"], found["opens"], 0.02, unit="count")
    yield Item("closes", planted["close_ops"], found["closes"], 0.02, unit="count")


def night(evidence: Evidence) -> Iterator[Item]:
    """The nightly scan reads at 2 am, local time."""
    hours = next(t for t in evidence.exhibit("pat19.fig5").tables if t.name == "hours")
    reads = [(row[2], int(str(row[0]))) for row in hours.rows if row[1] == "read" and row[2] is not None]
    busiest = float(max(reads, key=lambda pair: float(str(pair[0])))[1])
    yield Item("busiest hour of reading", 2.0, busiest, 0.0, "difference", note="backups and transfers compete")


def sick_components(evidence: Evidence) -> Iterator[Item]:
    found = _episodes(evidence)
    planted = evidence.truth("incident")
    incidents = [row for row in planted if row["name"] in _OF_COMPONENTS]
    if not incidents:
        return
    hit, delays = 0, []
    explained: set[int] = set()
    for incident in incidents:
        matching = [e for e in found if _same(e, incident, evidence)]
        explained.update(id(e) for e in matching)
        if matching:
            hit += 1
            first = min(e["start_ns"] for e in matching)
            delays.append(max(0, first - incident["start_ns"]) / HOUR_NS)
    explained.update(id(e) for e in found if any(_same(e, incident, evidence) for incident in planted))
    note = f"{hit} of {len(incidents)}"
    yield Item("incidents of components that were found", 1.0, hit / len(incidents), 0.3, "rate", note=note)
    share = sum(id(e) in explained for e in found) / len(found) if found else None
    yield Item("components named that an incident explains", 1.0, share, 0.3, "rate", note=f"of {len(found)}")
    if delays:
        mean = sum(delays) / len(delays)
        yield Item("hours until noticed, mean", 0.0, mean, 3.0, "difference", note="from the first minute at the limit")


def _episodes(evidence: Evidence) -> list[dict[str, Any]]:
    """All that `ioweather health` lists."""
    with evidence.lake.snapshot() as snapshot:
        columns = ("component", "start_ns", "end_ns")
        return list(snapshot.frame("events", columns, {"kind": "component_health"}).records())


def _same(episode: dict[str, Any], incident: dict[str, Any], evidence: Evidence) -> bool:
    if episode["end_ns"] <= incident["start_ns"] or episode["start_ns"] >= incident["end_ns"]:
        return False
    if incident["name"] == "network_cap":  # which all targets share
        return episode["component"] in {fs.name for fs in evidence.lake.facility.filesystems}
    return bool(episode["component"] == incident["component"])
