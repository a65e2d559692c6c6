"""truth.parquet: what was planted, and what each run lost to what.

One table for everything; `kind` says what a row is:
  run           observed_seconds = alone + incidents + others + own change, exactly. What its own nodes did to it
                (`noise`, `hidden` in `details`) is part of alone; `size` is how much its program has grown,
                `filesystem` where its files lay
  incident      kind in `name`, its component, times and strength; `value`: by how much it stretched what it touched
  distribution  a law of response times: parameters in `details`
  planted       one number by `name`: what an analysis of the period should find
  cost          seconds (`value`) by which the run `id` would have been faster without the job `name`
  scan          files and bytes at a look
  benchmark     a phase of the benchmark and its speed
"""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ioweather.core.arrays import Floats
from ioweather.core.words import pairs_of
from ioweather.simulate.flows import OPERATIONS
from ioweather.simulate.incidents import Incident, divided
from ioweather.simulate.observed import Observed
from ioweather.simulate.resources import Calendar
from ioweather.simulate.runs import Run

_TOLERANCE = 0.05
_PARALLELISM_MINUTES = 4000


# What an analysis of the servers should find, from what really happened at them: no lost samples, no rounding. Written
# separately, from the papers' definitions, with loops where they are clearer: nothing here is shared with the analysis.
class PlantedServers:
    """Fed day by day; keeps totals and one number per minute, not the days."""

    def __init__(self, osts: int) -> None:
        self._minutes: dict[str, list[Floats]] = {"read": [], "write": []}
        self._by_target = {"read": np.zeros(osts), "write": np.zeros(osts)}
        self._operations = np.zeros(len(OPERATIONS))
        self._degrees: dict[str, list[int]] = {"read": [], "write": []}
        self._looked = 0

    def add(self, observed: Observed) -> None:
        per_minute = 60 // observed.readings.step_seconds
        for verb, values in (("read", observed.read_bytes), ("write", observed.write_bytes)):
            minutes = values.reshape(-1, per_minute, values.shape[1]).sum(axis=1)
            self._minutes[verb].append(minutes.sum(axis=1))
            self._by_target[verb] += values.sum(axis=0)
            # A part of the minutes tells the mean.
            for row in minutes[:: max(1, len(minutes) // 100)] if self._looked < _PARALLELISM_MINUTES else ():
                self._degrees[verb] += degrees(row)
        self._looked += 100
        self._operations += observed.operations.sum(axis=0)

    def values(self) -> dict[str, float]:
        found: dict[str, float] = {}
        for verb in ("read", "write"):
            minutes = np.concatenate(self._minutes[verb])
            found[f"{verb}_bytes"] = float(minutes.sum())
            found[f"{verb}_bytes_per_minute"] = float(minutes.mean())
            found[f"{verb}_cov_percent"] = float(minutes.std(ddof=1) / minutes.mean() * 100)
            length, between = high_phases(minutes)
            found[f"{verb}_high_phase_minutes"] = length
            found[f"{verb}_high_phase_distance_minutes"] = between
            for window in (1, 5, 25):
                sums = minutes[: len(minutes) // window * window].reshape(-1, window).sum(axis=1)
                found[f"{verb}_autocorrelation_{window}min"] = float(np.corrcoef(sums[:-1], sums[1:])[0, 1])
            target = self._by_target[verb]
            found[f"{verb}_target_max_over_min"] = float(target.max() / target.min())
            if self._degrees[verb]:
                found[f"{verb}_parallelism_mean"] = float(np.mean(self._degrees[verb]))
        for name, amount in zip(OPERATIONS, self._operations.tolist(), strict=True):
            found[f"{name}_ops"] = amount
        return found


def high_phases(minutes: Floats) -> tuple[float, float]:
    """Mean length, and mean time between the starts, of maximal runs of minutes at or above the upper quartile."""
    high = minutes >= np.percentile(minutes, 75)
    starts: list[int] = []
    lengths: list[int] = []
    for place, is_high in enumerate(high.tolist()):
        if is_high and (place == 0 or not high[place - 1]):
            starts.append(place)
            lengths.append(0)
        if is_high:
            lengths[-1] += 1
    return float(np.mean(lengths)), float(np.mean(np.diff(starts))) if len(starts) > 1 else float("nan")


def degrees(row: Floats) -> list[int]:
    """Sizes of groups of targets whose activity differs by less than 5% of the least, grown from the smallest."""
    found: list[int] = []
    least = None
    for value in sorted(v for v in row.tolist() if v > 0):
        if least is not None and value - least < _TOLERANCE * least:
            found[-1] += 1
        else:
            found.append(1)
            least = value
    return found


COLUMNS = pairs_of("""
    kind=VARCHAR id=VARCHAR name=VARCHAR start_ns=BIGINT end_ns=BIGINT job_id=BIGINT uid=BIGINT nprocs=BIGINT
    component=VARCHAR strength=DOUBLE observed_seconds=DOUBLE alone_seconds=DOUBLE incidents_seconds=DOUBLE
    others_seconds=DOUBLE own_seconds=DOUBLE change=VARCHAR read_bytes=BIGINT write_bytes=BIGINT cached_bytes=BIGINT
    darshan=BOOLEAN value=DOUBLE details=VARCHAR
""")


class TruthWriter:
    """Rows go to a text file as they come, and become Parquet at the end: memory does not grow with time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._draft = path.with_suffix(".draft.csv")
        self._file = self._draft.open("w", encoding="utf-8", newline="")
        self._rows = csv.DictWriter(self._file, list(COLUMNS), restval="")
        self._rows.writeheader()

    def add(self, kind: str, **values: Any) -> None:
        row = {name: value for name, value in values.items() if value is not None}
        if isinstance(row.get("details"), Mapping):
            row["details"] = json.dumps(row["details"], sort_keys=True)
        self._rows.writerow({"kind": kind, **row})

    def add_run(self, run: Run, incidents: Sequence[Incident], calendar: Calendar, filesystem: str) -> None:
        parts = run_parts(run)
        by_incident: dict[str, float] = {}
        for phase in run.phases:
            flow = phase.flow
            lost = flow_parts(flow)[1]
            used = flow.pattern.demand + (flow.normal.demand if flow.normal is not None else 0.0)
            for name, seconds in divided(lost, flow.start, flow.end, used, incidents).items():
                by_incident[name] = by_incident.get(name, 0.0) + seconds
        program = run.program
        moved = program.step_bytes * program.steps
        self.add(
            "run", id=run.id, name=run.usual.name, start_ns=calendar.epoch_ns(run.start),
            end_ns=calendar.epoch_ns(run.end), job_id=run.job.number, uid=program.uid, nprocs=program.nprocs,
            observed_seconds=repr(run.io_seconds), alone_seconds=repr(parts[0]), incidents_seconds=repr(parts[1]),
            others_seconds=repr(parts[2]), own_seconds=repr(parts[3]), change=program.change,
            read_bytes=moved if program.reads else 0, write_bytes=0 if program.reads else moved,
            cached_bytes=run.cached_bytes, darshan=run.job.darshan,
            details={"class": program.kind, "incidents": by_incident, "instance": run.instance, "noise": run.noise,
                     "hidden": run.hidden, "size": run.size, "filesystem": filesystem},
        )  # fmt: skip

    def close(self) -> None:
        import duckdb

        self._file.close()
        kinds = ", ".join(f"'{name}': '{kind}'" for name, kind in COLUMNS.items())
        with duckdb.connect(":memory:", config={"threads": "1"}) as con:
            con.execute(
                f"COPY (SELECT * FROM read_csv('{self._draft}', header = true, columns = {{{kinds}}})) "
                f"TO '{self._path}' (FORMAT parquet, COMPRESSION zstd)"
            )
        self._draft.unlink()


def flow_parts(flow: Any) -> tuple[float, float, float, float]:
    """(alone, incidents, others, own change) of one phase; they add up to what it took.

    What incidents and others do only together is divided evenly (Shapley). The change comes last: it is what the run
    lost in the state in which the facility was.
    """
    alone, incidents, others, both = (
        flow.alone_seconds,
        flow.with_incidents_seconds,
        flow.with_others_seconds,
        flow.usual_seconds,
    )
    by_incidents = 0.5 * ((incidents - alone) + (both - others))
    by_others = 0.5 * ((others - alone) + (both - incidents))
    return alone, by_incidents, by_others, flow.seconds - both


def run_parts(run: Run) -> tuple[float, float, float, float]:
    parts = [flow_parts(phase.flow) for phase in run.phases]
    alone, incidents, others, own = (sum(part[i] for part in parts) for i in range(4))
    return alone, incidents, others, own
