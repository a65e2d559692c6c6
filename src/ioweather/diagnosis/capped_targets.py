"""Capped targets: an OST or a device that still does what is asked, but never faster than a limit it did not have.

Amounts alone do not tell a slow target from an idle one: a target may do a tenth of its peers' work because nobody
wants more. A slow target has another mark. While it is slow it works at its limit for long, never above it, and its
peers go faster in the same hours. In its rates over five minutes, as shares of its own usual ceiling, that is a stretch

    nothing above L (1 + e),   at least MIN_MINUTES between L (1 - e) and L (1 + e),   L < HIGHEST_LEVEL

in which most peers exceed L by a margin. A striped job that is slow at its own end draws such a stretch too, but on
all its targets at once. So among targets with the same limit at the same time only one that stands out is named, or
targets of one server together, whose limit may be the server's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ioweather.core.arrays import Floats
from ioweather.core.frames import Matrix
from ioweather.core.units import HOUR_NS, MINUTE_NS

# [ours] Set on simulated weeks, plain and with noise of 10% and 20% on every minute: at 90 minutes half of those named
# were healthy, at 180 none. Means over five minutes keep a noisy limit flat.
STEP_NS = 5 * MINUTE_NS
MIN_MINUTES = 180
# Jobs rarely draw so low a line by themselves.
LOW_LEVEL, MIN_MINUTES_LOW = 0.25, 120
MIN_LENGTH_NS = 2 * HOUR_NS
HIGHEST_LEVEL = 0.6
LOWEST_LEVEL = 0.05
_NEAR = 0.08  # e above
_FASTER = 1.16  # a peer that exceeds the limit by this goes faster
_FASTER_PEERS = 0.7
_STANDS_OUT = 1.25  # times the minutes at the limit that any other target with the same limit has
_SAME_LIMIT = 0.1
_CEILING_QUANTILE = 0.998
_LEVEL_STEP = 0.03
_MIN_PEERS = 4


@dataclass(frozen=True)
class Capped:
    """`level` is the limit as a share of the target's usual ceiling; `limit_bytes_per_s` the limit itself."""

    component: str
    start_ns: int
    end_ns: int
    level: float
    limit_bytes_per_s: float
    minutes_at_limit: float


@dataclass(frozen=True)
class _Stretch:
    column: int
    first: int
    last: int
    level: float
    limit: float
    at_limit: int


def capped_targets(matrix: Matrix, servers: Mapping[str, str] | None = None) -> tuple[Capped, ...]:
    """Of a matrix of bytes moved (read and written together) in steps of STEP_NS; the longest at its limit first.
    `servers` names the server of a component, where that is known."""
    values = np.asarray(matrix.values, dtype=np.float64)
    if values.shape[1] < _MIN_PEERS or not np.any(values > 0):
        return ()
    ceiling = _ceilings(values)
    with np.errstate(invalid="ignore", divide="ignore"):
        shares = np.nan_to_num(values / ceiling, nan=0.0, posinf=0.0)
    needed, needed_low = (max(2, round(m * MINUTE_NS / matrix.step_ns)) for m in (MIN_MINUTES, MIN_MINUTES_LOW))
    shortest = MIN_LENGTH_NS // matrix.step_ns
    held = _held(shares, min(needed, needed_low))
    found = [
        stretch
        for column in np.flatnonzero((ceiling > 0) & (held < HIGHEST_LEVEL * (1 + _NEAR))).tolist()
        for stretch in _apart_in_time(
            _stretches(shares, ceiling, column, (needed, needed_low), shortest, float(held[column]))
        )
    ]
    homes = [(servers or {}).get(name, name) for name in matrix.components]
    named = [s for s in found if not any(_outdone(s, other, homes) for other in found)]
    named.sort(key=lambda s: (-s.at_limit, s.column))
    return tuple(
        Capped(
            matrix.components[s.column],
            matrix.start_ns + s.first * matrix.step_ns,
            matrix.start_ns + s.last * matrix.step_ns,
            s.level,
            s.limit * 1e9 / matrix.step_ns,
            s.at_limit * matrix.step_ns / MINUTE_NS,
        )
        for s in named
    )


