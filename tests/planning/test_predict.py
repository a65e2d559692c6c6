"""Predicted transfers against planted truth, and what cannot be predicted."""

from __future__ import annotations

import numpy as np
import pytest

from ioweather.core.errors import DataUnavailable
from ioweather.core.frames import Frame
from ioweather.core.results import Answer
from ioweather.core.tables import concat
from ioweather.core.units import GIB, MIB
from ioweather.planning.transfers import PredictOutcome, predict_transfer
from planted_responses import FACILITY, SIZES, law_of, rows


@pytest.fixture(scope="module")
def sampled() -> Frame:
    return concat([rows(size, 250, targets=4) for size in SIZES])


def facts(answer: Answer) -> dict[str, object]:
    return {fact.label: fact.value for group in answer.facts for fact in group.facts}


def rounds_of(answer: Answer) -> int:
    assert isinstance(answer.result, PredictOutcome)
    return answer.result.rounds


def test_a_sequence_of_requests_adds_up(sampled: Frame) -> None:
    answer = predict_transfer(sampled, FACILITY, total_bytes=256 * MIB, request_bytes=4 * MIB, replicates=10)
    truth = law_of(4 * MIB).sample(64 * 4_000, np.random.default_rng(1)).reshape(4_000, 64).sum(axis=1)
    found = facts(answer)
    assert rounds_of(answer) == 64
    assert found["half within"] == pytest.approx(np.median(truth), rel=0.05)
    assert found["95% within"] == pytest.approx(np.quantile(truth, 0.95), rel=0.1)
    assert found["mean"] == pytest.approx(64 * law_of(4 * MIB).mean, rel=0.1)
    assert answer.headline.startswith("About ")
    assert answer.exhibits[0].charts[0].kind == "cdf"


def test_concurrent_requests_wait_for_the_slowest(sampled: Frame) -> None:
    answer = predict_transfer(sampled, FACILITY, total_bytes=64 * MIB, width=16, replicates=10)
    truth = law_of(4 * MIB).sample(16 * 4_000, np.random.default_rng(2)).reshape(4_000, 16).max(axis=1)
    found = facts(answer)
    assert rounds_of(answer) == 1
    assert found["half within"] == pytest.approx(np.median(truth), rel=0.1)
    assert "independently" in answer.findings[0].text


def test_what_was_not_sampled_is_not_predicted(sampled: Frame) -> None:
    for size in (MIB // 2, GIB):
        with pytest.raises(DataUnavailable, match=r"outside the sampled sizes \(1 MiB to 64 MiB on scratch-nocache\)"):
            predict_transfer(sampled, FACILITY, total_bytes=GIB, request_bytes=size, replicates=0)
    with pytest.raises(DataUnavailable, match="for write"):
        predict_transfer(sampled, FACILITY, total_bytes=GIB, op="write")


def test_a_transfer_larger_than_all_samples_goes_in_pieces_of_the_largest(sampled: Frame) -> None:
    whole = predict_transfer(sampled, FACILITY, total_bytes=GIB, replicates=0)
    pieces = predict_transfer(sampled, FACILITY, total_bytes=GIB, request_bytes=64 * MIB, replicates=0)
    assert whole.result == pieces.result
    assert "in requests of 64 MiB" in whole.question
