"""The power-law fit of Clauset, Shalizi & Newman (SIAM Review 51, 2009): xmin, alpha and goodness of fit.

xmin is the value whose tail, fitted by maximum likelihood, has the least Kolmogorov-Smirnov distance. The package
`powerlaw` is the usual implementation. ecdf="left" (the ECDF before each jump only) with minimum_distinct=2 gives the
results of its version 1.5; minimum_distinct=3 those of version 2, which also caps alpha at 3 by default.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ioweather.stats.families import PowerLaw
from ioweather.stats.samples import Ecdf, Group, Sample, least_gap, sample_of
from ioweather.stats.tail_fits import (
    fit_power_law_tails,
    tail_sums,
)


@dataclass(frozen=True)
class PowerLawFit:
    """`alpha_error` is one standard error; `ks` the distance under the named ECDF; `searched`: xmin was not given."""

    xmin: float
    alpha: float
    alpha_error: float
    ks: float
    n: int
    n_tail: int
    ecdf: Ecdf
    searched: bool
    minimum_distinct: int

    @property
    def distribution(self) -> PowerLaw:
        return PowerLaw(self.xmin, self.alpha)


def fit_power_law(
    values: ArrayLike,
    *,
    xmin: float | None = None,
    ecdf: Ecdf = "both",
    minimum_distinct: int = 3,
) -> PowerLawFit:
    """Fit the upper tail of `values`; with `xmin` given only alpha is fitted. Zeros never belong to a power law."""
    return _fit(sample_of(values), xmin, ecdf, minimum_distinct)


def _fit(sample: Sample, xmin: float | None, ecdf: Ecdf, minimum_distinct: int) -> PowerLawFit:
    if xmin is None:
        first = np.arange(sample.distinct - minimum_distinct + 1)
    else:
        first = np.atleast_1d(np.searchsorted(sample.values, xmin))
    first = first[(first <= sample.distinct - 2)]
    first = first[sample.values[first] > 0]
    if not first.size:
        raise ValueError(f"no tail of {minimum_distinct} distinct positive values in {sample.n} values")
    low = sample.values[first] if xmin is None else np.array([float(xmin)])
    laws = fit_power_law_tails(tail_sums(sample, low, first))
    group = Group(sample, first, np.full_like(first, sample.distinct), laws, ecdf)
    least = least_gap([group], lambda rows, gaps: gaps[0])
    fitted = group.fitted.one(least.row)
    assert isinstance(fitted, PowerLaw)
    alpha = float(fitted.alpha)
    n_tail = int(sample.n - sample.below[first[least.row]])
    return PowerLawFit(
        xmin=float(fitted.low),
        alpha=alpha,
        alpha_error=float((alpha - 1) / np.sqrt(n_tail)),  # Eq. 3.2
        ks=least.value,
        n=sample.n,
        n_tail=n_tail,
        ecdf=ecdf,
        searched=xmin is None,
        minimum_distinct=minimum_distinct,
    )


def power_law_p_value(values: ArrayLike, fit: PowerLawFit, *, replicates: int = 1000, seed: int = 0) -> float:
    """Goodness of fit by the semi-parametric bootstrap (section 4.1): p <= .1 rules the power law out.

    Each replicate draws the tail from the fit and the rest from the data below xmin, and finds xmin as the fit did.
    The standard error of p is at most 0.5 / sqrt(replicates). With a given xmin p is uniform under the null; with a
    searched one it is conservative, because the search has chosen where the data fit best by luck.
    """
    sample = sample_of(values)
    ordered = sample.expanded()
    body = ordered[: sample.n - fit.n_tail]
    xmin = None if fit.searched else fit.xmin
    rng = np.random.default_rng(seed)
    worse = 0
    for _ in range(replicates):
        in_tail = int(rng.binomial(sample.n, fit.n_tail / sample.n)) if body.size else sample.n
        drawn = np.concatenate([rng.choice(body, sample.n - in_tail), fit.distribution.sample(in_tail, rng)])
        again = _fit(sample_of(drawn), xmin, fit.ecdf, fit.minimum_distinct)
        worse += again.ks >= fit.ks
    return worse / replicates
