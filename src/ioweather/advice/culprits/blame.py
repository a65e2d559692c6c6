"""How many seconds each job cost a run, and how likely it cost it a slowdown at all. Pure.

What a run lost is D - B - J: its I/O time beyond the usual, less what its own change cost. Without job k it would have
taken k's work on the targets it waited for less, but not less than the usual: seconds(k) = min(D - B - J, work(k)).
The probability is that the run lost h or more, the least that counts as a slowdown, and that k took a good part of it:
h / 2 where servers counted its work. A job known by its log alone must have taken half of what was lost, or h, for
others may have left no record. Errors of B, of J and of the work are drawn, and draws count for more in which
everybody's work together, recorded or not, explains what was lost. Seconds of several jobs need not add up: without
either of two the run may still wait for the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import numpy as np

from ioweather.core.arrays import Floats
from ioweather.core.run_outcomes import Amount

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
# What is drawn is too sure of itself, for errors that are not drawn: the logarithm of the odds counts for so much, and
# 50% stays 50%. Fitted by maximum likelihood on the simulated facilities of seeds 205 to 208 of benchmarks/who.py
# (518 pairs of a run and a job with servers' counts, 335 by logs alone), 2026-11-16.
_TRUST: Final[dict[Evidence, float]] = {"servers": 0.75, "log": 0.65, "usual": 0.65}
# Of slowed runs that met others' work, this share was slowed by it on those facilities. Where it is less, as where runs
# beside much work are slow no more often than others, suspects are less likely by as much. [ours]
_ATTRIBUTABLE: Final = 0.8
# Before any run is seen: how many times the odds of meeting others' work are higher for slowed runs than for others at
# the same time, and the standard deviation of its logarithm. [ours]
_USUAL_ODDS, _ODDS_SPREAD = 1 / (1 - _ATTRIBUTABLE), 1.0
_DRAWS: Final = 2000
_LOW, _MIDDLE, _HIGH = 0.05, 0.5, 0.95
# An accusation needs more evidence than silence. [ours]
NAMED_FROM: Final = 0.5
# Who did less than this share of a slowdown's worth of work is no suspect.
_LEAST_SHARE: Final = 0.1
_SUREST: Final = 0.005
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
    record the run would have waited `unrecorded_seconds` less."""

    found: tuple[Suspect, ...]
    known_ratio: float | None = None
    busiest: str | None = None
    metadata_ratio: float = 0.0
    filesystem: str = ""
    has_servers: bool = False
    unrecorded_seconds: float = 0.0

    @property
    def seconds(self) -> float:
        """Work of all others, recorded or not."""
        return self.unrecorded_seconds + sum(each.data_seconds + each.metadata_seconds for each in self.found)


@dataclass(frozen=True)
class Slowed:
    """A run that took longer than usual: its usual time and what its own change cost, with their 90% intervals.
    `attributable`: the share of such runs beside others' work that would not have been slow without it."""

    party: Party
    io_seconds: float
    usual: Amount
    own: Amount | None
    harm_seconds: float
    suspects: Suspects
    start_ns: int = 0
    attributable: float = _ATTRIBUTABLE

    @property
    def met_work(self) -> bool:
        """In its usual time: who takes longer, for whatever reason, meets more of it."""
        usual = self.io_seconds if self.usual.value is None else min(self.usual.value, self.io_seconds)
        return self.suspects.seconds * usual / self.io_seconds >= self.harm_seconds / 2


@dataclass(frozen=True)
class Blame:
    suspect: Suspect
    probability: float
    seconds: float
    low: float
    high: float


