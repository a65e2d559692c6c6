"""The verdict on planted runs of every kind, on runs that cannot be judged, and on those made to mislead it."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from ioweather.core.units import DAY_NS, HOUR_NS
from ioweather.diagnosis.verdict import judge
from ioweather.job_io.outcomes import Reason
from planted_pools import planted_pool


@pytest.mark.parametrize(
    ("run", "kind"),
    [
        ({"seconds": 101}, "normal"),
        ({"seconds": 60}, "normal"),
        ({"seconds": 104, "load": 0.6}, "normal"),
        ({"seconds": 190, "load": 0.6}, "system"),
        ({"seconds": 260, "request": -3.0, "changed": 4, "cost": 1.0}, "you"),
        ({"seconds": 480, "request": -3.0, "changed": 4, "cost": 1.0, "load": 0.6}, "both"),
        ({"seconds": 260}, "unexplained"),
        ({"seconds": 300, "request": -3.0, "changed": 4, "cost": 0.0}, "unexplained"),
    ],
)
def test_planted_causes(run, kind):
    found = judge(planted_pool(**run), 0)
    assert (found.kind, found.reason) == (kind, None)
    assert found.probability >= 0.7
    assert sum(found.probabilities.values()) == pytest.approx(1)
    assert (found.n, found.pooled) == (40, 80)


def test_seconds_and_their_intervals():
    found = judge(planted_pool(seconds=480.0, load=0.6, request=-3.0, changed=6, cost=1.0), 0)
    for part, true in ((found.usual, 100), (found.system, 82 + 71), (found.own, 172 + 71)):
        assert part.low <= part.value <= part.high
        assert part.value == pytest.approx(true, rel=0.25)
    assert found.changed == (0,)
    assert found.changed_alike == 18


@pytest.mark.parametrize(
    ("pool", "reason"),
    [
        (planted_pool(n=2), Reason.FEW_SIMILAR_RUNS),
        (planted_pool(covered=0.7), Reason.PARTLY_SAMPLED),
        (planted_pool(seconds=math.nan), Reason.NO_IO_TIME),
        (planted_pool(seconds=0.0), Reason.NO_IO_TIME),
        (planted_pool(seconds=190.0, load=0.6, inside=0.1), Reason.COARSE_SAMPLES),
        (planted_pool(seconds=260.0, sampled=False), Reason.NO_SYSTEM_DATA),
    ],
)
def test_what_cannot_be_judged_is_unknown(pool, reason):
    found = judge(pool, 0)
    assert (found.kind, found.reason) == ("unknown", reason)


def test_without_samples_of_the_system_it_is_still_compared():
    found = judge(planted_pool(seconds=260.0, sampled=False), 0)
    assert found.usual.value == pytest.approx(100, rel=0.2)
    assert found.usual is not None
    assert found.system is None


def test_samples_that_reach_beyond_the_run_do_not_rule_the_system_out():
    """A little load on average may have been much of it just then."""
    fine, coarse = (judge(planted_pool(seconds=150.0, load=0.1, inside=inside), 0) for inside in (1.0, 0.3))
    assert fine.kind != "system"
    assert coarse.probabilities["system"] > fine.probabilities["system"]


def test_usual_is_what_happens_to_a_typical_run():
    """Each of five kinds of load is absent in most runs, and all of them are absent in one run of thirteen."""
    rng = np.random.default_rng(7)
    pool = planted_pool(n=60, others=0)
    load = np.where(rng.random((5, pool.rows)) < 0.4, rng.uniform(0.3, 0.9, (5, pool.rows)), 0.0)
    seconds = 100 * np.exp(0.5 * load.sum(axis=0) + 0.03 * rng.standard_normal(pool.rows))
    seconds[0], load[:, 0] = np.median(seconds), 0.3 * (np.arange(5) < 2)
    one = pool.loads["bytes"]
    loads = {name: replace(one, amount=100.0 + 1000.0 * each) for name, each in zip("abcde", load, strict=True)}
    found = judge(replace(pool, io_seconds=seconds, loads=loads), 0)
    assert found.kind == "normal"
    assert found.usual.value == pytest.approx(np.median(seconds), rel=0.06)


def test_normal_is_said_where_an_error_of_the_usual_time_does_not_matter():
    """Up to just below the border it is likeliest; near it nobody is told so."""
    said = {seconds: judge(planted_pool(n=12, seconds=float(seconds)), 0) for seconds in range(100, 113)}
    assert all(found.likeliest == "normal" for found in said.values())
    assert (said[100].kind, said[104].kind) == ("normal", "normal")
    assert (said[112].kind, said[112].reason) == ("unknown", Reason.LOW_PROBABILITY)


def test_the_system_is_not_cleared_where_it_may_be_half_of_it():
    """The change explains all; how much a busy system did beside it is not known."""
    found = [judge(planted_pool(seconds=s, request=-3.0, changed=4, cost=1.0, load=0.2), 0) for s in (270.0, 330.0)]
    for each in found:
        by_system = each.probabilities["system"] + each.probabilities["both"]
        assert each.kind != "you" or by_system < 0.15


@pytest.mark.parametrize("n", [3, 8, 30, 48, 200])
def test_the_same_pattern_twice_as_slow_in_a_quiet_system_is_never_you(n):
    """A cause that nobody measured and a cause of its own look the same, however many similar runs there are."""
    found = judge(planted_pool(n=n, seconds=200.0), 0)
    assert found.probabilities["you"] + found.probabilities["both"] == 0
    assert found.kind in ("unexplained", "unknown")


@pytest.mark.parametrize("known", [0, 1, 2, 6])
def test_a_harmless_change_beside_a_hidden_incident_is_not_you(known):
    """Of such runs at most one in twenty may be called 'you', whether or not others made that change."""
    said = []
    rng = np.random.default_rng(known)
    for seed in range(40):
        factor = float(rng.uniform(1.5, 5.0))
        found = judge(planted_pool(seed=seed, seconds=100 * factor, request=-3.0, changed=known, cost=0.0), 0)
        said.append(found.kind in ("you", "both"))
    assert np.mean(said) <= 0.05


def test_a_change_that_nobody_else_made_has_no_known_cost():
    found = judge(planted_pool(seconds=300.0, request=-3.0), 0)
    assert found.kind == "unknown"
    assert found.likeliest in ("you", "unexplained")


def test_what_a_change_costs_is_learned_from_other_programs():
    """None of its own group made that change; a dozen runs of other groups did."""
    pool = planted_pool(seconds=270.0, request=-3.0, changed=6, cost=1.0)
    own = np.flatnonzero((pool.group == 0) & (np.arange(pool.rows) > 0) & (pool.pattern[:, 0] < 13))
    found = judge(pool.take(np.delete(np.arange(pool.rows), own)), 0)
    assert found.kind == "you"


def test_few_similar_runs_borrow_from_other_groups():
    answered = [judge(planted_pool(n=5, seed=seed, seconds=190.0, load=0.6), 0).kind for seed in range(20)]
    assert np.mean([kind == "system" for kind in answered]) >= 0.5
    assert "you" not in answered


def test_own_amplification_is_not_others():
    """Its change makes the servers move five times its bytes, as it does in all runs with that change."""
    pool = planted_pool(seconds=270.0, request=-3.0, changed=5, cost=1.0)
    more = np.where(pool.pattern[:, 0] < 13, 400.0, 0.0)
    load = replace(pool.loads["bytes"], amount=pool.loads["bytes"].amount + more)
    assert judge(replace(pool, loads={"bytes": load}), 0).kind == "you"


def test_how_slow_it_was_for_others_explains_what_load_does_not():
    """A sick target moves few bytes; its requests take longer."""
    pool = planted_pool(seconds=280.0)
    rng = np.random.default_rng(5)
    service = 0.1 * rng.standard_normal(pool.rows)
    sick = np.r_[0, 2:8, 45:50]
    service[sick] = rng.uniform(1.0, 1.6, len(sick))
    seconds = pool.io_seconds * np.where(np.isin(np.arange(pool.rows), sick[1:]), np.exp(service), 1.0)
    assert judge(replace(pool, io_seconds=seconds, slowness={"service": service}), 0).kind == "system"
    assert judge(replace(pool, io_seconds=seconds), 0).kind == "unexplained"


def test_a_busier_system_is_never_faster():
    """A measure that by chance goes with fast runs has no effect, and no run is late because of it."""
    pool = planted_pool(seconds=150.0)
    misleading = np.where(pool.io_seconds < 95, 1.0, 0.0)
    misleading[0] = 0.0
    found = judge(replace(pool, slowness={"probe_data": misleading}), 0)
    assert found.system.value == pytest.approx(0.0, abs=1.0)


def test_broken_neighbours_do_no_harm():
    pool = planted_pool(seconds=260.0)
    seconds = pool.io_seconds.copy()
    seconds[[3, 50]] = math.nan, 0.0
    amount = pool.loads["bytes"].amount.copy()
    amount[[4, 60]] = math.nan
    broken = replace(pool, io_seconds=seconds, loads={"bytes": replace(pool.loads["bytes"], amount=amount)})
    found = judge(broken, 0)
    assert (found.kind, found.n) == ("unexplained", 38)


def test_a_slow_target_in_an_otherwise_quiet_system_is_the_system():
    """Measures that do nothing to such runs do not outvote the one that does."""
    rng = np.random.default_rng(3)
    pool = planted_pool(n=60, others=0)
    rows = pool.rows
    slow = np.where(rng.random(rows) < 0.2, rng.uniform(0.4, 1.0, rows), 0.02 * rng.standard_normal(rows))
    load = rng.uniform(0.2, 0.9, rows)
    slow[0], load[0] = 0.6, 0.0
    seconds = 100 * np.exp(np.maximum(slow, 0.0) + 0.03 * rng.standard_normal(rows))
    one = pool.loads["bytes"]
    loads = {name: replace(one, amount=100.0 + 1000.0 * load) for name in "abcdef"}
    found = judge(replace(pool, io_seconds=seconds, loads=loads, slowness={"probe_targets": slow}), 0)
    assert (found.kind, found.reason) == ("system", None)
    assert found.system.value == pytest.approx(100 * math.expm1(0.6), rel=0.4)


def test_load_beside_a_changed_run_is_not_its_own():
    """Most runs with that change ran beside others; the quieter ones show that it moves no more than its bytes."""
    pool = planted_pool(seconds=480.0, request=-3.0, changed=6, cost=1.0, load=0.6)
    alike = np.flatnonzero(pool.pattern[1:, 0] < 13) + 1
    busy = alike[np.arange(len(alike)) % 3 > 0]
    load = pool.loads["bytes"]
    amount, seconds = load.amount.copy(), pool.io_seconds.copy()
    amount[busy] += 0.6 * load.peak[busy]
    seconds[busy] *= 1.8
    found = judge(replace(pool, io_seconds=seconds, loads={"bytes": replace(load, amount=amount)}), 0)
    assert found.kind == "both"


def test_a_load_of_every_night_is_not_the_cost_of_a_change_that_only_runs_of_the_night_made():
    """All changed runs met it; unchanged runs of other nights met it too, and show that it is not of their making."""
    pool = planted_pool(changed=8, cost=0.0, request=-3.0, noise=0.03)
    changed = pool.pattern[:, 0] < 13
    quiet = np.log(pool.io_seconds) - (pool.loads["bytes"].amount - 100.0) / 1000.0
    night = changed | (np.arange(pool.rows) % 4 == 0)
    load = np.where(night, 0.6, 0.0)
    seconds = np.exp(quiet + load)
    seconds[0] = 100 * math.exp(0.6)
    start = (np.arange(pool.rows) % 14) * DAY_NS + np.where(night, 2, 12) * HOUR_NS
    loads = {"bytes": replace(pool.loads["bytes"], amount=100.0 + 1000.0 * load)}
    found = judge(replace(pool, io_seconds=seconds, start_ns=start, loads=loads), 0)
    assert found.kind == "system"
    assert found.own.value < found.harm_seconds


def test_a_run_as_slow_as_others_then_is_the_systems_though_its_like_were_not():
    """Of its program nobody was ever slowed by a slow target: this run's files lay on it."""
    pool = planted_pool(seconds=180.0)
    slow = np.zeros(pool.rows)
    slow[np.r_[0, 2:12]] = 0.8
    found = judge(replace(pool, slowness={"probe_targets": slow}), 0)
    assert found.kind == "system"
    # Slower than it was for anybody is not explained by that.
    assert judge(replace(pool, slowness={"probe_targets": 0.2 * slow}), 0).kind == "unexplained"


