"""Stripe advice on planted targets: the right count, the command, and silence where the data do not allow one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ioweather.core.errors import DataUnavailable
from ioweather.core.frames import Frame, Text
from ioweather.core.results import Answer, to_jsonable
from ioweather.core.tables import concat
from ioweather.core.units import GIB, MIB, NS
from ioweather.diagnosis.health_incidents import Incident
from ioweather.diagnosis.incident_events import to_events
from ioweather.facts.response_samples import in_incidents
from ioweather.planning import transfers as predict
from ioweather.planning.transfers import StripeOutcome, recommend_stripe
from ioweather.stats.order_statistics import BySize
from ioweather.studies.don15 import STRIPING
from planted_responses import FACILITY, SIZES, START_NS, law_of, params_of, rows
from planted_source import PlantedSource, run_study


@pytest.fixture(scope="module")
def sampled() -> Frame:
    return concat([rows(size, 200, op="write", targets=8) for size in SIZES])


def facts(answer: Answer) -> dict[str, object]:
    return {fact.label: fact.value for group in answer.facts for fact in group.facts}


def test_the_count_is_the_planted_best(sampled: Frame) -> None:
    answer = recommend_stripe(sampled, FACILITY, file_bytes=64 * MIB, replicates=10, directory="/scratch/run")
    truth = BySize(SIZES, tuple(law_of(size) for size in SIZES))
    q90 = {2**k: float(truth.transfer(64 * MIB, 2**k).quantile(0.9)) for k in range(7)}
    found = facts(answer)
    count = found["stripe count"]
    assert isinstance(count, int)
    assert q90[count] <= 1.25 * min(q90.values())
    assert found["90% finish within"] == pytest.approx(q90[count], rel=0.15)
    assert answer.headline.startswith(f"lfs setstripe -c {count} ")
    assert "/scratch/run" in answer.headline
    assert answer.exhibits[0].id == "don15.maxorder"
    assert any("independent" in caveat for caveat in answer.caveats)
    assert answer.findings[-1].name == "independent_targets"
    to_jsonable(answer)


@pytest.mark.parametrize(
    ("frame", "options", "reason"),
    [
        (rows(MIB, 200, op="write"), {}, "two or more request sizes"),
        (rows(MIB, 20, op="write"), {}, "needs 100 response times"),
        (rows(MIB, 200, op="read"), {}, "for write"),
        (rows(MIB, 200, op="write"), {"filesystem": "home"}, "on home"),
    ],
)
def test_without_samples_there_is_no_advice(frame: Frame, options: dict[str, str], reason: str) -> None:
    with pytest.raises(DataUnavailable, match=reason):
        recommend_stripe(frame, FACILITY, file_bytes=GIB, replicates=0, **options)  # type: ignore[arg-type]


def test_nothing_is_extrapolated(sampled: Frame) -> None:
    with pytest.raises(DataUnavailable, match=r"outside the sampled sizes \(1 MiB to 64 MiB on scratch-nocache\)"):
        recommend_stripe(sampled, FACILITY, file_bytes=MIB // 2, replicates=0)
    with pytest.raises(ValueError, match="cannot be striped"):
        recommend_stripe(sampled, FACILITY, file_bytes=0)


def test_a_file_beyond_what_was_sampled_moves_in_pieces_that_were(sampled: Frame) -> None:
    """The advice is that for the largest sampled size, and its times are said to be those of a piece."""
    whole = recommend_stripe(sampled, FACILITY, file_bytes=64 * MIB, replicates=0).result
    answer = recommend_stripe(sampled, FACILITY, file_bytes=1024 * GIB, replicates=0)
    assert "This is the time per 64 MiB" in answer.headline
    assert "16,384 such pieces" in answer.headline
    assert isinstance(answer.result, StripeOutcome)
    assert isinstance(whole, StripeOutcome)
    assert (answer.result.width, answer.result.quantiles) == (whole.width, whole.quantiles)
    assert (answer.result.piece_bytes, whole.piece_bytes) == (64 * MIB, None)


def test_an_incident_of_one_target_is_no_law(sampled: Frame) -> None:
    """A target is eight times slower for a while: without its rows the answer is that of the quiet system."""
    first, last = START_NS + 50 * 60 * NS, START_NS + 90 * 60 * NS
    start, target = sampled.ints("start_ns"), sampled.text("component").equals("OST0003")
    sick = target & (start >= first) & (start < last)
    slow = sampled.with_columns(duration_ns=np.where(sick, 8, 1) * sampled.ints("duration_ns"))
    events = to_events([Incident("OST0003", "slow", first, last, 0.99, 8.0, ("probe",))], "snx11025")
    hit = in_incidents(slow, events, FACILITY)
    assert np.array_equal(hit, sick)
    elsewhere = to_events([Incident("MDS", "slow", first, last, 0.99, 8.0, ("metadata",))], "another")
    assert not in_incidents(slow, elsewhere, FACILITY).any()
    truth = BySize(SIZES, tuple(law_of(size) for size in SIZES))
    _asked_without_it(slow, events, int(sick.sum()))
    answer = recommend_stripe(slow.take(~hit), FACILITY, file_bytes=64 * MIB, targets=8, replicates=0)
    assert isinstance(answer.result, StripeOutcome)
    for width in answer.result.widths:
        expected = float(truth.transfer(64 * MIB, width.width).quantile(0.9))
        assert width.quantiles[1].seconds == pytest.approx(expected, rel=0.1)


def _asked_without_it(slow: Frame, events: Frame, count: int) -> None:
    """`predict` and don15.maxorder leave the incident out as `stripe` does, and say so."""
    said = f"{count} response times of unhealthy components were left out."
    data = PlantedSource({"responses": slow, "events": events})
    params = params_of(predict.QUESTION, size=64 * MIB, width=8, op="write")
    predicted = predict.run(replace(data, facility=FACILITY), params)
    assert said in predicted.caveats
    (exhibit,) = run_study(STRIPING, data, FACILITY, params_of(STRIPING, replicates=0, transfer_size=64 * MIB))
    assert said in exhibit.caveats
    quiet = [each for each in exhibit.estimates if each.name == "q90[8]"]
    truth = BySize(SIZES, tuple(law_of(size) for size in SIZES))
    assert quiet[0].value == pytest.approx(float(truth.transfer(64 * MIB, 8).quantile(0.9)), rel=0.1)


def test_sizes_on_different_targets_give_no_advice() -> None:
    """don15's own design: a slow target looks like a slow size."""
    apart = [
        rows(size, 200, op="write").with_columns(component=Text(np.zeros(200, np.int32), (f"OST{number:04x}",)))
        for number, size in enumerate(SIZES)
    ]
    with pytest.raises(DataUnavailable, match="are on different targets"):
        recommend_stripe(concat(apart), FACILITY, file_bytes=64 * MIB, replicates=0)
