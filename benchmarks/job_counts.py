"""What the servers of a simulated facility count by job (Lustre job_stats), and what every job costs the others."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ioweather.core.frames import Floats
from ioweather.simulate.facility_files import write_segment
from ioweather.simulate.fluid import OPERATIONS, Calendar, Flow, Fluid, Resources
from ioweather.simulate.generate import TruthWriter
from ioweather.simulate.world import Run, Window, World

_KINDS = ("read", "write")


def job_key(flow: Flow) -> str:
    """Return the key in job_stats: the scheduler's id, or program and user of other work."""
    if isinstance(flow.owner, Run):
        return str(flow.owner.job.number)
    name = str(flow.owner or "service")
    return name if "." in name else f"{name}.0"


def paces_without_each(fluid: Fluid) -> Floats:
    """Return (flow, other): the pace of each flow if the other did not exist and nothing else differed."""
    rest = np.maximum(fluid._asked_total - fluid._asked, 0.0) + fluid._storm
    if not fluid._closed_loop:
        stretch = fluid._slowdown_at(rest, fluid._capacity)[None]
    else:  # a flow that the other no longer holds up demands its full amount
        stretch = fluid._slowdown_at(rest[None] + (fluid._now_of("demand") - fluid._asked)[:, None], fluid._capacity)
    return np.asarray(1.0 / np.max(fluid._now_of("used")[:, None, :] * stretch, axis=2, initial=1.0))


@dataclass(eq=False)
class JobCounts:
    """What servers count by job. `costs` are seconds by (run, key of the other job)."""

    fluid: Fluid
    resources: Resources
    step_seconds: int
    costs: dict[tuple[str, str], float] = field(default_factory=dict)
    _amounts: dict[tuple[int, str], Floats] = field(default_factory=dict)

    def watch(self, now: float, until: float, flows: list[Flow], pace: Floats) -> None:
        """Count an interval with constant paces, and what the flows cost each other."""
        self._count(now, until, flows, pace)
        without = paces_without_each(self.fluid)
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
        """Add what the flows move in an interval to the counts by step and job."""
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
        """Return what each other job cost a run, in seconds."""
        return {key: seconds for (name, key), seconds in self.costs.items() if name == run}

    def take_until(self, until: float) -> list[tuple[int, str, Floats]]:
        """Return and drop the counts of whole steps up to a moment: (step, job key, amounts)."""
        ready = sorted(place for place in self._amounts if (place[0] + 1) * self.step_seconds <= until)
        return [(step, key, self._amounts.pop((step, key))) for step, key in ready]


def write_job_stats(
    folder: Path, rows: list[tuple[int, str, Floats]], step_seconds: int, resources: Resources, calendar: Calendar
) -> None:
    """Write the job counts of some steps as a segment of an agent on a server."""
    moments = [calendar.epoch_ns(step * step_seconds) for step, _, _ in rows]
    lines = (
        line
        for start_ns, (_, key, amounts) in zip(moments, rows, strict=True)
        for line in _format_job_rows(start_ns, step_seconds, key, amounts, resources)
    )
    if rows:
        write_segment(folder / f"seg-mds1-{moments[0]}.ndjson", "mds1", "r", moments[0], lines)


def _format_job_rows(
    start_ns: int, step_seconds: int, key: str, amounts: Floats, resources: Resources
) -> Iterator[str]:
    """Yield a line of `job_operations` for each operation of one job on one target in a step."""
    osts = resources.osts
    program, dot, uid = key.rpartition(".")
    common = {
        "table": "job_operations",
        "start_ns": start_ns,
        "interval_ns": step_seconds * 10**9,
        "system": resources.fsname,
        "job_key": key,
        "job_id": None if dot else int(key),
        "cluster": None,
        "uid": int(uid) if dot else None,
        "exe": program or None,
        "host": None,
        "time_ns": None,
        "histogram": None,
        "quality": 0,
    }
    counted: list[tuple[str, str, str, int, int | None]] = []
    for side, operation in enumerate(_KINDS):
        moved = amounts[side * osts : (side + 1) * osts]
        for ost in np.flatnonzero(moved >= 1.0).tolist():
            count = max(1, round(float(amounts[(2 + side) * osts + ost])))
            counted.append(("ost", resources.ost_name(ost), operation, count, round(float(moved[ost]))))
    for number, operation in enumerate(OPERATIONS):
        count = round(float(amounts[4 * osts + number]))
        if count:
            counted.append(("mdt", resources.mdt_name, operation, count, None))
    for row in counted:
        named = zip(("component_kind", "component", "operation", "count", "bytes"), row, strict=True)
        yield json.dumps({**common, **dict(named)}) + "\n"


def count_jobs(world: World, data: Path, truth: TruthWriter) -> Callable[[Window], None]:
    """Count what the jobs of a file system do, for `generate(watch=...)`."""
    counts = JobCounts(world.fluid, world.resources, world.preset.step_seconds)
    fluid, advance = world.fluid, world.fluid.advance

    def watched(until: float) -> list[Flow]:
        fluid.next_end()  # settles the paces
        if until > fluid.now and fluid.flows:
            counts.watch(fluid.now, until, fluid.flows, fluid._pace)
        return advance(until)

    fluid.advance = watched  # type: ignore[method-assign]

    def add_day(window: Window) -> None:
        for run in window.runs:
            for key, seconds in counts.costs_of(run.id).items():
                truth.add("cost", id=run.id, name=key, value=seconds)
        met = window.readings
        rows = counts.take_until(met.start + met.steps * met.step_seconds)
        write_job_stats(data / "job_stats", rows, world.preset.step_seconds, world.resources, world.calendar)

    return add_day
