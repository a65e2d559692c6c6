"""How many seconds each job cost a run, and how likely it cost it a slowdown at all. Pure.

What a run lost is D - B - J: its I/O time beyond the usual, less what its own change cost. Without job k it would have
taken k's work on the targets it waited for less, but not less than the usual: seconds(k) = min(D - B - J, work(k)).
The probability is the product of two: that a run which met so much work of others was slowed by it at all, as far as
work explains slowness at this facility (`slowness`); and if so, that the run lost h or more, the least that counts as
a slowdown, and that k took h / 2 of it. Errors of B, of J and of the work are drawn, and draws count for more in which
everybody's work together, recorded or not, explains what was lost. Seconds of several jobs need not add up: without
either of two the run may still wait for the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

import numpy as np

from ioweather.core.arrays import Bools, Floats
from ioweather.core.run_outcomes import Amount

# How much of a facility's slowness is due to others' work. Pure.
#
# Runs that met much work of others in their usual time are slow more often than runs that met none; the rest are slow
# for reasons of their own. With x, the work met as a share of the usual time,
#
#     P(slow | x) = p0 + (1 - p0) g(x),    g(x) = 1 - exp(-(x / theta)^1.75)
#
# where p0 is how often runs are slow that met nothing and theta the work that slows most runs. Of slow runs that met
# x, (1 - p0) g / P(slow | x) would not have been slow without it (the attributable share of epidemiology, Miettinen
# 1974). Both numbers are learned of each facility; where few runs are known, as elsewhere.

_THETA: Final = np.geomspace(0.15, 9.0, 40)[:, None]
_P0: Final = np.geomspace(0.002, 0.4, 30)[None, :]
_STEEPNESS: Final = 1.75
# Before any run is seen: the median of theta and the spread of its logarithm; p0 as of half a slow run among twenty.
# With the steepness chosen on the simulated facilities of seeds 208 to 245 of benchmarks/who.py. [ours]
_USUAL_THETA, _THETA_SPREAD = 0.6, 1.0
_SLOW_BEFORE, _RUNS_BEFORE = 0.5, 20.0


def _before() -> Floats:
    log = -0.5 * (np.log(_THETA / _USUAL_THETA) / _THETA_SPREAD) ** 2
    log = log + _SLOW_BEFORE * np.log(_P0) + (_RUNS_BEFORE - 1.0) * np.log1p(-_P0)
    return np.asarray(log)


def _harmful(work: float) -> Floats:
    return np.asarray(-np.expm1(-((work / _THETA) ** _STEEPNESS)))


@dataclass(frozen=True, eq=False)
class Slowness:
    """How likely each pair of theta and p0 is here: the logarithm, but for a constant."""

    log_weight: Floats = field(default_factory=_before)

    def due_to_work(self, work: float) -> float:
        """Of slow runs that met so much work (in usual times), the share that would not have been slow without it."""
        weight = np.exp(self.log_weight - self.log_weight.max())
        by_work = (1.0 - _P0) * _harmful(work)
        return float((weight * by_work / (_P0 + by_work)).sum() / weight.sum())


def learned(work: Floats, slow: Bools) -> Slowness:
    """From runs of a facility: the work that each met in its usual time, as a share of it, and whether it was slow."""
    found = _before()
    for met, was_slow in zip(work.tolist(), slow.tolist(), strict=True):
        chance = _P0 + (1.0 - _P0) * _harmful(met)
        found = found + (np.log(chance) if was_slow else np.log1p(-np.minimum(chance, 1.0 - 1e-9)))
    return Slowness(found)


Evidence: TypeAlias = Literal["servers", "log", "usual"]
# Standard deviations of the logarithm of a job's work on the right targets at the right time, by how it is known:
# counted by servers; from a log, whose bytes are spread over its time; by what the job usually does. [ours]
WORK_SPREAD: Final[dict[Evidence, float]] = {"servers": 0.45, "log": 0.9, "usual": 0.9}
# What targets can do differs with what is asked of them: one error for all jobs. [ours]
CAPACITY_SPREAD: Final = 0.3
# What a run lost is what all others' work explains, give or take so much (of the logarithm), but for this share of the
# runs, which lose time for other reasons. [ours]
_LOSS_SPREAD: Final = 0.6
_OTHER_REASONS: Final = 0.05
_DRAWS: Final = 2000
_LOW, _MIDDLE, _HIGH = 0.05, 0.5, 0.95
# Of what logs show beside a run on a sick target, this share counts. [ours]
_ON_SICK: Final = 0.25
# An accusation needs more evidence than silence. [ours]
NAMED_FROM: Final = 0.5
SURE_FROM: Final = 0.9
# Who did less than this share of a slowdown's worth of work is no suspect.
_LEAST_SHARE: Final = 0.1
_TO_SD: Final = 3.29  # width of a 90% interval of a normal distribution, in standard deviations


@dataclass(frozen=True)
class Party:
    """Somebody's job. `key` is what the record calls it. Where visibility hides it, it tells hidden ones apart, and
    all names are None."""

    key: str
    job_id: int | None = None
    uid: int | None = None
    user: str | None = None
    project: str | None = None
    program: str | None = None
    hidden: bool = False


@dataclass(frozen=True)
class Suspect:
    """A job that was active while the run did I/O. `data_seconds`, `metadata_seconds`: what the run would have waited
    less without it. Shares are of everything on the run's targets meanwhile, as far as it is known."""

    party: Party
    evidence: Evidence
    data_seconds: float
    metadata_seconds: float
    read_bytes: float
    write_bytes: float
    requests: float
    metadata_operations: float
    bytes_ratio: float | None
    operations_ratio: float | None
    targets: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True)
