"""Real runs with known causes, as `why` sees them."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).resolve().parents[2] / "benchmarks" / "verdict.py"


@pytest.mark.shared
@pytest.mark.slow
@pytest.mark.parametrize(("folder", "answered", "right"), [("causes", 0.9, 0.97), ("contention", 0.9, 0.95)])
def test_real_runs(shared_data, tmp_path, folder, answered, right):
    runs = runpy.run_path(str(BENCHMARK))["judged_runs"](shared_data / folder, tmp_path)
    given = [run for run in runs if run.said.kind != "unknown"]
    assert len(given) >= answered * len(runs)
    assert sum(run.said.kind == run.truth for run in given) >= right * len(given)
    assert not [run.name for run in given if run.said.kind in ("you", "both") and run.truth not in ("you", "both")]
