"""Where a fix saves most: planted runs of two programs."""

from __future__ import annotations

import pytest

from ioweather.core.errors import DataUnavailable
from ioweather.core.facility import Facility
from ioweather.core.tables import concat
from ioweather.diagnosis.triage import advise_runs, rank_programs
from ioweather.facts.runs import instances_of
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


def test_programs_are_ranked_by_what_their_fixes_save(tmp_path):
    data = lake(tmp_path, [("good", 1, GOOD), ("bad", 2, BAD), ("bad", 3, BAD)])
    rows = instances_of(data, Facility(), {}).frame.records()
    (item,) = rank_programs(rows, dict(advise_runs(data, Facility())))
    assert (item.program, item.runs, item.name, item.headline) == ("bad", 2, "small_requests", "small requests")
    assert item.io_seconds == pytest.approx(40.0)
    assert 0 < item.low <= item.seconds <= item.high <= 40.0
    assert item.job_id in (101, 102)


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
    assert first[0].startswith("1 program could save")
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
