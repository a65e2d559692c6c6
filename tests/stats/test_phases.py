"""Phases, imbalance and degrees of parallelism against plain loops and scipy."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from ioweather.stats.dependence import rank_correlation
from ioweather.stats.series import find_phases, members
from ioweather.studies.pat19.parallelism import (
    DEGREES,
    TOLERANCE,
    _clusters,
    count_clusters,
    join_counts,
    sort_activity,
)


def slow_phases(
    values: list[float], threshold: float, high: bool
) -> tuple[list[int], list[int], list[bool], list[int]]:
    runs: list[tuple[int, int]] = []
    inside = False
    for i, value in enumerate([*values, math.nan]):
        state = not math.isnan(value) and (value >= threshold if high else value < threshold)
        if state and not inside:
            begin = i
        if inside and not state:
            runs.append((begin, i - begin))
        inside = state
    starts = [s for s, _ in runs]

    def gap_at(i: int) -> bool:
        return i < 0 or i >= len(values) or math.isnan(values[i])

    cut = [gap_at(s - 1) or gap_at(s + n) for s, n in runs]
    between = [b - a for a, b in itertools.pairwise(starts) if not any(math.isnan(v) for v in values[a:b])]
    return starts, [n for _, n in runs], cut, between


levels = st.one_of(st.integers(0, 5).map(float), st.just(math.nan))


@given(st.lists(levels, max_size=60), st.integers(0, 6), st.booleans())
def test_phases_equal_the_slow_reading(values: list[float], threshold: int, high: bool) -> None:
    side = "high" if high else "low"
    found = find_phases(np.array(values), threshold, side)
    starts, lengths, cut, between = slow_phases(values, threshold, high)
    assert found.start.tolist() == starts
    assert found.length.tolist() == lengths
    assert found.cut.tolist() == cut
    assert found.interarrival.tolist() == between
    assert found.length.sum() == members(np.array(values), threshold, side).sum()


def test_rank_correlation_equals_scipy_and_leaves_out_missing() -> None:
    rng = np.random.default_rng(4)
    x = rng.integers(0, 20, 60).astype(float)
    y = x + rng.integers(0, 20, 60)
    want = scipy.stats.spearmanr(x, y).statistic
    assert rank_correlation(x, y) == pytest.approx(want)
    assert rank_correlation(np.append(x, np.nan), np.append(y, 1.0)) == pytest.approx(want)


def cluster_sizes(values: np.ndarray, tolerance: float = TOLERANCE) -> tuple[np.ndarray, np.ndarray]:
    """(row of each cluster, size of each cluster), row by row, smallest activity first."""
    count, _, size = _clusters(sort_activity(values), tolerance)
    return np.repeat(np.arange(len(count)), count), size


def slow_clusters(row: np.ndarray, tolerance: float) -> list[int]:
    active = sorted(value for value in row.tolist() if value > 0)
    sizes: list[int] = []
    smallest = 0.0
    for value in active:
        if sizes and value < smallest * (1 + tolerance):
            sizes[-1] += 1
        else:
            sizes.append(1)
            smallest = value
    return sizes


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(0, 30), st.integers(1, 40), st.sampled_from((0.05, 0.1, 0.5)))
def test_clusters_equal_the_slow_greedy_pass(seed: int, rows: int, columns: int, tolerance: float) -> None:
    rng = np.random.default_rng(seed)
    values = np.round(rng.lognormal(3, 0.3, (rows, columns)))
    values[rng.random(values.shape) < 0.2] = 0
    values[rng.random(values.shape) < 0.05] = np.nan
    values[rng.random(values.shape) < 0.02] = -1
    row, size = cluster_sizes(values, tolerance)
    want = [slow_clusters(r, tolerance) for r in values]
    assert size.tolist() == [s for sizes in want for s in sizes]
    assert row.tolist() == [i for i, sizes in enumerate(want) for _ in sizes]


def test_counts_per_interval_distribution_and_joining() -> None:
    rng = np.random.default_rng(2)
    values = 1e9 * rng.choice([0.0, 1.0, 1.02, 2.0, 2.01, 7.0], size=(500, 120))
    whole = count_clusters(sort_activity(values))
    joined = join_counts([count_clusters(sort_activity(part)) for part in np.array_split(values, 3)])
    assert np.array_equal(joined.histogram, whole.histogram)
    assert np.array_equal(joined.per_interval, whole.per_interval)

    clusters = [slow_clusters(row, 0.05) for row in values]
    flat = [size for sizes in clusters for size in sizes]
    table = whole.per_interval
    assert table[:, 0].tolist() == [len(sizes) for sizes in clusters]
    assert table[:, 1].tolist() == [sum(sizes) for sizes in clusters]
    for place, degree in enumerate(DEGREES, start=2):
        assert table[:, place].tolist() == [sum(size >= degree for size in sizes) for sizes in clusters]
    degrees, share = whole.cdf()
    assert share[-1] == 1
    assert share[degrees == 30][0] == pytest.approx(np.mean(np.array(flat) <= 30))
