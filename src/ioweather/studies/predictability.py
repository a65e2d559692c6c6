"""`predictability`: how well any model could foretell the I/O time of a run here."""

from __future__ import annotations

from typing import Final

import numpy as np

from ioweather.core.contracts import Params, Question
from ioweather.core.outcomes import PredictabilityOutcome
from ioweather.core.results import Answer, Coverage, Fact, FactGroup, Finding
from ioweather.core.run_outcomes import Amount
from ioweather.core.units import format_value
from ioweather.facts.runs import NEEDS, instances_of
from ioweather.studies.duplicates import (
    LEAST_SETS,
    QUANTILES,
    Deviations,
    Spread,
    at_the_same_time,
    deviations,
    equal_runs,
    spread,
    while_quiet,
)
from ioweather.topics.source import DataSource

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
    help="""Say how well any model could foretell the I/O time of a run here.

    Equal runs differ for two reasons: the state of the system at the time, and
    noise. Those that ran at the same quiet time show the noise alone.""",
    epilog="Example: ioweather show predictability --from 2026-01-01",
    seen_by="public",
)
