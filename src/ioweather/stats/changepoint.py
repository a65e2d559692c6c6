"""One change in the level of a weighted series: where it is, and whether chance alone would make it.

Weighted least squares over all places (values as shares, weights as volumes: the level of a side is then its volume
share). Significance by shuffling whole blocks, so that days which resemble their neighbours are not taken for a change.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ioweather.core.arrays import Floats, Ints
from ioweather.stats.resampling import default_block


@dataclass(frozen=True)
class Change:
    """The series is at `before` up to `index` (not included), at `after` from there. `explained` is the share of the
    weighted variance that the change takes away; `p_value` how often shuffled blocks take away as much."""

    index: int
    before: float
    after: float
    explained: float
    p_value: float
    block: int
    shuffles: int


def single_change(
    values: NDArray[Any],
    weights: NDArray[Any] | None = None,
    *,
    min_side: int = 3,
    shuffles: int = 999,
    block: int = 0,
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
    length = block or default_block(len(level))
    order = _shuffled_blocks(len(level), length, shuffles, seed)
    null_gains, _ = _gains(level[order], weight[order], min_side)
    best = float(gains[0].max())
    # The observed order counts as one of the shuffles, so p is never 0.
    p_value = (1 + int(np.sum(null_gains.max(axis=1) >= best * (1 - 1e-12)))) / (1 + shuffles)
    return Change(
        index, _level(level[:index], weight[:index]), _level(level[index:], weight[index:]),
        best / float(total[0]), p_value, length, shuffles,
    )  # fmt: skip


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


def _shuffled_blocks(length: int, block: int, shuffles: int, seed: int) -> Ints:
    """Index rows in which blocks of consecutive values, cut at a random offset around the end, change places."""
    rng = np.random.default_rng(seed)
    out = np.empty((shuffles, length), np.int64)
    for row in range(shuffles):
        pieces = np.split(np.roll(np.arange(length), -int(rng.integers(length))), range(block, length, block))
        out[row] = np.concatenate([pieces[place] for place in rng.permutation(len(pieces))])
    return out
