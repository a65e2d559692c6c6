"""Counts in bins of constant ratio: small, mergeable, and a quantile is right to within 1%.

Bin i holds [GAMMA^i, GAMMA^(i+1)); its middle, GAMMA^(i+1/2), is off by at most sqrt(GAMMA) - 1 = 0.995% (the idea of
DDSketch: Masson, Rim, Lee, VLDB 2019). As text a histogram is 'bin:count bin:count', which parses in bulk.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

GAMMA: Final = 1.02
RELATIVE_ERROR: Final = GAMMA**0.5 - 1
# Below a nanosecond nothing was measured; zero and negative durations are put here.
_LEAST: Final = 1e-9


def bins_of(values: NDArray[np.float64]) -> NDArray[np.int64]:
    return np.asarray(np.floor(np.log(np.maximum(values, _LEAST)) / np.log(GAMMA)), np.int64)


def middle(bins: NDArray[np.int64]) -> NDArray[np.float64]:
    return np.asarray(GAMMA ** (bins + 0.5), np.float64)


@dataclass(frozen=True, eq=False)
class Histograms:
    """Many histograms at once: (row, bin, count) triples, sorted by row and bin, each pair once."""

    rows: int
    row: NDArray[np.int64]
    bin: NDArray[np.int64]
    count: NDArray[np.int64]

    @classmethod
    def of_values(cls, row: NDArray[np.int64], values: NDArray[np.float64], rows: int) -> Histograms:
        return cls._summed(row, bins_of(values), np.ones(len(values), np.int64), rows)

    @classmethod
    def of_texts(cls, texts: Sequence[str]) -> Histograms:
        """Parse in one pass; the texts are our own."""
        numbers = np.array(" ".join(texts).replace(":", " ").split(), np.int64)
        pairs = np.array([text.count(":") for text in texts], np.int64)
        return cls._summed(np.repeat(np.arange(len(texts)), pairs), numbers[0::2], numbers[1::2], len(texts))

    @classmethod
    def _summed(
        cls, row: NDArray[np.int64], bins: NDArray[np.int64], count: NDArray[np.int64], rows: int
    ) -> Histograms:
        if not len(row):
            nothing = np.empty(0, np.int64)
            return cls(rows, nothing, nothing, nothing)
        low = int(bins.min())
        span = int(bins.max()) - low + 1
        key, place = np.unique(row * span + (bins - low), return_inverse=True)
        total = np.bincount(place, weights=count.astype(np.float64)).astype(np.int64)
        return cls(rows, key // span, key % span + low, total)

    def merged(self, group: NDArray[np.int64], groups: int) -> Histograms:
        """Histogram i goes into group[i]."""
        return self._summed(group[self.row], self.bin, self.count, groups)

    def totals(self) -> NDArray[np.int64]:
        return np.bincount(self.row, weights=self.count.astype(np.float64), minlength=self.rows).astype(np.int64)

    def quantiles(self, at: Sequence[float]) -> NDArray[np.float64]:
        """rows x len(at): the middle of the bin that holds the value of rank ceil(q n); NaN where there is none."""
        result = np.full((self.rows, len(at)), np.nan)
        if not len(self.row):
            return result
        totals = self.totals()
        running = np.cumsum(self.count)
        before = np.concatenate([[0], np.cumsum(totals)[:-1]])
        there = totals > 0
        for column, q in enumerate(at):
            rank = before + np.maximum(1, np.ceil(q * totals - 1e-9)).astype(np.int64)
            found = np.searchsorted(running, rank[there], side="left")
            result[there, column] = middle(self.bin[found])
        return result

    def texts(self) -> list[str]:
        pairs = [f"{b}:{c}" for b, c in zip(self.bin.tolist(), self.count.tolist(), strict=True)]
        borders = [0, *np.cumsum(np.bincount(self.row, minlength=self.rows)).tolist()]
        return [" ".join(pairs[start:end]) for start, end in itertools.pairwise(borders)]
