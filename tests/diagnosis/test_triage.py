"""Where a fix wins most, and what was fixed since: planted runs of two programs."""

from __future__ import annotations

import pytest

from ioweather.core.errors import DataUnavailable
from ioweather.core.facility import Facility
from ioweather.core.results import Amount
from ioweather.core.tables import concat
from ioweather.diagnosis.blame import Activity, Party, Slowed, Suspect
from ioweather.diagnosis.triage import advise_runs, find_fixed, rank_programs, triage_answer
from ioweather.lake.lake import open_lake
from ioweather.topics.source import ask
from planted_advice import LARGE, SMALL, each, requests, view_of
from planted_logs import NS, START

DAY = 86_400 * NS
BAD = {"POSIX": each(**requests("WRITE", 4000, SMALL, 20.0))}
GOOD = {"POSIX": each(**requests("WRITE", 16, LARGE, 1.0))}


def lake(folder, runs):
    """(program, day, modules) of each run."""
    views = [
        view_of(folder / f"{n}.darshan", modules, exe=f"/bin/{program}", job_id=100 + n,
                start_ns=START + day * DAY + n, end_ns=START + day * DAY + 100 * NS + n)
        for n, (program, day, modules) in enumerate(runs)
    ]  # fmt: skip
    return {name: concat([getattr(v, name) for v in views]) for name in ("applications", "files", "job_io")}


def test_programs_are_ranked_by_what_their_fixes_win(tmp_path):
    data = lake(tmp_path, [("good", 1, GOOD), ("bad", 2, BAD), ("bad", 3, BAD)])
    runs = list(advise_runs(data, Facility()))
    (item,) = rank_programs(runs)
    assert (item.program, item.runs, item.name, item.dimension) == ("bad", 2, "small_requests", "small_or_misaligned")
    assert item.io_seconds == pytest.approx(40.0)
    assert 0 < item.low <= item.seconds <= item.high <= 40.0
    assert item.job_id in (101, 102)


def test_what_was_fixed_is_found(tmp_path):
    data = lake(tmp_path, [("app", 1, BAD), ("app", 2, BAD), ("app", 3, GOOD), ("app", 4, GOOD)])
    (item,) = (i for i in find_fixed(list(advise_runs(data, Facility()))) if i.name == "small_requests")
    assert (item.runs_before, item.runs_after, item.before_seconds, item.after_seconds) == (2, 2, 20.0, 1.0)


@pytest.mark.parametrize("pattern", [(BAD, GOOD, BAD, GOOD), (BAD, BAD, BAD, GOOD), (BAD, BAD, BAD, BAD)])
def test_what_comes_and_goes_is_not_fixed(tmp_path, pattern):
    data = lake(tmp_path, [("app", day, modules) for day, modules in enumerate(pattern, 1)])
    assert find_fixed(list(advise_runs(data, Facility()))) == []


def answer_of(data, days, *activity):
    end = int(data["job_io"].ints("end_ns").max())
    runs = list(advise_runs(data, Facility()))
    return triage_answer(runs, end - days * DAY, end, len(runs), *activity)


def test_the_answer_is_of_the_last_days(tmp_path):
    data = lake(tmp_path, [("old", 1, BAD), ("new", 20, BAD), ("new", 21, GOOD)])
    answer = answer_of(data, 7)
    assert [item.program for item in answer.result.programs] == ["new"]
    assert answer.headline.startswith("1 program could save")
    all_of_it = answer_of(data, 40)
    assert {item.program for item in all_of_it.result.programs} == {"old", "new"}


def slowed_by(program, user, seconds, hidden=False):
    """A run that waited so long for a job, and would have taken a tenth of its time without it."""
    party = Party("7", job_id=7, user=user, program=program, hidden=hidden)
    suspect = Suspect(party, "servers", seconds, 0.0, 1e12, 0.0, 1e6, 0.0, 0.9, 0.0, (("OST0001", 1.0),))
    return Slowed(Party("1"), seconds * 1.1, Amount(seconds * 0.1, 0.0, seconds * 0.12), None, 1.0, (suspect,), seconds)


def test_programs_that_cost_others_stand_with_what_they_should_change(tmp_path):
    data = lake(tmp_path, [("bad", 2, BAD), ("bad", 3, BAD), ("good", 3, GOOD)])
    owner = next(iter(advise_runs(data, Facility()))).whose[1]
    asked = Activity("scratch", 0, 1, tuple(
        slowed_by(program, user, seconds, hidden)
        for program, user, seconds, hidden in (
            ("bad", owner, 100.0, False), ("bad", owner, 50.0, False), ("good", "eve", 30.0, False),
            ("secret", "mallory", 500.0, True),
        )
    ))  # fmt: skip
    answer = answer_of(data, 7, asked)
    first, second = answer.result.others
    assert (first.program, first.runs, first.name) == ("bad", 2, "small_requests")
    assert (second.program, second.name) == ("good", "")
    assert first.low <= first.seconds <= min(first.high, 150.0)
    assert "mallory" not in str(answer)


def test_without_samples_of_the_system_nobody_is_blamed(tmp_path):
    data = lake(tmp_path, [("bad", 2, BAD)])
    answer = answer_of(data, 7, "no system samples")
    assert answer.result.others == ()
    assert answer.caveats[-1] == "Cost to others is unknown: no system samples."


def test_cached_advice_gives_the_same_answer_and_new_runs_are_advised(tmp_path):
    data = lake(tmp_path, [("bad", 2, BAD), ("bad", 3, BAD), ("good", 3, GOOD)])
    stored = open_lake(tmp_path / "lake", create=True)

    def add(frames):
        for name, frame in frames.items():
            stored.append(name, frame, source="darshan")

    def triage(**params):
        answer = ask("triage", stored, params)
        return answer.headline, answer.result

    add(data)
    first = triage()
    assert first == triage()
    assert first[1] == answer_of(data, 7).result
    add(lake(tmp_path, [("worse", 4, BAD)]))
    assert {item.program for item in triage()[1].programs} == {"bad", "worse"}
    assert triage(most=1)[1].runs == 1


def test_the_period_is_that_of_from_and_to(tmp_path):
    frames = lake(tmp_path, [("old", 1, BAD), ("old", 2, BAD), ("new", 30, BAD), ("new", 31, BAD)])
    stored = open_lake(tmp_path / "lake", create=True)
    for name, frame in frames.items():
        stored.append(name, frame, source="darshan")
    programs = {
        period: [item.program for item in ask("triage", stored, period_ns=period).result.programs]
        for period in ((0, 2**62), (0, START + 10 * DAY), (START + DAY, START + 32 * DAY))
    }
    assert list(programs.values()) == [["new"], ["old"], ["new", "old"]]
    result = ask("triage", stored, period_ns=(START + DAY, START + 10 * DAY)).result
    assert (result.start_ns, result.runs) == (START + DAY, 2)
    for nothing in ((0, START), (START + 10 * DAY, START + 20 * DAY)):
        with pytest.raises(DataUnavailable, match="No run"):
            ask("triage", stored, period_ns=nothing)
