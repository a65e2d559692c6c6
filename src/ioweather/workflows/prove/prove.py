"""The proof from end to end: answers against what was planted, which is kept apart until these are given.

One row for each cause and each sense, and what is wrong.

A cause counts where it was felt: the run took longer than runs with nothing planted by h = max(15%, 2 MAD), as the
verdict has it. Where nothing was planted and a run was slow all the same, somebody else used the storage: it counts
only if the verdict accuses.
"""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal

import numpy as np

from ioweather.advice.verdict.posterior import HARM_MADS, HARM_SHARE
from ioweather.core.errors import DataUnavailable
from ioweather.core.outcomes import StorageOutcome
from ioweather.core.progress import Progress, silent
from ioweather.core.run_outcomes import JobOutcome, Reason, VerdictKind, WhyOutcome
from ioweather.core.units import format_bytes
from ioweather.store import layout
from ioweather.store.lake import Lake, open_lake
from ioweather.studies.weather.now import SLOW
from ioweather.workflows.ask import ask
from ioweather.workflows.ingest.ingest import ingest
from ioweather.workflows.prove.ground import COMPETITOR_MOST_BYTES, COMPETITORS, MOST_BYTES
from ioweather.workflows.prove.measure import FILESYSTEM, Evidence, Stretch, measure
from ioweather.workflows.prove.plan import EXPECTED, Cause, ProbeSaid, shuffled

# What ioweather says of what was measured: by the lake and the questions that a person asks, and nothing else.

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


Sense = Literal["verdict", "advice", "probe"]
State = Literal["right", "wrong", "not felt", "no samples"]
VERDICTS: Final = ("normal", "you", "system", "both", "unexplained", "unknown")
ADVICE: Final = ("small requests", "many files", "neither")
PROBE: Final = ("as usual", "slower", "silent")
COLUMNS: Final[Mapping[Sense, tuple[str, ...]]] = {"verdict": VERDICTS, "advice": ADVICE, "probe": PROBE}
_ACCUSES: Final = ("you", "both")
_OWN: Final = (Cause.SMALL_REQUESTS, Cause.MANY_FILES)
_SLOWS: Final = (*_OWN, Cause.COMPETITOR)
# Of a competitor the probe must show what doubled a run's I/O time.
_PLAIN_SLOWDOWN: Final = 1.0
_LEAST_SEEN_SHARE: Final = 0.9
# One slow run may be chance.
_LEAST_COUNTED: Final = 2


@dataclass(frozen=True)
class Row:
    """`answered` counts all runs, `right` and `counted` those in which the cause was felt and nothing else was."""

    sense: Sense
    planted: Cause
    runs: int
    answered: Mapping[str, int]
    counted: int
    right: int
    accused: int
    state: State

    @property
    def right_is_normal(self) -> bool:
        return self.planted not in _SLOWS


@dataclass(frozen=True)
class Proof:
    """`wrong` says in words what is wrong; none: all that was felt was answered right."""

    rows: tuple[Row, ...]
    wrong: tuple[str, ...]


def compare(planted: Sequence[Cause], answers: Answers, written_bytes: int, *, has_devices: bool) -> Proof:
    pairs = list(zip(planted, answers.said, strict=True))
    usual, harm = _usual([said for cause, said in pairs if cause not in _SLOWS])
    slower = [((said.io_seconds or 0.0) - usual, cause, said) for cause, said in pairs]
    rows = tuple(
        row
        for cause in EXPECTED
        for row in _rows(cause, [(extra, said) for extra, each, said in slower if each is cause], usual, harm)
    )
    order = list(COLUMNS)
    rows = tuple(sorted(_untouched_together(rows), key=lambda row: order.index(row.sense)))
    return Proof(rows, (*_wrong_rows(rows), *_wrong_bytes(answers, written_bytes, has_devices=has_devices)))


def _usual(said: Sequence[Said]) -> tuple[float, float]:
    seconds = np.array([each.io_seconds or 0.0 for each in said])
    usual = float(np.median(seconds))
    return usual, max(HARM_SHARE * usual, HARM_MADS * float(np.median(np.abs(seconds - usual))))


def _rows(cause: Cause, runs: Sequence[tuple[float, Said]], usual: float, harm: float) -> Iterator[Row]:
    expected = EXPECTED[cause]
    felt = [said for extra, said in runs if (extra >= harm) == (cause in _SLOWS)]
    every = [said for _, said in runs]
    accused = sum(said.verdict in _ACCUSES for said in every) if cause not in _OWN else 0
    right = sum(said.verdict == expected.verdict for said in felt)
    untold = sum(said.reason is Reason.NO_SYSTEM_DATA for said in felt)
    state = _state(right, len(felt), untold) if not accused else "wrong"
    answered = Counter(str(said.verdict) for said in every)
    yield Row("verdict", cause, len(runs), answered, len(felt), right, accused, state)
    advised = Counter(map(advice_of, every))
    right = advised[str(cause) if cause in _OWN else "neither"]
    yield Row("advice", cause, len(runs), advised, len(runs), right, 0, _state(right, len(runs)))
    if expected.probe is None:
        return
    if cause is Cause.COMPETITOR:
        felt = [said for extra, said in runs if extra >= max(harm, _PLAIN_SLOWDOWN * usual)]
    elif cause is Cause.STOPPED_PROBE:
        felt = every
    right = sum(said.probe == expected.probe for said in felt)
    probed = Counter(str(said.probe) for said in every)
    yield Row("probe", cause, len(runs), probed, len(felt), right, 0, _state(right, len(felt)))


def _untouched_together(rows: Sequence[Row]) -> Iterator[Row]:
    """To the verdict a stopped probe is nothing: of runs that nothing was done to, most must be normal."""
    same = [row for row in rows if row.sense == "verdict" and row.right_is_normal and row.state != "no samples"]
    state = _state(sum(row.right for row in same), sum(row.counted for row in same))
    for row in rows:
        yield replace(row, state=state) if row in same and not row.accused else row


def _state(right: int, counted: int, untold: int = 0) -> State:
    """Most must be right: of real runs some are disturbed by what nobody planted."""
    if counted < _LEAST_COUNTED:
        return "not felt"
    if 2 * right > counted:
        return "right"
    return "no samples" if untold == counted else "wrong"


def advice_of(said: Said) -> str:
    """Small files are read and written in small requests too, so files come first."""
    for cause in (Cause.MANY_FILES, Cause.SMALL_REQUESTS):
        if EXPECTED[cause].advice.intersection(said.patterns):
            return str(cause)
    return "neither"


def _wrong_rows(rows: Sequence[Row]) -> Iterator[str]:
    for row in rows:
        if row.accused:
            yield f"{row.sense}: of {row.runs} runs with {row.planted} planted {row.accused} were accused."
        elif row.state == "wrong":
            yield f"{row.sense}: {row.planted} was answered right {row.right} of {row.counted} times."
    if all(row.state == "not felt" for row in rows if row.sense == "verdict" and row.planted in _SLOWS):
        yield "verdict: nothing that was planted was felt here; the proof says nothing of slow runs."


def _wrong_bytes(answers: Answers, written_bytes: int, *, has_devices: bool) -> Iterator[str]:
    if answers.run_bytes != written_bytes:
        said, true = format_bytes(answers.run_bytes), format_bytes(written_bytes)
        yield f"logs: {said} are in the logs, {true} were written."
    if has_devices and (answers.device_bytes or 0.0) < _LEAST_SEEN_SHARE * written_bytes:
        said, true = format_bytes(answers.device_bytes or 0.0), format_bytes(written_bytes)
        yield f"devices: {said} were counted, and runs wrote {true}."


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
