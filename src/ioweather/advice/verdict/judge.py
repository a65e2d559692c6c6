"""Was it you or the system? A run against its group, at the state the system was in (METHODS section 9). Pure.

B is what the group's usual pattern takes at the system's usual state, S what the system's state during this run adds to
it, J what the run's own visible change costs, by the runs that made such a change, and U = D - B - S - J what nothing
that was measured explains. h = max(0.15 B, 2 MAD of the group's usual runs at quiet times): less is no slowdown.
normal: D - B < h; system: S >= h > J; you: J >= h > S; both: S >= h and J >= h; unexplained: slower, and neither.

`changes` finds what the run did otherwise, `sizes` takes off what programs have grown, `states` finds how the system
was beyond what the run's own pattern makes of it, `time_split` which part of the time became longer, `model` predicts
from all groups at once, `posterior` makes the classes, their probabilities and the seconds of it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from ioweather.advice.verdict.changes import Changes, find_changes
from ioweather.advice.verdict.model import predict
from ioweather.advice.verdict.pool import Pool
from ioweather.advice.verdict.posterior import KINDS, Chances, Kind, Posterior, Seconds, weigh
from ioweather.advice.verdict.sizes import at_size_of
from ioweather.advice.verdict.states import find_states
from ioweather.core.arrays import Bools
from ioweather.core.run_outcomes import Reason

__all__ = ["KINDS", "Kind", "Seconds", "Verdict", "judge"]

# Raised with every change that makes other verdicts of the same data: stored ones say by which version they are.
MODEL_VERSION: Final = 6
# With fewer similar runs nothing is usual. From here to about ten the groups of other programs carry most of it.
LEAST_RUNS: Final = 3
LEAST_COVERAGE: Final = 0.8
LEAST_PROBABILITY: Final = 0.7
# Nobody is told that it was not the system where that is as likely as this. [ours]
_MOST_BY_SYSTEM: Final = 0.15
# What is said must hold with the errors of the ranges, too. Nobody is cleared or named by what these may undo; that
# nothing explains a run clears and names nobody. [ours]
_LEAST_WIDE: Final[Chances] = {"normal": 0.8, "system": 0.5, "you": 0.6, "both": 0.6, "unexplained": 0.0}
# Of the sampling intervals with its I/O a run must fill this share, else their samples speak of other times. [ours]
LEAST_INSIDE: Final = 0.2
# One run with such a change is no estimate of what it costs: something else may have happened to it. [ours]
LEAST_CHANGED: Final = 2


@dataclass(frozen=True)
class Verdict:
    """`reason` says why it is unknown, `detail` in words; `changed` are the columns of the pattern in which the run
    differs, `changed_alike` how many other runs made that kind of change; `pooled` how many runs of other groups were
    asked."""

    kind: Kind
    probability: float
    probabilities: Chances
    io_seconds: float
    usual: Seconds | None
    system: Seconds | None
    own: Seconds | None
    unexplained: Seconds | None
    harm_seconds: float | None
    n: int
    coverage_ratio: float
    reason: Reason | None = None
    detail: str = ""
    changed: tuple[int, ...] = ()
    likeliest: Kind = "unknown"
    changed_alike: int = 0
    pooled: int = 0


def judge(pool: Pool, row: int) -> Verdict:
    """The verdict on run `row`, which is of group 0, from the others."""
    duration = float(pool.io_seconds[row])
    seen = bool(pool.loads)
    covered = float(pool.coverage_ratio[row]) if len(pool.coverage_ratio) else 0.0
    usable = _usable(pool)
    usable[row] = True
    pool, row = pool.take(usable), int(usable[:row].sum())
    n = int((pool.group == 0).sum()) - 1
    if not (math.isfinite(duration) and duration > 0):
        return _unknown(Reason.NO_IO_TIME, "the log records no I/O time", duration, covered, n)
    if n < LEAST_RUNS:
        text = f"{n} similar runs{' with samples of the system' if seen else ''}, {LEAST_RUNS} are needed"
        return _unknown(Reason.FEW_SIMILAR_RUNS, text, duration, covered, n)
    changes = find_changes(pool.pattern, pool.group, row)
    states = find_states(pool, changes, row)
    found = weigh(predict(at_size_of(pool, changes, row), changes, states, row), duration)
    reason, detail = _doubt(pool, row, found, changes, covered)
    return Verdict(
        "unknown" if reason else found.likeliest, found.chances[found.likeliest], found.chances, duration, found.usual,
        found.system if seen else None, found.own, found.unexplained if seen else None, found.harm, n, covered, reason,
        detail, tuple(np.flatnonzero(changes.columns[row]).tolist()), found.likeliest, changes.seen(row),
        pool.rows - 1 - n,
    )  # fmt: skip


def _usable(pool: Pool) -> Bools:
    """Runs with a time, and where the system was sampled those that it covers."""
    known = np.isfinite(pool.io_seconds) & (pool.io_seconds > 0)
    if pool.loads:
        known &= pool.sampled & (pool.coverage_ratio >= LEAST_COVERAGE)
    return np.asarray(known)


def _unknown(reason: Reason, detail: str, duration: float, covered: float, n: int) -> Verdict:
    return Verdict("unknown", 0.0, {}, duration, None, None, None, None, None, n, covered, reason, detail)


def _doubt(pool: Pool, row: int, found: Posterior, changes: Changes, covered: float) -> tuple[Reason | None, str]:
    """Why there is no verdict, also in words; None where there is one."""
    likeliest = found.likeliest
    probability = found.chances[likeliest]
    if not pool.loads:
        late = found.chances["normal"] < LEAST_PROBABILITY
        took = f"{float(pool.io_seconds[row]) / found.usual.value:.1f} times as long" if late else "as long"
        return Reason.NO_SYSTEM_DATA, f"it took {took} as usual, and there are no samples of the system"
    if covered < LEAST_COVERAGE or not pool.sampled[row]:
        return Reason.PARTLY_SAMPLED, f"the system was sampled in {covered:.0%} of the run"
    if likeliest not in ("normal", "unexplained") and not float(pool.inside_ratio[row]) >= LEAST_INSIDE:
        text = "the samples are too coarse for so short a run: its intervals speak mostly of other times"
        return Reason.COARSE_SAMPLES, text
    accused = found.chances["you"] + found.chances["both"] >= 0.5
    if accused and changes.seen(row) < LEAST_CHANGED:
        return Reason.COST_NOT_KNOWN, "what it did differently was done by too few runs to know what it costs"
    if probability < LEAST_PROBABILITY:
        return Reason.LOW_PROBABILITY, f"{likeliest} is likeliest, but with {probability:.0%} only"
    by_system = found.chances["system"] + found.chances["both"]
    if likeliest not in ("system", "both") and by_system >= _MOST_BY_SYSTEM:
        return Reason.LOW_PROBABILITY, f"{likeliest} is likeliest, but it may be the system's with {by_system:.0%}"
    if found.wide[likeliest] < _LEAST_WIDE[likeliest]:
        return Reason.LOW_PROBABILITY, f"{likeliest} is likeliest, but small errors of what is usual would undo that"
    return None, ""
