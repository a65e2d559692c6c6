"""How a claim stands follows from its estimate, and so does its sentence."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ioweather.core.errors import UsageError
from ioweather.core.papers import exhibit_entry, published
from ioweather.core.papers.claim_tests import _Claim, claim_of, claims, judge_claim
from ioweather.core.results import Estimate

CLAIM = _Claim(
    "pat19.x", "pat19", "more is read", "no more is read", "Section 3", "pat19.fig3", "read_over_written", "factor",
    above=1.0,
)  # fmt: skip


def estimate(low: float | None, high: float | None, value: float = 1.5, n: int = 100) -> Estimate:
    return Estimate(CLAIM.estimate, value, "factor", low, high, 0.9 if low is not None else None, n, "bootstrap")


def stands(claim: _Claim, *given: Estimate) -> str:
    return judge_claim(claim, {e.name: e for e in given}).standing


@pytest.mark.parametrize("key", ["car11", "don15", "kun19", "mad17", "pat19"])
def test_every_claim_can_be_read_and_belongs_to_an_exhibit(key: str) -> None:
    found = claims(key)
    assert len({claim.id for claim in found}) == len(found)
    for claim in found:
        assert exhibit_entry(claim.exhibit).paper == key
        assert (claim.above is None) != (claim.below is None), claim.id
        assert claim.text[0].islower() or claim.text.startswith("POSIX") or claim.text.startswith("Weibull"), claim.id
        assert not claim.text.endswith("."), claim.id
        assert not claim.otherwise.endswith("."), claim.id
        assert claim.text != claim.otherwise, claim.id
        if claim.printed:
            assert claim.printed in {value.quantity for value in published(claim.exhibit)}, claim.id


def test_there_are_as_many_as_the_papers_state() -> None:
    assert {claim.observation for claim in claims("pat19")} == set(range(9))
    assert sum(claim.paper != "pat19" for claim in claims()) >= 45
    assert all(bool(claim.because) == claim.ours for claim in claims())
    with pytest.raises(UsageError, match="no claim"):
        claim_of("pat19.nothing")


def test_a_published_value_agrees_with_its_own_papers_claim() -> None:
    """The paper's site cannot contradict the paper: criteria are on the right side of what is printed."""
    for claim in claims():
        own = [v for v in published(claim.exhibit) if v.quantity == (claim.printed or claim.estimate)]
        for value in own:
            if isinstance(value.value, (int, float)) and not isinstance(value.value, bool):
                holds = value.value >= claim.number if claim.above is not None else value.value <= claim.number
                assert holds, (claim.id, value)


@pytest.mark.parametrize(
    ("low", "high", "standing"),
    [(1.4, 1.6, "supported"), (0.5, 0.7, "refuted"), (0.9, 1.1, "undecided"),
     (None, None, "undecided")],
)  # fmt: skip
def test_the_standing_follows_from_the_interval(low: float | None, high: float | None, standing: str) -> None:
    middle = 1.5 if low is None or high is None else (low + high) / 2
    assert stands(CLAIM, estimate(low, high, middle)) == standing


def test_no_number_and_few_observations_decide_nothing() -> None:
    assert stands(CLAIM) == "untestable"
    assert stands(CLAIM, replace(estimate(1.1, 1.9), value=None)) == "untestable"
    few = judge_claim(replace(CLAIM, least_n=5), {CLAIM.estimate: estimate(1.1, 1.9, n=2)})
    assert (few.standing, few.why) == ("undecided", "n = 2; needs 5")


def test_a_number_of_parts_is_scaled_to_the_site() -> None:
    scaled = replace(CLAIM, above=None, below=20, scale="targets", scale_of=248, scale_least=50)
    few, many = (Estimate("targets", n, "count") for n in (16, 496))
    small = judge_claim(scaled, {CLAIM.estimate: estimate(1.0, 2.0), "targets": few})
    assert small.standing == "untestable"
    assert "16" in small.why
    assert judge_claim(scaled, {CLAIM.estimate: estimate(30.0, 34.0, 32.0), "targets": many}).standing == "supported"
    assert judge_claim(scaled, {CLAIM.estimate: estimate(44.0, 50.0, 47.0), "targets": many}).standing == "refuted"
    assert stands(scaled, estimate(1.0, 2.0)) == "untestable"


@pytest.mark.parametrize(
    ("low", "high", "begins"),
    [(1.4, 1.6, "More is read (1.50x, 90% interval 1.40x to 1.60x; in the paper 1.75x)."),
     (0.5, 0.7, "No more is read ("), (0.9, 1.1, "These data do not decide whether more is read (")],
)  # fmt: skip
def test_the_sentence_says_what_the_mark_says(low: float, high: float, begins: str) -> None:
    finding = judge_claim(CLAIM, {CLAIM.estimate: estimate(low, high, (low + high) / 2)}).finding
    assert finding.text.startswith(begins)
    assert finding.claim == CLAIM.id


def test_a_claim_is_decided_at_the_level_of_all_claims_together() -> None:
    """The interval is one of 90%: a claim needs 1.4 times its distance."""
    for value, standing in ((1.25, "undecided"), (1.32, "undecided"), (1.42, "supported"), (0.6, "refuted")):
        found = judge_claim(CLAIM, {CLAIM.estimate: estimate(value - 0.25, value + 0.25, value)})
        assert found.standing == standing, value
        assert found.p_value is not None
        assert (found.p_value <= (1 / len(claims()))) == (standing != "undecided")
    assert "tested claims" in judge_claim(CLAIM, {CLAIM.estimate: estimate(1.07, 1.57, 1.32)}).why


def test_noise_is_rarely_decided() -> None:
    """Many estimates exactly at the criterion: fewer than 1 in so many claims is decided each way."""
    z = np.random.default_rng(1).standard_normal(20_000)
    decided = [
        judge_claim(CLAIM, {CLAIM.estimate: estimate(*np.exp([x - 1.645, x + 1.645, x]).tolist())}).standing
        != "undecided"
        for x in z
    ]
    assert np.mean(decided) <= 2.3 * (1 / len(claims()))


@pytest.mark.parametrize(
    ("value", "standing"), [(0.99, "supported"), (0.93, "weaker"), (0.503, "refuted"), (0.3, "refuted")]
)
def test_the_side_of_a_criterion_of_ours_is_not_yet_agreement(value: float, standing: str) -> None:
    """car11 prints 99.3%; the criterion, 90%, is ours."""
    claim = claim_of("car11.new_files")
    found = judge_claim(
        claim, {claim.estimate: Estimate(claim.estimate, value, "ratio", value - 0.001, value + 0.001, 0.9)}
    )
    assert found.standing == standing
    assert ("less so than in the paper" in found.finding.text) == (standing == "weaker")
