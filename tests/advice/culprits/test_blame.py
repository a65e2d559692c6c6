"""How many seconds a job cost a run, and when it may be named."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ioweather.advice.culprits.blame import (
    NAMED_FROM,
    Party,
    Slowed,
    Suspect,
    Suspects,
    accused,
    attributable_share,
    blame,
    tempered,
)
from ioweather.advice.culprits.words import culprits_of, party_words, silence_words, tell_words, without_words
from ioweather.core.run_outcomes import Amount


def suspect(job: int, data: float, metadata: float = 0.0, evidence: str = "servers") -> Suspect:
    party = Party(str(job), job, 1000 + job, f"user{job}", "p", "copy")
    return Suspect(party, evidence, data, metadata, 0.0, 1e9, 1000.0, 10.0, 0.5, 0.5, (("OST0000", 0.9),))  # type: ignore[arg-type]


def run(*found: Suspect, took: float = 210.0, own: float = 0.0, metadata_ratio: float = 0.0) -> Slowed:
    usual = Amount(60.0, 55.0, 65.0)
    suspects = Suspects(found, 1.0, "OST0000", metadata_ratio, "scratch", True)
    return Slowed(Party("me"), took, usual, Amount(own, own, own), 9.0, suspects)


def test_a_job_costs_its_work_but_no_more_than_was_lost() -> None:
    heavy, light = blame(run(suspect(1, 1000.0), suspect(2, 50.0)))
    assert heavy.suspect.party.job_id == 1
    assert heavy.seconds == pytest.approx(150.0, abs=2.0)
    assert light.seconds == pytest.approx(50.0, rel=0.2)
    assert light.low < light.seconds < light.high <= heavy.high + 1e-9
    assert heavy.probability > 0.95


def test_a_run_that_lost_nothing_accuses_nobody() -> None:
    assert culprits_of(run(suspect(1, 1000.0), took=61.0)) == ()
    assert "not slowed" in silence_words(run(took=61.0), Suspects(()))
    # Its own change took the seconds.
    assert culprits_of(run(suspect(1, 1000.0), own=150.0)) == ()


def test_a_light_job_beside_a_sick_target_is_not_accused() -> None:
    assert culprits_of(run(suspect(1, 2.0))) == ()
    assert blame(run(suspect(1, 0.1))) == ()
    assert blame(run()) == ()


def test_a_job_is_blamed_for_a_good_part_of_what_was_lost() -> None:
    """Of 12 s lost, of which 9 count as a slowdown, 7 are a good part; by a log alone, half of what was lost."""
    for evidence, least, most in (("servers", 0.6, 0.9), ("log", 0.4, 0.7)):
        (found,) = blame(run(suspect(1, 7.0, evidence=evidence), took=75.0))
        assert least < found.probability < most
    heavy, light = (blame(run(suspect(1, data, evidence="log")))[0].probability for data in (60.0, 6.0))
    assert heavy > NAMED_FROM > light


def test_where_work_explains_nothing_nobody_is_accused_of_it() -> None:
    """As many of the runs that were not slow met as much work: the same evidence against a job counts for less."""
    usually = run(suspect(1, 1000.0))
    seldom = replace(usually, attributable=0.05)
    (before,), (after,) = blame(usually), blame(seldom)
    assert before.probability > 0.95
    odds = before.probability / (1 - before.probability) * (0.05 / 0.95) / (0.8 / 0.2)
    assert after.probability == pytest.approx(odds / (1 + odds))
    assert after.probability < NAMED_FROM
    assert after.low == 0.0 < before.low
    assert blame(replace(usually, attributable=0.95)) == (before,), "it makes nobody more suspicious"


def test_the_share_of_slow_runs_that_work_explains() -> None:
    """Planted: two of a hundred are slow without any work, and of those that meet work a share more."""
    rng = np.random.default_rng(5)
    for planted in (0.0, 0.5, 0.9):
        met = rng.random(200_000) < 0.4
        slow = rng.random(200_000) < np.where(met, 0.02 / (1 - planted), 0.02)
        found = attributable_share(met[slow].tolist(), met[~slow].tolist())
        assert found == pytest.approx(planted, abs=0.05)
    assert attributable_share([], []) == pytest.approx(0.8), "nothing was seen: as usual"
    assert 0.3 < attributable_share([True, False], [True, False]) < 0.8, "few runs say little"


def test_what_was_lost_tells_how_far_the_work_of_one_explains_it() -> None:
    """By its log alone a job cost 8 s of 45 that were lost: likelier more where nobody else was there."""
    alone = run(suspect(1, 8.0, evidence="log"), took=105.0)
    beside = replace(alone, suspects=replace(alone.suspects, unrecorded_seconds=37.0))
    (sure,), (doubtful,) = blame(alone), blame(beside)
    assert sure.probability > NAMED_FROM > doubtful.probability
    assert sure.seconds > doubtful.seconds
    # Draws are too sure of themselves: it may have cost nothing.
    assert sure.low == 0.0
    assert sure.high > 8.0


def test_metadata_of_others_costs_no_more_than_the_run_spent_in_metadata() -> None:
    (found,) = blame(run(suspect(1, 0.0, 500.0), metadata_ratio=0.1))
    assert found.seconds == pytest.approx(21.0, rel=0.1)


def test_slight_suspicions_do_not_add_up_to_an_accusation() -> None:
    weak = run(suspect(1, 6.0, evidence="log"))
    (found,) = blame(weak)
    assert 0.01 < found.probability < NAMED_FROM
    assert accused([(weak, blame(weak))] * 50, lambda party: party.key) == ()
    strong = run(suspect(1, 100.0))
    (one,) = accused([(strong, blame(strong))] * 3, lambda party: party.user)
    assert one.runs == 3
    assert one.seconds == pytest.approx(3 * blame(strong)[0].seconds)


def test_the_sentences() -> None:
    made = run(suspect(4711, 148.0))
    (found,) = blame(made)
    assert without_words(made, found).startswith("Without job 4711 (user4711, copy) this run's I/O would have taken ")
    assert "not 3.50 min" in without_words(made, found)
    assert party_words(Party("hidden 1", hidden=True)) == "another job"
    assert party_words(Party("cp.1000", uid=1000)) == "cp.1000 (uid 1000)"
    assert "pack small files" in tell_words(replace(suspect(1, 1.0), metadata_seconds=5.0))
    assert "larger requests" in tell_words(replace(suspect(1, 1.0), requests=1e8))
    assert "stripe" in tell_words(suspect(1, 1.0))


def test_a_tempered_probability_keeps_order_and_the_middle() -> None:
    for evidence in ("servers", "log", "usual"):
        told = [tempered(share, evidence) for share in (0.0, 0.001, 0.2, 0.5, 0.8, 0.999, 1.0)]
        assert told == sorted(told)
        assert told[3] == pytest.approx(0.5)
        assert told[4] + told[2] == pytest.approx(1.0)
        assert 0.5 < told[4] < 0.8
        assert told[0] > 0.0
        assert told[-1] < 0.99
