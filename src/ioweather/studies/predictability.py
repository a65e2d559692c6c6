"""`predictability`: how well any model can predict the I/O time of a run here (after Isakov et al., SC'22).

Equal runs move the same bytes in the same requests. They differ by the state of the system at the time, and by noise.
Runs whose I/O began at about the same time met about the same state, and where they were fast it hardly delayed them:
what is left is noise, which no model of the system can explain.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from ioweather.core.contracts import Params, Question
from ioweather.core.frames import Floats, Frame, Ints
from ioweather.core.results import Amount, Answer, Coverage, Fact, FactGroup, Finding
from ioweather.core.units import MINUTE_NS, format_value
from ioweather.facts.runs import fetch_runs, group_runs, instances_of, program_names
from ioweather.topics.source import DataSource


@dataclass(frozen=True)
class PredictabilityOutcome:
    """Shares by which 68% and 95% of equal runs differ at most: `noise_` of those that ran at the same quiet time,
    `spread_` whenever they ran. `moment_ratio` is what of the variance goes away for runs at the same time."""

    equal_count: int
    set_count: int
    together_count: int
    together_set_count: int
    noise_68: Amount
    noise_95: Amount
    spread_68: Amount
    spread_95: Amount
    moment_ratio: float | None


QUANTILES: Final = (0.68, 0.95)
# [ours] Fewer minutes leave few runs. In as many, others come and go: that shows less in the fastest third.
SAME_TIME_NS: Final = 20 * MINUTE_NS
QUIET: Final = 1 / 3
_REQUESTS: Final = ("read_count", "write_count", "common_access_bytes", "io_rank_count")
LEVEL: Final = 0.9
_REPLICATES: Final = 400
# Fewer sets than these have no interval worth the name. [ours]
LEAST_SETS: Final = 5


def deviations(seconds: Floats, of_set: Ints) -> list[Floats]:
    """Return by set the logarithms of each run's time over the mean of its set.

    They are stretched by sqrt(n / (n - 1)), because a mean of few is near to each of them. Sets of one run, and runs
    with a negative set, are left out.
    """
    known = (of_set >= 0) & np.isfinite(seconds) & (seconds > 0)
    logs, sets = np.log(seconds[known]), of_set[known]
    order = np.argsort(sets, kind="stable")
    parts = np.split(logs[order], np.flatnonzero(np.diff(sets[order])) + 1)
    return [(part - part.mean()) * math.sqrt(len(part) / (len(part) - 1)) for part in parts if len(part) > 1]


def equal_runs(runs: Frame) -> Ints:
    """Return the set of each run: equal exact group (mad17), program, requests, their size, and ranks that moved
    data."""
    _, program = np.unique(program_names(runs), return_inverse=True)
    counts = [np.ma.filled(np.ma.masked_array(runs.array(name)), -1) for name in _REQUESTS]
    keys = np.stack([group_runs(runs, "exact").of_run, program, *counts], axis=1)
    return np.asarray(np.unique(keys, axis=0, return_inverse=True)[1], np.int64).reshape(-1)


def at_the_same_time(group: Ints, began_ns: Ints) -> Ints:
    """Return sets of runs of one group whose I/O began within SAME_TIME_NS of that of the first of them."""
    found = np.full(len(group), -1, np.int64)
    number, first, current = -1, 0, -1
    for row in np.lexsort((began_ns, group)).tolist():
        if group[row] != current or began_ns[row] - first > SAME_TIME_NS:
            number, current, first = number + 1, int(group[row]), int(began_ns[row])
        found[row] = number
    return found


def while_quiet(seconds: Floats, group: Ints, of_set: Ints) -> Ints:
    """Return `of_set`, -1 for runs of sets whose mean time is not in the fastest third of their group.

    Selecting sets by their mean does not bias the spread within them.
    """
    logs, found = np.log(seconds), of_set.copy()
    mean = np.bincount(of_set, logs) / np.maximum(np.bincount(of_set), 1) if len(logs) else logs
    for each in np.unique(group):
        rows = np.flatnonzero(group == each)
        found[rows[mean[of_set[rows]] > np.quantile(logs[rows], QUIET)]] = -1
    return found


def spread(sets: list[Floats], quantile: float) -> Amount:
    """Return by what ratio this quantile of runs differs at most, with an interval over sets; 0.06 is 6% more or less.

    Nothing for fewer than LEAST_SETS sets.
    """
    if len(sets) < LEAST_SETS:
        return Amount(None)
    sizes, rng = [np.abs(each) for each in sets], np.random.default_rng(1)
    drawn = (rng.integers(0, len(sizes), len(sizes)) for _ in range(_REPLICATES))
    again = [float(np.quantile(np.concatenate([sizes[i] for i in rows]), quantile)) for rows in drawn]
    ends = np.quantile(again, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Amount(*np.expm1([float(np.quantile(np.concatenate(sizes), quantile)), *ends]).tolist())


# Isakov et al., SC'22: of equal runs at the same time, 68% lie within.
_PUBLISHED: Final = (("theta", "Theta (ALCF)", 0.057), ("cori", "Cori (NERSC)", 0.072))
_CAVEATS: Final = (
    "Equal runs have the same user, program, processes, files, amount of data and requests. Runs with equal logs "
    "may still differ on disk.",
    "Runs are at the same quiet time if their I/O starts within 20 minutes and their mean I/O time is within the "
    "fastest third of such runs. Other jobs then hardly slow them.",
    "Equal runs at the same time may slow each other. This effect counts as noise here.",
)


def run(source: DataSource, params: Params) -> Answer:
    """Return how much the I/O times of equal runs differ."""
    frames = fetch_runs(source, missing="The lake has no Darshan logs. Ingest some: ioweather ingest LOGS")
    runs = instances_of(frames, source.facility, {}).frame
    seconds = runs.floats("io_seconds")
    moved = (runs.ints("read_bytes") + runs.ints("write_bytes") > 0) & np.isfinite(seconds) & (seconds > 0)
    runs, seconds = runs.take(moved), seconds[moved]
    group = equal_runs(runs) if runs.rows else np.zeros(0, np.int64)
    began = np.ma.masked_array(runs.array("first_open_ns"))
    at_once = at_the_same_time(group, np.where(began.mask, runs.ints("start_ns"), began.data))
    ever, together = deviations(seconds, group), deviations(seconds, while_quiet(seconds, group, at_once))
    (noise, noise_95), (whole, whole_95) = ([spread(sets, q) for q in QUANTILES] for sets in (together, ever))
    runs_ever, runs_together = (sum(map(len, sets)) for sets in (ever, together))
    ratio = None  # what of the variance of equal runs goes away when they run at the same time
    if noise.value is not None and whole.value is not None and whole.value > 0:
        ratio = float(np.clip(1.0 - (np.log1p(noise.value) / np.log1p(whole.value)) ** 2, 0.0, 1.0))
    differ, differ_ever = (format_value(each.value, "ratio") for each in (noise, whole))
    headline = (
        f"At the same quiet time, 68% of equal runs differ by at most {differ}; no forecast can be more accurate. At "
        f"any time, they differ by {differ_ever}."
    )
    if whole.value is None:
        headline = "Too few equal runs to estimate how predictable they are."
    elif noise.value is None:
        few = "too few ran at the same quiet time to estimate the noise"
        headline = f"68% of equal runs differ by at most {differ_ever}; {few}."
    finding = Finding("These runs do not show that start time matters.", "undecided", name="time_matters")
    if noise.value is None:
        words = f"Needs {LEAST_SETS} sets of equal runs at the same quiet time, but the lake has only {len(together)}."
        finding = Finding(words, "undecided", name="few_at_the_same_time")
    elif whole.low is not None and noise.high is not None and noise.high < whole.low:
        finding = Finding("Start time matters more than expected by chance.", name="time_matters")
    groups = []
    for name, title, count, sets, amounts in (
        ("at_the_same_time", "at the same quiet time: noise", runs_together, together, (noise, noise_95)),
        ("ever", ", at any time", runs_ever, ever, (whole, whole_95)),
    ):
        facts = [
            Fact(f"within_{percent}", f"{percent}% differ by at most", amount.value, "ratio", note=between)
            for percent, amount in zip((68, 95), amounts, strict=True)
            if amount.value is not None
            for between in [" to ".join(format_value(end, "ratio") for end in (amount.low, amount.high))]
        ]
        if facts:
            of = f"Equal runs {title}".replace(" ,", ",")
            groups.append(FactGroup(name, f"{of} ({count:,} runs in {len(sets):,} sets)", tuple(facts)))
    if ratio is not None:
        share = Fact("moment", "the system state at that time, at most", ratio, "ratio")
        rest = Fact("nothing", "noise", 1.0 - ratio, "ratio")
        groups.append(
            FactGroup("explained", "Causes of differences between equal runs (share of variance)", (share, rest))
        )
    published = tuple(Fact(name, label, value, "ratio") for name, label, value in _PUBLISHED)
    groups.append(
        FactGroup("published", "for comparison: 68% of identical concurrent runs at another site (SC'22)", published)
    )
    counts = (runs_ever, len(ever), runs_together, len(together))
    return Answer(
        question="How predictable is the I/O time of a run here?",
        headline=headline,
        facts=tuple(groups),
        findings=(finding,),
        caveats=_CAVEATS,
        coverage=(Coverage(len(moved), runs_ever, "runs with an equal run"),),
        name="predictability",
        result=PredictabilityOutcome(*counts, noise, noise_95, whole, whole_95, ratio),
    )


QUESTION = Question(
    name="predictability",
    result=PredictabilityOutcome,
    run=run,
    tables=frozenset({"applications", "job_io", "jobs"}),
    params=(),
    help="""Show how predictable the I/O time of a run is here.

    Equal runs differ because of the system state and because of noise. Equal runs at the same quiet time show only the
    noise.""",
    epilog="Example: ioweather show predictability --from 2026-01-01",
    seen_by="public",
)
