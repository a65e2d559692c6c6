"""One change in the level of a weighted series: where it is, and whether chance alone would make it.

Weighted least squares over all places (values as shares, weights as volumes: the level of a side is then its volume
share). Significance against series without a change whose days are as alike: autoregressive ones of order one. Shuffled
blocks forget more than days do: of series with an autocorrelation of 0.8 they found a change in a quarter at 5%.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ioweather.core.arrays import Floats

# Autocorrelations that are tried, and series of each.
_TRIED: Final = np.array([0.0, 0.15, 0.3, 0.45, 0.6, 0.7, 0.8, 0.9, 0.95])
_SERIES: Final = 150
# [ours] Of series alike as these, so many look less alike than this one once their best change is taken out: leaning to
# more, since too little makes changes of nothing.
_LEANING: Final = 0.16
_BEFORE: Final = 100


@dataclass(frozen=True)
class Change:
    """The series is at `before` up to `index` (not included), at `after` from there. `explained` is the share of the
    weighted variance that the change takes away; `p_value` how often series without a change, whose neighbours have
    the correlation `alike`, lose as much by their best one."""

    index: int
    before: float
    after: float
    explained: float
    p_value: float
    alike: float
    replicates: int


def single_change(
    values: NDArray[Any],
    weights: NDArray[Any] | None = None,
    *,
    min_side: int = 3,
    replicates: int = 999,
    seed: int = 20110225,
) -> Change | None:
    """The best single change with at least `min_side` values on each side; None if the series is too short or flat."""
    level = np.asarray(values, np.float64)
    weight = np.ones(len(level)) if weights is None else np.asarray(weights, np.float64)
    if len(level) < 2 * min_side or weight.sum() <= 0:
        return None
    gains, total = _gains(level[None], weight[None], min_side)
    if not total[0] > 0:
        return None
    index = int(np.argmax(gains[0])) + min_side
    explained = float(gains[0].max() / total[0])
    rng = np.random.default_rng(seed)
    rest = _without_best(level[None], weight, min_side)[0]
    alike = _alike(rest, weight, min_side, rng)
    null_gains, totals = _gains(_drawn(rng, rest, alike, replicates), np.tile(weight, (replicates, 1)), min_side)
    # The observed order counts as one of the series, so p is never 0.
    reached = int(np.sum(null_gains.max(axis=1) / totals >= explained * (1 - 1e-12)))
    levels = [_level(level[part], weight[part]) for part in (slice(None, index), slice(index, None))]
    return Change(index, levels[0], levels[1], explained, (1 + reached) / (1 + replicates), alike, replicates)


def _without_best(values: Floats, weight: Floats, min_side: int) -> Floats:
    """Rows less their levels before and after the best change of each."""
    gains, _ = _gains(values, np.tile(weight, (len(values), 1)), min_side)
    before = np.arange(values.shape[1]) < (gains.argmax(axis=1) + min_side)[:, None]
    out = values.copy()
    for side in (before, ~before):
        mass = (side * weight).sum(axis=1)
        level = (side * weight * values).sum(axis=1) / np.where(mass > 0, mass, 1.0)
        out -= side * level[:, None]
    return out


def _next_to(rows: Floats) -> Floats:
    squares = (rows**2).sum(axis=1)
    return np.asarray((rows[:, 1:] * rows[:, :-1]).sum(axis=1) / np.where(squares > 0, squares, 1.0))


def _alike(rest: Floats, weight: Floats, min_side: int, rng: np.random.Generator) -> float:
    """Correlation of neighbours, by series of the same length whose best change was taken out too: that makes them look
    less alike than they are."""
    seen = [
        np.quantile(_next_to(_without_best(_drawn(rng, None, tried, _SERIES, len(rest)), weight, min_side)), _LEANING)
        for tried in _TRIED
    ]
    return float(np.interp(_next_to(rest[None])[0], np.maximum.accumulate(seen), _TRIED, left=0.0))


def _drawn(rng: np.random.Generator, rest: Floats | None, alike: float, rows: int, n: int = 0) -> Floats:
    """Autoregressive series, of normal innovations or of those of `rest`."""
    from scipy.signal import lfilter  # a third of a second, and only here

    if rest is None:
        innovations = rng.standard_normal((rows, n + _BEFORE))
    else:
        own = rest[1:] - float(_next_to(rest[None])[0]) * rest[:-1]
        innovations = rng.choice(own - own.mean(), (rows, len(rest) + _BEFORE))
    return np.asarray(lfilter([1.0], [1.0, -alike], innovations, axis=1)[:, _BEFORE:])


def _level(values: Floats, weights: Floats) -> float:
    total = weights.sum()
    return float(values @ weights / total) if total > 0 else float("nan")


def _gains(values: Floats, weights: Floats, min_side: int) -> tuple[Floats, Floats]:
    """Fall of the weighted sum of squares for a change before each admissible place; and the sum without one."""
    w, wx = np.cumsum(weights, axis=1), np.cumsum(weights * values, axis=1)
    all_w, all_wx = w[:, -1:], wx[:, -1:]
    left = slice(min_side - 1, values.shape[1] - min_side)
    mean = all_wx / all_w
    with np.errstate(divide="ignore", invalid="ignore"):
        # Between-sides sum of squares: (W_l * W / W_r) * (mean_l - mean)^2, written so that an empty side gives 0.
        shift = wx[:, left] - mean * w[:, left]
        gain = shift**2 * all_w / (w[:, left] * (all_w - w[:, left]))
    total = np.sum(weights * (values - mean) ** 2, axis=1)
    return np.nan_to_num(gain, nan=0.0, posinf=0.0), total
