"""Answers on simulated weeks are as close to the planted truth as recorded."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from recorded import compare

from ioweather.ui.cli.main import run

pytestmark = pytest.mark.slow


def scores(folder: Path, capsys: pytest.CaptureFixture[str], preset: str, seed: int) -> dict[str, Any]:
    out = str(folder / "facility")
    assert run(["simulate", "--preset", preset, "--days", "7", "--seed", str(seed), "--out", out]) == 0
    capsys.readouterr()
    script = Path(__file__).parents[2] / "benchmarks" / "score.py"
    done = subprocess.run([sys.executable, str(script), out, "--json"], capture_output=True, text=True, check=True)
    lines = json.loads(done.stdout)["lines"]
    return {f"{line['question']}: {line['name']}": [line["planted"], line["recovered"]] for line in lines}


@pytest.mark.parametrize(("preset", "seed"), [("laptop", 11), ("laptop", 12), ("laptop-hard", 3)])
def test_scores_of_a_week(tmp_path: Path, capsys: pytest.CaptureFixture[str], preset: str, seed: int) -> None:
    compare("scores", f"{preset}-{seed}", scores(tmp_path, capsys, preset, seed))