class Suspects:
    """Of one run: `known_ratio` is the share of what its targets did meanwhile that anybody's record explains, None
    where nothing was sampled; `busiest` is the target with most work of others. Without work that is in nobody's
    record the run would have waited `unrecorded_seconds` less. `met_seconds` is all others' work that it meets in its
    usual time: who takes longer, for whatever reason, meets more. `on_sick`: one of its targets was found sick then.
    In `metadata_ratio` of its time it may have waited for metadata, in `data_ratio` for data: together more than all,
    for the time in close() may be either."""

    found: tuple[Suspect, ...]
    known_ratio: float | None = None
    busiest: str | None = None
    metadata_ratio: float = 0.0
    data_ratio: float = 1.0
    filesystem: str = ""
    has_servers: bool = False
    unrecorded_seconds: float = 0.0
    met_seconds: float = 0.0
    on_sick: bool = False


@dataclass(frozen=True)
class Slowed:
    """A run beside its usual time and what its own change cost, with their 90% intervals; a usual time without a value
    is not known. `here` is how far work explains slowness about then."""

    party: Party
    io_seconds: float
    usual: Amount
    own: Amount | None
    harm_seconds: float
    suspects: Suspects
    start_ns: int = 0
    here: Slowness = field(default_factory=Slowness)

    @property
    def is_slow(self) -> bool:
        return self.usual.value is not None and self.io_seconds - self.usual.value >= self.harm_seconds

    @property
    def met_work(self) -> float:
        """Of the usual time, in which a target does no more than that."""
        return min(1.0, self.suspects.met_seconds / (self.usual.value or self.io_seconds))

    @property
    def attributable(self) -> float:
        """The share of runs so slow, beside as much work of others, that would not have been slow without it. On a
        target that was found sick, logs do not tell what it did from what jobs did to it."""
        blurred = self.suspects.on_sick and not self.suspects.has_servers
        return self.here.due_to_work(self.met_work) * (_ON_SICK if blurred else 1.0)


@dataclass(frozen=True)
class Blame:
    suspect: Suspect
    probability: float
    seconds: float
    low: float
    high: float


