"""`predictability`: how well any model can predict the I/O time of a run here (after Isakov et al., SC'22).

Equal runs move the same bytes in the same requests. They differ by the state of the system at the time, and by noise.
Runs whose I/O began at about the same time met about the same state, and where they were fast it hardly delayed them:
what is left is noise, which no model of the system can explain.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from ioweather.core.arrays import Floats, Ints
from ioweather.core.contracts import Params, Question
from ioweather.core.frames import Frame
from ioweather.core.outcomes import Amount, Outcome
from ioweather.core.results import Answer, Coverage, Fact, FactGroup, Finding
from ioweather.core.units import MINUTE_NS, format_value
from ioweather.facts.runs import NEEDS, group_runs, instances_of, program_names
from ioweather.topics.source import DataSource


@dataclass(frozen=True)
class PredictabilityOutcome(Outcome):
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


@dataclass(frozen=True, eq=False)
class Deviations:
    """Logarithms of each run's time over the mean of its set, stretched as the mean of few is near to
    each of them; `of_set` numbers the sets."""

    values: Floats
    of_set: Ints

    @property
    def sets(self) -> int:
        return int(self.of_set.max(initial=-1)) + 1


@dataclass(frozen=True)
class Spread:
    """Share by which so many of the runs differ at most, with its interval over sets."""

    value: float
    low: float
    high: float


def deviations(seconds: Floats, of_set: Ints) -> Deviations:
    """Of runs in sets of two or more; runs of a negative set belong to none."""
    known = (of_set >= 0) & np.isfinite(seconds) & (seconds > 0)
    _, number, count = np.unique(of_set[known], return_inverse=True, return_counts=True)
    several = count[number] >= 2
    logs, number, size = np.log(seconds[known][several]), number[several], count[number][several]
    _, number = np.unique(number, return_inverse=True)
    mean = np.bincount(number, weights=logs) / np.maximum(np.bincount(number), 1) if len(logs) else np.zeros(0)
    return Deviations((logs - mean[number]) * np.sqrt(size / (size - 1.0)), np.asarray(number, np.int64))


def equal_runs(runs: Frame) -> Ints:
    """The set of each run: mad17's exact group, program, numbers of requests, their size, and ranks that moved data."""
    _, program = np.unique(program_names(runs), return_inverse=True)
    counts = [np.ma.filled(np.ma.masked_array(runs.array(name)), -1) for name in _REQUESTS]
    keys = np.stack([group_runs(runs, "exact").of_run, program, *counts], axis=1)
    return np.asarray(np.unique(keys, axis=0, return_inverse=True)[1], np.int64).reshape(-1)


def at_the_same_time(group: Ints, began_ns: Ints) -> Ints:
    """Sets of runs of one group whose I/O began within SAME_TIME_NS of that of the first of them."""
    order = np.lexsort((began_ns, group))
    found = np.full(len(group), -1, np.int64)
    number, first, current = -1, 0, -1
    for row in order.tolist():
        if group[row] != current or began_ns[row] - first > SAME_TIME_NS:
            number, current, first = number + 1, int(group[row]), int(began_ns[row])
        found[row] = number
    return found


def while_quiet(seconds: Floats, group: Ints, of_set: Ints) -> Ints:
    """The sets whose mean is among the fastest of their group; the others are -1. A set is chosen by its mean, which
    says nothing of how far its runs are from it."""
    logs, found = np.log(seconds), of_set.copy()
    mean = np.bincount(of_set, logs) / np.maximum(np.bincount(of_set), 1) if len(logs) else logs
    for each in np.unique(group):
        rows = np.flatnonzero(group == each)
        found[rows[mean[of_set[rows]] > np.quantile(logs[rows], QUIET)]] = -1
    return found


def spread(found: Deviations, quantile: float) -> Spread:
    """As a share of the time: 0.06 is 6% more, or as much less."""
    sizes = np.abs(found.values)
    rng = np.random.default_rng(1)
    order = np.argsort(found.of_set, kind="stable")
    pieces = np.split(sizes[order], np.cumsum(np.bincount(found.of_set, minlength=found.sets))[:-1])
    drawn = [
        float(np.quantile(np.concatenate([pieces[i] for i in rng.integers(0, len(pieces), len(pieces))]), quantile))
        for _ in range(_REPLICATES)
    ]
    ends = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    value, low, high = np.expm1([float(np.quantile(sizes, quantile)), *ends]).tolist()
    return Spread(value, low, high)


# Isakov et al., SC'22: of equal runs at the same time, 68% lie within.
_PUBLISHED: Final = (("theta", "Theta (ALCF)", 0.057), ("cori", "Cori (NERSC)", 0.072))
_CAVEATS: Final = (
    "Equal runs have the same user, program, processes, files, bytes and requests; equal in the log need not be equal "
    "on the disk.",
    "At the same quiet time means that their I/O began within 20 minutes, and that on average they took no longer than "
    "the fastest third of such runs: others hardly held them up.",
    "Equal runs at the same time may slow each other down; that counts as noise here.",
)


