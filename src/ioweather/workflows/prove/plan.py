"""What is planted, how often, in which order, and what the right answers are."""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Literal, TypeAlias

from ioweather.core.run_outcomes import VerdictKind

ProbeSaid: TypeAlias = Literal["as usual", "slower", "silent"]


class Cause(StrEnum):
    NOTHING = "nothing"
    SMALL_REQUESTS = "small requests"
    MANY_FILES = "many files"
    COMPETITOR = "a competitor"
    STOPPED_PROBE = "a stopped probe"


@dataclass(frozen=True)
class Expected:
    """`verdict` and `probe` are right where the cause is felt; `advice` are the rules that fit, none: no such rule may
    be first. `probe` is None where the run itself may or may not slow the probe."""

    verdict: VerdictKind
    advice: frozenset[str]
    probe: ProbeSaid | None
    times: int


_FILES: Final = frozenset({"many_files", "small_files", "metadata_storm"})
EXPECTED: Final = {
    Cause.NOTHING: Expected("normal", frozenset(), "as usual", 9),
    Cause.SMALL_REQUESTS: Expected("you", frozenset({"small_requests"}), None, 4),
    Cause.MANY_FILES: Expected("you", _FILES, None, 4),
    Cause.COMPETITOR: Expected("system", frozenset(), "slower", 4),
    Cause.STOPPED_PROBE: Expected("normal", frozenset(), "silent", 3),
}


def shuffled(seed: int | None = None) -> tuple[Cause, ...]:
    """Every cause as often as it is planted, in an order that nobody knows before."""
    causes = [cause for cause, expected in EXPECTED.items() for _ in range(expected.times)]
    random.Random(seed).shuffle(causes)
    return tuple(causes)
