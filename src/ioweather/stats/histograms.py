"""Histograms with bins of constant ratio, and bands of response times.

A histogram is small and mergeable, and its quantiles are right to within 1%. Bin i holds [GAMMA^i, GAMMA^(i+1)); its
middle, GAMMA^(i+1/2), is off by at most sqrt(GAMMA) - 1 = 0.995% (the idea of DDSketch: Masson, Rim, Lee, VLDB 2019).
As text a histogram is '~' and two characters per bin: 33 + the distance from the previous bin (the first one from
FIRST_BIN) and 33 + the count. Older texts, 'bin:count bin:count', are read too. An exact histogram has a bin for every
nanosecond, so that the same code gives the true order statistics.

`find_bands` finds the modes of the density of log time and the valleys between them (cache, disk, ...).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from ioweather.core.arrays import Floats, Ints

GAMMA: Final = 1.02
RELATIVE_ERROR: Final = GAMMA**0.5 - 1
# Below a nanosecond nothing was measured; zero and negative durations are put here.
_LEAST: Final = 1e-9
FIRST_BIN: Final = -1200  # below that of a nanosecond
_MARK: Final = "~"
_SHIFT: Final = 33
_MOST_PER_PAIR: Final = 50_000  # characters from 55,296 on are not characters


def bins_of(values: Floats) -> Ints:
    """Return the bins of values in seconds."""
    return np.asarray(np.floor(np.log(np.maximum(values, _LEAST)) / np.log(GAMMA)), np.int64)


def middle(bins: Ints) -> Floats:
    """Return the geometric middle of bins, in seconds."""
    return np.asarray(GAMMA ** (bins + 0.5), np.float64)


@dataclass(frozen=True, eq=False)
class Histograms:
    """Many histograms at once: (row, bin, count) triples, sorted by row and bin, each pair once."""

    rows: int
    row: Ints
    bin: Ints
    count: Ints
    exact: bool = False  # a bin is a number of nanoseconds

    @classmethod
    def of_values(cls, row: Ints, values: Floats, rows: int) -> Histograms:
        return cls._summed(row, bins_of(values), None, rows)

    @classmethod
    def of_nanoseconds(cls, row: Ints, values: Ints, rows: int) -> Histograms:
        return cls._summed(row, values, None, rows, exact=True)

    @classmethod
    def of_texts(cls, texts: Sequence[str]) -> Histograms:
        """Parse in one pass; the texts are our own, so bins are in order."""
        lengths = np.fromiter(map(len, texts), np.int64, len(texts))
        codes = np.frombuffer("".join(texts).encode("utf-32-le"), np.uint32)
        marks = (np.cumsum(lengths) - lengths)[lengths > 0]
        if (codes[marks] != ord(_MARK)).any():
            older = ["" if text.startswith(_MARK) else text for text in texts]
            packed = [text if text.startswith(_MARK) else "" for text in texts]
            return cls._of_older_texts(older).with_those_of(cls.of_texts(packed))
        numbers = np.delete(codes, marks)
        gap, count = (np.subtract(part, _SHIFT, dtype=np.int64) for part in (numbers[0::2], numbers[1::2]))
        pairs = lengths // 2
        head = (np.cumsum(pairs) - pairs)[pairs > 0]  # the first pair of each row
        running = np.cumsum(gap)
        before = np.repeat(running[head] - gap[head] - FIRST_BIN, pairs[pairs > 0])
        made = cls(len(texts), np.repeat(np.arange(len(texts)), pairs), running - before, count)
        in_parts = np.count_nonzero(gap == 0) > np.count_nonzero(gap[head] == 0)
        return made._sorted_once() if in_parts else made

    @classmethod
    def _of_older_texts(cls, texts: Sequence[str]) -> Histograms:
        pairs = np.array([text.count(":") for text in texts], np.int64)
        numbers = np.fromstring(" ".join(texts).replace(":", " "), np.int64, sep=" ")
        return cls(len(texts), np.repeat(np.arange(len(texts)), pairs), numbers[0::2], numbers[1::2])

    def _sorted_once(self) -> Histograms:
        return self._summed(self.row, self.bin, self.count, self.rows, self.exact)

    @classmethod
    def _summed(cls, row: Ints, bins: Ints, count: Ints | None, rows: int, exact: bool = False) -> Histograms:
        """Sum triples in any order with repeated pairs; without `count` each counts once."""
        if not len(row):
            nothing = np.empty(0, np.int64)
            return cls(rows, nothing, nothing, nothing, exact)
        low = int(bins.min())
        span = int(bins.max()) - low + 1
        key = row * span + (bins - low)
        if count is None:
            key = np.sort(key)
            running = np.arange(1, len(key) + 1)
        else:
            order = np.argsort(key, kind="stable")
            key, running = key[order], np.cumsum(count[order])
        last = np.flatnonzero(np.append(key[1:] != key[:-1], True))
        key, total = key[last], np.diff(running[last], prepend=0)
        return cls(rows, key // span, key % span + low, total, exact)

    def merged(self, group: Ints, groups: int) -> Histograms:
        """Add histogram i to group[i]."""
        if not (np.diff(group) <= 0).any():  # each into one of its own, in the same order
            row = self.row if groups == self.rows else group[self.row]
            return Histograms(groups, row, self.bin, self.count, self.exact)
        return self._summed(group[self.row], self.bin, self.count, groups, self.exact)

    def pooled(self) -> Histograms:
        """Return the sum of all rows as one histogram."""
        return self._summed(np.zeros(len(self.row), np.int64), self.bin, self.count, 1, self.exact)

    def select(self, rows: Ints) -> Histograms:
        """Some of the histograms; `rows` in order, each once."""
        wanted = np.zeros(self.rows, np.bool_)
        wanted[rows] = True
        mine = np.flatnonzero(wanted[self.row])
        place = np.searchsorted(rows, self.row[mine])
        return Histograms(len(rows), place, self.bin[mine], self.count[mine], self.exact)

    def part(self, first: int, last: int) -> Histograms:
        """Histograms first to last - 1."""
        low, high = np.searchsorted(self.row, (first, last))
        return Histograms(
            last - first, self.row[low:high] - first, self.bin[low:high], self.count[low:high], self.exact
        )

    def with_those_of(self, other: Histograms) -> Histograms:
        """Return the same rows with the counts of both."""
        if not len(other.row):
            return self
        row, at = np.concatenate([self.row, other.row]), np.concatenate([self.bin, other.bin])
        return self._summed(row, at, np.concatenate([self.count, other.count]), self.rows, self.exact)

    def values(self, bins: Ints) -> Floats:
        """Return the values of bins, in seconds."""
        return np.asarray(bins / 1e9, np.float64) if self.exact else middle(bins)

    @cached_property
    def _running(self) -> Ints:
        return np.asarray(np.cumsum(self.count), np.int64)

    @cached_property
    def _up_to(self) -> Ints:
        """Return the cumulative count before each row, and the total."""
        borders = np.searchsorted(self.row, np.arange(self.rows + 1))
        return np.where(borders > 0, self._running[borders - 1], 0) if len(self.row) else borders

    def totals(self) -> Ints:
        return np.diff(self._up_to)

    def counts_from(self, least: Floats) -> Ints:
        """Return how many values of each row are at least its `least`; 0 where that is NaN."""
        reach = self.values(self.bin) >= least[self.row]
        return np.bincount(self.row[reach], self.count[reach], self.rows).astype(np.int64)

    def quantiles(self, at: Sequence[float]) -> Floats:
        """rows x len(at): the middle of the bin that holds the value of rank ceil(q n); NaN where there is none."""
        result = np.full((self.rows, len(at)), np.nan)
        if not len(self.row):
            return result
        totals = self.totals()
        there = totals > 0
        for column, q in enumerate(at):
            rank = self._up_to[:-1] + np.maximum(1, np.ceil(q * totals - 1e-9)).astype(np.int64)
            found = np.searchsorted(self._running, rank[there], side="left")
            result[there, column] = self.values(self.bin[found])
        return result

    def texts(self) -> list[str]:
        # A count too large for one character is split into several pairs of the same bin.
        parts = np.maximum(1, -(-self.count // _MOST_PER_PAIR))
        row, bins = np.repeat(self.row, parts), np.repeat(self.bin, parts)
        count = np.full(len(row), _MOST_PER_PAIR)
        count[np.cumsum(parts) - 1] = self.count - (parts - 1) * _MOST_PER_PAIR
        first = np.diff(row, prepend=-1) != 0
        gap = np.where(first, bins - FIRST_BIN, np.diff(bins, prepend=0))
        text = (np.stack([gap, count], axis=1).ravel() + _SHIFT).astype("<u4").tobytes().decode("utf-32-le")
        borders = [0, *(2 * np.cumsum(np.bincount(row, minlength=self.rows))).tolist()]
        return [_MARK + text[start:end] if end > start else "" for start, end in itertools.pairwise(borders)]

    def quantiles_before(self, first: Ints, least: int, at: float = 0.5) -> Floats:
        """Return for each row a quantile of rows first[i] .. i - 1 pooled; NaN with fewer than `least` values.

        `first` only rises, so counts enter and leave a moving window.
        """
        result = np.full(self.rows, np.nan)
        bins, place = np.unique(self.bin, return_inverse=True)
        inside = np.zeros(len(bins), np.int64)
        borders = np.searchsorted(self.row, np.arange(self.rows + 1))
        gone = total = 0
        for position, start in enumerate(first.tolist()):
            for row, sign in ((position - 1, 1), *((old, -1) for old in range(gone, start))):
                if row >= 0:
                    piece = slice(borders[row], borders[row + 1])
                    count = sign * self.count[piece]
                    np.add.at(inside, place[piece], count)
                    total += int(count.sum())
            gone = max(gone, start)
            if total >= least and total:
                rank = max(1, math.ceil(at * total - 1e-9))
                result[position] = self.values(bins[np.searchsorted(np.cumsum(inside), rank)])
        return result


_GRID: Final = 512
# A valley must fall to this share of the lower of its two peaks, and a band must have this share of all values.
_VALLEY: Final = 0.5
_LEAST_SHARE: Final = 0.02
# Least factor between the centres of two bands; smaller differences are noise of the sample.
_LEAST_RATIO: Final = 3.0


@dataclass(frozen=True)
class Band:
    """Times in [low, high) gather at `centre`; `share` of all."""

    low: float
    high: float
    centre: float
    share: float
    n: int


def find_bands(times: Floats) -> list[Band]:
    """Modes of a Gaussian kernel density of log10(time), bandwidth by Silverman's rule with the robust spread."""
    values = np.log10(times[np.isfinite(times) & (times > 0)])
    n = len(values)
    if n < 20:
        return []
    quartiles = np.quantile(values, (0.25, 0.75))
    # Half of Silverman's width: the rule is made for one mode and smears two into one.
    spread = min(float(values.std()), float(quartiles[1] - quartiles[0]) / 1.34) or float(values.std())
    width = 0.45 * spread * n**-0.2
    if width <= 0:
        return [Band(0.0, np.inf, float(10 ** values[0]), 1.0, n)]
    grid, density = _density(values, width)
    peaks = np.flatnonzero((density[1:-1] > density[:-2]) & (density[1:-1] >= density[2:])) + 1
    cuts = _valleys(density, peaks)
    edges = [-np.inf, *grid[cuts].tolist(), np.inf]
    bands = []
    for low, high in itertools.pairwise(edges):
        inside = values[(values >= low) & (values < high)]
        if len(inside):
            bands.append((low, high, inside))
    merged = _without_small(bands, n)
    return [
        Band(
            float(10**low) if np.isfinite(low) else 0.0,
            float(10**high) if np.isfinite(high) else float("inf"),
            float(10 ** np.median(inside)),
            len(inside) / n,
            len(inside),
        )
        for low, high, inside in merged
    ]


