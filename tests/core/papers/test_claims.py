"""How a claim stands follows from its estimate, and so does its sentence."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ioweather.core.papers import exhibit_entry, published
from ioweather.core.papers.claims import NO_INTERVAL, Claim, claims, controlled, evidence, judge, judged
from ioweather.core.results import Estimate

CLAIM = Claim(
    "pat19.x", "pat19", "more is read", "no more is read", "Section 3", "pat19.fig3", "read_over_written", "factor",
    above=1.0,
)  # fmt: skip


def estimate(low: float | None, high: float | None, value: float = 1.5, n: int = 100) -> Estimate:
    return Estimate(CLAIM.estimate, value, "factor", low, high, 0.9 if low is not None else None, n, "bootstrap")


def stands(claim: Claim, *given: Estimate) -> str:
    return judge(claim, {e.name: e for e in given}).standing


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
    [(1.1, 1.9, "supported"), (0.5, 0.9, "refuted"), (0.5, 1.0, "refuted"), (0.9, 1.1, "undecided"),
     (None, None, "undecided")],
)  # fmt: skip
def test_the_standing_follows_from_the_interval(low: float | None, high: float | None, standing: str) -> None:
    assert stands(CLAIM, estimate(low, high)) == standing


def test_no_number_and_few_observations_decide_nothing() -> None:
    assert stands(CLAIM) == "untestable"
    assert stands(CLAIM, replace(estimate(1.1, 1.9), value=None)) == "untestable"
    few = judge(replace(CLAIM, least_n=5), {CLAIM.estimate: estimate(1.1, 1.9, n=2)})
    assert (few.standing, few.why) == ("undecided", "n = 2, and it takes 5")
    off = judge(CLAIM, {CLAIM.estimate: Estimate(CLAIM.estimate, 1.5, "factor", n=10, method=NO_INTERVAL)})
    assert (off.standing, off.why) == ("undecided", NO_INTERVAL)


def test_an_exact_count_needs_no_interval() -> None:
    exact = replace(CLAIM, exact=True)
    assert stands(exact, estimate(None, None, 1.2)) == "supported"
    assert stands(exact, estimate(None, None, 1.0)) == "refuted"


def test_a_number_of_parts_is_scaled_to_the_site() -> None:
    scaled = replace(CLAIM, above=None, below=20, scale="targets", scale_of=248, scale_least=50)
    few, many = (Estimate("targets", n, "count") for n in (16, 496))
    small = judge(scaled, {CLAIM.estimate: estimate(1.0, 2.0), "targets": few})
    assert small.standing == "untestable"
    assert "16" in small.why
    assert judge(scaled, {CLAIM.estimate: estimate(30.0, 39.0), "targets": many}).standing == "supported"
    assert judge(scaled, {CLAIM.estimate: estimate(41.0, 50.0), "targets": many}).standing == "refuted"
    assert stands(scaled, estimate(1.0, 2.0)) == "untestable"


@pytest.mark.parametrize(
    ("low", "high", "begins"),
    [(1.1, 1.9, "More is read (1.50x, 90% interval 1.10x to 1.90x; in the paper 1.75x)."),
     (0.5, 0.9, "No more is read ("), (0.9, 1.1, "Not decided whether more is read (")],
)  # fmt: skip
def test_the_sentence_says_what_the_mark_says(low: float, high: float, begins: str) -> None:
    finding = judge(CLAIM, {CLAIM.estimate: estimate(low, high)}).finding
    assert finding.text.startswith(begins)
    assert finding.claim == CLAIM.id


def test_p_is_below_a_tenth_exactly_where_the_interval_leaves_the_number_out() -> None:
    for low, high in ((1.0001, 2.0), (0.9999, 2.0), (0.1, 0.9999), (0.1, 1.0001), (1.5, 1.5)):
        found = judge(CLAIM, {CLAIM.estimate: estimate(low, high, (low + high) / 2)})
        assert found.p_value is not None
        assert (found.p_value < 0.1) == (found.standing != "undecided"), (low, high)


def test_many_claims_together_decide_less() -> None:
    """One in ten of pure noise is decided alone; together none is."""
    weak = [judge(CLAIM, {CLAIM.estimate: estimate(1.001, 1.999)}) for _ in range(40)]
    strong = judge(CLAIM, {CLAIM.estimate: estimate(1.4, 1.6)})
    exact = judge(replace(CLAIM, exact=True), {CLAIM.estimate: estimate(None, None)})
    both = controlled([*weak, strong, exact])
    assert [j.standing for j in both[:40]] == ["undecided"] * 40
    assert both[40].standing == both[41].standing == "supported"
    assert "41 claims" in both[0].why


def test_claims_of_an_exhibit_and_of_none() -> None:
    assert [j.claim.exhibit for j in judged("pat19.fig3", ())] == ["pat19.fig3"]
    assert judged("other.fig1", ()) == ()
    assert evidence(judged("pat19.fig3", ())[0]) == ""
