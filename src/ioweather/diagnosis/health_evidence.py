"""Evidence that a component is unhealthy: how much longer than expected its operations took, at one moment each.

Whatever is timed (requests of a device, probes of a target, files of a run) is set against what is usual of the same
kind under the same load. A busy target is slow for everybody and healthy: so

    excess = log(time) - usual of the component - expected at its load - what its peers show at the same time

The spread of the excess among all components, which are healthy most of the time, says how surprising a value is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from ioweather.core.arrays import Bools, Floats, Ints

# [ours] All constants of this module were fixed on the simulated weeks of seeds 101-104 and the first half of a real
# testbed; benchmarks/health.py reports others.
# Observations of its own that tell what is usual of a component; with fewer, its peers' are taken.
_OWN_USUAL: Final = 50
# Components may be of different kinds (disks, flash): by up to this factor.
_OTHER_KIND: Final = float(np.log(4.0))
# Components that must be seen in a bin before their median speaks for what all have in common.
_LEAST_PEERS: Final = 3
_LEAST_IN_CLASS: Final = 40
_LEAST_SPREAD: Final = 0.12
# A sick component is slower by these factors, and shows it at this share of the looks: it may be idle.
_SLOWER: Final = (1.5, 20.0)
# Within a run, files on different targets differ little, and each was served by its target: what is sick shows.
SLIGHTLY_SLOWER: Final = (1.2, 3.0)
WITHIN_RUN: Final = 0.05
SHOWS_IN_RUN: Final = 0.8
MUCH_SLOWER: Final = (2.0, 20.0)
_SHARED_SLOWER: Final = (3.0, 20.0)
_SHOWS, _SHOWS_IDLE, _IDLE = 0.5, 0.2, 0.1
# One look, however extreme, convinces nobody.
_MOST_PER_BIN: Final = 4.0
# Everybody's work is slow at once more often than one component is sick: that must last.
_MOST_SHARED: Final = 2.5
_RARELY: Final = 0.01
_DEGREES: Final = 3.0  # of Student's t: single operations have heavy tails


@dataclass(frozen=True, eq=False)
class Observations:
    """Timed operations of one kind. `component` are codes of `components`; `log_seconds` of one operation, in the mean.
    `load` is the component's load at that time as a share of the highest (NaN: not known); `count` how many operations
    one row stands for. `alone`: the components are no peers of each other. `most` is what one bin says at most,
    `slower` by how many times a sick component is slower, `shows` at which share of the looks at a busy one;
    `least_spread` of healthy ones."""

    name: str
    components: tuple[str, ...]
    component: Ints
    start_ns: Ints
    log_seconds: Floats
    load: Floats
    count: Floats
    alone: bool = False
    most: float = _MOST_PER_BIN
    slower: tuple[float, float] = _SLOWER
    shows: float = _SHOWS
    least_spread: float = _LEAST_SPREAD

    def take(self, rows: Bools) -> Observations:
        columns = ("component", "start_ns", "log_seconds", "load", "count")
        return replace(self, **{name: getattr(self, name)[rows] for name in columns})


@dataclass(frozen=True, eq=False)
class Evidence:
    """(bin, component): `odds`, the logarithm of how much likelier what was seen is if the component is sick; `excess`
    the mean excess of slow looks, NaN where none was."""

    name: str
    components: tuple[str, ...]
    start_ns: int
    bin_ns: int
    odds: Floats
    excess: Floats


def evidence_of(found: Observations, start_ns: int, bin_ns: int, bins: int) -> Evidence:
    place = (found.start_ns - start_ns) // bin_ns
    inside = (place >= 0) & (place < bins) & np.isfinite(found.log_seconds)
    rows = np.flatnonzero(inside)
    column, place = found.component[rows], place[rows]
    excess = _own_excess(found.log_seconds[rows], column, len(found.components))
    kinds = _classes(found.load[rows], found.count[rows])
    excess = excess - _centres(excess, kinds)
    if not found.alone:
        excess = excess - _in_common(excess, place, column, bins, len(found.components))
    shows = np.where(found.load[rows] > _IDLE, found.shows, _SHOWS_IDLE)
    spread = np.maximum(_spreads(excess, kinds), found.least_spread)
    odds = _odds(excess, spread, _tails(excess, kinds, column, found.slower[0]), shows, found.slower)
    shape = bins, len(found.components)
    total, slow, seen = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    np.add.at(total, (place, column), odds)
    high = odds > 0
    np.add.at(slow, (place[high], column[high]), excess[high])
    np.add.at(seen, (place[high], column[high]), 1.0)
    mean = np.divide(slow, seen, out=np.full(shape, np.nan), where=seen > 0)
    return Evidence(found.name, found.components, start_ns, bin_ns, np.clip(total, -found.most, found.most), mean)


def shared_observations(found: Observations, component: str, start_ns: Ints, load: Floats) -> Observations:
    """What most components show in the same bin, as observations of what they have in common: the network, the
    clients. `start_ns` are the bins, `load` that of all components together."""
    bin_ns = int(start_ns[1] - start_ns[0]) if len(start_ns) > 1 else 1
    place = (found.start_ns - start_ns[0]) // bin_ns
    rows = np.flatnonzero((place >= 0) & (place < len(start_ns)) & np.isfinite(found.log_seconds))
    own = _own_excess(found.log_seconds[rows], found.component[rows], len(found.components))
    middle, seen = _medians(own, place[rows], found.component[rows], len(start_ns), len(found.components))
    bins = np.flatnonzero(seen > max(_LEAST_PEERS, len(found.components) // 2))
    return Observations(
        "shared", (component,), np.zeros(len(bins), np.int64), start_ns[bins], middle[bins], load[bins], seen[bins],
        alone=True, most=_MOST_SHARED, slower=_SHARED_SLOWER,
    )  # fmt: skip


def _own_excess(values: Floats, column: Ints, columns: int) -> Floats:
    """Less what is usual of each component. One that is always many times slower than the others is not another kind of
    component: it was sick for most of the time."""
    middle = float(np.median(values)) if len(values) else 0.0
    usual = np.full(columns, middle)
    for each in range(columns):
        own = values[column == each]
        if len(own) >= _OWN_USUAL:
            usual[each] = min(float(np.median(own)), middle + _OTHER_KIND)
    return np.asarray(values - usual[column])


_LOADS: Final = np.array([0.02, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9])


def _classes(load: Floats, count: Floats) -> Ints:
    """Looks that are comparable: at about the same load, by about as many operations."""
    busy = np.where(np.isfinite(load), np.searchsorted(_LOADS, load), len(_LOADS) + 1)
    many = np.clip(np.log2(np.maximum(count, 1.0)) // 2, 0, 9).astype(np.int64)
    return np.asarray(busy * 10 + many, np.int64)


def _centres(excess: Floats, kinds: Ints) -> Floats:
    """Expected at this load: the median of the class, which grows with the load."""
    busy = kinds // 10
    middle = np.zeros(len(_LOADS) + 2)
    for each in np.unique(busy):
        mine = excess[busy == each]
        if len(mine) >= _LEAST_IN_CLASS:
            middle[each] = float(np.median(mine))
    known = len(_LOADS) + 1
    middle[:known] = np.maximum.accumulate(np.maximum(middle[:known], 0.0))
    return np.asarray(middle[busy])


def _spreads(excess: Floats, kinds: Ints) -> Floats:
    """Of each class: half the way from the median up to the quantile of one standard deviation, in a class that is too
    small that of all."""
    everyone = _upper_spread(excess)
    found = np.full(len(excess), everyone)
    for each in np.unique(kinds):
        mine = kinds == each
        if mine.sum() >= _LEAST_IN_CLASS:
            found[mine] = _upper_spread(excess[mine])
        else:
            near = kinds % 10 == each % 10
            found[mine] = max(everyone, _upper_spread(excess[near]))
    return found


def _upper_spread(excess: Floats) -> float:
    if not len(excess):
        return 0.0
    low, high = np.quantile(excess, [0.5, 0.8413])
    return float(high - low)


def _in_common(excess: Floats, place: Ints, column: Ints, bins: int, columns: int) -> Floats:
    """What most components show in the same bin, where enough were seen: that is no one's own fault."""
    middle, seen = _medians(excess, place, column, bins, columns)
    return np.asarray(np.where(seen > _LEAST_PEERS, np.maximum(middle, 0.0), 0.0)[place])


