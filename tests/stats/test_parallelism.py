"""Degrees of parallelism against a greedy loop over one interval at a time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ioweather.stats.parallelism import DEGREES, TOLERANCE, _clusters, count_clusters, join_counts, sorted_activity


def cluster_sizes(values: np.ndarray, tolerance: float = TOLERANCE) -> tuple[np.ndarray, np.ndarray]:
    """(row of each cluster, size of each cluster), row by row, smallest activity first."""
    count, _, size = _clusters(sorted_activity(values), tolerance)
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


def test_the_rule_is_max_minus_min_below_five_percent_of_min() -> None:
    values = np.array([[100.0, 104.9, 105.1, 110.0, 0.0, 0.0]])
    assert cluster_sizes(values)[1].tolist() == [2, 2]
    assert cluster_sizes(values, 0.1001)[1].tolist() == [4]


def test_counts_per_interval_distribution_and_joining() -> None:
    rng = np.random.default_rng(2)
    values = 1e9 * rng.choice([0.0, 1.0, 1.02, 2.0, 2.01, 7.0], size=(500, 120))
    whole = count_clusters(sorted_activity(values))
    joined = join_counts([count_clusters(sorted_activity(part)) for part in np.array_split(values, 3)])
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


@pytest.mark.parametrize("value", [0.0, np.nan])
def test_idle_targets_are_in_no_cluster(value: float) -> None:
    counts = count_clusters(sorted_activity(np.full((3, 4), value)))
    assert counts.histogram.sum() == 0
    assert counts.per_interval.shape == (3, 2 + 2 * len(DEGREES))
