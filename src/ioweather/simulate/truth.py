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

from ioweather.simulate.incidents import Incident, divided
from ioweather.simulate.resources import Calendar
from ioweather.simulate.runs import Run

COLUMNS = {
    "kind": "VARCHAR", "id": "VARCHAR", "name": "VARCHAR", "start_ns": "BIGINT", "end_ns": "BIGINT",
    "job_id": "BIGINT", "uid": "BIGINT", "nprocs": "BIGINT", "component": "VARCHAR", "strength": "DOUBLE",
    "observed_seconds": "DOUBLE", "alone_seconds": "DOUBLE", "incidents_seconds": "DOUBLE", "others_seconds": "DOUBLE",
    "own_seconds": "DOUBLE", "change": "VARCHAR", "read_bytes": "BIGINT", "write_bytes": "BIGINT",
    "cached_bytes": "BIGINT", "darshan": "BOOLEAN", "value": "DOUBLE", "details": "VARCHAR",
}  # fmt: skip


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
        flow.alone_seconds, flow.with_incidents_seconds, flow.with_others_seconds, flow.usual_seconds,
    )  # fmt: skip
    by_incidents = 0.5 * ((incidents - alone) + (both - others))
    by_others = 0.5 * ((others - alone) + (both - incidents))
    return alone, by_incidents, by_others, flow.seconds - both


def run_parts(run: Run) -> tuple[float, float, float, float]:
    parts = [flow_parts(phase.flow) for phase in run.phases]
    alone, incidents, others, own = (sum(part[i] for part in parts) for i in range(4))
    return alone, incidents, others, own
