"""What earlier changes brought, and the expected savings made of it."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from importlib.resources import files

import numpy as np
import pytest

from ioweather.job_io.advisor.advise import RULES
from ioweather.job_io.advisor.expected_savings import (
    FEWEST_PAIRS,
    MeasuredChange,
    conformal,
    record,
    saving_from_pairs,
)


def past(rule: str, ratio: float, part: str = "requests", modelled_seconds: float = 10.0) -> MeasuredChange:
    return MeasuredChange(rule, part, "local", "planted", "pair", 20.0, modelled_seconds, modelled_seconds * ratio)


def on_storage(kind):
    return [pair for pair in record() if pair.storage == kind]


def test_the_record_is_of_rules_that_there_are():
    parts = {rule.name: rule.part for rule in RULES}
    assert len(record()) >= 50
    for pair in record():
        assert parts[pair.rule] == pair.part
        assert pair.modelled_seconds <= pair.before_seconds * 1.001
        assert pair.saved_seconds <= pair.before_seconds
    text = files("ioweather.job_io.advisor").joinpath("record.toml").read_text("utf-8")
    assert len(tomllib.loads(text)["pair"]) == len(record())


@pytest.mark.parametrize("n", [19, 40, 200])
def test_intervals_hold_nine_of_ten(n):
    """Split conformal: whatever the distribution, of n + 1 the last lies inside with 90% or more."""
    rng = np.random.default_rng(n)
    held = 0
    for _ in range(2000):
        ratios = rng.lognormal(0.0, 0.7, n + 1)
        low, high = conformal(ratios[:-1].tolist())
        held += low <= ratios[-1] <= high
    assert 0.9 - 0.02 <= held / 2000 <= 0.9 + 2 / (n + 1) + 0.02


def test_what_was_never_tried_promises_nothing():
    """Nor do its kin stand in, where they are fewer than five, however many others there are."""
    others = [past("b", 1.0) for _ in range(30)]
    untried = saving_from_pairs(others, "a", "layout", 8.0, 20.0)
    assert (untried.seconds, untried.low, untried.high, untried.tried) == (0.0, 0.0, 8.0, False)
    once = saving_from_pairs([*others, past("a", 0.25, part="layout")], "a", "layout", 8.0, 20.0)
    assert (once.seconds, once.high, once.tried) == (0.0, 8.0, False)


def test_pairs_on_other_storage_say_nothing():
    assert not saving_from_pairs(on_storage(None), "small_requests", "requests", 8.0, 20.0, 1e6).tried
    assert saving_from_pairs(on_storage("local"), "small_requests", "requests", 8.0, 20.0, 1e6).tried


def test_three_of_four_changes_saved_what_is_promised():
    pairs = [past("a", ratio / 100) for ratio in range(1, 101)]
    saving = saving_from_pairs(pairs, "a", "requests", 10.0, 20.0)
    assert sum(pair.saved_seconds >= saving.seconds for pair in pairs) == 75


def test_joined_requests_do_not_move_bytes_faster_than_runs_did():
    """Runs moved 100 MB/s after their requests were joined: one that moves 50 MB/s saves half, a faster one nothing."""
    runs = [replace(past("small_requests", 0.5), moved_bytes=1_500_000_000) for _ in range(FEWEST_PAIRS)]
    assert {pair.rate_after for pair in runs} == {1e8}
    for rate, seconds in ((5e7, 4.0), (1e6, 7.92), (2e8, 0.0)):
        saving = saving_from_pairs(runs, "small_requests", "requests", 8.0, 20.0, rate)
        assert saving.seconds == pytest.approx(seconds)


def test_a_rule_s_own_pairs_count_before_those_of_its_part():
    others = [past("b", 1.0) for _ in range(30)]
    own = [past("a", 0.5) for _ in range(FEWEST_PAIRS)]
    saving = saving_from_pairs([*others, *own], "a", "requests", 8.0, 20.0)
    assert (saving.seconds, saving.low, saving.high) == (4.0, 4.0, 4.0)
    assert (saving.pairs, saving.of_rule) == (FEWEST_PAIRS, FEWEST_PAIRS)
    # Without a pair of its own the part says nothing; with one, it does.
    assert not saving_from_pairs(others, "a", "requests", 8.0, 20.0).tried
    assert saving_from_pairs([*others, past("a", 1.0)], "a", "requests", 8.0, 20.0).seconds == 8.0


def test_changes_that_saved_hardly_anything_are_up_to_the_model():
    pairs = [past("a", 1.0) for _ in range(20)] + [past("a", 0.05) for _ in range(10)]
    saving = saving_from_pairs(pairs, "a", "requests", 8.0, 20.0)
    assert (saving.tried, saving.seconds, saving.high) == (False, 0.0, 8.0)


@pytest.mark.parametrize("modelled", [0.0, 1e-9, 3.0, 1e9])
def test_no_promise_leaves_its_bounds(modelled):
    for rule in RULES:
        saving = saving_from_pairs(on_storage("parallel"), rule.name, rule.part, min(modelled, 100.0), 100.0, 1e6)
        assert 0.0 <= saving.low <= saving.seconds <= saving.high <= 100.0
        assert saving.high == 0.0 or modelled > 0
