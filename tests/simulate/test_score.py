"""The score card: what is planted comes back through the normal door, and what is not built says so."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from ioweather.core.errors import UsageError
from ioweather.simulate.generate import generate
from ioweather.simulate.presets import LAPTOP, PRESETS, for_days
from ioweather.ui.cli.main import run

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from score import QUESTIONS, Item, Line, print_card, score, stored_baseline, true_kinds

EXACT = ("accounting", "benchmark", "growth", "io_time", "metadata", "volumes")


@pytest.fixture(scope="module")
def facility(tmp_path_factory):
    preset = replace(for_days(LAPTOP, 2), detail_day=None, probe_seconds=900, sampler_seconds=3600, scan_files=300)
    return generate(preset, tmp_path_factory.mktemp("score") / "facility", seed=4)


@pytest.fixture(scope="module")
def card(facility):
    return score(facility.out, questions=(*EXACT, "phases", "forecast"))


def test_what_the_files_hold_comes_back(card):
    off = [(line.key, line.item.planted, line.item.recovered) for line in card.scored
           if line.question in EXACT and not line.item.good]  # fmt: skip
    assert not off
    assert {line.question for line in card.scored} >= set(EXACT)


def test_a_question_without_an_answer_says_so(card):
    (line,) = [line for line in card.lines if line.question == "forecast"]
    assert line.item is None
    assert line.note == "this facility has nothing of the kind"


def test_the_card_is_json_and_has_no_baseline_for_other_days(card):
    body = json.loads(json.dumps(card.jsonable()))
    assert body["preset"] == "laptop"
    assert body["scored"] == len(card.scored)
    assert body["baseline"] is False
    assert body["worse"] == []


def test_errors_are_measured_as_said():
    assert Item("x", 2.0, 3.0, 0.5).error == 0.5
    assert Item("x", 2.0, 3.0, 0.5).good
    assert Item("x", 2.0, 3.0, 0.5, "difference").error == 1.0
    assert Item("x", 1.0, 0.25, 0.3, "rate").error == 0.75
    assert not Item("x", 1.0, None, 0.3, "rate").good
    assert Item("x", 0.0, 1.0, 0.3).error is None


def test_worse_is_more_than_noise():
    item = Item("x", 1.0, 1.1, 0.2)
    assert not Line("q", item).worse, "no baseline, no judgement"
    assert not Line("q", item, before=0.099).worse
    assert Line("q", item, before=0.05).worse
    assert Line("q", Item("x", 1.0, None, 0.2), before=0.05).worse, "an answer that is gone is worse"


def test_an_unknown_question_is_refused_with_the_list(facility):
    with pytest.raises(UsageError, match="There are: "):
        score(facility.out, questions=["nonsense"])


def test_the_stored_baseline_is_of_presets_and_questions():
    for name, errors in stored_baseline().items():
        assert name.split(" seed ")[0] in PRESETS
        assert all(key.split(": ")[0] in QUESTIONS for key in errors)


def test_the_command_and_the_printed_card(card, tmp_path, capsys):
    assert run(["simulate", "--list"]) == 0
    assert "cori-year" in capsys.readouterr().out
    assert run(["simulate", "--preset", "laptop"]) == 2
    assert run(["simulate", "--preset", "nonsense", "--out", str(tmp_path / "x")]) == 2
    print_card(card)
    shown = capsys.readouterr().out
    assert "within what is allowed (laptop, seed 4)." in shown
    assert "forecast: this facility has nothing of the kind" in shown


@pytest.mark.slow
def test_nothing_is_worse_than_the_baseline(tmp_path):
    made = generate(PRESETS["laptop"], tmp_path / "laptop", seed=1)
    card = score(made.out)
    assert card.baseline
    assert not [line.key for line in card.worse]


def run_row(job: int, alone: float, others: float = 0.0, own: float = 0.0) -> dict:
    return {"name": "p", "job_id": job, "details": {"instance": 0}, "alone_seconds": alone, "incidents_seconds": 0.0,
            "others_seconds": others, "own_seconds": own, "observed_seconds": alone + others + own}  # fmt: skip


def test_true_verdicts_by_hand():
    """B = 100, h = 15: what the system adds beyond what it usually adds, and what the run itself does."""
    rows = [run_row(job, 100.0) for job in range(10)]
    rows += [run_row(10, 100.0, others=40.0), run_row(11, 100.0, own=40.0), run_row(12, 100.0, 30.0, 30.0),
             run_row(13, 100.0, 10.0, 10.0)]  # fmt: skip
    kinds = {job: truth.kind for (job, _), truth in true_kinds(rows).items()}
    assert [kinds[job] for job in (0, 10, 11, 12, 13)] == ["normal", "system", "you", "both", "unexplained"]
    assert true_kinds(rows[:5]) == {}, "too few to say what is usual"
