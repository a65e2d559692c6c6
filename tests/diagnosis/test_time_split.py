from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ioweather.diagnosis.time_model import Split, effect_on_part, find_split, split_similarity
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
    assert found.metadata_ratio == pytest.approx(1 / (1 + np.exp(4.0)), rel=0.02)


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
    alike, data = Split(0.0, 0.1, 0.01), Split(-0.7, 0.1, 0.01)
    assert alike.likelihood(nothing, nothing) > 2 * alike.likelihood(nothing, effect)
    assert data.likelihood(nothing, effect) > 2 * data.likelihood(nothing, nothing)


def test_a_quiet_run_is_faster_than_usual_where_quiet_runs_are():
    """Where the system usually slows runs by 40%, one with the split of the quiet runs met 40% less than is usual."""
    effects, nothing = np.linspace(-0.8, 0.8, 161), np.zeros(161)
    found = Split(0.0, 0.1, 0.01, offset=0.4).likelihood(effects, nothing)
    assert effects[found.argmax()] == pytest.approx(-0.4, abs=0.02)


@pytest.mark.parametrize(("longer", "kind"), [("data", "system"), ("both", "unexplained")])
@pytest.mark.parametrize("seed", range(3))
def test_slow_in_a_quiet_system_is_the_systems_where_data_alone_took_longer(longer, kind, seed):
    """No measure shows anything. On its own nodes metadata would have taken longer too."""
    pool = planted_pool(seed=seed, seconds=200.0)
    split = -4.0 + 0.05 * np.random.default_rng(seed).standard_normal(pool.rows)
    split[0] = -4.0 - (np.log(2.0) if longer == "data" else 0.0)
    assert judge(replace(pool, split=split), 0).kind == kind
    assert judge(pool, 0).kind == "unexplained"


def test_kernel_of_parts_is_one_of_a_process():
    rng = np.random.default_rng(3)
    group, changed = np.repeat([0, 1], 30), np.arange(60) % 3 == 0
    split = -4.0 + 0.1 * rng.standard_normal(60) - np.where(changed, rng.uniform(-4, 4, 60), 0.0)
    found = split_similarity(split, group, changed, rng.random(60), 0)
    assert np.linalg.eigvalsh(found).min() > -1e-9
    assert (found[~changed][:, ~changed] == 1.0).all()


def told(*, shift: float, seconds: float, seed=1):
    """Of the changes of a kind one half cost nothing, the other half three times the time, all of it in data."""
    pool = planted_pool(n=50, seed=seed, changed=12, cost=0.0, request=-3.0, seconds=seconds)
    rng = np.random.default_rng(seed)
    costly = (pool.pattern[:, 0] < np.log(2.0**20) - 1) & (np.arange(pool.rows) % 2 == 0)
    costly[0] = False
    load = (pool.loads["bytes"].amount - 100.0) / 1000.0
    split = -4.0 + 0.05 * rng.standard_normal(pool.rows) - np.where(costly, np.log(3.0), 0.0) - load
    split[0] = -4.0 + shift
    return replace(pool, io_seconds=np.where(costly, 3.0, 1.0) * pool.io_seconds, split=split)


@pytest.mark.parametrize("seed", range(3))
def test_a_harmless_change_beside_a_hidden_incident_is_not_yours(seed):
    pool = told(shift=0.0, seconds=300.0, seed=seed)
    assert judge(pool, 0).kind == "unexplained"
    assert judge(replace(pool, split=np.zeros(0)), 0).kind != "unexplained"


@pytest.mark.parametrize("seed", range(3))
def test_a_costly_change_is_yours(seed):
    said = judge(told(shift=-np.log(3.0), seconds=300.0, seed=seed), 0)
    assert said.kind == "you"
    assert said.own is not None
    assert said.own.low < 200.0 < said.own.high


def test_split_that_nobody_knows_changes_nothing():
    pool = planted_pool(changed=8, cost=1.0, request=-3.0, seconds=270.0)
    assert judge(replace(pool, split=np.full(pool.rows, np.nan)), 0) == judge(pool, 0)
