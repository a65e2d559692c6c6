"""How right `ioweather health` is where the truth is known; benchmarks/verdict.py has real runs.

    python benchmarks/health.py weeks 301 302 303             # simulated weeks with incidents, by seed [--closed-loop]
    python benchmarks/health.py healthy 401 402 403           # busy weeks without any

A component that is named counts as right where it was planted as sick at that time: a target, a server, the metadata
server, or, for a slow network, the file system. Every incident counts, also one that nobody felt (`felt` is by how much
it stretched what it touched); those felt by 15% or more are counted beside. The peer is 'name the busiest target of
every day', which is what people do with a load chart.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import duckdb

from ioweather.core.units import DAY_NS
from ioweather.diagnosis.health import HealthOutcome
from ioweather.job_io.outcomes import Unhealthy
from ioweather.lake.lake import Lake
from ioweather.simulate.generate import generate
from ioweather.simulate.ingest_simulated import ingest_simulated
from ioweather.simulate.presets import LAPTOP, Preset, preset_named
from ioweather.topics.source import ask

# Copies of a day in other formats, and lists of files, say nothing of health.
_LEAN = {"detail_day": None, "scan_files": 200}
_WEEK = replace(LAPTOP, **_LEAN)
_BUSY = (1.0, 1.5, 2.0)
_FELT = 1.15


@dataclass(frozen=True)
class Week:
    planted: list[dict[str, Any]]
    named: tuple[Unhealthy, ...]
    busiest: list[tuple[str, int]]  # the peer's guess for each day


def unhealthy(lake: Lake) -> tuple[Unhealthy, ...]:
    found = ask("health", lake).result
    assert isinstance(found, HealthOutcome)
    return found.unhealthy


def simulated(preset: Preset, seed: int, place: Path) -> Week:
    made = generate(preset, place / f"facility-{seed}", seed=seed)
    lake = ingest_simulated(made, place / f"lake-{seed}")
    truth = duckdb.sql(f"SELECT name, component, start_ns, end_ns, value FROM '{made.truth}' WHERE kind = 'incident'")
    names = ("name", "component", "start_ns", "end_ns", "felt")
    with lake.snapshot() as snapshot:
        days = snapshot.query(
            f"""SELECT component, day FROM (SELECT component, start_ns // {DAY_NS} AS day, sum(value) AS moved
                FROM series WHERE component_kind = 'ost' AND metric IN ('read_bytes', 'write_bytes') GROUP BY ALL)
            QUALIFY row_number() OVER (PARTITION BY day ORDER BY moved DESC) = 1"""
        ).fetchall()
    return Week([dict(zip(names, row, strict=True)) for row in truth.fetchall()], unhealthy(lake), days)


def is_right(named: Unhealthy, incident: dict[str, Any]) -> bool:
    same = named.component in (incident["component"], "scratch" if incident["component"] == "network" else None)
    return same and named.start_ns < incident["end_ns"] and (named.end_ns or 2**62) > incident["start_ns"]


def weeks(seeds: Sequence[int], place: Path, preset: Preset) -> None:
    found, total, right, named, peer_right, peer = Counter[str](), Counter[str](), 0, 0, 0, 0
    for seed in seeds:
        week = simulated(preset, seed, place)
        print(f"seed {seed}:")
        for incident in week.planted:
            hit = any(is_right(each, incident) for each in week.named)
            groups = [incident["name"], "all", *(["felt"] if incident["felt"] >= _FELT else [])]
            groups += ["without network"] if incident["name"] != "network_cap" else []
            total.update(groups)
            found.update(groups if hit else [])
            print(f"  {incident['name']:13} {incident['component']:16} felt {incident['felt']:5.2f}", "found" * hit)
        for each in week.named:
            ok = any(is_right(each, incident) for incident in week.planted)
            named, right = named + 1, right + ok
            if not ok:
                print(f"  WRONG: {each.cause} (p {each.probability})")
        for component, day in week.busiest:
            guess = Unhealthy(component, None, "", day * DAY_NS, (day + 1) * DAY_NS)
            peer, peer_right = peer + 1, peer_right + any(is_right(guess, incident) for incident in week.planted)
    print(f"\nprecision: {right} of {named} named are right ({right / max(1, named):.2f});"
          f" the peer: {peer_right} of {peer} ({peer_right / max(1, peer):.2f})")  # fmt: skip
    for group, count in total.items():
        print(f"recall, {group}: {found[group]} of {count} ({found[group] / count:.2f})")


def healthy(seeds: Sequence[int], place: Path) -> None:
    for number, seed in enumerate(seeds):
        load = _BUSY[number % len(_BUSY)]
        # Flows that wait for one target must not crowd the others and the network with bytes that nobody sees moving.
        preset = replace(_WEEK, incidents_per_week=0, closed_loop=True, system_load=load, jobs=round(_WEEK.jobs * load))
        named = simulated(preset, seed, place).named
        print(f"seed {seed}, load x{load}: {len(named)} alarms", *(each.cause for each in named))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("weeks", "healthy"))
    parser.add_argument("given", nargs="+")
    parser.add_argument("--closed-loop", action="store_true", help="weeks: who waits for a target asks less of others")
    parser.add_argument("--preset", default="laptop", help="weeks: what is simulated, as laptop-noisy, laptop-hard")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ioweather-health-") as folder:
        if asked.what == "weeks":
            preset = replace(preset_named(asked.preset), closed_loop=asked.closed_loop, **_LEAN)
            weeks([int(seed) for seed in asked.given], Path(folder), preset)
        else:
            healthy([int(seed) for seed in asked.given], Path(folder))


if __name__ == "__main__":
    main()