def _density(values: Floats, width: float) -> tuple[Floats, Floats]:
    """Binned, then smoothed: 10^6 times cost what 10^3 do."""
    edges = np.linspace(values.min() - 4 * width, values.max() + 4 * width, _GRID + 1)
    step = edges[1] - edges[0]
    counts, _ = np.histogram(values, edges)
    reach = max(1, int(np.ceil(4 * width / step)))
    kernel = np.exp(-0.5 * (np.arange(-reach, reach + 1) * step / width) ** 2)
    return (edges[:-1] + edges[1:]) / 2, np.convolve(counts, kernel / kernel.sum(), mode="same")


def _valleys(density: Floats, peaks: Ints) -> list[int]:
    """Return the valleys that separate two peaks deeply enough; shallow dips are ignored."""
    cuts: list[int] = []
    if not len(peaks):
        return cuts
    last = int(peaks[0])
    for peak in peaks[1:].tolist():
        valley = last + int(np.argmin(density[last : peak + 1]))
        if density[valley] <= _VALLEY * min(density[last], density[peak]):
            cuts.append(valley)
            last = peak
        elif density[peak] > density[last]:
            last = peak
    return cuts


def _without_small(bands: list[tuple[float, float, Floats]], n: int) -> list[tuple[float, float, Floats]]:
    """Merge a band with few values, or one close to its neighbour, into that neighbour."""
    merged_bands: list[tuple[float, float, Floats]] = []
    for low, high, inside in bands:
        if merged_bands:
            before = merged_bands[-1]
            small = min(len(inside), len(before[2])) < _LEAST_SHARE * n
            near = float(np.median(inside) - np.median(before[2])) < np.log10(_LEAST_RATIO)
            if small or near:
                merged_bands[-1] = (before[0], high, np.concatenate([before[2], inside]))
                continue
        merged_bands.append((low, high, inside))
    return merged_bands
