"""Noise and the state of the system, planted in equal runs and found again."""

from __future__ import annotations

import numpy as np
import pytest

from ioweather.core.frames import Frame
from ioweather.core.tables import encode_text
from ioweather.core.units import MINUTE_NS
from ioweather.studies.predictability import at_the_same_time, deviations, equal_runs, spread, while_quiet


def test_runs_whose_io_begins_within_twenty_minutes_are_one_set():
    group = np.array([0, 0, 0, 1, 0, 1])
    minutes = np.array([0, 19, 70, 4, 21, 100])
    assert at_the_same_time(group, minutes * MINUTE_NS).tolist() == [0, 0, 2, 3, 1, 4]


def test_runs_that_move_the_same_bytes_in_other_requests_are_not_equal():
    same = {"uid": 7, "nprocs": 4, "file_count": 1, "unique_file_count": 0, "shared_file_count": 1, "read_bytes": 0,
            "write_bytes": 4096, "exe": encode_text(["/sw/a", "/sw/a x", "/sw/b", "/sw/a"]), "read_count": 0,
            "write_count": np.array([1, 1, 1, 4]), "common_access_bytes": np.array([4096, 4096, 4096, 1024]),
            "io_rank_count": 1}  # fmt: skip
    runs = Frame({name: np.full(4, value) if isinstance(value, int) else value for name, value in same.items()})
    first, again, other_program, small_requests = equal_runs(runs).tolist()
    assert first == again
    assert len({first, other_program, small_requests}) == 3


def test_a_run_without_an_equal_or_without_a_time_does_not_count():
    found = deviations(np.array([1.0, 2.0, 3.0, np.nan, 0.0, 5.0]), np.array([0, 0, 1, 2, 2, -1]))
    assert len(found) == 1
    assert found[0] == pytest.approx(np.array([-0.5, 0.5]) * np.log(2) * np.sqrt(2))
    assert deviations(np.zeros(0), np.zeros(0, np.int64)) == []


@pytest.mark.parametrize("size", [2, 3, 20])
def test_planted_noise_is_found_in_sets_of_any_size(size):
    """At 68% the shares of a normal logarithm lie within one standard deviation."""
    rng = np.random.default_rng(2)
    sets = 2000 // size
    state = rng.normal(0, 0.5, sets)
    seconds = np.exp(np.repeat(state, size) + rng.normal(0, 0.0571, sets * size))
    found = spread(deviations(seconds, np.repeat(np.arange(sets), size)), 0.6827)
    assert found.low <= found.value <= found.high
    assert found.value == pytest.approx(np.expm1(0.0571), rel=0.07)
    ever = spread(deviations(seconds, np.zeros(sets * size, np.int64) + np.arange(sets * size) % 7), 0.6827)
    assert ever.value == pytest.approx(np.expm1(np.hypot(0.5, 0.0571)), rel=0.2)


def test_noise_is_found_beside_others_who_come_and_go():
    """In half of the sets others hold up one run or both, by up to three times; the noise is that of the rest."""
    rng = np.random.default_rng(3)
    sets, group = np.repeat(np.arange(600), 2), np.repeat(np.arange(20), 60)
    held_up = np.where(np.repeat(rng.random(600) < 0.5, 2), rng.uniform(0, np.log(3), 1200), 0.0)
    seconds = np.exp(held_up + rng.normal(0, 0.057, 1200) + group)
    assert spread(deviations(seconds, sets), 0.6827).low > 0.08
    found = spread(deviations(seconds, while_quiet(seconds, group, sets)), 0.6827)
    assert found.low < np.expm1(0.057) < found.high
    assert found.value == pytest.approx(np.expm1(0.057), rel=0.15)
    assert while_quiet(np.zeros(0), np.zeros(0, np.int64), np.zeros(0, np.int64)).size == 0
