"""`who` through a lake in which it is known who it was: one heavy job beside one of many equal runs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ioweather.core.contracts import ALL_TIME
from ioweather.core.errors import DataUnavailable, UsageError
from ioweather.core.facility import Owner, _FileSystem
from ioweather.core.results import Answer, to_jsonable
from ioweather.core.units import MINUTE_NS
from ioweather.diagnosis.blame import shortest_half
from ioweather.diagnosis.blame_query import read_activity
from ioweather.job_io.outcomes import WhatIfOutcome, WhoOutcome, WhyOutcome
from ioweather.lake.lake import Lake
from ioweather.topics.source import ask
from planted_association import START_NS
from planted_culprit import BEGAN, HEAVY, LIGHT, MINUTES, SLOWED, make_culprit_lake


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return make_culprit_lake(tmp_path_factory.mktemp("who") / "lake")


def who(lake: Lake, **params: Any) -> tuple[Answer, WhoOutcome]:
    answer = ask("who", lake, params)
    assert isinstance(answer.result, WhoOutcome)
    to_jsonable(answer)
    return answer, answer.result


def test_logs_on_another_file_system_explain_no_traffic(lake: Lake) -> None:
    with lake.snapshot() as snapshot:
        every = read_activity(snapshot, "scratch", ALL_TIME)
        counted = sum(v.read_bytes + v.write_bytes for v in every.volumes if v.known_by == "servers")
        moved = sum(v.read_bytes + v.write_bytes for v in every.volumes)
        snapshot.facility = replace(snapshot.facility, filesystems=(_FileSystem("other", mounts=("/scratch",)),))
        elsewhere = read_activity(snapshot, "scratch", ALL_TIME)
    assert every.known_ratio is not None
    assert elsewhere.known_ratio == pytest.approx(every.known_ratio * counted / moved)


def test_the_heavy_job_is_named_beside_the_run(lake: Lake) -> None:
    answer, result = who(lake, job=str(SLOWED))
    (culprit,) = result.culprits
    assert (culprit.job_id, culprit.user, culprit.project) == (HEAVY, "ben", "p1")
    assert culprit.probability is not None
    assert culprit.probability > 0.9
    assert culprit.seconds == pytest.approx(600.0, rel=0.3)
    assert answer.headline.startswith(f"Without job {HEAVY} (ben, work), this run's I/O would have taken")
    assert result.evidence == "servers"
    assert {finding.name for finding in answer.findings} >= {"culprit_1", "tell_1", "known"}


def test_a_run_as_usual_has_no_culprit(lake: Lake) -> None:
    answer, result = who(lake, job="105")
    assert result.culprits == ()
    assert "took as long as usual" in answer.headline


def test_about_a_time_and_over_a_period(lake: Lake) -> None:
    moment = BEGAN + 5 * MINUTE_NS
    for params in ({"at": moment}, {}):
        answer = ask(
            "who", lake, params, period_ns=(0, 2**62) if params else (START_NS, START_NS + MINUTES * MINUTE_NS)
        )
        result = answer.result
        assert isinstance(result, WhoOutcome)
        assert [culprit.job_id for culprit in result.culprits] == [HEAVY]
        assert [user.user for user in result.users] == ["ben"]
        assert result.slowed == 1
        assert result.talkers[0].job_id == HEAVY
    users = ask("who", lake, {"by": "user"}, period_ns=(START_NS, START_NS + MINUTES * MINUTE_NS)).result
    assert isinstance(users, WhoOutcome)
    assert {talker.user for talker in users.talkers} >= {"ben", "carl"}
    assert sum(talker.bytes_ratio or 0.0 for talker in users.talkers) == pytest.approx(1.0)


def test_all_ways_to_ask_say_the_same(lake: Lake) -> None:
    _, of_run = who(lake, job=str(SLOWED))
    _, about_then = who(lake, at=BEGAN + 5 * MINUTE_NS)
    over_all = ask("who", lake, {}, period_ns=(START_NS, START_NS + MINUTES * MINUTE_NS)).result
    why = ask("why", lake, {"job": str(SLOWED)}).result
    assert isinstance(over_all, WhoOutcome)
    assert isinstance(why, WhyOutcome)
    assert of_run.culprits == about_then.culprits == over_all.culprits
    assert why.culprits == (of_run.culprits if why.kind in ("system", "both") else ())


def test_why_names_the_job_too(lake: Lake) -> None:
    result = ask("why", lake, {"job": str(SLOWED)}).result
    assert isinstance(result, WhyOutcome)
    assert [culprit.job_id for culprit in result.culprits] == ([HEAVY] if result.kind in ("system", "both") else [])


@pytest.mark.parametrize("user", ["anna", "ben", "nobody"])
def test_a_person_reads_of_others_only_that_there_was_a_job(lake: Lake, user: str) -> None:
    seen = lake.seen_by(Owner(user))
    if user == "anna":
        answer, result = who(seen, job=str(SLOWED))
        (culprit,) = result.culprits
        assert (culprit.job_id, culprit.user, culprit.project) == (None, None, None)
        assert culprit.seconds == pytest.approx(600.0, rel=0.3)
        assert "another job" in answer.headline
    else:
        with pytest.raises(DataUnavailable):
            who(seen, job=str(SLOWED))
        answer = ask("who", seen, period_ns=(START_NS, START_NS + MINUTES * MINUTE_NS))
        result = answer.result  # type: ignore[assignment]
        assert [culprit.job_id for culprit in result.culprits] == [HEAVY if user == "ben" else None]
    text = str(to_jsonable(answer))
    for name, job in (("anna", SLOWED), ("ben", HEAVY), ("carl", LIGHT)):
        if name != user:
            assert name not in text, name
            assert f"'job_id': {job}" not in text


def test_without_the_heavy_job_the_run_takes_as_long_as_usual(lake: Lake) -> None:
    result = ask("what_if", lake, {"without": HEAVY}).result
    assert isinstance(result, WhatIfOutcome)
    assert result.seconds == pytest.approx(600.0, rel=0.1)
    assert result.after_seconds == pytest.approx(result.before_seconds - result.seconds)
    assert [gain.job_id for gain in result.gains] == [SLOWED]
    same = ask("who", lake, {"without": HEAVY}).result
    assert isinstance(same, WhoOutcome)
    assert same.without == result
    hidden = ask("what_if", lake.seen_by(Owner("ben")), {"without": HEAVY}).result
    assert isinstance(hidden, WhatIfOutcome)
    assert [gain.user for gain in hidden.gains] == [None]
    with pytest.raises(DataUnavailable):
        ask("what_if", lake.seen_by(Owner("carl")), {"without": HEAVY})


def test_what_is_no_job_and_no_event_is_said(lake: Lake) -> None:
    with pytest.raises(UsageError, match="No event has the ID"):
        who(lake, job="somebody")
    with pytest.raises(DataUnavailable):
        who(lake, job="1")


def test_what_is_usual_where_many_were_slowed() -> None:
    """Beside what a normal distribution has: the median, and two thirds of a standard deviation."""
    rng = np.random.default_rng(3)
    calm = rng.normal(2.0, 0.1, 4001)
    middle, half = shortest_half(calm)
    assert middle == pytest.approx(2.0, abs=0.05)
    assert half == pytest.approx(0.6745 * 0.1, rel=0.05)
    slowed = np.where(rng.random(4001) < 0.4, calm + rng.exponential(2.0, 4001), calm)
    assert shortest_half(slowed)[0] == pytest.approx(2.0, abs=0.06)
    assert np.median(slowed) > 2.06
    assert shortest_half(np.array([1.0, 1.1, 1.2, 9.0])) == (pytest.approx(1.1), pytest.approx(0.1))
