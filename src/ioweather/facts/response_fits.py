"""Head and tail fitted to samples of response time, with bootstrap replicates: what the studies of tails share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import starmap
from typing import Final

import numpy as np

from ioweather.core.arrays import Floats
from ioweather.core.contracts import Param, Params, Spread
from ioweather.core.results import Estimate
from ioweather.facts.response_samples import ResponseSample
from ioweather.stats.estimates import LEVEL
from ioweather.stats.families import Mixture
from ioweather.stats.mixture import (
    Combination,
    MixtureFit,
    Selection,
    bootstrap,
    fit_mixture,
    intervals_of,
    refitted,
    share_again,
)
from ioweather.stats.samples import Sample, sample_of

COMBINATION: Final = Param(
    "combination",
    "how the distances of head and tail become one: weighted (by group size), sum or maximum",
    default="weighted",
)
REPLICATES: Final = Param(
    "replicates", "bootstrap replicates of each fit; 0 gives no intervals", kind="int", default=40
)

# A replicate of some thousand times costs about 10 ms, a batch much more than sending it.
_BATCH: Final = 20

FAMILY_LABELS: Final = {
    "uniform": "Uniform", "normal": "Normal", "gamma": "Gamma", "cauchy": "Cauchy", "weibull": "Weibull",
    "lognormal": "LogNormal", "power_law": "Power Law", "exponential": "Exponential",
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class FittedSample:
    """`shares`: of the winning pair's tail, in each bootstrap replicate drawn with `seed`; `laws`: its distributions
    there. Both are empty where they were not asked for."""

    sample: ResponseSample
    fit: MixtureFit
    shares: Floats
    laws: tuple[Mixture, ...]
    seed: int

    @property
    def pair_label(self) -> str:
        best = self.fit.best
        return f"{FAMILY_LABELS[best.head.name]} and {FAMILY_LABELS[best.tail.name]}"


def fit_samples(
    samples: Sequence[ResponseSample],
    params: Params,
    select: Selection = "ks",
    spread: Spread = starmap,
    *,
    laws: bool = False,
) -> tuple[list[FittedSample], list[str]]:
    """All pairs of families on every sample; and a sentence for each sample that cannot be split."""
    fits = list(spread(_fit, ((sample.seconds, params["combination"], select) for sample in samples)))
    split = [(seed, fit) for seed, fit in enumerate(fits) if isinstance(fit, MixtureFit)]
    batches = batches_of(int(params["replicates"]))
    orders = ((samples[seed].seconds, fit, batch, seed) for seed, fit in split for batch in batches)
    drawn = spread(_laws_again if laws else _shares_again, orders)
    fitted = []
    for seed, fit in split:
        again = [each for _ in batches for each in next(drawn)]
        shares = np.array([law.tail_share for law in again] if laws else again)
        fitted.append(FittedSample(samples[seed], fit, shares, tuple(again) if laws else (), seed))
    refused = [f"{sample.label}: {fit}." for sample, fit in zip(samples, fits, strict=True) if isinstance(fit, str)]
    return fitted, refused


def batches_of(replicates: int) -> list[range]:
    """Numbers of replicates that one worker makes at a time."""
    return [range(first, min(first + _BATCH, replicates)) for first in range(0, replicates, _BATCH)]


def _fit(seconds: Floats, combination: Combination, select: Selection) -> MixtureFit | str:
    """The fit, or why there is none."""
    try:
        return fit_mixture(seconds, combination=combination, select=select)
    except ValueError as error:
        return str(error)


def _resampled(seconds: Floats, replicates: range, seed: int) -> Iterator[Sample]:
    sample = sample_of(seconds)
    return (sample.resampled(np.random.default_rng([seed, number])) for number in replicates)


def _laws_again(seconds: Floats, fit: MixtureFit, replicates: range, seed: int) -> list[Mixture]:
    return [refitted(sample, fit).distribution for sample in _resampled(seconds, replicates, seed)]


def _shares_again(seconds: Floats, fit: MixtureFit, replicates: range, seed: int) -> list[float]:
    return [share_again(sample, fit) for sample in _resampled(seconds, replicates, seed)]


def choices(fit: MixtureFit) -> str:
    """What the paper leaves open, and we decided."""
    return (
        f"Every distinct time with at least {fit.minimum_group} times on either side is a candidate pivot; ties at the "
        f"pivot belong to the head; tails are bounded below by the pivot; the distances of head and tail are combined "
        f"({fit.combination}). A tail that has become the power law under another name does not compete. Of the pairs "
        f"of families the best is that with the least {'distance' if fit.select == 'ks' else 'AIC'}."
    )


def spread_about(value: float, replicates: Floats) -> tuple[float, float]:
    """The spread of bootstrap replicates, laid about the value itself. A search on resampled, and so partly tied,
    times lands a little beside the search on the times; that shift is the method's, not the data's."""
    relative = np.quantile(replicates, ((1 - LEVEL) / 2, (1 + LEVEL) / 2)) / np.median(replicates)
    return value * float(relative[0]), value * float(relative[1])


def over_samples(estimate: Estimate) -> Estimate:
    """A mean over samples of response time, not over jobs."""
    return replace(estimate, method=estimate.method.replace("jobs", "samples"))


def parameters_text(parameters: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value:.4g}" for name, value in parameters.items())


def parameter_estimates(item: FittedSample) -> tuple[Estimate, ...]:
    """The parameters of the fitted distribution, whose head ends at the pivot, with their intervals: these take several
    times as long as the fit, and of most fits nobody asks for them."""
    fit, sample, replicates = item.fit, sample_of(item.sample.seconds), range(len(item.shares))
    made = [bootstrap(sample, fit, replicates, seed=item.seed)] if replicates else []
    intervals = intervals_of(sample, fit, made, LEVEL) if made else {}
    units = {"pivot": "seconds", "tail_share": "ratio", "head_location": "seconds", "head_scale": "seconds"}
    found = []
    for name, value in fit.distribution.parameters.items():
        interval = intervals.get(name)
        low, high, level = (interval.low, interval.high, interval.level) if interval else (None, None, None)
        missing = "no interval: a Cauchy head does not tell where it ends" if intervals else "no interval asked for"
        method = interval.method if interval else missing
        found.append(Estimate(name, value, units.get(name, ""), low, high, level, fit.n, method))
    return tuple(found)
