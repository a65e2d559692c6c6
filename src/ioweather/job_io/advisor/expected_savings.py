"""What earlier changes saved, the saving that is expected of a change, and the advice of a rule.

`record.toml` has pairs of runs before and after a change: the rule, the seconds by its model, the seconds that were
saved, the kind of storage, and the origin of the pair. `python benchmarks/advice_pairs.py --write` makes it. Only pairs
on the same kind of storage count: a parallel file system is not a local disk. The expected saving is the model's value
times the lower quartile of saved / modelled over the closest related pairs, if five: of the rule, of rules with its
model, of rules of its part. Without a pair of the rule or its model, or if a quarter of the pairs saved hardly any,
the saving is "up to" the model's seconds.

The interval is split conformal (Vovk et al. 2005): with n pairs exchangeable with this run, the ranks floor(0.05 (n +
1)) and ceil(0.95 (n + 1)) of that ratio contain 90% or more; of the closest related pairs if 19, else of all on that
kind of storage. If the model gives a second or more, only pairs of a second or more are related.

Joined requests on a parallel file system save what the storage's own rate leaves, and a log does not show that rate.
There the pairs give it: the rates of whole runs after their requests were joined. At rate r, a run that moved bytes at
rate a keeps a / r of its time, so a change saves 1 - a / r of the model's seconds. The rank below is that of r; the one
above is that of the ratio, as for other rules. Faster runs are not like these pairs: "up to".
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from importlib.resources import files
from typing import Final, Literal, TypeAlias

import numpy as np

from ioweather.job_io.advisor.fixes import Pattern
from ioweather.job_io.advisor.profile import WRITE_TO_MEMORY_SECONDS, Profile, Storage

LEVEL: Final = 0.9
# The smallest n for which both ranks exist at this level.
FEWEST_PAIRS: Final = 19
# Rules with one model: joined requests save their time beyond their bytes. After the change the time of all but the
# last is mostly that of moving bytes.
_JOINED: Final = frozenset({"small_requests", "no_mpiio", "no_collectives", "mpiio_splits", "unbuffered", "stdio"})
_JOINING: Final = _JOINED | {"fsync_storm"}
# Noise of the machine decides shorter pairs, so they say little about longer ones.
_LEAST_SECONDS: Final = 1.0
# The fewest pairs of which a quantile is used, and the quantile that is expected: three of four changes saved more.
_FEWEST_OF_QUANTILE: Final = 5
_EXPECTED_QUANTILE: Final = 0.25
# A smaller share of the model's seconds is not expected: such changes saved something or nothing.
_HARDLY: Final = 0.1

# Rules of one part model the same seconds; see `Advised.together_seconds`.
Part: TypeAlias = Literal["requests", "metadata", "ranks", "layout", "overlap"]
# The classes of patterns of the public labelled logs (TraceBench, IPDPS 2025).
Dimension: TypeAlias = Literal["small_or_misaligned", "interface", "random", "imbalance", "shared_file", "metadata"]


@dataclass(frozen=True)
class MeasuredChange:
    """A change that was made: seconds by the rule's model, and seconds that were saved of `before_seconds`."""

    rule: str
    part: str
    storage: Storage
    origin: str
    name: str
    before_seconds: float
    modelled_seconds: float
    saved_seconds: float
    moved_bytes: int = 0  # 0: not recorded

    @cached_property
    def ratio(self) -> float:
        """Saved seconds over modelled seconds."""
        return max(self.saved_seconds, 0.0) / self.modelled_seconds

    @property
    def rate_after(self) -> float:
        """Bytes per second of the whole run after the change."""
        return self.moved_bytes / max(self.before_seconds - self.saved_seconds, WRITE_TO_MEMORY_SECONDS)


@dataclass(frozen=True)
class Saving:
    """Expected saving with a 90% interval, from `pairs`, `of_rule` of which are of the rule itself. `tried` is False
    without related pairs: `high` is then the model's value."""

    seconds: float
    low: float
    high: float
    pairs: int
    of_rule: int
    tried: bool = True

    def scaled(self, share: float) -> Saving:
        """Return the saving of a run that is `share` as long."""
        return replace(self, seconds=self.seconds * share, low=self.low * share, high=self.high * share)


@cache
def record() -> tuple[MeasuredChange, ...]:
    """Read the past pairs of record.toml."""
    text = files("ioweather.job_io.advisor").joinpath("record.toml").read_text("utf-8")
    return tuple(MeasuredChange(**pair) for pair in tomllib.loads(text).get("pair", ()))