def run(source: DataSource, params: Params) -> Answer:
    """How much the I/O times of equal runs differ."""
    data = source.fetch(NEEDS, missing="The lake has no Darshan logs. Ingest some: ioweather ingest LOGS")
    runs = instances_of(data, source.facility, {}).frame
    seconds = runs.floats("io_seconds")
    moved = (runs.ints("read_bytes") + runs.ints("write_bytes") > 0) & np.isfinite(seconds) & (seconds > 0)
    runs, seconds = runs.take(moved), seconds[moved]
    group = equal_runs(runs) if runs.rows else np.zeros(0, np.int64)
    ever = deviations(seconds, group)
    began = np.ma.masked_array(runs.array("first_open_ns"))
    at_once = at_the_same_time(group, np.where(began.mask, runs.ints("start_ns"), began.data))
    together = deviations(seconds, while_quiet(seconds, group, at_once))
    floor, whole = _spreads(together), _spreads(ever)
    spreads = (_amount(floor[0]), _amount(floor[1]), _amount(whole[0]), _amount(whole[1]))
    counts = (len(ever.values), ever.sets, len(together.values), together.sets)
    outcome = PredictabilityOutcome(*counts, *spreads, _share_of_moment(floor, whole))
    return Answer(
        question="How predictable is the I/O time of a run here?",
        headline=_headline(floor, whole),
        facts=tuple(_facts(outcome)),
        findings=tuple(_findings(together, floor, whole)),
        caveats=_CAVEATS,
        coverage=(Coverage(len(moved), len(ever.values), "runs that have an equal"),),
        name="predictability",
        result=outcome,
    )


def _spreads(found: Deviations) -> tuple[Spread | None, Spread | None]:
    if found.sets < LEAST_SETS:
        return None, None
    near, far = (spread(found, quantile) for quantile in QUANTILES)
    return near, far


def _amount(found: Spread | None) -> Amount:
    return Amount(found.value, found.low, found.high) if found is not None else Amount(None)


def _share_of_moment(floor: tuple[Spread | None, ...], whole: tuple[Spread | None, ...]) -> float | None:
    """What of the variance of equal runs goes away when they run at the same time."""
    if floor[0] is None or whole[0] is None or whole[0].value <= 0:
        return None
    return float(np.clip(1.0 - (np.log1p(floor[0].value) / np.log1p(whole[0].value)) ** 2, 0.0, 1.0))


def _headline(floor: tuple[Spread | None, ...], whole: tuple[Spread | None, ...]) -> str:
    if whole[0] is None:
        return "Too few equal runs to say how predictable they are."
    if floor[0] is None:
        return (
            f"Equal runs differ by {_percent(whole[0])} (68% of them); too few ran at one quiet time to know the noise."
        )
    return (
        f"Equal runs at the same quiet time differ by {_percent(floor[0])} (68% of them): no forecast can be nearer. "
        f"Whenever they ran it is {_percent(whole[0])}."
    )


def _percent(found: Spread) -> str:
    return format_value(found.value, "ratio")


def _range(found: Amount) -> str:
    return " to ".join(format_value(bound, "ratio") for bound in (found.low, found.high))


def _facts(outcome: PredictabilityOutcome) -> list[FactGroup]:
    together = f"{outcome.together_count:,} runs in {outcome.together_set_count:,} sets"
    ever = f"{outcome.equal_count:,} runs in {outcome.set_count:,} sets"
    rows = (
        (
            "at_the_same_time",
            f"Equal runs at the same quiet time: noise ({together})",
            outcome.noise_68,
            outcome.noise_95,
        ),
        ("ever", f"Equal runs, whenever they ran ({ever})", outcome.spread_68, outcome.spread_95),
    )
    groups = []
    for name, title, near, far in rows:
        facts = [
            Fact(f"within_{percent}", f"{percent}% differ by at most", amount.value, "ratio", note=_range(amount))
            for percent, amount in ((68, near), (95, far))
            if amount.value is not None and amount.low is not None and amount.high is not None
        ]
        if facts:
            groups.append(FactGroup(name, title, tuple(facts)))
    if outcome.moment_ratio is not None:
        share = Fact("moment", "the state of the system at the time, at most", outcome.moment_ratio, "ratio")
        rest = Fact("nothing", "noise", 1.0 - outcome.moment_ratio, "ratio")
        groups.append(FactGroup("explained", "What explains that equal runs differ (variance)", (share, rest)))
    published = tuple(Fact(name, label, value, "ratio") for name, label, value in _PUBLISHED)
    return [*groups, FactGroup("published", "68% of equal runs at the same time, elsewhere (SC'22)", published)]


def _findings(
    together: Deviations, floor: tuple[Spread | None, ...], whole: tuple[Spread | None, ...]
) -> list[Finding]:
    if floor[0] is None:
        words = f"{together.sets} sets of equal runs at the same quiet time are too few; {LEAST_SETS} are needed."
        return [Finding(words, "undecided", name="few_at_the_same_time")]
    if whole[0] is not None and floor[0].high < whole[0].low:
        return [Finding("When a run runs matters more than chance gives.", name="time_matters")]
    return [Finding("These runs do not show that it matters when they ran.", "undecided", name="time_matters")]


QUESTION = Question(
    name="predictability",
    result=PredictabilityOutcome,
    run=run,
    tables=frozenset({"applications", "job_io", "jobs"}),
    params=(),
    help="""Show how predictable the I/O time of a run is here.

    Equal runs differ for two reasons: the state of the system at the time, and
    noise. Those that ran at the same quiet time show the noise alone.""",
    epilog="Example: ioweather show predictability --from 2026-01-01",
    seen_by="public",
)
