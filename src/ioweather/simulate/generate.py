"""Make a simulated facility: a directory of files as real tools write them, and the planted truth."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeAlias

import duckdb
import numpy as np

from ioweather._version import __version__
from ioweather.core.errors import UsageError
from ioweather.core.logs import Progress, silent
from ioweather.core.safe_files import write_whole
from ioweather.core.units import pairs_of
from ioweather.simulate.darshan_logs import write_run
from ioweather.simulate.facility_files import (
    Content,
    facility_toml,
    make_contents,
    observe,
    resample,
    window_responses,
    with_slow_service,
    write_accounts,
    write_iostat,
    write_listing,
    write_result,
    write_segments,
    write_tokio,
)
from ioweather.simulate.fluid import Calendar, Flow, Incident, divide_loss
from ioweather.simulate.presets import Preset
from ioweather.simulate.world import BENCHMARK_PHASES, DAY_SECONDS, Job, Run, Window, World

COLUMNS = pairs_of("""
    kind=VARCHAR id=VARCHAR name=VARCHAR start_ns=BIGINT end_ns=BIGINT job_id=BIGINT uid=BIGINT nprocs=BIGINT
    component=VARCHAR strength=DOUBLE observed_seconds=DOUBLE alone_seconds=DOUBLE incidents_seconds=DOUBLE
    others_seconds=DOUBLE own_seconds=DOUBLE change=VARCHAR read_bytes=BIGINT write_bytes=BIGINT cached_bytes=BIGINT
    darshan=BOOLEAN value=DOUBLE details=VARCHAR
""")
_PARTS = ("alone_seconds", "incidents_seconds", "others_seconds", "own_seconds")


class TruthWriter:
    """Writes rows to a text file, which becomes Parquet at the end, so that memory does not grow with time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._draft = path.with_suffix(".draft.ndjson")
        self._file = self._draft.open("w", encoding="utf-8")

    def add(self, kind: str, *, details: Mapping[str, Any] | None = None, **values: Any) -> None:
        """Add a row. Values are those of `COLUMNS`; `details` are stored as JSON."""
        text = None if details is None else json.dumps(details, sort_keys=True)
        self._file.write(json.dumps({"kind": kind, **values, "details": text}) + "\n")

    def add_run(self, run: Run, incidents: Sequence[Incident], calendar: Calendar, filesystem: str) -> None:
        """Add the row of a run, with the causes of its time."""
        by_incident: dict[str, float] = {}
        for phase in run.phases:
            flow = phase.flow
            used = flow.pattern.demand + (flow.normal.demand if flow.normal is not None else 0.0)
            for name, seconds in divide_loss(flow_parts(flow)[1], flow.start, flow.end, used, incidents).items():
                by_incident[name] = by_incident.get(name, 0.0) + seconds
        program = run.program
        moved = program.step_bytes * program.steps
        self.add(
            "run",
            id=run.id,
            name=run.usual.name,
            **_period(calendar, run),
            job_id=run.job.number,
            uid=program.uid,
            nprocs=program.nprocs,
            observed_seconds=run.io_seconds,
            **dict(zip(_PARTS, run_parts(run), strict=True)),
            change=program.change,
            read_bytes=moved if program.reads else 0,
            write_bytes=0 if program.reads else moved,
            cached_bytes=run.cached_bytes,
            darshan=run.job.darshan,
            details={
                "class": program.kind,
                "incidents": by_incident,
                "filesystem": filesystem,
                **{name: getattr(run, name) for name in ("instance", "noise", "hidden", "size")},
            },
        )

    def close(self) -> None:
        """Write the Parquet file."""
        self._file.close()
        kinds = ", ".join(f"'{name}': '{kind}'" for name, kind in COLUMNS.items())
        with duckdb.connect(":memory:", config={"threads": "1"}) as con:
            con.execute(
                f"COPY (SELECT * FROM read_json('{self._draft}', format = 'nd', columns = {{{kinds}}})) "
                f"TO '{self._path}' (FORMAT parquet, COMPRESSION zstd)"
            )
        self._draft.unlink()


