"""What earlier advice has kept: pairs of runs before and after a change, and what the models had said.

`record.toml` has one entry for each pair: the rule, the seconds that its model said, the seconds that were won, and
where the pair is from. `python benchmarks/advice_pairs.py --write` makes it again. A promise is what the model says
times the median of won / modelled; its interval is split conformal (Vovk et al. 2005): with n pairs exchangeable with
this run, the ranks floor(0.05 (n + 1)) and ceil(0.95 (n + 1)) of that ratio hold 90% or more. With fewer than 19 pairs
of the rule those of its model stand in, else of its part, else all.
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
# A rule's own median counts from so many pairs on.
FEWEST_OF_RULE: Final = 5


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
    rule itself."""

    seconds: float
    low: float
    high: float
    pairs: int
    of_rule: int

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
    usable = [pair for pair in past if pair.modelled_seconds > 0]
    own = [pair.ratio for pair in usable if pair.rule == rule]
    of_model = [pair.ratio for pair in usable if rule in JOINING and pair.rule in JOINING]
    of_part = [pair.ratio for pair in usable if pair.part == part]
    pools = (own, of_model, of_part, [pair.ratio for pair in usable])
    pool = next((ratios for ratios in pools if len(ratios) >= FEWEST_PAIRS), pools[-1])
    if not pool:
        return Promise(modelled_seconds, 0.0, min(modelled_seconds, most_seconds), 0, 0)
    middle = float(np.median(own if len(own) >= FEWEST_OF_RULE else pool))
    if own:
        # Few pairs of its own can lower what is promised, not raise it.
        middle = min(middle, float(np.median(own)))
    low, high = conformal(pool)
    seconds = min(modelled_seconds * middle, most_seconds)
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
