"""The score card: what is planted comes back through the normal door, and what is not built says so."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ioweather.simulate.generate import generate
from ioweather.simulate.presets import PRESETS

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from score import QUESTIONS, score, stored_baseline, true_kinds


def test_the_stored_baseline_is_of_presets_and_questions():
    for name, errors in stored_baseline().items():
        assert name.split(" seed ")[0] in PRESETS
        assert all(key.split(": ")[0] in QUESTIONS for key in errors)


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
