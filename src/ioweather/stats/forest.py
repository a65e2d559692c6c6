"""A random forest over one measure (Breiman 2001): the mean of trees, each grown on runs drawn with replacement.

Of one measure a tree is a step function, and every node a stretch of the runs in its order: all trees are grown
together, a level of nodes at a time. Draws and splits are those of scikit-learn's RandomForestRegressor.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final

import numpy as np

from ioweather.core.arrays import Bools, Floats, Indices

TREES: Final = 200
# Leaves of one job draw the noise; the paper does not name its setting. [ours]
LEAST_LEAF: Final = 5
_SEED: Final = 20170807
# A node whose values differ by no more is a leaf.
_PURE: Final = float(np.finfo(np.float64).eps)
# Of cuts that are as good as the best, but for rounding, the first is taken.
_TIED: Final = 1e-12


def forest_curve(x: Floats, y: Floats, at: Floats) -> tuple[Floats, float]:
    """The mean of all trees at `at`, and the share of variance explained out of bag."""
    order = np.argsort(x, kind="stable")
    seeds = np.random.RandomState(_SEED)
    bags = (np.random.RandomState(seeds.randint(2**31 - 1)).randint(0, len(x), len(x)) for _ in range(TREES))
    times = np.array([np.bincount(bag, minlength=len(x)) for bag in bags])[:, order]
    x, y = x[order], y[order]
    tree, run = np.nonzero(times)
    weight = times[tree, run].astype(np.float64)
    cut = _cuts(tree, x[run], weight, y[run])
    starts = np.flatnonzero(np.append(True, cut))
    leaves = np.add.reduceat(weight * y[run], starts) / np.add.reduceat(weight, starts)
    firsts = np.searchsorted(tree[starts], np.arange(TREES + 1))
    middles = x[run[starts[1:] - 1]] / 2 + x[run[starts[1:]]] / 2
    curve, out, outside = np.zeros(len(at)), np.zeros(len(x)), times == 0
    for number, (first, stop) in enumerate(pairwise(firsts)):
        edges, heights = middles[first : stop - 1], leaves[first:stop]
        curve += heights[np.searchsorted(edges, at)]
        out += np.where(outside[number], heights[np.searchsorted(edges, x)], 0.0)
    away, spread = y - out / np.maximum(outside.sum(axis=0), 1), y - y.mean()
    return curve / TREES, 1 - float(away @ away) / float(spread @ spread) if spread.any() else 1.0


def _cuts(tree: Indices, x: Floats, weight: Floats, y: Floats) -> Bools:
    """Of runs by tree and `x`: after which of them, but the last, a leaf ends: where the least variance is left."""
    cut, apart = np.diff(tree) > 0, np.diff(x) > 0
    at = np.arange(len(x))  # the runs of nodes that may still be cut
    while len(at):
        starts = np.flatnonzero(np.append(True, cut[at[1:] - 1]))
        sizes = np.diff(np.append(starts, len(at)))
        mass, left = np.add.reduceat(weight[at], starts), np.cumsum(weight[at])
        left -= np.repeat(left[starts] - weight[at[starts]], sizes)
        away = y[at] - np.repeat(np.add.reduceat(weight[at] * y[at], starts) / mass, sizes)
        rank, right = np.arange(len(at)) - np.repeat(starts, sizes) + 1, np.repeat(mass, sizes) - left
        allowed = (rank >= LEAST_LEAF) & (rank <= np.repeat(sizes, sizes) - LEAST_LEAF)
        allowed[:-1] &= apart[at[:-1]]
        impure = np.add.reduceat(weight[at] * away**2, starts) / mass > _PURE
        gain = np.full(len(at), -1.0)
        gain[allowed] = np.cumsum(weight[at] * away)[allowed] ** 2 / (left * right)[allowed]
        best = np.maximum.reduceat(gain, starts)
        grows = impure & (best >= 0)
        of_node = np.repeat(np.arange(len(starts)), sizes)
        found = np.flatnonzero((gain >= best[of_node] * (1 - _TIED)) & grows[of_node])
        cut[at[found[np.unique(of_node[found], return_index=True)[1]]]] = True
        at = at[grows[of_node]]
    return cut