def _medians(excess: Floats, place: Ints, column: Ints, bins: int, columns: int) -> tuple[Floats, Floats]:
    """(median over components, how many were seen) of each bin; 0 where none was."""
    total, seen = np.zeros((bins, columns)), np.zeros((bins, columns))
    np.add.at(total, (place, column), excess)
    np.add.at(seen, (place, column), 1.0)
    table = np.divide(total, seen, out=np.full((bins, columns), np.nan), where=seen > 0)
    any_seen = (seen > 0).any(axis=1)
    middle = np.zeros(bins)
    middle[any_seen] = np.nanmedian(table[any_seen], axis=1)
    return middle, np.sum(seen > 0, axis=1).astype(np.float64)


def _tails(excess: Floats, kinds: Ints, column: Ints, factor: float) -> tuple[Floats, Floats]:
    """How often others are slower than the factor, in the look's class or in all, and by how much more in the mean: so
    often and so much a healthy component is. (A power law of times, don15, is an exponential one of logarithms.)"""
    beyond = excess - np.log(factor)
    slow = (beyond > 0).astype(np.float64)
    more = np.where(beyond > 0, beyond, 0.0)
    everyone = np.zeros(len(kinds), np.int64)
    of_class = np.unique(kinds, return_inverse=True)[1].reshape(-1)
    if not len(column) or not (column != column[0]).any():  # nobody else
        times = float(slow.sum())
        share, mean = times / max(1, len(slow)), float(more.sum()) / max(times, 1.0)
        return np.full(len(slow), max(share, _RARELY)), np.full(len(slow), max(mean, _LEAST_SPREAD))
    shares = []
    for group in (everyone, of_class):
        count, total = (_others(weights, group, column) for weights in (np.ones(len(slow)), slow))
        shares.append(np.where(count >= _LEAST_IN_CLASS, total / np.maximum(count, 1.0), 0.0))
    mean_more = _others(more, everyone, column) / np.maximum(_others(slow, everyone, column), 1.0)
    return np.maximum(np.maximum(*shares), _RARELY), np.maximum(mean_more, _LEAST_SPREAD)


