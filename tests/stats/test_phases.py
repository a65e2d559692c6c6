"""Phases against a step-by-step reading of the definition."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ioweather.stats.phases import find_phases, members, phase_sums, thresholds


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


def test_length_over_interarrival_is_a_quarter() -> None:
    """The self-test of METHODS: a quarter of all steps is high."""
    rng = np.random.default_rng(5)
    noise = rng.normal(size=60_000)
    values = np.exp(np.convolve(noise, np.ones(9), "valid"))
    low, high = thresholds(values)
    for threshold, side in ((high, "high"), (low, "low")):
        phases = find_phases(values, threshold, side)
        assert phases.length.mean() / phases.interarrival.mean() == pytest.approx(0.25, abs=0.002)


def test_sums_by_unit_add_up() -> None:
    values = np.tile([9.0, 9, 1, 1, 9, 1, 1, 1], 50)
    values[100] = np.nan
    phases = find_phases(values, 5, "high")
    sums = phase_sums(phases, len(values), 48)
    assert sums.shape == (9, 4)
    assert sums.sum(axis=0).tolist() == [
        phases.count, phases.length.sum(), len(phases.interarrival), phases.interarrival.sum(),
    ]  # fmt: skip


def test_nothing_recorded_has_no_threshold() -> None:
    assert all(math.isnan(t) for t in thresholds(np.array([np.nan, np.nan])))
    assert find_phases(np.array([]), 1.0, "high").count == 0
