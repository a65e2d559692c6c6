"""A mark means one thing: it follows from an estimate, and only core.papers.claim_tests gives it."""

from __future__ import annotations

import pytest
from small_facility import make_small_lake

from ioweather.core.papers.claim_tests import claim_of, judge_claims
from ioweather.core.results import Exhibit
from ioweather.ui.report.write import gather

MARKS = {"supported", "refuted"}


def check_marks(exhibit: Exhibit) -> None:
    """Every mark is that of its estimate, every sentence that of its mark; nothing else is marked."""
    own = {j.claim.id: j for j in judge_claims(exhibit.id, exhibit.estimates)}
    said = {finding.claim: finding for finding in exhibit.findings if finding.claim in own}
    assert set(said) == set(own), exhibit.id
    for claim, judgement in own.items():
        text, kind = said[claim].text.lower(), said[claim].kind
        assert kind == judgement.finding.kind, claim
        starts = {"supported": claim_of(claim).text, "refuted": claim_of(claim).otherwise}.get(kind)
        assert text.startswith(starts.lower() if starts else ("these data do not", "these data cannot")), claim
        if kind != "undecided":
            value, limit = judgement.estimate.value, judgement.limit
            above = value > limit if kind == "supported" else value <= limit
            assert above == (claim_of(claim).above is not None) or value == limit, claim
    for finding in exhibit.findings:
        assert finding.kind not in MARKS or finding.claim, finding


@pytest.mark.slow
def test_every_exhibit_of_a_facility_is_marked_by_its_estimates(tmp_path) -> None:
    made = gather(make_small_lake(tmp_path)).made
    assert len(made) > 50
    for item in made:
        check_marks(item.exhibit)