def blame(run: Slowed) -> tuple[Blame, ...]:
    """Of each suspect, the one with most seconds first."""
    work, lost, weight = _drawn(run)
    due = run.attributable
    result = [_blame(suspect, np.minimum(lost, each), lost, weight, run, due) for suspect, each in work]
    return tuple(sorted(result, key=lambda each: (-each.seconds, -each.probability, each.suspect.party.key)))


@dataclass(frozen=True)
class OneOf:
    """Two suspects of whom one did it, though of neither alone that is as sure."""

    parties: tuple[Party, Party]
    probability: float


def one_of_two(run: Slowed) -> OneOf | None:
    work, lost, weight = _drawn(run)
    took = [(lost >= run.harm_seconds) & (np.minimum(lost, each) >= run.harm_seconds / 2) for _, each in work]
    alone = [float(weight[each].sum()) for each in took]
    first, *others = sorted(range(len(work)), key=lambda which: -alone[which])[:2] or [-1]
    if not others:
        return None
    due, second = run.attributable, others[0]
    both = due * float(weight[took[first] | took[second]].sum())
    told = due * alone[first] < SURE_FROM <= both
    return OneOf((work[first][0].party, work[second][0].party), both) if told else None


def _drawn(run: Slowed) -> tuple[list[tuple[Suspect, Floats]], Floats, Floats]:
    """Suspects with draws of their work, draws of what was lost, and how much each draw counts."""
    found, usual = run.suspects.found, run.usual
    if not found or usual.value is None:
        return [], np.zeros(0), np.zeros(0)
    rng = np.random.default_rng(1)
    lost = run.io_seconds - _draws(usual, rng)
    if run.own is not None and run.own.value is not None:
        lost -= np.maximum(_draws(run.own, rng), 0.0)
    lost = np.maximum(lost, 0.0)
    capacity = np.exp(CAPACITY_SPREAD * rng.standard_normal(_DRAWS))
    in_data, in_metadata = (
        min(1.0, max(0.0, ratio)) * run.io_seconds for ratio in (run.suspects.data_ratio, run.suspects.metadata_ratio)
    )
    spread = WORK_SPREAD["log"]
    unrecorded = run.suspects.unrecorded_seconds * capacity * np.exp(spread * rng.standard_normal(_DRAWS))
    work = []
    # In an order that does not depend on who asks: each has its own draws.
    for suspect in sorted(found, key=lambda each: (-each.data_seconds, -each.metadata_seconds)):
        if suspect.data_seconds + suspect.metadata_seconds < _LEAST_SHARE * run.harm_seconds:
            continue
        factor = capacity * np.exp(WORK_SPREAD[suspect.evidence] * rng.standard_normal(_DRAWS))
        data = np.minimum(suspect.data_seconds * factor, in_data)
        work.append((suspect, data + np.minimum(suspect.metadata_seconds * factor, in_metadata)))
    return work, lost, _weights(lost, unrecorded + sum(each for _, each in work), run.harm_seconds)


def _weights(lost: Floats, explained: Floats, harm_seconds: float) -> Floats:
    """Of draws, by how well everybody's work explains what the run lost."""
    seen = lost > 0
    off = np.log(np.where(seen, lost, 1.0) / (explained + _OTHER_REASONS * harm_seconds)) / _LOSS_SPREAD
    weight = _OTHER_REASONS + (1.0 - _OTHER_REASONS) * np.exp(-0.5 * np.where(seen, off, 0.0) ** 2)
    return np.asarray(weight / weight.sum())


def _blame(suspect: Suspect, seconds: Floats, lost: Floats, weight: Floats, run: Slowed, due: float) -> Blame:
    """As far as others' work does not explain slowness here, the job may have cost nothing."""
    probability = due * float(weight[(seconds >= run.harm_seconds / 2) & (lost >= run.harm_seconds)].sum())
    nothing = 1.0 - due
    order = np.argsort(seconds)
    seconds, reached = seconds[order], np.cumsum(weight[order])

    def quantile(level: float) -> float:
        return float(seconds[min(int(np.searchsorted(reached, level)), _DRAWS - 1)])

    low, high = (quantile((level - nothing) / (1.0 - nothing)) if level > nothing else 0.0 for level in (_LOW, _HIGH))
    middle = quantile(_MIDDLE)
    return Blame(suspect, probability, middle, min(low, middle), max(high, middle))