def saving_from_pairs(
    past: Sequence[MeasuredChange],
    rule: str,
    part: str,
    modelled_seconds: float,
    most_seconds: float,
    bytes_per_s: float = 0.0,
) -> Saving:
    """Return the expected saving from past pairs, at most `most_seconds`."""
    least = _LEAST_SECONDS if modelled_seconds >= _LEAST_SECONDS else 0.0
    known = [pair for pair in past if pair.modelled_seconds > 0]
    usable = [pair for pair in known if pair.modelled_seconds >= least]
    own = [pair.ratio for pair in usable if pair.rule == rule]
    of_model = [pair.ratio for pair in usable if rule in _JOINING and pair.rule in _JOINING]
    kin = (own, of_model, [pair.ratio for pair in usable if pair.part == part])
    pool = next((ratios for ratios in kin if len(ratios) >= FEWEST_PAIRS), [pair.ratio for pair in known])
    closest = next((ratios for ratios in kin if len(ratios) >= _FEWEST_OF_QUANTILE), None)
    rates = [pair.rate_after for pair in past if rule in _JOINED and pair.rule in _JOINED and pair.moved_bytes > 0]
    by_rate = len(rates) >= FEWEST_PAIRS
    slow = float(np.quantile(rates, _EXPECTED_QUANTILE)) if by_rate else math.inf
    no_pair = not own and not of_model
    if no_pair or closest is None or len(pool) < FEWEST_PAIRS or bytes_per_s >= slow:
        return Saving(0.0, 0.0, min(modelled_seconds, most_seconds), 0, 0, tried=False)
    low, high = conformal(pool)
    if by_rate:
        low, expected = (max(0.0, 1.0 - bytes_per_s / rate) for rate in (conformal(rates)[0], slow))
    else:
        # A few pairs of its own can lower the expected saving, not raise it.
        expected = min(float(np.quantile(ratios, _EXPECTED_QUANTILE)) for ratios in (closest, own) if ratios)
    seconds = min(modelled_seconds * expected, most_seconds)
    most = min(modelled_seconds * high, most_seconds) if modelled_seconds > 0 else 0.0
    # Where a quarter of such changes saved hardly anything, nothing is expected: "up to" the model's seconds.
    if seconds <= _HARDLY * modelled_seconds and modelled_seconds > 0:
        return Saving(0.0, 0.0, min(modelled_seconds, most_seconds), len(pool), len(own), tried=False)
    return Saving(seconds, min(modelled_seconds * low, seconds), max(most, seconds), len(pool), len(own))


def conformal(ratios: Sequence[float]) -> tuple[float, float]:
    """Return the conformal interval of the next ratio at LEVEL; 0 to infinity if n is too small."""
    ordered, tail = sorted(ratios), (1.0 - LEVEL) / 2
    # 1e-9: 0.05 x 20 must round down to 1.
    below = math.floor(tail * (len(ordered) + 1) + 1e-9)
    above = math.ceil((1.0 - tail) * (len(ordered) + 1) - 1e-9)
    low = ordered[below - 1] if below >= 1 else 0.0
    return low, ordered[above - 1] if above <= len(ordered) else math.inf


@dataclass(frozen=True)
class Advice:
    """One pattern of a run. `model_seconds` is the saving of wall-clock I/O time by the rule's model, if only this were
    changed; `saving` the expected saving from past pairs. `model` describes the model, `fix_lines` are to type, `note`
    is a sentence of the site."""

    name: str
    headline: str
    dimension: Dimension
    part: Part
    evidence: str
    model_seconds: float
    saving: Saving
    model: str
    fix_lines: tuple[str, ...]
    matters: bool = False
    file: str = ""
    note: str = ""

    @property
    def seconds(self) -> float:
        return self.saving.seconds

    @property
    def stated_seconds(self) -> float:
        """The seconds that are shown, ranked and compared with the floor: the expected saving, or the model's for a
        change never tried."""
        return self.saving.seconds if self.saving.tried else self.saving.high


@dataclass(frozen=True)
class Rule:
    """A rule of rules.toml. `find` returns None if the pattern is not there; the rest is for screens and documentation:
    `action` says what to do, `trigger` is the condition, `sources` the literature, `before` and `after` are lines of a
    program.

    `same_bytes` is False if the change moves fewer bytes, or moves them to other targets; `explains` are rules whose
    patterns this one explains, which are left out; `tried` is False if no earlier change tells the saving.
    """

    name: str
    headline: str
    dimension: Dimension
    part: Part
    trigger: str
    model: str
    sources: tuple[str, ...]
    before: str
    after: str
    find: Callable[[Profile], Pattern | None]
    same_bytes: bool = True
    explains: tuple[str, ...] = ()
    tried: bool = True
    action: str = ""

    def advice(self, profile: Profile) -> Advice | None:
        """Return the pattern of this rule with its expected saving; None if it is not there or hardly matters."""
        seen = self.find(profile)
        if seen is None or not profile.is_noticeable(seen.rows):
            return None
        lost = max(seen.seconds_lost, 0.0) if math.isfinite(seen.seconds_lost) else 0.0
        most = min(profile.most_seconds(self.same_bytes), seen.most_seconds)
        seconds = min(lost, most)
        if_faster = min(lost, profile.most_seconds_if_faster()) if self.same_bytes else seconds
        if if_faster > seconds or not self.tried:
            saving = Saving(0.0, 0.0, max(if_faster, seconds), 0, 0, tried=False)
        else:
            pairs = [pair for pair in record() if pair.storage == profile.storage]
            saving = saving_from_pairs(pairs, self.name, self.part, seconds, most, profile.bytes_per_s)
        named = (self.name, self.headline, self.dimension, self.part, seen.evidence, seconds, saving, self.model)
        return Advice(*named, fix_lines=seen.fix_lines, file=profile.name_file(seen.rows))
