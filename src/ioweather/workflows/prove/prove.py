"""The proof from end to end. What was planted is kept apart from the answers until these are given."""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from ioweather.core.progress import Progress, silent
from ioweather.workflows.prove.answers import Answers, answers, read_in
from ioweather.workflows.prove.ground import COMPETITOR_MOST_BYTES, COMPETITORS, MOST_BYTES
from ioweather.workflows.prove.matrix import Proof, compare
from ioweather.workflows.prove.measure import Evidence, measure
from ioweather.workflows.prove.plan import EXPECTED, Cause, shuffled

# What is written at most, most of it again and again to the same places.
MOST_WRITTEN_BYTES = (
    sum(expected.times for expected in EXPECTED.values()) * MOST_BYTES
    + EXPECTED[Cause.COMPETITOR].times * COMPETITORS * COMPETITOR_MOST_BYTES
)


@dataclass(frozen=True)
class Answered:
    """`answers` are given; `reveal` says what was planted, and compares."""

    answers: Answers
    evidence: Evidence
    seconds: float
    _planted: tuple[Cause, ...]

    def reveal(self) -> tuple[tuple[Cause, ...], Proof]:
        written = self.evidence.written_bytes
        return self._planted, compare(self._planted, self.answers, written, has_devices=bool(self.evidence.devices))


def prove(target: Path, *, seed: int | None = None, progress: Progress = silent) -> Answered:
    """Plant, measure, ask. Below `target` nothing is left; logs, samples and lake are temporary too."""
    began = time.monotonic()
    planted = shuffled(seed)
    with tempfile.TemporaryDirectory(prefix="ioweather-prove-") as name:
        kept = Path(name)
        evidence = measure(target.resolve(), kept, planted, progress)
        lake = read_in(evidence, kept / "lake", progress)
        said = answers(lake, evidence.stretches, progress)
    return Answered(said, evidence, time.monotonic() - began, planted)
