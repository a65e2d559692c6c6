"""`what_if`: the former name of `who` with `without`; it works for one release more."""

from __future__ import annotations

from dataclasses import replace

from ioweather.core.contracts import Param, Params, Question
from ioweather.core.outcomes import WhatIfOutcome, WhoOutcome
from ioweather.core.results import Answer
from ioweather.diagnosis import who
from ioweather.topics.source import DataSource


def run(source: DataSource, params: Params) -> Answer:
    """The answer of `who`, with the result that `what_if` had."""
    found = who.run(source, params)
    assert isinstance(found.result, WhoOutcome)
    return replace(found, name="what_if", result=found.result.without)


QUESTION = Question(
    name="what_if",
    result=WhatIfOutcome,
    run=run,
    tables=who.QUESTION.tables,
    params=(
        Param("without", "Had this job not run.", "int", metavar="JOB"),
        Param("filesystem", "On this file system (default: the busiest).", metavar="NAME"),
    ),
    help="Say how long others' I/O would have taken without a job: `who --without JOB` says the same.",
    epilog="Example: ioweather what-if --without 4711",
)
