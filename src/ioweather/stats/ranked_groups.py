"""Whether groups of measurements in time differ in their ranks, where each resembles the one before it.

Kruskal and Wallis take measurements as independent: of equal hosts whose measurements have an autocorrelation of 0.8
they find a difference in most at 5%. Here it is Welch's test (1951) of mean ranks, each group with as many measurements
as are independent in it.
"""

from __future__ import annotations

import numpy as np

from ioweather.core.arrays import Floats
from ioweather.stats.dependence import midranks
from ioweather.stats.resampling import MIN_BLOCKS, variance_inflation


def groups_differ(samples: list[Floats]) -> float | None:
    """p of equal mean ranks, each sample in the order of time; None where too few measurements are independent."""
    borders = np.cumsum([len(sample) for sample in samples])[:-1]
    parts = np.split(midranks(np.concatenate(samples)), borders)
    size = np.array([len(part) for part in parts], np.float64)
    means, spread = (np.array([of(part) for part in parts]) for of in (np.mean, np.std))
    if len(parts) < 2 or size.min() < MIN_BLOCKS or not spread.all():
        return None
    # How alike neighbours are is known better of all groups together.
    alike = np.array([float(variance_inflation((part - part.mean())[:, None])[0]) for part in parts])
    independent = size / (size @ alike / size.sum())
    if independent.min() < MIN_BLOCKS:
        return None
    from scipy.special import fdtrc  # a third of a second, and only here

    groups, weight = len(parts), (independent - 1) / spread**2
    between = float((weight * (means - weight @ means / weight.sum()) ** 2).sum()) / (groups - 1)
    unsure = float(((1 - weight / weight.sum()) ** 2 / (independent - 1)).sum())
    value = between / (1 + 2 * (groups - 2) / (groups**2 - 1) * unsure)
    return float(fdtrc(groups - 1, (groups**2 - 1) / (3 * unsure), value))
