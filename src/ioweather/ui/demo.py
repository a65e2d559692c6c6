"""The demonstration: a small simulated facility, read through the normal door into its own lake, and a tour of it."""

from __future__ import annotations

import datetime as dt
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from ioweather.core.errors import UsageError
from ioweather.core.outcomes import WhyOutcome
from ioweather.core.progress import Progress, silent
from ioweather.core.results import Answer
from ioweather.core.units import NS
from ioweather.lake import layout
from ioweather.lake.lake import Lake, open_lake
from ioweather.simulate.generate import generate
from ioweather.simulate.ingest_simulated import ingest_simulated
from ioweather.simulate.presets import LAPTOP
from ioweather.topics.ask import ask

_SEED = 1
_LIKE_RUNS = 12
# The same week once: the copies of a day in other formats, and most of the probes, only cost time here.
PRESET = replace(LAPTOP, detail_day=None, probe_seconds=600, sampler_seconds=3600, scan_files=1500)


@dataclass(frozen=True)
class Demo:
    lake: Path
    days: int
    servers: int


def make_demo(out: Path | None = None, *, progress: Progress = silent) -> Demo:
    """Made again each time; only a lake that is itself simulated is overwritten."""
    root = out or layout.default_lake_dir().with_name("demo")
    if layout.is_lake(root) and not open_lake(root).facility.simulated:
        raise UsageError(f"{root} is a real lake.", hint="Name another place with --out.")
    with tempfile.TemporaryDirectory(prefix="ioweather-demo-") as folder:
        made = generate(PRESET, Path(folder) / "facility", seed=_SEED, progress=progress)
        ingest_simulated(made, root, progress=progress)
    return Demo(root, PRESET.days, PRESET.oss_count)


@dataclass(frozen=True)
class Step:
    """What somebody wants to know, the command that tells, and what it answers here."""

    wants: str
    command: str
    answer: Answer


def tour(lake: Lake) -> Iterator[Step]:
    """A slow job, which component is unhealthy, who slowed others, and which program to mend first."""
    found = first_verdict(lake)
    if found is not None:
        job, verdict = found
        yield Step(f"Why was job {job} slow?", f"why {job}", verdict)
    yield Step("Is a server or target unhealthy?", "health", ask("health", lake))
    first = dt.datetime.fromisoformat(f"{PRESET.first_day}T00:00Z")
    last = first + dt.timedelta(PRESET.days)
    period_ns = (int(first.timestamp()) * NS, int(last.timestamp()) * NS)
    command = f"who --from {first:%F} --to {last:%F}"
    yield Step("Who slowed others?", command, ask("who", lake, period_ns=period_ns))
    yield Step("Where does a fix win most?", "triage", ask("triage", lake))


def first_verdict(lake: Lake) -> tuple[str, Answer] | None:
    """Of the jobs whose I/O took longest compared with their like, the first that there is a verdict on."""
    with lake.snapshot() as snapshot:
        if not snapshot.pinned["job_io"].uris:
            return None
        found = snapshot.query(
            f"""
            WITH runs AS (SELECT a.job_id, m.io_seconds, median(m.io_seconds) OVER like_it AS usual,
                                 count(*) OVER like_it AS alike
                          FROM applications a JOIN job_io m USING (log_digest) WHERE m.io_seconds > 0
                          WINDOW like_it AS (PARTITION BY a.uid, a.exe, a.nprocs))
            SELECT job_id FROM runs WHERE alike > {_LIKE_RUNS} ORDER BY io_seconds / usual DESC, job_id LIMIT 5"""
        ).fetchall()
    answers = ((str(job), ask("why", lake, {"job": str(job)})) for (job,) in found)
    return next(((job, answer) for job, answer in answers if _is_known(answer)), None)


def _is_known(answer: Answer) -> bool:
    return isinstance(answer.result, WhyOutcome) and answer.result.kind != "unknown"
