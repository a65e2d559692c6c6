"""Verdicts from claims, and claims from estimates."""

from __future__ import annotations

import pytest

from ioweather.core.results import Estimate, Exhibit, Finding
from ioweather.studies.climate.context import Part
from ioweather.studies.climate.observations import OBSERVATIONS, Claim, observations

WORDS = ("1 min", "5 min", "25 min")


def part(claim: Claim, holds: bool | None) -> Part:
    """An exhibit that supports, refutes or leaves open one claim."""
    name = claim.name
    for key, word in zip(("[w1]", "[w5]", "[w25]"), WORDS, strict=True):
        name = name.replace(key, f"[{word}]")
    pivot = claim.above if claim.above is not None else claim.below
    assert pivot is not None
    side = 1 if (claim.above is not None) == bool(holds) else -1
    value = pivot + side * 0.1
    low, high = (value - 0.05, value + 0.05) if holds is not None else (pivot - 1, pivot + 1)
    estimate = Estimate(name, value, "", low, high, 0.9, 10, "bootstrap")
    return Part(Exhibit(claim.exhibit, "", estimates=(estimate,)), (Finding("advice", "supported"),))


def verdicts(parts: list[Part]) -> list[object]:
    return [row[3] for row in observations(parts, WORDS, ()).tables[0].rows]


def test_there_are_eight_and_each_follows_from_its_claims() -> None:
    assert len(OBSERVATIONS) == 8
    claims = [claim for observation in OBSERVATIONS for claim in observation.claims]
    assert verdicts([part(claim, True) for claim in claims]) == ["true"] * 8
    assert verdicts([part(claim, False) for claim in claims]) == ["false"] * 8
    assert verdicts([]) == ["undecided"] * 8


@pytest.mark.parametrize("number", range(8))
def test_one_refuted_claim_makes_it_false_and_one_open_claim_undecided(number: int) -> None:
    claims = [claim for observation in OBSERVATIONS for claim in observation.claims]
    first = OBSERVATIONS[number].claims[0]
    refuted = verdicts([part(claim, claim is not first) for claim in claims])
    assert refuted == ["false" if i == number else "true" for i in range(8)]
    opened = verdicts([part(claim, None if claim is first else True) for claim in claims])
    assert opened == ["undecided" if i == number else "true" for i in range(8)]


def test_evidence_and_advice_are_shown() -> None:
    claim = OBSERVATIONS[3].claims[0]
    made = observations([part(claim, True)], WORDS, ("caveat",))
    row = next(r for r in made.tables[1].rows if r[0] == 4)
    assert row[1] == "reads of 1 min tell little about the next"
    assert row[2] == "true"
    assert row[3] == "0.4 (0.35 to 0.45)"
    assert made.tables[1].rows[0][2] == "no data"
    assert made.findings[-1].text == "advice"
    assert "caveat" in made.caveats
