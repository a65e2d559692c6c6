"""`what_if`: everyone's I/O hours had one job not run, run at another time, or been striped otherwise."""

from __future__ import annotations

from typing import Final

from ioweather.advice.culprits.what_if import Supposed, gains, saved
from ioweather.advice.culprits.words import party_words
from ioweather.core.contracts import Need, Param, Params, Question, StudyData
from ioweather.core.facility import Facility
from ioweather.core.outcomes import Gain, WhatIfOutcome
from ioweather.core.results import Answer, Coverage, Fact, FactGroup, numbered
from ioweather.core.units import format_seconds

_MOST_RUNS: Final = 10
_WORDS: Final = {"without": "Without {}", "move": "With {} at that time", "stripe": "With {} striped so"}


def answer(data: StudyData, facility: Facility, params: Params) -> Answer:
    asked = data.of("supposed", Supposed)
    amount = saved(asked)
    before = sum(run.io_seconds for run in asked.runs)
    parts = sorted(zip(gains(asked.runs), asked.runs, strict=True), key=lambda pair: -abs(pair[0]))
    felt = [(gain, run) for gain, run in parts if abs(gain) > 0.001 * max(run.io_seconds, 1e-9)]
    value = amount.value or 0.0
    words = _WORDS[asked.kind].format(party_words(asked.party))
    direction = "less" if value >= 0 else "more"
    low, high = sorted(abs(each or 0.0) for each in (amount.low, amount.high))
    headline = (
        f"{words} the I/O of {len(asked.runs):,} other runs would have taken {format_seconds(abs(value))} {direction} "
        f"({format_seconds(low)} to {format_seconds(high)}), of {format_seconds(before)}."
    )
    felt_most = [(gain, run, format_seconds(run.io_seconds)) for gain, run in felt[:_MOST_RUNS]]
    facts = numbered(
        Fact("run", party_words(run.party), gain, "seconds", min(1.0, abs(gain) / run.io_seconds), f"of {took}")
        for gain, run, took in felt_most
    )
    groups = (FactGroup("runs", "Seconds that runs would take less", facts),) if facts else ()
    return Answer(
        "What would have been?", headline, groups, name="what_if",
        coverage=(Coverage(len(asked.runs), len(felt), "runs with a log that would feel it"),),
        caveats=("Ranges are 90% intervals. Runs without a log are not counted, nor is the job's own time.",),
        result=WhatIfOutcome(
            asked.kind, asked.party.job_id, asked.filesystem, asked.start_ns, asked.end_ns, len(asked.runs), before,
            before - value, value, amount.low, amount.high,
            tuple(Gain(run.party.job_id, run.party.user, run.io_seconds, gain) for gain, run in felt[:_MOST_RUNS]),
        ),
    )  # fmt: skip


QUESTION = Question(
    name="what_if",
    result=WhatIfOutcome,
    needs=(
        Need(
            "supposed", "job_operations", shape="supposed", also=("applications", "files", "job_io", "jobs", "series")
        ),
    ),
    answer=answer,
    params=(
        Param("without", "Had this job not run.", "int", metavar="JOB"),
        Param("move", "Had this job run at another time: --start.", "int", metavar="JOB"),
        Param("begin", "When it would have started.", "time", option="start", metavar="TIME"),
        Param("stripe", "Had this job's files been striped otherwise: --over.", "int", metavar="JOB"),
        Param("over", "Over so many targets, the least busy ones.", "int", least=1, metavar="N"),
        Param("filesystem", "On this file system (default: the busiest).", metavar="NAME"),
    ),
    help="Say how long everyone's I/O would have taken without a job, or with it elsewhere or at another time.",
    epilog="""\b
By the model of `who`: a run waits for the busiest of its targets.

\b
Example: ioweather what-if --without 4711 --lake lake
Example: ioweather what-if --move 4711 --start 2026-11-02T03:00
""",
)