def released(days, *, slower_from=None, **run):
    """Run 0 and six others of its program changed from day `days` on; of all others half ran before."""
    pool = planted_pool(n=40, changed=6, cost=0.5, seconds=165.0, request=-3.0, **run)
    day = np.arange(pool.rows) % 10
    changed = np.arange(7)
    mine = np.flatnonzero(pool.group == 0)
    day[mine] = np.where(np.isin(mine, changed), 12, np.arange(len(mine)) % days)
    seconds = pool.io_seconds
    if slower_from is not None:
        others = pool.group > 0
        day[others] = np.arange(others.sum()) % 20
        seconds = np.where(others & (day >= slower_from), 1.6 * seconds, seconds)
    return replace(pool, start_ns=day * DAY_NS, io_seconds=seconds)


def test_a_change_on_the_day_when_all_programs_became_slower_is_not_held_against_the_run():
    asked = judge(released(10, slower_from=12), 0)
    assert asked.level.factor == pytest.approx(1.6, rel=0.1)
    assert asked.kind == "unexplained"
    asked = judge(released(10), 0)  # no other program ran since
    assert (asked.level.factor, asked.probability <= 0.7) == (None, True)


def test_a_change_is_held_against_the_run_if_unchanged_runs_lie_between_or_the_level_stood_still():
    between = judge(released(20), 0)
    assert (between.level, between.kind, between.probability > 0.9) == (None, "you", True)
    pool = released(10, slower_from=99)  # other programs ran on and were as fast as before
    still = judge(pool, 0)
    assert (still.level, still.kind, still.probability > 0.9) == (None, "you", True)


def test_what_slowed_all_programs_of_the_user_that_day_is_not_held_against_one_that_changed():
    pool = released(10, slower_from=99, others=4)
    seconds = np.where((pool.group == 1) & (pool.start_ns >= 12 * DAY_NS), 1.6 * pool.io_seconds, pool.io_seconds)
    user = np.where(pool.group >= 2, 1, 0)
    limited = judge(replace(pool, io_seconds=seconds, user=user), 0)
    assert limited.level.of_user
    assert limited.probabilities["you"] <= 0.7
    # A program of another user that became slower says nothing of this one's.
    of_another = judge(replace(pool, io_seconds=seconds, user=np.where(pool.group >= 1, 1, 0)), 0)
    assert (of_another.level, of_another.kind) == (None, "you")