def _others(weights: Floats, group: Ints, column: Ints) -> Floats:
    """Of each look, the sum over looks of its group at other components."""
    own = group * (int(column.max(initial=0)) + 1) + column
    return np.asarray(np.bincount(group, weights)[group] - np.bincount(own, weights)[own])


def _odds(
    excess: Floats, spread: Floats, tails: tuple[Floats, Floats], shows: Floats, slower_by: tuple[float, float]
) -> Floats:
    """log p(excess | sick) / p(excess | healthy). Healthy: Student's t, and now and then slower, as others are. Sick:
    now and then as healthy, else slower by any factor of `slower_by`."""
    from scipy.special import ndtr  # a third of a second, and only here

    low, high = np.log(slower_by)
    z = excess / spread
    scale = 0.3675525969478614 / spread  # Gamma(2) / (sqrt(3 pi) Gamma(3/2))
    share, mean = tails
    healthy = scale * (1.0 + z * z / _DEGREES) ** (-(_DEGREES + 1) / 2)
    healthy = healthy + np.where(excess > low, share / mean * np.exp(-np.maximum(excess - low, 0.0) / mean), 0.0)
    slower = (ndtr((excess - low) / spread) - ndtr((excess - high) / spread)) / (high - low)
    # Slower than anything foreseen is as good as slowest.
    slower = np.where(excess > high - spread, np.maximum(slower, 0.5 / (high - low)), slower)
    return np.asarray(np.log((1 - shows) + shows * slower / np.maximum(healthy, 1e-300)))


