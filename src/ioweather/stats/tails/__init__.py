"""Heavy tails: maximum-likelihood fits with exact Kolmogorov-Smirnov distances, fast enough for millions of times.

`fit_whole` fits single families to a whole sample, `fit_power_law` finds where a power-law tail begins;
`ioweather.stats.mixture` joins a head and a tail.
"""

from ioweather.stats.tails.powerlaw import (
    LikelihoodRatio,
    PowerLawFit,
    compare_power_law,
    fit_power_law,
    power_law_p_value,
)
from ioweather.stats.tails.sample import Sample, sample_of
from ioweather.stats.tails.whole import WholeFit, fit_whole

__all__ = [
    "LikelihoodRatio",
    "PowerLawFit",
    "Sample",
    "WholeFit",
    "compare_power_law",
    "fit_power_law",
    "fit_whole",
    "power_law_p_value",
    "sample_of",
]
