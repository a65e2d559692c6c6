"""Bands of response times: modes of the density of log time, with the valleys between them (cache, disk, ...)."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Final

import numpy as np

from ioweather.core.arrays import Floats, Ints

_GRID: Final = 512
# A valley must fall to this share of the lower of its two peaks, and a band hold this share of all.
_VALLEY: Final = 0.5
_LEAST_SHARE: Final = 0.02
# Two bands are two ways of being served: their centres differ at least by this factor. Less is the grain of a sample.
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
    """Places that part two peaks deeply enough; shallow dips are passed over."""
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
    """A band of a few stragglers, or one that is hardly apart, belongs to its neighbour."""
    kept: list[tuple[float, float, Floats]] = []
    for low, high, inside in bands:
        if kept:
            before = kept[-1]
            small = min(len(inside), len(before[2])) < _LEAST_SHARE * n
            near = float(np.median(inside) - np.median(before[2])) < np.log10(_LEAST_RATIO)
            if small or near:
                kept[-1] = (before[0], high, np.concatenate([before[2], inside]))
                continue
        kept.append((low, high, inside))
    return kept
