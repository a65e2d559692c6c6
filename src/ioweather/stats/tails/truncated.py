"""A head cut off at the pivot, and head and tail together: a proper distribution to draw from and to predict with.

don15 fits the head group with an unbounded Normal or Cauchy, whose distance is what the paper reports. For a
distribution the head must end at the pivot and start at 0, and its parameters are those of the truncated family.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np

from ioweather.core.arrays import Floats
from ioweather.stats.tails.bounded import BoundedFamily
from ioweather.stats.tails.families import Cauchy, Family, Normal, Real

_Side: TypeAlias = Callable[[Floats], Floats]


@dataclass(frozen=True, eq=False)
class TruncatedHead(Family):
    """`base` between 0 and `high`."""

    name: ClassVar[str] = "truncated_head"
    base: Normal | Cauchy
    high: Real

    def at(self, rows: Any) -> Self:
        return type(self)(self.base.at(rows), np.asarray(self.high)[rows])

    def one(self, row: int) -> Self:
        return type(self)(self.base.one(row), float(np.asarray(self.high)[row]))

    @property
    def _ends(self) -> tuple[Floats, Floats, Floats]:
        """The base at both ends, and what lies between. A base with nothing there is no head; its distance must come
        out large, not as no number."""
        low, high = self.base.cdf(0.0), self.base.cdf(self.high)
        return low, high, np.maximum(high - low, 1e-300)

    def cdf(self, x: Real) -> Floats:
        low, _, mass = self._ends
        return np.clip((self.base.cdf(x) - low) / mass, 0.0, 1.0)

    def survival(self, x: Real) -> Floats:
        _, high, mass = self._ends
        return np.clip((high - self.base.cdf(x)) / mass, 0.0, 1.0)

    def log_density(self, x: Real) -> Floats:
        return self.base.log_density(x) - np.log(self._ends[2])

    def upper_quantile(self, q: Real) -> Floats:
        _, high, mass = self._ends
        return np.clip(self.base.quantile(high - np.asarray(q) * mass), 0.0, self.high)

    def quantile(self, p: Real) -> Floats:
        low, _, mass = self._ends
        return np.clip(self.base.quantile(low + np.asarray(p) * mass), 0.0, self.high)

    @property
    def mean(self) -> float:
        return self.base.mean_between(0.0, float(self.high))

    @property
    def parameters(self) -> Mapping[str, float]:
        return {**self.base.parameters, "high": float(self.high)}


@dataclass(frozen=True, eq=False)
class Mixture(Family):
    """`tail_share` of the times lie beyond the pivot and follow `tail`, the others follow `head`."""

    name: ClassVar[str] = "mixture"
    head: TruncatedHead
    tail: BoundedFamily
    tail_share: float

    @property
    def pivot(self) -> float:
        return float(self.tail.low)

    def survival(self, x: Real) -> Floats:
        return self._by_side(
            x,
            lambda t: self.tail_share + (1 - self.tail_share) * self.head.survival(t),
            lambda t: self.tail_share * self.tail.survival(t),
        )

    def cdf(self, x: Real) -> Floats:
        return self._by_side(
            x, lambda t: (1 - self.tail_share) * self.head.cdf(t), lambda t: 1 - self.tail_share * self.tail.survival(t)
        )

    def log_density(self, x: Real) -> Floats:
        return self._by_side(
            x,
            lambda t: np.log1p(-self.tail_share) + self.head.log_density(t),
            lambda t: np.log(self.tail_share) + self.tail.log_density(t),
        )

    def upper_quantile(self, q: Real) -> Floats:
        wanted = np.atleast_1d(np.asarray(q, np.float64))
        result = np.empty(wanted.shape)
        far = wanted < self.tail_share
        result[far] = self.tail.upper_quantile(wanted[far] / self.tail_share)
        result[~far] = self.head.upper_quantile((wanted[~far] - self.tail_share) / (1 - self.tail_share))
        return result.reshape(np.shape(q))

    def _by_side(self, x: Real, head: _Side, tail: _Side) -> Floats:
        times = np.atleast_1d(np.asarray(x, np.float64))
        result = np.empty(times.shape)
        far = times > self.pivot
        result[far], result[~far] = tail(times[far]), head(times[~far])
        return result.reshape(np.shape(x))

    @property
    def mean(self) -> float:
        return (1 - self.tail_share) * self.head.mean + self.tail_share * self.tail.mean

    @property
    def parameters(self) -> Mapping[str, float]:
        base = {f"head_{name}": value for name, value in self.head.base.parameters.items()}
        tail = {f"tail_{name}": value for name, value in self.tail.parameters.items() if name != "low"}
        return {"pivot": self.pivot, "tail_share": self.tail_share, **base, **tail}
