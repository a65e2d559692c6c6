"""Advice in an answer: on the screen, in JSON and CSV, and one sentence where nothing is worth changing."""

from __future__ import annotations

import json

import pytest

from ioweather.core.results import Amount, Answer, to_jsonable
from ioweather.job_io.advisor.advise import advise, with_advice
from ioweather.job_io.outcomes import Change, SplitSeconds, WhyOutcome
from planted_advice import each, requests, view_of

KIB, MIB = 1 << 10, 1 << 20


def small(folder):
    path = folder / "small.darshan"
    return path, view_of(path, {"POSIX": each(**requests("WRITE", 4000, 16 * KIB, 20.0, RW_SWITCHES=2000))})


def test_the_section_ranks_and_says_what_to_type(tmp_path):
    _, view = small(tmp_path)
    answer = with_advice(Answer("q", "h"), view)
    group, others = answer.facts
    assert group.title.startswith("Worth changing (each alone; together ")
    assert [(fact.label, fact.unit) for fact in group.facts] == [
        ("small requests", "seconds"), ("  change to", ""), ("  90% interval", ""), ("  model", ""),
        ("alternating I/O", "seconds"), ("  change to", ""), ("  90% interval", ""), ("  model", ""),
        ("  before, after", ""),
    ]  # fmt: skip
    start = "file.100 and 3 more: 16,000 of 16,000 requests are under 1 MiB, 16 KiB on average"
    assert group.facts[0].note.startswith(start)
    assert group.facts[1].note == "write(fd, buffer, 4 << 20) instead of each piece"
    assert others.title == "Also seen, not worth changing (each saves less than 1 s)"
    assert [fact.label for fact in others.facts] == ["no MPI-IO"]
    json.dumps(to_jsonable(answer), allow_nan=False)


@pytest.mark.parametrize("kind", ["system", "both"])
def test_seconds_that_the_system_took_are_not_promised(tmp_path, kind):
    _, view = small(tmp_path)
    split = SplitSeconds(usual=Amount(4.0), system=Amount(15.0), own=Amount(1.0))
    why = Answer("q", "h", name="why", result=WhyOutcome(kind, None, io_seconds=20.0, seconds=split))
    found = with_advice(why, view)
    assert sum(item.seconds for item in found.result.worth[:1]) <= 5.0
    assert advise(view).patterns[0].seconds > 15.0


def why_slower(kind: str, *changed: Change) -> Answer:
    split = SplitSeconds(usual=Amount(4.0), system=Amount(0.0), own=Amount(1.0))
    return Answer("q", "Headline.", name="why", result=WhyOutcome(
        kind, None, io_seconds=20.0, harm_seconds=1.0, seconds=split, changed=changed
    ))  # fmt: skip


def test_to_undo_what_only_this_run_does_brings_no_more_than_the_usual_time(tmp_path):
    _, view = small(tmp_path)

    def expected_saving(*changed):
        worth = with_advice(why_slower("you", *changed), view).result.worth
        return {item.name: item.seconds for item in worth}["small_requests"]

    everywhere = expected_saving()
    assert everywhere > 16.0
    assert expected_saving(Change("request_bytes", 4096.0, 2.0**20)) == pytest.approx(16.0)
    assert expected_saving(Change("request_bytes", 4096.0, 8192.0)) == everywhere  # similar runs could gain by it too
    assert expected_saving(Change("seek_share", 0.9, 0.0)) == everywhere  # of other rules