def _period(calendar: Calendar, what: Run | Incident | Flow) -> dict[str, Any]:
    """Return the columns of the time of a run, incident or flow."""
    return {"start_ns": calendar.epoch_ns(what.start), "end_ns": calendar.epoch_ns(what.end)}


def flow_parts(flow: Flow) -> tuple[float, float, float, float]:
    """Return seconds (alone, incidents, others, own change) of one phase; they sum to its duration.

    The interaction of incidents and others is divided evenly (Shapley). The change comes last: it is the loss in the
    given state of the facility.
    """
    alone, both = flow.alone_seconds, flow.usual_seconds
    incidents, others = flow.with_incidents_seconds, flow.with_others_seconds
    by_incidents = 0.5 * ((incidents - alone) + (both - others))
    by_others = 0.5 * ((others - alone) + (both - incidents))
    return alone, by_incidents, by_others, flow.seconds - both


def run_parts(run: Run) -> tuple[float, float, float, float]:
    """Return seconds (alone, incidents, others, own change) of a run."""
    alone, incidents, others, own = (sum(flow_parts(phase.flow)[part] for phase in run.phases) for part in range(4))
    return alone, incidents, others, own


Watch: TypeAlias = Callable[[World, Path, TruthWriter], Callable[[Window], None]]
MANIFEST = "manifest.json"
_BEGUN = ".begun"
# Distance of the seeds of a facility's file systems.
_SEEDS_APART = 1_000_000


@dataclass(frozen=True)
class Generated:
    """A simulated facility on disk."""

    out: Path
    preset: str
    seed: int
    days: int
    jobs: int
    runs: int
    logs: int
    scans: dict[str, int]  # list of files -> when it was made, ns

    @property
    def data(self) -> Path:
        return self.out / "data"

    @property
    def truth(self) -> Path:
        return self.out / "truth.parquet"

    @property
    def facility(self) -> Path:
        return self.out / "facility.toml"


def generate(
    preset: Preset, out: Path, *, seed: int = 1, progress: Progress = silent, watch: Watch | None = None
) -> Generated:
    """Make the facility. Only a directory that was made so before, or an empty one, is written to.

    `watch` is called with each file system, its directory and the truth before it runs, and what it returns after each
    day: benchmarks add there what only they need.
    """
    # Create the output directory, or DELETE the contents of one that `generate` made; refuse any other with files.
    markers = [out / MANIFEST, out / _BEGUN]
    if out.exists() and any(out.iterdir()) and not any(marker.exists() for marker in markers):
        raise UsageError(f"{out} is not empty.", hint="Use a new directory with --out.")
    out.mkdir(parents=True, exist_ok=True)
    (out / _BEGUN).touch()  # removed at the end; after a kill it marks the directory as safe to clear
    for entry in out.iterdir():
        if entry.is_dir():
            shutil.rmtree(entry)
        elif entry.name != _BEGUN:
            entry.unlink()
    (out / "data").mkdir()
    (out / "scans").mkdir()
    truth = TruthWriter(out / "truth.parquet")
    worlds = [World(part, seed + place * _SEEDS_APART) for place, part in enumerate(preset.filesystems)]
    text = facility_toml(preset, [world.resources for world in worlds])
    (out / "facility.toml").write_text(text, encoding="utf-8")
    contents = make_contents(preset, worlds[0].programs, seed)
    made = []
    for place, world in enumerate(worlds):
        data, stored = out / "data" / (world.preset.fsname if place else ""), None if place else contents
        made.append(_write_filesystem(world, data, preset.fsname, truth, stored, progress, watch))
    truth.close()
    scans, calendar = {}, worlds[0].calendar
    for name, content, day in zip(("before.txt", "after.txt"), contents, (0, preset.days), strict=True):
        write_listing(out / "scans" / name, content, calendar, f"/{preset.fsname}")
        scans[name] = calendar.epoch_ns(day * float(DAY_SECONDS))
    jobs, runs, logs = (sum(counts) for counts in zip(*made, strict=True))
    found = Generated(out, preset.name, seed, preset.days, jobs, runs, logs, scans)
    body = {**{k: v for k, v in asdict(found).items() if k != "out"}, "software_version": __version__}
    write_whole(out / MANIFEST, json.dumps(body, indent=1).encode())
    (out / _BEGUN).unlink()
    return found


