"""Evidence that a component is unhealthy: how much longer than expected its operations took.

Timed operations (requests of a device, probes of a target, files of a run) are compared with what is usual for the same
kind under the same load. A busy target is slow for everyone and healthy, so

    excess = log(time) - usual of the component - expected at its load - common excess of its peers at the same time

The spread of the excess over all components, which are healthy most of the time, says how surprising a value is. The
result per time bin is log p(observed | sick) - log p(observed | healthy).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np
from scipy.special import ndtr

from ioweather.core.arrays import Bools, Floats, Ints

# [ours] All constants of this module were fixed on the simulated weeks of seeds 101-104 and the first half of a real
# testbed; benchmarks/health.py reports others.
# Observations that give a component a usual time of its own; with fewer, that of all components is used.
_LEAST_OWN: Final = 50
# Components in a bin from which their median is a common excess.
LEAST_PEERS: Final = 3
_LEAST_IN_CLASS: Final = 40
_LEAST_SPREAD: Final = 0.12
# Range of factors by which a sick component is slower, and the probability that an observation shows it (if busy, or
# idle below this load).
_SLOWER: Final = (1.5, 20.0)
SLOWER_WITHOUT_PEERS: Final = (2.0, 20.0)
_SLOWER_SHARED: Final = (3.0, 20.0)
_SHOWS, _SHOWS_IDLE, _IDLE = 0.5, 0.2, 0.1
# Within a run, files on different targets differ little, and each was served by its target.
SLOWER_IN_RUN: Final = (1.2, 3.0)
SPREAD_IN_RUN: Final = 0.05
SHOWS_IN_RUN: Final = 0.8
# Cap of the evidence in one bin. Common slowness must last longer: it is more frequent than a sick component.
MOST_EVIDENCE: Final = 4.0
_MOST_SHARED: Final = 2.5
_LEAST_TAIL: Final = 0.01
_STUDENT: Final = 3.0  # degrees of freedom: single operations have heavy tails
_STUDENT_SCALE: Final = 0.3675525969478614  # Gamma(2) / (sqrt(3 pi) Gamma(3/2))
# Classes of load.
_LOADS: Final = np.array([0.02, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9])
# Requests at their usual time that are added to each bin: ratios of few requests are near 1.
_PADDING: Final = 16.0
CEILING_QUANTILE: Final = 0.998


class Bins(NamedTuple):
    """Time bins of a search."""

    start_ns: int
    bin_ns: int
    count: int  # type: ignore[assignment]  # hides tuple.count

    @property
    def starts_ns(self) -> Ints:
        """Start of each bin."""
        return self.start_ns + np.arange(self.count, dtype=np.int64) * self.bin_ns


@dataclass(frozen=True, eq=False)
class Observations:
    """Timed operations from one source.

    `component` are codes of `components`; `log_seconds` is the mean logarithm of the time (or of a ratio to it) of
    `count` operations; `load` the component's load as a share of its ceiling (NaN: unknown). Without `has_peers` the
    components are not compared with each other. `most` caps the evidence of a bin; `slower` is the range of factors of
    a sick component, `shows` the probability that an observation of it shows that, `least_spread` of healthy ones.
    """

    source: str
    components: tuple[str, ...]
    component: Ints
    start_ns: Ints
    log_seconds: Floats
    load: Floats
    count: Floats
    has_peers: bool = True
    most: float = MOST_EVIDENCE
    slower: tuple[float, float] = _SLOWER
    shows: float = _SHOWS
    least_spread: float = _LEAST_SPREAD

    def take(self, rows: Bools) -> Observations:
        """Some of the observations."""
        columns = ("component", "start_ns", "log_seconds", "load", "count")
        return replace(self, **{name: getattr(self, name)[rows] for name in columns})


@dataclass(frozen=True, eq=False)
class Evidence:
    """(bin, component) log-likelihood ratio of sick to healthy, and mean excess of slow observations (NaN: none)."""

    source: str
    components: tuple[str, ...]
    bins: Bins
    log_ratio: Floats
    excess: Floats


def weigh(observed: Observations, bins: Bins) -> Evidence:
    """Return the evidence of the observations."""
    place = (observed.start_ns - bins.start_ns) // bins.bin_ns
    rows = np.flatnonzero((place >= 0) & (place < bins.count) & np.isfinite(observed.log_seconds))
    component, place = observed.component[rows], place[rows]
    shape = bins.count, len(observed.components)
    excess = _subtract_usual(observed.log_seconds[rows], component, shape[1])
    excess = excess - _expected_at_load(excess, observed.load[rows])
    if observed.has_peers:
        median, seen = _medians(excess, place, component, shape)
        excess = excess - np.where(seen > LEAST_PEERS, np.maximum(median, 0.0), 0.0)[place]
    shows = np.where(observed.load[rows] > _IDLE, observed.shows, _SHOWS_IDLE)
    log_ratio = _log_likelihood_ratio(excess, observed.least_spread, shows, observed.slower)
    total, slow, seen = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    np.add.at(total, (place, component), log_ratio)
    is_slow = log_ratio > 0
    np.add.at(slow, (place[is_slow], component[is_slow]), excess[is_slow])
    np.add.at(seen, (place[is_slow], component[is_slow]), 1.0)
    mean = np.divide(slow, seen, out=np.full(shape, np.nan), where=seen > 0)
    return Evidence(observed.source, observed.components, bins, np.clip(total, -observed.most, observed.most), mean)


def combine(parts: Sequence[Evidence], components: Sequence[str]) -> tuple[Floats, Floats, Mapping[str, Floats]]:
    """(log ratio, excess) from all sources with columns for `components`, and the log ratio by source."""
    shape = parts[0].bins.count, len(components)
    column_of = {name: column for column, name in enumerate(components)}
    log_ratio, by_source = np.zeros(shape), {}
    total, seen = np.zeros(shape), np.zeros(shape)
    for part in parts:
        columns = [column_of[name] for name in part.components]
        own = np.zeros(shape)
        own[:, columns] = part.log_ratio
        by_source[part.source] = own
        log_ratio += own
        known: Bools = np.isfinite(part.excess)
        total[:, columns] += np.where(known, part.excess, 0.0)
        seen[:, columns] += known
    return log_ratio, np.divide(total, seen, out=np.full(shape, np.nan), where=seen > 0), by_source


# Observations from tables.


def request_observations(
    source: str,
    components: Sequence[str],
    bins: Bins,
    seconds: Sequence[Floats],
    counts: Sequence[Floats],
    load: Floats,
) -> Observations:
    """Seconds that requests took over what as many usually take.

    `seconds` and `counts` have one (bin, component) table per kind of request, `load` is such a table.
    """
    spent, expected, requests, padding = np.zeros(load.shape), np.zeros(load.shape), np.zeros(load.shape), 0.0
    for took, count in zip(seconds, counts, strict=True):
        enough = (count >= _PADDING) & np.isfinite(took)
        if not enough.any():
            continue
        usual = float(np.median(took[enough] / count[enough]))
        known = np.isfinite(took) & np.isfinite(count)
        spent += np.where(known, took, 0.0)
        expected += np.where(known, count * usual, 0.0)
        requests += np.where(known, count, 0.0)
        padding += _PADDING * usual
    chosen = place, component = np.nonzero((requests >= _PADDING) & (padding > 0))
    return Observations(
        source=source,
        components=tuple(components),
        component=component,
        start_ns=bins.starts_ns[place],
        log_seconds=np.log((spent[chosen] + padding) / (expected[chosen] + padding)),
        load=load[chosen],
        count=requests[chosen],
        has_peers=len(components) > LEAST_PEERS,
    )


def shared_observations(observed: Observations, name: str, bins: Bins, load: Floats) -> Observations:
    """Common excess of most components, as observations of the network or the clients that they share.

    `load` is that of all components together in each bin.
    """
    place = (observed.start_ns - bins.start_ns) // bins.bin_ns
    rows = np.flatnonzero((place >= 0) & (place < bins.count) & np.isfinite(observed.log_seconds))
    component, columns = observed.component[rows], len(observed.components)
    excess = _subtract_usual(observed.log_seconds[rows], component, columns)
    median, seen = _medians(excess, place[rows], component, (bins.count, columns))
    chosen = np.flatnonzero(seen > max(LEAST_PEERS, columns // 2))
    return Observations(
        source="shared",
        components=(name,),
        component=np.zeros(len(chosen), np.int64),
        start_ns=bins.starts_ns[chosen],
        log_seconds=median[chosen],
        load=load[chosen],
        count=seen[chosen],
        has_peers=False,
        most=_MOST_SHARED,
        slower=_SLOWER_SHARED,
    )


def ceilings(amounts: Floats) -> Floats:
    """Nearly the highest amount of each component (column); NaN if it has none."""
    known = ~np.isnan(amounts).all(axis=0)
    found = np.full(amounts.shape[1], np.nan)
    if known.any():
        found[known] = np.nanquantile(amounts[:, known], CEILING_QUANTILE, axis=0)
    return found


def utilisation(amounts: Floats) -> Floats:
    """(step, component) amounts as shares of the component's ceiling, or of that of a typical peer if higher."""
    own = ceilings(amounts)
    if np.isnan(own).all():
        return np.full(amounts.shape, np.nan)
    ceiling = np.fmax(own, np.nanmedian(own))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(ceiling > 0, amounts / ceiling, np.nan))


