"""What ioweather says of what was measured: by the lake and the questions that a person asks, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from ioweather.core.errors import DataUnavailable
from ioweather.core.outcomes import JobOutcome, Reason, StorageOutcome, VerdictKind, WhyOutcome
from ioweather.core.progress import Progress
from ioweather.store import layout
from ioweather.store.lake import Lake, open_lake
from ioweather.studies.weather.now import SLOW
from ioweather.workflows.ask import ask
from ioweather.workflows.ingest.ingest import ingest
from ioweather.workflows.prove.measure import FILESYSTEM, Evidence, Stretch
from ioweather.workflows.prove.plan import ProbeSaid

# Operations of the probe that reach storage.
_DATA: Final = ("read", "write_sync")
# Of its ticks in a stretch: with so few answered, it told nothing of it.
_SILENT_SHARE: Final = 0.5


@dataclass(frozen=True)
class Said:
    """Of one run and its stretch of time. `patterns` are those that `job` saw, the costliest first; `probe_factor` is
    how many times longer the probe's operations took than usual."""

    verdict: VerdictKind
    reason: Reason | None
    probability: float | None
    io_seconds: float | None
    patterns: tuple[str, ...]
    probe: ProbeSaid
    probe_factor: float | None


@dataclass(frozen=True)
class Answers:
    """`device_bytes` went to the devices meanwhile (`storage`), `run_bytes` were written by the runs (`job`)."""

    said: tuple[Said, ...]
    device_bytes: float | None
    run_bytes: int


def read_in(evidence: Evidence, root: Path, progress: Progress) -> Lake:
    """The logs and spools in a lake of their own."""
    progress(0, None, "reading what was measured")
    root.mkdir()
    layout.facility_file(root).write_text(evidence.facility_toml)
    lake = open_lake(root, create=True)
    logs = [stretch.log for stretch in evidence.stretches]
    ingest(lake, [*logs, *(spool / "segments" for spool in evidence.spools)])
    return lake


def answers(lake: Lake, stretches: Sequence[Stretch], progress: Progress) -> Answers:
    probed = _probed(lake, stretches)
    said, run_bytes = [], 0
    for number, (stretch, (probe, factor)) in enumerate(zip(stretches, probed, strict=True)):
        progress(number, len(stretches), "verdicts")
        why, job = (
            ask("why", lake, {"job": str(stretch.log)}).result,
            ask("job", lake, {"job": str(stretch.log)}).result,
        )
        assert isinstance(why, WhyOutcome)
        assert isinstance(job, JobOutcome)
        run_bytes += job.write_bytes
        patterns = tuple(item.name for item in job.seen)
        said.append(Said(why.kind, why.reason, why.probability, why.io_seconds, patterns, probe, factor))
    return Answers(tuple(said), _device_bytes(lake), run_bytes)


def _device_bytes(lake: Lake) -> float | None:
    try:
        found = ask("storage", lake, {"where": FILESYSTEM}).result
    except DataUnavailable:
        return None
    assert isinstance(found, StorageOutcome)
    return sum(state.write_bytes for state in found.filesystems)


def _probed(lake: Lake, stretches: Sequence[Stretch]) -> list[tuple[ProbeSaid, float | None]]:
    """By the rows that the probe left in the lake: against the median over all stretches."""
    with lake.snapshot() as snapshot:
        rows = snapshot.query(
            f"SELECT op, status, start_ns, duration_ns FROM responses WHERE op IN {_DATA} ORDER BY start_ns"
        ).fetchall()
    op, status = (np.array([row[i] for row in rows], dtype=str) for i in (0, 1))
    start = np.array([row[2] for row in rows], np.int64)
    took = np.array([row[3] if row[3] is not None else np.nan for row in rows], np.float64)
    fine = (status == "ok") & np.isfinite(took)
    usual = {name: float(np.median(took[fine & (op == name)])) for name in _DATA if (fine & (op == name)).any()}
    found: list[tuple[ProbeSaid, float | None]] = []
    for stretch in stretches:
        inside = (start >= stretch.start_ns) & (start < stretch.end_ns)
        answered = inside & fine
        if not inside.any() or answered.sum() < _SILENT_SHARE * inside.sum():
            found.append(("silent", None))
            continue
        medians = [
            float(np.median(took[answered & (op == name)])) / each
            for name, each in usual.items()
            if (answered & (op == name)).any()
        ]
        factor = max(medians)
        found.append(("slower" if factor >= SLOW else "as usual", factor))
    return found
