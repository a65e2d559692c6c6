from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ioweather.diagnosis.time_model import Split, effect_on_part, find_split
from ioweather.diagnosis.verdict import judge
from planted_pools import planted_pool

ROWS = 12
USUAL = np.arange(ROWS) > 0


def column(*, at=0.0, middle=-4.0, spread=0.1) -> np.ndarray:
    found = middle + spread * np.linspace(-1, 1, ROWS)
    found[0] = middle + at
    return found


def test_a_shift_is_from_the_middle_of_the_usual_runs():
    found = find_split(column(at=-0.7), USUAL, 0)
    assert found is not None
    assert found.shift == pytest.approx(-0.7, abs=0.02)
    assert found.data_ratio == pytest.approx(1 / (1 + np.exp(-4.0)), rel=0.02)


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(column(at=np.nan), id="no metadata in the run"),
        pytest.param(np.where(np.arange(ROWS) < 5, column(), np.nan), id="four usual runs"),
        pytest.param(column(middle=1.0), id="most of the time is metadata"),
        pytest.param(column(spread=3.0), id="equal runs differ much"),
        pytest.param(np.zeros(0), id="nothing"),
    ],
)
def test_a_split_that_tells_nothing_is_none(given):
    assert not len(given) or find_split(given, USUAL, 0) is None
    assert len(given) or find_split(np.full(1, np.nan), np.zeros(1, np.bool_), 0) is None


@pytest.mark.parametrize("share", [0.02, 0.5, 0.98])
def test_a_part_that_takes_longer_makes_the_whole_longer(share):
    effect = np.array([0.0, 0.1, 1.0, 2.5])
    whole = share * np.exp(effect_on_part(share, effect)) + 1.0 - share
    np.testing.assert_allclose(np.log(whole), effect, atol=1e-12)


def test_what_slows_data_alone_moves_the_split_and_what_slows_both_does_not():
    effect, nothing = np.array([0.7]), np.zeros(1)
    alike, data = Split(0.0, 0.1, 0.99), Split(-0.7, 0.1, 0.99)
    assert alike.likelihood(nothing) > 2 * alike.likelihood(effect)
    assert data.likelihood(effect) > 2 * data.likelihood(nothing)


@pytest.mark.parametrize(("longer", "kind"), [("data", "system"), ("both", "unexplained")])
@pytest.mark.parametrize("seed", range(3))
def test_slow_in_a_quiet_system_is_the_systems_where_data_alone_took_longer(longer, kind, seed):
    """No measure shows anything. On its own nodes metadata would have taken longer too."""
    pool = planted_pool(seed=seed, seconds=200.0)
    split = -4.0 + 0.05 * np.random.default_rng(seed).standard_normal(pool.rows)
    split[0] = -4.0 - (np.log(2.0) if longer == "data" else 0.0)
    assert judge(replace(pool, split=split), 0).kind == kind
    assert judge(pool, 0).kind == "unexplained"


def test_split_that_nobody_knows_changes_nothing():
    pool = planted_pool(changed=8, cost=1.0, request=-3.0, seconds=270.0)
    assert judge(replace(pool, split=np.full(pool.rows, np.nan)), 0) == judge(pool, 0)
