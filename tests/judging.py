"""How a paper's claim stands at an exhibit, as the one corridor judges it."""

from __future__ import annotations

from ioweather.core.papers.claim_tests import judge_claims
from ioweather.core.results import Exhibit


def stands(exhibit: Exhibit, claim: str) -> str:
    """`claim` without its paper: 'more_read'."""
    found = {j.claim.id.partition(".")[2]: j.standing for j in judge_claims(exhibit.id, exhibit.estimates)}
    return found[claim]
