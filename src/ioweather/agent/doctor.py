"""Checks of an agent's machine: what it would measure, whether the agent runs, and whether its rows arrive."""

from __future__ import annotations

import math
import shutil
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from ioweather.agent.delivery import server_complaint
from ioweather.agent.settings import CollectSettings, settings_from, sources_for
from ioweather.agent.status import Status, read_status
from ioweather.core.clock import now_ns
from ioweather.core.errors import DataUnavailable, UsageError
from ioweather.core.facility import Facility
from ioweather.core.units import NS, format_bytes, format_seconds

State = Literal["ok", "note", "problem"]
_PROGRAMS: Final = {
    "lfs": "per-OST samples (`ioweather probe --sizes`) need Lustre's client tools",
    "sacct": "live Slurm accounting (`ioweather agent run slurm`) needs Slurm's client",
    "iostat": "sysstat gives block-device history: apt-get install sysstat",
}
# Above this share of a file system's bandwidth, the probes of all hosts together disturb what they measure.
LARGEST_PROBE_SHARE: Final = 0.001


@dataclass(frozen=True)
class Check:
    """One line of `doctor`: what was checked, the result, and what to do."""

    name: str
    state: State
    found: str
    fix: str = ""


def check_python() -> Iterator[Check]:
    """Name the interpreter."""
    yield Check("python", "ok", f"{sys.version.split()[0]} at {sys.executable}")


def check_programs() -> Iterator[Check]:
    """Look for the programs of the file system, the scheduler and the system."""
    for name, why in _PROGRAMS.items():
        place = shutil.which(name)
        yield Check(name, "ok", place) if place else Check(name, "note", "not here", why)


def check_sources(facility: Facility) -> Iterator[Check]:
    """Say what an agent would measure here. Nothing is opened on a file system that it would probe."""
    settings = settings_from(facility.sections.get("collect", {}))
    try:
        found = sources_for((), facility, settings, "doctor")
    except UsageError as error:
        yield Check("collect", "note", error.message, error.hint)
    else:
        yield Check("collect", "ok", ", ".join(source.label for source in found))
        if any(source.name == "probe" for source in found):
            yield Check("probe load", "ok", f"per path: {settings.probe.load}")
    yield from _check_server(settings)


def _check_server(settings: CollectSettings) -> Iterator[Check]:
    if settings.server is None:
        return
    complaint = server_complaint(settings.server)
    if complaint:
        yield Check("server", "problem", complaint, "rows wait in the spool until it answers")
    else:
        yield Check("server", "ok", f"{settings.server.url} answers")


def check_agent(spool: Path) -> Iterator[Check]:
    """Say whether the agent of this spool runs, and whether its rows arrive."""
    try:
        status = read_status(spool)
    except DataUnavailable:
        yield Check("agent", "note", f"none has run in {spool}", "ioweather probe PATH, or ioweather agent run")
        return
    age = format_seconds((now_ns() - status.written_ns) / NS)
    again = "start it again: ioweather agent run"
    if status.state == "stopped":
        yield Check("agent", "note", f"stopped {age} ago on {status.host}", again)
    elif status.is_stale(now_ns()):
        yield Check("agent", "problem", f"last heard of {age} ago on {status.host}", again)
    else:
        yield Check("agent", "ok", f"running on {status.host}, pid {status.pid}")
    waiting = status.spool
    if waiting.dropped_rows:
        why = waiting.dropped_why or waiting.message
        yield Check("spool", "problem", f"{waiting.dropped_rows:,} rows were given up: {why}", "check the lake")
    elif waiting.last_ship_ok is False:
        yield Check("spool", "problem", f"rows do not reach the lake: {waiting.message}", "check space and permissions")
    else:
        yield Check("spool", "ok", f"{format_bytes(waiting.bytes)} waiting")


def probe_loads(statuses: Iterable[Status], facility: Facility) -> Mapping[str, tuple[int, float]]:
    """Return, by file system, how many hosts probe it, and the bytes/s that their probes read and write together."""
    hosts: dict[str, set[str]] = defaultdict(set)
    loads: dict[str, float] = defaultdict(float)
    for status in statuses:
        for target in status.targets:
            moved = sum(o.request_bytes for o in target.operations if o.op in ("read", "write") and o.mode == "nocache")
            found = facility.filesystem_of_path(target.target)
            name = found.name if found else facility.filesystem_of(target.system)
            hosts[name].add(status.host)
            loads[name] += moved * NS / target.period_ns
    return {name: (len(hosts[name]), loads[name]) for name in loads}


def check_loads(statuses: Iterable[Status], facility: Facility) -> Iterator[Check]:
    """Compare the load of all probes with the bandwidth of the file system that they measure."""
    for name, (hosts, load) in sorted(probe_loads(statuses, facility).items()):
        described = facility.filesystem(name)
        peak = (described.peak_bytes_per_s or described.highest_bytes_per_s) if described else None
        text = f"{hosts} {'host' if hosts == 1 else 'hosts'} read and write {format_bytes(load)}/s on {name}"
        if peak is None:
            fix = f"set peak_bytes_per_s in [filesystem.{name}] to compare it with what storage can do"
            yield Check("probe load", "note", text, fix)
            continue
        text += f", {load / peak:.2%} of its peak"
        if load <= LARGEST_PROBE_SHARE * peak:
            yield Check("probe load", "ok", text)
        else:
            times = math.ceil(load / (LARGEST_PROBE_SHARE * peak))
            fix = f"probe from fewer hosts, or {times} times less often (probe_period in [collect])"
            yield Check("probe load", "problem", f"{text}; more than 0.1% disturbs what is measured", fix)
