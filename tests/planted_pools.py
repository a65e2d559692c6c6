"""Pools of runs with planted causes: three programs, each with its own time, load that slows them, and changes."""

from __future__ import annotations

import numpy as np

from ioweather.diagnosis.comparison_pool import MEASURES, Load, Pool

PEAK = 1000.0
OWN = 100.0
REQUEST = 0


def planted_pool(
    n=40, seed=1, *, noise=0.05, changed=0, cost=0.0, others=2, change=-3.0, sampled=True, **run
) -> Pool:  # fmt: skip
    """Row 0 is the run, as `run` says: seconds, load (of the peak), request (logarithm of the change), covered, inside.
    `n` runs are similar to it; `changed` of each group made `change`, which costs `cost` (logarithms)."""
    rng = np.random.default_rng(seed)
    asked = {"seconds": 100.0, "load": 0.0, "request": 0.0, "covered": 1.0, "inside": 0.9} | run
    group = np.concatenate([[0], np.zeros(n), *(np.full(40, g + 1) for g in range(others))]).astype(np.int64)
    rows = len(group)
    load = np.where(rng.random(rows) < 0.25, rng.uniform(0.3, 0.9, rows), 0.0)
    step = np.zeros(rows)
    for number in range(others + 1):
        members = np.flatnonzero(group == number)
        step[members[1 : 1 + changed]] = change
    base = np.array([100.0, 30.0, 400.0, 60.0, 90.0])[group]
    seconds = base * np.exp(1.0 * load + np.where(step != 0, cost, 0.0) + noise * rng.standard_normal(rows))
    load[0], step[0], seconds[0] = asked["load"], asked["request"], asked["seconds"]
    pattern = np.tile(np.log([2.0**20, 4, 64, 2.0**30, 1, 1, 1, 1]), (rows, 1))
    pattern[:, REQUEST] += step
    assert pattern.shape[1] == len(MEASURES)
    ones = np.ones(rows)
    coverage, inside = ones.copy(), 0.9 * ones
    coverage[0], inside[0] = asked["covered"], asked["inside"]
    unknown = np.full(rows, np.nan)
    start = np.random.default_rng(0).permutation(rows)
    if not sampled:
        return Pool(seconds, group, start, group, pattern, unknown, unknown, unknown, {}, {})
    amounts = Load(OWN + load * PEAK, OWN * ones, PEAK * ones)
    return Pool(seconds, group, start, group, pattern, unknown, coverage, inside, {"bytes": amounts}, {})
