"""All rules on one run: what was seen, ranked by seconds lost, and from which cost on it is worth saying."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from ioweather.advice.advisor.profile import Profile, profile_of
from ioweather.advice.advisor.rule import Advice
from ioweather.advice.advisor.rules.catalogue import RULES
from ioweather.core.contracts import Param
from ioweather.studies.job.together import as_one_run
from ioweather.studies.job.view import JobView

FLOOR_SECONDS: Final = Param("floor_seconds", "Advice that saves less is not given.", "float", 1.0)
FLOOR_SHARE: Final = Param("floor_share", "Nor advice that saves less than this share of the run.", "float", 0.01)


@dataclass(frozen=True)
class Advised:
    """All patterns that were seen, the costliest first. `io_seconds` is None where the log has no times."""

    patterns: tuple[Advice, ...]
    io_seconds: float | None
    run_seconds: float | None
    floor_seconds: float
    runs: int = 1
    # The runs are processes without MPI, looked at as one run.
    as_one: bool = False
    # Some files have no record: what is said is a lower bound.
    incomplete: bool = False
    # Seconds are those that a run saves at the system's usual state, not at that of this run.
    at_usual_speed: bool = False

    @property
    def worth(self) -> tuple[Advice, ...]:
        return tuple(advice for advice in self.patterns if advice.matters)

    @property
    def below(self) -> tuple[Advice, ...]:
        return tuple(advice for advice in self.patterns if not advice.matters)

    @property
    def together_seconds(self) -> float:
        """All changes that are worth it at once. Those of one part look at the same seconds: the largest counts. Parts
        follow each other: each saves its share of what the others leave. Never more than the I/O took."""
        spent = self.io_seconds or 0.0
        left = 1.0
        for part in {advice.part for advice in self.worth}:
            largest = max(advice.seconds for advice in self.worth if advice.part == part)
            left *= 1.0 - min(1.0, largest / spent) if spent > 0 else 1.0
        return spent * (1.0 - left)

    def without(self, seconds: float) -> Advised:
        """The same at the system's usual state: of the I/O time these seconds are the system's, and no change of the
        run's own gets them back. What is left is saved in proportion."""
        if not self.io_seconds or not seconds > 0:
            return self
        share = max(0.0, 1.0 - seconds / self.io_seconds)
        patterns = tuple(self._scaled(advice, share) for advice in self.patterns)
        return replace(self, patterns=patterns, io_seconds=self.io_seconds * share)

    def at_most(self, seconds: float, rules: Collection[str]) -> Advised:
        """The same, where these rules promise no more than so many seconds."""
        most = max(seconds, 0.0)
        patterns = tuple(
            self._scaled(advice, most / advice.seconds) if advice.name in rules and advice.seconds > most else advice
            for advice in self.patterns
        )
        return replace(self, patterns=patterns)

    def _scaled(self, advice: Advice, share: float) -> Advice:
        return replace(
            advice,
            model_seconds=advice.model_seconds * share,
            promise=advice.promise.scaled(share),
            matters=advice.matters and advice.most_seconds * share >= self.floor_seconds,
        )


def advise(view: JobView, *, floor_seconds: float | None = None, floor_share: float | None = None) -> Advised:
    """What the job's run with most I/O time could change; processes without MPI are one run. The floor is the larger
    of seconds and share of the run."""
    one = as_one_run(view)
    profile = profile_of(one, one.main_run)
    advised = advise_run(profile, floor_seconds=floor_seconds, floor_share=floor_share)
    return replace(advised, runs=view.logs_of_job, as_one=one.separate)


def advise_run(profile: Profile, *, floor_seconds: float | None = None, floor_share: float | None = None) -> Advised:
    least = _default(FLOOR_SECONDS) if floor_seconds is None else floor_seconds
    share = _default(FLOOR_SHARE) if floor_share is None else floor_share
    floor = max(least, share * (profile.run_seconds or 0.0))
    # Counters of a damaged log may hold anything: what is not finite costs nothing.
    with np.errstate(all="ignore"):
        rules = () if profile.sums_only else RULES
        seen = [advice for rule in rules if (advice := rule.advice(profile)) is not None]
    ranked = sorted(seen, key=lambda advice: (-advice.seconds, -advice.most_seconds))
    patterns = tuple(replace(a, matters=a.most_seconds >= floor and a.most_seconds > 0) for a in ranked)
    return Advised(patterns, profile.io_seconds, profile.run_seconds, floor, incomplete=profile.incomplete)


def _default(param: Param) -> float:
    value = param.default
    assert isinstance(value, float)
    assert math.isfinite(value)
    return value
