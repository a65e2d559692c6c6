"""What a rule is, and what it says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from ioweather.advice.advisor.profile import Profile

# Rules of one part look at the same seconds; see `advise.together`.
Part: TypeAlias = Literal["requests", "metadata", "ranks", "layout", "overlap"]


@dataclass(frozen=True)
class Advice:
    """One pattern that was seen. `seconds_lost` is of the run's wall-clock I/O time, if this alone were changed and all
    else stayed: an upper bound. `model` says in one sentence how it was reckoned, `fix_lines` what to type."""

    name: str
    headline: str
    part: Part
    evidence: str
    seconds_lost: float
    model: str
    fix_lines: tuple[str, ...]
    matters: bool = False


@dataclass(frozen=True)
class Seen:
    """What the function of a rule returns: the pattern is there, and this is what it costs."""

    evidence: str
    seconds_lost: float
    fix_lines: tuple[str, ...]


@dataclass(frozen=True)
class Rule:
    """`look` returns None where the pattern is not there. `trigger` says, for the documentation, when it is."""

    name: str
    headline: str
    part: Part
    trigger: str
    model: str
    look: Callable[[Profile], Seen | None]

    def advice(self, profile: Profile) -> Advice | None:
        seen = self.look(profile)
        if seen is None:
            return None
        seconds = profile.bounded(seen.seconds_lost)
        return Advice(self.name, self.headline, self.part, seen.evidence, seconds, self.model, seen.fix_lines)
