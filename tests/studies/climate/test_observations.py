"""Verdicts from claims, and claims from estimates."""

from __future__ import annotations

import pytest

from ioweather.core.papers.claims import Claim, claims
from ioweather.core.results import Estimate, Exhibit, Finding
from ioweather.studies.pat19.exhibits import OBSERVATIONS, observations

BOXED = [claim for claim in claims("pat19") if claim.observation]


def exhibit(claim: Claim, holds: bool | None) -> Exhibit:
    """An exhibit that supports, refutes or leaves open one claim."""
    side = 1 if (claim.above is not None) == bool(holds) else -1
    value = claim.number + side * 0.1
    low, high = (value - 0.05, value + 0.05) if holds is not None else (claim.number - 1, claim.number + 1)
    estimates = [Estimate(claim.estimate, value, "", low, high, 0.9, 10, "bootstrap")]
    if claim.scale:
        estimates.append(Estimate(claim.scale, claim.scale_of, "count"))
    return Exhibit(claim.exhibit, "", estimates=tuple(estimates))


def verdicts(made: list[Exhibit]) -> list[object]:
    """From the claims' exhibits, those of one id as one."""
    by_id: dict[str, tuple[Estimate, ...]] = {}
    for each in made:
        by_id[each.id] = (*by_id.get(each.id, ()), *each.estimates)
    joined = [Exhibit(name, estimates=estimates) for name, estimates in by_id.items()]
    return [row[3] for row in observations(joined, [], ()).tables[0].rows]


def test_there_are_eight_and_each_follows_from_its_claims() -> None:
    assert len(OBSERVATIONS) == 8
    assert len(BOXED) == 36
    assert {claim.observation for claim in BOXED} == set(range(1, 9))
    assert verdicts([exhibit(claim, True) for claim in BOXED]) == ["true"] * 8
    assert verdicts([exhibit(claim, False) for claim in BOXED]) == ["false"] * 8
    assert verdicts([]) == ["undecided"] * 8


@pytest.mark.parametrize("number", range(1, 9))
def test_one_refuted_claim_makes_it_false_and_one_open_claim_undecided(number: int) -> None:
    first = next(claim for claim in BOXED if claim.observation == number)
    refuted = verdicts([exhibit(claim, claim is not first) for claim in BOXED])
    assert refuted == ["false" if i == number else "true" for i in range(1, 9)]
    opened = verdicts([exhibit(claim, None if claim is first else True) for claim in BOXED])
    assert opened == ["undecided" if i == number else "true" for i in range(1, 9)]


def test_evidence_and_advice_are_shown() -> None:
    claim = next(claim for claim in BOXED if claim.id == "pat19.minute_of_reads")
    made = observations([exhibit(claim, True)], [Finding("advice")], ("caveat",))
    row = next(r for r in made.tables[1].rows if r[0] == 4)
    assert row[1:4] == (claim.text, "agrees", "0.4, 90% interval 0.35 to 0.45")
    assert made.tables[1].rows[0][2] == "not testable"
    assert made.findings[-1].text == "advice"
    assert "caveat" in made.caveats
