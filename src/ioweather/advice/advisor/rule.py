"""What a rule is, and what it says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from ioweather.advice.advisor.profile import Profile
from ioweather.advice.advisor.record import Promise, promised

# Rules of one part look at the same seconds; see `advise.together`.
Part: TypeAlias = Literal["requests", "metadata", "ranks", "layout", "overlap"]
# What a pattern is about, as the public labelled logs divide them (TraceBench, IPDPS 2025).
Dimension: TypeAlias = Literal["small_or_misaligned", "interface", "random", "imbalance", "shared_file", "metadata"]


@dataclass(frozen=True)
class Advice:
    """One pattern that was seen. `model_seconds` is what the rule's model says of the run's wall-clock I/O time, if
    this alone were changed and all else stayed. `promise` is what such models have kept: seconds with a 90% interval.
    `model` says in one sentence how it was reckoned, `fix_lines` what to type."""

    name: str
    headline: str
    dimension: Dimension
    part: Part
    evidence: str
    model_seconds: float
    promise: Promise
    model: str
    fix_lines: tuple[str, ...]
    matters: bool = False

    @property
    def seconds(self) -> float:
        return self.promise.seconds

    @property
    def most_seconds(self) -> float:
        """What decides whether it is worth saying: the promise, or what the model says of a change never tried."""
        return self.promise.seconds if self.promise.tried else self.promise.high


@dataclass(frozen=True)
class Seen:
    """What the function of a rule returns: the pattern is there, and this is what it costs."""

    evidence: str
    seconds_lost: float
    fix_lines: tuple[str, ...]


@dataclass(frozen=True)
class Rule:
    """`look` returns None where the pattern is not there. `trigger` says, for the documentation, when it is; `sources`
    who found it before us. `before` and `after` are the program's lines."""

    name: str
    headline: str
    dimension: Dimension
    part: Part
    trigger: str
    model: str
    sources: tuple[str, ...]
    before: str
    after: str
    look: Callable[[Profile], Seen | None]

    def advice(self, profile: Profile) -> Advice | None:
        seen = self.look(profile)
        if seen is None:
            return None
        seconds = profile.bounded(seen.seconds_lost)
        promise = promised(self.name, self.part, seconds, profile.most_seconds)
        same = (self.name, self.headline, self.dimension, self.part)
        return Advice(*same, seen.evidence, seconds, promise, self.model, seen.fix_lines)
