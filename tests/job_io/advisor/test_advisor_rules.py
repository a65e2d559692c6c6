"""Every rule: the right seconds where its pattern is planted, silence where it is not."""

from __future__ import annotations

from typing import get_args

import pytest

from ioweather.job_io.advisor.advise import RULES, advise
from ioweather.job_io.advisor.expected_savings import Dimension
from planted_advice import GOOD, PLANTED, Planted, view_of

NAMES = [rule.name for rule in RULES]


def test_the_catalogue_is_of_short_and_different_names():
    assert len(set(NAMES)) == len(NAMES)
    assert len({rule.headline for rule in RULES}) == len(NAMES)
    # Beside a longer label a line to type would not fit the screen.
    assert max(len(rule.headline) for rule in RULES) <= 16
    assert all(rule.model and rule.trigger for rule in RULES)


@pytest.mark.parametrize("name", NAMES)
def test_every_rule_is_planted_both_ways(name):
    seconds = [planted.seconds for planted in PLANTED if planted.rule == name]
    assert any(value is not None for value in seconds)
    assert None in seconds


@pytest.mark.parametrize("planted", PLANTED, ids=lambda p: f"{p.rule}-{p.seconds}")
def test_a_rule_says_what_was_planted(planted: Planted, tmp_path):
    advised = advise(planted.view(tmp_path))
    found = {advice.name: advice for advice in advised.patterns}
    if planted.seconds is None:
        assert planted.rule not in found
        return
    advice = found[planted.rule]
    assert advice.model_seconds == pytest.approx(planted.seconds, abs=1e-9)
    assert advice.evidence
    assert all(len(line) <= 51 for line in advice.fix_lines)
    assert advice.fix_lines
    assert 0.0 <= advice.saving.low <= advice.seconds <= advice.saving.high <= advised.io_seconds


def test_good_io_has_nothing_to_change(tmp_path):
    advised = advise(view_of(tmp_path / "good.darshan", GOOD))
    assert advised.io_seconds == 10.0
    assert advised.worth == ()
    assert advised.patterns == ()


def test_every_rule_says_where_it_is_from_and_what_to_write():
    for rule in RULES:
        assert rule.sources
        assert rule.before.strip() != rule.after.strip()
        assert rule.dimension in get_args(Dimension)
