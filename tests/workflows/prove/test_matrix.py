"""Answers against what was planted: right, wrong, not felt, accused, and sensors that are broken."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ioweather.core.run_outcomes import Reason
from ioweather.workflows.prove.plan import EXPECTED, Cause, shuffled
from ioweather.workflows.prove.prove import Answers, Said, compare

SECONDS = {Cause.SMALL_REQUESTS: 1.0, Cause.MANY_FILES: 1.2, Cause.COMPETITOR: 0.8}
PATTERNS = {Cause.SMALL_REQUESTS: ("small_requests",), Cause.MANY_FILES: ("small_files", "small_requests")}


def said(cause: Cause, number: int) -> Said:
    """What is right."""
    expected = EXPECTED[cause]
    seconds = SECONDS.get(cause, 0.2) * (1 + 0.01 * (number % 5))
    return Said(expected.verdict, None, 0.9, seconds, PATTERNS.get(cause, ()), expected.probe or "as usual", 1.0)


def proof_of(change=lambda cause, said: said, *, devices=True, run_bytes=100, device_bytes=500.0):
    planted = shuffled(3)
    answers = Answers(tuple(change(c, said(c, i)) for i, c in enumerate(planted)), device_bytes, run_bytes)
    return compare(planted, answers, 100, has_devices=devices)


def row(proof, sense, cause):
    (found,) = (row for row in proof.rows if (row.sense, row.planted) == (sense, cause))
    return found


def test_all_right():
    proof = proof_of()
    assert proof.wrong == ()
    assert {row.state for row in proof.rows} == {"right"}
    assert row(proof, "verdict", Cause.COMPETITOR).answered == {"system": EXPECTED[Cause.COMPETITOR].times}


def test_every_cause_is_planted_as_often_as_it_says_in_an_order_that_differs():
    plans = [shuffled(seed) for seed in range(5)]
    assert len(set(plans)) > 1
    for plan in plans:
        assert {cause: plan.count(cause) for cause in Cause} == {c: e.times for c, e in EXPECTED.items()}


def test_a_cause_that_slows_nothing_is_not_felt_and_not_right():
    """Whatever is said of it."""
    proof = proof_of(lambda c, s: replace(s, io_seconds=0.2) if c is Cause.COMPETITOR else s)
    assert row(proof, "verdict", Cause.COMPETITOR).state == "not felt"
    assert row(proof, "probe", Cause.COMPETITOR).state == "not felt"
    assert (row(proof, "verdict", Cause.COMPETITOR).right, proof.wrong) == (0, ())


def test_where_nothing_is_felt_the_proof_does_not_pass():
    proof = proof_of(lambda c, s: replace(s, io_seconds=0.2, verdict="normal"))
    assert any("says nothing of slow runs" in sentence for sentence in proof.wrong)


def test_an_accusation_without_a_cause_is_wrong_even_once():
    hit = []

    def once(cause, said):
        if cause is Cause.NOTHING and not hit:
            hit.append(1)
            return replace(said, verdict="you", io_seconds=0.9)
        return said

    proof = proof_of(once)
    assert row(proof, "verdict", Cause.NOTHING).state == "wrong"
    assert proof.wrong == ("verdict: of 9 runs with nothing planted 1 were accused.",)


def test_a_run_that_something_else_slowed_does_not_count():
    hit = []

    def once(cause, said):
        if cause is Cause.NOTHING and not hit:
            hit.append(1)
            return replace(said, verdict="unexplained", io_seconds=0.9)
        return said

    found = row(proof_of(once), "verdict", Cause.NOTHING)
    assert (found.right, found.counted, found.runs, found.state) == (8, 8, 9, "right")


def test_a_probe_with_constant_times_is_caught():
    proof = proof_of(lambda c, s: replace(s, probe="as usual") if s.probe == "slower" else s)
    assert row(proof, "probe", Cause.COMPETITOR).state == "wrong"
    assert proof.wrong == ("probe: a competitor was answered right 0 of 4 times.",)


def test_a_probe_that_does_not_tell_that_it_stopped_is_caught():
    proof = proof_of(lambda c, s: replace(s, probe="as usual") if s.probe == "silent" else s)
    assert proof.wrong == ("probe: a stopped probe was answered right 0 of 3 times.",)


def test_logs_without_sizes_are_caught():
    def blind(cause, said):
        return replace(said, patterns=(), verdict="unexplained" if cause in PATTERNS else said.verdict)

    assert {sentence.split(" was")[0] for sentence in proof_of(blind).wrong} == {
        "verdict: small requests", "verdict: many files", "advice: small requests", "advice: many files",
    }  # fmt: skip


@pytest.mark.parametrize(("given", "start"), [({"run_bytes": 99}, "logs:"), ({"device_bytes": 10.0}, "devices:")])
def test_bytes_that_a_sensor_lost_are_caught(given, start):
    (sentence,) = proof_of(**given).wrong
    assert sentence.startswith(start)


def test_without_samples_of_devices_a_competitor_cannot_be_known():
    def unsampled(cause, said):
        return replace(said, verdict="unknown", reason=Reason.NO_SYSTEM_DATA)

    proof = proof_of(unsampled, devices=False, device_bytes=None)
    assert {row.state for row in proof.rows if row.sense == "verdict"} == {"no samples"}
    assert row(proof, "probe", Cause.COMPETITOR).state == "right"
    assert proof.wrong == ()


def test_one_run_that_felt_it_is_not_enough():
    first = []

    def once(cause, said):
        if cause is Cause.COMPETITOR and first:
            return replace(said, io_seconds=0.2)
        if cause is Cause.COMPETITOR:
            first.append(1)
            return replace(said, verdict="unexplained")
        return said

    proof = proof_of(once)
    assert (row(proof, "verdict", Cause.COMPETITOR).state, proof.wrong) == ("not felt", ())
