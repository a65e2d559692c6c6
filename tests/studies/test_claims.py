"""Claims of a site as a file: what is written is read again, and what is not one is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ioweather.core.errors import UsageError
from ioweather.core.facility import Facility
from ioweather.core.papers.claim_tests import claims
from ioweather.core.results import Estimate, Exhibit
from ioweather.studies.claims import ClaimOutcome, ClaimsOutcome, SiteClaims, claims_answer, read_claims, write_claims

SITE = SiteClaims(
    "elsewhere", True,
    (ClaimOutcome("pat19.more_read", "supported", 1.75, 1.5, 2.0, "factor", 100, 0.001),
     ClaimOutcome("car11.small_files", "untestable", why="no scan")),
)  # fmt: skip


def test_a_site_is_read_as_it_was_written(tmp_path: Path) -> None:
    write_claims(SITE, tmp_path / "site.json")
    assert read_claims(tmp_path / "site.json") == SITE


def test_statements_and_keys_of_a_later_version_are_left_out(tmp_path: Path) -> None:
    write_claims(SITE, tmp_path / "site.json")
    body = json.loads((tmp_path / "site.json").read_text())
    body["claims"].append({"id": "pat19.of_the_future", "standing": "supported"})
    body["claims"][0]["colour"] = "blue"
    (tmp_path / "site.json").write_text(json.dumps(body | {"more": 1}))
    assert read_claims(tmp_path / "site.json") == SITE


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "not JSON"), ("[1]", "not a claims file"), ("{}", "not a claims file"), ("[" * 100_000, "not JSON"),
        ('{"format": "ioweather claims", "version": 2}', "version 2"),
        ('{"format": "ioweather claims", "version": 1}', "unreadable"),
        ('{"format": "ioweather claims", "version": 1, "site": "x", "simulated": 0, "claims": [1]}', "unreadable"),
        ('{"format": "ioweather claims", "version": 1, "site": "x", "simulated": 0, "claims": '
         '[{"id": "pat19.more_read", "standing": "surely"}]}', "unknown standing"),
        ('{"format": "ioweather claims", "version": 1, "site": "x", "simulated": 0, "claims": '
         '[{"id": "pat19.more_read", "standing": "supported", "value": "much"}]}', "not a number"),
    ],
)  # fmt: skip
def test_what_is_no_file_of_claims_is_refused(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "bad.json").write_text(text)
    with pytest.raises(UsageError, match=said):
        read_claims(tmp_path / "bad.json")


def test_a_file_that_is_not_there_or_too_large(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        read_claims(tmp_path / "none.json")
    (tmp_path / "large.json").write_bytes(b" " * (5 << 20))
    with pytest.raises(UsageError, match="too large"):
        read_claims(tmp_path / "large.json")
    with pytest.raises(UsageError, match="--export"):
        write_claims(SITE, tmp_path / "none" / "site.json")


def asked(value: float, low: float, high: float, sites: tuple[SiteClaims, ...] = ()) -> ClaimsOutcome:
    estimate = Estimate("read_over_written", value, "factor", low, high, 0.9, 50, "bootstrap")
    made = {"pat19.fig3": Exhibit("pat19.fig3", estimates=(estimate,)), "pat19.fig4": "no rows in `series`"}
    answer = claims_answer(Facility(name="here"), "pat19", made, sites)
    assert isinstance(answer.result, ClaimsOutcome)
    (table,) = answer.exhibits[0].tables
    assert len(table.rows) == len(claims("pat19"))
    rows = dict(zip(table.column("id"), table.rows, strict=True))
    if sites:
        assert rows["pat19.more_read"][-1] == "✓ 1.75x"
        assert rows["pat19.bursty_reads"][-1] == "–"
    return answer.result


def test_every_statement_has_a_row_and_a_reason() -> None:
    here = {claim.id: claim for claim in asked(1.5, 1.3, 1.7).here.claims}
    assert here["pat19.more_read"].standing == "supported"
    assert here["pat19.bursty_reads"].why == "no rows in `series`"
    assert {claim.standing for claim in here.values()} == {"supported", "untestable"}


def test_contradictions_are_the_findings_and_other_sites_stand_beside() -> None:
    outcome = asked(0.5, 0.4, 0.6, (SITE,))
    assert outcome.others == (SITE,)
    assert {claim.id: claim.standing for claim in outcome.here.claims}["pat19.more_read"] == "refuted"
