"""How many seconds a job cost a run, and when it may be named."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ioweather.core.results import Amount
from ioweather.diagnosis.blame import (
    NAMED_FROM,
    Party,
    Slowed,
    Suspect,
    blame,
    one_of_two,
    sum_blames,
)
from ioweather.diagnosis.verdict_wording import (
    advise_owner,
    culprit_findings,
    describe_without,
    find_culprits,
    name_job,
    why_no_culprit,
)


def suspect(job: int, data: float, metadata: float = 0.0, evidence: str = "servers") -> Suspect:
    party = Party(str(job), job, 1000 + job, f"user{job}", "p", "copy")
    return Suspect(party, evidence, data, metadata, 0.0, 1e9, 1000.0, 10.0, 0.5, 0.5, (("OST0000", 0.9),))  # type: ignore[arg-type]


def run(*found: Suspect, took: float = 210.0, own: float = 0.0, metadata_ratio: float = 0.0) -> Slowed:
    usual = Amount(60.0, 55.0, 65.0)
    met = sum(each.data_seconds + min(each.metadata_seconds, metadata_ratio * took) for each in found)
    return Slowed(Party("me"), took, usual, Amount(own, own, own), 9.0, found, met, metadata_ratio)


def test_a_job_costs_its_work_but_no_more_than_was_lost() -> None:
    heavy, light = blame(run(suspect(1, 1000.0), suspect(2, 50.0)))
    assert heavy.suspect.party.job_id == 1
    assert heavy.seconds == pytest.approx(150.0, abs=2.0)
    assert light.seconds == pytest.approx(50.0, rel=0.2)
    assert light.low < light.seconds < light.high <= heavy.high + 1e-9
    assert heavy.probability > 0.9


def test_a_run_that_lost_nothing_accuses_nobody() -> None:
    assert find_culprits(run(suspect(1, 1000.0), took=61.0)) == ()
    assert "not slowed" in why_no_culprit(run(took=61.0))
    # Its own change took the seconds.
    assert find_culprits(run(suspect(1, 1000.0), own=150.0)) == ()


def test_a_light_job_beside_a_sick_target_is_not_accused() -> None:
    assert find_culprits(run(suspect(1, 2.0))) == ()
    assert blame(run(suspect(1, 0.1))) == ()
    assert blame(run()) == ()


def test_a_job_is_blamed_for_a_good_part_of_what_was_lost() -> None:
    """Of 21 s lost, of which 9 count as a slowdown, 9 are a good part, and a log says it less surely than servers."""
    chances = {}
    for evidence in ("servers", "log"):
        (found,) = blame(run(suspect(1, 9.0, evidence=evidence), took=81.0))
        chances[evidence] = found.probability
    assert 0.9 > chances["servers"] > chances["log"] > 0.3
    heavy, light = (blame(run(suspect(1, data, evidence="log")))[0].probability for data in (60.0, 6.0))
    assert heavy > NAMED_FROM > light


def test_one_of_two_did_it() -> None:
    """By their logs each of two may have done it, and they share no error but that of the targets."""
    two = run(suspect(1, 8.0, evidence="log"), suspect(2, 8.0, evidence="log"), took=80.0)
    two = replace(two, met_seconds=60.0)
    found = one_of_two(two)
    assert found is not None
    assert {party.job_id for party in found[:2]} == {1, 2}
    assert found[2] > 0.9 > max(each.probability for each in blame(two))
    said = {finding.name: finding.text for finding in culprit_findings(two, find_culprits(two))}
    assert said["one_of"].startswith("Either job ")
    assert one_of_two(run(suspect(1, 1000.0))) is None


def test_metadata_of_others_costs_no_more_than_the_run_spent_in_metadata() -> None:
    (found,) = blame(run(suspect(1, 0.0, 500.0), metadata_ratio=0.1))
    assert found.seconds == pytest.approx(21.0, rel=0.1)


def test_slight_suspicions_do_not_add_up_to_an_accusation() -> None:
    weak = run(suspect(1, 6.0, evidence="log"))
    (found,) = blame(weak)
    assert 0.01 < found.probability < NAMED_FROM
    assert sum_blames([blame(weak)] * 50, lambda party: party.key) == ()
    strong = run(suspect(1, 100.0))
    (one,) = sum_blames([blame(strong)] * 3, lambda party: party.user)
    assert one.runs == 3
    assert one.seconds == pytest.approx(3 * blame(strong)[0].seconds)


def test_the_sentences() -> None:
    made = run(suspect(4711, 148.0))
    (found,) = blame(made)
    assert describe_without(made, found).startswith(
        "Without job 4711 (user4711, copy), this run's I/O would have taken "
    )
    assert "instead of 3.50 min" in describe_without(made, found)
    assert name_job(Party("hidden 1", hidden=True)) == "another job"
    assert name_job(Party("cp.1000", uid=1000)) == "cp.1000 (uid 1000)"
    assert "pack small files" in advise_owner(replace(suspect(1, 1.0), metadata_seconds=5.0))
    assert "larger requests" in advise_owner(replace(suspect(1, 1.0), requests=1e8))
    assert "stripe" in advise_owner(suspect(1, 1.0))