def merged(parts: Sequence[Evidence], components: Sequence[str]) -> tuple[Floats, Floats, Mapping[str, Floats]]:
    """(odds, excess) of all kinds of evidence, and the odds by kind, with columns for `components`."""
    bins = parts[0].odds.shape[0]
    place = {name: column for column, name in enumerate(components)}
    odds, by_kind = np.zeros((bins, len(components))), {}
    total, seen = np.zeros(odds.shape), np.zeros(odds.shape)
    for part in parts:
        columns = [place[name] for name in part.components]
        own = np.zeros(odds.shape)
        own[:, columns] = part.odds
        by_kind[part.name] = own
        odds += own
        known: Bools = np.isfinite(part.excess)
        total[:, columns] += np.where(known, part.excess, 0.0)
        seen[:, columns] += known
    return odds, np.divide(total, seen, out=np.full(odds.shape, np.nan), where=seen > 0), by_kind


# Requests that are added to a bin's, at their usual time: ratios of next to nothing are near 1.
_PADDING: Final = 16.0


def service_observations(
    name: str,
    components: Sequence[str],
    start_ns: Ints,
    seconds: Sequence[Floats],
    counts: Sequence[Floats],
    load: Floats,
) -> Observations:
    """Seconds that requests took over what so many usually take. `seconds` and `counts` are (bin, component) tables,
    one of each for every kind of request; `load` is such a table, `start_ns` of the bins."""
    shape = load.shape
    spent, expected, requests, padding = np.zeros(shape), np.zeros(shape), np.zeros(shape), 0.0
    for took, count in zip(seconds, counts, strict=True):
        enough = (count >= _PADDING) & np.isfinite(took)
        if not enough.any():
            continue
        usual = float(np.median(took[enough] / count[enough]))
        there = np.isfinite(took) & np.isfinite(count)
        spent += np.where(there, took, 0.0)
        expected += np.where(there, count * usual, 0.0)
        requests += np.where(there, count, 0.0)
        padding += _PADDING * usual
    place, column = np.nonzero((requests >= _PADDING) & (padding > 0))
    chosen = place, column
    return Observations(
        name, tuple(components), column, start_ns[place],
        np.log((spent[chosen] + padding) / (expected[chosen] + padding)), load[chosen], requests[chosen],
        alone=len(components) <= _LEAST_PEERS,
    )  # fmt: skip


_CURVE_POINTS: Final = 24


def processor_observations(components: Sequence[str], start_ns: Ints, busy: Floats, load: Floats) -> Observations:
    """Processors of servers over what their own bytes explain: `busy` and `load` are (bin, server) tables."""
    known = np.isfinite(busy) & np.isfinite(load)
    place, column = np.nonzero(known)
    logs, moved = np.log(busy[known] + 0.005), load[known]
    if len(logs):
        edges = np.unique(np.quantile(moved, np.linspace(0.0, 1.0, _CURVE_POINTS + 1)))
        part = np.clip(np.searchsorted(edges, moved, side="right") - 1, 0, max(0, len(edges) - 2))
        parts = [each for each in range(max(1, len(edges) - 1)) if (part == each).any()]
        middle = [float(np.median(moved[part == each])) for each in parts]
        logs = logs - np.interp(moved, middle, [float(np.median(logs[part == each])) for each in parts])
    return Observations(
        "cpu", tuple(components), column, start_ns[place], logs, np.full(len(logs), np.nan), np.ones(len(logs))
    )


def shares_of(amounts: Floats) -> Floats:
    """(step, component) as shares of what a component can do: nearly the highest amount it had, or its peers usually
    have."""
    there = ~np.isnan(amounts).all(axis=0)
    if not there.any():
        return np.full(amounts.shape, np.nan)
    own = np.full(amounts.shape[1], np.nan)
    seen = amounts[:, there]
    quantile = np.nanquantile if np.isnan(seen).any() else np.quantile  # which does not go column by column
    own[there] = quantile(seen, 0.998, axis=0)
    ceiling = np.fmax(own, np.nanmedian(own))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(ceiling > 0, amounts / ceiling, np.nan))
