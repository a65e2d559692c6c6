"""The slowest of n requests: order statistics of a striped transfer (don15 Eq. 1), and whether they may be used.

T_R = max(t_1 .. t_n) + psi. With the transfer of S bytes in n requests of S/n, F_TR(t) = F_{S/n}(t - psi)^n where
F_{S/n} is the distribution for that request size. The formula takes the requests to be independent; the paper assumes
that across storage targets, `independence` tests it, and `check_maxima` shows what it costs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import binom, rankdata

from ioweather.core.frames import Floats
from ioweather.stats.estimates import LEVEL, effective_sample
from ioweather.stats.families import Distribution, Real

# Fewer rounds than this cannot show dependence that matters.
MINIMUM_ROUNDS = 20


@dataclass(frozen=True, eq=False)
class _ByQuantiles(Distribution):
    """A distribution that is given by a function from upper tail probabilities to quantiles."""

    function: Callable[[Floats], Floats]

    def upper_quantile(self, q: Real) -> Floats:
        with np.errstate(divide="ignore"):
            return self.function(np.asarray(q, np.float64))


def slowest_of(base: Distribution, requests: int, overhead: float = 0.0) -> Distribution:
    """Return the distribution of the slowest of `requests` independent draws of `base`, plus a constant `overhead`."""
    if requests < 1:
        raise ValueError(f"a transfer has at least one request, not {requests}")
    # 1 - (1 - q)^(1/n) without losing the small difference.
    return _ByQuantiles(lambda q: base.upper_quantile(-np.expm1(np.log1p(-q) / requests)) + overhead)


def _between(smaller: Distribution, larger: Distribution, weight: float) -> Distribution:
    """Return the distribution of a request size between two sampled ones: quantiles interpolated, log time over log
    size."""
    return _ByQuantiles(
        lambda q: np.exp((1 - weight) * np.log(smaller.upper_quantile(q)) + weight * np.log(larger.upper_quantile(q)))
    )


def quantile_bound(values: Floats, side: int) -> Distribution:
    """Return the lower (`side` -1) or upper (1) end of the interval of each quantile of values in time order, valid for
    any distribution.

    The ends are order statistics (David & Nagaraja 2003, section 7.1), of as many independent values as there are. A
    quantile beyond which too few values are expected has none: NaN.
    """
    ordered, tail = np.sort(values), (1 - LEVEL) / 2
    n = max(1, min(len(values), int(effective_sample(rankdata(values)).count)))

    def end(q: Floats) -> Floats:
        rank = binom.ppf(tail, n, 1 - q) if side < 0 else binom.ppf(1 - tail, n, 1 - q) + 1
        whole = np.clip(np.ceil(rank / n * len(ordered)).astype(np.int64), 1, len(ordered))
        return np.where((rank >= 1) & (rank <= n), ordered[whole - 1], np.nan)

    return _ByQuantiles(end)


@dataclass(frozen=True, eq=False)
class BySize:
    """Distributions of single requests at the sampled sizes, ascending."""

    sizes: tuple[int, ...]
    distributions: tuple[Distribution, ...]

    def __post_init__(self) -> None:
        if len(self.sizes) != len(self.distributions) or not self.sizes:
            raise ValueError(f"{len(self.sizes)} request sizes for {len(self.distributions)} distributions")
        if list(self.sizes) != sorted(set(self.sizes)) or self.sizes[0] <= 0:
            raise ValueError(f"request sizes must be positive, distinct and ascending: {self.sizes}")

    def covers(self, size: float) -> bool:
        """Whether the size is between sampled ones."""
        return self.sizes[0] <= size <= self.sizes[-1]

    def at(self, size: float) -> Distribution:
        """Return the sampled distribution, or one interpolated between its neighbours; ValueError beyond the sampled
        sizes."""
        if not self.covers(size):
            raise ValueError(
                f"requests of {size:,.0f} bytes are outside the sampled sizes ({self.sizes[0]:,} to "
                f"{self.sizes[-1]:,} bytes): sample that size (no extrapolation)"
            )
        place = int(np.searchsorted(self.sizes, size))
        if self.sizes[place] == size:
            return self.distributions[place]
        small, large = self.sizes[place - 1], self.sizes[place]
        weight = math.log(size / small) / math.log(large / small)
        return _between(self.distributions[place - 1], self.distributions[place], weight)

    def transfer(self, total_bytes: float, requests: int, overhead: float = 0.0) -> Distribution:
        """Return the distribution of the time of `total_bytes` in `requests` equal parts (Eq. 1); `overhead` in
        seconds."""
        return slowest_of(self.at(total_bytes / requests), requests, overhead)


def independence(
    concurrent: ArrayLike, *, replicates: int = 499, seed: int = 0
) -> tuple[float, float, int, int] | None:
    """Test `concurrent[round, target]`, the times of concurrent requests (rounds in time order, NaN = missing).

    Returns the mean Spearman correlation over all pairs of targets, p (small: not independent), rounds and targets.
    Targets that are slow at the same time make the slowest of n *less* slow than the formula says, which is then an
    upper bound. The null turns each target's series around by a random shift, which keeps its own persistence and
    breaks what targets share. None where fewer than 20 complete rounds or 2 targets are left.
    """
    table = np.asarray(concurrent, np.float64)
    table = table[~np.isnan(table).any(axis=1)]
    rounds, targets = table.shape
    if rounds < MINIMUM_ROUNDS or targets < 2:
        return None
    ranks = rankdata(table, axis=0)
    spread = ranks.std(axis=0)
    if (spread == 0).any():
        return None
    scores = (ranks - ranks.mean(axis=0)) / spread

    def mean_correlation(columns: Floats) -> float:
        # The variance of a sum of standard scores is m + m (m - 1) r.
        return float((columns.sum(axis=1).var() - targets) / (targets * (targets - 1)))

    observed = mean_correlation(scores)
    rng = np.random.default_rng(seed)
    row = np.arange(rounds)[:, None]
    extreme = 0
    for _ in range(replicates):
        shifts = rng.integers(0, rounds, targets)
        shuffled = np.take_along_axis(scores, (row + shifts) % rounds, axis=0)
        extreme += abs(mean_correlation(shuffled)) >= abs(observed)
    return observed, (extreme + 1) / (replicates + 1), rounds, targets


def check_maxima(concurrent: ArrayLike, base: Distribution) -> list[tuple[int, float, float, float, float, int]]:
    """Compare the slowest request of random groups of targets with the formula, for groups of powers of two.

    Rows are (requests, quantile, predicted, measured, predicted / measured, rounds). A quantile is left out where fewer
    than ten rounds are beyond it.
    """
    table = np.asarray(concurrent, np.float64)
    table = table[~np.isnan(table).any(axis=1)]
    rounds, targets = table.shape
    mixed = np.random.default_rng(0).permuted(table, axis=1)
    checks = []
    for size in (2**k for k in range(int(math.log2(max(targets, 1))) + 1)):
        slowest, law = mixed[:, :size].max(axis=1), slowest_of(base, size)
        for p in (0.5, 0.9, 0.99):
            if rounds * (1 - p) >= 10:
                predicted = float(law.upper_quantile(1 - p))
                measured = float(np.quantile(slowest, p))
                checks.append((size, p, predicted, measured, predicted / measured, rounds))
    return checks
