"""I/O hours of all other jobs, had one job not run. Pure.

By the model of `blame`: a run waits for the busiest of its targets. The run gains the job's work on that target, but no
more than it lost beyond its usual time. A run for which `who` names the job gains the seconds that `who` states.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from ioweather.core.outcomes import Amount
from ioweather.diagnosis.blame import CAPACITY_SPREAD, WORK_SPREAD, Blame, Evidence, Party

_DRAWS: Final = 500
_LEVEL: Final = (0.05, 0.95)


@dataclass(frozen=True)
class Affected:
    """A run of somebody else: `change_seconds` is what the work on its busiest target would be more, or less;
    `lost_seconds` its time beyond the usual, 0 where that is not known; `blamed` what `who` says that the job cost it,
    where it names the job."""

    party: Party
    io_seconds: float
    lost_seconds: float
    change_seconds: float
    blamed: Blame | None = None


@dataclass(frozen=True)
class Supposed:
    """`runs` are all others with a log in [start_ns, end_ns)."""

    party: Party
    evidence: Evidence
    filesystem: str
    start_ns: int
    end_ns: int
    runs: tuple[Affected, ...]


def gains(runs: Sequence[Affected], factor: float = 1.0) -> list[float]:
    """Seconds that each run would take less; below 0: more."""
    return [
        run.blamed.seconds if run.blamed is not None else min(run.lost_seconds, -run.change_seconds * factor)
        for run in runs
    ]


def saved(supposed: Supposed) -> Amount:
    """Of all runs together; the error of the job's work is the same in all of them, so the ends of intervals add up."""
    rng = np.random.default_rng(1)
    spread = float(np.hypot(WORK_SPREAD[supposed.evidence], CAPACITY_SPREAD))
    rest = [run for run in supposed.runs if run.blamed is None]
    draws = [sum(gains(rest, float(f))) for f in np.exp(spread * rng.standard_normal(_DRAWS))]
    low, high = (float(q) for q in np.quantile(draws, _LEVEL))
    blamed = [run.blamed for run in supposed.runs if run.blamed is not None]
    low, high = low + sum(each.low for each in blamed), high + sum(each.high for each in blamed)
    return Amount(sum(gains(supposed.runs)), low, high)
