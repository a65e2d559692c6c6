"""Blame: how many seconds each job cost a run, and with which probability it slowed the run at all.

What a run lost is D - B - J: its I/O time beyond the usual, less the cost of its own change. Without job k it would
have waited less by k's work on the targets it waited for, but never for less than the usual time:
seconds(k) = min(D - B - J, work(k)). The probability has two factors: that a run which met so much work of others was
slowed by it at all, as far as work explains slowness (`attributable_share`); and that the run lost h or more,
the least that counts as a slowdown, of which k took h / 2. Errors of B, of J and of the work are drawn, and draws weigh
more in which the work of all explains the loss. Seconds of several jobs need not add up: without
either of two the run may still wait for the other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import numpy as np

from ioweather.core.frames import Bools, Floats, Frame, Ints
from ioweather.core.results import Amount
from ioweather.core.units import DAY_NS
from ioweather.diagnosis.comparison_pool import find_patterns, find_peers, match_pattern
from ioweather.diagnosis.time_model import HARM_MADS, HARM_SHARE, MAD_TO_SD
from ioweather.job_io.outcomes import Storm

# Similar runs are searched this many days before and after.
REACH_DAYS: Final = 10
# With fewer similar runs nothing is usual.
_LEAST_SIMILAR: Final = 4
_CHANCE_SPREAD: Final = 0.4
_Z_90: Final = 1.645


@dataclass(frozen=True, eq=False)
class UsualTimes:
    """I/O seconds of some runs, the usual seconds, and the spread of the logarithm of similar runs' times.

    NaN with too few similar runs.
    """

    seconds: Floats
    usual: Floats
    spread: Floats

    def take(self, rows: Ints) -> UsualTimes:
        """The times of some of the runs."""
        return UsualTimes(self.seconds[rows], self.usual[rows], self.spread[rows])

    @property
    def harm(self) -> Floats:
        """The least seconds that count as a slowdown."""
        return np.asarray(np.maximum(HARM_SHARE, HARM_MADS / MAD_TO_SD * self.spread) * self.usual)

    @property
    def slow(self) -> Bools:
        """Runs with a slowdown."""
        with np.errstate(invalid="ignore"):
            return np.asarray(self.seconds - self.usual >= self.harm)

    def amount(self, row: int) -> Amount:
        """Usual seconds of one run with their 90% interval."""
        usual, spread = float(self.usual[row]), float(self.spread[row])
        if not np.isfinite(usual):
            return Amount(None)
        low, high = (usual * float(np.exp(sign * _Z_90 * spread)) for sign in (-1, 1))
        return Amount(usual, low, high)


def usual_times(runs: Frame, rows: Ints) -> UsualTimes:
    """Usual times of the runs in `rows`.

    From runs of the same user, program, processes and file system, with the same pattern, in the days around; the run
    itself included.
    """
    seconds, patterns, day = runs.floats("io_seconds"), find_patterns(runs), runs.ints("start_ns") // DAY_NS
    usual, spread = np.full(len(rows), np.nan), np.full(len(rows), np.nan)
    for index, (row, peers) in enumerate(find_peers(runs, rows, runs.text("main_mount").codes.astype(np.int64))):
        if len(peers) < _LEAST_SIMILAR:
            continue
        peers = peers[(np.abs(day[peers] - day[row]) <= REACH_DAYS) & match_pattern(patterns[peers], patterns[row])]
        if len(peers) >= _LEAST_SIMILAR:
            centre, half = shortest_half(np.log(seconds[peers]))
            usual[index] = np.exp(centre)
            spread[index] = max(MAD_TO_SD * half, _CHANCE_SPREAD / len(peers))  # few may agree by chance
    return UsualTimes(seconds[rows], usual, spread)


def shortest_half(values: Floats) -> tuple[float, float]:
    """(median, half the length) of the shortest interval with more than half of the values.

    Where many runs were slowed, the median of all is not usual; otherwise these are the median and the MAD.
    """
    ordered = np.sort(values)
    count = len(ordered) // 2 + 1
    lengths = ordered[count - 1 :] - ordered[: len(ordered) - count + 1]
    first = int(np.argmin(lengths))
    return float(np.median(ordered[first : first + count])), float(lengths[first]) / 2


# How much of a facility's slowness is due to the work of other jobs.
#
# Runs that meet much work of others in their usual time are slow more often than runs that meet none; the rest are slow
# for other reasons. With x, the work met as a share of the usual time,
#
#     P(slow | x) = p0 + (1 - p0) g(x),    g(x) = 1 - exp(-(x / theta)^1.75)
#
# where p0 is the rate of slow runs that meet nothing and theta the work that slows most runs. Chosen on the simulated
# facilities of seeds 208 to 245 of benchmarks/who.py. [ours]

_THETA, _STEEPNESS, _P0 = 0.6, 1.75, 0.03


def attributable_share(work: float) -> float:
    """Share of slow runs that met this work (in usual times) and would not have been slow without it.

    The attributable share of epidemiology (Miettinen 1974).
    """
    by_work = (1.0 - _P0) * -math.expm1(-((work / _THETA) ** _STEEPNESS))
    return by_work / (_P0 + by_work)


Evidence: TypeAlias = Literal["servers", "log"]
# Standard deviation of the logarithm of a job's work on the right targets at the right time: counted by servers; from a
# log, whose bytes are spread over its time. [ours]
WORK_SPREAD: Final[dict[Evidence, float]] = {"servers": 0.45, "log": 0.9}
# The capacity of targets varies with the kind of requests: one error for all jobs. [ours]
CAPACITY_SPREAD: Final = 0.3
# Standard deviation of the logarithm of the loss around all others' work, and the share of runs that lose time for
# other reasons. [ours]
_LOSS_SPREAD: Final = 0.6
_OTHER_REASONS: Final = 0.05
_DRAWS: Final = 2000
_LOW, _MIDDLE, _HIGH = 0.05, 0.5, 0.95
# An accusation needs more evidence than silence. [ours]
NAMED_FROM: Final = 0.5
SURE_FROM: Final = 0.9
# Two are named together from a higher probability than one alone, since one of them is innocent. [ours]
PAIR_FROM: Final = 0.6
# With less than this share of a slowdown's work, a job is no suspect.
_LEAST_SHARE: Final = 0.1
# A job slowed a run if it cost half of a slowdown, and so many seconds: shorter waits vary for other reasons. [ours]
_LEAST_SECONDS: Final = 0.25
_WIDTH_90: Final = 3.29  # width of a 90% interval of a normal distribution, in standard deviations


@dataclass(frozen=True)
class Party:
    """A job and its owner. `key` is its name in the records. Hidden parties have a distinct key and no names."""

    key: str
    job_id: int | None = None
    uid: int | None = None
    user: str | None = None
    project: str | None = None
    program: str | None = None
    hidden: bool = False

    @property
    def names(self) -> tuple[int | None, str | None, str | None, str | None]:
        """(job id, user, project, program)."""
        return self.job_id, self.user, self.project, self.program


@dataclass(frozen=True)
class Suspect:
    """A job that was active while the run did I/O.

    `data_seconds` and `metadata_seconds` are what the run would have waited less without it. Ratios are shares of all
    known work on the run's targets at the time.
    """

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
class Slowed:
    """A run with its usual time and the cost of its own change, and the suspects that may have slowed it.

    A usual time without a value is unknown. `met_seconds` is all others' work that it meets in its usual time: a run
    that takes longer, for any reason, meets more. It may have waited for metadata in `metadata_ratio` of its time and
    for data in `data_ratio`; together more than 1, since close() may wait for either. `has_servers`: servers counted
    the work of jobs at that time.
    """

    party: Party
    io_seconds: float
    usual: Amount
    own: Amount | None
    harm_seconds: float
    suspects: tuple[Suspect, ...]
    met_seconds: float = 0.0
    metadata_ratio: float = 0.0
    data_ratio: float = 1.0
    has_servers: bool = False
    start_ns: int = 0

    @property
    def is_slow(self) -> bool:
        """Whether it lost enough to count as slowed."""
        return self.usual.value is not None and self.io_seconds - self.usual.value >= self.harm_seconds

    @property
    def attributable(self) -> float:
        """Share of runs so slow, with as much work of others, that would not have been slow without it."""
        # A target does not work longer than the usual time.
        return attributable_share(min(1.0, self.met_seconds / (self.usual.value or self.io_seconds)))


@dataclass(frozen=True)
class Blame:
    """Seconds that a suspect cost a run, with a 90% interval, and the probability that it slowed the run."""

    suspect: Suspect
    probability: float
    seconds: float
    low: float
    high: float


def blame(run: Slowed) -> tuple[Blame, ...]:
    """Return the blame of each suspect, the one with most seconds first."""
    work, lost, weight = _draw_losses(run)
    result = [_blame_suspect(suspect, run, np.minimum(lost, each), lost, weight) for suspect, each in work]
    return tuple(sorted(result, key=lambda each: (-each.seconds, -each.probability, each.suspect.party.key)))


def one_of_two(run: Slowed) -> tuple[Party, Party, float] | None:
    """Return the two likeliest suspects and the probability that one of them slowed the run.

    None unless together they reach a threshold (named, or sure) that neither reaches alone.
    """
    work, lost, weight = _draw_losses(run)
    took = [_slowed_it(run, np.minimum(lost, each), lost) for _, each in work]
    alone = [float(weight[each].sum()) for each in took]
    first, *others = sorted(range(len(work)), key=lambda which: -alone[which])[:2] or [-1]
    if not others:
        return None
    due, second = run.attributable, others[0]
    either = due * float(weight[took[first] | took[second]].sum())
    best = due * alone[first]
    is_either = best < SURE_FROM <= either or (best < NAMED_FROM and either >= PAIR_FROM)
    return (work[first][0].party, work[second][0].party, either) if is_either else None


def _draw_losses(run: Slowed) -> tuple[list[tuple[Suspect, Floats]], Floats, Floats]:
    """(suspects with draws of their work, draws of the loss, weight of each draw)."""
    found, usual = run.suspects, run.usual
    if not found or usual.value is None:
        return [], np.zeros(0), np.zeros(0)
    rng = np.random.default_rng(1)
    lost = run.io_seconds - _draw_amount(usual, rng)
    if run.own is not None and run.own.value is not None:
        lost -= np.maximum(_draw_amount(run.own, rng), 0.0)
    lost = np.maximum(lost, 0.0)
    capacity = np.exp(CAPACITY_SPREAD * rng.standard_normal(_DRAWS))
    most_data, most_metadata = (
        min(1.0, max(0.0, ratio)) * run.io_seconds for ratio in (run.data_ratio, run.metadata_ratio)
    )
    work = []
    # The order is the same for every asker, since each suspect has its own draws.
    for suspect in sorted(found, key=lambda each: (-each.data_seconds, -each.metadata_seconds)):
        if suspect.data_seconds + suspect.metadata_seconds < _LEAST_SHARE * run.harm_seconds:
            continue
        factor = capacity * np.exp(WORK_SPREAD[suspect.evidence] * rng.standard_normal(_DRAWS))
        data = np.minimum(suspect.data_seconds * factor, most_data)
        work.append((suspect, data + np.minimum(suspect.metadata_seconds * factor, most_metadata)))
    explained = sum((each for _, each in work), np.zeros(_DRAWS))
    # Draws weigh more the better all work explains the loss.
    has_loss = lost > 0
    log_ratio = np.log(np.where(has_loss, lost, 1.0) / (explained + _OTHER_REASONS * run.harm_seconds)) / _LOSS_SPREAD
    likelihood = np.exp(-0.5 * np.where(has_loss, log_ratio, 0.0) ** 2)
    weight = _OTHER_REASONS + (1.0 - _OTHER_REASONS) * likelihood
    return work, lost, np.asarray(weight / weight.sum())


def _blame_suspect(suspect: Suspect, run: Slowed, seconds: Floats, lost: Floats, weight: Floats) -> Blame:
    """Blame of one suspect from weighted draws of the seconds that it cost and of all that the run lost.

    With probability 1 - `run.attributable` it cost nothing, since work does not explain slowness here.
    """
    due = run.attributable
    probability = due * float(weight[_slowed_it(run, seconds, lost)].sum())
    nothing = 1.0 - due
    order = np.argsort(seconds)
    seconds, cumulative = seconds[order], np.cumsum(weight[order])

    def quantile(level: float) -> float:
        return float(seconds[min(int(np.searchsorted(cumulative, level)), _DRAWS - 1)])

    low, high = (quantile((level - nothing) / (1.0 - nothing)) if level > nothing else 0.0 for level in (_LOW, _HIGH))
    median = quantile(_MIDDLE)
    return Blame(suspect, probability, median, min(low, median), max(high, median))


def _slowed_it(run: Slowed, seconds: Floats, lost: Floats) -> Bools:
    """Draws in which a job that cost `seconds` slowed the run."""
    least = max(run.harm_seconds / 2, _LEAST_SECONDS)
    return np.asarray((seconds >= least) & (lost >= run.harm_seconds))


def _draw_amount(amount: Amount, rng: np.random.Generator) -> Floats:
    """Draws from a value with a 90% interval, whose halves may differ."""
    assert amount.value is not None
    low, high = (amount.value if each is None else each for each in (amount.low, amount.high))
    normal = rng.standard_normal(_DRAWS)
    below, above = 2 * (amount.value - low) / _WIDTH_90, 2 * (high - amount.value) / _WIDTH_90
    return np.asarray(amount.value + np.where(normal < 0, below, above) * normal)


@dataclass(frozen=True)
class TotalBlame:
    """What one party cost all slowed runs together.

    Its errors are the same in all runs, so the ends of the intervals add up. `probability` is that of the run with the
    best evidence, `worst` the blame with most seconds.
    """

    party: Party
    probability: float
    seconds: float
    low: float
    high: float
    runs: int
    worst: Blame


def sum_blames(blamed: Iterable[Sequence[Blame]], name_of: Callable[[Party], str | None]) -> tuple[TotalBlame, ...]:
    """Sum the blames of several runs by `name_of` (a job's key, a user), the most seconds first.

    Parties without a name are left out.

    Blames below `NAMED_FROM` are not added: many slight suspicions are no evidence.
    """
    found: dict[str, list[Blame]] = {}
    for blames in blamed:
        for each in blames:
            name = name_of(each.suspect.party)
            if name is not None and each.probability >= NAMED_FROM:
                found.setdefault(name, []).append(each)
    result = []
    for parts in found.values():
        seconds, low, high = (sum(getattr(part, name) for part in parts) for name in ("seconds", "low", "high"))
        surest = max(parts, key=lambda part: (part.probability, part.seconds))
        worst = max(parts, key=lambda part: part.seconds)
        result.append(TotalBlame(surest.suspect.party, surest.probability, seconds, low, high, len(parts), worst))
    return tuple(sorted(result, key=lambda each: (-each.seconds, -each.probability, each.party.key)))


# I/O time of all other jobs without one job.


@dataclass(frozen=True)
class WithoutJob:
    """A period without the job of `party`: the seconds that all other runs would save.

    `runs` are these runs: their job, I/O seconds, and the seconds that each would save (negative if it would lose).
    """

    party: Party
    filesystem: str
    start_ns: int
    end_ns: int
    saved: Amount
    runs: tuple[tuple[Party, float, float], ...]


def total_saved(
    lost_seconds: Floats, saved_seconds: Floats, blamed: Sequence[Blame | None], evidence: Evidence
) -> tuple[Floats, Amount]:
    """(seconds that each run would save without a job, their sum with a 90% interval).

    A run waits for the busiest of its targets. It gains the work of the job on that target (`saved_seconds`), but no
    more than it lost beyond its usual time. A run for which `who` names the job gains the seconds that `who` states.
    The error of the job's work is common to all runs, so the ends of intervals add up.
    """
    named = [each for each in blamed if each is not None]
    rest = np.array([each is None for each in blamed], np.bool_)
    gains = np.minimum(lost_seconds, saved_seconds)
    gains[~rest] = [each.seconds for each in named]
    spread = math.hypot(WORK_SPREAD[evidence], CAPACITY_SPREAD)
    factors = (math.exp(sign * _Z_90 * spread) for sign in (-1, 1))
    ends = [sum(np.minimum(lost_seconds, saved_seconds * factor)[rest].tolist()) for factor in factors]
    low, high = min(ends) + sum(each.low for each in named), max(ends) + sum(each.high for each in named)
    return gains, Amount(sum(gains.tolist()), low, high)


# Who did what in a period.


@dataclass(frozen=True)
class Volume:
    """What a job did in the period; `known_by` is servers or log."""

    party: Party
    read_bytes: float
    write_bytes: float
    metadata_operations: float
    known_by: str


@dataclass(frozen=True)
class Activity:
    """Activity on one file system in a period.

    `slowed` are the runs that took longer than similar ones; `storms` the metadata storms of jobs (see `Storm`); `runs`
    counts the runs with a log, `unplaced` those of them whose log names no file system; `known_ratio` is the share of
    the storage's traffic that jobs' records explain, None without samples. `is_last_hour`: no period was chosen, so it
    is the last hour with jobs.
    """

    filesystem: str
    start_ns: int
    end_ns: int
    slowed: tuple[Slowed, ...] = ()
    volumes: tuple[Volume, ...] = ()
    storms: tuple[tuple[Party, Storm], ...] = ()
    runs: int = 0
    unplaced: int = 0
    known_ratio: float | None = None
    is_last_hour: bool = False
