"""Advice in an answer: on the screen, in JSON and CSV, and one sentence where nothing is worth changing."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from ioweather.core.outcomes import Amount, Change, SplitSeconds, WhyOutcome
from ioweather.core.results import Answer, to_jsonable
from ioweather.job_io.advisor.advise import Advised, advice_facts, advice_findings, advise, with_advice
from ioweather.job_io.advisor.expected_savings import Advice, Promise
from ioweather.ui.cli.main import run as command
from planted_advice import GOOD, each, own, requests, view_of

KIB, MIB = 1 << 10, 1 << 20


@pytest.fixture
def call(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))

    def run_it(*words):
        code = command([str(word) for word in words])
        return code, capsys.readouterr().out

    return run_it


def small(folder):
    path = folder / "small.darshan"
    return path, view_of(path, {"POSIX": each(**requests("WRITE", 4000, 16 * KIB, 20.0, RW_SWITCHES=2000))})


def test_the_section_ranks_and_says_what_to_type(tmp_path):
    _, view = small(tmp_path)
    answer = with_advice(Answer("q", "h"), view)
    group, others = answer.facts
    assert group.title.startswith("Worth changing (each alone; all together ")
    assert [(fact.label, fact.unit) for fact in group.facts] == [
        ("small requests", "seconds"), ("  change to", ""), ("  90% interval", ""), ("  model", ""),
        ("mixed directions", "seconds"), ("  change to", ""), ("  90% interval", ""), ("  model", ""),
        ("  before, after", ""),
    ]  # fmt: skip
    start = "file.100 and 3 more: 16,000 of 16,000 requests under 1 MiB, 16 KiB on average"
    assert group.facts[0].note.startswith(start)
    assert group.facts[1].note == "write(fd, buffer, 4 << 20) instead of each piece"
    assert others.title == "Also seen, not worth changing: under 1 s to save"
    assert [fact.label for fact in others.facts] == ["no MPI-IO"]
    (exhibit,) = answer.exhibits
    assert (exhibit.id, exhibit.tables, exhibit.charts) == ("advice", (), ())
    assert [estimate.name for estimate in exhibit.estimates][:2] == ["small requests", "mixed directions"]
    assert all(e.low <= e.value <= e.high and e.level == 0.9 for e in exhibit.estimates)
    json.dumps(to_jsonable(answer), allow_nan=False)


def test_below_the_floor_patterns_are_named_without_advice(tmp_path):
    view = view_of(tmp_path / "a.darshan", {"POSIX": [own(0, **requests("WRITE", 256, 4 * MIB, 0.5))]})
    advised = advise(view)
    (group,) = advice_facts(advised)
    assert group.title == "Seen, not worth changing: under 1 s to save"
    assert [fact.label for fact in group.facts] == ["single-rank I/O", "no MPI-IO"]
    assert list(advice_findings(advised)) == []


def test_good_io_is_not_talked_about(tmp_path):
    view = view_of(tmp_path / "a.darshan", GOOD)
    answer = with_advice(Answer("q", "h"), view)
    assert (answer.facts, answer.findings) == ((), ())


def test_without_times_the_cost_is_unknown(tmp_path):
    view = view_of(tmp_path / "a.darshan", {"POSIX": each(**requests("WRITE", 4000, 16 * KIB, 0.0))})
    (group,) = advice_facts(advise(view))
    assert "no I/O times" in group.title


def test_each_dimension_is_named_once_and_three_have_a_line_to_type():
    many = tuple(
        Advice(f"r{i}", f"r{i}", kind, "requests", "e", 9.0 - i, Promise(9.0 - i, 0.0, 9.0, 0, 0), "m", ("x",), True)
        for i, kind in enumerate(("random", "random", "interface", "imbalance", "metadata"))
    )
    advised = Advised(many, 20.0, 100.0, 1.0)
    advice, others = advice_facts(advised)
    assert [fact.name for fact in advice.facts if fact.unit == "seconds"] == ["r0", "r2", "r3"]
    assert [fact.name for fact in others.facts] == ["r4"]
    assert [f.text for f in advice_findings(advised)] == ["1 more to change, it saves 8 s: --json has them."]


def test_files_that_take_no_time_show_no_pattern(tmp_path):
    """A dozen side files, half of whose 0.2 s is metadata, beside 90 s of data."""
    data = each(**requests("WRITE", 250, 4 * MIB, 90.0))
    side = [own(i % 4, file=500 + i, F_META_TIME=0.2, **requests("WRITE", 1, KIB, 0.0)) for i in range(12)]
    alone = {a.name for a in advise(view_of(tmp_path / "side.darshan", {"POSIX": side})).patterns}
    beside = {a.name for a in advise(view_of(tmp_path / "both.darshan", {"POSIX": [*data, *side]})).patterns}
    assert "file_per_process" in alone
    assert "file_per_process" not in beside


@pytest.mark.parametrize("verb", ["job", "why"])
def test_both_commands_show_it_within_80_columns(verb, call, tmp_path):
    path, _ = small(tmp_path)
    code, out = call(verb, path, "--full")
    assert code == 0
    assert max(map(len, out.splitlines())) <= 80
    assert "Worth changing (each alone; all together " in out
    assert "docs/reference/advice.md#small_requests" in out
    assert "write(fd, buffer, 4 << 20) instead of each piece" in out


def test_a_log_alone_has_advice_and_no_verdict(call, tmp_path):
    path, _ = small(tmp_path)
    _, out = call("why", path, "--full")
    assert out.startswith("Unknown: no system data for this period")
    assert "joined to 4 MiB, each saves its time beyond its bytes" in " ".join(out.split())


@pytest.mark.parametrize("kind", ["system", "both"])
def test_seconds_that_the_system_took_are_not_promised(tmp_path, kind):
    _, view = small(tmp_path)
    split = SplitSeconds(usual=Amount(4.0), system=Amount(15.0), own=Amount(1.0))
    why = Answer("q", "h", name="why", result=WhyOutcome(kind, None, io_seconds=20.0, seconds=split))
    found = with_advice(why, view)
    assert sum(item.seconds for item in found.result.worth[:1]) <= 5.0
    assert with_advice(Answer("q", "h"), view).exhibits[0].estimates[0].value > 15.0


def why_slower(kind: str, *changed: Change) -> Answer:
    split = SplitSeconds(usual=Amount(4.0), system=Amount(0.0), own=Amount(1.0))
    return Answer("q", "Headline.", name="why", result=WhyOutcome(
        kind, None, io_seconds=20.0, harm_seconds=1.0, seconds=split, changed=changed
    ))  # fmt: skip


def test_to_undo_what_only_this_run_does_brings_no_more_than_the_usual_time(tmp_path):
    _, view = small(tmp_path)

    def promised(*changed):
        worth = with_advice(why_slower("you", *changed), view).result.worth
        return {item.name: item.seconds for item in worth}["small_requests"]

    everywhere = promised()
    assert everywhere > 16.0
    assert promised(Change("request_bytes", 4096.0, 2.0**20)) == pytest.approx(16.0)
    assert promised(Change("request_bytes", 4096.0, 8192.0)) == everywhere  # similar runs could gain by it too
    assert promised(Change("seek_share", 0.9, 0.0)) == everywhere  # of other rules


@pytest.mark.parametrize("kind", ["unexplained", "unknown"])
def test_what_other_runs_do_not_say_the_model_may(tmp_path, kind):
    _, view = small(tmp_path)
    smaller, larger = Change("request_bytes", 4096.0, 2.0**20), Change("request_bytes", 2.0**20, 4096.0)
    said = with_advice(why_slower(kind, smaller), view).headline
    assert said.startswith("Headline; according to the advisor's model, the pattern (small requests) may explain 1")
    assert said.endswith("of the 16 s above the usual time.")
    for change in (larger, Change("file_count", 9.0, 1.0), Change("moved_bytes", 2e9, 1e9)):
        assert with_advice(why_slower(kind, change), view).headline == "Headline."
    assert with_advice(why_slower(kind), view).headline == "Headline."
    assert with_advice(why_slower("you", smaller), view).headline == "Headline."


def test_a_run_that_was_not_slower_needs_no_model(tmp_path):
    _, view = small(tmp_path)
    answer = why_slower("unknown", Change("request_bytes", 4096.0, 2.0**20))
    result = replace(answer.result, seconds=SplitSeconds(usual=Amount(19.5)))
    assert with_advice(replace(answer, result=result), view).headline == "Headline."
    assert with_advice(replace(answer, result=replace(result, seconds=SplitSeconds())), view).headline == "Headline."