def _draws(amount: Amount, rng: np.random.Generator) -> Floats:
    """From a value with its 90% interval, whose halves may differ."""
    assert amount.value is not None
    low, high = (amount.value if each is None else each for each in (amount.low, amount.high))
    normal = rng.standard_normal(_DRAWS)
    below, above = 2 * (amount.value - low) / _TO_SD, 2 * (high - amount.value) / _TO_SD
    return np.asarray(amount.value + np.where(normal < 0, below, above) * normal)


@dataclass(frozen=True)
class Accused:
    """What one party cost all slowed runs together. Its errors are alike in all of them, so the ends of the intervals
    add up; `probability` is that of the run that shows it best."""

    party: Party
    probability: float
    seconds: float
    low: float
    high: float
    runs: int
    worst: Blame

    @property
    def may_be_named(self) -> bool:
        return self.probability >= NAMED_FROM


def accused(blamed: Sequence[tuple[Slowed, Sequence[Blame]]], of: Callable[[Party], str | None]) -> tuple[Accused, ...]:
    """By what `of` gives (a job's key, a user), the one with most seconds first. Of blames too weak to be named no
    seconds are added up: many slight suspicions are no evidence. Parties without a name (None) are left out."""
    found: dict[str, list[Blame]] = {}
    for _, blames in blamed:
        for each in blames:
            key = of(each.suspect.party)
            if key is not None and each.probability >= NAMED_FROM:
                found.setdefault(key, []).append(each)
    result = []
    for parts in found.values():
        seconds, low, high = (sum(getattr(part, name) for part in parts) for name in ("seconds", "low", "high"))
        worst = max(parts, key=lambda part: (part.probability, part.seconds))
        most = max(parts, key=lambda part: part.seconds)
        result.append(Accused(worst.suspect.party, worst.probability, seconds, low, high, len(parts), most))
    return tuple(sorted(result, key=lambda each: (-each.seconds, -each.probability, each.party.key)))


_SAVED_DRAWS: Final = 500
_SAVED_LEVELS: Final = (0.05, 0.95)


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
    draws = [sum(gains(rest, float(f))) for f in np.exp(spread * rng.standard_normal(_SAVED_DRAWS))]
    low, high = (float(q) for q in np.quantile(draws, _SAVED_LEVELS))
    blamed = [run.blamed for run in supposed.runs if run.blamed is not None]
    low, high = low + sum(each.low for each in blamed), high + sum(each.high for each in blamed)
    return Amount(sum(gains(supposed.runs)), low, high)


@dataclass(frozen=True)
class Volume:
    """What a job did in the period. `known_by` is servers or log."""

    party: Party
    read_bytes: float
    write_bytes: float
    metadata_operations: float
    known_by: str


@dataclass(frozen=True)
class MetadataStorm:
    """The strongest stretch of a job that asked the metadata servers for much of the most that they ever did."""

    party: Party
    start_ns: int
    end_ns: int
    operations_per_s: float
    capacity_ratio: float


@dataclass(frozen=True)
class Activity:
    """Of one file system; `slowed` are the runs that took longer than similar ones; `runs` counts all that have a log;
    `known_ratio` is the share of the bytes that storage moved which jobs' records explain, None without samples.
    `is_last_hour`: no period was chosen, so it is the last hour with jobs."""

    filesystem: str
    start_ns: int
    end_ns: int
    slowed: tuple[Slowed, ...] = ()
    volumes: tuple[Volume, ...] = ()
    storms: tuple[MetadataStorm, ...] = ()
    runs: int = 0
    known_ratio: float | None = None
    is_last_hour: bool = False
