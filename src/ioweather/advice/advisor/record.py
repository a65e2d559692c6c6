"""What earlier advice has kept: pairs of runs before and after a change, and what the models had said.

`record.toml` has one entry for each pair: the rule, the seconds that its model said, the seconds that were won, and
where the pair is from. `python benchmarks/advice_pairs.py --write` makes it again. A promise is what the model says
times the median of won / modelled of the closest kin with five pairs: the rule, rules of its model, rules of its part.
A rule without such kin that was never tried itself promises nothing: what its model says is not yet a promise.

The interval is split conformal (Vovk et al. 2005): with n pairs exchangeable with this run, the ranks
floor(0.05 (n + 1)) and ceil(0.95 (n + 1)) of that ratio hold 90% or more; of the closest kin with 19 pairs, else of
all. Kin of what the model puts at a second or more are pairs of a second or more.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Final

import numpy as np

LEVEL: Final = 0.9
# The fewest of which both ranks exist at this level.
FEWEST_PAIRS: Final = 19
# Rules of one model: requests that are joined save their time beyond their bytes.
JOINING: Final = frozenset(
    {"small_requests", "no_mpiio", "no_collectives", "mpiio_splits", "unbuffered", "stdio", "fsync_storm"}
)
# Pairs whose model says less tell little of those where it says more: what else the machine does decides them.
LEAST_SECONDS: Final = 1.0
# A median counts from so many pairs on.
FEWEST_OF_MEDIAN: Final = 5


@dataclass(frozen=True)
class Past:
    """A change that was made: seconds as the rule's model said before, and as they were won of `before_seconds`."""

    rule: str
    part: str
    origin: str
    name: str
    before_seconds: float
    modelled_seconds: float
    won_seconds: float

    @property
    def ratio(self) -> float:
        return max(self.won_seconds, 0.0) / self.modelled_seconds


@dataclass(frozen=True)
class Promise:
    """`low` and `high` hold what is won in 90% of cases like the `pairs` behind it; `of_rule` of these are of the
    rule itself. `tried` is False where neither the rule nor its kin was: `high` is then what the model says."""

    seconds: float
    low: float
    high: float
    pairs: int
    of_rule: int
    tried: bool = True

    def scaled(self, share: float) -> Promise:
        return replace(self, seconds=self.seconds * share, low=self.low * share, high=self.high * share)


@cache
def record() -> tuple[Past, ...]:
    text = files("ioweather.advice.advisor").joinpath("record.toml").read_text("utf-8")
    return tuple(Past(**pair) for pair in tomllib.loads(text).get("pair", ()))


@cache
def promised(rule: str, part: str, modelled_seconds: float, most_seconds: float) -> Promise:
    return promised_from(record(), rule, part, modelled_seconds, most_seconds)


def promised_from(past: Sequence[Past], rule: str, part: str, modelled_seconds: float, most_seconds: float) -> Promise:
    """No more than `most_seconds`: what the I/O took."""
    least = LEAST_SECONDS if modelled_seconds >= LEAST_SECONDS else 0.0
    everything = [pair.ratio for pair in past if pair.modelled_seconds > 0]
    usable = [pair for pair in past if pair.modelled_seconds > 0 and pair.modelled_seconds >= least]
    own = [pair.ratio for pair in usable if pair.rule == rule]
    of_model = [pair.ratio for pair in usable if rule in JOINING and pair.rule in JOINING]
    of_part = [pair.ratio for pair in usable if pair.part == part]
    kin = (own, of_model, of_part)
    pool = next((ratios for ratios in kin if len(ratios) >= FEWEST_PAIRS), everything)
    medians = [float(np.median(ratios)) for ratios in kin if len(ratios) >= FEWEST_OF_MEDIAN][:1]
    if own:
        # Few pairs of its own can lower what is promised, not raise it.
        medians.append(float(np.median(own)))
    low, high = conformal(pool)
    if not medians:
        return Promise(0.0, 0.0, min(modelled_seconds, most_seconds), 0, 0, tried=False)
    seconds = min(modelled_seconds * min(medians), most_seconds)
    most = min(modelled_seconds * high, most_seconds) if modelled_seconds > 0 else 0.0
    return Promise(seconds, min(modelled_seconds * low, seconds), max(most, seconds), len(pool), len(own))


def conformal(ratios: Sequence[float], level: float = LEVEL) -> tuple[float, float]:
    """The ratios between which the next one lies with this probability; infinite where n is too small to say."""
    ordered, tail = sorted(ratios), (1.0 - level) / 2
    # 0.05 x 20 is 1, whatever floating point makes of it.
    below = math.floor(tail * (len(ordered) + 1) + 1e-9)
    above = math.ceil((1.0 - tail) * (len(ordered) + 1) - 1e-9)
    low = ordered[below - 1] if below >= 1 else 0.0
    return low, ordered[above - 1] if above <= len(ordered) else math.inf