def blame(run: Slowed) -> tuple[Blame, ...]:
    """Of each suspect, the one with most seconds first."""
    found, usual = run.suspects.found, run.usual
    if not found or usual.value is None:
        return ()
    rng = np.random.default_rng(1)
    lost = run.io_seconds - _draws(usual, rng)
    if run.own is not None and run.own.value is not None:
        lost -= np.maximum(_draws(run.own, rng), 0.0)
    lost = np.maximum(lost, 0.0)
    capacity = np.exp(CAPACITY_SPREAD * rng.standard_normal(_DRAWS))
    in_metadata = min(1.0, max(0.0, run.suspects.metadata_ratio)) * run.io_seconds
    spread = WORK_SPREAD["log"]
    unrecorded = run.suspects.unrecorded_seconds * capacity * np.exp(spread * rng.standard_normal(_DRAWS))
    work = []
    for suspect in found:
        if suspect.data_seconds + suspect.metadata_seconds < _LEAST_SHARE * run.harm_seconds:
            continue
        factor = capacity * np.exp(WORK_SPREAD[suspect.evidence] * rng.standard_normal(_DRAWS))
        # Time in close() counts as metadata, and waits for data.
        metadata = np.minimum(suspect.metadata_seconds * factor, in_metadata)
        work.append((suspect, suspect.data_seconds * factor + metadata))
    weight = _weights(lost, unrecorded + sum(each for _, each in work), run.harm_seconds)
    result = [_blame(suspect, np.minimum(lost, each), lost, weight, run) for suspect, each in work]
    return tuple(sorted(result, key=lambda each: (-each.seconds, -each.probability, each.suspect.party.key)))


def _weights(lost: Floats, explained: Floats, harm_seconds: float) -> Floats:
    """Of draws, by how well everybody's work explains what the run lost."""
    seen = lost > 0
    off = np.log(np.where(seen, lost, 1.0) / (explained + _OTHER_REASONS * harm_seconds)) / _LOSS_SPREAD
    weight = _OTHER_REASONS + (1.0 - _OTHER_REASONS) * np.exp(-0.5 * np.where(seen, off, 0.0) ** 2)
    return np.asarray(weight / weight.sum())


def _blame(suspect: Suspect, seconds: Floats, lost: Floats, weight: Floats, run: Slowed) -> Blame:
    """As far as the draws are too sure of themselves, the job may have cost nothing."""
    needed = needed_seconds(suspect.evidence, run.harm_seconds, lost)
    share = float(weight[(seconds >= needed) & (lost >= run.harm_seconds)].sum())
    probability = _with_prior(tempered(share, suspect.evidence), run.attributable)
    nothing = max(0.0, 1.0 - probability / max(share, _SUREST))
    order = np.argsort(seconds)
    seconds, reached = seconds[order], np.cumsum(weight[order])

    def quantile(level: float) -> float:
        return float(seconds[min(int(np.searchsorted(reached, level)), _DRAWS - 1)])

    low, high = (quantile((level - nothing) / (1.0 - nothing)) if level > nothing else 0.0 for level in (_LOW, _HIGH))
    middle = quantile(_MIDDLE)
    return Blame(suspect, probability, middle, min(low, middle), max(high, middle))


def tempered(share: float, evidence: Evidence) -> float:
    """The probability, of a share of the draws; a few draws more or less say nothing."""
    share = min(max(share, _SUREST), 1.0 - _SUREST)
    return float(1.0 / (1.0 + ((1.0 - share) / share) ** _TRUST[evidence]))


def _with_prior(probability: float, attributable: float) -> float:
    """Bayes' rule, with another share of slowed runs that others slowed than where probabilities were fitted."""
    fewer = min(1.0, attributable * (1 - _ATTRIBUTABLE) / (_ATTRIBUTABLE * (1 - attributable)))
    return probability * fewer / (1 - probability + probability * fewer)


def attributable_share(slowed: Sequence[bool], others: Sequence[bool]) -> float:
    """Of slowed runs that met others' work, the share that would not have been slow without it, by the odds ratio of a
    case-control study (Miettinen 1974): whether each slowed run met such work, and whether others at the same time did.
    Few runs say little beside what is usual, and without the one or the other nothing."""
    if not slowed or not others:
        return _ATTRIBUTABLE
    cases, controls = ((sum(each) + 0.5, len(each) - sum(each) + 0.5) for each in (slowed, others))
    found = np.log(cases[0] * controls[1] / (cases[1] * controls[0]))
    certainty, before = 1 / sum(1 / count for count in (*cases, *controls)), _ODDS_SPREAD**-2
    ratio = np.exp((found * certainty + np.log(_USUAL_ODDS) * before) / (certainty + before))
    return float(np.clip(1 - 1 / ratio, _SUREST, 1 - _SUREST))


def needed_seconds(evidence: Evidence, harm_seconds: float, lost: Floats) -> Floats:
    """The least that a job must have cost a run that lost so much to be blamed for it."""
    half = np.full(len(lost), harm_seconds / 2)
    return half if evidence == "servers" else np.clip(lost / 2, half, harm_seconds)


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
