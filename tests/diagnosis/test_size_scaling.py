"""A program that grows: what is usual follows its bytes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ioweather.diagnosis.comparison_pool import BYTES_MOVED, find_changes
from ioweather.diagnosis.time_model import fit_size_exponent, scale_to_size
from ioweather.diagnosis.verdict import judge
from planted_pools import planted_pool


def growing(pool, here, exponent=1.0):
    """Bytes of group 0 grow from 0.82 to 1.22 of the middle, times with them; those of run 0 are given."""
    size = np.zeros(pool.rows)
    mine = np.flatnonzero(pool.group == 0)[1:]
    size[mine] = np.linspace(-0.2, 0.2, len(mine))
    size[0] = here
    pattern = pool.pattern.copy()
    pattern[:, BYTES_MOVED] += size
    seconds = pool.io_seconds * np.where(np.arange(pool.rows) > 0, np.exp(exponent * size), 1.0)
    return replace(pool, pattern=pattern, io_seconds=seconds)


@pytest.mark.parametrize(("here", "kind"), [(-0.2, "unexplained"), (0.2, "normal")])
def test_the_same_time_is_late_for_a_small_run_and_usual_for_a_large_one(here, kind):
    found = judge(growing(planted_pool(seconds=122.0), here), 0)
    assert found.kind == kind
    assert found.usual.value == pytest.approx(100 * np.exp(here), rel=0.08)
    # Growth is no noise: 15% of the usual time is late.
    assert found.harm_seconds == pytest.approx(0.15 * found.usual.value, rel=0.1)


def test_times_that_do_not_follow_bytes_are_left_alone():
    found = judge(growing(planted_pool(seconds=100.0), 0.2, exponent=0.0), 0)
    assert found.usual.value == pytest.approx(100, rel=0.05)


def test_a_run_that_grew_is_told_so_and_its_extra_time_is_its_own():
    pool = growing(planted_pool(seconds=200.0), 0.7)
    sized, growth = scale_to_size(pool, find_changes(pool.pattern, pool.group, 0), 0)
    assert sized.io_seconds[0] == pytest.approx(200.0)
    assert np.median(sized.io_seconds[1:41]) == pytest.approx(100, rel=0.05)
    assert growth.factor == pytest.approx(2.0, rel=0.1)
    found = judge(pool, 0)
    assert (found.kind, found.growth.factor) == ("you", growth.factor)
    assert found.usual.value + found.own.value == pytest.approx(200, rel=0.1)


def test_one_wild_run_does_not_bend_the_exponent():
    size = np.linspace(-0.2, 0.2, 30)
    times = size + 0.02 * np.random.default_rng(1).standard_normal(30)
    times[-1] += 3.0
    assert fit_size_exponent(size, times)[0] == pytest.approx(1.0, abs=0.15)


def test_runs_of_one_size_have_the_exponent_of_before():
    assert fit_size_exponent(np.zeros(5), np.log([90.0, 100.0, 101.0, 99.0, 300.0]))[0] == pytest.approx(1.0)
