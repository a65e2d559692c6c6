"""The distribution of seconds against drawing from the model, at its edges, and by what it must never do."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ioweather.advice.verdict.posterior import KINDS, Evidence, weigh

QUIET = Evidence(
    duration=100.0, base_log=math.log(100.0), base_error=0.02, here_log=math.log(100.0), state_spread=0.02,
    run_spread=0.05, harm=15.0, own_cause=0.05, unmeasured=0.02,
)  # fmt: skip


def drawn(found: Evidence, draws: int = 4_000_000) -> dict[str, float]:
    """The same stories by drawing them and keeping what comes near the observed time: rejection, slow and plain."""
    rng = np.random.default_rng(1)
    own, hidden = rng.random(draws) < found.own_cause, rng.random(draws) < found.unmeasured
    level = found.here_log + np.where(
        hidden, rng.uniform(0, math.log(30), draws), found.state_spread * rng.standard_t(4, draws)
    )
    cause = np.where(own, rng.uniform(0, math.log(30), draws), 0.0)
    noise = found.run_spread * np.where(own, rng.standard_normal(draws), rng.standard_t(4, draws))
    near = np.abs(level + cause + noise - math.log(found.duration)) < 0.01
    level, own, hidden = level[near], own[near], hidden[near]
    base, took = math.exp(found.base_log), found.duration
    system = np.where(own, np.exp(level) - base, took * (1 - base * np.exp(-level)))
    by_system = (system >= found.harm) & (own | ~hidden)
    by_run = (took - base - system >= found.harm) & own
    late = took - base >= found.harm
    return {
        "system": late * float(np.mean(by_system & ~by_run)), "you": late * float(np.mean(~by_system & by_run)),
        "both": late * float(np.mean(by_system & by_run)), "seconds": float(np.median(system)),
    }  # fmt: skip


@pytest.mark.parametrize(
    "change",
    [
        {"duration": 200.0, "here_log": math.log(180.0), "state_spread": 0.2},
        {"duration": 300.0, "own_cause": 0.9},
        {"duration": 400.0, "here_log": math.log(170.0), "state_spread": 0.15, "own_cause": 0.9},
        {"duration": 180.0, "unmeasured": 0.4},
    ],
)
def test_against_drawing_from_the_model(change):
    found = replace(QUIET, base_error=1e-6, **change)
    posterior, expected = weigh(found), drawn(found)
    for kind in ("system", "you", "both"):
        assert posterior.chances[kind] == pytest.approx(expected[kind], abs=0.03)
    assert posterior.system.value == pytest.approx(expected["seconds"], abs=0.03 * found.duration)


@settings(max_examples=200, deadline=None)
@given(
    took=st.floats(0.01, 1e6), base=st.floats(0.01, 1e5), factor=st.floats(0.2, 50), spread=st.floats(0, 3),
    noise=st.floats(0.03, 1), own=st.sampled_from([0.05, 0.5, 0.9]), part=st.none() | st.floats(0.01, 1e6),
)  # fmt: skip
def test_chances_and_seconds_of_anything(took, base, factor, spread, noise, own, part):
    found = Evidence(took, math.log(base), 0.05, math.log(base * factor), spread, noise, 0.15 * base, own, 0.05,
                     None if part is None else math.log(part))  # fmt: skip
    posterior = weigh(found)
    assert all(-1e-9 <= posterior.chances[kind] <= 1 + 1e-9 for kind in KINDS)
    assert sum(posterior.chances.values()) <= 1 + 1e-6
    assert posterior.usual.value + posterior.system.value + posterior.own.value == pytest.approx(took)
    for amount in (posterior.usual, posterior.system, posterior.own):
        assert amount.low <= amount.value + 1e-9
        assert amount.value <= amount.high + 1e-9


def test_what_nobody_measured_is_nobodys():
    hidden = weigh(replace(QUIET, duration=300.0, unmeasured=0.9))
    assert hidden.chances["system"] < 0.05
    assert sum(hidden.chances.values()) < 0.2


def test_seconds_outside_the_likeliest_region_do_not_agree():
    """More than half of the chance says both, but the middle of the seconds lies below the harm for one of them."""
    found = [
        weigh(replace(QUIET, duration=d, here_log=math.log(h), state_spread=s, own_cause=0.9))
        for d in (130.0, 150.0, 200.0, 400.0) for h in (100.0, 115.0, 130.0, 160.0) for s in (0.05, 0.3, 0.8)
    ]  # fmt: skip
    regions = {"system": (True, False), "you": (False, True), "both": (True, True)}
    assert not all(each.agrees for each in found)
    for each in found:
        beyond = each.system.value + each.own.value
        shown = min(max(each.system.value, 0.0), beyond)
        point = (shown >= 15.0, beyond - shown >= 15.0)
        assert each.agrees == (regions.get(each.likeliest, point) == point)