# The likelihood.


def _subtract_usual(values: Floats, component: Ints, components: int) -> Floats:
    """Values less the median of their component."""
    usual = np.full(components, float(np.median(values)) if len(values) else 0.0)
    for each in range(components):
        own = values[component == each]
        if len(own) >= _LEAST_OWN:
            usual[each] = np.median(own)
    return np.asarray(values - usual[component])


def _expected_at_load(excess: Floats, load: Floats) -> Floats:
    """Median excess at each load; it grows with the load."""
    classes = np.where(np.isfinite(load), np.searchsorted(_LOADS, load), len(_LOADS) + 1)
    median = np.zeros(len(_LOADS) + 2)
    for each in np.unique(classes):
        mine = excess[classes == each]
        if len(mine) >= _LEAST_IN_CLASS:
            median[each] = float(np.median(mine))
    known = len(_LOADS) + 1
    median[:known] = np.maximum.accumulate(np.maximum(median[:known], 0.0))
    return np.asarray(median[classes])


def _medians(excess: Floats, place: Ints, component: Ints, shape: tuple[int, int]) -> tuple[Floats, Floats]:
    """(median over components, number of components) of each bin; 0 if none."""
    total, seen = np.zeros(shape), np.zeros(shape)
    np.add.at(total, (place, component), excess)
    np.add.at(seen, (place, component), 1.0)
    table = np.divide(total, seen, out=np.full(shape, np.nan), where=seen > 0)
    any_seen = (seen > 0).any(axis=1)
    median = np.zeros(shape[0])
    median[any_seen] = np.nanmedian(table[any_seen], axis=1)
    return median, np.sum(seen > 0, axis=1).astype(np.float64)