def _write_filesystem(
    world: World,
    data: Path,
    cluster: str,
    truth: TruthWriter,
    contents: tuple[Content, Content] | None,
    progress: Progress,
    watch: Watch | None,
) -> tuple[int, int, int]:
    """Write the files and the truth of one file system; return the numbers of jobs, runs and logs.

    The benchmark runs on the first one, which has `contents`; it counts if it ran to its end."""
    preset, seed, calendar, resources = world.preset, world.seed, world.calendar, world.resources
    stored = contents or make_contents(preset, world.programs, seed)
    add_day = watch(world, data, truth) if watch else None
    # The stretch of what each incident concerns, summed over the steps: a slow target that is not used harms no run.
    felt = {incident.id: (np.zeros(len(incident.columns)), 0) for incident in world.incidents}
    jobs: list[Job] = []
    runs = logs = 0
    data.mkdir(exist_ok=True)
    for window in world.windows():
        met = window.readings
        observed = observe(met, preset, resources, world.incidents, seed)
        for incident in world.incidents:
            during = np.flatnonzero((met.times >= incident.start) & (met.times < incident.end))
            if len(during):
                total, steps = felt[incident.id]
                total = total + met.stretch[np.ix_(during, np.array(incident.columns))].sum(axis=0)
                felt[incident.id] = (total, steps + len(during))
        if preset.monitored:
            before, after = (float(content.files["size"].sum()) for content in stored)
            used_bytes = before + (after - before) * met.day / preset.days
            write_tokio(data / "servers", resample(observed, preset.step_seconds), used_bytes, resources, calendar)
            served = with_slow_service(met, resources, world.incidents) if preset.slow_service else met
            responses = window_responses(served, preset, resources, seed)
            write_segments(data / "spool", responses, calendar, met.day, f"mount:/{preset.fsname}")
        for run in window.runs:
            runs += 1
            truth.add_run(run, world.incidents, calendar, preset.fsname)
            if run.job.darshan:
                logs += 1
                write_run(data / "darshan", run, resources, calendar, seed)
        if add_day is not None:
            add_day(window)
        if met.day == preset.detail_day:
            write_iostat(data / "detail", resample(observed, 60), resources, calendar)
        jobs += window.jobs
        progress(met.day + 1, preset.days, "days")
    write_accounts(data / "sacct.txt", preset, cluster, calendar, [*jobs, *world.open_jobs()])
    for incident in world.incidents:
        total, steps = felt[incident.id]
        truth.add(
            "incident",
            id=incident.id,
            name=incident.kind,
            **_period(calendar, incident),
            component=incident.component,
            strength=incident.strength,
            # The mean stretch of the most affected component.
            value=float(total.max() / steps) if steps else None,
        )
    flows = world.benchmark
    if contents is None or len(flows) < len(BENCHMARK_PHASES) or flows[-1].end == 0:
        return len(jobs), runs, logs
    speeds = write_result(data / "io500" / "result.txt", flows, resources, calendar)
    for (name, *_), flow in zip(BENCHMARK_PHASES, flows, strict=True):
        truth.add(
            "benchmark",
            id=name,
            name=name,
            **_period(calendar, flow),
            value=speeds[name],
            observed_seconds=flow.seconds,
            alone_seconds=flow.alone_seconds,
            details={"free_seconds": flow.pattern.seconds},
        )
    return len(jobs), runs, logs


def read_manifest(out: Path) -> Generated:
    """Return the facility in a directory."""
    try:
        body = json.loads((out / MANIFEST).read_text(encoding="utf-8"))
        body.pop("software_version")
        body.pop("zone", None)  # of versions up to 0.2.0
        return Generated(out=out, **body)
    except (OSError, ValueError, TypeError, KeyError):
        raise UsageError(
            f"{out} is not a simulated facility.", hint=f"Create one: ioweather simulate --preset laptop --out {out}"
        ) from None