def _ceilings(values: Floats) -> Floats:
    """What each target can do: nearly its highest step, 0 where nothing was ever seen."""
    there = ~np.isnan(values).all(axis=0)
    ceiling = np.zeros(values.shape[1])
    seen = values[:, there]
    quantile = np.nanquantile if np.isnan(seen).any() else np.quantile  # which does not go column by column
    ceiling[there] = quantile(seen, _CEILING_QUANTILE, axis=0)
    return ceiling


def _held(shares: Floats, steps: int) -> Floats:
    """The lowest level that each target stayed below for so many steps in a row; infinite where there are fewer."""
    highest, width = shares, 1
    while width < steps:
        more = min(width, steps - width)
        highest, width = np.maximum(highest[:-more], highest[more:]), width + more
    return np.asarray(highest.min(axis=0, initial=np.inf))


def _stretches(
    shares: Floats, ceiling: Floats, column: int, least: tuple[int, int], shortest: int, held: float
) -> Iterator[_Stretch]:
    own = shares[:, column]
    is_peer = (ceiling > 0) & (np.arange(len(ceiling)) != column)
    levels = np.exp(np.arange(np.log(LOWEST_LEVEL), np.log(HIGHEST_LEVEL), _LEVEL_STEP))
    needs = np.where(levels < LOW_LEVEL, least[1], least[0])
    ordered = np.sort(own)
    near = np.searchsorted(ordered, levels * (1 + _NEAR), "right") - np.searchsorted(ordered, levels * (1 - _NEAR))
    worth = (near >= needs) & (levels * (1 + _NEAR) >= held)
    for level, needed in zip(*(a[worth].tolist() for a in (levels, needs)), strict=True):
        below = own <= level * (1 + _NEAR)
        at_limit = below & (own >= level * (1 - _NEAR))
        seen = np.concatenate([[0], np.cumsum(at_limit)])
        edges = np.concatenate([[-1], np.flatnonzero(~below), [len(own)]])
        starts, ends = edges[:-1] + 1, edges[1:]
        counts = seen[ends] - seen[starts]
        for start, end, count in zip(*(a[counts >= needed].tolist() for a in (starts, ends, counts)), strict=True):
            places = np.flatnonzero(at_limit[start:end])
            first, last = start + int(places[0]), start + int(places[-1]) + 1
            if last - first < shortest:
                continue
            if _peers_are_faster(shares[first:last, is_peer], level, count):
                yield _Stretch(column, first, last, level, float(level * ceiling[column]), count)


def _peers_are_faster(peers: Floats, level: float, at_limit: int) -> bool:
    """Most peers went faster. Those that never exceeded the same limit, and were at it for less long, do not count:
    they shared stripes with this one and went at its pace."""
    highest = peers.max(axis=0)
    near = np.sum(np.abs(peers / level - 1) <= _NEAR, axis=0)
    drawn = (highest <= level * (1 + _NEAR)) & (near > 0) & (near * _STANDS_OUT <= at_limit)
    others = highest[~drawn]
    return len(others) >= _MIN_PEERS and float(np.mean(others > level * _FASTER)) >= _FASTER_PEERS


def _apart_in_time(found: Iterator[_Stretch]) -> list[_Stretch]:
    """Neighbouring levels see the same stretch: the level with the most minutes speaks for them."""
    kept: list[_Stretch] = []
    for stretch in sorted(found, key=lambda s: -s.at_limit):
        if all(stretch.last <= k.first or stretch.first >= k.last for k in kept):
            kept.append(stretch)
    return kept


def _outdone(stretch: _Stretch, other: _Stretch, homes: Sequence[str]) -> bool:
    """Another server's target had the same limit at the same time for about as long, or longer."""
    if homes[stretch.column] == homes[other.column]:
        return False
    common = min(stretch.last, other.last) - max(stretch.first, other.first)
    shorter = min(stretch.last - stretch.first, other.last - other.first)
    same = abs(float(np.log(stretch.limit / other.limit))) < _SAME_LIMIT
    return common > 0.5 * shorter and same and other.at_limit * _STANDS_OUT > stretch.at_limit
