"""What was predicted against what the change brought: the benchmark's own pairs."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).resolve().parents[3] / "benchmarks" / "advisor.py"


@pytest.fixture(scope="module")
def pairs():
    spec = importlib.util.spec_from_file_location("advisor_pairs", BENCHMARK)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_the_published_case_is_foreseen(pairs, tmp_path):
    pair = pairs.published_pair(tmp_path)
    assert pair.actual == pytest.approx(711.0)
    assert abs(pair.error) < 0.1


@pytest.mark.shared
def test_real_pairs_go_the_way_they_were_said_to(pairs, shared_data):
    found = list(pairs.request_pairs(shared_data / "causes"))
    found.append(pairs.rank_zero_pair(shared_data / "darshan" / "real"))
    assert len(found) >= 5
    for pair in found:
        assert pair.actual > 0, pair.name
        assert 0 < pair.predicted <= pair.before, pair.name
        assert abs(pair.error) < 0.25, pair.name
    _check_that_what_is_not_small_is_not_said_to_be(pairs, shared_data)


def _check_that_what_is_not_small_is_not_said_to_be(pairs, shared_data):
    """Runs in 1 MiB requests, quiet or beside a background: nothing in their requests to change."""
    import json

    causes = shared_data / "causes"
    for run in json.loads((causes / "truth.json").read_text()):
        if run["transfer"] == "1m":
            assert pairs.predicted(pairs.view(causes / f"{run['job']}.darshan"), pairs.SMALL) == 0.0
