"""What servers count of each job, step by step, and the truth beside it: what every job cost the runs beside it.

A watcher of the fluid model. The cost of a job to a run is what the run would have been faster without it, moment by
moment, with everybody else as they were.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ioweather.core.arrays import Floats
from ioweather.simulate.flows import OPERATIONS, Flow
from ioweather.simulate.fluid import Fluid
from ioweather.simulate.meter import Readings
from ioweather.simulate.resources import Calendar, Resources
from ioweather.simulate.runs import Run

_KINDS = ("read", "write")


def job_key(flow: Flow) -> str:
    """As job_stats has it: the scheduler's id, or program and user of work outside it."""
    if isinstance(flow.owner, Run):
        return str(flow.owner.job.number)
    name = str(flow.owner or "service")
    return name if "." in name else f"{name}.0"


@dataclass(eq=False)
class JobCounts:
    """`costs` are seconds by (run, key of the other job)."""

    fluid: Fluid
    resources: Resources
    step_seconds: int
    costs: dict[tuple[str, str], float] = field(default_factory=dict)
    _amounts: dict[tuple[int, str], Floats] = field(default_factory=dict)

    def watch(self, now: float, until: float, flows: list[Flow], pace: Floats) -> None:
        self._count(now, until, flows, pace)
        without = self.fluid.paces_without_each()
        keys = [job_key(flow) for flow in flows]
        for row, flow in enumerate(flows):
            if not isinstance(flow.owner, Run):
                continue
            lost = (until - now) * (1.0 - pace[row] / without[row])
            for column in np.flatnonzero(lost > 0).tolist():
                if keys[column] != keys[row]:
                    pair = (flow.owner.id, keys[column])
                    self.costs[pair] = self.costs.get(pair, 0.0) + float(lost[column])

    def _count(self, now: float, until: float, flows: list[Flow], pace: Floats) -> None:
        osts, width = self.resources.osts, self.step_seconds
        for flow, speed in zip(flows, pace.tolist(), strict=True):
            rate = np.zeros(4 * osts + len(OPERATIONS))
            if flow.kind == "meta":
                rate[4 * osts :] = speed * flow.pattern.demand[self.resources.mds] * flow.mix
            else:
                side = _KINDS.index(flow.kind)
                moved = speed * flow.pattern.demand[:osts]
                rate[side * osts : (side + 1) * osts] = moved
                rate[(2 + side) * osts : (3 + side) * osts] = moved / flow.rpc_bytes
            for step in range(int(now // width), int(-(-until // width))):
                span = min(until, (step + 1) * width) - max(now, step * width)
                place = (step, job_key(flow))
                if place not in self._amounts:
                    self._amounts[place] = np.zeros(len(rate))
                self._amounts[place] += span * rate

    def costs_of(self, run: str) -> dict[str, float]:
        return {key: seconds for (name, key), seconds in self.costs.items() if name == run}

    def taken(self, until: float) -> list[tuple[int, str, Floats]]:
        """Whole steps up to a moment, which are then forgotten."""
        ready = sorted(place for place in self._amounts if (place[0] + 1) * self.step_seconds <= until)
        return [(step, key, self._amounts.pop((step, key))) for step, key in ready]


def write_job_stats(
    folder: Path, rows: list[tuple[int, str, Floats]], step_seconds: int, resources: Resources, calendar: Calendar
) -> None:
    """A segment as the agent on a server writes it."""
    if not rows:
        return
    folder.mkdir(parents=True, exist_ok=True)
    first_ns = calendar.epoch_ns(rows[0][0] * step_seconds)
    header = {"ioweather_spool": 1, "host": "mds1", "boot_id": "simulated", "run_id": "r", "opened_ns": first_ns}
    with (folder / f"seg-mds1-{first_ns}.ndjson").open("w", encoding="utf-8") as file:
        file.write(json.dumps(header) + "\n")
        for step, key, amounts in rows:
            start_ns = calendar.epoch_ns(step * step_seconds)
            file.writelines(_lines(start_ns, step_seconds, key, amounts, resources))


def _lines(start_ns: int, step_seconds: int, key: str, amounts: Floats, resources: Resources) -> Iterator[str]:
    osts = resources.osts
    program, dot, uid = key.rpartition(".")
    common = {
        "table": "job_operations", "start_ns": start_ns, "interval_ns": step_seconds * 10**9,
        "system": resources.fsname, "job_key": key, "job_id": None if dot else int(key), "cluster": None,
        "uid": int(uid) if dot else None, "exe": program or None, "host": None, "time_ns": None, "histogram": None,
        "quality": 0,
    }  # fmt: skip
    for side, operation in enumerate(_KINDS):
        for ost in np.flatnonzero(amounts[side * osts : (side + 1) * osts] >= 1.0).tolist():
            count = max(1, round(float(amounts[(2 + side) * osts + ost])))
            yield _line(
                common, "ost", resources.ost_name(ost), operation, count, round(float(amounts[side * osts + ost]))
            )
    for number, operation in enumerate(OPERATIONS):
        count = round(float(amounts[4 * osts + number]))
        if count:
            yield _line(common, "mdt", resources.name(resources.mds), operation, count, None)


def _line(common: dict[str, object], kind: str, component: str, operation: str, count: int, moved: int | None) -> str:
    row = {**common, "component_kind": kind, "component": component, "operation": operation, "count": count}
    return json.dumps({**row, "bytes": moved}) + "\n"


def closed(counts: JobCounts, readings: Readings) -> list[tuple[int, str, Floats]]:
    return counts.taken(readings.start + readings.steps * readings.step_seconds)