def _log_likelihood_ratio(excess: Floats, least_spread: float, shows: Floats, slower: tuple[float, float]) -> Floats:
    """log p(excess | sick) / p(excess | healthy).

    Healthy: Student's t, whose spread is that above the median of all, plus an exponential tail as heavy as that of all
    (a power law of times, as in don15, is an exponential law of their logarithms). Sick: with probability 1 - `shows`
    as healthy, else slower by a factor that is log-uniform in `slower`.
    """
    if not len(excess):
        return excess
    low, high = np.log(slower)
    middle, upper = np.quantile(excess, [0.5, 0.8413])
    spread = max(float(upper - middle), least_spread)
    beyond = excess[excess > low] - low
    share = max(len(beyond) / len(excess), _LEAST_TAIL)
    mean = max(float(beyond.mean()) if len(beyond) else 0.0, _LEAST_SPREAD)
    healthy = _STUDENT_SCALE / spread * (1.0 + (excess / spread) ** 2 / _STUDENT) ** (-(_STUDENT + 1) / 2)
    healthy = healthy + np.where(excess > low, share / mean * np.exp(-np.maximum(excess - low, 0.0) / mean), 0.0)
    sick = (ndtr((excess - low) / spread) - ndtr((excess - high) / spread)) / (high - low)
    # Slower than the range counts as its upper end.
    sick = np.where(excess > high - spread, np.maximum(sick, 0.5 / (high - low)), sick)
    return np.asarray(np.log((1 - shows) + shows * sick / np.maximum(healthy, 1e-300)))
